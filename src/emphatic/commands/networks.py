"""`emphatic diagnose networks`."""

import json
import pathlib

from rich import box
from rich.console import Console
from rich.table import Table

from emphatic.commands import experiments
from emphatic.diagnostics import (
    figures,
    learners,
    networks_figures,
    networks_study,
    networks_summary,
)


def run(study: networks_study.Study, folder: pathlib.Path, *, redraw: bool) -> None:
    """The study with networks: units, summaries, figures and table."""
    console = Console()
    if not redraw:
        experiments.claim([study], folder)
        with experiments.progressing(*networks_study.work(study, folder), folder, console) as tick:
            networks_study.run(study, folder, lambda: tick(1))
        networks_summary.save(networks_summary.summarise(study, folder), folder / "summaries")
    found = networks_summary.load(folder / "summaries")
    figures.write(networks_figures.draw(found), folder / "figures")
    rows = [row for summary in found for row in networks_summary.rows(summary)]
    (folder / "table.json").write_text(json.dumps(rows, indent=1) + "\n")
    for summary in found:
        console.print(_table(summary))
    console.print(f"results in {folder}")


def _table(summary: networks_summary.Summary) -> Table:
    """Errors over the run and at its end, and on how many seeds the baseline was beaten."""
    what = f"{summary.problem}, {summary.model}, {summary.optimiser}: median RMSE"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=what, title_justify="left")
    for header in ("algorithm", "n", "α", "run", "95%", "end", "diverged", "wins"):
        justify = "left" if header == "algorithm" else "right"
        table.add_column(header, justify=justify, no_wrap=True)
    for row in networks_summary.rows(summary):
        table.add_row(
            learners.LABELS[row["algorithm"]],
            str(row["n"]),
            " ".join(dict.fromkeys(experiments.power(alpha) for alpha in row["alphas"])),
            _short(row["run"]),
            "…".join(_short(x) for x in row["run_interval"]),
            _short(row["final"]),
            str(row["diverged"] or ""),
            "" if row["wins"] is None else f"{row['wins']}/{row['seeds']}",
        )
    return table


def _short(x: float) -> str:
    """At most five characters."""
    return "<.001" if x < 0.001 else f"{x:.3f}"[:5]
