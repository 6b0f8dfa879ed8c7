"""How weights start; biases start at 0."""

import math
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

Weights = Literal["haiku", "orthogonal"]

Start = Callable[..., Array]
"""`start(key, shape, dtype) -> kernel`, as Flax's initialisers."""


def start(kind: Weights, gain: float | None = None) -> Start:
    """An initialiser: the kernel's last axis is its output; `gain` None means a ReLU follows.

    Haiku's is a normal of deviation 1/sqrt(fan in), cut at two deviations, whatever follows.
    """
    if kind == "orthogonal":
        return orthogonal(math.sqrt(2.0) if gain is None else gain)

    def haiku(key, shape, dtype=jnp.float32):
        deviation = (1.0 if gain is None else gain) / math.sqrt(math.prod(shape[:-1]))
        return jax.nn.initializers.truncated_normal(deviation)(key, shape, dtype)

    return haiku


def each(start: Start) -> Start:
    """An initialiser of `[..., out, in]`: matrices, each as `start` makes it."""

    def many(key, shape, dtype=jnp.float32):
        *count, outputs, inputs = shape
        keys = jax.random.split(key, math.prod(count))
        matrices = jax.vmap(lambda key: start(key, (inputs, outputs), dtype))(keys)
        return matrices.mT.reshape(shape)

    return many


def orthogonal(gain: float) -> Start:
    """`gain` times a matrix drawn evenly from those with orthonormal columns (or rows, if fewer).

    Columns of a Gaussian matrix, each made orthogonal to those before it, twice, and of length
    1. Equal to `jax.nn.initializers.orthogonal` but for rounding, without LAPACK: its batched QR
    waits inside XLA's pool of threads for that pool, for ever where two devices do so at once.
    """

    def draw(key: Key[Array, ""], shape: tuple[int, ...], dtype: Any = jnp.float32) -> Array:
        rows, columns = math.prod(shape[:-1]), shape[-1]
        tall = (max(rows, columns), min(rows, columns))
        basis = _orthonormal(jax.random.normal(key, tall, dtype))
        return gain * (basis if rows >= columns else basis.T).reshape(shape)

    return draw


def _orthonormal(vectors: Float[Array, "N k"]) -> Float[Array, "N k"]:
    """Gram and Schmidt's columns of `vectors`, N >= k."""

    def add(k, basis):
        vector = vectors[:, k]
        for _ in range(2):
            vector -= basis @ (basis.T @ vector)
        return basis.at[:, k].set(vector / jnp.linalg.norm(vector))

    return jax.lax.fori_loop(0, vectors.shape[1], add, jnp.zeros_like(vectors))
