"""``spirit-py checksum``: what the command line becomes, and what it refuses."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner

from spirit_py import cli
from spirit_py.compare.report import CompareReport

BASE = ["--host", "db1", "--user", "u", "--password=p", "--database", "d", "--table", "t"]
#: The later host counts.
SOCKET = ["--host", "localhost", "--socket", "/s"]


@pytest.fixture
def asked(monkeypatch):
    """Run the command up to the comparison, and give the options it would start with."""
    seen = []

    def compare(options, **_):
        seen.append(options)
        side = {"address": "", "schema": "d", "table": "t"}
        return CompareReport(outcome="equal", source=side, target=side)

    monkeypatch.setattr("spirit_py.compare.run.compare", compare)
    for name in list(os.environ):
        if name.startswith(("SPIRIT_PY_", "MYSQL_")):
            monkeypatch.delenv(name)

    def run(*arguments, env=None, code=0):
        result = CliRunner().invoke(cli.main, ["checksum", *arguments], env=env)
        assert result.exit_code == code, result.output
        return seen[-1] if seen else result

    return run


def test_what_is_not_said_of_the_target_is_the_sources(asked):
    """Everything that is not said of the target is the source's."""
    options = asked(*BASE, "--target-table", "u")
    assert (options.database, options.table) == ("d", "t")
    assert (options.target_database, options.target_table) == ("d", "u")
    assert options.target is None
    assert (options.repair, options.lock, options.checksum_yield_timeout) == (False, True, 3600.0)


def test_what_is_compared_can_be_said(asked):
    """Renames, ignored columns, repair, no lock, snapshots of another age."""
    options = asked(
        *(*BASE, "--target-database", "e", "--map", "a=b", "--map", "c=d"),
        *("--ignore-column", "x", "--repair", "--no-lock", "--checksum-yield-timeout", "10m"),
    )
    assert (options.target_database, options.target_table) == ("e", "t")
    assert options.renames == (("a", "b"), ("c", "d"))
    assert options.ignored == ("x",)
    assert (options.repair, options.lock, options.checksum_yield_timeout) == (True, False, 600.0)


def test_a_summary_names_the_servers_of_tables_of_one_name():
    """And says of warnings, which were told already, how many there were."""
    one, other = ({"address": at, "schema": "d", "table": "t"} for at in ("db1:3306", "db2:3306"))
    report = CompareReport(outcome="different", source=one, target=other, rows=20_000)
    report.differences = report.missing = 1200
    report.warnings = ["two snapshots"]
    first, second, *_ = report.summary()
    assert first.startswith("d.t on db1:3306 and d.t on db2:3306 differ: 20 000 rows, ")
    assert first.endswith("; 1 warning, shown above")
    assert second == "  different  1 200 rows in the target: 1 200 missing, 0 extra, 0 changed"
    report.target = other | {"table": "u"}
    assert report.names == "d.t and d.u"


@pytest.mark.parametrize("words", ["--lock-timeout 5m", "--lock-wait-timeout 5"])
def test_a_limit_of_a_lock_is_refused_where_none_is_taken(asked, words):
    """The environment may hold it: there it is a default for runs that take the lock."""
    name, value = words.split()
    refused = asked(*BASE, "--target-table", "u", "--no-lock", name, value, code=2)
    assert f"{name} has no effect with --no-lock" in refused.output
    assert asked(*BASE, "--target-table", "u", name, value).lock
    kept = {f"SPIRIT_PY_{name[2:].replace('-', '_').upper()}": value}
    assert not asked(*BASE, "--target-table", "u", "--no-lock", env=kept).lock


def where(options):
    """Return the target's server and account."""
    there = options.target
    return (there.host, there.port, there.socket, there.user, there.password)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ([], ["--target-host", "db2"], ("db2", 3306, "", "u", "p")),
        (["--port", "1"], ["--target-host", "db2"], ("db2", 1, "", "u", "p")),
        ([], ["--target-host", "db2:7"], ("db2", 7, "", "u", "p")),
        ([], ["--target-port", "7"], ("db1", 7, "", "u", "p")),
        ([], ["--target-user", "v", "--target-password=q"], ("db1", 3306, "", "v", "q")),
        ([], ["--target-socket", "/s"], ("db1", 3306, "/s", "u", "p")),
        (SOCKET, ["--target-host", "db2"], ("db2", 3306, "", "u", "p")),
        (SOCKET, ["--target-user", "v"], ("localhost", 3306, "/s", "v", "p")),
    ],
)
def test_the_targets_server_defaults_to_the_sources(asked, source, target, expected):
    """Each part of the connection by itself; a socket gives way to a host."""
    assert where(asked(*BASE, *source, *target)) == expected


@pytest.mark.parametrize(
    ("text", "more", "expected"),
    [
        ("host=db2\nuser=w\n", [], ("db2", 3306, "", "w", "p")),
        ("host=db2\nport=9\n", ["--target-host", "db3"], ("db3", 9, "", "u", "p")),
        ("socket=/s\nuser=w\n", [], ("db1", 3306, "/s", "w", "p")),
        ("socket=/s\nhost=db2\n", [], ("db2", 3306, "", "u", "p")),
        ("socket=/s\nuser=w\n", ["--target-host", "db3"], ("db3", 3306, "", "w", "p")),
        ("port=9\nprotocol=tcp\n", SOCKET, ("localhost", 9, "", "u", "p")),
    ],
)
def test_the_targets_option_file_comes_before_the_source(asked, tmp_path, text, more, expected):
    """It stands between the command line and what the source has."""
    file = tmp_path / "my.cnf"
    file.write_text(f"[client]\n{text}")
    assert where(asked(*BASE, "--target-defaults-file", str(file), *more)) == expected


def test_the_targets_tls_is_the_files(asked, tmp_path):
    """TLS options of the target's file take the place of all of the source's."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.write_text("[client]\nssl-mode=REQUIRED\n")
    theirs.write_text("[client]\nhost=db2\nssl-mode=DISABLED\n")
    plain = asked(*BASE, "--defaults-file", str(ours), "--target-host", "db2")
    assert plain.target.ssl_mode == "REQUIRED"
    other = asked(*BASE, "--defaults-file", str(ours), "--target-defaults-file", str(theirs))
    assert other.target.ssl_mode == "DISABLED"


def test_a_targets_host_counts_more_than_a_socket_of_the_environment(asked):
    """Both of one command line name two servers."""
    refused = asked(*BASE, "--target-host", "db2", "--target-socket", "/s", code=2)
    assert "two servers: the host of --target-host, and --target-socket" in refused.output
    socket = {"SPIRIT_PY_TARGET_SOCKET": "/s"}
    assert where(asked(*BASE, "--target-host", "db2", env=socket))[:3] == ("db2", 3306, "")


@pytest.mark.parametrize("name", ["SPIRIT_PY_TARGET_HOST", "SPIRIT_PY_TARGET_PASSWORD"])
def test_the_target_can_come_from_the_environment(asked, name):
    """Every option has its variable, and no password shows."""
    options = asked(*BASE, "--target-table", "u", env={name: "s3cret"})
    assert "s3cret" in where(options)
    assert ("s3cret" in repr(options)) == (name != "SPIRIT_PY_TARGET_PASSWORD")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--database", "d"], "--table is missing"),
        (["--table", "t"], "--database is missing"),
        (BASE, "compared with itself"),
        ([*BASE, "--target-table", "t", "--target-host", "db1"], "compared with itself"),
        ([*BASE, "--target-host", "db2:1", "--target-port", "2"], "two ports"),
        ([*BASE, "--target-host", "db2:x"], "not a host and port"),
        ([*BASE, "--target-table", "u", "--map", "a"], "not OLD=NEW"),
        ([*BASE, "--target-table", "u", "--map", "=a"], "not OLD=NEW"),
        ([*BASE, "--target-table", "\udcff"], "--target-table holds bytes"),
        ([*BASE, "--target-table", "u", "--lock-wait-timeout", "nan"], "not a finite number"),
        ([*BASE, "--target-table", "u", "--report-json", "/no/such/r"], "not a directory"),
    ],
)
def test_a_wrong_command_line_is_refused(asked, arguments, part):
    """Exit code 2, cause and remedy, no traceback."""
    result = asked(*arguments, code=2)
    assert part in result.output
    assert "Traceback" not in result.output
