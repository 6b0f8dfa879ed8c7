"""First-order linear recurrences over axis 0."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_SMALL = 2048
"""Elements below which a loop costs more than the arithmetic in it."""


def backward(a: Float[Array, "T *B"], b: Float[Array, "T *B"]) -> Float[Array, "T *B"]:
    """xₜ = bₜ + aₜ xₜ₊₁, with x = 0 after the last step.

    A plain scan, unrolled where the whole array is small; see benchmarks/traces.py for
    what else was tried.
    """

    def step(x, ab):
        a, b = ab
        x = b + a * x
        return x, x

    unroll = len(b) if 0 < b.size <= _SMALL else 1
    _, x = jax.lax.scan(step, jnp.zeros_like(b[0]), (a, b), reverse=True, unroll=unroll)
    return x
