"""How weights start."""

import jax
import numpy as np
import pytest

from emphatic.agent import weights


@pytest.mark.parametrize("shape", [(3, 3, 4, 16), (200, 30), (30, 200), (7, 7), (5, 1)])
def test_orthogonal_is_the_one_of_jax(shape):
    """Its QR, with R's diagonal positive, is Gram and Schmidt's."""
    key = jax.random.key(3)
    ours = weights.orthogonal(1.5)(key, shape)
    np.testing.assert_allclose(ours, jax.nn.initializers.orthogonal(1.5)(key, shape), atol=2e-5)


def test_orthogonal_needs_no_lapack():
    """A batched QR on two devices at once can wait for ever (see `weights.orthogonal`)."""
    start = weights.each(weights.start("orthogonal"))
    program = jax.jit(start, static_argnums=1).lower(jax.random.key(0), (6, 64, 128)).as_text()
    assert "lapack" not in program
    assert "while" in program


def test_a_kernel_of_each_matrix():
    """`[..., out, in]`: each matrix on its own, its output last before it is turned."""
    kernels = weights.each(weights.start("haiku"))(jax.random.key(0), (2, 3, 40, 50))
    flat = np.asarray(kernels).reshape(6, -1)
    assert len(np.unique(flat[:, 0])) == 6
    assert np.abs(kernels).max() <= 2 / np.sqrt(50)
