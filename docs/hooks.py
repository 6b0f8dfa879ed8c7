"""mkdocs hooks: files outside docs/ that pages link to become part of the site.

On a repository's web page `../results/x.png` leads from docs/ to a figure; in a site whose root is
docs/ it would lead nowhere. What is linked that way is carried along under its own path, and
the links are rewritten. A Python file becomes a page that shows it.
"""

import os
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

DOCS = "docs"
LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)([^)\s#]+)")


def on_files(files, config):
    """Add what pages link to, and what that links to in turn."""
    root = Path(config.config_file_path).parent
    seen = {f"{DOCS}/{file.src_uri}" for file in files}
    waiting = sorted(path for path in seen if path.endswith(".md"))
    while waiting:
        page = waiting.pop()
        for path in linked(page, (root / page).read_text(encoding="utf-8"), root):
            if path not in seen:
                seen.add(path)
                files.append(carried(path, root, config))
                waiting += [path] if path.endswith(".md") else []
    return files


def on_page_markdown(markdown, page, config, files):
    """Point links at where their targets lie in the site."""
    del files
    root = Path(config.config_file_path).parent
    source = source_of(page.file.src_uri, root)
    here = posixpath.dirname(page.file.src_uri)

    def moved(match):
        path = target(source, match[1], root)
        return posixpath.relpath(uri(path), here or ".") if path else match[1]

    return LINK.sub(moved, markdown)


def linked(page: str, markdown: str, root: Path) -> list[str]:
    """Files of the repository outside docs/ that a page links to, in order."""
    paths = (target(page, link, root) for link in LINK.findall(markdown))
    return [path for path in paths if path and not path.startswith(f"{DOCS}/")]


def target(page: str, link: str, root: Path) -> str | None:
    """The file of the repository that a link leads to, if there is one; a folder is its README."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    if (root / path).is_dir():
        path = posixpath.join(path, "README.md")
    return path if (root / path).is_file() and not path.startswith("..") else None


def uri(path: str) -> str:
    """Where a file of the repository lies among the site's sources."""
    if path.startswith(f"{DOCS}/"):
        return path.removeprefix(f"{DOCS}/")
    return f"{path}.md" if path.endswith(".py") else path


def source_of(src_uri: str, root: Path) -> str:
    """The inverse of `uri`."""
    if (root / DOCS / src_uri).is_file():
        return f"{DOCS}/{src_uri}"
    return src_uri.removesuffix(".md") if src_uri.endswith(".py.md") else src_uri


def carried(path: str, root: Path, config) -> File:
    """The file as the site has it."""
    if not path.endswith(".py"):
        return File.generated(config, uri(path), abs_src_path=os.fspath(root / path))
    code = (root / path).read_text(encoding="utf-8").rstrip()
    return File.generated(config, uri(path), content=f"# {path}\n\n```python\n{code}\n```\n")
