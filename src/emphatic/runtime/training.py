"""Training a run from start, or from its newest checkpoint, to its last update.

    create ─► init ───┐
    resume ─► restore ┴─► [ K updates ─► log ─► now and then a checkpoint ] … ─► done

Everything is counted in updates, so the files of a run do not depend on when it was
interrupted. SIGINT and SIGTERM end the K updates under way (with Sebulba the one), write a
checkpoint and return; where these take too long, the process ends without one (`signals`).
"""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import numpy as np

from emphatic import envs
from emphatic.agent import learner as learners
from emphatic.agent.learner import Learner
from emphatic.envs.base import Environment
from emphatic.envs.host import HostEnvironment
from emphatic.errors import Stopped, UserError
from emphatic.runtime import anakin, configs, distributed
from emphatic.runtime.checkpoints import latest
from emphatic.runtime.logbook import Logbook, Progress
from emphatic.runtime.reports import Report
from emphatic.runtime.runs import Run, read_config
from emphatic.runtime.sebulba import Sebulba
from emphatic.runtime.settings import TrainConfig, check_resolved, resolved
from emphatic.runtime.signals import Stop, patience, stop_signal


class Outcome(NamedTuple):
    """How a call of `train` or `resume` ended."""

    path: Path
    updates: int
    finished: bool
    """False when a signal ended it; `resume` goes on."""


@runtime_checkable
class Runtime(Protocol):
    """What the loop needs of a runtime; its state has the learner's at `learner`."""

    def init(self, key: Any, /) -> Any:
        """The start of a run."""
        ...

    def run(self, state: Any, num_updates: int, /) -> tuple[Any, Report]:
        """So many updates, or fewer where a signal came, and what they were like."""
        ...

    def snapshot(self, state: Any, /) -> Any:
        """What a checkpoint holds."""
        ...

    def restore(self, checkpoint: Any, key: Any, /) -> Any:
        """The state that was saved."""
        ...

    def close(self) -> None:
        """Let go of whatever runs beside the loop."""
        ...


@runtime_checkable
class Log(Protocol):
    """What the loop writes to; see `logbook.Logbook`."""

    pending: tuple[int, Report] | None
    saved: int

    def write_pending(self) -> None:
        """What the last call reported."""
        ...

    def checkpoint(self, done: int, snapshot: Any, /) -> None:
        """What is pending, and a checkpoint."""
        ...


class Parts(NamedTuple):
    """What a configuration makes."""

    environment: Environment | HostEnvironment
    learner: Learner


def parts(config: TrainConfig) -> Parts:
    """Environment and learner of a configuration."""
    environment = envs.make(config.env, **config.env_settings)
    learner = learners.build(
        config.learner,
        num_actions=environment.num_actions,
        observation_shape=environment.observation_shape,
        observation_dtype=environment.observation_dtype,
        num_updates=config.num_updates,
    )
    return Parts(environment, learner)


def runtime_of(config: TrainConfig, made: Parts, say: Callable[[str], None]) -> Runtime:
    """Anakin or Sebulba, as the environment asks for."""
    environment, learner = made
    devices = distributed.devices(config.devices)
    if isinstance(environment, Environment):
        return anakin.build(learner, environment, devices, most=config.log_every)
    spare = distributed.devices(config.devices, config.actors.devices)
    ours = [d for d in spare if d.process_index == jax.process_index() and d not in devices]
    return Sebulba(
        learner,
        environment,
        config.actors,
        seed=config.seed,
        devices=devices,
        acting_devices=ours,
        say=say,
    )


def train(
    path: Path,
    config: TrainConfig,
    *,
    command: Sequence[str],
    created: str,
    progress: Progress,
    say: Callable[[str], None] = print,
) -> Outcome:
    """A new run at `path`, trained to its end or to a signal."""
    seconds, made = patience(), parts(config)
    runtime = runtime_of(config, made, say)
    environment = {"name": made.environment.name, **made.environment.settings}

    def create() -> Run:
        return Run.create(
            path,
            configs.to_json(config),
            resolved=resolved(config),
            environment=environment,
            seed=config.seed,
            command=list(command),
            created=created,
        )

    run = _by_writer(create)
    with (
        run or contextlib.nullcontext(),
        stop_signal(seconds) as stop,
        contextlib.closing(runtime),
    ):
        state = runtime.init(jax.random.key(config.seed))
        return loop(path, config, runtime, state, stop, Logbook(run, config, progress, say))


def resume(path: Path, *, progress: Progress, say: Callable[[str], None] = print) -> Outcome:
    """Go on with the run at `path`; a finished one is left as it is."""
    seconds, config = patience(), stored_config(path)
    if (together := read_config(path).get("together", 1)) > 1:
        raise UserError(
            "resume",
            f"{path} is one of {together} runs begun together; name the folder they are in",
        )
    runtime = runtime_of(config, parts(config), say)
    opened = _by_writer(lambda: Run.resume(path))
    run, checkpoint = opened or (None, latest(path / "checkpoints"))
    if distributed.from_writer(step := checkpoint.step if checkpoint else 0) != step:
        raise Stopped(f"the processes do not see the same checkpoints in {path}")
    with (
        run or contextlib.nullcontext(),
        stop_signal(seconds) as stop,
        contextlib.closing(runtime),
    ):
        log = Logbook(run, config, progress, say)
        key = jax.random.key(config.seed)
        if checkpoint is None:
            return loop(path, config, runtime, runtime.init(key), stop, log)
        log.resumed(checkpoint)
        if checkpoint.step >= config.num_updates:
            return Outcome(path, checkpoint.step, True)
        state = runtime.restore(checkpoint, key)
        return loop(path, config, runtime, state, stop, log)


def stored_config(path: Path) -> TrainConfig:
    """The configuration of the run at `path`."""
    document = read_config(path)
    config = configs.from_json(TrainConfig, document["config"])
    check_resolved(document.get("resolved"), config)
    return config


Opened = TypeVar("Opened")


def _by_writer(open_run: Callable[[], Opened]) -> Opened | None:
    """The run, opened by the process that writes it; None in the others, which end if it fails."""
    if not distributed.writes():
        if distributed.agreed(False):
            raise Stopped("process 0 could not open the run; it says why")
        return None
    try:
        opened = open_run()
    except BaseException:
        distributed.agreed(True)
        raise
    distributed.agreed(False)
    return opened


def loop(
    path: Path, config: TrainConfig, runtime: Runtime, state: Any, stop: Stop, log: Log
) -> Outcome:
    """Calls of `log_every` updates; while one computes, the last one is written down."""
    total, done = config.num_updates, int(np.asarray(state.learner.updates).flat[0])
    if isinstance(runtime, Sebulba):
        runtime.stop = lambda: distributed.stops(stop)
    while done < total and not distributed.stops(stop):
        # To the next multiple: a signal may have ended the run between two.
        updates = min(config.log_every - done % config.log_every, total - done)
        state, report = runtime.run(state, updates)
        log.write_pending()
        updates = report.fault.shape[-2]
        done += updates
        log.pending = (done, report)
        if done // config.checkpoint_every > (done - updates) // config.checkpoint_every:
            log.checkpoint(done, runtime.snapshot(state))
    if done > log.saved:
        log.checkpoint(done, runtime.snapshot(state))
    return Outcome(path, done, done >= total)
