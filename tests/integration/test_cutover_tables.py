"""Several tables of two schemas swapped in one RENAME, with the real feed, while they are used."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.errors import CutoverFailure, DuplicateForUnique
from spirit_py.threads import StopSwitch
from tests.kits.background import BackgroundCall, Loop
from tests.kits.cutover import ProvenCutover, lock_request
from tests.kits.followed_tables import FollowedTables
from tests.kits.locking import blind
from tests.kits.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

WRITERS = 4
ROWS = 40
ADDED = "ADD COLUMN extra INT NOT NULL DEFAULT 7"


class Shop:
    """Three tables in two schemas, of which every transaction changes all."""

    def __init__(self, db) -> None:
        self.db = db
        self.other = f"{db.name}_other"
        self.tables = [(db.name, "a"), (db.name, "b"), (self.other, "c")]
        db.execute(f"CREATE DATABASE `{self.other}`")
        for name in self.names:
            db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT NOT NULL)")
            db.execute(
                f"INSERT INTO {name} WITH RECURSIVE n (i) AS"
                f" (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) SELECT i, 0 FROM n"
            )

    @property
    def names(self) -> list[str]:
        """The tables, quoted."""
        return [f"`{schema}`.`{table}`" for schema, table in self.tables]

    def alters(self, clauses: str = ADDED, last: str = "") -> list[tuple[str, str, str]]:
        """Return an ALTER of each table; the last table's may be another one."""
        given = [clauses, clauses, last or clauses]
        return [(*table, clause) for table, clause in zip(self.tables, given, strict=True)]

    def rows(self, suffix: str = "{}") -> list[dict[int, int]]:
        """Return what each table holds; or another one, whose name is made of the table's."""
        return [
            dict(self.db.query(f"SELECT id, v FROM `{schema}`.`{suffix.format(table)}`"))
            for schema, table in self.tables
        ]

    def swapped(self) -> list[bool]:
        """Return for each table whether it has the new column."""
        return [
            any(row[0] == "extra" for row in self.db.query(f"SHOW COLUMNS FROM {name}"))
            for name in self.names
        ]

    def locked(self) -> set[tuple[str, str]]:
        """Return the tables of both schemas that are locked with LOCK TABLES ... WRITE."""
        return set(
            self.db.query(
                "SELECT object_schema, object_name FROM performance_schema.metadata_locks"
                " WHERE lock_type = 'SHARED_NO_READ_WRITE' AND object_schema IN (%s, %s)",
                (self.db.name, self.other),
            )
        )


@pytest.fixture
def shop(db) -> Iterator[Shop]:
    """Return the tables."""
    made = Shop(db)
    yield made
    db.execute(f"DROP DATABASE `{made.other}`")


class Users:
    """Writers that change a row of all three tables in one transaction, and a reader of all."""

    def __init__(self, shop: Shop) -> None:
        self.acknowledged = dict.fromkeys(range(1, ROWS + 1), 0)
        #: How many of the three tables were new ones, as the reader saw it.
        self.seen: set[int] = set()
        sessions = [shop.db.connect(autocommit=False) for _ in range(WRITERS)]
        self.loops = [
            Loop(partial(self._write, session, shop, k)) for k, session in enumerate(sessions)
        ]
        reader = shop.db.connect()
        self.loops.append(Loop(partial(self._read, reader, shop)))

    def _write(self, session: Any, shop: Shop, writer: int, number: int) -> None:
        row = 1 + writer + (number * WRITERS) % ROWS
        with contextlib.closing(session.cursor()) as cursor:
            for name in shop.names:
                cursor.execute(f"UPDATE {name} SET v = {number} WHERE id = {row}")
                assert cursor.rowcount == 1, f"row {row} of {name} is missing"
            session.commit()
        self.acknowledged[row] = number

    def _read(self, session: Any, shop: Shop, number: int) -> None:
        a, b, c = shop.names
        with contextlib.closing(session.cursor()) as cursor:
            cursor.execute(
                f"SELECT * FROM {a} JOIN {b} USING (id) JOIN {c} USING (id)"
                f" WHERE id = {1 + number % ROWS}"
            )
            (row,) = cursor.fetchall()
            names = [column[0] for column in cursor.description]
        self.seen.add(names.count("extra"))
        values = {value for name, value in zip(names, row, strict=True) if name == "v"}
        assert len(values) == 1, f"the tables disagree: {dict(zip(names, row, strict=False))}"

    def go_on(self) -> None:
        """Wait until each of them has come several rounds further."""
        before = [loop.rounds for loop in self.loops]

        def all_went() -> bool:
            assert self.errors() == []
            return all(one.rounds > n + 3 for one, n in zip(self.loops, before, strict=True))

        until(all_went, "every client")

    def errors(self) -> list[str]:
        """Return every error that one of them met."""
        return [error for loop in self.loops for error in loop.errors]

    def stop(self) -> None:
        """End them."""
        for loop in self.loops:
            loop.stop()


@pytest.fixture
def users(shop) -> Iterator[Users]:
    """Return clients that use the tables until the end of the test."""
    running = Users(shop)
    yield running
    running.stop()


def test_three_tables_swap_at_once_under_writers(db, shop, users):
    """Nobody sees some tables new and others old, and nothing that was written is missing."""
    stop = StopSwitch()
    locked = []
    with FollowedTables(db, shop.alters(), stop) as followed:
        users.go_on()
        result = ProvenCutover(
            db,
            followed.swaps,
            followed.feed,
            stop=stop,
            final_checks=lambda _session: locked.append(shop.locked()),
            note_position=True,
        ).run()
        users.go_on()
    users.stop()

    assert users.errors() == []
    assert users.seen == {0, 3}
    assert locked == [{(s, n) for s, t in shop.tables for n in (t, f"_{t}_new")}]
    assert shop.swapped() == [True] * 3
    assert shop.rows() == [users.acknowledged] * 3
    old = shop.rows("_{}_old")
    assert old[0] == old[1] == old[2]
    assert all(old[0][key] <= value for key, value in users.acknowledged.items())
    assert result.after_rename
    assert not stop.requested


def test_one_table_that_fails_keeps_all_back(db, shop):
    """A duplicate that only the last of three tables cannot hold swaps none of them."""
    stop = StopSwitch()
    alters = shop.alters(last=f"{ADDED}, ADD UNIQUE KEY u (v)")
    db.execute(f"UPDATE {shop.names[2]} SET v = id")
    with FollowedTables(db, alters, stop) as followed:
        other = db.connect(autocommit=False).cursor()
        other.execute(f"UPDATE {shop.names[2]} SET v = 3 WHERE id = 2")
        running = BackgroundCall(ProvenCutover(db, followed.swaps, followed.feed, stop=stop).run)
        until(lambda: lock_request(db), "the lock request")
        other.connection.commit()
        with pytest.raises(DuplicateForUnique, match=f"rows of {shop.other}.c"):
            running.result()

    assert shop.swapped() == [False] * 3
    assert shop.locked() == set()


@pytest.mark.slow
def test_one_table_in_use_keeps_all_back(db, shop, users):
    """A transaction on one of the tables fails the try for all; afterwards they are all swapped."""
    stop = StopSwitch()
    limits = blind(wait=1, timeout=0)
    with FollowedTables(db, shop.alters(), stop) as followed:
        other = db.connect(autocommit=False).cursor()
        other.execute(f"SELECT * FROM {shop.names[1]} LIMIT 1")
        with pytest.raises(CutoverFailure):
            ProvenCutover(db, followed.swaps, followed.feed, stop=stop, limits=limits).run()
        assert shop.swapped() == [False] * 3
        users.go_on()
        other.connection.rollback()

        ProvenCutover(db, followed.swaps, followed.feed, stop=stop).run()

        users.go_on()
    users.stop()
    assert users.errors() == []
    assert shop.rows() == [users.acknowledged] * 3
