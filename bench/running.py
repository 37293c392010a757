"""Running bench_compare under mpirun, and describing the machine that it ran on; used by side_by_side and bench_plans."""

import glob
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

from figures import BadInput

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.basename(sys.argv[0])


def say(text):
    print(f"{PROGRAM}: {text}", file=sys.stderr, flush=True)


# Describing.

def output_of(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = re.findall(r"^model name\s*:\s*(.*)$", file.read(), re.MULTILINE)
    except OSError:
        names = []
    return names[0] if names else platform.machine()


def gpus():
    query = output_of("nvidia-smi", "--query-gpu=name,memory.total,driver_version,pci.bus_id", "--format=csv,noheader")
    if not query:
        return {}
    cards = [[cell.strip() for cell in line.split(",")] for line in query.strip().splitlines()]
    found = {"gpus": [f"{card[0]}, {card[1]}" for card in cards], "nvidia_driver": cards[0][2]}
    links = output_of("nvidia-smi", "topo", "-m")
    if links:
        # The matrix of links between GPUs: what follows it (NICs, affinities, the legend) is left out.
        plain = re.sub(r"\x1b\[[0-9;]*m", "", links)
        found["links"] = [" ".join(line.split()[:len(cards) + 1]) for line in plain.splitlines()
                          if re.match(r"GPU\d+\s", line)]
    return found


def machine():
    described = {"cpu": cpu_name(), "cores": os.cpu_count(), "kernel": platform.release(),
                 "python": platform.python_version()}
    return described | gpus()


def one_a_line(values):
    """A JSON list whose differences between two runs can be read."""
    return "[" + ",".join("\n  " + json.dumps(value) for value in values) + "\n ]"


def command_line():
    """As typed, but without folders: results get published."""
    return " ".join(re.sub(r"(^|=)\S*/", r"\1", word) for word in [PROGRAM] + sys.argv[1:])


def save_results(path, head, lists):
    """The head's entries, then lists that can be compared line by line: {name: values}."""
    text = json.dumps(head, indent=1).rstrip("\n}")
    text += "".join(f',\n "{name}": {one_a_line(values)}' for name, values in lists.items()) + "\n}\n"
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise BadInput(f"--json {path}: {error}") from error


# Running.

def find_program(folder):
    """In --programs; else beside this script (installed, or built in the source tree), or beside the gpucoll_info on PATH (built, or installed)."""
    places = [folder or HERE]
    info = None if folder else shutil.which("gpucoll_info")
    if info:
        folder = os.path.dirname(os.path.realpath(info))
        places += [folder]
        for installed in ("libexec", "lib*", "lib/*"):  # with --libexecdir it may be any of them
            places += glob.glob(os.path.join(folder, "..", installed, "gpucoll", "bench"))
    for place in places:
        # A build puts it one level up.
        for path in (os.path.join(place, "bench_compare"), os.path.join(os.path.dirname(place), "bench_compare")):
            if os.access(path, os.X_OK):
                return path
    raise BadInput("bench_compare was not found: name the folder it was built or installed in with --programs")


def find_library(*pattern):
    """Where this Python would find one of NVIDIA's packages; bench_compare itself knows the usual places."""
    for folder in sys.path:
        paths = glob.glob(os.path.join(folder or ".", "nvidia", *pattern))
        if paths:
            return paths[0]
    return "auto"


def gpu_count():
    listed = output_of("nvidia-smi", "-L") or ""
    count = len(re.findall(r"^GPU \d+:", listed, re.MULTILINE))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return count
    names = re.sub(r"(^|,)-.*", "", visible)  # -1 ends the list
    return min(count, len([name for name in names.split(",") if name]))


def on_host(arguments):
    return arguments.accelerator == "host" or (arguments.accelerator == "auto" and gpu_count() == 0)


def ranks_of(arguments):
    return arguments.ranks or (2 if on_host(arguments) else min(gpu_count(), 8))


def mpirun_command(arguments, component, options, more=()):
    """bench_compare under mpirun; `more` are options of mpirun, `options` its own."""
    command = shlex.split(arguments.mpirun) + ["-n", str(ranks_of(arguments)), *more, "--mca", "coll", component]
    if on_host(arguments) and component == "gpucoll":
        command += ["--mca", "coll_gpucoll_accelerator", "host"]
    if on_host(arguments):
        # There the "GPUs" are threads that need the cores on which idle ranks would spin.
        command += ["--mca", "mpi_yield_when_idle", "1"]
    command += [find_program(arguments.programs), f"--memory={'host' if on_host(arguments) else 'cuda'}"]
    command += [f"--iterations={arguments.iterations}"] if arguments.iterations else []
    return command + [f"--{key}={value}" for key, value in options.items() if value]


def stop(process):
    """mpirun and whatever it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=5)
            return
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


def measure(arguments, command, json_path, log=None):
    """Runs it; `log` is a file that takes what it says on standard error."""
    process = None
    asked = []

    def leave(number, _):
        """Not at once, so that the job is stopped: it has a session of its own, and would go on for as long as its ranks wait."""
        asked.append(number)
        if process is not None:
            sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    # NVLink multicast stays off: with it the figures could not be compared with those of earlier runs.
    environment = os.environ | {"NCCL_NVLS_ENABLE": "0"}
    say(shlex.join(command))
    begin = time.monotonic()
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, stderr=log,
                                   env=environment, start_new_session=True)
        if asked:  # while it was being started
            sys.exit(128 + asked[0])
        status = process.wait(timeout=arguments.timeout)
    except OSError as error:
        raise BadInput(f"{command[0]}: {error.strerror}; name it with --mpirun") from error
    except subprocess.TimeoutExpired as error:
        raise BadInput(f"not done after {arguments.timeout} s (--timeout): stopped") from error
    finally:
        if process is not None and process.poll() is None:
            stop(process)
    if status not in (0, 1):
        raise BadInput(f"{os.path.basename(command[0])} ended with status {status}: see above")
    say(f"measured in {time.monotonic() - begin:.0f} s")
    if status == 1 and not os.path.exists(json_path):
        raise BadInput("the run left no results: see above")


def add_options(parser, timed=True):
    """Options of every program that runs bench_compare, or, not `timed` call by call, another one of bench under mpirun."""
    add = parser.add_argument
    parser.set_defaults(iterations=None)
    add("-n", "--ranks", type=int, help="ranks (as many as there are GPUs, at most 8; 2 without a GPU)")
    if timed:
        add("--iterations", type=int, metavar="N", help="timed calls of each size (500 up to 64K, 100 up to 16M, 20 above)")
    add("--accelerator", choices=("auto", "cuda", "host"), default="auto", help="what gpucoll runs on (auto)")
    add("--mpirun", default="mpirun", help="the launcher, with any options of yours (mpirun)")
    add("--programs", metavar="DIR", help="where bench_compare is (beside this script)")
    add("--timeout", type=int, default=300, metavar="S", help="stop after this many seconds (300)")
    add("--json", metavar="FILE", help="write results, machine and verdict")
