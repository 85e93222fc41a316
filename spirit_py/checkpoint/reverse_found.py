"""Find the way back of a table, and what has become of it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spirit_py.checkpoint.decision import WayBackFound, WayBackState
from spirit_py.checkpoint.made import MadeStore
from spirit_py.checkpoint.record import Membership, UnreadableCheckpoint, digest_of
from spirit_py.checkpoint.reverse import ENDED, REVERTING, KeepRecord, UnreadableRecord
from spirit_py.checkpoint.reverse_store import KeepStore
from spirit_py.checkpoint.store import CheckpointStore
from spirit_py.errors import Refusal
from spirit_py.mysql.tables.definition import read_table, shape_of
from spirit_py.mysql.tables.identity import is_one_of
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.checkpoint.reverse import KeptTable
    from spirit_py.contracts import SqlSession


class Where(enum.Enum):
    """Which of the two states the tables of a way back are in; the RENAME between is atomic."""

    FORWARD = "the old table is beside the table"
    BACK = "the old table is in its place"
    UNCLEAR = "the old table is gone"


@dataclass(frozen=True, kw_only=True)
class WayBack:
    """A way back that was found.

    Attributes:
        store: where its rows are.
    """

    store: KeepStore
    record: KeepRecord


def find_way_back(session: SqlSession, schema: str, table: str) -> WayBack | None:
    """Find the way back that a table takes part in; None when there is none.

    Raises:
        Refusal: when what is there cannot be read, or is not this program's.
    """
    home = _home(session, schema, table)
    if home is None:
        return None
    store = KeepStore(home[0], AuxiliaryNames.of(home[1]).checkpoint)
    try:
        record = store.read(session)
    except UnreadableRecord as error:
        raise Refusal(
            f"what was written about the way back of {schema}.{table} cannot be read: {error}",
            hint="use the version of spirit-py that wrote it",
        ) from error
    # A pointer that was left behind leads to the migration of other tables.
    if record is None or (schema, table) not in {(one.schema, one.table) for one in record.tables}:
        return None
    return WayBack(store=store, record=record)


def _home(session: SqlSession, schema: str, table: str) -> tuple[str, str] | None:
    """Return the table whose checkpoint table holds the record."""
    name = AuxiliaryNames.of(table).checkpoint
    store = CheckpointStore(schema, name)
    if not store.exists(session):
        return None
    if not store.is_ours(session):
        raise Refusal(
            f"table {schema}.{name} is not a checkpoint table of spirit-py",
            hint="see who made it",
        )
    try:
        stored = store.read(session)
    except UnreadableCheckpoint:
        return schema, table
    if stored is not None and isinstance(stored.found, Membership):
        return stored.found.home
    return schema, table


def where_is(session: SqlSession, record: KeepRecord) -> Where:
    """Look at the tables; nobody may be swapping them now.

    Where nobody has begun to swap back, an old table that is gone was dropped: the definitions
    alone do not tell, because a migration may leave the one that it found.
    """
    seen = {_where(session, table) for table in record.tables}
    where = seen.pop() if len(seen) == 1 else Where.UNCLEAR
    return Where.UNCLEAR if where is Where.BACK and record.state != REVERTING else where


def _where(session: SqlSession, table: KeptTable) -> Where:
    now, old = (_shape(session, table.schema, name) for name in (table.table, table.old))
    if old:
        return Where.FORWARD
    if now != table.old_shape:
        return Where.UNCLEAR
    # Somebody may have changed the definition back by hand, and dropped the old table (R24).
    source = MadeStore(table.schema, table.table).read(session).source
    back = is_one_of(session, table.schema, table.table, source)
    return Where.BACK if back else Where.UNCLEAR


def any_old_table(session: SqlSession, record: KeepRecord) -> bool:
    """Return whether there is an old table left."""
    return any(_shape(session, table.schema, table.old) for table in record.tables)


def what_is_left(session: SqlSession, tables: Iterable[tuple[str, str]]) -> WayBackFound | None:
    """Return what is left of the way back that one of these tables takes part in.

    None also where nothing but its record is left: then the checkpoint tells the rest.

    Args:
        tables: schema and name of each.
    """
    for schema, table in tables:
        if not CheckpointStore(schema, AuxiliaryNames.of(table).checkpoint).is_ours(session):
            continue
        try:
            found = find_way_back(session, schema, table)
        except Refusal as error:
            return WayBackFound(
                state=WayBackState.LOST, names=f"{schema}.{table}", reason=error.message
            )
        if found is not None:
            return _left(session, found.record)
    return None


def _left(session: SqlSession, record: KeepRecord) -> WayBackFound | None:
    where = where_is(session, record)
    undone = ", ".join(f"{table.schema}.{table.undone}" for table in record.tables)
    if where is Where.BACK:
        return WayBackFound(state=WayBackState.REVERTED, names=record.names, undone=undone)
    if not any_old_table(session, record):
        return None
    if where is Where.FORWARD and record.state != ENDED:
        until = datetime.fromtimestamp(record.until, UTC).isoformat(" ", "seconds")
        return WayBackFound(state=WayBackState.KEPT, names=record.names, until=until)
    reason = record.reason or "one of the old tables is gone"
    return WayBackFound(state=WayBackState.LOST, names=record.names, reason=reason)


def _shape(session: SqlSession, schema: str, name: str) -> str:
    """Return a digest of a table's definition; empty when there is no such table."""
    found = read_table(session, schema, name)
    return "" if found is None else digest_of(shape_of(found), found.name)
