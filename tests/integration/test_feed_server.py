"""The change feed when the server itself goes away, and comes back as it was or as another."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING

import pytest

from mysql_server import ServerOptions, running
from spirit_py.errors import SchemaChanged
from spirit_py.mysql.connect import connect
from tests.fixtures.feed import Scene, fill
from tests.fixtures.mysql import PROVIDER, Database
from tests.kits.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mysql_server import MySQLServer


@pytest.fixture(
    params=[True, pytest.param(False, marks=pytest.mark.draws(2))], ids=["gtid", "file"]
)
def server(request: pytest.FixtureRequest) -> Iterator[MySQLServer]:
    """Return a server of the test's own."""
    options = ServerOptions(gtid=request.param, buffer_pool="32M", keeps_all=True)
    with running(options, provider=request.config.stash[PROVIDER]) as made:
        yield made


@pytest.fixture
def lone(server: MySQLServer) -> Iterator[Scene]:
    """Return a scene on that server."""
    made = Scene(Database(server, "lone"))
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "crash",
    [
        # A server that is shut down waits ten seconds for whoever reads its binlog.
        pytest.param(False, marks=pytest.mark.draws(1), id="restart"),
        pytest.param(True, id="crash"),
    ],
)
def test_the_feed_outlives_a_restart(lone: Scene, server: MySQLServer, crash: bool) -> None:
    """R12: the end of the stream is a fault; the same server is followed on."""
    lone.tables()
    feed = lone.open()
    fill(lone.db, 20)
    lone.drain()
    lone.db.execute("UPDATE t SET v = 'before' WHERE id < 5")
    if crash:
        server.kill()
        until(lambda: feed._stream.trouble != "")
        server.resume()
    else:
        server.restart()
    lone.db.reconnect()
    lone.db.execute("UPDATE t SET v = 'after' WHERE id > 15; DELETE FROM t WHERE id = 10")
    lone.drain()
    lone.assert_equal()
    assert feed.statistics().reconnects > 0
    assert lone.stop.reason is None


@pytest.mark.slow
def test_a_session_that_got_the_number_of_our_swap_is_another_one(
    lone: Scene, server: MySQLServer
) -> None:
    """R24, R25: ids begin again after a restart, and what an application truncates is noticed."""
    lone.tables()
    lone.open()
    with contextlib.ExitStack() as stack:
        for _ in range(30):
            swapping = stack.enter_context(connect(lone.options(), role="cutover"))
        lone.feed.expect_own_ddl(swapping.id, "RENAME TABLE t TO _t_old, _t_new TO t")
        server.kill()
        until(lambda: lone.feed._stream.trouble != "")
    server.resume()
    # Later it opens no session, which could get the number.
    until(lambda: lone.feed.statistics().reconnects > 0 and lone.feed._stream.trouble == "")
    lone.db.reconnect()
    with contextlib.ExitStack() as stack:
        numbers = (stack.enter_context(lone.db.connect()) for _ in range(swapping.id))
        application = next(one for one in numbers if one.thread_id() == swapping.id)
        application.query("TRUNCATE TABLE t")
    assert isinstance(lone.fault(), SchemaChanged)


@pytest.mark.slow
def test_weights_are_asked_for_when_the_server_is_back(lone: Scene, server: MySQLServer) -> None:
    """R6, R7: changes that were received before an outage wait for their weights, and are kept."""
    lone.tables("id VARCHAR(20) PRIMARY KEY, v VARCHAR(200), n INT")
    feed = lone.open()
    fill(lone.db, 20)
    lone.drain()
    before = feed.position()
    with feed._stream._weights._lent.lend():  # type: ignore[attr-defined]
        lone.db.execute("INSERT INTO t VALUES ('a', 'x', 100); UPDATE t SET id = 'A' WHERE n = 100")
        lone.db.execute("DELETE FROM t WHERE id = '7'")
        feed.block_wait()
        server.kill()
        until(lambda: feed._stream.trouble != "")
    assert feed.pending() > 0
    assert feed.position() == before
    server.resume()
    lone.db.reconnect()
    lone.db.execute("UPDATE t SET v = 'after' WHERE id = 'a'")
    lone.drain()
    lone.assert_equal()
    assert lone.stop.reason is None


@pytest.mark.slow
def test_another_server_behind_the_address_is_refused(lone: Scene, server: MySQLServer) -> None:
    """R14: after a failover the tables are not those that were followed."""
    lone.tables()
    feed = lone.open()
    fill(lone.db, 20)
    lone.drain()
    assert server.datadir is not None
    server.kill()
    until(lambda: feed._stream.trouble != "")
    identity = server.datadir / "auto.cnf"
    identity.write_text(f"[auto]\nserver-uuid={uuid.uuid4()}\n")
    server.resume()
    fault = lone.fault()
    assert isinstance(fault, SchemaChanged)
    assert "another server" in str(fault)
    lone.db.reconnect()
