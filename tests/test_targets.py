"""Every target is its slow definition; episode ends; numbers by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparisons import STEPS, check_target, transitions
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from emphatic import algorithms, targets
from emphatic.errors import UserError

INF = float("inf")
ONE_PER_TARGET = {(r.target, r.scheme): r.name for r in reversed(algorithms.ROWS)}
NAMES = tuple(ONE_PER_TARGET.values())
"""One row for each learning target and scheme."""

SETTINGS = (
    ("td", {"clip_pg_rho": 1.0}),
    ("clipped-td", {"clip_c": 0.5, "clip_pg_rho": 1.2}),
    ("clipped-td-mixed", {"clip_c": INF}),
    ("vtrace", {"clip_rho": 2.0, "clip_c": 0.7, "clip_pg_rho": 1.5, "lambda_": 0.8}),
    ("vtrace", {"clip_rho": INF, "clip_c": 1.0}),
    ("vtrace-mixed", {"clip_rho": 0.5, "clip_c": 0.5, "clip_pg_rho": 1.0}),
    ("vtrace-mixed", {"lambda_": 0.0}),
)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("name", NAMES)
def test_equals_its_definition_in_float64(name, n):
    check_target(algorithms.build(name, n))


@pytest.mark.parametrize("n", [1, 3, 10])
@pytest.mark.parametrize("name", NAMES)
def test_equals_its_definition_in_float32(name, n):
    check_target(algorithms.build(name, n), dtype=np.float32)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("n", "steps"), [(10, 7), (7, 7), (4, 1)])
def test_an_unroll_may_be_shorter_than_n(name, n, steps):
    check_target(algorithms.build(name, n), steps=steps)


@pytest.mark.parametrize(("name", "chosen"), SETTINGS)
def test_equals_its_definition_with_settings(name, chosen):
    check_target(algorithms.build(name, 3, **chosen))


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    name=st.sampled_from(NAMES),
    n=st.integers(1, 5),
    rho=arrays(float, 9, elements=st.sampled_from([0.0, 1e-3, 0.5, 1.0, 2.0, 30.0])),
    discount=arrays(float, 9, elements=st.sampled_from([0.0, 0.3, 0.99, 1.0])),
    values=arrays(float, 10, elements=st.floats(-10, 10)),
    reward=arrays(float, 9, elements=st.floats(-10, 10)),
)
def test_no_stream_tells_a_target_from_its_definition(name, n, rho, discount, values, reward):
    check_target(SEARCHED[name, n], arrays=(values[:-1], values[1:], reward, discount, rho))


SEARCHED = {(name, n): algorithms.build(name, n) for name in NAMES for n in range(1, 6)}


def test_mixed_windows_by_hand():
    """n = 2, T = 3, ρ = 1, γ = ½, no values but at the ends: windows {0, 1} and {2}."""
    values, reward = jnp.array([0.0, 0.0, 8.0, 16.0]), jnp.array([1.0, 2.0, 3.0])
    half, one = jnp.full(3, 0.5), jnp.ones(3)
    target = targets.td(values[:-1], values[1:], reward, half, one, n=2, scheme="mixed")
    np.testing.assert_array_equal(target.value_tm1, [1 + 1 + 2, 2 + 4, 3 + 8])
    np.testing.assert_array_equal(target.advantage_tm1, [4, 6, 3 + 8 - 8])


def test_fixed_scheme_by_hand():
    """As above, but G₁ reaches to the value after step 2, past the mixed window's end."""
    values, reward = jnp.array([0.0, 0.0, 8.0, 16.0]), jnp.array([1.0, 2.0, 3.0])
    half, one = jnp.full(3, 0.5), jnp.ones(3)
    target = targets.td(values[:-1], values[1:], reward, half, one, n=2, scheme="fixed")
    np.testing.assert_array_equal(target.value_tm1, [1 + 1 + 2, 2 + 1.5 + 4, 3 + 8])


def both(target):
    """Value target and advantage in one array."""
    return np.stack([np.asarray(x) for x in target])


@pytest.mark.parametrize("name", NAMES)
def test_nothing_crosses_a_termination(name):
    """What comes after a discount of 0, and the value there, changes nothing before it."""
    algorithm = algorithms.build(name, 4)
    first = transitions(STEPS, (3,), seed=1, dtype=np.float32)
    first[3][8] = 0.0
    second = transitions(STEPS, (3,), seed=2, dtype=np.float32)
    second = [np.concatenate([a[:9], b[9:]]) for a, b in zip(first, second, strict=True)]
    second[1][8] = 1e6
    update = jax.jit(algorithm.target)
    before, after = both(update(*map(jnp.asarray, first))), both(update(*map(jnp.asarray, second)))
    np.testing.assert_array_equal(before[:, :9], after[:, :9])


@pytest.mark.parametrize("name", NAMES)
def test_truncation_bootstraps_from_the_final_observation(name):
    """A truncated episode, its autoreset step and the next one: the first learns as if alone.

    Step 4 is the last real one and keeps its discount; step 5 is the autoreset step,
    whose source is the final observation. Mixed windows of 3 put both in one window.
    """
    target = jax.jit(algorithms.build(name, 3).target)
    arrays_ = v_tm1, _, r_t, discount_t, rho_tm1 = transitions(9, seed=4, dtype=np.float32)
    discount_t[:5], rho_tm1[:5] = 0.9, 1.3
    discount_t[5] = rho_tm1[5] = 0.0
    together = both(target(*map(jnp.asarray, arrays_)))[:, :5]
    alone = both(target(*(jnp.asarray(x[:5]) for x in arrays_)))
    np.testing.assert_allclose(together, alone, rtol=1e-5)
    rho = 1.0 if "vtrace" in name else 1.3
    one_step = v_tm1[4] + rho * (r_t[4] + 0.9 * v_tm1[5] - v_tm1[4])
    np.testing.assert_allclose(together[0, 4], one_step, rtol=1e-5)


def test_the_autoreset_step_learns_nothing():
    """Its target is its own value and its advantage 0, whatever its reward."""
    arrays_ = list(transitions(6, (2,), seed=5, dtype=np.float32))
    arrays_[3][2] = arrays_[4][2] = 0.0
    for name in NAMES:
        target = jax.jit(algorithms.build(name, 3).target)(*map(jnp.asarray, arrays_))
        np.testing.assert_array_equal(target.value_tm1[2], arrays_[0][2])
        np.testing.assert_array_equal(target.advantage_tm1[2], 0.0)


@pytest.mark.parametrize("name", NAMES)
def test_targets_are_detached(name):
    arrays_ = tuple(map(jnp.asarray, transitions(6, (2,), dtype=np.float32)))
    target = jax.jit(algorithms.build(name, 3).target)

    def total(arrays_):
        return sum(x.sum() for x in target(*arrays_))

    assert all(np.all(np.asarray(g) == 0) for g in jax.grad(total)(arrays_))


@pytest.mark.parametrize("name", ["vtrace", "vtrace-mixed"])
def test_target_is_elementwise_over_batch(name):
    """`[T]`, `[T, B]` and `[T, B, heads]` agree."""
    arrays_ = transitions(10, (2, 3), dtype=np.float32)
    target = jax.jit(algorithms.build(name, 4).target)
    whole = both(target(*map(jnp.asarray, arrays_)))
    pair = both(target(*(jnp.asarray(x[:, 1]) for x in arrays_)))
    alone = both(target(*(jnp.asarray(x[:, 1, 2]) for x in arrays_)))
    np.testing.assert_allclose(pair, whole[:, :, 1], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(alone, whole[:, :, 1, 2], rtol=1e-5, atol=1e-5)


def test_value_and_advantage_agree_where_the_clips_do():
    """With ρ̄ = c̄ = ρ̄_pg and λ = 1 the advantage is G - V."""
    arrays_ = tuple(map(jnp.asarray, transitions(STEPS, (3,), dtype=np.float32)))
    target = targets.vtrace(*arrays_, n=3, scheme="mixed")
    gap = np.asarray(target.value_tm1 - arrays_[0])
    np.testing.assert_allclose(target.advantage_tm1, gap, rtol=1e-4, atol=1e-5)


def test_impossible_targets_are_refused_by_name():
    arrays_ = tuple(map(jnp.asarray, transitions(4, dtype=np.float32)))
    with pytest.raises(UserError, match=r"^n: "):
        targets.td(*arrays_, n=0, scheme="fixed")
