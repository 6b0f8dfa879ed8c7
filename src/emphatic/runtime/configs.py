"""Configurations to JSON and back, strictly: what is unknown or of the wrong type is named."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from emphatic import documents
from emphatic.errors import UserError


def to_json(config: Any) -> dict[str, Any]:
    """A configuration as JSON data."""
    return dataclasses.asdict(config)


def from_json(kind: type, data: Any, field: str = "config") -> Any:
    """The configuration that `to_json` made `data` of."""
    if not isinstance(data, Mapping):
        raise UserError(field, f"must be an object of fields, not {type(data).__name__}")
    hints = typing.get_type_hints(kind)
    names = [f.name for f in dataclasses.fields(kind)]
    for name in data:
        if name not in names:
            raise UserError(f"{field}.{name}", f"is unknown; the fields are {', '.join(names)}")
    for name in names:
        if name not in data:
            raise UserError(f"{field}.{name}", "is missing")
    values = {name: _value(hints[name], data[name], f"{field}.{name}") for name in names}
    return kind(**values)


def _value(kind: Any, value: Any, field: str) -> Any:
    """`value` as `kind`, or the sentence that says what it should be."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        return from_json(typing.cast(type, kind), value, field)
    if origin is typing.Annotated:
        return _value(arguments[0], value, field)
    if origin is typing.Literal:
        if value not in arguments:
            raise UserError(field, f"must be one of {', '.join(map(repr, arguments))}")
        return value
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        return _value(next(a for a in arguments if a is not type(None)), value, field)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise UserError(field, f"must be a list, not {value!r}")
        return tuple(_value(arguments[0], item, f"{field}[{i}]") for i, item in enumerate(value))
    if origin is dict or kind is dict:
        if not isinstance(value, Mapping):
            raise UserError(field, f"must be an object, not {value!r}")
        return dict(value)
    return _scalar(kind, value, field)


def _scalar(kind: Any, value: Any, field: str) -> Any:
    """A number, a word or a truth value; infinity is written as "inf"."""
    if kind is float and value in ("inf", "-inf"):
        return float(value)
    right = isinstance(value, kind) or (kind is float and isinstance(value, int))
    if not right or (isinstance(value, bool) and kind is not bool):
        raise UserError(field, f"must be {_NAMES.get(kind, kind.__name__)}, not {value!r}")
    return documents.number(value) if kind is float else kind(value)


_NAMES = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}
