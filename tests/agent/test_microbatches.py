"""A batch in parts is the batch: values and gradients, whatever is left over."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emphatic.agent.microbatches import microbatched

ROWS = 7


def apply(params, x):
    return jnp.tanh(x @ params["w"] + params["b"][None])


def value_and_gradient(apply, params, x):
    y, pullback = jax.vjp(apply, params, x)
    return y, pullback(jnp.cos(jnp.arange(y.size, dtype=y.dtype)).reshape(y.shape))


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("size", [1, 4, ROWS])
def test_parts_add_up(size, recompute):
    params = {"w": jax.random.normal(jax.random.key(0), (5, 3)), "b": jnp.arange(3.0)}
    x = jax.random.normal(jax.random.key(1), (ROWS, 5))
    parts = value_and_gradient(microbatched(apply, size, recompute=recompute), params, x)
    whole = value_and_gradient(apply, params, x)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), parts, whole)


@pytest.mark.parametrize(("size", "rows"), [(2, 2), (3, 3), (4, 4), (5, 4), (6, 4)])
def test_no_part_is_larger_than_asked_and_parts_are_of_equal_size(size, rows):
    """Seven rows in parts of at most 5 are 4 and 4 (one of zeros), not 5 and 2."""
    seen = []

    def spy(params, x):
        seen.append(len(x))
        return apply(params, x)

    params = {"w": jnp.ones((5, 3)), "b": jnp.ones(3)}
    jax.eval_shape(microbatched(spy, size), params, jnp.ones((ROWS, 5)))
    assert set(seen) == {rows}
