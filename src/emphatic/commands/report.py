"""`emphatic report`."""

import dataclasses
from pathlib import Path

import tyro
from rich import box
from rich.console import Console
from rich.table import Table as Shown
from rich.text import Text

from emphatic.commands import parsing
from emphatic.errors import UserError
from emphatic.report import analysis, folders, page
from emphatic.report.analysis import Analysis
from emphatic.report.collect import Collection, collect, only, place, write_summaries
from emphatic.report.content import Cell, Statement, Table
from emphatic.report.measures import Measure
from emphatic.report.sentences import p_value

SHOWN, LONG = 8, 300
"""Problems that are printed, and how much of one; the page has them all."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Make a page of runs: tables, curves, statistics and what they allow one to say."""

    paths: tyro.conf.Positional[tuple[Path, ...]]
    """Runs, studies (also by name), summaries, or folders with any of these."""
    out: Path | None = None
    """Folder for the page, its figures and its numbers; None: report in the first folder given."""
    compare: tuple[str, str] | None = None
    """Two agents, the second the baseline; the statistics leave the others out."""
    baseline: str | None = None
    """Agent that the others are compared with; None: surreal, where it has runs."""
    reference: str | None = None
    """What scores are relative to: human, an agent, a CSV file with environment,low,high, or raw;
    None: human on Atari, else raw."""
    score: Measure | None = None
    """Compare by the evaluation phase, or by the episodes at the end of training; None: the
    evaluation where all runs have one."""
    summaries: Path | None = None
    """Also write a small file of each run there; a report of these has the same tables."""
    title: str | None = None
    """Of the page; None: the names of what was given."""


def main(argv: list[str]) -> None:
    """Collect, analyse, write, and show the gist."""
    options = parsing.parsed(Options, "report", argv)
    collection = collect(options.paths)
    if not collection.runs:
        reasons = " ".join(collection.problems) or "Name a run, a study or a folder of them."
        raise UserError("report", f"there is no run to show. {reasons}")
    found = analysis.analyse(
        collection,
        pair=options.compare,
        baseline=options.baseline,
        reference=options.reference,
        score=options.score,
    )
    if options.compare is not None:
        collection = only(collection, options.compare)
    command = ["emphatic", "report", *folders.without_places(argv)]
    out = options.out or _default_out(options.paths[0])
    try:
        if options.summaries is not None:
            write_summaries(collection, options.summaries)
        written = _write(out, collection, found, options.title or _title(options.paths), command)
    except OSError as error:
        raise UserError("out", f"{error.filename or out}: {error.strerror or error}") from error
    _show(Console(highlight=False), collection, found, written[0], options.compare is not None)


def _write(
    out: Path, collection: Collection, found: Analysis, title: str, command: list[str]
) -> list[Path]:
    pages = page.write(
        out,
        collection,
        title=title,
        command=command,
        tables=found.tables,
        statements=found.statements,
        improvements=found.improvements,
        charts=found.charts,
        problems=found.measured.notes,
    )
    return [*pages, analysis.write(collection, found, out / "data")]


def _default_out(path: Path) -> Path:
    path = place(path)
    return (path if path.is_dir() else path.parent) / "report"


def _title(paths: tuple[Path, ...]) -> str:
    """What was given, as its user knows it."""
    return ", ".join(path.resolve().name for path in paths)


def _show(
    console: Console, collection: Collection, found: Analysis, where: Path, in_words: bool
) -> None:
    """The first table, the tests, and where the rest is."""
    if found.tables:
        console.print(Text(found.tables[0].title, style="italic"), _table(found.tables[0]))
    if in_words:
        for statement in found.statements:
            console.print(_sentence(statement))
    elif found.comparisons:
        pairs = "games" if any(len(c.games) > 1 for c in found.comparisons) else "pairs of seeds"
        title = f"against {found.baseline}; p: sign test on {pairs}; runs: rank test; adjusted"
        console.print(Text(title, style="italic"), _tests(found))
    problems = (*collection.problems, *found.measured.notes)
    for problem in problems[:SHOWN]:
        shown = problem if len(problem) <= LONG else f"{problem[:LONG]}…"
        # A path in it stays in one piece, however narrow the terminal.
        console.print(Text(f"! {shown}", style="yellow"), soft_wrap=True)
    if len(problems) > SHOWN:
        console.print(Text(f"! and {len(problems) - SHOWN} more, on the page", style="yellow"))
    console.print(f"page: {where}", soft_wrap=True, markup=False)


def _tests(found: Analysis) -> Shown:
    """A line for each comparison; the page has the words."""
    shown = _columns("Agent", "Better on", "p", "p of runs", "P(better)", "95%")
    for c in found.comparisons:
        low, high = c.probability_interval
        shown.add_row(
            Text(c.agent),
            f"{c.sound.wins} of {c.sound.pairs}",
            p_value(c.adjusted),
            p_value(c.adjusted_on_runs),
            f"{c.probability:.2f}",
            f"{low:.2f} to {high:.2f}" if c.spread else "",
        )
    return shown


def _table(table: Table) -> Shown:
    shown = _columns(*table.columns)
    for row in table.rows:
        shown.add_row(*(_cell(cell) for cell in row))
    return shown


def _columns(*names: str) -> Shown:
    """A table to be filled; a long name takes several lines rather than lose its end."""
    shown = Shown(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(names):
        shown.add_column(Text(name), justify="right" if number else "left", overflow="fold")
    return shown


def _cell(cell: Cell) -> Text:
    return Text(cell.text, style="bold" if cell.best else "")


def _sentence(statement: Statement) -> Text:
    """What was found, and dimmed what it allows; a warning where it allows nothing."""
    text = Text(f"{statement.text} ")
    text.append(statement.allows, style="dim" if statement.sound else "yellow")
    return text
