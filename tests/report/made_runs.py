"""Run folders as training leaves them, made without training."""

import json
from pathlib import Path

from emphatic.agent import presets
from emphatic.runtime import configs, runs
from emphatic.runtime.settings import TrainConfig

PER_UPDATE = 320
UPDATES = 300


def line(update, level, heads=3):
    """A line of metrics.jsonl; every third has no episode."""
    done = update / UPDATES
    per_head = {
        "emphasis": [1.0, 1.0 + done, 1.5],
        "emphasis_max": [1.0, 2.0 + done, float(update == 7) * 90 + 3.0],
        "clipped_rho": [1.0, 0.9, 0.8],
        "kl": [0.0, 0.1, 0.2],
        "entropy": [1.0 - done / 2, 1.0, 1.0],
        "value_bias": [0.01, -0.02, 0.03],
    }
    ended = 0 if update % 3 == 0 else 2
    return {
        "update": update,
        "steps": update * PER_UPDATE,
        "episodes": ended,
        "return": level * done if ended else None,
        **{name: values[:heads] for name, values in per_head.items()},
        "gradient_norm": 0.5,
    }


def make(
    folder: Path,
    *,
    env="catch",
    agent="netd-ace",
    seed=0,
    level=1.0,
    updates=UPDATES,
    evaluated=None,
    learner=None,
    versions=None,
) -> Path:
    """A run that learned evenly up to `level`; `evaluated` is what its evaluation found."""
    learner = presets.preset("catch", agent) if learner is None else learner
    config = TrainConfig(env=env, seed=seed, steps=UPDATES * PER_UPDATE, learner=learner)
    command = ["emphatic", "train", "--agent", agent, "--out", str(folder)]
    with runs.Run.create(
        folder,
        configs.to_json(config),
        environment={"name": env, "balls": 1},
        seed=seed,
        command=command,
        created="2026-01-01T00:00:00+00:00",
    ) as run:
        lines = [line(update, level) for update in range(1, updates + 1)]
        run.metrics.append(*lines)
        run.episodes.append(*(_episodes(x) for x in lines if x["episodes"]))
        timing = {"update": updates, "seconds": 10.0, "cpu_seconds": 20.0}
        run.timing.append(timing)
    if evaluated is not None:
        evaluation(folder, evaluated, steps=updates * PER_UPDATE)
    if versions is not None:
        _edit_versions(folder, versions)
    return folder


def evaluation(folder, mean, *, steps, episodes=100):
    spread = {"standard_deviation": 1.0, "standard_error": 0.1}
    found = {"steps": steps, "episodes": episodes, "mean": mean, "median": mean, **spread}
    runs.write_evaluation(folder, found)


def _episodes(metrics):
    """Two, half and whole the return of one and a half."""
    low, high = metrics["return"] * 2 / 3, metrics["return"] * 4 / 3
    steps = metrics["steps"]
    return {
        "update": metrics["update"],
        "steps": [steps - 1, steps],
        "returns": [low, high],
        "lengths": [9, 9],
    }


def _edit_versions(folder, versions):
    file = folder / "config.json"
    document = json.loads(file.read_bytes())
    document["versions"] |= versions
    file.write_text(json.dumps(document))
