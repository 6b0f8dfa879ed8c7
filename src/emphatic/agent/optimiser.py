"""RMSProp with a linear schedule and a bound on the gradient's norm."""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PyTree

from emphatic.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimiserConfig:
    """How a gradient becomes a step."""

    learning_rate: float = 2e-4
    """At the start. Paper, hyperparameters: 2e-4 fixed, 6e-4 mixed."""
    end_learning_rate: float = 0.0
    """After the last update, reached linearly. Paper: 0."""
    decay: float = 0.99
    """Of the mean square. Paper: 0.99."""
    epsilon: float = 0.1
    """Keeps the root away from 0. Paper: 0.1."""
    epsilon_inside_root: bool = True
    """g/√(ν+ε), or g/(√ν+ε). Not in the paper; inside is optax's default, outside makes
    3.2 times larger steps at ε = 0.1."""
    momentum: float = 0.0
    """Paper and IMPALA: none."""
    max_gradient_norm: float = 1.0
    """Global norm above which the gradient is scaled down. Paper: 1 fixed, 0.3 mixed."""

    def __post_init__(self):
        for field in ("learning_rate", "epsilon"):
            if not 0 < getattr(self, field) < math.inf:
                raise UserError(field, f"must be positive and finite, not {getattr(self, field)}")
        if not self.max_gradient_norm > 0:
            raise UserError("max_gradient_norm", f"must be positive, not {self.max_gradient_norm}")
        for field in ("decay", "momentum"):
            if not 0 <= getattr(self, field) < 1:
                raise UserError(field, f"must lie in [0, 1), not {getattr(self, field)}")
        if not 0 <= self.end_learning_rate < math.inf:
            problem = f"must not be negative or infinite: {self.end_learning_rate}"
            raise UserError("end_learning_rate", problem)


class StepInfo(NamedTuple):
    """What a step did."""

    gradient_norm: Float[Array, ""]
    """Before clipping."""
    clipped: Bool[Array, ""]
    finite: Bool[Array, ""]
    """False where gradient or parameters would not be finite; the step was then left out."""


class Optimiser(NamedTuple):
    """`state = init(params)`; `params, state, info = step(params, state, gradient, sound)`.

    Where `sound` is False nothing is changed.
    """

    init: Any
    step: Any


def build(config: OptimiserConfig, num_updates: int) -> Optimiser:
    """RMSProp whose learning rate falls linearly over `num_updates`.

    A gradient that holds NaN or infinity changes nothing, nor does one that would make a
    parameter so: parameters and optimiser state stay, so the run can be halted or go on from
    sound numbers.
    """
    schedule = optax.linear_schedule(
        config.learning_rate, config.end_learning_rate, max(1, num_updates)
    )
    transform = optax.rmsprop(
        schedule,
        decay=config.decay,
        eps=config.epsilon,
        eps_in_sqrt=config.epsilon_inside_root,
        momentum=config.momentum or None,
    )

    def step(params: PyTree, state: PyTree, gradient: PyTree, sound: Bool[Array, ""] | bool = True):
        norm = optax.tree.norm(gradient)
        # One factor, where optax's clip divides every number: then XLA writes no copy.
        scale = jnp.minimum(1.0, config.max_gradient_norm / norm)
        gradient = jax.tree.map(lambda g: scale * g, gradient)
        updates, stepped = transform.update(gradient, state, params)
        proposed = optax.apply_updates(params, updates)
        finite = jnp.isfinite(norm) & jnp.isfinite(optax.tree.norm(proposed)) & sound

        def keep(new, old):
            return jnp.where(finite, new, old)

        params = jax.tree.map(keep, proposed, params)
        state = jax.tree.map(keep, stepped, state)
        return params, state, StepInfo(norm, norm > config.max_gradient_norm, finite)

    return Optimiser(transform.init, step)
