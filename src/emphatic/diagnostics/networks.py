"""Value networks learned off-policy: every algorithm and step size on one stream.

The linear learners of `learners` update at every step. Here a small network learns as the
agent's value head does: B streams side by side, T states of each in one update, the
gradient of the mean of F ½(G - v)² handed to an optimiser. An algorithm, n and step size
is a `lane`; all lanes of a run see the same streams and begin with the same parameters,
and one compiled call takes all of them through many updates.

Problems are small, so a network is evaluated on all states at once: the values of a
stream's states are looked up, what pushes at them is summed by state, and the gradient is
one vector-Jacobian product for S states, however long the stream.

Emphases do not depend on the values. They come from the library's traces for a whole
stretch of steps, as the targets come from `algorithms.build`.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from emphatic import algorithms
from emphatic.agent import optimiser
from emphatic.diagnostics.streams import Stream

UNROLL = 10
"""T, states of one stream in an update; a multiple of every n, as the mixed scheme needs."""

LIMIT = 100.0
"""An error beyond this is divergence. The initial errors are about 1; Baird's 0.3, linear 5."""

OPTIMISERS = ("sgd", "rmsprop")
"""Plain gradient steps of constant size, and the agent's optimiser with its schedule."""

Params = list[tuple[Array, Array]]


class Lane(NamedTuple):
    """One algorithm at one n; with each step size it is a lane of its own."""

    name: str
    n: int


class Case(NamedTuple):
    """What one run is learned and judged with."""

    inputs: Float[Array, "S k"]
    """What the network sees of each state."""
    values: Float[Array, "S"]
    """v_π."""
    weights: Float[Array, "w S"]
    """What errors are weighed with: d_μ first, then d_π."""


class Learner(NamedTuple):
    """All lanes `[L, A]` of one optimiser."""

    params: Params
    optimiser: Any
    error: Float[Array, "L A"]
    """RMSE by d_μ before the last update; LIMIT once it has diverged."""


def init(key: PRNGKeyArray, sizes: tuple[int, ...]) -> Params:
    """Weights and biases of a network with these layer sizes, the last of which is 1.

    Normal weights of variance 1/fan-in, biases 0.
    """
    keys = jax.random.split(key, len(sizes) - 1)
    layers = zip(keys, sizes[:-1], sizes[1:], strict=True)
    return [(jax.random.normal(k, (a, b)) / a**0.5, jnp.zeros(b)) for k, a, b in layers]


def linear(weights: Float[Array, "k"]) -> Params:
    """The network without hidden layers that begins at these weights."""
    return [(weights[:, None], jnp.zeros(1))]


def values(params: Params, inputs: Float[Array, "S k"]) -> Float[Array, "S"]:
    """v of every state: hidden layers of rectified units, a linear output."""
    x = inputs
    for i, (w, b) in enumerate(params):
        x = x @ w + b[None]
        x = jax.nn.relu(x) if i < len(params) - 1 else x
    return x[:, 0]


def start(plan: tuple[Lane, ...], params: Params, alphas: dict[str, int]) -> dict[str, Learner]:
    """Learners before the first update, by optimiser: `params` in every lane.

    `alphas` says how many step sizes each optimiser has.
    """
    out = {}
    for name, count in alphas.items():
        shape = (len(plan), count)
        wide = jax.tree.map(lambda x, s=shape: jnp.broadcast_to(x, (*s, *x.shape)), params)
        state = _over_lanes(_rmsprop(1).init)(wide) if name == "rmsprop" else ()
        out[name] = Learner(wide, state, jnp.zeros(shape))
    return out


def trace_states(plan: tuple[Lane, ...], streams: int) -> list[Any]:
    """States of the traces of all lanes, at the start of their streams."""
    dtype = jnp.result_type(float)
    return [algorithms.build(*lane).trace.init((streams,), dtype) for lane in plan]


def emphases(
    plan: tuple[Lane, ...], states: list[Any], stream: Stream
) -> tuple[list[Any], Float[Array, "L N B"]]:
    """Runs the library's own traces over a stretch, carrying their states on."""
    after, out = [], []
    for lane, state in zip(plan, states, strict=True):
        trace = algorithms.build(*lane).trace
        state, emphasis = trace.update(state, stream.rho_tm1, stream.chain_t, stream.nu_tm1)
        after.append(state)
        out.append(emphasis)
    return after, jnp.stack(out)


@functools.partial(jax.jit, static_argnames=("plan", "updates", "total", "unroll"))
def advance(
    plan: tuple[Lane, ...],
    learners: dict[str, Learner],
    states: list[Any],
    case: Case,
    stream: Stream,
    alphas: dict[str, Float[Array, "A"]],
    *,
    updates: int,
    total: int,
    unroll: int = UNROLL,
) -> tuple[dict[str, Learner], list[Any], dict[str, Float[Array, "u w L A"]]]:
    """All lanes through `updates` updates of `total`, and their errors before each.

    `stream` `[N, B]` is longer than the states learned by the n - 1 transitions that the
    targets of the fixed scheme look ahead. Errors are √Σ weights (v - v_π)².
    """
    learned = updates * unroll
    here = jax.tree.map(lambda x: x[:learned], stream)
    states, emphasis = emphases(plan, states, here)
    emphasis = jnp.moveaxis(emphasis.reshape(len(plan), updates, unroll, -1), 1, 0)
    ahead = max(lane.n for lane in plan) - 1

    def update(learners, x):
        i, emphasis = x
        window = jax.tree.map(
            lambda y: jax.lax.dynamic_slice_in_dim(y, i * unroll, unroll + ahead), stream
        )
        out = {
            name: _update(plan, name, learner, case, window, emphasis, alphas[name], total)
            for name, learner in learners.items()
        }
        return {k: x[0] for k, x in out.items()}, {k: x[1] for k, x in out.items()}

    learners, errors = jax.lax.scan(update, learners, (jnp.arange(updates), emphasis))
    return learners, states, errors


def _update(plan, name, learner: Learner, case: Case, window: Stream, emphasis, alphas, total):
    """One update of all lanes of one optimiser, and the errors before it."""
    v, pull = jax.vjp(lambda p: _over_lanes(values, None)(p, case.inputs), learner.params)
    errors = _errors(v, case)
    sound = (errors[0] < LIMIT) & ~(learner.error >= LIMIT)
    errors = jnp.where(sound[None], errors, LIMIT)
    push = _push(plan, v, window, emphasis)
    (gradient,) = pull(jnp.where(sound[..., None], -push, 0.0))
    params, state = _stepped(name, learner, gradient, alphas, total)

    def keep(new, old):
        return jnp.where(sound.reshape(sound.shape + (1,) * (new.ndim - 2)), new, old)

    params = jax.tree.map(keep, params, learner.params)
    return Learner(params, state, errors[0]), errors


def _errors(v: Float[Array, "L A S"], case: Case) -> Float[Array, "w L A"]:
    """RMSE by each weighting."""
    off = jnp.square(v - case.values[None, None])
    return jnp.sqrt(jnp.einsum("ws,las->wla", case.weights, off))


@jax.jit
def diverged(learner: Learner, case: Case) -> Bool[Array, "L A"]:
    """Lanes that ever passed LIMIT, or are not numbers any more.

    The errors that `advance` returns are from before each update; this sees the last one too.
    """
    now = _errors(_over_lanes(values, None)(learner.params, case.inputs), case)[0]
    return (learner.error >= LIMIT) | ~(now < LIMIT)


def _push(
    plan: tuple[Lane, ...],
    v: Float[Array, "L A S"],
    window: Stream,
    emphasis: Float[Array, "L T B"],
) -> Float[Array, "L A S"]:
    """Mean over an update's states of F (G - v), summed by state: -∂ loss/∂v(s)."""
    by_state = jnp.moveaxis(v, 2, 0)
    v_tm1, v_t = by_state[window.state_tm1], by_state[window.state_t]
    pushes = jnp.stack(
        [
            weight[..., None] * _error(lane, v_tm1[:, :, i], v_t[:, :, i], window, len(weight))
            for i, (lane, weight) in enumerate(zip(plan, emphasis, strict=True))
        ],
        axis=2,
    )
    steps, streams = pushes.shape[:2]
    visited = jax.nn.one_hot(window.state_tm1[:steps].reshape(-1), v.shape[2], dtype=v.dtype)
    summed = visited.T @ pushes.reshape(steps * streams, -1) / (steps * streams)
    return jnp.moveaxis(summed.reshape(by_state.shape), 0, 2)


def _error(
    lane: Lane, v_tm1: Float[Array, "N B A"], v_t: Float[Array, "N B A"], window: Stream, steps: int
) -> Float[Array, "T B A"]:
    """G - v of the first `steps` states of the window."""
    built = algorithms.build(*lane)
    # Full n-step targets look ahead; the windows of the mixed scheme end with the unroll.
    length = steps + (lane.n - 1 if built.row.scheme == "fixed" else 0)
    given = (x[:length] for x in (window.reward_t, window.discount_t, window.rho_tm1))
    wide = (jnp.broadcast_to(x[..., None], (*x.shape, v_t.shape[2])) for x in given)
    target = built.target(v_tm1[:length], v_t[:length], *wide)
    return (target.value_tm1 - v_tm1[:length])[:steps]


def _stepped(name: str, learner: Learner, gradient: Params, alphas: Float[Array, "A"], total: int):
    """Parameters one step on; step sizes multiply what a step of size 1 would add."""
    if name == "sgd":
        move, state = jax.tree.map(jnp.negative, gradient), learner.optimiser
    else:
        # From parameters of 0 the optimiser's new ones are the step alone.
        nothing = jax.tree.map(jnp.zeros_like, gradient)
        move, state, _ = _over_lanes(_rmsprop(total).step)(nothing, learner.optimiser, gradient)

    def moved(x, by):
        return x + alphas.reshape(1, -1, *[1] * (x.ndim - 2)) * by

    return jax.tree.map(moved, learner.params, move), state


def _rmsprop(total: int) -> optimiser.Optimiser:
    """The agent's: its ε, decay, bound on the gradient's norm and linear schedule."""
    return optimiser.build(optimiser.OptimiserConfig(learning_rate=1.0), total)


def _over_lanes(function, *rest: None):
    """`function` for each lane `[L, A]` of its arguments; `rest` are the same for all."""

    def mapped(*arguments):
        axes = tuple(0 for _ in arguments[: len(arguments) - len(rest)]) + rest
        return jax.vmap(jax.vmap(function, axes), axes)(*arguments)

    return mapped
