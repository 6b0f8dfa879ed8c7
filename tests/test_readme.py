"""README's lines of code, run as they stand beside a network of the reader's."""

import re
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import slow_definitions

from emphatic import algorithms, laws

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
T, B = 12, 3


@pytest.fixture(scope="module")
def names():
    """What the block defines, with a table of values for a network."""

    def network(params, unroll):
        return params[unroll.state[:-1]], params[unroll.state[1:]], unroll.rho_tm1

    found = {"batch_size": B, "network": network}
    exec(re.search(r"^```python\n(.*?)^```", README, re.M | re.S)[1], found)
    return SimpleNamespace(**found)


def test_its_loss_weighs_the_full_n_step_targets_of_every_state_once(names):
    """Two overlapping unrolls against the slow definitions on the whole stream."""
    steps, ahead = 2 * T, names.n - 1
    rng = np.random.default_rng(0)
    stream = laws.random_stream(steps + ahead, (B,))
    state, reward = (
        rng.integers(5, size=(steps + ahead + 1, B)),
        rng.normal(size=(steps + ahead, B)),
    )
    values = rng.normal(size=5).astype(np.float32)

    def loss(params, trace_state, first):
        last = first + T + ahead
        unroll = SimpleNamespace(
            state=jnp.asarray(state[first : last + 1]),
            r_t=jnp.asarray(reward[first:last], jnp.float32),
            discount_t=jnp.asarray(stream.discount_t[first:last]),
            rho_tm1=jnp.asarray(stream.rho_tm1[first:last]),
        )
        return names.loss(params, trace_state, unroll)

    trace_state, gradients = names.state, []
    for first in (0, T):
        gradient = jax.grad(loss, has_aux=True)
        found, trace_state = gradient(jnp.asarray(values), trace_state, first)
        gradients.append(np.asarray(found))

    built = algorithms.build("clip-netd", names.n)
    emphasis = slow_definitions.emphasis(built, *stream)[:steps]
    v = values[state]
    inputs = (v[:-1], v[1:], reward, stream.discount_t, stream.rho_tm1)
    error = slow_definitions.target(built, *inputs)[:steps, 0] - v[:steps]
    wanted = [np.zeros(5), np.zeros(5)]
    for t in range(steps):
        np.add.at(wanted[t // T], state[t], -emphasis[t] * error[t] / (T * B))
    np.testing.assert_allclose(gradients, wanted, rtol=1e-4, atol=1e-4)
