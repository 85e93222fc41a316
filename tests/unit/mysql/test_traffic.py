"""What others do on the server: its counters without what this process sent."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest

from spirit_py.mysql import session as session_module
from spirit_py.mysql.session import OWN_QUERIES, Session
from spirit_py.throttle import latency
from spirit_py.throttle.latency import Traffic, read_traffic


def traffic(
    reads: float,
    own: tuple[int, int],
    writes: float = 0.0,
    own_writes: tuple[int, int] = (0, 0),
) -> Traffic:
    """Return counters of one moment."""
    return Traffic(writes=writes, reads=reads, running=1.0, own=own, own_writes=own_writes)


def test_queries_of_this_process_are_not_others():
    """What it sent between two looks is taken away."""
    before, after = traffic(1000, (40, 42)), traffic(1100, (60, 61), writes=7)
    assert after.others_since(before) == (7.0, 100.0 - 21.0)


def test_queries_at_the_ends_of_a_span_are_never_others():
    """One that was sent while the counters were read may be in either; there are none below 0."""
    before, after = traffic(1000, (40, 45)), traffic(1003, (45, 50))
    assert after.others_since(before) == (0.0, 0.0)


def test_inserts_of_this_process_are_not_others():
    """The applier fills staging tables with INSERT, and writes so where a column is kept."""
    before = traffic(0, (0, 0), writes=100, own_writes=(30, 31))
    after = traffic(0, (0, 0), writes=150, own_writes=(72, 73))
    assert after.others_since(before) == (7.0, 0.0)


@pytest.mark.parametrize(
    ("sql", "counted"),
    [
        ("INSERT INTO `shop`.`_t_new` SELECT 1", 1),
        ("UPDATE `shop`.`_t_new` SET a = 1", 1),
        ("DELETE `shop`.`_t_new` FROM `keys` STRAIGHT_JOIN `shop`.`_t_new` ON a = b", 1),
        ("DELETE FROM `shop`.`_t_new`", 1),
        ("DELETE /*+ NO_INDEX_MERGE() */ FROM `shop`.`_t_new`", 1),
        ("REPLACE INTO `shop`.`_t_new` SELECT 1", 0),
    ],
)
def test_the_writes_of_a_session_are_those_of_the_counters(sql: str, counted: int) -> None:
    """The server has a counter for a DELETE of one table and of several; the applier sends both."""
    cursor = SimpleNamespace(execute=lambda *_: 0, close=lambda: None)
    session = Session(
        SimpleNamespace(thread_id=lambda: 1, cursor=lambda: cursor), role="apply", address="here:1"
    )
    before = OWN_QUERIES.writes("here:1")
    session.execute(sql)
    assert OWN_QUERIES.writes("here:1") - before == counted


def a_session(address: str) -> Session:
    """Return a session whose statements end at once, without a row."""
    cursor = SimpleNamespace(execute=lambda *_: 0, fetchall=list, close=lambda: None)
    return Session(
        SimpleNamespace(thread_id=lambda: 1, cursor=lambda: cursor), role="copy", address=address
    )


@pytest.fixture
def counters(monkeypatch) -> dict[str, float]:
    """Return the server's counters, which a test changes."""
    found: dict[str, float] = {}
    monkeypatch.setattr(
        latency,
        "read_status",
        lambda _, names: {one.lower(): found.get(one.lower(), 0.0) for one in names},
    )
    return found


def test_queries_that_went_to_another_server_hide_nobody_s(counters) -> None:
    """Those to replicas and to a move's targets were taken from the source's counter."""
    source, replica = a_session("source:1"), a_session("replica:2")
    before = read_traffic(source)
    for _ in range(100):
        replica.query("SELECT 1")
    source.query("SELECT 1")
    counters["com_select"] = 101.0
    assert read_traffic(source).others_since(before) == (0.0, 100.0)


def test_tasks_of_spark_hide_others_only_while_they_run(counters, monkeypatch) -> None:
    """A Spark that is ready sends nothing: an application is seen while it waits."""
    now = 100.0
    monkeypatch.setattr(session_module, "time", SimpleNamespace(monotonic=lambda: now))
    source = a_session("source:3")
    OWN_QUERIES.reads(source.address, more_tasks=2)
    looks = [read_traffic(source)]
    for ours in (1200.0, 600.0, 0.0):
        now += 1.0
        if ours == 600.0:
            now -= 0.5
            OWN_QUERIES.reads(source.address, more_tasks=-2)
            now += 0.5
        counters["com_select"] = counters.get("com_select", 0.0) + ours + 1000
        looks.append(read_traffic(source))
    seen = [after.others_since(before) for before, after in pairwise(looks)]
    assert seen == [(0.0, 1000.0)] * 3


def test_who_only_deletes_is_seen(counters) -> None:
    """A job that removes old rows is an application like others."""
    source = a_session("source:4")
    before = read_traffic(source)
    counters["com_delete"] = 9.0
    source.execute("DELETE FROM `shop`.`t` WHERE id = 1")
    assert read_traffic(source).others_since(before) == (8.0, 0.0)
