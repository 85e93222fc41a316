"""``spirit-py checksum`` on real servers: what is found, what is refused, what is repaired."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py import points
from spirit_py.checksum import query, snapshot
from spirit_py.checksum.checker import Checker
from spirit_py.checksum.result import ChecksumOptions
from spirit_py.command_config import CompareConfig
from spirit_py.compare import checks, run
from spirit_py.compare.run import compare
from spirit_py.errors import (
    ChangesNotFlushed,
    ChecksumFailure,
    DifferencesFound,
    Interrupted,
    Refusal,
    SchemaChanged,
)
from spirit_py.estimates import fraction_of
from spirit_py.mysql.connect import connect as connect_as
from spirit_py.records import RecordOptions
from spirit_py.threads import Background, StopSwitch
from tests.fixtures.mysql import connect, has_vector
from tests.integration.test_checksum_types import TYPES
from tests.kits.compare import NUMBERS, Comparison, copy, make
from tests.kits.connection import account, connection_options, options_of
from tests.kits.engine import ThreadEngine
from tests.kits.replica import replicated_pair
from tests.kits.reporter import RecordingReporter
from tests.kits.resume import once_at
from tests.kits.waiting import DEADLINE, until

if TYPE_CHECKING:
    from spirit_py.spark.member import Outcome


def test_equal_tables_are_read_at_one_moment(db):
    """Every row of both is read at one moment under one short lock, and counted again."""
    make(db, 5000)
    copy(db)
    comparison = Comparison(db)
    report = comparison.run()
    assert (report.outcome, report.exit_code, report.rows) == ("equal", 0, 5000)
    assert (report.differences, report.remaining, report.in_motion) == (0, 0, 0)
    assert (report.one_moment, report.rows_counted, report.snapshots) == (True, True, 1)
    assert report.lock_held_ms > 0
    assert report.columns == [["id", "id"], ["v", "v"], ["n", "n"]]
    assert report.warnings == []
    assert comparison.engine.stopped
    assert report.summary()[0].startswith(f"{db.name}.a and {db.name}.b are equal: 5 000 rows")


def test_differences_are_counted_and_named(db, tmp_path):
    """Exit code 4, every kind by itself, row and column, also in the report's file."""
    make(db)
    copy(db)
    db.execute("DELETE FROM b WHERE id IN (3, 4); UPDATE b SET n = 0, v = NULL WHERE id = 7")
    db.execute("INSERT INTO b VALUES (900, 'x', 1), (901, 'x', 1), (902, 'x', 1)")
    comparison = Comparison(db)
    error = comparison.differs(records=RecordOptions(report_json=tmp_path / "r.json"))
    assert "6 rows differ; all are listed" in error.message
    assert error.details == (
        "row (3) is missing",
        "row (4) is missing",
        "row (7) is changed in v, n",
        "row (900) is extra",
        "row (901) is extra",
        "row (902) is extra",
    )
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["outcome"], report["exit_code"]) == ("different", 4)
    assert (report["missing"], report["extra"], report["changed"]) == (2, 3, 1)
    assert report["difference_examples"][2] == {
        "row": "(7)",
        "kind": "changed",
        "columns": ["v", "n"],
    }
    assert any("2 missing, 3 extra, 1 changed" in line for line in comparison.said.lines)


def test_ten_rows_are_shown_and_all_are_counted(db):
    """A table that is empty on the other side is missing as a whole."""
    make(db)
    db.execute("CREATE TABLE b LIKE a")
    error = Comparison(db).differs()
    assert "200 rows differ; the first " in error.message
    assert len(error.details) == 10


@pytest.mark.slow
@pytest.mark.draws(2)
@pytest.mark.parametrize("where", ["here", "another server"])
def test_the_rows_that_only_the_target_has_are_read_in_chunks(request, db, monkeypatch, where):
    """How far it is shows meanwhile, and what it does; no chunk has all of them."""
    make(db, 50)
    other = None if where == "here" else request.getfixturevalue("db_file")
    if other is not None:
        db.execute("ALTER TABLE a MODIFY id INT AUTO_INCREMENT")
    make(other or db, 45_000, "b" if other is None else "a")
    (other or db).execute(f"ANALYZE TABLE {'b' if other is None else 'a'}")
    seen: list[Any] = []
    monkeypatch.setattr(run, "Checker", partial(Checker, on_progress=seen.append))
    comparison = Comparison(db, other)

    error = comparison.differs()

    assert "44 950 rows differ" in error.message
    reading = [one for one in seen if one.note.endswith(", reading rows that only the target has")]
    assert len({one.rows for one in reading}) > 2
    parts = [fraction_of(one.rows, one.total(45_000)) or 0.0 for one in reading]
    assert any(0.2 < part < 0.5 for part in parts)
    assert max(one.total(45_000) or 0 for one in seen) == 45_000
    assert seen[-1].note == "pass 1, 44950 differences"
    counting = [one for one in seen if one.note.endswith(", counting the rows again")]
    assert {one.rows for one in counting} == {45_000}


@pytest.mark.parametrize("rows", [500, 10_000, 20_000])
def test_no_row_of_equal_tables_is_shown_as_the_targets_alone(db, monkeypatch, rows):
    """A last chunk as large as the rest of the source leaves the target's last key to be found."""
    make(db, rows)
    db.execute("ALTER TABLE a MODIFY id INT AUTO_INCREMENT; ANALYZE TABLE a")
    copy(db)
    seen: list[Any] = []
    monkeypatch.setattr(run, "Checker", partial(Checker, on_progress=seen.append))
    assert Comparison(db).run().outcome == "equal"
    assert {one.doing for one in seen} == {"", "counting the rows again"}


@pytest.mark.slow
def test_no_session_of_the_target_idles_until_the_source_has_ended(db, db_file, monkeypatch):
    """It is opened where the source ends: a server ends sessions that idle for too long."""
    make(db, 45_000)
    make(db_file, 60_000)
    comparison = Comparison(db, db_file)
    cut = "user_variables_by_thread WHERE VARIABLE_NAME = 'spirit_py_role'"
    cut = f"SELECT COUNT(*) FROM performance_schema.{cut} AND VARIABLE_VALUE = 'checksum-cut'"
    seen: list[int] = []
    alone = threading.Lock()
    # A lane without GTIDs has both on one server.
    servers = [db] if db.server is db_file.server else [db, db_file]

    def look(point):
        # The readers of both servers come by, each in its own thread.
        if point == "checksum.chunk":
            with alone:
                seen.append(sum(one.query(cut)[0][0] for one in servers))

    monkeypatch.setattr(points, "_listener", "here")
    monkeypatch.setattr(points, "_announce", look)
    assert "15 000 rows differ" in comparison.differs(threads=1).message
    assert (seen[0], seen[-1]) == (1, 2)


@pytest.mark.slow
def test_renamed_columns_are_compared_and_others_named(db):
    """Renamed columns are compared, others only where both have them, which is said."""
    make(db)
    copy(db)
    db.execute("ALTER TABLE b RENAME COLUMN n TO m, ADD COLUMN x INT DEFAULT 5")
    comparison = Comparison(db)
    report = comparison.run()
    assert report.columns == [["id", "id"], ["v", "v"]]
    assert (report.only_in_source, report.only_in_target) == (["n"], ["m", "x"])
    assert any(f"warning: not compared: only {db.name}.a has n" in x for x in comparison.said.lines)
    db.execute("UPDATE b SET m = 0 WHERE id = 9")
    assert comparison.differs(renames=(("n", "m"),)).details == ("row (9) is changed in n",)
    db.execute("UPDATE b SET v = '' WHERE id = 9")
    assert comparison.differs().details == ("row (9) is changed in v",)
    report = comparison.run(ignored=("v",))
    assert report.ignored_columns == ["v"]
    assert "not compared, as --ignore-column asks: v" in report.warnings


def test_types_compare_as_an_alter_would_convert(db):
    """Another type is no difference where the value is the one that a native ALTER would store."""
    make(db)
    copy(db)
    db.execute("ALTER TABLE b MODIFY n VARCHAR(20), MODIFY v TEXT, MODIFY id BIGINT")
    assert Comparison(db).run().outcome == "equal"
    db.execute("UPDATE b SET n = '3.0' WHERE id = 1")
    assert Comparison(db).differs().details == ("row (1) is changed in n",)


def test_generated_columns_are_read_unless_both_compute_them_alike(db):
    """A virtual one that is computed alike is not read; a stored one is, and any other."""
    make(db)
    db.execute("ALTER TABLE a ADD g INT AS (n + 1), ADD h INT AS (n + 2) STORED")
    db.execute("CREATE TABLE b LIKE a")
    db.execute("INSERT INTO b (id, v, n) SELECT id, v, n FROM a")
    report = Comparison(db).run()
    assert (report.computed_columns, len(report.columns)) == (["g"], 4)
    db.execute("ALTER TABLE b MODIFY g INT AS (n + IF(id = 5, 7, 1))")
    assert Comparison(db).differs().details == ("row (5) is changed in g",)


NOT_COMPARABLE = {
    "no table": ("DROP TABLE b", "there is no table"),
    "view": ("DROP TABLE b; CREATE VIEW b AS SELECT * FROM a", "is a view"),
    "no key": ("ALTER TABLE a DROP PRIMARY KEY", "no key that is compared"),
    "no key there": ("ALTER TABLE b DROP PRIMARY KEY", "no key that is compared"),
    "other key": ("ALTER TABLE b DROP PRIMARY KEY, ADD PRIMARY KEY (n)", "no key that is"),
    "nullable key": (
        "ALTER TABLE b DROP PRIMARY KEY, MODIFY id INT NULL, ADD UNIQUE (id)",
        "no key that is compared",
    ),
    "engine": ("ALTER TABLE b ENGINE=MyISAM", "engine MyISAM"),
    "types": ("ALTER TABLE b DROP v, ADD v BIT(3)", "column v is varchar(30)"),
}


@pytest.mark.parametrize("name", NOT_COMPARABLE)
def test_what_cannot_be_compared_is_refused(db, name):
    """With the reason, exit code 2, and nothing started."""
    make(db)
    copy(db)
    change, part = NOT_COMPARABLE[name]
    db.execute(change)
    comparison = Comparison(db)
    with pytest.raises(Refusal, match=re.escape(part)) as raised:
        comparison.run()
    assert raised.value.exit_code == 2
    assert raised.value.hint
    assert not comparison.engine.stopped


def test_a_table_is_not_compared_with_itself_under_another_host_name(db):
    """The server's identity tells, not its address."""
    make(db)
    comparison = Comparison(db, db)
    there = comparison.defaults["source"]
    with pytest.raises(Refusal, match="compared with itself"):
        comparison.run(target=replace(there, host="localhost"))


SELECTS = ("SELECT ON {}.*", "SELECT ON performance_schema.*")


@pytest.mark.parametrize(
    ("grants", "options", "missing"),
    [
        (SELECTS, {}, "lacks LOCK TABLES on"),
        ((*SELECTS, "LOCK TABLES ON {}.*"), {}, ""),
        (SELECTS, {"lock": False}, ""),
        (SELECTS[:1], {"lock": False}, ""),
        (("SELECT ON {}.a", SELECTS[1]), {"lock": False}, "there is no table"),
        (
            (*SELECTS, "LOCK TABLES ON {}.*"),
            {"repair": True},
            "lacks INSERT|lacks DELETE|lacks TRIGGER|lacks CREATE TEMPORARY TABLES|lacks PROCESS",
        ),
    ],
)
def test_missing_privileges_are_named(db, grants, options, missing):
    """Each one with the GRANT that gives it; without LOCK TABLES, --no-lock is the way."""
    make(db)
    copy(db)
    with account(db, *(grant.format(f"`{db.name}`") for grant in grants)) as source:
        comparison = Comparison(db)
        if not missing:
            assert comparison.run(source=source, **options).outcome == "equal"
            return
        with pytest.raises(Refusal) as raised:
            comparison.run(source=source, **options)
    text = "\n".join((raised.value.message, raised.value.hint, *raised.value.details))
    for part in missing.split("|"):
        assert part in text
    assert "there is no table" in text or "GRANT " in text


def test_without_a_lock_the_report_says_what_is_not_proven(db):
    """Nobody is waited for; that the rows are not of one moment, nor counted, is said."""
    make(db)
    copy(db)
    holder = db.connect()
    holder.begin()
    holder.cursor().execute("UPDATE a SET n = 0 WHERE id = 1")
    report = Comparison(db).run(lock=False)
    assert (report.outcome, report.lock_held_ms) == ("equal", 0.0)
    assert (report.one_moment, report.rows_counted) == (False, False)
    assert any("without the table lock" in warning for warning in report.warnings)
    holder.rollback()


class Shrinking(ThreadEngine):
    """An engine whose executors leave right behind a gang."""

    def run_gang(self, function: Any, **how: Any) -> list[Outcome[Any]]:
        """Run it, and have one slot left."""
        outcomes = super().run_gang(function, **how)
        self.slots = 1
        return outcomes


def test_rows_of_many_snapshots_are_not_counted_again_by_the_one_task_that_is_left(db):
    """What is claimed goes by the tasks that have read, not by those that Spark has at the end."""
    make(db)
    copy(db)
    comparison = Comparison(db)
    comparison.engine = Shrinking()
    assert not comparison.run(lock=False).rows_counted
    assert comparison.run(lock=False).rows_counted


@pytest.mark.slow
def test_a_blocker_of_the_lock_is_named(db):
    """A long transaction is named while the lock is waited for; then the comparison goes on."""
    make(db)
    copy(db)
    holder = db.connect()
    holder.begin()
    holder.cursor().execute("UPDATE a SET n = n + 1 WHERE id = 1")
    # Before a request, where the transaction is older than a second by then, or while one waits.
    named = f"session {holder.thread_id()} of"

    def look(snapshot):
        if named in snapshot.waiting_for:
            holder.rollback()

    comparison = Comparison(db)
    comparison.said = RecordingReporter(look)
    assert comparison.run().outcome == "equal"
    waits = [snapshot.waiting_for for snapshot in comparison.said.snapshots]
    (wait, *_) = [text for text in waits if named in text]
    assert "idle in a transaction" in wait


@pytest.mark.slow
@pytest.mark.gtid
def test_rows_of_two_servers_are_compared_under_two_locks(db, db_file):
    """Rows of two servers are compared under a lock on each; what differs is named."""
    make(db, 3000)
    make(db_file, 3000)
    comparison = Comparison(db, db_file)
    report = comparison.run()
    assert (report.outcome, report.rows, report.rows_counted) == ("equal", 3000, True)
    assert not report.one_moment
    assert any("not of one moment" in warning for warning in report.warnings)
    assert report.source["address"] != report.target["address"]
    db_file.execute("DELETE FROM a WHERE id = 1; UPDATE a SET v = 'x' WHERE id = 2999")
    assert comparison.differs().details == ("row (1) is missing", "row (2999) is changed in v")


def test_two_servers_with_a_key_of_another_order_are_refused(db, db_file):
    """Ranges of the key would not be the same there."""
    for each, collation in ((db, "utf8mb4_0900_ai_ci"), (db_file, "utf8mb4_bin")):
        each.execute(f"CREATE TABLE a (k VARCHAR(20) COLLATE {collation} PRIMARY KEY)")
    with pytest.raises(Refusal, match="ordered differently on the other server"):
        Comparison(db, db_file).run()


def compare_there(source, target, reporter=None, **more):
    """Compare ``r.t`` of two servers."""
    options = CompareConfig(
        source=source,
        target=target,
        database="r",
        table="t",
        target_database="r",
        target_table="t",
        recheck_pauses=(0.01,),
        **more,
    )
    return compare(
        options, reporter=reporter or RecordingReporter(), engine_factory=lambda _: ThreadEngine()
    )


@pytest.mark.slow
def test_a_replica_is_compared_at_the_very_moment():
    """Under the source's lock the replica executes what the source had executed."""
    with replicated_pair() as both:
        both.at.execute("CREATE DATABASE r")
        both.at.execute("CREATE TABLE r.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
        stop = threading.Event()

        def write():
            with connect(both.source) as session, session.cursor() as cursor:
                while not stop.is_set():
                    cursor.execute("INSERT INTO r.t (v) VALUES (1)")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            until(lambda: both.at.execute("SELECT 1 FROM r.t LIMIT 1"), "a row")
            reports = []
            for source, target in ((both.source, both.replica), (both.replica, both.source)):
                reports.append(compare_there(options_of(source), options_of(target)))
        finally:
            stop.set()
            writer.join()
        for report in reports:
            assert (report.outcome, report.one_moment, report.in_motion) == ("equal", True, 0)
            assert report.rows > 0
        both.at.execute("SELECT COUNT(*) FROM r.t")
        ((written,),) = both.at.fetchall()
        until(lambda: both.rows() == written, "all rows on the replica")
        both.of.execute("STOP REPLICA SQL_THREAD")
        both.at.execute("INSERT INTO r.t (v) VALUES (7)")
        told = RecordingReporter()
        with pytest.raises(DifferencesFound, match="1 row differs; all are listed"):
            compare_there(options_of(both.source), options_of(both.replica), reporter=told)
        assert "its applier is OFF: what it has not applied" in told.text
        for change in ("", "STOP REPLICA", "START REPLICA"):
            if change:
                both.of.execute(change)
            if change.startswith("START"):
                until(lambda: both.rows() == written + 1, "the replica to go on")
            # A repair would undo what the replica has not applied, or write what it will apply.
            for ends, said in (
                ((both.source, both.replica), "the target's server is a replica of the source's"),
                ((both.replica, both.source), "the source's server is a replica of the target's"),
            ):
                with pytest.raises(Refusal, match=said):
                    compare_there(*map(options_of, ends), repair=True)
        assert both.rows() == written + 1


class Clock:
    """Time that catching up takes: by the seconds that it may take at most."""

    def __init__(self, **takes: float) -> None:
        self._takes = takes
        self.asked: list[str] = []
        self._ahead = 0.0

    def monotonic(self) -> float:
        """Return the time."""
        return time.monotonic() + self._ahead

    def catch_up(self, _leader: object, _follower: object, seconds: int) -> None:
        """Have the follower catch up, at once."""
        which = "free" if seconds == snapshot._CATCH_UP_SECONDS else "locked"
        self.asked.append(which)
        self._ahead += self._takes[which]
        if self._takes[which] > seconds:
            raise ChangesNotFlushed("it has not caught up", hint="later")


@pytest.mark.slow
def test_a_replica_that_is_late_keeps_no_writer_waiting(monkeypatch):
    """Nothing is locked for it, or the time is counted that it was locked in vain."""
    with replicated_pair() as both:
        both.at.execute("CREATE DATABASE r")
        both.at.execute("CREATE TABLE r.t (id INT PRIMARY KEY, v INT)")
        both.at.execute("INSERT INTO r.t VALUES (1, 1)")
        until(lambda: both.rows() == 1, "the row")
        ends = options_of(both.source), options_of(both.replica)

        def compared(clock: Clock) -> Any:
            monkeypatch.setattr(snapshot, "time", clock)
            monkeypatch.setattr(snapshot, "_catch_up", clock.catch_up)
            return compare_there(*ends)

        late, torn = Clock(free=20.0), Clock(free=0.1, locked=40.0)
        report = compared(late)
        assert (late.asked, report.one_moment) == (["free"] * 3, False)
        assert report.lock_held_ms < 20_000
        report = compared(torn)
        assert (torn.asked, report.one_moment) == (["free", "locked"] * 3, False)
        assert report.lock_held_ms > 39_000
        both.of.execute("STOP REPLICA")
        both.of.execute("CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 3600")
        both.of.execute("START REPLICA")
        told = RecordingReporter()
        delayed = Clock()
        monkeypatch.setattr(snapshot, "_catch_up", delayed.catch_up)
        assert not compare_there(*ends, reporter=told).one_moment
        assert "it is delayed by 3600 s: what it has not applied" in told.text
        assert not delayed.asked


@pytest.mark.slow
@pytest.mark.parametrize("where", ["one server", "two servers"])
def test_a_repair_makes_the_target_equal(request, db, where):
    """Missing, extra and changed rows of the target become the source's; the source is read."""
    other = request.getfixturevalue("db_file") if where == "two servers" else db
    name = "a" if where == "two servers" else "b"
    make(db)
    if where == "two servers":
        make(other)
    else:
        copy(db)
    before = db.query("CHECKSUM TABLE a")
    other.execute(f"DELETE FROM {name} WHERE id IN (1, 2); INSERT INTO {name} VALUES (-1, 'x', 1)")
    other.execute(f"UPDATE {name} SET v = NULL WHERE id = 100")
    comparison = Comparison(db, other if where == "two servers" else None)
    report = comparison.run(repair=True)
    assert (report.outcome, report.exit_code) == ("repaired", 0)
    assert (report.missing, report.extra, report.changed, report.remaining) == (2, 1, 1, 0)
    assert report.summary()[0].startswith(f"{db.name}.a and {other.name}.{name} are equal now")
    assert comparison.run().outcome == "equal"
    assert db.query("CHECKSUM TABLE a") == before
    assert other.query(f"SELECT COUNT(*), SUM(n) FROM {name}") == db.query(
        "SELECT COUNT(*), SUM(n) FROM a"
    )


@pytest.mark.parametrize(
    ("old", "new", "keys", "own"),
    [
        ("BINARY(4)", "BINARY(8)", "('a'), ('b'), ('dddd')", "X'6100000000000001'"),
        ("VARBINARY(9)", "BINARY(8)", "('a'), ('b\\0'), ('dddddddd')", "X'6100000000000001'"),
        ("VARCHAR(9)", "CHAR(8)", "('a'), ('b '), ('dddddddd')", "'a a'"),
        ("VARCHAR(9) CHARACTER SET latin1", "CHAR(8)", "('é'), ('b '), ('d')", "'é a'"),
    ],
)
def test_a_row_of_the_target_alone_is_told_from_those_with_a_padded_key(db, old, new, keys, own):
    """Only that row is extra, and only that one goes."""
    db.execute(f"CREATE TABLE a (k {old} PRIMARY KEY); INSERT INTO a VALUES {keys}")
    db.execute(f"CREATE TABLE b (k {new} PRIMARY KEY); INSERT INTO b SELECT k FROM a")
    expected = db.query("SELECT HEX(k) FROM b ORDER BY k")
    db.execute(f"INSERT INTO b VALUES ({own})")
    comparison = Comparison(db)
    (difference,) = comparison.differs().details
    assert difference.endswith(" is extra")
    report = comparison.run(repair=True)
    assert (report.outcome, report.extra, report.remaining) == ("repaired", 1, 0)
    assert db.query("SELECT HEX(k) FROM b ORDER BY k") == expected


NOT_REPAIRABLE = {
    "trigger": (
        "CREATE TRIGGER fires BEFORE DELETE ON b FOR EACH ROW SET @x = 1",
        "trigger fires",
    ),
    "child": ("ALTER TABLE b ADD CONSTRAINT fk FOREIGN KEY (id) REFERENCES a (id)", "foreign key"),
    "parent": (
        "CREATE TABLE c (x INT, FOREIGN KEY (x) REFERENCES b (id) ON DELETE CASCADE)",
        "foreign key",
    ),
    "own column": ("ALTER TABLE b ADD own INT", "would lose the target's own"),
    "generated": ("ALTER TABLE b DROP n, ADD n INT AS (id * 3)", "cannot be written: n"),
}


@pytest.mark.parametrize("name", NOT_REPAIRABLE)
def test_a_repair_that_could_do_harm_is_refused(db, name):
    """Before anything is written, with the reason; comparing alone is allowed."""
    make(db)
    copy(db)
    change, part = NOT_REPAIRABLE[name]
    db.execute(change)
    with pytest.raises(Refusal, match=part):
        Comparison(db).run(repair=True)
    assert Comparison(db).run().outcome == "equal"


def test_a_server_that_takes_no_writes_is_not_repaired(db):
    """A comparison may run there."""
    make(db)
    copy(db)
    db.set_global("read_only", "ON")
    with pytest.raises(Refusal, match="takes no writes"):
        Comparison(db).run(repair=True)
    assert Comparison(db).run().outcome == "equal"


def test_a_server_that_logs_statements_is_neither_staged_on_nor_repaired(db):
    """Its binlog would have the temporary table's rows; it takes none in READ COMMITTED."""
    db.execute("CREATE TABLE a (id INT PRIMARY KEY, v DATETIME)")
    db.execute("CREATE TABLE b (id INT PRIMARY KEY, v VARCHAR(30))")
    make(db, table="c")
    copy(db, "d", source="c")
    db.execute("INSERT INTO a VALUES (1, '2026-01-01'); UPDATE d SET n = 0 WHERE id = 1")
    db.set_global("binlog_format", "STATEMENT")
    plain = {"table": "c", "target_table": "d"}
    with pytest.raises(Refusal, match="temporary table, and binlog_format is STATEMENT"):
        Comparison(db).run()
    with pytest.raises(Refusal, match="READ COMMITTED: binlog_format is STATEMENT"):
        Comparison(db).run(**plain, repair=True)
    with pytest.raises(DifferencesFound):
        Comparison(db).run(**plain)


@pytest.mark.parametrize("where", ["one server", "two servers"])
def test_rows_that_a_unique_key_of_the_target_cannot_hold_are_named(request, db, where):
    """A repair cannot make them fit, and would delete one of the target that was equal."""
    other = None if where == "one server" else request.getfixturevalue("db_file")
    there, table = (db, "b") if other is None else (other, "a")
    make(db)
    copy(db) if other is None else make(other)
    there.execute(f"ALTER TABLE {table} ADD UNIQUE KEY uv (v)")
    db.execute("UPDATE a SET v = 'row 5' WHERE id = 6")
    comparison = Comparison(db, other)
    error = comparison.differs(repair=True)
    assert error.details == ("row (6) is changed in v",)
    assert "nothing is repaired while the source has duplicates" in error.hint
    assert "(uv)" in error.hint
    assert "after the repair" not in error.message
    assert "cannot hold together: uv: v='row 5' in 2 rows" in comparison.said.text
    rows = there.query(f"SELECT id, v FROM {table} WHERE id IN (5, 6) ORDER BY id")
    assert rows == [(5, "row 5"), (6, "row 6")]


HARM = {
    "column": ("ALTER TABLE b ADD note INT DEFAULT 7, ALGORITHM=INSTANT", "definition of"),
    "trigger": ("CREATE TRIGGER tr BEFORE INSERT ON b FOR EACH ROW SET NEW.n = 0", "trigger tr"),
    "foreign key": (
        "CREATE TABLE c (id INT, FOREIGN KEY (id) REFERENCES b (id))",
        "is not checked",
    ),
}


@pytest.mark.parametrize("name", HARM)
def test_what_would_do_harm_meanwhile_ends_a_repair(db, monkeypatch, name):
    """It is looked for before each batch, not only at the beginning."""
    make(db)
    copy(db)
    db.execute("UPDATE b SET n = -1 WHERE id = 5")
    sql, said = HARM[name]
    once_at(monkeypatch, "checksum.repair", lambda: db.execute(sql))
    with pytest.raises(SchemaChanged, match=said):
        Comparison(db).run(repair=True)
    assert db.query("SELECT n FROM b WHERE id = 5") == [(-1,)]


@pytest.mark.parametrize("odd", ["a", "b"])
def test_generated_values_that_are_stored_otherwise_hinder_no_repair(db, odd):
    """Those of the target are computed anew; those of the source stay, and are a warning."""
    for name in "ab":
        db.execute(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, at TIMESTAMP, n INT,"
            " day DATE AS (DATE(at)) STORED)"
        )
        zone = "+12:00" if name == odd else "+00:00"
        db.execute(f"SET SESSION time_zone = '{zone}'")
        db.execute(
            f"INSERT INTO {name} (id, at, n) {NUMBERS.format(20)}"
            " SELECT i, FROM_UNIXTIME(1700000000), i FROM s"
        )
    db.execute("SET SESSION time_zone = DEFAULT; UPDATE b SET n = 0 WHERE id = 20")
    comparison = Comparison(db)
    if odd == "b":
        assert comparison.run(repair=True).outcome == "repaired"
        return
    error = comparison.differs(repair=True)
    assert "20 rows differ" in error.message
    assert "stores other values in generated columns (day)" in comparison.said.text
    assert db.query("SELECT n FROM b WHERE id = 20") == [(20,)]


def test_two_spellings_of_a_key_are_counted_once(db):
    """Also where they are looked at once more in statements of their own."""
    for name, spelled in (("a", "k"), ("b", "K")):
        db.execute(f"CREATE TABLE {name} (id VARCHAR(9) PRIMARY KEY)")
        db.execute(f"INSERT INTO {name} {NUMBERS.format(400)} SELECT CONCAT('{spelled}', i) FROM s")
    comparison = Comparison(db)
    with pytest.raises(DifferencesFound):
        comparison.run()
    assert not any("in motion" in line for line in comparison.said.lines), comparison.said.text


@pytest.mark.parametrize(
    ("repair", "said"), [(False, "not looked at once more"), (True, "the same command goes on")]
)
def test_rows_beyond_the_first_are_said_to_be_left(db, monkeypatch, repair, said):
    """They count; a task lists so many, and only these are read again or repaired."""
    make(db)
    db.execute("CREATE TABLE b LIKE a")
    few = partial(ChecksumOptions, max_repairs=3)
    monkeypatch.setattr("spirit_py.compare.run.ChecksumOptions", few)
    error = Comparison(db).differs(repair=repair)
    assert said in error.hint


def test_another_spelling_stays_where_the_source_has_a_row_that_does_not_fit(db, db_file):
    """It is deleted with that row's writing, or not at all."""
    for each in (db, db_file):
        each.execute("CREATE TABLE a (id VARCHAR(9) PRIMARY KEY, n INT)")
    db.execute("INSERT INTO a VALUES ('abc', -1), ('abd', 2)")
    db_file.execute("ALTER TABLE a ADD CHECK (n > 0); INSERT INTO a VALUES ('ABC', 7), ('x', 4)")
    Comparison(db, db_file).differs(repair=True)
    assert db_file.query("SELECT id, n FROM a ORDER BY id") == [("ABC", 7), ("abd", 2)]


def test_rows_that_a_repair_does_not_make_equal_are_differences(db, db_file):
    """They are reported as differences, with exit code 4, and the others are repaired."""
    for each in (db, db_file):
        each.execute("CREATE TABLE a (id INT PRIMARY KEY, n INT)")
    db.execute("INSERT INTO a VALUES (1, -1), (2, 2), (3, 3)")
    db_file.execute("ALTER TABLE a ADD CHECK (n > 0); INSERT INTO a VALUES (1, 7), (4, 4)")
    comparison = Comparison(db, db_file)
    error = comparison.differs(repair=True)
    assert error.details == ("row (1) is changed in n",)
    assert "after the repair 1 row differs" in error.message
    assert any("row (1) is not repaired" in line for line in comparison.said.lines)
    assert db_file.query("SELECT id, n FROM a ORDER BY id") == [(1, 7), (2, 2), (3, 3)]


@pytest.mark.slow
def test_every_type_is_carried_to_another_server(db, db_file):
    """A repaired row has the very values of the source's, whatever the types."""
    here = {"json"} if has_vector(db.server) else {"json", "vector(3)"}
    kinds = [each for each in TYPES.values() if each[0] not in here]
    kinds.append(("enum('a', '')", "'the error value 0'", ["''"]))
    columns = ", ".join(f"c{n} {kind} NULL" for n, (kind, *_) in enumerate(kinds))
    for each in (db, db_file):
        each.execute("SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
        each.execute(f"CREATE TABLE a (id INT PRIMARY KEY, {columns})")
    db.execute("INSERT INTO a (id) VALUES (-1)")
    for row in range(max(len(others) for _, _, others in kinds) + 1):
        values = [[value, *others] for _, value, others in kinds]
        chosen = ", ".join(each[row] if row < len(each) else "NULL" for each in values)
        db.execute(f"INSERT INTO a SELECT {row}, {chosen} FROM (SELECT 0 n) one")
    report = Comparison(db, db_file).run(repair=True)
    assert (report.outcome, report.missing) == ("repaired", report.rows)


def test_a_definition_that_changes_meanwhile_leaves_no_verdict(db):
    """A column that came while the rows were read was not compared, so there is no verdict."""
    make(db)
    copy(db)
    comparison = Comparison(db)
    comparison.engine = ThreadEngine(
        at_start=lambda: db.execute("ALTER TABLE b ADD COLUMN late INT")
    )
    with pytest.raises(SchemaChanged, match="changed while its rows were compared"):
        comparison.run()


@pytest.mark.slow
@pytest.mark.draws(2)
def test_a_server_that_is_lost_is_waited_for_and_shown(db, proxy, monkeypatch):
    """As in a migration, with the time that counts as waited; nobody says that it is gone."""
    make(db, 40_000)
    copy(db)
    comparison = Comparison(db)
    comparison.defaults["source"] = connection_options(db, proxy)
    chunks = itertools.count()

    def lose(point):
        if point == "checksum.chunk" and next(chunks) == 1:
            proxy.black_hole = True

    def find(seen):
        if seen.waiting_for.startswith(away) and seen.totals is not None:
            proxy.black_hole = False

    away = f"the server at {proxy.host}:{proxy.port} to answer ("
    comparison.said = RecordingReporter(find)
    monkeypatch.setattr(points, "_listener", "here")
    monkeypatch.setattr(points, "_announce", lose)
    assert comparison.run().outcome == "equal"
    shown = [one for one in comparison.said.snapshots if one.waiting_for.startswith(away)]
    assert {(one.rate, one.eta) for one in shown} == {(0.0, None)}
    assert shown[0].waited >= 3.0
    assert shown[0].totals.throttled["server"] >= 3.0


REFUSED = {
    "locked": "ACCOUNT LOCK",
    "at its limit": "WITH MAX_USER_CONNECTIONS 1",
}


@pytest.mark.slow
@pytest.mark.parametrize("refused", REFUSED)
def test_a_refused_login_of_the_look_is_no_outage(db, refused):
    """The server answers: nobody is told that it is waited for."""
    looks = itertools.count()
    enough = threading.Event()

    def done():
        if next(looks) == 2:
            troubles.append(sight.trouble)
            enough.set()
        return 1, 1

    troubles: list[str] = []
    with account(db) as options, contextlib.ExitStack() as stack:
        sight = checks.Sight([options], done)
        db.execute(f"ALTER USER {options.user} {REFUSED[refused]}")
        if refused == "at its limit":
            stack.enter_context(connect_as(options, role="work"))
        with Background("sight", sight.run):
            assert enough.wait(DEADLINE)
    assert troubles == [""]


@pytest.mark.slow
@pytest.mark.parametrize("compared", ["not yet", "rows"])
def test_the_look_takes_no_session_while_the_work_goes_on(db, monkeypatch, compared):
    """An account may be allowed no more sessions than the work needs."""
    looks = itertools.count()
    enough = threading.Event()
    opened: list[str] = []

    def done():
        number = next(looks)
        if number == 2:
            enough.set()
        return (1, number) if compared == "rows" else None

    def look(one, _):
        opened.append(one.address)
        return ""

    monkeypatch.setattr(checks, "_trouble", look)
    sight = checks.Sight([connection_options(db)], done)
    with Background("sight", sight.run):
        assert enough.wait(DEADLINE)
    assert opened == []


@pytest.mark.slow
@pytest.mark.draws(2)
def test_no_trouble_is_shown_after_the_look_has_ended(db, proxy):
    """Also where a fault has ended it."""
    looks = itertools.count()
    troubles: list[str] = []
    failed: list[BaseException] = []

    def done():
        if next(looks) == 2:
            troubles.append(sight.trouble)
            raise MemoryError
        return 1, 1

    proxy.black_hole = True
    sight = checks.Sight([connection_options(db, proxy)], done)
    look = Background("sight", sight.run, failed=failed.append)
    look.start()
    assert look.wait(DEADLINE)
    assert troubles[0].startswith("the server at ")
    assert [type(one) for one in failed] == [MemoryError]
    assert sight.trouble == ""


def test_a_stop_ends_the_comparison(db):
    """The reason of the stop is the outcome, and nothing is left on the server."""
    make(db)
    copy(db)
    stop = StopSwitch()
    comparison = Comparison(db)
    engine = ThreadEngine(at_start=lambda: stop.request(Interrupted(15)))
    with pytest.raises(Interrupted):
        compare(
            CompareConfig(**comparison.defaults),
            reporter=RecordingReporter(),
            engine_factory=lambda _: engine,
            stop=stop,
        )
    assert engine.stopped


#: Seconds that a program with a Spark of its own may take on a busy machine.
PATIENCE = 240.0


@contextlib.contextmanager
def command(db, *more):
    """Run ``spirit-py checksum`` as a process in a session of its own; it must end by itself."""
    server = db.server
    arguments = [sys.executable, "-m", "spirit_py", "checksum", "--database", db.name]
    arguments += ["--host", f"{server.host}:{server.port}", "--user", server.user]
    arguments += ["--table", "a", "--target-table", "b", *more]
    with subprocess.Popen(
        arguments,
        env={**os.environ, "SPIRIT_PY_PASSWORD": server.password},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_command_repairs_on_spark(db):
    """The program as an operator starts it: repair, exit code 0, the summary on stderr."""
    make(db, 3000)
    copy(db)
    db.execute("DELETE FROM b WHERE id = 77")
    with command(db, "--repair") as process:
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert "row (77) is missing; copied again" in errors
    assert f"{db.name}.a and {db.name}.b are equal now, after a repair: 3 000 rows" in errors


@pytest.mark.draws(2)
@pytest.mark.timeout(600)
def test_the_interrupted_command_leaves_no_session_and_no_lock(db):
    """SIGTERM while the lock is waited for: 143, and no session and no lock is left."""
    make(db)
    copy(db)
    holder = db.connect()
    holder.begin()
    holder.cursor().execute("UPDATE a SET n = 0 WHERE id = 1")
    with command(db) as process:
        # The next request, or the first one, waits because of the holder.
        said = itertools.takewhile(
            lambda line: "is not requested while" not in line, process.stderr
        )
        before = list(said)
        assert process.poll() is None, before
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE)
    holder.rollback()
    assert process.returncode == 143, errors


def test_a_failure_is_no_verdict(db, monkeypatch):
    """Rows that no chunk held end it with exit code 1, not with 'equal'."""
    make(db)
    copy(db)
    honest = query.aggregate
    monkeypatch.setattr(query, "aggregate", lambda *args: honest(*args) + " AND id <> 7")
    with pytest.raises(ChecksumFailure, match="a count 200") as raised:
        Comparison(db).run()
    assert raised.value.exit_code == 1
