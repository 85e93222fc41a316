"""What an error or a warning of an applied statement means (R10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.errors import PacketTooSmall, ServerFault, ValueLost
from spirit_py.mysql.complaint import read_complaint
from spirit_py.mysql.faults import PACKET_TOO_SMALL, RAISE_PACKET
from spirit_py.mysql.values.lost_values import DEPRECATED, VALUE_ERRORS, telling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping

TRUNCATED: Final = 1265
UNDEFINED_CHARACTER: Final = 1300
"""A byte that its character set does not define: in a key's literal it is compared all the same."""

_EXCERPT: Final = 300


def judge_warnings(
    session: SqlSession,
    mapping: TableMapping,
    rows: Sequence[str] = (),
    *,
    allowed: Iterable[int] = (DEPRECATED,),
) -> None:
    """Raise for any warning of the last statement that is not allowed."""
    for level, code, text in telling(session, mapping.recomputed):
        if code in PACKET_TOO_SMALL:
            raise PacketTooSmall(
                f"a changed row of {mapping.source.schema}.{mapping.source.name} has a value that"
                f" is too large: {text} ({level.lower()} {code})",
                hint=RAISE_PACKET,
            )
        if code not in set(allowed):
            raise value_lost(mapping, f"{level.lower()} {code}: {text}", rows)


def judge_fault(fault: ServerFault, mapping: TableMapping, rows: Sequence[str] = ()) -> Exception:
    """Return the error to raise for a fault of an applied statement."""
    if fault.code in VALUE_ERRORS:
        return value_lost(mapping, f"error {fault.code}: {fault.text}", rows)
    return fault


def value_lost(mapping: TableMapping, text: str, rows: Sequence[str]) -> ValueLost:
    """Build the error that names the column and, where the server says it, the row."""
    column, row = read_complaint(text)
    details: tuple[str, ...] = ()
    if 0 < row <= len(rows):
        details = (f"row: {rows[row - 1][:_EXCERPT]}",)
    about = f"column {column} of " if column else ""
    return ValueLost(
        f"a changed row does not fit into {about}{mapping.target.schema}.{mapping.target.name}:"
        f" {text}",
        hint="change the row in the source, then run the same command again: it carries on; or"
        " choose a column type that holds it, which starts from the beginning",
        details=details,
    )
