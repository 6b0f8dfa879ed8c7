"""Behaviour: frequencies, cuts, and independence of how runs are grouped."""

import jax
import numpy as np
import pytest

from emphatic.diagnostics import problems, streams


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def numpy(stream):
    return streams.Stream(*(np.asarray(x) for x in stream))


def test_frequencies_are_those_of_the_mdp():
    m = problems.baird()
    s = numpy(streams.sample(0, range(20), problems.problem("baird"), 5000))
    solid = s.rho_tm1 == 7
    assert abs(solid.mean() - 1 / 7) < 0.005
    np.testing.assert_array_equal(s.state_t[solid], 6)
    counts = np.bincount(s.state_t[~solid], minlength=7) / (~solid).sum()
    np.testing.assert_allclose(counts, m.transition[0, 0], atol=0.01)


@pytest.mark.parametrize("name", ["collision-trap", "collision-termination"])
def test_a_cut_ends_the_chain_and_a_truncation_still_bootstraps(name):
    s = numpy(streams.sample(0, range(3), problems.problem(name), 1000))
    ends = np.arange(len(s.chain_t)) % 100 == 99
    np.testing.assert_array_equal(s.chain_t[ends], 0)
    np.testing.assert_array_equal(s.chain_t[~ends], 0.9)
    np.testing.assert_array_equal(s.discount_t[ends], 0 if "termination" in name else 0.9)
    assert (s.state_tm1[1:][ends[:-1]] < 4).all()
    np.testing.assert_array_equal(s.state_tm1[1:][~ends[:-1]], s.state_t[:-1][~ends[:-1]])


def test_termination_restarts_by_itself():
    s = numpy(streams.sample(0, range(3), problems.problem("collision-restart"), 2000))
    ends = s.discount_t == 0
    np.testing.assert_array_equal(ends, s.reward_t == 1)
    np.testing.assert_array_equal(s.state_tm1[ends], 7)
    assert (s.state_t[ends] < 4).all()


def test_a_run_is_the_same_whatever_runs_with_it():
    p = problems.problem("collision")
    whole = numpy(streams.sample(5, range(4), p, 1500))
    part = numpy(streams.sample(5, range(2, 4), p, 500))
    for a, b in zip(whole, part, strict=True):
        np.testing.assert_array_equal(a[:500, 2:], b[:500])
    other = numpy(streams.sample(6, range(4), p, 500))
    assert (other.state_tm1[:500] != whole.state_tm1[:500]).any()
