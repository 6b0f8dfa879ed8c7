"""What is wrong with an update: the first number that cannot be right, and where it stands.

An update whose numbers are not all finite, or whose emphasis is above the bound its settings
guarantee, is left out (`learner.update`). What is left to say is which number it was:
inside `jit` a code of four integers, on the host a `Fault` that reads as a sentence.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from emphatic.agent.surreal import AgentConfig, Outputs, Transitions, emphasis_bound

KINDS = (
    "observation",
    "reward",
    "discount",
    "behaviour logits",
    "logits",
    "value",
    "emphasis",
    "loss",
    "gradient",
)
"""In the order in which one causes the next: the first that is found is named."""

_NONE = np.iinfo(np.int32).min


class Fault(NamedTuple):
    """As the host has it."""

    kind: str
    step: int
    """Of the unroll, from 0; what is below 0 has waited since the unroll before."""
    stream: int
    head: int | None
    """None for what all heads share."""

    def __str__(self) -> str:
        where = f"step {self.step}, stream {self.stream}"
        where += "" if self.head is None else f", head {self.head}"
        if self.kind == "gradient":
            return f"the gradient is not finite; the largest loss is that of {where}"
        what = "above its bound or not finite" if self.kind == "emphasis" else "not finite"
        return f"the {self.kind} of {where} is {what}"


def decode(code: Array | np.ndarray) -> Fault | None:
    """What `first` found; None if nothing."""
    kind, step, stream, head = (int(x) for x in code)
    if kind == 0:
        return None
    return Fault(KINDS[kind - 1], step, stream, None if head == _NONE else head)


class Suspicion(NamedTuple):
    """Where one kind of number cannot be right."""

    kind: str
    bad: Bool[Array, "T B *H"]
    start: int
    """Step of the unroll that its first row is."""


def in_arrivals(observation: Shaped[Array, "S B ..."], transitions: Transitions) -> list[Suspicion]:
    """What a runtime handed over."""
    bad = {}
    if jnp.issubdtype(observation.dtype, jnp.floating):
        flat = observation.reshape(*observation.shape[:2], -1)
        bad["observation"] = ~jnp.isfinite(flat).all(-1)
    bad |= {
        "reward": ~jnp.isfinite(transitions.reward),
        "discount": ~jnp.isfinite(transitions.discount + transitions.weight),
        "behaviour logits": ~jnp.isfinite(transitions.behaviour_logits).all(-1),
    }
    return [Suspicion(kind, where, 0) for kind, where in bad.items()]


def in_outputs(
    config: AgentConfig,
    outputs: Outputs,
    arrived: Float[Array, "T B U"],
    per_step: Float[Array, "T B H"],
) -> list[Suspicion]:
    """What network, trace and loss made of it; `arrived` are emphases of the new transitions."""
    # A thousandth for rounding: without clipping the bound itself is reached.
    bound = jnp.asarray([[emphasis_bound(config)]])
    high = ~(arrived <= 1.001 * bound) | ~jnp.isfinite(arrived)
    main = jnp.zeros((*high.shape[:-1], 1), bool)
    oldest = -config.lookahead
    return [
        Suspicion("logits", ~jnp.isfinite(outputs.logits).all(-1), oldest),
        Suspicion("value", ~jnp.isfinite(outputs.value), oldest),
        Suspicion("emphasis", jnp.concatenate([main, high], -1), 0),
        Suspicion("loss", ~jnp.isfinite(per_step), oldest),
    ]


def in_gradient(
    config: AgentConfig, finite: Bool[Array, ""], per_step: Float[Array, "T B H"]
) -> Suspicion:
    """A gradient, or a step, that is not finite: blamed on the largest loss."""
    size = jnp.abs(per_step)
    return Suspicion("gradient", ~finite & (size == size.max()), -config.lookahead)


def none(suspicions: list[Suspicion]) -> Bool[Array, ""]:
    """Whether nothing is wrong."""
    return ~jnp.stack([suspicion.bad.any() for suspicion in suspicions]).any()


def first(suspicions: list[Suspicion]) -> Int[Array, "4"]:
    """Kind (from 1; 0 if nothing is wrong), step, stream and head of the first."""
    code = jnp.zeros(4, jnp.int32)
    for suspicion in reversed(suspicions):
        code = jnp.where(suspicion.bad.any(), _code(suspicion), code)
    return code


def _code(suspicion: Suspicion) -> Int[Array, "4"]:
    kind, bad, start = suspicion
    step, stream, *head = jnp.unravel_index(jnp.argmax(bad), bad.shape)
    numbers = [KINDS.index(kind) + 1, step + start, stream, *(head or [_NONE])]
    return jnp.stack([jnp.asarray(x, jnp.int32) for x in numbers])
