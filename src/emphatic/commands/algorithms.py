"""`emphatic algorithms`."""

from rich import box
from rich.console import Console
from rich.table import Table

from emphatic import algorithms

_RATIOS = {"rho": "ρ", "clipped": "min(ρ̄, ρ)", "vtrace": "ρᵛ"}
_TRACES = {
    "none": "",
    "netd": "NETD",
    "wetd": "WETD",
    "wetd-literal": "WETD, literal",
    "exact-netd": "exact NETD",
    "exact-wetd": "exact WETD",
}
_TARGETS = {
    "td": ("n-step TD", ""),
    "clipped-td": ("n-step TD", "c"),
    "vtrace": ("V-trace", "c, ρ"),
}
LEGEND = """\
ratio: what feeds the trace, ρ = π/μ or ρᵛ = min(ρ̄, ρ)/ν;
       literal and exact traces take ρ and clip it themselves
trace: what weighs the updates; "literal" reads the paper's λᵛ at its word;
       ", ν" gives a state the interest ν(s), the mass left by clipping
clips: the ratios of the target that are clipped"""
"""Printed below the table."""


def command() -> None:
    """Print the paper's table of algorithms, with the baselines and our exact variants.

    The names in the first column are what every other verb takes as --algorithm.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for header in ("name", "ratio", "trace", "target", "clips", "scheme", "from"):
        table.add_column(header, no_wrap=True)
    for row in algorithms.ROWS:
        table.add_row(*_cells(row))
    console = Console(highlight=False)
    console.print(table)
    console.print(f"\n{LEGEND}", style="dim")


def _cells(row: algorithms.Row) -> tuple[str, ...]:
    """A row of the table in words and symbols."""
    ratio = "" if row.trace == "none" else _RATIOS[row.ratio]
    trace = _TRACES[row.trace] + (", ν" if row.interest == "nu" else "")
    return (row.name, ratio, trace, *_TARGETS[row.target], row.scheme, row.source)
