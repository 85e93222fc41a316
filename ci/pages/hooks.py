"""What mkdocs calls while it builds the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.exceptions import PluginError

from pages import axis, boxes, options, sequence
from pages.svg import DrawingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_DRAWINGS: dict[str, Callable[[str], str]] = {
    "sequence": sequence.drawn,
    "boxes": boxes.drawn,
    "axis": axis.drawn,
}
_OPTIONS = re.compile(r"^<!-- options of: ([\w-]+) -->$", re.MULTILINE)
_TABLE_ROW = re.compile(r"^\|.*$", re.MULTILINE)
_CODE = re.compile(r"`[^`]+`")
_COMMANDS = "<!-- commands -->"


#: What a hit in a part of the navigation weighs in the search; 1 in any other. That of an error's
#: page counts more already, because its title is the word that is looked for.
_BOOST = {"Errors": 0.8, "Troubleshooting": 3, "Commands": 2, "Guide": 2, "Development": 0.2}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the fences of drawings known."""
    fences = [{"name": name, "class": name, "format": _formatter(name)} for name in _DRAWINGS]
    config.mdx_configs.setdefault("pymdownx.superfences", {})["custom_fences"] = fences
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace a pattern of the navigation, such as ``errors/*.md``, by the pages that match it.

    A command of the program without a page, or a page of none, ends the build.
    """
    known = {file.src_uri for file in files.documentation_pages()}
    config.nav = _expanded(config.nav, known)
    described = {
        name.removeprefix("commands/").removesuffix(".md")
        for name in known
        if name.startswith("commands/")
    } - {"index", "settings"}
    if described != set(options.COMMANDS):
        raise PluginError(
            "docs/commands/ must have one page for each command of spirit-py; not so: "
            + ", ".join(sorted(described ^ set(options.COMMANDS)))
        )
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the options of a command, and the list of commands, where the page asks for them.

    The search shows what operators need before the analyses of those who develop the program.
    """
    del config, files
    parts = {str(one.title) for one in page.ancestors}
    page.meta["search"] = {"boost": next((_BOOST[one] for one in parts if one in _BOOST), 1)}
    markdown = markdown.replace(_COMMANDS, options.commands())
    markdown = _OPTIONS.sub(lambda found: options.described(found[1]), markdown)
    return _TABLE_ROW.sub(lambda row: _CODE.sub(_bars, row[0]), markdown)


def _bars(code: re.Match[str]) -> str:
    """Return code of a table with plain bars, which this Markdown does not take for a border."""
    return code[0].replace("\\|", "|")


def _expanded(entry: Any, known: set[str]) -> Any:
    """Return a part of the navigation with its patterns expanded."""
    if isinstance(entry, dict):
        return {title: _expanded(one, known) for title, one in entry.items()}
    if not isinstance(entry, list):
        return entry
    pages: list[Any] = []
    for one in entry:
        if isinstance(one, str) and "*" in one:
            folder, _, ending = one.partition("*")
            named = {
                name
                for below in entry
                for name in (below.values() if isinstance(below, dict) else [below])
                if isinstance(name, str)
            }
            pages += sorted(
                name
                for name in known
                if name.startswith(folder) and name.endswith(ending) and name not in named
            )
        else:
            pages.append(_expanded(one, known))
    return pages


def _formatter(kind: str) -> Callable[..., str]:
    """Return the function by which a fence becomes a drawing."""

    def formatted(
        source: str, language: str, css_class: str, options: Any, md: Any, **_: Any
    ) -> str:
        del language, css_class, options, md
        try:
            drawing = _DRAWINGS[kind](source)
        except DrawingError as wrong:
            raise PluginError(f"a drawing ({kind}) is wrong: {wrong}") from wrong
        return f'<figure class="drawing">{drawing}</figure>'

    return formatted


def on_post_build(config: MkDocsConfig) -> None:
    """Remove the page for wrong addresses: a folder has no server that would show it."""
    (Path(config.site_dir) / "404.html").unlink(missing_ok=True)
