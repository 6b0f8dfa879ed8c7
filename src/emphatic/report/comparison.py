"""Two agents against each other: paired by game and by seed."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from emphatic.evaluation import scores, statistics
from emphatic.evaluation.statistics import RankTest, SignTest
from emphatic.report.content import Bar, Bars
from emphatic.report.measures import Measured

DRAWS = 2000
"""Of every bootstrap."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Improvement:
    """Of one game: agent minus baseline, means over seeds."""

    environment: str
    difference: float
    interval: tuple[float, float] | None
    """95%, by Welch's t over seeds; None with a single seed."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """An agent against a baseline, on the games both have runs of."""

    agent: str
    baseline: str
    games: tuple[str, ...]
    on_games: SignTest
    """A pair is a game: means over seeds. Games are independent, so this is the sound one."""
    on_seeds: SignTest
    """A pair is a game and a seed, as in the paper. Seeds of a game are no independent games."""
    adjusted: float
    """Two-sided p of `sound`, by Holm's method for all comparisons of the report."""
    on_runs: RankTest
    """Of every run against every run of a game: whether seeds alone explain the difference."""
    adjusted_on_runs: float
    """Its two-sided p, adjusted like `adjusted`."""
    probability: float
    """That a run of the agent beats a run of the baseline, mean over games."""
    probability_interval: tuple[float, float]
    """95%, stratified bootstrap."""
    improvements: tuple[Improvement, ...]
    unit: str

    @property
    def sound(self) -> SignTest:
        """The test to rely on: on games, or on seeds where there is one environment alone."""
        return self.on_seeds if len(self.games) == 1 else self.on_games

    @property
    def spread(self) -> bool:
        """Whether resampling the seeds finds any: else the interval means nothing."""
        low, high = self.probability_interval
        return low < high


def compare_all(measured: Measured, baseline: str) -> list[Comparison]:
    """Every other agent against the baseline."""
    others = [agent for agent in measured.agents if agent != baseline]
    made = [compare(measured, agent, baseline) for agent in others]
    made = [comparison for comparison in made if comparison.games]
    adjusted = statistics.holm([comparison.sound.two_sided for comparison in made])
    on_runs = statistics.holm([comparison.on_runs.two_sided for comparison in made])
    return [
        dataclasses.replace(comparison, adjusted=p, adjusted_on_runs=q)
        for comparison, p, q in zip(made, adjusted, on_runs, strict=True)
    ]


def compare(measured: Measured, agent: str, baseline: str) -> Comparison:
    """One agent against another."""
    games = measured.games((agent, baseline))
    on_games = statistics.sign_test_of(
        np.array([measured.returns(agent, game).mean() for game in games]),
        np.array([measured.returns(baseline, game).mean() for game in games]),
    )
    probability, interval = _probability(measured, agent, baseline, games)
    on_runs = statistics.rank_test(
        [(measured.returns(agent, game), measured.returns(baseline, game)) for game in games]
    )
    made = Comparison(
        agent=agent,
        baseline=baseline,
        games=games,
        on_games=on_games,
        on_seeds=statistics.sign_test_of(*_pairs(measured, agent, baseline, games)),
        adjusted=1.0,
        on_runs=on_runs,
        adjusted_on_runs=on_runs.two_sided,
        probability=probability,
        probability_interval=interval,
        improvements=tuple(
            found for g in games if (found := _improvement(measured, agent, baseline, g))
        ),
        unit=_unit(measured, baseline),
    )
    return dataclasses.replace(made, adjusted=made.sound.two_sided)


def bars(comparison: Comparison) -> Bars:
    """The paper's bar plot: improvement by game, the largest first."""
    ordered = sorted(comparison.improvements, key=lambda i: (-i.difference, i.environment))
    return Bars(
        name=f"improvement-{comparison.agent}-over-{comparison.baseline}",
        title=f"{comparison.agent} against {comparison.baseline}, by environment",
        agent=comparison.agent,
        baseline=comparison.baseline,
        unit=comparison.unit,
        bars=tuple(_bar(improvement) for improvement in ordered),
        caption="Means over seeds; intervals of 95%, by Welch's t over the seeds of each game.",
    )


def _pairs(
    measured: Measured, agent: str, baseline: str, games: Sequence[str]
) -> tuple[Float[np.ndarray, " pairs"], Float[np.ndarray, " pairs"]]:
    """Returns of both with the same game and seed."""
    pairs = [
        (measured.found[agent, game][seed], measured.found[baseline, game][seed])
        for game in games
        for seed in sorted(measured.seeds(agent, game) & measured.seeds(baseline, game))
    ]
    x, y = np.array(pairs, float).reshape(-1, 2).T
    return x, y


def _probability(
    measured: Measured, agent: str, baseline: str, games: Sequence[str]
) -> tuple[float, tuple[float, float]]:
    """Game by game, since games may have different numbers of runs."""
    if not games:
        return 0.5, (0.0, 1.0)
    generator = np.random.default_rng(0)
    values, draws = [], []
    for game in games:
        x, y = (measured.returns(a, game)[:, None] for a in (agent, baseline))
        values.append(statistics.probability_of_improvement(x, y))
        draws.append(statistics.improvement_draws(x, y, DRAWS, generator))
    low, high = statistics.interval(np.mean(draws, axis=0))
    return float(np.mean(values)), (float(low), float(high))


def _unit(measured: Measured, baseline: str) -> str:
    if measured.reference is None:
        return f"per cent of the mean return of {baseline}"
    return f"percentage points of {measured.reference.name} score"


def _improvement(measured: Measured, agent: str, baseline: str, game: str) -> Improvement | None:
    """In percentage points of the scale; without one, in per cent of the baseline's return."""
    if measured.reference is None:
        x, y = measured.returns(agent, game), measured.returns(baseline, game)
        scale = abs(float(y.mean()))
    elif measured.reference.knows(game):
        x, y, scale = measured.scores(agent, game), measured.scores(baseline, game), 1.0
    else:
        return None
    if scale == 0:
        return None
    x, y = 100 * x / scale, 100 * y / scale
    return Improvement(
        environment=game,
        difference=float(x.mean() - y.mean()),
        interval=statistics.difference_interval(x, y),
    )


def _bar(i: Improvement) -> Bar:
    low, high = i.interval or (None, None)
    return Bar(label=scores.game_of(i.environment), value=i.difference, low=low, high=high)
