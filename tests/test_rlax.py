"""Where rlax has the same quantity, ours equals it. rlax has no emphatic trace."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparisons import BATCH, transitions

from emphatic import targets

T = 12


@pytest.fixture(scope="module")
def rlax():
    """rlax warns of its own and its dependencies' deprecations, mostly on import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import rlax

        yield rlax


def streams():
    """`[T, B]` float32 arrays in rlax's order: v_tm1, v_t, r_t, discount_t, rho_tm1."""
    return tuple(map(jnp.asarray, transitions(T, (BATCH,), seed=11, dtype=np.float32)))


def over_streams(function, *arrays):
    """rlax takes one stream `[T]`."""
    return jax.jit(jax.vmap(function, in_axes=1, out_axes=1))(*arrays)


@pytest.mark.parametrize("n", [1, 3, 5, T])
def test_td_is_n_step_bootstrapped_returns(rlax, n):
    """err = ρ (return with λ = the ratios of later steps - V), also past the unroll's end."""

    def error(v_tm1, v_t, r_t, discount_t, rho_tm1):
        later = jnp.concatenate([rho_tm1[1:], jnp.ones(1)])
        returns = rlax.n_step_bootstrapped_returns(r_t, discount_t, v_t, n, lambda_t=later)
        return rho_tm1 * (returns - v_tm1)

    ours = targets.td(*streams(), n=n, scheme="fixed")
    wanted = over_streams(error, *streams())
    np.testing.assert_allclose(ours.value_tm1 - streams()[0], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scheme", ["fixed", "mixed"])
@pytest.mark.parametrize(("clip_rho", "lambda_"), [(1.0, 1.0), (0.7, 1.0), (2.0, 0.8)])
def test_vtrace_over_the_whole_unroll_is_rlax_vtrace(rlax, scheme, clip_rho, lambda_):
    """n = T, where both schemes are one. rlax's c̄ is 1."""

    def error(*arrays):
        return rlax.vtrace(*arrays, lambda_=lambda_, clip_rho_threshold=clip_rho)

    ours = targets.vtrace(*streams(), n=T, scheme=scheme, clip_rho=clip_rho, lambda_=lambda_)
    wanted = over_streams(error, *streams())
    np.testing.assert_allclose(ours.value_tm1 - streams()[0], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("clip_rho", "clip_pg_rho"), [(1.0, 1.0), (2.0, 0.6)])
def test_vtrace_advantage_is_rlax_advantage(rlax, clip_rho, clip_pg_rho):
    """At λ = 1; below, rlax mixes G and V at the next state, and the paper does not."""

    def both(*arrays):
        out = rlax.vtrace_td_error_and_advantage(
            *arrays, clip_rho_threshold=clip_rho, clip_pg_rho_threshold=clip_pg_rho
        )
        return out.errors, out.pg_advantage

    clips = {"clip_rho": clip_rho, "clip_pg_rho": clip_pg_rho}
    ours = targets.vtrace(*streams(), n=T, scheme="fixed", **clips)
    errors, advantage = over_streams(both, *streams())
    np.testing.assert_allclose(ours.value_tm1 - streams()[0], errors, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ours.advantage_tm1, advantage, rtol=1e-5, atol=1e-5)


def test_clipped_n_step_error_at_n_t_is_vtrace(rlax):
    """The identity of the two rlax functions that our one sum holds together."""

    def error(v_tm1, v_t, r_t, discount_t, rho_tm1):
        clipped = jnp.minimum(1.0, rho_tm1)
        later = jnp.concatenate([clipped[1:], jnp.ones(1)])
        returns = rlax.n_step_bootstrapped_returns(r_t, discount_t, v_t, T, lambda_t=later)
        return clipped * (returns - v_tm1)

    np.testing.assert_allclose(
        over_streams(error, *streams()), over_streams(rlax.vtrace, *streams()), rtol=1e-4, atol=1e-5
    )


def test_rlax_has_no_emphatic_trace(rlax):
    """If it gets one, it belongs in this file."""
    assert not [name for name in dir(rlax) if "emphatic" in name.lower() or "follow" in name]
