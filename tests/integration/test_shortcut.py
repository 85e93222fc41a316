"""INSTANT, INPLACE where it only touches metadata, and when neither will do."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import threading
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import MySQLdb
import pytest

from spirit_py.classes import replace
from spirit_py.errors import (
    AnotherServer,
    Interrupted,
    MigrationFailure,
    OutcomeUnknown,
    Refusal,
    SchemaChanged,
    ServerFault,
)
from spirit_py.locks import turns as turns_module
from spirit_py.locks.blockers import LockPolicy
from spirit_py.migration import in_place
from spirit_py.migration.in_place import Shortcut
from spirit_py.migration.shortcuts import _InPlace
from spirit_py.mysql.capabilities import most_row_versions
from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables.definition import read_table, shape_of
from spirit_py.mysql.tables.guard_column import row_versions
from spirit_py.plan import make_plan
from spirit_py.plan.definition import shape_after
from spirit_py.preflight.preflight import prepare
from spirit_py.preflight.shortcut import ShortcutResult, probe_shortcut
from spirit_py.statement import alter_of
from spirit_py.threads import StopSwitch
from tests.kits.background import BackgroundCall
from tests.kits.command import run_here
from tests.kits.connection import connection_options
from tests.kits.locking import BLIND, turns_on
from tests.kits.lost_answer import LosesTheAnswer
from tests.kits.migrate import Migrating, config_for, migrate_here
from tests.kits.reporter import lines_to
from tests.kits.schema_tools import open_schema_tools
from tests.kits.waiting import until

TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20) NOT NULL, n INT, e ENUM('a', 'b'),"
    " KEY k (n), CHECK (n > 0))"
)

WANTED = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20) NOT NULL, n INT, e ENUM('a', 'b'), "
REPLACED = f"DROP TABLE t; {WANTED} c INT, KEY k (n), CHECK (n > 0))"


@pytest.fixture
def desk(db):
    """Open a desk in a schema with a table and a row."""
    db.execute(TABLE)
    db.execute("INSERT INTO t VALUES (1, 'x', 1, 'a')")
    with open_schema_tools(db) as found:
        yield found


def run(desk, alter, stop=None, **settings) -> ShortcutResult:
    """Try the shortcuts on table ``t``."""
    return attempt(desk, desk.native, alter, turns=turns_on(desk, stop, **settings))


def attempt(desk, native, alter, *, source=None, **more) -> ShortcutResult:
    """Try the shortcuts through a session, on table ``t`` as it is or was."""
    statement = alter_of(desk.schema, "t", alter)
    table, turns = source or desk.table(), more.pop("turns", None) or turns_on(desk)
    made = made_of(desk, alter, table)
    return Shortcut(native, desk.session, table, statement, turns, made=made, **more).try_all()


def made_of(desk, alter, source=None) -> str:
    """Return the definition that the ALTER makes of table ``t`` as it is or was."""
    statement = alter_of(desk.schema, "t", alter)
    with connect(desk.options, database=desk.schema, role="trial", native=True) as trial:
        return shape_after(trial, source or desk.table(), statement)


@pytest.mark.parametrize(
    "alter",
    [
        "ADD c INT",
        "ADD c INT NOT NULL FIRST",
        "ADD c INT, DROP e",
        "RENAME COLUMN v TO w",
        "ALTER n SET DEFAULT 5",
        "MODIFY e ENUM('a', 'b', 'c')",
        "ADD g INT AS (n + 1)",
        "DROP CHECK t_chk_1",
    ],
)
def test_what_the_server_changes_instantly_is_changed(db, desk, alter):
    """What the server changes instantly is changed, as was known before, and the data is there."""
    made = made_of(desk, alter)
    result = run(desk, alter)
    assert made == shape_of(desk.table())
    assert (result.algorithm, result.attempts) == ("instant", 1)
    assert db.query("SELECT COUNT(*) FROM t") == [(1,)]


def test_an_instant_of_another_zone_is_the_one_that_was_to_be_made(db, desk):
    """SHOW CREATE TABLE shows a default in the session's zone: the server's, or the program's."""
    db.set_global("time_zone", "+02:00")
    for name in ("seen", "again"):
        alter = f"ADD {name} TIMESTAMP NOT NULL DEFAULT '2024-01-01 12:00:00'"
        made = made_of(desk, alter)
        with connect(desk.options, database=desk.schema, role="shortcut", native=True) as native:
            result = attempt(desk, native, alter)
        assert made == shape_of(desk.table())
        assert result.algorithm == "instant"
        assert f"`{name}` timestamp NOT NULL DEFAULT '2024-01-01 10:00:00'" in made


@pytest.mark.parametrize(
    ("alter", "shows"),
    [
        ("DROP INDEX k", None),
        ("RENAME INDEX k TO l", "KEY `l`"),
        ("MODIFY v VARCHAR(60) NOT NULL", "varchar(60)"),
        ("COMMENT 'new'", "COMMENT='new'"),
        ("ALTER INDEX k INVISIBLE, COMMENT 'new'", "INVISIBLE"),
        ("STATS_PERSISTENT=1", "STATS_PERSISTENT=1"),
    ],
)
def test_what_only_touches_metadata_is_changed_in_place(desk, alter, shows):
    """What only touches metadata is changed in place, as was known before."""
    made = made_of(desk, alter)
    result = run(desk, alter)
    assert made == shape_of(desk.table())
    assert result.algorithm == "inplace"
    assert result.attempts == 2
    assert shows is None or shows in desk.table().create_sql


@pytest.mark.parametrize(
    "more",
    [
        "FULLTEXT KEY f (v), CONSTRAINT k FOREIGN KEY (n) REFERENCES p (id))",
        "KEY k (n)) ROW_FORMAT=DYNAMIC PARTITION BY HASH (id) PARTITIONS 3",
        "KEY k (n)) ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8",
        "KEY k (n)) COMPRESSION='zlib' COMMENT='old'",
    ],
    ids=["keys", "partitions", "options", "comment"],
)
def test_the_change_of_an_unusual_table_is_known_before(db, desk, more):
    """R25: also with what a temporary table cannot have; its InnoDB numbers stay."""
    db.execute(f"DROP TABLE t; CREATE TABLE p (id INT PRIMARY KEY); {WANTED} {more}")
    alter = "RENAME COLUMN v TO w, COMMENT 'new'"
    made = made_of(desk, alter)
    assert run(desk, alter).algorithm == "inplace"
    assert made == shape_of(desk.table())


@pytest.mark.parametrize(
    "alter", ["DROP INDEX k", "MODIFY V VARCHAR(60) NOT NULL", "MODIFY N INT COMMENT 'new'"]
)
def test_the_change_of_an_index_or_column_of_a_foreign_key_is_known_before(db, desk, alter):
    """An index may have the foreign key's name, and a column gets the letters of MODIFY."""
    keys = "FULLTEXT KEY f (v), KEY k (n), KEY kk (n, id)"
    foreign_key = "CONSTRAINT k FOREIGN KEY (n) REFERENCES p (id)"
    db.execute("DROP TABLE t; CREATE TABLE p (id INT PRIMARY KEY)")
    db.execute(f"{WANTED} {keys}, {foreign_key})")
    made = made_of(desk, alter)
    assert run(desk, alter).algorithm in {"instant", "inplace"}
    assert made == shape_of(desk.table())


@pytest.mark.parametrize(
    ("alter", "reason"),
    [
        ("ADD INDEX (v)", "may rebuild"),
        ("MODIFY n BIGINT", "INSTANT is not supported"),
        ("MODIFY v VARCHAR(300) NOT NULL", "INPLACE is not supported"),
        ("MODIFY v VARCHAR(60)", "may rebuild"),
        ("ENGINE=InnoDB", "may rebuild"),
        ("ADD c INT, ADD INDEX (c)", "may rebuild"),
        ("ADD CHECK (n < 9)", "may rebuild"),
        ("PARTITION BY HASH (id) PARTITIONS 2", "partitioning"),
        ("ADD c INT PARTITION BY HASH (id) PARTITIONS 2", "partitioning"),
    ],
)
def test_what_would_rebuild_the_table_is_left_to_the_copy(desk, alter, reason):
    """What would rebuild the table is left to the copy, the table is as it was."""
    before = desk.table().create_sql
    result = run(desk, alter)
    assert result.algorithm is None
    assert reason in result.reason
    assert desk.table().create_sql == before


@pytest.mark.parametrize(
    ("alter", "message"),
    [
        ("ADD c INTT", "near 'INTT'"),
        ("DROP nonesuch", "Can't DROP 'nonesuch'"),
        ("ADD n INT", "Duplicate column name 'n'"),
        ("RENAME INDEX nonesuch TO l", "nonesuch"),
        ("RENAME COLUMN n TO m", "Check constraint 't_chk_1' uses column 'n'"),
    ],
)
def test_a_wrong_statement_is_no_impossible_shortcut(desk, alter, message):
    """What the server refuses for itself is refused in the server's words."""
    with pytest.raises(Refusal, match=message) as refused:
        run(desk, alter)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("alter", "same"),
    [
        ("MODIFY v VARCHAR(20) NOT NULL", True),
        ("ALTER n SET DEFAULT NULL", True),
        ("ALTER n SET DEFAULT 5", False),
        ("AUTO_INCREMENT = 50", False),
        ("DROP e, ADD e ENUM('a', 'b')", False),
    ],
)
def test_an_alter_that_is_made_already_is_not_told_as_a_change(db, alter, same):
    """Counters, and values that a DROP and an ADD of one name replace, are no definition."""
    db.execute(TABLE.replace("INT PRIMARY", "INT AUTO_INCREMENT PRIMARY"))
    ended = run_here(db, "migrate", "--alter", alter)
    assert ended.returncode == 0, ended.stderr
    said = "t was not changed: the definition was the same already (instant)"
    assert (said in ended.stderr) == same
    assert (".t changed (" in ended.stderr) == (not same)


@pytest.mark.slow
def test_row_versions_are_used_up(db, desk):
    """After 64 instant changes (255 from 9.1) the server says so, and the copy takes over."""
    assert run(desk, "ADD first INT").algorithm == "instant"
    for number in range(60):
        db.execute(f"ALTER TABLE t ADD c{number} INT, ALGORITHM=INSTANT")

    most = most_row_versions(db.query("SELECT @@version")[0][0])
    for number in range(60, 70 if most > 70 else 60):
        db.execute(f"ALTER TABLE t ADD c{number} INT, ALGORITHM=INSTANT")
    statement = alter_of(desk.schema, "t", "ADD last INT")
    foreseen = probe_shortcut(desk.native, desk.session, desk.table(), statement, building="_t_bld")
    assert foreseen.algorithm == "instant"

    def use_up() -> None:
        for number in range(70, 310):
            db.execute(f"ALTER TABLE t ADD c{number} INT, ALGORITHM=INSTANT")

    with pytest.raises(MySQLdb.Error, match="Maximum row versions"):
        use_up()
    result = run(desk, "ADD c INT")
    assert result.algorithm is None
    assert "Maximum row versions" in result.reason


@pytest.mark.slow
def test_a_small_table_is_copied_before_its_row_versions_are_used_up(db, engine):
    """A plain one of few bytes, when a quarter is left; the copy has all versions again."""
    db.execute(TABLE)
    db.execute("INSERT INTO t VALUES (1, 'x', 1, 'a')")
    most = most_row_versions(db.query("SELECT @@version")[0][0])
    config = config_for(db, table="t", alter="ADD c INT")

    def planned() -> tuple[str, int]:
        (found,) = make_plan(config, sample=False).tables
        left = re.search(r"(\d+) of \d+ row versions are left", found.method.why)
        assert left is not None
        return found.method.algorithm, int(left[1])

    used = most - most // 4 - 1
    for number in range(used):
        sql = f"ADD v{number} INT" if number % 2 == 0 else f"DROP v{number - 1}"
        db.execute(f"ALTER TABLE t {sql}, ALGORITHM=INSTANT")
    assert planned() == ("instant", most // 4 + 1)
    db.execute(f"ALTER TABLE t ADD v{used} INT, ALGORITHM=INSTANT")
    assert planned() == ("copy", most // 4)
    virtual = dataclasses.replace(config, alter="ADD g INT AS (n + 1)")
    assert make_plan(virtual, sample=False).tables[0].method.algorithm == "instant"
    db.execute("CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.n = 1")
    assert planned() == ("instant", most // 4)
    db.execute("DROP TRIGGER tr")
    db.execute("CREATE TABLE child (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES t (id))")
    assert planned() == ("instant", most // 4)
    db.execute("DROP TABLE child")

    report, _ = migrate_here(engine, config)
    assert report.algorithm == "copy"
    assert db.query("SELECT id, c FROM t") == [(1, None)]
    with connect(connection_options(db), role="test") as session:
        # The column of the snapshot guard came and went.
        assert (row_versions(session, db.name, "t") or 0) <= 2


def test_the_alter_means_what_the_servers_sql_mode_says(db, desk):
    """The ALTER means what it means under the server's own sql_mode (R10)."""
    with pytest.raises(Refusal, match="Invalid default"):
        run(desk, "ADD d DATE NOT NULL DEFAULT '0000-00-00'")


@pytest.mark.slow
def test_lock_is_not_to_be_had(db, desk):
    """A transaction that keeps the metadata lock makes it fail cleanly, after bounded waits."""
    other = db.connect()
    other.query("BEGIN")
    other.query("INSERT INTO t VALUES (2, 'y', 2, 'b')")
    with pytest.raises(MigrationFailure, match="metadata lock") as failed:
        run(desk, "ADD c INT", timeout=0)
    assert failed.value.exit_code == 1
    assert failed.value.hint
    other.rollback()
    assert not desk.table().has_column("c")


def test_lock_is_had_at_last(db, desk):
    """When the transaction ends, a later attempt succeeds."""
    other = db.connect()
    other.query("BEGIN")
    other.query("INSERT INTO t VALUES (2, 'y', 2, 'b')")
    waiting = BackgroundCall(partial(run, desk, "ADD c INT"))
    wait_until_locked(db)
    other.commit()
    assert waiting.result().algorithm == "instant"
    assert db.query("SELECT COUNT(*), COUNT(c) FROM t") == [(2, 0)]


def test_nothing_is_sent_while_somebody_old_is_in_front(db, desk):
    """R23: the ALTER is sent once, when the transaction has ended."""
    other = db.connect()
    other.query("BEGIN")
    other.query("INSERT INTO t VALUES (2, 'y', 2, 'b')")
    said: list[str] = []
    turns = turns_on(desk, tell=lines_to(said.append), old=0.0)
    waiting = BackgroundCall(partial(attempt, desk, desk.native, "ADD c INT", turns=turns))
    until(lambda: said, "the message")
    assert f"is not requested while it is blocked by: session {other.thread_id()} of" in said[0]
    assert f"; to end them: KILL {other.thread_id()} (RDS: CALL mysql.rds_kill) (--kill" in said[0]
    assert not alter_waits(db)
    other.commit()
    result = waiting.result()
    assert (result.algorithm, result.attempts) == ("instant", 1)


def look_of(db) -> int | None:
    """Return the session of the looks, if there is one."""
    found = db.query(
        "SELECT t.PROCESSLIST_ID FROM performance_schema.user_variables_by_thread v"
        " JOIN performance_schema.threads t USING (THREAD_ID)"
        " WHERE v.VARIABLE_NAME = 'spirit_py_role' AND v.VARIABLE_VALUE = 'lock-look'"
    )
    return int(found[0][0]) if found else None


@pytest.mark.slow
def test_a_long_wait_outlives_the_sessions_that_wait(db, desk, monkeypatch):
    """The server ends a session that idles; one of the looks may be killed by hand."""
    # Far more often than the server ends them here, also on a busy machine.
    monkeypatch.setattr(turns_module, "_ATTEND_SECONDS", 0.2)
    idle = 12
    for session in (desk.native, desk.session):
        session.execute(f"SET SESSION wait_timeout = {idle}")
    other = db.connect()
    other.query("BEGIN")
    other.query("INSERT INTO t VALUES (2, 'y', 2, 'b')")
    waiting = BackgroundCall(partial(run, desk, "ADD c INT", old=0.0))
    first = until(lambda: look_of(db), "the looks")
    db.execute(f"KILL {first}")
    until(lambda: look_of(db) not in {None, first}, "another session for the looks")
    # By the clock that ends them: a machine that stands still counts for both.
    began = uptime(db)
    until(lambda: uptime(db) > began + idle, "so much of the server's time")
    other.commit()
    assert waiting.result().algorithm == "instant"


def uptime(db) -> int:
    """Return the seconds that the server runs."""
    return int(db.query("SHOW GLOBAL STATUS LIKE 'Uptime'")[0][1])


def alter_waits(db) -> bool:
    """Whether an ALTER waits for the table's metadata lock."""
    return bool(
        db.query(
            "SELECT 1 FROM performance_schema.threads WHERE PROCESSLIST_INFO LIKE 'ALTER%'"
            " AND PROCESSLIST_STATE LIKE 'Waiting for table metadata lock'"
        )
    )


def wait_until_locked(db) -> None:
    """Wait until an ALTER waits for the table's metadata lock."""
    until(lambda: alter_waits(db), "an ALTER that waits")


@pytest.mark.slow
def test_a_stop_request_ends_the_wait_between_two_attempts(db, desk):
    """A stop request ends the waiting between two attempts."""
    other = db.connect()
    other.query("BEGIN")
    other.query("INSERT INTO t VALUES (2, 'y', 2, 'b')")
    stop = StopSwitch()
    stop.request(Interrupted(2))
    with pytest.raises(Interrupted):
        run(desk, "ADD c INT", stop)
    other.rollback()


@pytest.mark.parametrize(
    ("what", "alter"),
    [("", "ADD c INT"), ("QUERY ", "ADD c INT"), ("QUERY ", "DROP e, ADD e ENUM('a', 'b')")],
    ids=["session", "statement", "same definition"],
)
def test_killed_before_it_took_effect(db, desk, what, alter):
    """What is killed while it waits has changed nothing, and that is what is said."""
    other = db.connect()
    other.query("BEGIN")
    other.query("INSERT INTO t VALUES (2, 'y', 2, 'b')")
    waiting = BackgroundCall(partial(run, desk, alter))
    wait_until_locked(db)
    db.execute(f"KILL {what}{desk.native.id}")
    with pytest.raises(ServerFault):
        waiting.result()
    other.rollback()
    assert not desk.table().has_column("c")


def test_the_answer_is_lost(db, desk):
    """When the answer is lost the table is looked at: a change that is there is a change."""
    native: Any = LosesTheAnswer(desk, db)
    result = attempt(desk, native, "ADD c INT")
    assert result.algorithm == "instant"
    assert desk.table().has_column("c")


class GoesOn(LosesTheAnswer):
    """A session whose connection is lost at once, while the server goes on with the ALTER."""

    def execute(self, sql: str) -> int:
        """Run the statement; lose the connection of an ALTER, whose end ends the session."""
        if not sql.startswith("ALTER"):
            return super().execute(sql)

        def goes_on() -> None:
            with contextlib.suppress(ServerFault):
                self._session.execute(sql)
            self._session.close()

        threading.Thread(target=goes_on, daemon=True).start()
        raise ServerFault(2013, "Lost connection to server during query", where="test")


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [False, True], ids=["", "stopped"])
def test_a_server_that_goes_on_without_its_client_is_waited_for(db, desk, monkeypatch, stopped):
    """R25: for as long as it takes, whatever else is lost; a stop, which ends it, has its outcome.

    The log has one line of it.
    """
    said: list[str] = []
    told: list[str] = []
    other, stop = db.connect(), StopSwitch()
    other.query("BEGIN")
    other.query("INSERT INTO t VALUES (2, 'y', 2, 'b')")
    if not stopped:
        monkeypatch.setattr(in_place, "_LOST_LOOKS", 3)
        monkeypatch.setattr(in_place, "_LOST_SECONDS", 0.05)
    turns = replace(turns_on(desk, stop, lines_to(told.append), wait=60.0), show=said.append)
    native: Any = GoesOn(desk, db)

    def renew() -> bool:
        lost = not desk.session.alive()
        if lost:
            desk.session.take_over(connect(desk.options, database=desk.schema, role="driver"))
        return lost

    call = partial(attempt, desk, native, "ADD c INT", turns=turns, renew=renew)
    waiting = BackgroundCall(call)
    until(lambda: len(said) > 20 or (stopped and said))
    what = f"the end of the ALTER in session {native.id}, whose client was lost"
    assert said[-1] == what
    assert told == [f"warning: waiting for {what}"]
    if not stopped:
        db.execute(f"KILL {desk.session.id}")
        looks = len(said)
        until(lambda: len(said) > looks + 2)
        other.commit()
        assert waiting.result().algorithm == "instant"
        return
    stop.request(Interrupted(2))
    db.kill(native.id, query=True)
    with pytest.raises(ServerFault):
        waiting.result()
    other.rollback()


@pytest.mark.parametrize("sent", [True, False], ids=["sent", "not sent"])
def test_the_answer_is_lost_and_another_server_answers_by_then(db, desk, sent):
    """R14, R15: what the first server has made of it is not known, if it was sent there."""
    native: Any = LosesTheAnswer(desk, db)

    def renew() -> bool:
        if native.lost:
            raise AnotherServer("another server answers")
        return False

    if not sent:
        native.lost_at = "SET SESSION lock_wait_timeout"
    with pytest.raises(OutcomeUnknown if sent else AnotherServer, match="another server answers"):
        attempt(desk, native, "ADD c INT", renew=renew)


def test_the_answer_is_lost_and_the_session_is_another_one_by_then(db, desk):
    """The outcome is that of the session that sent the ALTER, not of the one opened after it."""
    native: Any = LosesTheAnswer(desk, db)

    def opens_only_the_first() -> bool:
        if desk.table().has_column("c"):
            native.id = desk.session.id
        return False

    result = attempt(desk, native, "ADD c INT", renew=opens_only_the_first)
    assert result.algorithm == "instant"


def test_the_answer_is_lost_and_another_session_has_its_number_by_then(db, desk):
    """A server that was restarted begins to number again: one of ours has the sender's number."""
    native: Any = LosesTheAnswer(desk, db)
    native.id = desk.session.id
    result = attempt(desk, native, "ADD c INT")
    assert result.algorithm == "instant"


@pytest.mark.parametrize(
    ("instead", "then"),
    [
        ("ALTER TABLE t ADD other INT", ""),
        ("DROP TABLE t", ""),
        (REPLACED, ""),
        ("", "ALTER TABLE t DROP c"),
        ("", "ALTER TABLE t ADD other INT"),
        ("", "DROP TABLE t"),
        ("", REPLACED),
    ],
)
def test_another_change_is_not_taken_for_the_one_whose_answer_was_lost(db, desk, instead, then):
    """R25: done is only what is the table of before with the definition that the ALTER makes."""
    native: Any = LosesTheAnswer(desk, db, instead=instead, then=then)
    with pytest.raises((OutcomeUnknown, ServerFault)) as ended:
        attempt(desk, native, "ADD c INT")
    undone = then == "ALTER TABLE t DROP c"
    # A definition that is the old one again is one that was not changed.
    assert ended.value.exit_code == (1 if undone else 3)
    assert "changed" in ended.value.hint or undone


def test_a_counter_whose_answer_is_lost_is_set_or_is_not(db, desk):
    """R25: no definition shows that of a table without rows, or one that was higher."""
    native: Any = LosesTheAnswer(desk, db)
    with pytest.raises(OutcomeUnknown):
        attempt(desk, native, "AUTO_INCREMENT = 50")


def test_the_answer_of_a_change_that_was_not_made_is_lost(db, desk):
    """R25: the table of before with the definition of before was not changed: exit code 1."""
    native: Any = LosesTheAnswer(desk, db, instead="SELECT 1")
    with pytest.raises(ServerFault) as ended:
        attempt(desk, native, "ADD c INT")
    assert ended.value.exit_code == 1
    assert not desk.table().has_column("c")


@pytest.mark.parametrize("then", ["ALTER TABLE t ADD other INT", "DROP TABLE t", REPLACED])
def test_a_table_that_is_another_one_after_the_answer_is_not_called_done(db, desk, then):
    """R25: an answer of success is about the table that others have replaced or changed since."""
    native: Any = LosesTheAnswer(desk, db, then=then)
    native.answers = True
    with pytest.raises(OutcomeUnknown) as ended:
        attempt(desk, native, "ADD c INT")
    assert ended.value.exit_code == 3


@pytest.mark.parametrize("before", ["ALTER TABLE t ADD other INT", REPLACED, "DROP TABLE t"])
def test_a_table_that_was_changed_while_the_alter_waited_is_left_alone(db, desk, before):
    """R25: what was judged is what is changed: nothing is sent to another table or definition."""
    source = desk.table()
    db.execute(before)
    with pytest.raises(SchemaChanged):
        attempt(desk, desk.native, "ADD d INT", source=source)
    left = read_table(desk.session, desk.schema, "t")
    assert left is None or not left.has_column("d")


class CannotLog:
    """A session whose ALTER is answered with error 1598, and made when the session has ended."""

    def __init__(self, desk, db):
        self.query = desk.native.query
        self._session, self._db = desk.native, db

    def execute(self, sql: str) -> int:
        """Run the statement; answer an ALTER that it cannot be written to the log."""
        if sql.startswith("ALTER"):
            raise ServerFault(1598, "Binary logging not possible", where="test")
        return self._session.execute(sql)

    def close(self) -> None:
        """Make the ALTER, as the recovery of the server does, and end the session."""
        self._db.execute("ALTER TABLE t ADD c INT")
        self._session.close()


def test_an_alter_that_could_not_be_logged_is_looked_at_when_its_session_has_ended(db, desk):
    """R25: with binlog_error_action=ABORT_SERVER the server ends, and may make it afterwards."""
    native: Any = CannotLog(desk, db)
    assert attempt(desk, native, "ADD c INT").algorithm == "instant"


class IsRefusedOnce:
    """A session whose first ALTER is not granted its lock."""

    def __init__(self, desk):
        self.id = desk.native.id
        self.query = desk.native.query
        self._session = desk.native
        self._refused = False

    def execute(self, sql: str) -> int:
        """Run the statement; refuse the first ALTER."""
        if sql.startswith("ALTER") and not self._refused:
            self._refused = True
            raise ServerFault(1205, "Lock wait timeout exceeded", where="test")
        return self._session.execute(sql)


def run_killed(engine, config, monkeypatch, *, at):
    """Run a change that ends in one of its steps, as a killed one does."""

    def killed(_: Shortcut) -> None:
        raise OutcomeUnknown("nobody knows")

    with monkeypatch.context() as patched:
        patched.setattr(Shortcut, at, killed)
        with pytest.raises(OutcomeUnknown):
            migrate_here(engine, config)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alter", "second"),
    [
        ("RENAME COLUMN a TO b, CHANGE b a INT", [(1, 20, 10)]),
        ("DROP COLUMN a, ADD COLUMN a INT", [(1, 7, 20)]),
    ],
)
def test_what_a_second_run_would_undo_is_not_made_again(db, engine, monkeypatch, alter, second):
    """A killed run may have made it: names would be exchanged once more, new values dropped."""
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT); INSERT INTO t VALUES (1, 10, 20)"
    )
    config = config_for(db, table="t", alter=alter)
    run_killed(engine, config, monkeypatch, at="_require_made")
    db.execute("UPDATE t SET a = 7 WHERE a IS NULL")
    with pytest.raises(Refusal, match="may have made it: made again") as refused:
        migrate_here(engine, config)
    assert "SHOW CREATE TABLE t" in refused.value.hint
    assert db.query("SELECT id, a, b FROM t") == second
    cleaned = run_here(db, "cleanup", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert migrate_here(engine, config)[0].outcome == "done"
    assert db.query("SELECT id, a, b FROM t") != second


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "alter", "native"),
    [
        ("", "RENAME INDEX i TO j, RENAME INDEX j TO i", 0),
        ("", "ADD INDEX (n)", 1 << 30),
        ("PARTITION BY HASH (id) PARTITIONS 3", "ADD PARTITION PARTITIONS 2", 1 << 30),
        ("PARTITION BY KEY (id) PARTITIONS 3", "COALESCE PARTITION 1", 1 << 30),
        (
            "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN MAXVALUE)",
            "TRUNCATE PARTITION p",
            0,
        ),
    ],
)
def test_indexes_and_partitions_are_not_changed_twice(
    db, engine, monkeypatch, parts, alter, native
):
    """A killed run may have made it: the second one looks at what the table is now."""
    db.execute(
        f"CREATE TABLE t (id INT PRIMARY KEY, n INT, m INT, KEY i (n), KEY j (m)) {parts};"
        " INSERT INTO t VALUES (1, 10, 20)"
    )
    config = config_for(db, table="t", alter=alter, native=native, allow_data_loss=True)
    run_killed(engine, config, monkeypatch, at="_require_made")
    db.execute("REPLACE INTO t VALUES (1, 10, 20)")
    made = db.query("SHOW CREATE TABLE t")
    with pytest.raises(Refusal, match="may have made it: made again"):
        migrate_here(engine, config)
    assert db.query("SHOW CREATE TABLE t") == made
    assert db.query("SELECT n, m FROM t") == [(10, 20)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alter", "seen"),
    [
        ("RENAME COLUMN a TO b, RENAME COLUMN b TO a", ""),
        ("DROP COLUMN a, ADD COLUMN a INT", "was altered, emptied or built anew since"),
    ],
)
def test_a_table_that_was_built_anew_is_not_called_altered(db, engine, monkeypatch, alter, seen):
    """The definition shows whether names were exchanged; where only values go, nothing does."""
    db.execute("CREATE TABLE t (b INT, id INT PRIMARY KEY, a INT); INSERT INTO t VALUES (2, 1, 3)")
    config = config_for(db, table="t", alter=alter)
    run_killed(engine, config, monkeypatch, at="try_all")
    db.query("OPTIMIZE TABLE t")
    if seen:
        with pytest.raises(Refusal) as refused:
            migrate_here(engine, config)
        assert seen in refused.value.hint
    else:
        assert migrate_here(engine, config)[0].outcome == "done"
        assert db.query("SELECT id, a, b FROM t") == [(1, 2, 3)]


@pytest.mark.slow
def test_what_was_not_made_by_a_killed_run_is_made(db, engine, monkeypatch):
    """The table is as it was when that run began."""
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT); INSERT INTO t VALUES (1, 10, 20)"
    )
    config = config_for(db, table="t", alter="RENAME COLUMN a TO b, RENAME COLUMN b TO a")
    run_killed(engine, config, monkeypatch, at="try_all")
    assert migrate_here(engine, config)[0].outcome == "done"
    assert db.query("SELECT id, a, b FROM t") == [(1, 20, 10)]


def test_a_lock_that_is_not_granted_is_no_lost_answer_where_the_other_session_is_lost(desk):
    """The session that was answered lives, and holds its named lock: the ALTER is sent again."""
    native: Any = IsRefusedOnce(desk)
    turns = turns_on(desk, longest_pause=0.1)
    result = attempt(desk, native, "ADD c INT", turns=turns, renew=lambda: native._refused)
    assert (result.algorithm, result.attempts) == ("instant", 2)


def test_a_session_that_ends_while_the_other_is_opened_again_is_opened_too(db, desk):
    """A server that goes away ends its sessions one after the other."""
    opened: list[str] = []

    def opens(role: str, *, native: bool) -> Any:
        if not opened:
            db.execute(f"KILL {desk.session.id}")
            until(lambda: not desk.session.alive(), "end of the second session")
        opened.append(role)
        return connect(desk.options, database=desk.schema, role=role, native=native)

    run = SimpleNamespace(
        session=opens,
        config=SimpleNamespace(connection=desk.options),
        stop=StopSwitch(),
        show=lambda _: None,
    )
    db.execute(f"KILL {desk.native.id}")
    (context,) = prepare(desk.session, desk.config("ADD c INT"))
    parts: Any = run, desk.native, desk.session, context, str
    assert _InPlace(*parts).renew()
    assert opened == ["ddl", "driver"]
    assert desk.session.alive()


@pytest.mark.slow
@pytest.mark.parametrize("sent", [False, True], ids=["looks", "waits"])
def test_a_server_that_is_away_meanwhile_is_waited_for(db, proxy, engine, monkeypatch, sent):
    """R16: whether it only looks, or the ALTER waits for its lock, the run goes on."""
    monkeypatch.setattr(LockPolicy, "old_after", lambda *_: BLIND if sent else 0.0)
    db.execute(TABLE)
    db.execute("INSERT INTO t VALUES (1, 'x', 1, 'a')")
    other = db.connect()
    other.query("BEGIN")
    other.query("INSERT INTO t VALUES (2, 'y', 2, 'b')")
    run = Migrating(
        engine,
        config_for(
            db,
            table="t",
            alter="ADD c INT",
            connection=connection_options(db, proxy),
            lock_wait_timeout=20.0,
        ),
    )
    if sent:
        run.wait_until(lambda: alter_waits(db), "ALTER that waits")
    else:
        run.wait_until(lambda: "is not requested while" in run.told.text, "wait")
    proxy.stop()
    time.sleep(1.5)
    proxy.start()
    other.commit()
    report = run.end()
    assert report.algorithm == "instant"
    assert db.query("SELECT COUNT(*), COUNT(c) FROM t") == [(2, 0)]
