"""`emphatic train`."""

import argparse
import dataclasses
import datetime
import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from emphatic import envs
from emphatic.agent import presets
from emphatic.commands import parsing
from emphatic.errors import UserError
from emphatic.runtime import compilation, distributed, runs, together, training
from emphatic.runtime.distributed import ProcessesConfig
from emphatic.runtime.settings import TrainConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TrainConfig):
    """Train an agent, or go on with a run (--resume FOLDER).

    A preset gives every field below its value (shown as default here for this command line);
    what is given on the command line replaces it. The run is a folder: config.json,
    metrics.jsonl, episodes.jsonl, tensorboard/, checkpoints/.

    Several processes as one run: start each with --distributed where SLURM, Kubernetes, mpirun
    or a TPU pod tells it of the others, else with --coordinator HOST:PORT --process I
    --processes N (docs/distributed.md).
    """

    preset: str = "minatar"
    """paper-fixed, paper-mixed, atari, atari-small, minatar, demo, catch or vector; default: what
    suits the environment."""
    settings: tuple[str, ...] = ()
    """Settings of the environment, such as sticky_actions=0.0. paper-fixed and paper-mixed set
    pixels=rgb210 on Atari."""
    constant_from: Path | None = None
    """surreal-constant: take the constant from a run, the mean emphasis of its other heads."""
    seeds: int = 1
    """Seeds trained as one program, from --seed on; OUT then holds a run each. For
    accelerators: on a CPU one process a seed is faster."""
    out: Path | None = None
    """Folder of the run; None: runs/ENV-AGENT-seedN."""

    def __post_init__(self):
        super().__post_init__()
        if self.seeds < 1:
            raise UserError("seeds", f"must be at least 1, not {self.seeds}")


def main(argv: list[str]) -> None:
    """Parse in two steps, since a preset decides what the options' defaults are, and train."""
    compilation.cached()
    resumed, rest = _resume(argv)
    processes, rest = _processes(rest)
    if resumed is None:
        options = parsing.parsed(Options, "train", rest, default=_defaults(rest))
        config = _config(options)
        out = options.out or _folder(config, options.seeds)
        start = functools.partial(_train, out, config, options.seeds, argv)
    elif rest:
        raise UserError("resume", f"goes on as the run was configured; leave out {rest[0]}")
    else:
        folders = _beside(resumed)
        config = training.stored_config(folders[0] if folders else resumed)
        start = functools.partial(_go_on, resumed, folders)
    distributed.join(processes)
    with distributed.together():
        outcome = _shown(config, start)
    if distributed.writes():
        _say_end(outcome)


def _train(
    path: Path, config: TrainConfig, seeds: int, argv: list[str], **shown: Any
) -> training.Outcome:
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    shown |= {"command": ["emphatic", "train", *argv], "created": created}
    if seeds == 1:
        return training.train(path, config, **shown)
    numbers = range(config.seed, config.seed + seeds)
    paths = {seed: path / f"seed{seed}" for seed in numbers}
    return together.train(paths, config, **shown)[0]._replace(path=path)


def _go_on(path: Path, folders: list[Path], **shown: Any) -> training.Outcome:
    """With the run at `path`, or those begun together that it holds."""
    if folders:
        return together.resume(folders, **shown)[0]._replace(path=path)
    return training.resume(path, **shown)


def _resume(argv: list[str]) -> tuple[Path | None, list[str]]:
    """The folder after --resume, and the other arguments."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--resume", type=Path)
    known, rest = parser.parse_known_args(argv)
    return known.resume, rest


def _beside(path: Path) -> list[Path]:
    """The runs of several seeds that `path` holds, in the order of the seeds; none if it is one."""
    found = [file.parent for file in path.glob("seed*/config.json")]
    return sorted(found, key=lambda folder: (len(folder.name), folder.name))


def _processes(argv: list[str]) -> tuple[ProcessesConfig, list[str]]:
    """How to find other processes, which is no part of the run; and the other arguments."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--distributed", action="store_true")
    parser.add_argument("--coordinator")
    parser.add_argument("--process", type=int)
    parser.add_argument("--processes", type=int)
    try:
        known, rest = parser.parse_known_args(argv)
    except argparse.ArgumentError as error:
        raise UserError(str(error.argument_name).lstrip("-"), error.message) from None
    return ProcessesConfig(**vars(known)), rest


def _defaults(argv: list[str]) -> Options:
    """The options before the command line: of the preset, which it may name."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--preset")
    parser.add_argument("--env", default="minatar/breakout")
    parser.add_argument("--agent")
    known, _ = parser.parse_known_args(argv)
    preset = known.preset or presets.for_environment(known.env)
    agent = known.agent or ("wetd" if preset == "paper-mixed" else "netd-ace")
    given = {"env": known.env, "learner": presets.preset(preset, agent), "preset": preset}
    if preset == "demo":
        given["steps"] = 4_000_000
    if envs.on_host(known.env):
        # An update takes a thousand times as long as one of MinAtar.
        given |= {"log_every": 5, "checkpoint_every": 250}
    return Options(**given)


def _config(options: Options) -> TrainConfig:
    """The run's part of the options."""
    fields = {field.name: getattr(options, field.name) for field in dataclasses.fields(TrainConfig)}
    if options.constant_from is not None:
        constant = mean_emphasis(options.constant_from)
        fields["learner"] = dataclasses.replace(options.learner, constant=constant)
    asked = presets.env_settings(options.preset, options.env)
    return TrainConfig(**{**fields, "env_settings": asked | _settings(options.settings)})


def mean_emphasis(run: Path) -> float:
    """Over the whole of a run and its auxiliary heads."""
    lines = runs.read_metrics(run)
    try:
        auxiliary = [float(x) for line in lines for x in line["emphasis"][1:]]
    except (KeyError, TypeError, ValueError):
        raise UserError("constant_from", f"the metrics of {run} do not tell its emphasis") from None
    if not auxiliary:
        raise UserError("constant_from", f"{run} has no auxiliary heads, or no metrics yet")
    return round(sum(auxiliary) / len(auxiliary), 4)


def _settings(given: tuple[str, ...]) -> dict[str, Any]:
    """`name=value` pairs; a value is what JSON makes of it, else a word."""
    settings = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UserError("settings", f"must be name=value, not {pair!r}")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def _plain_console() -> Console:
    """Prints what it is given: names and paths may hold what rich would read as markup."""
    return Console(highlight=False, markup=False, emoji=False)


def _folder(config: TrainConfig, seeds: int) -> Path:
    env, last = config.env.replace("/", "-"), config.seed + seeds - 1
    which = f"seed{config.seed}" if seeds == 1 else f"seeds{config.seed}-{last}"
    return Path("runs") / f"{env}-{config.learner.agent}-{which}"


def _shown(config: TrainConfig, run: Callable[..., training.Outcome]) -> training.Outcome:
    """The run with its progress: a bar on a terminal, else a line now and then."""
    console = _plain_console()
    console.print(
        f"{config.learner.agent} on {config.env}: {config.steps:,} steps, seed {config.seed}"
    )
    if not distributed.writes():
        return run(progress=lambda line, seconds: None, say=console.print)
    if not console.is_terminal:
        return run(progress=_Lines(config, console), say=console.print)
    columns = (
        TextColumn("{task.fields[steps]}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f}%  return {task.fields[result]}  {task.fields[speed]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        return run(progress=_Bar(config, bar), say=console.print)


class _Rate:
    """Steps per second, over the last ten seconds or so."""

    def __init__(self):
        self._marks: list[tuple[float, int]] = []

    def __call__(self, steps: int) -> float | None:
        now = time.perf_counter()
        self._marks = [m for m in self._marks if now - m[0] < 10] + [(now, steps)]
        (then, before), (_, after) = self._marks[0], self._marks[-1]
        return (after - before) / (now - then) if now > then else None


class _Bar:
    """Progress as a bar."""

    def __init__(self, config: TrainConfig, bar: Progress):
        self._bar, self._rate = bar, _Rate()
        self._task = bar.add_task(
            "", total=config.steps, steps="compiling", result="-", speed="", start=True
        )

    def __call__(self, line: dict[str, Any], seconds: float) -> None:
        rate = self._rate(line["steps"])
        self._bar.update(
            self._task,
            completed=line["steps"],
            steps=f"{line['steps']:,} steps",
            result=_return(line),
            speed=f"{rate:,.0f} steps/s" if rate else "",
        )


class _Lines:
    """Progress as lines, at least ten seconds apart."""

    def __init__(self, config: TrainConfig, console: Console):
        self._config, self._console, self._rate = config, console, _Rate()
        self._last = -10.0

    def __call__(self, line: dict[str, Any], seconds: float) -> None:
        rate = self._rate(line["steps"])
        if seconds - self._last < 10 and line["steps"] < self._config.steps:
            return
        self._last = seconds
        speed = f", {rate:,.0f} steps/s" if rate else ""
        self._console.print(f"{line['steps']:>11,} steps, return {_return(line)}{speed}")


def _return(line: dict[str, Any]) -> str:
    return "-" if line["return"] is None else f"{line['return']:.2f}"


def _say_end(outcome: training.Outcome) -> None:
    console = _plain_console()
    if not outcome.finished:
        console.print(f"stopped after {outcome.updates:,} updates, checkpoint written; go on with")
        console.print(f"  emphatic train --resume {outcome.path}", soft_wrap=True)
        return
    from emphatic.report import curves

    made = _beside(outcome.path) or [outcome.path]
    for run in made:
        picture = run / "learning_curve.png"
        try:
            curves.draw(run, picture)
            drawn = f"learning curve: {picture}"
        except OSError as error:
            drawn = f"no learning curve: {error.strerror}"
        console.print(f"done: {run} ({drawn})", soft_wrap=True)
    console.print(
        "next:", f"  emphatic evaluate {made[0]}", f"  emphatic watch {made[0]}", sep="\n"
    )
