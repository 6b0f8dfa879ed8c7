"""What is said to be wrong with an update: each head is held to a bound of its own."""

import jax.numpy as jnp
import pytest

from emphatic.agent import faults
from emphatic.agent.faults import Fault
from emphatic.agent.surreal import AgentConfig, Outputs

STEPS, STREAMS, HEADS, ACTIONS = 10, 2, 3, 4


@pytest.mark.parametrize(
    ("emphasis", "head", "found"),
    [
        (8.7, 1, None),
        (8.8, 1, Fault("emphasis", 3, 1, 1)),
        (7.2, 2, None),
        (7.3, 2, Fault("emphasis", 3, 1, 2)),
        (8.7, 2, Fault("emphasis", 3, 1, 2)),
    ],
)
def test_each_head_is_held_to_its_own_bound(emphasis, head, found):
    """With the paper's discounts and n = 10: 8.71 and 7.23."""
    config = AgentConfig(agent="netd-ace", num_streams=STREAMS)
    shape = (STEPS + config.lookahead + 1, STREAMS, HEADS)
    outputs = Outputs(jnp.zeros((*shape, ACTIONS)), jnp.zeros(shape))
    arrived = jnp.ones((STEPS, STREAMS, HEADS - 1)).at[3, 1, head - 1].set(emphasis)
    doubts = faults.in_outputs(config, outputs, arrived, jnp.zeros((STEPS, STREAMS, HEADS)))
    assert faults.decode(faults.first(doubts)) == found
