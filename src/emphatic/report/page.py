"""The report as one HTML page that needs nothing else: no network, no other file.

    page.write(
        out,                      # folder: index.html, and figures/ and data/ it is made of
        collection,               # collect.collect(paths)
        title="minatar5",
        command=sys.argv,         # shown on the page: how to make it again
        tables=[...],             # content.Table, in the order they are shown; the first is the
                                  # summary (the paper's Table 2)
        statements=[...],         # content.Statement: statistics in words
        improvements=[...],       # content.Bars: one for each agent and baseline
        charts=[...],             # content.Chart: the median's curve, performance profiles
        problems=[...],           # sentences beyond the collection's own
    ) -> list[pathlib.Path]       # what was written, index.html first

Learning curves by environment and the health of the heads are made here, from the collection.
What is given as an empty list has no section. The same input makes the same bytes.

Two safeguards keep what a run says from becoming code: everything is escaped where it is put in
(`markup`), and the page's policy lets nothing run or load but the script and style of this package.
"""

import base64
import dataclasses
import hashlib
import string
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from emphatic.report import blocks, figures, numbers, palette, progress, sections
from emphatic.report.collect import Collection
from emphatic.report.content import Bars, Chart, Series, Statement, Table
from emphatic.report.markup import Markup, data, join, tag, text
from emphatic.report.palette import Look


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parts:
    """All that is shown."""

    collection: Collection
    looks: Mapping[str, Look]
    title: str
    command: Sequence[str]
    tables: Sequence[Table]
    statements: Sequence[Statement]
    improvements: Sequence[Bars]
    overall: Sequence[Chart]
    problems: Sequence[str]
    curves: Sequence[Chart]
    health: Sequence[Chart]

    @property
    def lines(self) -> tuple[Chart, ...]:
        """All charts of lines; each has a name of its own."""
        return (*self.overall, *self.curves, *self.health)


def write(
    out: Path,
    collection: Collection,
    *,
    title: str,
    command: Sequence[str],
    tables: Sequence[Table] = (),
    statements: Sequence[Statement] = (),
    improvements: Sequence[Bars] = (),
    charts: Sequence[Chart] = (),
    problems: Sequence[str] = (),
) -> list[Path]:
    """The page, and the figures and numbers it is made of, in the folder `out`."""
    parts = Parts(
        collection=collection,
        looks=palette.looks(collection.agents),
        title=title,
        command=command,
        tables=tables,
        statements=statements,
        improvements=[bars for bars in improvements if bars.bars],
        overall=_overall(charts, collection),
        problems=(*collection.problems, *problems),
        curves=progress.learning(collection),
        health=progress.health(collection),
    )
    return [
        write_html(out, parts),
        *figures.write(out / "figures", parts.lines, parts.improvements, parts.looks),
        *numbers.write(out / "data", parts.tables, parts.lines, parts.improvements),
    ]


def write_html(out: Path, parts: Parts) -> Path:
    """The page alone."""
    out.mkdir(parents=True, exist_ok=True)
    page = out / "index.html"
    page.write_bytes(html(parts, out).encode("utf-8"))
    return page


def html(parts: Parts, out: Path) -> str:
    """The page as text; links are relative to `out`."""
    style, script = _asset("page.css"), _asset("page.js")
    return string.Template(_asset("page.html")).substitute(
        policy=_policy(style, script),
        title=text(parts.title),
        style=style,
        script=script,
        body=_body(parts, out),
        data=data(_payload(parts)),
    )


def _asset(name: str) -> str:
    return resources.files("emphatic.report").joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Content-Security-Policy: this style and this script, by their digests, and nothing else."""
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src {_digest(style)}",
            f"script-src {_digest(script)}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _digest(asset: str) -> str:
    found = base64.b64encode(hashlib.sha256(asset.encode()).digest()).decode()
    return f"'sha256-{found}'"


def _body(parts: Parts, out: Path) -> Markup:
    looks, together = parts.looks, "Over all environments"
    if len(parts.collection.environments) == 1:
        together = "Over all seeds"
    shown = {
        ("run", "What was run"): sections.what_was_run(parts.collection, looks),
        ("tables", "Results"): blocks.tables(parts.tables, looks),
        ("statistics", "What can be said"): blocks.statements(parts.statements, looks),
        ("overall", together): blocks.overall(parts.overall, together),
        ("curves", "Learning curves"): blocks.curves(parts.curves),
        ("improvement", "Improvement"): blocks.improvements(parts.improvements, looks),
        ("health", "Health of the heads"): blocks.health(parts.health),
        ("runs", "Runs"): sections.runs(parts.collection, out, looks),
        ("again", "Make it again"): sections.commands(parts.command),
    }
    shown = {place: part for place, part in shown.items() if part is not None}
    return join(
        [
            sections.header(parts.title, parts.collection, parts.problems, list(shown)),
            sections.legend(looks),
            tag("main", *shown.values(), id="main"),
        ],
        "\n",
    )


def _payload(parts: Parts) -> dict[str, Any]:
    """What page.js draws from; agents are numbers in it."""
    places = blocks.numbered(parts.looks)
    lines = {chart.name: _chart(chart, places) for chart in parts.lines}
    bars = {
        f"improvement-{number}": _bars(content, places)
        for number, content in enumerate(parts.improvements)
    }
    looks = list(parts.looks.values())
    return {"agents": list(parts.looks), "looks": looks, "charts": lines | bars}


def _chart(chart: Chart, places: Mapping[str, int]) -> dict[str, Any]:
    """Lines that share their steps share one grid."""
    grids = list(dict.fromkeys(line.x for line in chart.series))
    return {
        "title": blocks.title_of(chart),
        "x": chart.x_label,
        "y": chart.y_label,
        "scale": "log" if chart.log else "linear",
        "grids": grids,
        "series": [_series(line, places, grids) for line in chart.series],
    }


def _series(line: Series, places: Mapping[str, int], grids: list[Any]) -> dict[str, Any]:
    spread = {"low": line.low, "high": line.high} if line.low and line.high else {}
    return {
        "agent": places[line.agent],
        "name": line.name,
        "dash": line.dash,
        "grid": grids.index(line.x),
        "y": line.y,
        **spread,
    }


def _bars(content: Bars, places: Mapping[str, int]) -> dict[str, Any]:
    return {
        "title": content.title,
        "unit": content.unit,
        "agent": places[content.agent],
        "of": [places[content.agent], places[content.baseline]],
        "bars": [dataclasses.asdict(bar) for bar in content.bars],
    }


def _overall(found: Sequence[Chart], collection: Collection) -> tuple[Chart, ...]:
    """Of one environment the median is what its learning curve shows already."""
    several = len(collection.environments) > 1
    return tuple(chart for chart in found if several or chart.name != "median")
