"""The conformance check passes what keeps to the contract and names each breach of it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emphatic import envs
from emphatic.envs import base, conformance
from emphatic.envs.conformance import NonconformingError


@pytest.fixture(scope="module")
def stream():
    return conformance.check(conformance.probe(), steps=60)


def test_the_probe_conforms_and_is_aligned(stream):
    """Every reward, discount, weight and observation derived from the one before it."""
    conformance.check_probe(stream)
    assert (stream.weight == 0).sum() > 5
    assert (stream.ended & (stream.discount == 0)).sum() > 5


def test_sticky_actions_conform():
    """And what was executed, not what was asked for, is what the probe saw."""
    environment = base.sticky(conformance.probe(), 0.25)
    played = conformance.check(environment, steps=150)
    real = (played.weight == 1) & (played.discount == 1)
    executed = played.observation[1:][..., 2].astype(int) - 1
    last, repeats, total = np.zeros(4, int), 0, 0
    for t in range(len(real)):
        # What ended an episode is not shown; it was the action that ends, or the last one.
        done = np.where(real[t], executed[t], conformance.PROBE_END)
        done = np.where(played.weight[t] == 0, last, done)
        distinct = (played.action[t] != last) & (played.weight[t] == 1)
        assert ((done == played.action[t]) | (done == last)).all()
        repeats += int((done == last)[distinct].sum())
        total += int(distinct.sum())
        last = done
    assert total > 300
    assert abs(repeats / total - 0.25) < 4 * np.sqrt(0.25 * 0.75 / total)


def truncation(stream):
    """Step and environment of the first truncation with a step after it."""
    t, b = np.nonzero((stream.ended & (stream.discount == 1))[:-1])
    return int(t[0]), int(b[0])


def termination(stream):
    t, b = np.nonzero(stream.ended & (stream.discount == 0))
    return int(t[0]), int(b[0])


def changed(stream, field, place, value):
    array = getattr(stream, field).copy()
    array[place] = value
    return stream._replace(**{field: array})


BREACHES = {
    "float64": lambda s: s._replace(reward=s.reward.astype(np.float64)),
    "observation type": lambda s: s._replace(observation=s.observation.astype(np.int32)),
    "no final observation": lambda s: s._replace(observation=s.observation[:-1]),
    "one number per step": lambda s: s._replace(discount=s.discount[:, :1]),
    "infinite reward": lambda s: changed(s, "reward", (3, 0), np.inf),
    "not a number": lambda s: changed(s, "observation", (3, 0), np.nan),
    "half a discount": lambda s: changed(s, "discount", (3, 0), 0.5),
    "half a weight": lambda s: changed(s, "weight", (3, 0), 0.5),
    "wrong action": lambda s: changed(s, "action", (3, 0), 3),
    "discounted end": lambda s: changed(s, "discount", termination(s), 1.0),
    "termination not flagged": lambda s: changed(s, "ended", termination(s), False),
    "truncation not flagged": lambda s: changed(s, "ended", truncation(s), False),
    "truncated with discount 0": lambda s: changed(s, "discount", truncation(s), 0.0),
    "weighed pseudo-step": lambda s: changed(s, "weight", after(truncation(s)), 1.0),
    "discounted pseudo-step": lambda s: changed(s, "discount", after(truncation(s)), 1.0),
    "rewarded pseudo-step": lambda s: changed(s, "reward", after(truncation(s)), 1.0),
    "ending pseudo-step": lambda s: changed(s, "ended", after(truncation(s)), True),
    "wrong return": lambda s: changed(s, "episode_return", termination(s), 1e3),
    "clipped return": lambda s: s._replace(episode_return=np.clip(s.episode_return, -1, 1)),
    "wrong length": lambda s: changed(s, "episode_length", truncation(s), 8),
    "return without end": lambda s: changed(s, "episode_return", (0, 0), 1.0),
}


def after(place):
    return place[0] + 1, place[1]


@pytest.mark.parametrize("breach", BREACHES)
def test_a_breach_in_a_stream_is_found(stream, breach):
    with pytest.raises(NonconformingError):
        conformance.check_stream(BREACHES[breach](stream), conformance.probe())


MISALIGNED = {
    "reward late": lambda s: s._replace(reward=np.roll(s.reward, 1, 0)),
    "discount late": lambda s: s._replace(discount=np.roll(s.discount, 1, 0)),
    "observation late": lambda s: s._replace(observation=np.roll(s.observation, 1, 0)),
    "action late": lambda s: s._replace(action=np.roll(s.action, 1, 0)),
    "truncation hidden": lambda s: changed(
        s, "observation", after(truncation(s)), s.observation[truncation(s)[0] + 2, 0]
    ),
    "same episode again": lambda s: changed(
        s, "observation", (*after(termination(s)), 0), s.observation[(*termination(s), 0)]
    ),
}


@pytest.mark.parametrize("fault", MISALIGNED)
def test_misalignment_is_found(stream, fault):
    with pytest.raises(NonconformingError):
        conformance.check_probe(MISALIGNED[fault](stream))


def broken(environment, **changes):
    """The same environment with another `step` or `init`."""
    return dataclasses.replace(environment, **changes)


def test_an_environment_that_hears_pseudo_actions_is_found():
    catch = envs.make("catch", time_limit=4)

    def step(state, action):
        after, time_step = catch.step(state, action)
        heard = jnp.where(time_step.weight == 0, action[None, None, None] == 0, False)
        return after, time_step._replace(observation=time_step.observation ^ heard)

    with pytest.raises(NonconformingError, match="same stream"):
        conformance.check(broken(catch, step=step), steps=20)


def test_an_environment_deaf_to_its_key_is_found():
    catch = envs.make("catch")
    environment = broken(catch, init=lambda key: catch.init(jax.random.key(0)))
    rng = np.random.default_rng(0)
    same = rng.integers(3, size=(20, 1)).repeat(4, 1)
    with pytest.raises(NonconformingError, match="keys differ"):
        conformance.check(environment, steps=10, policy=lambda *_: same)


def test_an_environment_that_never_ends_is_not_passed():
    with pytest.raises(NonconformingError, match="an episode ends"):
        conformance.check(envs.make("catch", balls=100), steps=5)


def test_weak_types_in_the_state_are_found():
    catch = envs.make("catch")

    def init(key):
        state, observation = catch.init(key)
        return (state, jnp.asarray(0.5)), observation

    def step(state, action):
        after, time_step = catch.step(state[0], action)
        return (after, state[1]), time_step

    with pytest.raises(NonconformingError, match="weak"):
        conformance.check(broken(catch, init=init, step=step), steps=20)


@pytest.mark.parametrize(
    "name",
    [
        "minatar/breakout",
        *(
            pytest.param(f"minatar/{g}", marks=pytest.mark.slow)
            for g in ("asterix", "freeway", "seaquest", "space_invaders")
        ),
    ],
)
def test_minatar_conforms(name):
    """With a time limit, so that both kinds of end are met."""
    played = conformance.check(envs.make(name, time_limit=12), steps=80)
    truncated = played.ended & (played.discount == 1)
    assert truncated.any()
    assert (played.episode_length[truncated] == 12).all()
