"""Which run is next: order, tries, needs, claims, stops; with a pool that only pretends."""

import dataclasses
import json
import os
import signal

import pytest

from emphatic.errors import Stopped, UserError
from emphatic.runtime import configs
from emphatic.study import ledger, runner, spec, work
from emphatic.study.runner import Ended, Runner
from emphatic.study.spec import RunSpec, Study

STUDY = Study(
    environments=("catch",), agents={"surreal": 2, "netd-ace": 2, "surreal-constant": 1}, steps=640
)


def finish(folder, study, name, constant=1.0):
    """Leave behind what a finished run leaves."""
    config = spec.config(study, study.run(name), constant=constant)
    path = ledger.run_folder(folder, name)
    path.mkdir(parents=True, exist_ok=True)
    document = {"format": 1, "config": configs.to_json(config), "environment": {}, "seed": 0}
    (path / "config.json").write_text(json.dumps(document))
    (path / "metrics.jsonl").write_text('{"update":2,"steps":640,"emphasis":[1.0,1.5,2.5]}\n')
    evaluation = {"update": config.num_updates, "episodes": study.episodes, "mean": 1.0}
    (path / "evaluation.json").write_text(json.dumps(evaluation))


class Pretended:
    """A pool of two places where runs end when asked for, as `script` says."""

    def __init__(self, folder, study, script=None, tries=2, places=2):
        self.folder, self.study, self.script = folder, study, script or {}
        self.tries, self.places = tries, places
        self.running, self.started, self.asked = [], [], 0

    def free(self):
        return self.places - len(self.running)

    def start(self, name):
        self.started.append(name)
        self.running.append(name)

    def ended(self):
        self.asked += 1
        if not self.running:
            return []
        name = self.running.pop(0)
        outcomes = self.script.get(name, [])
        outcome = outcomes.pop(0) if outcomes else "done"
        if outcome == "done":
            constant = 2.0 if "constant" in name else 1.0
            finish(self.folder, self.study, name, constant)
        return [Ended(name, outcome, "it broke" if outcome == "failed" else "")]

    def stop(self):
        names, self.running = self.running, []
        return [Ended(name, "stopped") for name in names]


@pytest.fixture
def said():
    return []


def through(folder, pool, said, study=STUDY, **options):
    return Runner(folder, study, pool, lambda *words: said.append(words)).run(**options)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(runner, "LOOK_AGAIN", 0.0)


def test_every_run_is_run_once_and_a_control_last(tmp_path, said):
    pool = Pretended(tmp_path, STUDY)
    summary = through(tmp_path, pool, said)
    assert summary == (5, {}, False)
    assert sorted(pool.started) == sorted(run.name for run in STUDY.runs)
    assert pool.started[-1] == "catch-surreal-constant-seed0"


def test_a_second_time_runs_nothing(tmp_path, said):
    through(tmp_path, Pretended(tmp_path, STUDY), said)
    pool = Pretended(tmp_path, STUDY)
    assert through(tmp_path, pool, said) == (5, {}, False)
    assert pool.started == []


def test_added_seeds_are_all_that_is_run(tmp_path, said):
    through(tmp_path, Pretended(tmp_path, STUDY), said)
    more = spec.extended(STUDY, agents=["surreal"], seeds=4)
    pool = Pretended(tmp_path, more)
    through(tmp_path, pool, said, study=more)
    assert pool.started == ["catch-surreal-seed2", "catch-surreal-seed3"]


def test_a_failed_run_is_tried_again_as_often_as_stated(tmp_path, said):
    script = {"catch-surreal-seed0": ["failed"], "catch-surreal-seed1": ["failed"] * 9}
    pool = Pretended(tmp_path, STUDY, script, tries=3)
    summary = through(tmp_path, pool, said)
    assert summary.done == 4
    assert summary.failed == {"catch-surreal-seed1": "it broke"}
    assert pool.started.count("catch-surreal-seed0") == 2
    assert pool.started.count("catch-surreal-seed1") == 3


def test_what_needs_a_failed_run_is_kept_back_and_said(tmp_path, said):
    pool = Pretended(tmp_path, STUDY, {"catch-netd-ace-seed1": ["failed"] * 2})
    summary = through(tmp_path, pool, said)
    control = "catch-surreal-constant-seed0"
    assert control not in pool.started
    assert summary.failed[control] == "needs catch-netd-ace-seed1, which failed"
    assert ("kept", f"{control}: {summary.failed[control]}") in said


def test_a_run_that_another_has_is_left_to_it_then_taken_over(tmp_path, said):
    """Nothing is run twice at a time; when the other is gone without finishing, it is ours."""
    name = "catch-surreal-seed0"
    pool = Pretended(tmp_path, STUDY)
    with ledger.claim(tmp_path, name):

        def tick():
            assert name not in pool.started
            if pool.asked == 12:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            through(tmp_path, pool, said, tick=tick)
    assert ("elsewhere", name) in said
    assert len(pool.started) == 4
    pool = Pretended(tmp_path, STUDY)
    assert through(tmp_path, pool, said).done == 5
    assert pool.started == [name]


def test_a_run_that_another_finished_meanwhile_is_done(tmp_path, said):
    name = "catch-surreal-seed0"
    pool = Pretended(tmp_path, STUDY)
    claim = ledger.claim(tmp_path, name)
    claim.__enter__()

    def tick():
        if pool.asked == 9:
            finish(tmp_path, STUDY, name)
            claim.__exit__(None, None, None)

    assert through(tmp_path, pool, said, tick=tick) == (5, {}, False)
    assert name not in pool.started


def test_a_busy_run_waits_for_its_turn(tmp_path, said):
    """Two runners that start the same run at the same moment: the loser tries later."""
    pool = Pretended(tmp_path, STUDY, {"catch-surreal-seed0": ["busy", "busy"]})
    assert through(tmp_path, pool, said) == (5, {}, False)
    assert pool.started.count("catch-surreal-seed0") == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_pool_and_leaves(tmp_path, said, number):
    pool = Pretended(tmp_path, STUDY)

    def tick():
        if len(pool.started) == 3:
            os.kill(os.getpid(), number)

    summary = through(tmp_path, pool, said, tick=tick)
    assert summary.stopped
    assert pool.running == []
    assert len(pool.started) == 3
    assert summary.failed == {}


def test_a_constant_is_the_mean_emphasis_and_stays(tmp_path):
    """Of all seeds of the other agent on that environment; seeds added later do not move it."""
    control = RunSpec("catch", "surreal-constant", 0)
    with pytest.raises(UserError, match="takes its constant from catch-netd-ace-seed0"):
        work.configured(tmp_path, STUDY, control)
    for seed in (0, 1):
        finish(tmp_path, STUDY, f"catch-netd-ace-seed{seed}")
    path = ledger.run_folder(tmp_path, "catch-netd-ace-seed1") / "metrics.jsonl"
    path.write_text('{"update":2,"steps":640,"emphasis":[1.0,3.0,3.0]}\n')
    config = work.configured(tmp_path, STUDY, control)
    assert config.learner.constant == 2.5
    finish(tmp_path, STUDY, control.name, constant=2.5)
    path.write_text('{"update":2,"steps":640,"emphasis":[1.0,9.0,9.0]}\n')
    other = dataclasses.replace(STUDY, agents=STUDY.agents | {"surreal-constant": 2})
    config = work.configured(tmp_path, other, RunSpec("catch", "surreal-constant", 1))
    assert config.learner.constant == 2.5


def test_runs_of_another_configuration_are_refused(tmp_path):
    finish(tmp_path, STUDY, "catch-surreal-seed0")
    runner.refuse_changed(tmp_path, STUDY)
    longer = dataclasses.replace(STUDY, steps=1280)
    with pytest.raises(UserError, match=r"is 640 in .*catch-surreal-seed0") as error:
        runner.refuse_changed(tmp_path, longer)
    assert error.value.field == "steps"


def test_attempts_are_counted_and_a_silent_end_is_noticed(tmp_path):
    with ledger.claim(tmp_path, "a-run"):
        ledger.begin(tmp_path, "a-run")
        ledger.begin(tmp_path, "a-run")
        ledger.record(tmp_path, "a-run", "failed", error="it broke")
    lines = ledger.attempts(tmp_path, "a-run")
    assert [(line["attempt"], line["event"]) for line in lines] == [
        (1, "started"),
        (1, "lost"),
        (2, "started"),
        (2, "failed"),
    ]


def test_a_claim_is_for_one_and_ends_with_it(tmp_path):
    with ledger.claim(tmp_path, "a-run"):
        assert ledger.claimed(tmp_path, "a-run")
        with pytest.raises(ledger.Busy), ledger.claim(tmp_path, "a-run"):
            pass
    assert not ledger.claimed(tmp_path, "a-run")
    with ledger.claim(tmp_path, "a-run"):
        pass


def test_states(tmp_path):
    def state(done=False):
        return ledger.state(tmp_path, "a-run", done=done)

    assert state() == "waiting"
    with ledger.claim(tmp_path, "a-run"):
        ledger.begin(tmp_path, "a-run")
        assert state() == "running"
    assert state() == "stopped"
    ledger.record(tmp_path, "a-run", "failed", error="it broke")
    assert state() == "failed"
    assert state(done=True) == "done"


def test_a_torn_line_hides_no_other(tmp_path):
    """A disk that was full, or a machine that went away while a line was written."""
    with ledger.claim(tmp_path, "a-run"):
        ledger.begin(tmp_path, "a-run")
        ledger.record(tmp_path, "a-run", "failed", error="it broke")
    file = tmp_path / "attempts" / "a-run.jsonl"
    with file.open("ab") as torn:
        torn.write(b'{"attempt":2,"ev')
    assert [line["event"] for line in ledger.attempts(tmp_path, "a-run")] == ["started", "failed"]
    ledger.begin(tmp_path, "a-run")
    ledger.record(tmp_path, "a-run", "done")
    events = [(line["attempt"], line["event"]) for line in ledger.attempts(tmp_path, "a-run")]
    assert events == [(1, "started"), (1, "failed"), (2, "started"), (2, "done")]


@pytest.mark.parametrize("line", ["[" * 100_000, "3", "{}", '{"attempt":"x","event":"done"}'])
def test_lines_that_no_attempt_wrote_are_passed_over(tmp_path, line):
    with ledger.claim(tmp_path, "a-run"):
        ledger.begin(tmp_path, "a-run")
    with (tmp_path / "attempts" / "a-run.jsonl").open("a") as file:
        file.write(f"{line}\n")
    assert [line["event"] for line in ledger.attempts(tmp_path, "a-run")] == ["started"]


def test_a_disk_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "attempts").write_text("in the way")
    sentence = f"cannot write {tmp_path}: .*; with that mended, emphatic study run {tmp_path} goes"
    with pytest.raises(Stopped, match=sentence), ledger.claim(tmp_path, "a-run"):
        pass
    with pytest.raises(Stopped, match=sentence):
        ledger.record(tmp_path, "a-run", "started")
