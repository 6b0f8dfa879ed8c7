"""Presets: functions that return an agent's configuration.

`paper_fixed` and `paper_mixed` are the appendix to the letter; the others are what learns at the
scale of one machine (docs/agent.md says where their numbers come from).
"""

from collections.abc import Callable
from typing import Any

from emphatic.agent.agents import agent as find
from emphatic.agent.networks import NetworkConfig
from emphatic.agent.optimiser import OptimiserConfig
from emphatic.agent.surreal import AgentConfig
from emphatic.errors import UserError


def paper_fixed(agent: str = "netd-ace") -> AgentConfig:
    """The paper's fixed scheme: n = 10, learning rate 2e-4, norm clip 1."""
    return AgentConfig(agent=_in_scheme(agent, "fixed"))


def paper_mixed(agent: str = "wetd") -> AgentConfig:
    """The paper's mixed scheme: n = 40, learning rate 6e-4, norm clip 0.3."""
    return AgentConfig(
        agent=_in_scheme(agent, "mixed"),
        n=40,
        unroll_length=40,
        optimiser=OptimiserConfig(learning_rate=6e-4, max_gradient_norm=0.3),
    )


def minatar(agent: str = "netd-ace") -> AgentConfig:
    """What learns all five MinAtar games: found by pilot runs, not by the paper.

    With a mean loss the gradient of a parameter is about 1e-4, so RMSProp's ε must be far
    smaller than the paper's 0.1: 1e-10 inside the root.
    """
    fixed = find(agent).row.scheme == "fixed"
    return AgentConfig(
        agent=agent,
        n=10 if fixed else 20,
        unroll_length=10 if fixed else 20,
        num_streams=32 if fixed else 16,
        entropy_cost=0.02,
        network=NetworkConfig(name="minatar"),
        optimiser=OptimiserConfig(learning_rate=1e-3, epsilon=1e-10),
    )


def demo(agent: str = "netd-ace") -> AgentConfig:
    """The MinAtar preset; `make run` trains it for some two minutes on two cores."""
    return minatar(agent)


def atari(agent: str = "netd-ace") -> AgentConfig:
    """Atari at 84x84 with the `nature` network; IMPALA's setting at the size of one machine."""
    return AgentConfig(
        agent=agent,
        n=10 if find(agent).row.scheme == "fixed" else 20,
        unroll_length=20,
        num_streams=32,
        network=NetworkConfig(name="nature"),
        optimiser=OptimiserConfig(learning_rate=6e-4, epsilon=1e-10),
    )


def atari_small(agent: str = "netd-ace") -> AgentConfig:
    """Atari at 84x84 on a few cores: a smaller network, more and smaller updates."""
    fixed = find(agent).row.scheme == "fixed"
    return AgentConfig(
        agent=agent,
        n=5 if fixed else 10,
        unroll_length=5 if fixed else 10,
        num_streams=16,
        network=NetworkConfig(name="small", head_hidden=128),
        optimiser=OptimiserConfig(learning_rate=1e-3, epsilon=1e-10),
    )


def vector(agent: str = "netd-ace") -> AgentConfig:
    """Gymnasium's vector observations: two dense layers, raw rewards."""
    return AgentConfig(
        agent=agent,
        n=5 if find(agent).row.scheme == "fixed" else 10,
        unroll_length=10,
        num_streams=16,
        reward="raw",
        network=NetworkConfig(name="mlp"),
        optimiser=OptimiserConfig(learning_rate=1e-3, epsilon=1e-8),
    )


def catch(agent: str = "netd-ace") -> AgentConfig:
    """Catch, learned in seconds."""
    return AgentConfig(
        agent=agent,
        n=5,
        unroll_length=10,
        num_streams=32,
        discounts=(0.99, 0.95, 0.9),
        network=NetworkConfig(name="mlp"),
        optimiser=OptimiserConfig(learning_rate=3e-3, epsilon=1e-8),
    )


PRESETS: dict[str, Callable[[str], AgentConfig]] = {
    "paper-fixed": paper_fixed,
    "paper-mixed": paper_mixed,
    "atari": atari,
    "atari-small": atari_small,
    "minatar": minatar,
    "vector": vector,
    "demo": demo,
    "catch": catch,
}


STEPS = {"paper-fixed": 50_000_000, "paper-mixed": 50_000_000, "demo": 4_000_000}
"""Environment steps of presets that have their own. Paper: 200e6 frames, four a step."""


def preset(name: str, agent: str) -> AgentConfig:
    """The preset of that name, for that agent."""
    if name not in PRESETS:
        raise UserError("preset", f"no preset is named {name!r}; choose from {', '.join(PRESETS)}")
    return PRESETS[name](agent)


def for_environment(env: str) -> str:
    """The preset that an environment is trained with unless another is asked for.

    One of Gymnasium's is looked at: images need convolutions, large ones large kernels.
    """
    families = {"catch": "catch", "minatar": "minatar", "atari": "atari-small"}
    family = env.split("/")[0]
    if family in families:
        return families[family]
    shape = _shape(env)
    if len(shape) != 3 or min(shape[:2]) < 3:
        return "vector"
    return "atari-small" if min(shape[:2]) >= 36 else "minatar"


def _shape(env: str) -> tuple[int, ...]:
    """Of an observation; none where the environment cannot be made with nothing said of it."""
    from emphatic import envs

    try:
        return envs.make(env).observation_shape
    except Exception:
        # What is wrong is said where it is made with its settings.
        return ()


def env_settings(name: str, env: str) -> dict[str, Any]:
    """What a preset asks of the environment: the paper's agents see raw screens in colour."""
    raw = name in ("paper-fixed", "paper-mixed") and env.startswith("atari/")
    return {"pixels": "rgb210"} if raw else {}


def _in_scheme(name: str, scheme: str) -> str:
    if find(name).row.scheme != scheme:
        other = "paper-mixed" if scheme == "fixed" else "paper-fixed"
        raise UserError(
            "preset",
            f"paper-{scheme} is for the {scheme} scheme, which {name} does not use; take {other}",
        )
    return name
