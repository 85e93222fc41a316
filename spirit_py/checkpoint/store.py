"""The checkpoint table: one row, replaced atomically.

Its mark is the proof that it is the program's own, and not some other tool's (R17); for the other
tables beside it there is a proof of each (:mod:`spirit_py.checkpoint.made`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from spirit_py import points
from spirit_py.checkpoint.record import (
    CheckpointRecord,
    Membership,
    UnreadableCheckpoint,
    from_text,
    pointer_text,
    to_text,
)
from spirit_py.sql import comment_literal, quote_table, string_literal
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession

MARK: Final = "spirit-py checkpoint"
"""The comment of every checkpoint table."""

_MARKED: Final = """
SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"""
_ROW: Final = """
SELECT record, TIMESTAMPDIFF(MICROSECOND, written_at, CURRENT_TIMESTAMP(6)) FROM {} WHERE id = 1"""


@dataclass(frozen=True, kw_only=True)
class StoredCheckpoint:
    """What stands in a checkpoint table.

    Attributes:
        found: the record, or where it is.
        age: seconds since it was written, by the server's clock; below 0 when that was set back.
    """

    found: CheckpointRecord | Membership
    age: float


class CheckpointStore:
    """Reads and writes one table's checkpoint table.

    Args:
        schema: Schema of the source table.
        table: Name of the checkpoint table.
    """

    def __init__(self, schema: str, table: str) -> None:
        self._schema = schema
        self._name = table
        self._table = quote_table(schema, table)

    @classmethod
    def beside(cls, schema: str, table: str) -> Self:
        """Return the store beside a source table."""
        return cls(schema, AuxiliaryNames.of(table).checkpoint)

    def create(self, session: SqlSession, record: CheckpointRecord | Membership) -> None:
        """Create the table and write its first row."""
        session.execute(
            f"CREATE TABLE {self._table} (id TINYINT UNSIGNED NOT NULL PRIMARY KEY,"
            " record LONGTEXT CHARACTER SET utf8mb4 NOT NULL,"
            " written_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),"
            " made LONGTEXT CHARACTER SET utf8mb4)"
            f" ENGINE=InnoDB COMMENT={comment_literal(MARK)}"
        )
        self.write(session, record)
        points.reach("checkpoint.created")

    def write(self, session: SqlSession, record: CheckpointRecord | Membership) -> None:
        """Replace the row in one statement."""
        text = pointer_text(record) if isinstance(record, Membership) else to_text(record)
        session.execute(
            f"REPLACE INTO {self._table} (id, record) VALUES (1, {string_literal(text)})"
        )

    def exists(self, session: SqlSession) -> bool:
        """Return whether the table exists, whoever made it."""
        return bool(session.query(_MARKED, (self._schema, self._name)))

    def is_ours(self, session: SqlSession) -> bool:
        """Return whether the table exists and was made by this program, readable or not."""
        return session.query(_MARKED, (self._schema, self._name)) == [(MARK,)]

    def read(self, session: SqlSession) -> StoredCheckpoint | None:
        """Read the record; None when the table is absent.

        Raises:
            UnreadableCheckpoint: when the table is not ours, or its row cannot be read.
            ServerFault: when the server could not be asked: that proves nothing.
        """
        found = session.query(_MARKED, (self._schema, self._name))
        if not found:
            return None
        if found[0][0] != MARK:
            raise UnreadableCheckpoint(f"{self._name} is not a checkpoint table of spirit-py")
        rows = session.query(_ROW.format(self._table))
        if not rows:
            raise UnreadableCheckpoint(f"{self._name} has no row")
        return StoredCheckpoint(found=from_text(str(rows[0][0])), age=int(rows[0][1]) / 1e6)

    def drop(self, session: SqlSession) -> None:
        """Drop the table, if it exists and is ours."""
        points.reach("cleanup.checkpoint")
        if self.is_ours(session):
            session.execute(f"DROP TABLE IF EXISTS {self._table}")
