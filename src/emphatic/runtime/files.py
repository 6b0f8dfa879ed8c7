"""Every change that a run makes to the file system, one function each.

All writers of the run folder go through here and call `files.write(...)` by its module,
so that a test can let any of them fail or end the process there. The order that makes a
change durable: write, `sync` the file, `rename` it into place, `sync_folder`.
"""

import os
import shutil
from pathlib import Path
from typing import IO, Any


def write(file: IO[bytes], data: Any) -> None:
    """Write all of the bytes; an unbuffered file may take them in pieces."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def sync(file: IO[bytes]) -> None:
    """Everything written so far is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def truncate(file: IO[bytes], size: int) -> None:
    """Cut the file to `size` bytes and go on writing there."""
    file.truncate(size)
    file.seek(size)


def make_folder(path: Path) -> None:
    """A new folder, its name synced; its parents are made as needed."""
    path.mkdir(parents=True)
    sync_folder(path.parent)


def rename(source: Path, target: Path) -> None:
    """Move a file over another, or a folder to where there is none, in one step."""
    source.replace(target)


def sync_folder(path: Path) -> None:
    """The names in the folder are on the disk: creations, renames and removals."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove(path: Path) -> None:
    """Remove a file, or a folder and all in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def write_whole(path: Path, data: bytes) -> None:
    """The file holds `data` or what it held before, whatever happens on the way."""
    aside = path.with_name(f".{path.name}.tmp")
    with aside.open("wb") as file:
        write(file, data)
        sync(file)
    rename(aside, path)
    sync_folder(path.parent)
