"""The configuration file for a team, and completion."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from spirit_py.cli import configfile, main
from spirit_py.cli.changes import migration_config
from spirit_py.cli.fleet import fleet_config
from spirit_py.cli.move import move_config
from spirit_py.cli.values import complete
from spirit_py.config import SessionModes
from spirit_py.errors import UsageFault
from spirit_py.mysql.option_files import GROUPS, read_login_file
from spirit_py.records import RecordOptions


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Files of the machine and of the user, none of them there yet."""
    found = (tmp_path / "etc.toml", tmp_path / "home.toml")
    monkeypatch.setattr(configfile, "PLACES", tuple(map(str, found)))
    return found


@pytest.fixture
def configured(monkeypatch):
    """Run a command line; return the configuration that migrate would run with."""
    seen = []
    command = main.commands["migrate"]
    monkeypatch.setattr(
        command, "callback", lambda **options: seen.append(migration_config(options))
    )

    def run(*arguments: str):
        result = CliRunner().invoke(
            main, [*arguments, "--database", "x", "--table", "t", "--alter", "FORCE"]
        )
        assert result.exit_code == 0, result.output
        return seen.pop()

    return run


def test_later_files_count_more_and_the_command_line_most(places, tmp_path, configured):
    """Machine, user, --config, command line; [all] and a command's own table."""
    places[0].write_text("[all]\nkill-after = 1\nnice = 1\nlock-wait-timeout = 1\n")
    places[1].write_text("[migrate]\nnice = 2\nlock-wait-timeout = 2\n")
    own = tmp_path / "own.toml"
    own.write_text('[migrate]\nlock-wait-timeout = 3\nreplica = ["db2", "db3:3307"]\n')

    found = configured("--config", str(own), "migrate", "--nice", "4")

    assert (found.kill_after, found.nice, found.lock_wait_timeout) == (1, 4, 3)
    assert found.replicas == ("db2", "db3:3307")


def test_a_default_of_none_for_the_old_table_drops_none_that_was_to_stay(places, configured):
    """It counts as named on the command line alone: an earlier run's choice is not taken back."""
    places[0].write_text('[migrate]\ndrop-old-after = "0s"\nmax-lag = "2s"\n')
    assert configured("migrate").named == {"max_lag"}
    assert configured("migrate", "--drop-old-after", "0s").named == {"max_lag", "drop_old_after"}


@pytest.mark.parametrize("of_the_file", [True, False])
def test_a_replica_for_rehearsals_is_a_default_for_these_alone(
    places, monkeypatch, configured, of_the_file
):
    """A run that changes the table goes to the server that it names, and is logged."""
    if of_the_file:
        places[0].write_text('[migrate]\non-replica = "db2r"\n')
    else:
        monkeypatch.setenv("SPIRIT_PY_ON_REPLICA", "db2r")
    real = configured("migrate", "--host", "db1")
    assert (real.connection.host, real.connection.unlogged) == ("db1", False)
    assert real.max_lag
    rehearsal = configured("migrate", "--host", "db1", "--dry-run").connection
    assert (rehearsal.host, rehearsal.unlogged) == ("db2r", True)


@pytest.mark.parametrize("line", ['[all]\nsocket = "/s"\n', ""])
def test_a_host_of_the_run_counts_more_than_a_default_socket(places, monkeypatch, configured, line):
    """With a server on this machine that has the same schema, the wrong table would be changed."""
    places[0].write_text(line)
    if not line:
        monkeypatch.setenv("SPIRIT_PY_SOCKET", "/s")
    assert configured("migrate").connection.address == "/s"
    assert configured("migrate", "--host", "db2").connection.address == "db2:3306"
    assert configured("migrate", "--dsn", "mysql://db2/x").connection.address == "db2:3306"
    assert configured("migrate", "--host", "localhost").connection.address == "/s"


@pytest.mark.parametrize("where", [("--host", "db2"), ("--dsn", "mysql://db2/x")])
def test_a_host_and_a_socket_of_one_run_are_two_servers(places, configured, where):
    """Neither wins silently; a socket counts more than a default host."""
    with pytest.raises(AssertionError, match=f"two servers: the host of {where[0]}, and --socket"):
        configured("migrate", *where, "--socket", "/s")
    places[0].write_text('[all]\nhost = "db2"\n')
    assert configured("migrate", "--socket", "/s").connection.address == "/s"


@pytest.mark.parametrize(
    ("line", "words", "address"),
    [
        ("port = 3310", ("--host", "db2:3306"), "db2:3306"),
        ('host = "prod:3310"', ("--port", "9"), "prod:9"),
        ('host = "prod:3310"', ("--host", "db2"), "db2:3306"),
    ],
)
def test_of_two_ports_that_of_the_run_counts(places, configured, line, words, address):
    """The other one is a default."""
    places[0].write_text(f"[all]\n{line}\n")
    assert configured("migrate", *words).connection.address == address


def test_a_url_counts_more_than_the_file(places, configured):
    """In all that it names: host, account and TLS are those of the run; the rest is the file's."""
    places[0].write_text('[all]\nhost = "prod"\nport = 1\nuser = "mig"\nssl-mode = "REQUIRED"\n')
    url = "mysql://alice:pw@db2/x?ssl-mode=DISABLED"
    found = configured("migrate", "--dsn", url).connection
    assert (found.address, found.user, found.password) == ("db2:1", "alice", "pw")
    assert found.ssl_mode == "DISABLED"
    typed = configured("migrate", "--dsn", url, "--user", "bob").connection
    assert (typed.user, typed.password) == ("bob", "pw")


def test_the_schema_of_a_url_counts_more_than_the_files(places):
    """As all that it names; two that are typed are refused still."""
    places[0].write_text('[all]\ndatabase = "prod"\n')
    for words, schema in (((), "x"), (("--database", "x"), "x"), (("--database", "y"), "")):
        parent = main.make_context("spirit-py", ["migrate"])
        line = ["--dsn", "mysql://db2/x", *words]
        with main.commands["migrate"].make_context("migrate", line, parent=parent) as context:
            if not schema:
                with pytest.raises(UsageFault, match="two schemas: y in --database and x in --dsn"):
                    complete(context.params)
                continue
            complete(context.params)
        assert context.params["database"] == schema


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    """Run migrate with a list of servers; return how each is reached."""
    servers = tmp_path / "servers"
    servers.write_text("mysql://alice@db1/x?ssl-mode=DISABLED\nmysql://db2/x\n")
    seen = []
    monkeypatch.setattr(
        main.commands["migrate"], "callback", lambda **options: seen.append(fleet_config(options))
    )

    def run(*words: str):
        words += ("--servers", str(servers), "--table", "t", "--alter", "FORCE", "--no-defaults")
        result = CliRunner().invoke(main, ["migrate", *words])
        assert result.exit_code == 0, result.output
        return [one.batch.each.connection for one in seen.pop().servers]

    return run


def test_a_url_of_a_list_counts_more_than_the_file(places, fleet):
    """Each server of a fleet has its own account."""
    places[0].write_text('[all]\nuser = "mig"\nssl-mode = "REQUIRED"\n')
    found = [(one.user, one.ssl_mode) for one in fleet()]
    assert found == [("alice", "DISABLED"), ("mig", "REQUIRED")]


def test_a_default_replica_is_that_of_no_server_of_a_list(places, fleet):
    """All servers would be rehearsed on it."""
    places[0].write_text('[migrate]\non-replica = "db2r"\n')
    found = [(one.host, one.unlogged) for one in fleet("--dry-run")]
    assert found == [("db1", False), ("db2", False)]


@pytest.mark.parametrize(
    ("variable", "words", "password"),
    [
        ("MYSQL_PWD", ("--defaults-file", "my.cnf"), "file"),
        ("MYSQL_PWD", ("--dsn", "mysql://u:url@db2/x"), "url"),
        ("MYSQL_PWD", ("--password", "typed"), "typed"),
        ("MYSQL_PWD", (), "variable"),
        ("SPIRIT_PY_PASSWORD", ("--dsn", "mysql://u:url@db2/x"), "variable"),
    ],
)
def test_the_password_of_mysqls_variable_counts_least(
    tmp_path, monkeypatch, configured, variable, words, password
):
    """Otherwise a wrong one is sent to the server that was named with its password."""
    monkeypatch.chdir(tmp_path)
    Path("my.cnf").write_text("[client]\npassword=file\n")
    monkeypatch.setenv(variable, "variable")
    words = words if "--defaults-file" in words else (*words, "--no-defaults")
    assert configured("migrate", *words).connection.password == password


@pytest.mark.parametrize("typed", [True, False])
def test_two_hosts_are_refused(configured, monkeypatch, typed):
    """The password of one would go to the other; what sets them is named."""
    words = ("--dsn", "mysql://a:pw@db2/x", "--host", "db1") if typed else ()
    named = ("--host", "--dsn") if typed else ("SPIRIT_PY_HOST", "SPIRIT_PY_DSN")
    if not typed:
        monkeypatch.setenv("SPIRIT_PY_HOST", "db1")
        monkeypatch.setenv("SPIRIT_PY_DSN", "mysql://a:pw@db2/x")
    said = f"two hosts: db1 in {named[0]} and db2 in {named[1]}"
    with pytest.raises(AssertionError, match=said):
        configured("migrate", *words)
    same = ("--dsn", "mysql://a@DB1/x", "--host", "DB1")
    assert configured("migrate", *same).connection.host == "DB1"


def test_of_two_hosts_the_typed_one_counts(configured, monkeypatch):
    """With its port: the other's is of the other server."""
    monkeypatch.setenv("SPIRIT_PY_DSN", "mysql://u:p@db1:3310/x")
    found = configured("migrate", "--host", "db2").connection
    assert (found.address, found.user) == ("db2:3306", "u")
    for other in ("db1", "db2:3307"):
        monkeypatch.setenv("SPIRIT_PY_HOST", other)
        typed = configured("migrate", "--dsn", "mysql://a:pw@db2:3306/x").connection
        assert typed.address == "db2:3306"


@pytest.mark.parametrize("host", ["", "localhost"])
@pytest.mark.parametrize("line", ['host = "prod"', "port = 3307", 'socket = "/t"', ""])
def test_a_socket_of_a_url_counts_more_than_a_server_of_the_file(
    places, monkeypatch, configured, host, line
):
    """The file's server would get the password of the URL."""
    places[0].write_text(f"[all]\n{line}\n")
    if not line:
        monkeypatch.setenv("SPIRIT_PY_HOST", "prod")
    url = f"mysql://u:p@{host}/x?socket=/s"
    assert configured("migrate", "--dsn", url).connection.address == "/s"
    with pytest.raises(AssertionError, match=r"two (servers|hosts): db2 in --host"):
        configured("migrate", "--dsn", url, "--host", "db2")
    monkeypatch.setenv("SPIRIT_PY_DSN", url)
    assert configured("migrate", "--host", "db2").connection.host == "db2"


def test_a_default_of_shard_by_is_for_moves_of_several_servers(monkeypatch):
    """A resumed move of one would be refused for what it is not judged by."""
    seen = []
    monkeypatch.setattr(
        main.commands["move"], "callback", lambda **options: seen.append(move_config(options))
    )
    monkeypatch.setenv("SPIRIT_PY_SHARD_BY", "region")
    words = ("--tables", "s.t", "--host", "a", "--no-defaults")
    for target in (("--target-host", "b"), ("--target", "b=b", "--target", "c=c")):
        result = CliRunner().invoke(main, ["move", *words, *target])
        assert result.exit_code == 0, result.output
    assert [one.keep_given[0] for one in seen] == ["--keep", "--shard-by"]


@pytest.mark.parametrize(
    ("line", "words", "changed"),
    [
        ("defer-cutover = true", ("--dry-run",), {"defer_cutover": False}),
        ('keep-old-current = "1h"', ("--dry-run",), {"keep_old_current": 0.0}),
        ('keep-old-current = "1h"', ("--keep-old-current", "0s"), {"keep_old_current": 0.0}),
        ('archive-to = "/a"\narchive-by = "id"', (), {"archive_to": "", "archive_by": ""}),
        ("no-shortcut = true", ("--native", "1M"), {"no_shortcut": False}),
        ('native = "1M"', ("--defer-cutover",), {"native": 0}),
        ("hook-veto = true", (), {"records": RecordOptions()}),
        ("allow-zero-dates = true", ("--sql-mode", ""), {"modes": SessionModes(sql_mode="")}),
    ],
)
def test_a_default_gives_way_where_it_does_not_go_with_the_run(
    places, configured, line, words, changed
):
    """It is for the other runs; of two options that were typed neither gives way."""
    places[0].write_text(f"[migrate]\n{line}\n")
    found = configured("migrate", *words)
    assert {name: getattr(found, name) for name in changed} == changed


@pytest.mark.parametrize(
    ("line", "words", "refused"),
    [
        ('keep-old-current = "1h"', ("--native", "1M"), "--native has no effect with"),
        ("dry-run = true", ("--defer-cutover",), "--dry-run swaps nothing"),
        ("", ("--dry-run", "--defer-cutover"), "--dry-run swaps nothing"),
        ("", ("--archive-to", "/a"), "--archive-to goes with --keep"),
        ("", ("--hook-veto",), "--hook-veto needs --on-event"),
    ],
)
def test_what_was_typed_and_what_protects_does_not_give_way(
    places, configured, line, words, refused
):
    """Without the default the run would be one that changes the table, or has no way back."""
    places[0].write_text(f"[migrate]\n{line}\n")
    with pytest.raises(AssertionError, match=refused):
        configured("migrate", *words)


def test_defaults_that_go_with_the_run_stay(places, configured):
    """Nothing gives way to what is not there."""
    places[0].write_text('[migrate]\nnative = "1M"\nsql-mode = "ANSI"\n')
    found = configured("migrate")
    assert (found.native, found.modes.sql_mode) == (1 << 20, "ANSI")


@pytest.fixture
def away(tmp_path, monkeypatch):
    """A folder that this account may not enter, whoever runs the test."""
    folder, stat = tmp_path / "away", os.stat

    def denied(path, *given, **more):
        if isinstance(path, str | os.PathLike) and folder in Path(path).parents:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, *given, **more)

    monkeypatch.setattr(os, "stat", denied)
    return folder


def test_a_home_that_may_not_be_entered_has_no_files(places, away, monkeypatch, configured):
    """As after setpriv, or in a container whose account has another one's HOME."""
    monkeypatch.setattr(configfile, "PLACES", (str(places[0]), str(away / "home.toml")))
    places[0].write_text("[migrate]\nnice = 1\n")
    assert configured("migrate").nice == 1
    assert read_login_file(away / ".mylogin.cnf", GROUPS, "") == {}
    with pytest.raises(UsageFault, match="there is no"):
        read_login_file(away / ".mylogin.cnf", GROUPS, "prod")


def test_an_error_of_a_file_is_none_of_the_output(monkeypatch):
    """It names the file, and sends nobody to look for room."""

    def usual_files():
        raise PermissionError(errno.EACCES, "Permission denied", "/home/x")

    monkeypatch.setattr(configfile, "usual_files", usual_files)
    shown = CliRunner().invoke(main, ["explain"])
    assert shown.exit_code == 1
    assert "unexpected PermissionError" in shown.output
    assert "/home/x" in shown.output
    assert "standard output" not in shown.output


def test_a_throttlers_url_without_a_password_may_be_a_default(places, configured):
    """It is no secret then."""
    places[0].write_text('[all]\nthrottle-http = "http://brake/check"\n')
    assert configured("migrate").throttle_http == "http://brake/check"


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("move", 'source = ["eu=db1", "us=mysql://mig@db2"]'),
        ("migrate", 'throttle-http = "http://h:8080?mail=a@b"'),
    ],
)
def test_an_address_without_a_password_is_a_default(places, command, line):
    """What may hold one need not; a sign behind the host is no password."""
    file = places[0]
    file.write_text(f"[{command}]\n{line}\n")
    assert configfile.read_config([file], main.commands).values[command]


def test_one_value_serves_an_option_that_may_be_repeated(places, configured):
    """A replica alone need not be a list."""
    places[0].write_text('[all]\nreplica = "db2"\naggressive = true\n')

    found = configured("migrate")

    assert (found.replicas, found.aggressive) == (("db2",), True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[migrate]\nnicer = 1\n", "there is no option --nicer"),
        ("[migrations]\nnice = 1\n", "[migrations] is not a command"),
        ("nice = 1\n", "nice is outside of any table"),
        ("[migrate\n", "cannot read the configuration"),
        ('[all]\npassword = "hush"\n', "may hold a password"),
        ('[all]\ndsn = "mysql://j:hush@h"\n', "may hold a password"),
        ('[move]\nsource = ["a=mysql://j:hush@h"]\n', "may hold a password"),
        ('[all]\nthrottle-http = "http://j:hush@h/"\n', "may hold a password"),
        ("[ctl]\ncleanup = true\n", "for the command line only"),
        ("[cleanup]\nyes = true\n", "for the command line only"),
        ("[cleanup]\ndrop-old = true\n", "for the command line only"),
        ("[checksum]\nrepair = true\n", "for the command line only"),
        ('[migrate]\nkeep = "id > 5"\n', "for the command line only"),
        ("[all]\nstart-afresh = true\n", "for the command line only"),
        ("[migrate]\nallow-data-loss = true\n", "for the command line only"),
        ("[cleanup]\nnice = 1\n", "there is no option --nice"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_by_name(places, text, message):
    """What is wrong is named with the file; no value is shown, and nothing is run."""
    places[1].write_text(text)

    result = CliRunner().invoke(
        main, ["migrate", "--database", "x", "--table", "t", "--alter", "y"]
    )

    assert result.exit_code == 2
    assert message in result.output
    assert places[1].name in result.output
    assert "hush" not in result.output


PLAN = ["--database", "x", "--table", "t", "--alter", "FORCE"]


@pytest.fixture
def planned(monkeypatch):
    """Run ``plan``; return the options that it would plan with."""
    seen = []
    monkeypatch.setattr(main.commands["plan"], "callback", lambda **options: seen.append(options))

    def run():
        result = CliRunner().invoke(main, ["plan", *PLAN])
        assert result.exit_code == 0, result.output
        return seen.pop()

    return run


@pytest.mark.parametrize(
    ("text", "threads"),
    [
        ("[migrate]\nthreads = 7\n", 7),
        ("[migrate]\nthreads = 7\n[all]\nthreads = 1\n", 7),
        ("[plan]\nthreads = 9\n[migrate]\nthreads = 7\n", 9),
        ("[plan]\nnice = 9\n[migrate]\nthreads = 7\n", 7),
        ("[revert]\nthreads = 7\n", None),
    ],
)
def test_plan_reads_what_is_set_for_migrate(places, planned, text, threads):
    """A plan is of what would be run; the own section takes precedence, wherever it stands."""
    places[1].write_text(text)
    assert planned()["threads"] == threads


def test_what_only_plan_has_is_not_set_for_migrate(places):
    """A section is for the options of its command."""
    places[1].write_text("[migrate]\nsample = false\n")
    result = CliRunner().invoke(main, ["plan", *PLAN])
    assert result.exit_code == 2
    assert f"{places[1]}, [migrate]: there is no option --sample" in result.output


def test_plan_does_not_warn_of_a_report_that_migrate_writes_by_default(places):
    """Nobody asked plan for it."""
    places[1].write_text('[migrate]\nreport-json = "r.json"\n')
    result = CliRunner().invoke(main, ["plan", *PLAN, "--host", "127.0.0.1:1"])
    assert result.exit_code == 2
    assert "not used by plan" not in result.output


@pytest.mark.parametrize("command", ["migrate", "plan"])
@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("threads = 2.5", "threads = 2.5: 2.5 is not a whole number"),
        ("threads = 0", "threads = 0: 0 is not in the range 1<=x<=256"),
        ("threads = [2]", "threads: the value is a text or a number"),
        ("threads = true", "threads = true: True is not a whole number"),
        ("on-event = true", "on-event = true: true is not a text"),
        ("report-json = true", "report-json = true: true is not a text"),
        ("report-json = 5", "report-json = 5: the value is a path, in quotes"),
        ('report-json = "a\\u0000"', "report-json: the value is a path, in quotes"),
        ("defaults-file = 1.5", "defaults-file = 1.5: the value is a path, in quotes"),
        ("kill-blockers = false", "kill-blockers = false: false is not a text"),
        ("threads = 2026-01-01", "threads: the value is a text or a number"),
        ("min-free-disk = 1.5", "min-free-disk = 1.5: '1.5' is not a size"),
        ('aggressive = "yes"', "aggressive: the value is true or false, without quotes"),
        ("aggressive = 1", "aggressive = 1: the value is true or false, without quotes"),
        (f"nice = {10**400}", f"nice = {10**400}: the number is too large"),
        ('max-lag = "5x"', "max-lag: '5x' is not a duration"),
        ("replica = [{}]", "replica: the value is a text or a number, or a list of them"),
    ],
)
def test_a_value_is_refused_by_file_section_and_key(places, command, line, wrong):
    """So is it by the command that only shares the section; the hint is about the file."""
    places[1].write_text(f"[migrate]\n{line}\n")
    result = CliRunner().invoke(main, [command, *PLAN])
    assert result.exit_code == 2
    error, hint, _ = result.stderr.splitlines()
    assert error.startswith(f"error: {places[1]}, [migrate] {wrong}")
    assert hint == f"hint: correct this line of {places[1]}, or remove it"


def test_a_wrong_choice_of_a_file_names_the_near_one(places):
    """As on the command line."""
    places[1].write_text('[all]\nkill-blockers = "alle"\n')
    result = CliRunner().invoke(main, ["migrate", *PLAN])
    assert "[all] kill-blockers: 'alle' is not one of" in result.stderr
    assert "hint: did you mean all? correct this line" in result.stderr


def test_a_wrong_value_of_the_environment_is_named_with_its_variable(places, monkeypatch):
    """The command line, which does not have it, is not to blame."""
    monkeypatch.setenv("SPIRIT_PY_THREADS", "x")
    result = CliRunner().invoke(main, ["migrate", *PLAN])
    error, hint, _ = result.stderr.splitlines()
    assert error == "error: SPIRIT_PY_THREADS: 'x' is not a whole number"
    assert hint == "hint: correct this variable of the environment, or unset it"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("TREADS", "THREADS"),
        ("MAX_LGA", "MAX_LAG"),
        # Of another command, of the tests, and of a hook's own environment.
        ("TABLES_FROM", ""),
        ("TARGET_HOST", ""),
        ("TEST_SEED", ""),
        ("EVENT", ""),
    ],
)
def test_a_misspelt_variable_is_warned_of(places, monkeypatch, name, meant):
    """A file's is refused; a variable may belong to another program."""
    monkeypatch.setenv(f"SPIRIT_PY_{name}", "4")
    monkeypatch.setattr(main.commands["migrate"], "callback", lambda **_: None)
    said = CliRunner().invoke(main, ["migrate", *PLAN]).stderr
    question = f"no option reads SPIRIT_PY_{name} of the environment: did you mean"
    assert (f"warning: {question} SPIRIT_PY_{meant}?" in said) == bool(meant)
    assert ("did you mean" in said) == bool(meant)


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *(("migrate", one) for one in ("keep", "allow-data-loss", "start-afresh", "yes")),
        *(("cleanup", one) for one in ("yes", "drop-old")),
        ("checksum", "repair"),
    ],
)
def test_what_makes_rows_go_is_of_the_command_line_alone(monkeypatch, command, option):
    """A variable that an earlier command needed drops no rows of this one; it is warned of."""
    variable, seen = f"SPIRIT_PY_{option.upper().replace('-', '_')}", []
    monkeypatch.setenv(variable, "1")
    monkeypatch.setattr(main.commands[command], "callback", lambda **given: seen.append(given))
    said = CliRunner().invoke(main, [command]).stderr
    assert not seen.pop()[option.replace("-", "_")]
    only = f"{variable} of the environment is not read: --{option} is for the command line only"
    assert f"warning: {only}" in said


def test_the_command_line_replaces_a_wrong_value_of_a_file(places, configured):
    """What is not used is not read; what the command line has wrong is no fault of the file."""
    places[1].write_text("[migrate]\nnice = -1\n")
    assert configured("migrate", "--nice", "2").nice == 2
    result = CliRunner().invoke(main, ["migrate", *PLAN, "--nice", "-1"])
    assert places[1].name not in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_program(shell):
    """Each script asks the program itself for what may come next."""
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_SPIRIT_PY_COMPLETE" in result.output
    assert "spirit-py" in result.output


def test_the_script_for_bash_is_one_that_bash_reads(tmp_path):
    """The script is syntactically right."""
    script = tmp_path / "completion"
    script.write_text(CliRunner().invoke(main, ["completion", "bash"]).output)
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_options_are_completed():
    """The names of options come from the commands themselves."""
    command = main.commands["migrate"]
    context = click.Context(command, click.Context(main, **main.context_settings))
    found = command.shell_complete(context, "--max-l")
    assert {item.value for item in found} == {"--max-load", "--max-lag"}


@pytest.mark.parametrize("named", [True, False])
def test_a_configuration_that_everybody_may_write_is_refused(places, tmp_path, named):
    """R26: it names programs that are run; passing it over would take limits away."""
    file = tmp_path / "own.toml" if named else places[1]
    file.write_text("[all]\nnice = 1\n")
    file.chmod(0o666)
    words = ["--config", str(file)] if named else []
    result = CliRunner().invoke(main, [*words, "migrate"])
    assert result.exit_code == 2
    assert f"the configuration {file} is world-writable" in result.output
    assert f"chmod o-w {file}" in result.output


def test_what_is_mounted_to_be_read_is_written_by_nobody(configured, places, monkeypatch):
    """As in the volumes of Kubernetes, whose modes let everybody write."""
    places[1].write_text("[all]\nnice = 1\n")
    places[1].chmod(0o666)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    assert configured("migrate").nice == 1


@pytest.mark.parametrize(
    "folder", ["usual", "of everybody", "a checkout", "usual, named", "usual, by a link"]
)
def test_a_configuration_of_another_user_is_refused(places, tmp_path, monkeypatch, folder):
    """R26: root would run what they write. One that is named is, where not everybody may put it."""
    named = folder != "usual"
    file = places[1] if folder.startswith("usual") else tmp_path / "own.toml"
    file.write_text("[all]\nnice = 1\n")
    tmp_path.chmod(0o1777 if folder == "of everybody" else 0o755)
    found = Path.stat

    def of_another(path: Path, **more: Any) -> Any:
        seen = found(path, **more)
        same = {name: getattr(seen, name) for name in ("st_mode", "st_dev", "st_ino")}
        return SimpleNamespace(**same, st_uid=os.geteuid() + 1)

    monkeypatch.setattr(Path, "stat", of_another)
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    words = ["--config", str(link if folder.endswith("link") else file)] if named else []
    result = CliRunner().invoke(main, [*words, "migrate"])
    assert result.exit_code == 2
    refused = f"the configuration {file} belongs to another user" in result.output
    assert refused == (folder in {"usual", "of everybody"})
    assert ("--config FILE" in result.output) == refused


def test_a_configuration_that_may_not_be_read_is_not_said_to_be_no_toml(places, monkeypatch):
    """The remedy is about its mode."""
    places[1].write_text("[all]\nnice = 1\n")

    def refused(*_: object, **__: object) -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refused)
    result = CliRunner().invoke(main, ["migrate", *PLAN])
    assert result.exit_code == 2
    assert f"cannot read the configuration {places[1]}: Permission denied" in result.output
    assert "hint: make it readable" in result.output
    assert "TOML" not in result.output


@pytest.mark.parametrize("mode", [0o644, 0o600])
def test_a_secret_of_spark_is_in_no_file_that_everybody_may_read(places, configured, mode):
    """It lets whoever has it into the executors, which have the server's password."""
    places[1].write_text('[migrate]\nspark-conf = ["a.b=c", "spark.authenticate.secret=hush"]\n')
    places[1].chmod(mode)
    if mode == 0o600:
        assert configured("migrate").spark_conf[1][1] == "hush"
        return
    result = CliRunner().invoke(main, ["migrate", *PLAN])
    assert result.exit_code == 2
    assert "every user of this machine may read it" in result.output
    assert f"chmod o-r {places[1]}" in result.output
    assert "hush" not in result.output


def test_an_account_without_a_name_has_to_give_one(places, monkeypatch):
    """As in a container that runs under a number."""

    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr("getpass.getuser", unknown)
    result = CliRunner().invoke(main, ["migrate", *PLAN])
    assert result.exit_code == 2
    assert "error: no user is given" in result.output
    assert "--user" in result.output
