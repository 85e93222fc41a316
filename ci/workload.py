"""An application for the demo: several writers, each with a journal of its acknowledged writes.

Each writer owns the ids of its residue class, so the journal of one writer decides what each of
its rows must hold. A journal line is written after the server acknowledged the statement.
The initial contents of the table are computed by :func:`initial_row`, not read.
"""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import MySQLdb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mysql_base import MySQLServer

#: customer, slot, status, amount in cents, body
Row = tuple[int, str | None, str, int, str]

TABLE = "orders"
CREATE = f"""
CREATE TABLE {TABLE} (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer INT NOT NULL,
  slot VARCHAR(20) NULL,
  status ENUM('new','paid','sent') NOT NULL,
  amount DECIMAL(12,2) NOT NULL,
  body VARCHAR(200) NOT NULL,
  UNIQUE KEY slot (slot)
)"""
LOAD = f"""
INSERT INTO {TABLE} (id, customer, slot, status, amount, body)
SELECT n, (n * 7919) MOD 100003, IF(n MOD 2, CONCAT('s', n), NULL), 1 + n MOD 3,
       (n MOD 100000) / 100,
       CONCAT('order ', n, ' ', SHA2(n, 256))
FROM (SELECT a.n + b.n * 1000 + 1 AS n
      FROM (SELECT d1.d + 10 * d2.d + 100 * d3.d AS n FROM digit d1, digit d2, digit d3) a,
           (SELECT d1.d + 10 * d2.d + 100 * d3.d AS n FROM digit d1, digit d2, digit d3) b) numbers
WHERE n <= %s ORDER BY n"""
#: As many as there are pairs of the numbers from 0 to 999.
MOST_ROWS = 1_000_000
STATUSES = ("new", "paid", "sent")
_COLUMNS = "customer, slot, status, amount, body"


def load(server: MySQLServer, schema: str, rows: int) -> None:
    """Create the table and fill it with ``rows`` rows of computable content."""
    connection = connect(server)
    cursor = connection.cursor()
    cursor.execute(f"DROP DATABASE IF EXISTS {schema}")
    cursor.execute(f"CREATE DATABASE {schema}")
    cursor.execute(f"USE {schema}")
    cursor.execute("CREATE TABLE digit (d INT PRIMARY KEY)")
    cursor.execute("INSERT INTO digit VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)")
    cursor.execute(CREATE)
    cursor.execute(LOAD, (rows,))
    cursor.execute("DROP TABLE digit")
    connection.close()


def initial_row(number: int) -> Row:
    """Return what :data:`LOAD` stored under this id."""
    digest = hashlib.sha256(str(number).encode()).hexdigest()
    return (
        (number * 7919) % 100003,
        f"s{number}" if number % 2 else None,
        STATUSES[number % 3],
        number % 100000,
        f"order {number} {digest}",
    )


def connect(server: MySQLServer, schema: str = "") -> Any:
    """Open an application session."""
    where: dict[str, Any] = {"host": server.host, "port": server.port}
    if schema:
        where["db"] = schema
    return MySQLdb.connect(
        user=server.user, passwd=server.password, autocommit=True, charset="utf8mb4", **where
    )


@dataclass
class Writer:
    """One session of the application with its journal.

    Attributes:
        acknowledged: monotonic times of acknowledged transactions.
        longest: seconds of the longest transaction, and when it began.
        failed: text of a statement's error; None if there was no error.
    """

    number: int
    writers: int
    rows: int
    journal: Path
    seed: int
    acknowledged: list[float] = field(default_factory=list)
    stalls: list[tuple[float, float]] = field(default_factory=list)
    failed: str | None = None

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed * 1000 + self.number)
        first = self.number or self.writers
        self._own = list(range(first, self.rows + 1, self.writers))
        self._free: list[int] = []
        self._slots: dict[int, str | None] = {}
        self._count = 0

    def run(self, server: MySQLServer, schema: str, pause: float, stop: threading.Event) -> None:
        """Write until ``stop``, one transaction every ``pause`` seconds or slower."""
        try:
            connection = connect(server, schema)
            with self.journal.open("a", encoding="utf-8") as lines:
                due = time.monotonic()
                while not stop.is_set():
                    began = time.monotonic()
                    for line in self._transaction(connection):
                        lines.write(json.dumps(line) + "\n")
                    ended = time.monotonic()
                    lines.flush()
                    self.acknowledged.append(ended)
                    self.stalls.append((ended - began, began))
                    due = max(due + pause, ended - 1.0)
                    stop.wait(max(0.0, due - ended))
            connection.close()
        except Exception as error:
            self.failed = f"writer {self.number}: {type(error).__name__}: {error}"

    def _transaction(self, connection: Any) -> list[list[Any]]:
        """Run one transaction; return the journal lines: ``[id, row]``, row None for a deletion."""
        self._count += 1
        action = self._random.choices(
            (self._insert, self._update, self._delete, self._move_slot, self._change_key),
            weights=(25, 40, 10, 15, 10),
        )[0]
        return action(connection.cursor())

    def _pick(self) -> int:
        return self._random.choice(self._own)

    def _text(self) -> str:
        return f"writer {self.number} write {self._count} " + "x" * self._random.randrange(100)

    def _insert(self, cursor: Any) -> list[list[Any]]:
        slot = f"w{self.number}-{self._count}" if self._random.random() < 0.5 else None
        row: Row = (
            self._count,
            slot,
            self._random.choice(STATUSES),
            self._random.randrange(10**6),
            self._text(),
        )
        cursor.execute(f"INSERT INTO {TABLE} ({_COLUMNS}) VALUES (%s, %s, %s, %s / 100, %s)", row)
        number = int(cursor.lastrowid)
        self._own.append(number)
        self._slots[number] = slot
        return [[number, row]]

    def _update(self, cursor: Any) -> list[list[Any]]:
        number, text, cents = self._pick(), self._text(), self._random.randrange(10**6)
        cursor.execute(
            f"UPDATE {TABLE} SET body = %s, amount = %s / 100, status = 'paid' WHERE id = %s",
            (text, cents, number),
        )
        return [[number, {"body": text, "amount": cents, "status": "paid"}]]

    def _delete(self, cursor: Any) -> list[list[Any]]:
        number = self._forget()
        cursor.execute(f"DELETE FROM {TABLE} WHERE id = %s", (number,))
        return [[number, None]]

    def _forget(self) -> int:
        place = self._random.randrange(len(self._own))
        self._own[place], self._own[-1] = self._own[-1], self._own[place]
        number = self._own.pop()
        self._slots[number] = None
        self._free.append(number)
        return number

    def _slot_of(self, number: int) -> str | None:
        known = self._slots.get(number, "")
        if known != "":
            return known
        return initial_row(number)[1]

    def _move_slot(self, cursor: Any) -> list[list[Any]]:
        """Move a unique value from one row to another inside one transaction."""
        giver, taker = self._pick(), self._pick()
        slot = self._slot_of(giver)
        if giver == taker or slot is None:
            return self._update(cursor)
        cursor.execute("BEGIN")
        cursor.execute(f"UPDATE {TABLE} SET slot = NULL WHERE id = %s", (giver,))
        cursor.execute(f"UPDATE {TABLE} SET slot = %s WHERE id = %s", (slot, taker))
        cursor.execute("COMMIT")
        self._slots[giver], self._slots[taker] = None, slot
        return [[giver, {"slot": None}], [taker, {"slot": slot}]]

    def _change_key(self, cursor: Any) -> list[list[Any]]:
        """Return a row the id of a row deleted earlier."""
        if not self._free:
            return self._delete(cursor)
        place = self._random.randrange(len(self._own))
        old, new = self._own[place], self._free.pop(self._random.randrange(len(self._free)))
        cursor.execute(f"UPDATE {TABLE} SET id = %s WHERE id = %s", (new, old))
        self._own[place] = new
        self._slots[new] = self._slot_of(old)
        self._slots[old] = None
        self._free.append(old)
        return [[old, {"moved_to": new}]]


class Application:
    """All writers together.

    Args:
        rate: Transactions a second of all writers together.
    """

    def __init__(
        self,
        server: MySQLServer,
        schema: str,
        *,
        rows: int,
        folder: Path,
        writers: int,
        rate: float,
        seed: int,
    ) -> None:
        self.writers = [
            Writer(
                number=number,
                writers=writers,
                rows=rows,
                journal=folder / f"journal-{number}.jsonl",
                seed=seed,
            )
            for number in range(writers)
        ]
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(
                target=writer.run,
                args=(server, schema, writers / rate, self._stop),
                name=f"writer-{writer.number}",
            )
            for writer in self.writers
        ]

    def start(self) -> None:
        """Start all writers."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop all writers and wait for their last acknowledgement."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def failures(self) -> list[str]:
        """Return the errors of the writers."""
        return [writer.failed for writer in self.writers if writer.failed is not None]

    def acknowledged(self, accept: Callable[[float], bool]) -> int:
        """Count acknowledged transactions by their time."""
        return sum(accept(moment) for writer in self.writers for moment in writer.acknowledged)

    def longest_stall(self, since: float, until: float) -> float:
        """Return the seconds of the longest transaction that began in a span."""
        spans = (span for w in self.writers for span, began in w.stalls if since <= began <= until)
        return max(spans, default=0.0)


def expected_rows(rows: int, journals: list[Path]) -> dict[int, Row]:
    """Replay the journals over the computed initial rows."""
    table = {number: initial_row(number) for number in range(1, rows + 1)}
    for journal in journals:
        with journal.open(encoding="utf-8") as lines:
            for line in lines:
                _replay(table, *json.loads(line))
    return table


def _replay(table: dict[int, Row], number: int, change: Any) -> None:
    """Apply one journal line."""
    if change is None:
        del table[number]
    elif isinstance(change, list):
        table[number] = tuple(change)
    elif "moved_to" in change:
        table[change["moved_to"]] = table.pop(number)
    else:
        names = ("customer", "slot", "status", "amount", "body")
        old = dict(zip(names, table[number], strict=True))
        merged = old | change
        table[number] = (
            merged["customer"],
            merged["slot"],
            merged["status"],
            merged["amount"],
            merged["body"],
        )


def actual_rows(server: MySQLServer, schema: str) -> dict[int, Row]:
    """Read the whole table."""
    connection = connect(server, schema)
    cursor = connection.cursor()
    cursor.execute(
        f"SELECT id, customer, slot, status, CAST(amount * 100 AS SIGNED), body FROM {TABLE}"
    )
    found = {int(row[0]): tuple(row[1:]) for row in cursor.fetchall()}
    connection.close()
    return found
