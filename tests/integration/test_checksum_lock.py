"""The lock of a checksum's snapshot and what the server locks with it, for keys and triggers."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.checksum.result import ChecksumOptions
from spirit_py.checksum.snapshot import SnapshotLock
from spirit_py.checksum.worker import Comparison
from spirit_py.errors import ChecksumFailure
from spirit_py.locks.blockers import OLD_SECONDS
from spirit_py.threads import StopSwitch
from tests.kits.checksum import Pair
from tests.kits.connection import connection_options
from tests.kits.cutover import SnapshotSource
from tests.kits.engine import ThreadEngine
from tests.kits.locking import policy
from tests.kits.waiting import until

if TYPE_CHECKING:
    from tests.fixtures.mysql import Database

RELATED = """
CREATE TABLE parent (id INT PRIMARY KEY);
CREATE TABLE t (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id));
CREATE TABLE child (id INT PRIMARY KEY, t INT,
  FOREIGN KEY (t) REFERENCES t (id) ON DELETE CASCADE);
CREATE TABLE beside (id INT PRIMARY KEY);
CREATE TRIGGER noted AFTER INSERT ON t FOR EACH ROW INSERT INTO beside VALUES (NEW.id)
"""
_LOCKED = """
SELECT OBJECT_NAME FROM performance_schema.metadata_locks
WHERE OBJECT_TYPE = 'TABLE' AND OBJECT_SCHEMA = %s AND LOCK_STATUS = 'GRANTED'
ORDER BY OBJECT_NAME"""

_AGED = """
SELECT 1 FROM performance_schema.events_transactions_current
JOIN performance_schema.threads USING (THREAD_ID)
WHERE PROCESSLIST_ID = %s AND STATE = 'ACTIVE' AND TIMER_WAIT > %s * 1e12"""


class Followed(SnapshotSource):
    """A change feed that has nothing to apply."""

    def catch_up(self, _on_wait: object) -> None:
        """Return at once."""

    def flush_under_table_lock(self, _session: object, _mapping: object = None) -> None:
        """Write nothing."""

    def all_changes_flushed(self, _mapping: object = None) -> bool:
        """Return that nothing is left."""
        return True


@pytest.fixture
def lock(db: Database) -> SnapshotLock:
    """Return the lock for the snapshot of a table with keys and a trigger, and its new table.

    It makes no request while anybody is in front, and looks once.
    """
    db.execute(RELATED)
    what = Comparison(
        mapping=Pair(db).mapping,
        source=connection_options(db),
        target=None,
        engine=ThreadEngine(),
        stop=StopSwitch(),
        feed=Followed(),  # type: ignore[arg-type]
        options=ChecksumOptions(locking=policy(old=0.0, timeout=0.0)),
    )
    return SnapshotLock(what, on_wait=lambda _: None)


def hold(db: Database, sql: str) -> Any:
    """Have a session of the application in a transaction; return the session."""
    session = db.connect(autocommit=False)
    session.cursor().execute(sql)
    return session


def test_a_table_that_is_locked_read_has_no_other_locked_with_it(
    db: Database, lock: SnapshotLock
) -> None:
    """Parents, children and the tables of triggers may be in any transaction meanwhile."""
    sessions = [
        hold(db, f"INSERT INTO {row}")
        for row in ("parent VALUES (1)", "child VALUES (1, NULL)", "beside VALUES (1)")
    ]
    seen: list[tuple[str, ...]] = []
    with contextlib.ExitStack() as stack:
        for session in sessions:
            stack.callback(session.rollback)
        before = db.query(_LOCKED, (db.name,))
        assert lock.take(lambda: seen.extend(db.query(_LOCKED, (db.name,)))).attempts == 1
    assert sorted({*before, ("t",), ("_t_new",)}) == sorted(set(seen))
    assert len(seen) == len(before) + 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "attached",
    [
        "CREATE TRIGGER copied AFTER INSERT ON _t_new FOR EACH ROW INSERT INTO beside VALUES (9)",
        "ALTER TABLE beside ADD FOREIGN KEY (id) REFERENCES _t_new (id) ON DELETE CASCADE",
    ],
)
def test_who_holds_a_table_that_the_new_tables_lock_implies_is_waited_for(
    db: Database, lock: SnapshotLock, attached: str
) -> None:
    """What a swap that was stopped has left on the new table makes the server lock more."""
    db.execute(attached)
    session = hold(db, "SELECT * FROM beside")
    # Who may not be in front, as for a name in a trigger's body, counts when it is old.
    until(lambda: db.query(_AGED, (session.thread_id(), OLD_SECONDS)), "an old transaction")
    with pytest.raises(ChecksumFailure, match="other sessions blocked it") as caught:
        lock.take(lambda: None)
    assert f"session {session.thread_id()}" in "".join(caught.value.details)
    session.rollback()
    assert lock.take(lambda: None).attempts == 1
