"""Convolution and max pooling in the form the backend is fast at; `lax`'s in value and gradient.

On accelerators both are the stock operations. On CPU XLA has three weak spots, and each has
an answer here:

- it brings a convolution into the layout its fast kernel wants only in the outermost
  computation, so the two gradients of a convolution inside `lax.scan` run 5 to 100 times
  slower than outside. Here all three products are written in that layout (images
  `[N, H, W, C]`, kernel `[kh, kw, C, D]`) to begin with;
- its kernel is slow where a kernel's row covers few numbers (few channels), so there the
  patches are laid out and multiplied by a matrix;
- the gradient of a max pool (select-and-scatter) costs more than ten convolutions. Here a
  pool is one maximum along each axis which remembers the place it took.
"""

import functools
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Num

Padding = Literal["SAME", "VALID"]
Pads = tuple[tuple[int, int], ...]

_LAYOUT = ("NHWC", "HWIO", "NHWC")
_SHORT_ROW = 32
"""Numbers under one row of a kernel below which patches beat XLA's own kernel on CPU."""


def conv(
    x: Num[Array, "N H W C"] | Bool[Array, "N H W C"],
    kernel: Float[Array, "kh kw C D"],
    *,
    stride: int = 1,
    padding: Padding = "SAME",
    backend: str | None = None,
) -> Float[Array, "N h w D"]:
    """Cross-correlation, as `jax.lax.conv_general_dilated`.

        yₙᵢⱼ = Σₖₗ xₙ,ₛᵢ₊ₖ,ₛⱼ₊ₗ · kernelₖₗ

    Images of bytes or bools are converted inside, so that the backward pass keeps the
    bytes. `backend` says whose form to take (default: JAX's default backend). The CPU form
    has a reverse-mode gradient only.
    """
    pads = _pads(x.shape, kernel.shape[:2], stride, padding)
    if (backend or jax.default_backend()) == "cpu":
        return _conv_cpu(x, kernel, stride, pads)
    return _stock(x.astype(kernel.dtype), kernel, stride, pads)


def max_pool(
    x: Float[Array, "N H W C"],
    *,
    window: int = 3,
    stride: int = 2,
    padding: Padding = "SAME",
    backend: str | None = None,
) -> Float[Array, "N h w C"]:
    """The maximum of each window; its gradient goes to the first maximum in row-major order."""
    pads = _pads(x.shape, (window, window), stride, padding)
    if (backend or jax.default_backend()) == "cpu":
        # Columns first: then the later choice, between rows, is the one that comes first.
        columns = _pool_axis(x, 2, window, stride, pads[1])
        return _pool_axis(columns, 1, window, stride, pads[0])
    sizes, strides = (1, window, window, 1), (1, stride, stride, 1)
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, sizes, strides, ((0, 0), *pads, (0, 0)))


def _pads(shape: tuple[int, ...], window: tuple[int, ...], stride: int, padding: Padding) -> Pads:
    """Rows and columns to add before and behind."""
    return tuple(jax.lax.padtype_to_pads(shape[1:3], window, (stride, stride), padding))


def _stock(x, kernel, stride: int, pads: Pads, **dilation):
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), pads, dimension_numbers=_LAYOUT, **dilation
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _conv_cpu(x, kernel, stride: int, pads: Pads):
    if kernel.shape[1] * kernel.shape[2] < _SHORT_ROW:
        return _patches_times_matrix(x, kernel, stride, pads)
    return _stock(x.astype(kernel.dtype), kernel, stride, pads)


def _conv_forward(x, kernel, stride, pads):
    return _conv_cpu(x, kernel, stride, pads), (x, kernel)


def _conv_backward(stride, pads, residuals, g):
    x, kernel = residuals
    x_in_g = x.astype(g.dtype)
    if kernel.shape[1] * kernel.shape[2] < _SHORT_ROW:
        dkernel = _kernel_gradient_by_patches(x_in_g, g, kernel.shape, stride, pads)
    else:
        dkernel = _kernel_gradient(x_in_g, g, kernel.shape, stride, pads)
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return np.zeros(x.shape, jax.dtypes.float0), dkernel
    return _input_gradient(g, kernel, x.shape, stride, pads), dkernel


_conv_cpu.defvjp(_conv_forward, _conv_backward)


def _kernel_gradient(x, g, shape, stride, pads):
    """dkernelₖₗ = Σₙᵢⱼ xₙ,ₛᵢ₊ₖ,ₛⱼ₊ₗ gₙᵢⱼ: the batch is what is summed over, channels are images."""
    high = [
        k - size - low + (out - 1) * stride
        for k, size, out, (low, _) in zip(shape, x.shape[1:], g.shape[1:3], pads, strict=False)
    ]
    pads = tuple((low, h) for (low, _), h in zip(pads, high, strict=True))
    images, kernel = x.transpose(3, 1, 2, 0), g.transpose(1, 2, 0, 3)
    return _stock(images, kernel, 1, pads, rhs_dilation=(stride, stride)).transpose(1, 2, 0, 3)


def _kernel_gradient_by_patches(x, g, shape, stride, pads):
    """gᵀ patches; where the forward pass is in the same computation XLA uses its patches again."""
    patches = _patches(x, shape, stride, pads)
    rows = patches.reshape(-1, patches.shape[-1])
    product = jax.lax.dot_general(g.reshape(-1, shape[-1]), rows, (((0,), (0,)), ((), ())))
    return product.T.reshape(shape)


def _input_gradient(g, kernel, shape, stride, pads):
    """dx: g, spread `stride` apart, under the kernel turned round."""
    low = [k - 1 - before for k, (before, _) in zip(kernel.shape, pads, strict=False)]
    high = [
        size - ((out - 1) * stride + 1) - before + k - 1
        for size, out, before, k in zip(shape[1:], g.shape[1:3], low, kernel.shape, strict=False)
    ]
    turned = kernel[::-1, ::-1].transpose(0, 1, 3, 2)
    return _stock(g, turned, 1, tuple(zip(low, high, strict=True)), lhs_dilation=(stride, stride))


def _patches_times_matrix(x, kernel, stride, pads):
    """The same product with every patch laid out as a row."""
    patches = _patches(x.astype(kernel.dtype), kernel.shape, stride, pads)
    return (patches.reshape(-1, patches.shape[-1]) @ kernel.reshape(-1, kernel.shape[-1])).reshape(
        *patches.shape[:-1], -1
    )


def _patches(x, shape, stride, pads):
    """Every patch as a row of kh kw C numbers, `[N, h, w, ...]`."""
    k, l = shape[:2]
    x = jnp.pad(x, ((0, 0), *pads, (0, 0)))
    h, w = (x.shape[1] - k) // stride + 1, (x.shape[2] - l) // stride + 1
    rows = [x[:, i : i + stride * (h - 1) + 1 : stride] for i in range(k)]
    taps = [row[:, :, j : j + stride * (w - 1) + 1 : stride] for row in rows for j in range(l)]
    return jnp.concatenate(taps, axis=-1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3, 4))
def _pool_axis(x, axis: int, window: int, stride: int, pad: tuple[int, int]):
    """Maximum of every window along one axis."""
    return functools.reduce(jnp.maximum, _taps(x, axis, window, stride, pad))


def _pool_forward(x, axis, window, stride, pad):
    maximum, *others = _taps(x, axis, window, stride, pad)
    place = jnp.zeros(maximum.shape, jnp.uint8)
    for q, tap in enumerate(others, start=1):
        better = tap > maximum
        maximum = jnp.where(better, tap, maximum)
        place = jnp.where(better, jnp.uint8(q), place)
    # A static length travels through a residual as the shape of an empty array.
    return maximum, (place, jnp.zeros((x.shape[axis], 0)))


def _pool_backward(axis, window, stride, pad, residuals, g):
    place, length = residuals
    # Windows start `stride` apart: the q-th numbers of all windows lie in one of `stride` phases.
    long = -(-(len(length) + sum(pad)) // stride)
    shape = (*g.shape[:axis], long, *g.shape[axis + 1 :])
    phases = [jnp.zeros(shape, g.dtype)] * stride
    for q in range(window):
        widths = [(0, 0)] * g.ndim
        widths[axis] = (q // stride, long - g.shape[axis] - q // stride)
        phases[q % stride] += jnp.pad(jnp.where(place == q, g, 0), widths)
    dx = jax.lax.collapse(jnp.stack(phases, axis + 1), axis, axis + 2)
    return (jax.lax.slice_in_dim(dx, pad[0], pad[0] + len(length), axis=axis),)


_pool_axis.defvjp(_pool_forward, _pool_backward)


def _taps(x, axis, window, stride, pad) -> list[Float[Array, "..."]]:
    """The first, second, ... number of every window."""
    out = (x.shape[axis] + sum(pad) - window) // stride + 1
    widths = [(0, 0)] * x.ndim
    widths[axis] = pad
    x = jnp.pad(x, widths, constant_values=-jnp.inf)
    last = stride * (out - 1) + 1
    return [jax.lax.slice_in_dim(x, q, q + last, stride, axis) for q in range(window)]
