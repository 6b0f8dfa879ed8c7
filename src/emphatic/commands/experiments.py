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


def claim(plan: Sequence[sweeps.Sweep | networks_study.Study], folder: pathlib.Path) -> None:
    """Writes config.json, or makes sure that the folder's is of this very experiment."""
    config = json.loads(json.dumps({sweep.name: sweep.config() for sweep in plan}))
    path = folder / "config.json"
    if path.exists():
        before = json.loads(path.read_text())["experiment"]
        if before != config:
            what = ", ".join(_differences(before, config))
            raise UserError(
                "out", f"{folder} holds another experiment ({what} differ); choose another --out"
            )
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError("out", f"{folder} is in use and holds no experiment of this command")
    folder.mkdir(parents=True, exist_ok=True)
    versions = {"emphatic": emphatic.__version__, "jax": jax.__version__, "numpy": np.__version__}
    path.write_text(json.dumps({"experiment": config, "versions": versions}, indent=1) + "\n")


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
