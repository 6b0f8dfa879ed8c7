"""What a run costs: operations, bytes, memory. docs/cost-model.md derives the formulas.

Operations are floating-point ones, a multiplication and an addition being two. Biases, ReLUs,
pools, the loss and the environment are not counted: a few percent. Per agent step

    act    one forward of the torso and the main head
    learn  one forward for the T learned states, one for each of the lookahead + 1 behind them,
           divided by T; and one backward: twice the forward, less the gradient of the first
           layer's input; with recomputation one more forward of the torso
"""

import math
from typing import NamedTuple

import numpy as np

from emphatic.agent.networks import Architecture, Conv
from emphatic.agent.surreal import AgentConfig
from emphatic.envs.base import Environment
from emphatic.envs.host import HostEnvironment


class NetworkCost(NamedTuple):
    """Of one observation through a network."""

    parameters: int
    torso: int
    """Operations of its convolutions, forward."""
    first: int
    """Operations of its first layer, forward."""
    act: int
    """Operations of torso, dense layers and the main head's policy."""
    forward: int
    """Operations of everything."""
    kept: int
    """Numbers that the backward pass needs: every layer's output."""


class _Layer(NamedTuple):
    inputs: int
    outputs: int
    places: int = 1
    """Where a convolution is applied."""

    @property
    def operations(self) -> int:
        return 2 * self.inputs * self.outputs * self.places

    @property
    def parameters(self) -> int:
        return (self.inputs + 1) * self.outputs

    @property
    def kept(self) -> int:
        return self.outputs * self.places


def network(design: Architecture, shape: tuple[int, ...], actions: int, heads: int) -> NetworkCost:
    """A network with so many heads on observations of that shape."""
    torso, size = _torso(design, shape)
    dense = [_Layer(a, b) for a, b in zip((size, *design.dense), design.dense, strict=False)]
    size = design.dense[-1] if design.dense else size
    hidden, policy = _Layer(size, design.head_hidden), _Layer(design.head_hidden, actions)
    value = _Layer(design.head_hidden, 1)
    common, head = [*torso, *dense], [hidden, policy, hidden, value]
    return NetworkCost(
        parameters=_sum(common, "parameters") + heads * _sum(head, "parameters"),
        torso=_sum(torso, "operations"),
        first=common[0].operations,
        act=_sum([*common, hidden, policy], "operations"),
        forward=_sum(common, "operations") + heads * _sum(head, "operations"),
        kept=_sum(common, "kept") + heads * _sum(head, "kept"),
    )


def _torso(design: Architecture, shape: tuple[int, ...]) -> tuple[list[_Layer], int]:
    """The convolutions, and how many numbers come out of them."""
    if not design.torso:
        return [], math.prod(shape)
    layers, (height, width, channels) = [], shape
    for part in design.torso:
        if isinstance(part, Conv):
            height, width = ((x - part.kernel) // part.stride + 1 for x in (height, width))
            layers.append(_Layer(part.kernel**2 * channels, part.channels, height * width))
        else:
            layers.append(_Layer(9 * channels, part.channels, height * width))
            height, width = math.ceil(height / 2), math.ceil(width / 2)
            inner = _Layer(9 * part.channels, part.channels, height * width)
            layers += [inner] * (2 * part.blocks)
        channels = part.channels
    return layers, height * width * channels


def _sum(layers: list[_Layer], what: str) -> int:
    return sum(getattr(layer, what) for layer in layers)


class Facts(NamedTuple):
    """What the cost of a run depends on in its environment."""

    shape: tuple[int, ...]
    """Of an observation."""
    itemsize: int
    """Bytes of one of its numbers."""
    actions: int
    frames: int
    """Emulated frames a step; 0 where the environment is a part of the compiled program."""
    wire: int
    """Bytes that go from the host to the device for each step: one frame."""


def facts(environment: Environment | HostEnvironment) -> Facts:
    """Of an environment."""
    shape, dtype = environment.observation_shape, np.dtype(environment.observation_dtype)
    if isinstance(environment, Environment):
        return Facts(shape, dtype.itemsize, environment.num_actions, 0, 0)
    frame = math.prod(environment.frame_shape) * dtype.itemsize
    frames = environment.settings.get("action_repeat", 1)
    return Facts(shape, dtype.itemsize, environment.num_actions, frames, frame)


class RunCost(NamedTuple):
    """Of a run, per agent step and per update."""

    network: NetworkCost
    act: float
    """Operations a step to choose the action."""
    learn: float
    """Operations a step to learn from it."""
    steps_per_update: int
    unroll_length: int
    frames: int
    """Emulated frames a step."""
    wire: int
    """Bytes from the host to the device a step."""
    memory: int
    """Bytes on the device, at least: XLA's temporaries come on top."""

    @property
    def step(self) -> float:
        """Operations a step."""
        return self.act + self.learn

    @property
    def gradient(self) -> int:
        """Bytes of a gradient."""
        return 4 * self.network.parameters

    def all_reduce(self, devices: int) -> float:
        """Bytes each of so many devices sends for an update, where they share a run: a ring's."""
        return 2 * (devices - 1) / devices * self.gradient


def run(config: AgentConfig, environment: Facts, *, recompute: bool | None = None) -> RunCost:
    """Of a run; `recompute` says whether the backward pass repeats the torso's forward pass.

    By default it does where the configuration says so; on CPU the architecture decides.
    """
    design = config.network.architecture
    cost = network(design, environment.shape, environment.actions, config.num_heads)
    if recompute is None:
        recompute = bool(config.network.recompute)
    beyond = (config.lookahead + 1) / config.unroll_length
    again = cost.torso if recompute else 0
    learn = (3 + beyond) * cost.forward - cost.first + again
    return RunCost(
        network=cost,
        act=cost.act,
        learn=learn,
        steps_per_update=config.steps_per_update,
        unroll_length=config.unroll_length,
        frames=environment.frames,
        wire=environment.wire,
        memory=_memory(config, environment, cost),
    )


def _memory(config: AgentConfig, environment: Facts, cost: NetworkCost) -> int:
    """Parameters, gradient and optimiser; two batches of observations; the activations kept.

    Two batches, because the next one arrives while one is learned.
    """
    copies = 3 + (config.optimiser.momentum > 0)
    states = (config.unroll_length + config.lookahead + 1) * config.num_streams
    observations = 2 * states * math.prod(environment.shape) * environment.itemsize
    return 4 * copies * cost.parameters + observations + 4 * cost.kept * config.steps_per_update
