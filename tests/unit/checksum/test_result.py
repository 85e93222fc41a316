"""What the operator reads, and what a repair asks of the applier."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from spirit_py.checksum.recheck import Recheck, repair
from spirit_py.checksum.result import ChecksumResult, Counts, RowDifference
from spirit_py.classes import replace
from spirit_py.threads import StopSwitch
from tests.kits.definitions import ID, mapping

if TYPE_CHECKING:
    from spirit_py.checksum.query import Keys


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


def none_alone(_keys: Keys) -> list[RowDifference]:
    """Return the rows without one of the source, where keys have another order: none."""
    return []


def test_a_repair_pauses_the_feed_for_each_batch():
    """Keys are treated once, in batches between which the feed may apply."""
    rig: Any = Paused()
    found = [RowDifference(key=f"({number % 1200})", kind="missing") for number in range(1300)]
    assert repair(rig, rig, mapping((ID, ID)), found, none_alone) == 1200
    assert rig.copies == [(True, 500), (True, 500), (True, 200)]
    assert rig.keys == [f"({number})" for number in range(1200)]


def test_a_batch_of_a_repair_has_as_few_rows_as_their_length_asks_for():
    """Each is one transaction: of rows of a megabyte two fit into it."""
    rig: Any = Paused()
    table = mapping((ID, ID))
    long = replace(table, source=replace(table.source, estimated_rows=1000, data_bytes=1000 << 20))
    found = [RowDifference(key=f"({number})", kind="missing") for number in range(3)]
    assert repair(rig, rig, long, found, none_alone) == 3
    assert rig.copies == [(True, 2), (True, 1)]


def test_keys_of_thousands_of_characters_are_few_in_a_statement():
    """500 of 6 KB are more than the smallest packets; one is never left out."""
    rig: Any = Paused()
    texts = [f"(_utf8mb4 X'{number:06000}')" for number in range(500)]
    found = [RowDifference(key=key, kind="missing") for key in [*texts, f"({'1' * (1 << 20)})"]]
    assert repair(rig, rig, mapping((ID, ID)), found, none_alone) == 501
    assert rig.keys == [each.key for each in found]
    assert [number for _, number in rig.copies] == [87, 87, 87, 87, 87, 65, 1]


def test_a_repair_without_a_feed_pauses_nothing():
    """Two tables that nothing keeps equal are repaired as they are."""
    rig: Any = Paused()
    assert (
        repair(rig, None, mapping((ID, ID)), [RowDifference(key="(1)", kind="extra")], none_alone)
        == 1
    )
    assert rig.copies == [(False, 1)]


class Lagging:
    """A task whose target has all rows now, but row 7."""

    mapping, examples = mapping((ID, ID)), 0

    def __call__(self, _rank):
        """Return the reader."""
        return self

    def take_snapshot(self):
        """Open nothing."""

    def close(self):
        """Close nothing."""

    def look(self, batch):
        """Return the rows of both sides."""
        source = {(key,): (key, ["x"]) for key in batch.keys}
        return source, {same: row for same, row in source.items() if row[0] != "(7)"}


def test_a_recheck_says_which_rows_are_checked_once_more_and_why():
    """How many of them are checked shows after each batch."""
    shown = []
    found = [RowDifference(key=f"({number})", kind="changed") for number in range(1200)]
    join: Any = Lagging()
    recheck = Recheck(join, (0.0,), stop=StopSwitch(), show=lambda **more: shown.append(more))
    assert [one.key for one in recheck.confirm(found)] == ["(7)"]
    doing = "checking them once more, as some may lag:"
    assert shown == [
        {"waiting_for": "the recheck of 1 200 differing rows (1)"},
        {"waiting_for": ""},
        *({"doing": f"{doing} {looked} of 1 200"} for looked in ("0", "500", "1 000")),
        {"doing": ""},
    ]


def test_the_end_of_a_comparison_says_of_what_kind_the_rows_are_that_differ():
    """Rows that only the target has are not among those of the source."""
    result = ChecksumResult(rows=800, left=Counts(extra=286_584))
    said = result.event(remaining=result.remaining, kinds=str(result.left)).sentence
    assert said == (
        "compared 800 rows of the source: 286 584 differ (0 missing, 286 584 extra, 0 changed)"
    )
