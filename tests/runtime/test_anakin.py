"""Anakin: the same numbers however it is cut, placed or repeated; and it learns."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emphatic.agent import learner
from emphatic.agent.agents import AGENTS
from emphatic.agent.networks import NetworkConfig
from emphatic.agent.optimiser import OptimiserConfig
from emphatic.agent.surreal import AgentConfig
from emphatic.envs import base, catch
from emphatic.errors import UserError
from emphatic.runtime import anakin

STREAMS, STEPS = 4, 3
CONFIG = AgentConfig(
    agent="netd-ace",
    n=3,
    unroll_length=STEPS,
    num_streams=STREAMS,
    discounts=(0.99, 0.95, 0.9),
    network=NetworkConfig(name="mlp", head_hidden=4),
    optimiser=OptimiserConfig(learning_rate=1e-2, epsilon=1e-4),
)


def learner_of(config, environment, num_updates):
    return learner.build(
        config,
        num_actions=environment.num_actions,
        observation_shape=environment.observation_shape,
        observation_dtype=environment.observation_dtype,
        num_updates=num_updates,
    )


LIMIT = 5


def walk():
    """A random walk that pays as it goes; ends beyond 4 places or after `LIMIT` steps."""

    def reset(key):
        return jax.random.randint(key, (), 0, 4)

    def step(place, action, key):
        place = place + jnp.where(jax.random.bernoulli(key, 0.3), 1, action - 1)
        beyond = (place < 0) | (place > 3)
        return place, base.Outcome(place.astype(jnp.float32), beyond, jnp.zeros((), bool))

    game = base.Game(reset, step, lambda place: jax.nn.one_hot(place, 4))
    return base.environment(game, name="walk", num_actions=3, time_limit=LIMIT)


@functools.cache
def runtime(num_devices=1):
    """The walk on so many devices: terminations, truncations, pseudo-steps."""
    devices = jax.local_devices()[:num_devices]
    return anakin.build(learner_of(CONFIG, walk(), 20), walk(), devices)


def numbers(state):
    """Every array of a state, with keys as the numbers they are made of."""
    return [
        np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x)
        for x in jax.tree.leaves(state)
    ]


def assert_same(first, second, compare=np.testing.assert_array_equal):
    for one, other in zip(numbers(first), numbers(second), strict=True):
        compare(one, other)


def close(one, other):
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def ran(num_updates, times=1, *, seed=0, num_devices=1):
    """State and reports after `times` calls of `num_updates` updates."""
    built = runtime(num_devices)
    state, reports = built.init(jax.random.key(seed)), []
    for _ in range(times):
        state, report = built.run(state, num_updates)
        reports.append(report)
    return state, reports


def test_two_updates_are_twice_one_bit_for_bit():
    (whole, (once,)), (halves, twice) = ran(2), ran(1, 2)
    assert_same(whole, halves)
    for field in ("ended", "episode_return", "episode_length", "skipped"):
        joined = np.concatenate([getattr(report, field) for report in twice])
        np.testing.assert_array_equal(getattr(once, field), joined)
    assert int(whole.learner.updates) == 2


def test_a_key_decides_everything():
    (first, _), (again, _), (other, _) = ran(2, 2), ran(2, 2), ran(2, 2, seed=1)
    assert_same(first, again)
    params = [
        np.concatenate([x.ravel() for x in numbers(s.learner.params)]) for s in (first, other)
    ]
    assert (params[0] != params[1]).mean() > 0.5
    assert not np.array_equal(numbers(first.key), numbers(other.key))


@pytest.mark.slow
def test_two_devices_compute_what_one_does():
    """To float tolerance: the batch is summed in another order."""
    (one, [*_, told]), (two, [*_, told_by_two]) = ran(2, 3), ran(2, 3, num_devices=2)
    assert_same(one, two, close)
    assert_same(told, told_by_two, close)
    placed = {x.sharding.is_fully_replicated for x in jax.tree.leaves(two.learner.params)}
    assert placed == {True}
    for x in jax.tree.leaves((two.environment, two.learner.trace, two.learner.waiting)):
        assert len(x.sharding.device_set) == 2
        assert not x.sharding.is_fully_replicated


def test_streams_are_shared_out_evenly_or_not_at_all():
    environment = catch.make()
    config = AgentConfig(**{**vars(CONFIG), "num_streams": 3})
    with pytest.raises(UserError, match=r"num_streams: must be a multiple of the 2 devices"):
        anakin.build(learner_of(config, environment, 1), environment, jax.local_devices()[:2])


@pytest.mark.slow
def test_episodes_are_those_of_a_loop_over_steps():
    """Every action drawn anew from the parameters of its update, every step played anew.

    Returns and lengths are added up here, from rewards and weights.
    """
    environment, built = walk(), runtime()
    policy = jax.jit(learner_of(CONFIG, environment, 20).policy)
    step = jax.jit(jax.vmap(environment.step))
    state = built.init(jax.random.key(3))
    env, observation, key = jax.tree.map(
        jnp.copy, (state.environment, state.observation, state.key)
    )
    total, length, ends = np.zeros(STREAMS), np.zeros(STREAMS, int), []
    for _ in range(15):
        params = jax.tree.map(jnp.copy, state.learner.params)
        state, report = built.run(state, 1)
        key, act_key = jax.random.split(key)
        noise = jax.random.gumbel(act_key, (STEPS, STREAMS, environment.num_actions))
        for t in range(STEPS):
            chosen = jnp.argmax(policy(params, observation) + noise[t], axis=-1)
            env, played = step(env, chosen.astype(jnp.int32))
            observation = played.observation
            total = total + np.asarray(played.reward)
            length = length + np.asarray(played.weight, int)
            for b in range(STREAMS):
                over = bool(played.weight[b]) and (played.discount[b] == 0 or length[b] == LIMIT)
                told = [x[0, t, b] for x in report[-3:]]
                assert told == ([True, total[b], length[b]] if over else [False, 0, 0])
                if over:
                    ends.append(int(played.discount[b]))
                    total[b], length[b] = 0.0, 0
    assert min(ends.count(0), ends.count(1)) >= 5


def test_what_is_reported_is_the_mean_over_updates():
    """Per head each by its share of real steps; maxima where the name says so."""
    (_, (both,)), (_, each) = ran(2), ran(1, 2)
    learned = np.array([report.metrics["learned"] for report in each])
    assert learned[0] != learned[1]
    for name, value in both.metrics.items():
        pair = np.stack([report.metrics[name] for report in each])
        if name.endswith("_max"):
            close(value, pair.max(0))
        else:
            close(value, np.average(pair, 0, learned if pair.ndim > 1 else None))
    assert both.ended.shape == (2, STEPS, STREAMS)


@pytest.mark.parametrize("num_devices", [1, 2])
def test_nothing_is_compiled_after_warm_up(num_devices):
    """Nor traced."""
    compiled = []

    def listen(event, duration, **_):
        if event.startswith("/jax/core/compile/"):
            compiled.append((event, duration))

    built = runtime(num_devices)
    state, _ = built.run(built.init(jax.random.key(0)), 2)
    jax.block_until_ready(state)
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for _ in range(3):
            state, report = built.run(state, 2)
        jax.block_until_ready(report)
        assert compiled == []
        jax.jit(lambda x: x * 3.0 + 1.0)(jnp.ones(7))
        assert compiled, "the listener no longer hears of compilations"
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


LEARNING_UPDATES, TRIES = 200, 3


def learning_config(name):
    return AgentConfig(
        agent=name,
        n=5,
        unroll_length=10,
        num_streams=32,
        discounts=(0.99, 0.95, 0.9),
        network=NetworkConfig(name="mlp"),
        optimiser=OptimiserConfig(learning_rate=3e-3, epsilon=1e-8),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_learns_catch(name):
    """64,000 steps from each of three seeds: a mean return of at least 0.95 in the last fifth."""
    environment = catch.make()
    runner = anakin.build(
        learner_of(learning_config(name), environment, LEARNING_UPDATES), environment
    )
    for seed in range(TRIES):
        state, report = runner.run(runner.init(jax.random.key(seed)), LEARNING_UPDATES)
        late = np.asarray(report.ended)[-LEARNING_UPDATES // 5 :]
        returns = np.asarray(report.episode_return)[-LEARNING_UPDATES // 5 :][late]
        assert len(returns) > 1000
        assert returns.mean() >= 0.95, f"seed {seed}"
        assert not np.asarray(report.skipped).any()
        assert int(state.learner.updates) == LEARNING_UPDATES
