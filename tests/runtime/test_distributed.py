"""Two processes on loopback are one run; when one is killed the other says so and ends."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from emphatic.errors import UserError
from emphatic.runtime import checkpoints, distributed, runs
from emphatic.runtime.actors import ActorsConfig
from emphatic.runtime.distributed import ProcessesConfig
from emphatic.runtime.signals import Stop

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


def left(monkeypatch, error):
    """The exit code of a process of two whose work raises `error`."""

    class Left(BaseException):
        """The process would have ended here."""

    def leave(code):
        raise Left(code)

    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(distributed.os, "_exit", leave)
    with pytest.raises(Left) as end, distributed.together():
        raise error
    return end.value.args[0]


@pytest.mark.parametrize(
    "error",
    [
        jax.errors.JaxRuntimeError(
            "UNKNOWN: Gloo all-reduce failed: Connection closed by peer [127.0.0.1]:23"
        ),
        ValueError("[external/gloo/gloo/transport/tcp/pair.cc:547] Connection reset by peer"),
        jax.errors.JaxRuntimeError("UNAVAILABLE: failed to connect to all addresses"),
        jax.errors.JaxRuntimeError("INTERNAL: NCCL operation ncclGroupEnd() failed: remote error"),
        jax.errors.JaxRuntimeError("DEADLINE_EXCEEDED: Barrier timed out. Id: shutdown"),
    ],
    ids=str,
)
def test_the_end_of_another_process_is_said_as_that(error, monkeypatch, capsys):
    assert left(monkeypatch, error) == 1
    said = capsys.readouterr().err
    assert "process 0 lost another process of the run" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "error",
    [
        jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 17 bytes."),
        jax.errors.JaxRuntimeError("INTERNAL: NCCL failed: Cuda failure 2 'out of memory'"),
        jax.errors.JaxRuntimeError("INVALID_ARGUMENT: optimization_barrier has no operand"),
        ValueError("Incompatible shapes for broadcasting: (3,) and (4,)"),
        TypeError("gloo is no number"),
    ],
    ids=str,
)
def test_what_is_wrong_here_is_blamed_on_nobody(error, monkeypatch, capsys):
    """Its own text, and where it was raised."""
    assert left(monkeypatch, error) == 1
    said = capsys.readouterr().err
    assert "lost another process" not in said
    assert "Traceback" in said
    assert str(error) in said


def test_one_that_was_asked_to_stop_asks_all(monkeypatch):
    reader, writer = os.pipe()
    stop = Stop(writer)
    assert not distributed.stops(stop)
    monkeypatch.setattr(distributed, "agreed", lambda flag: True)
    assert distributed.stops(stop)
    assert stop.asked
    assert os.read(reader, 1), "its patience begins"


PAGE = (Path(__file__).parents[2] / "docs" / "distributed.md").read_text(encoding="utf-8")
BLOCKS = [b for b in re.findall(r"(?:^    .*\n|^\n)+", PAGE, re.M) if "--num-streams" in b]


def number(pattern, text, default):
    found = re.search(pattern, text)
    return int(found[1]) if found else default


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_jobs_of_the_docs_can_start(block):
    """Streams, processes, devices and threads divide one another."""
    slurm = number(r"--nodes=(\d+)", block, 1) * number(r"--ntasks-per-node=(\d+)", block, 1)
    # A slice of a TPU has as many processes as it has workers: any power of two up to eight.
    processes = 8 if "--worker=all" in block else number(r"--processes (\d+)", block, slurm)
    streams, devices = (
        number(r"--num-streams (\d+)", block, 0),
        number(r"--devices (\d+)", block, 1),
    )
    threads = number(r"--actors.threads (\d+)", block, ActorsConfig().threads)
    assert streams % (processes * devices) == 0
    assert streams // processes % threads == 0
    assert max(threads, devices) % min(threads, devices) == 0


def test_all_jobs_of_the_docs_were_found():
    assert len(BLOCKS) == 4
