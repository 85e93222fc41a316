"""What was made beside a table on another server, and came here by replication (R24).

A statement is replicated with its time, and so a table has the same CREATE TIME on every server
that carried it out: whoever puts another one in its place makes it later. Together with the
definition that proves a table, and its numbers here are noted instead of those of the first server.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spirit_py.checkpoint.made import Made, MadeStore
from spirit_py.checkpoint.record import digest_of
from spirit_py.mysql.tables.definition import read_table, shape_of
from spirit_py.mysql.tables.identity import Identity, identity
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.checkpoint.record import CheckpointRecord, TableProgress
    from spirit_py.contracts import SqlSession


def made_here(session: SqlSession, schema: str, table: str, progress: TableProgress | None) -> Made:
    """Return what was made beside a table, as this server knows it.

    What cannot be proven stays as it was noted: of another server, which proves nothing here.

    Args:
        progress: what the checkpoint's record says of the table; None where there is none.
    """
    made = MadeStore(schema, table).read(session)
    if progress is None:
        return made
    names = AuxiliaryNames.of(table)
    here = _Here(session, schema)
    new = here.find(made.new, progress.target_shape, (names.new, table, names.undone))
    source = here.find(made.source, progress.source_shape, (names.old, table))
    return replace(made, new=new, source=source)


def note_here(session: SqlSession, record: CheckpointRecord) -> None:
    """Note what this server knows the tables of a record by."""
    for progress in record.tables:
        schema, table = progress.name
        store = MadeStore(schema, table)
        here = made_here(session, schema, table, progress)
        if here != store.read(session):
            store.write(session, here)


class _Here:
    """The tables of one schema of this server."""

    def __init__(self, session: SqlSession, schema: str) -> None:
        self._session = session
        self._schema = schema

    def find(self, noted: Identity, shape: str, names: Iterable[str]) -> Identity:
        """Return the one replica of a table under these names; where there is none, what was noted.

        Args:
            shape: digest of the table's definition.
        """
        found = [one for name in names if (one := self._replica(noted, shape, name))]
        return found[0] if len(found) == 1 else noted

    def _replica(self, noted: Identity, shape: str, name: str) -> Identity | None:
        one = identity(self._session, self._schema, name)
        if not one.is_replica_of(noted):
            return None
        table = read_table(self._session, self._schema, name)
        same = table is not None and digest_of(shape_of(table), table.name) == shape
        return one if same else None
