"""From a collection to all that a report shows, and to the files it is made of."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emphatic.errors import UserError
from emphatic.report import comparison, measures, overall, sentences, tables
from emphatic.report.collect import Collection
from emphatic.report.comparison import Comparison
from emphatic.report.content import Bars, Chart, Statement, Table
from emphatic.report.measures import Measure, Measured

BASELINES = ("surreal", "surreal-mixed", "impala", "impala-mixed", "main-only")
"""What others are compared with unless something else is asked for: the first that has runs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Analysis:
    """Everything a report shows besides the runs themselves."""

    measured: Measured
    baseline: str | None
    """None where there is one agent only."""
    comparisons: tuple[Comparison, ...]
    tables: tuple[Table, ...]
    statements: tuple[Statement, ...]
    improvements: tuple[Bars, ...]
    charts: tuple[Chart, ...]


def analyse(
    collection: Collection,
    *,
    pair: tuple[str, str] | None = None,
    baseline: str | None = None,
    reference: str | None = None,
    score: Measure | None = None,
) -> Analysis:
    """Measure the runs, sum them up, compare the agents; `pair` leaves out all agents but two."""
    if pair is not None and pair[0] == pair[1]:
        raise UserError("compare", f"needs two agents, not {pair[0]} twice")
    measured = measures.measure(collection, score=score, reference=reference)
    if pair is not None:
        measured = measures.restricted(measured, pair)
    against = _baseline(measured, pair[1] if pair else baseline)
    compared = comparison.compare_all(measured, against) if against else []
    if pair is not None and not compared:
        raise UserError("compare", f"{pair[0]} and {pair[1]} have no environment in common")
    made = (
        tables.summary(measured),
        tables.intervals(measured),
        tables.game_scores(measured),
        tables.returns(measured),
        tables.comparisons(compared),
    )
    curves = (overall.median_curve(collection, measured), overall.profiles(measured))
    return Analysis(
        measured=measured,
        baseline=against,
        comparisons=tuple(compared),
        tables=tuple(table for table in made if table is not None),
        statements=tuple(s for c in compared for s in sentences.statements(c)),
        improvements=tuple(comparison.bars(c) for c in compared if c.improvements),
        charts=tuple(chart for chart in curves if chart is not None),
    )


def write(collection: Collection, analysis: Analysis, folder: Path) -> Path:
    """analysis.json: what the tables are made of, each run's return and each test in full."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "analysis.json"
    document = json.dumps(as_json(collection, analysis), indent=1, allow_nan=False) + "\n"
    file.write_text(document, encoding="utf-8")
    return file


def as_json(collection: Collection, analysis: Analysis) -> dict[str, Any]:
    """The analysis as JSON data."""
    measured = analysis.measured
    return {
        "measure": measured.measure,
        "reference": measured.reference and measured.reference._asdict(),
        "baseline": analysis.baseline,
        "problems": [*collection.problems, *measured.notes],
        "returns": [_returns(measured, key) for key in sorted(measured.found)],
        **{
            name: [_plain(item) for item in getattr(analysis, name)]
            for name in ("comparisons", "statements")
        },
    }


def _baseline(measured: Measured, asked: str | None) -> str | None:
    if asked is not None and asked not in measured.agents:
        agents = ", ".join(measured.agents)
        raise UserError("baseline", f"no run is of {asked!r}; there is {agents}")
    if asked is not None or len(measured.agents) < 2:
        return asked if len(measured.agents) > 1 else None
    return next((b for b in BASELINES if b in measured.agents), measured.agents[0])


def _returns(measured: Measured, key: tuple[str, str]) -> dict[str, Any]:
    agent, environment = key
    by_seed = {str(seed): measured.found[key][seed] for seed in sorted(measured.found[key])}
    return {"agent": agent, "environment": environment, "by_seed": by_seed}


def _plain(value: Any) -> Any:
    """Dataclasses and named tuples as objects."""
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple | list) else value
