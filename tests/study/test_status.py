"""The table of a study: counts, progress, speed, time left, the best so far, errors."""

import dataclasses
import io
import json

import pytest
from rich.console import Console

from emphatic import cli
from emphatic.study import ledger, spec, status
from emphatic.study.spec import Study

STUDY = Study(
    environments=("catch", "minatar/asterix"), agents={"surreal": 2, "netd": 1}, steps=6400
)


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def leave(folder, name, update, seconds=(), mean=None):
    """A run folder that has come to an update."""
    path = ledger.run_folder(folder, name)
    path.mkdir(parents=True)
    metrics = [
        {"update": u, "steps": 320 * u, "return": None if u == update else u / 10}
        for u in range(1, update + 1)
    ]
    (path / "metrics.jsonl").write_text(lines(*metrics) + '{"cut sho')
    timing = [{"update": u, "seconds": s} for u, s in seconds]
    (path / "timing.jsonl").write_text(lines(*timing))
    if mean is not None:
        document = {"update": update, "episodes": 100, "mean": mean}
        (path / "evaluation.json").write_text(json.dumps(document))


@pytest.fixture
def folder(tmp_path):
    """Two done, one running, one failed, two that wait."""
    folder = tmp_path / "studies" / "toy"
    spec.create(folder, STUDY)
    leave(folder, "catch-surreal-seed0", 20, mean=0.5)
    leave(folder, "catch-surreal-seed1", 20, mean=0.7)
    # Resumed: the second process counts its seconds from 0, two updates a second.
    leave(folder, "catch-netd-seed0", 10, [(1, 50.0), (6, 99.0), (8, 2.0), (9, 2.5), (10, 3.0)])
    (folder / "attempts").mkdir()
    ledger.begin(folder, "minatar-asterix-netd-seed0")
    ledger.record(folder, "minatar-asterix-netd-seed0", "failed", error="OSError: [red]full[/red]")
    with ledger.claim(folder, "catch-netd-seed0"):
        ledger.begin(folder, "catch-netd-seed0")
        yield folder


def test_each_run_is_where_it_is(folder):
    found = {s.run.name: s for s in status.Reader(folder, STUDY)()}
    assert {name: s.state for name, s in found.items()} == {
        "catch-surreal-seed0": "done",
        "catch-surreal-seed1": "done",
        "catch-netd-seed0": "running",
        "minatar-asterix-surreal-seed0": "waiting",
        "minatar-asterix-surreal-seed1": "waiting",
        "minatar-asterix-netd-seed0": "failed",
    }
    assert found["catch-surreal-seed1"].score == 0.7
    running = found["catch-netd-seed0"]
    assert running.steps == 3200
    assert running.score == 0.9
    assert running.rate == pytest.approx(2 * 320)
    assert found["minatar-asterix-netd-seed0"].error == "OSError: [red]full[/red]"


def test_time_left_is_steps_left_over_speed(folder):
    """3,200 of the one that runs, 3 x 6,400 of those that do not; 640 steps a second."""
    statuses = status.Reader(folder, STUDY)()
    assert status.remaining(STUDY, statuses) == pytest.approx((3200 + 3 * 6400) / 640)
    resting = [dataclasses.replace(s, rate=None) for s in statuses]
    assert status.remaining(STUDY, resting) is None


def test_the_best_agent_is_said_with_what_it_rests_on(folder):
    statuses = status.Reader(folder, STUDY)()
    assert status.best(statuses) == "surreal 0.6 ± 0.1 (2 seeds)"
    assert status.best(s for s in statuses if s.run.environment != "catch") == "-"


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_table_fits_and_says_it_all(folder, width, monkeypatch, capsys):
    """One shot where output is no terminal; names and errors are printed as they are."""
    monkeypatch.setenv("COLUMNS", str(width))
    cli.main(["study", "status", str(folder)])
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    flat = " ".join(out.split())
    assert "toy: 6 runs: 2 done, 1 running, 2 waiting, 1 failed; 42% of the steps" in flat
    assert "35 s left" in flat
    assert "surreal 0.6 ± 0.1 (2 seeds)" in flat
    assert "50% 0.9 640" in flat
    assert "failed: minatar-asterix-netd-seed0 (tries: 1): OSError: [red]full[/red]" in flat
    assert "\x1b" not in out


def test_on_a_terminal_it_is_renewed_until_nothing_runs(folder, monkeypatch):
    """Each look reads the folder again; here the run ends after the second."""
    monkeypatch.setattr(status, "PAUSE", 0.0)
    monkeypatch.setattr(status, "PATIENCE", 1)
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=30)
    looks = []
    whole = status.counts

    def counted(statuses):
        statuses = list(statuses)
        if len(statuses) == len(STUDY.runs):
            looks.append(statuses)
            if len(looks) > 6:
                statuses = [dataclasses.replace(s, state="done") for s in statuses]
        return whole(statuses)

    monkeypatch.setattr(status, "counts", counted)
    status.watch(folder, STUDY, console, once=False)
    assert "1 running" in console.file.getvalue()
    assert len(looks) > 6


def test_a_long_list_leaves_room(folder):
    """A terminal of few lines shows some of what runs, not all."""
    statuses = list(status.Reader(folder, STUDY)())
    many = statuses + [s for s in statuses if s.state == "running"] * 50
    console = Console(file=io.StringIO(), width=100)
    console.print(status.shown("toy", STUDY, many, rows=30))
    assert len(console.file.getvalue().splitlines()) <= 30


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(5.4, "5 s"), (90, "2 min"), (7260, "2 h 01 min"), (3 * 86400 + 7300, "3 d 2 h")],
)
def test_durations(seconds, words):
    assert status.duration(float(seconds)) == words
