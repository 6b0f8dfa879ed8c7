"""The battery of laws over every trace of the library, and what it says of its own."""

import inspect
import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from emphatic import algorithms, laws, traces

TRACES = {
    f"{r.name}, n = {n}": (r, algorithms.build(r, n).trace, n)
    for n in (1, 3, 10)
    for r in algorithms.ROWS
    if (r.trace != "none" or r.name == "td") and (n == 3 or r.ratio == "rho")
}
"""Every way of making an emphasis; the ratio that feeds a trace is varied at one n only."""

STABILISED = {
    "bounded": (traces.bounded(traces.nstep(3), 2.0), 1),
    "follow-on, bound inside": (traces.followon(bound=2.0), 1),
    "windows with every stabiliser": (traces.windowed(3, eta=0.5, beta=0.7, bound=4.0), 3),
    "etd": (traces.etd(0.5, beta=0.9), 1),
    "exact, wide clips": (traces.exact_nstep(3, clip_rho=2.0, clip_c=1.5, lambda_=0.9), 1),
}


@pytest.mark.parametrize("name", TRACES)
def test_every_row_of_the_table_obeys_every_law(name):
    row, trace, n = TRACES[name]
    period = n if "wetd" in row.trace else 1
    laws.check(trace, period=period, uses_own_ratio=row.trace == "wetd-literal")


@pytest.mark.parametrize("name", STABILISED)
def test_stabilised_traces_obey_every_law(name):
    trace, period = STABILISED[name]
    laws.check(trace, period=period, steps=16, batch=2)


def test_the_literal_reading_needs_its_exemption():
    with pytest.raises(laws.LawError, match=r"causality.*step"):
        laws.causality(laws.Case(traces.wevtrace_literal(3), period=3))


def test_the_exemption_covers_the_own_ratio_only():
    """Not a later ratio, nor the discount that follows."""

    def peeks(state, rho_tm1, discount_t, nu_tm1=None):
        return state, 1.0 + discount_t

    with pytest.raises(laws.LawError, match="causality"):
        laws.causality(laws.Case(traces.Trace(traces.uniform().init, peeks), uses_own_ratio=True))


def test_a_failure_names_the_law_and_the_place():
    def negative_at_step_two(state, rho_tm1, discount_t, nu_tm1=None):
        return state, jnp.ones_like(rho_tm1).at[2, 1].set(-1.0)

    broken = traces.Trace(traces.uniform().init, negative_at_step_two)
    with pytest.raises(laws.LawError) as caught:
        laws.check(broken)
    assert str(caught.value) == (
        "one_number_per_step: the emphasis must be finite and not negative; "
        "it is -1.0 at step 2, batch index 1"
    )


def test_random_streams_hold_what_traces_trip_over():
    stream = laws.random_stream(400, seed=1)
    assert stream.rho_tm1.dtype == stream.discount_t.dtype == stream.nu_tm1.dtype == np.float32
    ends = stream.discount_t == 0
    assert (ends & (stream.rho_tm1 > 0)).sum() > 20, "terminations"
    assert (ends & (stream.rho_tm1 == 0)).sum() > 20, "autoreset steps"
    assert (~ends & (stream.rho_tm1 == 0)).sum() > 20, "ratios of 0"
    assert stream.rho_tm1.max() > 2.0
    assert stream.nu_tm1.min() > 0.0
    np.testing.assert_array_equal(stream.rho_tm1, laws.random_stream(400, seed=1).rho_tm1)


def test_every_law_and_trace_is_documented():
    folder = Path(__file__).parent.parent / "docs" / "traces"
    pages = "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md")))
    makers = [name for name, thing in vars(traces).items() if makes_a_trace(thing)]
    assert {"nstep", "eligibility"} <= set(makers)
    for name in [*(law.__name__ for law in laws.LAWS), *makers]:
        assert re.search(rf"`{name}\b", pages), name


def makes_a_trace(thing):
    """A public function that makes a trace, of emphases or of gradients."""
    public = inspect.isfunction(thing) and not thing.__name__.startswith("_")
    made = inspect.signature(thing).return_annotation if public else None
    return made in (traces.Trace, traces.Eligibility)
