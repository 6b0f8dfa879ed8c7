"""`emphatic study`: games x algorithms x seeds, planned, run, watched, added to."""

import dataclasses
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from emphatic import envs
from emphatic.commands import parsing
from emphatic.errors import Stopped, UserError
from emphatic.runtime import compilation, configs
from emphatic.study import group, local, machines, presets, progress, spec, status, work
from emphatic.study import plan as plans
from emphatic.study.ledger import Busy
from emphatic.study.runner import Pool, Summary, refuse_changed
from emphatic.study.spec import Study

Name = Annotated[str, tyro.conf.Positional]

USAGE = """\
usage: emphatic study VERB NAME [options]      (emphatic study VERB --help lists them)

  new      make a study: environments x agents x seeds
  add      more agents, seeds or environments; only what is missing is run
  run      train and evaluate every run, on this machine or on a Ray cluster
  status   how far it is: done, running, failed, time left, best so far
  plan     what it takes: runs, operations, hours and cost by kind of machine
  work     train and evaluate one run of it, here and now
  seeds    the same for all seeds of an agent on an environment, as one program

NAME is a folder under studies/, or a path. docs/studies.md says more."""


def main(argv: list[str]) -> None:
    """Find the second verb and call it."""
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE)
        return
    verb, rest = argv[0], argv[1:]
    if verb not in VERBS:
        raise UserError("study", f"has no verb {verb!r}; choose from {', '.join(VERBS)}")
    parsing.bound(VERBS[verb], f"study {verb}", rest)()


def new(
    name: Name,
    like: str | None = None,
    envs: tuple[str, ...] = (),
    agents: tuple[str, ...] = (),
    seeds: int | None = None,
    settings: tuple[str, ...] = (),
    preset: str | None = None,
    steps: int | None = None,
    set: tuple[str, ...] = (),
    episodes: int | None = None,
    retries: int | None = None,
    cpus: float | None = None,
    gpus: float | None = None,
    memory_gb: float | None = None,
) -> None:
    """Make a study: a folder with study.json, which says what it is and can be edited.

    Args:
        name: Its name, under studies/, or a path.
        like: A study to start from, atari57 or minatar5; what else is given replaces its part.
        envs: Environments; 'minatar/*' is a whole family (quote it: shells know stars too).
        agents: Agents by name.
        seeds: Seeds of each agent; default 5.
        settings: Settings of the environments, such as sticky_actions=0.0.
        preset: Of the agents, as for train; default: what suits each environment.
        steps: Environment steps of each run; default 5,000,000.
        set: Fields of every run's configuration, such as entropy_cost=0.02.
        episodes: Whole episodes each run is evaluated on after training; default 100.
        retries: Times a failed run is tried again; default 2.
        cpus: Cores of a run, here and on a Ray cluster; default 1.
        gpus: Accelerators a run asks of a Ray cluster, such as 0.25; default 0.
        memory_gb: Memory a run asks of a Ray cluster; default: it does not.
    """
    given = {"preset": preset, "steps": steps, "episodes": episodes, "retries": retries}
    asked = {"cpus": cpus, "gpus": gpus, "memory_gb": memory_gb}
    if like is None and not envs:
        raise UserError("envs", "are none; name some, or a study to start from with --like")
    if like is None and not agents:
        raise UserError("agents", "are none; name some, or a study to start from with --like")
    document = {} if like is None else configs.to_json(presets.preset(like))
    document |= {field: value for field, value in given.items() if value is not None}
    document["resources"] = document.get("resources", {}) | _given(asked)
    _choose(document, envs, agents, seeds)
    if settings:
        document["env_settings"] = parsing.pairs("settings", settings)
    if set:
        pairs = parsing.pairs("set", set)
        document["overrides"] = {spec.override(field): value for field, value in pairs.items()}
    study = spec.checked(spec.of_json(document))
    folder = spec.locate(name)
    spec.create(folder, study)
    _say(f"{folder / 'study.json'}: {len(study.runs)} runs of {study.steps:,} steps")
    _say(f"next:\n  emphatic study plan {name}\n  emphatic study run {name}")


def add(
    name: Name,
    envs: tuple[str, ...] = (),
    agents: tuple[str, ...] = (),
    seeds: int | None = None,
) -> None:
    """Add to a study; runs that are there stay, `study run` does what is missing.

    Args:
        name: Of the study.
        envs: More environments.
        agents: More agents, or agents that are there and get more seeds.
        seeds: Seeds of these agents; without --agents, of all.
    """
    folder = spec.locate(name)
    before = spec.read(folder)
    study = spec.checked(spec.extended(before, envs, agents, seeds))
    more = len(study.runs) - len(before.runs)
    if not more:
        raise UserError("add", f"nothing to add: {folder} has all of that already")
    spec.write(folder, study)
    _say(f"{folder / 'study.json'}: {more} more runs, {len(study.runs)} in all")


def run(
    name: Name,
    processes: int | None = None,
    ray: str | None = None,
    retries: int | None = None,
) -> None:
    """Train and evaluate every run of a study that is not done; the same again goes on.

    Args:
        name: Of the study.
        processes: Runs at a time on this machine; default: as many as it has cores for, at one
            core each if study.json does not say otherwise.
        ray: Run on a Ray cluster: its address, `auto` for the one this machine is part of,
            `local` to start one here.
        retries: Times a failed run is tried again; default: what study.json says.
    """
    folder = spec.locate(name)
    study = spec.checked(spec.read(folder))
    if retries is not None:
        study = dataclasses.replace(study, retries=retries)
    if ray is not None and processes is not None:
        raise UserError("processes", "is for this machine; Ray counts cores itself (docs)")
    if processes is not None and processes < 1:
        raise UserError("processes", f"must be at least 1, not {processes}")
    refuse_changed(folder, study)
    console = _console()
    pool = _pool(folder, study, processes, ray)
    summary = progress.shown(folder, study, pool, console)
    _finish(folder, study, summary, console)


def show(name: Name, once: bool = False, names: bool = False) -> None:
    """How far a study is; on a terminal as a table that is renewed until nothing runs.

    Args:
        name: Of the study.
        once: Say it once.
        names: Print the names of its runs instead, a line each, for scripts.
    """
    folder = spec.locate(name)
    if names:
        _say("\n".join(run.name for run in spec.read(folder).runs))
        return
    try:
        status.watch(folder, spec.read(folder), _console(), once=once)
    except KeyboardInterrupt:
        return


def plan(name: Name, price: tuple[str, ...] = (), utilisation: tuple[str, ...] = ()) -> None:
    """What a study takes, from the cost model, before anyone spends it.

    Args:
        name: A study, or atari57 or minatar5.
        price: Dollars an hour for a machine, such as h200=2.5.
        utilisation: Share of a machine's peak that is reached, such as v5e=0.4, where it is
            not measured.
    """
    chosen = machines.chosen(_numbers("price", price), _numbers("utilisation", utilisation))
    folder = spec.locate(name)
    known = name in presets.PRESETS and not (folder / "study.json").exists()
    study = spec.checked(presets.preset(name) if known else spec.read(folder))
    _console().print(plans.shown(name, study, chosen))


def one(name: Name, run: Annotated[str, tyro.conf.Positional], attached: bool = False) -> None:
    """Train and evaluate one run of a study in this process, wherever it stands.

    Args:
        name: Of the study.
        run: Of the run: the name of its folder.
        attached: Leave, with a checkpoint, when standard input ends.
    """
    compilation.cached()
    if attached:
        threading.Thread(target=_leave_with_parent, daemon=True).start()
    last = [-60.0]

    def say(line: dict[str, Any], seconds: float) -> None:
        if seconds - last[0] >= 60:
            last[0] = seconds
            _say(f"{line['steps']:>13,} steps after {seconds:,.0f} s")

    try:
        work.use_threads(spec.read(spec.locate(name)))
        outcome = work.perform(spec.locate(name), run, progress=say)
    except Busy as error:
        print(f"emphatic: {error}", file=sys.stderr)
        sys.exit(local.BUSY)
    _say(f"{run}: {outcome}")
    if outcome == "stopped":
        sys.exit(local.STOPPED)


def seeds(
    name: Name,
    environment: Annotated[str, tyro.conf.Positional],
    agent: Annotated[str, tyro.conf.Positional],
) -> None:
    """Train and evaluate all seeds of an agent on an environment as one program, here and now.

    For accelerators, which one seed of a small agent leaves idle; on a CPU `study run` is faster.

    Args:
        name: Of the study.
        environment: Written in JAX: catch, or a game of MinAtar.
        agent: By name.
    """
    compilation.cached()
    folder = spec.locate(name)
    study = spec.read(folder)
    names = [run.name for run in study.runs if (run.environment, run.agent) == (environment, agent)]
    if not names:
        raise UserError("seeds", f"{folder} has no {agent} on {environment}")

    def say(line: dict[str, Any], seconds: float) -> None:
        if line["update"] % 2000 == 0:
            _say(f"{line['steps']:>13,} steps of each seed after {seconds:,.0f} s")

    outcome = group.perform(folder, names, progress=say)
    _say(f"{environment} {agent}, {len(names)} seeds: {outcome}")
    if outcome == "stopped":
        sys.exit(local.STOPPED)


VERBS: dict[str, Callable[..., None]] = {
    "new": new,
    "add": add,
    "run": run,
    "status": show,
    "plan": plan,
    "work": one,
    "seeds": seeds,
}


def _console() -> Console:
    """Prints names and errors as they are, whatever rich would read in them."""
    return Console(highlight=False, markup=False, emoji=False)


def _leave_with_parent() -> None:
    """When the runner is gone, stop as it would have stopped us."""
    # Not through sys.stdin, whose lock a reading thread still holds when the interpreter ends.
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _choose(
    document: dict[str, Any], environments: tuple[str, ...], agents: tuple[str, ...], seeds
) -> None:
    """Environments, agents and seeds that are given take the place of those that are there."""
    if environments:
        document["environments"] = list(envs.expand(environments))
    there = document.get("agents", {})
    if agents or seeds is not None:
        number = 5 if seeds is None else seeds
        chosen = dict.fromkeys(agents or there, number)
        keep = seeds is None
        document["agents"] = {a: there.get(a, n) if keep else n for a, n in chosen.items()}


def _pool(folder: Path, study: Study, processes: int | None, ray: str | None) -> Pool:
    if ray is None:
        return local.LocalPool(folder, study, processes)
    from emphatic.study.cluster import RayPool

    pool = RayPool(folder, study, ray)
    if sentence := pool.shortage():
        _say(sentence)
    return pool


def _finish(folder: Path, study: Study, summary: Summary, console: Console) -> None:
    """What is left to say, and the exit code."""
    console.print(status.shown(folder.name, study, status.Reader(folder, study)()))
    if summary.stopped:
        raise Stopped(f"stopped, checkpoints written; go on with emphatic study run {folder}")
    if summary.failed:
        raise Stopped(
            f"{len(summary.failed)} of {len(study.runs)} runs failed; "
            f"{folder / 'logs'} has what they said"
        )
    console.print(f"next:\n  emphatic report {folder}")


def _numbers(option: str, given: tuple[str, ...]) -> dict[str, float]:
    """`name=number` pairs."""
    pairs = parsing.pairs(option, given)
    for name, value in pairs.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise UserError(option, f"of {name} must be a number above 0, not {value!r}")
    return {name: float(value) for name, value in pairs.items()}


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in options.items() if value is not None}


def _say(text: str) -> None:
    print(text, flush=True)
