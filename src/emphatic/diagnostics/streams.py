"""Behaviour: the transitions of a problem, sampled for many runs at once.

A stream holds, for each run, one transition after another. Where an episode is cut, the
next transition starts elsewhere than the last one ended; `chain_t` is 0 there, so that
products and traces start anew, while `discount_t` keeps the bootstrap of a truncation.
(This says the same as the library's pseudo-step after a cut, without spending a step.)
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from emphatic.diagnostics.problems import Problem

BLOCK = 1000
"""Steps whose random numbers are drawn together."""


class Stream(NamedTuple):
    """Transitions, `[T, *B]`."""

    state_tm1: Int[Array, "T *B"]
    state_t: Int[Array, "T *B"]
    reward_t: Float[Array, "T *B"]
    discount_t: Float[Array, "T *B"]
    """γ of the TD error: 0 at termination."""
    chain_t: Float[Array, "T *B"]
    """γ of products over steps and of traces: 0 at termination and at every cut."""
    rho_tm1: Float[Array, "T *B"]
    nu_tm1: Float[Array, "T *B"]


class Tables(NamedTuple):
    """What sampling looks up; cumulative where a choice is made."""

    start: Float[Array, "S"]
    action: Float[Array, "S A"]
    arrival: Float[Array, "S A S"]
    reward: Float[Array, "S A S"]
    discount: Float[Array, "S A S"]
    rho: Float[Array, "S A"]
    nu: Float[Array, "S"]


def sample(seed: int, runs: range, problem: Problem, steps: int) -> Stream:
    """At least `steps` transitions of each run, `[T, runs]`.

    A run's stream depends on the seed and the run's number alone, not on which runs are
    sampled with it.
    """
    keys = jax.vmap(jax.random.fold_in, (None, 0))(
        jax.random.key(seed), jnp.arange(runs.start, runs.stop)
    )
    blocks = -(-steps // BLOCK)
    ends = problem.cut == "termination"
    return _sample(keys, tables(problem), blocks=blocks, limit=problem.limit, ends=ends)


def tables(problem: Problem) -> Tables:
    """The problem as arrays."""
    m = problem.mdp
    lookup = (m.reward, m.discount, m.rho, m.nu())
    chosen = (_cumulative(problem.start), _cumulative(m.behaviour), _cumulative(m.transition))
    return Tables(*(jnp.asarray(x) for x in (*chosen, *lookup)))


def _cumulative(p: np.ndarray) -> np.ndarray:
    """Cumulative probabilities that end in exactly 1, so that nothing impossible is drawn."""
    total = np.cumsum(p, -1)
    return total / total[..., -1:]


@functools.partial(jax.jit, static_argnames=("blocks", "limit", "ends"))
def _sample(keys, tables: Tables, *, blocks: int, limit: int | None, ends: bool) -> Stream:
    """Block after block; the age of an episode is carried along with its state."""
    draw = functools.partial(jax.random.uniform, shape=(BLOCK, 3), dtype=tables.start.dtype)

    def choose(cumulative, u):
        return (cumulative <= u[:, None]).sum(-1, dtype=jnp.int32)

    def step(carry, u):
        state, age = carry
        action = choose(tables.action[state], u[0])
        arrived = choose(tables.arrival[state, action], u[1])
        discount = tables.discount[state, action, arrived]
        cut = jnp.zeros_like(state, bool) if limit is None else age + 1 >= limit
        chain = jnp.where(cut, 0.0, discount)
        transition = Stream(
            state,
            arrived,
            tables.reward[state, action, arrived],
            chain if ends else discount,
            chain,
            tables.rho[state, action],
            tables.nu[state],
        )
        fresh = choose(jnp.broadcast_to(tables.start, (len(state), len(tables.start))), u[2])
        age = jnp.where(chain == 0, 0, age + 1)
        return (jnp.where(cut, fresh, arrived), age), transition

    def block(carry, i):
        u = jax.vmap(lambda key: draw(jax.random.fold_in(key, i + 1)))(keys)
        return jax.lax.scan(step, carry, jnp.moveaxis(u, 0, 2))

    first = jax.vmap(lambda key: draw(jax.random.fold_in(key, 0))[0, 0])(keys)
    state = choose(jnp.broadcast_to(tables.start, (len(keys), len(tables.start))), first)
    _, stream = jax.lax.scan(block, (state, jnp.zeros_like(state)), jnp.arange(blocks))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), stream)
