"""Two processes on loopback are one run; when one is killed the other says so and ends."""

import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from emphatic.errors import UserError
from emphatic.runtime import checkpoints, runs
from emphatic.runtime.distributed import ProcessesConfig

RUN = ["--env", "gymnasium:CartPole-v1", "--agent", "netd-ace", "--log-every", "5"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def started(cache, *arguments):
    # One device a process, or two processes would be four.
    environment = {**os.environ, "EMPHATIC_CACHE": str(cache), "JAX_PLATFORMS": "cpu"}
    environment.pop("XLA_FLAGS", None)
    return subprocess.Popen(
        [sys.executable, "-m", "emphatic", "train", *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def pair(cache, *arguments):
    """Both processes of a run, on a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    among = ["--coordinator", address, "--processes", 2, "--process"]
    return [started(cache, *arguments, *among, i) for i in (0, 1)]


def finished(*processes):
    outputs = [process.communicate(timeout=240)[0] for process in processes]
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == 0, output
    return outputs


def parameters(path):
    checkpoint = checkpoints.latest(path / "checkpoints")
    manifest = zip(checkpoint._leaves, checkpoint._data, strict=True)
    return {
        leaf.path: np.frombuffer(data, np.dtype(leaf.dtype))
        for leaf, data in manifest
        if leaf.path.startswith(".learner.params")
    }


def wait_for(condition, seconds=200):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_processes_compute_what_one_does(cache, tmp_path):
    steps = ["--steps", 3200]
    finished(started(cache, *RUN, *steps, "--out", tmp_path / "one"))
    first, second = finished(*pair(cache, *RUN, *steps, "--out", tmp_path / "two"))
    assert "done" in first
    assert "done" not in second
    one, two = parameters(tmp_path / "one"), parameters(tmp_path / "two")
    assert one.keys() == two.keys()
    for name, values in one.items():
        np.testing.assert_allclose(values, two[name], rtol=1e-4, atol=1e-6, err_msg=name)
    lines = zip(
        runs.read_metrics(tmp_path / "one"), runs.read_metrics(tmp_path / "two"), strict=True
    )
    for a, b in lines:
        assert (a["update"], a["episodes"]) == (b["update"], b["episodes"])
        assert a["return"] == pytest.approx(b["return"], rel=1e-6)
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-4)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("killed", [0, 1])
def test_when_one_is_killed_the_other_ends_and_the_run_goes_on(killed, cache, tmp_path):
    path = tmp_path / "run"
    arguments = [*RUN, "--steps", 12800, "--checkpoint-every", 10, "--out", path]
    processes = pair(cache, *arguments)
    wait_for(lambda: checkpoints.latest(path / "checkpoints"))
    processes[killed].send_signal(signal.SIGKILL)
    before = time.monotonic()
    output, _ = processes[1 - killed].communicate(timeout=60)
    processes[killed].communicate(timeout=60)
    assert time.monotonic() - before < 45
    assert processes[1 - killed].returncode == 1, output
    assert f"process {1 - killed} lost another process of the run" in output
    assert "--resume" in output
    assert "Traceback" not in output

    assert checkpoints.latest(path / "checkpoints").step < 80
    finished(*pair(cache, "--resume", path))
    assert [line["update"] for line in runs.read_metrics(path)] == list(range(5, 81, 5))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_signal_to_one_ends_both_with_a_checkpoint(cache, tmp_path):
    """As a scheduler sends it, to whichever process it finds first; not to the one that writes."""
    path = tmp_path / "run"
    processes = pair(cache, *RUN, "--steps", 1_000_000, "--out", path)
    wait_for(lambda: (path / "metrics.jsonl").exists() and runs.read_metrics(path))
    processes[1].send_signal(signal.SIGTERM)
    first, second = finished(*processes)
    assert f"emphatic train --resume {path}" in first
    assert "--resume" not in second
    saved = checkpoints.latest(path / "checkpoints")
    assert saved.step == runs.read_metrics(path)[-1]["update"]


@pytest.mark.slow
def test_a_mistake_of_the_run_ends_both(cache, tmp_path):
    (tmp_path / "notes.txt").write_text("not a run")
    processes = pair(cache, *RUN, "--steps", 3200, "--out", tmp_path)
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [2, 1]
    assert "holds other things" in outputs[0]
    assert "process 0 could not open the run" in outputs[1]
    assert not any("Traceback" in output for output in outputs)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"coordinator": "127.0.0.1:1"}, "process"),
        ({"coordinator": "somewhere", "process": 0, "processes": 2}, "coordinator"),
        ({"coordinator": "here:12", "process": 2, "processes": 2}, "process"),
        ({"process": 0, "processes": 2}, "coordinator"),
    ],
)
def test_mistakes_are_named(given, field):
    with pytest.raises(UserError) as error:
        ProcessesConfig(**given)
    assert error.value.field == field
