"""Find the way back of a table, and what has become of it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spirit_py.checkpoint.record import Membership, UnreadableCheckpoint, digest_of
from spirit_py.checkpoint.store import CheckpointStore
from spirit_py.errors import Refusal
from spirit_py.mysql.inspect import read_table, shape_of
from spirit_py.table.names import AuxiliaryNames
from spirit_py.wayback.record import KeepRecord, UnreadableRecord
from spirit_py.wayback.store import KeepStore

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession
    from spirit_py.wayback.record import KeptTable


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
    return None if record is None else WayBack(store=store, record=record)


def _home(session: SqlSession, schema: str, table: str) -> tuple[str, str] | None:
    """Give the table whose checkpoint table holds the record."""
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
    """Look at the tables; nobody may be swapping them now."""
    seen = {_where(session, table) for table in record.tables}
    return seen.pop() if len(seen) == 1 else Where.UNCLEAR


def _where(session: SqlSession, table: KeptTable) -> Where:
    now, old = (_shape(session, table.schema, name) for name in (table.table, table.old))
    if old:
        return Where.FORWARD
    return Where.BACK if now == table.old_shape else Where.UNCLEAR


def _shape(session: SqlSession, schema: str, name: str) -> str:
    """Give a digest of a table's definition; empty when there is no such table."""
    found = read_table(session, schema, name)
    return "" if found is None else digest_of(shape_of(found), found.name)
