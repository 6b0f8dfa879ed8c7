"""First-order linear recurrences over axis 0, forward and backward in time."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def backward(a: Float[Array, "T *B"], b: Float[Array, "T *B"]) -> Float[Array, "T *B"]:
    """xₜ = bₜ + aₜ xₜ₊₁, with x = 0 after the last step."""

    def step(x, ab):
        a, b = ab
        x = b + a * x
        return x, x

    _, x = jax.lax.scan(step, jnp.zeros_like(b[0]), (a, b), reverse=True, unroll=16)
    return x
