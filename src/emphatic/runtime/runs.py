"""A run is a folder: what it was asked to do, what came of it, and how to go on.

    config.json        configuration, what its names stand for, environment, versions, command
    metrics.jsonl      one line an update (or a fixed number of them)
    episodes.jsonl     the episodes that ended in the updates of such a line, if there were any
    timing.jsonl       seconds: all that differs between two runs of the same configuration
    tensorboard/       a mirror of the metrics
    checkpoints/       see `checkpoints`
    evaluation.json    what `emphatic evaluate` found
    lock               held while a process writes the run

Nothing of an update is lost and nothing is there twice: a checkpoint remembers how long each
`.jsonl` was, and resuming cuts them to that length before it goes on. So `metrics.jsonl`
and `episodes.jsonl` of a run that was killed are, to the byte, those of one that was not.
"""

import contextlib
import fcntl
import functools
import hashlib
import json
import math
import platform
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import IO, Any

import numpy as np
from jaxtyping import PyTree

from emphatic import __version__, documents
from emphatic.errors import Stopped, UserError
from emphatic.runtime import checkpoints, files
from emphatic.runtime.board import Board

FORMAT = 1
LOGS = ("metrics.jsonl", "episodes.jsonl", "timing.jsonl")
_UNFINISHED = ("lock", ".config.json.tmp")
"""What a process leaves that was killed while it made the folder."""
_PACKAGES = ("jax", "jaxlib", "numpy", "optax", "flax", "pgx", "ale-py", "gymnasium")


class Log:
    """An append-only file of JSON lines; what is appended is safe after `sync`."""

    def __init__(self, path: Path, size: int = 0):
        """Go on after the first `size` bytes; what is behind them goes."""
        self.path = path
        there = path.stat().st_size if path.exists() else 0
        if there < size:
            raise UserError("run", f"{path} has {there} bytes, but its checkpoint knows of {size}")
        self._file: IO[bytes] = path.open("ab", buffering=0)
        self._size = size
        self._torn = there > size

    def append(self, *records: Mapping[str, Any]) -> None:
        """A line each. Where the disk is full, an `OSError`, and the file as it was before."""
        lines = b"".join(encode(record) for record in records)
        self._mend()
        self._torn = True
        try:
            files.write(self._file, lines)
        except OSError:
            with contextlib.suppress(OSError):
                self._mend()
            raise
        self._size += len(lines)
        self._torn = False

    def sync(self) -> int:
        """Everything is on the disk; its length in bytes."""
        self._mend()
        files.sync(self._file)
        return self._size

    def close(self) -> None:
        """What was appended is on the disk; where nothing was, the file stays as it was found."""
        try:
            files.sync(self._file)
        finally:
            self._file.close()

    def _mend(self) -> None:
        """Cut off what does not belong there: a line written in part, or an earlier future."""
        if self._torn:
            files.truncate(self._file, self._size)
            self._torn = False


class Run:
    """A run folder that this process writes: from `create` or `resume`, closed at the end.

    Use it as a context: leaving it closes the files and lets go of the lock.
    """

    def __init__(self, path: Path, lock: IO[str], sizes: Mapping[str, int]):
        self.path = path
        self._lock = lock
        with contextlib.ExitStack() as opened:
            self.metrics, self.episodes, self.timing = (
                opened.enter_context(contextlib.closing(Log(path / name, sizes.get(name, 0))))
                for name in LOGS
            )
            files.sync_folder(path)
            opened.pop_all()
        self._board: Board | None = None

    @classmethod
    def create(
        cls,
        path: Path,
        config: Mapping[str, Any],
        *,
        environment: Mapping[str, Any],
        seed: int,
        command: list[str],
        created: str,
        together: int = 1,
        resolved: Mapping[str, Any] | None = None,
    ) -> "Run":
        """A new run at `path`, which must not hold one yet, nor anything else.

        `config` and `environment` are JSON data; `created` is a time in words, and with
        `command` and the versions the only part of config.json that may differ between
        two runs of the same configuration. `together` runs are computed as one program;
        `resolved` is what names in `config` stand for.
        """
        path = Path(path)
        refuse_existing(path, config)
        document = {
            "format": FORMAT,
            "config": _plain(config),
            "resolved": _plain(resolved),
            "environment": _plain(environment),
            "seed": seed,
            "together": together,
            "command": command,
            "created": created,
            "versions": versions(),
        }
        data = (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()
        with _writable(path):
            if not path.is_dir():
                files.make_folder(path)
            lock = _locked(path)
            files.write_whole(path / "config.json", data)
            return cls(path, lock, {})

    @classmethod
    def resume(
        cls,
        path: Path,
        config: Mapping[str, Any] | None = None,
        *,
        at_most: int | None = None,
    ) -> tuple["Run", checkpoints.Checkpoint | None]:
        """Go on with the run at `path`: the run, its logs cut back to the newest checkpoint.

        With `config`, only if it is that run's; with `at_most`, from no later step. The
        checkpoint is None where the run was killed before its first one: it then starts
        again, with empty logs.
        """
        path = Path(path)
        document = read_config(path)
        if config is not None and (difference := _difference(document["config"], _plain(config))):
            raise UserError(*difference)
        with _writable(path):
            lock = _locked(path)
            try:
                checkpoint = checkpoints.latest(path / "checkpoints", at_most=at_most)
                sizes = _log_sizes(checkpoint) if checkpoint else {}
                return cls(path, lock, sizes), checkpoint
            except BaseException:
                lock.close()
                raise

    def save(
        self, step: int, tree: PyTree, extra: Mapping[str, Any] | None = None, *, keep: int = 3
    ) -> Path:
        """A checkpoint that goes with everything logged so far, which is synced first."""
        sizes = {log.path.name: log.sync() for log in self._logs()}
        folder = self.path / "checkpoints"
        return checkpoints.save(
            folder, step=step, tree=tree, extra={**(extra or {}), "log_sizes": sizes}, keep=keep
        )

    def plot(self, step: int, values: Mapping[str, Any]) -> None:
        """Finite numbers for TensorBoard; a step that is written again replaces the earlier one."""
        if self._board is None:
            self._board = Board(self.path / "tensorboard", step)
        self._board.add(step, values)

    def close(self) -> None:
        """Sync and close the logs, let go of the lock."""
        with disk(self.path), contextlib.ExitStack() as stack:
            stack.callback(self._lock.close)
            for log in self._logs():
                stack.callback(log.close)
            if self._board is not None:
                self._board.close()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        try:
            self.close()
        except Stopped:
            # Of a run that ends with an error already, that one is the cause.
            if kind is None:
                raise

    def _logs(self) -> tuple[Log, Log, Log]:
        return self.metrics, self.episodes, self.timing


@contextlib.contextmanager
def disk(path: Path) -> Iterator[None]:
    """A disk that is full or gone ends the run in order; nothing that was written is lost."""
    try:
        yield
    except OSError as error:
        raise Stopped(
            f"cannot write {path}: {error.strerror or error}; with that mended, "
            f"emphatic train --resume {path} goes on from the last checkpoint"
        ) from error


def write_evaluation(path: Path, evaluation: Mapping[str, Any]) -> None:
    """evaluation.json of a run, whole or not at all; needs no lock."""
    data = json.dumps(_plain(evaluation), indent=2, allow_nan=False) + "\n"
    with _writable(path):
        files.write_whole(Path(path) / "evaluation.json", data.encode())


def read_config(path: Path) -> dict[str, Any]:
    """config.json of a run; a `UserError` where there is none or it cannot be read."""
    file = Path(path) / "config.json"
    try:
        document = documents.decoded(file.read_bytes())
    except OSError as error:
        raise UserError("run", f"{path} is no run folder: no config.json to read there") from error
    except ValueError as error:
        raise UserError("run", f"{file} is not JSON ({error})") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise UserError("run", f"{file} is not of a run of this version")
    for field, kind in {"config": dict, "environment": dict, "seed": int}.items():
        if not isinstance(document.get(field), kind):
            raise UserError("run", f"{file} lacks {field!r}, or it is not what it should be")
    return document


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """metrics.jsonl of a run, also while it is being written."""
    return read_lines(Path(path) / "metrics.jsonl")


def read_episodes(path: Path) -> list[dict[str, Any]]:
    """episodes.jsonl of a run, also while it is being written."""
    return read_lines(Path(path) / "episodes.jsonl")


def read_lines(file: Path) -> list[dict[str, Any]]:
    """The records of a `.jsonl`; a last line that was cut short is left out.

    `null` is not-a-number, "inf" and "-inf" are what they say: JSON has no words for them.
    """
    try:
        lines = Path(file).read_bytes().split(b"\n")
    except OSError as error:
        raise UserError("run", f"{file} cannot be read: {error.strerror}") from error
    records = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            record = json.loads(line)
            records.append({name: _number(value) for name, value in record.items()})
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            raise UserError("run", f"{file}, line {number}, is damaged") from error
    return records


def encode(record: Mapping[str, Any]) -> bytes:
    """A record as one line; the same record is always the same bytes."""
    return (json.dumps(_plain(record), separators=(",", ":"), allow_nan=False) + "\n").encode()


def versions() -> dict[str, str]:
    """Of Python and of the packages that numbers depend on, those installed."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found | {"emphatic": f"{__version__}+{source()}"}


@functools.cache
def source() -> str:
    """Which emphatic this is: twelve digits of a digest of its files, also between releases."""
    digest, root = hashlib.sha256(), Path(__file__).parents[1]
    for file in sorted(root.rglob("*")):
        if file.suffix in (".py", ".json", ".csv"):
            digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def _plain(value: Any) -> Any:
    """The same as JSON has it: NumPy and JAX numbers as numbers, tuples as lists."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return _plain(np.asarray(value).tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _number(value: Any) -> Any:
    """Back from `_plain`, for the numbers JSON has no words for."""
    if isinstance(value, list):
        return [_number(x) for x in value]
    if value is None:
        return math.nan
    return float(value) if value in ("inf", "-inf") else value


def refuse_existing(path: Path, config: Mapping[str, Any]) -> None:
    """A new run begins where there is nothing yet, or what was killed before it began."""
    if not (path / "config.json").exists():
        if path.exists() and not path.is_dir():
            raise UserError("run", f"{path} is a file; a run is a folder")
        if path.is_dir() and any(p.name not in _UNFINISHED for p in path.iterdir()):
            raise UserError("run", f"{path} holds other things; choose another name")
        return
    difference = _difference(read_config(path)["config"], _plain(config))
    if difference is None:
        raise UserError("run", f"{path} exists; go on with it (--resume) or choose another name")
    field, problem = difference
    raise UserError(field, f"{problem}; choose another name for the new run")


@contextlib.contextmanager
def _writable(path: Path) -> Iterator[None]:
    """What the file system refuses, as a sentence."""
    try:
        yield
    except OSError as error:
        raise UserError("run", f"cannot write {path}: {error.strerror or error}") from error


def _difference(stored: Any, given: Any, field: str = "") -> tuple[str, str] | None:
    """The first field in which two configurations differ, and how."""
    if isinstance(stored, dict) and isinstance(given, dict):
        for name in [*stored, *(name for name in given if name not in stored)]:
            inner = f"{field}.{name}" if field else name
            if name not in given or name not in stored:
                where = "this run has" if name in stored else "was asked for has"
                return inner, f"only the configuration {where} it"
            if found := _difference(stored[name], given[name], inner):
                return found
        return None
    if stored == given:
        return None
    return field, f"is {stored!r} in the run that is there, not {given!r}"


def _log_sizes(checkpoint: checkpoints.Checkpoint) -> dict[str, int]:
    """How long the logs were; one that does not say is not of a run."""
    sizes = checkpoint.extra.get("log_sizes")
    known = isinstance(sizes, dict) and sizes.keys() == set(LOGS)
    if not sizes or not known or not all(type(x) is int and x >= 0 for x in sizes.values()):
        raise UserError("checkpoint", f"{checkpoint.path} does not say how long the logs were")
    return sizes


def _locked(path: Path) -> IO[str]:
    """The lock of the run, ours until it is closed or this process ends."""
    lock = (path / "lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        raise UserError("run", f"another process is writing {path}") from error
    return lock
