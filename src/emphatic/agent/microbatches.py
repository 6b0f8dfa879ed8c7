"""A function of a batch, computed a few rows at a time."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree, Shaped

Apply = Callable[[Any, Any], Any]
"""`apply(params, x)`, row by row: a row of the output depends on its row of x alone."""


def microbatched(apply: Apply, size: int, *, recompute: bool = False) -> Apply:
    """The same function, evaluated over at most `size` rows of x at a time.

        y = concat(apply(params, x¹), apply(params, x²), …),   ∂params = Σᵢ ∂params(xⁱ)

    What one step works on then fits the cache, forward and backward: differentiating the
    scan over micro-batches gives the scan that sums the parameters' gradient. The forward
    pass is not repeated, since the scan keeps what the backward pass needs; with
    `recompute` it keeps nothing but x, for a third more arithmetic: for networks whose
    activations do not fit the memory.

    Micro-batches are of equal size; the last is filled up with zeros where needed.
    """
    part = jax.checkpoint(apply) if recompute else apply

    def in_parts(params: PyTree, x: Shaped[Array, "N ..."]) -> Shaped[Array, "N ..."]:
        count = max(1, -(-len(x) // size))
        if count == 1:
            return part(params, x)
        rows = -(-len(x) // count)
        filled = jnp.pad(x, [(0, count * rows - len(x)), *[(0, 0)] * (x.ndim - 1)])
        y = jax.lax.map(lambda x: part(params, x), filled.reshape(count, rows, *x.shape[1:]))
        return y.reshape(count * rows, *y.shape[2:])[: len(x)]

    return in_parts
