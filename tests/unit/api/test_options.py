"""The library's options: the same list as the command line's, the same configuration."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, get_type_hints

import click
import pytest

import spirit_py
from spirit_py import cli
from spirit_py.api import commands
from spirit_py.api.commands import batch_config_of
from spirit_py.api.source import connection_from
from spirit_py.api.values import argument_name
from spirit_py.cli.changes import migration_config
from spirit_py.cli.checksum import compare_config, watch_config
from spirit_py.cli.unfinished import revert_config
from spirit_py.config import MigrationConfig
from spirit_py.errors import UsageFault
from spirit_py.options import commands as options
from spirit_py.statement.lexer import DEFAULT_MODE
from spirit_py.statement.parse import read_script

BASE: Any = {
    "host": "db1:3307",
    "user": "u",
    "database": "shop",
    "table": "orders",
    "alter": "ADD x INT",
}
#: What the functions of the library do not take, because it is said in another way or to nobody.
OUTPUT = {"docs_url"}
RUN = {*OUTPUT, "log_format", "on_event", "hook_timeout"}
BATCH = {"tables", "exclude", "statements", "parallel", "on_failure"}
FLEET = {
    "servers", "servers_from", "canary", "waves_by", "servers_at_once", "at_once_of", "stop_after",
}  # fmt: skip
LEFT_OUT = {
    "migrate": (options.MigrationArguments, {*RUN, *BATCH, *FLEET, "hook_veto", "yes"}),
    "batch": (options.BatchArguments, {*RUN, *FLEET, "hook_veto", "yes", "table", "statement"}),
    "fleet": (options.FleetArguments, {*RUN, "hook_veto", "yes"}),
    "plan": (options.PlanArguments, {*RUN, *BATCH, *FLEET, "hook_veto", "format"}),
    "move": (options.MovePlanArguments, {*RUN, "hook_veto", "plan", "format"}),
    "checksum": (options.ChecksumArguments, RUN),
    "revert": (options.RevertArguments, RUN),
    "status": (options.StatusArguments, {*OUTPUT, "json", "verbose"}),
    "cleanup": (options.CleanupArguments, {*OUTPUT, "yes", "verbose"}),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_every_option_of_the_command_line_is_an_argument(name):
    """But for those of a batch, of its output and of a terminal."""
    command = cli.main.commands["migrate" if name in {"batch", "fleet"} else name]
    arguments, left_out = LEFT_OUT[name]
    taken = {argument_name(one) for one in command.params if isinstance(one, click.Option)}
    taken.discard("help_all")
    assert taken - set(get_type_hints(arguments)) == left_out
    assert set(get_type_hints(arguments)) <= taken


WORDS = """
--host db1:3307 --user u --database shop --table orders --no-defaults --password geheim
--max-lag 1.5s --drop-old-after never --replica db2 --replica db3:3308 --nice 0.5
--max-load Threads_running=25,Threads_connected=500 --min-free-disk 2G --max-history-length 7
--allow 22:00-23:00,02:00-03:00 --pass-statement-writes `a.b`.c --spark-conf a=b=c
--defer-cutover --defer-timeout 90 --kill-blockers idle --lock-wait-timeout 3
--report-json r.json --keep-old-current 2h --threads 1
"""


def test_the_configuration_is_that_of_the_command_line():
    """Python values lead to the same configuration as the words that mean the same."""
    words = [*WORDS.split(), "--alter", "ADD x INT"]
    theirs = migration_config(cli.main.commands["migrate"].make_context("migrate", words).params)
    ours = commands.migration_config_of(
        **BASE,
        password=lambda: "geheim",
        max_lag=timedelta(seconds=1.5),
        drop_old_after=math.inf,
        replica=["db2", "db3:3308"],
        nice=0.5,
        max_load={"Threads_running": 25, "Threads_connected": 500},
        min_free_disk=2 << 30,
        allow=["22:00-23:00", "02:00-03:00"],
        pass_statement_writes={("a.b", "c")},
        spark_conf={"a": "b=c"},
        defer_cutover=True,
        defer_timeout=90,
        kill_blockers="idle",
        lock_wait_timeout=timedelta(seconds=3),
        report_json=Path("r.json"),
        keep_old_current="2h",
        threads=1,
        max_history_length=7,
    )
    assert ours == theirs
    assert ours.connection.password == theirs.connection.password


def test_a_batch_is_that_of_the_command_line(tmp_path):
    """Patterns, a file and a list of statements lead to the configuration of the words."""
    reach: Any = {"host": "db1:3307", "user": "u", "threads": 2}
    matching = batch_config_of(**reach, tables="s_%.t", exclude=["s_1.t"], alter="ADD x INT")
    assert (matching.patterns, matching.exclude) == (("s_%.t",), ("s_1.t",))
    assert (matching.parallel, matching.on_failure, matching.each.alter) == (1, "stop", "ADD x INT")
    file = tmp_path / "changes.sql"
    file.write_text("ALTER TABLE a ADD x INT;\nALTER TABLE b ADD x INT;\n")
    of_file = batch_config_of(**reach, statements=file, parallel=2, on_failure="continue")
    of_list = batch_config_of(
        **reach,
        statements=["ALTER TABLE a ADD x INT", "ALTER TABLE b ADD x INT;\n"],
        parallel=2,
        on_failure="continue",
    )
    assert of_file.statements == of_list.statements == file.read_text()
    assert replace(of_file, file="") == replace(of_list, file="")


@pytest.mark.parametrize("comment", ["-- note", "# note;", "--"])
def test_a_statement_of_a_list_ends_with_it_whatever_is_behind_it(comment):
    """A comment to the end of its line does not swallow the next statement."""
    given = [f"ALTER TABLE a ADD x INT {comment}", "ALTER TABLE b ADD x INT"]
    made = batch_config_of(host="db1", user="u", statements=given)
    read = read_script(made.statements or "", DEFAULT_MODE)
    assert [one.text for one in read] == ["ALTER TABLE a ADD x INT", given[1]]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "no tables are given"),
        ({"statements": []}, "no tables are given"),
        ({"tables": "s.t"}, "--alter"),
        ({"statements": ["x"], "alter": "FORCE"}, "--alter goes with"),
        ({"statements": "/no/such/file"}, "statements"),
        ({"tables": "s.t", "alter": "FORCE", "parallel": 3, "threads": 2}, "--parallel 3"),
        ({"tables": "s.t", "alter": "FORCE", "keep_old_current": 5}, "--keep-old-current"),
    ],
)
def test_a_batch_that_is_not_clear_is_refused(given, said):
    """When the function is called."""
    with pytest.raises(UsageFault, match=said):
        spirit_py.start_batch(host="db1", **given)


def test_nothing_given_means_the_defaults_of_the_command_line():
    """An option that is left out, or None, has the default of the configuration's field."""
    left_out = commands.migration_config_of(**BASE)
    nothing: Any = {
        name: None for name in get_type_hints(options.MigrationArguments) if name not in BASE
    }
    assert commands.migration_config_of(**BASE, **nothing) == left_out
    assert left_out == MigrationConfig(
        connection=left_out.connection,
        database="shop",
        table="orders",
        alter="ADD x INT",
        threads=left_out.threads,
    )


def test_no_limits_and_no_socket_of_a_program_are_not_given():
    """So a driver's settings say that there are none."""
    nothing: Any = {"max_load": {}, "critical_load": {}, "socket": "", "ssl_ca": ""}
    assert commands.migration_config_of(**BASE, **nothing) == commands.migration_config_of(**BASE)


@pytest.mark.parametrize("name", ["host", "user", "throttle_http", "on_replica", "max_load"])
def test_an_empty_text_of_a_program_is_no_other_server_and_no_missing_protection(name):
    """A program may have read it from a variable that is not set."""
    with pytest.raises(UsageFault):
        commands.migration_config_of(**{**BASE, name: ""})


@pytest.mark.parametrize(
    ("line", "config_of", "given"),
    [
        ("migrate --database shop --table t --alter FORCE", migration_config, "table alter"),
        ("revert --database shop --table t", revert_config, "table"),
        ("watch --database shop", watch_config, ""),
        (
            "checksum --host db1 --database shop --table t --target-table s",
            compare_config,
            "source table target_database target_table",
        ),
    ],
)
def test_a_default_of_the_command_line_is_that_of_the_configuration(line, config_of, given):
    """``--help`` shows what is declared with the option; who makes a configuration, the field's."""
    name, *words = line.split()
    with cli.main.commands[name].make_context(name, words) as context:
        config = config_of(dict(context.params))
    same = {*given.split(), "database", "connection", "threads"} & set(vars(config))
    assert config == type(config)(**{one: getattr(config, one) for one in same})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_lag": -1}, "max_lag: '-1' is not a duration"),
        ({"max_lag": math.nan}, "max_lag"),
        ({"nice": math.inf}, "nice: inf"),
        ({"threads": 0}, "threads: 0"),
        ({"threads": 2.5}, "threads"),
        ({"min_free_disk": -5}, "min_free_disk"),
        ({"triggers": "drop"}, "triggers"),
        ({"max_load": {"a b": 1}}, "max_load"),
        ({"max_load": {"a": None}}, "max_load"),
        ({"no_shortcut": 1}, "no_shortcut: a value of type int"),
        ({"threads": [2]}, "threads: a value of type list"),
        ({"replica": 5}, "replica: a value of type int"),
        ({"allow": [None]}, "allow: a value of type list"),
        ({"ssl_ca": "\0"}, "ssl_ca"),
        ({"max_checkpoint_age": 10**400}, "max_checkpoint_age: the number is too large"),
        ({"alter": ""}, "--alter is empty"),
        ({"dsn": "postgres://u:geheim@h/"}, "dsn"),
        ({"throttle_http": "ftp://u:geheim@h/"}, "throttle_http"),
        ({"defaults_file": "/no/such/file"}, "defaults_file"),
        ({"host": "a:99999"}, "host and port"),
    ],
)
def test_a_wrong_value_is_refused_when_the_function_is_called(given, said):
    """The refusal names the argument, and never repeats a secret (R20)."""
    with pytest.raises(UsageFault, match=said) as refused:
        spirit_py.start_migration(**{**BASE, **given})
    assert "geheim" not in f"{refused.value}{refused.value.hint}"


def test_what_a_password_function_raises_is_raised_as_it_is():
    """It is the caller's own error, and no wrong option."""

    def token() -> str:
        raise ValueError("the vault is sealed")

    with pytest.raises(ValueError, match="sealed"):
        spirit_py.start_migration(**BASE, password=token)


def test_an_unknown_argument_is_a_type_error():
    """A misspelt argument is refused as Python does it; options about output are none."""
    with pytest.raises(TypeError, match="hosst"):
        spirit_py.migrate(**{**BASE, "hosst": "x"})
    with pytest.raises(TypeError, match="log_format"):
        spirit_py.migrate(**{**BASE, "log_format": "json"})


def test_option_files_and_the_environment_are_read_only_when_asked_for(monkeypatch, tmp_path):
    """By default nothing but the arguments counts; named files, or all usual ones, may."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SPIRIT_PY_NICE", "5")
    monkeypatch.setenv("MYSQL_PWD", "geheim")
    read: list[int] = []

    def read_login_file(*_: Any) -> dict[str, str]:
        read.append(1)
        return {}

    monkeypatch.setattr("spirit_py.mysql.option_files.read_login_file", read_login_file)
    (tmp_path / ".my.cnf").write_text("[client]\npassword=geheim\n")
    silent = commands.migration_config_of(**BASE)
    assert (silent.connection.password, silent.nice, read) == ("", 0.0, [])
    named = commands.migration_config_of(**BASE, defaults_file=tmp_path / ".my.cnf")
    assert (named.connection.password, read) == ("geheim", [])
    usual = commands.migration_config_of(**BASE, no_defaults=False)
    assert (usual.connection.password, read) == ("geheim", [1])
    commands.migration_config_of(**BASE, login_path="client")
    assert read == [1, 1]


@pytest.mark.parametrize("option", ["defaults_file", "defaults_extra_file"])
def test_the_source_of_spark_reads_the_file_that_is_named_alone(monkeypatch, tmp_path, option):
    """The password of another file is not for the host of a query."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    monkeypatch.setattr(
        "spirit_py.mysql.option_files.read_login_file", lambda *_: {"password": "of a login path"}
    )
    (tmp_path / ".my.cnf").write_text("[client]\nuser=other\npassword=geheim\n")
    named = tmp_path / "named.cnf"
    named.write_text("[client]\nuser=reader\n")
    found = connection_from({"host": "db1", option: str(named)})
    assert (found.user, found.password) == ("reader", "")


def _names() -> list[str]:
    names: list[str] = vars(spirit_py)["__all__"]
    return names


def test_the_stub_has_the_names_of_the_package():
    """What type checkers see is what there is, and each name can be loaded."""
    stub = (Path(spirit_py.__file__).with_suffix(".pyi")).read_text()
    stubbed = {line.rpartition(" as ")[2] for line in stub.splitlines() if " as " in line}
    assert stubbed | {"__version__"} == set(_names())
    for name in _names():
        assert getattr(spirit_py, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(spirit_py, "nothing")  # noqa: B009 - type checkers know that it is not there


def test_the_package_itself_stays_light():
    """Importing it loads no module of its own: the command line and the executors import it."""
    code = (
        "import sys; before = set(sys.modules); import spirit_py;"
        " print(sorted(set(sys.modules) - before))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert ran.stdout.strip() == "['spirit_py']"


def test_a_rehearsal_on_a_replica_goes_there_past_its_log():
    """Everything but the address is that of the server; without --dry-run it is refused."""
    given: Any = {"host": "db1", "port": 3307, "user": "u", "database": "s", "table": "t"}
    given |= {"alter": "ADD z INT", "on_replica": "db2"}
    found = commands.migration_config_of(**given, dry_run=True)
    assert (found.connection.address, found.connection.user) == ("db2:3307", "u")
    assert found.connection.unlogged
    assert found.max_lag is None
    with pytest.raises(UsageFault, match="on-replica"):
        commands.migration_config_of(**given)


@pytest.mark.parametrize("other", ["no_shortcut", "keep_old_current", "defer_cutover", "keep"])
def test_the_servers_own_copy_does_not_go_with_what_asks_for_ours(other):
    """Such an option would do nothing, without a word."""
    given: Any = {"database": "s", "table": "t", "alter": "ADD z INT", "native": "1M"}
    assert commands.migration_config_of(**given).native == 1 << 20
    given[other] = {"keep_old_current": "1h", "keep": "id > 1"}.get(other, True)
    with pytest.raises(UsageFault, match="--native has no effect with"):
        commands.migration_config_of(**given)
