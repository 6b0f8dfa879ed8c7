"""RMSProp, its schedule, the bound on the norm, and what happens to NaN."""

import algorithm3
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emphatic.agent import optimiser
from emphatic.agent.optimiser import OptimiserConfig
from emphatic.errors import UserError

PARAMS = {"a": jnp.array([1.0, -2.0, 0.5]), "b": jnp.array([[0.25, 3.0]])}


def gradients(count, seed=0):
    """Of growing size, so that the bound on the norm is met on the way."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        yield {
            name: jnp.asarray(0.1 * (k + 1) * rng.normal(size=p.shape), p.dtype)
            for name, p in PARAMS.items()
        }


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"epsilon_inside_root": False, "epsilon": 1e-3},
        {"momentum": 0.9, "end_learning_rate": 0.01},
        {"decay": 0.5, "max_gradient_norm": 0.3, "epsilon": 1e-8},
    ],
)
def test_steps_are_those_of_the_formula(settings):
    config = OptimiserConfig(**({"learning_rate": 0.1} | settings))
    built = optimiser.build(config, 6)
    slow = algorithm3.RMSProp(config, 6, [np.asarray(p, float) for p in PARAMS.values()])
    params, wanted = PARAMS, [np.asarray(p, float) for p in PARAMS.values()]
    state, clipped = built.init(params), []
    for gradient in gradients(8):
        params, state, info = built.step(params, state, gradient)
        wanted, norm = slow.step(wanted, [np.asarray(g, float) for g in gradient.values()])
        for got, want in zip(params.values(), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)
        np.testing.assert_allclose(info.gradient_norm, norm, rtol=1e-5)
        assert bool(info.clipped) == (norm > config.max_gradient_norm)
        clipped.append(bool(info.clipped))
    assert set(clipped) == {False, True}


def test_the_first_step_by_hand():
    """g = 3, 4 has norm 5, is scaled to 0.6, 0.8; the mean square is a hundredth of that."""
    config = OptimiserConfig(learning_rate=1.0, epsilon=0.1)
    built = optimiser.build(config, 10)
    params = jnp.zeros(2)
    params, _, info = built.step(params, built.init(params), jnp.array([3.0, 4.0]))
    g = np.array([0.6, 0.8])
    np.testing.assert_allclose(params, -g / np.sqrt(0.01 * g**2 + 0.1), rtol=1e-6)
    assert (float(info.gradient_norm), bool(info.clipped)) == (5.0, True)


@pytest.mark.parametrize("end", [0.0, 0.02])
def test_the_learning_rate_reaches_its_end(end):
    """A gradient of 1 with decay 0 makes steps of the learning rate itself."""
    config = OptimiserConfig(learning_rate=0.1, end_learning_rate=end, decay=0.0, epsilon=1e-12)
    built = optimiser.build(config, 5)
    params, sizes = jnp.zeros(1), []
    state = built.init(params)
    for _ in range(7):
        before = params
        params, state, _ = built.step(params, state, jnp.ones(1))
        sizes.append(float(before[0] - params[0]))
    wanted = [0.1 + min(k, 5) / 5 * (end - 0.1) for k in range(7)]
    np.testing.assert_allclose(sizes, wanted, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_gradient_that_is_not_finite_changes_nothing(bad):
    built = optimiser.build(OptimiserConfig(momentum=0.5), 10)
    state = built.init(PARAMS)
    params, state, _ = built.step(PARAMS, state, next(gradients(1)))
    poisoned = next(gradients(1)) | {"a": jnp.array([0.0, bad, 0.0])}
    after = built.step(params, state, poisoned)
    assert not after[2].finite
    for kept, old in zip(jax.tree.leaves(after[:2]), jax.tree.leaves((params, state)), strict=True):
        np.testing.assert_array_equal(kept, old)
    assert built.step(params, state, next(gradients(1)))[2].finite


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("learning_rate", 0.0),
        ("learning_rate", float("nan")),
        ("learning_rate", float("inf")),
        ("epsilon", 0.0),
        ("max_gradient_norm", -1.0),
        ("decay", 1.0),
        ("momentum", -0.1),
        ("end_learning_rate", -1.0),
        ("end_learning_rate", float("nan")),
    ],
)
def test_a_mistake_names_its_field(field, value):
    with pytest.raises(UserError) as error:
        OptimiserConfig(**{field: value})
    assert error.value.field == field
    assert "\n" not in str(error.value)
