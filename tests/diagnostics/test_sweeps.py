"""Sweeps: units, resuming, selection, and what summaries and figures make of them."""

import dataclasses
import json

import numpy as np
import pytest

from emphatic import UserError
from emphatic.commands.plain import plain
from emphatic.diagnostics import figures, learners, problems, summaries, sweeps


def small(**changes):
    settings = {"runs": 4, "steps": 300, "ns": (1,), "alphas": (2.0**-9, 2.0**-4, 2.0**3)}
    settings |= {"algorithms": ("td", "clip-netd", "netd"), "seeds": (0, 1), "bins": 20}
    return sweeps.Sweep(
        name="two-state", problem=problems.problem("two-state"), **{**settings, **changes}
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished sweep, its folder and summary."""
    folder, sweep = tmp_path_factory.mktemp("sweep"), small()
    sweeps.run([sweep], folder)
    return sweep, folder, summaries.summarise(sweep, folder)


def test_an_interrupted_sweep_goes_on(done, tmp_path, monkeypatch):
    """Stopped in the second unit, it keeps the first, and ends with the same numbers."""
    sweep, folder, _ = done
    monkeypatch.setattr(sweeps, "WORKERS", 1)
    heard = []

    def stop(chunks):
        heard.append(chunks)
        if len(heard) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweeps.run([sweep], tmp_path, stop)
    assert len(list(tmp_path.rglob("*.npz"))) == 1
    assert sweeps.work([sweep], tmp_path) == (8, 4)
    again = []
    sweeps.run([sweep], tmp_path, again.append)
    assert sum(again) == 4
    for unit in sweep.units:
        a, b = (sweeps.read_arrays(unit.path(f)) for f in (folder, tmp_path))
        for key in a:
            np.testing.assert_array_equal(a[key], b[key])
    assert not list(tmp_path.rglob("*.part"))


def test_bins_hold_every_step_once(done):
    """Width times mean, summed, is the sum over steps; bin 0 is the error before learning."""
    sweep, folder, _ = done
    assert sweep.widths.sum() == sweep.steps + 1
    fine = small(bins=5, seeds=(0,))
    a = sweeps.read_arrays(sweep.units[0].path(folder))["curve"].astype(float)
    b = sweeps.compute(fine.units[0])["curve"].astype(float)
    for x in (a, b):
        np.testing.assert_allclose(x[:, 0], np.sqrt(2.5), rtol=1e-6)
    total = [np.einsum("rgal,g->ral", x, s.widths) for x, s in ((a, sweep), (b, fine))]
    np.testing.assert_allclose(*total, rtol=1e-5)


def test_lanes_of_all_kinds_keep_their_places(done):
    """TD beside backward and gradient learners is TD as it was without them."""
    sweep, folder, _ = done
    mixed = small(algorithms=("tdrc", "etd", "td"), seeds=(0,))
    place = mixed.plan.index(learners.Lane("td", 1))
    found = sweeps.compute(mixed.units[0])["curve"][..., place]
    alone = sweeps.read_arrays(sweep.units[0].path(folder))["curve"][..., 0]
    np.testing.assert_allclose(found, alone, rtol=1e-6)


def test_what_diverges_is_counted_and_never_wins(done):
    _, _, s = done
    td, clip = s.lane("td"), s.lane("clip-netd")
    assert (s.diverged[:, 2, td] == 4).all()
    assert np.isinf(s.mean[-1, :, 2, td]).all()
    assert (s.best[:, :, td] != 2).all()
    assert np.isfinite(s.curve).all()
    assert s.alphas[s.best[0, 0, clip]] == 2.0**-4
    assert s.alphas[s.best[0, 0, td]] == 2.0**-9


def test_selection_prefers_finite_and_has_a_way_out():
    inf = np.inf
    score = np.array([[3.0, inf, inf], [2.0, inf, inf], [inf, inf, inf]])
    other = np.array([[1.0, inf, inf], [5.0, 4.0, inf], [inf, inf, inf]])
    np.testing.assert_array_equal(summaries.select(score, other), [1, 1, 0])


def test_a_summary_survives_its_files(done, tmp_path):
    _, _, s = done
    summaries.save(s, tmp_path)
    again = summaries.load(tmp_path)
    assert again.lanes == s.lanes
    np.testing.assert_array_equal(again.best, s.best)
    for key in ("total", "late", "curve"):
        a, b = getattr(again, key), getattr(s, key)
        np.testing.assert_allclose(a, b, rtol=2.5e-4)
        np.testing.assert_array_equal(np.isinf(a), np.isinf(b))
    with pytest.raises(UserError, match="holds no summary"):
        summaries.load(tmp_path / "elsewhere")


def test_figures_are_drawn_from_the_summary_to_the_same_bytes(done, tmp_path):
    """All that the lanes allow, in both formats, without a date in them."""
    _, _, s = done
    names = {"2state_3_algs", "two-state-learning-curves", "two-state-step-sizes"}
    for folder in ("a", "b"):
        drawn = figures.of_the_paper(s) | figures.of_any_problem(s)
        assert set(drawn) == names
        figures.write(drawn, tmp_path / folder)
    for name in names:
        for ending in (".svg", ".png"):
            a, b = ((tmp_path / x / f"{name}{ending}").read_bytes() for x in "ab")
            assert a == b, name


def test_every_algorithm_has_a_style_of_its_own():
    assert set(figures.STYLES) == set(learners.LABELS)
    assert len(set(figures.STYLES.values())) == len(figures.STYLES)


def test_the_table_has_a_line_for_each_lane(done):
    sweep, _, s = done
    rows = json.loads(json.dumps(summaries.rows(s), allow_nan=False))
    assert [row["algorithm"] for row in rows] == [lane.name for lane in sweep.plan]
    assert all(row["runs"] == 8 for row in rows)
    for r, rule in enumerate(summaries.RULES):
        for i, row in enumerate(rows):
            found = row[f"by_{rule}"]
            assert found["alphas"] == [s.alphas[best] for best in s.best[r, :, i]]
            assert found["median"] == np.median(s.total[r, :, :, i])
            assert found["mean"] == s.total[r, :, :, i].mean()


def test_the_table_is_json_though_a_mean_is_infinite(done):
    """JSON knows no infinity; it is a text, as in `emphatic theory --json`."""
    _, _, s = done
    total = s.total.copy()
    total[:, 0, 0] = np.inf
    rows = plain(summaries.rows(dataclasses.replace(s, total=total)))
    read = json.loads(json.dumps(rows), parse_constant=pytest.fail)
    assert all(row["by_mean"]["mean"] == "inf" for row in read)
    assert all(row["by_mean"]["diverged"] == 1 for row in read)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("algorithms", ("tdd",)),
        ("algorithms", ()),
        ("ns", (0,)),
        ("alphas", (-1.0,)),
        ("alphas", (float("nan"),)),
        ("runs", 0),
        ("steps", 0),
        ("seeds", (-1,)),
    ],
)
def test_mistakes_are_named(field, value):
    with pytest.raises(UserError) as error:
        small(**{field: value})
    assert error.value.field in (field, "n")
