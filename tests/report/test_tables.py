"""Tables and curves over games against the known answers of a made-up Atari-57 study."""

import csv
import io

import made_runs
import numpy as np
import pytest
import synthetic

from emphatic.report import analysis, measures, tables
from emphatic.report.collect import collect, write_summaries


@pytest.fixture(scope="module")
def atari57():
    """All 684 runs."""
    return synthetic.collection()


@pytest.fixture(scope="module")
def analysed(atari57):
    return analysis.analyse(atari57)


def table(analysed, name):
    return next(table for table in analysed.tables if table.name == name)


def column(found, name):
    place = found.columns.index(name)
    return [row[place] for row in found.rows]


@pytest.mark.parametrize("agent", synthetic.TABLE2)
def test_the_papers_table_comes_out(analysed, agent):
    found = table(analysed, "summary")
    median, mean, *percentiles, above = synthetic.TABLE2[agent]
    shown = dict(zip(column(found, "Statistic"), column(found, agent), strict=True))
    shown = {name.text: cell.text for name, cell in shown.items()}
    assert shown["Median"] == f"{median:.2f}"
    assert shown["Mean"] == f"{mean:.2f}"
    for q, value in zip((40, 30, 20, 10), percentiles, strict=True):
        assert shown[f"{q}th percentile"] == f"{value:.2f}"
    assert shown["Games above human"] == f"{above}/57"


def test_the_rows_are_the_papers_in_its_order_and_ours_below(analysed):
    names = [cell.text for cell in column(table(analysed, "summary"), "Statistic")]
    percentiles = [f"{q}th percentile" for q in (40, 30, 20, 10)]
    assert names[:7] == ["Median", "Mean", *percentiles, "Games above human"]
    assert names[7:] == ["Median of the games' means", "Interquartile mean", "Optimality gap"]


def test_the_best_are_those_the_paper_prints_bold(analysed):
    """NETD-ACE leads but at the 30th percentile, NETD's, and the 10th, NEVtrace's."""
    found = table(analysed, "summary")
    best = [[found.columns[i] for i, cell in enumerate(row) if cell.best] for row in found.rows[:7]]
    ace = ["netd-ace"]
    assert best == [ace, ace, ace, ["netd"], ace, ["nevtrace"], ["netd", "netd-ace"]]


def test_of_the_optimality_gap_the_smallest_is_best(analysed):
    gaps = table(analysed, "summary").rows[-1][1:]
    assert [cell.best for cell in gaps] == [
        cell.value == min(c.value for c in gaps) for cell in gaps
    ]


def test_intervals_hold_their_values_and_ignore_other_agents(atari57, analysed):
    found = table(analysed, "intervals")
    for _, _, value, low, high in found.rows:
        assert low.value <= value.value <= high.value
    alone = measures.restricted(analysed.measured, ["surreal"])
    expected = [row for row in found.rows if row[1].text == "surreal"]
    assert list(tables.intervals(alone).rows) == expected


def test_scores_by_game_are_the_made_up_ones(analysed):
    found = table(analysed, "scores")
    assert [cell.text for cell in column(found, "Game")][:2] == ["Alien", "Amidar"]
    surreal = [cell.value for cell in column(found, "surreal")]
    np.testing.assert_allclose(surreal, synthetic.by_game("surreal"), rtol=1e-9)


def test_returns_are_raw(analysed):
    """On Pong 100% are 14.6 points, and the seeds lie two percentage points apart."""
    rows = {row[0].text: row[1:] for row in table(analysed, "returns").rows}
    cell = rows["atari/pong"][analysed.measured.agents.index("surreal")]
    percent = synthetic.by_game("surreal")[synthetic.GAMES.index("atari/pong")]
    scale = (14.6 + 20.7) / 100
    assert cell.value == pytest.approx(-20.7 + scale * percent)
    assert cell.text == f"{cell.value:.2f} ± {2 * scale / 3**0.5:.2f} (3)"


def test_csv_has_the_numbers_in_full(analysed):
    found = table(analysed, "summary")
    rows = list(csv.reader(io.StringIO(tables.as_csv(found).decode())))
    assert rows[0] == list(found.columns)
    assert [float(x) for x in rows[2][1:]] == [cell.value for cell in found.rows[1][1:]]
    assert rows[7][0] == "Games above human"


def test_tables_of_summaries_are_those_of_the_folders(tmp_path):
    """To the byte."""
    for agent, level in (("netd-ace", 1.0), ("surreal", 0.5)):
        for seed in (0, 1):
            folder = tmp_path / "runs" / f"{agent}-{seed}"
            made_runs.make(folder, agent=agent, seed=seed, level=level + seed / 10)
    there = collect([tmp_path / "runs"])
    write_summaries(there, tmp_path / "summaries")
    again = collect([tmp_path / "summaries"])
    one, other = analysis.analyse(there), analysis.analyse(again)
    assert [tables.as_csv(t) for t in one.tables] == [tables.as_csv(t) for t in other.tables]
    assert len(one.tables) == 4
    files = [
        analysis.write(c, a, tmp_path / name).read_bytes()
        for c, a, name in ((there, one, "a"), (again, other, "b"))
    ]
    assert files[0] == files[1]


def test_the_medians_curve_rises_evenly_to_the_last_score(atari57, analysed):
    """Every made-up run learns evenly, so the median over games does, and ends at its score."""
    chart = next(chart for chart in analysed.charts if chart.name == "median")
    line = next(series for series in chart.series if series.agent == "netd-ace")
    assert line.x[-1] == synthetic.STEPS
    assert line.y[-1] == pytest.approx(497.21, rel=1e-5)
    assert line.high[-1] - line.low[-1] == pytest.approx(2 * 2.0, rel=1e-3)
    middle = line.y[line.x.index(synthetic.STEPS / 2)]
    assert middle == pytest.approx(497.21 / 2, rel=1e-5)


def test_profiles_are_the_part_of_runs_above(analysed):
    chart = next(chart for chart in analysed.charts if chart.name == "profiles")
    line = next(series for series in chart.series if series.agent == "surreal")
    scores = np.array([synthetic.by_game("surreal") + tilt for tilt in (-2.0, 0.0, 2.0)])
    expected = [(scores > x).mean() for x in line.x]
    np.testing.assert_allclose(line.y, expected, atol=0.02)
    assert all(a <= b <= c for a, b, c in zip(line.low, line.y, line.high, strict=True))
