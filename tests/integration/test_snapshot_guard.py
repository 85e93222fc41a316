"""Snapshots from before the swap: an error, as after a native ALTER, and never half a copy."""

from __future__ import annotations

import contextlib

import MySQLdb
import pytest

from spirit_py import points
from spirit_py.config import FeedOptions
from spirit_py.cutover import guard
from spirit_py.errors import CutoverFailure, MigrationFailure, Refusal, ServerFault, SpiritError
from spirit_py.mysql.capabilities import most_row_versions
from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables import guard_column
from spirit_py.mysql.tables.definition import read_shape, shape_of
from spirit_py.mysql.tables.guard_column import why_server_cannot
from spirit_py.threads import StopSwitch
from tests.kits.connection import connection_options
from tests.kits.cutover import ProvenCutover, SnapshotSource, make_tables, swapped, untouched
from tests.kits.engine import ThreadEngine
from tests.kits.locking import looking
from tests.kits.migrate import Migrating, config_for, migrate_here
from tests.kits.reporter import lines_to
from tests.kits.resume import Interruption, assert_nothing_left, make_table, once_at, start
from tests.kits.reverse import SwappedTable
from tests.kits.schema_tools import open_schema_tools
from tests.kits.waiting import until

TABLE_CHANGED = 1412
#: Row versions of a table, as the program is told.
FEW = 4
COLUMN = "ADD COLUMN _spirit_py_guard TINYINT COMMENT 'snapshot guard of spirit-py'"


def a_dump(db, isolation="REPEATABLE-READ", *, alone=True):
    """Begin what mysqldump --single-transaction begins."""
    cursor = db.connect().cursor()
    cursor.execute(f"SET SESSION transaction_isolation = '{isolation}'")
    cursor.execute("START TRANSACTION /*!40100 WITH CONSISTENT SNAPSHOT */")
    mine = (cursor.connection.thread_id(),)
    sql = "SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX"

    def listed():
        seen = db.query(sql)
        return seen == [mine] if alone else mine in seen

    # The list is renewed only when nobody has read it for 0.1 s.
    until(listed, "the list of transactions", pause=0.2)
    return cursor


def rows_seen(dump) -> int:
    """Read the table in the dump's snapshot."""
    dump.execute("SELECT COUNT(*) FROM t")
    return int(dump.fetchone()[0])


def assert_ended(dump) -> None:
    """The snapshot is refused, and the next transaction is not."""
    with pytest.raises(MySQLdb.OperationalError) as refused:
        rows_seen(dump)
    assert refused.value.args[0] == TABLE_CHANGED
    dump.execute("ROLLBACK")
    assert rows_seen(dump) > 0


def swap(db, mode, *names, said=None, connection=None, limits=None):
    """Swap tables."""
    swaps = [make_tables(db, name) for name in names or ("t",)]
    dump = a_dump(db)
    cutover = ProvenCutover(
        db,
        swaps,
        SnapshotSource(*swaps),
        connection=connection,
        stop=StopSwitch(),
        guard=mode,
        tell=lines_to(print if said is None else said.append),
        **({"limits": limits} if limits else {}),
    )
    return dump, swaps, cutover


def versions(db, table: str) -> int:
    """Return how many of the table's row versions are used."""
    name = f"{db.name}/{table}"
    return int(
        db.query(
            "SELECT TOTAL_ROW_VERSIONS FROM information_schema.INNODB_TABLES WHERE NAME = %s",
            (name,),
        )[0][0]
    )


def test_without_the_guard_a_snapshot_reads_half_a_copy(db):
    """The condition: what was in the new table when the snapshot was taken is all that is seen."""
    dump, (one,), cutover = swap(db, "off")
    result = cutover.run()
    assert result.guard == "off"
    assert swapped(db, one)
    assert rows_seen(dump) == 0
    assert db.query("SELECT COUNT(*) FROM t") == [(10,)]


def test_with_the_guard_it_gets_an_error(db):
    """Error 1412, the definition is the one that was made, and two row versions are used."""
    dump, (one,), cutover = swap(db, "on")
    with connect(connection_options(db), role="test") as session:
        made = read_shape(session, db.name, "_t_new")
        result = cutover.run()
        assert read_shape(session, db.name, "t") == made.replace("`_t_new`", "`t`")
    assert result.guard == "done"
    assert swapped(db, one)
    assert_ended(dump)
    assert versions(db, "t") == 2


def test_old_transactions_are_seen(db, monkeypatch):
    """In the mode auto there is a guard where a transaction is open for long, which is named."""
    monkeypatch.setattr(guard, "OLD_SECONDS", 0)
    said: list[str] = []
    dump, swaps, cutover = swap(db, "auto", "t", "u", said=said)
    result = cutover.run()
    number = dump.connection.thread_id()
    assert result.guard == "done"
    assert [text.split(",")[0] for text in result.snapshots] == [f"session {number}"]
    assert any("error 1412" in line and f"session {number}" in line for line in said)
    assert all(swapped(db, one) for one in swaps)
    assert_ended(dump)
    assert (versions(db, "t"), versions(db, "u")) == (2, 2)


def test_a_snapshot_of_milliseconds_gets_the_error_too(db, monkeypatch):
    """By default, however young it is; READ COMMITTED has a new snapshot for each statement."""
    # On a slow machine it may be seconds old when the guard looks.
    monkeypatch.setattr(guard, "OLD_SECONDS", 3600)
    young, (one,), cutover = swap(db, "auto")
    young.connection.rollback()
    young = a_dump(db)
    other = a_dump(db, "READ-COMMITTED", alone=False)
    result = cutover.run()
    assert (result.guard, result.snapshots) == ("done", ())
    assert swapped(db, one)
    assert_ended(young)
    assert rows_seen(other) == 10
    other.connection.rollback()


class Ledger:
    """An application that writes each row to three tables in one transaction, and reads them.

    Its reading transactions begin at points of a migration with a look at the third table, which
    takes their snapshot, and look at the other two when the swap is over.
    """

    def __init__(self, db):
        self._db = db
        self._opened = {}
        for name in ("t", "u", "w"):
            db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
        self.write(50)

    def write(self, rows=1):
        """Write rows to all three tables at once."""
        with contextlib.closing(self._db.connect()) as session, session.cursor() as cursor:
            session.begin()
            for name in ("t", "u", "w"):
                cursor.execute(f"INSERT INTO {name} (v) VALUES {', '.join(['(1)'] * rows)}")
            session.commit()

    def open_at(self, point):
        """Begin to read."""
        cursor = self._db.connect().cursor()
        cursor.execute("SET SESSION transaction_isolation = 'REPEATABLE-READ'")
        cursor.execute("START TRANSACTION")
        cursor.execute("SELECT COUNT(*) FROM w")
        self._opened[point] = (cursor, cursor.fetchone())

    def outcomes(self):
        """Read the tables that were swapped; return what each point's transaction found."""
        found = {}
        for point, (cursor, seen) in self._opened.items():
            with contextlib.closing(cursor):
                found[point] = tuple(self._one(cursor, table, seen) for table in ("t", "u"))
                cursor.connection.rollback()
        return found

    @staticmethod
    def _one(cursor, table, seen):
        try:
            cursor.execute(f"SELECT COUNT(*) FROM {table}")
        except MySQLdb.OperationalError as error:
            return error.args[0]
        return "right" if (read := cursor.fetchone()) == seen else f"{read} instead of {seen}"


@pytest.mark.slow
def test_an_invariant_across_tables_holds_through_the_swap(db, monkeypatch):
    """Snapshots of any moment before the swap give an error by default, later ones every row."""
    ledger = Ledger(db)
    written = ("drain.begun", "checksum.compare", "cutover.lock")
    points_left = [*written, "cutover.locked", "cutover.rename", "cutover.unlocked"]

    def passed(name):
        if name in points_left:
            points_left.remove(name)
            if name in written:
                ledger.write()
            ledger.open_at(name)

    monkeypatch.setattr(points, "_listener", "here")
    monkeypatch.setattr(points, "_announce", passed)
    both = "ALTER TABLE t ADD z INT; ALTER TABLE u ADD z INT"
    migrate_here(ThreadEngine(), config_for(db, statement=both, no_shortcut=True))
    assert not points_left
    error, right = (TABLE_CHANGED,) * 2, ("right",) * 2
    assert ledger.outcomes() == {
        **dict.fromkeys((*written, "cutover.locked"), error),
        "cutover.rename": right,
        "cutover.unlocked": right,
    }


@pytest.mark.slow
def test_where_no_guard_is_possible_the_copy_is_hardly_behind(db):
    """While a swap is next, changes are applied at once, whatever the usual interval is."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, w TEXT, FULLTEXT (w))")
    db.execute("INSERT INTO t VALUES (1, 'x')")
    config = config_for(
        db,
        table="t",
        alter="ADD COLUMN z INT",
        no_shortcut=True,
        defer_cutover=True,
        recheck_interval=3600.0,
        feed=FeedOptions(flush_interval=3600.0),
    )
    run = Migrating(ThreadEngine(), config)
    try:
        run.wait_until(lambda: run.told.said("DROP TABLE"), "the sentinel")
        db.execute("INSERT INTO t VALUES (2, 'y')")
        run.wait_until(lambda: db.query("SELECT 1 FROM _t_new WHERE id = 2"), "the row's copy")
        dump = a_dump(db)
    finally:
        db.execute("DROP TABLE IF EXISTS _t_snt")
    assert run.end().snapshot_guard.startswith("not possible")
    with contextlib.closing(dump):
        assert rows_seen(dump) == 2


def test_a_column_has_the_name_already(db):
    """The guard's column gets a name that no other has."""
    dump, (one,), cutover = swap(db, "on")
    db.execute("ALTER TABLE _t_new ADD COLUMN _Spirit_py_guard INT DEFAULT 4")
    assert cutover.run().guard == "done"
    assert swapped(db, one)
    assert_ended(dump)
    assert db.query("SELECT SUM(_spirit_py_guard) FROM t") == [(40,)]


def test_a_guard_that_was_broken_off_is_repaired(db, proxy):
    """When the answer to ADD COLUMN is lost, the next try drops the column that is left."""
    limits = looking()
    dump, (one,), cutover = swap(db, "on", connection=connection_options(db, proxy), limits=limits)
    proxy.lose_reply(b"ADD COLUMN `_spirit_py_guard`")
    assert cutover.run().attempts == 2
    assert proxy.lost.is_set()
    assert swapped(db, one)
    assert [row[0] for row in db.query("SHOW COLUMNS FROM t")] == ["id", "v", "extra"]
    assert_ended(dump)


@pytest.mark.parametrize("mode", ["on", "auto"])
@pytest.mark.parametrize("what", ["COLUMN w TEXT, ADD FULLTEXT (w)", "CHECK (1 = 1)"])
def test_a_table_that_takes_no_instant_column(db, monkeypatch, mode, what):
    """With a FULLTEXT index there is no guard: said in auto, and the end of the try with on.

    Nor with a CHECK of no column, which the server drops with the guard's.
    """
    monkeypatch.setattr(guard, "OLD_SECONDS", 0)
    said: list[str] = []
    dump, (one,), cutover = swap(db, mode, said=said)
    db.execute(f"ALTER TABLE _t_new ADD {what}")
    if mode == "on":
        with pytest.raises(CutoverFailure, match="snapshot guard cannot be set"):
            cutover.run()
        assert untouched(db, one)
        return
    result = cutover.run()
    assert result.guard.startswith("not possible")
    number = dump.connection.thread_id()
    assert any("finds rows missing" in line and f"session {number}" in line for line in said)
    assert swapped(db, one)
    assert what.rpartition("ADD ")[2].split()[0] in db.query("SHOW CREATE TABLE t")[0][1]


@pytest.fixture
def few_versions(monkeypatch):
    """Have the program take a table's row versions for fewer than the server's: used up sooner."""
    monkeypatch.setattr(guard_column, "most_row_versions", lambda _version: FEW)


def use_up(db, table: str, most: int = FEW) -> None:
    """Leave a table one of so many row versions."""
    for number in range(most - 1 - versions(db, table)):
        what = "DROP COLUMN used" if number % 2 else "ADD COLUMN used INT"
        db.execute(f"ALTER TABLE {table} {what}, ALGORITHM=INSTANT")


def number_of(db, table: str):
    """Return InnoDB's id of a table."""
    sql = "SELECT TABLE_ID FROM information_schema.INNODB_TABLES WHERE NAME = %s"
    return db.query(sql, (f"{db.name}/{table}",))


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.usefixtures("few_versions")
def test_too_few_row_versions_are_left(db, monkeypatch):
    """The column could come and not go: said in auto, the end before the lock with on."""
    monkeypatch.setattr(guard, "OLD_SECONDS", 0)
    dump, (one,), cutover = swap(db, "on")
    use_up(db, "_t_new")
    number = number_of(db, "_t_new")
    with pytest.raises(CutoverFailure, match="has 3 of 4 row"):
        cutover.run()
    assert untouched(db, one)
    said: list[str] = []
    cutover = ProvenCutover(
        db, [one], SnapshotSource(one), stop=StopSwitch(), guard="auto", tell=lines_to(said.append)
    )
    result = cutover.run()
    assert "row versions" in result.guard
    assert any("no snapshot guard (not possible" in line for line in said)
    assert swapped(db, one)
    assert number_of(db, "t") == number
    assert not [row for row in db.query("SHOW COLUMNS FROM t") if "guard" in row[0]]
    dump.connection.rollback()


def test_a_column_that_cannot_be_dropped_is_not_swapped_in(db, monkeypatch):
    """The next try drops it and goes without a guard in auto; it never rebuilds the table."""
    monkeypatch.setattr(guard, "OLD_SECONDS", 0)
    limits = looking()
    dump, (one,), cutover = swap(db, "auto", limits=limits)
    refused: list[object] = []
    really = guard_column.drop_column

    def refuse(*given):
        if refused:
            return really(*given)
        refused.append(given)
        raise ServerFault(4092, "Maximum row versions reached", where="test")

    monkeypatch.setattr(guard_column, "drop_column", refuse)
    number = number_of(db, "_t_new")
    result = cutover.run()
    assert (result.attempts, len(refused)) == (2, 1)
    assert "Maximum row versions reached" in result.guard
    assert swapped(db, one)
    assert number_of(db, "t") == number
    assert [row[0] for row in db.query("SHOW COLUMNS FROM t")] == ["id", "v", "extra"]
    dump.connection.rollback()


@pytest.mark.draws(1)
def test_a_column_that_is_left_is_never_dropped_by_a_rebuild(db):
    """Without a row version for it the swap does not happen: the table keeps its number."""
    dump, _, cutover = swap(db, "off")
    use_up(db, "_t_new", most_row_versions(db.query("SELECT @@version")[0][0]))
    db.execute(f"ALTER TABLE _t_new {COLUMN}, ALGORITHM=INSTANT")
    number = number_of(db, "_t_new")
    with pytest.raises(MigrationFailure, match="cannot be dropped instantly"):
        cutover.run()
    assert number_of(db, "_t_new") == number
    assert number_of(db, "t")
    dump.connection.rollback()


@pytest.mark.usefixtures("few_versions")
def test_row_versions_are_found_by_any_name(db):
    """Also those of partitions, and of a table with letters outside of ASCII in its name."""
    made = "(id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2"
    with connect(connection_options(db), role="test") as session:
        for name in ("plain", "tä-b_$le"):
            db.execute(f"CREATE TABLE `{name}` {made}")
            assert guard_column.why_no_version_left(session, db.name, name) == ""
            for number in range(3):
                db.execute(f"ALTER TABLE `{name}` ADD COLUMN c{number} INT, ALGORITHM=INSTANT")
            assert "has 3 of 4" in guard_column.why_no_version_left(session, db.name, name)
        assert "cannot be read" in guard_column.why_no_version_left(session, db.name, "nowhere")


@pytest.mark.parametrize("alter", ["ADD CHECK (a < 0x10)", "ADD b BIGINT CHECK (b < '7')"])
def test_constants_of_checks_are_settled_before_the_definition_is_noted(db, alter):
    """Else a resume after a try that was killed behind the guard takes it for another session's."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, a BIGINT, CHECK (a < 3e9))")
    with open_schema_tools(db) as desk:
        made = shape_of(desk.create(alter))
        guard_column.add_column(desk.session, db.name, "_t_new", "_spirit_py_guard")
        guard_column.drop_column(desk.session, db.name, "_t_new", "_spirit_py_guard")
        assert read_shape(desk.session, db.name, "_t_new") == made


def test_how_many_row_versions_there_are():
    """64, and 255 from 9.1 on."""
    assert most_row_versions("8.4.6") == most_row_versions("9.0.1") == 64
    assert most_row_versions("9.1.0-commercial") == 255


@pytest.mark.slow
@pytest.mark.parametrize("what", ["FULLTEXT index", "CHECK `t_chk_1` names no column"])
def test_what_cannot_be_guarded_is_refused_before_the_copy(db, engine, what):
    """What is asked for and not possible is refused; what is merely wished for is warned of."""
    ends = {"FULLTEXT index": "FULLTEXT (w)"}.get(what, "CHECK ('`' <> 'it''s')")
    db.execute(f"CREATE TABLE t (id INT PRIMARY KEY, w TEXT, {ends}, CHECK (w <> 'x y'))")
    db.execute("INSERT INTO t VALUES (1, 'x')")
    given = {"table": "t", "alter": "ADD COLUMN z INT", "no_shortcut": True}
    with pytest.raises(Refusal, match=what.replace("t_chk_1", "_t_new_chk_1")):
        migrate_here(engine, config_for(db, **given, snapshot_guard="on"))
    assert_nothing_left(db)
    report, _ = migrate_here(engine, config_for(db, **given))
    assert any("snapshot guard is not possible" in text for text in report.warnings)
    assert ("'`'" in db.query("SHOW CREATE TABLE t")[0][1]) == what.startswith("CHECK")
    assert why_server_cannot("8.0.28")
    assert not why_server_cannot("8.0.29")
    assert not why_server_cannot("9.7.4-2")


@pytest.mark.slow
def test_a_run_goes_on_behind_a_broken_guard(db, engine, monkeypatch):
    """A run that died between ADD and DROP is resumed; the definition counts as unchanged."""
    make_table(db)
    Interruption(monkeypatch).at(engine, db, "cutover.lock")
    db.execute(f"ALTER TABLE _t_new {COLUMN}")
    run = start(engine, db, snapshot_guard="on")
    report = run.end()
    assert report.runs == 2
    assert report.snapshot_guard == "done"
    assert [row[0] for row in db.query("SHOW COLUMNS FROM t")] == ["id", "a", "b", "z"]
    assert_nothing_left(db)


def end_the_swap(db):
    """End the session that holds the lock of the swap."""
    ((number,),) = db.query(
        "SELECT t.processlist_id FROM performance_schema.metadata_locks l"
        " JOIN performance_schema.threads t ON t.thread_id = l.owner_thread_id"
        " WHERE l.object_schema = %s AND l.object_name = 't'"
        " AND l.lock_type = 'SHARED_NO_READ_WRITE'",
        (db.name,),
    )
    assert db.kill(number)


@pytest.mark.slow
def test_a_guard_of_a_failed_try_is_no_change_of_the_definition(db, engine, monkeypatch):
    """The server writes a CHECK otherwise after each INSTANT clause: -5 for -(5), measured."""
    make_table(db, 500)
    db.execute("ALTER TABLE t ADD CONSTRAINT sane CHECK (a > -5 AND a <> -(7.5))")
    once_at(monkeypatch, "cutover.rename", lambda: end_the_swap(db))
    run = start(engine, db)
    report = run.end()
    assert (report.cutover_attempts, report.snapshot_guard) == (2, "done"), run.told.text
    assert_nothing_left(db)


@pytest.mark.slow
def test_the_swap_back_is_guarded_too(db, engine):
    """A snapshot from before a revert gets the error, also behind a guard that broke off."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
    db.execute("INSERT INTO t (v) VALUES (1), (2)")
    changed = SwappedTable(db, "ADD COLUMN z INT NOT NULL DEFAULT 3", engine=engine)
    db.execute(f"ALTER TABLE _t_old {COLUMN}")
    following = changed.keep(snapshot_guard="on")
    dump = a_dump(db)
    db.execute("INSERT INTO t (v) VALUES (3)")
    changed.revert()
    following.result()
    assert changed.columns() == ["id", "v"]
    assert_ended(dump)
    with contextlib.closing(dump):
        assert rows_seen(dump) == 3


@pytest.mark.draws(1)
@pytest.mark.usefixtures("few_versions")
def test_a_revert_without_row_versions_changes_nothing(db, engine, monkeypatch):
    """With on the revert fails before anything is changed; with auto it is made."""
    monkeypatch.setattr(guard, "OLD_SECONDS", 0)
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
    db.execute("INSERT INTO t (v) VALUES (1), (2)")
    use_up(db, "t")
    number = number_of(db, "t")
    changed = SwappedTable(db, "ADD COLUMN z INT NOT NULL DEFAULT 3", engine=engine)
    dump = a_dump(db)
    with pytest.raises(SpiritError, match="row versions"):
        changed.revert(snapshot_guard="on")
    assert number_of(db, "_t_old") == number
    assert "z" in changed.columns()
    notes = changed.revert(snapshot_guard="auto")
    assert notes.said("no snapshot guard (not possible")
    assert number_of(db, "t") == number
    assert "z" not in changed.columns()
    dump.connection.rollback()
