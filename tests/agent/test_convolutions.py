"""The CPU forms equal `lax`'s in value and in both gradients, also inside a scan."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emphatic.agent import convolutions

SHAPES = {
    # images, kernel, stride, padding
    "nature, first": ((3, 20, 20, 4), (8, 8, 4, 8), 4, "VALID"),
    "nature, second": ((2, 9, 9, 16), (4, 4, 16, 8), 2, "VALID"),
    "short rows": ((3, 10, 10, 4), (3, 3, 4, 8), 1, "VALID"),
    "short rows, padded, strided": ((2, 7, 8, 3), (3, 3, 3, 5), 2, "SAME"),
    "residual block": ((2, 7, 6, 16), (3, 3, 16, 16), 1, "SAME"),
    "padded, strided": ((2, 7, 8, 16), (3, 3, 16, 5), 2, "SAME"),
    "rows left over": ((2, 12, 11, 16), (3, 5, 16, 4), 3, "VALID"),
}


def normal(shape, seed=0):
    """Random numbers by NumPy, which has nothing to compile."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def with_gradients(function, *arguments):
    """The function's value, and its gradients under a random cotangent."""
    y, pullback = jax.vjp(function, *arguments)
    return y, *pullback(normal(y.shape, seed=2))


def stock(x, kernel, stride, padding):
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), padding, dimension_numbers=layout
    )


@pytest.mark.parametrize("case", SHAPES)
def test_convolution_is_that_of_lax(case):
    shape, kernel_shape, stride, padding = SHAPES[case]
    x, kernel = normal(shape), normal(kernel_shape, seed=1)
    ours = functools.partial(convolutions.conv, stride=stride, padding=padding, backend="cpu")
    theirs = functools.partial(stock, stride=stride, padding=padding)
    for a, b in zip(
        jax.jit(functools.partial(with_gradients, ours))(x, kernel),
        jax.jit(functools.partial(with_gradients, theirs))(x, kernel),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max())


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_bytes_and_bools_are_numbers(backend):
    """They are converted inside, and the kernel's gradient is that of the numbers."""
    numbers = jnp.asarray(np.random.default_rng(0).integers(0, 256, (2, 6, 6, 3)))
    kernel = normal((3, 3, 3, 4))

    for dtype in (jnp.uint8, jnp.bool_):
        x = numbers.astype(dtype)
        ours = with_gradients(lambda k, x=x: convolutions.conv(x, k, backend=backend), kernel)
        x = x.astype(jnp.float32)
        theirs = with_gradients(lambda k, x=x: stock(x, k, 1, "SAME"), kernel)
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max())


def test_a_gradient_inside_a_scan_needs_no_layout_of_its_own():
    """XLA's fast CPU kernel takes batch first, channels last; our gradients say nothing else."""
    x, kernel = jnp.ones((4, 9, 9, 16)), jnp.ones((3, 3, 16, 8))

    def loss(x, kernel):
        return convolutions.conv(x, kernel, padding="VALID", backend="cpu").sum()

    text = jax.jit(jax.grad(loss, (0, 1))).lower(x, kernel).as_text()
    layouts = [line for line in text.splitlines() if "stablehlo.convolution" in line]
    assert len(layouts) == 2, "the kernel's gradient and the input's"
    assert all("[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]" in line for line in layouts)


POOLS = [
    ((2, 6, 7, 3), 3, 2, "SAME"),
    ((2, 7, 6, 3), 3, 2, "VALID"),
    ((1, 7, 8, 2), 2, 2, "VALID"),
    ((1, 7, 9, 2), 2, 3, "SAME"),
    ((1, 5, 6, 2), 3, 1, "SAME"),
]


@pytest.mark.parametrize(("shape", "window", "stride", "padding"), POOLS)
def test_max_pool_is_that_of_lax(shape, window, stride, padding):
    """Also where maxima tie, as they do all over a flat background: three values only."""
    x = jnp.asarray(np.random.default_rng(0).integers(0, 3, shape).astype(np.float32))
    kind = {"window": window, "stride": stride, "padding": padding}
    ours, theirs = (
        jax.jit(
            functools.partial(
                with_gradients, functools.partial(convolutions.max_pool, **kind, backend=backend)
            )
        )(x)
        for backend in ("cpu", "gpu")
    )
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6, atol=1e-6)
