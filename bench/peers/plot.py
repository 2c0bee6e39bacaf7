"""Draws what `run.py` measured: `python3 bench/peers/plot.py target/peers.json peers.svg`.

Each row is a workload, each mark someone's time over that of our native kernel, on a logarithmic axis. Rows below the line take our kernel less
than a millisecond for value and gradient: there a call is most of the time of other tools.
"""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
# Text stays text, which is small; no date and no random names, so the same figures give the same file.
matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "peers", "font.family": "sans-serif", "font.size": 9}

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator

# Colours that are told apart in all common kinds of colour blindness.
MARKS = {
    "by hand": ("|", "black"),
    "JAX": ("o", "#0072B2"),
    "PyTorch": ("s", "#D55E00"),
    "SciPy": ("^", "#009E73"),
    "CasADi": ("D", "#CC79A7"),
}
PARTS = ("value", "value and gradient")


def duration(ms: float) -> str:
    return f"{1e3 * ms:.3g} µs" if ms < 1 else f"{ms:.3g} ms"


def number(line: dict) -> int:
    """3 of a line about K3."""
    return int(line["workload"].split()[0].removeprefix("K"))


def panel(axes: Axes, lines: list[dict], short: int) -> None:
    """The ratios of one part; at the right what 1 stands for. The last rows, so many, are short."""
    places = range(len(lines))
    for name, (marker, colour) in MARKS.items():
        found = [(line["over native"][name], at) for at, line in enumerate(lines) if name in line["ms"]]
        if found:
            size = {"s": 60, "color": colour} if marker == "|" else {"s": 24, "facecolor": colour, "edgecolor": "white"}
            axes.scatter(*zip(*found), marker=marker, linewidths=1.8 if marker == "|" else 0.4, label=name, zorder=3, **size)
    for at, line in enumerate(lines):
        axes.text(1.01, at, duration(line["ms"]["native"]), transform=axes.get_yaxis_transform(), va="center", fontsize=8)
    if short:
        axes.axhline(len(lines) - short - 0.5, color="black", linewidth=1)
    axes.axvline(1, color="black", linewidth=1, zorder=2)
    axes.set_xscale("log")
    axes.set_xlim(left=0.1)
    axes.xaxis.set_major_locator(LogLocator(10))
    axes.minorticks_off()
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.grid(axis="x", which="major", color="#cccccc", linewidth=0.8)
    axes.grid(axis="y", color="#eeeeee", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_yticks(places, [line["workload"] for line in lines])
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.tick_params(length=0)
    axes.set_xlabel("time over that of our native kernel, which stands at the right")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def main(source: str, target: str) -> None:
    lines = json.loads(Path(source).read_text())["lines"]
    short = {line["workload"] for line in lines if line["part"] == PARTS[1] and line["ms"]["native"] < 1}
    lines.sort(key=lambda line: (line["workload"] in short, number(line)))
    rows = len(lines) / len(PARTS)
    figure, both = pyplot.subplots(1, 2, sharex=True, sharey=True, figsize=(12, 1.4 + 0.27 * rows), layout="constrained")
    for axes, part in zip(both, PARTS):
        panel(axes, [line for line in lines if line["part"] == part], len(short))
        axes.set_title(part, fontsize=10)
    handles, labels = both[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(MARKS), frameon=False)
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
