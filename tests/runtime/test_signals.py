"""What a process does on a signal, on a second one, and when patience ends; no process is ended."""

import os
import signal
import threading

import pytest

from emphatic.errors import UserError
from emphatic.runtime import signals
from emphatic.runtime.signals import Stop

TERM, INT = bytes([signal.SIGTERM]), bytes([signal.SIGINT])


class Left(BaseException):
    """The process would have ended here."""


@pytest.fixture
def heard(monkeypatch):
    """`heard(bytes, patience)`: the exit code after these came through the pipe, or None."""

    def leave(code):
        raise Left(code)

    monkeypatch.setattr(signals.os, "_exit", leave)

    def of(came, patience):
        reader, writer = os.pipe()
        os.write(writer, came)
        timer = threading.Timer(0.1, os.write, (writer, b"\0"))
        timer.start()
        try:
            signals._watch(reader, patience)
        except Left as left:
            return left.args[0]
        finally:
            timer.join()
            os.close(reader)
            os.close(writer)

    return of


@pytest.mark.parametrize(
    ("came", "patience", "code"),
    [
        (TERM, 60.0, None),
        (TERM, None, None),
        (TERM, 0.01, 128 + signal.SIGTERM),
        (INT, 0.01, 128 + signal.SIGINT),
        (INT + TERM, 60.0, 128 + signal.SIGTERM),
        (TERM + INT, None, 128 + signal.SIGINT),
        # What came of another process is no signal of our own, but patience begins.
        (signals._TOLD, 0.01, 128 + signal.SIGTERM),
        (signals._TOLD + TERM, 60.0, None),
        (TERM + signals._TOLD, 60.0, None),
        (signals._TOLD + TERM + TERM, 60.0, 128 + signal.SIGTERM),
    ],
)
def test_when_and_how_it_leaves(heard, came, patience, code):
    assert heard(came, patience) == code


def test_it_says_that_there_is_no_checkpoint(heard, capsys):
    heard(TERM, 0.01)
    said = capsys.readouterr().out
    assert "without a checkpoint" in said
    assert "EMPHATIC_PATIENCE" in said
    assert "--resume" in said


def test_a_signal_is_heard_and_the_handlers_come_back():
    before = signal.getsignal(signal.SIGTERM)
    with signals.stop_signal(60.0) as stop:
        assert not stop.asked
        signal.raise_signal(signal.SIGTERM)
        assert stop.asked
        stop.told()
    assert signal.getsignal(signal.SIGTERM) is before


def test_who_is_told_is_asked():
    reader, writer = os.pipe()
    stop = Stop(writer)
    stop.told()
    assert stop.asked
    assert os.read(reader, 1) == signals._TOLD


def test_patience_is_a_setting(monkeypatch):
    monkeypatch.delenv("EMPHATIC_PATIENCE", raising=False)
    assert signals.patience() == signals.PATIENCE
    monkeypatch.setenv("EMPHATIC_PATIENCE", "110")
    assert signals.patience() == 110
    for wrong in ("0", "-3", "soon", "inf", "nan"):
        monkeypatch.setenv("EMPHATIC_PATIENCE", wrong)
        with pytest.raises(UserError, match=r"EMPHATIC_PATIENCE: must be a number of seconds"):
            signals.patience()
