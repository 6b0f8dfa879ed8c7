"""Any Gymnasium environment on the host, and what is said of those that cannot be played."""

import copy

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from emphatic import envs
from emphatic.envs import conformance, conformance_host
from emphatic.errors import UserError


class Probe(gymnasium.Env):
    """`conformance.probe` on this side: the observation tells where it belongs."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    action_space = spaces.Discrete(3, start=5)
    observation_space = spaces.Box(0, np.inf, (3,), np.float64)

    def __init__(self, render_mode=None, limit=conformance.PROBE_LIMIT):
        self.render_mode, self._limit = render_mode, limit

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._state = np.array([self.np_random.integers(2**20), 0, 0], float)
        return self._state.copy(), {}

    def step(self, action):
        self._state[1:] = self._state[1] + 1, action - 5 + 1
        reward = self._state[1] + 10 * (action - 5)
        over = self._state[1] >= self._limit
        terminated = action == 5 + conformance.PROBE_END
        return self._state.copy(), reward, terminated, over and not terminated, {}

    def render(self):
        return np.full((4, 6, 3), self._state[1], np.uint8)


class Shown(Probe):
    """With any observation space."""

    def __init__(self, space, **kwargs):
        super().__init__(**kwargs)
        self.observation_space = copy.deepcopy(space)  # Gymnasium hands all the same.

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(int(self._state[0]))
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), *super().step(action)[1:]


class Steered(Probe):
    action_space = spaces.Box(-1, 1, (2,))


for kind in (Probe, Shown, Steered):
    gymnasium.register(f"emphatic-tests/{kind.__name__}-v0", kind, max_episode_steps=50)


def of_space(space):
    return envs.make("gymnasium:emphatic-tests/Shown-v0", space=space)


def test_the_probe_conforms_and_each_thing_is_in_its_place():
    environment = envs.make("gymnasium:emphatic-tests/Probe-v0")
    assert environment.num_actions == 3
    stream = conformance_host.check(environment, steps=60).stream
    starts = {}
    for t, b in np.ndindex(stream.reward.shape):
        tag, count, _ = stream.observation[t, b].tolist()
        after, action = stream.observation[t + 1, b].tolist(), int(stream.action[t, b])
        given = (stream.reward[t, b], stream.discount[t, b], bool(stream.ended[t, b]))
        if stream.weight[t, b] == 0:
            assert starts.setdefault((b, tag), t)
            assert after[1:] == [0, 0]
            assert after[0] != tag
            continue
        assert after == [tag, count + 1, action + 1]
        terminated = action == conformance.PROBE_END
        ended = terminated or count + 1 == conformance.PROBE_LIMIT
        assert given == (count + 1 + 10 * action, 0 if terminated else 1, ended)


def test_cartpole_conforms():
    environment = envs.make("gymnasium:CartPole-v1", time_limit=12)
    assert dict(environment.settings) == {"time_limit": 12, "stack": 1}
    stream = conformance_host.check(environment, steps=40).stream
    assert (stream.ended & (stream.discount == 1)).any()
    assert (stream.ended & (stream.discount == 0)).any()
    assert stream.episode_length.max() == 12


def test_the_registered_limit_is_in_the_settings():
    assert envs.make("gymnasium:CartPole-v1").settings["time_limit"] == 500


@pytest.mark.parametrize(
    ("space", "shape", "dtype"),
    [
        (spaces.Box(0, 255, (6, 5, 3), np.uint8), (6, 5, 3), "uint8"),
        (spaces.Box(0, 255, (6, 5), np.uint8), (6, 5, 1), "uint8"),
        (spaces.Box(0, 255, (8,), np.uint8), (8,), "uint8"),
        (spaces.Box(-1, 1, (4,), np.float64), (4,), "float32"),
        (spaces.Box(-1, 1, (), np.float32), (1,), "float32"),
        (spaces.Box(0, 9, (2, 3, 4), np.int64), (2, 3, 4), "float32"),
        (spaces.MultiBinary(7), (7,), "float32"),
        (spaces.Discrete(5, start=-2), (5,), "float32"),
    ],
)
def test_observations_become_frames(space, shape, dtype):
    environment = of_space(space)
    assert environment.frame_shape == shape
    assert environment.frame_dtype == np.dtype(dtype)
    stream = conformance_host.check(environment, steps=15, batch=3).stream
    if isinstance(space, spaces.Discrete):
        assert (stream.observation.sum(-1) == 1).all()
        assert len(np.unique(stream.observation.argmax(-1))) == 5


def test_frames_are_the_observations():
    """Of a one-hot number, and of an image: nothing scaled, nothing turned."""
    for space in (spaces.Discrete(4, start=3), spaces.Box(0, 255, (3, 2), np.uint8)):
        one = gymnasium.make("emphatic-tests/Shown-v0", space=space)
        observation, _ = one.reset(seed=11)
        frame = of_space(space).start(np.array([11], np.uint32)).reset()[0]
        if isinstance(space, spaces.Discrete):
            assert int(frame.argmax()) == observation - 3
        else:
            np.testing.assert_array_equal(frame[..., 0], observation)


def test_arguments_reach_the_environment():
    environment = envs.make("gymnasium:emphatic-tests/Probe-v0", limit=3, stack=2)
    stream = conformance_host.record(environment, np.arange(2), np.zeros((10, 2), int)).stream
    assert set(stream.episode_length.ravel().tolist()) == {0, 3}
    assert environment.settings["limit"] == 3
    assert environment.observation_shape == (6,)


def test_it_can_be_looked_at():
    batch = envs.make("gymnasium:emphatic-tests/Probe-v0").start_rendered(np.arange(2))
    batch.reset()
    batch.step(np.array([0, 2]))
    assert [picture[0, 0, 0] for picture in batch.render()] == [1, 1]
    batch.step(np.array([0, 0]))
    assert [picture[0, 0, 0] for picture in batch.render()] == [2, 0]


@pytest.mark.parametrize(
    ("name", "settings", "field", "said"),
    [
        ("CartPole-v99", {}, "env", "version `v99`"),
        ("Cartpole-v1", {}, "env", "Did you mean: `CartPole`"),
        ("no_such_module:It-v0", {}, "env", "module that is missing"),
        ("emphatic-tests/Steered-v0", {}, "env", "only Discrete ones can be played"),
        ("emphatic-tests/Probe-v0", {"time_limit": 0}, "time_limit", "at least 1 step"),
        ("emphatic-tests/Probe-v0", {"time_limit": "3"}, "time_limit", "a whole number or none"),
        ("emphatic-tests/Probe-v0", {"stack": 0}, "stack", "at least 1"),
        ("emphatic-tests/Probe-v0", {"colour": 3}, "settings", "unexpected keyword"),
    ],
)
def test_what_cannot_be_made_is_said_in_a_line(name, settings, field, said):
    with pytest.raises(UserError) as error:
        envs.make(f"gymnasium:{name}", **settings)
    assert error.value.field == field
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Dict({"a": spaces.Discrete(2)}),
        spaces.MultiDiscrete([2, 3]),
        spaces.Box(0, 1, (2, 2, 2, 2)),
    ],
)
def test_observations_no_network_takes_are_refused(space):
    with pytest.raises(UserError, match="which no network takes"):
        of_space(space)
