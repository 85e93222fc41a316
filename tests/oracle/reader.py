"""An application that compares tables in short transactions, each with one snapshot of its own."""

from __future__ import annotations

import contextlib
import random
import threading
import traceback
from typing import TYPE_CHECKING, Any, Self

import MySQLdb

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The snapshot is older than the table's definition: what an application has to expect.
TABLE_CHANGED = 1412
#: A table or a column is not there: a swap is one step, so that no reader ever misses one.
_GAP = frozenset({1054, 1146})
_SETTINGS = "SET SESSION transaction_isolation = 'REPEATABLE-READ', lock_wait_timeout = 20"
#: At most between the snapshot and the first look; between two transactions.
_OPEN_SECONDS = 0.06
_PAUSE_SECONDS = 0.005
#: So many that one of them is nearly always open when the tables are swapped.
_SESSIONS = 2
_AGAIN_SECONDS = 0.1
_JOIN_SECONDS = 60.0
_SHOWN = 3


class Reader:
    """Sessions that read through the swap, with what they found.

    A transaction takes its snapshot first and reads the tables some milliseconds later, as one does
    that has looked at something else before. It holds no lock meanwhile, so that a table lock finds
    it open: the account of a table with triggers is locked together with that table. An error ends
    it, like any application's; only 1412 is counted.

    Args:
        connect: opens a session in the schema.
        invariants: SELECTs over the migrated table and others that must return no row at any
            commit; their rows say what is wrong.

    Attributes:
        held: transactions in which everything was read and agreed.
        refused: transactions that got error 1412.
        broken: the first that did not agree, or why the reader ended; empty when all is well.
    """

    def __init__(
        self, connect: Callable[..., Any], invariants: Sequence[str], *, seed: int
    ) -> None:
        self.held = self.refused = 0
        self.broken = ""
        self._connect, self._invariants = connect, invariants
        self._end = threading.Event()
        sources = [random.Random(f"reader {seed} {number}") for number in range(_SESSIONS)]
        self._threads = [
            threading.Thread(target=self._work, args=(source,), name="reader", daemon=True)
            for source in sources
        ]

    def __enter__(self) -> Self:
        """Begin to read."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End all sessions and wait for them."""
        self._end.set()
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)

    def __str__(self) -> str:
        """Return what it did in a few words."""
        return f"{self.held} reads agreed, {self.refused} got error {TABLE_CHANGED}"

    def _work(self, source: random.Random) -> None:
        try:
            while not (self._end.is_set() or self.broken):
                with contextlib.suppress(MySQLdb.Error):
                    self._session(source)
                self._end.wait(_AGAIN_SECONDS)
        except Exception:
            self.broken = traceback.format_exc()

    def _session(self, source: random.Random) -> None:
        """Read in one session, until it ends with an error or a finding."""
        given = {"connect_timeout": 5, "read_timeout": 30}
        with contextlib.closing(self._connect(**given)) as session, session.cursor() as cursor:
            cursor.execute(_SETTINGS)
            while not (self._end.is_set() or self.broken):
                try:
                    self._transaction(cursor, source.random() * _OPEN_SECONDS)
                except MySQLdb.Error as error:
                    if error.args[0] in _GAP:
                        self.broken = f"a reader saw the swap as two steps: {error}"
                    if error.args[0] != TABLE_CHANGED:
                        raise
                    self.refused += 1
                cursor.execute("ROLLBACK")
                self._end.wait(_PAUSE_SECONDS)

    def _transaction(self, cursor: Any, seconds: float) -> None:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        self._end.wait(seconds)
        for one in self._invariants:
            cursor.execute(one)
            if rows := cursor.fetchall():
                self.broken = f"a reader saw an incomplete copy: {one}: {rows[:_SHOWN]}"
                return
        self.held += 1
