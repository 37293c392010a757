"""Figures of gpucoll's benchmarks: reading them, putting libraries side by side, and judging by targets.txt.

All formats (bench_compare and gpucoll_demo --json, bench_mpi --benchmark_out, side_by_side --json) become rows
{library, collective, form, buffers, type, op, in_place, bytes, ranks, median_us, ...}, and rows become lines: one for each
call, with every library's row in "times".
"""

import glob
import json
import os
import re

UNITS = "KMGT"
COLLECTIVES = ("allreduce", "reduce", "bcast", "allgather", "reduce_scatter", "reduce_scatter_block", "alltoall", "gather",
               "scatter", "barrier")
NEIGHBORS = tuple(f"neighbor_{name}" for name in ("allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw"))
# Measured by --collectives more; NCCL has no scans and no MPI_Reduce_local.
FURTHER = ("scan", "exscan", "reduce_local") + tuple(name + kind for name in ("allgatherv", "gatherv", "scatterv", "alltoallv", "alltoallw")
                                                     for kind in ("", "_uneven")) + NEIGHBORS
FORMS = ("blocking", "nonblocking", "persistent", "overlap")

# Of the contexts only what describes the run; paths and host names stay out of published results.
CONTEXT_KEYS = ("command", "settings", "ranks", "memory", "gpus", "device", "cuda_driver", "mps", "mpi", "gpucoll_version",
                "nccl_version", "nccl_exchanges", "nccl_comm_ms", "nccl-symmetric_comm_ms", "date", "library",
                "left_out")

# What a target may be about. time/best/4 is time/best over what the same call has with four ranks.
FIGURE = re.compile(r"us|hidden|compute|busbw/best|time/best/\d+|time/[^/]+")

# Of overlap, beside its computation's name.
OVERLAP_KEYS = ("comm_us", "compute_us", "compute_beside_us", "hidden", "compute", "hidden_by_tests", "compute_by_tests")


class BadInput(Exception):
    """Shown without a traceback; exit status 2."""


def size_of(text):
    match = re.fullmatch(r"(\d+)([KMGT]?)", text)
    if not match:
        raise BadInput(f"'{text}' is not a size such as 8, 64K or 4M")
    return int(match[1]) << 10 * (UNITS.index(match[2]) + 1 if match[2] else 0)


def size_text(size):
    unit = ""
    for larger in UNITS:
        if size < 1024 or size % 1024:
            break
        size, unit = size // 1024, larger
    return f"{size}{unit}"


def published():
    """The committed results that README.md shows, in tables and in pictures."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")
    return [path for name in ("collectives", "more") for path in sorted(glob.glob(os.path.join(folder, f"{name}-*.json")))]


# Reading.

def row_of_google(entry, context):
    """None for what has no line here: first calls on new communicators, computation beside persistent calls."""
    collective, type_name, op, form, _, buffers, calls = entry["name"].split("/")[:7]
    if calls == "first" or (calls == "beside" and form != "nonblocking"):
        return None
    row = {"library": context.get("library", "gpucoll"), "collective": collective,
           "form": "overlap" if calls == "beside" else form, "buffers": buffers,
           "type": type_name, "op": op, "in_place": bool(entry["in_place"]), "bytes": int(entry["bytes"]),
           "ranks": int(entry["ranks"]), "iterations": int(entry["iterations"])}
    for key in ("median_us", "p99_us", "min_us", "first_call_us", "algbw", "busbw"):
        row[key] = round(entry[key], 4)
    if calls == "beside":
        row |= {key: round(entry[key], 4) for key in OVERLAP_KEYS} | {"computation": entry["label"]}
    row["check"] = "ok" if entry["same_bits"] else "ok, bits differ" if entry["correct"] else "WRONG"
    return row


def read(path):
    """Contexts and rows of a file."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: {error}") from error
    contexts = data["runs"] if "runs" in data else [data.get("context", {})]
    contexts = [{key: value for key, value in context.items() if key in CONTEXT_KEYS} for context in contexts]
    if data.get("left_out"):
        contexts[0]["left_out"] = data["left_out"]
    try:
        if "benchmarks" in data:
            rows = [row_of_google(entry, contexts[0]) for entry in data["benchmarks"]
                    if entry.get("run_type") == "iteration" and "bytes" in entry]
            rows = [row for row in rows if row]
        else:
            # Results of gpucoll 0.1 are of blocking calls on device buffers and do not say so.
            rows = [{"form": "blocking", "buffers": "device"} | row for row in data["rows"]]
        rows = [{"memory": contexts[0].get("memory", "cuda")} | row for row in rows]
        for row in rows:
            row["median_us"] + row["bytes"] + row["ranks"]  # KeyError: not ours
            row["library"], row["collective"], row["in_place"]
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{path}: not a result of gpucoll's benchmarks (no {error})") from error
    if not rows:
        raise BadInput(f"{path}: holds no results: did the run end early?")
    return contexts, rows


def read_targets(path):
    targets = []
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                words = line.split("#")[0].split()
                if not words:
                    continue
                if len(words) != 7 or words[5] not in ("<=", ">="):
                    raise BadInput(f"{path}:{number}: a target is: collective ranks from to figure <= (or >=) bound")
                if not FIGURE.fullmatch(words[4]):
                    raise BadInput(f"{path}:{number}: there is no figure {words[4]}: us, hidden, compute, busbw/best, time/best, time/LIBRARY, time/best/RANKS")
                targets.append({"collective": words[0], "ranks": [int(ranks) for ranks in words[1].split(",")],
                                "from": size_of(words[2]), "to": size_of(words[3]), "figure": words[4],
                                "sense": words[5], "bound": float(words[6])})
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: {error}") from error
    return targets


# Merging: one line for each call.

LINE_KEY = ("collective", "form", "buffers", "type", "op", "in_place", "ranks", "in_a_row", "bytes")


def order_of(key):
    """Collectives and forms in the order of our tables, unknown ones last."""
    names = COLLECTIVES + FURTHER
    collective = names.index(key[0]) if key[0] in names else len(names)
    return (FORMS.index(key[1]), key[2], key[5], collective, key)


def merge(rows, targets, others=()):
    """The lines of these rows. `others` are lines of calls with other numbers of ranks, which targets may be relative to."""
    lines = {}
    for row in rows:
        row = {"in_a_row": 1} | row
        line = lines.setdefault(tuple(row[key] for key in LINE_KEY), {"times": {}, "wrong": []})
        line["times"][row["library"]] = row
        if row.get("check") == "WRONG":
            line["wrong"].append(row["library"])
    merged = []
    for key in sorted(lines, key=order_of):
        line = lines[key] | dict(zip(LINE_KEY, key))
        compare(line)
        merged.append(line)
    compare_ranks(merged, others)
    for line in merged:
        judge(line, targets)
    return merged


def figures_of(line):
    """What targets can be about. `best` is the better of NCCL's figures: with plain buffers, and in symmetric windows."""
    ours = line["times"].get("gpucoll")
    if not ours:
        return {}
    found = {"us": ours["median_us"]}
    found |= {key: ours[key] for key in ("hidden", "compute") if key in ours}
    for library, ratio in line["ratios"].items():
        found[f"time/{library}"] = ratio
    nccl = [ratio for library, ratio in line["ratios"].items() if library.startswith("nccl")]
    if nccl:
        found["time/best"] = max(nccl)
        found["busbw/best"] = 1 / max(nccl)
    return found


def compare(line):
    """Adds ratios, gpucoll's time over each other library's, and figures."""
    ours = line["times"].get("gpucoll")
    line["ratios"] = {library: ours["median_us"] / row["median_us"] for library, row in line["times"].items()
                      if ours and library != "gpucoll" and library not in line["wrong"]}
    line["figures"] = figures_of(line)


def compare_ranks(lines, others):
    """Adds the figures time/best/N: time/best over that of the same call with N ranks."""
    def call_of(line):
        return tuple(line[key] for key in LINE_KEY if key != "ranks")

    best = {}
    for line in [*others, *lines]:
        if "time/best" in line["figures"]:
            best.setdefault(call_of(line), {})[line["ranks"]] = line["figures"]["time/best"]
    for line in lines:
        for ranks, ratio in best.get(call_of(line), {}).items():
            if ranks != line["ranks"] and "time/best" in line["figures"]:
                line["figures"][f"time/best/{ranks}"] = line["figures"]["time/best"] / ratio


def is_met(target, figures):
    value = figures[target["figure"]]
    return value <= target["bound"] if target["sense"] == "<=" else value >= target["bound"]


def judge(line, targets):
    """Adds targets and verdict; None where they do not apply.

    Targets are about blocking calls out of place on device buffers; those for hidden and compute about overlap of one call."""
    ours = line["times"].get("gpucoll")
    plain = line["buffers"] == "device" and not line["in_place"] and line["form"] in ("blocking", "overlap")
    # On the host accelerator no target applies, nor to calls in a row.
    on_gpus = ours and ours["memory"] == "cuda" and ours.get("in_a_row", 1) == 1
    line["targets"] = [target for target in targets if plain and on_gpus and
                       target["collective"] == line["collective"] and line["ranks"] in target["ranks"] and
                       target["from"] <= line["bytes"] <= target["to"] and
                       (line["form"] == "overlap") == (target["figure"] in ("hidden", "compute"))]
    line["unmeasured"] = [target for target in line["targets"] if target["figure"] not in line["figures"]]
    line["targets"] = [target for target in line["targets"] if target["figure"] in line["figures"]]
    line["missed"] = [target for target in line["targets"] if not is_met(target, line["figures"])]
    if line["wrong"]:
        line["verdict"] = "WRONG"
    else:
        line["verdict"] = "MISSED" if line["missed"] else "met" if line["targets"] else None


def name_of(line):
    """For people: "alltoall 4M", "allreduce 8 nonblocking in place"."""
    words = [line["collective"], size_text(line["bytes"])]
    words += [line["form"]] if line["form"] != "blocking" else []
    words += ["host buffers"] if line["buffers"] == "host" else []
    return " ".join(words + (["in place"] if line["in_place"] else []))


def target_text(target):
    return f"{target['figure']} {target['sense']} {target['bound']:g}"


def value_text(value, bound):
    """To two places, or to three where two would not tell it from the bound."""
    return f"{value:.2f}" if f"{value:.2f}" != f"{bound:.2f}" else f"{value:.3f}"


def missed_text(lines):
    """Grouped: "allreduce time/best <= 0.33 at 8 (0.55), 64 (0.53); ..."."""
    groups = {}
    for line in lines:
        for target in line["missed"]:
            at = name_of(line).removeprefix(line["collective"] + " ")
            at += f" ({value_text(line['figures'][target['figure']], target['bound'])})"
            groups.setdefault(f"{line['collective']} {target_text(target)}", []).append(at)
    return "; ".join(f"{what} at {', '.join(places)}" for what, places in groups.items())


def summary(lines, left_out=0):
    """Exit status and verdict. So many sizes were left out when the budget was spent, of which targets may be."""
    wrong = [line for line in lines if line["verdict"] == "WRONG"]
    missed = sum(len(line["missed"]) for line in lines)
    targets = sum(len(line["targets"]) for line in lines)
    unmeasured = sum(len(line["unmeasured"]) for line in lines)
    beside = f"; {unmeasured} more could not be judged, for want of what they are relative to" if unmeasured else ""
    beside += f"; {left_out} sizes were left out" if left_out else ""
    if wrong:
        return 1, f"FAILED: wrong results at {', '.join(name_of(line) for line in wrong)}"
    if missed:
        return 1, f"MISSED: {missed} of {targets} targets, results right: {missed_text(lines)}{beside}"
    if targets:
        return 0, f"MET: all {targets} targets; results right{beside}"
    return 0, "NO TARGET applies to this run; results right"


def price_of(line):
    """What coll_gpucoll_deterministic costs: its time over that of plans chosen freely, if there is one of a run that, as its own, has no NCCL in its
    processes; None: it was not measured."""
    times = line["times"]
    if "deterministic" not in times:
        return None
    return times["deterministic"]["median_us"] / times["alone" if "alone" in times else "gpucoll"]["median_us"]


def library_order(lines):
    """gpucoll first, NCCL next, whatever else last."""
    names = {library for line in lines for library in line["times"]}
    return sorted(names, key=lambda name: (name != "gpucoll", not name.startswith("nccl"), name))


def groups_of(lines):
    """Lines that differ in size only."""
    groups = {}
    for line in lines:
        groups.setdefault(tuple(line[key] for key in LINE_KEY if key != "bytes"), []).append(line)
    return groups


def title_of(line):
    words = [line["collective"], f"{line['type']} {line['op']}", line["form"], f"{line['ranks']} ranks"]
    words += ["in place"] if line["in_place"] else []
    words += [f"{line['in_a_row']} calls in a row"] if line["in_a_row"] > 1 else []
    return ", ".join(words + (["host buffers"] if line["buffers"] == "host" else []))
