"""The agents by name: what each is made of."""

import algorithm3
import pytest

from emphatic import algorithms
from emphatic.agent.agents import AGENTS, agent
from emphatic.errors import UserError

NAMED_IN_THE_PAPER = ("surreal", "netd", "netd-ace", "nevtrace", "wetd", "wetd-ace", "wevtrace")
CONTROLS = ("impala", "surreal-mixed", "surreal-constant", "main-only")


def test_every_trace_of_the_table_is_an_agent_with_and_without_ace():
    traces = [row.name for row in algorithms.ROWS if row.trace != "none" and row.ratio != "clipped"]
    for name in traces:
        assert (agent(name).ace, agent(f"{name}-ace").ace) == (False, True)
    assert set(NAMED_IN_THE_PAPER + CONTROLS) < set(AGENTS)
    assert len(AGENTS) == 7 + 2 * len(traces)


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_is_what_its_name_says(name):
    """Scheme and -ACE as the slow definition reads them; always on V-trace, never above ρ̄."""
    made, meaning = agent(name), algorithm3.meaning(name)
    assert made.name == name
    assert (made.row.scheme == "mixed") == meaning.mixed
    assert made.ace == meaning.ace
    assert made.row.target == "vtrace"
    assert (made.row.ratio == "clipped") == (meaning.trace in ("netd", "wetd"))


def test_auxiliary_heads_of_the_controls():
    assert [AGENTS[name].auxiliary for name in ("impala", "surreal", "surreal-constant")] == [
        "none",
        "emphasised",
        "constant",
    ]
    assert AGENTS["main-only"].auxiliary == "unlearned"
    assert AGENTS["surreal"].row.trace == AGENTS["surreal-mixed"].row.trace == "none"


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(UserError, match=r"agent: no agent is named 'nevtrace-aec'.*netd-ace"):
        agent("nevtrace-aec")
