"""``spirit-py ctl`` and ``status`` about a revert that works in the place of a dead process."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from spirit_py.config import FeedOptions
from spirit_py.errors import Aborted, Refusal
from spirit_py.events.swap import CutoverHeldBack
from spirit_py.migration.control import command, listener
from spirit_py.migration.control.command import Asking
from spirit_py.migration.listing import migrations
from spirit_py.migration.reverse import swap_back
from spirit_py.migration.reverse.revert import Revert, RevertPace
from spirit_py.migration.reverse.swap_back import SwapBack
from spirit_py.migration.swap.swap import PairSwap
from spirit_py.mysql.connect import connect
from spirit_py.threads import StopSwitch
from tests.kits.background import BackgroundCall
from tests.kits.connection import connection_options
from tests.kits.engine import SharedEngine
from tests.kits.reporter import RecordingReporter
from tests.kits.reverse import SwappedTable
from tests.kits.waiting import DEADLINE, until


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Requests are looked for often, and figures written often."""
    for name in ("_LOOK_SECONDS", "_WRITE_SECONDS"):
        monkeypatch.setattr(listener, name, 0.05)
    monkeypatch.setattr(command, "LOOK_SECONDS", 0.05)


@pytest.fixture
def changed(db, engine):
    """A table whose old one follows it no more: the process that swapped it has ended."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.execute("INSERT INTO t VALUES (1, 7), (2, 14), (3, 21)")
    return SwappedTable(db, "ADD COLUMN extra INT", engine=engine)


@pytest.fixture
def go_on(monkeypatch):
    """Hold reverts before their comparison, until this is set."""
    prove, go_on = SwapBack.prove, threading.Event()

    def held(self: SwapBack) -> None:
        assert go_on.wait(60)
        prove(self)

    monkeypatch.setattr(SwapBack, "prove", held)
    yield go_on
    go_on.set()


class Reverting:
    """``spirit-py revert`` in a thread, with the configuration of the table, and these changes."""

    def __init__(self, changed, **changes) -> None:
        self.db, self.told = changed.db, RecordingReporter()
        engine = SharedEngine(changed.engine)
        self.revert = Revert(
            replace(changed.config, **changes),
            self.told,
            engine_factory=lambda _: engine,
            stop=StopSwitch(),
        )
        self.call = BackgroundCall(self.revert.run)
        until(lambda: self.shown().live, "figures")

    def shown(self):
        """Return what status shows."""
        (shown,) = migrations(
            connection_options(self.db), database=self.db.name, table="t", max_age=7 * 86400
        )
        return shown

    def ask(self, verb, **arguments):
        """Ask for one thing as ``spirit-py ctl`` does; return what it says."""
        said: list[str] = []
        with connect(connection_options(self.db), role="ctl") as session:
            Asking(session, self.db.name, "t", StopSwitch(), said.append).ask(verb, arguments)
        return said

    def refuses(self, verb, why, **arguments):
        """Ask for what must be refused with this reason."""
        with pytest.raises(Refusal, match=why):
            self.ask(verb, **arguments)


@pytest.mark.slow
def test_a_revert_in_a_dead_processs_place_is_shown_paused_and_resumed(changed, go_on):
    """Nothing is swapped back in the pause, and the old table follows; then no write is lost."""
    reverting = Reverting(changed)
    shown = reverting.shown()
    assert (shown.state, shown.live.phase) == ("running", "revert")
    said = "\n".join(shown.lines())
    assert said.startswith(f"{changed.db.name}.t: revert, running on ")
    assert "  swap       done; spirit-py revert is at work to swap back\n" in said
    assert "  run again  after a stop spirit-py revert swaps back" in said
    (said,) = reverting.ask("pause")
    assert "not swapped back" in said
    for verb, why in (
        ("set", "no settings"),
        ("cutover", "cannot be postponed"),
        ("postpone", "does not wait for a sentinel"),
    ):
        reverting.refuses(verb, why)
    with pytest.raises(Refusal, match="another spirit-py revert is at work on it already"):
        changed.revert()
    go_on.set()
    until(lambda: "the end of the pause" in reverting.shown().live.waiting_for, "the pause")
    changed.db.execute("UPDATE t SET v = -1 WHERE id = 2")
    until(lambda: changed.db.query("SELECT v FROM _t_old WHERE id = 2") == [(-1,)], "the change")
    assert "extra" in changed.columns()
    (said,) = reverting.ask("resume")
    assert said.startswith("resumed; it was paused by ")
    reverting.call.result()
    assert changed.columns() == ["id", "v"]
    assert changed.db.query("SELECT * FROM t ORDER BY id") == [(1, 7), (2, -1), (3, 21)]
    assert changed.tables() == {"t"}


@pytest.mark.slow
def test_an_aborted_revert_may_be_made_again(changed, go_on):
    """It ends as after a signal, the old table stays, and says so."""
    reverting = Reverting(changed)
    reverting.refuses("abort", "copied nothing", cleanup="yes")
    aborting = BackgroundCall(lambda: reverting.ask("abort"))
    until(lambda: reverting.revert.stop.reason, "the stop")
    go_on.set()
    with pytest.raises(Aborted) as aborted:
        reverting.call.result()
    assert aborted.value.exit_code == 143
    assert "spirit-py revert still swaps back" in aborted.value.hint
    assert "the old table stays" in aborting.result()[0]
    assert reverting.shown().reverse.state == "following"
    changed.revert()
    assert changed.tables() == {"t"}


@pytest.mark.slow
def test_a_pause_under_the_lock_of_the_swap_back_still_holds_it_back(changed, monkeypatch):
    """No RENAME is sent, the application goes on, and the revert is made after the pause.

    Its changes are applied at once meanwhile, whatever the usual interval is.
    """
    under_lock = PairSwap._under_lock
    pace: list[RevertPace] = []

    def paused(self, session) -> None:
        if not pace:
            pace.append(self.job.pace)
            self.job.pace.paused = "paused by a test"
        under_lock(self, session)

    monkeypatch.setattr(PairSwap, "_under_lock", paused)
    monkeypatch.setattr(swap_back, "WRITE_SECONDS", 0.05)
    monkeypatch.setattr(swap_back, "_LOOK_SECONDS", 0.05)
    reverting = Reverting(changed, feed=FeedOptions(flush_interval=3600.0, wait_timeout=DEADLINE))
    until(lambda: reverting.told.named(CutoverHeldBack), "the swap that waits")
    assert isinstance(pace[0], RevertPace)
    assert changed.columns() == ["id", "v", "extra"]
    before = changed.stored().position
    changed.db.execute("INSERT INTO t VALUES (4, 28, 0)")
    until(lambda: changed.db.query("SELECT v FROM _t_old WHERE id = 4") == [(28,)], "the change")
    until(lambda: changed.stored().position != before, "the place: the binlog is not kept for ever")
    reverting.ask("resume")
    reverting.call.result()
    assert changed.db.query("SELECT * FROM t WHERE id = 4") == [(4, 28)]
