"""Importance ratios ρ = π/μ, and the transforms that make a trace's ratio of them.

`from_logits`, `from_probabilities` and `given` make the two numbers every algorithm
here needs of a transition: the raw ratio ρ and the mass ν that V-trace's clipping
leaves at the state. `raw`, `clipped` and `vtrace` turn them into the ratio that feeds
a trace (`Transform`); targets clip for themselves, so the two choices stay independent.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from emphatic.errors import UserError


class Ratios(NamedTuple):
    """What π and μ say about each transition."""

    rho_tm1: Float[Array, "T *B"]
    """ρ = π(A|S) / μ(A|S) of the action taken, not clipped."""
    nu_tm1: Float[Array, "T *B"] | None
    """ν(S) = Σₐ min(ρ̄ μ(a|S), π(a|S)), the mass left by clipping; None if not known."""


Transform = Callable[[Float[Array, "T *B"], Float[Array, "T *B"] | None], Float[Array, "T *B"]]
"""Turns (`rho_tm1`, `nu_tm1`) into the ratio a trace is fed with."""


def from_logits(
    pi_logits: Float[Array, "T *B A"],
    mu_logits: Float[Array, "T *B A"],
    action: Int[Array, "T *B"],
    clip_rho: float = 1.0,
) -> Ratios:
    """ρ and ν from two sets of logits (normalised or not).

        ρ = exp(log π(A|S) - log μ(A|S)),   ν(S) = Σₐ min(ρ̄ μ(a|S), π(a|S))

    An action that π never takes has ρ = 0, also where μ never takes it either (the
    ignored action of an autoreset step), and gradients there are 0, never NaN.
    `clip_rho` is V-trace's ρ̄; `inf` gives ν = 1.
    """
    log_pi = jax.nn.log_softmax(pi_logits)
    log_mu = jax.nn.log_softmax(mu_logits)
    log_pi_a = jnp.take_along_axis(log_pi, action[..., None], axis=-1)[..., 0]
    log_mu_a = jnp.take_along_axis(log_mu, action[..., None], axis=-1)[..., 0]
    never = jnp.isneginf(log_pi_a)
    # The double `where` keeps the untaken branch finite, and so its gradient.
    log_rho = jnp.where(never, 0.0, log_pi_a) - jnp.where(never, 0.0, log_mu_a)
    rho_tm1 = jnp.where(never, 0.0, jnp.exp(log_rho))
    return Ratios(rho_tm1, clipped_mass(jnp.exp(log_pi), jnp.exp(log_mu), clip_rho))


def from_probabilities(
    pi: Float[Array, "T *B A"],
    mu: Float[Array, "T *B A"],
    action: Int[Array, "T *B"],
    clip_rho: float = 1.0,
) -> Ratios:
    """ρ and ν from two sets of probabilities; 0/0 counts as ρ = 0."""
    pi_a = jnp.take_along_axis(pi, action[..., None], axis=-1)[..., 0]
    mu_a = jnp.take_along_axis(mu, action[..., None], axis=-1)[..., 0]
    never = pi_a == 0
    rho_tm1 = jnp.where(never, 0.0, pi_a / jnp.where(never, 1.0, mu_a))
    return Ratios(rho_tm1, clipped_mass(pi, mu, clip_rho))


def given(rho_tm1: Float[Array, "T *B"], nu_tm1: Float[Array, "T *B"] | None = None) -> Ratios:
    """Ratios computed elsewhere; ν is needed only by V-trace's own traces."""
    return Ratios(rho_tm1, nu_tm1)


def clipped_mass(
    pi: Float[Array, "*T A"], mu: Float[Array, "*T A"], clip_rho: float = 1.0
) -> Float[Array, "*T"]:
    """ν(s) = Σₐ min(ρ̄ μ(a|s), π(a|s)); at ρ̄ = 1 this is 1 - TV(π, μ).

    Positive whenever μ covers π. The normaliser of the policy V-trace evaluates,
    π_ρ̄(a|s) = min(ρ̄ μ, π) / ν.
    """
    if clip_rho == float("inf"):
        return pi.sum(-1)
    return jnp.minimum(clip_rho * mu, pi).sum(-1)


def raw(rho_tm1: Float[Array, "T *B"], nu_tm1: Float[Array, "T *B"] | None) -> Float[Array, "T *B"]:
    """ρ itself: NETD and WETD."""
    del nu_tm1
    return rho_tm1


def clipped(clip_rho: float = 1.0) -> Transform:
    """min(ρ̄, ρ): Clip-NETD and Clip-WETD (a biased trace of finite variance)."""

    def transform(rho_tm1, nu_tm1):
        del nu_tm1
        return jnp.minimum(clip_rho, rho_tm1)

    return transform


def vtrace(clip_rho: float = 1.0) -> Transform:
    """ρᵛ = min(ρ̄, ρ) / ν(S) = π_ρ̄/μ: NEVtrace and WEVtrace.

    `nu_tm1` must have been computed with the same ρ̄.
    """

    def transform(rho_tm1, nu_tm1):
        return jnp.minimum(clip_rho, rho_tm1) / required(nu_tm1)

    return transform


def required(nu_tm1: Float[Array, "T *B"] | None) -> Float[Array, "T *B"]:
    """ν, or the sentence that says how to get it."""
    if nu_tm1 is None:
        raise UserError(
            "nu_tm1",
            "this trace needs ν(S), the mass V-trace's clipping leaves; "
            "take it from ratios.from_logits or ratios.from_probabilities",
        )
    return nu_tm1
