"""What gpucoll_info would choose on the GPUs that results of side_by_side are of, and what it predicts; used by bench_plans and kernel_profile.

The GPUs need not be here: a topology file with their name and links stands in for them, and names the constants that count.
"""

import os
import re
import shutil
import subprocess
import tempfile
from xml.sax.saxutils import quoteattr

from figures import BadInput
from running import HERE

# Collectives whose size is, for the engine, that of one rank's block.
BLOCKS = ("allgather", "reduce_scatter", "reduce_scatter_block", "alltoall", "gather", "scatter", "allgatherv", "gatherv", "scatterv",
          "alltoallv", "alltoallw")
CHOICE = re.compile(r"^  choice: (\w+) by (\w+), ([\d.]+) us$", re.MULTILINE)
UNKNOWN = re.compile(r"^  \((none are built in for .*?)(: .*)?\)$", re.MULTILINE)
TUNED = "\n  and those that "  # a tuning file sets
LINKS = re.compile(r" NV(\d+)")
NVLINK_OF_HOPPER = 4  # the only GPUs over NVLink that have constants


def find_info(folder):
    """In --programs or beside it, as in a build; else on PATH; else where an installation or a build in the source tree has it."""
    places = [folder, os.path.dirname(os.path.abspath(folder))] if folder else []
    found = shutil.which("gpucoll_info", path=os.pathsep.join(places)) if places else None
    found = found or shutil.which("gpucoll_info")
    beside = [os.path.join(HERE, *up) for up in ((os.pardir,), (os.pardir, os.pardir, os.pardir, "bin"))]
    found = found or shutil.which("gpucoll_info", path=os.pathsep.join(beside))
    if not found:
        raise BadInput("gpucoll_info was not found, which tells what is predicted: put it on PATH, or name its folder with --programs")
    return found


def topology(ranks, device, links):
    """A host with as many GPUs; `links` are the lines of results' `machine`."""
    nvlinks = LINKS.search(" ".join(links))
    inner = f'<nvlink to="switch" links="{nvlinks[1]}" version="{NVLINK_OF_HOPPER}"/>' if nvlinks else ""
    cards = "".join(f'<gpu id="{number}" name={quoteattr(device)}>{inner}</gpu>' for number in range(ranks))
    return f'<gpucoll_topology version="1"><host name="measured">{cards}</host></gpucoll_topology>\n'


def ask(program, path, query):
    """`path` is of a topology file; None: it is about this machine."""
    environment = os.environ | ({"OMPI_MCA_coll_gpucoll_topology_file": path} if path else {})
    try:
        done = subprocess.run([program, "--select", query], capture_output=True, text=True, env=environment, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput(f"{program}: {error}") from error
    unknown = None if TUNED in done.stdout else UNKNOWN.search(done.stdout)
    if done.returncode != 0 or unknown:
        raise BadInput(f"{program} --select {query}: {unknown[1] if unknown else done.stderr.strip()}")
    return CHOICE.search(done.stdout)


def choice_here(program, collective, ranks, size):
    """(algorithm, protocol) of a blocking call on this machine's GPUs; `size` is from one rank to another."""
    said = ask(program, None, f"coll={collective},ranks={ranks},bytes={size}")
    if not said:
        raise BadInput(f"gpucoll would stage {collective} of {size} bytes: there is no kernel to look at")
    return said[1], said[2]


def choices(program, calls, device, links, form):
    """{call: (plan, us)} for calls (collective, ranks, bytes from one rank to another); without those that would be staged."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "topology.xml")
        for call in calls:
            collective, ranks, size = call
            with open(path, "w", encoding="utf-8") as file:
                file.write(topology(ranks, device, links))
            # "unattended": nobody waits in the call.
            said = ask(program, path, f"coll={collective},ranks={ranks},bytes={size}" + (",unattended=yes" if form != "blocking" else ""))
            if said:
                found[call] = (f"{said[1]}/{said[2]}", float(said[3]))
    return found
