"""Figures of the study with networks. Nothing is computed here."""

from collections.abc import Callable

import matplotlib
import numpy as np

from emphatic.diagnostics import figures, learners, networks
from emphatic.diagnostics.networks_summary import Summary

NAMES = {"sgd": "SGD", "rmsprop": "RMSProp", "linear": "linear", "mlp": "network"}


def draw(found: list[Summary]) -> dict[str, figures.Figure]:
    """By name: step sizes and learning curves of every model."""
    out = {}
    with matplotlib.rc_context(figures.RC):
        for model in dict.fromkeys(s.model for s in found):
            here = [s for s in found if s.model == model]
            out[f"{model}-step-sizes"] = _grid(here, _step_sizes, "step size")
            out[f"{model}-curves"] = _grid(here, _curves, "share of updates")
    return out


def _grid(found: list[Summary], panel: Callable[..., None], x: str) -> figures.Figure:
    """Problems by optimiser and n; one legend for all."""
    problems = list(dict.fromkeys(s.problem for s in found))
    ns = sorted({lane.n for lane in found[0].lanes})
    columns = [(optimiser, n) for optimiser in networks.OPTIMISERS for n in ns]
    figure = figures.Figure(figsize=(0.6 + 1.9 * len(columns), 0.9 + 1.4 * len(problems)))
    axes = figure.subplots(len(problems), len(columns), squeeze=False, sharey="row", sharex="col")
    for summary in found:
        for n in ns:
            place = problems.index(summary.problem), columns.index((summary.optimiser, n))
            axis = axes[place]
            panel(axis, summary, n)
            _limits(axis, summary)
            if place[0] == 0:
                axis.set_title(f"{NAMES[summary.optimiser]}, n = {n}")
            if place[1] == 0:
                axis.set_ylabel(f"{summary.problem}\nmedian RMSE")
    for axis in axes[-1]:
        axis.set_xlabel(x)
    _legend(figure, axes)
    return figure


def _limits(axis: figures.Axes, summary: Summary) -> None:
    """Around the error before learning, dashed."""
    start = float(np.median(summary.start[:, 0]))
    lowest = float(summary.score[1].min())
    axis.axhline(start, color="#444444", lw=0.6, ls=(0, (4, 3)))
    axis.set_yscale("log")
    axis.set_ylim(max(min(lowest * 0.7, start / 3), start * 1e-3), start * 5)


def _step_sizes(axis: figures.Axes, summary: Summary, n: int) -> None:
    """Error averaged over the run against the step size; what diverged leaves upwards."""
    axis.set_xscale("log", base=2)
    for i, lane in _lanes(summary, n):
        _line(axis, summary.alphas, summary.score[1, i], lane.name, marker=True)


def _curves(axis: figures.Axes, summary: Summary, n: int) -> None:
    """Error over the run at the chosen step sizes."""
    time = (np.arange(summary.curve.shape[1]) + 0.5) / summary.curve.shape[1]
    for i, lane in _lanes(summary, n):
        _line(axis, time, summary.curve[1, :, i], lane.name)


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
