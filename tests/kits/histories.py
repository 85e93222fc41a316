"""What each transaction of some writers did, statement by statement, for a failure to explain.

An invariant that is broken names an order; what every transaction did to that order, what the
server answered to each statement, and which physical tables there were, says how.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import MySQLdb

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

#: Of one writer; the oldest are forgotten.
MOST_TRANSACTIONS = 20_000
_SHOWN = 40


@dataclass
class Transaction:
    """One transaction of a writer.

    Attributes:
        steps: for each statement the seconds since the first of the writer, the statement, its
            parameters, and what the server answered: rows, or the error.
        values: all numbers in statements and answers, by which it is found.
    """

    writer: int
    number: int
    session: int
    steps: list[str] = field(default_factory=list)
    values: set[int] = field(default_factory=set)
    outcome: str = "open"

    def __str__(self) -> str:
        """Return the transaction in one line for each step."""
        head = f"writer {self.writer}, n {self.number}, session {self.session}: {self.outcome}"
        return "\n    ".join([head, *self.steps])


class History:
    """The last transactions of one writer."""

    def __init__(self, writer: int) -> None:
        self.writer = writer
        self._transactions: deque[Transaction] = deque(maxlen=MOST_TRANSACTIONS)

    def begin(self, session: Any, number: int) -> Transaction:
        """Return the next transaction, open."""
        made = Transaction(self.writer, number, session.thread_id())
        self._transactions.append(made)
        return made

    def about(self, values: Collection[int]) -> list[Transaction]:
        """Return the transactions in which one of some numbers occurs."""
        return [one for one in list(self._transactions) if one.values & set(values)]


class Recording:
    """A cursor that notes what it executes, and what the server answers."""

    def __init__(self, cursor: Any, transaction: Transaction) -> None:
        self._cursor, self._transaction = cursor, transaction

    def execute(self, sql: str, parameters: tuple[Any, ...] = ()) -> int:
        """Execute a statement."""
        noted = self._transaction
        noted.values |= {one for one in parameters if isinstance(one, int)}
        answer: object = "no answer"
        try:
            answer = rows = int(self._cursor.execute(sql, parameters or None))
        except MySQLdb.Error as error:
            answer = error.args
            raise
        finally:
            noted.steps.append(f"{time.time():.3f} {sql} {parameters or ''} -> {answer}")
        return rows

    def fetchone(self) -> Any:
        """Return the next row."""
        row = self._cursor.fetchone()
        self._transaction.steps[-1] += f" {row}"
        self._transaction.values |= {one for one in row or () if isinstance(one, int)}
        return row

    def close(self) -> None:
        """Close the cursor."""
        self._cursor.close()


def told(histories: Iterable[History], values: Collection[int]) -> str:
    """Return the transactions of all writers about some numbers, in their order."""
    found = [one for history in histories for one in history.about(values)]
    found.sort(key=lambda one: one.steps[:1])
    return "\n".join(map(str, found[-_SHOWN:])) or "no transaction is about it"


def physical_tables(query: Any, schema: str) -> str:
    """Return the ids of the tables of a schema: each swap gives a name another one."""
    rows = query(
        "SELECT NAME, TABLE_ID FROM information_schema.INNODB_TABLES WHERE NAME LIKE %s",
        (f"{schema}/%",),
    )
    return ", ".join(f"{name} {number}" for name, number in rows)


def evidence(session: Any, schema: str, table: str, *, key: int, ref: int) -> str:
    """Return what the server says, within a transaction, of a row and of the transaction."""
    tables = "SELECT NAME, TABLE_ID FROM information_schema.INNODB_TABLES WHERE NAME LIKE %s"
    row_locks = (
        "SELECT OBJECT_NAME, INDEX_NAME, ENGINE_TRANSACTION_ID, LOCK_MODE, LOCK_STATUS, LOCK_DATA"
        " FROM performance_schema.data_locks WHERE OBJECT_NAME LIKE %s"
    )
    table_locks = (
        "SELECT OBJECT_NAME, LOCK_TYPE, LOCK_STATUS, OWNER_THREAD_ID"
        " FROM performance_schema.metadata_locks WHERE OBJECT_SCHEMA = %s"
    )
    asked: tuple[tuple[str, tuple[Any, ...]], ...] = (
        (f"SELECT * FROM {table} WHERE id = %s OR ref = %s", (key, ref)),
        (f"SELECT * FROM {table} WHERE id = %s OR ref = %s FOR SHARE SKIP LOCKED", (key, ref)),
        ("SELECT * FROM audit WHERE ref = %s", (ref,)),
        ("SELECT * FROM journal WHERE ref = %s", (ref,)),
        ("SELECT * FROM information_schema.INNODB_TRX", ()),
        (row_locks, (f"%{table}%",)),
        (table_locks, (schema,)),
        (tables, (f"{schema}/%",)),
    )
    lines = []
    for sql, parameters in asked:
        with contextlib.closing(session.cursor()) as cursor:
            try:
                cursor.execute(sql, parameters or None)
                lines.append(f"{sql}: {cursor.fetchall()}")
            except MySQLdb.Error as error:
                lines.append(f"{sql}: {error.args}")
    return "\n".join(lines)
