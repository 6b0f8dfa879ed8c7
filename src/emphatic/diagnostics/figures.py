"""The paper's figures, and the same for any problem. Nothing is computed here.

Figures of the paper carry its own labels as names (`fig:2state_3_algs` is drawn as
`2state_3_algs`), are laid out as its captions say, and keep one colour for one algorithm
throughout. Errors are drawn on a log scale, which the paper's y axes may not have been.
"""

import math
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import matplotlib
import matplotlib.axes
import matplotlib.figure
import matplotlib.lines
import matplotlib.patheffects
import numpy as np

from emphatic.diagnostics import learners
from emphatic.diagnostics.summaries import NINE, QUANTILES, Rule, Summary

INITIAL = 0.5
"""Where "before learning" stands on a log axis of steps."""

HALO = [matplotlib.patheffects.withStroke(linewidth=3.2, foreground="white")]
"""Keeps a median readable on top of the runs it is the median of."""


class Style(NamedTuple):
    """How an algorithm is drawn everywhere."""

    colour: str
    line: str = "-"
    marker: str = "o"


STYLES = {
    "td": Style("#000000", "-", "o"),
    "td-mixed": Style("#000000", "--", "o"),
    "clipped-td": Style("#8c6d46", "-", "v"),
    "clipped-td-mixed": Style("#8c6d46", "--", "v"),
    "vtrace": Style("#808080", "-", "X"),
    "vtrace-mixed": Style("#808080", "--", "X"),
    "netd": Style("#0072b2", "-", "s"),
    "wetd": Style("#56b4e9", "--", "s"),
    "clip-netd": Style("#d55e00", "-", "D"),
    "clip-wetd": Style("#e69f00", "--", "D"),
    "nevtrace": Style("#009e73", "-", "^"),
    "wevtrace": Style("#cc79a7", "--", "^"),
    "wevtrace-literal": Style("#cc79a7", ":", "^"),
    "exact-nevtrace": Style("#00533c", "-", "P"),
    "exact-nevtrace-nu": Style("#00533c", ":", "P"),
    "exact-wevtrace": Style("#7a2e57", "--", "P"),
    "etd": Style("#332288", "-", "*"),
    "etd-beta": Style("#332288", ":", "*"),
    "gtd2": Style("#999933", ":", "<"),
    "tdc": Style("#999933", "--", "<"),
    "tdrc": Style("#999933", "-", "<"),
}
"""Okabe and Ito's colours, told apart also by line and marker. Dashed: mixed scheme."""

TABLE = ("td", "vtrace", "netd", "wetd", "clip-netd", "clip-wetd", "nevtrace", "wevtrace")
"""The algorithms of the paper's Table 1, and of its main figure of Collision."""

THREE_BASELINES = ("td", "clipped-td", *TABLE[1:])
"""With the third baseline, clipped n-step TD: the appendix's figures of Collision."""

BEYOND = ("td", "netd", "clip-netd", "exact-nevtrace", "exact-wevtrace", "etd", "etd-beta", "tdrc")
"""What the paper has no figure of: our exact traces, ETD in the backward view, gradient-TD."""

RC: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "svg.hashsalt": "emphatic",
    "svg.fonttype": "path",
    "figure.constrained_layout.use": True,
}

Figure = matplotlib.figure.Figure
Axes = matplotlib.axes.Axes


def of_the_paper(summary: Summary) -> dict[str, Figure]:
    """The paper's figures of this problem that the summary holds the lanes for, by name."""
    return _made(summary, PAPER.get(summary.name, {}))


def of_any_problem(summary: Summary) -> dict[str, Figure]:
    """Learning curves and sensitivity to the step size, by n."""
    return _made(summary, _generic(summary))


def _made(summary: Summary, wanted: dict[str, tuple["Needs", Callable]]) -> dict[str, Figure]:
    with matplotlib.rc_context(RC):
        return {
            name: make(summary) for name, (needs, make) in wanted.items() if _has(summary, needs)
        }


def write(figures: dict[str, Figure], folder: pathlib.Path) -> list[pathlib.Path]:
    """SVG and PNG of each; the same bytes for the same figures."""
    folder.mkdir(parents=True, exist_ok=True)
    out = []
    with matplotlib.rc_context(RC):
        for name, figure in figures.items():
            out += [folder / f"{name}.svg", folder / f"{name}.png"]
            figure.savefig(out[-2], metadata={"Date": None, "Creator": None}, dpi=150)
            figure.savefig(out[-1], metadata={"Software": None}, dpi=150)
    return out


Needs = tuple[tuple[str, int], ...]


def _has(summary: Summary, needs: Needs) -> bool:
    have = {(lane.name, lane.n) for lane in summary.lanes}
    return set(needs) <= have


def _runs(panels: tuple[tuple[tuple[str, int], ...], ...]) -> tuple[Needs, Callable]:
    """A grid of panels with every run of one algorithm each."""

    def make(summary: Summary) -> Figure:
        figure, axes = _grid(len(panels), len(panels[0]))
        for (row, column), axis in np.ndenumerate(axes):
            _run_panel(axis, summary, *panels[row][column])
        _label_edges(axes, "steps", "RMSE")
        _runs_legend(figure)
        return figure

    return tuple(cell for row in panels for cell in row), make


def _grid(rows: int, columns: int, *, share_y: bool = True) -> tuple[Figure, np.ndarray]:
    one = rows == columns == 1
    figure = Figure(figsize=(4.2, 3.4) if one else (1.0 + 2.2 * columns, 0.6 + 1.5 * rows))
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=share_y)
    return figure, axes


def _run_panel(axis: Axes, summary: Summary, name: str, n: int) -> None:
    """All runs thin, their median thick, their mean dotted; step size by the mean rule."""
    i, style = summary.lane(name, n), STYLES[name]
    runs = 10.0 ** summary.runs[:, :, summary.shown.index(i)].astype(float)
    # Two hundred runs as dark as fifty would be one blot.
    faint = 0.22 * min(1.0, (50 / len(runs)) ** 0.5)
    axis.plot(summary.steps, runs.T, color=style.colour, alpha=faint, lw=0.5, rasterized=True)
    median = summary.curve[0, 1 + QUANTILES.index(0.5), :, i]
    axis.plot(summary.steps, median, color=style.colour, lw=1.6, path_effects=HALO)
    mean = summary.curve[0, 0, :, i]
    axis.plot(summary.steps, mean, color="#222222", lw=1.2, ls=":", path_effects=HALO)
    axis.axhline(summary.curve[0, 0, 0, i], color="#444444", lw=0.6, ls=(0, (4, 3)))
    axis.set_title(f"{learners.LABELS[name]}, n = {n}, α = {_power(summary, 0, i)}")
    _learning_axes(axis, summary)


def _power(summary: Summary, rule: int, i: int) -> str:
    """A step size as a power of two where it is one."""
    alpha = float(summary.alphas[summary.best[rule, 0, i]])
    exponent = math.log2(alpha)
    return f"2$^{{{exponent:.0f}}}$" if exponent.is_integer() else f"{alpha:g}"


def _learning_axes(axis: Axes, summary: Summary) -> None:
    initial = float(summary.curve[0, 0, 0].max()) or 1.0
    axis.set(xscale="log", yscale="log", xlim=(INITIAL, summary.edges[-1]))
    axis.set_ylim(initial * 10.0**-3.5, initial * 10.0**2.5)


def _label_edges(axes: np.ndarray, x: str, y: str) -> None:
    for column in axes.T:
        lowest = [axis for axis in column if axis.axison][-1]
        lowest.set_xlabel(x)
    for axis in axes[:, 0]:
        axis.set_ylabel(y)


def _runs_legend(figure: Figure) -> None:
    """What thin, thick, dotted and dashed mean, in one line below."""
    line = matplotlib.lines.Line2D
    handles = [
        line([], [], color="#333333", alpha=0.4, lw=0.6, label="each run"),
        line([], [], color="#333333", lw=1.6, label="median"),
        line([], [], color="#222222", lw=1.2, ls=":", label="mean"),
        line([], [], color="#444444", lw=0.6, ls=(0, (4, 3)), label="before learning"),
    ]
    columns = 4 if figure.get_figwidth() > 4 else 2
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)


def _curves(
    names: tuple[str, ...], ns: tuple[int, ...], rule: Rule = "mean"
) -> tuple[Needs, Callable]:
    """Learning curves by n: mean (median) over runs at each algorithm's best step size."""
    place, statistic = (0, 0) if rule == "mean" else (1, 1 + QUANTILES.index(0.5))

    def make(summary: Summary) -> Figure:
        figure, axes = _grid(*_shape(len(ns)))
        for n, axis in _panels(axes, ns):
            for rank, name in enumerate(_in(summary, names, n)):
                curve = summary.curve[place, statistic, :, summary.lane(name, n)]
                _line(axis, summary.steps, curve, name, rank)
            axis.set_title(f"n = {n}")
            axis.set(xscale="log", xlim=(INITIAL, summary.edges[-1]))
        _fit(axes)
        _finish(figure, axes, "steps", f"{rule} RMSE")
        return figure

    return _every(names, ns), make


def _u_curves(
    names: tuple[str, ...], ns: tuple[int, ...], rule: Rule = "mean"
) -> tuple[Needs, Callable]:
    """RMSE over all steps, mean (median) over runs, against the step size; a panel for each n."""

    def make(summary: Summary) -> Figure:
        figure, axes = _grid(*_shape(len(ns)))
        top = float(summary.curve[0, 0, 0].max()) or 1.0
        for n, axis in _panels(axes, ns):
            for rank, name in enumerate(_in(summary, names, n)):
                scores = summary.mean if rule == "mean" else summary.median
                score = scores[-1, 0, :, summary.lane(name, n)]
                # What diverged leaves the panel upwards.
                _line(axis, summary.alphas, np.minimum(score, 100 * top), name, rank, marker=True)
            axis.set_title(f"n = {n}")
            axis.set_xscale("log", base=2)
        _fit(axes, top)
        _finish(figure, axes, "step size α", f"{rule} RMSE")
        return figure

    return _every(names, ns), make


def _every(names: tuple[str, ...], ns: tuple[int, ...]) -> Needs:
    return tuple(
        (name, n) for name in names for n in ns if learners.Lane(name, n).kind != "gradient"
    )


def _in(summary: Summary, names: tuple[str, ...], n: int) -> list[str]:
    """Those of the algorithms that were run at this n (gradient-TD has n = 1 only)."""
    return [name for name in names if learners.Lane(name, n) in summary.lanes]


def _shape(count: int) -> tuple[int, int]:
    return (1, count) if count < 4 else (-(-count // 2), 2)


def _panels(axes: np.ndarray, ns: tuple[int, ...]) -> Iterator[tuple[int, Axes]]:
    """A panel for each n; those left over are hidden."""
    for axis in axes.flat[len(ns) :]:
        axis.set_axis_off()
    for axis in axes.flat[max(0, len(ns) - axes.shape[1]) : len(ns)]:
        axis.tick_params(labelbottom=True)
    return zip(ns, axes.flat, strict=False)


def _line(
    axis: Axes, x: np.ndarray, y: np.ndarray, name: str, rank: int, *, marker: bool = False
) -> None:
    """Each line a little thinner than those before it: where two coincide, both show."""
    style = STYLES[name]
    size = max(0.5, 1.0 - 0.06 * rank)
    extra = {"marker": style.marker, "ms": 5.0 * size, "mew": 0.5} if marker else {}
    label = learners.LABELS[name]
    axis.plot(x, y, color=style.colour, ls=style.line, lw=1.7 * size, label=label, **extra)


def _fit(axes: np.ndarray, start: float | None = None) -> None:
    """Shows errors around those at the start, on a log scale where they fall far below."""
    curves = [np.asarray(line.get_ydata(), float) for axis in axes.flat for line in axis.lines]
    top = start or float(max((y[0] for y in curves), default=1.0))
    low = min((np.nanmin(np.where(y > 0, y, np.nan)) for y in curves), default=top)
    for axis in axes.flat:
        if low > top / 20:
            axis.set_ylim(0, 1.25 * top)
        else:
            axis.set_yscale("log")
            axis.set_ylim(max(low * 0.8, top * 1e-4), top * 10)


def _finish(figure: Figure, axes: np.ndarray, x: str, y: str) -> None:
    """Labels on the edges and one legend for all panels."""
    _label_edges(axes, x, y)
    found = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    columns = min(len(found), int(figure.get_figwidth() / 1.3))
    figure.legend(
        found.values(), found.keys(), loc="outside lower center", ncols=columns, frameon=False
    )


def _generic(summary: Summary) -> dict[str, tuple[Needs, Callable]]:
    """For any problem: its algorithms (the paper's table, if they are many), by n; medians."""
    names = tuple(dict.fromkeys(lane.name for lane in summary.lanes))
    names = names if len(names) < 10 else THREE_BASELINES
    ns = tuple(sorted({lane.n for lane in summary.lanes}))
    prefix = summary.name
    return {
        f"{prefix}-learning-curves": ((), _curves(names, ns, "median")[1]),
        f"{prefix}-step-sizes": ((), _u_curves(names, ns, "median")[1]),
    }


def _column(*names: str, n: int) -> tuple[tuple[tuple[str, int], ...], ...]:
    return tuple(((name, n),) for name in names)


def _nine(n: int) -> tuple[tuple[tuple[str, int], ...], ...]:
    return tuple(tuple((name, n) for name in row) for row in NINE)


_beyond = _u_curves(BEYOND, (1, 2, 3, 5), "median")

PAPER = {
    "two-state": {
        "2state_3_algs": _runs(_column("netd", "clip-netd", "td", n=1)),
        "2state_2_algs": _runs(_column("nevtrace", "vtrace", n=1)),
        "2state_clip": _runs(
            tuple(((x, 1), (x, 5)) for x in ("netd", "clip-netd", "wetd", "clip-wetd"))
        ),
        "2state_n_0": _runs(_nine(1)),
        "2state_n_4": _runs(_nine(5)),
        "two-state-beyond-the-paper": _beyond,
    },
    "collision-trap": {
        "collision_u_curve": _u_curves(TABLE, (2,)),
        "collision_learning_curve": _curves(THREE_BASELINES, (1, 2, 3, 5)),
        "collision_u_curves": _u_curves(THREE_BASELINES, (1, 2, 3, 5)),
        "collision-beyond-the-paper": _beyond,
    },
    "baird": {
        "baird_n_0": _runs(_nine(1)),
        "baird_n_4": _runs(_nine(5)),
        "baird-beyond-the-paper": _beyond,
    },
}
"""The paper's figures by problem (its appendix counts n from 0), and ours beyond it."""
