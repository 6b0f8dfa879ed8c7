"""Whole episodes on the host: returns by stream, pictures, and what cannot be shown."""

import functools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from emphatic import envs
from emphatic.agent.learner import Learner
from emphatic.envs import bridge
from emphatic.errors import UserError
from emphatic.evaluation import animation, episodes, hosts


def learner(act):
    """As much of one as plays: `act(observation [B, ...], key) -> action [B]`."""

    def both(params, observation, key):
        action = act(observation, key)
        return action, jax.nn.one_hot(action, 3)

    return Learner(**(dict.fromkeys(Learner._fields) | {"act": both}))


def catching(observation, key):
    """Follows the ball, which is the only agent whose score is known."""
    del key
    ball, paddle = (observation[..., i].any(1).argmax(-1) for i in (0, 1))
    return (1 + jnp.sign(ball - paddle)).astype(jnp.int32)


def trained(environment, act):
    return episodes.Trained(None, environment, learner(act), None, 0)


class Counted(gymnasium.Env):
    """Pays the seed's parity + 1 a step; the k-th episode has k steps; a picture of the count."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    action_space = spaces.Discrete(2)
    observation_space = spaces.Box(0, 100, (2,), np.float32)

    def __init__(self, render_mode=None):
        self.render_mode, self._episode, self._pay = render_mode, 0, 0

    def _observe(self):
        return np.array([self._count, self._pay], np.float32)

    def reset(self, *, seed=None, options=None):
        self._pay = 1 + seed % 2 if seed is not None else self._pay
        self._episode, self._count = self._episode + 1, 0
        return self._observe(), {}

    def step(self, action):
        self._count += 1
        return self._observe(), self._pay, self._count == self._episode, False, {}

    def render(self):
        return np.full((8, 8, 3), 10 * self._count, np.uint8)


class Unseen(Counted):
    metadata = {"render_modes": []}  # noqa: RUF012

    def render(self):
        return None


for kind in (Counted, Unseen):
    gymnasium.register(f"emphatic-tests/{kind.__name__}-v0", kind)


def test_each_stream_gives_its_first_episodes():
    environment = envs.make("gymnasium:emphatic-tests/Counted-v0")
    played = episodes.play(trained(environment, lambda o, k: jnp.zeros(len(o), int)), 7, streams=3)
    assert played.lengths.tolist() == [1, 1, 1, 2, 2, 2, 3]
    pay = played.returns / played.lengths
    assert set(pay[:3]) <= {1, 2}
    np.testing.assert_array_equal(pay[3:6], pay[:3])


def test_a_known_score_on_either_side():
    """One who catches every ball catches all of them, on the host too."""
    catch = envs.make("catch", balls=3)
    for environment in (catch, bridge.from_jax(catch)):
        played = episodes.play(trained(environment, catching), 5, streams=2)
        assert played.returns.tolist() == [3.0] * 5
        assert played.lengths.tolist() == [27] * 5


def test_the_agent_sees_stacked_frames_of_this_episode_alone():
    """An observation of 2 frames: the last, and the one before it or zeros."""
    seen = []

    def act(observation, key):
        jax.debug.callback(lambda o: seen.append(o[0].tolist()), observation, ordered=True)
        return jnp.zeros(len(observation), int)

    environment = envs.make("gymnasium:emphatic-tests/Counted-v0", stack=2)
    episodes.play(trained(environment, act), 3, streams=1)
    jax.effects_barrier()
    counts = [(before, now) for before, _, now, _ in seen]
    # The last observation of an episode is seen too, and the action on it is ignored.
    assert counts[:8] == [(0, 0), (0, 1), (0, 0), (0, 1), (1, 2), (0, 0), (0, 1), (1, 2)]


def test_an_agent_that_never_ends_is_an_error():
    environment = envs.make("gymnasium:CartPole-v1")
    play = functools.partial(episodes.play, streams=2, max_steps=3)
    with pytest.raises(UserError, match=r"max_steps.*2 streams unfinished"):
        play(trained(environment, lambda o, k: jnp.zeros(len(o), int)), 2)


def test_a_lost_life_is_no_end_of_an_episode():
    environment = envs.make("atari/breakout")
    act = lambda o, k: jax.random.randint(k, (len(o),), 0, 4)  # noqa: E731
    played = episodes.play(trained(environment, act), 2, streams=2)
    assert (played.lengths > 100).all(), "five lives last longer"
    assert (played.returns == np.round(played.returns)).all()


@pytest.mark.parametrize("pixels", ["grey84", "rgb210"])
def test_atari_is_shown_as_it_is(pixels, tmp_path):
    environment = envs.make("atari/breakout", pixels=pixels)
    act = lambda o, k: jax.random.randint(k, (len(o),), 0, 4)  # noqa: E731
    frames, _ = episodes.record(trained(environment, act), max_steps=12)
    assert frames.shape == (13, *environment.frame_shape)
    assert frames.dtype == np.uint8
    pictures = animation.images(frames)
    scale = pictures[0].size[0] // environment.frame_shape[1]
    shown = np.asarray(pictures[5])[::scale, ::scale]
    np.testing.assert_array_equal(shown, np.broadcast_to(frames[5], shown.shape))
    animation.write(tmp_path / "it.gif", frames)


def test_vectors_are_shown_as_the_environment_renders_them():
    environment = envs.make("gymnasium:emphatic-tests/Counted-v0")
    play = trained(environment, lambda o, k: jnp.zeros(len(o), int))
    frames, total = episodes.record(play)
    assert frames[:, 0, 0].tolist() == [[0] * 3, [10] * 3]
    assert total in (1, 2)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_has_no_pictures_is_said():
    environment = envs.make("gymnasium:emphatic-tests/Unseen-v0")
    with pytest.raises(UserError, match="does not render pictures"):
        hosts.record(environment, learner(catching), None, seed=0, max_steps=3)
