"""The problems as the paper draws them: numbers a reader can check by hand."""

import numpy as np
import pytest

from emphatic import UserError, mdp
from emphatic.diagnostics import problems


@pytest.mark.parametrize("name", problems.named())
def test_every_named_mdp_is_a_valid_one(name):
    m = problems.named()[name]()
    assert m.name == name
    np.testing.assert_allclose(m.transition.sum(-1), 1)
    assert mdp.checked(m) is not None


@pytest.mark.parametrize("name", ["two-state", "baird"])
def test_values_are_zero_and_states_equally_frequent(name):
    p = problems.problem(name)
    np.testing.assert_array_equal(p.values, 0)
    np.testing.assert_allclose(p.weights, 1 / p.mdp.num_states)


def test_collision_values_are_powers_of_the_discount():
    """S₈ → S₉ pays 1; if the self-loop pays too, S₉ is worth 1/(1 - γ) = 10."""
    powers = 0.9 ** np.arange(7, -1, -1)
    np.testing.assert_allclose(problems.problem("collision").values, [*powers, 0])
    np.testing.assert_allclose(problems.problem("collision-restart").values, powers)
    np.testing.assert_allclose(problems.problem("collision-trap-r1").values, [*10 * powers, 10])


def test_collision_weights_are_the_share_of_time_in_a_hundred_steps():
    """Simulated, against the average over an episode's distributions."""
    p = problems.problem("collision")
    rng, counts = np.random.default_rng(0), np.zeros(9)
    for _ in range(2000):
        state = rng.integers(4)
        for _ in range(100):
            counts[state] += 1
            forward = state < 4 or state == 8 or rng.random() < 0.5
            state = min(state + 1, 8) if forward else rng.integers(4)
    np.testing.assert_allclose(p.weights, counts / counts.sum(), atol=0.006)


def test_collision_features_are_drawn_anew():
    p = problems.problem("collision")
    a, b = (p.features(np.random.default_rng(i)) for i in (1, 2))
    for features in (a, b):
        np.testing.assert_array_equal(features.sum(1), 3)
        assert len(np.unique(features, axis=0)) == 9
    assert (a != b).any()


def test_baird_starts_where_sutton_and_barto_do():
    m = problems.baird()
    np.testing.assert_array_equal(m.features @ m.initial_weights, [3] * 6 + [12])
    np.testing.assert_allclose(m.rho[:, 1], 7)


def test_an_unknown_problem_is_a_sentence():
    with pytest.raises(UserError, match="choose from two-state, baird"):
        problems.problem("three-state")
