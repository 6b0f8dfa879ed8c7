"""Options parsed by tyro, its mistakes said in one sentence."""

import contextlib
import functools
import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import tyro

from emphatic import documents
from emphatic.errors import UserError


def parsed(
    kind: Callable[..., Any], verb: str, arguments: Sequence[str], **tyro_options: Any
) -> Any:
    """What tyro makes of `arguments` for `kind`, a dataclass or a function it calls."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(kind, prog=f"emphatic {verb}", args=arguments, **tyro_options)
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise UserError(*_sentence(complaint.getvalue(), verb)) from None


def bound(command: Callable[..., None], verb: str, arguments: Sequence[str]) -> Callable[[], None]:
    """`command` with its arguments, not called yet."""

    @functools.wraps(command)
    def later(*args, **kwargs):
        return functools.partial(command, *args, **kwargs)

    return parsed(later, verb, arguments)


def pairs(option: str, given: Sequence[str]) -> dict[str, Any]:
    """`name=value` pairs; a value is what JSON makes of it, else a word."""
    found: dict[str, Any] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UserError(option, f"must be name=value, not {pair!r}")
        try:
            found[name] = documents.decoded(value)
        except ValueError:
            found[name] = value
    return found


def _sentence(box: str, verb: str) -> tuple[str, str]:
    """The field and the problem in tyro's box: its lines up to the first rule."""
    lines = [line.strip("│|+╭╮╰╯ ") for line in box.splitlines()][1:]
    content: list[str] = []
    for line in lines:
        if not line.startswith(("─", "-----")):
            content.append(line)
        elif content:
            break
    text = re.sub(r"\s+", " ", " ".join(content)).strip()
    if found := re.match(r"Error parsing (\S+): (.*)", text):
        return found[1], f"{found[2]}; see emphatic {verb} --help"
    return "options", f"{text}; see emphatic {verb} --help"
