"""Several processes as one run, on `jax.distributed`.

Every process runs the same program and brings its own environments; arrays over the streams
are global, and `jit` inserts the all-reduce. Process 0 writes the run. What is here is all
that has to know how many processes there are; with one, nothing is sent.

Functions that exchange something must be called by every process, in the same order.
"""

import collections
import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jaxtyping import PyTree

from emphatic.errors import Stopped, UserError

Tree = TypeVar("Tree")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProcessesConfig:
    """How this process finds the others; the default is to be alone."""

    distributed: bool = False
    """Join the processes that SLURM, Kubernetes, mpirun or a TPU pod started."""
    coordinator: str | None = None
    """host:port of process 0, where nothing above tells; with --process and --processes."""
    process: int | None = None
    """Number of this process, from 0."""
    processes: int | None = None
    """How many there are."""

    def __post_init__(self):
        by_hand = (self.coordinator, self.process, self.processes)
        if all(x is None for x in by_hand):
            return
        for field in ("coordinator", "process", "processes"):
            if getattr(self, field) is None:
                raise UserError(
                    field, "is missing: --coordinator, --process, --processes go together"
                )
        host, colon, port = str(self.coordinator).rpartition(":")
        if not (host and colon and port.isdigit()):
            raise UserError("coordinator", f"must be host:port, not {self.coordinator!r}")
        if not 0 <= (self.process or 0) < (self.processes or 0):
            raise UserError("process", f"must lie in [0, {self.processes}), not {self.process}")


def join(config: ProcessesConfig, *, patience: int = 30) -> None:
    """Find the other processes; before anything else is asked of JAX.

    A process that is silent for `patience` seconds is taken for dead, and the others end.
    """
    if not config.distributed and config.coordinator is None:
        return
    # Gloo is what processes on CPUs talk through; accelerators have their own.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            config.coordinator,
            config.processes,
            config.process,
            heartbeat_timeout_seconds=patience,
            initialization_timeout=60 + patience,
        )
    except (RuntimeError, ValueError) as error:
        line = str(error).strip().splitlines()[0]
        raise UserError("coordinator", f"the processes did not find each other ({line})") from error


def devices(each: int) -> list[jax.Device]:
    """The first `each` devices of every process, process after process."""
    fewest = min(collections.Counter(d.process_index for d in jax.devices()).values())
    if each > fewest:
        raise UserError("devices", f"are {fewest} here, not {each}")
    found: dict[int, list[jax.Device]] = {}
    for device in jax.devices():
        found.setdefault(device.process_index, []).append(device)
    return [device for process in sorted(found) for device in found[process][:each]]


def writes() -> bool:
    """Whether this is the process that writes the run."""
    return jax.process_index() == 0


def agreed(flag: bool) -> bool:
    """Whether any process says so."""
    return bool(_each(np.asarray(flag)).any())


def total(number: int) -> int:
    """The sum over processes."""
    return int(_each(np.asarray(number, np.int32)).sum())


def from_writer(number: int) -> int:
    """What process 0 has."""
    return int(_each(np.asarray(number, np.int32))[0])


def gathered(tree: Tree, axis: int) -> Tree:
    """NumPy arrays of our streams as those of all processes, joined along `axis`."""
    if jax.process_count() == 1:
        return tree
    return jax.tree.map(lambda x: np.concatenate(list(_each(np.asarray(x))), axis=axis), tree)


def whole(array: Any) -> Any:
    """A global array's value, as an array of this process."""
    if not isinstance(array, jax.Array) or array.is_fully_addressable:
        return array
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.asarray(whole(jax.random.key_data(array))))
    if array.is_fully_replicated:
        return np.asarray(array.addressable_data(0))
    return multihost_utils.process_allgather(array, tiled=True)


def place(value: Any, like: jax.Array) -> jax.Array:
    """`value`, which every process has, as a global array that lies as `like` does."""
    if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        data = np.asarray(jax.random.key_data(value))
        return jax.random.wrap_key_data(place(data, jax.random.key_data(like)))
    value = np.asarray(value)
    return jax.make_array_from_callback(like.shape, like.sharding, lambda index: value[index])


def on_device(tree: PyTree, device: jax.Device) -> PyTree:
    """Replicated arrays as arrays of that one device of ours, copied only if they must be."""

    def here(x: jax.Array) -> jax.Array:
        for shard in x.addressable_shards:
            if shard.device == device:
                return shard.data  # pyright: ignore[reportReturnType]
        return jax.device_put(x.addressable_data(0), device)

    return jax.tree.map(here, tree)


def ended_together(work: Callable[[], Tree]) -> Tree:
    """What `work` gives; that another process is gone, as a sentence."""
    if jax.process_count() == 1:
        return work()
    try:
        return work()
    except (jax.errors.JaxRuntimeError, RuntimeError) as error:
        if isinstance(error, Stopped):
            raise
        line = str(error).strip().splitlines()[0]
        raise Stopped(
            f"process {jax.process_index()} lost another one ({line}); "
            "start all processes again with --resume"
        ) from error


def _each(value: np.ndarray) -> np.ndarray:
    """`[processes, ...]`: what each process has."""
    if jax.process_count() == 1:
        return value[None]
    return np.asarray(multihost_utils.process_allgather(value))
