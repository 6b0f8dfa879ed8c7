"""Lines of metrics and episodes: what counts in a mean, and whose episode it was."""

import functools
import json

import jax.numpy as jnp
import numpy as np
import pytest

from emphatic.envs.base import TimeStep
from emphatic.errors import UserError
from emphatic.runtime import anakin, reports, runs, sebulba
from emphatic.runtime.reports import Report

UPDATES = {
    "learned": jnp.array([0.0, 0.25, 1.0]),
    "value": jnp.array([[0.0, 0.0], [4.0, 8.0], [1.0, 2.0]]),
    "emphasis_max": jnp.array([[0.0, 0.0], [1.0, 5.0], [1.0, 3.0]]),
    "loss": jnp.array([0.0, 3.0, 6.0]),
    "clipped_update": jnp.array([False, True, True]),
}
"""Of three updates; the first learned pseudo-steps alone, the second one step in four."""
MEANS = {
    "learned": 1.25 / 3,
    "value": [1.6, 3.2],
    "emphasis_max": [1.0, 5.0],
    "loss": 3.0,
    "clipped_update": 2 / 3,
}


def of_anakin(metrics):
    """As of a loop over updates, compiled."""
    updates = len(metrics["loss"])
    nothing = jnp.zeros((updates, 2, 1))
    steps = TimeStep(**dict.fromkeys(TimeStep._fields, nothing))
    return anakin._report(
        {**metrics, "fault": jnp.zeros((updates, 4), int)}, steps, updates
    ).metrics


def of_sebulba(metrics):
    """As of a loop over updates."""
    each = [{name: x[i] for name, x in metrics.items()} for i in range(len(metrics["loss"]))]
    sums = functools.reduce(sebulba._summed, each[1:], sebulba._weighed(each[0]))
    return reports.means({name: np.asarray(x) for name, x in sums.items()}, len(each))


@pytest.mark.parametrize("told", [of_anakin, of_sebulba])
def test_what_is_per_head_is_a_mean_over_real_steps(told):
    """Updates that learned nothing do not draw a mean towards 0."""
    found = told(UPDATES)
    assert found.keys() == MEANS.keys()
    for name, wanted in MEANS.items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("told", [of_anakin, of_sebulba])
def test_where_nothing_was_learned_nothing_is_said(told):
    metrics = {
        name: np.asarray(x) for name, x in told({n: x[:1] for n, x in UPDATES.items()}).items()
    }
    ended = np.zeros((1, 2, 1), bool)
    line = reports.summary(1, Report(metrics, np.zeros((1, 4), int), ended, ended, ended), 2)
    stored = json.loads(runs.encode(line))
    assert stored["value"] == [None, None]
    assert (stored["loss"], stored["learned"]) == (0.0, 0.0)


def test_an_episode_has_its_stream():
    """Two updates of two steps on three streams; in the order of time, then of streams."""
    ended = np.zeros((2, 2, 3), bool)
    ended[0, 1, 2] = ended[1, 0, 1] = ended[1, 0, 2] = True
    returns = np.arange(12.0).reshape(ended.shape)
    report = Report({}, np.zeros((2, 4), int), ended, returns, returns.astype(int) + 1)
    assert reports.episodes(4, report, 6) == {
        "update": 4,
        "steps": [18, 21, 21],
        "returns": [5.0, 7.0, 8.0],
        "lengths": [6, 8, 9],
        "streams": [2, 1, 2],
    }


def metrics_of(folder, *lines):
    folder.mkdir()
    (folder / "metrics.jsonl").write_bytes(b"".join(runs.encode(line) for line in lines))
    return folder


def test_mean_emphasis_is_of_the_auxiliary_heads_of_all_runs(tmp_path):
    nan = float("nan")
    one = metrics_of(tmp_path / "a", {"emphasis": [nan, nan, nan]}, {"emphasis": [1.0, 2.0, 3.0]})
    other = metrics_of(tmp_path / "b", {"emphasis": [1.0, 4.0, 5.0]})
    assert reports.mean_emphasis([one]) == 2.5
    assert reports.mean_emphasis([one, other]) == 3.5


@pytest.mark.parametrize(
    "line", [{"emphasis": [1.0]}, {"loss": 1.0}, {"emphasis": 3}, {"emphasis": [1.0, "x"]}]
)
def test_a_run_without_auxiliary_heads_has_no_mean_emphasis(tmp_path, line):
    with pytest.raises(UserError) as error:
        reports.mean_emphasis([metrics_of(tmp_path / "a", line)])
    assert error.value.field == "constant"
