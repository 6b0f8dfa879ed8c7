"""`emphatic algorithms`."""

from rich import box
from rich.console import Console
from rich.table import Table

from emphatic import algorithms

_RATIOS = {"rho": "ρ", "clipped": "min(ρ̄, ρ)", "vtrace": "ρᵛ = min(ρ̄, ρ)/ν"}
_TRACES = {
    "none": "none",
    "netd": "NETD",
    "wetd": "WETD",
    "wetd-literal": "WETD, λᵛ literal",
    "exact-netd": "exact NETD",
    "exact-wetd": "exact WETD",
}
_TARGETS = {
    "td": ("n-step TD", "", ""),
    "clipped-td": ("n-step TD", "✓", ""),
    "vtrace": ("V-trace", "✓", "✓"),
}


def command() -> None:
    """Print the paper's table of algorithms, with the baselines and our exact variants.

    The names in the first column are what every other verb takes as --algorithm.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in ("name", "ratio in trace", "trace", "target", "clip c", "clip ρ", "scheme"):
        table.add_column(header, no_wrap=True)
    table.add_column("from", no_wrap=True)
    for row in algorithms.ROWS:
        target, clip_c, clip_rho = _TARGETS[row.target]
        trace = _TRACES[row.trace] + (", interest ν" if row.interest == "nu" else "")
        ratio = "" if row.trace == "none" else _RATIOS[row.ratio]
        table.add_row(row.name, ratio, trace, target, clip_c, clip_rho, row.scheme, row.source)
    Console().print(table)
