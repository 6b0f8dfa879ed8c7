"""The page's charts as PNG and SVG, for papers and slides. Nothing is computed here."""

import math
import warnings
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
from emphatic.report.markup import legible, slug
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
    with matplotlib.rc_context(RC), warnings.catch_warnings():
        # Letters that the font has not are drawn as boxes; the page has them.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
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
    size = (2.3 * columns, 1.6 * rows) if len(charts) > 1 else (4.6, 3.0)
    figure = Figure(figsize=(size[0] + 0.2, size[1] + 0.5))
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis, chart in zip(axes, charts, strict=False):
        _panel(axis, chart, looks)
    for axis in axes[len(charts) :]:
        axis.set_axis_off()
    _labels(figure, charts)
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
        axis.yaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    axis.set_title(_words(chart.title))
    for ticks in (axis.xaxis, axis.yaxis):
        ticks.set_major_formatter(matplotlib.ticker.FuncFormatter(_short))
    axis.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(4))


def _words(text: str, most: int = 70) -> str:
    """On one line and not endless: names of runs may hold anything."""
    words = " ".join(legible(text).split())
    return words if len(words) <= most else f"{words[: most - 1]}…"


def _short(value: float, _place: object = None) -> str:
    """As page.js has it: 1.5k, 20M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def _labels(figure: Figure, charts: Sequence[Chart]) -> None:
    """Once, where they are the same for all panels."""
    if len({chart.x_label for chart in charts}) == 1:
        y = 0.05 / figure.get_figheight()
        figure.supxlabel(charts[0].x_label, fontsize="medium", y=y, va="bottom")
    if len({chart.y_label for chart in charts}) == 1:
        x = 0.05 / figure.get_figwidth()
        figure.supylabel(charts[0].y_label, fontsize="medium", x=x, ha="left")


def _legend(figure: Figure, charts: Sequence[Chart], looks: Looks) -> None:
    """Above the panels: agents by their colour, then heads by their dashes."""
    lines = [line for chart in charts for line in chart.series]
    agents = {line.agent for line in lines}
    handles = [_handle(a, look.colour, look.dash) for a, look in looks.items() if a in agents]
    heads = dict(sorted({line.dash: line.name for line in lines if line.name}.items()))
    handles += [_handle(name, None, dash) for dash, name in heads.items()]
    longest = max((len(str(handle.get_label())) for handle in handles), default=1)
    columns = max(1, int(figure.get_figwidth() / (0.5 + 0.055 * longest)))
    rows = -(-len(handles) // columns)
    figure.legend(handles=handles, loc="upper center", ncols=columns, frameon=False)
    width, height = figure.get_size_inches()
    # Room for the labels of all panels, which tight_layout does not see, and for the legend.
    figure.tight_layout(rect=(0.18 / width, 0.18 / height, 1, 1 - (0.1 + 0.16 * rows) / height))


def _handle(label: str, colour: int | None, dash: int) -> matplotlib.lines.Line2D:
    shown = "#777777" if colour is None else COLOURS[colour]
    style = DASHES[dash % len(DASHES)]
    # A label that begins with an underscore would be left out.
    label = _words(f" {label}" if label.startswith("_") else label)
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
    axis.set_yticks(places, [_words(bar.label) for bar in content.bars])
    axis.set_ylim(len(content.bars) - 0.4, -0.6)
    _bar_scale(axis, values)
    axis.set_xlabel(_words(content.unit))
    axis.set_title(_words(content.title))
    axis.grid(visible=False, axis="y")
    figure.tight_layout()
    return figure


def _bar_scale(axis: Axes, values: Sequence[float]) -> None:
    """So that one game does not flatten all others; page.js draws by the same rule."""
    sizes = sorted(map(abs, values))
    middle = sizes[len(sizes) // 2] or 1.0
    if sizes[-1] >= SYMLOG * middle:
        knee = 10.0 ** round(math.log10(middle))
        axis.set_xscale("symlog", linthresh=knee)
        decades = int(math.log10(sizes[-1] / knee)) + 1
        ends = [knee * 10.0**i for i in range(decades) if decades < 4 or i % 2 == 0]
        axis.set_xticks([*(-end for end in ends), 0, *ends])
        axis.set_xlim(-1.3 * sizes[-1] if min(values) < 0 else None, 1.3 * sizes[-1])
    axis.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(_short))
    axis.axvline(0, color="#444444", linewidth=0.8)
