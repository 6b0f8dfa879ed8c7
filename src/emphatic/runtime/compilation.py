"""Compiled programs kept on disk, so that the next process starts in seconds."""

import os
from pathlib import Path

import jax


def cached() -> None:
    """Keep what takes a second or more to compile, under $EMPHATIC_CACHE.

    Default: emphatic in $XDG_CACHE_HOME or ~/.cache. An empty $EMPHATIC_CACHE keeps nothing.
    A folder that cannot be written is no error: then everything is compiled anew.
    """
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = os.environ.get("EMPHATIC_CACHE", str(Path(home) / "emphatic"))
    if not folder:
        return
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1.0)
