"""Linear online learners: every algorithm, bootstrap length and step size on one stream.

What makes this fast is what the learners share. A run has one stream, so the states that
an update touches are the same for all of them, and the state index is one number for
thousands of `lanes` (step size x algorithm). And θ is only ever seen through the values
v = Φθ of a handful of states, so a run is learned in value space:

    θ ← θ + α F Δ φ(s)      is      v ← v + α F Δ K[:, s],    K = Φ Φᵀ

with Δ linear in v, Δ = b + Σₖ aₖ v(sₖ). Emphasis, ratios and rewards do not depend on v:
`coefficients` works out F b and F a for a stretch of steps at once, and the loop over
steps is left with a weighted sum of rows, a rank-one update and the error.

A lane whose error passes `LIMIT`, or is not a number, has diverged: it stands still from
then on and counts as LIMIT. Lanes never mix, so it touches no other.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from emphatic import algorithms, traces
from emphatic.diagnostics.streams import Stream
from emphatic.errors import UserError

LIMIT = 1e10
"""An error beyond this is divergence. The initial errors are between 0.5 and 6."""

BETA = 0.35
"""β of ETD(λ, β): β² E[ρ²] < 1 on all problems here (E[ρ²] = 7 in Baird's), so F has a variance."""

ETAS = (1 / 16, 1.0, 16.0)
"""Second step size of GTD2 and TDC, as a multiple of α."""


class Extra(NamedTuple):
    """A baseline that is no row of the paper's table."""

    label: str
    kind: str


EXTRAS = {
    "etd": Extra("ETD(λ)", "backward"),
    "etd-beta": Extra("ETD(λ, β)", "backward"),
    "gtd2": Extra("GTD2", "gradient"),
    "tdc": Extra("TDC", "gradient"),
    "tdrc": Extra("TDRC", "gradient"),
}
"""ETD in the backward view, at λ = 1 - 1/n, and the gradient-TD family, at λ = 0."""

LABELS = {row.name: row.label for row in algorithms.ROWS} | {k: e.label for k, e in EXTRAS.items()}
"""Every algorithm that can be run, and what figures call it."""


class Lane(NamedTuple):
    """One learner of a run; with each step size it is a lane of its own."""

    name: str
    n: int
    eta: float = 1.0
    """Second step size over the first; gradient-TD only."""

    @property
    def kind(self) -> str:
        """How it learns: forward (the table), backward or gradient."""
        return EXTRAS[self.name].kind if self.name in EXTRAS else "forward"

    @property
    def label(self) -> str:
        """What figures call it."""
        return LABELS[self.name] + (f", η = {self.eta:g}" if self.name in ("gtd2", "tdc") else "")


def lanes(names: tuple[str, ...], ns: tuple[int, ...]) -> tuple[Lane, ...]:
    """All lanes of these algorithms, in the order of the arrays: by kind, name, n."""
    for name in names:
        if name not in LABELS:
            raise UserError(
                "algorithms", f"none is named {name!r}; choose from {', '.join(LABELS)}"
            )
    for n in ns:
        if n < 1:
            raise UserError("n", f"must be a whole number of at least 1, not {n}")
    each = [Lane(name, n) for name in names for n in ns]
    gradient = [
        Lane(name, 1, eta)
        for name in names
        for eta in (ETAS if name in ("gtd2", "tdc") else (1.0,))
        if Lane(name, 1).kind == "gradient"
    ]
    return tuple(
        [x for x in each if x.kind == "forward"]
        + [x for x in each if x.kind == "backward"]
        + gradient
    )


class Case(NamedTuple):
    """What one run of one problem is learned and judged with."""

    gram: Float[Array, "*B S S"]
    """K = Φ Φᵀ."""
    values: Float[Array, "S"]
    """v_π."""
    weights: Float[Array, "S"]
    """d_μ."""


class Learner(NamedTuple):
    """All lanes of one kind: values, the update that is due, and the errors so far.

    The update of step t is held back as its parts and applied at the start of step t+1,
    where every reader of v applies it for itself. (Applied at once, the compiler works
    out the weighted sum anew for every state.)
    """

    value: Float[Array, "S A L"]
    second: Float[Array, "S A L"] | None
    """Φ w, the second weights of gradient-TD."""
    due: Any
    error: Float[Array, "A L"]
    """RMSE before the update that is due."""
    curve: Float[Array, "G A L"]
    """Sum of RMSE over the steps of each bin."""


def start(
    initial: Float[Array, "S"], plan: tuple[Lane, ...], alphas: int, bins: int
) -> dict[str, Learner]:
    """Learners of one run before its first step, at the values Φ θ₀, by kind."""
    return {
        kind: _start(initial, kind, len([x for x in plan if x.kind == kind]), alphas, bins)
        for kind in dict.fromkeys(x.kind for x in plan)
    }


def _start(initial: Float[Array, "S"], kind: str, count: int, alphas: int, bins: int) -> Learner:
    size = len(initial)
    zero = jnp.zeros((alphas, count))
    nowhere = jnp.zeros(size)
    due = {
        "forward": (zero, nowhere),
        "backward": (zero, jnp.zeros((size, count))),
        "gradient": (zero, zero, zero, nowhere, nowhere),
    }[kind]
    value = jnp.broadcast_to(initial[:, None, None], (size, alphas, count))
    second = jnp.zeros_like(value) if kind == "gradient" else None
    return Learner(value, second, due, zero, jnp.zeros((bins, alphas, count)))


def trace_states(plan: tuple[Lane, ...], runs: int, states: int) -> list[Any]:
    """States of the traces of all lanes, at the start of their streams."""
    return [_trace_of(lane, runs, states) for lane in plan if lane.kind != "gradient"]


def _trace_of(lane: Lane, runs: int, states: int) -> Any:
    dtype = jnp.result_type(float)
    if lane.kind == "backward":
        return _eligibility(lane).init((runs,), states, dtype)
    return algorithms.build(lane.name, lane.n).trace.init((runs,), dtype)


def _eligibility(lane: Lane) -> traces.Eligibility:
    lambda_ = 1.0 - 1.0 / lane.n
    beta = BETA if lane.name == "etd-beta" else None
    return traces.eligibility(lambda_, traces.etd(lambda_, beta=beta))


class Drive(NamedTuple):
    """What drives the learners through a stretch of steps: no v in it."""

    emphasis: Float[Array, "T *B L"] | None
    """Of the forward lanes."""
    direction: Float[Array, "T *B S L"] | None
    """Φ e, of the backward lanes."""


def drive(
    plan: tuple[Lane, ...], states: list[Any], stream: Stream, gram: Float[Array, "B S S"]
) -> tuple[list[Any], Drive]:
    """Runs the library's own traces over the stretch, carrying their states on."""
    after, emphases, directions = [], [], []
    ratios = stream.rho_tm1, stream.chain_t
    moving = [lane for lane in plan if lane.kind != "gradient"]
    seen = gram[jnp.arange(len(gram))[None], stream.state_tm1]
    for lane, state in zip(moving, states, strict=True):
        if lane.kind == "forward":
            trace = algorithms.build(lane.name, lane.n).trace
            state, out = trace.update(state, *ratios, stream.nu_tm1)
            emphases.append(out)
        else:
            state, out = _eligibility(lane).update(state, *ratios, seen)
            directions.append(out)
        after.append(state)
    return after, Drive(
        jnp.stack(emphases, -1) if emphases else None,
        jnp.stack(directions, -1) if directions else None,
    )


class Coefficients(NamedTuple):
    """F Δ = bias + Σₖ weight[k] v(state[k])."""

    bias: Float[Array, "T L"]
    weight: Float[Array, "T k L"]
    state: Int[Array, "T k"]


def coefficients(
    plan: tuple[Lane, ...],
    stream: Stream,
    emphasis: Float[Array, "T L"],
    position: Int[Array, ""],
) -> Coefficients:
    """The forward lanes' targets, taken apart. `stream` is one run's and n - 1 steps longer.

        Δₜ = Σᵢ (∏ⱼ cⱼ γⱼ₊₁) ρᵢ (Rᵢ₊₁ + γᵢ₊₁ v(Sᵢ₊₁) - v(Sᵢ)),   i = t … t+m-1

    m = n in the fixed scheme; n - (t mod n) in the mixed one. `position` is t of the
    first step.
    """
    rows = [algorithms.build(lane.name, lane.n) for lane in plan if lane.kind == "forward"]
    steps, reach = len(emphasis), _reach(rows, len(emphasis), position)
    clip_rho, clip_c, lambda_ = (jnp.asarray(x)[None] for x in _clips(rows))
    rho = jnp.minimum(clip_rho, stream.rho_tm1[:, None])
    product = lambda_ * jnp.minimum(clip_c, stream.rho_tm1[:, None]) * stream.chain_t[:, None]
    longest = max(row.n for row in rows)
    bias, weight = jnp.zeros_like(emphasis), [jnp.zeros_like(emphasis)] * (longest + 1)
    for k in range(longest):
        later = slice(k, k + steps)
        term = jnp.where(k < reach, emphasis * rho[later], 0.0)
        bias += term * stream.reward_t[later][:, None]
        weight[k] = weight[k] - term
        weight[k + 1] = weight[k + 1] + term * stream.discount_t[later][:, None]
        emphasis = emphasis * product[later]
    states = [stream.state_tm1[:steps]] + [stream.state_t[k : k + steps] for k in range(longest)]
    return Coefficients(bias, jnp.stack(weight, 1), jnp.stack(states, 1))


def _reach(
    rows: list[algorithms.Algorithm], steps: int, position: Int[Array, ""]
) -> Int[Array, "T L"]:
    """m, the steps a target reaches over."""
    n = jnp.asarray([row.n for row in rows])[None]
    mixed = jnp.asarray([row.row.scheme == "mixed" for row in rows])[None]
    inside = (position + jnp.arange(steps))[:, None] % n
    return jnp.where(mixed, n - inside, n)


def _clips(rows: list[algorithms.Algorithm]) -> tuple[np.ndarray, ...]:
    """Clip of ρ on the TD error, clip of c in the products, and λ; each `[L]`."""
    none = {"td": (np.inf, np.inf, 1.0)}
    clips = [
        none.get(r.row.target)
        or (
            r.settings.clip_rho if r.row.target == "vtrace" else np.inf,
            r.settings.clip_c,
            r.settings.lambda_ if r.row.target == "vtrace" else 1.0,
        )
        for r in rows
    ]
    return tuple(np.array(clips, float).T)


@functools.partial(jax.jit, static_argnames=("plan", "steps"))
def advance(
    plan: tuple[Lane, ...],
    learners: dict[str, Learner],
    states: list[Any],
    case: Case,
    stream: Stream,
    slot: Int[Array, "T"],
    alphas: Float[Array, "A"],
    position: Int[Array, ""],
    last: Int[Array, ""],
    *,
    steps: int,
) -> tuple[dict[str, Learner], list[Any]]:
    """All lanes of a block of runs through the next `steps` steps.

    `stream` `[T, B]` begins at `position` and is longer than `steps` by the n - 1 steps
    that the targets look ahead. The error before the update of step t goes to bin `slot[t]`.
    From step `last` on nothing is learned any more.
    """
    here = jax.tree.map(lambda x: x[:steps], stream)
    states, driven = drive(plan, states, here, case.gram)
    learning = (position + jnp.arange(steps) < last).astype(alphas.dtype)
    shared = (case.values, case.weights)

    def one(run):
        learners, gram, stream, driven = run
        case = Case(gram, *shared)
        inputs = _inputs(plan, stream, driven, learning, position, steps)
        out = {}
        for kind, learner in learners.items():
            step = functools.partial(
                STEPS[kind], case=case, alphas=alphas[:, None], constants=_constants(plan, kind)
            )
            out[kind], _ = jax.lax.scan(step, learner, (*inputs[kind], slot))
        return out

    by_run = jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), (stream, driven))
    return jax.lax.map(one, (learners, case.gram, *by_run)), states


def _inputs(plan, stream, driven, learning, position, steps) -> dict[str, tuple]:
    """What each kind of learner reads, step by step."""
    here = jax.tree.map(lambda x: x[:steps], stream)
    out = {}
    if driven.emphasis is not None:
        emphasis = driven.emphasis * learning[:, None]
        out["forward"] = coefficients(plan, stream, emphasis, position)
    if driven.direction is not None:
        out["backward"] = (here, driven.direction * learning[:, None, None])
    out["gradient"] = (here, learning)
    return out


def _constants(plan: tuple[Lane, ...], kind: str) -> tuple:
    """Per-lane numbers of gradient-TD: second step size, regulariser, and which are GTD2."""
    here = [lane for lane in plan if lane.kind == kind]
    eta = jnp.asarray([lane.eta for lane in here])[None]
    regular = jnp.asarray([1.0 if lane.name == "tdrc" else 0.0 for lane in here])[None]
    return eta, regular, jnp.asarray([lane.name == "gtd2" for lane in here])[None]


def _forward(learner: Learner, x, *, case: Case, alphas, constants):
    """v ← v + α (b + Σₖ aₖ v(sₖ)) K[:, s]."""
    del constants
    bias, weight, state, slot = x
    move, column = learner.due
    value = learner.value + column[:, None, None] * move[None]
    delta = bias[None]
    for k in range(len(weight)):
        delta = delta + weight[k][None] * _row(value, state[k])
    due = (_unless_diverged(learner, alphas * delta), _row(case.gram, state[0]))
    return _recorded(learner, value, None, due, case, slot)


def _backward(learner: Learner, x, *, case: Case, alphas, constants):
    """v ← v + α δ Φ e."""
    del constants
    here, direction, slot = x
    move, along = learner.due
    value = learner.value + along[:, None] * move[None]
    delta = _td_error(value, here)
    due = (_unless_diverged(learner, alphas * delta), direction)
    return _recorded(learner, value, None, due, case, slot)


def _gradient(learner: Learner, x, *, case: Case, alphas, constants):
    """GTD2, TDC and TDRC with h = φᵀw, in value space.

        GTD2   θ ← θ + α ρ h (φ - γφ')            w ← w + ηα (ρδ - h) φ
        TDC    θ ← θ + α ρ (δ φ - γ h φ')         w as GTD2
        TDRC   θ as TDC                           w ← w + α (ρδ - h) φ - α w

    Sutton & Barto 2018, sec. 11.7; Ghiassian et al. 2020 for TDRC.
    """
    here, learning, slot = x
    eta, regular, is_gtd2 = constants
    along, against, second_move, column, column_t = learner.due
    value = learner.value + (
        column[:, None, None] * along[None] - column_t[:, None, None] * against[None]
    )
    second = learner.second + column[:, None, None] * second_move[None]
    delta, h = _td_error(value, here), _row(second, here.state_tm1)
    rate = alphas * learning
    along = rate * here.rho_tm1 * jnp.where(is_gtd2, h, delta)
    against = rate * here.rho_tm1 * here.discount_t * h
    second_move = rate * eta * (here.rho_tm1 * delta - h)
    second = second * _unless_diverged(learner, 1.0 - rate * regular, 1.0)[None]
    moves = (_unless_diverged(learner, move) for move in (along, against, second_move))
    due = (*moves, _row(case.gram, here.state_tm1), _row(case.gram, here.state_t))
    return _recorded(learner, value, second, due, case, slot)


STEPS = {"forward": _forward, "backward": _backward, "gradient": _gradient}


def _row(x: Float[Array, "S *A"], i: Int[Array, ""]) -> Float[Array, "*A"]:
    return jax.lax.dynamic_index_in_dim(x, i, 0, keepdims=False)


def _td_error(value: Float[Array, "S A L"], here: Stream) -> Float[Array, "A L"]:
    """R + γ v(S') - v(S)."""
    return here.reward_t + here.discount_t * _row(value, here.state_t) - _row(value, here.state_tm1)


def _unless_diverged(learner: Learner, move, otherwise=0.0):
    """A lane stands still once its error has passed the limit; NaN counts as passed."""
    return jnp.where(learner.error < LIMIT, move, otherwise)


def _recorded(learner: Learner, value, second, due, case: Case, slot) -> tuple[Learner, None]:
    """The learner one step on, its error √Σ d_μ (v - v_π)² added to its bin."""
    square = 0.0
    for s in range(len(value)):
        square = square + case.weights[s] * jnp.square(value[s] - case.values[s])
    error = jnp.sqrt(square)
    error = _unless_diverged(learner, jnp.where(error < LIMIT, error, LIMIT), LIMIT)
    total = error + _row(learner.curve, slot)
    curve = jax.lax.dynamic_update_index_in_dim(learner.curve, total, slot, 0)
    return Learner(value, second, due, error, curve), None
