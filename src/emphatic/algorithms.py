"""The paper's Table 1 as data, with its baselines and our exact variants.

An algorithm is four independent choices: which ratio feeds the trace, which trace, which
target, which update scheme. `ROWS` holds them, one a line; `build` turns a row and n into
functions.

    clip_netd = algorithms.build("clip-netd", n=10)
    state = clip_netd.trace.init((batch,))
    state, emphasis_tm1 = clip_netd.trace.update(state, rho_tm1, discount_t, nu_tm1)
    target = clip_netd.target(v_tm1, v_t, r_t, discount_t, rho_tm1)
"""

import functools
from collections.abc import Callable
from typing import Literal, NamedTuple

from emphatic import ratios, targets, traces
from emphatic.errors import UserError

Ratio = Literal["rho", "clipped", "vtrace"]
TraceType = Literal["none", "netd", "wetd", "wetd-literal", "exact-netd", "exact-wetd"]
TargetType = Literal["td", "clipped-td", "vtrace"]
Source = Literal["paper", "baseline", "ours"]


class Row(NamedTuple):
    """One line of the table."""

    name: str
    label: str
    """As the paper and the figures write it."""
    ratio: Ratio
    """What feeds the trace: ρ, min(ρ̄, ρ), or ρᵛ = min(ρ̄, ρ)/ν."""
    trace: TraceType
    target: TargetType
    scheme: targets.Scheme
    source: Source
    interest: traces.Interest = "one"


# fmt: off
ROWS = (
    #   name                 label                ratio      trace           target        scheme   source
    Row("td",                "n-step TD",         "rho",     "none",         "td",         "fixed", "paper"),
    Row("td-mixed",          "n-step TD, mixed",  "rho",     "none",         "td",         "mixed", "paper"),
    Row("netd",              "NETD",              "rho",     "netd",         "td",         "fixed", "paper"),
    Row("wetd",              "WETD",              "rho",     "wetd",         "td",         "mixed", "paper"),
    Row("clip-netd",         "Clip-NETD",         "clipped", "netd",         "td",         "fixed", "paper"),
    Row("clip-wetd",         "Clip-WETD",         "clipped", "wetd",         "td",         "mixed", "paper"),
    Row("vtrace",            "V-trace",           "rho",     "none",         "vtrace",     "fixed", "paper"),
    Row("vtrace-mixed",      "V-trace, mixed",    "rho",     "none",         "vtrace",     "mixed", "paper"),
    Row("nevtrace",          "NEVtrace",          "vtrace",  "netd",         "vtrace",     "fixed", "paper"),
    Row("wevtrace",          "WEVtrace",          "vtrace",  "wetd",         "vtrace",     "mixed", "paper"),
    Row("wevtrace-literal",  "WEVtrace, literal", "rho",     "wetd-literal", "vtrace",     "mixed", "paper"),
    Row("clipped-td",        "Clipped TD",        "rho",     "none",         "clipped-td", "fixed", "baseline"),
    Row("clipped-td-mixed",  "Clipped TD, mixed", "rho",     "none",         "clipped-td", "mixed", "baseline"),
    Row("exact-nevtrace",    "Exact NEVtrace",    "rho",     "exact-netd",   "vtrace",     "fixed", "ours"),
    Row("exact-nevtrace-nu", "Exact NEVtrace, ν", "rho",     "exact-netd",   "vtrace",     "fixed", "ours", "nu"),
    Row("exact-wevtrace",    "Exact WEVtrace",    "rho",     "exact-wetd",   "vtrace",     "mixed", "ours"),
)
# fmt: on

NAMES = tuple(row.name for row in ROWS)


class Settings(NamedTuple):
    """The thresholds and stabilisers an algorithm may be built with."""

    clip_rho: float = 1.0
    """ρ̄, on the TD error and in π_ρ̄. Paper: 1 throughout."""
    clip_c: float = 1.0
    """c̄, in the products of V-trace and clipped n-step TD."""
    clip_trace: float = 1.0
    """Clip of the ratio that feeds Clip-NETD and Clip-WETD."""
    clip_pg_rho: float = 1.0
    """Clip of the ratio on the policy-gradient advantage. IMPALA: 1."""
    lambda_: float = 1.0
    """λ in c = λ min(c̄, ρ) of V-trace and its exact traces."""
    beta: float | None = None
    """Takes the discount's place in WETD's follow-on trace, ETD(λ, β)."""
    eta: float = 1.0
    """Interpolates WETD's emphasis between 1 (η = 0) and F (η = 1)."""
    bound_recursion: float | None = None
    """Upper bound on F inside WETD's recursion."""
    bound: float | None = None
    """Upper bound on the emphasis used, any trace."""


class Algorithm(NamedTuple):
    """A row of the table made executable."""

    row: Row
    n: int
    settings: Settings
    trace: traces.Trace
    """Takes the raw ratio; what feeds the trace is made of it inside."""
    target: Callable[..., targets.Target]
    """`target(v_tm1, v_t, r_t, discount_t, rho_tm1)`, on the raw ratio."""


def row(name: str) -> Row:
    """The row of that name."""
    for candidate in ROWS:
        if candidate.name == name:
            return candidate
    raise UserError("algorithm", f"no algorithm is named {name!r}; choose from {', '.join(NAMES)}")


def build(name: str | Row, n: int, **settings) -> Algorithm:
    """The algorithm of that name (or row), with `Settings` by keyword.

    A setting that the row cannot use is an error, not silently ignored.
    """
    chosen = row(name) if isinstance(name, str) else name
    _check_names(settings)
    values = Settings(**settings)
    _check_use(chosen, settings, values)
    _check_values(n, values)
    target = functools.partial(_target(chosen, values), n=n, scheme=chosen.scheme)
    return Algorithm(chosen, n, values, _trace(chosen, n, values), target)


def table(n: int, **settings) -> dict[str, Algorithm]:
    """Every algorithm by name, at one n. Settings that a row cannot use do not reach it."""
    _check_names(settings)
    return {
        r.name: build(r, n, **{k: v for k, v in settings.items() if k in _usable(r)}) for r in ROWS
    }


def _trace(row: Row, n: int, s: Settings) -> traces.Trace:
    """The row's trace, fed with the row's ratio."""
    exact = {"clip_rho": s.clip_rho, "clip_c": s.clip_c, "lambda_": s.lambda_}
    makers = {
        "none": traces.uniform,
        "netd": lambda: traces.nstep(n),
        "wetd": lambda: traces.windowed(n, eta=s.eta, beta=s.beta, bound=s.bound_recursion),
        "wetd-literal": lambda: traces.wevtrace_literal(n, s.clip_rho),
        "exact-netd": lambda: traces.exact_nstep(n, **exact, interest=row.interest),
        "exact-wetd": lambda: traces.exact_windowed(n, **exact),
    }
    transforms = {
        "rho": ratios.raw,
        "clipped": ratios.clipped(s.clip_trace),
        "vtrace": ratios.vtrace(s.clip_rho),
    }
    trace = traces.fed_with(transforms[row.ratio], makers[row.trace]())
    return trace if s.bound is None else traces.bounded(trace, s.bound)


def _target(row: Row, s: Settings) -> Callable[..., targets.Target]:
    """The row's target without n and scheme."""
    if row.target == "td":
        return functools.partial(targets.td, clip_pg_rho=s.clip_pg_rho)
    if row.target == "clipped-td":
        return functools.partial(targets.clipped_td, clip_c=s.clip_c, clip_pg_rho=s.clip_pg_rho)
    return functools.partial(
        targets.vtrace,
        clip_rho=s.clip_rho,
        clip_c=s.clip_c,
        clip_pg_rho=s.clip_pg_rho,
        lambda_=s.lambda_,
    )


def _usable(row: Row) -> set[str]:
    """The settings that change something in this row."""
    usable = {"clip_pg_rho"}
    if row.target == "vtrace":
        usable |= {"clip_rho", "clip_c", "lambda_"}
    if row.target == "clipped-td":
        usable |= {"clip_c"}
    if row.ratio == "clipped":
        usable |= {"clip_trace"}
    if row.ratio == "vtrace" or row.trace.startswith("exact"):
        usable |= {"clip_rho"}
    if row.trace == "wetd":
        usable |= {"beta", "eta", "bound_recursion"}
    if row.trace != "none":
        usable |= {"bound"}
    return usable


def _check_names(settings: dict) -> None:
    """Every setting given must exist."""
    for field in settings:
        if field not in Settings._fields:
            raise UserError(field, f"is no setting; choose from {', '.join(Settings._fields)}")


def _check_use(row: Row, given: dict, settings: Settings) -> None:
    """Every setting given must be one the row can use."""
    for field in given:
        if field not in _usable(row) and getattr(settings, field) != Settings()._asdict()[field]:
            raise UserError(
                field,
                f"has no place in {row.name}, which uses {', '.join(sorted(_usable(row)))}",
            )


def _check_values(n: int, settings: Settings) -> None:
    """What is in range for any row; the makers of traces check the rest."""
    if not isinstance(n, int) or n < 1:
        raise UserError("n", f"must be a whole number of at least 1, not {n!r}")
    for field in ("clip_rho", "clip_trace", "clip_pg_rho"):
        value = getattr(settings, field)
        if not value > 0:
            raise UserError(field, f"must be positive, not {value}")
    for field in ("bound", "bound_recursion"):
        value = getattr(settings, field)
        if value is not None and not value >= 1:
            raise UserError(
                field, f"must be at least 1, the weight of a state without past, not {value}"
            )
    if not settings.clip_c >= 0:
        raise UserError("clip_c", f"must be at least 0, not {settings.clip_c}")
    if not 0 <= settings.lambda_ <= 1:
        raise UserError("lambda_", f"must lie in [0, 1], not {settings.lambda_}")
