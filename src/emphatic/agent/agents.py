"""The agents by name, generated from the table of algorithms.

An agent is a row of `algorithms.ROWS` on the V-trace target, and what its auxiliary
heads do with the emphasis. At scale the paper clips every ratio that feeds a trace, save
where the trace is V-trace's own: `netd` here is the table's trace of Clip-NETD.
"""

from typing import Literal, NamedTuple

from emphatic import algorithms
from emphatic.errors import UserError

Auxiliary = Literal["none", "emphasised", "constant", "unlearned"]


class Agent(NamedTuple):
    """What a name stands for."""

    name: str
    row: algorithms.Row
    """Trace, target and scheme."""
    auxiliary: Auxiliary
    """What the auxiliary heads learn with: the trace, a constant weight, or not at all."""
    ace: bool
    """Whether the emphasis weighs the policy loss as well as the value loss."""


def _at_scale(row: algorithms.Row) -> algorithms.Row:
    """The row as the agents use it: V-trace target, clipped ratio in NETD and WETD."""
    ratio = "clipped" if row.trace in ("netd", "wetd") and row.ratio == "rho" else row.ratio
    return row._replace(target="vtrace", ratio=ratio)


def _all() -> dict[str, Agent]:
    fixed, mixed = algorithms.row("vtrace"), algorithms.row("vtrace-mixed")
    agents = [
        Agent("impala", fixed, "none", False),
        Agent("impala-mixed", mixed, "none", False),
        Agent("surreal", fixed, "emphasised", False),
        Agent("surreal-mixed", mixed, "emphasised", False),
        Agent("surreal-constant", fixed, "constant", True),
        Agent("surreal-constant-mixed", mixed, "constant", True),
        Agent("main-only", fixed, "unlearned", False),
    ]
    for row in algorithms.ROWS:
        # Clip-NETD and Clip-WETD are what `netd` and `wetd` already are at scale.
        if row.trace != "none" and row.ratio != "clipped":
            agents.append(Agent(row.name, _at_scale(row), "emphasised", False))
            agents.append(Agent(f"{row.name}-ace", _at_scale(row), "emphasised", True))
    return {agent.name: agent for agent in agents}


AGENTS = _all()


def agent(name: str) -> Agent:
    """The agent of that name."""
    if name not in AGENTS:
        raise UserError("agent", f"no agent is named {name!r}; choose from {', '.join(AGENTS)}")
    return AGENTS[name]
