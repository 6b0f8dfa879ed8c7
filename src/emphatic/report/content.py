"""What a report's page is made of, before it has a shape: charts, bars, tables, sentences.

Nothing here is computed or drawn. `page` shows these in a browser, `figures` draws the charts as
PNG and SVG, and both write the numbers beside them; whoever makes the numbers need not know how
they are shown.
"""

import dataclasses

Number = float | int | None
"""None where there is none: it is shown as an empty place, never as zero."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Series:
    """One line of a chart, with the interval around it where one is known."""

    agent: str
    """Whose it is: its colour, and what a click in the legend hides."""
    x: tuple[float, ...]
    y: tuple[Number, ...]
    low: tuple[Number, ...] = ()
    high: tuple[Number, ...] = ()
    dash: int = 0
    """0 is a full line; the other heads of an agent are told apart by their dashes."""
    name: str = ""
    """What tells it from the agent's other lines: `auxiliary 1`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chart:
    """Lines over a common axis."""

    name: str
    """Of its files and its place on the page."""
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    caption: str = ""
    """In plain words: what the lines and the intervals are."""
    group: str = ""
    """What it can be found by: its environment."""
    kind: str = "overall"
    """Over all environments, or `learning-curves` or `health` of one: what it is filed with."""
    log: bool = False
    """Whether the axis of values is logarithmic; all are above 0 then."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bar:
    """One bar: a game and by how much it differs."""

    label: str
    value: float
    low: Number = None
    high: Number = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bars:
    """Differences of an agent to a baseline, a bar for each environment."""

    name: str
    title: str
    agent: str
    baseline: str
    unit: str
    """Of the values: `percentage points of human-normalised score`."""
    bars: tuple[Bar, ...]
    caption: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """A place in a table: its words, and the number behind them."""

    text: str
    value: Number = None
    best: bool = False
    """Shown bold, as the paper's table does."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """A table whose first column names the rows."""

    name: str
    title: str
    columns: tuple[str, ...]
    """The first is the heading of the rows' names."""
    rows: tuple[tuple[Cell, ...], ...]
    agents: tuple[str | None, ...] = ()
    """By column, the agent it is about: its colour, and hidden with it."""
    row_agents: tuple[str | None, ...] = ()
    """By row, the same."""
    caption: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Statement:
    """A statistic in words, and what it allows one to say."""

    text: str
    allows: str
    agents: tuple[str, ...] = ()
    sound: bool = True
    """False where what it assumes does not hold; it is then shown with a warning."""
