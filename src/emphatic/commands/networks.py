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
    networks_tables,
)

HEADERS = ("algorithm", "n", "log₂α", "run", "95%", "end", "diverged", "safe", "wins")


def run(study: networks_study.Study, folder: pathlib.Path, *, redraw: bool) -> None:
    """The study with networks: units, summaries, figures and tables."""
    console = Console()
    if not redraw:
        experiments.claim([study], folder)
        with experiments.progressing(*networks_study.work(study, folder), folder, console) as tick:
            networks_study.run(study, folder, lambda: tick(1))
        networks_summary.save(networks_summary.summarise(study, folder), folder / "summaries")
    found = networks_summary.load(folder / "summaries")
    rows = networks_summary.table(found)
    figures.write(networks_figures.draw(found, rows), folder / "figures")
    (folder / "table.json").write_text(json.dumps(rows, indent=1) + "\n")
    (folder / "tables.md").write_text(networks_tables.page(found, rows))
    for summary in found:
        console.print(_table(summary, [row for row in rows if networks_tables.of(summary, row)]))
    console.print("run, end: median RMSE over the whole run, over its last tenth")
    console.print("α, safe: step sizes chosen; the largest up to which no seed diverged, as log₂")
    console.print("wins: seeds better than the same target and scheme without emphasis")
    console.print("*: p < 0.05, two-sided sign test, adjusted for all tests of the problem")
    console.print(f"results in {folder}")


def _table(summary: networks_summary.Summary, rows: list[dict]) -> Table:
    """Errors over the run and at its end, and on how many seeds the baseline was beaten."""
    names = networks_tables.NAMES
    model, optimiser = names[summary.model], names[summary.optimiser]
    title = f"{summary.problem}, {model}, {optimiser}, {len(summary.run)} seeds"
    style = {"pad_edge": False, "padding": (0, 1, 0, 0), "title_justify": "left"}
    table = Table(box=box.SIMPLE_HEAD, title=title, **style)
    for header in HEADERS:
        justify = "left" if header == "algorithm" else "right"
        table.add_column(header, justify=justify, no_wrap=True)
    for i in networks_summary.ordered(summary.lanes):
        row = rows[i]
        table.add_row(
            learners.LABELS[row["algorithm"]],
            str(row["n"]),
            ",".join(dict.fromkeys(networks_tables.exponent(alpha) for alpha in row["alphas"])),
            networks_tables.short(row["run"]),
            "…".join(networks_tables.short(x) for x in row["run_interval"]),
            networks_tables.short(row["final"]),
            str(row["diverged"] or ""),
            networks_tables.exponent(row["safe_alpha"]),
            _wins(row),
        )
    return table


def _wins(row: dict) -> str:
    """Of the seeds on which it was not level with its baseline; nothing for a baseline."""
    if not row["against"]:
        return ""
    test = row["against"][0]
    mark = "*" if test["p_adjusted"] < networks_tables.LEVEL else ""
    return f"{test['wins']}/{test['wins'] + test['losses']}{mark}"
