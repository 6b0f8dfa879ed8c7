"""HTML by small functions: every string is escaped unless it was made here.

`Markup` is text that is HTML already. Nothing else becomes one, so a string from a run can be put
anywhere on a page and stays what it says.
"""

import html
import json
import re
import urllib.parse
from collections.abc import Iterable
from typing import Any

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, those that turn the direction of what follows, and halves of letters."""
_VOID = frozenset({"input", "br", "img"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: object) -> Markup:
    """`value` as it reads, its markup taken for letters."""
    return value if isinstance(value, Markup) else Markup(html.escape(legible(str(value))))


def legible(words: str) -> str:
    """`words` with a mark in place of what cannot be seen and would change what can."""
    return _UNSEEN.sub("\ufffd", words)


def join(parts: Iterable[object], between: str = "") -> Markup:
    """Parts one after the other; those that are None are left out."""
    return Markup(text(between).join(text(part) for part in parts if part is not None))


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """An element; `data_chart=` is the attribute `data-chart`. None and False are left out."""
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        words.append(key if value is True else f'{key}="{html.escape(legible(str(value)))}"')
    opening = Markup(f"<{' '.join(words)}>")
    if name in _VOID:
        return opening
    return Markup(f"{opening}{join(children)}</{name}>")


def link(path: str, *children: object) -> Markup:
    """To a file beside the page, whatever letters its name has: never to another scheme."""
    return tag("a", *children, href=urllib.parse.quote(f"./{path}", errors="replace"))


def data(value: Any) -> Markup:
    """JSON that can stand in a `<script>`: nothing in it ends that."""
    document = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    document = legible(document)
    for letter in "<>&\u2028\u2029":
        document = document.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(document)


def slug(name: str) -> str:
    """Of letters, digits and dashes: a name for a file or a place on the page."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80] or "unnamed"
