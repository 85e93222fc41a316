"""A server that loses commits, or its binary log, under a run or between two (R25)."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import MySQLdb
import pytest

from mysql_server import ServerOptions, running
from spirit_py import points
from spirit_py.archiving.folder import ArchiveFailure
from spirit_py.binlog import sessions
from spirit_py.binlog.position import GtidSet
from spirit_py.binlog.source import BinlogSource
from spirit_py.checkpoint.writer import CheckpointWriter
from spirit_py.checksum.result import ChecksumOptions
from spirit_py.codes import ErrorCode
from spirit_py.config import FeedOptions
from spirit_py.errors import HistoryLost, Refusal, SpiritError
from spirit_py.events.copy import ChecksumDone
from spirit_py.migration.swap.old_table_writes import OldTableWrites
from spirit_py.mysql.connect import connect as session_on
from spirit_py.mysql.facts import look_at
from spirit_py.mysql.replication import end_of_binlog
from spirit_py.mysql.tables.definition import read_table
from spirit_py.threads import StopSwitch
from tests.fixtures.mysql import PROVIDER, Database, connect
from tests.kits.connection import connection_options
from tests.kits.engine import ThreadEngine
from tests.kits.migrate import config_for
from tests.kits.reporter import RecordingReporter
from tests.kits.resume import Interruption, make_table, once_at, start
from tests.kits.tables import open_session, tables
from tests.kits.waiting import until
from tests.kits.watch import Watching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mysql_server import MySQLServer
    from spirit_py.events.event import Event
    from tests.kits.migrate import Migrating

#: Of another server.
FOREIGN = "3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5000000"
#: Nothing is written to the redo log but by FLUSH ENGINE LOGS and DDL.
FORGETFUL = (
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-flush-log-at-timeout=2700",
    "--innodb-idle-flush-pct=0",
)

DUMPS = "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'"

Lone = tuple["MySQLServer", Database]


@contextlib.contextmanager
def a_server(
    request: pytest.FixtureRequest, *extra: str, gtid: bool, keeps_all: bool = False
) -> Iterator[Lone]:
    """Run a server of the test's own, with a table in a schema."""
    options = ServerOptions(gtid=gtid, buffer_pool="64M", extra=extra, keeps_all=keeps_all)
    with running(options, provider=request.config.stash[PROVIDER]) as server:
        db = Database(server, "lone")
        make_table(db)
        yield server, db


@pytest.fixture(
    params=[True, pytest.param(False, marks=pytest.mark.draws(2))], ids=["gtid", "file"]
)
def gtid(request: pytest.FixtureRequest) -> bool:
    """Return whether the server has GTIDs."""
    return bool(request.param)


@pytest.fixture
def forgetful(request: pytest.FixtureRequest, gtid: bool) -> Iterator[Lone]:
    """Return a server that forgets its commits when it is killed."""
    with a_server(request, *FORGETFUL, gtid=gtid) as lone:
        yield lone


@pytest.fixture
def server(request: pytest.FixtureRequest, gtid: bool) -> Iterator[Lone]:
    """Return a server that forgets nothing."""
    with a_server(request, gtid=gtid) as lone:
        yield lone


def crash(server: MySQLServer, db: Database) -> None:
    """Kill the server, and bring it back."""
    server.kill()
    server.resume()
    db.reconnect()


def reset(db: Database) -> None:
    """Begin the binary log anew."""
    old = db.query("SELECT VERSION()")[0][0].startswith("8.0")
    db.execute("RESET MASTER" if old else "RESET BINARY LOGS AND GTIDS")


def when_compared(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Act when a migration has compared everything for the first time: the feed drains after it."""
    left = [act]
    report = RecordingReporter.event

    def event(self: RecordingReporter, event: Event) -> None:
        report(self, event)
        if isinstance(event, ChecksumDone) and left:
            left.pop()()

    monkeypatch.setattr(RecordingReporter, "event", event)


def begin(db: Database, **config: Any) -> Migrating:
    """Begin the migration on threads."""
    return start(cast("Any", ThreadEngine()), db, **config)


def fails(run: Migrating) -> ErrorCode:
    """Wait until a migration has failed cleanly, and can be resumed; return its code."""
    with pytest.raises(SpiritError) as caught:
        run.end()
    assert caught.value.exit_code == 1, run.told.text
    assert caught.value.resumable
    return caught.value.error_code


def rows(db: Database) -> list[tuple[Any, ...]]:
    """Return the rows of the table as it was before the migration."""
    db.reconnect()
    return db.query("SELECT id, a, b FROM t ORDER BY id")


def carry_on(db: Database) -> str:
    """Run the same command to its end: it has the source's rows; return what it said."""
    expected = rows(db)
    run = begin(db)
    run.end()
    assert rows(db) == expected, run.told.text
    assert not [name for name in tables(db) if name.startswith("_")]
    return run.told.text


def write(db: Database, text: str = "later") -> None:
    """Change some rows that were compared first, each in a transaction."""
    for number in range(1, 10):
        db.execute("UPDATE t SET b = %s WHERE id = %s", (text, number * 2))


@pytest.mark.slow
def test_what_a_crash_took_back_of_the_copy_is_not_swapped_in(
    forgetful: Lone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R25: the source keeps changes whose copies are lost: the run ends, the next compares."""
    server, db = forgetful

    def lasting() -> None:
        write(db)
        db.execute("FLUSH ENGINE LOGS")

    when_compared(monkeypatch, lasting)
    once_at(monkeypatch, "cutover.lock", partial(crash, server, db))
    assert fails(begin(db)) is ErrorCode.SERVER_RESTARTED
    assert "the server was restarted since" in carry_on(db)


@pytest.mark.slow
def test_a_crash_while_rows_are_copied_ends_the_run(
    forgetful: Lone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R25: chunks may be lost, and so may what the feed has received; the next run resumes."""
    server, db = forgetful
    once_at(monkeypatch, "chunk.committed", partial(crash, server, db))
    assert fails(begin(db, target_chunk_time=0.01)) is ErrorCode.SERVER_RESTARTED
    carry_on(db)


@pytest.mark.slow
def test_a_crash_between_two_runs_has_everything_compared(
    forgetful: Lone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R25: the binary log keeps changes that the source lost, of rows that were compared before."""
    server, db = forgetful
    stop_while_comparing(db, monkeypatch)
    # The server writes its log for its own reasons, too: on a busy machine in between.
    for attempt in range(10):
        db.execute("FLUSH ENGINE LOGS")
        before = rows(db)
        write(db, f"later {attempt}")
        crash(server, db)
        if rows(db) == before:
            break
    assert rows(db) == before, "the server has lost nothing: nothing is tried here"
    carry_on(db)


def stop_while_comparing(db: Database, monkeypatch: pytest.MonkeyPatch) -> int:
    """Interrupt a migration whose checksum has compared a part, which the next run trusts.

    Returns:
        When the file of the binary log was created that the feed has read.
    """
    small: dict[str, Any] = {"checksum_yield_timeout": 1e-6, "threads": 1}
    with monkeypatch.context() as patched:
        defaults: Any = ChecksumOptions.__init__
        patched.setitem(defaults.__kwdefaults__, "first_rows", 100)
        engine: Any = ThreadEngine()
        Interruption(patched).at(engine, db, "checksum.begin", 2, **small)
    record = json.loads(str(db.query("SELECT record FROM _t_chkpnt")[0][0]))
    assert record["tables"][0]["checked_up_to"]
    assert record["settled_at"]
    assert record["origin"]["created"]
    return int(record["origin"]["created"])


@pytest.fixture
def breakable(
    request: pytest.FixtureRequest, gtid: bool, tmp_path: Path
) -> Iterator[tuple[MySQLServer, Database, Path]]:
    """Return a server that goes on without its binary log, and the folder of that."""
    folder = tmp_path / "logs"
    folder.mkdir()
    extra = (f"--log-bin={folder}/binlog", "--binlog-error-action=IGNORE_ERROR")
    with a_server(request, *extra, gtid=gtid) as (server, db):
        yield server, db, folder


def lose_the_log(db: Database, folder: Path) -> None:
    """Have an error switch the binary log off."""
    away = folder.rename(folder.with_name("away"))
    with pytest.raises(MySQLdb.Error):
        db.execute("FLUSH BINARY LOGS")
    away.rename(folder)
    assert db.query("SELECT @@GLOBAL.log_bin") == [(1,)]


@pytest.mark.slow
def test_watch_ends_where_the_log_is_no_more_the_one_it_follows(
    breakable: tuple[MySQLServer, Database, Path],
) -> None:
    """R25: the stream itself only waits: what is written meanwhile is in no line."""
    _, db, folder = breakable
    for lose in (partial(reset, db), partial(lose_the_log, db, folder)):
        with contextlib.closing(Watching(db, "--heartbeat", "1s")) as found:
            found.started()
            lose()
            assert found.ended() == 1
        assert found.lines[-1]["reason"] == "failed"
        hint = found.errors.partition("hint: ")[2].partition("\n")[0]
        assert "take a new snapshot, and follow from it" in hint
        assert "same command" not in hint


def followed(db: Database, *arguments: str) -> Watching:
    """Run ``watch`` up to now."""
    with contextlib.closing(Watching(db, *arguments, "--until", "now")) as found:
        found.ended()
    return found


@pytest.mark.slow
def test_watch_does_not_go_on_after_a_crash_that_may_have_lost_commits(
    request: pytest.FixtureRequest, gtid: bool
) -> None:
    """R25: what is written after it may have the numbers, or the place, of what was printed."""
    with a_server(request, gtid=gtid, keeps_all=True) as (server, db):
        before = followed(db).lines[-1]["position"]
        db.execute("UPDATE t SET b = 'later' WHERE id = 2")
        crash(server, db)
        after = followed(db, "--from", before)
        assert [line["kind"] for line in after.lines[1:-1]] == ["begin", "update", "commit"]
        # The setting is the default again after a crash: only the position tells of it.
        db.set_global("sync_binlog", "0")
        last = followed(db, "--from", after.lines[-1]["position"]).lines[-1]["position"]
        crash(server, db)
        lost = followed(db, "--from", last)
        assert lost.lines == []
        assert "may have lost committed changes (sync_binlog=0)" in lost.errors
        assert "hint: take a new snapshot" in lost.errors
        known = last.partition(";start=")[0]
        assert [line["kind"] for line in followed(db, "--from", known).lines] == ["start", "end"]


@pytest.mark.slow
def test_writes_without_a_binary_log_are_not_lost(
    breakable: tuple[MySQLServer, Database, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R25: IGNORE_ERROR switches the log off, log_bin stays ON, and GTIDs prove nothing then."""
    server, db, folder = breakable
    db.execute("CREATE TABLE other LIKE t")

    def write_unlogged() -> None:
        lose_the_log(db, folder)
        write(db)

    when_compared(monkeypatch, write_unlogged)
    assert fails(begin(db)) is ErrorCode.BINLOG_LOST
    assert fails(begin(db)) is ErrorCode.BINLOG_LOST
    with pytest.raises(Refusal, match="binary log is off"):
        start(cast("Any", ThreadEngine()), db, table="other").end()
    server.restart()
    assert "the server was restarted since" in carry_on(db)


@pytest.mark.slow
def test_what_a_server_wrote_without_its_log_before_a_restart_is_compared(
    request: pytest.FixtureRequest, gtid: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """R25: nobody was connected meanwhile, and no setting is relaxed: all is compared, once."""
    hidden = tmp_path / "hidden.sql"
    hidden.write_text("SET sql_log_bin=0;\nUPDATE lone.t SET b = 'hidden' WHERE id < 20;\n")
    with a_server(request, gtid=gtid, keeps_all=True) as (server, db):
        restart = partial(server.restart, extra=[f"--init-file={hidden}"])
        when_compared(monkeypatch, restart)
        run = begin(db)
        run.end()
        db.reconnect()
        left = db.query("SELECT SUM(b = 'hidden') > 0, SUM(id < 20 AND b <> 'hidden') FROM t")
        assert left == [(1, 0)]
        assert run.told.text.count("again: the server was restarted or") == 1


@pytest.mark.slow
@pytest.mark.parametrize("cut", [False, True], ids=["streaming", "connected-again"])
def test_transactions_that_are_only_set_as_purged_are_not_waited_for(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, cut: bool
) -> None:
    """R12: the import of another server's dump sets them; what it loaded unlogged is compared."""
    with a_server(request, gtid=True) as (server, db):

        def load_a_dump() -> None:
            with contextlib.closing(connect(server, db="lone")) as other, other.cursor() as cursor:
                cursor.execute("SET sql_log_bin = 0")
                cursor.execute("UPDATE t SET b = 'loaded' WHERE id < 20")
            db.execute(f"SET GLOBAL gtid_purged = '+{FOREIGN}'")
            for (number,) in db.query(DUMPS) if cut else ():
                db.kill(number)

        when_compared(monkeypatch, load_a_dump)
        run = begin(db)
        run.end()
        assert db.query("SELECT COUNT(*) FROM t WHERE id < 20 AND b <> 'loaded'") == [(0,)]
        assert f"somebody has set {FOREIGN.lower()} in gtid_purged" in run.told.text


@pytest.mark.slow
def test_an_archive_does_not_wait_for_what_is_only_set_as_purged(
    request: pytest.FixtureRequest,
) -> None:
    """Whether the old table was written to is known all the same (R12)."""
    with a_server(request, gtid=True) as (_, db):
        config = config_for(db, table="t")
        with session_on(config.connection, role="test") as session:
            table = read_table(session, db.name, "t")
        assert table is not None
        impatient = replace(config.feed, wait_timeout=5.0)
        followed = OldTableWrites(
            config.connection, impatient, [table], position="", stop=StopSwitch()
        )
        with contextlib.closing(followed):
            write(db)
            with pytest.raises(ArchiveFailure, match="somebody wrote to"):
                followed.require_none()
            db.execute(f"SET GLOBAL gtid_purged = '+{FOREIGN}'")
            with pytest.raises(ArchiveFailure, match="somebody wrote to"):
                followed.require_none()


@pytest.mark.slow
def test_watch_does_not_wait_for_what_is_only_set_as_purged(request: pytest.FixtureRequest) -> None:
    """R17: its positions have it, without a table that is read; else the server refuses them."""
    with a_server(request, gtid=True) as (_, db), contextlib.ExitStack() as stack:
        db.execute("CREATE TABLE u (id INT PRIMARY KEY)")
        first = Watching(db, "--table", "u", "--heartbeat", "1s").started()
        stack.callback(first.close)
        db.execute("INSERT INTO u VALUES (1)")
        first.until(lambda lines: "commit" in [line["kind"] for line in lines])
        db.execute(f"SET GLOBAL gtid_purged = '+{FOREIGN}'")
        first.until(lambda lines: FOREIGN.lower() in lines[-1]["position"])
        second = Watching(
            db, "--table", "u", "--from", first.lines[-1]["position"], "--until", "now"
        )
        stack.callback(second.close)
        assert second.ended() == 0, second.errors


@pytest.mark.slow
def test_a_reset_before_the_swap_is_not_taken_for_a_feed_that_has_caught_up(
    server: Lone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R25: what is received must be executed too, and lie within the log."""
    _, db = server

    def begin_anew() -> None:
        reset(db)
        write(db)

    when_compared(monkeypatch, begin_anew)
    assert fails(begin(db)) is ErrorCode.BINLOG_LOST
    carry_on(db)


@pytest.mark.slow
def test_numbers_prove_nothing_where_not_every_transaction_has_one(
    request: pytest.FixtureRequest,
) -> None:
    """R25: a commit without a GTID is in the log, and gtid_executed does not know it."""
    with a_server(request, gtid=True) as (_, db):
        source = BinlogSource(connection_options(db), FeedOptions())
        try:
            received: Any = source.executed()
            for mode in ("ON_PERMISSIVE", "OFF_PERMISSIVE"):
                db.execute(f"SET GLOBAL gtid_mode = {mode}")
            write(db)
            with pytest.raises(HistoryLost, match="gtid_mode is OFF_PERMISSIVE"):
                received.reaches(source.executed())
        finally:
            source.close()


@pytest.mark.slow
def test_the_order_of_the_log_proves_nothing_once_commits_leave_it(
    request: pytest.FixtureRequest,
) -> None:
    """Preflight has seen it ON; with GTIDs it does not matter."""
    for gtid in (False, True):
        with a_server(request, gtid=gtid) as (_, db):
            source = BinlogSource(connection_options(db), FeedOptions())
            db.execute("SET GLOBAL binlog_order_commits = OFF")
            if gtid:
                source.executed()
            else:
                with pytest.raises(HistoryLost, match="binlog_order_commits is OFF") as lost:
                    source.executed()
                assert lost.value.error_code is ErrorCode.SERVER_SETTINGS
                assert source.lapses == 1
            source.close()
            # Nothing is read beside these.
            command = Watching(db, "--table", "t", "--until", "now")
            try:
                assert command.ended() == 0, command.errors
            finally:
                command.close()


@pytest.mark.slow
def test_what_was_compared_before_the_log_lost_its_order_is_compared_again(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R25: the next run compares every row, as the hint says."""
    with a_server(request, gtid=False) as (_, db):
        passed: list[str] = []

        def compared() -> tuple[str, ...]:
            ((record,),) = db.query("SELECT record FROM _t_chkpnt WHERE id = 1")
            return tuple(json.loads(str(record))["tables"][0]["checked_up_to"])

        def at(name: str) -> None:
            passed.append(name)
            if name == "checksum.begin" and passed.count(name) == 2:
                until(compared, "a record of what is compared")
                db.execute("SET GLOBAL binlog_order_commits = OFF")

        options, writer = cast("Any", ChecksumOptions.__init__), cast("Any", CheckpointWriter)
        monkeypatch.setitem(options.__kwdefaults__, "first_rows", 100)
        monkeypatch.setitem(writer.__init__.__kwdefaults__, "period", 0.05)
        monkeypatch.setattr(points, "_listener", "here")
        monkeypatch.setattr(points, "_announce", at)
        run = begin(db, checksum_yield_timeout=1e-6, threads=1)
        assert fails(run) is ErrorCode.SERVER_SETTINGS
        assert compared() == ()
        db.execute("SET GLOBAL binlog_order_commits = ON")
        carry_on(db)


@pytest.mark.slow
def test_a_reset_between_two_runs_is_noticed_where_the_log_has_grown_again(
    server: Lone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R25: names of files and numbers of transactions are the same, and mean something else."""
    _, db = server
    created = stop_while_comparing(db, monkeypatch)
    # The files tell their creation in whole seconds.
    until(lambda: db.query("SELECT UNIX_TIMESTAMP()")[0][0] > created)
    end, count = log_size(db), transactions(db)
    reset(db)
    write(db)
    db.execute("CREATE TABLE other (a LONGTEXT)")
    while log_size(db) <= end or transactions(db) < count:
        db.execute("INSERT INTO other VALUES (REPEAT('x', 1000))")
    assert "reset" in carry_on(db)


def log_size(db: Database) -> int:
    """Return the size of the newest file of the binary log."""
    return int(db.query("SHOW BINARY LOGS")[-1][1])


def transactions(db: Database) -> int:
    """Return how many transactions the server has executed; 0 without GTIDs."""
    executed = GtidSet.parse(db.query("SELECT @@GLOBAL.gtid_executed")[0][0])
    return sum(stop - first for _, first, stop in executed.ranges())


def test_a_server_that_started_by_a_clock_ahead_has_one_start(db):
    """Its Uptime is negative, and shown unsigned; a session's clock is all that this takes."""
    with open_session(db) as session:
        started = look_at(session).started
        session.execute("SET SESSION timestamp = 1000000")
        assert look_at(session).started == started


@pytest.mark.slow
def test_behind_a_file_of_more_than_4_gib_the_place_is_in_the_next_one(
    db_file: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One transaction makes it so long, and the server begins the next file a moment after it.

    The file is as long as ever; the first answers say otherwise.
    """
    lies = [2**32 + 7] * 2

    def end(session: Any) -> Any:
        found = end_of_binlog(session)
        return found._replace(offset=lies.pop()) if lies else found

    with open_session(db_file) as session:
        source = BinlogSource(connection_options(db_file), FeedOptions())
        monkeypatch.setattr(sessions, "end_of_binlog", end)
        try:
            place = source.position_here(session)
        finally:
            source.close()
    assert not lies
    assert place.startswith("file;")


def test_a_place_is_read_although_its_first_query_is_killed(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the place behind a swap the old table is not followed, and nobody asks again."""
    left = [look_at]

    def look(session: Any) -> Any:
        if left:
            left.clear()
            session.execute(f"KILL QUERY {session.id}")
        return look_at(session)

    with open_session(db) as session:
        source = BinlogSource(connection_options(db), FeedOptions())
        monkeypatch.setattr(sessions, "look_at", look)
        try:
            assert source.position_here(session)
        finally:
            source.close()
    assert not left
