"""Many swaps of tables with triggers and foreign keys, under writers that go through both.

Parents and children are inserted, changed, moved and deleted by several sessions while their tables
are swapped, one or several at a time; some of the swaps are killed and resumed by the same
command. ``tests/kits/relatives.py`` has what must hold at every commit.
``SPIRIT_PY_ATTACHED_SWAPS`` is how many swaps; ``make ci-attached`` makes 50, and kills the server
as well. ``SPIRIT_PY_ATTACHED_SEED`` repeats the draw.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from mysql_server import SERVER_VARIABLE, ServerOptions, running
from spirit_py import points
from spirit_py.errors import SpiritError
from tests.fixtures.mysql import PROVIDER, Database
from tests.kits.draw import seed_of
from tests.kits.migrate import config_for, migrate_here
from tests.kits.point_listener import PointListener
from tests.kits.relatives import (
    Writers,
    assert_as_before,
    assert_holds,
    catalogue,
    make_relatives,
)
from tests.kits.resume import kill_at
from tests.kits.tables import tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mysql_server import MySQLServer
    from spirit_py.spark.gang import GangEngine

LOG = logging.getLogger(__name__)
SWAPS = int(os.environ.get("SPIRIT_PY_ATTACHED_SWAPS", "1"))
SEED = seed_of("SPIRIT_PY_ATTACHED_SEED")
#: Kinds of trouble, in the share in which the long run draws them.
TROUBLE = ("", "", "", "session", "session", "process", "server")
#: What is changed together.
GROUPS = (
    *(("orders",), ("orders",), ("customers",), ("items",)),
    *(("orders", "items"), ("customers", "orders"), ("orders", "items", "notes", "customers")),
)
POINTS = ("cutover.lock", "cutover.locked", "cutover.rename", "cutover.rename", "cutover.renamed")
#: Seconds after the point at which something is killed: the packet takes some ten milliseconds.
LATEST = 0.03
#: Runs of the command until a change must be made.
TRIES = 5
BASE = ["audit", "customers", "items", "journal", "notes", "orders"]
_ROLE = "spirit_py_role"


@dataclass(frozen=True, kw_only=True)
class Change:
    """One drawn change: its tables, and what happens meanwhile."""

    group: tuple[str, ...]
    trouble: str
    point: str
    late: float

    def __str__(self) -> str:
        """Return the change in one line."""
        after = f", {self.trouble} killed {1000 * self.late:.1f} ms after {self.point}"
        return " and ".join(self.group) + (after if self.trouble else "")


def drawn(count: int) -> Iterator[Change]:
    """Draw the changes of a run; the first ones meet another kind of trouble each, or none.

    A server that the tests were given cannot be killed.
    """
    source = random.Random(f"attached {SEED}")
    first = source.sample(("", "session", "process"), 3)
    trouble = [kind for kind in TROUBLE if kind != "server" or SERVER_VARIABLE not in os.environ]
    for number in range(count):
        yield Change(
            group=source.choice(GROUPS),
            trouble=first[number] if number < len(first) else source.choice(trouble),
            point=source.choice(POINTS),
            late=source.uniform(0, LATEST),
        )


class Swaps:
    """Makes one change after the other, and checks what must hold between them."""

    def __init__(self, db: Database, engine: GangEngine, folder: Path) -> None:
        self.db, self.engine, self.folder = db, engine, folder
        self.server: MySQLServer = db.server
        self.number = 0
        self._strikes: list[threading.Timer] = []

    def make(self, change: Change, writers: Writers, patch: pytest.MonkeyPatch) -> None:
        """Change the tables, whatever happens on the way."""
        self.number += 1
        before = catalogue(self.db)
        statement = "; ".join(self._alter(table) for table in change.group)
        if change.trouble == "process":
            with PointListener(self.folder / f"points-{self.number}") as listener:
                what = ("--statement", statement, "--target-chunk-time", "0.05")
                kill_at(self.db, listener, change.point, 1, change=what, late=change.late)
            # Children of a swap that was killed work, or refuse: none is without its parent.
            writers.write_on()
            assert_holds(self.db)
        with patch.context() as patched:
            if change.trouble in {"session", "server"}:
                self._strike_at(change, patched)
            with writers.server_away() if change.trouble == "server" else contextlib.nullcontext():
                tried = self._migrate(statement, writers)
                for strike in self._strikes:
                    strike.join()
                self.db.reconnect()
        writers.write_on()
        assert_holds(self.db)
        assert tables(self.db) == BASE
        assert_as_before(self.db, before)
        LOG.info("swap %d: %s, %d runs", self.number, change, tried)

    def _alter(self, table: str) -> str:
        """Return an ALTER that adds a column, or drops the one of the last change."""
        there = self.db.query(f"SHOW COLUMNS FROM {table} LIKE 'x'")
        clause = "DROP COLUMN x" if there else "ADD COLUMN x INT NOT NULL DEFAULT 5"
        return f"ALTER TABLE {table} {clause}"

    def _migrate(self, statement: str, writers: Writers) -> int:
        """Run the same command until it has made the change; return how often it was run."""
        config = config_for(self.db, statement=statement, no_shortcut=True)
        for number in range(1, TRIES + 1):
            try:
                report, told = migrate_here(self.engine, config)
            except SpiritError as error:
                if error.exit_code not in {1, 3}:
                    raise
                LOG.info("run %d ended: %s", number, error.message)
                self.db.reconnect()
                writers.write_on()
                assert_holds(self.db)
                continue
            assert report.differences_found == 0, told.text
            return number
        raise AssertionError(f"not made by {TRIES} runs")

    def _strike_at(self, change: Change, patched: pytest.MonkeyPatch) -> None:
        """Kill our sessions, or the server, a moment after the point is reached first."""
        strike = self._kill_server if change.trouble == "server" else self._kill_sessions()
        left = [change.point]
        self._strikes.clear()

        def passed(name: str) -> None:
            if left == [name]:
                left.clear()
                timer = threading.Timer(change.late, strike)
                self._strikes.append(timer)
                timer.start()

        patched.setattr(points, "_listener", "here")
        patched.setattr(points, "_announce", passed)

    def _kill_sessions(self) -> Callable[[], None]:
        """Return what kills all sessions that the program has at that moment."""
        other = self.db.connect()

        def strike() -> None:
            with contextlib.closing(other.cursor()) as cursor:
                cursor.execute(
                    "SELECT t.processlist_id FROM performance_schema.user_variables_by_thread v"
                    " JOIN performance_schema.threads t USING (thread_id)"
                    f" WHERE v.variable_name = '{_ROLE}'"
                )
                for (session,) in cursor.fetchall():
                    self.db_kill(cursor, session)

        return strike

    @staticmethod
    def db_kill(cursor: object, session: int) -> None:
        """Kill a session that may have ended."""
        with contextlib.suppress(Exception):
            cursor.execute(f"KILL {session}")  # type: ignore[attr-defined]

    def _kill_server(self) -> None:
        """Kill the server, and start it again."""
        self.server.kill()
        self.server.resume()


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Return a schema on the shared server, or, for a long run, on one that may be killed."""
    if SWAPS <= 3:
        yield request.getfixturevalue("db")
        return
    options = ServerOptions(gtid=True, buffer_pool="64M", keeps_all=True)
    with running(options, provider=request.config.stash[PROVIDER]) as server:
        made = Database(server, "attached")
        yield made
        made.close()


@pytest.mark.slow
@pytest.mark.timeout(300 + 60 * SWAPS)
def test_every_trigger_fires_once_and_no_row_is_orphaned_through_many_swaps(
    place: Database,
    engine: GangEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever is killed, each write fires each trigger once, and every row keeps its parent."""
    LOG.info("SPIRIT_PY_ATTACHED_SEED=%d repeats the draw", SEED)
    print(f"SPIRIT_PY_ATTACHED_SEED={SEED} repeats the draw")  # noqa: T201 -- shown on failure
    make_relatives(place)
    swaps = Swaps(place, engine, tmp_path)
    with Writers(place, SEED) as writers:
        for change in drawn(SWAPS):
            print(f"swap {swaps.number + 1}: {change}")  # noqa: T201 -- shown on failure
            swaps.make(change, writers, monkeypatch)
    writers.assert_kept()
    assert_holds(place)
    LOG.info("%d swaps, %d transactions: every invariant holds", SWAPS, writers.written)
