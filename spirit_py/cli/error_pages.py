"""Where more is said about an error: ``spirit-py explain``, and the team's copy of the site."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

_KEPT: Final = "spirit_py.docs_url"


def keep_docs_url(context: click.Context, _parameter: click.Parameter, value: str) -> None:
    """Keep the address of ``--docs-url`` for :func:`more_about`."""
    context.meta[_KEPT] = value


def more_about(codes: Iterable[str]) -> list[str]:
    """Return the lines that name the pages about an error, given its codes."""
    context = click.get_current_context(silent=True)
    base = str(context.meta.get(_KEPT, "")).rstrip("/") if context else ""
    codes = list(codes)
    lines = [f"more: spirit-py explain {' '.join(codes)}"]
    return lines + [f"more: {base}/errors/{code}.html" for code in codes if base]
