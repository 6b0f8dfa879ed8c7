"""Catch by its rules, from the picture alone."""

import numpy as np
import pytest

from emphatic import envs
from emphatic.envs import catch, conformance
from emphatic.errors import UserError


def positions(observation):
    """Row and column of the ball, column of the paddle, off the picture."""
    assert observation.sum((0, 1)).tolist() == [1, 1]
    ((row, column),) = np.argwhere(observation[..., 0])
    ((bottom, paddle),) = np.argwhere(observation[..., 1])
    assert bottom == catch.ROWS - 1
    return int(row), int(column), int(paddle)


@pytest.mark.parametrize(("balls", "time_limit"), [(1, None), (3, 20)])
def test_every_step_follows_the_rules(balls, time_limit):
    """Where ball and paddle are tells the reward, the end and the next picture."""
    environment = envs.make("catch", balls=balls, time_limit=time_limit)
    played = conformance.check(environment, steps=60)
    truncations = 0
    for b in range(played.reward.shape[1]):
        caught, length = 0, 0
        for t in range(len(played.reward)):
            row, column, paddle = positions(played.observation[t, b])
            after = positions(played.observation[t + 1, b])
            result = (played.reward[t, b], played.discount[t, b], played.ended[t, b])
            if length == time_limit:
                assert played.weight[t, b] == 0
                assert (after[0], after[2]) == (0, 2)
                caught, length, truncations = 0, 0, truncations + 1
                continue
            length += 1
            paddle = min(max(paddle + int(played.action[t, b]) - 1, 0), catch.COLUMNS - 1)
            lands = row + 1 == catch.ROWS - 1
            caught += lands
            over, late = caught == balls, length == time_limit
            reward = (1 if paddle == column else -1) if lands else 0
            assert result == (reward, 0 if over else 1, over or late)
            if over:
                assert (after[0], after[2]) == (0, 2)
                caught, length = 0, 0
            else:
                assert (after[0], after[2]) == (0 if lands else row + 1, paddle)
                assert lands or after[1] == column
    assert bool(truncations) == (time_limit is not None)


def test_following_the_ball_earns_the_optimum():
    environment = envs.make("catch", balls=2)
    recorder = conformance.Recorder(environment)
    start = recorder.start(0, 16)
    returns, observation = [], np.asarray(start[1])
    for _ in range(36):
        places = [positions(o) for o in observation]
        action = np.array([[np.sign(column - paddle) + 1 for _, column, paddle in places]])
        start, stream = recorder.play(start, action)
        observation = stream.observation[-1]
        returns += stream.episode_return[stream.ended].tolist()
    assert returns == [2.0] * 32


def test_balls_fall_in_every_column():
    recorder = conformance.Recorder(envs.make("catch"))
    _, stream = recorder.play(recorder.start(3, 16), np.ones((90, 16), int))
    columns = [positions(o)[1] for o in stream.observation[::9].reshape(-1, 10, 5, 2)]
    counts = np.bincount(columns, minlength=5)
    assert counts.sum() == 176
    assert (np.abs(counts - 35.2) < 4 * np.sqrt(35.2 * 0.8)).all()


@pytest.mark.parametrize("field", ["balls", "time_limit"])
def test_wrong_settings_are_named(field):
    with pytest.raises(UserError) as error:
        envs.make("catch", **{field: 0})
    assert error.value.field == field
