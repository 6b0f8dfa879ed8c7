"""Networks by name: shapes, heads, starts, and the cost model of docs/cost-model.md."""

import functools
import math
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emphatic.agent import networks
from emphatic.agent.networks import Conv, NetworkConfig, Section
from emphatic.errors import UserError

INPUTS = {
    "paper": (210, 160, 12),
    "impala": (84, 84, 4),
    "nature": (84, 84, 4),
    "small": (84, 84, 4),
    "minatar": (10, 10, 4),
    "mlp": (10, 5, 2),
}
SMALL = {"impala": (20, 16, 4), "nature": (40, 44, 4)}
ACTIONS, HEADS = 6, 3
DOC = pathlib.Path(__file__).parents[2] / "docs" / "cost-model.md"


def build(name, **changes):
    backend = changes.pop("backend", None)
    return networks.build(NetworkConfig(name=name, **changes), ACTIONS, HEADS, backend=backend)


def observations(name, *batch):
    shape = (*batch, *SMALL.get(name, INPUTS[name]))
    numbers = np.random.default_rng(3).integers(0, 256, shape)
    return jnp.asarray(numbers.astype(np.uint8) if name in SMALL else numbers > 200)


def heads(params):
    return params["top"]["params"]["heads"]


@functools.cache
def started(name, **changes):
    """A network and its parameters."""
    network = build(name, **changes)
    shape = SMALL.get(name, INPUTS[name])
    return network, jax.jit(lambda key: network.init(key, shape))(jax.random.key(0))


@pytest.mark.parametrize(
    "name", [pytest.param("impala", marks=pytest.mark.slow), "nature", "minatar"]
)
def test_forms_agree_in_value_and_gradient(name):
    """The CPU form in micro-batches, also with recomputation, and the stock form at once.

    The stock form is given numbers, bytes having been divided by 255.
    """
    observation = observations(name, 2, 3)
    numbers = observation.astype(jnp.float32) / (255.0 if observation.dtype == jnp.uint8 else 1.0)
    _, params = started(name)

    def results(network, observation):
        def loss(params):
            outputs = network.apply(params, observation)
            return jnp.sin(outputs.logits).sum() + jnp.cos(outputs.value).sum(), outputs

        return jax.jit(jax.value_and_grad(loss, has_aux=True))(params)

    expected = results(build(name, backend="gpu"), numbers)
    assert expected[0][1].logits.shape == (2, 3, HEADS, ACTIONS)
    assert expected[0][1].value.shape == (2, 3, HEADS)
    for recompute in (False, True):
        ours = results(build(name, microbatch=4, recompute=recompute), observation)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4), ours, expected
        )


@pytest.mark.parametrize("name", ["minatar", "mlp"])
def test_acting_is_the_main_head_for_any_leading_axes(name):
    network, params = started(name, policy_gain=1.0)
    observation = observations(name, 2, 3)
    expected = jax.jit(network.apply)(params, observation).logits[:, :, 0]
    act = jax.jit(network.act)
    for at in (np.s_[0], np.s_[0, 0]):
        logits = act(params, observation[at])
        assert logits.shape == expected[at].shape
        np.testing.assert_allclose(logits, expected[at], rtol=1e-5, atol=1e-6)


def test_a_row_alone_gives_what_it_gives_among_many():
    """Few rows are multiplied the other way round; here with biases that are not zero."""
    network, params = started("minatar")
    keys = jax.random.split(jax.random.key(1), len(jax.tree.leaves(params)))
    keys = jax.tree.unflatten(jax.tree.structure(params), list(keys))
    params = jax.tree.map(lambda x, key: x + 0.1 * jax.random.normal(key, x.shape), params, keys)
    observation = observations("minatar", 100)
    apply = jax.jit(network.apply)
    many, few = apply(params, observation), apply(params, observation[:3])
    assert many.value.std() > 0.1
    for a, b in zip(many, few, strict=True):
        np.testing.assert_allclose(a[:3], b, rtol=1e-4, atol=1e-5)


def test_heads_start_apart_or_as_copies():
    apart = heads(started("minatar")[1])
    copies = heads(started("minatar", copy_main=True)[1])
    for name in ("hidden", "policy", "value"):
        assert not np.allclose(apart[name][0], apart[name][1])
        np.testing.assert_array_equal(copies[name], np.stack([copies[name][0]] * HEADS))
        np.testing.assert_allclose(copies[name][0], apart[name][0], rtol=1e-6)


def test_a_head_does_not_hear_of_the_others():
    """Its outputs depend on the torso and on its own parameters alone."""
    network, params = started("mlp", policy_gain=1.0)
    observation = observations("mlp", 4)

    @jax.jit
    @jax.grad
    def gradient(params, head):
        outputs = network.apply(params, observation)
        return outputs.logits[:, head].std() + outputs.value[:, head].sum()

    for head in range(HEADS):
        for leaf in jax.tree.leaves(heads(gradient(params, head))):
            touched = [bool(np.any(leaf[h])) for h in range(HEADS)]
            assert touched == [h == head for h in range(HEADS)]


def test_starts():
    """Orthogonal rows times the gain; Haiku's deviation 1/sqrt(fan in), cut at two."""
    _, minatar = started("minatar")
    policy = np.asarray(heads(minatar)["policy"][1])
    np.testing.assert_allclose(policy @ policy.T, 0.01**2 * np.eye(ACTIONS), atol=1e-9)
    hidden = np.asarray(heads(minatar)["hidden"][2, 1])
    np.testing.assert_allclose(hidden @ hidden.T, 2.0 * np.eye(64), atol=1e-5)

    _, nature = started("nature")
    dense = np.asarray(nature["top"]["params"]["dense_0"])
    deviation = dense.shape[1] ** -0.5
    assert np.abs(dense).max() <= 2 * deviation
    np.testing.assert_allclose(dense.std(), 0.8796 * deviation, rtol=0.02)
    for leaf in jax.tree.leaves(nature["torso"]):
        assert leaf.ndim > 1 or not np.any(leaf), "biases start at zero"


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("network.name", lambda: NetworkConfig(name="resnet")),
        ("network.weights", lambda: NetworkConfig(weights="zeros")),
        ("network.head_hidden", lambda: NetworkConfig(head_hidden=0)),
        ("network.microbatch", lambda: NetworkConfig(microbatch=-1)),
        ("num_heads", lambda: networks.build(NetworkConfig(), ACTIONS, 0)),
        ("observation_shape", lambda: build("nature").init(jax.random.key(0), (84, 84))),
        ("observation_shape", lambda: build("nature").init(jax.random.key(0), (20, 84, 4))),
        ("observation", lambda: _mlp_on_something_else()),
    ],
)
def test_mistakes_are_named(field, make):
    with pytest.raises(UserError) as error:
        make()
    assert error.value.field == field


def _mlp_on_something_else():
    network, params = started("mlp", policy_gain=1.0)
    return network.apply(params, jnp.zeros((3, 7)))


def cost(name):
    """Parameters, and FLOPs of one forward: two for each weight at each place it is used.

    The third number leaves out the products with a convolution's padding, as XLA does.
    """
    design = networks.ARCHITECTURES[name]
    height, width, channels = INPUTS[name]
    parameters = flops = inside = 0

    def layer(inputs, outputs, places=1, taps_inside=None):
        nonlocal parameters, flops, inside
        parameters += inputs * outputs + outputs
        flops += 2 * inputs * outputs * places
        inside += 2 * outputs * (inputs * places if taps_inside is None else taps_inside)

    def padded(inputs, outputs):
        """3x3, padded: the outer rows and columns lose a third."""
        taps = (3 * height - 2) * (3 * width - 2)
        layer(9 * inputs, outputs, height * width, inputs * taps)

    for part in design.torso:
        if isinstance(part, Conv):
            height = (height - part.kernel) // part.stride + 1
            width = (width - part.kernel) // part.stride + 1
            layer(part.kernel**2 * channels, part.channels, height * width)
        if isinstance(part, Section):
            padded(channels, part.channels)
            height, width = math.ceil(height / 2), math.ceil(width / 2)
            for _ in range(2 * part.blocks):
                padded(part.channels, part.channels)
        channels = part.channels
    size = height * width * channels
    for outputs in design.dense:
        layer(size, outputs)
        size = outputs
    for outputs in (ACTIONS, 1) * HEADS:
        layer(size, design.head_hidden)
        layer(design.head_hidden, outputs)
    return parameters, flops, inside


def test_every_network_is_costed():
    assert set(INPUTS) == set(networks.ARCHITECTURES)


@pytest.mark.parametrize("name", INPUTS)
def test_cost_model(name):
    """By formula, of the code, and as documented; for FLOPs the code is asked through XLA."""
    network = build(name, backend="gpu", recompute=False)
    params = jax.eval_shape(lambda key: network.init(key, INPUTS[name]), jax.random.key(0))
    parameters, flops, inside = cost(name)
    assert sum(x.size for x in jax.tree.leaves(params)) == parameters

    observation = jax.ShapeDtypeStruct((1, *INPUTS[name]), jnp.float32)
    counted = jax.jit(network.apply).lower(params, observation).cost_analysis()["flops"]
    # XLA also counts biases, ReLUs and pools.
    assert inside < counted < 1.03 * inside

    row = re.search(rf"^\| `{name}` \|(.*)\|$", DOC.read_text(), re.MULTILINE)
    assert row is not None
    cells = [cell.strip() for cell in row[1].split("|")]
    assert cells[1:] == [f"{parameters:,}", f"{4 * parameters / 1e6:.2f}", f"{flops / 1e6:,.3f}"]


def test_the_paper_s_network_has_29_million_parameters_and_takes_8_gigaflop():
    parameters, flops, _ = cost("paper")
    assert round(parameters / 1e6) == 29
    assert round(flops / 1e9) == 8
