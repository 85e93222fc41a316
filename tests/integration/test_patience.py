"""The server goes away for a while in the middle of a run, and the run goes on when it is back."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from mysql_server import ServerOptions, running
from spirit_py import estimates, points
from spirit_py.config import FeedOptions
from spirit_py.mysql.retry import retrying
from tests.fixtures.cases import GENTLE_VARIABLE
from tests.fixtures.mysql import PROVIDER, Database
from tests.kits.resume import Writers, assert_nothing_left, make_table, start

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mysql_server import MySQLServer
    from spirit_py.spark.gang import GangEngine
    from tests.kits.migrate import Migrating


class Scale(NamedTuple):
    """How long the server is away: longer than eight tries with growing pauses last.

    Attributes:
        away: seconds.
        pause: the longest pause between two tries, seconds.
    """

    away: float
    pause: float


USUAL = Scale(away=3.0, pause=0.4)
#: With the program's own pauses.
WHOLE = Scale(away=20.0, pause=10.0)
SCALE = WHOLE if os.environ.get(GENTLE_VARIABLE) == "all" else USUAL


@pytest.fixture(autouse=True)
def shorter_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the pauses grow less, where the outage is shorter."""
    defaults: Any = retrying.__kwdefaults__
    assert defaults["longest_pause"] == WHOLE.pause
    monkeypatch.setitem(defaults, "longest_pause", SCALE.pause)
    monkeypatch.setattr(estimates, "_AWAY_SECONDS", SCALE.away / 10)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[MySQLServer]:
    """Return a server of the test's own."""
    options = ServerOptions(gtid=True, buffer_pool="64M", keeps_all=True)
    with running(options, provider=request.config.stash[PROVIDER]) as made:
        yield made


@pytest.fixture
def lone(server: MySQLServer) -> Database:
    """Return a schema on that server."""
    return Database(server, "lone")


class Outage:
    """Takes the server away when the run passes a point for the nth time, and brings it back."""

    def __init__(self, server: MySQLServer, point: str, nth: int = 1) -> None:
        self._server = server
        self._point = point
        self._left = nth
        self.over = threading.Event()

    def passed(self, name: str) -> None:
        """Count the point."""
        self._left -= name == self._point
        if name == self._point and self._left == 0:
            self.begin()

    def begin(self) -> None:
        """Take the server away; a thread brings it back."""
        self._server.kill()
        threading.Thread(target=self._end, name="outage").start()

    def _end(self) -> None:
        began = time.monotonic()
        while time.monotonic() - began < SCALE.away:
            time.sleep(0.1)
        self._server.resume()
        self.over.set()


def assert_equal_rows(db: Database, before: list[tuple[object, ...]]) -> None:
    """The table has the rows from before, with the new column."""
    db.reconnect()
    assert list(db.query("SELECT id, a, b, z FROM t ORDER BY id")) == [(*row, 5) for row in before]


@pytest.mark.draws(1)
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("point", "nth"),
    [
        ("chunk.committed", 2),
        ("index.begin", 1),
        ("index.building", 1),
        ("drain.begun", 1),
        ("checksum.compare", 1),
        ("cutover.lock", 1),
    ],
)
def test_an_outage_ends_nothing(
    server: MySQLServer,
    lone: Database,
    engine: GangEngine,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
    nth: int,
) -> None:
    """R16: a server that is away for long is waited for in copy, drain, checksum and cutover."""
    make_table(lone)
    before = list(lone.query("SELECT id, a, b FROM t ORDER BY id"))
    outage = Outage(server, point, nth)
    monkeypatch.setattr(points, "_listener", "here")
    monkeypatch.setattr(points, "_announce", outage.passed)
    run = start(engine, lone, target_chunk_time=0.02, defer_indexes="on")
    report = run.end(300)
    assert outage.over.is_set()
    if point == "chunk.committed":
        away = f"the server at {server.host}:{server.port} to answer"
        assert any(
            one.waiting_for.startswith(away) and one.eta is None for one in run.told.snapshots
        )
    assert report.outcome == "done"
    assert report.runs == 1
    assert report.differences_found == 0, run.told.text
    assert_equal_rows(lone, before)
    assert_nothing_left(lone)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_outage_does_not_end_a_deferral(
    server: MySQLServer, lone: Database, engine: GangEngine
) -> None:
    """R16: whoever waits for the sentinel waits for the server too, and applies what comes then."""
    make_table(lone)
    flushes = FeedOptions(flush_interval=0.2)
    run = start(engine, lone, defer_cutover=True, feed=flushes)
    run.wait_until(lambda: phase(run) == "sentinel", "wait for the sentinel")
    outage = Outage(server, "")
    outage.begin()
    run.wait_until(outage.over.is_set, "server that is back")
    lone.reconnect()
    with Writers(lone) as writers:
        run.wait_until(lambda: run.told.snapshots[-1].applied > 10, "changes that are applied")
    lone.execute("DROP TABLE _t_snt")
    assert run.end().outcome == "done"
    writers.assert_kept()


def phase(run: Migrating) -> str:
    """Return the phase that the run showed last."""
    return str(run.told.snapshots[-1].phase.value) if run.told.snapshots else ""
