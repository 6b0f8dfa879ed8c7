"""Training a run from start, or from its newest checkpoint, to its last update.

    create ─► init ───┐
    resume ─► restore ┴─► [ K updates ─► log ─► now and then a checkpoint ] … ─► done

Everything is counted in updates, so the files of a run do not depend on when it was
interrupted. SIGINT and SIGTERM end the K updates under way, write a checkpoint and return;
a second one ends the process at once.
"""

import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np
import tyro

from emphatic import envs
from emphatic.agent import learner as learners
from emphatic.agent.surreal import AgentConfig
from emphatic.envs.base import Environment
from emphatic.errors import Stopped, UserError
from emphatic.runtime import anakin, configs
from emphatic.runtime.runs import Run, read_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """A run: what learns where, for how long, and what is written down."""

    env: str = "minatar/breakout"
    """Environment: catch, or minatar/ with asterix, breakout, freeway, seaquest, space_invaders."""
    env_settings: tyro.conf.Suppress[dict[str, Any]] = dataclasses.field(default_factory=dict)
    """Settings of the environment, such as sticky_actions."""
    learner: Annotated[AgentConfig, tyro.conf.arg(name="")] = dataclasses.field(
        default_factory=AgentConfig
    )
    """The agent."""
    steps: int = 5_000_000
    """Environment steps, all streams together."""
    seed: int = 0
    """Of parameters, environments and actions."""
    log_every: int = 100
    """Updates that one line of metrics.jsonl sums up; they run as one call."""
    checkpoint_every: int = 2000
    """Updates between checkpoints, rounded up to a multiple of log_every."""
    keep: int = 3
    """Checkpoints kept."""
    devices: int = 1
    """Devices the streams are spread over."""
    record_episodes: bool = True
    """Write every episode's return and length to episodes.jsonl."""
    halt_after: int = 10
    """Stop when that many updates in a row had a gradient that was not finite."""

    def __post_init__(self):
        for field in ("steps", "log_every", "checkpoint_every", "keep", "devices", "halt_after"):
            if getattr(self, field) < 1:
                raise UserError(field, f"must be at least 1, not {getattr(self, field)}")
        if not 0 <= self.seed < 2**32:
            raise UserError("seed", f"must lie in [0, 2^32), not {self.seed}")
        if self.learner.num_streams % self.devices:
            raise UserError(
                "num_streams",
                f"must be a multiple of the {self.devices} devices, not {self.learner.num_streams}",
            )

    @property
    def num_updates(self) -> int:
        """Updates that consume at least `steps`."""
        return -(-self.steps // self.learner.steps_per_update)


Progress = Callable[[dict[str, Any], float], None]
"""`progress(line, seconds)` is told each line of metrics; see `commands.train`."""


class Outcome(NamedTuple):
    """How a call of `train` or `resume` ended."""

    path: Path
    updates: int
    finished: bool
    """False when a signal ended it; `resume` goes on."""


class TrainingHalted(Stopped):
    """Too many updates in a row had a gradient that was not finite."""


def parts(config: TrainConfig) -> tuple[Environment, anakin.Anakin, learners.Learner]:
    """Environment, runtime and learner of a configuration."""
    environment = envs.make(config.env, **config.env_settings)
    learner = learners.build(
        config.learner,
        num_actions=environment.num_actions,
        observation_shape=environment.observation_shape,
        observation_dtype=environment.observation_dtype,
        num_updates=config.num_updates,
    )
    devices = jax.devices()
    if config.devices > len(devices):
        raise UserError("devices", f"are {len(devices)} here, not {config.devices}")
    return environment, anakin.build(learner, environment, devices[: config.devices]), learner


def train(
    path: Path, config: TrainConfig, *, command: Sequence[str], created: str, progress: Progress
) -> Outcome:
    """A new run at `path`, trained to its end or to a signal."""
    environment, runtime, _ = parts(config)
    run = Run.create(
        path,
        configs.to_json(config),
        environment={"name": environment.name, **environment.settings},
        seed=config.seed,
        command=list(command),
        created=created,
    )
    with run, _stop_signal() as stop:
        state = runtime.init(jax.random.key(config.seed))
        return _loop(run, config, runtime, state, stop, _Logbook(run, config, progress))


def resume(path: Path, *, progress: Progress) -> Outcome:
    """Go on with the run at `path`; a finished one is left as it is."""
    config = stored_config(path)
    _, runtime, _ = parts(config)
    run, checkpoint = Run.resume(path)
    with run, _stop_signal() as stop:
        state = runtime.init(jax.random.key(config.seed))
        log = _Logbook(run, config, progress)
        if checkpoint is not None:
            state = checkpoint.restore(state)
            log.saved = checkpoint.step
            log.skipped_in_row = checkpoint.extra["skipped_in_row"]
        return _loop(run, config, runtime, state, stop, log)


def stored_config(path: Path) -> TrainConfig:
    """The configuration of the run at `path`."""
    return configs.from_json(TrainConfig, read_config(path)["config"])


def _loop(
    run: Run,
    config: TrainConfig,
    runtime: anakin.Anakin,
    state: anakin.AnakinState,
    stop: "_Stop",
    log: "_Logbook",
) -> Outcome:
    """Calls of `log_every` updates; while one computes, the last one is written down."""
    total, done = config.num_updates, int(state.learner.updates)
    while done < total and not stop.asked:
        updates = min(config.log_every, total - done)
        state, report = runtime.run(state, updates)
        log.write_pending()
        done += updates
        log.pending = (done, report)
        if done // config.checkpoint_every > (done - updates) // config.checkpoint_every:
            _checkpoint(run, config, log, done, state)
    if done > log.saved:
        _checkpoint(run, config, log, done, state)
    return Outcome(run.path, done, done >= total)


def _checkpoint(
    run: Run, config: TrainConfig, log: "_Logbook", done: int, state: anakin.AnakinState
) -> None:
    log.write_pending()
    extra = {"steps": done * config.learner.steps_per_update, "skipped_in_row": log.skipped_in_row}
    run.save(done, state, extra, keep=config.keep)
    log.saved = done


class _Logbook:
    """Writes what each call of the runtime reported, one call late."""

    def __init__(self, run: Run, config: TrainConfig, progress: Progress):
        self.pending: tuple[int, anakin.Report] | None = None
        self.saved = 0
        self.skipped_in_row = 0
        self._run, self._config, self._progress = run, config, progress
        self._start, self._cpu = time.perf_counter(), time.process_time()

    def write_pending(self) -> None:
        """Metrics, episodes and timing of the last call, if there was one."""
        if self.pending is None:
            return
        done, report = self.pending
        self.pending = None
        report = jax.device_get(report)
        line = summary(done, report, self._config)
        self._run.metrics.append(line)
        if self._config.record_episodes and report.ended.any():
            self._run.episodes.append(episodes(done, report, self._config))
        seconds = time.perf_counter() - self._start
        cpu = time.process_time() - self._cpu
        self._run.timing.append(
            {"update": done, "seconds": round(seconds, 3), "cpu_seconds": round(cpu, 3)}
        )
        self._run.plot(line["steps"], _scalars(line))
        self._progress(line, seconds)
        self._watch_gradients(done, report.skipped)

    def _watch_gradients(self, done: int, skipped: np.ndarray) -> None:
        """Halt when the last `halt_after` updates were all left out."""
        for skip in skipped:
            self.skipped_in_row = self.skipped_in_row + 1 if skip else 0
            if self.skipped_in_row >= self._config.halt_after:
                raise TrainingHalted(
                    f"the gradient of {self.skipped_in_row} updates in a row, up to update {done} "
                    "at the latest, was not finite; parameters are those before them"
                )


def summary(done: int, report: anakin.Report, config: TrainConfig) -> dict[str, Any]:
    """A line of metrics.jsonl: means over the updates it sums up, a list entry per head."""
    ended = report.ended
    returns = np.asarray(report.episode_return)[ended]
    lengths = np.asarray(report.episode_length)[ended]
    line: dict[str, Any] = {
        "update": done,
        "steps": done * config.learner.steps_per_update,
        "episodes": int(ended.sum()),
        "return": _mean(returns),
        "return_max": float(returns.max()) if len(returns) else None,
        "length": _mean(lengths),
    }
    for name, value in sorted(report.metrics.items()):
        line[name] = [_short(x) for x in value] if value.ndim else _short(value)
    return line


def episodes(done: int, report: anakin.Report, config: TrainConfig) -> dict[str, Any]:
    """A line of episodes.jsonl: the episodes that ended in these updates, in order of time."""
    updates, steps, streams = report.ended.shape
    when, stream = np.nonzero(report.ended.reshape(-1, streams))
    first = (done - updates) * config.learner.steps_per_update
    chosen = (when // steps, when % steps, stream)
    return {
        "update": done,
        "steps": (first + (when + 1) * streams).tolist(),
        "returns": [_short(x) for x in report.episode_return[chosen]],
        "lengths": report.episode_length[chosen].tolist(),
    }


def _mean(values: np.ndarray) -> float | None:
    return _short(values.mean(dtype=np.float64)) if len(values) else None


def _short(value: Any) -> float:
    """Seven digits: what a float32 holds."""
    return float(f"{float(value):.7g}")


def _scalars(line: dict[str, Any]) -> dict[str, float]:
    """A line of metrics as TensorBoard has it, heads apart."""
    flat: dict[str, float] = {}
    for name, value in line.items():
        if isinstance(value, list):
            flat |= {f"{name}/head_{head}": x for head, x in enumerate(value)}
        elif value is not None:
            flat[name] = value
    return flat


class _Stop:
    """Whether a signal asked to stop."""

    asked = False


@contextlib.contextmanager
def _stop_signal() -> Iterator[_Stop]:
    """SIGINT and SIGTERM set the flag; a second one ends the process at once."""
    stop = _Stop()

    def ask(number, frame):
        del frame
        if stop.asked:
            os._exit(128 + number)
        stop.asked = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
