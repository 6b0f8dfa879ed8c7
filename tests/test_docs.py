"""The docs: their code runs and prints what they say, and the site builds, whole and offline."""

import ast
import contextlib
import io
import os
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlparse

import numpy as np
import pytest

import emphatic

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.M | re.S)
PLACED = re.compile(r"# \S+\.py: (new|at the end|behind|in place of)")
"""Begins a block that is part of a file: tests/test_contributing.py puts it there and uses it."""


class Block(NamedTuple):
    """A fenced block of code, and what the page says that it prints."""

    code: str
    printed: str | None


def blocks(text):
    """Python blocks of a page to be run; a `text` block right behind one is its output."""
    found = [Block(match[1], match[2]) for match in BLOCK.finditer(text)]
    return [block for block in found if not PLACED.match(block.code)]


def with_code(pages):
    return [page for page in pages if blocks(page.read_text(encoding="utf-8"))]


def run(code, names, where):
    """What `code` prints, run in the names of the blocks before it."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, where, "exec"), names)
    return out.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("page", with_code(PAGES), ids=lambda page: str(page.relative_to(DOCS)))
def test_code_of_a_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    with np.printoptions():
        for block in blocks(page.read_text(encoding="utf-8")):
            assert run(block.code, names, str(page)) == (block.printed or "")


def test_output_belongs_to_the_block_right_before_it():
    text = (
        "```python\na\n```\n\n```text\n1\n```\n\nx\n\n```python\nb\n```\n\ny\n\n```text\n2\n```\n"
    )
    assert blocks(text) == [Block("a\n", "1\n"), Block("b\n", None)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make docs` builds it, with no network to be had."""
    folder = tmp_path_factory.mktemp("site")
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


class Links(HTMLParser):
    """What a page loads, what it leads to, and the places in it that can be led to."""

    def __init__(self, page):
        super().__init__()
        self.loads, self.leads, self.places = [], [], set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.places |= {attrs[name] for name in ("id", "name") if attrs.get(name)}
        if attrs.get("src"):
            self.loads.append(attrs["src"])
        if attrs.get("href"):
            (self.loads if tag == "link" else self.leads).append(attrs["href"])


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        foreign = [link for link in Links(page).loads if urlparse(link).scheme not in ("", "data")]
        assert not foreign, page
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert not re.search(r"@import|url\(['\"]?(https?:)?//", text), sheet


@pytest.mark.slow
def test_every_link_of_the_site_leads_somewhere(site):
    pages = {page: Links(page) for page in site.rglob("*.html") if page.name != "404.html"}
    assert len(pages) > len(PAGES)
    for page, links in pages.items():
        for link in links.loads + links.leads:
            parts = urlparse(link)
            if parts.scheme or link in (".", "..") or not (parts.path or parts.fragment):
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{page.relative_to(site)} -> {link}"
            if parts.fragment and target in pages:
                place = unquote(parts.fragment)
                assert place in pages[target].places, f"{page.relative_to(site)} -> {link}"


def public_modules():
    """Modules of the API: all but the command line."""
    for path in sorted((ROOT / "src" / "emphatic").rglob("*.py")):
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        if "commands" not in parts and parts[-1] not in ("cli", "__main__"):
            yield ".".join(part for part in parts if part != "__init__"), path


def public_names(path):
    """Functions, classes and constants that a module defines for others."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        else:
            names = []
        yield from (name for name in names if not name.startswith("_"))


@pytest.mark.slow
def test_every_public_name_is_in_the_api_reference(site):
    compressed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(compressed).decode().splitlines()
    documented = {line.split()[0] for line in lines}
    missing = []
    for module, path in public_modules():
        wanted = [module, *(f"{module}.{name}" for name in public_names(path))]
        missing += [name for name in wanted if name not in documented]
    assert not missing
    assert {f"emphatic.{name}" for name in emphatic.__all__ if name != "UserError"} <= documented


def made():
    """Names in the first column of a table "file in results/X" of docs/reproduce.md, by X."""
    page, names = (DOCS / "reproduce.md").read_text(encoding="utf-8"), {}
    for table in re.findall(r"^\| file in .*\n(?:\|.*\n)+", page, re.M):
        folder = re.match(r"\| file in \[?`?results/([\w-]*)", table)[1]
        rows = table.splitlines()[2:]
        found = [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
        names.setdefault(folder, set()).update(found)
    return names


def shown_as(path):
    """A file's name within its results: figures without their ending, some folders whole."""
    folder = path.parts[0]
    if folder in ("summaries", "report"):
        return f"{folder}/"
    return str(path.with_suffix("") if folder == "figures" else path)


def test_every_result_can_be_reproduced():
    """Each file is named on docs/reproduce.md, with its folder, and what is named is there."""
    found = {}
    for path in sorted((ROOT / "results").rglob("*")):
        folder, *inside = path.relative_to(ROOT / "results").parts
        # What a run is described by stands in every folder; units are raw and not kept.
        own = path.name in ("README.md", "config.json") or path.name.startswith("summary.")
        if path.is_file() and not own and "units" not in inside:
            name = shown_as(Path(*inside)) if inside else folder
            found.setdefault(folder if inside else "", set()).add(name)
    assert found == made()


def test_every_module_is_on_the_map():
    """docs/architecture.md names each file of src/emphatic, in the row of its folder."""
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    rows = [row for row in page.splitlines() if row.startswith("| ")]
    missing = []
    for path in sorted((ROOT / "src" / "emphatic").rglob("*.py")):
        *folders, _ = path.relative_to(ROOT / "src" / "emphatic").parts
        if path.name.startswith("__"):
            continue
        place = f"`{'/'.join([*folders, ''])}" if folders else "`"
        word = re.compile(rf"\b{path.stem}\b(?!/)")
        if not any(place in row and word.search(row.split("|")[2]) for row in rows):
            missing.append("/".join([*folders, path.name]))
    assert not missing
