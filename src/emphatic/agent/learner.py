"""The learner any runtime drives: `init`, `act`, `update`, all pure.

    state = learner.init(key)
    action, logits = learner.act(state.params, observation, key)
    state, metrics = learner.update(state, trajectory)

A trajectory has T transitions and T+1 observations of each of B streams. In the fixed
scheme every state has an n-step target, so learning trails the data by n-1 steps: the
learner keeps the last n-1 transitions of every stream, and with the T that arrive it
learns the T oldest. A transition's ratio enters the trace once, on arrival, with the
parameters of that moment; its emphasis waits beside it until it is learned.

An update in which a number is not finite is left out: parameters and optimiser stay. Its
transitions are dropped and the traces start anew, as at the start of a run, because what is
not finite would stay in them and spoil the updates that follow.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree, Shaped

from emphatic.agent import faults, networks, optimiser, surreal
from emphatic.agent.agents import agent
from emphatic.agent.surreal import AgentConfig, Outputs, Transitions


class Trajectory(NamedTuple):
    """What a runtime hands to the learner."""

    observation: Shaped[Array, "S B ..."]
    """Of T+1 states: the source of each transition and where the last one led."""
    transitions: Transitions


class Waiting(NamedTuple):
    """Transitions that arrived and are not learned yet, oldest first."""

    observation: Shaped[Array, "W B ..."]
    """Their source states."""
    transitions: Transitions
    emphasis: Float[Array, "W B U"]


class LearnerState(NamedTuple):
    """All that crosses updates."""

    params: PyTree
    optimiser: PyTree
    updates: Int[Array, ""]
    trace: PyTree
    """Per stream and auxiliary head."""
    waiting: Waiting


class Learner(NamedTuple):
    """Pure functions; jit and donate as the runtime sees fit."""

    config: AgentConfig
    init: Callable[[Key[Array, ""]], LearnerState]
    policy: Callable[[PyTree, Shaped[Array, "B ..."]], Float[Array, "B A"]]
    """`policy(params, observation) -> logits`, the main head's."""
    act: Callable[[PyTree, Shaped[Array, "B ..."], Key[Array, ""]], tuple[Array, Array]]
    """`act(params, observation, key) -> (action [B], logits [B, A])`, the main head's."""
    update: Callable[[LearnerState, Trajectory], tuple[LearnerState, dict[str, Array]]]


def build(
    config: AgentConfig,
    *,
    num_actions: int,
    observation_shape: tuple[int, ...],
    observation_dtype,
    num_updates: int,
) -> Learner:
    """The learner of `config`; the learning rate reaches its end after `num_updates`."""
    network = networks.build(config.network, num_actions, config.num_heads)
    trace = surreal.algorithm(config).trace
    optimise = optimiser.build(config.optimiser, num_updates)
    streams, auxiliary = config.num_streams, config.num_auxiliary

    def nothing_came():
        """Trace and waiting transitions before any experience."""
        waiting = _nothing_waits(config, num_actions, observation_shape, observation_dtype)
        return trace.init((streams, auxiliary)), waiting

    def init(key):
        params = network.init(key, observation_shape)
        updates = jnp.zeros((), jnp.int32)
        return LearnerState(params, optimise.init(params), updates, *nothing_came())

    def act(params, observation, key):
        logits = network.act(params, observation)
        return jax.random.categorical(key, logits), logits

    def forward(params, observation):
        """Outputs of all states; only those of the first T carry a gradient."""
        steps = config.unroll_length
        learned = network.apply(params, observation[:steps])
        beyond = network.apply(jax.lax.stop_gradient(params), observation[steps:])
        return Outputs(*(jnp.concatenate(pair) for pair in zip(learned, beyond, strict=True)))

    def emphasise(trace_state, heads):
        """Emphases of the transitions that just arrived."""
        arrived = [x[-config.unroll_length :, :, 1:] for x in heads]
        rho, nu, discount = jax.lax.stop_gradient(arrived)
        trace_state, emphasis = trace.update(trace_state, rho, discount, nu)
        if agent(config.agent).auxiliary == "constant":
            emphasis = jnp.full_like(emphasis, config.constant)
        return trace_state, emphasis

    def update(state, trajectory):
        batch = _join(state.waiting, trajectory)

        def loss(params):
            outputs = forward(params, batch.observation)
            heads = surreal.view(config, outputs, batch.transitions)
            trace_state, arrived = emphasise(state.trace, heads)
            emphasis = jnp.concatenate([state.waiting.emphasis, arrived])
            learned = emphasis[: config.unroll_length]
            total, metrics, per_step = surreal.loss(
                config, outputs, heads, batch.transitions, learned
            )
            made = (outputs, arrived, per_step)
            return total, (trace_state, emphasis, metrics, made)

        (total, aux), gradient = jax.value_and_grad(loss, has_aux=True)(state.params)
        trace_state, emphasis, metrics, made = aux
        doubts = faults.in_arrivals(*trajectory) + faults.in_outputs(config, *made)
        params, optimiser_state, step = optimise.step(
            state.params, state.optimiser, gradient, faults.none(doubts)
        )
        metrics |= {
            "loss": total,
            "gradient_norm": step.gradient_norm,
            "clipped_update": step.clipped,
            "skipped_update": ~step.finite,
            "fault": faults.first([*doubts, faults.in_gradient(config, step.finite, made[-1])]),
        }
        known = trace_state, _last(config.lookahead, batch, emphasis)
        known = jax.tree.map(lambda *x: jnp.where(step.finite, *x), known, nothing_came())
        return LearnerState(params, optimiser_state, state.updates + 1, *known), metrics

    return Learner(config, init, network.act, act, update)


def _nothing_waits(config, num_actions, observation_shape, observation_dtype) -> Waiting:
    """The wait at the start of a run: pseudo-steps, which weigh nothing."""
    shape = (config.lookahead, config.num_streams)
    zeros = jnp.zeros(shape)
    return Waiting(
        jnp.zeros((*shape, *observation_shape), observation_dtype),
        Transitions(
            action=jnp.zeros(shape, jnp.int32),
            reward=zeros,
            discount=zeros,
            weight=zeros,
            behaviour_logits=jnp.zeros((*shape, num_actions)),
        ),
        jnp.ones((*shape, config.num_auxiliary)),
    )


def _join(waiting: Waiting, trajectory: Trajectory) -> Trajectory:
    """The waiting transitions and the new ones, as one trajectory."""
    return jax.tree.map(
        lambda *pair: jnp.concatenate(pair),
        Trajectory(waiting.observation, waiting.transitions),
        trajectory,
    )


def _last(count: int, batch: Trajectory, emphasis: Float[Array, "W B U"]) -> Waiting:
    """The newest `count` transitions, which wait for the next update."""
    steps = len(emphasis)
    observation, transitions = jax.tree.map(lambda x: x[steps - count : steps], batch)
    return Waiting(observation, transitions, emphasis[steps - count :])
