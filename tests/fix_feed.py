"""A table, its new table and a change feed between them, on a real server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.applier.applier import SqlApplier
from spirit_py.config import ConnectionOptions, FeedOptions
from spirit_py.feed.source import binlog_source
from spirit_py.mysql.connect import connect
from spirit_py.mysql.inspect import read_table
from spirit_py.statement import alter_of
from spirit_py.stop import StopSwitch
from spirit_py.table.build import build_mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spirit_py.feed.feed import ChangeFeed
    from spirit_py.feed.subscription import TableSubscription
    from spirit_py.table.mapping import TableMapping
    from tests.fix_mysql import Database

DEADLINE = 30.0
TABLE = "id INT PRIMARY KEY, v VARCHAR(200), n INT"


class Scene:
    """A table, its new table, and a feed between them."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.stop = StopSwitch()
        self._close: list[Callable[[], None]] = []
        self.mapping: TableMapping = None  # type: ignore[assignment]
        self.feed: ChangeFeed = None  # type: ignore[assignment]
        self.subscription: TableSubscription = None  # type: ignore[assignment]

    def options(self, **more: Any) -> ConnectionOptions:
        """How the feed reaches the server."""
        server = self.db.server
        given: dict[str, Any] = {"host": server.host, "port": server.port, "user": server.user}
        return ConnectionOptions(**(given | {"password": server.password} | more))

    def tables(
        self,
        columns: str = TABLE,
        alter: str = "ADD x INT DEFAULT 7",
        *,
        time_zone: str = "+00:00",
    ) -> TableMapping:
        """Create ``t`` and ``_t_new`` and map them."""
        self.db.execute(f"CREATE TABLE t ({columns})")
        self.db.execute("CREATE TABLE _t_new LIKE t")
        self.db.execute(f"ALTER TABLE _t_new {alter}")
        with connect(self.options(), role="test") as session:
            source = read_table(session, self.db.name, "t")
            target = read_table(session, self.db.name, "_t_new")
        assert source is not None
        assert target is not None
        statement = alter_of(self.db.name, "t", alter)
        self.mapping = build_mapping(source, target, statement, time_zone)
        return self.mapping

    def run(self, sql: str) -> None:
        """Run statements, divided by ``;``, in a session of their own that ends behind them."""
        session = self.db.connect()
        with session.cursor() as cursor:
            for part in sql.split(";"):
                cursor.execute(part)
        session.close()

    def open(self, *, position: str = "", copying: bool = False, **given: Any) -> ChangeFeed:
        """Open a feed; unless ``copying``, as after the copy."""
        connection = given.pop("connection", None) or self.options()
        options = FeedOptions(**({"wait_timeout": DEADLINE} | given))
        applier = SqlApplier(
            self.options(),
            sessions=options.apply_threads,
            batch_rows=options.batch_rows,
            stop=self.stop,
        )
        feed = binlog_source(connection, applier, options, self.stop)
        self._close += [feed.close, applier.close]
        self.subscription = feed.add_subscription(self.mapping)
        if not copying:
            self.subscription.copy_finished()
        if position:
            feed.start_from_position(position)
        else:
            feed.start()
        self.feed = feed
        return feed

    def close(self) -> None:
        """Close every feed."""
        closing, self._close = self._close, []
        for close in closing:
            close()

    def drain(self) -> None:
        """Receive and apply everything that is committed now."""
        self.feed.block_wait()
        self.feed.flush()
        assert self.feed.all_changes_flushed()

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """Read the columns that both tables have."""
        old = ", ".join(f"`{pair.old.name}`" for pair in self.mapping.pairs)
        new = ", ".join(f"`{pair.new.name}`" for pair in self.mapping.pairs)
        columns = old if table == "t" else new
        return sorted(self.db.query(f"SELECT {columns} FROM {table}"), key=repr)

    def assert_equal(self) -> None:
        """Compare both tables."""
        assert self.rows("_t_new") == self.rows("t")

    def fault(self) -> BaseException:
        """Wait until the feed has asked for a stop, and give its reason."""
        assert self.stop.wait(DEADLINE), "the feed noticed nothing"
        assert self.stop.reason is not None
        return self.stop.reason


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "the condition was never met"
        time.sleep(0.01)


@pytest.fixture
def scene(db: Database) -> Iterator[Scene]:
    """Return a scene on the server with GTIDs."""
    made = Scene(db)
    yield made
    made.close()


@pytest.fixture
def file_scene(db_file: Database) -> Iterator[Scene]:
    """Return a scene on the server without GTIDs."""
    made = Scene(db_file)
    yield made
    made.close()


@pytest.fixture(params=["scene", "file_scene"])
def either(request: pytest.FixtureRequest) -> Scene:
    """Return a scene on each kind of server in turn."""
    found: Scene = request.getfixturevalue(request.param)
    return found


def fill(db: Database, count: int) -> None:
    """Insert rows 1 to ``count`` into ``t`` in one statement."""
    db.execute("SET SESSION cte_max_recursion_depth = 10000000")
    db.execute(
        "INSERT INTO t (id, v, n) WITH RECURSIVE s AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM s"
        f" WHERE i < {count}) SELECT i, CONCAT('row ', i), i FROM s"
    )
