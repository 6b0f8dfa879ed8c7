"""The table against the paper's, and what `build` accepts."""

import jax.numpy as jnp
import numpy as np
import pytest

from emphatic import algorithms
from emphatic.errors import UserError

TABLE_1 = {
    # label          ratio in the trace, trace, clips on the target, schemes
    "n-step TD": (None, "none", False, {"fixed", "mixed"}),
    "NETD": ("rho", "netd", False, {"fixed"}),
    "WETD": ("rho", "wetd", False, {"mixed"}),
    "Clip-NETD": ("clipped", "netd", False, {"fixed"}),
    "Clip-WETD": ("clipped", "wetd", False, {"mixed"}),
    "V-trace": (None, "none", True, {"fixed", "mixed"}),
    "NEVtrace": ("vtrace", "netd", True, {"fixed"}),
    "WEVtrace": ("vtrace", "wetd", True, {"mixed"}),
}
"""As the paper prints it."""


@pytest.mark.parametrize("label", TABLE_1)
def test_rows_are_the_papers_table_1(label):
    ratio, trace, clips, schemes = TABLE_1[label]
    rows = [r for r in algorithms.ROWS if r.label in (label, f"{label}, mixed")]
    assert {r.scheme for r in rows} == schemes
    for row in rows:
        assert row.source == "paper"
        assert row.trace == trace
        assert (row.target == "vtrace") == clips
        assert ratio is None or row.ratio == ratio


def test_names_and_labels_are_unique():
    assert len(set(algorithms.NAMES)) == len(algorithms.ROWS)
    assert len({r.label for r in algorithms.ROWS}) == len(algorithms.ROWS)


def test_row_by_name_and_build_by_row():
    row = algorithms.row("clip-netd")
    assert row.label == "Clip-NETD"
    assert algorithms.build(row, 2).row is row


def test_an_unknown_algorithm_is_refused_with_the_choices():
    with pytest.raises(UserError, match=r"algorithm: .*'ned'.*clip-netd") as caught:
        algorithms.build("ned", 2)
    assert caught.value.field == "algorithm"


@pytest.mark.parametrize(
    ("name", "chosen", "field"),
    [
        ("netd", {"beta": 0.5}, "beta"),
        ("td", {"bound": 2.0}, "bound"),
        ("netd", {"clip_rho": 2.0}, "clip_rho"),
        ("clip-netd", {"clip_c": 2.0}, "clip_c"),
        ("vtrace", {"clip_trace": 0.5}, "clip_trace"),
        ("netd", {"colour": 1.0}, "colour"),
        ("netd", {"bound": 0.5}, "bound"),
        ("wetd", {"eta": 2.0}, "eta"),
        ("wetd", {"beta": 1.5}, "beta"),
        ("exact-nevtrace", {"clip_c": 2.0}, "clip_c"),
        ("vtrace", {"clip_rho": -1.0}, "clip_rho"),
        ("vtrace", {"lambda_": 1.5}, "lambda_"),
        ("clipped-td", {"clip_c": -0.5}, "clip_c"),
        ("clip-wetd", {"clip_trace": 0.0}, "clip_trace"),
        ("td", {"clip_pg_rho": -1.0}, "clip_pg_rho"),
        ("netd", {"clip_pg_rho": float("nan")}, "clip_pg_rho"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(name, chosen, field):
    with pytest.raises(UserError) as caught:
        algorithms.build(name, 2, **chosen)
    assert caught.value.field == field


@pytest.mark.parametrize("name", algorithms.NAMES)
def test_n_is_checked_when_built(name):
    with pytest.raises(UserError) as caught:
        algorithms.build(name, 0)
    assert caught.value.field == "n"


def test_table_gives_settings_to_the_rows_that_use_them():
    table = algorithms.table(2, beta=0.5, clip_rho=2.0)
    assert tuple(table) == algorithms.NAMES
    assert table["wetd"].settings.beta == 0.5
    assert table["netd"].settings.beta is None
    assert table["vtrace"].settings.clip_rho == 2.0
    assert table["netd"].settings.clip_rho == 1.0


def test_table_refuses_a_setting_nobody_uses():
    with pytest.raises(UserError, match="colour"):
        algorithms.table(2, colour=1.0)


def test_the_docstrings_example():
    rho, discount, nu = jnp.array([[2.0], [2.0]]), jnp.full((2, 1), 0.5), jnp.ones((2, 1))
    clip_netd = algorithms.build("clip-netd", n=1)
    state = clip_netd.trace.init((1,))
    state, emphasis_tm1 = clip_netd.trace.update(state, rho, discount, nu)
    np.testing.assert_allclose(emphasis_tm1[:, 0], [1.0, 1.5])
    v = jnp.zeros((2, 1))
    target = clip_netd.target(v, v, jnp.ones((2, 1)), discount, rho)
    np.testing.assert_allclose(target.value_tm1[:, 0], [2.0, 2.0])
