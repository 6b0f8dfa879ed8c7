"""What the study with networks found, as a page of tables in Markdown. Nothing is computed here."""

import numpy as np

from emphatic.diagnostics import learners, networks
from emphatic.diagnostics.networks_summary import BASELINES, Summary, ordered

NAMES = {"sgd": "SGD", "rmsprop": "RMSProp", "linear": "linear", "mlp": "network"}
"""How models and optimisers are called."""

LEVEL = 0.05
"""Of p-values adjusted for all tests of a problem."""

HEAD = """# Off-policy evaluation with value networks

Made by `emphatic diagnose networks`, or again from the summaries with `--redraw`. Step sizes are
chosen on half of the seeds and judged on the other. +: better than the same target and scheme
without emphasis, -: worse, each if p < 0.05 (two-sided sign test over seeds, Holm-adjusted for
all tests of the problem), =: neither.
"""


def page(found: list[Summary], rows: list[dict]) -> str:
    """Verdicts, errors, divergences, and our traces against the paper's."""
    parts = [
        HEAD,
        "## Better or worse than without emphasis\n",
        *[_verdicts(found, rows, model) for model in dict.fromkeys(s.model for s in found)],
        "## Errors over the run\n",
        "Median RMSE over seeds at the chosen step sizes, 95% interval; d: seeds that diverged.\n",
        *[_errors(found, rows, problem) for problem in dict.fromkeys(s.problem for s in found)],
        "## Largest step size up to which no seed diverged\n",
        "As log₂; SGD, RMSProp.\n",
        *[_safe(found, rows, model) for model in dict.fromkeys(s.model for s in found)],
        "## The exact traces against the paper's\n",
        "Seeds on which the exact trace was better, and worse; adjusted p.\n",
        _exact(rows),
    ]
    return "\n".join(parts)


def of(summary: Summary, row: dict) -> bool:
    """Whether a row of the table is of this summary."""
    return all(row[key] == getattr(summary, key) for key in ("problem", "model", "optimiser"))


def verdict(row: dict) -> str:
    """Against its baseline, as `HEAD` says; nothing for a baseline."""
    if not row["against"]:
        return ""
    test = row["against"][0]
    if test["p_adjusted"] >= LEVEL:
        return "="
    return "+" if test["wins"] > test["losses"] else "-"


def exponent(alpha: float | None) -> str:
    """log₂ of a step size."""
    return "none" if alpha is None else f"{np.log2(alpha):.3g}"


def short(x: float) -> str:
    """At most five characters."""
    return "<.001" if x < 0.001 else f"{x:.3f}"[:5]


def _label(lane: networks.Lane) -> str:
    return learners.LABELS[lane.name]


def _lanes(found: list[Summary]) -> list[networks.Lane]:
    return [found[0].lanes[i] for i in ordered(found[0].lanes)]


def _rows(rows: list[dict], lane: networks.Lane, **keys: str) -> list[dict]:
    wanted = {"algorithm": lane.name, "n": lane.n, **keys}
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def _markdown(headers: list[str], lines: list[list[str]]) -> str:
    head = [headers, ["---"] * len(headers)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in [*head, *lines])


def _verdicts(found: list[Summary], rows: list[dict], model: str) -> str:
    """Algorithms by problems: with SGD, with RMSProp."""
    problems = list(dict.fromkeys(s.problem for s in found))
    lines = []
    for lane in _lanes(found):
        if lane.name in BASELINES.values():
            continue
        cells = [
            " ".join(verdict(row) for row in _rows(rows, lane, model=model, problem=problem))
            for problem in problems
        ]
        lines.append([_label(lane), str(lane.n), *cells])
    return _markdown([f"{NAMES[model]}: SGD RMSProp", "n", *problems], lines)


def _errors(found: list[Summary], rows: list[dict], problem: str) -> str:
    """Algorithms by models and optimisers."""
    here = [s for s in found if s.problem == problem]
    headers = [f"{NAMES[s.model]}, {NAMES[s.optimiser]}" for s in here]
    lines = [
        [_label(lane), str(lane.n), *(_error(row) for row in _rows(rows, lane, problem=problem))]
        for lane in _lanes(found)
    ]
    starts = [short(float(np.median(s.start[:, 0]))) for s in here]
    lines.insert(0, ["*before learning*", "", *starts])
    return _markdown([problem, "n", *headers], lines)


def _error(row: dict) -> str:
    low, high = (short(x) for x in row["run_interval"])
    diverged = f"d{row['diverged']}" if row["diverged"] else ""
    return f"{short(row['run'])} ({low}…{high}) {verdict(row)} {diverged}".strip()


def _safe(found: list[Summary], rows: list[dict], model: str) -> str:
    problems = list(dict.fromkeys(s.problem for s in found))
    lines = []
    for lane in _lanes(found):
        here = [_rows(rows, lane, model=model, problem=problem) for problem in problems]
        cells = [", ".join(exponent(row["safe_alpha"]) for row in one) for one in here]
        lines.append([_label(lane), str(lane.n), *cells])
    return _markdown([NAMES[model], "n", *problems], lines)


def _exact(rows: list[dict]) -> str:
    lines = []
    for row in rows:
        for test in row["against"][1:]:
            who = f"{learners.LABELS[row['algorithm']]} : {learners.LABELS[test['algorithm']]}"
            where = [row["problem"], NAMES[row["model"]], NAMES[row["optimiser"]]]
            counts = f"{test['wins']} : {test['losses']}"
            lines.append([who, str(row["n"]), *where, counts, f"{test['p_adjusted']:.2g}"])
    return _markdown(["", "n", "problem", "model", "optimiser", "better : worse", "p"], lines)
