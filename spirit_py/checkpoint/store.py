"""The checkpoint table: one row, replaced atomically.

Its presence with a readable row is also the proof that the auxiliary tables beside it are
the program's own, and not some other tool's (R17).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.checkpoint.record import CheckpointRecord, UnreadableCheckpoint, from_text, to_text
from spirit_py.sql import quote_table, string_literal

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession

_MARK = "spirit-py checkpoint"


class CheckpointStore:
    """Reads and writes one migration's checkpoint table.

    Args:
        schema: Schema of the source table.
        table: Name of the checkpoint table.
    """

    def __init__(self, schema: str, table: str) -> None:
        self._schema = schema
        self._name = table
        self._table = quote_table(schema, table)

    def create(self, session: SqlSession, record: CheckpointRecord) -> None:
        """Create the table and write its first row."""
        session.execute(
            f"CREATE TABLE {self._table} (id TINYINT UNSIGNED NOT NULL PRIMARY KEY,"
            " record LONGTEXT CHARACTER SET utf8mb4 NOT NULL,"
            " written_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6))"
            f" ENGINE=InnoDB COMMENT={_comment(_MARK)}"
        )
        self.write(session, record)

    def write(self, session: SqlSession, record: CheckpointRecord) -> None:
        """Replace the row in one statement."""
        session.execute(
            f"REPLACE INTO {self._table} (id, record) VALUES (1, {string_literal(to_text(record))})"
        )

    def exists(self, session: SqlSession) -> bool:
        """Tell whether the table exists, whoever made it."""
        return bool(
            session.query(
                "SELECT 1 FROM information_schema.TABLES"
                " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
                (self._schema, self._name),
            )
        )

    def read(self, session: SqlSession) -> CheckpointRecord | None:
        """Read the record; None when the table is absent.

        Raises:
            UnreadableCheckpoint: when the table is not ours, or its row cannot be read.
        """
        found = session.query(
            "SELECT TABLE_COMMENT FROM information_schema.TABLES"
            " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
            (self._schema, self._name),
        )
        if not found:
            return None
        if found[0][0] != _MARK:
            raise UnreadableCheckpoint(f"{self._name} is not a checkpoint table of spirit-py")
        rows = session.query(f"SELECT record FROM {self._table} WHERE id = 1")
        if not rows:
            raise UnreadableCheckpoint(f"{self._name} has no row")
        return from_text(str(rows[0][0]))

    def drop(self, session: SqlSession) -> None:
        """Drop the table, if it exists."""
        session.execute(f"DROP TABLE IF EXISTS {self._table}")


def _comment(text: str) -> str:
    """Quote a fixed comment; DDL takes no hexadecimal literal there."""
    return "'" + text.replace("'", "''") + "'"
