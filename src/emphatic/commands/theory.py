"""`emphatic theory`."""

import dataclasses
import json as json_module
from typing import Annotated, Any

import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from emphatic import algorithms, mdp, theory
from emphatic.commands.plain import plain
from emphatic.errors import UserError

SHOWN = 10
"""Entries of a vector that a table shows; --json has them all."""

LEGEND = """\
stable    the expected update converges for small steps from any θ
key       least eigenvalue of the key matrix's symmetric part; above 0 it is
          stable with any features
A         least real part of A's eigenvalues; above 0 it is stable with these
max α     steps below it keep the expected update stable
error     root mean square error of the fixed point against v_π, weighed by d_μ
variance  of the emphasis; where infinite, sampled runs have rare large spikes
f         d_μ(s) E[F|s] at window starts (fixed scheme: everywhere)
θ         fixed point; what no visited state's features span stays as it began\
"""

MORE = {
    "radius": "radius",
    "growth": "growth",
    "growth_error": "± s.e.",
    "safe": "safe to ε",
    "safe_total_variation": "max TV",
}
MORE_LEGEND = {
    "radius": "radius    spectral radius of I - αA",
    "growth": "growth    of ‖θ - θ*‖ per sampled update, as a logarithm (Lyapunov exponent)",
    "safe": "safe      key matrix definite for μ = (1 - ε)π + εμ below that ε; 1: all the way",
}


def command(
    problem: Annotated[str | None, tyro.conf.Positional] = None,
    n: tuple[int, ...] = (1, 2, 3, 4, 5),
    algorithm: tuple[str, ...] = (),
    clip_rho: float | None = None,
    clip_c: float | None = None,
    clip_trace: float | None = None,
    lambda_: Annotated[float | None, tyro.conf.arg(name="lambda")] = None,
    beta: float | None = None,
    eta: float | None = None,
    step_size: float | None = None,
    safety: bool = False,
    json: bool = False,
    schema: bool = False,
) -> None:
    """Say what each algorithm does in expectation: stability, fixed point, emphasis.

    Args:
        problem: A named problem (two-state, baird, ...) or an MDP in a .json file.
        n: Bootstrap lengths.
        algorithm: Names of algorithms; all of them if left out.
        clip_rho: V-trace's ρ̄. Settings reach the algorithms that have a use for them.
        clip_c: c̄ of V-trace and clipped n-step TD.
        clip_trace: Clip of the ratio that feeds Clip-NETD and Clip-WETD.
        lambda_: λ of V-trace.
        beta: WETD's β.
        eta: WETD's η.
        step_size: Adds the spectral radius of I - αA and the growth of sampled updates.
        safety: Adds how far μ may move from π before definiteness is lost.
        json: Print everything as JSON.
        schema: Print the JSON Schema of an MDP file and stop.
    """
    if schema:
        print(mdp.schema(), end="")
        return
    given = {
        "clip_rho": clip_rho,
        "clip_c": clip_c,
        "clip_trace": clip_trace,
        "lambda_": lambda_,
        "beta": beta,
        "eta": eta,
    }
    given = {field: value for field, value in given.items() if value is not None}
    if step_size is not None and not 0 < step_size < np.inf:
        raise UserError("step-size", f"must be positive, not {step_size}")
    if not n:
        raise UserError("n", "needs at least one bootstrap length")
    subject = _problem(problem)
    built = {length: _algorithms(length, algorithm, given) for length in n}
    blocks = {
        length: [_findings(subject, b, step_size, safety) for b in chosen]
        for length, chosen in built.items()
    }
    if json:
        print(json_module.dumps(_document(subject, blocks)))
    else:
        _print(Console(), subject, blocks)


def _problem(name: str | None) -> mdp.MDP:
    """A named problem or the MDP in a file."""
    from emphatic.diagnostics import problems

    known = (*problems.named(), "collision-termination")
    names = ", ".join(known)
    if name is None:
        raise UserError("problem", f"name one of {names}, or an MDP's .json file")
    if name.endswith(".json"):
        return mdp.load(name)
    if name not in (*known, "collision"):
        raise UserError(
            "problem", f"none is named {name!r}; choose from {names}, or give a .json file"
        )
    return mdp.checked(problems.problem(name).mdp)


def _algorithms(n: int, names: tuple[str, ...], given: dict[str, float]) -> list:
    """All algorithms with the settings they can use; those named with exactly the given."""
    if names:
        return [algorithms.build(name, n, **given) for name in names]
    return list(algorithms.table(n, **given).values())


def _findings(
    subject: mdp.MDP, built: algorithms.Algorithm, step_size: float | None, safety: bool
) -> tuple[theory.Analysis, dict[str, Any]]:
    """The analysis, and what was asked for beyond it."""
    settings = built.settings._asdict()
    analysis = theory.analyse(subject, built.row, built.n, **settings)
    more = {}
    if step_size is not None:
        basis = theory.learned_subspace(subject, analysis.d_mu)
        more["radius"] = theory.spectral_radius(basis.T @ analysis.A @ basis, step_size)
        exponent = theory.lyapunov(subject, built.row, built.n, step_size, **settings)
        more |= {"growth": exponent.mean, "growth_error": exponent.standard_error}
    if safety:
        region = theory.safety_region(subject, built.row, built.n, **settings)
        more |= {"safe": region.epsilon, "safe_total_variation": region.total_variation}
    return analysis, more


def _print(console: Console, subject: mdp.MDP, blocks: dict[int, list]) -> None:
    """One block per n."""
    first, asked = next(iter(blocks.values()))[0]
    console.print(Text(subject.name, style="bold"))
    console.print(f"d_μ  {_vector(first.d_mu)}")
    several = "not unique (π has several recurrent classes)"
    console.print(f"d_π  {several if first.d_pi is None else _vector(first.d_pi)}")
    console.print(f"v_π  {_vector(first.v_pi)}")
    if not first.d_mu.all():
        console.print("States with d_μ = 0 are left for ever: nothing is learned of them.")
    for length, findings in blocks.items():
        console.print()
        console.print(_table(length, findings))
        for table in _vectors(findings, console.width):
            console.print(table)
        if findings[0][1]:
            console.print(_more_table(findings))
    legend = [LEGEND, *(line for field, line in MORE_LEGEND.items() if field in asked)]
    console.print(Text("\n".join(legend), style="dim"))


def _table(n: int, findings: list) -> Table:
    """Stability, errors and step sizes."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=f"n = {n}", title_justify="left")
    table.add_column("algorithm", no_wrap=True)
    table.add_column("stable", no_wrap=True)
    for header in ("key", "A", "max α", "error"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("variance", no_wrap=True)
    for a, _ in findings:
        table.add_row(
            a.algorithm.name,
            Text("stable", "green") if a.stable else Text("unstable", "red"),
            _number(a.key_definiteness.smallest),
            _number(a.A_definiteness.rightmost),
            _number(a.max_step_size) if a.stable else "none",
            "no θ" if a.value_error is None else _number(a.value_error),
            "finite" if a.finite_variance else Text("infinite", "red"),
        )
    return table


def _vectors(findings: list, width: int) -> list[Table]:
    """Expected emphasis and fixed point: side by side where the terminal is wide enough."""
    rows = [
        (a.algorithm.name, _vector(a.emphasis[0]), "none" if a.theta is None else _vector(a.theta))
        for a, _ in findings
    ]
    needed = sum(max(len(row[i]) for row in rows) + 4 for i in range(3))
    if needed <= width:
        return [_named_columns(("f by state", "θ"), rows)]
    return [
        _named_columns(("f by state",), [row[:2] for row in rows]),
        _named_columns(("θ",), [row[::2] for row in rows]),
    ]


def _named_columns(headers: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    """A table with the algorithms' names in front."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("algorithm", no_wrap=True)
    for header in headers:
        table.add_column(header)
    for row in rows:
        table.add_row(*row)
    return table


def _more_table(findings: list) -> Table:
    """What --step-size and --safety add."""
    fields = [field for field in MORE if field in findings[0][1]]
    rows = [(a.algorithm.name, *(_number(more[f]) for f in fields)) for a, more in findings]
    return _named_columns(tuple(MORE[f] for f in fields), rows)


def _document(subject: mdp.MDP, blocks: dict[int, list]) -> dict[str, Any]:
    """What --json prints: the MDP's facts and one entry per algorithm and n."""
    first, _ = next(iter(blocks.values()))[0]
    shared = ("d_mu", "d_pi", "v_pi")
    analyses = []
    for findings in blocks.values():
        for a, more in findings:
            entry = {f.name: getattr(a, f.name) for f in dataclasses.fields(a)}
            entry = {k: v for k, v in entry.items() if k not in shared}
            entry |= {"algorithm": a.algorithm.name, "settings": a.settings._asdict()}
            entry |= {"stable": a.stable, "finite_variance": a.finite_variance, **more}
            analyses.append(plain(entry))
    facts = {field: plain(getattr(first, field)) for field in shared}
    return {"problem": subject.name, **facts, "analyses": analyses}


def _vector(x: np.ndarray) -> str:
    """The first entries of a vector."""
    shown = " ".join(_number(v) for v in x[:SHOWN])
    return shown + (" …" if len(x) > SHOWN else "")


def _number(x: float) -> str:
    """Three digits; what rounding left of a zero is 0."""
    return "0" if abs(x) < 1e-12 else f"{x:.3g}"
