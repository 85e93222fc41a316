"""The links, anchors and images of the built pages, and whether a page needs another host."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pathlib import Path

#: Attributes by which a page loads something; by ``href`` of ``a`` the reader goes somewhere.
_LOADING = {
    ("script", "src"),
    ("img", "src"),
    ("link", "href"),
    ("iframe", "src"),
    ("source", "src"),
}


def faults(folder: Path) -> list[str]:
    """Return what is wrong with the links of all pages below a folder, one line each."""
    pages = {path: _read(path) for path in sorted(folder.rglob("*.html"))}
    return [
        f"{path.relative_to(folder)}: {fault}"
        for path, page in pages.items()
        for fault in _faults_of(path, page, pages)
    ]


class _Page(HTMLParser):
    """Collects the targets and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[tuple[str, str, str]] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag leads to, and by which names it is found."""
        for name, value in attrs:
            if name in {"id", "name"} and value:
                self.anchors.add(value)
            if value is not None and ((tag, name) == ("a", "href") or (tag, name) in _LOADING):
                self.targets.append((tag, name, value))


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text())
    return page


def _faults_of(path: Path, page: _Page, pages: dict[Path, _Page]) -> list[str]:
    found = []
    for tag, name, target in page.targets:
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            if (tag, name) in _LOADING and parts.scheme != "data":
                found.append(f"loads {target} from another host")
            continue
        linked = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if linked.is_dir() or not linked.exists():
            found.append(f"{target} leads nowhere")
        elif (
            parts.fragment
            and linked in pages
            and unquote(parts.fragment) not in pages[linked].anchors
        ):
            found.append(f"{target} has no such anchor")
    return found
