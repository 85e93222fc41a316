"""The command line: what is refused, what becomes configuration, what is never imported."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import shlex
import socket
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from spirit_py import cli
from spirit_py.cli import checksum as watch_command
from spirit_py.cli import outcome
from spirit_py.cli.values import named_alike
from spirit_py.config import (
    DEFAULT_MAX_LAG,
    DEFAULT_MIN_FREE,
    MigrationConfig,
    SessionModes,
    SparkConfig,
    SwapChoices,
)
from spirit_py.errors import Refusal, UsageFault
from spirit_py.events.run import Warned, WatchEmpty
from spirit_py.events.swap import CutoverVetoed
from spirit_py.locks.blockers import LockPolicy
from spirit_py.records import RecordOptions
from spirit_py.units import host_and_port

BASE = [
    "migrate",
    "--host",
    "db1:3307",
    "--user",
    "u",
    "--database",
    "shop",
    "--table",
    "t",
    "--alter",
    "ADD x INT",
]


@pytest.fixture
def configured(monkeypatch):
    """Run the command line up to the migration and give the configuration it would start with."""
    from spirit_py.migration import entry
    from spirit_py.status.report import MigrationReport

    seen = []

    def migrate(config, **_):
        seen.append(config)
        return MigrationReport(schema="shop", table="t", algorithm="instant")

    monkeypatch.setattr(entry, "migrate", migrate)
    for name in list(os.environ):
        if name.startswith(("SPIRIT_PY_", "MYSQL_")):
            monkeypatch.delenv(name)

    def run(*arguments, env=None, code=0, **more):
        result = CliRunner().invoke(cli.main, list(arguments), env=env, **more)
        assert result.exit_code == code, result.output
        return seen[-1] if seen else result

    return run


@pytest.mark.parametrize("command", sorted(cli.main.commands))
def test_help_shows_its_example_on_a_line_of_its_own(command):
    """Click's mark for text that is not to be wrapped is nowhere shown."""
    shown = CliRunner().invoke(cli.main, [command, "--help"]).output
    assert "\\b" not in shown
    begins = {"completion": "bash", "explain": "no-usable-key"}.get(command, "--host db1")
    assert f"\n  spirit-py {command} {begins}" in shown


def test_host_and_port_may_come_in_one_word(configured):
    """``--host db1:3307`` is host and port."""
    connection = configured(*BASE).connection
    assert (connection.host, connection.port, connection.user) == ("db1", 3307, "u")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("db", ("db", None)),
        ("::1", ("::1", None)),
        ("[::1]:4", ("::1", 4)),
        ("[::1]", ("::1", None)),
    ],
)
def test_hosts_are_split_as_they_are_written(text, parts):
    """Names, IPv4 and IPv6 addresses, with and without a port."""
    assert host_and_port(text) == parts


@pytest.mark.parametrize("text", ["db:", "db:x", "db:0", "db:70000", ":3306"])
def test_a_port_that_is_none_is_refused(text):
    """A host with a broken port is no host."""
    with pytest.raises(UsageFault):
        host_and_port(text)


@pytest.mark.parametrize("variable", ["SPIRIT_PY_PASSWORD", "MYSQL_PWD"])
def test_the_password_may_come_from_the_environment(configured, variable):
    """Both variables give the password, and the configuration does not show it."""
    config = configured(*BASE, env={variable: "s3cret"})
    assert config.connection.password == "s3cret"
    assert "s3cret" not in repr(config)


def test_the_password_is_asked_for_when_the_option_has_no_value(configured, monkeypatch):
    """``--password`` alone prompts, on a terminal."""
    monkeypatch.setattr("spirit_py.cli.groups._somebody_answers", lambda: True)
    assert configured(*BASE, "--password", input="typed\n").connection.password == "typed"


@pytest.mark.parametrize(
    ("variable", "field", "text", "value"),
    [
        ("SPIRIT_PY_THREADS", "threads", "1", 1),
        ("SPIRIT_PY_TARGET_CHUNK_TIME", "target_chunk_time", "2.5", 2.5),
        ("SPIRIT_PY_LOG_FORMAT", "records", "json", RecordOptions(log_format="json")),
        ("SPIRIT_PY_NO_SHORTCUT", "no_shortcut", "1", True),
        ("SPIRIT_PY_SPARK_MASTER", "spark_master", "spark://m:7077", "spark://m:7077"),
    ],
)
def test_every_option_has_its_variable(configured, variable, field, text, value):
    """An option can be set by SPIRIT_PY_ and its name."""
    assert getattr(configured(*BASE, env={variable: text}), field) == value


def test_nobody_is_killed_unless_the_command_line_says_so(configured):
    """R23: by default one request of 2.5 s at a time, for a day, and no session is ended."""
    asked = LockPolicy.of(configured(*BASE))
    assert (asked.wait, asked.timeout, asked.kills.mode) == (2.5, 86_400.0, "never")
    assert LockPolicy() == asked


@pytest.mark.parametrize("mode", ["never", "idle", "all"])
def test_locks_are_requested_as_the_command_line_says(configured, mode):
    """For so long, within such a time, and whom to end after how long."""
    given = ("--lock-wait-timeout", "2", "--cutover-timeout", "3h", "--kill-blockers", mode)
    asked = LockPolicy.of(configured(*BASE, *given, "--kill-after", "2.5"))
    assert (asked.wait, asked.timeout, asked.kills.mode) == (2.0, 10_800.0, mode)
    assert asked.kills.after == 2.5


@pytest.mark.parametrize(
    "chosen",
    [
        SwapChoices(),
        SwapChoices(defer_cutover=True, keep_old_current=1.5, drop_old_after=12_345_678.0),
        SwapChoices(drop_old_after=math.inf),
        SwapChoices(allow="22:00-06:00,12:00-24:00+02:00"),
    ],
)
def test_what_a_run_chose_about_its_swap_is_shown_as_options_that_choose_it(configured, chosen):
    """``status`` shows it with the command that resumes."""
    assert configured(*BASE, *chosen.options.split()).swap_choices == chosen


def test_modes_of_a_forged_checkpoint_end_no_command_that_is_shown():
    """R26: the operator copies it into a shell."""
    forged = SessionModes(sql_mode="'; rm -rf ~; '", innodb_strict_mode="; ls")
    words = ["--sql-mode", "'; rm -rf ~; '", "--innodb-strict-mode", "; ls"]
    assert shlex.split(forged.options) == words


def test_own_writes_are_tagged_when_asked_for(configured):
    """Every run has an identifier of its own; without the option there is none."""
    first, second = (configured(*BASE, "--tag-own-writes").feed.own_writes for _ in range(2))
    assert first
    assert first != second
    assert configured(*BASE).feed.own_writes == ""


def test_tables_whose_writes_are_passed_over_are_given_by_name(configured):
    """Repeatable, also in the environment; quoted where a name has a dot."""
    assert configured(*BASE).feed.passable == ()
    option = "--pass-statement-writes"
    given = (option, "percona.checksums", option, "`a.b`.`c``d`")
    expected = (("percona", "checksums"), ("a.b", "c`d"))
    assert configured(*BASE, *given).feed.passable == expected
    assert configured(*BASE, *given, "--tag-own-writes").feed.passable == expected
    env = {"SPIRIT_PY_PASS_STATEMENT_WRITES": "percona.checksums hb.heartbeat-1"}
    passable = configured(*BASE, env=env).feed.passable
    assert passable == (("percona", "checksums"), ("hb", "heartbeat-1"))
    for wrong in ("checksums", "a.b.c", "a.", "`a.b", ""):
        configured(*BASE, option, wrong, code=2)


def test_what_a_run_waits_for_is_read(configured):
    """Sizes with units, windows with commas and repeated, replicas without --dry-run."""
    config = configured(
        *BASE,
        *("--max-lag", "1.5s", "--replica", "db2:3307", "--replica", "db3"),
        *("--allow", "22:00-06:00,12:00-13:00Z", "--allow", "1:00-2:00"),
        *("--min-free-disk", "20G", "--max-binlog-space", "1.5TiB", "--max-history-length", "100"),
        *("--throttle-http", "http://brake:8080/check", "--throttle-query", "SELECT 0"),
    )
    assert (config.max_lag, config.replicas) == (1.5, ("db2:3307", "db3"))
    assert config.named == {"max_lag", "min_free_disk"}
    assert [str(one) for one in config.allow] == ["22:00-06:00", "12:00-13:00Z", "01:00-02:00"]
    assert (config.min_free_disk, config.max_binlog_space) == (20 << 30, 3 << 39)
    assert (config.max_history_length, config.max_checkpoint_age) == (100, 0.0)
    assert config.throttle_http == "http://brake:8080/check"
    plain = configured(*BASE)
    assert (plain.max_lag, plain.min_free_disk) == (DEFAULT_MAX_LAG, DEFAULT_MIN_FREE)
    assert (plain.replicas, plain.named) == ((), set())
    assert configured(*BASE, "--drop-old-after", "0s").named == {"drop_old_after"}
    lifted = configured(*BASE, "--max-lag", "0", "--min-free-disk", "0")
    assert (lifted.max_lag, lifted.min_free_disk) == (None, 0)
    assert not lifted.relies_on("max_lag")
    assert not lifted.relies_on("min_free_disk")
    assert (plain.allow, plain.throttle_http, plain.throttle_query) == ((), "", "")


@pytest.mark.parametrize(
    ("option", "name", "given", "seconds"),
    [
        ("--lock-wait-timeout", "lock_wait_timeout", "3s", 3.0),
        ("--lock-wait-timeout", "lock_wait_timeout", "1.5", 1.5),
        ("--target-chunk-time", "target_chunk_time", "200ms", 0.2),
        ("--target-chunk-time", "target_chunk_time", ".2", 0.2),
        ("--target-chunk-time", "target_chunk_time", "2e-1", 0.2),
        ("--kill-after", "kill_after", "1m", 60.0),
    ],
)
def test_a_duration_with_bounds_takes_units_too(configured, option, name, given, seconds):
    """As every other duration; and each form of a number that it took before."""
    assert getattr(configured(*BASE, "--kill-blockers", "all", option, given), name) == seconds


def test_the_summary_counts_every_warning_that_was_shown(monkeypatch):
    """Also what is no finding of the run, and not in its report."""
    from spirit_py.migration import entry
    from spirit_py.status.report import MigrationReport

    def migrate(_config, *, reporter, **_):
        reporter.event(Warned(said="one"))
        for number in (1, 2):
            reporter.event(CutoverVetoed(reason="no", number=number, seconds=5.0))
        return MigrationReport(schema="shop", table="t", algorithm="instant", warnings=["one"])

    monkeypatch.setattr(entry, "migrate", migrate)
    result = CliRunner().invoke(cli.main, BASE)
    assert result.output.count("warning: ") == 3
    assert "; 3 warnings, shown above\n" in result.output


def test_the_cores_of_this_machine_limit_no_migration(configured):
    """The server does the work, and trials find how many tasks it can use."""
    assert configured(*BASE).threads == MigrationConfig.threads > 4
    assert configured(*BASE, "--threads", "200").threads == 200
    assert configured(*BASE, "--threads", "200", "--spark-master", "spark://m:7077").threads == 200


def test_the_cores_of_this_machine_limit_a_comparison():
    """Nothing finds out how many tasks its servers can use."""
    cores = len(os.sched_getaffinity(0))
    options = {"threads": 200, "spark_master": "", "spark_conf": ()}
    assert named_alike(SparkConfig, options)["threads"] == cores
    options["spark_master"] = "spark://m:7077"
    assert named_alike(SparkConfig, options)["threads"] == 200


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["migrate", "--host", "h"], "either --statement"),
        (["migrate", "--statement", "ALTER TABLE t FORCE", "--table", "t"], "either --statement"),
        (["migrate", "--table", "t"], "--alter is missing: "),
        (["migrate", "--table", "t", "--alter", ""], "--alter is empty: "),
        (["plan", "--alter", ""], "--alter is empty: "),
        (["plan", "--alter", "FORCE"], "--table is missing: "),
        (["plan", "--alter", "FORCE", "--table", ""], "--table is missing: "),
        (["ctl", "--database", "d", "pause"], "error: --table is missing\n"),
        (["ctl", "--table", "t", "pause"], "error: --database is missing\n"),
        (["revert", "--table", "t"], "error: --database is missing\n"),
        (["cleanup", "--database", "d"], "error: --table is missing\n"),
        (["cleanup"], "error: --database and --table are missing\n"),
        (["move", "--tables", "s.t", "--on-switch", " "], "--on-switch is empty: "),
        (["move", "--on-switch", "a", "--on-switch", "b"], "write one script that does both"),
        (["move", "--shard-by", "a", "--shard-by", "b"], "--shard-by is given more than once"),
        (["migrate", "--table", "t", "--alter", "FORCE"], "hint: add --database"),
        (
            ["migrate", "--table", "s.t", "--alter", "FORCE"],
            "hint: write --database s --table t",
        ),
        ([*BASE[:-2], "--alter", "ADD c INT COMMENT '\udcff'"], "--alter holds bytes"),
        (["migrate", "--statement", "ALTER TABLE s.\udcff FORCE"], "--statement holds bytes"),
        ([*BASE, "--spark-conf", "spark.app.name=\udcff"], "--spark-conf holds bytes"),
        (["watch", "--from", "\udcff"], "--from holds bytes"),
        ([*BASE, "--target-chunk-time", "nan"], "not a finite number"),
        ([*BASE, "--lock-wait-timeout", "-nan"], "not a finite number"),
        ([*BASE, "--kill-after", "nan"], "not a finite number"),
        ([*BASE, "--kill-after", "inf"], "not in the range"),
        (["watch", "--heartbeat", "nan"], "not a finite number"),
        ([*BASE, "--table", "other"], "--table is given more than once: a command works on one"),
        ([*BASE, "--alter", "ADD COLUMN y INT"], "write the clauses into one, with commas"),
        ([*BASE, "--keep", "id > 1", "--keep", "id > 2"], "--keep is given more than once"),
        (["migrate", "--statements", "a", "--statements", "b"], "one file with all statements"),
        (["migrate", "--servers", "a", "--servers", "b"], "write one list with all servers"),
        (["migrate", "--servers-from", "a", "--servers-from", "b"], "--servers-from is given more"),
        (["ctl", "--fleet", "a", "--fleet", "b", "pause"], "--fleet is given more than once"),
        ([*BASE, "--max-load", "A=1", "--max-load", "B=2"], "limits into one, with commas"),
        ([*BASE, "--critical-load", "A=1", "--critical-load", "B=2"], "limits into one"),
        ([*BASE, *("--throttle-http", "http://h") * 2], "--throttle-http is given more than once"),
        ([*BASE, *("--throttle-query", "SELECT 0") * 2], "--throttle-query is given more"),
        ([*BASE, "--max-binlog-space", "9" * 400], "'--max-binlog-space': the number is too large"),
        ([*BASE, "--cutover-timeout", "9" * 400], "'--cutover-timeout': the number is too large"),
        ([*BASE, "--max-load", f"A={'9' * 400}"], "'--max-load': the number is too large"),
        ([*BASE, "--host", ""], "--host is empty"),
        ([*BASE, "--user", ""], "--user is empty"),
        ([*BASE, "--socket="], "--socket is empty"),
        ([*BASE, "--ssl-ca", ""], "--ssl-ca is empty"),
        ([*BASE, "--max-load", ""], "'--max-load': it is empty, and would be no limit"),
        ([*BASE, "--critical-load", ","], "'--critical-load': it is empty"),
        ([*BASE, "--throttle-http", ""], "--throttle-http is empty"),
        ([*BASE, "--throttle-query", ""], "--throttle-query is empty"),
        ([*BASE, "--dry-run", "--on-replica", ""], "--on-replica"),
        ([*BASE, "--servers-from", ""], "--servers-from is empty"),
        (["checksum", *BASE[1:-2], "--target-host", ""], "--target-host is empty"),
        ([*BASE, "--metrics-listen", ":99999"], "a port is at most 65535"),
        ([*BASE, "--port", "1"], "two ports"),
        ([*BASE, "--replica", "db2:x"], "not a host and port"),
        ([*BASE, "--allow", "22-06"], "write for instance --allow 22:00-06:00"),
        ([*BASE, "--min-free-disk", "much"], "write for instance 500M or 20G"),
        ([*BASE, "--throttle-http", "brake:8080/check"], "write a URL such as"),
        ([*BASE, "--throttle-http", "file:///etc/passwd"], "write a URL such as"),
        ([*BASE, "--spark-conf", "novalue"], "not KEY=VALUE"),
        ([*BASE, "--report-json", "/no/such/folder/r.json"], "not a directory"),
        ([*BASE, "--report-json", ""], "names no file"),
        ([*BASE, "--report-json", "/"], "is a directory"),
        ([*BASE, "--defaults-file", "/no/such/file"], "does not exist"),
    ],
)
def test_a_wrong_command_line_is_refused_with_cause_and_remedy(configured, arguments, part):
    """Exit code 2, one line of cause, no traceback."""
    result = configured(*arguments, code=2)
    assert part in result.output
    assert "Traceback" not in result.output


def test_a_report_to_a_socket_is_refused_before_the_run(configured, tmp_path):
    """As standard output is under systemd: no socket is opened by its name."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as there:
        there.bind(str(path))
        result = configured(*BASE, "--report-json", str(path), code=2)
    assert f"{path} is a socket" in result.output


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ("", "", "", False, "json", 0.0)),
        (
            ["--database", "s", "--table", "t", "--from", "now", "--until", "now"],
            ("s", "t", "", True, "json", 0.0),
        ),
        (
            ["--from", "gtid;x", "--format", "text", "--heartbeat", "2"],
            ("", "", "gtid;x", False, "text", 2.0),
        ),
    ],
)
def test_a_watch_is_configured(monkeypatch, arguments, expected):
    """Scope, position, end and format come from the command line."""
    from spirit_py.watch import command

    seen = []

    def watch(options, **_):
        seen.append(options)
        return 0

    monkeypatch.setattr(command, "watch", watch)
    monkeypatch.setattr(watch_command, "_standard_output", lambda: 1)
    result = CliRunner().invoke(cli.main, ["watch", "--host", "db1", "--user", "u", *arguments])
    assert result.exit_code == 0, result.output
    (found,) = seen
    assert (
        found.database,
        found.table,
        found.position,
        found.until_now,
        found.format,
        found.heartbeat,
    ) == expected


def test_a_table_to_watch_needs_its_schema():
    """``--table`` alone is refused."""
    result = CliRunner().invoke(cli.main, ["watch", "--table", "t"])
    assert result.exit_code == 2
    assert "--table goes with --database" in result.output


def test_a_watch_needs_somewhere_to_print_to():
    """A closed standard output is refused; nothing is followed into the void."""
    command = [sys.executable, "-m", "spirit_py", "watch", "--host", "db1", "--user", "u"]
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    done = subprocess.run(closed, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "the standard output is closed" in done.stderr


def test_a_note_of_a_watch_may_find_no_room(monkeypatch):
    """The lines count; what goes to a full standard error does not end them."""
    from spirit_py.watch import command

    class Full(io.StringIO):
        def write(self, _):
            raise OSError(errno.ENOSPC, "No space left on device")

    def watch(_, *, tell, **__):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", Full())
            tell(WatchEmpty(scope="s"))
        return 0

    monkeypatch.setattr(command, "watch", watch)
    monkeypatch.setattr(watch_command, "_standard_output", lambda: 1)
    result = CliRunner().invoke(cli.main, ["watch", "--host", "db1", "--user", "u"])
    assert result.exit_code == 0, result.output


def _runs_well(program: str) -> str:
    """Run a program in a process of its own, which has imported nothing; return its output."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_list_of_commands_imports_no_tls():
    """``--help`` of the program has taken half as long again with what TLS imports."""
    program = (
        "import sys; from spirit_py import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(', '.join(sorted({'ssl', 'ctypes'} & set(sys.modules))) or 0)"
    )
    _runs_well(program)


def test_status_and_ctl_import_nothing_that_copies():
    """They look at a migration: what runs one would double the time until they answer."""
    program = (
        "import sys, spirit_py.migration.listing, spirit_py.migration.control.command\n"
        "runs = {f'spirit_py.{name}' for name in ('copier', 'feed', 'checksum', 'spark')}\n"
        "sys.exit(', '.join(sorted(runs & set(sys.modules))) or 0)"
    )
    _runs_well(program)


def test_an_archive_imports_nothing_that_migrates():
    """It reads one table: the phases of a migration would add half to the time until it begins."""
    program = (
        "import sys, spirit_py.migration.entry\n"
        "runs = {'spirit_py.migration.migration', 'spirit_py.copier', 'spirit_py.feed'}\n"
        "sys.exit(', '.join(sorted(runs & set(sys.modules))) or 0)"
    )
    _runs_well(program)


@pytest.mark.parametrize("command", ["migrate", "checksum", "watch"])
def test_help_imports_nothing_heavy(command):
    """``--help`` loads no driver, no Spark, no rich: it must answer at once."""
    program = (
        "import sys; from spirit_py import cli\n"
        f"try: cli.main(['{command}', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'MySQLdb', 'pyspark', 'rich', 'pymysql', 'pymysqlreplication', 'py4j'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    said = _runs_well(program)
    own = {"migrate": "--dry-run", "checksum": "--target-table", "watch": "--until"}
    assert own[command] in said
    # An example stands on lines of its own, as it can be copied.
    assert f"\n  spirit-py {command} --host db1" in said


@pytest.mark.parametrize("name", ["password", "target-password"])
def test_a_password_on_the_command_line_is_warned_of(monkeypatch, name):
    """Every process of the machine can read it there; from the environment nobody can (R20)."""
    for known in list(os.environ):
        if known.startswith(("SPIRIT_PY_", "MYSQL_")):
            monkeypatch.delenv(known)
    line = ["checksum", "--host", "127.0.0.1:1", "--database", "shop", "t", "s"]
    typed = CliRunner().invoke(cli.main, [*line, f"--{name}", "hidden"])
    assert f"--{name} can be read in the list of processes" in typed.stderr
    assert "hidden" not in typed.output
    variable = f"SPIRIT_PY_{name.upper().replace('-', '_')}"
    told = CliRunner(env={variable: "hidden"}).invoke(cli.main, line)
    assert "list of processes" not in told.output


@pytest.mark.parametrize(
    ("command", "option", "text"),
    [
        ("move", "target", "a=mysql://u:hidden@db1"),
        ("move", "source", "a=mysql://u:hidden@db1"),
        ("migrate", "throttle-http", "http://u:hidden@brake/check"),
    ],
)
def test_a_password_in_a_url_of_the_command_line_is_warned_of(monkeypatch, command, option, text):
    """Whatever the URL is of; without a password it is no secret."""
    monkeypatch.setattr(cli.main.commands[command], "callback", lambda **_: None)
    typed = CliRunner().invoke(cli.main, [command, f"--{option}", text])
    assert f"--{option} can be read in the list of processes" in typed.stderr
    assert "hidden" not in typed.output
    plain = CliRunner().invoke(cli.main, [command, f"--{option}", text.replace("u:hidden@", "")])
    assert "list of processes" not in plain.output


@pytest.mark.parametrize("name", ["password", "target-password"])
def test_a_password_is_not_asked_for_without_a_terminal(monkeypatch, name):
    """The question would wait for an answer that cannot come."""
    monkeypatch.delenv(f"SPIRIT_PY_{name.upper().replace('-', '_')}", raising=False)
    line = f"checksum --host 127.0.0.1:1 --database shop --table t --target-table s --{name}"
    found = CliRunner().invoke(cli.main, line.split())
    assert found.exit_code == 2
    assert f"--{name} without a value asks for it, and there is no terminal" in found.stderr
    assert f"set SPIRIT_PY_{name.upper().replace('-', '_')}" in found.stderr


def test_a_sigint_before_the_work_has_begun_is_no_defect(monkeypatch):
    """What the signal's own handler raises outside the work ends with 130 as well (R16)."""

    def interrupted(*_given):
        raise KeyboardInterrupt

    left = []
    monkeypatch.setattr(cli.migrate, "migration_config", interrupted)

    def leave(code):
        left.append(code)
        raise SystemExit(code)

    monkeypatch.setattr(outcome, "leave_with", leave)
    found = CliRunner().invoke(cli.main, ["migrate", "--table", "t", "--alter", "ENGINE=InnoDB"])
    assert left == [130]
    assert "interrupted by SIGINT" in found.output
    assert "defect" not in found.output


def test_modes_are_the_servers_unless_they_are_chosen(configured):
    """The spelling of a mode does not matter; an empty mode is a choice."""
    assert configured(*BASE).modes == SessionModes()
    assert configured(*BASE, "--sql-mode", "").modes == SessionModes(sql_mode="")
    chosen = configured(*BASE, "--sql-mode", "ansi, No_Zero_Date", "--innodb-strict-mode", "off")
    assert chosen.modes.options == "--sql-mode 'ANSI,NO_ZERO_DATE' --innodb-strict-mode off"
    assert configured(*BASE, "--allow-zero-dates").modes.options == "--allow-zero-dates"


def test_two_ways_to_choose_a_mode_contradict_each_other(configured):
    """It would not be clear from which mode the zero dates are taken."""
    result = configured(*BASE, "--allow-zero-dates", "--sql-mode", "ANSI", code=2)
    assert "give one of them" in result.output


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["migrate", "--bogus"], 2),
        (["migrate", "--threads", "many"], 2),
        (["migrate", "--table", "t"], 2),
        (["watch", "--table", "t"], 2),
        (["migrate", "--host", "db1", "--port", "0"], 2),
    ],
)
@pytest.mark.parametrize("asked", [["--log-format", "json"], ["--log-format=json"], None])
def test_a_wrong_command_line_is_a_json_line_where_these_are_asked_for(words, code, asked):
    """A pipeline that reads JSON lines reads no text, whatever is wrong; also by the variable."""
    env = {"SPIRIT_PY_LOG_FORMAT": "json"} if asked is None else {}
    result = CliRunner(env=env).invoke(cli.main, [*words, *(asked or [])])
    assert result.exit_code == code
    (line,) = result.stderr.splitlines()
    found = json.loads(line)
    assert (found["event"], found["exit_code"], found["outcome"]) == ("run.ended", 2, "refused")
    assert found["error"]
    assert found["code"]


@pytest.mark.parametrize("document", [False, True])
def test_what_ends_a_plan_is_a_json_line_where_these_are_asked_for(monkeypatch, document):
    """As what ends a run; with --format json the document on standard output has it, too."""

    def refused(*_args: Any, **_more: Any) -> None:
        raise Refusal("the server is away", hint="start it")

    monkeypatch.setattr("spirit_py.plan.make_plan", refused)
    words = ["plan", "--database", "s", "--table", "t", "--alter", "FORCE", "--log-format", "json"]
    words += ["--report-json", "r.json"]
    result = CliRunner().invoke(cli.main, [*words, *(["--format", "json"] if document else [])])
    assert result.exit_code == 2
    unused, found = map(json.loads, result.stderr.splitlines())
    assert unused["text"] == "not used by plan, which runs nothing: --report-json"
    assert (found["event"], found["error"], found["hint"]) == (
        "run.ended", "the server is away", "start it",
    )  # fmt: skip
    assert (json.loads(result.stdout)["error"] if document else result.stdout) == (
        "the server is away" if document else ""
    )


def test_text_is_what_a_wrong_command_line_is_answered_with_by_default():
    """As any refusal is; --log-format text wins over the variable."""
    words = ["migrate", "--bogus", "--log-format", "text"]
    result = CliRunner(env={"SPIRIT_PY_LOG_FORMAT": "json"}).invoke(cli.main, words)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: no such option '--bogus'\nhint: ")


@pytest.mark.parametrize("word", ["--sample", "--no-sample"])
def test_a_move_without_a_plan_measures_nothing(word):
    """What says whether the plan does has no effect alone, and is refused by the name given."""
    words = ["move", "--host", "db1", "--target-host", "db2", "--tables", "shop.t", word]
    result = CliRunner().invoke(cli.main, words)
    assert result.exit_code == 2
    assert f"{word} goes with --plan, and has no effect alone" in result.stderr
