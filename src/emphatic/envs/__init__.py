"""Environments by name: `envs.make("atari/breakout", protocol="sticky")`.

Some are written in JAX (`Environment`), some live on the host (`HostEnvironment`); the name
decides. `gymnasium:ID` is whatever Gymnasium knows by that ID. Nothing of an environment's
packages is imported before it is made.
"""

import difflib
import functools
import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Union, get_args, get_origin

from emphatic import documents
from emphatic.envs import atari, catch, gymnasium, minatar
from emphatic.envs.base import Environment
from emphatic.envs.host import HostEnvironment
from emphatic.errors import UserError

__all__ = ["Environment", "HostEnvironment", "expand", "make", "names", "on_host", "settings"]

_Maker = Callable[..., Environment | HostEnvironment]

_MAKERS: Mapping[str, _Maker] = {
    "catch": catch.make,
    **{f"minatar/{game}": functools.partial(minatar.make, game) for game in minatar.GAMES},
    **{f"atari/{game}": functools.partial(atari.make, game) for game in atari.GAMES},
}

_WORDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a word",
    types.NoneType: "none",
}


def names() -> tuple[str, ...]:
    """Every name `make` knows, but for Gymnasium's (`gymnasium:CartPole-v1`)."""
    return tuple(_MAKERS)


def on_host(name: str) -> bool:
    """Whether an environment of that name lives on the host, told without making it."""
    return name.startswith(("atari/", "gymnasium:"))


def make(name: str, /, **chosen: Any) -> Environment | HostEnvironment:
    """The environment of that name; `settings(name)` are what can be chosen."""
    parameters = _parameters(name)
    known = _named(parameters)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    checked = {}
    for field, value in chosen.items():
        if field in known:
            checked[field] = _of_type(field, value, known[field].annotation)
        elif takes_any:
            checked[field] = value
        else:
            offer = f"it has {', '.join(known)}{_nearest(field, known)}"
            raise UserError(field, f"is no setting of {name}; {offer}")
    return _maker(name)(**checked)


def settings(name: str) -> dict[str, Any]:
    """The settings of an environment and their defaults.

    `gymnasium:ID` takes any other keyword too and hands it to the environment's maker.
    """
    return {field: p.default for field, p in _named(_parameters(name)).items()}


def expand(patterns: Iterable[str]) -> tuple[str, ...]:
    """Names in order, without repeats; `family/*` stands for all of a family."""
    found: dict[str, None] = {}
    for pattern in patterns:
        if not pattern.endswith("/*"):
            _maker(pattern)
            found[pattern] = None
            continue
        family = [name for name in _MAKERS if name.startswith(pattern[:-1])]
        if not family:
            raise UserError("env", f"no family {pattern!r}; there is {', '.join(_families())}")
        found.update(dict.fromkeys(family))
    return tuple(found)


def _parameters(name: str) -> list[inspect.Parameter]:
    return list(inspect.signature(_maker(name)).parameters.values())


def _named(parameters: Iterable[inspect.Parameter]) -> dict[str, inspect.Parameter]:
    return {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}


def _of_type(field: str, value: Any, wanted: Any) -> Any:
    """Settings also come from files: 1 is not true there, and 1 will do for 1.0."""
    choices = _choices(wanted)
    if float in choices and isinstance(value, int) and not isinstance(value, bool):
        return documents.number(value)
    if not any(_is(value, choice) for choice in choices):
        words = " or ".join(_WORDS.get(choice, repr(choice)) for choice in choices)
        raise UserError(field, f"must be {words}, not {value!r}")
    return value


def _choices(wanted: Any) -> tuple[Any, ...]:
    """The types and words that an annotation allows."""
    alternatives = (types.UnionType, Union, Literal)
    return get_args(wanted) if get_origin(wanted) in alternatives else (wanted,)


def _is(value: Any, choice: Any) -> bool:
    if not isinstance(choice, type):
        return value == choice
    return isinstance(value, choice) and isinstance(value, bool) == (choice is bool)


def _maker(name: str) -> _Maker:
    """What makes the environment of that name."""
    if name in _MAKERS:
        return _MAKERS[name]
    if name.startswith(gymnasium.PREFIX):
        return functools.partial(gymnasium.make, name.removeprefix(gymnasium.PREFIX))
    known = ", ".join([*(n for n in _MAKERS if "/" not in n), *_families()])
    offer = f"there is {known}, {gymnasium.PREFIX}ID{_nearest(name, _MAKERS)}"
    raise UserError("env", f"{name!r} is unknown; {offer}")


def _families() -> list[str]:
    return list(dict.fromkeys(f"{name.split('/')[0]}/*" for name in _MAKERS if "/" in name))


def _nearest(name: str, known: Iterable[str]) -> str:
    """A suggestion, where something is near."""
    known = list(known)
    ends = [other for other in known if other.split("/")[-1] == name]
    near = ends or difflib.get_close_matches(name, known, n=1)
    return f". Did you mean {' or '.join(map(repr, near))}?" if near else ""
