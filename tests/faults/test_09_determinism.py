"""Promise 9: a seed decides everything; nothing else does."""

import random
from unittest import mock

import jax
import numpy as np
import pytest
from host_environments import Trouble, countdown
from small import config_of, results, trained
from test_sebulba import Session, assert_same

from emphatic.agent.agents import AGENTS

FIRST = ("netd-ace", "wetd-ace")
NAMES = [*FIRST, *(name for name in AGENTS if name not in FIRST)]
GLOBAL = [
    *(f"numpy.random.{name}" for name in ("rand", "randn", "randint", "random", "normal")),
    *(f"numpy.random.{name}" for name in ("choice", "shuffle", "permutation", "uniform", "seed")),
    *(f"random.{name}" for name in ("random", "randint", "randrange", "choice", "shuffle")),
]


@pytest.fixture
def poisoned():
    """Whoever draws from a state that all of a process share, or from none, fails."""
    seeded = np.random.default_rng

    def default_rng(seed=None):
        assert seed is not None, "a generator without a seed"
        return seeded(seed)

    patches = [mock.patch(name, side_effect=AssertionError(name)) for name in GLOBAL]
    with mock.patch("numpy.random.default_rng", default_rng):
        for patch in patches:
            patch.start()
        yield
        for patch in patches:
            patch.stop()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_files(tally, tmp_path, poisoned):
    """Compiled anew, cut into other calls of the loop, with everybody else's dice loaded."""
    for case in tally.cases(9, "agent"):
        name, found = NAMES[case], []
        for attempt in (0, 1):
            path = tmp_path / f"{name}{attempt}"
            trained(path, config_of(name, updates=8, checkpoint_every=8 // (attempt + 1)))
            found.append(results(path))
        assert found[0] == found[1], name
        assert found[0]["episodes.jsonl"]


@pytest.mark.slow
def test_seeds_and_streams_are_independent(tmp_path):
    zero, one = (tmp_path / str(seed) for seed in (0, 1))
    for seed, path in enumerate((zero, one)):
        trained(path, config_of(updates=8, seed=seed, streams=6))
    first, second = results(zero), results(one)
    for name in ("metrics.jsonl", "arrays.bin"):
        assert first[name] != second[name]
    a, b = (np.frombuffer(x["arrays.bin"], np.uint8) for x in (first, second))
    assert (a != b).mean() > 0.2


def shaken(case):
    """Environments that take their time, a different one each step."""
    trouble, rng = Trouble(), random.Random(case)
    trouble.delay = lambda: 0.02 * rng.random() * (rng.random() < 0.5)
    return trouble


@pytest.mark.slow
def test_timing_changes_nothing(tally):
    """Sebulba with one, two and four threads; a lag of 0, 1 and 2."""
    for case in tally.cases(9, "Sebulba"):
        threads, lag = (2, 1, 4)[case % 3], (1, 0, 2)[case // 3 % 3]
        found = []
        for trouble in (Trouble(), shaken(case)):
            with Session(countdown(trouble), threads=threads, lag=lag) as session:
                found.append(session.ran(2, 4))
        (calm, told), (shaky, told_again) = found
        assert_same(calm, shaky)
        for one, other in zip(told, told_again, strict=True):
            assert_same(one, other)
        assert jax.tree.leaves(calm)
