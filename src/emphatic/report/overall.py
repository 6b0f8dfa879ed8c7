"""Curves over all games: the median score while training, and performance profiles."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from emphatic.evaluation import statistics
from emphatic.report.collect import Collection
from emphatic.report.comparison import DRAWS
from emphatic.report.content import Chart, Series
from emphatic.report.measures import Measured
from emphatic.report.summaries import RunSummary

GRID = 100
"""Points of the median's curve."""
WINDOW = 0.05
"""Each is the mean of the learning curve's points over this part of a run before it: episodes
end when they like."""
THRESHOLDS = 101


def median_curve(collection: Collection, measured: Measured) -> Chart | None:
    """The paper's Figure 7: the median over games while training, with its spread over seeds.

    For each seed the median over games; of these the mean, and one standard deviation.
    Where lengths differ, runs are laid beside each other by the part that is done.
    """
    if not measured.summed:
        return None
    fraction = _fraction(collection.runs)
    scale = 1.0 if measured.reference is None else 100.0
    series = []
    for agent in measured.agents:
        by_game = _runs_by_game(collection, measured, agent)
        grid = _grid([run for runs in by_game for run in runs], fraction)
        curves = scale * np.stack(
            [[_scored(measured, run, grid, fraction) for run in runs] for runs in by_game], axis=1
        )
        medians = np.median(curves, axis=1)
        middle, spread = medians.mean(axis=0), _deviation(medians)
        series.append(_series(agent, grid, middle, spread))
    games = len(measured.summed)
    what = measured.summed[0] if games == 1 else f"median over {games} games"
    return Chart(
        name="median",
        title=f"{_score(measured)[:1].upper()}{_score(measured)[1:]} while training, {what}",
        x_label="part of the run" if fraction else "environment steps",
        y_label=_score(measured),
        series=tuple(series),
        caption=(
            f"Each point is the mean of a run's learning curve over the {WINDOW:.0%} of the run "
            "before it, up to where every run of the agent has come; the line is the mean over "
            "seeds, the band one standard deviation over seeds."
        ),
    )


def profiles(measured: Measured) -> Chart | None:
    """How large a part of all runs scores above each threshold, pooled over games and seeds."""
    if not measured.summed:
        return None
    matrices = {agent: measured.matrix(agent) for agent in measured.agents}
    scale = 1.0 if measured.reference is None else 100.0
    thresholds = _thresholds(list(matrices.values()))
    series = []
    for agent, matrix in matrices.items():
        draws = statistics.profile_draws(matrix, thresholds, DRAWS, np.random.default_rng(0))
        low, high = statistics.interval(draws)
        x, y = scale * thresholds, statistics.profile(matrix, thresholds)
        series.append(
            Series(
                agent=agent, x=tuple(x.tolist()), y=_tuple(y), low=_tuple(low), high=_tuple(high)
            )
        )
    return Chart(
        name="profiles",
        title="Performance profiles",
        x_label=_score(measured),
        y_label="part of runs above it",
        series=tuple(series),
        caption=(
            "Higher is better at every score. Bands of 95%: stratified bootstrap over the seeds "
            f"of each game, {DRAWS:,} draws. Where lines cross, neither agent is better everywhere."
        ),
    )


def _runs_by_game(collection: Collection, measured: Measured, agent: str) -> list[list[RunSummary]]:
    """The runs that make `measured.matrix(agent)`: a list of games of lists of seeds."""
    runs = {(collection.labels[r.name], r.environment, r.seed): r for r in collection.runs}
    number = measured.number_of_runs[agent]
    return [
        [runs[agent, game, seed] for seed in sorted(measured.seeds(agent, game))[:number]]
        for game in measured.summed
    ]


def _fraction(runs: Sequence[RunSummary]) -> bool:
    """Whether steps of different runs cannot be compared, since the runs are not equally long."""
    return len({run.steps_planned for run in runs}) > 1


def _grid(runs: Sequence[RunSummary], fraction: bool) -> Float[np.ndarray, " X"]:
    """Up to where every one of an agent's runs has come."""
    done = min((run.steps / run.steps_planned if fraction else run.steps) for run in runs)
    return np.linspace(0, done, GRID + 1)[1:]


def _scored(
    measured: Measured, run: RunSummary, grid: Float[np.ndarray, " X"], fraction: bool
) -> Float[np.ndarray, " X"]:
    """Scores of a run while it was trained."""
    steps = grid * run.steps_planned if fraction else grid
    returns = smoothed(run, steps)
    if measured.reference is None:
        return returns
    return measured.reference.normalised(run.environment, returns)


def smoothed(run: RunSummary, steps: Float[np.ndarray, " X"]) -> Float[np.ndarray, " X"]:
    """Mean of the curve's points in the window before each of `steps`, each a mean of episodes.

    Where no episode ended in a window, what was known before it; before the first
    episode, the first that will be known.
    """
    at = np.array(run.curve.steps, float)
    values = np.array([np.nan if x is None else x for x in run.curve.mean_return], float)
    at, values = at[np.isfinite(values)], values[np.isfinite(values)]
    if not len(at):
        return np.full(len(steps), np.nan)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    last = np.searchsorted(at, steps, side="right")
    first = np.searchsorted(at, steps - WINDOW * run.steps_planned, side="right")
    last = np.maximum(last, 1)
    first = np.minimum(first, last - 1)
    return (sums[last] - sums[first]) / (last - first)


def _thresholds(matrices: Sequence[Float[np.ndarray, "_ games"]]) -> Float[np.ndarray, " T"]:
    """From the lowest score, or 0, to what nine in ten of all scores lie below."""
    every = np.concatenate([matrix.ravel() for matrix in matrices])
    low, high = min(0.0, float(np.percentile(every, 10))), float(np.percentile(every, 90))
    return np.linspace(low, high if high > low else low + 1.0, THRESHOLDS)


def _deviation(values: Float[np.ndarray, "runs X"]) -> Float[np.ndarray, " X"] | None:
    return values.std(axis=0, ddof=1) if len(values) > 1 else None


def _series(
    agent: str,
    x: Float[np.ndarray, " X"],
    middle: Float[np.ndarray, " X"],
    spread: Float[np.ndarray, " X"] | None,
) -> Series:
    if spread is None:
        return Series(agent=agent, x=tuple(x.tolist()), y=_tuple(middle))
    low, high = _tuple(middle - spread), _tuple(middle + spread)
    return Series(agent=agent, x=tuple(x.tolist()), y=_tuple(middle), low=low, high=high)


def _tuple(values: np.ndarray) -> tuple[float | None, ...]:
    """Six digits, which is more than a chart shows; None for what is not a number."""
    return tuple(float(f"{v:.6g}") if np.isfinite(v) else None for v in values.tolist())


def _score(measured: Measured) -> str:
    if measured.reference is None:
        return "mean return"
    return f"{measured.reference.name} score (%)"
