"""What operators have set: for this run, and in the checkpoint table for the next one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.live import StandingOrders
from spirit_py.errors import UsageFault
from spirit_py.events.run import SettingsKept
from spirit_py.migration.control.settings import SETTINGS, read_changes, shown
from spirit_py.migration.facts import SwapWanted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spirit_py.checkpoint.table import CheckpointTable
    from spirit_py.contracts import SqlSession
    from spirit_py.migration.run import Run


class Orders:
    """Changes the settings of a run, and notes them first: what is not noted does not take effect.

    One thread changes them; the others read ``run.settings``.
    """

    def __init__(self, run: Run, checkpoint: CheckpointTable) -> None:
        self._run = run
        self._checkpoint = checkpoint
        #: What the command line asks for.
        self._given = shown(run.settings.current)
        self._standing = StandingOrders()

    def load(self, session: SqlSession) -> None:
        """Keep to what was set in an earlier run.

        A setting that the command line has changed since counts as newer. Nothing is kept of a row
        that cannot be read.

        Raises:
            ServerFault: the row could not be looked at.
        """
        try:
            found = self._checkpoint.read(session, StandingOrders) or StandingOrders()
            kept = {
                name: text
                for name, text in found.settings.items()
                if name in SETTINGS and found.over.get(name) == self._given[name]
            }
            changes = read_changes(kept) if kept else {}
        except (UnreadableCheckpoint, UsageFault) as error:
            self._run.warn(f"what operators had set cannot be read: {error}")
            return
        self._standing = replace(
            found, settings=kept, over={name: found.over[name] for name in kept}
        )
        self._run.settings.change(paused=found.paused, **changes)
        self._run.note(SwapWanted(found.undeferred))
        if kept:
            self._run.tell(SettingsKept(settings=dict(kept)))
        if found.paused:
            self._run.warn(f"{found.paused}: spirit-py ctl resume lets it go on")

    def pause(self, session: SqlSession, why: str) -> None:
        """Let no new work begin; an empty text lets it begin again."""
        self._note(session, paused=why)
        self._run.settings.change(paused=why)

    def change(self, session: SqlSession, given: Mapping[str, str]) -> None:
        """Change settings.

        Raises:
            UsageFault: a name or a value cannot be; nothing is changed then.
        """
        changes = read_changes(given)
        replace(self._run.settings.current, **changes)
        self._note(
            session,
            settings={**self._standing.settings, **given},
            over={**self._standing.over, **{name: self._given[name] for name in given}},
        )
        self._run.settings.change(**changes)

    def undefer(self, session: SqlSession, *, undeferred: bool) -> None:
        """Note whether the swap is not to wait for the operator."""
        if undeferred != self._run.state.undeferred:
            self._note(session, undeferred=undeferred)
            self._run.note(SwapWanted(undeferred))

    def _note(self, session: SqlSession, **changes: Any) -> None:
        standing = replace(self._standing, **changes)
        self._checkpoint.write(session, standing)
        self._standing = standing
