"""What the operator reads, and what a repair asks of the applier."""

from __future__ import annotations

import contextlib
from typing import Any

from spirit_py.checksum.recheck import repair
from spirit_py.checksum.result import RowDifference
from tests.kits.definitions import ID, mapping


def test_a_difference_reads_as_a_sentence():
    """Text keys are shown as text, binary ones as they are written in SQL."""
    changed = RowDifference(
        key="(7, _utf8mb4 X'c3a427', X'ff')", kind="changed", columns=("a", "b")
    )
    assert str(changed) == """row (7, "ä'", X'ff') is changed in a, b"""
    assert str(RowDifference(key="(_utf8mb4 X'')", kind="extra")) == "row ('') is extra"


class Paused:
    """A feed and an applier that note whether applying was paused for each copy."""

    def __init__(self) -> None:
        self.paused = False
        self.copies: list[tuple[bool, int]] = []
        self.keys: list[str] = []

    @contextlib.contextmanager
    def applies_paused(self):
        """Hold back applying."""
        self.paused = True
        yield
        self.paused = False

    def recopy(self, _mapping, keys):
        """Note the keys."""
        self.copies.append((self.paused, len(keys)))
        self.keys += keys
        return len(keys)


def test_a_repair_pauses_the_feed_for_each_batch():
    """Keys are treated once, in batches between which the feed may apply."""
    rig: Any = Paused()
    found = [RowDifference(key=f"({number % 1200})", kind="missing") for number in range(1300)]
    assert repair(rig, rig, mapping((ID, ID)), found) == 1200
    assert rig.copies == [(True, 500), (True, 500), (True, 200)]
    assert rig.keys == [f"({number})" for number in range(1200)]


def test_a_repair_without_a_feed_pauses_nothing():
    """Two tables that nothing keeps equal are repaired as they are."""
    rig: Any = Paused()
    assert repair(rig, None, mapping((ID, ID)), [RowDifference(key="(1)", kind="extra")]) == 1
    assert rig.copies == [(False, 1)]
