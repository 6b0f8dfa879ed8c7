"""A tree like a learner's state, and whether two are the same to the bit."""

import jax
import jax.numpy as jnp
import numpy as np


def bits(leaf):
    """The leaf as bytes, with its type."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return "key", str(jax.random.key_impl(leaf)), bits(jax.random.key_data(leaf))
    array = np.asarray(leaf)
    return type(leaf).__name__, array.dtype.name, array.shape, array.tobytes()


def assert_same(one, two):
    assert jax.tree.structure(one) == jax.tree.structure(two)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        assert bits(a) == bits(b)


def tree(value=0):
    """Like a learner's state: nested, of many types, some leaves empty."""
    rng = np.random.default_rng(value)
    return {
        "params": {"w": jnp.asarray(rng.normal(size=(7, 5)), jnp.float32), "b": jnp.zeros(3)},
        "half": jnp.asarray(rng.normal(size=9), jnp.bfloat16),
        "key": jax.random.key(value),
        "keys": jax.random.split(jax.random.key(value, impl="rbg"), 3),
        "empty": jnp.zeros((0, 4)),
        "count": value,
        "host": (rng.normal(size=(2, 3)), np.float64(value), True, 0.5),
    }
