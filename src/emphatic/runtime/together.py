"""Several seeds as one program, for devices that one seed leaves idle.

    seed 0 ─┐                          ┌─► run folder of seed 0
    seed 1 ─┼─► vmap(anakin.program) ──┼─► run folder of seed 1
    seed 2 ─┘                          └─► run folder of seed 2

The seeds are the first axis of every array, spread over the devices; nothing is exchanged
between them. Each run is what its seed gives alone, but for the rounding of products that
are computed side by side; the same seeds together give the same bits again. At the size of
MinAtar's preset an accelerator waits for kernels to be launched, and ten seeds take little
longer than one; on a CPU one process a seed is faster.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Key

from emphatic.envs.base import Environment
from emphatic.errors import UserError
from emphatic.runtime import anakin, checkpoints, configs, distributed, placement, training
from emphatic.runtime.anakin import AnakinState
from emphatic.runtime.checkpoints import Checkpoint
from emphatic.runtime.logbook import Logbook, Progress
from emphatic.runtime.reports import Report
from emphatic.runtime.runs import Run, disk, read_config, refuse_existing
from emphatic.runtime.settings import TrainConfig, resolved


class Together:
    """The runtime of one configuration and several seeds; states and reports have them first.

    `state = init(keys)` starts every run, a key each.
    """

    def __init__(self, made: training.Parts, devices: Sequence[jax.Device], most: int):
        """See `build`; one program does for any number of updates up to `most`."""
        learner, environment = made.learner, made.environment
        assert isinstance(environment, Environment)
        init, run = anakin.program(learner, environment)
        mesh, spec = placement.mesh(devices), PartitionSpec(placement.STREAMS)
        self.most = most
        self._one = jax.eval_shape(init, jax.random.key(0))
        self._sharding = NamedSharding(mesh, spec)

        def apart(function, *shared):
            """Each device computes its own seeds: nothing is there to be exchanged."""
            each = jax.vmap(function, in_axes=(0, *(None for _ in shared)))
            specs = (spec, *(PartitionSpec() for _ in shared))
            return jax.shard_map(each, mesh=mesh, in_specs=specs, out_specs=spec, check_vma=False)

        def compiled(states, num_updates, room):
            several = apart(lambda state, updates: run(state, updates, room), num_updates)
            return several(states, num_updates)

        self.init = jax.jit(apart(init), out_shardings=self._sharding)
        self.compiled = jax.jit(
            compiled, static_argnums=2, donate_argnums=0, out_shardings=self._sharding
        )

    def run(self, state: AnakinState, num_updates: int) -> tuple[AnakinState, Report]:
        """So many updates of every run; the state given is used up."""
        state, report = self.compiled(state, num_updates, max(num_updates, self.most))
        return state, report.first(num_updates, axis=1) if num_updates < self.most else report

    def snapshot(self, state: AnakinState) -> AnakinState:
        """What the checkpoints hold, all runs in one."""
        return jax.tree.map(distributed.whole, state)

    def restore(self, found: Sequence[Checkpoint], keys: Key[Array, "seeds"]) -> AnakinState:
        """Go on from a checkpoint of each run."""
        del keys
        template = jax.tree.map(anakin.empty, self._one)
        states = [checkpoint.restore(template) for checkpoint in found]
        return jax.device_put(jax.tree.map(lambda *x: jnp.stack(x), *states), self._sharding)

    def close(self) -> None:
        """Nothing to end."""


class Logbooks:
    """A logbook for each seed, filled from reports that hold them all."""

    def __init__(
        self,
        runs: Sequence[Run],
        config: TrainConfig,
        progress: Progress,
        say: Callable[[str], None],
    ):
        self.pending: tuple[int, Report] | None = None
        self.saved = 0
        self._lines: list[dict[str, Any]] = []
        self._runs, self._config = runs, config
        # One more than asked for: a kill between two saves must leave a step that all have.
        config = dataclasses.replace(config, keep=config.keep + 1)
        self._books = [
            Logbook(run, config, self._told, lambda text, run=run: say(f"{run.path.name}: {text}"))
            for run in runs
        ]
        self._progress, self._start = progress, time.perf_counter()

    def resumed(self, found: Sequence[Checkpoint]) -> None:
        """Go on with what the checkpoints know."""
        self.saved = found[0].step
        for book, checkpoint in zip(self._books, found, strict=True):
            book.resumed(checkpoint)

    def checkpoint(self, done: int, snapshot: AnakinState) -> None:
        """Write down what is pending, then a checkpoint of every run.

        None while one of them leaves updates out (`Logbook.checkpoint`): a step that not all
        have is of no use. Older ones go when all have the new one.
        """
        self.write_pending()
        if done < self._config.num_updates and any(book.skipped_in_row for book in self._books):
            return
        for i, book in enumerate(self._books):
            book.checkpoint(done, jax.tree.map(lambda x, i=i: x[i], snapshot))
        for run in self._runs:
            with disk(run.path):
                checkpoints.prune(run.path / "checkpoints", self._config.keep)
        self.saved = min(book.saved for book in self._books)

    def write_pending(self) -> None:
        """The last call's part of each run; progress is told the mean over runs."""
        if self.pending is None:
            return
        done, report = self.pending
        self.pending, self._lines = None, []
        report = jax.device_get(report)
        for i, book in enumerate(self._books):
            book.pending = (done, jax.tree.map(lambda x, i=i: np.asarray(x[i]), report))
            book.write_pending()
        returns = [line["return"] for line in self._lines if line["return"] is not None]
        mean = float(np.mean(returns)) if returns else None
        self._progress(self._lines[0] | {"return": mean}, time.perf_counter() - self._start)

    def _told(self, line: dict[str, Any], seconds: float) -> None:
        self._lines.append(line)


def build(config: TrainConfig, seeds: int) -> Together:
    """The runtime of `config` for that many seeds."""
    made = training.parts(config)
    if not isinstance(made.environment, Environment):
        raise UserError(
            "seeds", f"run together where the environment is written in JAX, not in {config.env}"
        )
    if jax.process_count() > 1:
        raise UserError("seeds", "run together in one process; leave out the other processes")
    if seeds % config.devices:
        raise UserError("seeds", f"must be a multiple of the {config.devices} devices, not {seeds}")
    return Together(made, distributed.devices(config.devices), config.log_every)


def train(
    paths: Mapping[int, Path],
    config: TrainConfig,
    *,
    command: Sequence[str],
    created: str,
    progress: Progress,
    say: Callable[[str], None] = print,
) -> list[training.Outcome]:
    """New runs, `paths[seed]` each, trained to their end or to a signal."""
    runtime = build(config, len(paths))
    environment = training.parts(config).environment

    def create(seed: int, path: Path) -> Run:
        return Run.create(
            path,
            configs.to_json(dataclasses.replace(config, seed=seed)),
            resolved=resolved(config),
            environment={"name": environment.name, **environment.settings},
            seed=seed,
            command=list(command),
            created=created,
            together=len(paths),
        )

    for seed, path in paths.items():
        refuse_existing(path, configs.to_json(dataclasses.replace(config, seed=seed)))
    with contextlib.ExitStack() as stack:
        runs = [stack.enter_context(create(seed, path)) for seed, path in paths.items()]
        state = runtime.init(_keys(list(paths)))
        log = Logbooks(runs, config, progress, say)
        return _trained(list(paths.values()), config, runtime, state, log)


def resume(
    paths: Sequence[Path], *, progress: Progress, say: Callable[[str], None] = print
) -> list[training.Outcome]:
    """Go on with runs that were begun together, from the newest step all have a checkpoint of."""
    paths = _with_missing(paths)
    config, seeds = _configuration(paths)
    runtime = build(config, len(paths))
    step = _common_step(paths)
    with contextlib.ExitStack() as stack:
        opened = [Run.resume(path, at_most=step) for path in paths]
        runs = [stack.enter_context(run) for run, _ in opened]
        found = [checkpoint for _, checkpoint in opened if checkpoint is not None]
        log = Logbooks(runs, config, progress, say)
        if step == 0:
            return _trained(paths, config, runtime, runtime.init(_keys(seeds)), log)
        log.resumed(found)
        if step >= config.num_updates:
            return [training.Outcome(path, step, True) for path in paths]
        return _trained(paths, config, runtime, runtime.restore(found, _keys(seeds)), log)


def complete(paths: Mapping[int, Path]) -> None:
    """Make the folders that a kill kept `train` from making, as it made the others."""
    begun = [path for path in paths.values() if (path / "config.json").exists()]
    if len(begun) == len(paths):
        return
    document = read_config(begun[0])
    gone = [path for path in paths.values() if path not in begun]
    if any(checkpoints.steps(path / "checkpoints") for path in begun):
        raise UserError("resume", f"{gone[0]} is gone; {begun[0]} was begun together with it")
    for seed, path in paths.items():
        if path in gone:
            Run.create(
                path,
                document["config"] | {"seed": seed},
                resolved=document.get("resolved"),
                environment=document["environment"],
                seed=seed,
                command=document.get("command", []),
                created=document.get("created", ""),
                together=len(paths),
            ).close()


def _with_missing(paths: Sequence[Path]) -> list[Path]:
    """Where a folder is named for its seed, it can be told which are missing; they are made."""
    first = read_config(paths[0])
    wanted = {s: paths[0].with_name(f"seed{s}") for s in _seeds(first)}
    if len(paths) >= len(wanted) or not set(paths) <= set(wanted.values()):
        return list(paths)
    complete(wanted)
    return list(wanted.values())


def _seeds(document: Mapping[str, Any]) -> range:
    """Of the runs begun together with the first one."""
    return range(document["seed"], document["seed"] + document.get("together", 1))


def _trained(
    paths: Sequence[Path], config: TrainConfig, runtime: Together, state: AnakinState, log: Logbooks
) -> list[training.Outcome]:
    with training.stop_signal(training.patience()) as stop:
        outcome = training.loop(paths[0], config, runtime, state, stop, log)
    return [outcome._replace(path=path) for path in paths]


def _keys(seeds: Sequence[int]) -> Key[Array, "seeds"]:
    return jnp.stack([jax.random.key(seed) for seed in seeds])


def _configuration(paths: Sequence[Path]) -> tuple[TrainConfig, list[int]]:
    """Of all runs, which differ in nothing but the seed; and their seeds."""
    stored = [training.stored_config(path) for path in paths]
    for path, config in zip(paths, stored, strict=True):
        if dataclasses.replace(config, seed=stored[0].seed) != stored[0]:
            raise UserError("resume", f"{path} and {paths[0]} differ in more than the seed")
        if (count := read_config(path).get("together", 1)) != len(paths):
            raise UserError("resume", f"{path} was begun together with {count - 1} others")
    return stored[0], [config.seed for config in stored]


def _common_step(paths: Sequence[Path]) -> int:
    """The newest step of which every run has a whole checkpoint; 0 before the first save of all."""
    step: int | None = None
    while True:
        found = [checkpoints.latest(path / "checkpoints", at_most=step) for path in paths]
        steps = [checkpoint.step if checkpoint else 0 for checkpoint in found]
        if len(set(steps)) == 1:
            return steps[0]
        if 0 in steps:
            return _before_the_first(paths)
        step = min(steps)


def _before_the_first(paths: Sequence[Path]) -> int:
    """0, if what checkpoints there are is all that a first save had come to."""
    counts = {path: len(checkpoints.steps(path / "checkpoints")) for path in paths}
    if max(counts.values()) > 1 or 0 not in counts.values():
        names = ", ".join(path.name for path in paths)
        problem = f"{names} have no step of which all have a checkpoint; train them anew"
        raise UserError("resume", problem)
    return 0
