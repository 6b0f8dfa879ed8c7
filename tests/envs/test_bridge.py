"""A JAX environment on the host is the same environment."""

import jax
import numpy as np
import pytest

from emphatic import envs
from emphatic.envs import bridge, conformance, conformance_host

SETTINGS = {"catch": {"balls": 2}, "minatar/breakout": {"time_limit": 12}}
GAMES = ["catch", pytest.param("minatar/breakout", marks=pytest.mark.slow)]


@pytest.mark.parametrize("name", GAMES)
def test_the_stream_is_that_of_the_jax_environment(name):
    environment = envs.make(name, **SETTINGS[name])
    seeds = np.array([0, 7, 2**32 - 1], np.uint32)
    action = np.random.default_rng(0).integers(environment.num_actions, size=(60, 3))
    ours = conformance_host.record(bridge.from_jax(environment), seeds, action)
    start = jax.jit(jax.vmap(lambda seed: environment.init(jax.random.key(seed))))(seeds)
    _, theirs = conformance.Recorder(environment).play(start, action)
    conformance.check_same(theirs, ours.stream)
    assert theirs.ended.sum() >= 3


@pytest.mark.parametrize("name", GAMES)
def test_it_conforms(name):
    environment = bridge.from_jax(envs.make(name, **SETTINGS[name]))
    assert environment.state_bytes > 0
    conformance_host.check(environment, steps=30, batch=3)
