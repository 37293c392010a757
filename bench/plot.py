#!/usr/bin/env python3
"""Draws ratios, time and bus bandwidth against message size, a panel for each collective, from results of side_by_side.

    plot.py                                        all that README.md and bench/README.md show, beside the files of bench/results (`make plots`)
    plot.py --check                                draws nothing; exit status 1 if those pictures are of other results
    plot.py collectives.json                       writes collectives-ratio.png, -time.png and -bandwidth.png beside it
    plot.py --collective allreduce collectives.json  of one collective alone: allreduce-collectives-ratio.png and so on
    plot.py --out DIR --form persistent FILE...    another way of calling; pictures elsewhere

Needs matplotlib (Debian, Ubuntu: apt-get install python3-matplotlib), but for --check.
"""

import argparse
import hashlib
import io
import math
import os
import struct
import sys

sys.dont_write_bytecode = True  # the folder may be one that is only read
from figures import BadInput, FORMS, groups_of, library_order, merge, price_of, published, read, size_text

# A library looks alike in every picture; the colours are told apart by the colour-blind as well (Okabe and Ito, 2008).
STYLES = {"gpucoll": ("#d55e00", "o", "-"), "nccl": ("#0072b2", "s", "--"), "nccl-symmetric": ("#009e73", "^", ":"),
          "stock": ("#777777", "x", "-.")}
LABELS = {"nccl": "NCCL, plain buffers", "nccl-symmetric": "NCCL, symmetric windows", "stock": "Open MPI without gpucoll"}
# A variant of gpucoll whose price is of interest: drawn over what it is without, as README's table has it, where it changes something.
PRICED = "deterministic"
PRICED_LABEL = "deterministic: its time over that without"
# Of the same calls as gpucoll's with a setting, which its curve would lie beneath: not drawn in pictures of one collective.
VARIANTS = ("alone", PRICED)
REDUCTIONS = ("allreduce", "reduce", "reduce_scatter", "reduce_scatter_block")
OTHERS = ("#cc79a7", "#e69f00", "#56b4e9", "#f0e442", "#000000")
COLUMNS = 3
# What is drawn, best first: name of the file, title, unit.
KINDS = (("ratio", "gpucoll's time over the other's", "ratio, below 1: faster"), ("time", "Time of the slowest rank", "µs, median"),
         ("bandwidth", "Bus bandwidth", "GB/s"))
# Pictures are few flat colours; more would only be the shades of smoothed edges.
COLOURS = 48
# Pictures of one collective alone that bench/README.md shows.
ALONE = (("collectives-4xH200.json", "allreduce"),)
DIGEST = "Results"  # text of the picture: what it was drawn from


def load_matplotlib():
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
        import PIL.Image  # matplotlib itself needs it
    except ImportError as error:
        raise BadInput(f"matplotlib is needed (Debian, Ubuntu: apt-get install python3-matplotlib): {error}") from error
    return pyplot, PIL.Image


def chosen_groups(lines, form, in_place):
    """Lists of lines, one a collective and number of ranks; without data (a barrier) there is nothing to draw."""
    wanted = [line for line in lines if line["form"] == form and line["in_place"] == in_place and
              line["buffers"] == "device" and line["bytes"] > 0]
    return [group for group in groups_of(wanted).values() if len(group) > 1]


def points_of(group, library, kind):
    """[(bytes, value)] of one curve."""
    if kind == "ratio":
        if library != PRICED:
            return [(line["bytes"], line["ratios"][library]) for line in group if library in line["ratios"]]
        priced = [(line["bytes"], price_of(line)) for line in group if group[0]["collective"] in REDUCTIONS]
        return [(size, price) for size, price in priced if price is not None]
    value = {"time": "median_us", "bandwidth": "busbw"}[kind]
    return [(line["bytes"], line["times"][library][value]) for line in group if library in line["times"]]


def draw_panel(axis, group, kind):
    others = [library for library in library_order(group) if library not in STYLES]
    for library in library_order(group):
        points = points_of(group, library, kind)
        colour, marker, dashes = STYLES.get(library) or (OTHERS[others.index(library) % len(OTHERS)], ".", "-")
        label = PRICED_LABEL if kind == "ratio" and library == PRICED else LABELS.get(library, library)
        if points:
            axis.plot(*zip(*points), color=colour, marker=marker, linestyle=dashes, markersize=4, linewidth=1.4, label=label)
    axis.set_xscale("log", base=2)
    if kind == "time":
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=0)
    if kind == "ratio":
        axis.axhline(1, color="#000000", linewidth=0.8)
        axis.set_ylim(top=max(axis.get_ylim()[1], 1.05))  # also where all is faster
    sizes = [line["bytes"] for line in group]
    ticks = [1 << power for power in range(0, 41, 5) if sizes[0] / 2 <= 1 << power <= sizes[-1] * 2]
    axis.set_xticks(ticks, [size_text(tick) for tick in ticks])
    axis.minorticks_off()
    axis.set_title(group[0]["collective"], fontsize=11)
    axis.grid(True, alpha=0.3)


def legend_of(panels):
    """Handles and labels of all panels, each once: not every library is in every one."""
    found = {}
    for axis in panels:
        for handle, label in zip(*axis.get_legend_handles_labels()):
            found.setdefault(label, handle)
    return list(found.values()), list(found)


def draw(pyplot, groups, kind, title, unit):
    """The picture as matplotlib's PNG."""
    rows = math.ceil(len(groups) / COLUMNS)
    columns = min(COLUMNS, len(groups))
    figure, axes = pyplot.subplots(rows, columns, figsize=(max(4.4 * columns, 8), 3.1 * rows + 0.9), squeeze=False)
    panels = axes.flatten()
    for axis, group in zip(panels, groups):
        draw_panel(axis, group, kind)
    for axis in panels[len(groups):]:
        axis.set_visible(False)
    for row in axes:
        row[0].set_ylabel(unit)
    for axis in panels[max(len(groups) - columns, 0):len(groups)]:
        axis.set_xlabel("message, bytes")
    handles, labels = legend_of(panels[:len(groups)])
    figure.suptitle(title, fontsize=13)
    figure.legend(handles, labels, loc="lower center", ncol=max(len(labels), 1), frameon=False)
    margin = 0.35 / (3.1 * rows + 0.9)
    figure.tight_layout(rect=(0, margin, 1, 1 - margin / 2))
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=100)
    pyplot.close(figure)
    return drawn


def digest_of(source):
    try:
        with open(source, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        raise BadInput(f"{source}: {error}") from error


def save(image, drawn, path, source):
    """With few colours, and what it was drawn from as its only text."""
    from PIL.PngImagePlugin import PngInfo
    texts = PngInfo()
    texts.add_text(DIGEST, digest_of(source))
    picture = image.open(drawn).convert("RGB").quantize(COLOURS, method=image.Quantize.MEDIANCUT, dither=image.Dither.NONE)
    picture.save(path, format="PNG", optimize=True, pnginfo=texts)
    print(path)


def digest_in(path):
    """Of the results that the picture was drawn from; None if it does not say."""
    with open(path, "rb") as file:
        data = file.read()
    at = 8  # after the signature: chunks of length, type, contents and checksum
    while at + 8 <= len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        key, _, text = data[at + 8:at + 8 + length].partition(b"\0")
        if kind == b"tEXt" and key.decode("latin-1") == DIGEST:
            return text.decode("latin-1")
        at += length + 12
    return None


def stem_of(source, folder, collective):
    """Of one collective of collectives-4xH200.json: allreduce-4xH200."""
    folder = folder or os.path.dirname(os.path.abspath(source))
    name = os.path.splitext(os.path.basename(source))[0]
    return os.path.join(folder, f"{collective}-{name.removeprefix('collectives-')}" if collective else name)


def groups_to_draw(source, arguments):
    contexts, rows = read(source)
    groups = chosen_groups(merge(rows, []), arguments.form, arguments.in_place)
    if not groups:
        raise BadInput(f"{source}: holds no {arguments.form} calls on device buffers at several sizes")
    return contexts, groups


def only(groups, collective):
    """One collective, by libraries."""
    return [[line | {"times": {library: row for library, row in line["times"].items() if library not in VARIANTS}} for line in group]
            for group in groups if group[0]["collective"] == collective]


def pictures(source, collective, arguments):
    """(path, groups, kind, title, unit) of each picture of a file, or of one collective of it."""
    contexts, groups = groups_to_draw(source, arguments)
    groups = only(groups, collective) if collective else groups
    if not groups:
        raise BadInput(f"{source}: holds no {arguments.form} {collective}")
    place = ", in place" if arguments.in_place else ""
    counts = sorted({group[0]["ranks"] for group in groups})
    for ranks in counts:
        of_ranks = [group for group in groups if group[0]["ranks"] == ranks]
        name = stem_of(source, arguments.out, collective) + (f"-{ranks}" if len(counts) > 1 else "")
        where = f"{ranks} ranks, {contexts[0].get('device', '')}: {arguments.form} calls{place}"
        for kind, title, unit in KINDS:
            # NCCL lacks some collectives: those have no ratio; MPI_Reduce_local has no bandwidth of a bus.
            drawn = [group for group in of_ranks
                     if any(value > 0 for library in library_order(group) for _, value in points_of(group, library, kind))]
            if drawn:
                yield f"{name}-{kind}.png", drawn, kind, f"{title}, {where}", unit


def plot(source, collective, arguments):
    pyplot, image = load_matplotlib()
    if arguments.out:
        os.makedirs(arguments.out, exist_ok=True)
    for path, *drawing in pictures(source, collective, arguments):
        save(image, draw(pyplot, *drawing), path, source)


def faults(source, collective, arguments):
    for path, *_ in pictures(source, collective, arguments):
        if not os.path.exists(path):
            yield f"{path} is missing"
        elif digest_in(path) != digest_of(source):
            yield f"{path} is of other results"


def chosen_sources(arguments):
    """(file, collective or None for all) of what is to be drawn."""
    if arguments.files or arguments.collective:
        return [(source, arguments.collective) for source in arguments.files or published()]
    sources = published()
    alone = [(source, collective) for source in sources for name, collective in ALONE if os.path.basename(source) == name]
    return [(source, None) for source in sources] + alone


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE",
                        help="what side_by_side --json wrote (bench/results/collectives-*.json, more-*.json)")
    parser.add_argument("--check", action="store_true", help="only tell whether the pictures are of these results")
    parser.add_argument("--out", metavar="DIR", help="where the pictures go (beside each file)")
    parser.add_argument("--collective", metavar="NAME", help="of this one alone")
    parser.add_argument("--form", choices=FORMS, default="blocking", help="of the calls (blocking)")
    parser.add_argument("--in-place", action="store_true", help="those with MPI_IN_PLACE")
    arguments = parser.parse_args()
    status = 0
    try:
        sources = chosen_sources(arguments)
        if not sources:
            raise BadInput("there are no results beside this program: name files that side_by_side --json wrote")
        for source, collective in sources:
            if not arguments.check:
                plot(source, collective, arguments)
                continue
            for fault in faults(source, collective, arguments):
                print(f"plot.py: {fault}: run `make plots`", file=sys.stderr)
                status = 1
    except (BadInput, OSError) as error:
        print(f"plot.py: {error}", file=sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    sys.exit(main())
