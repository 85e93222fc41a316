"""Windows of the day: what is one, and when it is open."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone

import pytest

from spirit_py.errors import UsageFault
from spirit_py.throttle.throttler import window_throttler
from spirit_py.units import Window, parse_windows

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


def at(hours, minutes=0):
    """Return a time of one day, in UTC."""
    return MIDNIGHT + timedelta(hours=hours, minutes=minutes)


@pytest.mark.parametrize("text", ["22:00-06:00Z", "22:00-06:00+00:00"])
def test_a_window_may_cross_midnight(text):
    """It begins with its first minute and ends before its last one."""
    window = Window.parse(text)
    assert [window.is_open(at(*when)) for when in ((21, 59), (22,), (0,), (5, 59), (6,))] == [
        False,
        True,
        True,
        True,
        False,
    ]


def test_a_window_within_a_day_is_closed_before_and_after():
    """The usual case."""
    window = Window.parse("9:30 - 17:00Z")
    assert [window.is_open(at(*when)) for when in ((9, 29), (9, 30), (16, 59), (17,))] == [
        False,
        True,
        True,
        False,
    ]


def test_an_offset_moves_a_window():
    """22:00 at +05:30 is 16:30 in UTC, whatever the time zone of the moment asked for."""
    window = Window.parse("22:00-23:00+05:30")
    assert window.is_open(at(16, 30))
    assert not window.is_open(at(16, 29))
    assert window.is_open(at(16, 30).astimezone(timezone(-timedelta(hours=8))))


def test_a_window_without_an_offset_is_by_the_clock_of_the_machine(monkeypatch):
    """The machine's own time zone, with its rules for the summer."""
    monkeypatch.setenv("TZ", "XXX-2")
    import time

    time.tzset()
    try:
        assert Window.parse("22:00-23:00").is_open(at(20))
        assert not Window.parse("22:00-23:00").is_open(at(22))
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_whole_day_may_be_written():
    """24:00 is the end of a day, and so is 00:00."""
    for text in ("00:00-24:00Z", "12:00-24:00Z", "12:00-00:00Z"):
        assert Window.parse(text).is_open(at(23, 59))
        assert Window.parse(text).is_open(at(12))


@pytest.mark.parametrize(
    "text",
    ["", "22:00", "22-06", "24:00-06:00", "22:60-23:00", "22:00-25:00", "24:30-06:00",
     "10:00-10:00", "22:00-06:00+15:00", "22:00-06:00 CET", "22:00-24:01"],
)  # fmt: skip
def test_what_is_no_window_is_refused_with_an_example(text):
    """A window that would never, or always, be open by mistake is refused, too."""
    with pytest.raises(UsageFault) as caught:
        Window.parse(text)
    assert ":00" in caught.value.hint


def test_a_window_is_shown_as_it_is_written():
    """So that the operator finds it in the reason."""
    for text in ("22:00-06:00", "22:00-06:00Z", "09:30-24:00+05:30", "01:00-02:00-08:00"):
        assert str(Window.parse(text)) == text
    assert len(parse_windows("01:00-02:00, 03:00-04:00")) == 2


def test_a_closed_window_opens_when_it_says():
    """Drawn windows and moments: closed until then, and open at that moment."""
    drawn = random.Random(20)
    for _ in range(500):
        begin, end = drawn.sample(range(24 * 60), 2)
        window = Window(begin=begin, end=end or 1440, zone=UTC)
        now = MIDNIGHT + timedelta(seconds=drawn.randrange(86400), microseconds=drawn.randrange(10))
        if window.is_open(now):
            continue
        wait = window.opens_in(now)
        assert 0 < wait <= 86400
        assert window.is_open(now + timedelta(seconds=wait))
        assert not window.is_open(now + timedelta(seconds=wait - 0.01))


def test_outside_of_all_windows_the_work_waits():
    """The reason names the windows and when the next one opens."""
    windows = parse_windows("22:00-06:00Z,12:00-13:00Z")
    assert window_throttler(windows, now=lambda: at(12, 30)).look() == ""
    closed = window_throttler(windows, now=lambda: at(11))
    assert closed.look() == "the time of --allow 22:00-06:00Z,12:00-13:00Z, in 1h00m"
