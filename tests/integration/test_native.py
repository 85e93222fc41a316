"""``--native SIZE``: what is not in place is made by the server where the table is small."""

from __future__ import annotations

import signal
from typing import Any

import MySQLdb
import pytest

from spirit_py.classes import replace
from spirit_py.errors import (
    Interrupted,
    MigrationFailure,
    Refusal,
    ServerFault,
    SpiritError,
)
from spirit_py.estimates import likely_sizes
from spirit_py.locks.turns import LockTurns
from spirit_py.migration.in_place import Shortcut, WholeProof
from spirit_py.mysql.faults import LOCK_WAIT_TIMEOUT
from spirit_py.plan import make_plan, sample
from spirit_py.plan.definition import shape_after
from spirit_py.plan.sample import native_time
from spirit_py.preflight.checks import disk_space
from spirit_py.preflight.clauses import made_natively
from spirit_py.preflight.preflight import prepare
from spirit_py.preflight.registry import CheckScope, findings_of
from spirit_py.statement import alter_of
from spirit_py.threads import StopSwitch
from tests.kits.locking import Clock, turns_on
from tests.kits.lost_answer import LosesTheAnswer
from tests.kits.migrate import Migrating, config_for, warnings_of
from tests.kits.resume import Interruption, make_table, start
from tests.kits.schema_tools import open_schema_tools
from tests.kits.tables import tables
from tests.kits.waiting import until
from tests.oracle.zones import zones

ROWS = 2000
COPYING = (
    "SELECT ID FROM performance_schema.processlist WHERE INFO LIKE 'ALTER TABLE%SHA2%'"
    " AND STATE = 'copy to tmp table'"
)
COLUMN = "ADD COLUMN z INT, ADD INDEX (z)"
ONLINE = "ADD COLUMN z INT NOT NULL DEFAULT 5, ADD INDEX (a, z)"
COPIED = "ADD COLUMN z INT AS (a + 5) STORED, ADD INDEX (z)"
STORED = "ADD COLUMN z INT AS (a + 5) STORED"
#: Some milliseconds a row.
SLOW = "ADD COLUMN z CHAR(128) AS (SHA2(REPEAT(b, 400000), 512)) STORED"


@pytest.fixture
def keyless(db):
    """Make a table without any key, which no copy can follow."""
    db.execute("CREATE TABLE t (id INT NOT NULL, a INT, b VARCHAR(50))")
    db.execute("SET SESSION cte_max_recursion_depth = 100000")
    db.execute(
        "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <"
        f" {ROWS}) SELECT i, i * 3, CONCAT('row ', i) FROM n"
    )
    return db


def change(db, engine, alter, native=1 << 20, **more):
    """Run the migration to its end; return its report."""
    given = {"table": "t", "alter": alter, "native": native, **more}
    return Migrating(engine, config_for(db, **given)).end()


def contents(db, table="t"):
    """Return a table's definition without its name, and its rows."""
    definition = db.query(f"SHOW CREATE TABLE {table}")[0][1].partition("(")[2]
    return definition, db.query(f"SELECT * FROM {table} ORDER BY id")


def counted_sends(monkeypatch):
    """Return a list that gets the algorithm of each ALTER that is sent."""
    sent: list[Any] = []
    plain = Shortcut._sent

    def counted(self: Any, algorithm: Any, wait: int) -> str | None:
        sent.append(algorithm)
        return plain(self, algorithm, wait)

    monkeypatch.setattr(Shortcut, "_sent", counted)
    return sent


def test_the_sample_of_a_native_copy_keeps_the_limits_of_the_plan(keyless, monkeypatch):
    """Rows, bytes and time; none is taken above the load that is named."""
    keyless.execute("ANALYZE TABLE t")

    def planned(**more):
        config = config_for(keyless, table="t", alter=COPIED, native=1 << 20, **more)
        (table,) = make_plan(config).tables
        assert table.method.algorithm == "native"
        return table.time

    assert planned().sample_rows == ROWS
    most = (("Threads_connected", 0.5),)
    assert "Threads_connected is" in planned(max_load=most).how
    higher = (("Threads_connected", 1e6),)
    assert "Threads_connected is" in planned(max_load=most, critical_load=higher).how
    with monkeypatch.context() as patched:
        patched.setattr(sample, "SECONDS", 0.0)
        assert (
            planned().sample_rows == 21
        )  # one more than the first step, to see whether these are all
    monkeypatch.setattr(sample, "_MOST_BYTES", 10_000)
    assert 20 < planned().sample_rows < 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alter", "algorithm"),
    [
        (ONLINE, "inplace"),
        (COPIED, "native"),
        ("ADD PRIMARY KEY (id)", "inplace"),
        ("PARTITION BY HASH (id) PARTITIONS 4", "native"),
        ("ALTER COLUMN a SET DEFAULT 7", "instant"),
    ],
)
def test_the_server_makes_what_no_copy_can(keyless, engine, alter, algorithm):
    """As natively: definition and rows; the plan says so before, and nothing is left."""
    db = keyless
    with pytest.raises(Refusal, match="key") as refused:
        change(db, engine, ONLINE, native=0)
    assert "--native 1M" in refused.value.hint
    db.execute("CREATE TABLE other LIKE t; INSERT INTO other SELECT * FROM t")
    db.execute(f"ALTER TABLE other {alter}")
    plan = make_plan(config_for(db, table="t", alter=alter, native=1 << 20))
    assert not plan.refused
    (planned,) = plan.tables
    assert planned.method.algorithm in {algorithm, "native"}
    assert change(db, engine, alter, dry_run=True).algorithm == algorithm
    assert change(db, engine, alter).algorithm == algorithm
    assert contents(db) == contents(db, "other")
    assert tables(db) == ["other", "t"]


@pytest.mark.slow
def test_a_fulltext_index_loses_the_columns_that_are_dropped(db, engine):
    """As the server makes it; an index of no other column goes."""
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a TEXT, b TEXT, `(c` TEXT, FULLTEXT KEY ab (a, b),"
        " FULLTEXT KEY `(bc` (b, `(c`), FULLTEXT KEY b (b), FULLTEXT KEY c (`(c`))"
    )
    db.execute("CREATE TABLE other LIKE t; ALTER TABLE other DROP b")
    assert change(db, engine, "DROP b").algorithm == "native"
    assert contents(db) == contents(db, "other")


def test_the_plan_says_how_long_writes_wait(keyless):
    """Sampled, and what waits."""
    plan = make_plan(config_for(keyless, table="t", alter=COPIED, native=1 << 20))
    (table,) = plan.tables
    assert table.time.sample_rows == ROWS
    assert table.time.most is not None
    assert "writes wait" in table.time.how
    assert any("writes wait" in lock.held for lock in table.locks)


@pytest.mark.slow
def test_a_table_is_as_large_as_its_files_where_statistics_are_old(db):
    """No copy by the server is made of it, or proposed; the plan knows no time.

    As after a load with STATS_AUTO_RECALC=0 and a restart. What deleted rows have left is free.
    """
    db.execute("CREATE TABLE t (id INT NOT NULL, b VARCHAR(3000)) STATS_AUTO_RECALC=0")
    db.execute("SET SESSION cte_max_recursion_depth = 100000")
    db.execute(
        "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <"
        " 8000) SELECT i, REPEAT('x', 2500) FROM n"
    )
    db.execute(
        "UPDATE mysql.innodb_table_stats SET n_rows = 0, clustered_index_size = 1"
        f" WHERE database_name = '{db.name}' AND table_name = 't'"
    )
    db.execute("FLUSH TABLE t")
    config = config_for(db, table="t", alter=COLUMN, native=8 << 20)
    with open_schema_tools(db) as desk:
        (context,) = prepare(desk.session, config)
        assert (context.source.estimated_rows, context.source.data_bytes) == (0, 16_384)
        assert 19 << 20 < sum(likely_sizes(context.source)) < 30 << 20
        assert not made_natively([context])
        (refused,) = findings_of([context], CheckScope.SOURCE)
        assert "--native 1M" not in refused.remedy
        assert native_time(desk.native, context.source, StopSwitch()).seconds is None
        db.execute("DELETE FROM t WHERE id > 100")

        def small():
            db.execute("ANALYZE TABLE t")
            return made_natively(prepare(desk.session, config))

        # The server purges deleted rows in the background.
        until(small)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alter", "native"), [(COPIED, 1), ("MODIFY a BIGINT", 1 << 30), (COPIED, 0)]
)
def test_larger_tables_and_changed_values_are_copied(keyless, engine, alter, native):
    """The copy compares every value."""
    keyless.execute("ALTER TABLE t ADD PRIMARY KEY (id)")
    assert change(keyless, engine, alter, native).algorithm == "copy"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alter", "algorithm"),
    [
        ("PARTITION BY HASH (id) PARTITIONS 4", "native"),
        ("ADD z INT AS (a + 5) STORED, ADD y TIMESTAMP NULL, ADD INDEX (at)", "native"),
        ("ADD COLUMN z DATE AS (DATE(at)) STORED", "copy"),
        ("ADD COLUMN z INT AS (at > '2026-10-25 02:30:00') STORED", "copy"),
        ("ALTER COLUMN at SET DEFAULT '2026-10-25 02:30:00', ADD INDEX (a)", "copy"),
    ],
)
def test_an_hour_that_the_clock_repeats_stays_two(db, engine, alter, algorithm):
    """The server's own copy of a TIMESTAMP goes through local time, also where it is not named."""
    with zones(db):
        db.set_global("time_zone", "Test/Berlin")
        db.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, at TIMESTAMP NULL)")
        db.execute(
            "INSERT INTO t VALUES (1, 1, '2026-10-25 00:30:00+00:00'),"
            " (2, 2, '2026-10-25 01:30:00+00:00')"
        )
        report = change(db, engine, alter)
        assert report.algorithm == algorithm
        certain = algorithm == "copy" and "INDEX" in alter
        assert ("Test/Berlin, which may repeat an hour" in report.reason) is certain
        found = db.query("SELECT UNIX_TIMESTAMP(at) FROM t ORDER BY id")
        assert [int(at) for (at,) in found] == [1792888200, 1792891800]
        db.set_global("time_zone", "SYSTEM")


def test_values_are_judged_strictly_whatever_the_server_does(keyless, engine):
    """A server without strict modes would keep nonsense as zero."""
    db = keyless
    db.set_global("sql_mode", "")
    before = contents(db)
    with pytest.raises(Refusal, match="Incorrect"):
        change(db, engine, "ADD COLUMN z DATE AS (b) STORED")
    assert contents(db) == before


def test_a_name_that_holds_instant_is_no_algorithm(db, engine, monkeypatch):
    """Rows are refused at once, and not once more by a copy for which writes wait."""
    db.execute("CREATE TABLE instant_t (id INT PRIMARY KEY, a VARCHAR(20))")
    db.execute("INSERT INTO instant_t VALUES (1, 'it''s'), (2, 'it''s')")
    sent = counted_sends(monkeypatch)
    with pytest.raises(Refusal, match="Duplicate entry"):
        change(db, engine, "ADD UNIQUE u (a)", table="instant_t")
    assert sent == ["instant", "inplace"]


def test_what_holds_the_change_back_leaves_it_to_no_copy(keyless, engine):
    """Nothing was checked for a copy."""
    db = keyless
    db.execute("CREATE TABLE _t_snt (id INT PRIMARY KEY)")
    before = contents(db)
    with pytest.raises(MigrationFailure, match="_t_snt defers the change"):
        change(db, engine, COPIED)
    assert contents(db) == before


@pytest.mark.slow
def test_a_copy_that_was_begun_is_carried_on(db, engine, monkeypatch):
    """With every check of a copy, though the option is given now."""
    make_table(db)
    Interruption(monkeypatch).at(engine, db, "chunk.committed", 2, target_chunk_time=0.05)
    run = start(engine, db, no_shortcut=False, native=1 << 30)
    assert run.end().algorithm == "copy"
    assert "resum" in run.told.text


@pytest.mark.parametrize(
    ("more", "ended"),
    [
        ({}, ""),
        ({"then": "ALTER TABLE t ADD COLUMN other INT"}, "OutcomeUnknown"),
        ({"instead": "ALTER TABLE t FORCE"}, "OutcomeUnknown"),
        ({"instead": "SELECT 1"}, "ServerFault"),
    ],
)
def test_an_answer_that_is_lost_is_found_out(keyless, more, ended):
    """R25: by the definition that the ALTER makes; the table has another number by then."""
    with open_schema_tools(keyless) as desk:
        source, statement = desk.table("t"), alter_of(desk.schema, "t", COPIED)
        made = shape_after(desk.native, source, statement)
        native: Any = LosesTheAnswer(desk, keyless, **more)
        proof = WholeProof(session=desk.session, source=source, made=made, zone="SYSTEM")
        parts = (native, desk.session, source, statement, turns_on(desk))
        shortcut = Shortcut(*parts, made=made, proof=proof)
        if not ended:
            assert shortcut.try_all().algorithm == "native"
            return
        with pytest.raises(SpiritError) as raised:
            shortcut.try_all()
        assert type(raised.value).__name__ == ended


def test_there_is_room_for_the_second_copy(keyless, engine, monkeypatch):
    """Which no binary log has."""
    monkeypatch.setattr(disk_space, "free_bytes", lambda _: 1000)
    with pytest.raises(Refusal, match=r"1000 B free where about .* for the new table are needed"):
        change(keyless, engine, COPIED)
    before = contents(keyless)
    for rehearsed in (True, False):
        with pytest.raises(MigrationFailure, match="needed, if the rows have to be copied") as late:
            change(keyless, engine, STORED, dry_run=rehearsed)
        assert late.value.error_code == "no-disk-space"
        assert (tables(keyless), contents(keyless)) == (["t"], before)
    monkeypatch.setattr(disk_space, "free_bytes", lambda _: 1 << 20)
    assert change(keyless, engine, COPIED).algorithm == "native"


@pytest.mark.parametrize(
    ("alter", "algorithm", "warned"),
    [("ADD COLUMN z INT", "instant", 1), ("RENAME COLUMN a TO c", "instant", 0)],
)
def test_what_needs_no_room_waits_for_none(keyless, engine, monkeypatch, alter, algorithm, warned):
    """INSTANT is tried first, and metadata alone is changed, on a disk that is nearly full."""
    monkeypatch.setattr(disk_space, "free_bytes", lambda _: 1000)
    report = change(keyless, engine, alter, min_free_disk=1 << 60)
    assert report.algorithm == algorithm
    assert len([one for one in warnings_of(report) if "1000 B free" in one]) == warned


@pytest.mark.parametrize(
    ("timeout", "requests", "paused"),
    [(3600.0, "3 requests", [200, 200]), (290.0, "1 request", [])],
)
def test_copies_that_are_lost_at_their_end_are_far_apart_and_few(
    keyless, monkeypatch, timeout, requests, paused
):
    """Writes have waited for each: twice as long they go on, whatever a request may take.

    Where --cutover-timeout has no room for that, there is no further copy at its end.
    """
    clock, pauses = Clock(), []
    with open_schema_tools(keyless) as desk:

        class Loses(LosesTheAnswer):
            def execute(self, sql: str) -> int:
                if not sql.startswith("ALTER"):
                    return super().execute(sql)
                clock.put_forward(100.0)
                raise ServerFault(LOCK_WAIT_TIMEOUT, "Lock wait timeout exceeded", where="test")

        source, statement = desk.table("t"), alter_of(desk.schema, "t", COPIED)
        turns = replace(turns_on(desk, timeout=timeout), clock=clock)
        monkeypatch.setattr(
            LockTurns, "pause", lambda *_, least=0.0, **__: pauses.append(int(least))
        )
        proof = WholeProof(session=desk.session, source=source, made="", zone="SYSTEM")
        native: Any = Loses(desk, keyless)
        shortcut = Shortcut(native, desk.session, source, statement, turns, proof=proof)
        with pytest.raises(MigrationFailure, match=f"not granted to {requests}"):
            shortcut.try_all()
    assert pauses == paused


@pytest.mark.slow
def test_who_is_in_front_of_a_copy_at_its_end_is_killed_then(keyless, engine, monkeypatch):
    """It has been there for as long as the copy has seen it, which is not made again."""
    db, sent = keyless, counted_sends(monkeypatch)
    db.execute("DELETE FROM t WHERE id > 400")
    options = {"native": 1 << 20, "kill_blockers": "idle", "kill_after": 1.0}
    run = Migrating(engine, config_for(db, table="t", alter=SLOW, **options))
    until(lambda: db.query(COPYING), "the server's copy")
    reader = db.connect()
    reader.query("BEGIN")
    reader.query("SELECT * FROM t LIMIT 1")
    reader.store_result()
    assert run.end().algorithm == "native"
    with pytest.raises(MySQLdb.Error):
        reader.query("SELECT 1")
    assert sent == ["instant", "inplace", "native"]


@pytest.mark.parametrize(
    ("made", "alter"),
    [
        ("KEY (b, a), FOREIGN KEY (a) REFERENCES p (id)", "ADD INDEX (a, b)"),
        ("FOREIGN KEY (a) REFERENCES p (id)", "ADD UNIQUE other (a)"),
        ("FOREIGN KEY (a) REFERENCES p (id)", "ADD INDEX (a, b DESC)"),
        ("FOREIGN KEY (a) REFERENCES p (id)", "ADD INDEX (a DESC, b)"),
        ("FULLTEXT KEY b (b), KEY (a)", "ADD INDEX (b)"),
    ],
)
def test_the_server_names_and_drops_indexes_for_keys_that_no_trial_has(db, engine, made, alter):
    """An index of its own making goes for one that is added; a FULLTEXT index keeps its name."""
    db.execute("CREATE TABLE p (id INT PRIMARY KEY)")
    for table in ("other", "t"):
        db.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT, b VARCHAR(50), {made})")
    db.execute(f"ALTER TABLE other {alter}")
    assert change(db, engine, alter).outcome == "done"
    assert contents(db)[0].replace("t_ibfk", "other_ibfk") == contents(db, "other")[0]


@pytest.mark.slow
def test_a_copy_in_front_of_a_global_lock_is_ended_and_repeated(keyless, engine):
    """R23: every write of the server waits behind it, for as long as the copy takes."""
    db = keyless
    run = Migrating(engine, config_for(db, table="t", alter=SLOW, native=1 << 20))
    until(lambda: db.query(COPYING), "the server's copy")
    backup = db.connect()
    backup.query("FLUSH TABLES WITH READ LOCK")
    assert run.running
    assert not db.query(COPYING)
    backup.query("UNLOCK TABLES")
    assert run.end().algorithm == "native"
    assert "is killed, and repeated later" in run.told.text


@pytest.mark.slow
def test_a_copy_that_was_killed_is_in_front_of_nothing(keyless, engine):
    """Nobody else used the table: the refusal names the request that was ended, and no session."""
    db = keyless
    options = {"native": 1 << 20, "cutover_timeout": 1.0}
    run = Migrating(engine, config_for(db, table="t", alter=SLOW, **options))
    until(lambda: db.query(COPYING), "the server's copy")
    copies = "the server to copy the rows"
    run.wait_until(
        lambda: any(copies in seen.waiting_for for seen in run.told.snapshots[-1:]), "a look at it"
    )
    ((number,),) = db.query(COPYING)
    db.kill(number, query=True)
    with pytest.raises(MigrationFailure, match="the last of its") as ended:
        run.end()
    assert "in front" not in ended.value.message


@pytest.mark.slow
def test_a_stop_ends_the_servers_copy(keyless, engine):
    """The table is as it was, and nothing is left."""
    db = keyless
    before = contents(db)
    run = Migrating(engine, config_for(db, table="t", alter=SLOW, native=1 << 20))
    until(lambda: db.query(COPYING), "the server's copy")
    run.stop.request(Interrupted(signal.SIGINT))
    with pytest.raises(Interrupted):
        run.end()
    assert contents(db) == before
    assert tables(db) == ["t"]


@pytest.mark.parametrize(
    "alter",
    [
        "ADD COLUMN n BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY FIRST",
        "ADD FULLTEXT (b)",
    ],
)
def test_what_needs_a_lock_is_left_to_the_servers_copy(keyless, engine, alter):
    """No LOCK=NONE, so writes wait; a run without the option refuses, and names it."""
    report = change(keyless, engine, alter)
    assert (report.outcome, report.algorithm) == ("done", "native")
    assert len(keyless.query("SELECT * FROM t")) == ROWS


def test_the_run_says_what_the_server_did(keyless, engine):
    """To people and to programs."""
    run = Migrating(engine, config_for(keyless, table="t", alter=COPIED, native=1 << 20))
    assert run.end().algorithm == "native"
    before, _, after = run.told.text.partition("wait while the server copies its rows: ALGORITHM=")
    assert "a copy of its own, for which writes wait" in after
    assert "a copy of its own" not in before


def test_a_table_that_has_grown_since_the_start_is_left_alone(keyless, engine, monkeypatch):
    """The lock, a pause or a hook may have been waited for, for days; statistics may be older."""
    keyless.execute("ALTER TABLE t MODIFY b VARCHAR(2500), STATS_AUTO_RECALC=0")
    plain = Shortcut._sent

    def grows(self: Any, algorithm: Any, wait: int) -> str | None:
        assert algorithm == "instant"
        keyless.execute(
            "INSERT INTO t SELECT 0, 0, REPEAT('x', 2500) FROM t JOIN (TABLE t LIMIT 4) x"
        )
        keyless.execute(
            "UPDATE mysql.innodb_table_stats SET n_rows = 0, clustered_index_size = 1"
            f" WHERE database_name = '{keyless.name}' AND table_name = 't'; FLUSH TABLE t"
        )
        return plain(self, algorithm, wait)

    monkeypatch.setattr(Shortcut, "_sent", grows)
    with pytest.raises(MigrationFailure, match=r"by now, more than the 1\.0 MiB of --native"):
        change(keyless, engine, STORED)


def test_no_trial_is_in_the_binary_log_as_the_table(keyless, engine):
    """With binlog_format=STATEMENT the server logs what is done to a temporary table."""
    db = keyless
    db.set_global("binlog_format", "STATEMENT")
    file, place = db.query("SHOW BINARY LOG STATUS")[0][:2]
    assert change(db, engine, COPIED).outcome == "done"
    events = db.query(f"SHOW BINLOG EVENTS IN '{file}' FROM {place}")
    texts = [str(event[5]) for event in events if db.name in str(event[5])]
    assert len([text for text in texts if "ALTER TABLE" in text]) == 1


def test_triggers_and_foreign_keys_are_checked_as_for_any_change(keyless, engine):
    """A trigger that names a dropped column would break every INSERT."""
    db = keyless
    db.execute("CREATE TRIGGER one BEFORE INSERT ON t FOR EACH ROW SET NEW.a = NEW.id")
    for alter, more in (("DROP COLUMN a", {}), ("ADD COLUMN z INT", {"triggers": "refuse"})):
        with pytest.raises(Refusal, match="trigger") as refused:
            change(db, engine, alter, **more)
        assert "--native" not in refused.value.hint


def test_a_server_that_takes_no_writes_is_not_changed_natively_either(keyless, engine):
    """The account may write all the same; no remedy offers that."""
    keyless.set_global("read_only", 0)
    keyless.set_global("read_only", "ON")
    for native in (0, 1 << 20):
        with pytest.raises(Refusal) as refused:
            change(keyless, engine, "ADD INDEX (a)", native=native, writes_only_here=True)
        lines = [refused.value.message, refused.value.hint, *refused.value.details]
        (at,) = (n for n, line in enumerate(lines) if "takes no writes (read_only=ON)" in line)
        assert lines[at + 1].strip().removeprefix("remedy: ").startswith("give the address of")
