"""Strictness for every test: shapes checked, rank promotion an error, two CPU devices."""

import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
).strip()
os.environ["JAX_PLATFORMS"] = "cpu"

from jaxtyping import install_import_hook

install_import_hook("emphatic", "beartype.beartype")

import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
