"""The page's charts as PNG and SVG, for papers and slides. Nothing is computed here."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.axes
import matplotlib.figure
import matplotlib.lines
import matplotlib.ticker
import numpy as np

from emphatic.report.content import Bars, Chart
from emphatic.report.markup import slug
from emphatic.report.palette import COLOURS, DASHES, Look

Figure = matplotlib.figure.Figure
Axes = matplotlib.axes.Axes
Looks = Mapping[str, Look]

RC: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "svg.hashsalt": "emphatic",
    "svg.fonttype": "path",
    "text.parse_math": False,
}
COLUMNS = 6
"""Of a figure with a panel for each environment."""
MANY = 8
"""Environments that get a figure of their heads' health each; of more there are none."""
SYMLOG = 30
"""Bars are on a logarithmic scale where the longest is so many times the middle one."""


def write(folder: Path, lines: Sequence[Chart], pairs: Sequence[Bars], looks: Looks) -> list[Path]:
    """Of each chart over all environments, of all learning curves, of each pair's bars."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with matplotlib.rc_context(RC):
        figures = {name: panels(charts, looks) for name, charts in _by_file(lines).items()}
        figures |= {slug(pair.name): bars(pair, looks) for pair in pairs}
        for name, figure in figures.items():
            written += [folder / f"{name}.svg", folder / f"{name}.png"]
            figure.savefig(written[-2], metadata={"Date": None, "Creator": None})
            figure.savefig(written[-1], metadata={"Software": None}, dpi=150)
    return written


def _by_file(lines: Sequence[Chart]) -> dict[str, list[Chart]]:
    """Charts of one figure; none of the heads' health where that would be dozens of figures."""
    found: dict[str, list[Chart]] = {}
    for chart in lines:
        found.setdefault(file_of(chart), []).append(chart)
    health = {file_of(chart) for chart in lines if chart.kind == "health"}
    return {name: found[name] for name in found if name not in health or len(health) <= MANY}


def file_of(chart: Chart) -> str:
    """The figure that a chart is a panel of."""
    if chart.kind == "health":
        return f"health-{slug(chart.group)}"
    return "learning-curves" if chart.kind == "learning-curves" else slug(chart.name)


def panels(charts: Sequence[Chart], looks: Looks) -> Figure:
    """A panel for each chart, and one legend."""
    columns = min(len(charts), COLUMNS if len(charts) > 6 else 3)
    rows = -(-len(charts) // columns)
    size = (2.5 * columns, 1.9 * rows) if len(charts) > 1 else (4.6, 3.2)
    figure = Figure(figsize=(size[0], size[1] + 0.4))
    axes = figure.subplots(rows, columns, squeeze=False).flat
    for axis, chart in zip(axes, charts, strict=False):
        _panel(axis, chart, looks)
    for axis in list(axes)[len(charts) :]:
        axis.set_axis_off()
    _legend(figure, charts, looks)
    return figure


def _panel(axis: Axes, chart: Chart, looks: Looks) -> None:
    for line in chart.series:
        look = looks[line.agent]
        colour, dash = COLOURS[look.colour], DASHES[(look.dash + line.dash) % len(DASHES)]
        y = np.array(line.y, float)
        there = np.isfinite(y)
        x, y = np.array(line.x, float)[there], y[there]
        marker = "o" if len(y) == 1 else None
        axis.plot(x, y, color=colour, linestyle=dash, linewidth=1.2, marker=marker, ms=3)
        if line.low and line.high:
            low, high = (np.array(ends, float)[there] for ends in (line.low, line.high))
            axis.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    if chart.log:
        axis.set_yscale("log")
    axis.set_title(chart.title)
    axis.set_xlabel(chart.x_label)
    axis.xaxis.set_major_formatter(matplotlib.ticker.EngFormatter(sep=""))
    axis.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(4))
    if chart.y_label != chart.title:
        axis.set_ylabel(chart.y_label)


def _legend(figure: Figure, charts: Sequence[Chart], looks: Looks) -> None:
    """Agents by their colour, then heads by their dashes."""
    lines = [line for chart in charts for line in chart.series]
    agents = dict.fromkeys(line.agent for line in lines)
    handles = [_handle(agent, looks[agent].colour, looks[agent].dash) for agent in agents]
    heads = dict(sorted({line.dash: line.name for line in lines if line.name}.items()))
    handles += [_handle(name, None, dash) for dash, name in heads.items()]
    columns = max(1, int(figure.get_figwidth() / 1.5))
    rows = -(-len(handles) // columns)
    figure.legend(handles=handles, loc="lower center", ncols=columns, frameon=False)
    bottom = (0.15 + 0.16 * rows) / figure.get_figheight()
    figure.tight_layout(rect=(0, bottom, 1, 1))


def _handle(label: str, colour: int | None, dash: int) -> matplotlib.lines.Line2D:
    shown = "#777777" if colour is None else COLOURS[colour]
    style = DASHES[dash % len(DASHES)]
    # A label that begins with an underscore would be left out.
    label = f" {label}" if label.startswith("_") else label
    return matplotlib.lines.Line2D([], [], color=shown, linestyle=style, label=label)


def bars(content: Bars, looks: Looks) -> Figure:
    """The paper's bar plot, lying, so that names can be read."""
    figure = Figure(figsize=(5.5, 0.9 + 0.16 * len(content.bars)))
    axis = figure.subplots()
    places = range(len(content.bars))
    colours = [
        COLOURS[looks[content.agent].colour] if b.value >= 0 else "#9a9a9a" for b in content.bars
    ]
    values = [bar.value for bar in content.bars]
    axis.barh(places, values, color=colours, height=0.75)
    for place, bar in zip(places, content.bars, strict=True):
        if bar.low is not None and bar.high is not None:
            axis.plot([bar.low, bar.high], [place, place], color="#222222", linewidth=0.6)
    axis.set_yticks(places, [bar.label for bar in content.bars])
    axis.set_ylim(len(content.bars) - 0.4, -0.6)
    _bar_scale(axis, values)
    axis.set_xlabel(content.unit)
    axis.set_title(content.title)
    axis.grid(visible=False, axis="y")
    figure.tight_layout()
    return figure


def _bar_scale(axis: Axes, values: Sequence[float]) -> None:
    """So that one game does not flatten all others; page.js draws by the same rule."""
    sizes = sorted(map(abs, values))
    middle = sizes[len(sizes) // 2] or 1.0
    if sizes[-1] >= SYMLOG * middle:
        axis.set_xscale("symlog", linthresh=10.0 ** round(math.log10(middle)))
    axis.axvline(0, color="#444444", linewidth=0.8)
