"""Promise 3: whatever happens to the bytes of a checkpoint, they are never used."""

import shutil

import numpy as np
import pytest
from trees import assert_same, tree

from emphatic.errors import UserError
from emphatic.runtime import checkpoints
from emphatic.runtime.checkpoints import DamagedCheckpointError, DamagedCheckpointWarning


def flip(rng, path, other):
    """One bit of one file."""
    file = path / rng.choice([checkpoints.ARRAYS, checkpoints.MANIFEST])
    data = bytearray(file.read_bytes())
    place = rng.integers(len(data))
    data[place] ^= 1 << rng.integers(8)
    file.write_bytes(data)


def overwrite(rng, path, other):
    """A run of bytes of one file, by others."""
    file = path / rng.choice([checkpoints.ARRAYS, checkpoints.MANIFEST])
    data = bytearray(file.read_bytes())
    start = rng.integers(len(data) - 16)
    old = bytes(data[start : start + 16])
    data[start : start + 16] = bytes(b ^ 255 for b in old)
    file.write_bytes(data)


def cut(rng, path, other):
    """The end of one file is missing."""
    file = path / rng.choice([checkpoints.ARRAYS, checkpoints.MANIFEST])
    data = file.read_bytes()
    file.write_bytes(data[: rng.integers(len(data))])


def extend(rng, path, other):
    """Something stands behind one file."""
    file = path / rng.choice([checkpoints.ARRAYS, checkpoints.MANIFEST])
    file.write_bytes(file.read_bytes() + rng.bytes(rng.integers(1, 40)))


def delete(rng, path, other):
    """One file is gone."""
    (path / rng.choice([checkpoints.ARRAYS, checkpoints.MANIFEST])).unlink()


def swap(rng, path, other):
    """One file is that of another checkpoint, or both are."""
    names = [
        [checkpoints.ARRAYS],
        [checkpoints.MANIFEST],
        [checkpoints.ARRAYS, checkpoints.MANIFEST],
    ]
    for name in names[rng.integers(3)]:
        shutil.copy(other / name, path / name)


def empty(rng, path, other):
    """Nothing but zeros, as after a power failure."""
    file = path / rng.choice([checkpoints.ARRAYS, checkpoints.MANIFEST])
    file.write_bytes(bytes(len(file.read_bytes())))


def swap_leaves(rng, path, other):
    """Two stretches of the arrays change places."""
    data = bytearray((path / checkpoints.ARRAYS).read_bytes())
    first = rng.integers(64)
    second = 64 + rng.integers(len(data) - 80)
    data[first : first + 16], data[second : second + 16] = (
        data[second : second + 16],
        data[first : first + 16],
    )
    if data == (path / checkpoints.ARRAYS).read_bytes():
        data[first] ^= 1
    (path / checkpoints.ARRAYS).write_bytes(data)


DAMAGE = [flip, overwrite, cut, extend, delete, swap, empty, swap_leaves]


def test_damage_is_noticed_named_and_the_one_before_used(tally, tmp_path):
    good, bad = (checkpoints.save(tmp_path, step=step, tree=tree(step)) for step in (1, 2))
    whole = {file.name: file.read_bytes() for file in bad.iterdir()}
    for case in tally.cases(3, "damage"):
        rng, damage = np.random.default_rng(case), DAMAGE[case % len(DAMAGE)]
        damage(rng, bad, good)
        with pytest.raises(DamagedCheckpointError, match="000000000002"):
            checkpoints.read(bad)
        with pytest.warns(DamagedCheckpointWarning, match="000000000002"):
            found = checkpoints.latest(tmp_path)
        assert found.step == 1
        assert_same(found.restore(tree()), tree(1))
        for name, data in whole.items():
            (bad / name).write_bytes(data)
        assert checkpoints.latest(tmp_path).step == 2


def test_both_damaged_is_a_clean_stop(tally, tmp_path):
    paths = [checkpoints.save(tmp_path, step=step, tree=tree(step)) for step in (1, 2)]
    whole = {file: file.read_bytes() for path in paths for file in path.iterdir()}
    for case in tally.cases(3, "all of them"):
        rng, damage = np.random.default_rng(case), DAMAGE[case % len(DAMAGE)]
        other = shutil.copytree(paths[0], tmp_path / "other")
        for path in paths:
            damage(rng, path, paths[1] if path is paths[0] else other)
        with (
            pytest.warns(DamagedCheckpointWarning),
            pytest.raises(UserError, match=r"all 2 in .* damaged"),
        ):
            checkpoints.latest(tmp_path)
        shutil.rmtree(other)
        for file, data in whole.items():
            file.write_bytes(data)
