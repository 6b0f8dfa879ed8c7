"""Several processes as one run, on `jax.distributed`.

Every process runs the same program and brings its own environments; arrays over the streams
are global, and `jit` inserts the all-reduce. Process 0 writes the run. What is here is all
that has to know how many processes there are; with one, nothing is sent.

Functions that exchange something must be called by every process, in the same order.
"""

import collections
import contextlib
import dataclasses
import os
import re
import sys
import traceback
from collections.abc import Iterator
from typing import Any, NoReturn, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jaxtyping import PyTree

from emphatic.errors import Stopped, UserError
from emphatic.runtime.signals import Stop

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
    # It would swallow a SIGTERM that comes before we look for one (`signals`).
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            config.coordinator,
            config.processes,
            config.process,
            # Without one process 0 listens on every address of its machine, unless
            # $JAX_COORDINATOR_BIND_ADDRESS says otherwise.
            coordinator_bind_address=config.coordinator,
            heartbeat_timeout_seconds=patience,
            initialization_timeout=60 + patience,
            shutdown_timeout_seconds=patience,
        )
    except (RuntimeError, ValueError) as error:
        raise UserError(
            "coordinator", f"the processes did not find each other ({_line(error)})"
        ) from error


def lost(why: str) -> NoReturn:
    """Another process is gone: say so and end, at once, since none of us can go on alone.

    Leaving in the ordinary way would wait for the process that is gone.
    """
    print(
        f"emphatic: process {jax.process_index()} lost another process of the run ({why}); "
        "start all of them again with --resume",
        file=sys.stderr,
        flush=True,
    )
    os._exit(1)


@contextlib.contextmanager
def together() -> Iterator[None]:
    """What one process raises ends all; what comes of another's end is said as that."""
    if jax.process_count() == 1:
        yield
        return
    try:
        yield
    except (UserError, Stopped) as error:
        print(f"emphatic: {error}", file=sys.stderr, flush=True)
        os._exit(2 if isinstance(error, UserError) else 1)
    except BaseException as error:
        if _of_another(error):
            lost(_line(error))
        traceback.print_exc()
        os._exit(1)


_PARTNER_GONE = re.compile(
    r"gloo|nccl|coordination ?service|heartbeat|barrier (timed|failed)|socket closed|by peer"
    r"|^unavailable:",
    re.IGNORECASE,
)
"""In what collectives and the coordinator's client say when another process is gone."""


def _of_another(error: BaseException) -> bool:
    """Whether an error comes of another process's end: told by its text.

    XLA has one type for all of its errors, and some of gloo's arrive as a ValueError. Memory
    that runs out is our own trouble, also where a collective asked for it.
    """
    text = str(error)
    if "RESOURCE_EXHAUSTED" in text or "out of memory" in text.lower():
        return False
    return isinstance(error, RuntimeError | ValueError) and bool(_PARTNER_GONE.search(text))


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def devices(learning: int, acting: int = 0) -> list[jax.Device]:
    """The first so many devices of every process, process after process."""
    fewest = min(collections.Counter(d.process_index for d in jax.devices()).values())
    if learning > fewest:
        raise UserError("devices", f"are {fewest} here, not {learning}")
    if learning + acting > fewest:
        left = f"{learning} of the {fewest} devices here learn"
        raise UserError("actors.devices", f"must be at most {fewest - learning}, as {left}")
    each = learning + acting
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


def stops(stop: Stop) -> bool:
    """Whether any process was asked to stop; then all are, and the patience of each begins."""
    if not agreed(stop.asked):
        return False
    if not stop.asked:
        stop.told()
    return True


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


def _each(value: np.ndarray) -> np.ndarray:
    """`[processes, ...]`: what each process has."""
    if jax.process_count() == 1:
        return value[None]
    return np.asarray(multihost_utils.process_allgather(value))
