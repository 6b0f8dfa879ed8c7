"""`emphatic watch`."""

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from emphatic.errors import UserError
from emphatic.evaluation import animation
from emphatic.evaluation import episodes as evaluation
from emphatic.runtime import compilation, runs, settings, signals

MOST_STEPS = 100_000


def command(
    run: Annotated[Path, tyro.conf.Positional],
    out: Path | None = None,
    seed: int = 0,
    steps: int = 600,
    fps: int = 15,
) -> None:
    """Show the agent of a run playing one episode, as an animation.

    Args:
        run: Folder of the run.
        out: Where to write: a .gif, which needs nothing, or an .mp4, which needs the program
            ffmpeg where the shell finds programs; default watch.gif in the run's folder.
        seed: Of environment and actions.
        steps: At most that many steps.
        fps: Steps shown per second, at most 100: a GIF counts in hundredths of a second.
    """
    settings.check_seed(seed)
    if not 1 <= steps <= MOST_STEPS:
        raise UserError("steps", f"must lie in [1, {MOST_STEPS:,}], not {steps}")
    runs.read_config(run)
    out = run / "watch.gif" if out is None else out
    animation.check(out, fps)
    compilation.cached()
    with signals.at_once():
        frames, total = evaluation.record(evaluation.load(run), seed=seed, max_steps=steps)
        animation.write(out, frames, frames_per_second=fps)
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(f"{len(frames)} frames, return {total:.0f}: {out}")
