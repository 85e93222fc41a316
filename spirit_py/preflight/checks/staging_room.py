"""A table that is too wide for a staging table, which has one column more.

InnoDB has room for 1017 columns, and a row for 65 535 bytes and, without long values, half a page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.applier.stage import drop_stage, make_row_stage
from spirit_py.errors import ServerFault
from spirit_py.mysql.evaluation import as_stored
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn
from spirit_py.table.keys import comparable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.table.mapping import TableMapping

_TOO_WIDE: Final = frozenset({1117, 1118})  # too many columns, row size too large


def staging_room(context: PreflightContext) -> Findings:
    """Refuse where changed rows need a staging table that the server cannot make."""
    mapping = context.mapping
    try:
        with as_stored(context.session):
            make_row_stage(context.session, mapping)
    except ServerFault as fault:
        if fault.code not in _TOO_WIDE:
            raise
        why = f"the server cannot make a table with one column more than it ({fault.text})"
    else:
        drop_stage(context.session, mapping)
        return
    needed = "; ".join(_needing(mapping))
    if needed:
        yield refuse(
            f"{context.schema}.{context.table} is too wide for the staging table that its changes"
            f" take, because {needed}: {why}",
            "make this change in an ALTER of its own, natively; or first drop a column, or shorten"
            " one",
        )
    else:
        yield warn(
            f"{context.schema}.{context.table} is too wide for a staging table: {why}; a difference"
            " that the checksum finds could not be repaired, and would end the migration"
        )


def _needing(mapping: TableMapping) -> Iterator[str]:
    converted = [pair.old.name for pair in mapping.pairs if pair.converted]
    if converted:
        yield f"the server must convert {', '.join(converted)}"
    if mapping.keep is not None:
        yield "the server judges by --keep which of them are written"
    if mapping.merging or mapping.tightened:
        yield "a key of the new table may find rows equal that differ in the source"
    if not comparable(mapping.key_columns):
        yield f"its rows are told apart by {', '.join(mapping.key.columns)}"
    numbered = [pair.old.name for pair in mapping.pairs if pair.old.data_type == "enum"]
    if numbered:
        yield f"{', '.join(numbered)} may hold the number 0 of an ENUM"
