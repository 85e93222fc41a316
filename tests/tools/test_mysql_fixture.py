"""The fixtures keep their promises: fresh schemas, faults on request, nothing left behind."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import MySQLdb
import pytest

from mysql_base import NamedServer, free_port, wait_until
from mysql_local import LocalServer
from mysql_server import MySQLServer, ServerError, ServerOptions, choose, running
from tests.fixtures.mysql import Database, connect
from tests.kits.waiting import until

if TYPE_CHECKING:
    from tests.fixtures.proxy import TcpProxy

LAUNCHER = """
import sys
from mysql_server import ServerOptions, choose
server = choose().make()
server.start(ServerOptions(buffer_pool="32M"))
print(server.pid, server.home, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def own() -> MySQLServer:
    """Return a throwaway server that is not started yet; a test without one cannot run."""
    environ = {k: v for k, v in os.environ.items() if k != "SPIRIT_PY_TEST_MYSQL"}
    return choose(environ).make()


@pytest.mark.gtid
def test_the_server_is_as_the_tests_need_it(db: Database) -> None:
    """The server with GTIDs writes full row images in ROW format and lets files be loaded."""
    assert db.query(
        "SELECT @@gtid_mode, @@log_bin, @@binlog_format, @@binlog_row_image, @@local_infile,"
        " @@secure_file_priv, @@max_connections, @@performance_schema"
    ) == [("ON", 1, "ROW", "FULL", 1, "", 500, 1)]


def test_the_file_server_has_no_gtids(db_file: Database) -> None:
    """The other server has none, and its schema is as fresh."""
    assert db_file.query("SELECT @@gtid_mode, @@log_bin, DATABASE()") == [("OFF", 1, db_file.name)]


def test_root_can_log_in_without_tls(db: Database) -> None:
    """The password works over plain TCP with the server's default authentication."""
    assert db.query("SHOW STATUS LIKE 'Ssl_cipher'") == [("Ssl_cipher", "")]
    assert db.query("SELECT plugin FROM mysql.user WHERE user = 'root' AND host = 'localhost'") == [
        ("caching_sha2_password",)
    ]


def test_at_teardown_the_schema_is_dropped_and_sessions_are_closed(mysql: MySQLServer) -> None:
    """After a test its schema is gone, and its own sessions do not count as left behind."""
    database = Database(mysql, "t_to_be_dropped")
    database.connect()
    database.execute("CREATE TABLE a (id INT); INSERT INTO a VALUES (1), (2)")
    assert database.query("SELECT id FROM a ORDER BY id") == [(1,), (2,)]
    assert database.close() == []
    with contextlib.closing(connect(mysql)) as session, session.cursor() as cursor:
        assert cursor.execute("SHOW DATABASES LIKE 't_to_be_dropped'") == 0


@pytest.mark.smoke
def test_a_session_left_behind_is_reported_with_its_locks(
    mysql: MySQLServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that survives its test is named with the locks it holds, and ended."""
    monkeypatch.setattr("tests.fixtures.mysql.GRACE", 0.1)
    database = Database(mysql, "t_left_behind")
    database.execute("CREATE TABLE a (id INT)")
    with contextlib.closing(connect(mysql, db=database.name)) as stray:
        stray.query("SELECT GET_LOCK('stray', 0)")
        stray.store_result()
        stray.query("LOCK TABLES a WRITE")
        number = stray.thread_id()
        report = "\n".join(database.close())
        with pytest.raises(MySQLdb.Error):
            stray.ping()
    assert f"session {number}: root Sleep" in report
    assert "'USER LEVEL LOCK', None, 'stray'" in report
    assert "'TABLE', 't_left_behind', 'a'" in report


def test_a_prepared_transaction_left_behind_is_reported(
    mysql: MySQLServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An undecided XA transaction is named and rolled back, so that it blocks no later test."""
    monkeypatch.setattr("tests.fixtures.mysql.GRACE", 0.1)
    database = Database(mysql, "t_prepared")
    database.execute("CREATE TABLE a (id INT)")
    other = database.connect()
    for sql in ("XA START 'left', 'b'", "INSERT INTO a VALUES (1)", "XA END 'left', 'b'"):
        other.query(sql)
    other.query("XA PREPARE 'left', 'b'")
    assert database.close() == ["prepared XA transaction X'6C656674', X'62', 1"]
    after = Database(mysql, "t_prepared")
    assert after.xa_transactions() == []
    after.close()


@pytest.mark.smoke
def test_sessions_of_strangers_on_a_named_server_are_left_alone(
    mysql: MySQLServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a session in the test's schema, or of the program, is ended; no XA is rolled back."""
    monkeypatch.setattr("tests.fixtures.mysql.GRACE", 0.1)
    database = Database(NamedServer(mysql.url, variable="A_VARIABLE"), "t_named")
    with (
        contextlib.closing(connect(mysql)) as stranger,
        contextlib.closing(connect(mysql, db=database.name)) as stray,
        contextlib.closing(connect(mysql)) as program,
    ):
        number = stranger.thread_id()
        program.query("SET @spirit_py_role = 'driver'")
        stranger.query("XA START 'theirs'")
        stranger.query("XA END 'theirs'")
        stranger.query("XA PREPARE 'theirs'")
        report = "\n".join(database.close())
        stranger.query("XA ROLLBACK 'theirs'")
        for ended in (stray, program):
            assert f"session {ended.thread_id()}: " in report
            with pytest.raises(MySQLdb.Error):
                ended.ping()
    assert f"session {number}: " not in report


def test_a_global_variable_is_put_back_at_teardown(mysql: MySQLServer) -> None:
    """What a test sets for the whole server is as before afterwards, numbers and words alike."""
    database = Database(mysql, "t_globals")
    question = "SELECT @@global.max_connect_errors, @@global.binlog_row_metadata"
    before = database.query(question)
    database.set_global("max_connect_errors", 77)
    database.set_global("binlog_row_metadata", "FULL")
    assert database.query(question) == [(77, "FULL")]
    database.close()
    after = Database(mysql, "t_globals")
    assert after.query(question) == before
    after.close()


def test_a_restart_keeps_data_and_port_and_takes_new_options(own: MySQLServer) -> None:
    """A restarted server has its data, listens where it did, and obeys a new option."""
    own.start(ServerOptions(buffer_pool="32M"))
    try:
        database = Database(own, "kept")
        database.execute("CREATE TABLE a (id INT PRIMARY KEY); INSERT INTO a VALUES (7)")
        port = own.port
        own.restart(extra=["--max-connections=51"])
        assert own.port == port
        database.reconnect()
        assert database.query("SELECT id, @@max_connections FROM a") == [(7, 51)]
        assert database.close() == []
    finally:
        own.stop()


def test_a_killed_server_recovers_what_was_committed(own: MySQLServer) -> None:
    """A killed server is gone at once and comes back with what was committed."""
    own.start(ServerOptions(buffer_pool="32M", extra=("--innodb-flush-log-at-trx-commit=1",)))
    try:
        database = Database(own, "kept")
        database.execute("CREATE TABLE a (id INT PRIMARY KEY); INSERT INTO a VALUES (7)")
        own.kill()
        with pytest.raises(ServerError, match=f"no MySQL server answers at .*:{own.port}"):
            own.version()
        own.resume()
        database.reconnect()
        assert database.query("SELECT id FROM a") == [(7,)]
        assert database.close() == []
    finally:
        own.stop()


def test_a_stopped_server_leaves_no_file_behind(own: MySQLServer) -> None:
    """After stop the folder is gone, and a second stop is harmless."""
    own.start(ServerOptions(buffer_pool="32M"))
    datadir = own.datadir
    own.stop()
    own.stop()
    assert datadir is None or not datadir.exists()


def test_a_bad_option_is_reported_in_the_servers_own_words(own: MySQLServer) -> None:
    """When mysqld refuses an option the error quotes its log."""
    with pytest.raises(ServerError, match="no-such-option"):
        own.start(ServerOptions(extra=("--no-such-option=1",)))


@pytest.mark.local_server
def test_a_port_that_was_taken_meanwhile_ends_no_start(
    own: MySQLServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fresh server takes another one; one that was there before waits for its own."""
    if not isinstance(own, LocalServer):
        pytest.skip("the ports of containers are the engine's")
    with socket.create_server(("127.0.0.1", 0)) as other:
        ports = iter((other.getsockname()[1], free_port()))
        monkeypatch.setattr("mysql_local.free_port", lambda: next(ports))
        own.start(ServerOptions(buffer_pool="32M", extra=("--log-error-verbosity=3",)))
    try:
        own.kill()
        with ThreadPoolExecutor(1) as pool:
            with socket.create_server(("127.0.0.1", own.port)):
                resumed = pool.submit(own.resume)
                until(lambda: "Retrying bind" in own.log_tail(), "mysqld's second try")
            resumed.result()
    finally:
        own.stop()


def test_two_servers_of_tests_with_one_seed_have_ports_and_numbers_of_their_own(
    own: MySQLServer,
) -> None:
    """Each test, and each process of a run, has the same numbers of `random`."""
    numbers, ports = {own.server_id}, set()
    for _ in range(4):
        random.seed(7)
        numbers |= {own.server_id, choose().make().server_id}
        ports.add(free_port())
    assert len(numbers) == 1 + 4
    assert len(ports) > 1


@pytest.mark.local_server
def test_a_server_dies_with_the_process_that_started_it(own: MySQLServer) -> None:
    """When the process that started a server is killed, server and folder go too."""
    if not isinstance(own, LocalServer):
        pytest.skip("a container is ended by its reaper, not by us")
    starter = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(choose.__code__.co_filename).parent,
    )
    with starter:
        assert starter.stdout
        pid, home = starter.stdout.readline().split()
        assert Path(f"/proc/{pid}").exists()
        starter.kill()
    assert wait_until(lambda: not Path(home).exists(), 60)
    assert wait_until(lambda: not _runs(int(pid)), 60)


def _runs(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def test_the_semi_synchronous_plugin_can_be_installed() -> None:
    """Commits can be stalled between binlog and visibility, which some tests need."""
    with running(ServerOptions(buffer_pool="32M")) as server:
        database = Database(server, "stalled")
        database.execute("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
        database.execute("UNINSTALL PLUGIN rpl_semi_sync_source")
        assert database.close() == []


@pytest.mark.smoke
def test_a_lost_reply_hides_a_statement_that_was_done(db: Database, proxy: TcpProxy) -> None:
    """Through the proxy a RENAME is done on the server while its client sees a lost connection."""
    db.execute("CREATE TABLE a (id INT)")
    connection = db.connect(host=proxy.host, port=proxy.port)
    proxy.lose_reply(b"RENAME TABLE")
    with pytest.raises(MySQLdb.OperationalError) as info:
        connection.query("RENAME TABLE a TO b")
    assert info.value.args[0] == 2013
    assert proxy.lost.is_set()
    assert db.query("SHOW TABLES") == [("b",)]


def test_a_session_that_has_ended_before_its_kill_is_no_failure(db: Database) -> None:
    """Between a look for a session and its KILL it may end by itself."""
    other = db.connect()
    number = other.thread_id()
    assert db.kill(number, query=True)
    assert db.kill(number)
    until(lambda: not db.kill(number), "the end of the session")


def test_no_lock_is_waited_for_longer_than_a_test_may_take(
    db: Database, request: pytest.FixtureRequest
) -> None:
    """What a test that failed has left locked would otherwise keep its teardown for ever."""
    limit = float(request.config.getini("timeout"))
    with db.connect() as other, other.cursor() as cursor:
        cursor.execute("SELECT @@SESSION.lock_wait_timeout")
        assert float(cursor.fetchone()[0]) < limit
    assert float(db.query("SELECT @@SESSION.lock_wait_timeout")[0][0]) < limit
