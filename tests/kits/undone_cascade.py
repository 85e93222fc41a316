"""A cascade that MySQL 9.7 has undone and logged all the same, made to happen.

See "While rows are copied" in docs/triggers-and-foreign-keys.md: the cascade waits for another row
of the child than the first, a deadlock ends the wait, the client gets no error, and with autocommit
the binlog has what the server had changed before.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tests.kits.background import BackgroundCall
from tests.kits.waiting import until

if TYPE_CHECKING:
    from tests.fixtures.mysql import Database

#: Its rows make the other transaction the heavier one, so that the cascade's is the victim.
WEIGHT = (
    "CREATE TABLE weight (id INT PRIMARY KEY, v INT NOT NULL)",
    (
        "INSERT INTO weight WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        " WHERE i < 200) SELECT i, 0 FROM n"
    ),
)


def undo_a_cascade(
    db: Database, cascading: str, *, held: int, table: str = "c", session: str = ""
) -> int:
    """Have a deadlock undo a cascade without an error; return the rows that its client is told of.

    Needs the table of :data:`WEIGHT`.

    Args:
        cascading: the statement, run with autocommit.
        held: the ``id`` of a row of the child that is not the first which the cascade reaches; who
            holds it asks then for the row before it.
        session: a statement that the victim's session begins with.
    """
    with (
        contextlib.closing(db.connect()) as victim,
        contextlib.closing(db.connect()) as other,
        contextlib.closing(victim.cursor()) as statement,
        contextlib.closing(other.cursor()) as cursor,
    ):
        waiting = (
            "SELECT 1 FROM performance_schema.data_lock_waits w JOIN performance_schema.threads t"
            " ON t.thread_id = w.requesting_thread_id WHERE t.processlist_id = %s"
        )
        number = victim.thread_id()
        if session:
            statement.execute(session)
        cursor.execute("BEGIN")
        cursor.execute("UPDATE weight SET v = v + 1")
        cursor.execute(f"SELECT 1 FROM {table} WHERE id = {held} FOR UPDATE")
        call = BackgroundCall(lambda: statement.execute(cascading))
        until(lambda: db.query(waiting, (number,)), "the cascade's wait")
        cursor.execute(f"SELECT 1 FROM {table} WHERE id = {held - 1} FOR UPDATE")
        cursor.execute("ROLLBACK")
        return int(call.result())
