"""A checkpoint is whole and exact, or it is not there; every way of breaking one is noticed."""

import json
import pickle
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from trees import assert_same, tree

from emphatic.errors import UserError
from emphatic.runtime import checkpoints, files
from emphatic.runtime.checkpoints import DamagedCheckpointError, DamagedCheckpointWarning

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "int4", "float8_e4m3fn"),
]


def test_every_type_comes_back_to_the_bit(tmp_path):
    rng = np.random.default_rng(0)
    saved = {
        f"{dtype}{shape}": rng.integers(0, 2, size=shape).astype(jnp.dtype(dtype))
        for dtype in DTYPES
        for shape in [(), (1,), (3, 4), (0, 2)]
    }
    saved["special"] = np.array([np.nan, -0.0, np.inf, -np.inf, 5e-324])
    saved["column-major"] = np.asfortranarray(rng.normal(size=(3, 4)))
    path = checkpoints.save(tmp_path, step=1, tree=saved)
    assert_same(checkpoints.read(path).restore(saved), saved)


def test_a_tree_of_everything_comes_back(tmp_path):
    checkpoints.save(tmp_path, step=12, tree=tree(1), extra={"frames": 384, "sizes": {"a": 1}})
    found = checkpoints.latest(tmp_path)
    assert (found.step, found.extra) == (12, {"frames": 384, "sizes": {"a": 1}})
    assert_same(found.restore(tree(2)), tree(1))
    restored = found.restore(tree(2))
    restored["host"][0][0] = 1.0  # NumPy arrays can be written to.
    assert jax.random.bits(restored["keys"][1]) == jax.random.bits(tree(1)["keys"][1])


def test_a_template_may_be_shapes_and_says_where_arrays_lie(tmp_path):
    mesh = Mesh(np.asarray(jax.devices()[:2]), ("streams",))
    sharding = NamedSharding(mesh, PartitionSpec("streams"))
    saved = {"x": jax.device_put(jnp.arange(8.0), sharding), "y": jnp.ones(2)}
    checkpoints.save(tmp_path, step=1, tree=saved)
    found = checkpoints.latest(tmp_path)
    assert found.restore(saved)["x"].sharding == sharding
    assert not found.restore(saved)["y"].committed
    one = {"x": jnp.zeros(8), "y": jnp.zeros(2)}
    assert_same(found.restore(one), one | {"x": jnp.arange(8.0), "y": jnp.ones(2)})
    assert_same(found.restore(jax.eval_shape(lambda: saved)), found.restore(one))


def test_the_same_tree_gives_the_same_bytes(tmp_path):
    one, two = (checkpoints.save(tmp_path / name, step=3, tree=tree(5)) for name in "ab")
    for name in (checkpoints.ARRAYS, checkpoints.MANIFEST):
        assert (one / name).read_bytes() == (two / name).read_bytes()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t["params"].update(w=jnp.zeros((7, 6))), r"\['w'\].*\[7, 5\].*\[7, 6\]"),
        (lambda t: t["params"].update(b=jnp.zeros(3, jnp.int32)), r"\['b'\].*float32.*int32"),
        (lambda t: t["params"].update(c=jnp.zeros(3)), r"no leaf \['params'\]\['c'\]"),
        (lambda t: t["params"].pop("w"), r"has a leaf \['params'\]\['w'\]"),
        (lambda t: t.update(key=jax.random.key(0, impl="rbg")), r"threefry2x32 key.*rbg key"),
        (lambda t: t.update(count=0.5), r"\['count'\].*int64.*float64"),
        (lambda t: t.update(count="three"), r"\['count'\] is a str"),
    ],
)
def test_another_structure_is_refused_and_the_leaf_named(tmp_path, change, said):
    checkpoints.save(tmp_path, step=1, tree=tree())
    template = tree()
    change(template)
    with pytest.raises(UserError, match=said):
        checkpoints.latest(tmp_path).restore(template)


def test_only_the_newest_are_kept(tmp_path):
    assert checkpoints.latest(tmp_path) is None
    assert checkpoints.latest(tmp_path / "none") is None
    for step in range(1, 7):
        checkpoints.save(tmp_path, step=step, tree=tree(step), keep=3)
        kept = sorted(path.name for path in tmp_path.iterdir())
        assert kept == [f"{s:012d}" for s in range(max(1, step - 2), step + 1)]
    with pytest.raises(UserError, match="keep"):
        checkpoints.save(tmp_path, step=7, tree=tree(), keep=0)


def test_going_on_from_an_earlier_one_gives_up_the_later_ones(tmp_path):
    for step in (1, 2, 3):
        checkpoints.save(tmp_path, step=step, tree=tree(step))
    checkpoints.save(tmp_path, step=2, tree=tree(7))
    found = checkpoints.latest(tmp_path)
    assert found.step == 2
    assert_same(found.restore(tree()), tree(7))
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "000000000001",
        "000000000002",
        "000000000002.1",
    ]


# What is not whole (tests/faults has the damage, and the faults of the file system).


def test_nothing_but_damaged_ones_is_a_clean_stop(tmp_path):
    path = checkpoints.save(tmp_path, step=1, tree=tree())
    (path / checkpoints.ARRAYS).unlink()
    with (
        pytest.warns(DamagedCheckpointWarning),
        pytest.raises(UserError, match=r"all 1 in .* damaged"),
    ):
        checkpoints.latest(tmp_path)


def test_a_hostile_manifest_fails_to_load(tmp_path):
    """Right digests, wrong content: the error is ours, and nothing is executed."""
    path = checkpoints.save(tmp_path, step=1, tree=tree())
    manifest = json.loads((path / checkpoints.MANIFEST).read_bytes())
    manifest.pop("sha256")
    hostile = [
        {"leaves": 3},
        {"leaves": [{}]},
        {"extra": []},
        {"step": "1"},
        {"files": {}},
        {"leaves": [{**manifest["leaves"][0], "offset": 10**12}, *manifest["leaves"][1:]]},
        {"leaves": [{**manifest["leaves"][0], "size": -1}, *manifest["leaves"][1:]]},
        {"leaves": [{**manifest["leaves"][0], "dtype": "object"}, *manifest["leaves"][1:]]},
        {"leaves": [{**manifest["leaves"][0], "shape": [10**12]}, *manifest["leaves"][1:]]},
    ]
    for change in hostile:
        (path / checkpoints.MANIFEST).write_bytes(checkpoints._encode(manifest | change))
        with pytest.raises((DamagedCheckpointError, UserError)):
            checkpoints.read(path).restore(tree())


def test_no_pickle(tmp_path):
    """Saving and loading get by without it, and object arrays are refused."""
    with mock.patch.multiple(pickle, loads=None, load=None, dumps=None, dump=None):
        checkpoints.save(tmp_path, step=1, tree=tree(1))
        assert_same(checkpoints.latest(tmp_path).restore(tree()), tree(1))
        with pytest.raises(UserError, match="object"):
            checkpoints.save(tmp_path, step=2, tree={"x": np.array([None])})


OPERATIONS = ("write", "sync", "make_folder", "rename", "sync_folder", "remove")


def test_what_is_renamed_was_synced(tmp_path):
    """The order that survives a power failure: files, their folder, the rename, its folder."""
    done = []
    real = {name: getattr(files, name) for name in OPERATIONS}

    def noted(name):
        def run(*args):
            done.append((name, str(getattr(args[0], "name", args[0])).rsplit("/", 1)[-1]))
            return real[name](*args)

        return run

    folder = tmp_path / "checkpoints"
    folder.mkdir()
    with mock.patch.multiple(files, **{name: noted(name) for name in OPERATIONS}):
        checkpoints.save(folder, step=1, tree=tree())
    assert [(name, what) for name, what in done if name != "write"] == [
        ("make_folder", ".writing-000000000001"),
        ("sync_folder", "checkpoints"),
        ("sync", "arrays.bin"),
        ("sync", "manifest.json"),
        ("sync_folder", ".writing-000000000001"),
        ("rename", ".writing-000000000001"),
        ("sync_folder", "checkpoints"),
    ]
