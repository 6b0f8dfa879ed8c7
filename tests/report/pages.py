"""Collections to make pages of, and names that try to be more than names."""

import dataclasses

import numpy as np
import synthetic

from emphatic.report import analysis, page
from emphatic.report.collect import Collection
from emphatic.report.summaries import PER_HEAD

HOSTILE = (
    "</script><img src=x onerror=window.pwned=1>",
    '"><svg onload=window.pwned=2>',
    "' onmouseover='window.pwned=3",
    "{{$body}} $x$ \\frac{1}{2} __proto__",
    "</style><style>*{display:none}</style>",
    "javascript:window.pwned=4//.gif",
    "line\u2028separator \u202e right to left \ud800 & &amp;",
    "]]><!-- --><iframe src='javascript:window.pwned=5'>",
)


GAMES = tuple(game.removeprefix("atari/") for game in synthetic.GAMES)


def collection(agents=("netd-ace", "surreal"), games=("pong", "breakout"), seeds=(0, 1)):
    """Of the synthetic study, a part."""
    runs = [
        wavy(synthetic.summary(agent, f"atari/{game}", seed))
        for game in sorted(games)
        for agent in sorted(agents)
        for seed in seeds
    ]
    return Collection(runs=tuple(runs), problems=(), labels={run.name: run.agent for run in runs})


def wavy(run, points=200, health_points=50):
    """With as many points as a real run has, none like another."""
    generator = np.random.default_rng([run.seed, *run.name.encode()])
    steps = np.linspace(0, run.steps, points + 1)[1:].astype(int)
    level = run.evaluation.mean * np.linspace(0.1, 1, points)
    returns = level + abs(run.evaluation.mean) * 0.05 * generator.normal(size=points)
    curve = dataclasses.replace(
        run.curve, steps=tuple(steps.tolist()), mean_return=tuple(map(_short, returns))
    )
    heads = {
        name: tuple(
            tuple(map(_short, generator.uniform(0.5, 1.5, health_points)))
            for _ in getattr(run.health, name)
        )
        for name in PER_HEAD
    }
    health = dataclasses.replace(
        run.health,
        steps=tuple(np.linspace(0, run.steps, health_points + 1)[1:].astype(int).tolist()),
        gradient_norm=tuple(map(_short, generator.uniform(1, 2, health_points))),
        **heads,
    )
    return dataclasses.replace(run, curve=curve, health=health)


def _short(value):
    return float(f"{value:.5g}")


def hostile():
    """Every string of a run says what it should not."""
    runs, labels, folders = [], {}, {}
    for number, agent in enumerate(HOSTILE):
        for seed in (0, 1):
            run = synthetic.summary("netd-ace", "atari/pong", seed)
            name = f"{seed} {HOSTILE[-number]}"
            runs.append(
                dataclasses.replace(
                    run,
                    name=name,
                    environment=HOSTILE[number % 3],
                    agent=agent,
                    seed=seed,
                    versions={agent: HOSTILE[seed]},
                    command=HOSTILE,
                    created=HOSTILE[0],
                    config={**run.config, HOSTILE[0]: HOSTILE[number]},
                    settings={HOSTILE[1]: HOSTILE[2]},
                    animations=HOSTILE,
                )
            )
            labels[name] = agent
    return Collection(runs=tuple(runs), problems=HOSTILE, labels=labels, folders=folders)


def write(out, runs, *, title="a study", command=("emphatic", "report", "runs/a study")):
    """The whole report; index.html and what lies beside it."""
    found = analysis.analyse(runs)
    return page.write(
        out,
        runs,
        title=title,
        command=command,
        tables=found.tables,
        statements=found.statements,
        improvements=found.improvements,
        charts=found.charts,
        problems=found.measured.notes,
    )
