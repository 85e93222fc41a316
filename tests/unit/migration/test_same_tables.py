"""When a move's target may have lost what it had confirmed (R25)."""

from __future__ import annotations

from typing import Any

import pytest

from spirit_py.migration.swap.same_tables import FORWARD, SameTables
from spirit_py.mysql.facts import Seen
from spirit_py.threads import StopSwitch
from tests.kits.row_images import mapping

GTIDS = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-{}"


def seen(started: int, last: int = 0) -> Seen:
    """Return what a server says whose settings keep all."""
    return Seen("uuid", GTIDS.format(last) if last else "", started, {}, "ON" if last else "OFF")


@pytest.mark.parametrize(
    ("before", "now", "lost"),
    [
        (None, seen(100, 9), False),
        (seen(100, 9), seen(100, 9), False),
        (seen(100, 9), seen(100, 12), False),
        (seen(100), seen(100), False),
        (seen(100), seen(200), True),
        (seen(100, 9), seen(200, 7), True),
        (seen(100, 9), seen(200, 12), True),
        (seen(100, 9), seen(100, 7), True),
    ],
)
def test_a_target_that_was_set_back_to_a_snapshot_is_noticed(before, now, lost):
    """R25: it has its settings, and its numbers again once the changes since then are applied."""
    other: Any = None
    tables = SameTables(
        job=other, mapping=mapping(), feed=other, stop=StopSwitch(), direction=FORWARD
    )
    tables._life = before
    assert tables.has_lost(now) is lost
