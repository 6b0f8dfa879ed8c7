"""The numbers behind a page: a CSV of each table, of all lines and of all bars; and JSON."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from emphatic.report.content import Bars, Chart, Number, Table
from emphatic.report.markup import slug
from emphatic.report.tables import as_csv

LINES = ("chart", "group", "agent", "line", "x", "y", "low", "high")
BARS = ("agent", "baseline", "unit", "environment", "value", "low", "high")


def write(
    folder: Path, tables: Sequence[Table], lines: Sequence[Chart], bars: Sequence[Bars]
) -> list[Path]:
    """All of them, those that are empty left out."""
    found = {f"{slug(table.name)}.csv": as_csv(table) for table in tables}
    by_file: dict[str, list[Chart]] = {}
    for chart in lines:
        by_file.setdefault(f"{chart.kind}.csv", []).append(chart)
    for file, charts in by_file.items():
        found[file] = _csv(LINES, (row for chart in charts for row in _lines(chart)))
    if bars:
        found["improvements.csv"] = _csv(BARS, (row for x in bars for row in _bars(x)))
    found["report.json"] = _json(tables, bars)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in found.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in found]


def _lines(chart: Chart) -> Iterator[tuple[Any, ...]]:
    for line in chart.series:
        none: tuple[Number, ...] = (None,) * len(line.x)
        ranges = zip(line.low or none, line.high or none, strict=True)
        for x, y, (low, high) in zip(line.x, line.y, ranges, strict=True):
            yield chart.title, chart.group, line.agent, line.name, x, y, low, high


def _bars(bars: Bars) -> Iterator[tuple[Any, ...]]:
    for bar in bars.bars:
        yield bars.agent, bars.baseline, bars.unit, bar.label, bar.value, bar.low, bar.high


def _csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """Numbers in full; an empty place where there is none."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue().encode("utf-8", "replace")


def _json(tables: Sequence[Table], bars: Sequence[Bars]) -> bytes:
    """Tables and improvements; the lines are many, and in curves.csv."""
    document = {
        "tables": {
            table.name: {
                "title": table.title,
                "caption": table.caption,
                "columns": table.columns,
                "rows": [[_cell(cell) for cell in row] for row in table.rows],
            }
            for table in tables
        },
        "improvements": [
            {
                "agent": x.agent,
                "baseline": x.baseline,
                "unit": x.unit,
                "environments": {b.label: [b.value, b.low, b.high] for b in x.bars},
            }
            for x in bars
        ],
    }
    return (json.dumps(document, indent=1, ensure_ascii=True) + "\n").encode()


def _cell(cell) -> Any:
    return cell.text if cell.value is None else cell.value
