"""A rehearsal on a replica: it copies, follows and compares there, and leaves it as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spirit_py.config import MigrationConfig
from spirit_py.errors import Refusal
from spirit_py.migration.cleanup import clean_up
from spirit_py.migration.control.command import control
from spirit_py.migration.listing import migrations
from spirit_py.plan import make_plan
from tests.kits.connection import options_of
from tests.kits.migrate import Migrating
from tests.kits.replica import ACCOUNT, ReplicatedPair, replicated_pair
from tests.kits.resume import once_at
from tests.kits.waiting import until

ROWS = 5000


class Killed(BaseException):
    """No program code handles it."""


@pytest.fixture(scope="module", params=[True, False], ids=["gtid", "file"])
def pair(request):
    """Run a source and a replica, which takes no writes of others."""
    with replicated_pair(gtid=request.param) as both:
        both.at.execute("CREATE DATABASE r")
        both.at.execute(f"GRANT ALL ON *.* TO {ACCOUNT}")
        both.at.execute("CREATE TABLE r.t (id INT PRIMARY KEY, v INT)")
        both.at.execute("SET SESSION cte_max_recursion_depth = 1000000")
        both.at.execute(
            "INSERT INTO r.t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
            f" WHERE i < {ROWS}) SELECT i, i * 3 FROM n"
        )
        until(lambda: both.rows() == ROWS, "the rows on the replica")
        both.of.execute("SET GLOBAL read_only = ON")
        yield both


def config(pair: ReplicatedPair, **more: Any) -> MigrationConfig:
    """Return the configuration of a rehearsal on the replica."""
    there: dict[str, Any] = {"user": ACCOUNT, "password": pair.source.password, "unlogged": True}
    connection = replace(options_of(pair.replica), **there)
    given: dict[str, Any] = {"alter": "ADD COLUMN z INT NOT NULL DEFAULT 5", "no_shortcut": True}
    given["dry_run"] = True
    return MigrationConfig(
        connection=connection,
        database="r",
        table="t",
        threads=2,
        target_chunk_time=0.02,
        max_lag=None,
        **given | more,
    )


def values(pair: ReplicatedPair, sql: str) -> list[Any]:
    """Return the first column of what the replica answers."""
    pair.of.execute(sql)
    return [row[0] for row in pair.of.fetchall()]


def own_writes(pair: ReplicatedPair) -> list[str]:
    """Return the transactions of the replica's binlog that its source did not send."""
    (server,) = values(pair, "SELECT @@server_id")
    found = []
    for file in values(pair, "SHOW BINARY LOGS"):
        pair.of.execute(f"SHOW BINLOG EVENTS IN '{file}'")
        events = [(kind, by, text) for _, _, kind, by, _, text in pair.of.fetchall()]
        found += [text for kind, by, text in events if "Gtid" in kind and by == server]
    return found


def assert_as_it_was(pair: ReplicatedPair) -> None:
    """Nothing is left on the replica, and its GTIDs are those of its source."""
    assert values(pair, "SHOW TABLES IN r") == ["t"]
    assert own_writes(pair) == []
    pair.at.execute("SELECT @@GLOBAL.gtid_executed")
    executed = pair.at.fetchall()[0][0]
    pair.of.execute("SELECT GTID_SUBTRACT(@@GLOBAL.gtid_executed, %s)", [executed])
    assert pair.of.fetchall()[0][0] == ""
    pair.at.execute("REPLACE INTO r.t VALUES (1, -7)")
    until(lambda: values(pair, "SELECT v FROM r.t WHERE id = 1") == [-7], "replication goes on")


def test_the_writes_of_the_source_are_followed(pair, engine, monkeypatch):
    """They arrive while rows are copied; the comparison finds no difference."""

    def write() -> None:
        pair.at.execute("UPDATE r.t SET v = v + 1 WHERE id <= 100")
        pair.at.execute("DELETE FROM r.t WHERE id = 4999")
        pair.at.execute("INSERT INTO r.t VALUES (9000, 1)")
        until(lambda: 1 in values(pair, "SELECT v FROM r.t WHERE id = 9000"), "the writes")

    once_at(monkeypatch, "chunk.committed", write)
    running = Migrating(engine, config(pair))
    report = running.end()
    assert report.outcome == "rehearsed"
    assert report.chunks_repaired == 0
    assert report.rows_copied >= ROWS - 1
    assert_as_it_was(pair)


@pytest.mark.slow
def test_a_request_to_a_rehearsal_is_not_logged(pair, engine, monkeypatch):
    """The replica's own replicas have no table for it, and its GTIDs are those of its source."""
    said: list[str] = []

    def ask() -> None:
        there = replace(config(pair).connection, unlogged=False)
        given = {"nice": "0.5"}
        control(there, database="r", table="t", verb="set", arguments=given, say=said.append)

    once_at(monkeypatch, "chunk.committed", ask)
    assert Migrating(engine, config(pair)).end().outcome == "rehearsed"
    assert said
    assert_as_it_was(pair)


@pytest.mark.slow
def test_what_a_killed_rehearsal_leaves_is_dropped_by_the_next(pair, engine, monkeypatch):
    """Past the binary log, too."""

    def kill() -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("spirit_py.migration.auxiliary.leave", lambda *_, **__: None)
        once_at(patched, "checksum.begin", kill)
        with pytest.raises(Killed):
            Migrating(engine, config(pair)).end()
    assert "_t_new" in values(pair, "SHOW TABLES IN r")
    # Cleanup would drop them with the binary log on, also where others may write to the replica.
    pair.of.execute("SET GLOBAL read_only = OFF")
    try:
        agreed: dict[str, Any] = dict.fromkeys(("ask", "ask_old", "say"), lambda *_: True)
        there = replace(config(pair).connection, unlogged=False)
        with pytest.raises(Refusal, match="of a rehearsal on a replica, past the binary log"):
            clean_up(there, database="r", table="t", **agreed)
        (shown,) = migrations(there, database="r", table="t", max_age=86400.0)
        assert (shown.again, shown.command) == ("start afresh", "")
        with pytest.raises(Refusal, match="was stopped") as refused:
            control(there, database="r", table="t", verb="pause", arguments={}, say=lambda _: None)
        assert "cleanup" not in refused.value.hint
    finally:
        pair.of.execute("SET GLOBAL read_only = ON")
    assert own_writes(pair) == []
    assert Migrating(engine, config(pair)).end().outcome == "rehearsed"
    assert_as_it_was(pair)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["create.named", "checksum.begin"])
def test_what_a_run_on_the_primary_has_left_is_not_dropped(pair, engine, monkeypatch, point):
    """It came by replication, which would stop."""

    def kill() -> None:
        raise Killed

    there = replace(config(pair, dry_run=False), connection=pair.options)
    with monkeypatch.context() as patched:
        patched.setattr("spirit_py.migration.auxiliary.leave", lambda *_, **__: None)
        once_at(patched, point, kill)
        with pytest.raises(Killed):
            Migrating(engine, there).end()
    until(lambda: "_t_chkpnt" in values(pair, "SHOW TABLES IN r"), "it on the replica")
    until(lambda: 1 in values(pair, "SELECT id FROM r._t_chkpnt"), "its record")
    with pytest.raises(Refusal, match="on another server is under way") as refused:
        Migrating(engine, config(pair, alter="ADD COLUMN other INT")).end()
    assert "clean up there" in refused.value.hint
    planned = make_plan(config(pair, alter="ADD COLUMN other INT")).refusals
    assert any("on another server is under way" in note.cause for note in planned)
    assert "_t_chkpnt" in values(pair, "SHOW TABLES IN r")
    agreed: dict[str, Any] = dict.fromkeys(("ask", "ask_old", "say"), lambda *_: True)
    clean_up(pair.options, database="r", table="t", **agreed)
    until(lambda: values(pair, "SHOW TABLES IN r") == ["t"], "the cleanup on the replica")
    assert_as_it_was(pair)


@pytest.mark.slow
def test_a_name_that_is_taken_there_is_not_to_be_dropped_there(pair, engine):
    """Replication has brought the table, and would stop."""
    pair.at.execute("CREATE TABLE r._t_old (id INT PRIMARY KEY)")
    until(lambda: "_t_old" in values(pair, "SHOW TABLES IN r"), "it on the replica")
    with pytest.raises(Refusal, match="_t_old exists") as refused:
        Migrating(engine, config(pair)).end()
    said = f"{refused.value.hint} {refused.value.details}"
    assert "goes only by what is done there" in said
    assert "DROP" not in said
    pair.at.execute("DROP TABLE r._t_old")
    until(lambda: values(pair, "SHOW TABLES IN r") == ["t"], "the drop on the replica")
    assert_as_it_was(pair)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "cause"),
    [("super_read_only", r"takes no writes \(super_read_only=ON\)"), ("", "is no replica")],
)
def test_where_it_cannot_be_it_is_refused(pair, engine, setting, cause):
    """A replica that takes no writes at all, and a server that is none."""
    wanted = config(pair)
    if setting:
        pair.of.execute(f"SET GLOBAL {setting} = ON")
    else:
        wanted = replace(wanted, connection=replace(pair.options, unlogged=True))
    try:
        with pytest.raises(Refusal, match=cause):
            Migrating(engine, wanted).end()
    finally:
        pair.of.execute("SET GLOBAL super_read_only = OFF")
    assert_as_it_was(pair)


@pytest.mark.slow
@pytest.mark.parametrize("instant", [True, False])
def test_a_change_past_the_log_is_refused_where_it_is_no_rehearsal(pair, engine, instant):
    """Whoever would make it; the primary would be without it."""
    wanted = config(pair, dry_run=False, no_shortcut=not instant)
    with pytest.raises(Refusal, match="past the binary log"):
        Migrating(engine, wanted).end()
    assert values(pair, "SHOW COLUMNS FROM r.t") == ["id", "v"]
    assert_as_it_was(pair)


@pytest.mark.slow
def test_an_account_that_may_not_write_past_the_log_is_told_so(pair, engine):
    """Before anything is written there."""
    pair.at.execute("CREATE USER plain IDENTIFIED BY 'p'")
    pair.at.execute("GRANT SELECT, PROCESS, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO plain")
    until(lambda: "plain" in values(pair, "SELECT User FROM mysql.user"), "the account")
    wanted = config(pair)
    plain = replace(wanted.connection, user="plain", password="p")
    with pytest.raises(Refusal, match="may not write past the binary log"):
        Migrating(engine, replace(wanted, connection=plain)).end()
