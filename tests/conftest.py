"""Strictness for every test: shapes checked, rank promotion an error, two CPU devices.

Tests compile far longer than they compute: XLA optimises little, and what one worker or child
process has compiled the others find in a folder that lasts as long as the session.
"""

import atexit
import gc
import os
import shutil
import tempfile

os.environ["XLA_FLAGS"] = " ".join(
    (
        os.environ.get("XLA_FLAGS", ""),
        "--xla_force_host_platform_device_count=2",
        "--xla_backend_optimization_level=1",
        "--xla_llvm_disable_expensive_passes=true",
    )
).strip()
os.environ["JAX_PLATFORMS"] = "cpu"
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["EMPHATIC_CACHE"] = tempfile.mkdtemp(prefix="emphatic-tests-")
    atexit.register(shutil.rmtree, os.environ["EMPHATIC_CACHE"], ignore_errors=True)

from jaxtyping import install_import_hook

install_import_hook("emphatic", "beartype.beartype")

import jax
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_compilation_cache_dir", os.environ["EMPHATIC_CACHE"])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


@pytest.fixture(scope="module", autouse=True)
def _collected():
    """What a module leaves for good is not looked at again by each collection of later ones."""
    yield
    gc.collect()
    gc.freeze()
