"""Returns on a common scale: of a human, of an agent, or of stated ends.

    score = (return - low) / (high - low)

so that `low` is 0 and `high` is 1. On Atari low is a random policy and high a human:
the human-normalised score. Where the numbers come from: docs/statistics.md.

Reference: Mnih et al., "Human-level control through deep reinforcement learning", 2015.
"""

import csv
import functools
import math
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from emphatic.errors import UserError

ATARI57 = "atari57_reference_scores.csv"
"""Game, random, human; one line for each game of the benchmark."""
SOURCES = "atari57_reference_scores_sources.csv"
"""The same scores as four public tables have them, with the names of the ROMs."""


class Reference(NamedTuple):
    """What counts as 0 and as 1 in each environment."""

    name: str
    """`human-normalised`, or what it is relative to: `relative to surreal`."""
    low: Mapping[str, float]
    high: Mapping[str, float]

    def knows(self, environment: str) -> bool:
        """Whether it has both ends there."""
        return environment in self.low and environment in self.high

    def normalised(
        self, environment: str, returns: Float[np.ndarray, "*R"]
    ) -> Float[np.ndarray, "*R"]:
        """Of the returns there, the fraction of the way from low to high."""
        low, high = self.low[environment], self.high[environment]
        return (returns - low) / (high - low)


@functools.cache
def human() -> Reference:
    """Random 0, human 1 in the 57 Atari games."""
    roms = {line["game"]: line["rom_id"] for line in _package_data(SOURCES)}
    lines = {f"atari/{roms[line['game']]}": line for line in _package_data(ATARI57)}
    return Reference(
        "human-normalised",
        {environment: float(line["random"]) for environment, line in lines.items()},
        {environment: float(line["human"]) for environment, line in lines.items()},
    )


def relative_to(agent: str, means: Mapping[str, float]) -> Reference:
    """A return of 0 is 0, the mean return of that agent is 1."""
    for environment, mean in means.items():
        if not mean > 0:
            raise UserError(
                "reference",
                f"the mean return of {agent} on {environment} is {mean:g}: only one above 0 can be "
                "the measure of others; give the ends in a file (environment,low,high)",
            )
    return Reference(f"relative to {agent}", dict.fromkeys(means, 0.0), dict(means))


def from_file(file: Path) -> Reference:
    """The ends in a CSV file with the columns environment, low, high."""
    try:
        with Path(file).open(newline="", encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError("reference", f"{file} cannot be read ({error})") from error
    if not rows or not {"environment", "low", "high"} <= rows[0].keys():
        raise UserError("reference", f"{file} must have the columns environment,low,high and lines")
    low = {row["environment"]: _number(file, row, "low") for row in rows}
    high = {row["environment"]: _number(file, row, "high") for row in rows}
    return Reference(f"normalised by {Path(file).name}", low, _above(file, low, high))


def game_of(environment: str) -> str:
    """The name the literature uses: `VideoPinball` for `atari/video_pinball`."""
    return _names().get(environment, environment)


@functools.cache
def _names() -> dict[str, str]:
    return {f"atari/{line['rom_id']}": line["game"] for line in _package_data(SOURCES)}


def _package_data(name: str) -> Iterable[dict[str, str]]:
    text = resources.files("emphatic.evaluation").joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _number(file: Path, row: Mapping[str, str | None], column: str) -> float:
    try:
        value = float(row[column] or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        where = f"{column} of {row['environment']}"
        raise UserError("reference", f"{file}: {where} must be a number, not {row[column]!r}")
    return value


def _above(file: Path, low: Mapping[str, float], high: Mapping[str, float]) -> Mapping[str, float]:
    for environment in low:
        if not high[environment] > low[environment]:
            raise UserError("reference", f"{file}: high of {environment} must lie above its low")
    return high
