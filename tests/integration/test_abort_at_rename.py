"""``spirit-py ctl`` while a RENAME is under way, a revert's too: it answers what came out of it."""

from __future__ import annotations

import contextlib
import threading

import pytest

from spirit_py import points
from spirit_py.config import RevertConfig
from spirit_py.errors import Aborted, AbortedForGood, Refusal
from spirit_py.locks import table as table_lock
from spirit_py.migration.control import listener, subject
from spirit_py.migration.control.command import control
from spirit_py.migration.reverse.revert import Revert
from spirit_py.threads import StopSwitch
from tests.kits.background import BackgroundCall
from tests.kits.connection import connection_options
from tests.kits.engine import SharedEngine, ThreadEngine
from tests.kits.migrate import Migrating, config_for
from tests.kits.reporter import RecordingReporter
from tests.kits.reverse import SwappedTable, reverse_config
from tests.kits.tables import tables
from tests.kits.waiting import DEADLINE

ALTER = "ADD COLUMN z INT"


class Held:
    """Holds the RENAME after so many right before it is sent, until an operator has asked.

    Args:
        after: RENAMEs that pass.
    """

    def __init__(self, db, monkeypatch, *, after=0):
        self.db, self._after = db, after
        self.renaming, self.waited_for = threading.Event(), threading.Event()
        self._go = threading.Event()
        monkeypatch.setattr(points, "_listener", "here")
        monkeypatch.setattr(points, "_announce", self._passed)
        monkeypatch.setattr(subject, "_OUTCOME_SECONDS", DEADLINE)
        # The server would end the session that is held.
        monkeypatch.setattr(table_lock, "LETS_GO_AFTER", int(DEADLINE))
        await_outcome = subject.await_outcome

        def noted(*given):
            self.waited_for.set()
            await_outcome(*given)

        monkeypatch.setattr(subject, "await_outcome", noted)
        db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        db.execute("INSERT INTO t VALUES (1, 1), (2, 2)")

    def _passed(self, name):
        if name != "cutover.rename" or self.renaming.is_set():
            return
        self._after -= 1
        if self._after < 0:
            self.renaming.set()
            assert self._go.wait(DEADLINE)

    def kill(self):
        """End the session that is about to send the RENAME."""
        ((session,),) = self.db.query(
            "SELECT t.PROCESSLIST_ID FROM performance_schema.user_variables_by_thread v"
            " JOIN performance_schema.threads t USING (THREAD_ID)"
            " WHERE v.VARIABLE_NAME = 'spirit_py_role' AND v.VARIABLE_VALUE = 'cutover'"
        )
        self.db.execute(f"KILL {session}")

    def ask(self, verb, **arguments):
        """Ask, and let the RENAME go on when the answer waits for it; return the answer."""
        said: list[str] = []
        asking = BackgroundCall(
            lambda: control(
                connection_options(self.db),
                database=self.db.name,
                table="t",
                verb=verb,
                arguments=arguments,
                say=said.append,
            )
        )
        waits = self.waited_for.wait(DEADLINE / 4)
        self._go.set()
        try:
            asking.result()
        finally:
            assert waits, "it was answered before"
        return "\n".join(said)

    def columns(self):
        """Return the columns of the table."""
        return [row[0] for row in self.db.query("SHOW COLUMNS FROM t")]


class HeldMigration(Held):
    """A migration at its RENAME."""

    def __init__(self, db, monkeypatch):
        super().__init__(db, monkeypatch)
        self.run = Migrating(
            ThreadEngine(), config_for(db, table="t", alter=ALTER, no_shortcut=True)
        )
        assert self.renaming.wait(DEADLINE), self.run.told.text


class HeldRevert(Held):
    """``spirit-py revert`` at its RENAME, in the place of a process that has ended."""

    def __init__(self, db, monkeypatch):
        super().__init__(db, monkeypatch, after=1)
        self.changed = SwappedTable(db, ALTER, engine=ThreadEngine())
        self.told = RecordingReporter()
        self.call = BackgroundCall(lambda: self.changed.revert(self.told))
        assert self.renaming.wait(DEADLINE), self.told.text


class HeldKeeper(Held):
    """The process of ``--keep-old-current`` at the RENAME that a ``spirit-py revert`` asked for."""

    def __init__(self, db, monkeypatch):
        super().__init__(db, monkeypatch, after=1)
        engine, self.told = ThreadEngine(), RecordingReporter()
        migration = reverse_config(db, table="t", alter=ALTER, no_shortcut=True)
        self.run = Migrating(engine, migration)
        self.run.wait_until(lambda: self.run.told.said("runs for"), "reverse replication")
        shared = SharedEngine(engine)
        config = RevertConfig(
            connection=connection_options(db), database=db.name, table="t", threads=2
        )
        revert = Revert(config, self.told, engine_factory=lambda _: shared, stop=StopSwitch())
        self.asked = BackgroundCall(revert.run)
        assert self.renaming.wait(DEADLINE), self.run.told.text + self.told.text


@pytest.mark.slow
def test_an_abort_behind_the_rename_is_told_of_the_swap(db, monkeypatch):
    """It is refused: the tables are swapped, and the run ends as if nobody had asked."""
    held = HeldMigration(db, monkeypatch)
    with pytest.raises(Refusal, match="the tables are swapped"):
        held.ask("abort", cleanup="yes")
    assert held.waited_for.is_set()
    assert held.run.end().outcome == "done"
    assert tables(db) == ["t"]
    assert held.columns() == ["id", "v", "z"]


@pytest.mark.slow
def test_an_abort_meets_a_rename_that_fails(db, monkeypatch):
    """Nothing is swapped, no further RENAME is sent, and what was copied is dropped, as it says."""
    held = HeldMigration(db, monkeypatch)
    held.kill()
    assert "what was copied is dropped" in held.ask("abort", cleanup="yes")
    with pytest.raises(AbortedForGood):
        held.run.end()
    assert tables(db) == ["t"]
    assert held.columns() == ["id", "v"]


@pytest.mark.draws(2)
def test_an_abort_behind_a_reverts_rename_is_told_of_the_swap_back(db, monkeypatch):
    """The old definition is in place, and the same command drops what is left, if anything is."""
    held = HeldRevert(db, monkeypatch)
    assert "stopping; the old definition is in place" in held.ask("abort")
    with contextlib.suppress(Aborted):  # It may have come to its end before.
        held.call.result()
    assert held.columns() == ["id", "v"]
    if "_t_undone" in held.changed.tables():
        held.changed.revert()
    assert held.changed.tables() == {"t"}


@pytest.mark.draws(2)
def test_an_abort_meets_a_reverts_rename_that_fails(db, monkeypatch):
    """Nothing is swapped back, no further RENAME is sent, and the next revert swaps back."""
    held = HeldRevert(db, monkeypatch)
    held.kill()
    assert "stopping; the old table stays, and spirit-py revert still" in held.ask("abort")
    with pytest.raises(Aborted):
        held.call.result()
    assert held.columns() == ["id", "v", "z"]
    held.changed.revert()
    assert held.columns() == ["id", "v"]
    assert held.changed.tables() == {"t"}


@pytest.mark.draws(2)
def test_a_pause_behind_a_reverts_rename_is_refused(db, monkeypatch):
    """There is nothing left to hold back."""
    held = HeldRevert(db, monkeypatch)
    with pytest.raises(Refusal, match="too late: the swap back is made"):
        held.ask("pause")
    held.call.result()
    assert held.columns() == ["id", "v"]
    assert held.changed.tables() == {"t"}


@pytest.mark.draws(2)
def test_a_pause_meets_a_reverts_rename_that_fails(db, monkeypatch):
    """It holds the next RENAME back, until it is ended."""
    held = HeldRevert(db, monkeypatch)
    held.kill()
    assert "the tables are not swapped back" in held.ask("pause")
    assert held.columns() == ["id", "v", "z"]
    held.ask("resume")
    held.call.result()
    assert held.columns() == ["id", "v"]


@pytest.mark.slow
@pytest.mark.draws(2)
def test_an_abort_behind_the_rename_of_the_process_that_reverts(db, monkeypatch):
    """The old definition is in place, and the revert that asked finishes what the process left."""
    held = HeldKeeper(db, monkeypatch)
    assert "stopping; the old definition is in place again" in held.ask("abort")
    with contextlib.suppress(Aborted):  # It may have come to its end before.
        held.run.end()
    held.asked.result()
    assert held.columns() == ["id", "v"]
    assert tables(db) == ["t"]


@pytest.mark.slow
@pytest.mark.draws(2)
def test_a_process_that_reverted_ends_before_its_answer_is_read(db, monkeypatch):
    """Its tables and their checkpoints are gone: the revert knows the old table by its number."""
    reading, stands, pause = threading.Event(), threading.Event(), Revert._pause
    reading.set()

    def slow(self, begun):
        pause(self, begun)
        if not reading.is_set():
            stands.set()
        assert reading.wait(DEADLINE)

    monkeypatch.setattr(Revert, "_pause", slow)
    monkeypatch.setattr(listener, "_READ_SECONDS", 0.5)
    held = HeldKeeper(db, monkeypatch)
    reading.clear()
    assert stands.wait(DEADLINE)
    held.ask("abort")
    with contextlib.suppress(Aborted):
        held.run.end()
    reading.set()
    held.asked.result()
    assert held.told.said("taking over")
    assert held.columns() == ["id", "v"]
    assert tables(db) == ["t"]


@pytest.mark.slow
@pytest.mark.draws(2)
def test_an_abort_meets_a_failed_rename_of_the_process_that_reverts(db, monkeypatch):
    """The process ends without a swap back; the revert that asked for it makes that itself."""
    held = HeldKeeper(db, monkeypatch)
    held.kill()
    assert "stopping; the change is done" in held.ask("abort")
    with pytest.raises(Aborted):
        held.run.end()
    held.asked.result()
    assert held.told.said("taking over")
    assert held.columns() == ["id", "v"]
    assert tables(db) == ["t"]
