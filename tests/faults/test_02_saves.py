"""Promise 2: whatever fails inside a save, the newest complete checkpoint loads."""

import contextlib
import os
import shutil
import warnings

import numpy as np
import pytest
from disk import Faulty, Killed
from promises import PROMISES
from trees import assert_same

from emphatic.runtime import checkpoints
from emphatic.runtime.checkpoints import DamagedCheckpointWarning


def small(value):
    return {"w": np.arange(5.0) + value, "b": np.float32(value), "count": value}


ERRORS = {
    "killed": (Killed(), True),
    "disk full once": (OSError(28, "No space left on device"), False),
    "disk full for good": (OSError(28, "No space left on device"), True),
}
KEEPS = (1, 3)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    """Of this disk; `Faulty` says itself what was synced and what was not."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def three(tmp_path):
    """A folder with three checkpoints."""
    for step in (1, 2, 3):
        checkpoints.save(tmp_path / "before", step=step, tree=small(step))
    return tmp_path / "before"


def operations(three, keep):
    """How many a save takes."""
    folder = shutil.copytree(three, three.parent / f"counted{keep}")
    with Faulty(0, Killed()) as faulty:
        checkpoints.save(folder, step=4, tree=small(4), keep=keep)
    return faulty.count


def test_a_fault_at_any_operation_loses_nothing(tally, three, tmp_path):
    """Before the rename the one before is newest, after it the new one; never a part."""
    counts = {keep: operations(three, keep) for keep in KEEPS}
    each = [(k, keep, i + 1) for k in ERRORS for keep in KEEPS for i in range(counts[keep])]
    seen = set()
    for case in tally.cases(2, "operation"):
        kind, keep, at = each[case]
        error, stays = ERRORS[kind]
        folder = shutil.copytree(three, tmp_path / f"{case}")
        with contextlib.suppress(OSError), Faulty(at, error, stays=stays) as faulty:
            checkpoints.save(folder, step=4, tree=small(4), keep=keep)
        assert faulty.count >= at
        faulty.power_failure(folder)
        with warnings.catch_warnings():
            warnings.simplefilter("error", DamagedCheckpointWarning)
            found = checkpoints.latest(folder)
        assert found.step in (3, 4)
        for path in folder.glob("0*"):  # Nothing in part under a name that counts.
            checkpoints.read(path)
        assert_same(found.restore(small(0)), small(found.step))
        seen.add(found.step)
        # Later saves work, and leave nothing behind of the one that failed.
        checkpoints.save(folder, step=5, tree=small(5), keep=2)
        assert checkpoints.latest(folder).step == 5
        assert not [p.name for p in folder.iterdir() if p.name.startswith(".")]
    assert seen in ({3, 4}, set())
    assert len(each) == PROMISES[2].parts["operation"].full
