"""Values in JSON's own types."""

import dataclasses
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """The value in JSON's types; infinity and NaN, which JSON lacks, as texts."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if dataclasses.is_dataclass(value):
        return plain(vars(value))
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value
