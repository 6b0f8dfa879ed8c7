"""A run folder: nothing logged is lost or doubled, and nothing foreign is written over."""

import json
import multiprocessing
import os
import stat
from unittest import mock

import jax.numpy as jnp
import numpy as np
import pytest

from emphatic.errors import UserError
from emphatic.runtime import files, runs
from emphatic.runtime.checkpoints import DamagedCheckpointWarning

CONFIG = {"agent": "netd-ace", "unroll": {"length": 10, "streams": 32}, "clips": (1.0, 1.0)}


def create(path, **changes):
    given = {
        "config": CONFIG,
        "environment": {"name": "catch", "balls": 1},
        "seed": 3,
        "command": ["emphatic", "train"],
        "created": "2021-06-21T12:00:00Z",
    }
    given |= changes
    return runs.Run.create(path, given.pop("config"), **given)


@pytest.fixture(autouse=True)
def _fast_disk(monkeypatch):
    """These tests are about order and content; test_checkpoints syncs for real."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def train(run, start, end, every=5):
    """A run of updates whose state is a number: logs, and a checkpoint now and then."""
    for update in range(start, end):
        run.metrics.append({"update": update, "loss": np.float32(np.sin(update))})
        if update % 3 == 0:
            run.episodes.append(*({"update": update, "return": r} for r in range(update % 4)))
        run.timing.append({"update": update, "seconds": 0.5})
        if (update + 1) % every == 0:
            run.save(update + 1, {"updates": update + 1}, {"frames": update * 4})


def kill(run):
    """As the process's end leaves it: a line in part, the lock gone, nothing synced."""
    files.write(run.metrics._file, b'{"update":99,"lo')
    for file in (run.metrics, run.episodes, run.timing, run._lock):
        file.close()


def logs(path):
    return {name: (path / name).read_bytes() for name in runs.LOGS}


def resumed(path):
    run, checkpoint = runs.Run.resume(path)
    return run, checkpoint.restore({"updates": 0})["updates"] if checkpoint else 0


def test_a_run_says_what_it_is(tmp_path):
    with create(tmp_path / "deep" / "run") as run:
        document = runs.read_config(run.path)
    assert document["config"] == {**CONFIG, "clips": [1.0, 1.0]}
    assert document["environment"] == {"name": "catch", "balls": 1}
    assert (document["seed"], document["command"]) == (3, ["emphatic", "train"])
    assert {"python", "jax", "numpy", "pgx"} <= document["versions"].keys()


def test_the_same_run_has_the_same_config(tmp_path):
    for name in "ab":
        create(tmp_path / name).close()
    assert (tmp_path / "a/config.json").read_bytes() == (tmp_path / "b/config.json").read_bytes()


@pytest.mark.parametrize("kills", [[3], [5], [12, 13], [1, 7, 7, 16, 19]])
def test_killed_and_resumed_is_the_same_to_the_byte(tmp_path, kills):
    """Whatever was logged after the last checkpoint is cut off and written again."""
    with create(tmp_path / "whole") as run:
        train(run, 0, 20)
    run, start = create(tmp_path / "killed"), 0
    for end in kills:
        train(run, start, end)
        kill(run)
        run, start = resumed(tmp_path / "killed")
        assert start == end - end % 5
    train(run, start, 20)
    run.close()
    assert logs(tmp_path / "killed") == logs(tmp_path / "whole")
    assert [line["update"] for line in runs.read_metrics(tmp_path / "killed")] == [*range(20)]
    assert len(runs.read_episodes(tmp_path / "killed")) == sum(u % 4 for u in range(0, 20, 3))


def test_a_damaged_checkpoint_costs_what_came_after_the_one_before(tmp_path):
    with create(tmp_path / "whole") as run:
        train(run, 0, 20)
    with create(tmp_path / "run") as run:
        train(run, 0, 12)
    (tmp_path / "run/checkpoints/000000000010/arrays.bin").write_bytes(b"")
    with pytest.warns(DamagedCheckpointWarning, match="000000000010"):
        run, start = resumed(tmp_path / "run")
    assert start == 5
    with run:
        train(run, start, 20)
    assert logs(tmp_path / "run") == logs(tmp_path / "whole")


def test_a_log_shorter_than_its_checkpoint_says_is_a_clean_stop(tmp_path):
    with create(tmp_path / "run") as run:
        train(run, 0, 10)
    (tmp_path / "run/metrics.jsonl").write_bytes(b"")
    with pytest.raises(UserError, match=r"metrics\.jsonl has 0 bytes"):
        runs.Run.resume(tmp_path / "run")
    # The lock is free again: the same error, not another one.
    with pytest.raises(UserError, match=r"metrics\.jsonl has 0 bytes"):
        runs.Run.resume(tmp_path / "run")


def test_numbers_json_has_no_words_for(tmp_path):
    record = {
        "nan": float("nan"),
        "inf": np.float32(np.inf),
        "minus": -np.inf,
        "float32": np.float32(0.1),
        "bfloat16": jnp.bfloat16(1.5),
        "array": jnp.arange(3),
        "word": "one",
    }
    with create(tmp_path / "run") as run:
        run.metrics.append(record)
    (line,) = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    strict = json.loads(line, parse_constant=lambda word: pytest.fail(word))
    assert strict["nan"] is None
    (back,) = runs.read_metrics(tmp_path / "run")
    assert np.isnan(back.pop("nan"))
    assert back == {
        "inf": np.inf,
        "minus": -np.inf,
        "float32": float(np.float32(0.1)),
        "bfloat16": 1.5,
        "array": [0, 1, 2],
        "word": "one",
    }


def test_a_torn_last_line_is_left_out_and_a_damaged_one_named(tmp_path):
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b'{"a":1}\n{"a":2}\n{"a":')
    assert runs.read_metrics(tmp_path) == [{"a": 1}, {"a": 2}]
    file.write_bytes(b'{"a":1}\n{"a":\n{"a":3}\n')
    with pytest.raises(UserError, match="line 2"):
        runs.read_metrics(tmp_path)
    file.write_bytes(b"")
    assert runs.read_metrics(tmp_path) == []
    file.unlink()
    with pytest.raises(UserError, match="cannot be read"):
        runs.read_metrics(tmp_path)


@pytest.mark.parametrize("written", [0, 7])
def test_a_full_disk_does_not_tear_a_log(tmp_path, written):
    """Part of a line is taken back, and the next line is where it should be."""

    def full(file, data):
        file.write(bytes(data)[:written])
        raise OSError(28, "No space left on device")

    with create(tmp_path / "run") as run:
        run.metrics.append({"update": 0})
        with (
            mock.patch.object(files, "write", full),
            pytest.raises(OSError, match="No space"),
        ):
            run.metrics.append({"update": 1})
        assert (tmp_path / "run/metrics.jsonl").read_bytes() == b'{"update":0}\n'
        with (
            mock.patch.object(files, "write", full),
            mock.patch.object(files, "truncate", side_effect=OSError(5, "Input/output error")),
            pytest.raises(OSError, match="No space"),
        ):
            run.metrics.append({"update": 1})
        run.metrics.append({"update": 1})
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == b'{"update":0}\n{"update":1}\n'


def test_a_checkpoint_that_fails_leaves_the_run_going(tmp_path):
    with create(tmp_path / "run") as run:
        train(run, 0, 7)
        with (
            mock.patch.object(files, "rename", side_effect=OSError(28, "No space")),
            pytest.raises(OSError, match="No space"),
        ):
            run.save(7, {"updates": 7})
        train(run, 7, 8)
    run, start = resumed(tmp_path / "run")
    with run:
        assert start == 5


@pytest.mark.parametrize(
    ("config", "field", "said"),
    [
        (CONFIG, "run", "exists; go on with it"),
        ({**CONFIG, "agent": "surreal"}, "agent", "'netd-ace' in the run that is there"),
        ({**CONFIG, "unroll": {"length": 20, "streams": 32}}, "unroll.length", "not 20"),
        ({**CONFIG, "unroll": {"length": 10}}, "unroll.streams", "only"),
        ({**CONFIG, "n": 4}, "n", "only"),
        ({**CONFIG, "clips": (1.0, 2.0)}, "clips", "[1.0, 1.0]"),
    ],
)
def test_an_existing_run_is_not_written_over(tmp_path, config, field, said):
    with create(tmp_path / "run") as run:
        train(run, 0, 6)
    before = logs(tmp_path / "run")
    with pytest.raises(UserError) as error:
        create(tmp_path / "run", config=config)
    assert error.value.field == field
    assert said in error.value.problem
    if config != CONFIG:
        with pytest.raises(UserError) as error:
            runs.Run.resume(tmp_path / "run", config)
        assert error.value.field == field
    assert logs(tmp_path / "run") == before


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(UserError, match="holds other things"):
        create(tmp_path)
    with pytest.raises(UserError, match="is a file"):
        create(tmp_path / "thesis.tex")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_what_a_kill_at_creation_leaves_does_not_block(tmp_path):
    (tmp_path / "run").mkdir()
    for name in ("lock", ".config.json.tmp"):
        (tmp_path / "run" / name).write_text("{")
    create(tmp_path / "run").close()


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path):
    with (
        mock.patch.object(files, "make_folder", side_effect=OSError(30, "Read-only file system")),
        pytest.raises(UserError, match=r"cannot write .*: Read-only"),
    ):
        create(tmp_path / "run")


@pytest.mark.parametrize(
    "content", [None, "", "[]", "{}", '{"format": 2}', '{"format": 1, "config": 3}', "\x00"]
)
def test_no_run_folder_is_a_sentence(tmp_path, content):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    for ask in (runs.read_config, runs.Run.resume):
        with pytest.raises(UserError) as error:
            ask(tmp_path)
        assert error.value.field == "run"


def _try(path, queue):
    try:
        run, _ = runs.Run.resume(path)
        run.close()
        queue.put("open")
    except UserError as error:
        queue.put(str(error))


def test_two_processes_do_not_write_one_run(tmp_path):
    context = multiprocessing.get_context("forkserver")
    queue = context.Queue()

    def other():
        process = context.Process(target=_try, args=(tmp_path / "run", queue))
        process.start()
        answer = queue.get(timeout=60)
        process.join()
        return answer

    with create(tmp_path / "run") as run:
        run.save(1, {"updates": 1})
        assert "another process is writing" in other()
        with pytest.raises(UserError, match="another process"):
            runs.Run.resume(tmp_path / "run")
    assert other() == "open"


def test_an_evaluation_is_there_whole_or_not_at_all(tmp_path):
    runs.write_evaluation(tmp_path, {"mean": np.float32(1.5), "returns": [1.0, 2.0]})
    before = (tmp_path / "evaluation.json").read_bytes()
    assert json.loads(before) == {"mean": 1.5, "returns": [1.0, 2.0]}
    for name in ("write", "sync", "rename"):
        with (
            mock.patch.object(files, name, side_effect=OSError(28, "No space left")),
            pytest.raises(UserError, match="No space left"),
        ):
            runs.write_evaluation(tmp_path, {"mean": 2.0})
        assert (tmp_path / "evaluation.json").read_bytes() == before
    runs.write_evaluation(tmp_path, {"mean": 2.0})
    assert json.loads((tmp_path / "evaluation.json").read_bytes()) == {"mean": 2.0}


def test_files_have_ordinary_permissions(tmp_path):
    mask = os.umask(0o022)
    try:
        with create(tmp_path / "run") as run:
            train(run, 0, 5)
    finally:
        os.umask(mask)
    for path in (tmp_path / "run").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644), path


def test_tensorboard_mirrors_the_metrics(tmp_path):
    with create(tmp_path / "run") as run:
        for step in range(3):
            run.plot(step, {"loss": np.float32(step), "return": 1.0})
    (events,) = (tmp_path / "run/tensorboard").iterdir()
    data = events.read_bytes()
    assert data.count(b"loss") == data.count(b"return") == 3
