"""The clock that runs only while something is done."""

from __future__ import annotations

from spirit_py.migration.swap.swap import Stopwatch


def test_it_stands_still_in_between() -> None:
    """Only the seconds inside the blocks count, those of one that goes on too."""
    now = 100.0
    watch = Stopwatch(lambda: now)
    now = 105.0
    assert watch() == 0.0
    with watch:
        now = 107.0
        assert watch() == 2.0
    now = 150.0
    assert watch() == 2.0
    with watch:
        now = 153.0
        assert watch() == 5.0
        with watch.still():
            now = 160.0
            assert watch() == 5.0
        now = 161.0
        assert watch() == 6.0
