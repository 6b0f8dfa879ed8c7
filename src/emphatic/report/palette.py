"""One look for one agent, on the page and in every figure.

Okabe and Ito's colours, which colour-blind readers tell apart, some darkened so that a line has a
contrast of 3 to the ground; page.css has the same by number (`--c0` ...), and lighter ones for
dark ground. Agents the diagnostics know keep the colour of their trace there.
"""

from collections.abc import Sequence
from typing import NamedTuple

COLOURS = (
    "#0072b2",
    "#d55e00",
    "#00875f",
    "#b3508a",
    "#3a3a3a",
    "#a06c00",
    "#3b8fc4",
    "#332288",
)
DASHES = ("-", (0, (5, 4)), (0, (1, 3)), (0, (8, 3, 1, 3)))
"""Of the heads of an agent, and of agents beyond the eighth; page.css has the same."""
_USUAL = {
    "netd": 0,
    "netd-ace": 1,
    "nevtrace": 2,
    "wevtrace": 3,
    "surreal": 4,
    "impala": 3,
    "wetd": 6,
    "exact-nevtrace": 7,
}


class Look(NamedTuple):
    """Numbers of a colour and of a dash."""

    colour: int
    dash: int


def looks(agents: Sequence[str]) -> dict[str, Look]:
    """Of each agent: its usual colour if that is free, else the first that is.

    Beyond eight agents colours come again, dashed.
    """
    found: dict[str, Look] = {}
    for start in range(0, len(agents), len(COLOURS)):
        found |= _of_eight(agents[start : start + len(COLOURS)], start // len(COLOURS))
    return found


def _of_eight(agents: Sequence[str], dash: int) -> dict[str, Look]:
    chosen: dict[str, int] = {}
    for agent in agents:
        if agent in _USUAL and _USUAL[agent] not in chosen.values():
            chosen[agent] = _USUAL[agent]
    free = [number for number in range(len(COLOURS)) if number not in chosen.values()]
    for agent in agents:
        if agent not in chosen:
            chosen[agent] = free.pop(0)
    return {agent: Look(chosen[agent], dash % len(DASHES)) for agent in agents}
