"""What the experiments of `emphatic diagnose` share: a folder of their own and a bar."""

import contextlib
import json
import pathlib
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np
from rich import progress
from rich.console import Console

import emphatic
from emphatic.diagnostics import networks_study, sweeps
from emphatic.errors import UserError

OPTIONS = {"ns": "n"}
"""Fields of a sweep that the command line calls otherwise."""


def claim(plan: Sequence[sweeps.Sweep | networks_study.Study], folder: pathlib.Path) -> None:
    """Writes config.json, or makes sure that the folder's is of this very experiment.

    What is already computed must come from the versions that go on with it.
    """
    config = json.loads(json.dumps({sweep.name: sweep.config() for sweep in plan}))
    path, now = folder / "config.json", versions()
    if path.exists():
        kept = json.loads(path.read_text())
        if kept["experiment"] != config:
            what = ", ".join(_differences(kept["experiment"], config))
            raise UserError(
                "out", f"{folder} holds another experiment ({what} differ); choose another --out"
            )
        done = [unit.path(folder).exists() for sweep in plan for unit in sweep.units]
        if any(done) and not all(done) and kept["versions"] != now:
            raise UserError("out", _other_versions(folder, kept["versions"], now))
        if any(done):
            return
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError("out", f"{folder} is in use and holds no experiment of this command")
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"experiment": config, "versions": now}, indent=1) + "\n")


def versions() -> dict[str, str]:
    """What results depend on besides the configuration."""
    return {"emphatic": emphatic.__version__, "jax": jax.__version__, "numpy": np.__version__}


def _other_versions(folder: pathlib.Path, kept: dict[str, str], now: dict[str, str]) -> str:
    """A sentence that names what differs."""
    other = [f"{x} {kept.get(x)}, now {now[x]}" for x in now if kept.get(x) != now[x]]
    what = "; ".join(other)
    return (
        f"{folder} was begun with other versions ({what}); install those, or choose another --out"
    )


def check_same(plan: Sequence[sweeps.Sweep], folder: pathlib.Path, fields: Sequence[str]) -> None:
    """What was asked for by name must be what the folder's summaries are of."""
    path = folder / "config.json"
    kept = json.loads(path.read_text())["experiment"] if path.exists() else {}
    for sweep in plan:
        before, now = kept.get(sweep.name), json.loads(json.dumps(sweep.config()))
        for field in ("problem", *fields):
            if before is not None and before.get(field) != now[field]:
                raise UserError(
                    "redraw",
                    f"computes nothing, and {folder} holds a run with other "
                    f"{OPTIONS.get(field, field)}; leave that as it was, or compute it into "
                    "another --out",
                )


def _differences(before: dict, now: dict) -> list[str]:
    if set(before) != set(now):
        return ["problems"]
    return sorted({f for name in now for f in now[name] if before[name].get(f) != now[name][f]})


@contextlib.contextmanager
def progressing(
    total: int, done: int, folder: pathlib.Path, console: Console
) -> Iterator[Callable[[int], None]]:
    """A bar with the time that is left; a break of the user's ends the command in a line."""
    columns = (
        progress.TextColumn("learning"),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("ETA"),
        progress.TimeRemainingColumn(elapsed_when_finished=False),
    )
    bar = progress.Progress(*columns, console=console, speed_estimate_period=120)
    try:
        with bar:
            task = bar.add_task("", total=total, completed=done)
            yield lambda chunks: bar.update(task, advance=chunks)
    except KeyboardInterrupt:
        console.print(f"stopped; the same command goes on from {folder}")
        raise SystemExit(1) from None


def power(alpha: float) -> str:
    """A step size, as a power of two where it is one."""
    exponent = float(np.log2(alpha))
    return f"2^{exponent:.0f}" if exponent.is_integer() else f"{alpha:g}"
