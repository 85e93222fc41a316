"""For how long a stopped run could be resumed, and how a migration's state is shown."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.checkpoint.codec import from_text, to_text
from spirit_py.checkpoint.examination import live_of
from spirit_py.checkpoint.live import STALE_SECONDS, LiveFigures, StandingOrders
from spirit_py.migration.checkpoints import PositionReach
from spirit_py.migration.control.subject import live_figures
from spirit_py.migration.migration_status import MigrationShown, ReverseShown, live_lines
from spirit_py.phases import Phase
from spirit_py.progress import FeedStatistics, Retention
from tests.kits.reporter import lines_to

DAY = 86_400.0
LIVE = LiveFigures(
    host="admin1",
    pid=4711,
    run="ab",
    program="1",
    phase="copy",
    table="shop.t",
    elapsed=10.0,
    phase_elapsed=9.0,
    rows=500,
    rows_total=1000,
    fraction=0.5,
    rate=100.0,
    eta=5.0,
    waiting_for="the end of the pause (paused by a@h)",
    paused="paused by a@h",
    settings={"threads": "2"},
)
SHOWN = MigrationShown(checkpoint="shop._t_chkpnt", tables=("shop.t",), worked_on_by=7)


class Reach:
    """A reach whose clock, position and server's setting the test moves."""

    def __init__(self, kept: float, age: float = 0.0) -> None:
        self.now, self.position, self.warned = 0.0, "a", list[str]()
        self.reach: Retention | None = None
        self.behind: float | None = None
        feed = SimpleNamespace(
            position=lambda: self.position,
            statistics=lambda: FeedStatistics(retention=self.reach, behind_seconds=self.behind),
        )
        run: Any = SimpleNamespace(
            figures=SimpleNamespace(feeds={"db1:3306": feed}),
            config=SimpleNamespace(connection=SimpleNamespace(address="db1:3306")),
            state=SimpleNamespace(phase=Phase.COPY),
            tell=lines_to(self.warned.append),
        )
        self._session = keeping(kept)
        self._reach = PositionReach(run, age=age, clock=lambda: self.now)

    def at(self, now: float, position: str) -> float | None:
        """Look at a time, at which the feed is at a position; return the seconds left."""
        self.now, self.position = now, position
        self._reach.look(self._session)
        return self._reach.left


def test_a_position_that_moves_has_the_whole_time_left():
    """However long the run is paused: R19."""
    reach = Reach(DAY)
    assert [reach.at(hour * 3600.0, f"p{hour}") for hour in range(100)] == [DAY] * 100
    assert reach.warned == []


def test_a_position_that_moves_through_changes_that_were_held_is_as_old_as_they_are():
    """After ten hours of an index build: the reader is at the end, the position is not."""
    reach = Reach(DAY)
    reach.at(0.0, "a")
    reach.reach, reach.behind = Retention(kept=DAY, age=0.0), 36_000.0
    assert reach.at(36_000.0, "b") == DAY - 36_000.0
    reach.behind = 0.0
    assert reach.at(36_060.0, "c") == DAY - 60.0


def test_a_position_that_stands_still_is_warned_of_in_time_and_once():
    """While half of the time is left; again only after it has moved."""
    reach = Reach(DAY)
    reach.at(0.0, "a")
    assert reach.at(DAY / 2, "a") == DAY / 2
    assert reach.warned == []
    assert reach.at(DAY / 2 + 60, "a") == DAY / 2 - 60
    assert reach.at(DAY * 2, "a") == 0.0
    assert len(reach.warned) == 1
    assert "binlog_expire_logs_seconds" in reach.warned[0]
    assert reach.at(DAY * 2 + 1, "b") == DAY
    reach.at(DAY * 2.8, "b")
    assert len(reach.warned) == 2


def test_a_run_that_is_behind_would_resume_from_what_is_as_old():
    """20 hours after it was stopped: before it has read anything, and while it catches up."""
    hour = DAY / 24
    reach = Reach(DAY, age=20 * hour)
    assert reach.at(0.0, "a") == 4 * hour
    reach.reach = Retention(kept=DAY, age=20 * hour)
    assert reach.at(60.0, "b") == 4 * hour
    assert reach.at(90.0, "b") == 4 * hour - 30
    assert len(reach.warned) == 1
    assert "is 20h" in reach.warned[0]
    reach.reach = Retention(kept=DAY, age=hour)
    assert reach.at(hour, "c") == 23 * hour
    reach.reach = Retention(kept=DAY, age=hour, gone=True)
    assert reach.at(hour, "d") == 0.0
    assert len(reach.warned) == 2


def test_a_server_that_keeps_its_binlog_for_ever_sets_no_limit():
    """``binlog_expire_logs_seconds`` is 0."""
    reach = Reach(0)
    reach.at(0.0, "a")
    assert reach.at(DAY * 100, "a") is None
    assert reach.warned == []


def keeping(kept: float) -> Any:
    """Return a session of a server that keeps its binlog for so many seconds."""
    shown = {
        "SELECT VERSION()": [("8.4.0",)],
        "SHOW GLOBAL VARIABLES": [("binlog_expire_logs_seconds", str(int(kept)))],
    }
    return SimpleNamespace(query=lambda sql: shown.get(sql.partition(" WHERE ")[0], []))


def test_of_several_sources_the_one_counts_that_purges_first():
    """Each is asked for itself, unless it is away: then what it said before counts."""
    now, asked, trouble = [0.0], list[str](), [""]
    warned: list[str] = []
    places = {"db1:3306": ["a"], "db2:3306": ["b"]}

    def feed_of(address: str) -> Any:
        return SimpleNamespace(
            position=lambda: places[address][0],
            statistics=lambda: FeedStatistics(trouble=trouble[0]),
        )

    def front_of(address: str) -> Any:
        def session(*_: object, **__: object) -> Any:
            asked.append(address)
            return contextlib.nullcontext(keeping(DAY / 4))

        connection = SimpleNamespace(address=address)
        return SimpleNamespace(config=SimpleNamespace(connection=connection), session=session)

    run: Any = SimpleNamespace(
        figures=SimpleNamespace(feeds={address: feed_of(address) for address in places}),
        config=SimpleNamespace(connection=SimpleNamespace(address="db1:3306")),
        state=SimpleNamespace(phase=Phase.COPY),
        tell=lines_to(warned.append),
    )
    reach = PositionReach(run, [front_of(one) for one in places], clock=lambda: now[0])

    def at(seconds: float) -> float | None:
        now[0] = seconds
        places["db1:3306"][0] = f"a{seconds}"
        reach.look(keeping(DAY))
        return reach.left

    assert (at(0.0), asked) == (DAY / 4, ["db2:3306"])
    assert at(DAY / 8) == DAY / 8
    assert warned == []
    trouble[0] = "it is away"
    assert at(DAY / 8 + 60) == DAY / 8 - 60
    (said,) = warned
    assert said.startswith("warning: db2:3306: the position ")
    assert asked == ["db2:3306"] * 2
    places["db2:3306"][0] = "c"
    assert at(DAY / 8 + 61) == DAY / 4


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "running"),
        ({"live": LIVE, "live_age": 0.8}, "running"),
        ({"live": LIVE, "live_age": STALE_SECONDS + 1}, "hanging"),
        ({"live": LIVE, "live_age": 0.8, "worked_on_by": None}, "stopped"),
    ],
)
def test_the_lock_and_the_age_of_the_figures_show_the_state(changes, state):
    """Old figures of a process that has ended say nothing."""
    seen = replace(SHOWN, **changes)
    assert seen.state == state
    assert seen.to_dict()["state"] == state
    assert ("running on admin1" in seen.lines()[0]) == (state == "running" and bool(changes))
    assert ("hanging (no figures for 11.0s)" in seen.lines()[0]) == (state == "hanging")
    again = "  run again  refused until that process ends; then it would"
    assert (again in "\n".join(seen.lines())) == (state == "hanging")


@pytest.mark.parametrize(
    ("by", "why"),
    [
        ("", "it hangs, or it cannot write to the server;"),
        ("the global read lock of session 9", "it waits for the global read lock of session 9;"),
    ],
)
def test_a_process_without_figures_has_its_reason(by, why):
    """Where another session keeps all from writing, that session."""
    seen = replace(SHOWN, live=LIVE, live_age=STALE_SECONDS + 1, held_up_by=by)
    assert any(why in line for line in seen.lines())


@pytest.mark.parametrize(("age", "told"), [(-0.5, 0.0), (-1.5, None)], ids=["a moment", "set back"])
def test_figures_of_the_future_have_no_age(age, told):
    """Where the server's clock was set back, a process that hangs would seem to write."""
    checkpoint: Any = SimpleNamespace(read=lambda *_: LIVE, age=lambda *_: age)
    session: Any = None
    assert live_of(session, checkpoint, None) == (LIVE, told)
    text = "\n".join(replace(SHOWN, live=LIVE, live_age=told).lines())
    assert ("the server's clock was set back" in text) == (told is None)


def test_what_is_not_known_is_not_shown():
    """Neither as zero nor as a question mark."""
    text = "\n".join(live_lines(LIVE))
    assert "rows       500 of ~1 000 rows, 50.0%" in text
    assert "speed      100 rows/s, ETA 5.0s" in text
    assert "?" not in text
    assert "binlog" not in text


def test_figures_and_orders_come_back_as_they_were():
    """Unknown values stay unknown in their JSON."""
    assert from_text(to_text(LIVE), LiveFigures) == LIVE
    orders = StandingOrders(paused="x", settings={"nice": "1"}, over={"nice": "0"})
    assert from_text(to_text(orders), StandingOrders) == orders


def test_the_phases_that_are_left_are_shown_in_their_order():
    """The checkpoint table holds them by name."""
    left: dict[str, float | None] = {"checksum": 2.0, "copy": 14.0, "cutover": 1.0}
    live = replace(LIVE, run_eta=17.0, run_eta_until="the swap", run_eta_parts=left)
    assert "about 17s until the swap, checksum ~2.0s" in "\n".join(live_lines(live))


def test_a_migration_that_was_stopped_in_a_pause_says_so():
    """The next run would begin paused."""
    stopped = replace(SHOWN, worked_on_by=None, phase="copy", paused="paused by a@h")
    assert "  paused     by a@h, and so is the next run" in stopped.lines()


def test_why_the_work_is_slower_is_shown_as_on_the_display():
    """Fewer tasks, smaller transactions and rests have their reason; nothing is said to be none."""
    slower = "1 of 2 tasks, 640.0 KiB a transaction (commits of others take longer)"
    given: Any = SimpleNamespace(**{**vars(LIVE), "throttled": "", "pace": slower, "tasks": 1})
    live = from_text(to_text(live_figures("", given, phase="copy", paused="")), LiveFigures)
    assert f"  throttle   pace: {slower}" in live_lines(live)
    assert "  throttle   none" in live_lines(replace(live, pace=""))


@pytest.mark.parametrize(
    ("worker", "left", "said"),
    [
        (7, 60.0, "following, for 1m00s more; "),
        (None, 60.0, "nothing follows now (no process works on it), 1m00s of its time are left; "),
        (None, 60.0, "the same command with --keep-old-current goes on; spirit-py revert swaps"),
        (None, -1.0, "nothing follows now (no process works on it), its time has passed; "),
        (None, -1.0, "the same command with --keep-old-current drops the old table; spirit-py"),
    ],
)
def test_nothing_is_said_to_follow_where_no_process_works_on_it(worker, left, said):
    """The record of a killed process says that it follows; its lock is free."""
    reverse = ReverseShown(state="following", left=left, age=2.0)
    text = "\n".join(replace(SHOWN, worked_on_by=worker, reverse=reverse).lines())
    assert said in text
    assert "; position written 2" in text


def test_the_place_of_the_way_back_is_shown_instead_of_the_copys():
    """The binlog of the copy is needed no more; whether that of the way back is there is said."""
    reverse = ReverseShown(state="following", left=60.0, age=2.0, position="server:1-9")
    stopped = replace(SHOWN, worked_on_by=None, position="server:1-5", reverse=reverse)
    text = "\n".join(stopped.lines())
    assert "from position server:1-9" in text
    assert "server:1-5" not in text
    gone = replace(stopped, reverse=replace(reverse, reason="its binlog is purged"))
    assert "spirit-py revert is not possible: its binlog is purged" in "\n".join(gone.lines())


def test_a_replica_does_not_say_that_nothing_follows():
    """The process on the primary may let it follow: its lock is not seen here."""
    reverse = ReverseShown(state="following", left=60.0, age=2.0)
    shown = replace(SHOWN, worked_on_by=None, unseen="no process is seen", reverse=reverse)
    text = "\n".join(shown.lines())
    assert "following, for 1m00s more; " in text
    assert "nothing follows" not in text
