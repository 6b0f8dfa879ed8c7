"""Environments by name: `envs.make("minatar/breakout", sticky_actions=0.0)`."""

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from emphatic.envs import catch, minatar
from emphatic.envs.base import Environment
from emphatic.errors import UserError

__all__ = ["Environment", "expand", "make", "names", "settings"]

_MAKERS: Mapping[str, Callable[..., Environment]] = {
    "catch": catch.make,
    **{f"minatar/{game}": functools.partial(minatar.make, game) for game in minatar.GAMES},
}

_WORDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    int | None: "a whole number or none",
}


def names() -> tuple[str, ...]:
    """Every name `make` knows."""
    return tuple(_MAKERS)


def make(name: str, **chosen: Any) -> Environment:
    """The environment of that name; `settings(name)` are what can be chosen."""
    known, checked = _parameters(name), {}
    for field, value in chosen.items():
        if field not in known:
            offer = f"it has {', '.join(known)}{_nearest(field, known)}"
            raise UserError(field, f"is no setting of {name}; {offer}")
        checked[field] = _of_type(field, value, known[field].annotation)
    return _MAKERS[name](**checked)


def settings(name: str) -> dict[str, Any]:
    """The settings of an environment and their defaults."""
    return {field: parameter.default for field, parameter in _parameters(name).items()}


def expand(patterns: Iterable[str]) -> tuple[str, ...]:
    """Names in order, without repeats; `family/*` stands for all of a family."""
    found: dict[str, None] = {}
    for pattern in patterns:
        if not pattern.endswith("/*"):
            found[_known(pattern)] = None
            continue
        family = [name for name in _MAKERS if name.startswith(pattern[:-1])]
        if not family:
            families = sorted({f"{name.split('/')[0]}/*" for name in _MAKERS if "/" in name})
            raise UserError("env", f"no family {pattern!r}; there is {', '.join(families)}")
        found.update(dict.fromkeys(family))
    return tuple(found)


def _parameters(name: str) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(_MAKERS[_known(name)]).parameters.values()
    return {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}


def _of_type(field: str, value: Any, wanted: Any) -> Any:
    """Settings also come from files: 1 is not true there, and 1 will do for 1.0."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if wanted is float and number:
        return float(value)
    if isinstance(value, bool) != (wanted is bool) or not isinstance(value, wanted):
        raise UserError(field, f"must be {_WORDS[wanted]}, not {value!r}")
    return value


def _known(name: str) -> str:
    if name not in _MAKERS:
        known = ", ".join(_MAKERS)
        raise UserError("env", f"{name!r} is unknown; there is {known}{_nearest(name, _MAKERS)}")
    return name


def _nearest(name: str, known: Iterable[str]) -> str:
    """A suggestion, where something is near."""
    known = list(known)
    ends = [other for other in known if other.split("/")[-1] == name]
    near = ends or difflib.get_close_matches(name, known, n=1)
    return f". Did you mean {near[0]!r}?" if near else ""
