"""Figures of the study with networks. Nothing is computed here."""

from collections.abc import Callable

import matplotlib
import matplotlib.axis
import matplotlib.image
import matplotlib.ticker
import matplotlib.transforms
import numpy as np

from emphatic.diagnostics import figures, learners, networks, networks_tables
from emphatic.diagnostics.networks_summary import Summary, baseline, ordered
from emphatic.diagnostics.networks_tables import NAMES

START: dict = {"color": "#444444", "lw": 0.6, "ls": (0, (4, 3))}
"""The error before learning."""


def draw(found: list[Summary], rows: list[dict]) -> dict[str, figures.Figure]:
    """By name: errors at the chosen step sizes, and by step size; of networks also over time."""
    out = {}
    with matplotlib.rc_context(figures.RC):
        out["errors"] = _errors(found, rows)
        for model in dict.fromkeys(s.model for s in found):
            here = [s for s in found if s.model == model]
            out[f"{model}-divergences"] = _divergences(here)
            out[f"{model}-step-sizes"] = _grid(here, _step_sizes, "step size")
            if model != "linear":
                out[f"{model}-curves"] = _grid(here, _curves, "share of updates")
    return out


def _plain_ticks(axis: matplotlib.axis.Axis, most: int = 5) -> None:
    """Labels such as 0.7, 0.8, 0.9, 1 or 0.1, 1, 10: a few, whatever a log axis spans."""
    low, high = axis.get_view_interval()
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    for steps in (range(1, 10), (1, 2, 5), (1,)):
        ticks = np.outer(powers, steps).ravel()
        shown = ticks[(ticks >= low) & (ticks <= high)]
        if len(shown) <= most:
            break
    axis.set_major_locator(matplotlib.ticker.FixedLocator(shown.tolist()))
    axis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
    axis.set_minor_formatter(matplotlib.ticker.NullFormatter())


def _problems(found: list[Summary]) -> list[str]:
    return list(dict.fromkeys(s.problem for s in found))


def _names(summary: Summary) -> list[str]:
    lanes = [summary.lanes[i] for i in ordered(summary.lanes)]
    return [f"{learners.LABELS[lane.name]}, n = {lane.n}" for lane in lanes]


def _errors(found: list[Summary], rows: list[dict]) -> figures.Figure:
    """Problems by models and optimisers; a line for each algorithm, with its interval."""
    problems, names = _problems(found), _names(found[0])
    columns = list(dict.fromkeys((s.model, s.optimiser) for s in found))
    size = (1.5 + 1.9 * len(columns), 0.6 + (0.3 + 0.13 * len(names)) * len(problems))
    figure = figures.Figure(figsize=size)
    axes = figure.subplots(len(problems), len(columns), squeeze=False, sharey=True)
    for summary in found:
        place = problems.index(summary.problem), columns.index((summary.model, summary.optimiser))
        axis = axes[place]
        _intervals(axis, summary, [row for row in rows if networks_tables.of(summary, row)])
        if place[0] == 0:
            axis.set_title(f"{NAMES[summary.model]}, {NAMES[summary.optimiser]}")
        if place[1] == 0:
            axis.set_yticks(range(len(names)), names, fontsize=6.5)
            axis.set_ylabel(summary.problem)
    axes[0, 0].invert_yaxis()
    for axis in axes[-1]:
        axis.set_xlabel("median RMSE over the run")
    return figure


def _intervals(axis: figures.Axes, summary: Summary, rows: list[dict]) -> None:
    """Medians, 95% intervals, and + or - where better or worse than without emphasis."""
    start, order = rows[0]["start"], ordered(summary.lanes)
    beside = matplotlib.transforms.blended_transform_factory(axis.transAxes, axis.transData)
    groups = list(dict.fromkeys(baseline(summary.lanes[i]) for i in order))
    for place, i in enumerate(order):
        row, style = rows[i], figures.STYLES[rows[i]["algorithm"]]
        if groups.index(baseline(summary.lanes[i])) % 2:
            axis.axhspan(place - 0.5, place + 0.5, color="#f2f2f2", lw=0)
        axis.plot(row["run_interval"], [place] * 2, color=style.colour, lw=1.2)
        axis.plot(row["run"], place, color=style.colour, marker=style.marker, ms=3.5)
        mark = {"=": "", "-": "−"}.get(verdict := networks_tables.verdict(row), verdict)
        axis.text(1.01, place, mark, transform=beside, va="center", ha="left", fontsize=7)
    axis.axvline(start, **START)
    axis.set_xscale("log")
    lowest = min(row["run_interval"][0] for row in rows)
    highest = max(row["run_interval"][1] for row in rows)
    axis.set_xlim(min(lowest, start) * 0.8, min(max(highest, start) * 1.2, start * 3))
    _plain_ticks(axis.xaxis)
    axis.tick_params(axis="x", labelsize=6.5)
    axis.grid(visible=False, axis="y")


def _divergences(found: list[Summary]) -> figures.Figure:
    """Problems by optimisers; algorithms by step sizes: who diverged, who ended worse."""
    problems, names = _problems(found), _names(found[0])
    widths = [len(s.alphas) for s in found if s.problem == problems[0]]
    size = (1.5 + 0.19 * sum(widths), 0.9 + (0.3 + 0.13 * len(names)) * len(problems))
    figure = figures.Figure(figsize=size)
    axes = figure.subplots(
        len(problems), len(widths), squeeze=False, sharey=True, width_ratios=widths
    )
    images = []
    for summary in found:
        place = problems.index(summary.problem), networks.OPTIMISERS.index(summary.optimiser)
        axis = axes[place]
        images.append(_counts(axis, summary))
        if place[0] == 0:
            axis.set_title(NAMES[summary.optimiser])
        if place[1] == 0:
            axis.set_yticks(range(len(names)), names, fontsize=6.5)
            axis.set_ylabel(summary.problem)
    for axis in axes[-1]:
        axis.set_xlabel("step size")
    bar = figure.colorbar(images[-1], ax=axes, location="bottom", shrink=0.6, aspect=40, pad=0.01)
    seeds = len(found[0].run)
    bar.set_label(
        "colour: share of seeds that ended with a larger error than they began with\n"
        f"number: how many of {seeds} seeds diverged at any time"
    )
    return figure


def _counts(axis: figures.Axes, summary: Summary) -> matplotlib.image.AxesImage:
    """Colour: ended worse than it began. Number: diverged."""
    order, seeds = ordered(summary.lanes), len(summary.run)
    image = axis.imshow(
        summary.worse_at[order] / seeds, cmap="Oranges", vmin=0.0, vmax=1.0, aspect="auto"
    )
    for y, i in enumerate(order):
        for x, count in enumerate(summary.diverged_at[i]):
            if count:
                dark = summary.worse_at[i, x] > 0.6 * seeds
                colour = "white" if dark else "black"
                axis.text(x, y, str(count), ha="center", va="center", fontsize=5.5, color=colour)
    shown = range(len(summary.alphas) - 1, -1, -3)
    exponents = [f"$2^{{{networks_tables.exponent(summary.alphas[x])}}}$" for x in shown]
    axis.set_xticks(list(shown), exponents)
    axis.tick_params(length=2)
    axis.grid(visible=False)
    return image


def _grid(
    found: list[Summary], panel: Callable[..., None], x: str, y: str = "median RMSE"
) -> figures.Figure:
    """Problems by optimiser and n; one legend for all."""
    problems = _problems(found)
    ns = sorted({lane.n for lane in found[0].lanes})
    columns = [(optimiser, n) for optimiser in networks.OPTIMISERS for n in ns]
    figure = figures.Figure(figsize=(0.6 + 1.9 * len(columns), 0.9 + 1.4 * len(problems)))
    axes = figure.subplots(len(problems), len(columns), squeeze=False, sharey="row", sharex="col")
    for summary in found:
        for n in ns:
            place = problems.index(summary.problem), columns.index((summary.optimiser, n))
            axis = axes[place]
            panel(axis, summary, n)
            if place[0] == 0:
                axis.set_title(f"{NAMES[summary.optimiser]}, n = {n}")
            if place[1] == 0:
                axis.set_ylabel(f"{summary.problem}\n{y}")
    for axis in axes[-1]:
        axis.set_xlabel(x)
    _legend(figure, axes)
    return figure


def _limits(axis: figures.Axes, summary: Summary, errors: np.ndarray) -> None:
    """Around the error before learning, dashed, and down to the least of these."""
    start, lowest = float(np.median(summary.start[:, 0])), float(errors.min())
    axis.axhline(start, **START)
    axis.set_yscale("log")
    axis.set_ylim(max(min(lowest * 0.8, start / 2), start * 1e-3), start * 3)
    _plain_ticks(axis.yaxis)


def _step_sizes(axis: figures.Axes, summary: Summary, n: int) -> None:
    """Error averaged over the run against the step size; what diverged leaves upwards."""
    axis.set_xscale("log", base=2)
    for i, lane in _lanes(summary, n):
        _line(axis, summary.alphas, summary.score[1, i], lane.name, marker=True)
    _limits(axis, summary, summary.score[1])


def _curves(axis: figures.Axes, summary: Summary, n: int) -> None:
    """Error over the run at the chosen step sizes."""
    time = (np.arange(summary.curve.shape[1]) + 0.5) / summary.curve.shape[1]
    for i, lane in _lanes(summary, n):
        _line(axis, time, summary.curve[1, :, i], lane.name)
    _limits(axis, summary, summary.curve[1])


def _lanes(summary: Summary, n: int) -> list[tuple[int, networks.Lane]]:
    return [(i, lane) for i, lane in enumerate(summary.lanes) if lane.n == n]


def _line(
    axis: figures.Axes, x: np.ndarray, y: np.ndarray, name: str, *, marker: bool = False
) -> None:
    style = figures.STYLES[name]
    extra = {"marker": style.marker, "ms": 3.0} if marker else {}
    label = learners.LABELS[name]
    axis.plot(x, y, color=style.colour, ls=style.line, label=label, lw=1.0, **extra)


def _legend(figure: figures.Figure, axes: np.ndarray) -> None:
    found = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=4, frameon=False)
