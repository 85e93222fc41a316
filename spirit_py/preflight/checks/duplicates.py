"""Rows that a new UNIQUE key cannot hold together are named before the copy starts (R11)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from spirit_py.events import EventName
from spirit_py.mysql.values.duplicates import EXAMPLES, duplicates_for
from spirit_py.preflight.check import Findings, PreflightContext, refuse

if TYPE_CHECKING:
    from collections.abc import Callable


_TELL_SECONDS: Final = 5.0


def check(context: PreflightContext) -> Findings:
    """Search the source under the new definition, for each key that it does not guarantee."""
    mapping = context.mapping
    for index in mapping.tightened:
        found = duplicates_for(
            context.session, mapping, index, seen=_now_and_then(context, index.name)
        )
        if found:
            count = "one value is"
            if len(found) > 1:
                more = " or more" if len(found) == EXAMPLES else ""
                count = f"{len(found)}{more} values are"
            yield refuse(
                f"the new unique key {index.name} meets duplicates in {mapping.source.name}:"
                f" {count} in several rows",
                "change or delete these rows, or make the key wider",
                [str(duplicate) for duplicate in found],
            )


def _now_and_then(context: PreflightContext, name: str) -> Callable[[int], None]:
    """Report the rows looked at every few seconds; end the search when a stop was asked for."""
    told = time.monotonic()

    def seen(rows: int) -> None:
        nonlocal told
        context.check_stop()
        if time.monotonic() - told >= _TELL_SECONDS:
            told = time.monotonic()
            context.tell(
                EventName.DUPLICATES_SEARCHED,
                f"looked at about {rows} rows for duplicates of the new key {name}",
                index=name,
                rows=rows,
            )

    return seen
