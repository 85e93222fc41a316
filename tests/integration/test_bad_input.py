"""Bad input through the real command line: a cause, a remedy, an exit code, nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from spirit_py.cli import main
from tests.kits.connection import account
from tests.kits.tables import tables

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20))"


def spirit(
    db,
    *arguments,
    command="migrate",
    user="",
    password="",
    host="",
    env=None,
    database=True,
    process=False,
):
    """Run a command of ``spirit-py`` on the test's schema.

    Args:
        process: in a process of its own, where what a shell or Java makes of it counts.
    """
    server = db.server
    words = [command, *(["--database", db.name] if database else [])]
    words += ["--host", host or f"{server.host}:{server.port}", "--user", user or server.user]
    words += arguments
    env = {"SPIRIT_PY_PASSWORD": password if user else server.password, **(env or {})}
    if not process:
        ended = CliRunner(env=env).invoke(main, words)
        return subprocess.CompletedProcess(words, ended.exit_code, ended.stdout, ended.stderr)
    return subprocess.run(
        [sys.executable, "-m", "spirit_py", *words],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def refused(done, *parts, code=2):
    """Check exit code, one line of cause, one of remedy, and that there is no traceback."""
    lines = done.stderr.splitlines()
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert sum(line.startswith("error: ") for line in lines) == 1, done.stderr
    assert sum(line.startswith("hint: ") for line in lines) == 1, done.stderr
    for part in parts:
        assert part in done.stderr, done.stderr


def test_an_unknown_host_is_named(db):
    """A host that does not resolve is a refusal that names it."""
    done = spirit(db, "--table", "t", "--alter", "FORCE", host="no-such-host.invalid:3306")
    refused(done, "no-such-host.invalid")


def test_a_server_that_does_not_listen_is_named(db):
    """A closed port is a refusal that names host and port."""
    done = spirit(db, "--table", "t", "--alter", "FORCE", host="127.0.0.1:1")
    refused(done, "127.0.0.1:1")


def test_a_wrong_password_names_the_account(db):
    """A wrong password is a refusal that names the user, never the password."""
    db.execute("CREATE USER IF NOT EXISTS 'bad_input'@'%' IDENTIFIED BY 'right-one'")
    try:
        done = spirit(
            db, "--table", "t", "--alter", "FORCE", user="bad_input", password="wrong-one"
        )
        refused(done, "bad_input")
        assert "wrong-one" not in done.stderr
    finally:
        db.execute("DROP USER 'bad_input'@'%'")


@pytest.mark.parametrize("command", ["status", "cleanup"])
def test_a_command_that_only_looks_explains_why_it_cannot_connect(db, command):
    """A wrong password is refused with cause and remedy, as by ``migrate``."""
    done = spirit(db, "--table", "t", command=command, user="nobody_here", password="wrong-one")
    refused(done, "cannot connect to", "nobody_here", "check --user and --password")


def test_missing_privileges_are_all_named_with_their_grants(db):
    """An account that may only read is told every GRANT that it lacks."""
    db.execute(TABLE)
    db.execute("CREATE USER 'reader'@'%' IDENTIFIED BY 'reader-pw'")
    db.execute(f"GRANT SELECT ON `{db.name}`.* TO 'reader'@'%'")
    try:
        done = spirit(db, "--table", "t", "--alter", "FORCE", user="reader", password="reader-pw")
        refused(done, "GRANT", "ALTER", "CREATE", "INSERT", "REPLICATION SLAVE")
    finally:
        db.execute("DROP USER 'reader'@'%'")
    assert tables(db) == ["t"]


def test_a_missing_table_is_named(db):
    """There is no such table: a refusal that names it."""
    refused(spirit(db, "--table", "nothing_here", "--alter", "ADD COLUMN c INT"), "nothing_here")


def test_a_missing_schema_is_named(db):
    """There is no such schema: a refusal that names it and the option."""
    where = ("--database", "no_schema_here", "--table", "t")
    done = spirit(db, *where, "--alter", "ADD COLUMN c INT", database=False)
    refused(done, "there is no schema no_schema_here", "check --database")


def test_a_syntax_error_shows_the_servers_own_message(db):
    """The server is the judge of the SQL, and its words are passed on."""
    db.execute(TABLE)
    done = spirit(db, "--table", "t", "--alter", "ADD COLUMN c INT DEFAULT DEFAULT")
    refused(done, "You have an error in your SQL syntax")
    assert tables(db) == ["t"]


def test_an_unknown_column_shows_the_servers_own_message(db):
    """A statement that the server can read and not run is refused in the server's words."""
    db.execute(TABLE)
    refused(spirit(db, "--table", "t", "--alter", "DROP COLUMN zz"), "zz")
    assert tables(db) == ["t"]


def test_a_table_that_cannot_be_migrated_is_refused_with_the_reason(db):
    """Keys are looked at before any write."""
    db.execute("CREATE TABLE t (a INT, b INT)")
    before = tables(db)
    done = spirit(db, "--no-shortcut", "--table", "t", "--alter", "ADD COLUMN z INT")
    refused(done)
    assert "key" in done.stderr.lower()
    assert tables(db) == before


@pytest.mark.slow
def test_a_missing_java_is_refused_before_anything_is_written(db, tmp_path):
    """Whoever names a Spark master wants Spark: a refusal, and the schema is as it was."""
    db.execute(TABLE)
    done = spirit(
        db,
        "--no-shortcut",
        "--spark-master",
        "local[1]",
        "--table",
        "t",
        "--alter",
        "ADD COLUMN z INT",
        env={"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)},
        process=True,
    )
    refused(done, "Java")
    assert tables(db) == ["t"]


@pytest.mark.slow
def test_a_table_needs_no_java(db, tmp_path):
    """It is copied and compared by the process itself, with a line that says what is lost."""
    db.execute(TABLE)
    done = spirit(
        db,
        "--no-shortcut",
        "--table",
        "t",
        "--alter",
        "ADD COLUMN z INT",
        env={"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)},
        process=True,
    )
    assert done.returncode == 0, done.stderr
    assert "only executors on other machines" in done.stderr
    assert "z" in [row[0] for row in db.query("SHOW COLUMNS FROM t")]


@pytest.mark.slow
def test_an_instant_change_needs_no_java(db, tmp_path):
    """INSTANT is done by the server: neither Spark nor the feed is started, Java may be missing."""
    db.execute(TABLE)
    report = tmp_path / "report.json"
    done = spirit(
        db,
        "--table",
        "t",
        "--alter",
        "ADD COLUMN z INT",
        "--report-json",
        str(report),
        env={"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)},
        process=True,
    )
    assert done.returncode == 0, done.stderr
    assert '"algorithm": "instant"' in Path(report).read_text()
    assert "z" in [row[0] for row in db.query("SHOW COLUMNS FROM t")]


@pytest.mark.slow
def test_verbose_shows_the_traceback_and_no_secret(db):
    """With --verbose the traceback is there; the password is in no line (R20)."""
    db.execute(TABLE)
    words = ("--verbose", "--table", "t", "--alter", "DROP COLUMN zz")
    with account(db, "ALL ON *.*") as options:
        user, password = options.user, options.password
        done = spirit(db, *words, user=user, password=password, process=True)
    assert "Traceback" in done.stderr
    # It was logged in: the server has judged the statement.
    assert "definition-refused" in done.stderr
    assert password not in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--statement", "DROP TABLE t"), "neither ALTER TABLE nor CREATE INDEX"),
        (("--statement", "CREATE TABLE x (a INT)"), "neither ALTER TABLE nor CREATE INDEX"),
        (("--statement", "RENAME TABLE t TO u"), "neither ALTER TABLE nor CREATE INDEX"),
        (("--statement", "/*!80000 ALTER TABLE t ADD c INT */"), "some servers execute"),
        (("--table", "t", "--alter", "RENAME TO u"), "cannot be renamed"),
        (("--table", "t", "--alter", "ADD c INT /*!80000 , RENAME TO u */"), "servers execute"),
    ],
)
def test_a_statement_that_is_none_of_ours_is_refused_with_the_reason(db, arguments, part):
    """The server can read it, so the reason is ours, whatever PREPARE says of a schema."""
    db.execute(TABLE)
    done = spirit(db, *arguments)
    refused(done, part)
    assert "1046" not in done.stderr
    assert tables(db) == ["t"]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--table", "t", "--alter", "FORCE"), "add --database"),
        (("--table", "s.t", "--alter", "FORCE"), "--database s --table t"),
        (("--statement", "ALTER TABLE t FORCE"), "give --database"),
    ],
)
def test_a_missing_schema_is_asked_for(db, arguments, part):
    """Without --database there is one refusal, which says what to add."""
    done = spirit(db, *arguments, database=False)
    refused(done, part)
    assert "privileges" not in done.stderr


@pytest.mark.parametrize("name", ["{db}.t", "`t`"])
def test_a_table_takes_neither_schema_nor_quotes(db, name):
    """The hint says so, instead of speaking of case and privileges."""
    db.execute(TABLE)
    done = spirit(db, "--table", name.format(db=db.name), "--alter", "FORCE")
    refused(done, "bare name")


@pytest.mark.parametrize(
    ("alter", "part"),
    [
        ("CONVERT TO CHARACTER SET nope", "Unknown character set: 'nope'"),
        ("ADD c VARCHAR(3) COLLATE nope", "Unknown collation: 'nope'"),
    ],
)
def test_what_the_server_does_not_know_is_not_blamed_on_privileges(db, alter, part):
    """The server's own message is the cause."""
    db.execute(TABLE)
    done = spirit(db, "--table", "t", "--alter", alter)
    refused(done, part)
    assert "privileges" not in done.stderr
    assert tables(db) == ["t"]


def test_a_schema_of_the_server_is_refused_once(db):
    """That PREPARE is denied there as well is no second reason."""
    done = spirit(db, "--statement", "ALTER TABLE information_schema.TABLES FORCE", database=False)
    refused(done, "a system schema")
    assert "could not look" not in done.stderr
    assert "2 checks" not in done.stderr


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_bytes_that_are_no_text_are_refused(db, locale):
    """The option is named, whatever the locale makes of its bytes."""
    db.execute(TABLE)
    environment = {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    alter = os.fsdecode(b"ADD c INT COMMENT '\xff'")
    refused(
        spirit(db, "--table", "t", "--alter", alter, env=environment, process=True),
        "--alter",
        "UTF-8",
    )
    assert tables(db) == ["t"]


@pytest.mark.parametrize(
    ("option", "value", "part"),
    [
        ("--spark-conf", "spark.speculation=true", "speculation"),
        ("--spark-conf", "executor.memory=1g", "executor.memory"),
        ("--spark-master", "bogus", "bogus"),
    ],
)
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_settings_that_spark_cannot_have_are_refused_before_anything_is_written(
    db, option, value, part, more
):
    """No auxiliary table is made for a copy that could not begin: nothing is in the binlog."""
    db.execute(TABLE)
    before = db.query("SELECT @@gtid_executed")
    change = ("--no-shortcut", "--table", "t", "--alter", "ADD COLUMN z INT")
    refused(spirit(db, *change, option, value, *more), part)
    assert db.query("SELECT @@gtid_executed") == before


@pytest.mark.slow
def test_a_check_that_a_row_breaks_is_called_as_the_table_will_call_it(db):
    """The name that the server made for the copy's constraint is not shown."""
    db.execute(f"{TABLE}; INSERT INTO t VALUES (1, 1, 'x')")
    done = spirit(db, "--table", "t", "--alter", "ADD CHECK (a > 1)")
    refused(done, "'t_chk_1' is violated", code=1)
    assert "_t_new_chk" not in done.stderr
    # The row may be changed in the source: then the same command resumes.
    assert tables(db) == ["_t_chkpnt", "_t_new", "t"]
