"""Find the reverse replication of a table, and its state."""

from __future__ import annotations

import contextlib
import enum
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.earlier_run import ReverseFound, ReverseState
from spirit_py.checkpoint.proofs import read_proofs, shape_here
from spirit_py.checkpoint.record import Pointer
from spirit_py.checkpoint.reverse import ENDED, REVERTING, ReverseRecord
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.mysql.tables.identity import is_one_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spirit_py.checkpoint.reverse import ReverseTable
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.tables.identity import Identity
    from spirit_py.table.names import Name


class Where(enum.Enum):
    """Where the old table is, before or after the atomic RENAME of a revert."""

    FORWARD = "the old table is beside the table"
    BACK = "the old table is in its place"
    UNCLEAR = "the old table is gone"


def find_reverse(session: SqlSession, schema: str, table: str) -> ReverseRecord | None:
    """Return the record of the reverse replication that a table takes part in; None without one.

    Raises:
        Refusal: when what is there cannot be read, or is not this program's.
    """
    checkpoint = CheckpointTable(schema, table)
    if not checkpoint.exists(session):
        return None
    if not checkpoint.is_ours(session):
        raise Refusal(
            f"table {checkpoint} is not a checkpoint table of spirit-py",
            hint="see who made it",
            error_code=ErrorCode.CHECKPOINT_UNREADABLE,
        )
    with contextlib.suppress(UnreadableCheckpoint):
        found = checkpoint.read_record(session)
        if isinstance(found, Pointer):
            checkpoint = CheckpointTable(*found.home)
    try:
        record = checkpoint.read(session, ReverseRecord)
    except UnreadableCheckpoint as error:
        raise Refusal(
            f"the record of reverse replication of {schema}.{table} cannot be read: {error}",
            hint="use the version of spirit-py that wrote it",
            error_code=ErrorCode.CHECKPOINT_UNREADABLE,
        ) from error
    # An obsolete pointer leads to the migration of other tables.
    known = record is not None and (schema, table) in {one.source for one in record.tables}
    return record if known else None


def old_tables(session: SqlSession, record: ReverseRecord) -> dict[Name, Identity]:
    """Return what proves the old table of each source; the checkpoints may go after this."""
    return {one.source: read_proofs(session, *one.source).source for one in record.tables}


def where_is(
    session: SqlSession, record: ReverseRecord, known: Mapping[Name, Identity] | None = None
) -> Where:
    """Look at the tables, while no process swaps them.

    If no revert was begun, an old table that is gone was dropped. The definitions alone do not
    show that, because a migration may leave the definition unchanged.

    Args:
        known: what proves the old tables, where the checkpoints may be gone; otherwise they tell.
    """
    proofs = old_tables(session, record) if known is None else known
    seen = {_where(session, table, proofs[table.source]) for table in record.tables}
    where = seen.pop() if len(seen) == 1 else Where.UNCLEAR
    return Where.UNCLEAR if where is Where.BACK and record.state != REVERTING else where


def _where(session: SqlSession, table: ReverseTable, proof: Identity) -> Where:
    now, old = (shape_here(session, table.schema, name) for name in (table.table, table.old))
    if old:
        return Where.FORWARD
    if now != table.old_shape:
        return Where.UNCLEAR
    # By hand the definition may have been changed back, and the old table dropped (R24).
    back = is_one_of(session, table.schema, table.table, proof)
    return Where.BACK if back else Where.UNCLEAR


def any_old_table(session: SqlSession, record: ReverseRecord) -> bool:
    """Return whether there is an old table left."""
    return any(shape_here(session, table.schema, table.old) for table in record.tables)


def reverse_left(session: SqlSession, tables: Iterable[tuple[str, str]]) -> ReverseFound | None:
    """Return what is left of the reverse replication that one of these tables takes part in.

    None also where nothing but its record is left: then the checkpoint tells the rest.

    Args:
        tables: schema and name of each.
    """
    for schema, table in tables:
        if not CheckpointTable(schema, table).is_ours(session):
            continue
        try:
            record = find_reverse(session, schema, table)
        except Refusal as error:
            return ReverseFound(
                state=ReverseState.LOST, names=f"{schema}.{table}", reason=error.message
            )
        if record is not None:
            return _left(session, record)
    return None


def _left(session: SqlSession, record: ReverseRecord) -> ReverseFound | None:
    where = where_is(session, record)
    undone = ", ".join(f"{table.schema}.{table.undone}" for table in record.tables)
    if where is Where.BACK:
        return ReverseFound(state=ReverseState.REVERTED, names=record.names, undone=undone)
    if not any_old_table(session, record):
        return None
    if where is Where.FORWARD and record.state != ENDED:
        until = datetime.fromtimestamp(record.until, UTC).isoformat(" ", "seconds")
        return ReverseFound(state=ReverseState.KEPT, names=record.names, until=until)
    reason = record.reason or "one of the old tables is gone"
    return ReverseFound(state=ReverseState.LOST, names=record.names, reason=reason)
