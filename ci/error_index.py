"""Write docs/errors/index.md from the pages beside it: errors by exit code and by phase."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from spirit_py.cli.explain import PHASES, read_page
from spirit_py.cli.outcome import EXIT_MEANINGS
from spirit_py.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.cli.explain import Page

INDEX: Final = Path(__file__).parent.parent / "docs/errors/index.md"
#: A code that comes with exit code 0 is a warning's.
_MEANINGS: Final = {**EXIT_MEANINGS, 0: "warnings: the run continues"}
_HEAD: Final = """\
# Errors

Every error, and every finding of preflight, has a code that never changes its meaning. The error
that is shown ends with `more: spirit-py explain CODE`; the report (`--report-json`) and the log
lines (`--log-format json`) have it too. A code stands for what you have to do, so that several
causes may share one.

This page is made from the others: `.venv/bin/python ci/error_index.py`.
"""


def index() -> str:
    """Return the text of the page."""
    pages = [read_page(code) for code in ErrorCode]
    lines = [_HEAD, "## By phase", ""]
    for phase in PHASES:
        lines += [f"### {phase.capitalize()}", "", *_rows(p for p in pages if p.phase == phase), ""]
    lines += ["## By exit code", ""]
    for code, meaning in _MEANINGS.items():
        named = (f"[{page.code}]({page.code}.md)" for page in pages if code in page.exits)
        lines += [f"### {code}: {meaning}", "", ",\n".join(named), ""]
    return "\n".join(lines).rstrip() + "\n"


def _rows(pages: Iterable[Page]) -> list[str]:
    rows = [f"| [{page.code}]({page.code}.md) | {page.summary} |" for page in pages]
    return ["| code | |", "|---|---|", *rows]


if __name__ == "__main__":
    INDEX.write_text(index(), encoding="utf-8")
