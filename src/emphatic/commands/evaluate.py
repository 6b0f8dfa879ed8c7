"""`emphatic evaluate`."""

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from emphatic.evaluation import episodes as evaluation
from emphatic.runtime import compilation, settings, signals


def command(run: Annotated[Path, tyro.conf.Positional], episodes: int = 100, seed: int = 0) -> None:
    """Play whole episodes with the newest checkpoint of a run: no learning, raw rewards.

    Writes evaluation.json into the run and prints the mean with its standard error. Ctrl-C or
    SIGTERM ends it at once and keeps nothing; the same command again plays the same episodes.

    Args:
        run: Folder of the run.
        episodes: Whole episodes to play.
        seed: Of environments and actions.
    """
    settings.check_seed(seed)
    evaluation.check_episodes(episodes)
    compilation.cached()
    with signals.leaving(f"stopped: no episode is kept; {run / 'evaluation.json'} is as it was"):
        trained = evaluation.load(run)
        played = evaluation.play(trained, episodes, seed=seed)
    with signals.stop_signal():  # What was played is written down, whoever asks now.
        result = evaluation.written(run, trained, played, seed)
    error = result["standard_error"]
    spread = "" if error is None else f" ± {error:.2f} (standard error)"
    console = Console(highlight=False)
    console.print(
        f"{result['episodes']} episodes after {result['steps']:,} steps: "
        f"mean return [bold]{result['mean']:.2f}[/bold]{spread}, median {result['median']:.2f}, "
        f"from {result['min']:.0f} to {result['max']:.0f}"
    )
    console.print(f"written to {run / 'evaluation.json'}", markup=False, emoji=False)
