"""``spirit-py plan`` on a real server: what it says, and that it writes nothing."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, Any

import MySQLdb
import pytest
from click.testing import CliRunner

from spirit_py.cli import main
from spirit_py.config import SessionModes
from spirit_py.errors import Refusal
from spirit_py.locks.named import take_named_lock
from spirit_py.migration.entry import migrate
from spirit_py.mysql.connect import connect
from spirit_py.plan import make_plan, text_of
from spirit_py.table.names import lock_name
from terminal import Terminal
from tests.kits.command import command_line, environment, run_here
from tests.kits.connection import connection_options
from tests.kits.migrate import config_for
from tests.kits.reporter import RecordingReporter
from tests.oracle.load import global_variables

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fixtures.mysql import Database

ROWS = 3000
#: All that a plan may send: what reads, what concerns the session alone, and temporary tables.
HARMLESS = re.compile(
    r"(?:SELECT|SHOW|SET (?!GLOBAL|PERSIST)|CREATE TEMPORARY TABLE|DROP TEMPORARY TABLE"
    r"|START TRANSACTION|COMMIT|ROLLBACK|XA RECOVER|PREPARE|DEALLOCATE|KILL QUERY|DO "
    r"|/\*!80030 SET SESSION)",
    re.IGNORECASE,
)
#: Into the session's own table, which hides the one of the same name.
INTO_TEMPORARY = re.compile(r"(?:ALTER TABLE|REPLACE INTO) `[^`]+`\.`(?:t|_t_new)` ", re.IGNORECASE)


@pytest.fixture
def table(db: Database) -> Database:
    """Return a schema with a table, a trigger and a child that refers to it."""
    db.execute("SET SESSION cte_max_recursion_depth = 100000")
    db.execute(
        "CREATE TABLE t (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT, note VARCHAR(20)"
        " NOT NULL DEFAULT 'n', KEY a (a))"
    )
    db.execute(
        "INSERT INTO t (a) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        f" WHERE i < {ROWS}) SELECT i FROM n"
    )
    db.execute("CREATE TABLE child (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES t (id))")
    db.execute("CREATE TRIGGER noted BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1")
    db.execute("ANALYZE TABLE t")
    return db


def planned(db: Database, alter: str, *more: str, code: int = 0) -> dict[str, Any]:
    """Run the command; return its JSON."""
    done = run_here(db, "plan", "--alter", alter, "--format", "json", *more)
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _state(db: Database) -> dict[str, Any]:
    """Return what anybody could see of a write."""
    return {
        "binlog": db.query("SHOW BINARY LOG STATUS"),
        "files": db.query("SHOW BINARY LOGS"),
        "executed": db.query("SELECT @@GLOBAL.gtid_executed"),
        "tables": db.query(
            "SELECT TABLE_SCHEMA, TABLE_NAME, CREATE_TIME FROM information_schema.TABLES"
            " WHERE TABLE_SCHEMA = %s ORDER BY 1, 2",
            (db.name,),
        ),
        "checksum": db.query("CHECKSUM TABLE t"),
    }


@pytest.mark.parametrize("logs", ["ROW", "STATEMENT"])
def test_nothing_is_written_to_the_server(table: Database, logs: str) -> None:
    """Binlog, GTIDs and tables are as before; the general log has reads and temporary tables.

    The format STATEMENT, which is refused, would log these.
    """
    before = _state(table)
    settings = {"log_output": "TABLE", "general_log": 1, "binlog_format": logs}
    with global_variables(table.execute, table.query, settings):
        ((since,),) = table.query("SELECT NOW(6)")
        alter = "MODIFY a BIGINT, ADD UNIQUE KEY u (id, a), DROP COLUMN note"
        planned(table, alter, "--native", "100M", code=0 if logs == "ROW" else 2)
        sent = table.query(
            "SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log"
            " WHERE command_type IN ('Query', 'Execute') AND event_time > %s AND thread_id IN"
            " (SELECT thread_id FROM mysql.general_log WHERE argument LIKE '%%@spirit_py_role%%')",
            (since,),
        )
    assert sent
    for (text,) in sent:
        assert HARMLESS.match(text) or INTO_TEMPORARY.match(text), text
    assert _state(table) == before


def test_a_copy_is_planned_with_all_that_belongs_to_it(table: Database) -> None:
    """Method, definition, columns, key, sizes, attachments, locks, disk and pace are there."""
    plan = planned(table, "MODIFY a BIGINT, RENAME COLUMN note TO remark, ADD COLUMN z INT")
    (one,) = plan["tables"]
    assert one["method"]["algorithm"] == "copy"
    assert "`remark` varchar(20)" in one["definition"]["new"]
    changes = {column["new"]: column["change"] for column in one["columns"]}
    assert changes == {"id": "kept", "a": "changed", "remark": "renamed", "z": "added"}
    assert one["key"]["columns"] == ["id"]
    assert one["key"]["deduplicates"]
    assert one["size"]["rows"] == pytest.approx(ROWS, rel=0.5)
    assert {(each["kind"], each["name"].split()[0]) for each in one["attached"]} == {
        ("trigger", "noted"),
        ("foreign key", "child_ibfk_1"),
    }
    assert [lock["name"] for lock in one["locks"]][-1] == "swap"
    assert one["time"]["sample_rows"] > 0
    assert one["time"]["least"] < one["time"]["seconds"] < one["time"]["most"]
    assert one["space"]["binlog_bytes"] > 0
    assert plan["pace"]
    assert plan["refusals"] == []


@pytest.mark.slow
def test_the_room_of_added_indexes_is_counted(db: Database) -> None:
    """By the width of their columns, also right after a load that the server has not measured."""
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, customer INT NOT NULL, body VARCHAR(200) NOT NULL)"
        " STATS_AUTO_RECALC=0"
    )
    db.execute("SET SESSION cte_max_recursion_depth = 20000")
    db.execute(
        "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE"
        " i < 20000) SELECT i, i % 100, REPEAT('x', 80 + i % 40) FROM n"
    )
    for measured in (False, True):
        if measured:
            db.execute("ANALYZE TABLE t")
        alone, more = (
            planned(db, alter, "--no-shortcut", "--no-sample")["tables"][0]
            for alter in ("FORCE", "ADD INDEX c2 (customer, body)")
        )
        assert alone["size"]["computed"] is not measured
        assert alone["size"]["data_bytes"] > 20_000 * 40
        added = more["space"]["table_bytes"] - alone["space"]["table_bytes"]
        assert 20_000 * 50 < added < 20_000 * 250


def test_a_change_in_place_is_expected_not_promised(table: Database) -> None:
    """INSTANT is left to the server, so the plan says that it is not certain, and takes seconds."""
    (one,) = planned(table, "ADD COLUMN z INT")["tables"]
    assert one["method"]["algorithm"] == "instant"
    assert not one["method"]["certain"]
    assert re.search(r"(\d+) of \1 row versions are left before it", one["method"]["why"])
    assert one["time"]["most"] < 10


def test_all_refusals_are_shown_together_with_the_rest(table: Database) -> None:
    """Each refusal has its remedy, none hides another one or the plan, and the exit code is 2."""
    table.execute("UPDATE t SET a = NULL WHERE id = 7")
    table.execute("CREATE TABLE _t_new (i INT)")
    plan = planned(table, "MODIFY a INT NOT NULL, ADD UNIQUE KEY u (note), FORCE", code=2)
    causes = "\n".join(note["cause"] for note in plan["refusals"])
    assert "table _t_new exists" in causes
    assert "column a becomes NOT NULL and is NULL" in causes
    assert "the new unique key u meets duplicates" in causes
    assert all(note["remedy"] for note in plan["refusals"])
    assert plan["tables"][0]["method"]["algorithm"] == "copy"


@pytest.mark.parametrize(
    ("charset", "members"), [("sjis", "X'F040', X'F041'"), ("cp932", "X'81CA', X'FA54'")]
)
def test_members_that_are_shown_alike_are_no_refusal(
    db: Database, charset: str, members: str
) -> None:
    """The server shows both as '?', or as one letter of two codes: its text makes no table."""
    db.execute(f"CREATE TABLE t (id INT PRIMARY KEY, e ENUM({members}) CHARACTER SET {charset})")
    plan = planned(db, "ADD COLUMN z INT, MODIFY id BIGINT")
    assert "members" in plan["tables"][0]["definition"]["unknown"][0]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["STRICT_TRANS_TABLES,NO_ZERO_DATE", "STRICT_TRANS_TABLES", ""])
@pytest.mark.parametrize("kind", ["POINT", "DATE", "DATETIME", "TIMESTAMP", "TIME", "INT", "JSON"])
def test_a_new_column_without_a_value_is_planned_as_the_server_adds_it(
    db: Database, kind: str, mode: str
) -> None:
    """What has no implicit default is not added INSTANT, by the modes under which it is added."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    config = config_for(db, table="t", alter=f"ADD COLUMN z {kind} NOT NULL", no_shortcut=False)
    config = dataclasses.replace(config, modes=SessionModes(sql_mode=mode))
    (one,) = make_plan(config, sample=False).tables
    db.execute("SET SESSION sql_mode = %s", (mode,))
    try:
        db.execute(f"ALTER TABLE t ADD COLUMN z {kind} NOT NULL, ALGORITHM=INSTANT")
        instant = True
    except MySQLdb.Error:
        instant = False
    assert (one.method.algorithm == "instant") == instant, one.method.why


@pytest.mark.parametrize(
    ("alter", "cause", "key"),
    [
        ("MODIFY a TINYINT", "Out of range value for column 'a'", "id = 128"),
        (
            "MODIFY note VARCHAR(20) CHARACTER SET latin1 NOT NULL",
            "Incorrect string value",
            "id = 9",
        ),
        ("ADD CONSTRAINT few CHECK (a < 2900)", "Check constraint 'few' is violated", ""),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_row(
    table: Database, alter: str, cause: str, key: str
) -> None:
    """The sample copies as the migration does, so what it meets would end that after hours."""
    table.execute("UPDATE t SET note = 'Ω' WHERE id = 9")
    plan = planned(table, alter, "--no-shortcut", code=2)
    (note,) = plan["refusals"]
    assert cause in note["cause"]
    assert note["code"] == "value-lost"
    assert note["table"] == f"{table.name}.t"
    assert key in "\n".join(note["details"])
    assert plan["tables"][0]["time"]["seconds"] is None


@pytest.mark.slow
def test_the_last_line_says_whether_it_would_run(table: Database) -> None:
    """The causes stand above, each once; the table is not said to be changed."""
    would = run_here(table, "plan", "--alter", "ADD COLUMN z INT")
    assert would.stdout.splitlines()[-1].startswith("would run: spirit-py migrate with the same")
    refused = run_here(table, "plan", "--alter", "ADD UNIQUE KEY u (note)")
    first, *_, last = refused.stdout.splitlines()
    assert first == f"{table.name}.t: refused, as said below"
    assert last == "would be refused for the reason above; nothing was written"
    assert refused.stdout.count("the new unique key u meets duplicates") == 1
    assert refused.returncode == 2
    later = run_here(table, "plan", "--alter", "MODIFY a TINYINT", "--no-shortcut")
    first, *_, last = later.stdout.splitlines()
    assert first == f"{table.name}.t: would fail, as said below"
    assert f"failure: a value of {table.name}.t does not fit: Out of range" in later.stdout
    assert last == "would fail during the copy for the reason above; nothing was written"
    assert later.returncode == 2
    failed = run_here(table, "migrate", "--alter", "MODIFY a TINYINT", "--no-shortcut")
    assert failed.returncode == 1
    assert f"error: a value of {table.name}.t does not fit: Out of range" in failed.stderr
    assert "or change the ALTER, and begin again with --start-afresh" in failed.stderr


def test_a_table_that_is_refused_is_not_said_to_be_changed_in_place(db: Database) -> None:
    """Neither another engine's, nor one without a key, whose copy fails for the same reason."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, x INT) ENGINE=MyISAM")
    refused = run_here(db, "plan", "--alter", "ADD y INT").stdout
    assert refused.startswith(f"{db.name}.t: refused, as said below\n")
    assert "INSTANT" not in refused
    assert "has the engine MyISAM" in refused
    db.execute("DROP TABLE t; CREATE TABLE t (id INT, x INT)")
    refused = run_here(db, "plan", "--alter", "MODIFY x BIGINT").stdout
    assert refused.startswith(f"{db.name}.t: refused, as said below\n")
    assert refused.count("\nrefusal: ") == 1
    assert refused.endswith("would be refused for the reason above; nothing was written\n")


def test_a_column_that_is_dropped_in_place_is_warned_of(db: Database) -> None:
    """Its values are gone at once; those of a generated column can be computed again."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, x INT, y INT AS (id) VIRTUAL)")
    gone = f"warning: {db.name}.t: the values of column x are gone when it is done"
    assert gone in run_here(db, "plan", "--alter", "DROP COLUMN x").stdout
    assert "are gone" not in run_here(db, "plan", "--alter", "DROP COLUMN y").stdout
    copied = run_here(db, "plan", "--alter", "DROP COLUMN x", "--keep-old-current", "1h").stdout
    assert "are gone" not in copied


def test_a_missing_java_is_said(table: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning where threads do the work, a refusal where a Spark master is named."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    config = config_for(table, table="t", alter="MODIFY a BIGINT")
    plan = make_plan(config, sample=False)
    assert any("JAVA_HOME is /nowhere; threads of this process" in w.cause for w in plan.warnings)
    assert not plan.refused
    plan = make_plan(dataclasses.replace(config, spark_master="local[2]"), sample=False)
    assert [note.code for note in plan.refusals] == ["java-missing"]
    in_place = dataclasses.replace(config, alter="ADD COLUMN z INT", no_shortcut=False)
    assert "Java" not in str(make_plan(in_place, sample=False).warnings)


def test_a_batch_shows_each_of_its_tables_with_totals(table: Database) -> None:
    """A batch of patterns shows each of its tables, with totals; another table is no part of it."""
    done = run_batch(table, "--tables", f"{table.name}.t%", "--alter", "ADD COLUMN z INT")
    assert [one["table"] for one in done["tables"]] == ["t", "t2"]
    assert done["totals"]["tables"] == 2
    assert done["totals"]["seconds"] is not None


def run_batch(db: Database, *more: str) -> dict[str, Any]:
    """Plan a batch over two tables; return its JSON."""
    db.execute("CREATE TABLE t2 LIKE t")
    words = command_line(db, "plan", *more, "--format", "json")[3:]
    done = CliRunner(env=environment(db)).invoke(main, words)
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_text_has_a_diff_and_the_verdict(table: Database) -> None:
    """Without a terminal there is no colour, and what changes is marked all the same."""
    done = run_here(table, "plan", "--alter", "MODIFY a BIGINT")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert re.search(r"^\s+(change\s+)?-\s+`a` int DEFAULT NULL", done.stdout, re.MULTILINE)
    assert re.search(r"^\s+(change\s+)?\+\s+`a` bigint DEFAULT NULL", done.stdout, re.MULTILINE)
    assert "nothing was written" in done.stdout


def test_a_migration_logs_its_plan_before_it_begins(table: Database) -> None:
    """One event has the whole tree, with the definition; without a terminal it is one line."""
    done = run_here(table, "migrate", "--alter", "ADD COLUMN z INT", "--log-format", "json")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stderr.splitlines()]
    names = [event["event"] for event in events]
    made = events[names.index("plan.made")]
    assert names.index("plan.made") < names.index("algorithm.chosen")
    assert "changed INSTANT, without copying a row (expected)" in made["text"]
    assert "\n" not in made["text"]
    assert "`z` int" in made["plan"]["tables"][0]["definition"]["new"]
    assert made["plan"]["tables"][0]["size"]["data_bytes"] > 0


@pytest.mark.slow
def test_the_first_screen_of_a_migration_is_its_plan(table: Database) -> None:
    """A terminal of 80 columns shows the diff in colour, and no line is broken within a word."""
    command = command_line(table, "migrate", "--table", "t", "--alter", "MODIFY note VARCHAR(30)")
    password = {"SPIRIT_PY_PASSWORD": table.server.password}
    with Terminal(command, columns=80, rows=50, environment=password) as terminal:
        assert terminal.wait(240) == 0
        shown = terminal.everything()
    written = b"".join(piece for _, piece in terminal.written).decode()
    assert re.search(r"^  change .*`a` int", shown, re.MULTILINE)
    assert re.search(r"^            -   `note` varchar\(20\)", shown, re.MULTILINE)
    assert re.search(r"\x1b\[[0-9;]*31m[^\x1b]*-   `note`", written)
    assert re.search(r"\x1b\[[0-9;]*32m[^\x1b]*\+   `note`", written)
    assert "attached  trigger noted" in shown
    assert "TEMPORARY" not in shown
    # The plan has said why.
    assert "copying, because" not in shown


@pytest.mark.slow
def test_a_missing_grant_hides_nothing_else(table: Database) -> None:
    """Without PROCESS the definition is shown all the same, and each refusal has a remedy."""
    user = f"low_{table.name}"[:32]
    table.execute(f"CREATE USER {user} IDENTIFIED BY 'x'")
    try:
        table.execute(
            "GRANT SELECT, ALTER, INSERT, DELETE, CREATE, DROP, CREATE TEMPORARY TABLES"
            f" ON `{table.name}`.* TO {user}"
        )
        words = ("--table", "t", "--alter", "ADD COLUMN z INT", "--format", "json")
        done = subprocess.run(
            [*command_line(table, "plan", *words), "--user", user],
            env=environment(table, SPIRIT_PY_PASSWORD="x"),
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        table.execute(f"DROP USER {user}")
    assert done.returncode == 2, done.stderr
    plan = json.loads(done.stdout)
    assert "`z` int" in plan["tables"][0]["definition"]["new"]
    assert "PROCESS" in "".join(note["cause"] for note in plan["refusals"])
    assert "could not look" not in "".join(note["cause"] for note in plan["refusals"])
    assert all(note["remedy"] for note in plan["refusals"])


ON_SCHEMA = (
    *("SELECT", "INSERT", "DELETE", "CREATE", "DROP", "ALTER", "INDEX", "TRIGGER"),
    *("LOCK TABLES", "CREATE TEMPORARY TABLES", "REFERENCES"),
)
ON_SERVER = ("REPLICATION SLAVE", "REPLICATION CLIENT", "PROCESS")


@pytest.mark.slow
@pytest.mark.parametrize("lacking", [*ON_SCHEMA, *ON_SERVER, "nothing"])
def test_each_right_that_is_missing_is_refused_by_the_plan_as_by_the_migration(
    table: Database, lacking: str
) -> None:
    """What the account may not do or see is no yes of the plan: the same causes, in both."""
    user = f"less_{table.name}"[:32]
    # It has another definer, which asks for more rights.
    table.execute("DROP TRIGGER noted")
    table.execute(f"CREATE USER {user} IDENTIFIED BY 'x'")
    try:
        for where, rights in ((f"`{table.name}`.*", ON_SCHEMA), ("*.*", ON_SERVER)):
            given = ", ".join(right for right in rights if right != lacking)
            table.execute(f"GRANT {given} ON {where} TO {user}")
        config = config_for(table, table="t", alter="MODIFY a BIGINT")
        reach = dataclasses.replace(config.connection, user=user, password="x")
        config = dataclasses.replace(config, connection=reach)
        plan = make_plan(config, sample=False)
        refused = ""
        try:
            migrate(config, reporter=RecordingReporter())
        except Refusal as refusal:
            refused = "\n".join([refusal.message, *refusal.details])
    finally:
        table.execute(f"DROP USER {user}")
    causes = [note.cause for note in plan.refusals]
    assert bool(causes) == bool(refused) == (lacking != "nothing"), (causes, refused)
    assert all(cause in refused for cause in causes)
    assert lacking == "nothing" or any(lacking in cause for cause in causes)


def test_options_that_record_a_run_are_said_to_be_unused(table: Database, tmp_path: Path) -> None:
    """A plan runs nothing: no report is written, and that is said beside the plan."""
    report = tmp_path / "report.json"
    done = run_here(table, "plan", "--alter", "ADD COLUMN z INT", "--report-json", str(report))
    assert done.returncode == 0
    assert "not used by plan, which runs nothing: --report-json" in done.stderr
    assert not report.exists()


def test_a_run_that_works_on_the_table_is_said_to_run(table: Database) -> None:
    """By whom is said, and the plan does not promise to resume it."""
    with connect(connection_options(table), role="test") as other:
        assert take_named_lock(other, lock_name("migration", table.name, "t"))
        plan = make_plan(config_for(table, table="t", alter="MODIFY a BIGINT"), sample=False)
        assert plan.earlier.action == "running"
        assert plan.earlier.running is not None
        assert plan.earlier.running.session == other.id
    (refusal,) = plan.refusals
    assert f"another run works on {table.name}.t now" in refusal.cause
    assert "ctl" in refusal.remedy
    assert any("it runs now" in line.text for line in text_of(plan))


@pytest.mark.slow
def test_what_a_locked_table_hides_is_said(table: Database) -> None:
    """Behind LOCK TABLES of somebody else all that needs no row is planned, and the rest named."""
    with closing(table.connect()) as other, closing(other.cursor()) as cursor:
        cursor.execute("LOCK TABLES t WRITE")
        plan = make_plan(
            config_for(table, table="t", alter="ADD UNIQUE KEY u (a), MODIFY a BIGINT")
        )
    assert plan.refusals == ()
    (one,) = plan.tables
    assert one.method.algorithm == "copy"
    assert one.definition is not None
    assert "UNIQUE KEY `u`" in one.definition.new
    assert one.time.seconds is None
    assert any("is locked by another session" in note.cause for note in plan.warnings)


@pytest.mark.slow
def test_who_keeps_the_table_is_named_where_its_rows_can_be_read(table: Database) -> None:
    """A native ALTER that copies lets others read: a plan saw nothing of it."""
    with closing(table.connect()) as other, closing(other.cursor()) as cursor:
        cursor.execute("FLUSH TABLES t WITH READ LOCK")
        plan = make_plan(config_for(table, table="t", alter="ADD COLUMN z INT"), sample=False)
        (kept,) = [note for note in plan.warnings if note.check == "in_front"]
        assert f"{table.name}.t is locked as a whole" in kept.cause
        assert f"session {other.thread_id()} of" in kept.cause
        cursor.execute("UNLOCK TABLES")
        cursor.execute("LOCK INSTANCE FOR BACKUP")
        plan = make_plan(config_for(table, table="t", alter="ADD COLUMN z INT"), sample=False)
        (kept,) = [note for note in plan.warnings if note.check == "in_front"]
        assert f"the definition of {table.name}.t is kept as it is" in kept.cause
        cursor.execute("UNLOCK INSTANCE")
        cursor.execute("BEGIN")
        cursor.execute("SELECT COUNT(*) FROM t")
        plan = make_plan(config_for(table, table="t", alter="ADD COLUMN z INT"), sample=False)
        assert not [note for note in plan.warnings if note.check == "in_front"]
