"""The tables of a report: the paper's Table 2, its intervals, scores by game, comparisons."""

import csv
import io
from collections.abc import Callable, Sequence

import numpy as np

from emphatic.evaluation import scores, statistics
from emphatic.evaluation.statistics import Statistic
from emphatic.report.comparison import DRAWS, Comparison
from emphatic.report.content import Cell, Table
from emphatic.report.measures import Measured
from emphatic.report.sentences import p_value

PAPERS: dict[str, Statistic] = {
    "Median": statistics.percentile(50.0),
    "Mean": statistics.mean,
    "40th percentile": statistics.percentile(40.0),
    "30th percentile": statistics.percentile(30.0),
    "20th percentile": statistics.percentile(20.0),
    "10th percentile": statistics.percentile(10.0),
}
"""The rows of the paper's Table 2 that are scores, in its order."""
BESIDE: dict[str, Statistic] = {
    "Median of the games' means": statistics.percentile_of_means(50.0),
    "Interquartile mean": statistics.interquartile_mean,
}
"""The other order of averaging, and what Agarwal et al. recommend."""
OF_ONE = ("Mean", "Interquartile mean")
"""Those that say something of a single environment."""
GAP = "Optimality gap"


def summary(measured: Measured) -> Table | None:
    """The paper's Table 2 for these runs; None where nothing can be summed up over games."""
    if not measured.summed:
        return None
    matrices = [measured.matrix(agent) for agent in measured.agents]
    scale = _scale(measured)
    rows = [
        _row(name, [scale * float(of(m)) for m in matrices])
        for name, of in _chosen(measured, PAPERS | BESIDE).items()
    ]
    if measured.reference is not None:
        count = len(measured.summed)
        reached = [float(statistics.above(1.0)(m)) for m in matrices]
        above = _row(f"Games above {_one(measured)}", reached, lambda x: f"{x:.0f}/{count}")
        rows.insert(len(_chosen(measured, PAPERS)), above)
        gaps = [scale * float(statistics.optimality_gap(m)) for m in matrices]
        rows.append(_row(GAP, gaps, least=True))
    return Table(
        name="summary",
        title=f"{_title(measured)}, {_games(measured)}",
        columns=("Statistic", *measured.agents),
        rows=tuple(rows),
        agents=(None, *measured.agents),
        caption=(
            f"{_order(measured)}{_runs(measured)} "
            "The best of each row is bold, whether or not it is by chance."
        ),
    )


def intervals(measured: Measured) -> Table | None:
    """Some rows of the summary with the interval that resampling the seeds gives, if any."""
    if not measured.summed or max(measured.number_of_runs.values()) == 1:
        return None
    chosen = _chosen(measured, {k: PAPERS[k] for k in ("Median", "Mean")} | BESIDE)
    if measured.reference is not None:
        chosen[GAP] = statistics.optimality_gap
    rows = [
        _with_interval(measured, agent, name, of)
        for name, of in chosen.items()
        for agent in measured.agents
    ]
    return Table(
        name="intervals",
        title="The same with intervals of 95%",
        columns=("Statistic", "Agent", "Value", "From", "To"),
        rows=tuple(rows),
        row_agents=measured.agents * len(chosen),
        caption=(
            f"Stratified bootstrap, {DRAWS:,} draws of the seeds of each game; the games are taken "
            "as given, so an interval speaks of these games played again, not of others. With one "
            "seed there is none."
        ),
    )


def returns(measured: Measured) -> Table | None:
    """Mean return by environment and agent, with its standard error over seeds."""
    if not measured.environments:
        return None
    return Table(
        name="returns",
        title=f"Mean return, {_what(measured)}",
        columns=("Environment", *measured.agents),
        rows=tuple(
            (Cell(text=environment), *_best(_spread_cells(measured, environment)))
            for environment in measured.environments
        ),
        agents=(None, *measured.agents),
        caption="± is the standard error over seeds; in brackets, the number of seeds.",
    )


def game_scores(measured: Measured) -> Table | None:
    """Scores by game; None where returns have no scale."""
    reference = measured.reference
    games = [e for e in measured.environments if reference is not None and reference.knows(e)]
    if not games:
        return None
    rows = []
    for game in games:
        found = [measured.scores(agent, game) for agent in measured.agents]
        values = [100 * float(x.mean()) if len(x) else None for x in found]
        rows.append(_row(scores.game_of(game), values))
    return Table(
        name="scores",
        title=f"{_title(measured)}, by game",
        columns=("Game", *measured.agents),
        rows=tuple(rows),
        agents=(None, *measured.agents),
        caption="Means over seeds.",
    )


COMPARED = (
    *("Agent", "Baseline", "Games", "Better on", "Worse on", "p one-sided", "p two-sided"),
    *("p adjusted", "Pairs of game and seed", "Better on pairs", "p of pairs, one-sided"),
    *("p of pairs, two-sided", "p of runs", "p of runs, adjusted", "P(better)", "95% from", "to"),
)


def comparisons(made: Sequence[Comparison]) -> Table | None:
    """A line for each agent and baseline."""
    if not made:
        return None
    return Table(
        name="comparisons",
        title=f"Against {', '.join(sorted({c.baseline for c in made}))}",
        columns=COMPARED,
        rows=tuple(_compared(c) for c in made),
        row_agents=tuple(c.agent for c in made),
        caption=(
            "Sign tests. Games are independent pairs; pairs of game and seed are not, and are "
            "shown as the paper has them. Of runs: the rank test, two-sided. Adjusted: Holm, "
            "two-sided, on games. Where resampling the seeds finds no spread there is no interval."
        ),
    )


def as_csv(table: Table) -> bytes:
    """A column for a column; numbers in full where a place has one."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    for row in table.rows:
        writer.writerow([c.text if c.value is None else repr(_plain(c.value)) for c in row])
    return out.getvalue().encode("utf-8", "replace")


def _chosen(measured: Measured, rows: dict[str, Statistic]) -> dict[str, Statistic]:
    """Of one environment there are no percentiles over games."""
    alone = len(measured.summed) == 1
    return {name: of for name, of in rows.items() if not alone or name in OF_ONE}


def _row(
    name: str,
    values: Sequence[float | None],
    shown: Callable[[float], str] = "{:.2f}".format,
    *,
    least: bool = False,
) -> tuple[Cell, ...]:
    """A name and its numbers, the best marked."""
    cells = [Cell(text="" if v is None else shown(v), value=v) for v in values]
    return (Cell(text=name), *_best(cells, least=least))


def _best(cells: Sequence[Cell], *, least: bool = False) -> tuple[Cell, ...]:
    """With those marked that show the best number; of a single one there is no best."""
    there = [cell.value for cell in cells if cell.value is not None]
    if len(there) < 2:
        return tuple(cells)
    best = min(there) if least else max(there)
    return tuple(Cell(text=cell.text, value=cell.value, best=cell.value == best) for cell in cells)


def _with_interval(measured: Measured, agent: str, name: str, of: Statistic) -> tuple[Cell, ...]:
    """Draws start from the same generator each time: other agents in the report change nothing."""
    matrix, scale = measured.matrix(agent), _scale(measured)
    numbers: list[float | None] = [scale * float(of(matrix)), None, None]
    if len(matrix) > 1:
        again = statistics.resampled(matrix, DRAWS, np.random.default_rng(0))
        low, high = statistics.interval(np.asarray(scale * of(again)))
        numbers[1:] = float(low), float(high)
    cells = (Cell(text="" if x is None else f"{x:.2f}", value=x) for x in numbers)
    return Cell(text=name), Cell(text=agent), *cells


def _spread_cells(measured: Measured, environment: str) -> list[Cell]:
    cells = []
    for agent in measured.agents:
        found = measured.returns(agent, environment)
        if not len(found):
            cells.append(Cell(text=""))
            continue
        error = f" ± {found.std(ddof=1) / len(found) ** 0.5:.2f}" if len(found) > 1 else ""
        text = f"{found.mean():.2f}{error} ({len(found)})"
        cells.append(Cell(text=text, value=float(found.mean())))
    return cells


def _compared(c: Comparison) -> tuple[Cell, ...]:
    interval = c.probability_interval if c.spread else ()
    games, pairs = c.on_games, c.on_seeds
    counts = (len(c.games), games.wins, games.losses)
    return (
        Cell(text=c.agent),
        Cell(text=c.baseline),
        *(Cell(text=str(n), value=n) for n in counts),
        *(_p(p) for p in (games.one_sided, games.two_sided, c.adjusted)),
        *(Cell(text=str(n), value=n) for n in (pairs.pairs, pairs.wins)),
        *(_p(p) for p in (pairs.one_sided, pairs.two_sided)),
        *(_p(p) for p in (c.on_runs.two_sided, c.adjusted_on_runs)),
        *(Cell(text=f"{x:.3f}", value=x) for x in (c.probability, *interval)),
        *(() if interval else (Cell(text=""), Cell(text=""))),
    )


def _p(p: float) -> Cell:
    return Cell(text=p_value(p), value=p)


def _scale(measured: Measured) -> float:
    """Per cent of the reference's scale, or returns as they are."""
    return 1.0 if measured.reference is None else 100.0


def _one(measured: Measured) -> str:
    """What a score of 1 is."""
    reference = measured.reference
    if reference is None or reference.name == "human-normalised":
        return "human"
    return "1" if not reference.name.startswith("relative to ") else reference.name[12:]


def _title(measured: Measured) -> str:
    if measured.reference is None:
        return "Mean return"
    return f"{measured.reference.name.capitalize()} score, per cent"


def _games(measured: Measured) -> str:
    games = measured.summed
    return games[0] if len(games) == 1 else f"{len(games)} games"


def _order(measured: Measured) -> str:
    if len(measured.summed) == 1:
        return ""
    return "Percentiles are taken over games with each seed and averaged over seeds. "


def _runs(measured: Measured) -> str:
    counts = sorted(set(measured.number_of_runs.values()))
    seeds = " or ".join(map(str, counts))
    return f"{seeds} {'seed' if counts == [1] else 'seeds'} a game, {_what(measured)}."


def _what(measured: Measured) -> str:
    if measured.measure == "evaluation":
        return "evaluation phase"
    return "episodes in the last tenth of training"


def _plain(value: float | int) -> float | int:
    return value if isinstance(value, int) else float(value)
