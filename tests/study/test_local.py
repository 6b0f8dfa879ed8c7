"""Real studies on this machine: processes, a kill -9, a signal, two runners, MinAtar."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from emphatic import cli
from emphatic.runtime import runs
from emphatic.study import ledger, local, spec, work

COMPARED = ("metrics.jsonl", "episodes.jsonl", "evaluation.json")
NEW = ["--agents", "surreal", "netd-ace", "--seeds", 2, "--steps", 25_600, "--episodes", 8]
SHORT = ["--set", "log_every=10", "checkpoint_every=20"]


@pytest.fixture(scope="module")
def environ(tmp_path_factory):
    """Ours without what the tests want of XLA: studies run as a user's do."""
    cache = str(tmp_path_factory.mktemp("cache"))
    ours = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    return ours | {"EMPHATIC_CACHE": cache, "JAX_PLATFORMS": "cpu"}


@pytest.fixture(scope="module")
def start(environ):
    """`emphatic study ...` in a process of its own."""

    def start(*arguments, **more):
        return subprocess.Popen(
            [sys.executable, "-m", "emphatic", "study", *map(str, arguments)],
            env=environ | more,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


@pytest.fixture(scope="module")
def finished(start):
    """Exit code and output."""

    def finished(*arguments, **more):
        process = start(*arguments, **more)
        output, _ = process.communicate(timeout=500)
        return process.returncode, output

    return finished


@pytest.fixture(scope="module")
def calm(finished, tmp_path_factory):
    """A study that nothing disturbed."""
    folder = tmp_path_factory.mktemp("studies") / "calm"
    assert finished("new", folder, "--envs", "catch", *NEW, *SHORT)[0] == 0
    code, output = finished("run", folder)
    assert code == 0, output
    return folder


def results(folder):
    """Every byte that must not depend on who ran it, and how often."""
    return {
        (run.name, file): (ledger.run_folder(folder, run.name) / file).read_bytes()
        for run in spec.read(folder).runs
        for file in COMPARED
    }


def until(found, process, seconds=300):
    """What `found` returns once that is something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := found():
            return result
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)
    pytest.fail("waited too long")


def learning(folder, least=2):
    """Names of runs that a process has and whose metrics have begun, to its id."""
    found = {}
    for run in spec.read(folder).runs:
        log = ledger.run_folder(folder, run.name) / "metrics.jsonl"
        last = (ledger.attempts(folder, run.name) or [{}])[-1]
        began = log.exists() and log.read_bytes().count(b"\n") >= least
        if began and last.get("event") == "started":
            found[run.name] = last["pid"]
    return found


@pytest.mark.slow
def test_a_study_end_to_end(calm, finished):
    """Every run trained to its end and evaluated, its process pinned to one core."""
    for run in spec.read(calm).runs:
        path = ledger.run_folder(calm, run.name)
        config = runs.read_config(path)
        assert runs.read_metrics(path)[-1]["steps"] == 25_600
        assert config["seed"] == run.seed
        assert config["config"]["learner"]["agent"] == run.agent
        evaluation = json.loads((path / "evaluation.json").read_text())
        assert evaluation["episodes"] == 8
        assert evaluation["seed"] == run.seed
    before = results(calm), [ledger.attempts(calm, run.name) for run in spec.read(calm).runs]
    code, output = finished("run", calm)
    assert code == 0, output
    assert "started" not in output
    assert "4 done" in output
    assert before == (results(calm), [ledger.attempts(calm, r.name) for r in spec.read(calm).runs])


@pytest.mark.slow
def test_killed_stopped_and_shared_it_is_the_same_study(calm, start, finished, tmp_path):
    """A child killed -9, then a signal to the runner, then two runners at once."""
    folder = tmp_path / "shaken"
    assert finished("new", folder, "--envs", "catch", *NEW, *SHORT)[0] == 0
    running = start("run", folder, "--processes", 2)
    name, pid = next(iter(until(lambda: learning(folder), running).items()))
    os.kill(pid, signal.SIGKILL)
    until(lambda: len(ledger.attempts(folder, name)) > 2, running)
    until(lambda: len(learning(folder)) == 2, running)
    running.send_signal(signal.SIGTERM)
    output, _ = running.communicate(timeout=120)
    assert running.returncode == 1
    assert f"go on with emphatic study run {folder}" in output
    assert "ended by SIGKILL" in output
    assert not any(ledger.claimed(folder, run.name) for run in spec.read(folder).runs)

    both = [start("run", folder, "--processes", 1) for _ in range(2)]
    outputs = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert results(folder) == results(calm)
    for run in spec.read(folder).runs:
        events = [line["event"] for line in ledger.attempts(folder, run.name)]
        assert events.count("done") == 1
        assert events.count("started") == len(events) / 2, "never two at a time"


@pytest.mark.slow
def test_a_run_that_cannot_succeed_is_tried_and_reported(finished, tmp_path):
    """Its error in the summary, the status and the ledger; the others are done; exit code 1."""
    folder = tmp_path / "hurt"
    arguments = ["--envs", "catch", "--agents", "surreal", "--seeds", 2, "--steps", 640]
    assert finished("new", folder, *arguments, "--episodes", 2, "--retries", 1)[0] == 0
    (folder / "runs" / "catch-surreal-seed1").mkdir(parents=True)
    (folder / "runs" / "catch-surreal-seed1" / "thesis.tex").touch()
    code, output = finished("run", folder)
    assert code == 1
    assert "1 of 2 runs failed" in output
    assert "holds other things" in output
    events = [line["event"] for line in ledger.attempts(folder, "catch-surreal-seed1")]
    assert events == ["started", "failed"] * 2
    code, output = finished("status", folder)
    assert "1 done" in output
    assert "1 failed" in output
    assert "(tries: 2)" in output


@pytest.mark.slow
def test_children_leave_when_their_runner_is_gone(start, finished, tmp_path):
    """The runner killed -9: its child notices, writes a checkpoint and lets go of the run."""
    folder = tmp_path / "orphaned"
    arguments = ["--envs", "catch", "--agents", "surreal", "--seeds", 1, "--steps", 64_000_000]
    assert finished("new", folder, *arguments, *SHORT)[0] == 0
    running = start("run", folder, "--processes", 1)
    until(lambda: learning(folder), running)
    running.kill()
    running.communicate()
    deadline = time.monotonic() + 60
    while ledger.claimed(folder, "catch-surreal-seed0"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert ledger.attempts(folder, "catch-surreal-seed0")[-1]["event"] == "stopped"


@pytest.mark.slow
def test_two_games_two_agents_two_seeds(finished, environ, tmp_path):
    """MinAtar from `new` to `status`; what an evaluation says can be had again by hand."""
    folder = tmp_path / "minatar"
    games = ["minatar/breakout", "minatar/freeway"]
    arguments = ["--envs", *games, "--agents", "surreal", "netd-ace", "--seeds", 2]
    assert finished("new", folder, *arguments, "--steps", 6400, "--episodes", 2)[0] == 0
    code, output = finished("run", folder)
    assert code == 0, output
    assert "8 runs: 8 done; 100% of the steps" in output
    for game in games:
        assert f" {game} " in output
    assert "(2 seeds)" in output
    run = ledger.run_folder(folder, "minatar-breakout-netd-ace-seed1")
    written = (run / "evaluation.json").read_bytes()
    command = [sys.executable, "-m", "emphatic", "evaluate", run, "--episodes", "2", "--seed", "1"]
    flags = {"XLA_FLAGS": work.ONE_THREAD, "NPROC": "1"}
    subprocess.run(command, env=environ | flags, check=True, capture_output=True, timeout=300)
    assert (run / "evaluation.json").read_bytes() == written


def test_cores_are_dealt_out():
    assert local.shares([0, 1], 2, 1) == [[0], [1]]
    assert local.shares([0, 1], 3, 1) == [[0], [1], [0]]
    assert local.shares([2, 3, 5, 7, 11], 2, 2) == [[2, 3], [5, 7]]
    assert local.shares([0, 1], 1, 16) == [[0, 1]]


def test_a_run_computes_with_the_threads_of_its_study(monkeypatch):
    """Not with those of the place it happens to run at; what the user asked of XLA stays."""
    monkeypatch.setenv("NPROC", "64")
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=here")
    one = spec.Study(environments=("catch",), agents={"surreal": 1})
    four = dataclasses.replace(one, resources=spec.Resources(cpus=4.0))
    work.use_threads(four)
    assert os.environ["NPROC"] == "4"
    assert os.environ["XLA_FLAGS"] == "--xla_dump_to=here"
    work.use_threads(one)
    assert os.environ["NPROC"] == "1"
    assert os.environ["XLA_FLAGS"] == f"--xla_dump_to=here {work.ONE_THREAD}"
    half = dataclasses.replace(one, resources=spec.Resources(cpus=0.5))
    assert half.resources.threads == 1


CHILD = """
import sys
from pathlib import Path
from emphatic.study import ledger
folder = Path(sys.argv[1])
for event in sys.argv[3:]:
    facts = {"error": "it broke"} if event == "failed" else {}
    ledger.begin(folder, "a-run") if event == "started" else ledger.record(
        folder, "a-run", event, **facts
    )
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture
def ended(tmp_path, monkeypatch):
    """How the pool takes a process that says these events and exits with that code."""
    study = spec.Study(environments=("catch",), agents={"surreal": 1})

    def ended(code, *events, stopping=False):
        command = [sys.executable, "-c", CHILD, str(tmp_path), str(code), *events]
        monkeypatch.setattr(local, "_command", lambda folder, name: command)
        pool = local.LocalPool(tmp_path, study, 1)
        pool.start("a-run")
        pool._stopping = stopping
        found = []
        while not found:
            found = pool.ended()
        return found[0]

    return ended


@pytest.mark.parametrize(
    ("code", "events", "outcome", "last"),
    [
        (0, ("started", "done"), "done", "done"),
        (0, (), "done", "done"),
        (0, ("started",), "stopped", "stopped"),
        (130, ("started", "stopped"), "stopped", "stopped"),
        (143, ("started",), "failed", "failed"),
        (1, ("started", "failed"), "failed", "failed"),
        (1, ("started",), "failed", "failed"),
        (1, (), "failed", "failed"),
        (75, (), "busy", "done"),
    ],
)
def test_a_process_is_judged_by_this_attempt_alone(ended, tmp_path, code, events, outcome, last):
    """Not by what an earlier one left in the ledger: this one may have died before it began."""
    ledger.begin(tmp_path, "a-run")
    ledger.record(tmp_path, "a-run", "done")
    found = ended(code, *events)
    assert found.outcome == outcome
    lines = ledger.attempts(tmp_path, "a-run")
    assert lines[-1]["event"] == last
    assert lines[-1]["attempt"] == (1 if not events and outcome != "failed" else 2)
    if outcome == "failed":
        said = "it broke" if "failed" in events else f"exit code {code}: nothing was said"
        assert found.error == lines[-1]["error"] == said


def test_a_process_ended_while_the_runner_stops_has_not_failed(ended, tmp_path):
    assert ended(143, "started", stopping=True).outcome == "stopped"
    assert ledger.attempts(tmp_path, "a-run")[-1]["event"] == "stopped"


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path, capsys):
    """As on a full or read-only disk: exit code 1, no traceback."""
    folder = tmp_path / "toy"
    spec.create(folder, spec.Study(environments=("catch",), agents={"surreal": 1}))
    (folder / "logs").write_text("in the way")
    with pytest.raises(SystemExit) as stop:
        cli.main(["study", "run", str(folder)])
    assert stop.value.code == 1
    error = capsys.readouterr().err
    assert error.startswith(f"emphatic: cannot write {folder}: ")
    assert error.count("\n") == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot pin")
def test_a_process_is_pinned_to_its_core(tmp_path, monkeypatch):
    folder = tmp_path / "pinned"
    code = "import os, sys; print(sorted(os.sched_getaffinity(0)), flush=True); sys.exit(75)"
    monkeypatch.setattr(local, "_command", lambda folder, name: [sys.executable, "-c", code])
    (folder / "attempts").mkdir(parents=True)
    study = spec.Study(environments=("catch",), agents={"surreal": 1})
    pool = local.LocalPool(folder, study, 1)
    monkeypatch.setattr(pool, "_shares", [[local.cores()[-1]]])
    pool.start("a-run")
    ended = []
    while not ended:
        ended = pool.ended()
    assert ended[0].outcome == "busy"
    assert ledger.log_file(folder, "a-run").read_text() == f"[{local.cores()[-1]}]\n"
