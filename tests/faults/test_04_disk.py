"""Promise 4: on a full or read-only disk a run stops with a sentence, and goes on when it can.

Every other time the disk is a tmpfs of two megabytes, where this process may mount one, as root
may; else the file system's answers are injected at `runtime.files`.
"""

import contextlib
import errno
import json
import os
import random
import shutil
import subprocess

import pytest
from disk import Faulty
from small import compiled_once, config_of, options, results, trained

from emphatic import cli
from emphatic.commands import progress
from emphatic.errors import Stopped, UserError
from emphatic.runtime import checkpoints, training

pytestmark = pytest.mark.usefixtures(compiled_once.__name__)
CONFIG = config_of()


def mount(*words):
    done = subprocess.run(["mount", *map(str, words)], capture_output=True, check=False)
    return done.returncode == 0


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """A small disk of our own; None where we may not mount one."""
    folder = tmp_path_factory.mktemp("disk")
    if not mount("-t", "tmpfs", "-o", "size=2m", "tmpfs", folder):
        yield None
        return
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run"
    trained(path, CONFIG)
    return results(path)


def filler(disk, line, left):
    """A progress that fills the disk at a line of metrics, all but some bytes."""
    seen = []

    def progress(*_):
        seen.append(1)
        if len(seen) == line:
            free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
            (disk / "filler").write_bytes(bytes(max(0, free - left)))

    return progress


def assert_sound(path):
    """Every checkpoint that counts is whole, and no log is torn."""
    for checkpoint in path.glob("checkpoints/0*"):
        checkpoints.read(checkpoint)
    for log in path.glob("*.jsonl"):
        data = log.read_bytes()
        assert data.endswith(b"\n") or not data
        for line in data.splitlines():
            json.loads(line)


@pytest.mark.slow
def test_a_full_disk_stops_a_run_in_order_and_it_goes_on_when_there_is_room(
    tally, disk, whole, tmp_path
):
    for case in tally.cases(4, "full"):
        rng = random.Random(case)
        real = disk if case % 2 else None
        path = (real or tmp_path) / f"run{case}"
        if real is None:
            injected = Faulty(
                rng.randrange(8, 150), OSError(28, "No space left on device"), stays=True
            )
        else:
            injected = contextlib.nullcontext()
        fill = filler(real, rng.randrange(1, 19), rng.randrange(30_000)) if real else None
        with injected, pytest.raises(Stopped, match=r"^cannot write .*: No space left .*--resume"):
            trained(path, CONFIG, progress=fill)
        assert_sound(path)
        if real is not None:
            (real / "filler").unlink()
        assert training.resume(path, **options()).finished
        assert results(path) == whole
        if real is not None:
            shutil.rmtree(path)


def test_one_message_and_no_traceback(tmp_path, monkeypatch, capsys):
    """As the command line says it."""
    path = tmp_path / "run"

    def full(self, *_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(progress, "shown", lambda *_: trained(path, CONFIG))
    monkeypatch.setattr("emphatic.runtime.runs.Log.append", full)
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", "--env", "catch", "--out", str(path)])
    assert stop.value.code == 1
    error = capsys.readouterr().err
    assert error.startswith(f"emphatic: cannot write {path}: No space left on device")
    assert error.count("\n") == 1


@pytest.mark.slow
def test_a_read_only_disk_is_a_sentence(tally, disk, tmp_path):
    """To begin, to go on and to evaluate; nothing there changes."""
    for case in tally.cases(4, "read-only"):
        real = disk if case % 2 else None
        path = (real or tmp_path) / f"read-only{case}"
        trained(path, CONFIG, progress=stop_after(3))
        before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}
        with read_only(real):
            with pytest.raises(UserError, match=r"cannot write .*: Read-only file system"):
                trained(path.with_name(f"new{case}"), CONFIG)
            with pytest.raises((UserError, Stopped), match=r"cannot write .*: Read-only"):
                training.resume(path, **options())
        assert {p: p.read_bytes() for p in path.rglob("*") if p.is_file()} == before
        assert training.resume(path, **options()).finished
        shutil.rmtree(path)


def stop_after(lines):
    """A progress that asks the run to stop, as a signal does."""
    seen = []

    def progress(*_):
        seen.append(1)
        if len(seen) == lines:
            os.kill(os.getpid(), 15)

    return progress


@contextlib.contextmanager
def read_only(disk):
    if disk is None:
        with Faulty(1, OSError(errno.EROFS, "Read-only file system"), stays=True):
            yield
        return
    assert mount("-o", "remount,ro", disk)
    try:
        yield
    finally:
        assert mount("-o", "remount,rw", disk)
