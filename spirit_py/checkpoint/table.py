"""The checkpoint table beside a source table: each of its rows is replaced in one statement.

Its comment proves that it is the program's own (R17). Ids below 0 are messages of tasks on Spark
(:mod:`spirit_py.spark.server_mailbox`).

==  ==================================================================================
1   the migration's record, or a pointer to the table that has it
2   reverse replication: its record
3   the heartbeat: when it was written is all that it has
4   what a swap attaches to its tables, from before its first statement until all is in place
5   the proofs of which tables are the migration's
6   what the running process shows of itself
7   what operators have set, for the next run too
8   where the tables are moved to, and whether the application was switched over
9   the old table, where it is kept after the swap
==  ==================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar

from spirit_py import points
from spirit_py.attached.record import AttachmentsNote
from spirit_py.checkpoint import codec
from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.live import LiveFigures, StandingOrders
from spirit_py.checkpoint.record import (
    CheckpointRecord,
    MoveNote,
    OldTableRecord,
    Pointer,
    Proofs,
    ReverseRecord,
)
from spirit_py.mysql.faults import ABSENT_TABLE, NO_SUCH_KEY, excused
from spirit_py.mysql.tables.identity import has_mark, kind_and_comment, marked
from spirit_py.sql import comment_literal, quote_table, string_literal
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession
    from spirit_py.table.names import Name

_MARK: Final = "spirit-py checkpoint"

_Note: TypeAlias = Proofs | OldTableRecord | ReverseRecord | AttachmentsNote | MoveNote
Row: TypeAlias = CheckpointRecord | Pointer | LiveFigures | StandingOrders | _Note
_Kind = TypeVar("_Kind", bound=Row)
_IDS: Final[dict[type[Row], int]] = {
    CheckpointRecord: 1,
    Pointer: 1,
    ReverseRecord: 2,
    AttachmentsNote: 4,
    Proofs: 5,
    LiveFigures: 6,
    StandingOrders: 7,
    MoveNote: 8,
    OldTableRecord: 9,
}
#: Rows that processes of other versions look at, and carry nothing on from.
_SHOWN: Final[frozenset[type[Row]]] = frozenset({LiveFigures})
#: Rows that say what may be dropped: without them nothing beside the table is.
_PROVING: Final = (Proofs, OldTableRecord, ReverseRecord, MoveNote)
_RECORD: Final = f"IF(LENGTH(record) > {codec.LONGEST}, '', record)"
HEARTBEAT_ID: Final = 3
"""Its ``written_at`` shows on a replica how far that has come."""


def checkpoint_tables(session: SqlSession, schema: str = "") -> list[tuple[str, str]]:
    """Return schema and name of the program's checkpoint tables, of one schema or of all."""
    return marked(session, _MARK, schema=schema)


class RecordTable:
    """A table of rows in JSON, which a comment proves to be the program's own (R17)."""

    MARK: ClassVar[str]
    #: What the numbers of the rows have besides their type.
    NUMBERS: ClassVar[str] = " AUTO_INCREMENT"

    def __init__(self, schema: str, name: str) -> None:
        self.name = (schema, name)
        self.quoted = quote_table(schema, name)

    def __str__(self) -> str:
        return ".".join(self.name)

    def is_ours(self, session: SqlSession) -> bool:
        """Return whether the table exists and was made by this program, readable or not."""
        return has_mark(session, self.name, self.MARK)

    def make(self, session: SqlSession) -> None:
        """Create the table, without a row."""
        session.execute(
            f"CREATE TABLE {self.quoted} (id INT NOT NULL{self.NUMBERS} PRIMARY KEY,"
            " record LONGTEXT CHARACTER SET utf8mb4 NOT NULL,"
            " written_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6))"
            f" ENGINE=InnoDB COMMENT={comment_literal(self.MARK)}"
        )

    def drop(self, session: SqlSession) -> None:
        """Drop the table, if it exists and is ours."""
        if self.is_ours(session):
            session.execute(f"DROP TABLE IF EXISTS {self.quoted}")

    def replace(self, session: SqlSession, number: int, row: Any) -> None:
        """Replace the row of a number, or add it."""
        text = string_literal(codec.to_text(row))
        session.execute(f"REPLACE INTO {self.quoted} (id, record) VALUES ({number}, {text})")


class CheckpointTable(RecordTable):
    """Reads and writes the checkpoint table beside one source table; ``quoted`` is its name."""

    MARK = _MARK
    NUMBERS = ""

    def __init__(self, schema: str, table: str) -> None:
        super().__init__(schema, AuxiliaryNames.of(table).checkpoint)

    def create(self, session: SqlSession, record: CheckpointRecord | Pointer) -> None:
        """Create the table and write its first row."""
        self.make(session)
        self.write(session, record)
        points.reach("checkpoint.created")

    def is_beside(self, table: Name) -> bool:
        """Return whether this is the checkpoint table of that table: a copy elsewhere is not."""
        return (table[0], AuxiliaryNames.of(table[1]).checkpoint) == self.name

    def exists(self, session: SqlSession) -> bool:
        """Return whether the table exists, made by this program or not."""
        return kind_and_comment(session, self.name) is not None

    def drop(self, session: SqlSession) -> None:
        """Drop the table, if it exists and is ours."""
        points.reach("cleanup.checkpoint")
        super().drop(session)

    def write(self, session: SqlSession, row: Row) -> None:
        """Replace the row of that kind."""
        self.replace(session, _IDS[type(row)], row)

    def amend(self, session: SqlSession, row: Row) -> None:
        """Change the row of that kind, whose age stays: its place in the binlog is no newer.

        Not by an UPDATE, for which an account needs no right otherwise.
        """
        text, number = string_literal(codec.to_text(row)), _IDS[type(row)]
        session.execute(
            f"REPLACE INTO {self.quoted} (id, record, written_at)"
            f" SELECT id, {text}, written_at FROM {self.quoted} WHERE id = {number}"
        )

    def harden(self, session: SqlSession) -> None:
        """Have the rows reach the disk: DDL writes the redo log, even if commits do not (R25)."""
        if int(session.query("SELECT @@GLOBAL.innodb_flush_log_at_trx_commit")[0][0]) != 1:
            session.execute(f"ALTER TABLE {self.quoted} COMMENT={comment_literal(self.MARK)}")

    def beat(self, session: SqlSession) -> None:
        """Write the heartbeat, with the server's time, in a transaction of its own."""
        session.execute(f"REPLACE INTO {self.quoted} (id, record) VALUES ({HEARTBEAT_ID}, '')")

    @property
    def beat_query(self) -> str:
        """The query for when the heartbeat was written; on a replica: that which it has."""
        table = f"{self.quoted} FORCE INDEX (PRIMARY)"
        return f"SELECT written_at FROM {table} WHERE id = {HEARTBEAT_ID}"

    def read(self, session: SqlSession, kind: type[_Kind]) -> _Kind | None:
        """Return the row of that kind, or None; raise UnreadableCheckpoint if it is unreadable.

        The note of a move and the record of a way back are none of a table beside which they were
        not written: they were copied here, or forged (R26).
        """
        found = self._value(session, _RECORD, kind)
        if found is None:
            return None
        read = codec.message_from_text if kind in _SHOWN else codec.from_text
        row = read(str(found), kind)
        of = row.beside if isinstance(row, MoveNote) else None
        of = row.home if isinstance(row, ReverseRecord) else of
        return row if of is None or self.is_beside(of) else None

    def unreadable(self, session: SqlSession) -> str:
        """Return why a row cannot be read that says what may be dropped; empty if all can."""
        try:
            for kind in _PROVING:
                self.read(session, kind)
        except UnreadableCheckpoint as error:
            return str(error)
        return ""

    def has(self, session: SqlSession, kind: type[Row]) -> bool:
        """Return whether there is a row of that kind, readable or not."""
        return bool(self._value(session, "1", kind))

    def age(self, session: SqlSession, kind: type[Row]) -> float:
        """Return the seconds of the server's clock since the row was written; 0 for no row."""
        microseconds = "TIMESTAMPDIFF(MICROSECOND, written_at, CURRENT_TIMESTAMP(6))"
        return int(self._value(session, microseconds, kind) or 0) / 1e6

    def _value(self, session: SqlSession, expression: str, kind: type[Any]) -> Any:
        """Return a value, or None; the hint keeps a view from being read (R26; measured)."""
        sql = (
            f"SELECT {expression} FROM {self.quoted} FORCE INDEX (PRIMARY) WHERE id = {_IDS[kind]}"
        )
        rows = excused(lambda: session.query(sql), (), {*ABSENT_TABLE, NO_SUCH_KEY})
        return rows[0][0] if rows else None

    def read_record(self, session: SqlSession) -> CheckpointRecord | Pointer | None:
        """Return the first row; None when the table is absent.

        Raises UnreadableCheckpoint, as for the record of another table, which was copied here or
        forged (R26); or a ServerFault, which proves nothing about the table.
        """
        there = kind_and_comment(session, self.name)
        if there is None:
            return None
        if there != ("BASE TABLE", _MARK):
            raise UnreadableCheckpoint(f"{self.name[1]} is not a checkpoint table of spirit-py")
        found = self._value(session, _RECORD, CheckpointRecord)
        if found is not None:
            row = codec.from_text(str(found), CheckpointRecord, Pointer)
            if isinstance(row, CheckpointRecord) and not self.is_beside(row.home):
                raise UnreadableCheckpoint(
                    f"it is of {'.'.join(row.home)}, and not of the table beside {self}: see who"
                    " has created or copied it"
                )
            return row
        if self.exists(session):
            raise UnreadableCheckpoint(f"{self.name[1]} has no row")
        return None

    def forget(self, session: SqlSession, kind: type[Row]) -> None:
        """Delete the row of that kind."""
        session.execute(f"DELETE FROM {self.quoted} WHERE id = {_IDS[kind]}")
