"""Losses, one number per step; the caller reduces once.

All are `[T, *B]`. Targets come detached, so no loss holds a `stop_gradient`.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def value(target_tm1: Float[Array, "T *B"], v_tm1: Float[Array, "T *B"]) -> Float[Array, "T *B"]:
    """½ (Gₜ - V(Sₜ))²."""
    return 0.5 * jnp.square(target_tm1 - v_tm1)


def policy_gradient(
    log_pi_a: Float[Array, "T *B"], advantage_tm1: Float[Array, "T *B"]
) -> Float[Array, "T *B"]:
    """-log π(Aₜ|Sₜ) times the advantage, which brings its own importance ratio."""
    return -log_pi_a * advantage_tm1


def entropy(logits: Float[Array, "T *B A"]) -> Float[Array, "T *B"]:
    """H(π) = -Σₐ π(a) log π(a); an action of probability 0 adds 0."""
    log_pi = jax.nn.log_softmax(logits)
    never = jnp.isneginf(log_pi)
    return -jnp.where(never, 0.0, jnp.exp(log_pi) * jnp.where(never, 0.0, log_pi)).sum(-1)


def log_probability(
    logits: Float[Array, "T *B A"], action: Int[Array, "T *B"]
) -> Float[Array, "T *B"]:
    """log π(Aₜ|Sₜ)."""
    return jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], axis=-1)[..., 0]


def actor_critic(
    policy_tm1: Float[Array, "T *B"],
    value_tm1: Float[Array, "T *B"],
    entropy_tm1: Float[Array, "T *B"],
    emphasis_tm1: Float[Array, "T *B"],
    *,
    ace: bool,
    policy_cost: float = 1.0,
    value_cost: float = 0.5,
    entropy_cost: float = 0.01,
) -> Float[Array, "T *B"]:
    """The emphatic actor-critic loss of each step, with and without -ACE.

        -ACE:  F (c_π ℒ_π + c_V ℒ_V) - c_H H        else:  c_π ℒ_π + F c_V ℒ_V - c_H H

    Entropy is never weighted. With F = 1 both are IMPALA's loss.
    Reference: Jiang et al. 2021, "Emphatic Actor-critics" and Algorithm 3; Imani et al. 2018.
    """
    policy_weight = emphasis_tm1 if ace else 1.0
    return (
        policy_weight * policy_cost * policy_tm1
        + emphasis_tm1 * value_cost * value_tm1
        - entropy_cost * entropy_tm1
    )
