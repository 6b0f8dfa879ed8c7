"""Is this trace, or this target, what the slow definition says? In float64 or float32."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import slow_definitions

from emphatic import laws

STEPS, BATCH, CUT = 22, 3, 11
"""One shape for nearly all, because every new shape is compiled anew.

Neither 22 nor 11 is a multiple of most n tested: windows are cut by the unroll's end.
"""

RTOL = {np.float64: 1e-10, np.float32: 1e-5}


def check_emphasis(algorithm, trace=None, *, dtype=np.float64, cuts=(), stream=None):
    """`trace` (by default the algorithm's own) emits what the algorithm's definition says.

    In one unroll, or in several: `cuts` are the steps at which a new one starts.
    """
    trace = trace or algorithm.trace
    stream = stream or laws.random_stream(STEPS, (BATCH,), seed=algorithm.n)
    stream = laws.Stream(*(x.astype(dtype) for x in stream))
    wanted = slow_definitions.emphasis(algorithm, *stream)
    got = unrolled(trace, stream, cuts)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, wanted, rtol=RTOL[dtype])


def unrolled(trace, stream, cuts=()):
    """Emphasis of a stream from its start, in the stream's own precision."""
    dtype, steps = stream.rho_tm1.dtype, len(stream.rho_tm1)
    with jax.enable_x64(dtype == np.float64):
        update = jax.jit(trace.update)
        state, parts = trace.init(stream.rho_tm1.shape[1:], dtype), []
        for first, last in itertools.pairwise((0, *cuts, steps)):
            state, emphasis = update(state, *map(jnp.asarray, stream.part(first, last)))
            parts.append(np.asarray(emphasis))
    return np.concatenate(parts)


def transitions(steps, batch_shape=(), seed=0, dtype=np.float64):
    """Values, rewards, discounts and ratios, with both kinds of episode end."""
    rng = np.random.default_rng(seed)
    stream = laws.random_stream(steps, batch_shape, seed)
    values = rng.normal(size=(steps + 1, *batch_shape))
    reward = rng.normal(size=(steps, *batch_shape))
    arrays = (values[:-1], values[1:], reward, stream.discount_t, stream.rho_tm1)
    return tuple(np.asarray(x, dtype) for x in arrays)


def check_target(algorithm, target=None, *, dtype=np.float64, steps=STEPS, arrays=None):
    """`target` (by default the algorithm's own) is the algorithm's definition."""
    target = target or algorithm.target
    if arrays is None:
        arrays = transitions(steps, (BATCH,), seed=algorithm.n, dtype=dtype)
    with jax.enable_x64(dtype is np.float64):
        got = jax.jit(target)(*map(jnp.asarray, arrays))
        got = np.stack([np.asarray(got.value_tm1), np.asarray(got.advantage_tm1)], axis=1)
    assert got.dtype == dtype
    wanted = slow_definitions.target(algorithm, *arrays)
    # Signed sums cancel: an error is measured by the size of the numbers summed.
    atol = RTOL[dtype] * np.abs(wanted).max()
    np.testing.assert_allclose(got, wanted, rtol=RTOL[dtype], atol=atol)
