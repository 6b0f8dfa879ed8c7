"""Ratios from logits, probabilities and by hand; ν; gradients where something is 0."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from emphatic import ratios
from emphatic.errors import UserError

INF = float("inf")


def policies(seed=0, shape=(6, 2, 4)):
    """Logits of π and μ, and actions."""
    rng = np.random.default_rng(seed)
    pi, mu = rng.normal(size=(2, *shape)).astype(np.float32)
    return jnp.asarray(pi), jnp.asarray(mu), jnp.asarray(rng.integers(shape[-1], size=shape[:-1]))


@pytest.mark.parametrize("clip_rho", [0.5, 1.0, 3.0, INF])
def test_logits_and_probabilities_agree(clip_rho):
    pi, mu, action = policies()
    from_logits = ratios.from_logits(pi, mu, action, clip_rho)
    softmax = jax.nn.softmax
    from_probabilities = ratios.from_probabilities(softmax(pi), softmax(mu), action, clip_rho)
    np.testing.assert_allclose(from_logits.rho_tm1, from_probabilities.rho_tm1, rtol=1e-5)
    np.testing.assert_allclose(from_logits.nu_tm1, from_probabilities.nu_tm1, rtol=1e-5)


def test_logits_need_no_normalisation():
    pi, mu, action = policies()
    plain, shifted = ratios.from_logits(pi, mu, action), ratios.from_logits(pi + 3, mu - 40, action)
    np.testing.assert_allclose(plain.rho_tm1, shifted.rho_tm1, rtol=1e-4)
    np.testing.assert_allclose(plain.nu_tm1, shifted.nu_tm1, rtol=1e-4)


def test_by_hand():
    pi, mu = jnp.array([[0.5, 0.5, 0.0]]), jnp.array([[0.2, 0.5, 0.3]])
    found = [ratios.from_probabilities(pi, mu, jnp.array([a])).rho_tm1[0] for a in range(3)]
    np.testing.assert_allclose(found, [2.5, 1.0, 0.0])
    np.testing.assert_allclose(ratios.clipped_mass(pi, mu), [0.7], rtol=1e-6)
    np.testing.assert_allclose(ratios.clipped_mass(pi, mu, 2.0), [0.9], rtol=1e-6)


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(weights=arrays(np.float32, (2, 3, 4), elements=st.floats(0.0, 1.0, width=32)))
def test_nu_is_one_minus_the_total_variation(weights):
    """At ρ̄ = 1."""
    pi, mu = (weights + 1e-3) / (weights + 1e-3).sum(-1, keepdims=True)
    nu = ratios.clipped_mass(jnp.asarray(pi), jnp.asarray(mu))
    np.testing.assert_allclose(nu, 1.0 - 0.5 * np.abs(pi - mu).sum(-1), atol=1e-6)


def test_without_a_clip_no_mass_is_lost():
    pi, mu, action = policies()
    np.testing.assert_allclose(ratios.from_logits(pi, mu, action, INF).nu_tm1, 1.0, rtol=1e-6)


@pytest.mark.parametrize("clip_rho", [0.5, 1.0, 2.0])
def test_vtrace_ratio_is_that_of_a_policy(clip_rho):
    """Σₐ μ ρᵛ = 1: ρᵛ is π_ρ̄/μ; and it is never below the clipped ratio if ρ̄ ≥ 1."""
    pi, mu = (jax.nn.softmax(x) for x in policies()[:2])
    nu = ratios.clipped_mass(pi, mu, clip_rho)
    transform = ratios.vtrace(clip_rho)
    rho_v = jnp.stack([transform(pi[..., a] / mu[..., a], nu) for a in range(4)], axis=-1)
    np.testing.assert_allclose((mu * rho_v).sum(-1), 1.0, rtol=1e-5)
    assert np.all(np.asarray(rho_v) >= np.minimum(clip_rho, np.asarray(pi / mu)) * (1 - 1e-6))


def test_transforms():
    rho, nu = jnp.array([0.0, 0.5, 4.0]), jnp.array([0.5, 0.5, 0.8])
    np.testing.assert_array_equal(ratios.raw(rho, nu), rho)
    np.testing.assert_array_equal(ratios.clipped(1.0)(rho, nu), [0.0, 0.5, 1.0])
    np.testing.assert_allclose(ratios.vtrace(2.0)(rho, nu), [0.0, 1.0, 2.5])
    np.testing.assert_array_equal(ratios.clipped(INF)(rho, None), rho)


IMPOSSIBLE = (-np.inf, 0.0, 1.0)


@pytest.mark.parametrize("action", [0, 1])
def test_gradients_are_finite_where_pi_never_acts(action):
    """ρ = 0 with gradient 0 for the impossible action; ordinary ones beside it."""
    pi, mu = jnp.array([IMPOSSIBLE]), jnp.array([[0.3, 0.1, 0.2]])
    taken = jnp.array([action])

    def rho(pi, mu):
        return ratios.from_logits(pi, mu, taken).rho_tm1[0]

    gradients = jax.grad(rho, argnums=(0, 1))(pi, mu)
    assert all(np.isfinite(g).all() for g in gradients)
    if action == 0:
        assert rho(pi, mu) == 0.0
        assert all((np.asarray(g) == 0).all() for g in gradients)
    else:
        # d log ρ / d logits of π = one-hot - π; of μ, the opposite.
        log_gradient = np.asarray(gradients[0][0]) / rho(pi, mu)
        np.testing.assert_allclose(
            log_gradient, np.eye(3)[1] - np.array(jax.nn.softmax(pi[0])), atol=1e-6
        )


def test_gradients_are_finite_where_neither_acts():
    """The ignored action of an autoreset step may be impossible for both."""
    both = jnp.array([IMPOSSIBLE])

    def total(pi, mu):
        rho_tm1, nu_tm1 = ratios.from_logits(pi, mu, jnp.array([0]))
        return (rho_tm1 + nu_tm1).sum()

    assert total(both, both) == pytest.approx(1.0)
    assert all(np.isfinite(g).all() for g in jax.grad(total, argnums=(0, 1))(both, both))


def test_gradients_of_probabilities_are_finite_at_zero():
    pi, mu = jnp.array([[0.0, 1.0]]), jnp.array([[0.0, 1.0]])

    def total(pi, mu):
        rho_tm1, nu_tm1 = ratios.from_probabilities(pi, mu, jnp.array([0]))
        return (rho_tm1 + nu_tm1).sum()

    assert ratios.from_probabilities(pi, mu, jnp.array([0])).rho_tm1[0] == 0.0
    assert all(np.isfinite(g).all() for g in jax.grad(total, argnums=(0, 1))(pi, mu))


def test_given_ratios_pass_through():
    rho = jnp.array([1.0, 2.0])
    assert ratios.given(rho) == ratios.Ratios(rho, None)


def test_a_missing_nu_is_explained():
    with pytest.raises(UserError) as caught:
        ratios.vtrace()(jnp.ones(2), None)
    assert caught.value.field == "nu_tm1"
    assert "ratios.from_logits" in str(caught.value)
