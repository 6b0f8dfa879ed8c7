"""An environment in JAX, stepped from the host: `bridge.from_jax(envs.make("catch"))`.

For tests of what drives host environments: the same game can be played on either side,
and this side's state can be saved.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from emphatic.envs import base, host


def from_jax(environment: base.Environment) -> host.HostEnvironment:
    """The same environment on the host; stream `b` is that of the key `key(seeds[b])`.

    The stream is that of `base`, step for step: after a termination the next frame is the
    first of a new episode and no pseudo-step follows; after a truncation one does. It runs
    on the CPU, whatever other devices there are.
    """
    state = jax.eval_shape(lambda: jax.tree.map(_data, environment.init(jax.random.key(0))[0]))
    functions = _Functions(environment)
    return host.HostEnvironment(
        name=environment.name,
        num_actions=environment.num_actions,
        frame_shape=environment.observation_shape,
        frame_dtype=environment.observation_dtype,
        start=functools.partial(_Batch, functions),
        state_bytes=sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)),
        settings=environment.settings,
    )


class _Functions:
    """What all batches share, so that it is compiled once for each number of streams."""

    def __init__(self, environment: base.Environment):
        self.cpu = jax.local_devices(backend="cpu")[0]
        self.init = jax.jit(
            lambda seeds: jax.vmap(environment.init)(jax.vmap(jax.random.key)(seeds))
        )
        self.step = jax.jit(jax.vmap(environment.step))


class _Batch:
    def __init__(self, functions: _Functions, seeds: np.ndarray):
        self._functions = functions
        seeds = jax.device_put(np.asarray(seeds, np.uint32), functions.cpu)
        self._state, self._frame = functions.init(seeds)

    def reset(self) -> np.ndarray:
        return np.asarray(self._frame)

    def step(self, action: np.ndarray) -> host.HostStep:
        action = jax.device_put(np.asarray(action, np.int32), self._functions.cpu)
        self._state, step = self._functions.step(self._state, action)
        over = (step.discount == 0) & (step.ended | (step.weight == 0))
        given = (step.observation, over, *step[1:])
        return host.HostStep(*(np.asarray(field) for field in given))

    def save(self) -> np.ndarray:
        leaves = jax.tree.leaves(self._state)
        return np.concatenate([host.as_bytes(np.asarray(_data(leaf))) for leaf in leaves], axis=1)

    def load(self, saved: np.ndarray) -> None:
        leaves, structure = jax.tree.flatten(self._state)
        place, loaded = 0, []
        for leaf in leaves:
            data = _data(leaf)
            size = data.nbytes // len(saved)
            part = saved[:, place : place + size]
            loaded.append(_like(leaf, host.from_bytes(part, data.dtype).reshape(data.shape)))
            place += size
        state = jax.tree.unflatten(structure, loaded)
        self._state = jax.device_put(state, self._functions.cpu)

    def close(self) -> None:
        self._state = self._frame = None


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _data(leaf: Any) -> jax.Array:
    """A key as the numbers it is made of."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _like(leaf: Any, data: np.ndarray) -> jax.Array:
    """`data` as `leaf` had it: a key again, if that was one."""
    if not _is_key(leaf):
        return jnp.asarray(data)
    return jax.random.wrap_key_data(jnp.asarray(data), impl=jax.random.key_impl(leaf))
