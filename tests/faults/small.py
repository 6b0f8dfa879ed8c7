"""Runs of seconds: Catch on a network of a few hundred weights, trained in this process."""

import functools

import pytest

from emphatic.agent.networks import NetworkConfig
from emphatic.agent.optimiser import OptimiserConfig
from emphatic.agent.surreal import AgentConfig
from emphatic.runtime import checkpoints, training
from emphatic.runtime.settings import TrainConfig


def config_of(agent="netd-ace", *, updates=40, seed=0, streams=2, unroll=6, **fields):
    learner = AgentConfig(
        agent=agent,
        n=3,
        unroll_length=unroll,
        num_streams=streams,
        discounts=(0.99, 0.95, 0.9),
        network=NetworkConfig(name="mlp", head_hidden=4),
        optimiser=OptimiserConfig(learning_rate=1e-2, epsilon=1e-4),
    )
    given = {"env": "catch", "env_settings": {"time_limit": 7}, "log_every": 2}
    given |= {"checkpoint_every": 4, **fields}
    steps = updates * learner.steps_per_update
    return TrainConfig(learner=learner, steps=steps, seed=seed, **given)


def options(said=None, progress=None):
    """Of `training.train` and `resume`."""
    say = print if said is None else said.append
    return {"progress": progress or (lambda line, seconds: None), "say": say}


def trained(path, config, **given):
    return training.train(path, config, command=[], created="", **options(**given))


@pytest.fixture
def compiled_once(monkeypatch):
    """Anakin's runtime keeps nothing between runs, so runs of one configuration may share it."""
    monkeypatch.setattr(training, "runtime_of", _shared(training.runtime_of))


def _shared(make):
    @functools.cache
    def of(text, keep):
        config, made, say = keep.value
        return make(config, made, say)

    class Keep:
        """Equal to any other: the text alone is the key."""

        def __init__(self, value):
            self.value = value

        def __eq__(self, other):
            return isinstance(other, Keep)

        def __hash__(self):
            return 0

    return lambda config, made, say: of(f"{config.learner} {config.env}", Keep((config, made, say)))


def results(path):
    """Everything of a run that is the same for the same configuration."""
    last = checkpoints.latest(path / "checkpoints").path
    files = [path / "metrics.jsonl", path / "episodes.jsonl", last / "arrays.bin"]
    return {file.name: file.read_bytes() for file in files} | {"last": last.name.encode()}
