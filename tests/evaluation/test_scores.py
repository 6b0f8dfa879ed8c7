"""Scales: the 57 games' human scores, known medians, an agent's mean, a file of ends."""

import csv
from pathlib import Path

import numpy as np
import pytest

from emphatic.envs import atari
from emphatic.errors import UserError
from emphatic.evaluation import scores, statistics

IMPALA = Path(__file__).with_name("impala_atari57_200m_scores.csv")


def impala(column):
    """Published scores of the 57 games, human-normalised, in per cent."""
    with IMPALA.open() as lines:
        rows = list(csv.DictReader(lines))
    environment = {scores.game_of(e): e for e in scores.human().high}
    games = [(environment[row["game"]], np.array([float(row[column])])) for row in rows]
    return 100 * np.stack([scores.human().normalised(*game) for game in games], axis=1)


@pytest.mark.parametrize(("column", "median"), [("impala_deep", 191.8), ("impala_shallow", 93.2)])
def test_published_medians_come_out(column, median):
    """Espeholt et al. (2018), Table 4: 191.8% deep, 93.2% shallow, after 200M frames."""
    found = impala(column)
    assert found.shape == (1, 57)
    assert statistics.percentile(50.0)(found) == pytest.approx(median, abs=0.05)


def test_human_scores_are_of_the_57_games_there_are():
    reference = scores.human()
    assert set(reference.low) == set(reference.high) == {f"atari/{g}" for g in atari.GAMES}
    assert all(reference.high[e] > reference.low[e] for e in reference.low)
    assert not reference.knows("minatar/breakout")


def test_ends_of_the_human_scale():
    reference = scores.human()
    found = reference.normalised("atari/skiing", np.array([-17098.1, -4336.9, -17098.1 - 12761.2]))
    np.testing.assert_allclose(found, [0.0, 1.0, -1.0], atol=1e-12)


def test_video_pinball_has_the_random_score_of_the_published_tables():
    """Another table in use says 16,256.9, which would multiply scores by twelve."""
    assert scores.human().low["atari/video_pinball"] == 0.0
    assert scores.game_of("atari/video_pinball") == "VideoPinball"


def test_games_by_their_names():
    assert scores.game_of("atari/kung_fu_master") == "KungFuMaster"
    assert scores.game_of("minatar/breakout") == "minatar/breakout"
    assert len({scores.game_of(environment) for environment in scores.human().high}) == 57


def test_relative_to_an_agent():
    reference = scores.relative_to("surreal", {"catch": 0.5})
    np.testing.assert_allclose(reference.normalised("catch", np.array([0.0, 1.0])), [0.0, 2.0])
    with pytest.raises(UserError, match=r"surreal on catch is -0\.25"):
        scores.relative_to("surreal", {"catch": -0.25})


def written(tmp_path, text):
    file = tmp_path / "ends.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def test_ends_from_a_file(tmp_path):
    reference = scores.from_file(written(tmp_path, "environment,low,high\ncatch,-1,1\n"))
    assert reference.name == "normalised by ends.csv"
    assert reference.normalised("catch", np.array([0.0])) == 0.5


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "must have the columns environment,low,high"),
        ("environment,low\ncatch,1\n", "must have the columns"),
        ("environment,low,high\ncatch,a,1\n", "low of catch must be a number, not 'a'"),
        ("environment,low,high\ncatch,0\n", "high of catch must be a number, not None"),
        ("environment,low,high\ncatch,0,inf\n", "must be a number, not 'inf'"),
        ("environment,low,high\ncatch,1,1\n", "high of catch must lie above its low"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_bad_file_is_told_in_a_sentence(tmp_path, text, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        scores.from_file(written(tmp_path, text))
    assert caught.value.field == "reference"
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there():
    with pytest.raises(UserError, match="cannot be read"):
        scores.from_file(Path("nowhere.csv"))
