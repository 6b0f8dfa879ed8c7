"""Learning curves and the health of heads, of runs of the same agent and environment.

A line is the mean over seeds at steps that all of them have reached, so no line jumps where a
seed stops; around it lie the lowest and the highest seed. Of the largest emphasis, the largest.
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from emphatic.report.collect import Collection
from emphatic.report.content import Chart, Number, Series
from emphatic.report.summaries import RunSummary

POINTS = 120
"""Of a line."""
FEW_POINTS = 50
"""Of a line, where there are many environments."""
MANY = 20
"""More environments than that are many."""
STEPS = "environment steps"
HEALTH = {
    "emphasis": (
        "Mean emphasis F",
        "What weighs an auxiliary head's updates. Near 1 throughout, the emphasis has switched "
        "itself off and the agent is Surreal again. The main head's weight is always 1.",
    ),
    "emphasis_max": (
        "Largest emphasis F",
        "The largest weight of any step. Rare tall spikes are what unclipped ratios do.",
    ),
    "clipped_rho": (
        "Mean clipped ratio min(1, ρ)",
        "How much a head agrees with what the behaviour policy did. The main head stays near 1; "
        "an auxiliary head below 0.8 has drifted away, and its emphasis shrinks.",
    ),
    "kl": (
        "KL(behaviour ‖ head), nats",
        "How far a head's policy is from the one that acted. Near 0 for the main head: the "
        "actors lag by little.",
    ),
    "entropy": (
        "Entropy of the policy, nats",
        "Falls slowly as an agent makes up its mind; near 0 early on, its policy has collapsed.",
    ),
    "value_bias": (
        "Mean of target minus value",
        "Near 0 when a head's values follow their targets.",
    ),
    "gradient_norm": (
        "Gradient norm before clipping",
        "Of all heads together. Steady is healthy; growth without end is not.",
    ),
}
"""Title and plain words of a head's curves, by their name in metrics.jsonl (docs/agent.md)."""


Curve = tuple[Sequence[int | float], Sequence[Number]]
"""Steps and values of one seed."""


def learning(collection: Collection) -> list[Chart]:
    """The mean training return by environment."""
    points = _points(collection)
    return [
        Chart(
            name=f"curve-{place}",
            title=environment,
            x_label=STEPS,
            y_label="mean return of training episodes",
            series=tuple(
                _with_spread(agent, *binned([_returns(run) for run in runs], points))
                for agent, runs in by_agent.items()
            ),
            group=environment,
            kind="learning-curves",
        )
        for place, (environment, by_agent) in enumerate(grouped(collection).items())
    ]


def health(collection: Collection) -> list[Chart]:
    """A chart of each measure in each environment, with a line for each head."""
    points = min(_points(collection), FEW_POINTS)
    found = []
    for place, (environment, by_agent) in enumerate(grouped(collection).items()):
        for measure, (title, caption) in HEALTH.items():
            series = [
                line
                for agent, runs in by_agent.items()
                for line in _heads(agent, runs, measure, points)
            ]
            if series:
                chart = Chart(
                    name=f"{measure.replace('_', '-')}-{place}",
                    title=title,
                    x_label=STEPS,
                    y_label=title,
                    series=tuple(series),
                    caption=caption,
                    group=environment,
                    kind="health",
                    log=measure == "emphasis_max" and _wide(series),
                )
                found.append(chart)
    return found


def grouped(collection: Collection) -> dict[str, dict[str, list[RunSummary]]]:
    """Runs by environment and agent."""
    found: dict[str, dict[str, list[RunSummary]]] = {}
    for run in collection.runs:
        by_agent = found.setdefault(run.environment, {})
        by_agent.setdefault(collection.labels[run.name], []).append(run)
    return {
        environment: dict(sorted(found[environment].items()))
        for environment in collection.environments
    }


def binned(
    curves: Sequence[Curve], points: int, *, largest: bool = False
) -> tuple[Float[np.ndarray, " P"], Float[np.ndarray, "seeds P"]]:
    """Curves on a common grid of at most `points` steps, up to where the shortest ends.

    The grid is part of the coarsest curve's own steps; the value at one of them is the mean (or
    the largest) of a curve's points since the one before, NaN where there are none.
    """
    last = min(steps[-1] for steps, _ in curves)
    own = min(([s for s in steps if s <= last] for steps, _ in curves), key=len)
    if not own:
        return np.empty(0), np.empty((len(curves), 0))
    ends = np.linspace(0, len(own), min(points, len(own)) + 1).astype(int)[1:] - 1
    grid = np.array(own, float)[ends]
    return grid, np.stack([_until(grid, *curve, largest=largest) for curve in curves])


def _until(
    grid: Float[np.ndarray, " P"],
    steps: Sequence[int | float],
    values: Sequence[Number],
    *,
    largest: bool,
) -> Float[np.ndarray, " P"]:
    """The mean (the largest) of the values in each stretch that ends at a step of the grid."""
    y = np.array([np.nan if v is None else v for v in values], float)
    place = np.searchsorted(grid, np.asarray(steps, float), side="left")
    there = np.isfinite(y) & (place < len(grid))
    count = np.bincount(place[there], minlength=len(grid))
    if largest:
        found = np.full(len(grid), -np.inf)
        np.maximum.at(found, place[there], y[there])
    else:
        found = np.bincount(place[there], weights=y[there], minlength=len(grid))
        found = found / np.maximum(count, 1)
    return np.where(count > 0, found, np.nan)


def _with_spread(
    agent: str, grid: Float[np.ndarray, " P"], values: Float[np.ndarray, "seeds P"]
) -> Series:
    """Mean over seeds, where all have a value; with several seeds, the range of them."""
    several = len(values) > 1
    return Series(
        agent=agent,
        x=tuple(grid.tolist()),
        y=_plain(values.mean(axis=0)),
        low=_plain(values.min(axis=0)) if several else (),
        high=_plain(values.max(axis=0)) if several else (),
    )


def _returns(run: RunSummary) -> Curve:
    return run.curve.steps, run.curve.mean_return


def _heads(agent: str, runs: Sequence[RunSummary], measure: str, points: int) -> list[Series]:
    """A line for each head that all seeds have; none for a main head's weight, which is 1."""
    by_run = [_of_heads(run, measure) for run in runs]
    first = 1 if measure.startswith("emphasis") else 0
    found = []
    for head in range(first, min(map(len, by_run))):
        curves = [(run.health.steps, of[head]) for run, of in zip(runs, by_run, strict=True)]
        largest = measure.endswith("_max")
        grid, values = binned(curves, points, largest=largest)
        y = _plain(values.max(axis=0) if largest else values.mean(axis=0))
        name = "main head" if head == 0 else f"auxiliary {head}"
        name = "" if measure == "gradient_norm" else name
        found.append(Series(agent=agent, x=tuple(grid.tolist()), y=y, dash=head, name=name))
    return found


def _of_heads(run: RunSummary, measure: str) -> Sequence[Sequence[Number]]:
    """Of each head; the gradient's norm is one number for all of them."""
    found = getattr(run.health, measure)
    return (found,) if measure == "gradient_norm" else found


def _wide(series: Sequence[Series]) -> bool:
    """Whether the largest value is over a hundred times the smallest, and all are above 0."""
    values = [y for line in series for y in line.y if y is not None]
    return bool(values) and min(values) > 0 and max(values) > 100 * min(values)


def _points(collection: Collection) -> int:
    return POINTS if len(collection.environments) <= MANY else FEW_POINTS


def _plain(values: Float[np.ndarray, " P"]) -> tuple[Number, ...]:
    """Five digits, and None for what is no number."""
    return tuple(float(f"{v:.5g}") if math.isfinite(v) else None for v in values.tolist())
