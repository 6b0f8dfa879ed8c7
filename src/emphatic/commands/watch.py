"""`emphatic watch`."""

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from emphatic.evaluation import animation
from emphatic.evaluation import episodes as evaluation
from emphatic.runtime import compilation, signals


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
        out: Where to write, ending in .gif or .mp4 (which needs ffmpeg); default watch.gif
            in the run's folder.
        seed: Of environment and actions.
        steps: At most that many steps.
        fps: Steps shown per second.
    """
    compilation.cached()
    out = run / "watch.gif" if out is None else out
    with signals.at_once():
        frames, total = evaluation.record(evaluation.load(run), seed=seed, max_steps=steps)
        animation.write(out, frames, frames_per_second=fps)
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(f"{len(frames)} frames, return {total:.0f}: {out}")
