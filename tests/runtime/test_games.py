"""Every Atari game through all of Sebulba: actors, stacking, learner, report."""

import functools

import jax
import numpy as np
import pytest

from emphatic import envs
from emphatic.agent import learner as learners
from emphatic.agent.networks import NetworkConfig
from emphatic.agent.surreal import AgentConfig
from emphatic.envs import atari
from emphatic.runtime.actors import ActorsConfig
from emphatic.runtime.sebulba import Sebulba

UPDATES = 5
CONFIG = AgentConfig(
    agent="netd-ace",
    n=5,
    unroll_length=20,
    num_streams=2,
    network=NetworkConfig(name="small", head_hidden=8),
)


@functools.cache
def learner_of(environment_shape, num_actions):
    """One for all games, so that it is compiled once: all of them with all actions."""
    return learners.build(
        CONFIG,
        num_actions=num_actions,
        observation_shape=environment_shape,
        observation_dtype=np.dtype(np.uint8),
        num_updates=UPDATES,
    )


@pytest.mark.slow
@pytest.mark.parametrize("game", atari.GAMES)
def test_every_game_is_learned_from(game):
    """200 agent steps of each, by two actors; nothing fails on the way."""
    environment = envs.make(f"atari/{game}", full_actions=True, num_threads=1)
    learner = learner_of(environment.observation_shape, environment.num_actions)
    said = []
    runtime = Sebulba(
        learner,
        environment,
        ActorsConfig(threads=2, restarts=0),
        seed=0,
        devices=jax.local_devices()[:1],
        say=said.append,
    )
    try:
        start = runtime.init(jax.random.key(0))
        before = jax.device_get(start.learner.params)
        state, report = runtime.run(start, UPDATES)
    finally:
        runtime.close()
    assert int(state.learner.updates) * CONFIG.steps_per_update == 200
    assert said == []
    assert not report.skipped.any()
    assert all(np.isfinite(x).all() for x in report.metrics.values())
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), before, state.learner.params)
    assert max(jax.tree.leaves(moved)) > 0
