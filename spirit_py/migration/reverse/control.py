"""Control of a ``spirit-py revert`` in the place of an ended process: pause and abort."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.checkpoint import live
from spirit_py.checkpoint.live import REVERT
from spirit_py.errors import Aborted
from spirit_py.migration.control.figures import live_figures
from spirit_py.migration.control.listener import ControlListener, listen
from spirit_py.migration.control.subject import (
    ABORT,
    CLEANUP,
    CUTOVER,
    NOT_KNOWN,
    PAUSE,
    POSTPONE,
    RESUME,
    SET,
    Carrier,
    Effect,
    await_outcome,
    refused,
    require_running,
)
from spirit_py.pace import Unhindered

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.checkpoint.live import LiveFigures
    from spirit_py.checkpoint.queue import Asked
    from spirit_py.migration.job import Job
    from spirit_py.migration.reverse.keeper import Keeper
    from spirit_py.mysql.session import Session
    from spirit_py.pace import Work
    from spirit_py.progress import MigrationProgress
    from spirit_py.table.names import Name

_REFUSED: Final = {
    SET: (
        "a revert has no settings that change while it runs",
        "abort it, and run it again with other options",
    ),
    CUTOVER: ("the swap back cannot be postponed", "spirit-py ctl resume ends a pause"),
    POSTPONE: (
        "a revert does not wait for a sentinel",
        "spirit-py ctl pause holds the swap back until spirit-py ctl resume; abort ends the revert",
    ),
    REVERT: (
        "another spirit-py revert is at work on it already",
        "spirit-py ctl status shows how far it is",
    ),
}
_NOTHING_TO_HOLD: Final = "the old definition is in place again: nothing is left to hold back"


class RevertPace(Unhindered):
    """The pace of a revert: nothing holds it back but a pause."""

    paused = ""

    def reason(self, work: Work) -> str:  # noqa: ARG002 - the protocol's
        """Return the pause."""
        return f"the end of the pause ({self.paused})" if self.paused else ""


class RevertVerbs(Carrier):
    """What operators can ask of a revert."""

    def __init__(self, job: Job, keeper: Keeper, pace: RevertPace) -> None:
        self._job = job
        self._keeper = keeper
        self._pace = pace
        super().__init__({PAUSE: self._pause, RESUME: self._resume, ABORT: self._abort})

    def carry_out(self, session: Session, asked: Asked) -> Effect:
        """Do what is asked, or say why a revert has nothing of the kind."""
        if why := _REFUSED.get(asked.request.verb):
            raise refused(*why)
        return super().carry_out(session, asked)

    def _pause(self, _session: Session, asked: Asked) -> Effect:
        if earlier := self._pace.paused:
            return Effect(said=f"it is paused already: {earlier}")
        keeper = self._keeper
        # From now on no RENAME is sent; the outcome of one that was sent is reported.
        self._pace.paused = f"paused by {asked.who}"
        await_outcome(lambda: keeper.renaming, self._job.stop)
        if keeper.may_be_back():
            self._pace.paused = ""
            if keeper.renaming:
                raise refused(NOT_KNOWN, "see spirit-py status")
            raise refused("too late: the swap back is made", _NOTHING_TO_HOLD)
        return Effect(
            said="paused: what is compared now ends, and the tables are not swapped back; changes"
            " are applied as before. The pause ends with the process"
        )

    def _resume(self, _session: Session, _asked: Asked) -> Effect:
        earlier, self._pace.paused = self._pace.paused, ""
        return Effect(said=f"resumed; it was {earlier}" if earlier else "it was not paused")

    def _abort(self, _session: Session, asked: Asked) -> Effect:
        require_running(self._job.stop, "see spirit-py status")
        keeper = self._keeper
        self._job.give_up(f"aborted by {asked.who}")
        await_outcome(lambda: keeper.renaming, self._job.stop)
        said = "the old table stays, and spirit-py revert still swaps back"
        if keeper.renaming:
            said = f"{NOT_KNOWN}: spirit-py revert looks at the tables"
        elif keeper.may_be_back():
            said = "the old definition is in place, and spirit-py revert drops what is left"
        if CLEANUP in asked.request.arguments:
            self._job.give_up("")
            raise refused(
                f"a revert has copied nothing that could be dropped; {said}",
                "abort without --cleanup ends it; spirit-py cleanup --drop-old gives the old table"
                " up",
            )
        return Effect(said=f"stopping; {said}", then=Aborted(f"aborted by {asked.who}"))


def begin_revert_control(
    job: Job, keeper: Keeper, home: Name, progress: Callable[[], MigrationProgress]
) -> None:
    """Listen to operators until the end of the revert; ``progress`` does no I/O."""
    pace = RevertPace()
    job.work_at(pace)
    verbs = RevertVerbs(job, keeper, pace)

    def figures(_session: Session) -> LiveFigures:
        label = job.config.connection.label
        return live_figures(label, progress(), phase=live.REVERT, paused=pace.paused)

    listen(ControlListener(job, home, verbs, key=lambda: pace.paused, figures=figures), job)
