"""Surreal: one main head that acts, auxiliary heads that learn off-policy, one loss.

Algorithm 3 of the paper for any trace of the table. Each head h has its own discount γₕ,
policy and value; the main head's policy made the data. Per step and head

    ℒ = c_π ℒ_π + c_V ℒ_V,     main head: ℒ - c_H H,     auxiliary: F ℒ - c_H H   (-ACE)

and the loss is their mean over time, streams and heads. Without -ACE, F weighs ℒ_V alone.
"""

import dataclasses
import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from emphatic import algorithms, losses, ratios
from emphatic.agent.agents import Agent, agent
from emphatic.agent.networks import NetworkConfig
from emphatic.agent.optimiser import OptimiserConfig
from emphatic.errors import UserError


def sigmoid(x: float) -> float:
    """1/(1 + e⁻ˣ), the paper's way of writing discounts."""
    return 1.0 / (1.0 + math.exp(-x))


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentConfig:
    """Everything that makes an agent; the defaults are the paper's fixed scheme."""

    agent: str = "netd-ace"
    """By name: impala, surreal, surreal-constant (each also -mixed), main-only, and netd,
    nevtrace, exact-nevtrace, exact-nevtrace-nu, wetd, wevtrace, wevtrace-literal,
    exact-wevtrace (each also -ace)."""
    n: int = 10
    """Bootstrap length. Paper: 10 fixed, 40 mixed."""
    unroll_length: int = 10
    """Steps per stream and update, T; in the mixed scheme a multiple of n. Paper: n."""
    num_streams: int = 18
    """Environments stepped side by side, B. Paper: batch size 18."""
    discounts: tuple[float, ...] = (sigmoid(4.6), sigmoid(4.4), sigmoid(4.2))
    """γ of the main head, then of each auxiliary head. Paper."""
    clip_rho: float = 1.0
    """ρ̄ on the TD error. Paper: 1."""
    clip_c: float = 1.0
    """c̄ in the products. Paper: 1."""
    clip_pg_rho: float = 1.0
    """Clip of the ratio on the policy gradient. Paper: 1."""
    clip_trace: float = 1.0
    """Clip of the ratio that feeds NETD's and WETD's trace. Paper: 1."""
    lambda_: float = 1.0
    """λ in c = λ min(c̄, ρ). Not in the paper: 1."""
    beta: float | None = None
    """WETD: takes the discount's place in the trace, ETD(λ, β). Paper: tried, no value given."""
    eta: float = 1.0
    """WETD: interpolates its emphasis between 1 (0) and F (1). Paper: tried, no value given."""
    bound: float | None = None
    """Upper bound on the emphasis used. Paper: tried for WETD, no value given."""
    bound_recursion: float | None = None
    """Upper bound inside WETD's recursion: the other reading."""
    constant: float = 1.0
    """surreal-constant: the weight of the auxiliary losses, such as a run's mean emphasis."""
    policy_cost: float = 1.0
    """c_π. IMPALA: 1."""
    value_cost: float = 0.5
    """c_V, on ½ (G - V)². IMPALA: 0.5."""
    entropy_cost: float = 0.01
    """c_H. IMPALA: 0.01."""
    reward: Literal["clip", "raw"] = "clip"
    """What is learned from: rewards clipped to [-1, 1] (IMPALA), or as they are."""
    reduction: Literal["mean", "sum"] = "mean"
    """Over time and streams; over heads it is always the mean. Paper, Algorithm 3: mean."""
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    """The torso and its heads."""
    optimiser: OptimiserConfig = dataclasses.field(default_factory=OptimiserConfig)
    """How a gradient becomes a step."""

    def __post_init__(self):
        chosen = agent(self.agent)
        _check_numbers(self)
        if chosen.auxiliary != "constant" and self.constant != 1.0:
            raise UserError("constant", f"has no place in {self.agent}, only in surreal-constant")
        if chosen.auxiliary != "none" and len(self.discounts) < 2:
            raise UserError("discounts", f"{self.agent} needs one for the main and each other head")
        if chosen.row.scheme == "mixed" and self.unroll_length % self.n:
            raise UserError(
                "unroll_length",
                f"must be a multiple of n = {self.n} in the mixed scheme of {self.agent}, "
                f"not {self.unroll_length}",
            )
        algorithm(self)

    @property
    def num_heads(self) -> int:
        """One, or the main head and the auxiliary ones."""
        return 1 if agent(self.agent).auxiliary == "none" else len(self.discounts)

    @property
    def num_auxiliary(self) -> int:
        """Heads that never act."""
        return self.num_heads - 1

    @property
    def lookahead(self) -> int:
        """Transitions that wait until their n steps are there: n - 1 fixed, none mixed."""
        return self.n - 1 if agent(self.agent).row.scheme == "fixed" else 0

    @property
    def steps_per_update(self) -> int:
        """Environment steps that one update consumes."""
        return self.unroll_length * self.num_streams


LARGEST = {"n": 10_000, "unroll_length": 100_000, "num_streams": 1_000_000}
"""Beyond these a number is a slip of the hand: no machine holds what it asks for."""


def _check_numbers(config: AgentConfig) -> None:
    for field, words in {"reward": ("clip", "raw"), "reduction": ("mean", "sum")}.items():
        if getattr(config, field) not in words:
            raise UserError(field, f"must be {' or '.join(words)}, not {getattr(config, field)}")
    for field, most in LARGEST.items():
        if not 1 <= getattr(config, field) <= most:
            problem = f"must be at least 1 and at most {most:,}, not {getattr(config, field)}"
            raise UserError(field, problem)
    for field in ("policy_cost", "value_cost", "entropy_cost", "constant"):
        if not 0 <= getattr(config, field) < math.inf:
            raise UserError(field, f"must not be negative or infinite: {getattr(config, field)}")
    # In single precision: what rounds to 1 there does not discount.
    if not config.discounts or not all(0 <= np.float32(d) < 1 for d in config.discounts):
        raise UserError("discounts", f"must each lie in [0, 1), not {config.discounts}")


def algorithm(config: AgentConfig) -> algorithms.Algorithm:
    """The row of the table this agent is built on, with its settings."""
    settings = {field: getattr(config, field) for field in algorithms.Settings._fields}
    return algorithms.build(agent(config.agent).row, config.n, **settings)


class Transitions(NamedTuple):
    """Transitions `[T, B]` without their observations."""

    action: Int[Array, "T B"]
    reward: Float[Array, "T B"]
    """Raw."""
    discount: Float[Array, "T B"]
    """The environment's: 0 at termination, else 1."""
    weight: Float[Array, "T B"]
    """0 on an autoreset pseudo-step, else 1."""
    behaviour_logits: Float[Array, "T B A"]
    """Of the policy that chose the action."""


class Outputs(NamedTuple):
    """What the network says of T+1 observations."""

    logits: Float[Array, "S B H A"]
    value: Float[Array, "S B H"]


class HeadView(NamedTuple):
    """Transitions as each head sees them, `[T, B, H]`."""

    rho_tm1: Float[Array, "T B H"]
    nu_tm1: Float[Array, "T B H"]
    discount_t: Float[Array, "T B H"]


def view(config: AgentConfig, outputs: Outputs, transitions: Transitions) -> HeadView:
    """ρ, ν and γₕ of every head; ρ is 0 on a pseudo-step."""
    logits = outputs.logits[:-1]
    shape = logits.shape[:-1]
    behaviour = jnp.broadcast_to(transitions.behaviour_logits[:, :, None], logits.shape)
    action = jnp.broadcast_to(transitions.action[..., None], shape)
    rho, nu = ratios.from_logits(logits, behaviour, action, config.clip_rho)
    nu = ratios.required(nu)
    gammas = jnp.asarray(config.discounts[: config.num_heads]).reshape(1, 1, -1)
    discount = jnp.broadcast_to(transitions.discount[..., None], shape) * gammas
    return HeadView(rho * transitions.weight[..., None], nu, discount)


def learning_reward(config: AgentConfig, reward: Float[Array, "T B"]) -> Float[Array, "T B"]:
    """The reward as it is learned from."""
    return jnp.clip(reward, -1.0, 1.0) if config.reward == "clip" else reward


class Loss(NamedTuple):
    """The loss and what went into it, of the T states learned."""

    total: Float[Array, ""]
    metrics: dict[str, Array]
    per_step: Float[Array, "T B H"]
    """What was reduced; 0 where nothing is learned."""


def loss(
    config: AgentConfig,
    outputs: Outputs,
    heads: HeadView,
    transitions: Transitions,
    emphasis: Float[Array, "T B U"],
) -> Loss:
    """The agent's loss on the first T transitions, T being the length of `emphasis`.

    `outputs` are of all transitions (and one observation more), because targets reach
    past the states that are learned.
    """
    chosen, steps = agent(config.agent), len(emphasis)
    v_tm1, v_t = outputs.value[:-1], outputs.value[1:]
    reward = jnp.broadcast_to(learning_reward(config, transitions.reward)[..., None], v_tm1.shape)
    target = algorithm(config).target(v_tm1, v_t, reward, heads.discount_t, heads.rho_tm1)

    logits, value = outputs.logits[:steps], v_tm1[:steps]
    action = jnp.broadcast_to(transitions.action[:steps, :, None], value.shape)
    policy_loss = losses.policy_gradient(
        losses.log_probability(logits, action), target.advantage_tm1[:steps]
    )
    value_loss = losses.value(target.value_tm1[:steps], value)
    entropy = losses.entropy(logits)
    main = jnp.ones((*value.shape[:-1], 1), value.dtype)
    emphasis = jnp.concatenate([main, emphasis], axis=-1)
    per_step = losses.actor_critic(
        policy_loss,
        value_loss,
        entropy,
        emphasis,
        ace=chosen.ace,
        policy_cost=config.policy_cost,
        value_cost=config.value_cost,
        entropy_cost=config.entropy_cost,
    )
    learned = _learned_heads(chosen, config.num_heads)
    weight = transitions.weight[:steps, :, None] * learned
    per_step = weight * per_step
    total = per_step.mean(-1)
    total = total.mean() if config.reduction == "mean" else total.sum()
    rho = heads.rho_tm1[:steps]
    # The main head's weight, always 1, is at no bound.
    bound = jnp.asarray([[[math.inf, *emphasis_bound(config)]]])
    metrics = {
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        "emphasis": emphasis,
        "emphasis_at_bound": emphasis >= 0.999 * bound,
        "clipped_rho": jnp.minimum(1.0, rho),
        "kl": _kl(transitions.behaviour_logits[:steps, :, None], logits),
        "value_bias": target.value_tm1[:steps] - value,
        "value": value,
    }
    metrics = _reduced(jax.lax.stop_gradient(metrics), transitions.weight[:steps])
    return Loss(total, metrics, jax.lax.stop_gradient(per_step))


def emphasis_bound(config: AgentConfig) -> tuple[float, ...]:
    """The largest emphasis each auxiliary head can have; ∞ where nothing bounds it.

    With ratios clipped at c the follow-on trace of n steps stays below 1/(1 - (cγ)ⁿ), WETD's
    (n = 1) below `bound_recursion` too; η draws it towards 1, and `bound` cuts what is used.
    """
    row = agent(config.agent).row
    gammas = config.discounts[1 : config.num_heads]
    span = config.n if row.trace == "netd" else 1

    def of(gamma: float) -> float:
        followon = math.inf
        if row.ratio == "clipped":
            decay = config.clip_trace * (gamma if config.beta is None else config.beta)
            followon = 1.0 / (1.0 - decay**span) if decay < 1 else math.inf
        followon = min(followon, config.bound_recursion or math.inf)
        used = 1.0 + config.eta * (followon - 1.0) if config.eta else 1.0
        return min(used, config.bound or math.inf)

    return tuple(of(gamma) for gamma in gammas)


def _learned_heads(chosen: Agent, num_heads: int) -> Float[Array, "1 1 H"]:
    """1 for the heads whose loss counts."""
    auxiliary = 0.0 if chosen.auxiliary == "unlearned" else 1.0
    return jnp.asarray([1.0] + [auxiliary] * (num_heads - 1)).reshape(1, 1, -1)


def _kl(
    behaviour_logits: Float[Array, "T B 1 A"], logits: Float[Array, "T B H A"]
) -> Float[Array, "T B H"]:
    """KL(μ || πₕ)."""
    log_mu, log_pi = jax.nn.log_softmax(behaviour_logits), jax.nn.log_softmax(logits)
    return (jnp.exp(log_mu) * (log_mu - log_pi)).sum(-1)


def _reduced(metrics: PyTree, weight: Float[Array, "T B"]) -> dict[str, Array]:
    """Means per head over the real steps, and their share; of the emphasis also the maximum."""
    share, weight = weight.mean(), weight[..., None]
    count = jnp.maximum(weight.sum(), 1.0)
    means = {name: (weight * x).sum((0, 1)) / count for name, x in metrics.items()}
    return {**means, "emphasis_max": (weight * metrics["emphasis"]).max((0, 1)), "learned": share}
