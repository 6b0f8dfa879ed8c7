"""Promise 8: SIGTERM and SIGINT end a run in order, within ten seconds, and lose nothing."""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import deterministic, finished

DRIVER = Path(__file__).with_name("driver.py")
RUN = ["--env", "catch", "--agent", "netd-ace", "--steps", "6400", "--seed", "3"]
RUN += ["--log-every", "2", "--checkpoint-every", "4", "--settings", "time_limit=7"]
SIGNALS = (signal.SIGTERM, signal.SIGINT)
GOING_ON = ("compiling", "saving", "updating", "hanging_save")
"""Moments of a run: `saving` and `updating` end by themselves, the others are left."""
LEFT = ("compiling", "hanging_save")
CASES = [
    (moment, number, delay)
    for delay in (0.0, 0.1, 0.35, 0.8)
    for number, moment in itertools.product(SIGNALS, (*GOING_ON, "evaluating"))
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def whole(cache, tmp_path_factory):
    """The run that nobody interrupted."""
    path = tmp_path_factory.mktemp("runs") / "whole"
    code, output = finished(cache, "train", *RUN, "--out", path)
    assert code == 0, output
    return path


def begun(cache, moment, *arguments):
    """A process that has come to the moment."""
    process = subprocess.Popen(
        [sys.executable, str(DRIVER), moment, *map(str, arguments)],
        env={**os.environ, "EMPHATIC_CACHE": cache, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    for line in process.stdout:
        if line == "NOW\n":
            return process
    pytest.fail(f"it never came to {moment}")


def signalled(process, *numbers, gap=0.3):
    """Send them; exit code, output and how long it took after the last."""
    for i, number in enumerate(numbers):
        time.sleep(gap if i else 0.0)
        process.send_signal(number)
    start = time.monotonic()
    output, _ = process.communicate(timeout=60)
    return process.returncode, output, time.monotonic() - start


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_signal_ends_a_run_in_order_and_resuming_loses_nothing(tally, cache, whole, tmp_path):
    for case in tally.cases(8, "moment"):
        moment, number, delay = CASES[case]
        path = tmp_path / f"{case}"
        if moment == "evaluating":
            assert_left_alone(begun(cache, moment, "evaluate", whole), number, delay, whole)
            continue
        process = begun(cache, moment, "train", *RUN, "--out", path)
        time.sleep(delay)
        code, output, seconds = signalled(process, number)
        assert code == (128 + number if moment in LEFT else 0), output
        assert "Traceback" not in output
        assert seconds < 10, moment
        assert "--resume" in output, output
        code, output = finished(cache, "train", "--resume", path)
        assert code == 0, output
        assert deterministic(path) == deterministic(whole)


def assert_left_alone(process, number, delay, run):
    """An evaluation that is cut short writes nothing, and does not say that it is done."""
    time.sleep(delay)
    code, output, seconds = signalled(process, number)
    assert code == -number
    assert seconds < 10
    assert "Traceback" not in output
    assert not (run / "evaluation.json").exists()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_second_signal_ends_it_at_once(tally, cache, whole, tmp_path):
    """Also inside C, where Python's own handlers are not heard."""
    for case in tally.cases(8, "twice"):
        moment = ("compiling", "hanging_save")[case % 2]
        first, second = SIGNALS[case // 2 % 2], SIGNALS[case // 4 % 2]
        path = tmp_path / f"{case}"
        process = begun(cache, moment, "train", *RUN, "--out", path)
        code, output, seconds = signalled(process, first, second)
        assert code == 128 + second, output
        assert seconds < 3
        assert "Traceback" not in output
        code, output = finished(cache, "train", "--resume", path)
        assert code == 0, output
        assert deterministic(path) == deterministic(whole)
