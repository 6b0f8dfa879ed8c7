"""Networks by name: a torso of convolutions, dense layers, and heads of one policy and one value.

    network = networks.build(NetworkConfig(name="minatar"), num_actions=3, num_heads=3)
    params = network.init(key, (10, 10, 4))
    logits, value = network.apply(params, observation)    # [*batch, heads, A], [*batch, heads]
    logits = network.act(params, observation)             # [*batch, A], the main head's

Head 0 is the main head. The neural-network library appears in this module only.

The convolutions run in micro-batches on CPU, where a batch's activations overflow the
cache; dense layers and heads see the whole batch, as their large matrices want many rows.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import NamedTuple, Protocol, cast

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Key, PyTree, Shaped

from emphatic.agent import convolutions, weights
from emphatic.agent.microbatches import microbatched
from emphatic.agent.weights import Weights
from emphatic.errors import UserError


class Conv(NamedTuple):
    """A convolution without padding; ReLUs between layers and after the last."""

    channels: int
    kernel: int
    stride: int


class Section(NamedTuple):
    """IMPALA's section: conv 3x3, max pool 3x3/2, blocks of [relu conv relu conv + skip]."""

    channels: int
    blocks: int = 2


class Architecture(NamedTuple):
    """One network, without its inputs and outputs."""

    torso: tuple[Conv | Section, ...]
    dense: tuple[int, ...]
    """Layers between torso and heads, each followed by a ReLU."""
    head_hidden: int
    """Hidden size of each of a head's two MLPs."""
    weights: Weights
    """How weights start: Haiku's default or orthogonal (√2 before a ReLU). Biases start at 0."""
    policy_gain: float
    """Factor on the policy's last weights at the start."""
    microbatch: int
    """Images the convolutions take at a time on CPU; 0 takes all at once."""
    recompute: bool = False
    """Whether the backward pass recomputes the convolutions' activations, for lack of memory."""


IMPALA_SECTIONS = (Section(16), Section(32), Section(32))
PAPER_SECTIONS = (Section(64), Section(128), Section(128), Section(64))
SMALL_CONVS = (Conv(16, 8, 4), Conv(32, 4, 2))
NATURE_CONVS = (Conv(32, 8, 4), Conv(64, 4, 2), Conv(64, 3, 1))

ARCHITECTURES = {
    # Jiang et al. 2021, appendix "Hyperparameters"; the blocks and the start (that of Haiku, in
    # which the agent was written) are not in the paper: Espeholt et al. 2018, Figure 3.
    "paper": Architecture(PAPER_SECTIONS, (), 512, "haiku", 1.0, microbatch=2, recompute=True),
    # Espeholt et al. 2018, Figure 3 (large), without LSTM; the heads are this paper's.
    "impala": Architecture(IMPALA_SECTIONS, (256,), 512, "haiku", 1.0, microbatch=8),
    # Mnih et al. 2015; the heads are this paper's.
    "nature": Architecture(NATURE_CONVS, (512,), 512, "haiku", 1.0, microbatch=16),
    # Mnih et al. 2016, that of A3C without LSTM: for a few cores.
    "small": Architecture(SMALL_CONVS, (256,), 256, "orthogonal", 0.01, microbatch=32),
    # Young and Tian 2019, with heads; the start is what Andrychowicz et al. 2021 recommend.
    "minatar": Architecture((Conv(16, 3, 1),), (128,), 64, "orthogonal", 0.01, microbatch=0),
    # Ours, for vectors and for Catch.
    "mlp": Architecture((), (64, 64), 64, "orthogonal", 0.01, microbatch=0),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Which network, and what of it differs from its row in `ARCHITECTURES` (None: nothing)."""

    name: str = "paper"
    """paper, impala, nature, small, minatar or mlp."""
    head_hidden: int | None = None
    """Hidden size of each of a head's two MLPs. Paper: 512."""
    weights: str | None = None
    """How weights start: haiku or orthogonal. Paper: not given."""
    policy_gain: float | None = None
    """Factor on the policy's last weights at the start. Paper: not given."""
    copy_main: bool = False
    """Whether auxiliary heads start as copies of the main head. Paper: not given."""
    microbatch: int | None = None
    """Images the convolutions take at a time; 0 takes all at once, None does so off the CPU."""
    recompute: bool | None = None
    """Whether the backward pass recomputes the convolutions' activations, for lack of memory."""

    def __post_init__(self):
        if self.name not in ARCHITECTURES:
            known = ", ".join(ARCHITECTURES)
            raise UserError("network.name", f"must be one of {known}, not {self.name!r}")
        if self.weights not in (None, "haiku", "orthogonal"):
            problem = f"must be 'haiku' or 'orthogonal', not {self.weights!r}"
            raise UserError("network.weights", problem)
        if self.head_hidden is not None and not 1 <= self.head_hidden <= 100_000:
            problem = f"must be at least 1 and at most 100,000, not {self.head_hidden}"
            raise UserError("network.head_hidden", problem)
        if self.microbatch is not None and self.microbatch < 0:
            raise UserError("network.microbatch", f"must not be negative: {self.microbatch}")

    @property
    def architecture(self) -> Architecture:
        """The row of the table with this config's changes."""
        fields = ("head_hidden", "weights", "policy_gain", "microbatch", "recompute")
        changes = {field: getattr(self, field) for field in fields}
        changes = {field: value for field, value in changes.items() if value is not None}
        return ARCHITECTURES[self.name]._replace(**changes)


class HeadOutputs(NamedTuple):
    """What the heads say of each observation."""

    logits: Float[Array, "*batch heads A"]
    value: Float[Array, "*batch heads"]


class Init(Protocol):
    """`init(key, observation_shape) -> params`."""

    def __call__(self, key: Key[Array, ""], observation_shape: tuple[int, ...]) -> PyTree: ...


class Network(NamedTuple):
    """A network as pure functions, for any number of leading axes of the observation.

    Bytes are divided by 255; bools and numbers are taken as they are.
    """

    init: Init
    apply: Callable[[PyTree, Shaped[Array, "..."]], HeadOutputs]
    """All heads."""
    act: Callable[[PyTree, Shaped[Array, "..."]], Float[Array, "*batch A"]]
    """The main head's logits alone."""


def build(
    config: NetworkConfig, num_actions: int, num_heads: int, *, backend: str | None = None
) -> Network:
    """The network of that config, in the form `backend` is fast at (default: JAX's default)."""
    for field, number in (("num_actions", num_actions), ("num_heads", num_heads)):
        if number < 1:
            raise UserError(field, f"must be at least 1, not {number}")
    design, backend = config.architecture, backend or jax.default_backend()
    torso, top = _Torso(design, backend), _Top(design, backend, num_actions, num_heads)
    main = _Top(design, backend, num_actions, 1)
    convolve = _in_parts(torso.apply, config, backend)

    def init(key: Key[Array, ""], observation_shape: tuple[int, ...]) -> PyTree:
        _check_shape(config, observation_shape)
        torso_key, top_key = jax.random.split(key)
        observation = jnp.zeros((1, *observation_shape))
        features, torso_params = torso.init_with_output(torso_key, observation)
        params = {"torso": torso_params, "top": top.init(top_key, features)}
        if config.copy_main:
            return _on_heads(lambda x: jnp.repeat(x[:1], num_heads, axis=0), params)
        return params

    def outputs(top: nn.Module, params: PyTree, observation: Shaped[Array, "..."]) -> HeadOutputs:
        rank = 3 if design.torso else _rank_of_vector(params, observation.shape)
        batch, shape = observation.shape[:-rank], observation.shape[-rank:]
        features = convolve(params["torso"], observation.reshape(-1, *shape))
        flat = cast(HeadOutputs, top.apply(params["top"], features))
        return HeadOutputs(*(x.reshape(*batch, *x.shape[1:]) for x in flat))

    def act(params: PyTree, observation: Shaped[Array, "..."]) -> Float[Array, "*batch A"]:
        return outputs(main, _on_heads(lambda x: x[:1], params), observation).logits[..., 0, :]

    return Network(init, functools.partial(outputs, top), act)


class _Torso(nn.Module):
    """The convolutions, flattened; where there are none, the observation is."""

    design: Architecture
    backend: str

    @nn.compact
    def __call__(self, x: Shaped[Array, "N ..."]) -> Float[Array, "N features"]:
        for i, layer in enumerate(self.design.torso):
            if isinstance(layer, Section):
                x = self.section(x, layer)
            else:
                x = nn.relu(x) if i else x
                x = self.conv(x, layer.channels, layer.kernel, layer.stride, "VALID")
        x = nn.relu(x) if self.design.torso else _numbers(x)
        return x.reshape(len(x), -1)

    def section(self, x, layer: Section):
        x = convolutions.max_pool(self.conv(x, layer.channels), backend=self.backend)
        for _ in range(layer.blocks):
            inner = self.conv(nn.relu(x), layer.channels)
            x += self.conv(nn.relu(inner), layer.channels)
        return x

    def conv(
        self,
        x,
        channels: int,
        kernel: int = 3,
        stride: int = 1,
        padding: convolutions.Padding = "SAME",
    ):
        return _Conv(channels, kernel, stride, padding, self.design.weights, self.backend)(x)


class _Conv(nn.Module):
    """A convolution with a bias."""

    channels: int
    kernel: int
    stride: int
    padding: convolutions.Padding
    weights: Weights
    backend: str

    @nn.compact
    def __call__(self, x: Shaped[Array, "N H W C"]) -> Float[Array, "N h w D"]:
        shape = (self.kernel, self.kernel, x.shape[-1], self.channels)
        kernel = self.param("kernel", weights.start(self.weights), shape)
        bias = self.param("bias", nn.initializers.zeros, (self.channels,))
        # x/255 under the kernel is x under kernel/255, and leaves bytes bytes.
        kernel = kernel / 255.0 if x.dtype == jnp.uint8 else kernel
        y = convolutions.conv(
            x, kernel, stride=self.stride, padding=self.padding, backend=self.backend
        )
        return y + bias.reshape(1, 1, 1, -1)


class _Top(nn.Module):
    """Dense layers and the heads."""

    design: Architecture
    backend: str
    num_actions: int
    num_heads: int

    @nn.compact
    def __call__(self, x: Float[Array, "N features"]) -> HeadOutputs:
        for i, size in enumerate(self.design.dense):
            start = weights.each(weights.start(self.design.weights))
            kernel = self.param(f"dense_{i}", start, (size, x.shape[-1]))
            bias = self.param(f"dense_{i}_bias", nn.initializers.zeros, (size,))
            x = _dense(x, kernel, bias)
        return _Heads(self.design, self.backend, self.num_actions, self.num_heads, name="heads")(x)


class _Heads(nn.Module):
    """Per head one policy and one value MLP; every parameter is `[heads, ...]`.

    The hidden layers of all MLPs of all heads are one product, N x in x (heads 2 hidden).
    """

    design: Architecture
    backend: str
    num_actions: int
    num_heads: int

    @nn.compact
    def __call__(self, x: Float[Array, "N in"]) -> HeadOutputs:
        heads, hidden = self.num_heads, self.design.head_hidden
        start, zeros = weights.start(self.design.weights), nn.initializers.zeros
        policy_start = weights.start(self.design.weights, self.design.policy_gain)
        value_start = weights.start(self.design.weights, 1.0)
        kernel = self.param("hidden", weights.each(start), (heads, 2, hidden, x.shape[-1]))
        bias = self.param("hidden_bias", zeros, (heads, 2, hidden))
        policy = self.param("policy", weights.each(policy_start), (heads, self.num_actions, hidden))
        policy_bias = self.param("policy_bias", zeros, (heads, self.num_actions))
        value = self.param("value", weights.each(value_start), (heads, 1, hidden))
        value_bias = self.param("value_bias", zeros, (heads,))

        y = _dense(x, kernel.reshape(-1, x.shape[-1]), bias.reshape(-1))
        last = _last_layers_at_once if self.backend == "cpu" else _last_layers
        logits, values = last(y, policy, value)
        return HeadOutputs(logits + policy_bias[None], values + value_bias[None])


def _last_layers(
    y: Float[Array, "N hidden"],
    policy: Float[Array, "heads A size"],
    value: Float[Array, "heads 1 size"],
) -> tuple[Float[Array, "N heads A"], Float[Array, "N heads"]]:
    """Each head's logits and value of its own two hidden layers, y being `[heads 2 size]`."""
    heads, _, size = policy.shape
    y = y.reshape(len(y), heads, 2, size)
    logits = jnp.einsum("nhi,hai->nha", y[:, :, 0], policy)
    return logits, (y[:, :, 1] * value.reshape(1, heads, size)).sum(-1)


def _last_layers_at_once(
    y: Float[Array, "N hidden"],
    policy: Float[Array, "heads A size"],
    value: Float[Array, "heads 1 size"],
) -> tuple[Float[Array, "N heads A"], Float[Array, "N heads"]]:
    """The same as one product with a matrix that is zero off its blocks.

    On CPU the copies that a batched product makes of y cost more than the zeros; and a
    product keeps XLA from repeating the loss's gradient for every hidden unit it reaches.
    """
    heads, actions, _ = policy.shape
    policy = jnp.stack([policy, jnp.zeros_like(policy)], 2)
    value = jnp.stack([jnp.zeros_like(value), value], 2)
    own = jnp.concatenate([policy, value], 1)[:, :, None]
    blocks = jnp.eye(heads).reshape(heads, 1, heads, 1, 1) * own
    outputs = _times(y, blocks.reshape(-1, y.shape[-1])).reshape(len(y), heads, actions + 1)
    return outputs[:, :, :-1], outputs[:, :, -1]


def _in_parts(convolve, config: NetworkConfig, backend: str):
    """The torso over micro-batches of images, where the config or the backend wants it."""
    design = config.architecture
    whole = design.microbatch == 0 or (config.microbatch is None and backend != "cpu")
    if design.torso and not whole:
        return microbatched(convolve, design.microbatch, recompute=design.recompute)
    return jax.checkpoint(convolve) if config.recompute else convolve


def _dense(
    x: Float[Array, "N in"], kernel: Float[Array, "out in"], bias: Float[Array, "out"]
) -> Float[Array, "N out"]:
    """max(0, x Wᵀ + b); few rows as (W xᵀ + b)ᵀ, as products on CPU repack their second factor."""
    if 4 * len(x) <= len(kernel):
        return nn.relu(_times(kernel, x) + bias.reshape(-1, 1)).T
    return nn.relu(_times(x, kernel) + bias.reshape(1, -1))


def _times(x: Float[Array, "N in"], kernel: Float[Array, "out in"]) -> Float[Array, "N out"]:
    """x Wᵀ. With the output axis first the gradient is gᵀx, on CPU twice as fast as xᵀg."""
    return jax.lax.dot_general(x, kernel, (((1,), (1,)), ((), ())))


def _numbers(observation: Shaped[Array, "..."]) -> Float[Array, "..."]:
    """Bytes as numbers in [0, 1]; bools and numbers as they are."""
    numbers = observation.astype(jnp.float32)
    return numbers / 255.0 if observation.dtype == jnp.uint8 else numbers


def _on_heads(function, params: PyTree) -> PyTree:
    """The parameters with `function` applied to those of the heads, `[heads, ...]` each."""
    top = dict(params["top"]["params"])
    top["heads"] = jax.tree.map(function, top["heads"])
    return {**params, "top": {"params": top}}


def _rank_of_vector(params: PyTree, shape: tuple[int, ...]) -> int:
    """How many trailing axes make one observation of a network without convolutions."""
    size = params["top"]["params"]["dense_0"].shape[-1]
    for rank in range(1, len(shape) + 1):
        if math.prod(shape[-rank:]) == size:
            return rank
    raise UserError("observation", f"{shape} does not end in an observation of {size} numbers")


def _check_shape(config: NetworkConfig, shape: tuple[int, ...]) -> None:
    """Images for convolutions, and no smaller than the kernels need."""
    torso = config.architecture.torso
    if not torso:
        return
    if len(shape) != 3:
        problem = f"{config.name} needs images [height, width, channels], not {shape}"
        raise UserError("observation_shape", problem)
    height, width = shape[:2]
    for layer in torso:
        if isinstance(layer, Conv):
            height, width = ((x - layer.kernel) // layer.stride + 1 for x in (height, width))
    if min(height, width) < 1:
        raise UserError("observation_shape", f"{shape} is too small for {config.name}")
