"""Atari against an emulator stepped by hand, its two emulators against each other."""

import ale_py
import numpy as np
import pytest
from ale_py import roms

from emphatic import envs
from emphatic.envs import ale, atari, conformance_host, host
from emphatic.envs.conformance import NonconformingError
from emphatic.errors import UserError

NO_CHANCE = {"noop_max": 0, "sticky_actions": 0.0}


def emulator(game):
    """A plain one, none of our code around it."""
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    it = ale_py.ALEInterface()
    it.setFloat("repeat_action_probability", 0.0)
    it.loadROM(roms.get_rom_path(game))
    it.reset_game()
    return it


def by_hand(game, actions, *, max_frames, life_loss):
    """(frame or None, first, reward, discount, weight, ended, return, length) of each step.

    The table of `envs.host` and the protocol, written out; no no-ops, nothing sticky. The
    frame of a termination is not promised.
    """
    it = emulator(game)
    choices = it.getMinimalActionSet()
    total, length, frames, over = 0, 0, 0, False
    yield (it.getScreenRGB(),)
    for action in actions:
        if over:
            it.reset_game()
            total, length, frames, over = 0, 0, 0, False
            yield it.getScreenRGB(), True, 0, 0, 0, False, 0, 0
            continue
        lives, reward, screens = it.lives(), 0, []
        for _ in range(4):
            reward += it.act(choices[action])
            screens.append(it.getScreenRGB())
            if it.game_over():
                break
        total, length, frames = total + reward, length + 1, frames + 4
        terminated = it.game_over()
        over = terminated or frames >= max_frames
        lost = life_loss and it.lives() < lives
        frame = None if terminated else np.maximum(screens[-1], screens[-2])
        ended = (True, total, length) if over else (False, 0, 0)
        yield frame, False, reward, 0 if terminated or lost else 1, 1, *ended


def compare(game, steps, *, max_frames=108_000, life_loss=True, emulator="vector"):
    """All numbers of `steps` steps; how often the interesting things happened."""
    environment = envs.make(
        f"atari/{game}",
        pixels="rgb210",
        max_frames=max_frames,
        life_loss=life_loss,
        emulator=emulator,
        **NO_CHANCE,
    )
    rng = np.random.default_rng(0)
    actions = rng.integers(environment.num_actions, size=steps).repeat(3)[:steps]
    hand = by_hand(game, actions, max_frames=max_frames, life_loss=life_loss)
    batch = environment.start(np.array([7], np.uint32))
    seen = {"terminated": 0, "truncated": 0, "lives": 0, "reward": 0.0}
    np.testing.assert_array_equal(batch.reset()[0], next(hand)[0])
    for t, action in enumerate(actions):
        step, (frame, *numbers) = batch.step(np.array([action])), next(hand)
        assert [field[0] for field in step[1:]] == numbers, t
        if frame is not None:
            np.testing.assert_array_equal(step.frame[0], frame, err_msg=str(t))
        _, reward, discount, weight, ended, *_ = numbers
        seen["terminated"] += ended and not discount
        seen["truncated"] += ended and discount
        seen["lives"] += weight and not discount and not ended
        seen["reward"] = max(seen["reward"], reward)
    batch.close()
    return seen


def test_breakout_by_hand():
    seen = compare("breakout", 800)
    assert seen["terminated"] >= 2
    assert seen["lives"] > 10


@pytest.mark.parametrize("emulator", ["vector", "single"])
def test_a_truncation_by_hand(emulator):
    """The frame that is bootstrapped from is the pooled last one, which ale-py's own is not."""
    seen = compare("pong", 220, max_frames=202, emulator=emulator)
    assert seen["truncated"] == 4
    assert seen["terminated"] == 0


def test_without_the_signal_a_lost_life_is_nothing():
    assert compare("breakout", 400, life_loss=False)["lives"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "game", ["breakout", "ms_pacman", "pong", "space_invaders", "seaquest", "qbert"]
)
def test_games_by_hand(game):
    """To the end of games, and through truncations."""
    seen = compare(game, 3000)
    assert seen["terminated"] >= 1
    assert seen["lives"] >= 2 or game == "pong"
    assert seen["reward"] > 1 or game in ("pong", "breakout"), "rewards are clipped"
    assert compare(game, 600, max_frames=598)["truncated"] >= 2


def test_no_ops_start_an_episode():
    """Each stream starts after 0 to `noop_max` frames of nothing, all of them met."""
    it, screens = emulator("enduro"), []
    for _ in range(7):
        screens.append(it.getScreenRGB().tobytes())
        it.act(ale_py.Action.NOOP)
    assert len(set(screens)) == 7
    environment = envs.make("atari/enduro", pixels="rgb210", noop_max=5)
    frames = environment.start(np.arange(24, dtype=np.uint32)).reset()
    assert {screens.index(frame.tobytes()) for frame in frames} == set(range(6))


def slow_area(screen):
    """The mean over the area of each of 84 x 84 pixels, by way of the least common multiple."""
    high = screen.astype(float).repeat(2, 0).reshape(84, 5, 160).mean(1)
    return high.repeat(21, 1).reshape(84, 84, 40).mean(2)


def test_grey_frames_are_the_screen_resampled_by_area():
    """Pooled first. In float32, so that a mean of just a half may go either way."""
    environment = envs.make("atari/ms_pacman", **NO_CHANCE)
    assert environment.frame_shape == (84, 84, 1)
    batch, it = environment.start(np.zeros(1, np.uint32)), emulator("ms_pacman")
    frame, screen = batch.reset(), it.getScreenGrayscale()
    right = it.getMinimalActionSet().index(ale_py.Action.RIGHT)
    for _ in range(20):
        assert np.abs(frame[0, ..., 0] - slow_area(screen)).max() < 0.5001
        frame = batch.step(np.array([right])).frame
        screens = [it.act(ale_py.Action.RIGHT) or it.getScreenGrayscale() for _ in range(4)]
        screen = np.maximum(*screens[-2:])


SAME = {
    "paper": ("breakout", {}),
    "colour, limit": ("pong", {"pixels": "rgb210", "max_frames": 90}),
    "sticky, limit": ("qbert", {"protocol": "sticky", "noop_max": 5, "max_frames": 150}),
    "every frame": ("ms_pacman", {"action_repeat": 1, "sticky_actions": 0.5, "max_frames": 70}),
}


@pytest.mark.parametrize("case", SAME)
def test_both_emulators_give_the_same_stream(case):
    """To the bit: frames, the resampled ones too, rewards, ends, no-ops and what sticks."""
    game, settings = SAME[case]
    seeds = np.array([3, 2**32 - 1, 0], np.uint32)
    vector = envs.make(f"atari/{game}", **settings)
    single = envs.make(f"atari/{game}", emulator="single", **settings)
    action = np.random.default_rng(1).integers(vector.num_actions, size=(200, 3))
    ours = conformance_host.record(vector, seeds, action)
    theirs = conformance_host.record(single, seeds, action)
    conformance_host.check_replay(ours, theirs)
    assert ours.stream.ended.sum() >= 2


def test_one_stream_is_truncated_while_the_others_go_on():
    """With a limit longer than some games the streams get out of phase."""
    made = [
        envs.make("atari/breakout", max_frames=600, emulator=emulator)
        for emulator in ("vector", "single")
    ]
    seeds = np.array([3, 2**32 - 1, 0], np.uint32)
    action = np.random.default_rng(1).integers(made[0].num_actions, size=(800, 3))
    ours, theirs = (conformance_host.record(one, seeds, action) for one in made)
    conformance_host.check_replay(ours, theirs)
    ended = ours.stream.ended
    truncated = ended & (ours.stream.discount == 1)
    assert (ended & ~truncated).any()
    assert (truncated.any(1) & ~truncated.all(1)).sum() >= 3


@pytest.mark.parametrize(
    ("game", "settings"),
    [
        ("breakout", {"max_frames": 90}),
        ("pong", {"max_frames": 80, "protocol": "sticky", "emulator": "single"}),
        ("breakout", {"max_frames": 80, "pixels": "rgb210", "emulator": "single"}),
    ],
)
def test_atari_conforms(game, settings):
    environment = envs.make(f"atari/{game}", num_threads=2, **settings)
    assert (environment.state_bytes > 0) == (settings.get("emulator") == "single")
    conformance_host.check(environment, steps=25, batch=2)


@pytest.mark.slow
def test_game_over_conforms():
    """Lives and terminations, in both emulators."""
    for emulator in ("vector", "single"):
        recorded = conformance_host.check(envs.make("atari/breakout", emulator=emulator), batch=2)
        stream = recorded.stream
        assert ((stream.discount == 0) & (stream.weight == 1) & ~stream.ended).sum() > 5


@pytest.mark.slow
@pytest.mark.parametrize("game", atari.GAMES)
def test_every_game_plays_and_its_state_goes_on(game):
    """Both emulators agree, but for two games; what is saved goes on, but for three."""
    settings = {"pixels": "rgb210", "protocol": "sticky", "noop_max": 30}
    if game in atari.STICKS_OTHERWISE:
        settings["sticky_actions"] = 0.0
    vector = envs.make(f"atari/{game}", **settings)
    single = envs.make(f"atari/{game}", emulator="single", **settings)
    assert vector.num_actions == (9 if game == "skiing" else 18)
    assert 3 <= envs.make(f"atari/{game}").num_actions <= 18
    seeds = np.array([5, 6], np.uint32)
    action = np.random.default_rng(0).integers(vector.num_actions, size=(60, 2))
    ours = conformance_host.record(vector, seeds, action)
    conformance_host.check_replay(ours, conformance_host.record(single, seeds, action))
    assert bool(single.state_bytes) == (game not in atari.STATE_INCOMPLETE)
    if single.state_bytes:
        conformance_host.check_state(ours, single, seeds, action)


@pytest.mark.slow
@pytest.mark.parametrize("game", atari.STICKS_OTHERWISE)
def test_games_that_stick_otherwise_go_on_too(game):
    """With sticky actions the emulators differ, and each is still a stream of its own."""
    settings = {"pixels": "rgb210", "protocol": "sticky"}
    vector = envs.make(f"atari/{game}", **settings)
    single = envs.make(f"atari/{game}", emulator="single", **settings)
    seeds = np.array([5, 6], np.uint32)
    action = np.random.default_rng(0).integers(vector.num_actions, size=(60, 2))
    theirs = conformance_host.record(single, seeds, action)
    conformance_host.check_state(theirs, single, seeds, action)
    with pytest.raises(NonconformingError, match="same stream"):
        conformance_host.check_replay(conformance_host.record(vector, seeds, action), theirs)


def test_a_protocol_fills_in_what_is_not_given():
    plain = dict(envs.make("atari/pong").settings)
    assert plain == {
        "protocol": "paper",
        "pixels": "grey84",
        "stack": 4,
        "action_repeat": 4,
        "max_frames": 108_000,
        "noop_max": 30,
        "life_loss": True,
        "sticky_actions": 0.0,
        "full_actions": False,
        "emulator": "vector",
    }
    sticky = envs.make("atari/pong", protocol="sticky", life_loss=True)
    assert sticky.settings["sticky_actions"] == 0.25
    assert sticky.settings["life_loss"] is True
    assert sticky.settings["noop_max"] == 0
    assert (sticky.num_actions, envs.make("atari/pong").num_actions) == (18, 6)
    again = envs.make("atari/pong", **sticky.settings)
    assert again.settings == sticky.settings


def test_what_it_says_of_itself():
    colour = envs.make("atari/pong", pixels="rgb210", stack=3)
    assert colour.frame_shape == (210, 160, 3)
    assert colour.observation_shape == (210, 160, 9)
    assert envs.make("atari/pong").observation_shape == (84, 84, 4)


def test_the_vector_emulator_cannot_be_saved():
    batch = envs.make("atari/pong").start(np.zeros(1, np.uint32))
    with pytest.raises(NotImplementedError, match="single"):
        batch.save()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stack", 0),
        ("action_repeat", 0),
        ("max_frames", 0),
        ("noop_max", -1),
        ("sticky_actions", 1.0),
        ("num_threads", 0),
    ],
)
def test_an_impossible_setting_is_named(field, value):
    with pytest.raises(UserError) as error:
        envs.make("atari/pong", **{field: value})
    assert error.value.field == field


def test_the_twister_is_the_one_of_numpy():
    """NumPy's old generator is seeded as C++'s is."""
    twister, theirs = ale.Twister(), np.random.RandomState(12345)
    twister.seed(12345)
    for _ in range(1500):
        assert twister.fraction() == theirs.randint(2**32, dtype=np.uint32) / 2**32


def test_a_ledger_counts_as_the_table_says():
    ledger = host.Ledger(1, limit=3)
    frame = np.zeros((1, 2))
    said = [(2, False), (3, True), (9, True), (1, False), (1, False), (1, False), (7, False)]
    steps = [ledger.step(frame, np.array([r]), np.array([t])) for r, t in said]
    assert [float(s.reward[0]) for s in steps] == [2, 3, 0, 1, 1, 1, 0]
    assert [float(s.discount[0]) for s in steps] == [1, 0, 0, 1, 1, 1, 0]
    assert [float(s.weight[0]) for s in steps] == [1, 1, 0, 1, 1, 1, 0]
    assert [bool(s.ended[0]) for s in steps] == [False, True, False, False, False, True, False]
    assert [bool(s.first[0]) for s in steps] == [False, False, True, False, False, False, True]
    assert [float(s.episode_return[0]) for s in steps] == [0, 5, 0, 0, 0, 3, 0]
    assert [int(s.episode_length[0]) for s in steps] == [0, 2, 0, 0, 0, 3, 0]
