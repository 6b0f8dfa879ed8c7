"""Losses against their formulas, and their gradients."""

import jax
import jax.numpy as jnp
import numpy as np

from emphatic import losses

LOGITS = jnp.array([[0.0, 1.0, -2.0], [3.0, 3.0, -jnp.inf], [0.0, -jnp.inf, -jnp.inf]])


def test_value_loss_and_its_gradient():
    target, v = jnp.array([1.0, -2.0]), jnp.array([0.5, 1.0])
    np.testing.assert_allclose(losses.value(target, v), [0.125, 4.5])
    gradient = jax.grad(lambda v: losses.value(target, v).sum())(v)
    np.testing.assert_allclose(gradient, v - target)


def test_policy_gradient_raises_what_did_well():
    """Its gradient with respect to log π is minus the advantage."""
    advantage = jnp.array([2.0, -1.0])
    log_pi = jnp.log(jnp.array([0.3, 0.6]))
    gradient = jax.grad(lambda x: losses.policy_gradient(x, advantage).sum())(log_pi)
    np.testing.assert_allclose(gradient, [-2.0, 1.0])
    np.testing.assert_allclose(losses.policy_gradient(log_pi, advantage), -log_pi * advantage)


def test_entropy_against_the_sum():
    pi = np.array(jax.nn.softmax(LOGITS))
    by_hand = [-sum(p * np.log(p) for p in row if p > 0) for row in pi]
    np.testing.assert_allclose(losses.entropy(LOGITS), by_hand, atol=1e-7)
    np.testing.assert_allclose(losses.entropy(jnp.zeros((1, 4))), [np.log(4.0)], rtol=1e-6)


def test_entropy_gradient_is_finite_where_an_action_is_impossible():
    gradient = jax.grad(lambda x: losses.entropy(x).sum())(LOGITS)
    assert np.isfinite(gradient).all()
    without = jax.grad(lambda x: losses.entropy(x).sum())(LOGITS[1:2, :2])
    np.testing.assert_allclose(gradient[1, :2], without[0], atol=1e-7)


def test_log_probability_of_the_action_taken():
    action = jnp.array([1, 0, 0])
    wanted = np.log(np.array(jax.nn.softmax(LOGITS))[np.arange(3), [1, 0, 0]])
    np.testing.assert_allclose(losses.log_probability(LOGITS, action), wanted, atol=1e-6)


def test_log_probability_gradient_is_finite_where_another_action_is_impossible():
    action = jnp.array([1, 0, 0])
    gradient = jax.grad(lambda x: losses.log_probability(x, action).sum())(LOGITS)
    one_hot, pi = np.eye(3)[[1, 0, 0]], np.array(jax.nn.softmax(LOGITS))
    np.testing.assert_allclose(gradient, one_hot - pi, atol=1e-6)


def parts():
    """Policy, value, entropy and emphasis, `[T, B]`."""
    rng = np.random.default_rng(0)
    return tuple(jnp.asarray(x, jnp.float32) for x in rng.uniform(0.5, 2.0, (4, 5, 2)))


def test_ace_weighs_policy_and_value_and_never_entropy():
    policy, value, entropy, emphasis = parts()
    costs = {"policy_cost": 2.0, "value_cost": 0.3, "entropy_cost": 0.1}
    ace = losses.actor_critic(*parts(), ace=True, **costs)
    np.testing.assert_allclose(
        ace, emphasis * (2.0 * policy + 0.3 * value) - 0.1 * entropy, rtol=1e-6
    )
    plain = losses.actor_critic(*parts(), ace=False, **costs)
    np.testing.assert_allclose(
        plain, 2.0 * policy + emphasis * 0.3 * value - 0.1 * entropy, rtol=1e-6
    )


def test_without_emphasis_both_are_impalas_loss():
    policy, value, entropy, emphasis = parts()
    one = jnp.ones_like(emphasis)
    impala = policy + 0.5 * value - 0.01 * entropy
    for ace in (True, False):
        loss = losses.actor_critic(policy, value, entropy, one, ace=ace)
        np.testing.assert_allclose(loss, impala, rtol=1e-6)
