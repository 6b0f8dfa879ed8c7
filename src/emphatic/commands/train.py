"""`emphatic train`."""

import argparse
import dataclasses
import datetime
import functools
from pathlib import Path
from typing import Any

from emphatic.agent import agents, presets
from emphatic.commands import parsing, progress
from emphatic.errors import UserError
from emphatic.runtime import compilation, distributed, reports, together, training
from emphatic.runtime.distributed import ProcessesConfig
from emphatic.runtime.settings import TrainConfig, cadence, check_seed


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
    suits the environment. The paper's train for 50,000,000 steps, its 200e6 frames, unless --steps
    says otherwise; demo for 4,000,000."""
    settings: tuple[str, ...] = ()
    """Settings of the environment, such as sticky_actions=0.0. paper-fixed and paper-mixed set
    pixels=rgb210 on Atari."""
    constant_from: Path | None = None
    """surreal-constant: take the constant from a run of the same scheme, the mean emphasis of its
    auxiliary heads."""
    seeds: int = 1
    """Seeds trained as one program, from --seed on; OUT then holds a run each. For
    accelerators: on a CPU one process a seed is faster."""
    out: Path | None = None
    """Folder of the run; None: runs/ENV-AGENT-seedN."""

    def __post_init__(self):
        super().__post_init__()
        if not 1 <= self.seeds <= 10_000:
            raise UserError("seeds", f"must lie in [1, 10,000], not {self.seeds}")
        check_seed(self.seed + self.seeds - 1)


def main(argv: list[str]) -> None:
    """Parse in two steps, since a preset decides what the options' defaults are, and train."""
    compilation.cached()
    given, rest = _taken(argv, resume=Path)
    joined, rest = _taken(rest, distributed=bool, coordinator=str, process=int, processes=int)
    resumed, processes = given["resume"], ProcessesConfig(**joined)
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
        outcome = progress.shown(config, start)
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


def _beside(path: Path) -> list[Path]:
    """The runs of several seeds that `path` holds, in the order of the seeds; none if it is one."""
    found = [file.parent for file in path.glob("seed*/config.json")]
    return sorted(found, key=lambda folder: (len(folder.name), folder.name))


def _taken(argv: list[str], **kinds: type) -> tuple[dict[str, Any], list[str]]:
    """What `argv` says of these options, None of those it leaves out; and the other arguments."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name, kind in kinds.items():
        how: dict[str, Any] = {"action": "store_true"} if kind is bool else {"type": kind}
        parser.add_argument(*dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}")), **how)
    try:
        known, rest = parser.parse_known_args(argv)
    except argparse.ArgumentError as error:
        field = str(error.argument_name).split("/")[0].lstrip("-")
        raise UserError(field, error.message) from None
    return vars(known), rest


def _defaults(argv: list[str]) -> Options:
    """The options before the command line: of the preset, which it may name."""
    options = ("env", "agent", "preset", "constant", "constant_from")
    given, _ = _taken(argv, **dict.fromkeys(options, str))
    known = {name: value for name, value in given.items() if value is not None}
    if {"constant", "constant_from"} <= known.keys():
        raise UserError("constant", "is given, and --constant-from as well; leave out one of them")
    env = known.get("env", TrainConfig.env)
    preset = known.get("preset", presets.for_environment(env))
    agent = known.get("agent", "wetd" if preset == "paper-mixed" else "netd-ace")
    steps = presets.STEPS.get(preset, TrainConfig.steps)
    learner = presets.preset(preset, agent)
    return Options(env=env, learner=learner, preset=preset, steps=steps, **cadence(env))


def _config(options: Options) -> TrainConfig:
    """The run's part of the options."""
    fields = {field.name: getattr(options, field.name) for field in dataclasses.fields(TrainConfig)}
    if options.constant_from is not None:
        constant = _constant(options.learner.agent, options.constant_from)
        fields["learner"] = dataclasses.replace(options.learner, constant=constant)
    asked = presets.env_settings(options.preset, options.env)
    fields["env_settings"] = asked | parsing.pairs("settings", options.settings)
    return TrainConfig(**fields)


def _constant(control: str, run: Path) -> float:
    """The mean emphasis of the run, if `control` can be its control."""
    chosen = agents.agent(control)
    if chosen.auxiliary != "constant":
        raise UserError("constant_from", f"has no place in {control}, only in surreal-constant")
    other = agents.agent(training.stored_config(run).learner.agent)
    if other.row.scheme != chosen.row.scheme:
        fitting = {"fixed": "surreal-constant", "mixed": "surreal-constant-mixed"}
        raise UserError(
            "constant_from",
            f"names a run of {other.name}, which learns in the {other.row.scheme} scheme; "
            f"its control is {fitting[other.row.scheme]}, not {control}",
        )
    return reports.mean_emphasis([run])


def _folder(config: TrainConfig, seeds: int) -> Path:
    env, last = config.env.replace("/", "-"), config.seed + seeds - 1
    which = f"seed{config.seed}" if seeds == 1 else f"seeds{config.seed}-{last}"
    return Path("runs") / f"{env}-{config.learner.agent}-{which}"


def _say_end(outcome: training.Outcome) -> None:
    console = progress.plain_console()
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
    then = (f"  emphatic {verb} {made[0]}" for verb in ("evaluate", "watch"))
    console.print("next:", *then, sep="\n", soft_wrap=True)
