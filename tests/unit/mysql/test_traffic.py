"""What others do on the server: its counters without what this process sent."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from spirit_py.mysql.session import OWN_QUERIES, Session
from spirit_py.throttle.latency import Traffic


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
        ("DELETE FROM `shop`.`_t_new`", 0),
        ("DELETE /*+ NO_INDEX_MERGE() */ FROM `shop`.`_t_new`", 0),
        ("REPLACE INTO `shop`.`_t_new` SELECT 1", 0),
    ],
)
def test_the_writes_of_a_session_are_those_of_the_counters(sql: str, counted: int) -> None:
    """The server counts a DELETE of several tables as such, and the applier sends it."""
    cursor = SimpleNamespace(execute=lambda *_: 0, close=lambda: None)
    session = Session(
        SimpleNamespace(thread_id=lambda: 1, cursor=lambda: cursor), role="apply", address="here:1"
    )
    before = OWN_QUERIES.writes("here:1")
    session.execute(sql)
    assert OWN_QUERIES.writes("here:1") - before == counted
