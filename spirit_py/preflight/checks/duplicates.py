"""Rows that a new UNIQUE key cannot hold together are named before the copy starts (R11)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.events.copy import DuplicatesSearched
from spirit_py.mysql.duplicates import EXAMPLES, duplicates_for, search_room
from spirit_py.preflight.check import Finding, Findings, PreflightContext, refuse, warn
from spirit_py.preflight.checks.disk_space import free_bytes
from spirit_py.units import human_bytes

if TYPE_CHECKING:
    from collections.abc import Callable


_TELL_SECONDS: Final = 5.0
_LARGE: Final = 1 << 30


def duplicates(context: PreflightContext) -> Findings:
    """Search the source under the new definition, for each key that it does not guarantee."""
    mapping = context.mapping
    tight: list[Finding] = []

    def require_room(needed: int) -> None:
        tight.extend(_check_room(context, needed))

    require_room(search_room(context.session, mapping))
    for index in mapping.tightened:
        context.check_stop()
        found = duplicates_for(
            context.session,
            mapping,
            index,
            seen=_now_and_then(context, index.name),
            hashing=require_room,
        )
        if found:
            count = "one value is"
            if len(found) > 1:
                more = " or more" if len(found) == EXAMPLES else ""
                count = f"{len(found)}{more} values are"
            yield refuse(
                f"the new unique key {index.name} meets duplicates in {mapping.source.name}:"
                f" {count} in several rows",
                "change or delete these rows, or add columns to the key",
                [str(duplicate) for duplicate in found],
            )
    yield from tight


def _check_room(context: PreflightContext, needed: int) -> Findings:
    free = free_bytes(context.facts)
    if free is not None and needed > free:
        raise Refusal(
            f"the search for duplicates of a new unique key takes about {human_bytes(needed)} in a"
            f" temporary tablespace, and the server has {human_bytes(free)} free",
            hint="free disk space; or first add an index that begins with a column of the new key"
            " in which no value is frequent: the search then goes by its ranges and needs no such"
            " space",
            error_code=ErrorCode.NO_DISK_SPACE,
        )
    if free is None and needed >= _LARGE:
        yield warn(
            "the server's free disk space cannot be seen from here; the search for duplicates of a"
            f" new unique key takes about {human_bytes(needed)} in a temporary tablespace",
            code=ErrorCode.NO_DISK_SPACE,
        )


def _now_and_then(context: PreflightContext, name: str) -> Callable[[int], None]:
    told = time.monotonic()

    def seen(rows: int) -> None:
        nonlocal told
        context.check_stop()
        if time.monotonic() - told >= _TELL_SECONDS:
            told = time.monotonic()
            context.tell(DuplicatesSearched(index=name, rows=rows))

    return seen
