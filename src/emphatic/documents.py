"""JSON and numbers as a stranger may write them: what cannot be taken is a `ValueError`."""

import json
import math
from typing import Any

DEEPEST = 64
"""Lists and objects inside each other; ours are a handful deep."""


def decoded(data: bytes | str) -> Any:
    """What JSON says, and no more than JSON can say; a `ValueError` tells why not.

    Python's decoder alone takes NaN, and halves of letters that no file can hold; nesting
    beyond its stack is no ValueError to it, nor to whoever prints what is just below.
    """
    text = data if isinstance(data, str) else data.decode(json.detect_encoding(data))
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if text.count("[") + text.count("{") > DEEPEST and _depth(found) > DEEPEST:
        raise ValueError("nested too deeply")
    if "\\u" in text:
        json.dumps(found, ensure_ascii=False).encode()
    return found


def number(value: int | float) -> float:
    """As a float; a whole number that is too large for one is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _no_constant(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level:
        inner = [x.values() if isinstance(x, dict) else x for x in level if _holds(x)]
        level, depth = [x for held in inner for x in held], depth + 1
    return depth - 1


def _holds(value: Any) -> bool:
    return isinstance(value, dict | list)
