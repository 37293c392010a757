#!/usr/bin/env python3
"""Draws time and bus bandwidth against message size, a panel for each collective, from results of side_by_side.

    plot.py bench/results/collectives-4xH200.json        writes collectives-4xH200-time.png and -bandwidth.png beside it
    plot.py --out DIR --form persistent FILE...          another way of calling; files elsewhere

Needs matplotlib (Debian, Ubuntu: apt-get install python3-matplotlib).
"""

import argparse
import math
import os
import sys

sys.dont_write_bytecode = True  # the folder may be one that is only read
from figures import BadInput, FORMS, groups_of, library_order, merge, read, size_text

# A library looks alike in every picture; the colours are told apart by the colour-blind as well (Okabe and Ito, 2008).
STYLES = {"gpucoll": ("#d55e00", "o", "-"), "nccl": ("#0072b2", "s", "--"), "nccl-symmetric": ("#009e73", "^", ":"),
          "stock": ("#777777", "x", "-.")}
LABELS = {"nccl": "NCCL, plain buffers", "nccl-symmetric": "NCCL, symmetric windows", "stock": "Open MPI without gpucoll"}
OTHERS = ("#cc79a7", "#e69f00", "#56b4e9", "#f0e442", "#000000")
COLUMNS = 3


def load_matplotlib():
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError as error:
        raise BadInput(f"matplotlib is needed (Debian, Ubuntu: apt-get install python3-matplotlib): {error}") from error
    return pyplot


def chosen_groups(lines, form, in_place):
    """Lists of lines, one a collective and number of ranks; without data (a barrier) there is nothing to draw."""
    wanted = [line for line in lines if line["form"] == form and line["in_place"] == in_place and
              line["buffers"] == "device" and line["bytes"] > 0]
    return [group for group in groups_of(wanted).values() if len(group) > 1]


def draw_panel(axis, group, value):
    others = [library for library in library_order(group) if library not in STYLES]
    for library in library_order(group):
        points = [(line["bytes"], line["times"][library][value]) for line in group if library in line["times"]]
        colour, marker, dashes = STYLES.get(library) or (OTHERS[others.index(library) % len(OTHERS)], ".", "-")
        axis.plot(*zip(*points), color=colour, marker=marker, linestyle=dashes, markersize=4, linewidth=1.4,
                  label=LABELS.get(library, library))
    axis.set_xscale("log", base=2)
    if value == "median_us":
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=0)
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


def draw(pyplot, path, groups, value, title, unit):
    rows = math.ceil(len(groups) / COLUMNS)
    columns = min(COLUMNS, len(groups))
    figure, axes = pyplot.subplots(rows, columns, figsize=(max(4.4 * columns, 8), 3.1 * rows + 0.9), squeeze=False)
    panels = axes.flatten()
    for axis, group in zip(panels, groups):
        draw_panel(axis, group, value)
    for axis in panels[len(groups):]:
        axis.set_visible(False)
    for row in axes:
        row[0].set_ylabel(unit)
    for axis in panels[max(len(groups) - columns, 0):len(groups)]:
        axis.set_xlabel("message, bytes")
    handles, labels = legend_of(panels[:len(groups)])
    figure.suptitle(title, fontsize=13)
    figure.legend(handles, labels, loc="lower center", ncol=len(labels), frameon=False)
    figure.tight_layout(rect=(0, 0.35 / (3.1 * rows + 0.9), 1, 1))
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    print(path)


def plot(pyplot, source, arguments):
    contexts, rows = read(source)
    groups = chosen_groups(merge(rows, []), arguments.form, arguments.in_place)
    if not groups:
        raise BadInput(f"{source}: holds no {arguments.form} calls on device buffers at several sizes")
    folder = arguments.out or os.path.dirname(os.path.abspath(source))
    os.makedirs(folder, exist_ok=True)
    stem = os.path.join(folder, os.path.splitext(os.path.basename(source))[0])
    place = ", in place" if arguments.in_place else ""
    counts = sorted({group[0]["ranks"] for group in groups})
    for ranks in counts:
        of_ranks = [group for group in groups if group[0]["ranks"] == ranks]
        name = stem + (f"-{ranks}" if len(counts) > 1 else "")
        where = f"{ranks} ranks, {contexts[0].get('device', '')}: {arguments.form} calls{place}"
        draw(pyplot, f"{name}-time.png", of_ranks, "median_us", f"Time of the slowest rank, {where}", "µs, median")
        draw(pyplot, f"{name}-bandwidth.png", of_ranks, "busbw", f"Bus bandwidth, {where}", "GB/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="what side_by_side --json wrote")
    parser.add_argument("--out", metavar="DIR", help="where the pictures go (beside each file)")
    parser.add_argument("--form", choices=FORMS, default="blocking", help="of the calls (blocking)")
    parser.add_argument("--in-place", action="store_true", help="those with MPI_IN_PLACE")
    arguments = parser.parse_args()
    try:
        pyplot = load_matplotlib()
        for source in arguments.files:
            plot(pyplot, source, arguments)
    except BadInput as error:
        print(f"plot.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
