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
from emphatic.commands.plain import plain
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

QUICK_NAMES = ("td", "netd", "wetd", "clip-netd", "clip-wetd", "clipped-td", "vtrace", "nevtrace")
QUICK = {"algorithms": (*QUICK_NAMES, "wevtrace"), "ns": (1, 5), "runs": 25, "seeds": (0,)}
WHOLE = ("all", "claims")
NETWORKS = "networks"


def command(
    problem: Annotated[str, tyro.conf.Positional],
    algorithms: tuple[str, ...] | None = None,
    n: tuple[int, ...] | None = None,
    alphas: tuple[str, ...] | None = None,
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
            The paper's are 2^-14:2^-2.
        runs: Independent runs.
        steps: Learning steps of each run.
        seeds: Seeds; each repeats the whole experiment.
        quick: 25 runs, the paper's table of algorithms, and n of 1 and 5 only; of
            `networks`, three problems and few seeds.
        redraw: Compute nothing; draw figures and tables from a folder's summaries.
        out: The folder; runs/diagnose-PROBLEM if left out, of --quick runs/diagnose-PROBLEM-quick.
    """
    folder = out or _default_folder(problem, quick)
    given = {"algorithms": algorithms, "ns": n, "runs": runs, "steps": steps, "seeds": seeds}
    given["alphas"] = None if alphas is None else parse_alphas(alphas)
    given = {field: value for field, value in given.items() if value is not None}
    if problem in WHOLE and (quick or given):
        raise UserError(problem, "is the paper's experiment; for a part of it name a problem")
    if problem == NETWORKS:
        if given:
            raise UserError(problem, "is one study; it takes --quick, --redraw and --out alone")
        study = networks_study.quick() if quick else networks_study.Study()
        networks.run(study, folder, redraw=redraw)
        return
    names = tuple(SIZES) if problem in WHOLE else (problem,)
    if quick:
        given = {**QUICK, **given}
    plan = [_sweep(name, given) for name in names]
    console = Console()
    if redraw:
        experiments.check_same(plan, folder, tuple(given))
    else:
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


def _default_folder(problem: str, quick: bool) -> pathlib.Path:
    """One for each problem, and one for its quick version: two experiments do not mix."""
    label = "all" if problem in WHOLE else _label(problem)
    return pathlib.Path("runs") / f"diagnose-{label}{'-quick' if quick else ''}"


def _label(name: str) -> str:
    """What folders and figures call it; a file of the user's is never called as one of ours is."""
    if not name.endswith(".json"):
        return name
    label = re.sub(r"[^\w-]+", "-", pathlib.Path(name).stem)
    ours = (*problems.named(), "collision", "collision-termination", *WHOLE, NETWORKS)
    return f"{label}-json" if label in ours else label


def _sweep(name: str, given: dict) -> sweeps.Sweep:
    """The sweep of one problem: its size from the paper, what is asked for on top."""
    label, problem = _problem(name)
    size = SIZES.get(label, {**SIZES["two-state"], "seeds": 1})
    settings = {**size, "seeds": tuple(range(size["seeds"]))}
    return sweeps.Sweep(name=label, problem=problem, **{**settings, **given})


def _problem(name: str) -> tuple[str, problems.Problem]:
    """A problem and the name of its folder."""
    if name.endswith(".json"):
        return _label(name), problems.of_mdp(mdp.load(name))
    problem = problems.problem(name)
    return problem.name, problem


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
            text = json.dumps(plain(summaries.rows(summary)), indent=1, allow_nan=False)
            (folder / summary.name / "table.json").write_text(text + "\n")
    if len(found) == 1:
        console.print(_table(found[0]))
    if problem in WHOLE:
        verdicts = claims.judge({summary.name: summary for summary in found})
        claims.write(verdicts, folder)
        console.print(claims.table(verdicts))
    console.print(f"results in {folder}")


def _table(summary: summaries.Summary) -> Table:
    """One line for each algorithm and n; two α, and what diverged at each, if rules disagree."""
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        title=f"{summary.name}: RMSE over all steps, {summary.total[0, :, :, 0].size} runs",
        caption="α with the least mean, and with the least median where that is another; "
        "mean, median and quartiles each at its own",
    )
    for header in ("algorithm", "n", "best α", "mean", "median", "quartiles", "diverged"):
        justify = "left" if header == "algorithm" else "right"
        table.add_column(header, justify=justify, no_wrap=True)
    for lane, row in zip(summary.lanes, summaries.rows(summary), strict=True):
        rules = [row["by_mean"], row["by_median"]]
        alphas = dict.fromkeys(experiments.power(rule["alphas"][0]) for rule in rules)
        diverged = dict.fromkeys(str(rule["diverged"]) for rule in rules)
        table.add_row(
            lane.label,
            str(lane.n),
            ", ".join(alphas),
            f"{rules[0]['mean']:.2g}",
            f"{rules[1]['median']:.2g}",
            "…".join(f"{x:.2g}" for x in rules[1]["quartiles"]),
            ", ".join(diverged) if any(rule["diverged"] for rule in rules) else "",
        )
    return table
