"""Multi-step targets in both update schemes: n-step TD, clipped n-step TD, V-trace.

    Gₜ = V(Sₜ) + Σᵢ₌ₜᵗ⁺ᵐ⁻¹ (∏ⱼ₌ₜⁱ⁻¹ cⱼ γⱼ₊₁) ρᵢ δᵢ,   δᵢ = Rᵢ₊₁ + γᵢ₊₁ V(Sᵢ₊₁) - V(Sᵢ)

Every target of this module is this sum. They differ in the ratio on the TD error (ρ),
the ratio in the products (c), and how far the sum reaches (m):

- fixed scheme: m = n for every state;
- mixed scheme: windows of n, the k-th state of a window has m = n - k, so that all of a
  window bootstraps from its end.

The sum also stops at the end of the unroll. A transition with discount 0 ends an episode.
An autoreset step (its action is ignored) has discount 0 and ratio 0: the step before it
then bootstraps from the value of the final observation and nothing leaks across, which
is how a truncated episode ends without a word of code here.

All arrays are `[T, *B]`; `v_tm1` are values of the source states, `v_t` of the
destinations. Targets come detached.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from emphatic import recurrences
from emphatic.errors import UserError

Scheme = Literal["fixed", "mixed"]


class Target(NamedTuple):
    """What a value head and a policy head learn from one transition."""

    value_tm1: Float[Array, "T *B"]
    """Gₜ, the target of V(Sₜ)."""
    advantage_tm1: Float[Array, "T *B"]
    """ρₚ (Rₜ₊₁ + γₜ₊₁ Gₜ₊₁ - V(Sₜ)), with Gₜ₊₁ reaching to the same bootstrap state."""


def td(
    v_tm1: Float[Array, "T *B"],
    v_t: Float[Array, "T *B"],
    r_t: Float[Array, "T *B"],
    discount_t: Float[Array, "T *B"],
    rho_tm1: Float[Array, "T *B"],
    *,
    n: int,
    scheme: Scheme,
    clip_pg_rho: float = float("inf"),
) -> Target:
    """Off-policy n-step TD: ρ and c are the raw ratio.

    Reference: Jiang et al. 2021, Eq. "tdn".
    """
    pg_rho = jnp.minimum(clip_pg_rho, rho_tm1)
    return multistep(v_tm1, v_t, r_t, discount_t, rho_tm1, rho_tm1, pg_rho, n=n, scheme=scheme)


def clipped_td(
    v_tm1: Float[Array, "T *B"],
    v_t: Float[Array, "T *B"],
    r_t: Float[Array, "T *B"],
    discount_t: Float[Array, "T *B"],
    rho_tm1: Float[Array, "T *B"],
    *,
    n: int,
    scheme: Scheme,
    clip_c: float = 1.0,
    clip_pg_rho: float = float("inf"),
) -> Target:
    """Clipped n-step TD: c is clipped, the ratio on the TD error is not.

    Its fixed point is that of π, as ρ̄ = ∞ in V-trace. Reference: Jiang et al. 2021,
    appendix "Two-state MDP".
    """
    c = jnp.minimum(clip_c, rho_tm1)
    pg_rho = jnp.minimum(clip_pg_rho, rho_tm1)
    return multistep(v_tm1, v_t, r_t, discount_t, rho_tm1, c, pg_rho, n=n, scheme=scheme)


def vtrace(
    v_tm1: Float[Array, "T *B"],
    v_t: Float[Array, "T *B"],
    r_t: Float[Array, "T *B"],
    discount_t: Float[Array, "T *B"],
    rho_tm1: Float[Array, "T *B"],
    *,
    n: int,
    scheme: Scheme,
    clip_rho: float = 1.0,
    clip_c: float = 1.0,
    clip_pg_rho: float = 1.0,
    lambda_: float = 1.0,
) -> Target:
    """V-trace: ρ = min(ρ̄, π/μ) on the TD error, c = λ min(c̄, π/μ) in the products.

    Reference: Espeholt et al., "IMPALA", 2018; Jiang et al. 2021, Eq. "vtrace_orig".
    """
    rho = jnp.minimum(clip_rho, rho_tm1)
    c = lambda_ * jnp.minimum(clip_c, rho_tm1)
    pg_rho = jnp.minimum(clip_pg_rho, rho_tm1)
    return multistep(v_tm1, v_t, r_t, discount_t, rho, c, pg_rho, n=n, scheme=scheme)


def multistep(
    v_tm1: Float[Array, "T *B"],
    v_t: Float[Array, "T *B"],
    r_t: Float[Array, "T *B"],
    discount_t: Float[Array, "T *B"],
    rho_tm1: Float[Array, "T *B"],
    c_tm1: Float[Array, "T *B"],
    pg_rho_tm1: Float[Array, "T *B"],
    *,
    n: int,
    scheme: Scheme,
) -> Target:
    """The sum at the top of this module, for any three ratios; n beyond T means T."""
    if n < 1:
        raise UserError("n", f"must be a whole number of at least 1, not {n!r}")
    if scheme not in SCHEMES:
        raise UserError("scheme", f"must be 'fixed' or 'mixed', not {scheme!r}")
    arrays = (v_tm1, v_t, r_t, discount_t, rho_tm1, c_tm1, pg_rho_tm1)
    v_tm1, v_t, r_t, discount_t, rho_tm1, c_tm1, pg_rho_tm1 = jax.lax.stop_gradient(arrays)
    td_tm1 = r_t + discount_t * v_t - v_tm1
    n = min(n, len(td_tm1))
    # `beyond`: Gₜ₊₁ - V(Sₜ₊₁), the part of the sum that lies beyond the first transition.
    beyond = SCHEMES[scheme](rho_tm1 * td_tm1, discount_t * c_tm1, n)
    value_tm1 = v_tm1 + rho_tm1 * td_tm1 + discount_t * c_tm1 * beyond
    advantage_tm1 = pg_rho_tm1 * (td_tm1 + discount_t * beyond)
    return Target(value_tm1, advantage_tm1)


def _beyond_fixed(
    error: Float[Array, "T *B"], decay: Float[Array, "T *B"], n: int
) -> Float[Array, "T *B"]:
    """Each state's sum, n - 1 terms at most, seen from the state before."""
    if n == len(error):
        return _next(recurrences.backward(decay, error))
    total = jnp.zeros_like(error)
    for _ in range(n - 1):
        total = error + decay * _next(total)
    return _next(total)


def _beyond_mixed(
    error: Float[Array, "T *B"], decay: Float[Array, "T *B"], n: int
) -> Float[Array, "T *B"]:
    """Each state's sum up to its window's end, seen from the state before."""
    steps = len(error)
    whole = -(-steps // n)
    padding = [(0, whole * n - steps), *[(0, 0)] * (error.ndim - 1)]

    def windows(x):
        x = jnp.pad(x, padding).reshape(whole, n, *x.shape[1:])
        return jnp.moveaxis(x, 1, 0)

    beyond = _next(recurrences.backward(windows(decay), windows(error)))
    return jnp.moveaxis(beyond, 0, 1).reshape(whole * n, *error.shape[1:])[:steps]


def _next(x: Float[Array, "T *B"]) -> Float[Array, "T *B"]:
    """x of the following step, 0 at the end."""
    return jnp.concatenate([x[1:], jnp.zeros_like(x[:1])])


SCHEMES = {"fixed": _beyond_fixed, "mixed": _beyond_mixed}
