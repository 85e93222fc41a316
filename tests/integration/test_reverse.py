"""Reverse replication: the old table follows, is swapped back without a lost write, or ends."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from spirit_py import points
from spirit_py.checkpoint.codec import FORMAT
from spirit_py.checkpoint.earlier_run import ReverseState
from spirit_py.checkpoint.proofs import reverse_left
from spirit_py.checkpoint.record import ENDED, FOLLOWING, REVERTING
from spirit_py.codes import ErrorCode
from spirit_py.config import RevertConfig
from spirit_py.errors import (
    Interrupted,
    MigrationFailure,
    OutcomeUnknown,
    Refusal,
    SpiritError,
    ValueLost,
)
from spirit_py.events.swap import SwapDone
from spirit_py.locks.blockers import LockPolicy
from spirit_py.migration.control import listener
from spirit_py.migration.entry import migrate
from spirit_py.migration.listing import migrations
from spirit_py.migration.migration_status import MigrationShown
from spirit_py.migration.reverse import keeper
from spirit_py.migration.reverse.keeper import Keeper, ReverseReplicationLost
from spirit_py.migration.reverse.revert import Revert
from spirit_py.migration.reverse.swap_back import SwapBack
from spirit_py.mysql.connect import connect
from spirit_py.threads import StopSwitch
from spirit_py.throttle.throttles import GRACE
from tests.kits.background import BackgroundCall
from tests.kits.binlogs import purge_binlogs
from tests.kits.cleanup import clean
from tests.kits.connection import account, connection_options
from tests.kits.draw import seed_of
from tests.kits.engine import SharedEngine
from tests.kits.locking import Clock, await_lock_freed
from tests.kits.reporter import RecordingReporter
from tests.kits.reverse import Client, SwappedTable, reverse_config
from tests.kits.waiting import until

SEED = seed_of("SPIRIT_PY_TEST_SEED")
TABLE = (
    "CREATE TABLE t (id BIGINT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL,"
    " u VARCHAR(40) NOT NULL UNIQUE)"
)


def rows_of(db, table: str = "t", names: str = "id, v, u") -> list[tuple]:
    """Return a table's rows."""
    return db.query(f"SELECT {names} FROM `{table}` ORDER BY id")


def fill(db, rows: int = 300) -> None:
    """Put rows into the table that no client touches."""
    values = ", ".join(f"({n}, {n * 7}, 'first{n}')" for n in range(1, rows + 1))
    db.execute(f"INSERT INTO t (id, v, u) VALUES {values}")


def journal(clients: list[Client]) -> dict[int, tuple[int, str]]:
    """Stop the clients and return what was acknowledged."""
    for client in clients:
        client.stop()
    assert [client.errors for client in clients] == [[]] * len(clients)
    return {key: row for client in clients for key, row in client.rows.items()}


@pytest.mark.slow
def test_a_revert_loses_no_write(db, engine):
    """Clients write before, during and after the swap and through the revert: all of it is there.

    The new definition has a wider key and one column more; unique values move all the time.
    """
    print(f"SPIRIT_PY_TEST_SEED={SEED}")  # noqa: T201 - to repeat a failure
    db.execute(TABLE)
    fill(db)
    clients = [Client(db, "t", number, SEED) for number in range(3)]

    def writes() -> int:
        return sum(client.writes for client in clients)

    until(lambda: writes() > 100, "the first writes")
    changed = SwappedTable(
        db,
        "ADD COLUMN extra INT NOT NULL DEFAULT 3, MODIFY v BIGINT NOT NULL",
        engine=engine,
    )
    after_swap = writes()
    following = changed.keep()
    until(lambda: writes() > after_swap + 300, "writes after the swap")
    said = changed.revert()
    at_revert = writes()
    until(lambda: writes() > at_revert + 100, "writes after the revert")
    expected = journal(clients)
    assert following.result() is True
    assert changed.columns() == ["id", "v", "u"]
    found = {key: (v, u) for key, v, u in rows_of(db) if key > 1000}
    assert found == expected
    assert rows_of(db)[:300] == [(n, n * 7, f"first{n}") for n in range(1, 301)]
    assert changed.tables() == {"t"}
    assert said.said("a revert loses the values of column extra")
    assert said.said("s by a sample, more if the server is busier then; it is not throttled")
    assert said.said("is converted back from bigint to int")
    assert said.said(" 0 chunks repaired")
    assert said.said("has its old definition again")


@pytest.mark.slow
def test_dropped_columns_keep_their_values_and_renamed_ones_are_carried(db, engine):
    """Dropped columns keep what they had, in old rows; renamed and retyped ones are carried."""
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, gone VARCHAR(20) DEFAULT 'd',"
        " at TIMESTAMP(6) NOT NULL DEFAULT '2020-01-01 00:00:00' ON UPDATE CURRENT_TIMESTAMP(6),"
        " b VARCHAR(200) CHARACTER SET utf8mb4, c DATETIME)"
    )
    db.execute(
        "INSERT INTO t (id, a, gone, at, b, c) VALUES (1, 1, 'one', '2021-01-01', 'x', NOW()),"
        " (2, 2, NULL, '2021-01-02', 'y', NULL), (3, 3, 'three', '2021-01-03', 'z', NULL)"
    )
    changed = SwappedTable(
        db,
        "DROP COLUMN gone, DROP COLUMN at, RENAME COLUMN a TO gone, MODIFY b VARCHAR(40)"
        " CHARACTER SET latin1, ADD COLUMN a INT DEFAULT 9",
        engine=engine,
    )
    following = changed.keep()
    db.execute("UPDATE t SET gone = 10, b = 'é' WHERE id = 1")
    db.execute("UPDATE t SET b = 'yy' WHERE id = 2")
    db.execute("DELETE FROM t WHERE id = 3")
    db.execute("INSERT INTO t (id, gone, b, a) VALUES (4, 4, 'new', 44)")
    said = changed.revert(skip_drop=True)
    assert following.result() is True
    assert rows_of(db, names="id, a, gone, LEFT(at, 10), b") == [
        (1, 10, "one", "2021-01-01", "é"),
        (2, 2, None, "2021-01-02", "yy"),
        (4, 4, "d", "2020-01-01", "new"),
    ]
    assert rows_of(db, "_t_undone", "id, gone, b, a") == [
        (1, 10, "é", 9),
        (2, 2, "yy", 9),
        (4, 4, "new", 44),
    ]
    assert changed.tables() == {"t", "_t_undone", "_t_chkpnt"}
    told = [*changed.notes.named(SwapDone), *said.named(SwapDone)]
    assert [one.back for one in told] == [True]
    assert said.said("a revert loses the values of column a")
    assert said.said("columns gone, at will have the default in rows that were written after")


@pytest.mark.slow
def test_a_key_that_is_spelled_otherwise_is_so_in_the_old_table_too(db, engine):
    """R6: the collation equates both spellings; the row keeps its values of a dropped column."""
    db.execute(
        "CREATE TABLE t (id VARCHAR(20) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, v INT,"
        " gone VARCHAR(20) DEFAULT 'd')"
    )
    db.execute("INSERT INTO t VALUES ('a', 1, 'one'), ('b', 2, 'two')")
    changed = SwappedTable(db, "DROP COLUMN gone", engine=engine)
    following = changed.keep()
    db.execute("UPDATE t SET id = 'A' WHERE id = 'a'")
    db.execute("UPDATE t SET v = 3 WHERE id = 'b'")
    said = changed.revert()
    assert following.result() is True
    assert rows_of(db, names="id, v, gone") == [("A", 1, "one"), ("b", 3, "two")]
    assert said.said(" 0 chunks repaired")


@pytest.mark.slow
@pytest.mark.parametrize("key", ["INT", "VARCHAR(20) COLLATE utf8mb4_0900_ai_ci", "DOUBLE"])
def test_a_row_anew_has_no_value_of_the_row_that_had_its_key(db, engine, key):
    """The comparison sees no dropped column: only the feed can keep them apart."""
    db.execute(f"CREATE TABLE t (id {key} PRIMARY KEY, v INT, gone VARCHAR(20) DEFAULT 'd')")
    for n in range(1, 7):
        db.execute(f"INSERT INTO t VALUES ({n}, {n}, 'of {n}')")
    changed = SwappedTable(db, "DROP COLUMN gone", engine=engine)
    changes = [
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO t VALUES (1, 11)",
        "UPDATE t SET v = v + 1 WHERE id IN (1, 2)",
        "DELETE FROM t WHERE id = 3",
        "UPDATE t SET id = id - 1 WHERE id >= 4 ORDER BY id",
    ]
    # Before the feed begins, so that one flush has all of them.
    for statement in changes:
        db.execute(statement)
    changed.revert()
    assert [(float(n), *rest) for n, *rest in rows_of(db, names="id, v, gone")] == [
        (1, 12, "d"),
        (2, 3, "of 2"),
        (3, 4, "d"),
        (4, 5, "d"),
        (5, 6, "d"),
    ]


@pytest.mark.slow
def test_where_null_would_become_the_current_time_the_way_back_waits(db, engine):
    """No error would come where explicit_defaults_for_timestamp is OFF by then."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP NOT NULL DEFAULT '2020-02-02')")
    db.execute("INSERT INTO t (id) VALUES (1)")
    changed = SwappedTable(db, "MODIFY ts TIMESTAMP NULL", engine=engine)
    db.set_global("explicit_defaults_for_timestamp", "OFF")
    process = changed.process()
    with process.stack, pytest.raises(MigrationFailure, match="current time for NULL in ts") as why:
        Keeper(process, changed.record).run()
    assert why.value.error_code is ErrorCode.SERVER_SETTINGS
    stored = changed.stored()
    assert stored is not None
    assert stored.state == FOLLOWING
    db.set_global("explicit_defaults_for_timestamp", "ON")
    db.execute("UPDATE t SET ts = '2021-03-03' WHERE id = 1")
    changed.revert()
    assert db.query("SELECT id, YEAR(ts) FROM t") == [(1, 2021)]


def test_a_value_that_does_not_fit_ends_reverse_replication(db, engine):
    """The application keeps its value and its table; the error says why the old one is left."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL)")
    db.execute("INSERT INTO t (v) VALUES (1), (2)")
    changed = SwappedTable(db, "MODIFY v BIGINT NOT NULL", engine=engine)
    following = changed.keep()
    db.execute("INSERT INTO t (v) VALUES (5000000000)")
    with pytest.raises(ReverseReplicationLost, match="column v of") as lost:
        following.result()
    assert lost.value.exit_code == 1
    assert "the change itself is done and stays" in lost.value.hint
    db.execute("INSERT INTO t (v) VALUES (6000000000)")
    assert db.query("SELECT v FROM t ORDER BY id")[2:] == [(5_000_000_000,), (6_000_000_000,)]
    stored = changed.stored()
    assert stored is not None
    assert stored.state == ENDED
    assert "_t_old" in changed.tables()
    with pytest.raises(Refusal, match=r"reverse replication of .* has ended: a changed row does"):
        changed.revert()


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE TABLE t",
        "ALTER TABLE t ADD COLUMN more INT",
        "CREATE TRIGGER mine BEFORE INSERT ON t FOR EACH ROW SET NEW.v = 1",
    ],
)
def test_ddl_by_others_ends_reverse_replication(db, engine, statement):
    """A change of the new table by others is theirs; the old one follows no more."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL)")
    db.execute("INSERT INTO t (v) VALUES (1), (2)")
    changed = SwappedTable(db, "ADD COLUMN extra INT", engine=engine)
    following = changed.keep()
    db.execute("UPDATE t SET v = 5 WHERE id = 1")
    db.execute(statement)
    with pytest.raises(ReverseReplicationLost, match="another session changed the definition"):
        following.result()
    assert db.query("SELECT COUNT(*) FROM _t_old") == [(2,)]
    stored = changed.stored()
    assert stored is not None
    assert stored.state == ENDED


@pytest.mark.slow
def test_an_xa_transaction_from_before_the_swap_does_not_end_the_way_back(db, engine):
    """Under the lock of the swap none had rows of the table; nobody has to see them prepared."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL)")
    db.execute("CREATE TABLE other (id INT PRIMARY KEY)")
    db.execute("INSERT INTO t VALUES (1, 1)")

    def prepare() -> None:
        with contextlib.closing(db.connect()) as session, session.cursor() as cursor:
            for statement in ("START", "END", "PREPARE"):
                cursor.execute(f"XA {statement} 'before'")
                if statement == "START":
                    cursor.execute("INSERT INTO other VALUES (1)")

    changed = SwappedTable(db, "ADD COLUMN w INT", engine=engine, before=prepare)
    db.execute("UPDATE t SET v = 2")
    db.execute("XA COMMIT 'before'")
    on_schema = (
        "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, TRIGGER, LOCK TABLES,"
        " CREATE TEMPORARY TABLES ON {db}.*"
    )
    with account(db, on_schema, "REPLICATION SLAVE, REPLICATION CLIENT, PROCESS ON *.*") as options:
        changed.revert(connection=options)
    assert db.query("SELECT id, v FROM t") == [(1, 2)]


@pytest.mark.slow
def test_a_child_that_comes_later_refers_to_the_table_that_is_swapped_back(db, engine):
    """A key of another table changes no row of this one; it goes along."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL)")
    db.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
    changed = SwappedTable(db, "ADD COLUMN w INT", engine=engine)
    following = changed.keep()
    db.execute("CREATE TABLE child (o INT, KEY (o))")
    db.execute("ALTER TABLE child ADD FOREIGN KEY (o) REFERENCES t (id) ON DELETE CASCADE")
    db.execute("INSERT INTO child VALUES (1), (2)")
    db.execute("UPDATE t SET v = 11 WHERE id = 1")
    changed.revert()
    assert following.result() is True
    assert db.query("SELECT id, v FROM t") == [(1, 11), (2, 2)]
    db.execute("DELETE FROM t WHERE id = 2")
    assert db.query("SELECT o FROM child") == [(1,)]


@pytest.mark.slow
def test_a_key_that_fits_only_the_new_definition_is_refused_before_the_comparison(db, engine):
    """It would fail under the lock of the swap back, behind the comparison, each time."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL)")
    db.execute("INSERT INTO t VALUES (1, 1)")
    changed = SwappedTable(db, "MODIFY id BIGINT NOT NULL", engine=engine)
    db.execute("CREATE TABLE child (o BIGINT, CONSTRAINT fk FOREIGN KEY (o) REFERENCES t (id))")
    notes = RecordingReporter()
    with pytest.raises(Refusal, match=r"foreign key fk of .* cannot be kept") as refused:
        changed.revert(notes)
    assert refused.value.error_code is ErrorCode.FOREIGN_KEY
    assert not notes.said("comparing every row")
    assert changed.tables() == {"t", "child", "_t_old", "_t_chkpnt"}
    db.execute("ALTER TABLE child DROP FOREIGN KEY fk")
    changed.revert()
    assert db.query("SHOW COLUMNS FROM t")[0][1].startswith("int")


def test_the_old_table_is_current_when_the_time_is_over(db, engine, monkeypatch):
    """At the end of the time the old table is current to the last row, and the caller's to drop."""
    clock = Clock()
    monkeypatch.setattr(keeper, "time", SimpleNamespace(monotonic=clock))
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL)")
    changed = SwappedTable(db, "ADD COLUMN extra INT", seconds=600.0, engine=engine)
    following = changed.keep()
    db.execute("INSERT INTO t (v) VALUES (1)")
    until(lambda: rows_of(db, "_t_old", "id, v"), "the row in the old table")
    clock.put_forward(600.0)
    assert following.result() is False
    assert changed.tables() == {"t", "_t_old", "_t_chkpnt"}
    assert rows_of(db, "_t_old", "id, v") == [(1, 1)]


def test_a_revert_without_reverse_replication_is_refused(db):
    """A table whose old one does not follow is refused, and so is another tool's checkpoint."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL)")
    asked = RevertConfig(connection=connection_options(db), database=db.name, table="t")
    with pytest.raises(Refusal, match="no reverse replication of it runs"):
        Revert(asked, RecordingReporter(), engine_factory=unwanted_engine, stop=StopSwitch()).run()
    absent = replace(asked, table="tt")
    with pytest.raises(Refusal, match=f"there is no table {db.name}.tt,") as refused:
        Revert(absent, RecordingReporter(), engine_factory=unwanted_engine, stop=StopSwitch()).run()
    assert refused.value.hint.startswith("did you mean t? check the name")
    db.execute("CREATE TABLE _t_chkpnt (id INT)")
    with pytest.raises(Refusal, match="is not a checkpoint table of spirit-py"):
        Revert(asked, RecordingReporter(), engine_factory=unwanted_engine, stop=StopSwitch()).run()


def unwanted_engine(_: object) -> NoReturn:
    """Fail: nothing is to be compared."""
    raise AssertionError("Spark was asked for")


@pytest.mark.slow
def test_what_another_version_keeps_current_is_not_called_lost(db, engine):
    """``status`` shows that a process works on it; nothing reverts, or drops what it needs."""
    db.execute(TABLE)
    fill(db, 5)
    changed = SwappedTable(db, "ADD COLUMN extra INT", engine=engine)
    following = changed.keep()

    def write(version: int) -> MigrationShown:
        is_record = "id IN (1, 2, 5)"
        db.execute(
            f"UPDATE _t_chkpnt SET record = JSON_SET(record, '$.format', {version})"
            f" WHERE {is_record}"
        )
        (seen,) = migrations(changed.connection, database=db.name, table="t", max_age=1e6)
        return seen

    seen = write(99)
    changed.stop.request(Interrupted(2))
    with pytest.raises(Interrupted):
        following.result()
    assert seen.reverse is not None
    assert seen.reverse.state == ReverseState.UNREADABLE.value
    lines = "\n".join(seen.lines())
    assert "reverse    its record cannot be read: it has format 99" in lines
    assert f"a process works on it now (server session {seen.worked_on_by})" in lines
    assert "has ended" not in lines
    assert "lost" not in lines
    await_lock_freed(changed.db)
    seen = write(99)
    assert seen.again == "refuse"
    assert seen.worked_on_by is None
    for attempt in (lambda: clean(db, old=True), changed.revert):
        with pytest.raises(Refusal, match="cannot be read: it has format 99") as refused:
            attempt()
        assert "version of spirit-py that wrote it" in refused.value.hint
    assert changed.tables() == {"t", "_t_old", "_t_chkpnt"}
    write(FORMAT)
    changed.revert()
    assert changed.tables() == {"t"}


@pytest.mark.parametrize(("seconds", "over"), [(-1.0, True), (600.0, False)])
def test_whether_its_time_is_over_is_told_by_the_servers_clock(db, engine, seconds, over):
    """What an interrupted process has left is kept, or is to be dropped by the same command."""
    db.execute(TABLE)
    SwappedTable(db, "ADD COLUMN extra INT", engine=engine, seconds=seconds)
    with connect(connection_options(db), role="test") as session:
        left = reverse_left(session, [(db.name, "t")])
    assert left is not None
    assert (left.state, left.over) == (ReverseState.KEPT, over)


@pytest.mark.slow
def test_a_revert_takes_the_place_of_an_interrupted_process(db, engine):
    """A signal writes the position and ends the process; a revert goes on from there by itself."""
    db.execute(TABLE)
    fill(db, 50)
    changed = SwappedTable(db, "ADD COLUMN extra INT", engine=engine)
    following = changed.keep()
    db.execute("UPDATE t SET v = -1 WHERE id = 7")
    until(lambda: db.query("SELECT v FROM _t_old WHERE id = 7") == [(-1,)], "the change")
    # When another change has arrived the first one is behind the position.
    db.execute("UPDATE t SET v = -2 WHERE id = 9")
    until(lambda: db.query("SELECT v FROM _t_old WHERE id = 9") == [(-2,)], "another one")
    changed.stop.request(Interrupted(2))
    with pytest.raises(Interrupted) as interrupted:
        following.result()
    assert interrupted.value.exit_code == 130
    assert "spirit-py revert still swaps back" in interrupted.value.hint
    stored = changed.stored()
    assert stored is not None
    assert stored.state == FOLLOWING
    assert stored.position != changed.record.position
    db.execute("DELETE FROM t WHERE id = 8")
    db.execute("INSERT INTO t (id, v, u) VALUES (100, 1, 'first8')")
    said = changed.revert()
    assert said.said("no process runs reverse replication any more")
    assert changed.columns() == ["id", "v", "u"]
    assert {key: v for key, v, _ in rows_of(db)} == {
        **{n: n * 7 for n in range(1, 51) if n != 8},
        7: -1,
        9: -2,
        100: 1,
    }
    assert changed.tables() == {"t"}


@pytest.mark.slow
@pytest.mark.draws(1)
def test_a_revert_that_fails_may_be_tried_again(db, engine):
    """An open transaction that has read the table fails the swap back, not the replication."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL)")
    db.execute("INSERT INTO t (v) VALUES (1), (2)")
    changed = SwappedTable(db, "ADD COLUMN extra INT", engine=engine)
    following = changed.keep(cutover_timeout=5.0)
    holder = db.connect(autocommit=False)
    with holder.cursor() as cursor:
        cursor.execute("SELECT NOW(6), t.* FROM t")
        began = cursor.fetchall()[0][0]
    old = "SELECT NOW(6) > %s + INTERVAL %s SECOND"
    until(lambda: db.query(old, (began, LockPolicy().wait)) == [(1,)], "an old transaction")
    with pytest.raises(
        SpiritError, match=r"the swap did not happen in 5.0s, \d+ tries: "
    ) as failed:
        changed.revert()
    assert failed.value.exit_code == 1
    holder.commit()
    assert changed.notes.said("reverse replication still runs")
    db.execute("INSERT INTO t (id, v) VALUES (3, 3)")
    changed.revert(RecordingReporter())
    assert following.result() is True
    assert [key for key, _ in rows_of(db, names="id, v")] == [1, 2, 3]
    assert changed.columns() == ["id", "v"]


@pytest.mark.slow
def test_what_the_guard_makes_of_checks_is_no_change_of_the_old_table(db, engine, monkeypatch):
    """A try that fails behind the guard's ALTERs, by which the server writes constants anew."""
    checks = "CHECK (v < '5000'), CHECK (v < 0x1000)"
    db.execute(f"CREATE TABLE t (id INT PRIMARY KEY, v BIGINT NOT NULL, {checks})")
    db.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
    changed = SwappedTable(db, "ADD COLUMN extra INT", engine=engine)
    following = changed.keep()

    def fail(point):
        if point == "cutover.rename":
            raise MigrationFailure("planted")

    before = db.query("SHOW CREATE TABLE _t_old")
    with monkeypatch.context() as patch:
        patch.setattr(points, "reach", fail)
        with pytest.raises(SpiritError, match="planted"):
            changed.revert()
    assert db.query("SHOW CREATE TABLE _t_old") != before
    changed.revert(RecordingReporter())
    assert following.result() is True
    assert changed.columns() == ["id", "v"]


@pytest.mark.slow
def test_a_primary_that_became_a_replica_meanwhile_is_not_swapped_back(db, engine):
    """The old table would be in place there alone; reverse replication goes on."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL); INSERT INTO t VALUES (1, 1)")
    changed = SwappedTable(db, "ADD COLUMN extra INT", engine=engine)
    following = changed.keep()
    db.set_global("read_only", "ON")
    try:
        with pytest.raises(SpiritError, match="takes no writes any more") as failed:
            changed.revert()
    finally:
        db.execute("SET GLOBAL read_only = OFF")
    assert failed.value.exit_code == 1
    assert changed.columns() == ["id", "v", "extra"]
    changed.revert(RecordingReporter())
    assert following.result() is True
    assert changed.columns() == ["id", "v"]


@pytest.mark.slow
def test_what_the_feed_could_not_see_is_repaired(db, engine):
    """Rows of the old table that differ are found before the swap back and made equal.

    What only the old table has stays in existing rows. A row that is gone had such
    values too, which are not known: so the revert names the row and waits until it is there.
    """
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, gone INT DEFAULT 7)")
    db.execute("INSERT INTO t VALUES (1, 1, 10), (2, 2, 20), (3, 3, 30)")
    changed = SwappedTable(db, "DROP COLUMN gone", engine=engine)
    following = changed.keep()
    db.execute("UPDATE _t_old SET v = 99 WHERE id = 2")
    db.execute("DELETE FROM _t_old WHERE id = 3")
    db.execute("INSERT INTO _t_old VALUES (4, 4, 40)")
    with pytest.raises(SpiritError, match=r"1 rows are missing in .*: gone") as failed:
        changed.revert()
    assert failed.value.exit_code == 1
    assert failed.value.details == ("row (3) is missing",)
    assert changed.columns() == ["id", "v"]
    db.execute("INSERT INTO _t_old VALUES (3, 0, 30)")
    said = changed.revert()
    assert following.result() is True
    assert said.said(" 1 chunk repaired")
    assert rows_of(db, names="*") == [(1, 1, 10), (2, 2, 20), (3, 3, 30)]


@pytest.mark.slow
@pytest.mark.parametrize("altered", [False, True])
def test_a_revert_ends_a_swap_back_that_was_not_finished(db, engine, monkeypatch, altered):
    """A process that ended between its RENAME and its DROP: the next revert only cleans up.

    Also where somebody has changed the old table since: its number proves it.
    """
    finish, back, shown = Keeper.finish, list[bool](), list[MigrationShown]()
    monkeypatch.setattr(listener, "_LOOK_SECONDS", 0.05)

    def live() -> bool:
        found = migrations(connection_options(db), database=db.name, table="t", max_age=86400)
        shown[:] = found
        return found[0].live is not None

    def seen(self: Keeper, *, skip_drop: bool) -> None:
        back.append(self.may_be_back())
        until(live, "figures")
        finish(self, skip_drop=skip_drop)

    monkeypatch.setattr(Keeper, "finish", seen)
    # The swap back renames some of them, and lists all in another order.
    checks = "CHECK (v > 0), CONSTRAINT t_chk_v CHECK (v > 1), CONSTRAINT positive CHECK (v > 2)"
    db.execute(f"CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL, {checks})")
    changed = SwappedTable(db, "ADD COLUMN extra INT", engine=engine)
    with connect(changed.connection, role="test") as session:
        changed.checkpoint.write(session, replace(changed.record, state=REVERTING))
    db.execute("RENAME TABLE t TO _t_undone, _t_old TO t")
    if altered:
        db.execute("ALTER TABLE t ADD COLUMN later INT, ALGORITHM=INSTANT")
    said = changed.revert()
    assert said.said("has its old definition again")
    assert back == [True]
    said_of_it = "\n".join(shown[0].lines())
    assert "  swap       undone by a revert; only the cleanup is left\n" in said_of_it
    assert "  run again  after a stop spirit-py revert drops what is left" in said_of_it
    assert changed.tables() == {"t"}
    assert changed.columns() == ["id", "v", *(["later"] if altered else [])]


@pytest.mark.slow
def test_a_revert_makes_a_swap_back_that_was_only_announced(db, engine):
    """A process that ended before its RENAME: the next revert does it all."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL)")
    changed = SwappedTable(db, "ADD COLUMN extra INT", engine=engine)
    with connect(changed.connection, role="test") as session:
        changed.checkpoint.write(session, replace(changed.record, state=REVERTING))
    db.execute("INSERT INTO t (id, v) VALUES (9, 9)")
    changed.revert()
    assert changed.tables() == {"t"}
    assert rows_of(db, names="*") == [(9, 9)]


def test_a_definition_that_somebody_changed_back_is_no_swap_back(db, engine):
    """The old table was dropped and the column too, by hand: that is no revert (R24)."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL)")
    changed = SwappedTable(db, "ADD COLUMN extra INT", engine=engine)
    with connect(changed.connection, role="test") as session:
        changed.checkpoint.write(session, replace(changed.record, state=REVERTING))
    db.execute("DROP TABLE _t_old; CREATE TABLE _t_undone LIKE t; ALTER TABLE t DROP COLUMN extra")
    with pytest.raises(OutcomeUnknown):
        changed.revert()
    assert changed.tables() == {"t", "_t_undone", "_t_chkpnt"}


@pytest.mark.parametrize("clauses", ["ADD COLUMN extra INT", "ENGINE=InnoDB"])
def test_without_the_old_table_the_outcome_is_unknown(db, engine, clauses):
    """The old table was dropped by hand: only that is reported, with its own exit code.

    That the definition is the old one does not say that a revert has brought it back.
    """
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL)")
    changed = SwappedTable(db, clauses, engine=engine)
    columns = changed.columns()
    db.execute("DROP TABLE _t_old")
    with pytest.raises(OutcomeUnknown):
        changed.revert()
    assert changed.columns() == columns


@pytest.mark.slow
def test_reverse_replication_is_lost_with_the_binlog(db, engine):
    """The binlog no longer reaches the position: every later revert is refused with that."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL)")
    changed = SwappedTable(db, "ADD COLUMN extra INT", engine=engine)
    db.execute("INSERT INTO t (v) VALUES (1)")
    shown = {"database": db.name, "table": "t", "max_age": 3600.0}
    (found,) = migrations(changed.connection, **shown)
    assert f"from position {changed.record.position}" in "\n".join(found.lines())
    purge_binlogs(db)
    (found,) = migrations(changed.connection, **shown)
    assert "spirit-py revert is not possible" in "\n".join(found.lines())
    with pytest.raises(ReverseReplicationLost, match="the change feed cannot go on"):
        changed.revert()
    with pytest.raises(Refusal, match=r"reverse replication of .* has ended"):
        changed.revert()
    assert changed.columns() == ["id", "v", "extra"]


def test_ddl_while_no_process_follows_ends_reverse_replication(db, engine):
    """DDL between the end of the process and the revert: reverse replication is lost."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL)")
    changed = SwappedTable(db, "ADD COLUMN extra INT", engine=engine)
    db.execute("ALTER TABLE t ADD COLUMN more INT")
    with pytest.raises(ReverseReplicationLost, match="another session changed the definition"):
        changed.revert()
    assert changed.columns() == ["id", "v", "extra", "more"]


@pytest.mark.slow
def test_duplicates_of_an_old_unique_key_are_named(db, engine):
    """The new table holds duplicates of an old UNIQUE key: the revert names them, keeps both."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL UNIQUE)")
    db.execute("INSERT INTO t (v) VALUES (1), (2)")
    changed = SwappedTable(db, "DROP INDEX v", engine=engine)
    following = changed.keep()
    db.execute("INSERT INTO t (v) VALUES (2)")
    with pytest.raises(SpiritError, match=r"duplicates|cannot hold together") as failed:
        changed.revert()
    assert failed.value.hint == "remove the duplicates, then run spirit-py revert again"
    db.execute("DELETE FROM t WHERE id = 2")
    changed.revert()
    assert following.result() is True
    assert rows_of(db, names="id, v") == [(1, 1), (3, 2)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("index", "by_feed", "asked"),
    [
        ("(v)", False, False),
        ("(v)", True, False),
        ("(v)", True, True),
        ("((LOWER(v)))", False, True),
        ("((LOWER(v)))", True, False),
    ],
)
def test_a_duplicate_between_comparison_and_swap_back_is_found(
    db, engine, monkeypatch, index, by_feed, asked
):
    """Behind the comparison nothing is pushed out of the old table either (R21)."""
    db.execute(f"CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9), UNIQUE KEY u {index})")
    db.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    changed = SwappedTable(db, "DROP INDEX u", engine=engine)
    swap = SwapBack.swap

    def written_before(self):
        monkeypatch.setattr(SwapBack, "swap", swap)
        db.execute("INSERT INTO t VALUES (3, 'c'), (4, 'c')")
        if by_feed:
            until(lambda: self._feed._stop.reason is not None, "the feed's fault")
        return swap(self)

    monkeypatch.setattr(SwapBack, "swap", written_before)
    following = changed.keep() if asked else None
    with pytest.raises(SpiritError) as failed:
        changed.revert()
    assert failed.value.error_code is ErrorCode.DUPLICATES_FOR_UNIQUE_KEY
    assert failed.value.hint == "remove the duplicates, then run spirit-py revert again"
    assert rows_of(db, names="id, v") == [(1, "a"), (2, "b"), (3, "c"), (4, "c")]
    db.execute("UPDATE t SET v = 'd' WHERE id = 3")
    changed.revert()
    assert following is None or following.result() is True
    assert rows_of(db, names="id, v") == [(1, "a"), (2, "b"), (3, "d"), (4, "c")]
    assert db.query("SHOW INDEX FROM t WHERE Key_name = 'u'")


@pytest.mark.slow
def test_nothing_is_left_when_the_time_is_over(db, engine):
    """When the time is over the old table and all marks are dropped; the report says so."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL)")
    db.execute("INSERT INTO t (v) VALUES (1), (2)")
    notes = RecordingReporter()
    config = replace(reverse_config(db, table="t", alter="ADD COLUMN e INT"), keep_old_current=2.0)
    shared: Any = SharedEngine(engine)
    report = migrate(config, reporter=notes, engine_factory=lambda _: shared)
    assert (report.outcome, report.old_table, report.reverted) == ("done", "", False)
    assert report.algorithm == "copy"
    assert report.reason == "--keep-old-current needs the old table"
    assert "keep" in report.phases
    assert {name for (name,) in db.query("SHOW TABLES")} == {"t"}
    assert sum("a revert loses the values of column e" in line for line in notes.lines) == 1


@pytest.mark.slow
@pytest.mark.draws(1)
def test_a_revert_long_after_the_swap_waits_for_no_throttler(db, engine):
    """What held the copy back looks no more after the swap, and is no reason to wait for."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL)")
    db.execute("INSERT INTO t (v) VALUES (1), (2)")
    notes, stop = RecordingReporter(), StopSwitch()
    config = reverse_config(db, table="t", alter="ADD COLUMN e INT")
    shared: Any = SharedEngine(engine)
    running = BackgroundCall(
        lambda: migrate(config, reporter=notes, engine_factory=lambda _: shared, stop=stop)
    )
    until(lambda: notes.said("runs for"), "reverse replication")
    # Longer than a throttler's silence is suffered.
    time.sleep(GRACE + 2)
    revert = RevertConfig(connection=config.connection, database=db.name, table="t", threads=2)
    asking = Revert(revert, RecordingReporter(), engine_factory=unwanted_engine, stop=stop)
    reverting = BackgroundCall(asking.run)
    try:
        reverting.result()
    except BaseException:
        stop.request(Interrupted(2))
        raise
    assert (running.result().outcome, running.result().reverted) == ("reverted", True)
    assert {name for (name,) in db.query("SHOW TABLES")} == {"t"}


@pytest.mark.slow
def test_several_tables_go_back_together(db, engine):
    """Tables that were changed together go back in one swap, whichever of them is named."""
    for name in ("a", "b"):
        db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL)")
        db.execute(f"INSERT INTO {name} (v) VALUES (1), (2)")
    notes, stop = RecordingReporter(), StopSwitch()
    config = reverse_config(
        db, statement="ALTER TABLE b ADD COLUMN e INT; ALTER TABLE a ENGINE=InnoDB"
    )
    shared: Any = SharedEngine(engine)
    running = BackgroundCall(
        lambda: migrate(config, reporter=notes, engine_factory=lambda _: shared, stop=stop)
    )
    until(lambda: notes.said("runs for"), "reverse replication")
    db.execute("INSERT INTO a (v) VALUES (3)")
    db.execute("INSERT INTO b (v, e) VALUES (4, 4)")
    said = RecordingReporter()
    asked = RevertConfig(connection=connection_options(db), database=db.name, table="b", threads=2)
    Revert(asked, said, engine_factory=unwanted_engine, stop=StopSwitch()).run()
    report = running.result()
    assert report.reverted
    assert said.said(f"these were changed together: {db.name}.")
    assert {name for (name,) in db.query("SHOW TABLES")} == {"a", "b"}
    assert db.query("SELECT * FROM a") == [(1, 1), (2, 2), (3, 3)]
    assert db.query("SELECT * FROM b") == [(1, 1), (2, 2), (3, 4)]


#: Conversions that make one value of several without an error, with such a value.
MERGING = [
    ("DATETIME(6)", "DATETIME", "'2020-01-01 10:00:00.623456'"),
    ("TIMESTAMP(3) NULL", "DATETIME(1) NULL", "'2020-01-01 10:00:00.678'"),
    ("DATETIME", "DATE", "'2020-01-01 23:59:59'"),
    ("TIME(3)", "TIME", "'-10:00:00.500'"),
    ("DECIMAL(10,4)", "DECIMAL(10,2)", "1.2355"),
    ("DECIMAL(10,4)", "INT", "2.5"),
    ("DOUBLE", "INT", "2.5"),
    ("DOUBLE", "FLOAT", "0.1"),
    ("BIGINT", "FLOAT", "16777217"),
    ("DOUBLE", "DECIMAL(10,2)", "0.125"),
    ("FLOAT", "VARCHAR(30)", "0.123456789"),
    ("VARCHAR(20)", "INT", "'007'"),
    ("VARCHAR(20)", "DECIMAL(10,2)", "' 01.5'"),
    ("VARCHAR(20)", "FLOAT", "'123456.7890'"),
    ("TIMESTAMP(2) NULL", "TIMESTAMP NULL", "'2020-01-01 10:00:00.51'"),
    ("TEXT CHARACTER SET latin1", "JSON", """'{"b":1, "a": [1.50,"é"]}'"""),
    ("VARCHAR(20) CHARACTER SET latin1", "CHAR(20) CHARACTER SET utf8mb4", "'é  '"),
    ("VARBINARY(6)", "BINARY(6)", "X'0102'"),
]


@pytest.mark.slow
def test_what_the_change_did_not_keep_stays_in_rows_that_nobody_wrote(db, engine):
    """Such a value of the old table is no difference: its row is not copied again."""
    names = [f"c{number}" for number in range(len(MERGING))]
    defined = ", ".join(f"{name} {was}" for name, (was, _, _) in zip(names, MERGING, strict=True))
    db.execute(f"CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, {defined})")
    values = ", ".join(value for _, _, value in MERGING)
    for row in (1, 2, 3):
        db.execute(f"INSERT INTO t VALUES ({row}, {row}, {values})")
    db.execute("INSERT INTO t (id, v) VALUES (4, 4)")
    shown = ", ".join(f"HEX({name}), {name}" for name in names)
    before = rows_of(db, names=f"id, {shown}")
    becomes = zip(names, MERGING, strict=True)
    clauses = ", ".join(f"MODIFY {name} {what}" for name, (_, what, _) in becomes)
    changed = SwappedTable(db, clauses, engine=engine)
    following = changed.keep()
    db.execute("UPDATE t SET v = 22 WHERE id = 2")
    with db.connect() as hidden, contextlib.closing(hidden.cursor()) as cursor:
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute("UPDATE t SET c0 = '2020-01-01 10:00:02' WHERE id = 3")
    said = changed.revert(skip_drop=True)
    assert following.result() is True
    assert said.said(" 1 chunk repaired")
    now = rows_of(db, names=f"id, {shown}")
    assert (now[0], now[3]) == (before[0], before[3])
    assert db.query("SELECT v, CAST(c0 AS CHAR) FROM t WHERE id IN (2, 3) ORDER BY id") == [
        (22, "2020-01-01 10:00:01.000000"),
        (3, "2020-01-01 10:00:02.000000"),
    ]


@pytest.mark.slow
def test_text_that_is_longer_now_comes_back_where_nobody_wrote_its_row(db, engine):
    """'10.5' has become 10.50, whose text does not fit: it is compared as the number it is."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(4) NOT NULL, d FLOAT)")
    db.execute("INSERT INTO t VALUES (1, '10.5', 0.5), (2, ' 2', 0.5), (3, '3', NULL)")
    clauses = "MODIFY c DECIMAL(10,2) NOT NULL, MODIFY d VARCHAR(9)"
    changed = SwappedTable(db, clauses, engine=engine)
    longer = ["its text may be longer" in line for line in changed.record.losses]
    assert longer[:2] == [True, False]
    with db.connect() as hidden, contextlib.closing(hidden.cursor()) as cursor:
        cursor.execute("SET sql_log_bin = 0")
        for row, name, other, kept in ((1, "c", 10.6, 10.5), (2, "d", "no", "0.5")):
            cursor.execute(f"UPDATE t SET {name} = %s WHERE id = %s", (other, row))
            with pytest.raises(ValueLost, match=f"does not fit into column {name}"):
                changed.revert()
            cursor.execute(f"UPDATE t SET {name} = %s WHERE id = %s", (kept, row))
    changed.revert()
    assert rows_of(db, names="id, c, d") == [(1, "10.5", 0.5), (2, " 2", 0.5), (3, "3", None)]
