"""Surreal's loss: what the emphasis weighs and what it must leave alone."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emphatic.agent import surreal
from emphatic.agent.agents import AGENTS
from emphatic.agent.surreal import AgentConfig, Outputs, Transitions
from emphatic.errors import UserError

STEPS, LEARNED, STREAMS, HEADS, ACTIONS = 6, 4, 2, 3, 3


def config_of(agent="netd-ace", **settings):
    base = {"n": 2, "unroll_length": LEARNED, "num_streams": STREAMS, "discounts": (0.95, 0.9, 0.8)}
    return AgentConfig(agent=agent, **(base | settings))


def outputs(seed=0):
    rng = np.random.default_rng(seed)
    shape = (STEPS + 1, STREAMS, HEADS)
    return Outputs(*(jnp.asarray(rng.normal(size=s)) for s in ((*shape, ACTIONS), shape)))


def transitions(seed=1, **changes):
    """Six steps; in the first stream step 2 is a pseudo-step, in the second step 1 terminates."""
    rng = np.random.default_rng(seed)
    shape = (STEPS, STREAMS)
    weight, discount = np.ones(shape), np.ones(shape)
    weight[2, 0] = discount[2, 0] = discount[1, 1] = 0.0
    return Transitions(
        action=jnp.asarray(rng.integers(ACTIONS, size=shape)),
        reward=jnp.asarray(rng.normal(size=shape)),
        discount=jnp.asarray(discount),
        weight=jnp.asarray(weight),
        behaviour_logits=jnp.asarray(rng.normal(size=(*shape, ACTIONS))),
    )._replace(**changes)


def emphases(seed=2):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.uniform(0.2, 5.0, (LEARNED, STREAMS, HEADS - 1)))


ONES = jnp.ones((LEARNED, STREAMS, HEADS - 1))


@functools.partial(jax.jit, static_argnums=0)
def gradients(config, given, experience, emphasis):
    """Of the loss, by the logits and values of all states."""

    def loss(given):
        heads = surreal.view(config, given, experience)
        return surreal.loss(config, given, heads, experience, emphasis).total

    return jax.tree.map(lambda x: x[:LEARNED], jax.grad(loss)(given))


def with_main(emphasis):
    """`[T, B, H]`: the main head weighs 1."""
    return np.concatenate([np.ones((LEARNED, STREAMS, 1)), emphasis], axis=-1)


@pytest.mark.parametrize("name", ["netd-ace", "netd", "wevtrace-ace", "wevtrace"])
def test_the_emphatic_gradient_is_f_times_the_plain_one(name):
    """Per state and head: policy and value with -ACE, value alone without; main head never."""
    config, f = config_of(name, entropy_cost=0.0), emphases()
    plain = gradients(config, outputs(), transitions(), ONES)
    weighed = gradients(config, outputs(), transitions(), f)
    on_policy = with_main(f) if name.endswith("-ace") else np.ones((LEARNED, STREAMS, HEADS))
    np.testing.assert_allclose(weighed.value, with_main(f) * plain.value, rtol=1e-5)
    np.testing.assert_allclose(weighed.logits, on_policy[..., None] * plain.logits, rtol=1e-5)
    assert np.abs(plain.logits[0]).min() > 0
    assert np.abs(plain.value[0]).min() > 0


@pytest.mark.parametrize("name", ["netd-ace", "netd"])
def test_entropy_is_never_weighed(name):
    """What the entropy adds to the gradient is the same with and without emphasis."""
    added = []
    for emphasis in (ONES, emphases()):
        without, with_entropy = (
            gradients(config_of(name, entropy_cost=c), outputs(), transitions(), emphasis)
            for c in (0.0, 0.5)
        )
        added.append(with_entropy.logits - without.logits)
        np.testing.assert_array_equal(with_entropy.value, without.value)
    assert np.abs(added[0]).max() > 1e-3
    np.testing.assert_allclose(*added, rtol=1e-4, atol=1e-7)


def test_the_main_head_does_not_feel_the_auxiliary_emphases():
    config = config_of()
    plain, weighed = (gradients(config, outputs(), transitions(), f) for f in (ONES, emphases()))
    np.testing.assert_array_equal(weighed.logits[:, :, 0], plain.logits[:, :, 0])
    np.testing.assert_array_equal(weighed.value[:, :, 0], plain.value[:, :, 0])


def test_a_pseudo_step_teaches_nothing():
    """Its own gradient is 0, and its reward, action and behaviour change no other's."""
    config, real = config_of(), transitions()
    first = gradients(config, outputs(), real, emphases())
    assert not first.logits[2, 0].any()
    assert not first.value[2, 0].any()
    other = transitions(
        action=real.action.at[2, 0].set((real.action[2, 0] + 1) % ACTIONS),
        reward=real.reward.at[2, 0].set(100.0),
        behaviour_logits=real.behaviour_logits.at[2, 0].set(jnp.array([9.0, 0.0, -9.0])),
    )
    second = gradients(config, outputs(), other, emphases().at[2, 0].set(77.0))
    np.testing.assert_array_equal(second.logits, first.logits)
    np.testing.assert_array_equal(second.value, first.value)


@pytest.mark.parametrize("name", ["netd-ace", "wetd-ace"])
def test_nothing_leaks_across_an_episode_end(name):
    """After a termination nothing counts; after a truncation the final observation does."""
    config, before = config_of(name, n=4, reward="raw"), transitions()
    first = gradients(config, outputs(), before, emphases())
    later = before._replace(
        reward=before.reward.at[2:, 1].add(3.0).at[3:, 0].add(3.0),
    )
    second = gradients(config, outputs(), later, emphases())
    np.testing.assert_array_equal(second.value[:2], first.value[:2])
    moved = outputs()._replace(value=outputs().value.at[2].add(1.0))
    third = gradients(config, moved, before, emphases())
    np.testing.assert_array_equal(third.value[:2, 1], first.value[:2, 1])
    assert (third.value[1, 0] != first.value[1, 0]).all()


def test_rewards_are_clipped_for_learning_only_where_asked():
    big = transitions(reward=jnp.full((STEPS, STREAMS), 7.0))
    one = transitions(reward=jnp.ones((STEPS, STREAMS)))
    for reading, same in (("clip", True), ("raw", False)):
        got = [gradients(config_of(reward=reading), outputs(), r, ONES).value for r in (big, one)]
        assert np.array_equal(*got) == same


def test_a_sum_is_the_mean_times_the_number_of_states():
    mean, total = (
        gradients(config_of(reduction=r), outputs(), transitions(), ONES).value
        for r in ("mean", "sum")
    )
    np.testing.assert_allclose(total, LEARNED * STREAMS * mean, rtol=1e-5)


def test_what_is_logged_is_of_real_steps():
    """Means per head over the 7 real steps of 8; checked on numbers known beforehand."""
    config, given, experience = config_of(), outputs(), transitions()
    heads = surreal.view(config, given, experience)
    bounds = np.array([1.0 / (1.0 - 0.9**2), 1.0 / (1.0 - 0.8**2)])
    f = jnp.minimum(emphases(), 0.99 * bounds[None, None])
    f = f.at[1, 0].set(bounds).at[3, 1, 0].set(bounds[0]).at[2, 0].set(1e9)
    metrics = surreal.loss(config, given, heads, experience, f).metrics
    real = np.asarray(experience.weight[:LEARNED], bool)
    np.testing.assert_allclose(metrics["emphasis"], with_main(f)[real].mean(0), rtol=1e-5)
    np.testing.assert_allclose(metrics["emphasis_max"], with_main(f)[real].max(0), rtol=1e-6)
    rho = np.asarray(heads.rho_tm1)[:LEARNED]
    np.testing.assert_allclose(metrics["clipped_rho"], np.minimum(1, rho)[real].mean(0), rtol=1e-5)
    np.testing.assert_allclose(
        metrics["value"], np.asarray(given.value)[:LEARNED][real].mean(0), rtol=1e-4
    )
    np.testing.assert_allclose(metrics["emphasis_at_bound"], [0, 2 / 7, 1 / 7], rtol=1e-5)
    log_mu, log_pi = (
        np.asarray(jax.nn.log_softmax(x))[:LEARNED]
        for x in (experience.behaviour_logits[:, :, None], given.logits)
    )
    kl = (np.exp(log_mu) * (log_mu - log_pi)).sum(-1)[real].mean(0)
    np.testing.assert_allclose(metrics["kl"], kl, rtol=1e-4)


@pytest.mark.parametrize(
    ("settings", "bounds"),
    [
        ({"agent": "netd-ace"}, (1 / (1 - 0.9**2), 1 / (1 - 0.8**2))),
        ({"agent": "netd", "clip_trace": 0.5}, (1 / (1 - 0.45**2), 1 / (1 - 0.4**2))),
        ({"agent": "netd", "clip_trace": 2.0}, (np.inf, np.inf)),
        ({"agent": "netd", "clip_trace": np.inf, "bound": 4.0}, (4.0, 4.0)),
        ({"agent": "wetd"}, (10.0, 5.0)),
        ({"agent": "wetd-ace", "beta": 0.5}, (2.0, 2.0)),
        ({"agent": "wetd", "eta": 0.5}, (5.5, 3.0)),
        ({"agent": "wetd", "eta": 0.0}, (1.0, 1.0)),
        ({"agent": "wetd", "bound": 8.0, "bound_recursion": 4.0}, (4.0, 4.0)),
        ({"agent": "wetd", "bound": 3.0, "bound_recursion": 7.0}, (3.0, 3.0)),
        ({"agent": "wetd", "bound_recursion": 7.0, "eta": 0.5}, (4.0, 3.0)),
        ({"agent": "wevtrace", "bound_recursion": 5.0, "eta": 0.5}, (3.0, 3.0)),
        ({"agent": "nevtrace", "bound": 6.0}, (6.0, 6.0)),
        ({"agent": "exact-nevtrace"}, (np.inf, np.inf)),
        ({"agent": "surreal"}, (np.inf, np.inf)),
        ({"agent": "impala"}, ()),
    ],
)
def test_each_head_has_its_own_bound_and_its_trace_gets_there(settings, bounds):
    config = config_of(**settings)
    np.testing.assert_allclose(surreal.emphasis_bound(config), bounds, rtol=1e-9)
    if np.isfinite(bounds).all() and bounds:
        steps = (200, 1, len(bounds))
        rho, nu = jnp.full(steps, 3.0), jnp.full(steps, 0.5)
        discount = jnp.broadcast_to(jnp.asarray(config.discounts[1:])[None, None], steps)
        trace = surreal.algorithm(config).trace
        _, emphasis = trace.update(trace.init(steps[1:]), rho, discount, nu)
        np.testing.assert_allclose(emphasis[:, 0].max(0), bounds, rtol=1e-5)


def test_the_head_that_made_the_data_has_ratio_one():
    given = outputs()
    own = transitions(behaviour_logits=given.logits[:-1, :, 0])
    heads = surreal.view(config_of(), given, own)
    np.testing.assert_allclose(heads.rho_tm1[..., 0], own.weight, rtol=1e-6)
    np.testing.assert_allclose(heads.nu_tm1[..., 0], 1.0, rtol=1e-6)
    assert (heads.nu_tm1[..., 1:] < 1).all()


def test_the_numbers_of_a_config_follow_from_it():
    fixed, mixed = config_of("netd", n=4), config_of("wetd")
    assert (fixed.lookahead, mixed.lookahead) == (3, 0)
    assert fixed.steps_per_update == LEARNED * STREAMS
    assert (fixed.num_heads, fixed.num_auxiliary) == (3, 2)
    assert (config_of("impala").num_heads, config_of("impala").num_auxiliary) == (1, 0)
    np.testing.assert_allclose([surreal.sigmoid(x) for x in (4.6, 0.0)], [0.990048, 0.5], 1e-5)


@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_has_a_default_config(name):
    config = AgentConfig(agent=name)
    assert config.lookahead == (config.n - 1 if AGENTS[name].row.scheme == "fixed" else 0)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"agent": "netd-aec"}, "agent"),
        ({"n": 0}, "n"),
        ({"unroll_length": 0}, "unroll_length"),
        ({"num_streams": 0}, "num_streams"),
        ({"agent": "wetd", "n": 4, "unroll_length": 10}, "unroll_length"),
        ({"agent": "surreal-mixed", "n": 10, "unroll_length": 5}, "unroll_length"),
        ({"discounts": (0.9, 1.0)}, "discounts"),
        ({"discounts": (0.9, -0.1)}, "discounts"),
        ({"discounts": (0.9, float("nan"))}, "discounts"),
        ({"discounts": ()}, "discounts"),
        ({"agent": "surreal", "discounts": (0.9,)}, "discounts"),
        ({"agent": "netd", "beta": 0.9}, "beta"),
        ({"agent": "surreal", "bound": 2.0}, "bound"),
        ({"agent": "nevtrace", "clip_trace": 2.0}, "clip_trace"),
        ({"agent": "wetd", "eta": 1.5}, "eta"),
        ({"agent": "wetd", "bound_recursion": 0.5}, "bound_recursion"),
        ({"agent": "netd", "bound": 0.5}, "bound"),
        ({"agent": "exact-nevtrace", "clip_c": 2.0}, "clip_c"),
        ({"value_cost": -1.0}, "value_cost"),
        ({"entropy_cost": float("inf")}, "entropy_cost"),
        ({"agent": "surreal-constant", "constant": float("nan")}, "constant"),
        ({"agent": "netd", "clip_rho": -1.0}, "clip_rho"),
        ({"agent": "netd", "clip_c": -1.0}, "clip_c"),
        ({"agent": "netd", "clip_trace": 0.0}, "clip_trace"),
        ({"agent": "netd", "clip_pg_rho": 0.0}, "clip_pg_rho"),
        ({"agent": "netd", "lambda_": 1.5}, "lambda_"),
        ({"agent": "surreal", "constant": 2.0}, "constant"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_field(settings, field):
    with pytest.raises(UserError) as error:
        AgentConfig(**settings)
    assert error.value.field == field
    assert "\n" not in str(error.value)
