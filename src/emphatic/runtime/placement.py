"""Where arrays lie: streams spread over the devices, everything else on each of them."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from emphatic.agent.learner import LearnerState

STREAMS = "streams"
"""The mesh's one axis."""


def mesh(devices: Sequence[jax.Device]) -> Mesh:
    """These devices in a row."""
    return Mesh(np.asarray(devices), (STREAMS,), axis_types=(AxisType.Auto,))


def everywhere(mesh: Mesh) -> NamedSharding:
    """A copy on each device."""
    return NamedSharding(mesh, PartitionSpec())


def over(axis: int, mesh: Mesh) -> Callable[[Any], NamedSharding]:
    """For arrays whose axis `axis`, counted from the front or the back, is the streams'."""

    def place(x) -> NamedSharding:
        spec: list[str | None] = [None] * x.ndim
        if x.ndim >= 2 or axis == 0:
            spec[axis] = STREAMS
        return NamedSharding(mesh, PartitionSpec(*spec))

    return place


def of_learner(state: LearnerState, mesh: Mesh) -> Any:
    """A sharding for each array of a learner's state: what waits and traces go with the streams."""
    return jax.tree.map(lambda _: everywhere(mesh), state)._replace(
        trace=jax.tree.map(over(-2, mesh), state.trace),
        waiting=jax.tree.map(over(1, mesh), state.waiting),
    )


def dealt(parts: Sequence[Any], devices: Sequence[jax.Device], axis: int) -> list[Any]:
    """Actors' parts, in the order of their streams, as one tree for each device.

    Their numbers divide one another, so a device's share is some parts, or a piece of one.
    """
    if len(parts) % len(devices) == 0:
        each = len(parts) // len(devices)
        groups = [parts[i * each : (i + 1) * each] for i in range(len(devices))]
    else:
        each = len(devices) // len(parts)
        groups = [
            [jax.tree.map(lambda x, i=i: jnp.split(x, each, axis)[i], part)]
            for part in parts
            for i in range(each)
        ]
    return [
        _joined(jax.device_put(list(group), device), axis)
        for group, device in zip(groups, devices, strict=True)
    ]


def one(shares: Sequence[Any], mesh: Mesh, axis: int) -> Any:
    """A global array of each device's share of the streams."""

    def make(*pieces: jax.Array) -> jax.Array:
        shape = list(pieces[0].shape)
        shape[axis] *= mesh.size
        sharding = over(axis, mesh)(pieces[0])
        return jax.make_array_from_single_device_arrays(tuple(shape), sharding, list(pieces))

    return jax.tree.map(make, *shares)


@functools.partial(jax.jit, static_argnums=1)
def _joined(parts: list[Any], axis: int) -> Any:
    return jax.tree.map(lambda *x: jnp.concatenate(x, axis), *parts)
