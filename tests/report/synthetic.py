"""A made-up Atari-57 study whose statistics are the paper's: summaries of runs, no run.

57 games x 3 seeds x 4 agents. The human-normalised scores of an agent over games are chosen so
that its column of the paper's Table 2 comes out; they are dealt out to games so that `netd-ace`
beats `surreal` on 100 of 171 pairs of game and seed, as in the paper, but on 33 of 57 games.
"""

import functools
from pathlib import Path

import numpy as np

from emphatic.agent import presets
from emphatic.envs import atari
from emphatic.evaluation import scores
from emphatic.report.collect import Collection, write_summaries
from emphatic.report.summaries import PER_HEAD, Health, LearningCurve, Returns, RunSummary
from emphatic.runtime import configs
from emphatic.runtime.settings import TrainConfig

GAMES = tuple(f"atari/{game}" for game in atari.GAMES)
SEEDS = (0, 1, 2)
STEPS = 50_000_000
POINTS = 20
TABLE2 = {
    "netd-ace": (497.21, 1793.47, 300.26, 162.91, 74.47, 4.88, 45),
    "netd": (427.69, 1507.85, 268.43, 169.42, 70.74, 4.3, 45),
    "nevtrace": (317.50, 1502.84, 186.95, 118.27, 28.28, 4.91, 43),
    "surreal": (403.47, 1565.42, 258.35, 163.90, 65.60, 4.25, 43),
}
"""The paper's: median, mean, 40th, 30th, 20th and 10th percentile, games above human of 57."""
WINS, PAIRS, GAMES_WON = 100, 171, 33
"""Of netd-ace against surreal."""


def levels(median, mean, p40, p30, p20, p10, above):
    """57 scores in ascending order with these statistics.

    A percentile q lies at place 0.56 q between two of them: 5.6, 11.2, 16.8, 22.4 and 28.
    """
    first, second = (p20, p20) if above == 43 else (p20 - 10, p20 + 40)
    knots = {0: p10 / 2, 5: p10, 6: p10, 11: first, 12: second, 16: p30, 17: p30}
    knots |= {22: p40, 23: p40, 28: median, 29: 1.1 * median, 55: 4 * median}
    if above == 43:
        knots |= {13: 90.0, 14: 105.0}
    found = np.interp(np.arange(56), sorted(knots), [knots[k] for k in sorted(knots)])
    return np.append(found, 57 * mean - found.sum())


@functools.cache
def by_game(agent):
    """Scores in per cent, in the order of `GAMES`.

    Of netd-ace, the 23 lowest meet the 23 highest of surreal, one is a point below surreal's
    median, and the other 33 meet lower ones of surreal.
    """
    ordered = levels(*TABLE2[agent])
    if agent != "surreal":
        if agent == "netd-ace":
            ordered[27] = levels(*TABLE2["surreal"])[28] - 1.0
            ordered[56] += levels(*TABLE2[agent])[27] - ordered[27]
        return ordered
    lower = [i for i in range(34) if i != 28]
    places = [*range(34, 57), *lower[:4], 28, *lower[4:]]
    return ordered[places]


def score(agent, game, seed):
    """In per cent; the seeds' deviations have mean 0, so that no statistic above feels them."""
    tilt = (-2.0, 0.0, 2.0)[SEEDS.index(seed)]
    return by_game(agent)[GAMES.index(game)] + (-tilt if agent == "surreal" else tilt)


def summary(agent, game, seed):
    """A run that learned evenly from random play to its score."""
    reference = scores.human()
    low, high = reference.low[game], reference.high[game]
    percent = score(agent, game, seed)
    steps = np.linspace(0, STEPS, POINTS + 1)[1:].astype(int)
    mean = low + (high - low) * percent / 100
    return RunSummary(
        name=f"{game.replace('/', '-')}-{agent}-seed{seed}",
        environment=game,
        agent=agent,
        seed=seed,
        steps_planned=STEPS,
        steps=STEPS,
        curve=LearningCurve(
            steps=tuple(steps.tolist()),
            mean_return=tuple((low + (mean - low) * steps / STEPS).tolist()),
        ),
        health=health(agent, steps),
        training=Returns(
            steps=45_000_000,
            episodes=400,
            mean=low + 0.9 * (mean - low),
            median=low,
            standard_deviation=abs(mean) / 10,
            standard_error=abs(mean) / 200,
        ),
        evaluation=Returns(
            steps=STEPS,
            episodes=100,
            mean=mean,
            median=mean,
            standard_deviation=abs(mean) / 10,
            standard_error=abs(mean) / 100,
        ),
        config=config(agent) | {"env": game, "seed": seed},
        settings={"name": game, "protocol": "paper", "pixels": "rgb210", "action_repeat": 4},
        versions={"python": "3.11.7", "emphatic": "0.1.0", "jax": "0.10.2"},
        command=("emphatic", "train", "--env", game, "--agent", agent, "--seed", str(seed)),
        created="2026-01-01T00:00:00+00:00",
        seconds=36_000.0,
        cpu_seconds=280_000.0,
        animations=(),
    )


@functools.cache
def config(agent):
    learner = presets.preset("paper-fixed", agent)
    return configs.to_json(TrainConfig(env=GAMES[0], steps=STEPS, learner=learner))


def health(agent, steps):
    """Of three heads, straight lines; the main head's weight is 1."""
    done = steps / STEPS
    emphasis = 1.0 + (done if agent != "surreal" else 0.0 * done)
    values = {
        "emphasis": [1.0 + 0 * done, emphasis, emphasis],
        "emphasis_max": [1.0 + 0 * done, 3 * emphasis, 4 * emphasis],
        "clipped_rho": [1.0 - 0.01 * done, 1.0 - 0.2 * done, 1.0 - 0.3 * done],
        "kl": [0.001 * done, 0.1 * done, 0.2 * done],
        "entropy": [2.0 - done, 2.0 - 0.9 * done, 2.0 - 0.8 * done],
        "value_bias": [0.01 * done, 0.02 * done, -0.02 * done],
    }
    assert tuple(values) == PER_HEAD
    return Health(
        steps=tuple(steps.tolist()),
        gradient_norm=tuple((2.0 - done).tolist()),
        **{name: tuple(tuple(x.tolist()) for x in heads) for name, heads in values.items()},
    )


def runs(agents=tuple(TABLE2), games=GAMES, seeds=SEEDS):
    """All of them, or some."""
    return [summary(agent, game, seed) for game in games for agent in agents for seed in seeds]


def collection(found=None):
    """As `collect` makes it of their summaries."""
    found = runs() if found is None else found
    ordered = sorted(found, key=lambda run: (run.environment, run.agent, run.seed))
    labels = {run.name: run.agent for run in ordered}
    return Collection(runs=tuple(ordered), problems=(), labels=labels)


def write(folder: Path, found=None) -> Path:
    """A file for each run in `folder`, as `emphatic report --summaries` writes them."""
    write_summaries(collection(found), folder)
    return folder
