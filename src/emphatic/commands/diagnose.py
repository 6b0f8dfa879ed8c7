"""`emphatic diagnose`."""

import json
import pathlib
import re
from typing import Annotated

import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from emphatic import mdp
from emphatic.commands import experiments, networks
from emphatic.diagnostics import claims, figures, networks_study, problems, summaries, sweeps
from emphatic.errors import UserError

SIZES = {
    "two-state": {"steps": 20_000, "runs": 50, "seeds": 5},
    "collision-trap": {"steps": 20_000, "runs": 200, "seeds": 3},
    "collision-trap-r1": {"steps": 20_000, "runs": 200, "seeds": 1},
    "collision-restart": {"steps": 20_000, "runs": 200, "seeds": 1},
    "collision-termination": {"steps": 20_000, "runs": 200, "seeds": 1},
    "baird": {"steps": 100_000, "runs": 200, "seeds": 2},
}
"""The paper's runs. It gives no number of steps; its readings and our repetitions are extra."""

QUICK = ("td", "netd", "wetd", "clip-netd", "clip-wetd", "clipped-td", "vtrace", "nevtrace")
QUICK += ("wevtrace",)
QUICK_NS = (1, 5)
QUICK_RUNS = 25
WHOLE = ("all", "claims")
NETWORKS = "networks"


def command(
    problem: Annotated[str, tyro.conf.Positional],
    algorithms: tuple[str, ...] | None = None,
    n: tuple[int, ...] | None = None,
    alphas: tuple[str, ...] = ("2^-14:2^-2",),
    runs: int | None = None,
    steps: int | None = None,
    seeds: tuple[int, ...] | None = None,
    quick: bool = False,
    redraw: bool = False,
    out: pathlib.Path | None = None,
) -> None:
    """Run the paper's diagnostic experiments: curves, step sizes, figures and claims.

    Results are kept in a folder; the same command again goes on where it stopped.

    Args:
        problem: two-state, baird, collision (also -trap-r1, -restart, -termination), an MDP
            in a .json file, `all` of the paper, or its `claims` alone; rare-exit,
            rare-exit-3 and rare-loop, where ν depends on the state; or `networks`, the
            study of off-policy evaluation with value networks.
        algorithms: Names from `emphatic algorithms`, and etd, etd-beta, gtd2, tdc, tdrc.
        n: Bootstrap lengths.
        alphas: Step sizes; 2^-10:2^-2 stands for the powers of two from one to the other.
        runs: Independent runs.
        steps: Learning steps of each run.
        seeds: Seeds; each repeats the whole experiment.
        quick: 25 runs, the paper's table of algorithms, and n of 1 and 5 only; of
            `networks`, three problems and few seeds.
        redraw: Compute nothing; draw figures and tables from a folder's summaries.
        out: The folder; runs/diagnose-PROBLEM if left out.
    """
    label = pathlib.Path(problem).stem if problem.endswith(".json") else problem
    folder = out or pathlib.Path("runs") / f"diagnose-{'all' if problem in WHOLE else label}"
    given = {"algorithms": algorithms, "ns": n, "runs": runs, "steps": steps, "seeds": seeds}
    given = {field: value for field, value in given.items() if value is not None}
    if problem in WHOLE and (quick or given):
        raise UserError(problem, "is the paper's experiment; for a part of it name a problem")
    if problem == NETWORKS:
        if given or alphas != ("2^-14:2^-2",):
            raise UserError(problem, "is one study; it takes --quick, --redraw and --out alone")
        study = networks_study.quick() if quick else networks_study.Study()
        networks.run(study, folder, redraw=redraw)
        return
    names = tuple(SIZES) if problem in WHOLE else (problem,)
    plan = [_sweep(name, quick, {**given, "alphas": parse_alphas(alphas)}) for name in names]
    console = Console()
    if not redraw:
        _compute(plan, folder, console)
    found = [summaries.load(folder / sweep.name) for sweep in plan]
    _show(problem, found, folder, console)


def parse_alphas(texts: tuple[str, ...]) -> tuple[float, ...]:
    """Step sizes in ascending order: numbers, powers such as 2^-3, and ranges of these."""
    out: set[float] = set()
    for text in texts:
        ends = text.split(":")
        if len(ends) == 1:
            out.add(_number(text))
            continue
        powers = [re.fullmatch(r"2\^(-?\d+)", end) for end in ends]
        if len(ends) != 2 or not all(powers):
            raise UserError("alphas", f"{text!r} is no range; write one as 2^-10:2^-2")
        low, high = sorted(int(power[1]) for power in powers if power)
        if high - low > 60:
            raise UserError("alphas", f"{text!r} has more than 60 step sizes")
        out |= {2.0**i for i in range(low, high + 1)}
    return tuple(sorted(out))


def _number(text: str) -> float:
    power = re.fullmatch(r"2\^(-?\d{1,3})", text)
    try:
        return 2.0 ** int(power[1]) if power else float(text)
    except ValueError:
        raise UserError("alphas", f"{text!r} is no number; write 0.01 or 2^-7") from None


def _sweep(name: str, quick: bool, given: dict) -> sweeps.Sweep:
    """The sweep of one problem: its size from the paper, what is asked for on top."""
    label, problem = _problem(name)
    size = SIZES.get(label, SIZES["two-state"])
    settings = {**size, "seeds": tuple(range(size["seeds"]))}
    if label not in SIZES:
        settings["seeds"] = (0,)
    if quick:
        settings |= {"algorithms": QUICK, "ns": QUICK_NS, "runs": QUICK_RUNS, "seeds": (0,)}
    return sweeps.Sweep(name=label, problem=problem, **{**settings, **given})


def _problem(name: str) -> tuple[str, problems.Problem]:
    """A problem and the name of its folder."""
    if not name.endswith(".json"):
        problem = problems.problem(name)
        return problem.name, problem
    m = mdp.load(name)
    label = re.sub(r"[^\w-]+", "-", pathlib.Path(name).stem)
    return label, problems.of_mdp(m)


def _compute(plan: list[sweeps.Sweep], folder: pathlib.Path, console: Console) -> None:
    """What the folder lacks, and a summary of each sweep."""
    experiments.claim(plan, folder)
    total, done = sweeps.work(plan, folder)
    with experiments.progressing(total, done, folder, console) as tick:
        sweeps.run(plan, folder, tick)
    for sweep in plan:
        summaries.save(summaries.summarise(sweep, folder), folder / sweep.name)


def _show(
    problem: str, found: list[summaries.Summary], folder: pathlib.Path, console: Console
) -> None:
    """Figures and tables in the folder, and what fits on a screen."""
    if problem != "claims":
        for summary in found:
            drawn = figures.of_the_paper(summary)
            if problem not in WHOLE:
                drawn |= figures.of_any_problem(summary)
            figures.write(drawn, folder / "figures")
            text = json.dumps(summaries.rows(summary), indent=1)
            (folder / summary.name / "table.json").write_text(text + "\n")
    if len(found) == 1:
        console.print(_table(found[0]))
    if problem in WHOLE:
        verdicts = claims.judge({summary.name: summary for summary in found})
        claims.write(verdicts, folder)
        console.print(claims.table(verdicts))
    console.print(f"results in {folder}")


def _table(summary: summaries.Summary) -> Table:
    """One line for each algorithm and n; two best α if mean and median over runs disagree."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=f"{summary.name}: RMSE over all steps")
    for header in ("algorithm", "n", "best α", "mean", "median", "quartiles", "diverged"):
        justify = "left" if header == "algorithm" else "right"
        table.add_column(header, justify=justify, no_wrap=True)
    for lane, row in zip(summary.lanes, summaries.rows(summary), strict=True):
        alphas = dict.fromkeys(
            experiments.power(row[f"alpha_by_{rule}"]) for rule in summaries.RULES
        )
        numbers = (f"{row[key]:.2g}" for key in ("rmse_mean", "rmse_median"))
        quartiles = "…".join(f"{x:.2g}" for x in row["rmse_quartiles"])
        diverged = f"{row['diverged']}/{row['runs']}" if row["diverged"] else ""
        best = ", ".join(alphas)
        table.add_row(lane.label, str(lane.n), best, *numbers, quartiles, diverged)
    return table
