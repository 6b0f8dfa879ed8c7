"""Animations: written by their ending, and refused before anything is played."""

import shutil
import stat

import numpy as np
import pytest
from PIL import Image

from emphatic import cli
from emphatic.agent import presets
from emphatic.errors import UserError
from emphatic.evaluation import animation, episodes
from emphatic.runtime import configs, runs
from emphatic.runtime.settings import TrainConfig

FRAMES = np.random.default_rng(0).integers(0, 255, (5, 7, 9, 3), np.uint8)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run that must not be played, in the folder it is asked for from."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(episodes, "load", lambda path: pytest.fail("computed"))
    config = configs.to_json(TrainConfig(env="catch", learner=presets.catch()))
    runs.Run.create(
        tmp_path / "run", config, environment={}, seed=0, command=[], created=""
    ).close()
    (tmp_path / "folder.gif").mkdir()


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["watch", "run", "--fps", "0"], "fps"),
        (["watch", "run", "--fps", "101"], "fps"),
        (["watch", "run", "--fps", "-5"], "fps"),
        (["watch", "run", "--steps", "0"], "steps"),
        (["watch", "run", "--steps", "99999999999999999999"], "steps"),
        (["watch", "run", "--seed", "-1"], "seed"),
        (["watch", "run", "--seed", "99999999999999999999"], "seed"),
        (["watch", "run", "--out", "nowhere/x.gif"], "out"),
        (["watch", "run", "--out", "x.webm"], "out"),
        (["watch", "run", "--out", "x"], "out"),
        (["watch", "run", "--out", "folder.gif"], "out"),
        (["watch", "run", "--out", "x.mp4"], "out"),
        (["watch", "nowhere"], "run"),
        (["evaluate", "run", "--seed", "-1"], "seed"),
        (["evaluate", "run", "--seed", "99999999999999999999"], "seed"),
        (["evaluate", "run", "--episodes", "0"], "episodes"),
        (["evaluate", "run", "--episodes", "99999999999999999999"], "episodes"),
    ],
)
def test_a_mistake_is_one_sentence_before_anything_is_played(run, arguments, field, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(f"emphatic: {field}: ")
    assert error.count("\n") == 1


def test_a_gif_shows_every_frame(tmp_path):
    animation.write(tmp_path / "a.gif", FRAMES, frames_per_second=10)
    with Image.open(tmp_path / "a.gif") as image:
        assert (image.n_frames, image.info["duration"]) == (5, 100)
        assert image.size == (9 * 36, 7 * 36)


def test_where_nothing_can_be_written_is_a_sentence(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(animation, "_write_gif", full)
    with pytest.raises(UserError, match=r"out: cannot write .*a\.gif: No space"):
        animation.write(tmp_path / "a.gif", FRAMES)


FFMPEG = """#!/bin/sh
printf '%s\\n' "$@" > "$0.given"
cat > "$0.frames"
for last; do :; done
[ "$last" = "file:a.mp4" ] || { printf 'no encoder\\nis here\\n' >&2; exit 1; }
cp "$0.frames" "${last#file:}"
"""


def test_ffmpeg_is_given_the_frames_and_their_size(tmp_path, monkeypatch):
    """A program in its place: what it gets, and what becomes of its complaint."""
    program = tmp_path / "ffmpeg"
    program.write_text(FFMPEG)
    program.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.chdir(tmp_path)
    animation.write(animation.Path("a.mp4"), FRAMES, frames_per_second=12)
    given = (tmp_path / "ffmpeg.given").read_text().split("\n")
    assert given[given.index("-s") + 1] == "324x252"
    assert given[given.index("-r") + 1] == "12"
    wanted = b"".join(picture.tobytes() for picture in animation.images(FRAMES))
    assert (tmp_path / "a.mp4").read_bytes() == wanted
    with pytest.raises(UserError, match=r"out: ffmpeg could not write b\.mp4: no encoder is here"):
        animation.write(animation.Path("b.mp4"), FRAMES)


def test_an_mp4_is_written_where_there_is_an_encoder(tmp_path):
    """Elsewhere it is refused with what is missing."""
    path = tmp_path / "a.mp4"
    if shutil.which("ffmpeg") is None:
        with pytest.raises(UserError, match="needs ffmpeg"):
            animation.write(path, FRAMES)
    else:
        animation.write(path, FRAMES)
        assert path.read_bytes()[4:8] == b"ftyp"
