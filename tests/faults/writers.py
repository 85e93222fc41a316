"""The application: sessions that write, each with a journal of what it was promised."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from typing import TYPE_CHECKING, Any

import MySQLdb
from MySQLdb.constants import CLIENT, ER

from tests.faults.journal import Journal, everything
from tests.faults.shapes import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.faults.journal import Change
    from tests.faults.shapes import Line, Shape

#: After these it is unknown whether a COMMIT, or a statement that commits itself, took effect.
_UNKNOWN = frozenset({0, 3, 1026, 1030, 1053, 1152, 1180, 1317, 1598, 1927, 3169, 4031})
_FIRST_CLIENT_ERROR = 2000
_LAST_CLIENT_ERROR = 2999
_PAUSE_SECONDS = 0.04
_WAIT_SECONDS = 60.0

Statement = tuple[str, tuple[Any, ...]]


class Writer:
    """One session of the application. It alone writes the rows of its journal.

    Args:
        rows: the rows that are its own at the beginning.
        numbers: gives a number that no row ever had.
        connect: opens a session in the schema.
        audited: each transaction also notes in ``audit`` what it adds to the table.
        line: what ``--keep`` keeps. Each transaction then asks which table it has written, and a
            row that the swap has left out is written no more.
    """

    def __init__(
        self,
        shape: Shape,
        rows: dict[int, State],
        numbers: Iterator[int],
        connect: Callable[..., Any],
        *,
        name: str,
        seed: int,
        audited: bool = False,
        line: Line | None = None,
    ) -> None:
        self.journal = Journal(rows=dict(rows), keeps=line.keeps if line else everything)
        self.gate = threading.Lock()
        self.name = name
        self._shape = shape
        self._numbers = numbers
        self._connect = connect
        self._audited = audited
        self._line = line
        self._random = random.Random(f"{seed} {name}")
        self._own = list(rows)
        self._free: list[int] = []
        self._count = 0
        self._session: Any = None

    def begin_anew(self, rows: dict[int, State], why: str, *, old: bool) -> None:
        """Take these rows for its own, where the server itself has lost or restored others."""
        self.journal.begin_anew(rows, why, old=old)
        self._own = list(rows)
        self._free = []
        self._hang_up()

    def run(self, stop: threading.Event) -> None:
        """Write until asked to stop; errors of the server are outcomes, not failures."""
        while not stop.is_set():
            began = time.monotonic()
            with self.gate:
                self._once()
            # A slow machine is not written to faster than its changes can be followed.
            took = time.monotonic() - began
            stop.wait(max(self._random.random() * _PAUSE_SECONDS, took))
        self._hang_up()

    def _once(self) -> None:
        """Make one transaction, in a new session where the last was lost."""
        if self._session is None:
            with contextlib.suppress(MySQLdb.Error):
                self._session = self._connect(
                    client_flag=CLIENT.FOUND_ROWS, connect_timeout=5, read_timeout=30
                )
        if self._session is None:
            return
        self._count += 1
        weights = (26, 40, 12, 8, 6, 4, 4)
        actions = (
            self._insert,
            self._update,
            self._delete,
            self._change_key,
            self._move_slot,
            self._bulk,
            self._give_up,
        )
        self._random.choices(actions, weights)[0]()

    # -- transactions

    def _insert(self) -> None:
        state = self._state()
        if self._shape.auto:
            self._insert_auto(state)
            return
        number = next(self._numbers)
        if self._commit([self._insert_sql(number, state)], [(number, None, state)], "insert"):
            self._own.append(number)

    def _insert_auto(self, state: State) -> None:
        names = self._shape.written
        sql = f"INSERT INTO t ({', '.join(names)}) VALUES ({_marks(names)})"
        alone = not self._audited and self._line is None
        try:
            with contextlib.closing(self._session.cursor()) as cursor:
                if not alone:
                    cursor.execute("BEGIN")
                cursor.execute(sql, self._shape.values(state))
                number = int(cursor.lastrowid)
                old = self._writes_old(cursor)
                if self._audited:
                    cursor.execute(*self._audit_sql([(number, None, state)]))
                if not alone:
                    cursor.execute("COMMIT")
        except MySQLdb.Error as error:
            if _lost(error) or not alone:
                self._hang_up()
            if _lost(error):
                self.journal.lose_new(state)
            return
        self._own.append(number)
        what = f"{self.name} insert {self._count}"
        self.journal.acknowledge([(number, None, state)], what, old=old)

    def _update(self) -> None:
        number = self._pick()
        before = self.journal.rows[number]
        after = self._state(slot=before.slot)
        self._commit([self._update_sql(number, before, after)], [(number, before, after)], "update")

    def _delete(self) -> None:
        number = self._pick()
        before = self.journal.rows[number]
        if self._commit([self._delete_sql(number, before)], [(number, before, None)], "delete"):
            self._own.remove(number)
            self._free.append(number)

    def _change_key(self) -> None:
        """Change a row's number to that of a deleted row, or to a new one."""
        old = self._pick()
        new = self._free.pop() if self._free and self._random.random() < 0.7 else None
        if new is None:
            if self._shape.auto:
                return
            new = next(self._numbers)
        state = self.journal.rows[old]
        moved = state._replace(spelling=self._spelling())
        names = (*self._shape.key,)
        sets = ", ".join(f"{name} = %s" for name in names) + self._counting
        where, key = self._where(old, state)
        sql = f"UPDATE t SET {sets} WHERE {where}"
        parameters = (*self._shape.encode(new, moved.spelling), *key)
        changes: list[Change] = [(old, state, None), (new, None, moved)]
        if self._commit([(sql, parameters)], changes, "key"):
            self._own.remove(old)
            self._own.append(new)
            self._free.append(old)

    def _move_slot(self) -> None:
        """Move a unique value from one row to another in one transaction."""
        giver, taker = self._pick(), self._pick()
        gives, takes = self.journal.rows[giver], self.journal.rows[taker]
        if giver == taker or gives.slot is None:
            self._update()
            return
        empty, full = gives._replace(slot=None), takes._replace(slot=gives.slot)
        statements = [
            self._update_sql(giver, gives, empty),
            self._update_sql(taker, takes, full),
        ]
        self._commit(statements, [(giver, gives, empty), (taker, takes, full)], "slot")

    def _bulk(self) -> None:
        """Change many rows in one transaction."""
        numbers = {self._pick() for _ in range(self._random.randrange(5, 40))}
        statements, changes = [], []
        for number in sorted(numbers):
            before = self.journal.rows[number]
            after = self._state(slot=before.slot, wide=False)
            statements.append(self._update_sql(number, before, after))
            changes.append((number, before, after))
        self._commit(statements, list(changes), "bulk")

    def _give_up(self) -> None:
        """Write, and roll back."""
        number = self._pick()
        before = self.journal.rows[number]
        try:
            with contextlib.closing(self._session.cursor()) as cursor:
                cursor.execute("BEGIN")
                cursor.execute(*self._update_sql(number, before, self._state(slot=None)))
                cursor.execute(*self._delete_sql(number, before))
                cursor.execute("ROLLBACK")
        except MySQLdb.Error:
            self._hang_up()

    def _commit(self, statements: list[Statement], changes: list[Change], what: str) -> bool:
        """Run a transaction and note its outcome; tell whether it was acknowledged."""
        what = f"{self.name} {what} {self._count}"
        if self._audited:
            statements = [*statements, self._audit_sql(changes)]
        alone = len(statements) == 1 and self._line is None
        committing = alone
        try:
            with contextlib.closing(self._session.cursor()) as cursor:
                if not alone:
                    cursor.execute("BEGIN")
                for statement in statements:
                    if not cursor.execute(*statement) and self._line is not None:
                        cursor.execute("ROLLBACK")
                        self._forget(changes)
                        return False
                old = self._writes_old(cursor)
                committing = True
                if not alone:
                    cursor.execute("COMMIT")
        except MySQLdb.Error as error:
            lost = _lost(error)
            if lost or not alone:
                self._hang_up()
            if lost and committing:
                self.journal.lose(changes, what)
                self._own = [n for n in self._own if n in self.journal.rows]
                self._free = [n for n in self._free if n not in {c[0] for c in changes}]
            else:
                self.journal.fail(changes, f"{what} ({error.args[0]})")
            return False
        self.journal.acknowledge(changes, what, old=old)
        return True

    def _writes_old(self, cursor: Any) -> bool:
        """Return whether the open transaction has written the table of before the swap.

        It holds the table, so that no swap comes between this and its COMMIT.
        """
        if self._line is None:
            return True
        try:
            cursor.execute("SELECT note FROM t LIMIT 0")
        except MySQLdb.Error as error:
            if error.args[0] != ER.BAD_FIELD_ERROR:
                raise
            return True
        return False

    def _forget(self, changes: list[Change]) -> None:
        """Strike rows that the swap has left out; others that are not there stay, as lost."""
        gone = {number for number, _, _ in changes if self.journal.left_out(number)}
        for number in gone:
            del self.journal.rows[number]
        self._own = [n for n in self._own if n not in gone]

    # -- their parts

    def _pick(self) -> int:
        return self._random.choice(self._own)

    def _spelling(self) -> int:
        return self._random.randrange(self._shape.spellings)

    def _state(self, *, slot: str | None = "", wide: bool = True) -> State:
        """Make a new state; with an empty ``slot`` sometimes one that was never used."""
        if slot == "":
            wanted = self._shape.slot and self._random.random() < 0.5
            slot = f"{self.name}-{self._count}" if wanted else None
        value = None if self._random.random() < 0.05 else self._random.randrange(-(10**6), 10**6)
        size = self._random.randrange(120)
        if wide and self._shape.wide and self._random.random() < 0.05:
            size = self._random.randrange(200_000, 450_000)
        body = f"{self.name} {self._count} 'é\\\0" + "x" * size
        return State(value, body, slot, self._spelling())

    def _where(self, number: int, state: State) -> tuple[str, tuple[Any, ...]]:
        text = " AND ".join(f"{name} = %s" for name in self._shape.key)
        return text, self._shape.encode(number, state.spelling)

    def _insert_sql(self, number: int, state: State) -> Statement:
        names = (*self._shape.key, *self._shape.written)
        values = (*self._shape.encode(number, state.spelling), *self._shape.values(state))
        return f"INSERT INTO t ({', '.join(names)}) VALUES ({_marks(names)})", values

    def _update_sql(self, number: int, before: State, after: State) -> Statement:
        where, key = self._where(number, before)
        sets = ", ".join(f"{name} = %s" for name in (*self._shape.key, *self._shape.written))
        values = (*self._shape.encode(number, after.spelling), *self._shape.values(after))
        return f"UPDATE t SET {sets}{self._counting} WHERE {where}", (*values, *key)

    @property
    def _counting(self) -> str:
        """What every UPDATE also assigns: it counts as the triggers do, and changes the parent."""
        return ", tu = tu + 1, p = 3 - p" if self._shape.attached else ""

    def _delete_sql(self, number: int, before: State) -> Statement:
        where, key = self._where(number, before)
        return f"DELETE FROM t WHERE {where}", key

    def _audit_sql(self, changes: list[Change]) -> Statement:
        rows = values = 0
        for _, before, after in changes:
            rows += (after is not None) - (before is not None)
            values += ((after and after.value) or 0) - ((before and before.value) or 0)
        sql = "UPDATE audit SET n = n + %s, v = v + %s WHERE writer = %s"
        return sql, (rows, values, self.name)

    def _hang_up(self) -> None:
        """Close the session; an open transaction is rolled back."""
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(MySQLdb.Error):
                session.close()


class Application:
    """Several writers at once over one table."""

    def __init__(self, writers: list[Writer]) -> None:
        self.writers = writers
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=w.run, args=(self._stop,), name=w.name, daemon=True)
            for w in writers
        ]

    @property
    def journals(self) -> list[Journal]:
        """The journals of all writers."""
        return [writer.journal for writer in self.writers]

    def start(self) -> None:
        """Begin to write."""
        for thread in self._threads:
            thread.start()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Keep all writers between two transactions.

        Raises:
            TimeoutError: when a transaction does not end: something holds the table.
        """
        with contextlib.ExitStack() as stack:
            for writer in self.writers:
                if not writer.gate.acquire(timeout=_WAIT_SECONDS):
                    raise TimeoutError(f"{writer.name} waits for {_WAIT_SECONDS:.0f} s in a write")
                stack.callback(writer.gate.release)
            yield

    def stop(self) -> None:
        """End all writers."""
        self._stop.set()
        for thread in self._threads:
            thread.join(_WAIT_SECONDS)


def _marks(names: tuple[str, ...]) -> str:
    return ", ".join(["%s"] * len(names))


def _lost(error: MySQLdb.Error) -> bool:
    """Return whether an error leaves the outcome open, or the session lost."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    return code in _UNKNOWN or _FIRST_CLIENT_ERROR <= code <= _LAST_CLIENT_ERROR
