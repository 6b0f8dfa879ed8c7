"""Every Atari game through all of Sebulba: actors, stacking, learner, report."""

import contextlib
import functools

import jax
import numpy as np
import pytest

from emphatic import envs
from emphatic.agent import learner as learners
from emphatic.agent.networks import NetworkConfig
from emphatic.agent.surreal import AgentConfig
from emphatic.envs import atari
from emphatic.runtime import checkpoints
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
    """One for each number of actions, so that few are compiled."""
    return learners.build(
        CONFIG,
        num_actions=num_actions,
        observation_shape=environment_shape,
        observation_dtype=np.dtype(np.uint8),
        num_updates=UPDATES,
    )


@contextlib.contextmanager
def started(environment, said):
    """A runtime of two actors; what it says goes to `said`."""
    runtime = Sebulba(
        learner_of(environment.observation_shape, environment.num_actions),
        environment,
        ActorsConfig(threads=2, restarts=0, timeout=300.0),
        seed=0,
        devices=jax.local_devices()[:1],
        say=said.append,
    )
    with contextlib.closing(runtime):
        yield runtime


@pytest.mark.slow
@pytest.mark.parametrize("game", atari.GAMES)
def test_every_game_is_learned_from(game):
    """200 agent steps of each, by two actors; nothing fails on the way."""
    environment, said = envs.make(f"atari/{game}", num_threads=1), []
    with started(environment, said) as runtime:
        start = runtime.init(jax.random.key(0))
        before = jax.device_get(start.learner.params)
        state, report = runtime.run(start, UPDATES)
    assert int(state.learner.updates) * CONFIG.steps_per_update == 200
    assert said == []
    assert not report.skipped.any()
    assert all(np.isfinite(x).all() for x in report.metrics.values())
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), before, state.learner.params)
    assert max(jax.tree.leaves(moved)) > 0


@pytest.mark.slow
def test_single_emulators_go_on_to_the_bit(tmp_path):
    """What sticks, no-ops, limits, returns so far: all of it is in the checkpoint."""
    settings = {"protocol": "sticky", "noop_max": 9, "max_frames": 90, "emulator": "single"}
    environment, said = envs.make("atari/pong", **settings), []
    with started(environment, said) as runtime:
        state, _ = runtime.run(runtime.init(jax.random.key(0)), 2)
        checkpoints.save(tmp_path, step=2, tree=runtime.snapshot(state))
        whole, expected = runtime.run(state, 3)
    with started(environment, said) as runtime:
        state = runtime.restore(checkpoints.latest(tmp_path), jax.random.key(1))
        resumed, report = runtime.run(state, 3)
    assert said == []
    assert report.ended.any()
    jax.tree.map(np.testing.assert_array_equal, (resumed, report), (whole, expected))
