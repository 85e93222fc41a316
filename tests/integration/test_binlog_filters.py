"""A server with binlog_do_db or binlog_ignore_db is refused, whichever schemas the lists name."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from mysql_server import ServerOptions, running
from spirit_py.codes import ErrorCode
from spirit_py.config import FeedOptions
from spirit_py.errors import FeedFailure, Refusal
from spirit_py.migration.swap.swap import PairSwap
from spirit_py.mysql.connect import connect
from spirit_py.watch.source import ScopeSource
from tests.fixtures.feed import Scene, fill
from tests.fixtures.mysql import PROVIDER, Database
from tests.kits.connection import options_of
from tests.kits.engine import ThreadEngine
from tests.kits.resume import make_table, start
from tests.kits.tables import tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mysql_server import MySQLServer
    from spirit_py.cutover.plan import CutoverResult


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[MySQLServer]:
    """Return a server of the test's own, with the options of its parameter."""
    filters = getattr(request, "param", ())
    options = ServerOptions(buffer_pool="32M", keeps_all=True, extra=filters)
    with running(options, provider=request.config.stash[PROVIDER]) as made:
        yield made


@pytest.fixture
def shop(server: MySQLServer) -> Iterator[Database]:
    """Return a schema ``shop`` beside a schema ``scratch``."""
    made = Database(server, "shop")
    made.execute("CREATE DATABASE scratch")
    try:
        yield made
    finally:
        made.close()


def truncate_from_scratch(shop: Database) -> None:
    """Empty the table, by a session whose default schema is another one."""
    session = shop.connect(db="scratch")
    with session.cursor() as cursor:
        cursor.execute("TRUNCATE TABLE shop.t")


@pytest.mark.parametrize(
    ("server", "named"),
    [
        (("--binlog-ignore-db=scratch",), "binlog_ignore_db=scratch"),
        (("--binlog-do-db=shop", "--binlog-do-db=other"), "binlog_do_db=other,shop"),
    ],
    indirect=["server"],
    ids=["ignore", "do"],
)
def test_a_filter_of_another_schema_hides_no_truncate(shop, monkeypatch, named):
    """R25: DDL is filtered by the default schema of its session, so every list is refused."""
    make_table(shop, 50)
    engine: Any = ThreadEngine()
    swap = PairSwap.run

    def truncated_first(self: PairSwap) -> CutoverResult:
        truncate_from_scratch(shop)
        return swap(self)

    monkeypatch.setattr(PairSwap, "run", truncated_first)
    with pytest.raises(Refusal, match=named) as caught:
        start(engine, shop).end()
    assert caught.value.error_code is ErrorCode.BINLOG_FILTERED
    assert tables(shop) == ["t"]


@pytest.mark.slow
def test_a_server_that_comes_back_with_a_filter_ends_the_feed(server, shop):
    """R25: the lists are read at each connection of the feed, and again under the lock."""
    scene = Scene(shop)
    try:
        scene.tables()
        feed = scene.open()
        fill(shop, 20)
        scene.drain()
        # A server that is shut down waits ten seconds for whoever reads its binlog.
        server.kill()
        server.restart(extra=("--binlog-ignore-db=scratch",))
        shop.reconnect()
        truncate_from_scratch(shop)
        fault = scene.fault()
        assert isinstance(fault, FeedFailure)
        assert fault.error_code is ErrorCode.BINLOG_FILTERED
        under_lock = feed._stream.executed
        with (
            connect(options_of(server), role="test") as session,
            pytest.raises(FeedFailure, match="binlog_ignore_db=scratch"),
        ):
            under_lock(session)
    finally:
        scene.close()
    with (
        contextlib.closing(
            ScopeSource(options_of(server), FeedOptions(), database="", table="")
        ) as watched,
        pytest.raises(FeedFailure, match="binlog_ignore_db=scratch"),
    ):
        watched.open("")


@pytest.mark.slow
@pytest.mark.logged_cascades
def test_a_server_that_comes_back_with_native_foreign_keys_ends_the_feed(server, shop):
    """R25: then cascades are in no event; the setting is of the server's start only."""
    scene = Scene(shop)
    try:
        scene.tables()
        scene.open()
        server.kill()
        server.restart(extra=("--innodb-native-foreign-keys=ON",))
        shop.reconnect()
        fault = scene.fault()
        assert isinstance(fault, FeedFailure)
        assert fault.error_code is ErrorCode.SERVER_SETTINGS
        assert "innodb_native_foreign_keys" in fault.message
    finally:
        scene.close()
    shop.execute("CREATE TABLE parent (id INT PRIMARY KEY)")
    key = "CREATE TABLE {} (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES parent (id){})"
    shop.execute(key.format("plain", "") + ";" + key.format("child", " ON DELETE CASCADE"))
    said: list[str] = []
    with contextlib.closing(
        ScopeSource(
            options_of(server), FeedOptions(), database=shop.name, table="", warn=said.append
        )
    ) as watched:
        watched.open("")
        assert watched.learn() > 2
    assert [f"change rows of {shop.name}.child, and with" in text for text in said] == [True], said
