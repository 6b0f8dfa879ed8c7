"""Checkpoints: a pytree of arrays on disk, complete and checked, or not there at all.

    checkpoints/
      000000001200/
        arrays.bin      the leaves one after the other, as they lie in memory
        manifest.json   which leaf lies where, extra data, size and SHA-256 of arrays.bin,
                        and of itself

A checkpoint is written under a name that no reader looks at, synced, and renamed when it is
complete: so one that was cut short never counts. Whoever reads checks every byte against
its digest before using it. No pickle: a manipulated checkpoint can at worst fail to load.

    checkpoints.save(folder, step=1200, tree=state, extra={"frames": 384_000}, keep=3)
    checkpoint = checkpoints.latest(folder)
    state = checkpoint.restore(state)          # a template: structure, types, placement
"""

import dataclasses
import hashlib
import json
import math
import re
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from emphatic.errors import UserError
from emphatic.runtime import files

FORMAT = 1
ARRAYS = "arrays.bin"
MANIFEST = "manifest.json"
_ALIGNMENT = 64
_NAME = re.compile(r"(\d{12})(?:\.(\d+))?")
_ASIDE = (".writing-", ".removing-")


class DamagedCheckpointError(ValueError):
    """A checkpoint whose bytes are not those that were written."""


class DamagedCheckpointWarning(UserWarning):
    """A damaged checkpoint was passed over; the message names it."""


class _Leaf(NamedTuple):
    """One leaf in memory: what the manifest says of it, and its bytes."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    prng: str | None
    """Name of the generator, if the leaf is a PRNG key; dtype and shape are its data's."""


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and found whole."""

    path: Path
    step: int
    extra: Mapping[str, Any]
    _leaves: tuple[_Leaf, ...]
    _data: tuple[memoryview, ...]

    def restore(self, template: PyTree) -> PyTree:
        """The tree that was saved, in the structure of `template`.

        Leaves come back as what the template has there: a JAX array placed as the
        template's, a PRNG key, a NumPy array, an int, float or bool. A template of
        `jax.ShapeDtypeStruct` does. A leaf that differs is a `UserError` that names it.
        """
        return self.part("", template)

    def part(self, prefix: str, template: PyTree) -> PyTree:
        """What lies under `prefix` alone, such as ".learner.params"; see `restore`."""
        stored = [
            (leaf._replace(path=leaf.path.removeprefix(prefix)), data)
            for leaf, data in zip(self._leaves, self._data, strict=True)
            if leaf.path.startswith(prefix)
        ]
        leaves, structure = jax.tree_util.tree_flatten_with_path(template)
        wanted = [_describe(path, leaf) for path, leaf in leaves]
        _require_same(wanted, [leaf for leaf, _ in stored])
        values = [
            _placed(_array(there, data), leaf)
            for (there, data), (_, leaf) in zip(stored, leaves, strict=True)
        ]
        return jax.tree_util.tree_unflatten(structure, values)


def save(
    folder: Path, *, step: int, tree: PyTree, extra: Mapping[str, Any] | None = None, keep: int = 3
) -> Path:
    """Write a checkpoint, then remove all but the newest `keep`; where it lies.

    Checkpoints of a later step go too: they belong to a continuation that was given up.
    `extra` is anything JSON can hold. An `OSError` (a full disk) leaves the earlier
    checkpoints as they were and nothing half-written in sight; the next save works.
    """
    if keep < 1:
        raise UserError("keep", f"must be at least 1, not {keep}")
    folder = Path(folder)
    if not folder.is_dir():
        files.make_folder(folder)
    _remove_leftovers(folder)
    path = _free_name(folder, step)
    aside = folder / f".writing-{path.name}"
    try:
        _write(aside, step, tree, dict(extra or {}))
        files.rename(aside, path)
        files.sync_folder(folder)
    except OSError:
        _remove_leftovers(folder, quietly=True)
        raise
    _prune(folder, path, keep)
    return path


def latest(folder: Path, *, at_most: int | None = None) -> Checkpoint | None:
    """The newest checkpoint that is whole (of no later step than `at_most`); None if none is there.

    Damaged ones are passed over with a `DamagedCheckpointWarning` each. If nothing else
    is left, that is a `UserError`: to start anew would throw the run away.
    """
    names = [path for path in _sorted(Path(folder)) if at_most is None or _step(path) <= at_most]
    for path in reversed(names):
        try:
            return read(path)
        except DamagedCheckpointError as damage:
            warnings.warn(f"{damage}; trying the one before", DamagedCheckpointWarning, 2)
    if names:
        raise UserError("checkpoints", f"all {len(names)} in {folder} are damaged")
    return None


def steps(folder: Path) -> list[int]:
    """Of the checkpoints there, whole or not, oldest first."""
    return [_step(path) for path in _sorted(Path(folder))]


def prune(folder: Path, keep: int) -> None:
    """Remove all but the newest `keep`."""
    if paths := _sorted(Path(folder)):
        _prune(folder, paths[-1], keep)


def read(path: Path) -> Checkpoint:
    """The checkpoint at `path`, every byte checked; `DamagedCheckpointError` names what is not."""
    path = Path(path)
    manifest = _manifest(path)
    file = path / ARRAYS
    try:
        data = file.read_bytes()
    except OSError as error:
        raise DamagedCheckpointError(f"{file} cannot be read ({error.strerror})") from error
    stated = manifest["files"].get(ARRAYS, {})
    if len(data) != stated.get("size"):
        raise DamagedCheckpointError(f"{file} has {len(data)} bytes, not {stated.get('size')}")
    if hashlib.sha256(data).hexdigest() != stated.get("sha256"):
        raise DamagedCheckpointError(f"{file} does not have the checksum of its manifest")
    try:
        placed = [_placed_leaf(entry) for entry in manifest["leaves"]]
        leaves = tuple(leaf for leaf, _ in placed)
        parts = tuple(memoryview(data)[place] for _, place in placed)
        whole = all(map(_fits, leaves, parts))
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedCheckpointError(f"{path / MANIFEST} makes no sense ({error})") from error
    if not whole:
        raise DamagedCheckpointError(f"{path / MANIFEST} does not describe {ARRAYS}")
    return Checkpoint(path, manifest["step"], manifest["extra"], leaves, parts)


def _write(aside: Path, step: int, tree: PyTree, extra: dict[str, Any]) -> None:
    """Both files of a checkpoint, synced, in a new folder."""
    files.make_folder(aside)
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    entries, digest, offset = [], hashlib.sha256(), 0
    with (aside / ARRAYS).open("wb") as file:
        for path, leaf in leaves:
            described, data = _describe(path, leaf), _bytes(leaf)
            padding = bytes(-offset % _ALIGNMENT)
            offset += len(padding)
            entries.append(described._asdict() | {"offset": offset, "size": len(data)})
            for piece in (padding, data):
                files.write(file, piece)
                digest.update(piece)
            offset += len(data)
        files.sync(file)
    manifest = {
        "format": FORMAT,
        "byteorder": sys.byteorder,
        "step": step,
        "extra": extra,
        "leaves": entries,
        "files": {ARRAYS: {"size": offset, "sha256": digest.hexdigest()}},
    }
    with (aside / MANIFEST).open("wb") as file:
        files.write(file, _encode(manifest))
        files.sync(file)
    files.sync_folder(aside)


def _encode(manifest: dict[str, Any]) -> bytes:
    """JSON in one way only, with its own digest as last field."""
    body = json.dumps(manifest, indent=1)
    digest = hashlib.sha256(body.encode()).hexdigest()
    return (json.dumps(manifest | {"sha256": digest}, indent=1) + "\n").encode()


def _manifest(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    try:
        data = file.read_bytes()
        manifest = json.loads(data)
        manifest.pop("sha256")
        intact = _encode(manifest) == data
    except OSError as error:
        raise DamagedCheckpointError(f"{file} cannot be read ({error.strerror})") from error
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise DamagedCheckpointError(f"{file} is not what was written ({error})") from error
    if not intact:
        raise DamagedCheckpointError(f"{file} does not have its own checksum")
    if (manifest.get("format"), manifest.get("byteorder")) != (FORMAT, sys.byteorder):
        raise UserError("checkpoint", f"{path} is of another format or byte order")
    kinds = {"step": int, "extra": dict, "leaves": list, "files": dict}
    if not all(isinstance(manifest.get(field), kind) for field, kind in kinds.items()):
        raise DamagedCheckpointError(f"{file} lacks a field")
    match = _NAME.fullmatch(path.name)
    if match is not None and int(match[1]) != manifest["step"]:
        raise DamagedCheckpointError(f"{path} holds the checkpoint of step {manifest['step']}")
    return manifest


def _describe(path: tuple[Any, ...], leaf: Any) -> _Leaf:
    """What the manifest says of a leaf."""
    name = jax.tree_util.keystr(path)
    if isinstance(leaf, bool | int | float):
        return _Leaf(name, np.asarray(leaf).dtype.name, (), None)
    if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
        raise UserError("checkpoint", f"leaf {name} is a {type(leaf).__name__}, not an array")
    if not _is_key(leaf):
        if not any(jnp.issubdtype(leaf.dtype, kind) for kind in (jnp.number, jnp.bool_)):
            raise UserError("checkpoint", f"leaf {name} is of type {leaf.dtype}, not of numbers")
        return _Leaf(name, np.dtype(leaf.dtype).name, tuple(leaf.shape), None)
    data = jax.eval_shape(jax.random.key_data, leaf)
    return _Leaf(name, data.dtype.name, data.shape, str(jax.random.key_impl(leaf)))


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _bytes(leaf: Any) -> memoryview:
    """The leaf as it lies in memory, row-major."""
    if isinstance(leaf, jax.Array) and _is_key(leaf):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf).reshape(-1).view(np.uint8).data


def _placed_leaf(entry: Mapping[str, Any]) -> tuple[_Leaf, slice]:
    """A leaf of the manifest, and where in the file it lies."""
    leaf = _Leaf(entry["path"], entry["dtype"], tuple(entry["shape"]), entry["prng"])
    return leaf, slice(entry["offset"], entry["offset"] + entry["size"])


def _fits(leaf: _Leaf, data: memoryview) -> bool:
    return math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize == len(data)


def _array(leaf: _Leaf, data: memoryview) -> np.ndarray:
    """A copy: a template of NumPy arrays gets arrays that can be written to."""
    flat = np.frombuffer(data, np.uint8).copy()
    return flat.view(np.dtype(leaf.dtype)).reshape(leaf.shape)


def _placed(array: np.ndarray, leaf: Any) -> Any:
    """The stored array as what the template has in its place."""
    if isinstance(leaf, bool | int | float):
        return type(leaf)(array.item())
    if isinstance(leaf, np.ndarray | np.generic):
        return array if isinstance(leaf, np.ndarray) else array[()]
    value = array
    if _is_key(leaf):
        value = jax.random.wrap_key_data(jnp.asarray(array), impl=str(jax.random.key_impl(leaf)))
    # An array that was never placed must not come back placed: that would recompile.
    unplaced = isinstance(leaf, jax.Array) and not leaf.committed
    return jax.device_put(value, None if unplaced else leaf.sharding)


def _require_same(wanted: list[_Leaf], stored: list[_Leaf]) -> None:
    """The template's leaves are those of the checkpoint, or the first that is not, named."""
    here, there = ({leaf.path: leaf for leaf in leaves} for leaves in (wanted, stored))
    for path in here.keys() - there.keys():
        raise UserError("checkpoint", f"has no leaf {path}, which this configuration needs")
    for path in there.keys() - here.keys():
        raise UserError("checkpoint", f"has a leaf {path}, unknown to this configuration")
    for path, leaf in here.items():
        if leaf != there[path]:
            both = f"{_said(there[path])} in the checkpoint and {_said(leaf)} here"
            raise UserError("checkpoint", f"leaf {path} is {both}")
    if wanted != stored:
        raise UserError("checkpoint", "has the leaves of this configuration in another order")


def _said(leaf: _Leaf) -> str:
    return f"{leaf.prng or ''}{' key ' if leaf.prng else ''}{leaf.dtype}{list(leaf.shape)}"


def _sorted(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first; a second one of a step counts as newer."""
    if not folder.is_dir():
        return []
    matches = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
    numbered = [((int(m[1]), int(m[2] or 0)), path) for m, path in matches if m]
    return [path for _, path in sorted(numbered)]


def _step(path: Path) -> int:
    return int(path.name[:12])


def _free_name(folder: Path, step: int) -> Path:
    """A name not in use: an existing checkpoint is never overwritten."""
    path, again = folder / f"{step:012d}", 0
    while path.exists():
        again += 1
        path = folder / f"{step:012d}.{again}"
    return path


def _prune(folder: Path, newest: Path, keep: int) -> None:
    """Leave the `keep` newest up to `newest`. First renamed: half removed is not damaged."""
    paths = _sorted(folder)
    place = paths.index(newest)
    for path in [*paths[place + 1 :], *paths[: max(0, place + 1 - keep)]]:
        aside = folder / f".removing-{path.name}"
        files.rename(path, aside)
        files.remove(aside)


def _remove_leftovers(folder: Path, *, quietly: bool = False) -> None:
    """Remove what a save or a removal that was cut short left behind."""
    for path in folder.iterdir():
        if path.name.startswith(_ASIDE):
            try:
                files.remove(path)
            except OSError:
                if not quietly:
                    raise
