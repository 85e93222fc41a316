"""``spirit-py revert``: ask the process that runs reverse replication, or take its place."""

from __future__ import annotations

import contextlib
import signal
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py.checkpoint import live
from spirit_py.checkpoint.examination import runs_seen
from spirit_py.checkpoint.live import REVERT, SKIP_DROP, Request
from spirit_py.checkpoint.proofs import (
    Where,
    find_reverse,
    old_tables,
    where_is,
)
from spirit_py.checkpoint.queue import Asked, RequestQueue
from spirit_py.checkpoint.record import (
    ENDED,
    FOLLOWING,
    REVERTING,
    ReverseRecord,
)
from spirit_py.codes import ErrorCode
from spirit_py.errors import (
    Aborted,
    Interrupted,
    OutcomeUnknown,
    Refusal,
    ServerFault,
    SpiritError,
)
from spirit_py.events import swap
from spirit_py.locks.named import NO_RUN_OF_OURS, AdvisoryLock, named_lock_holder, working_session
from spirit_py.migration.control import subject
from spirit_py.migration.control.command import LOOK_SECONDS, follow_answer
from spirit_py.migration.control.listener import ControlListener, listen
from spirit_py.migration.control.subject import (
    CLEANUP,
    NOT_KNOWN,
    Carrier,
    Effect,
    Verb,
    live_figures,
    refused,
)
from spirit_py.migration.figures import feed_figures
from spirit_py.migration.job import Job
from spirit_py.migration.reverse.keeper import Keeper
from spirit_py.migration.reverse.phase import find_to_revert, prove_here
from spirit_py.migration.state import Wait
from spirit_py.migration.swap.attachments import settle_earlier
from spirit_py.mysql.endpoint import require_one_server
from spirit_py.mysql.evaluation import under_modes
from spirit_py.mysql.facts import read_facts
from spirit_py.mysql.faults import ABSENT_TABLE, Disposition, disposition, excused
from spirit_py.mysql.kill import end_earlier_sessions
from spirit_py.mysql.processlist import whose
from spirit_py.mysql.tables.definition import stored_name
from spirit_py.pace import Unhindered
from spirit_py.phases import Phase
from spirit_py.preflight.checks.other_writers import require_own_server
from spirit_py.preflight.passable import require_passable
from spirit_py.progress import MigrationStatus
from spirit_py.signals import run_and_tell
from spirit_py.spark.engine import SparkEngine
from spirit_py.status.report import OutcomeReport, run_begun
from spirit_py.status.reporters import Reporters
from spirit_py.table.names import lock_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spirit_py.checkpoint.live import LiveFigures
    from spirit_py.config import RevertConfig
    from spirit_py.contracts import Reporter
    from spirit_py.mysql.session import Session
    from spirit_py.mysql.tables.identity import Identity
    from spirit_py.pace import Work
    from spirit_py.spark.gang import GangEngine
    from spirit_py.table.names import Name
    from spirit_py.threads import StopSwitch

_REFUSED: Final = {
    Verb.SET: (
        "a revert has no settings that change while it runs",
        "abort it, and run it again with other options",
    ),
    Verb.CUTOVER: ("the swap back cannot be postponed", "spirit-py ctl resume ends a pause"),
    Verb.POSTPONE: (
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
        self._job, self._keeper, self._pace = job, keeper, pace
        super().__init__(
            {Verb.PAUSE: self._pause, Verb.RESUME: self._resume, Verb.ABORT: self._abort}
        )

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
        subject.await_outcome(lambda: keeper.renaming, self._job.stop)
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
        subject.require_running(self._job.stop, "see spirit-py status")
        keeper = self._keeper
        self._job.give_up(f"aborted by {asked.who}")
        subject.await_outcome(lambda: keeper.renaming, self._job.stop)
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


_READ_SECONDS: Final = 30
#: Within which the other process must begin to answer.
_ANSWER_SECONDS: Final = 60.0


def revert(
    config: RevertConfig,
    *,
    reporter: Reporter,
    engine_factory: Callable[[RevertConfig], GangEngine] = SparkEngine,
    stop: StopSwitch | None = None,
) -> None:
    """Bring the old definition of a table back, without losing a write."""
    reporter = Reporters([reporter])
    run = Revert(config, reporter, engine_factory=engine_factory, stop=stop)
    report = OutcomeReport(outcome="done")
    run_and_tell(
        partial(run.to_its_end, run.run),
        stop=run.stop,
        reporter=reporter,
        report_json=config.records.report_json,
        begun=partial(run_begun, "revert", config.connection),
        broke=report.note_failure,
        completed=partial(run.completed, report),
        status=run.status,
        left_at_once=run.left_at_once,
    )


class Revert(Job):
    """One ``spirit-py revert``; :meth:`run` once."""

    config: RevertConfig

    def __init__(
        self,
        config: RevertConfig,
        reporter: Reporter,
        *,
        engine_factory: Callable[[RevertConfig], GangEngine],
        stop: StopSwitch | None,
    ) -> None:
        super().__init__(config, reporter, engine_factory=engine_factory, stop=stop)
        self._began = time.monotonic()
        self._named((config.database, config.table))
        self._waits = Wait()
        self._keeper: Keeper | None = None

    @property
    def table(self) -> str:
        """The table that was named."""
        return self._name

    def _named(self, name: Name) -> None:
        self._names, self._name = name, ".".join(name)
        self._lock_name = lock_name("migration", *name)

    def show(self, waiting_for: str) -> None:
        """Show what is waited for now."""
        self._waits = self._waits.then(waiting_for, time.monotonic())

    def status(self) -> MigrationStatus:
        """Return what is going on, for the display. No I/O."""
        spent = time.monotonic() - self._began
        feed = self._keeper.feed if self._keeper is not None else None
        return MigrationStatus(
            table=self._name,
            phase=Phase.KEEP,
            elapsed=spent,
            phase_elapsed=spent,
            waiting_for=self._waits.what,
            waited=self._waits.seconds(time.monotonic()),
            **({} if feed is None else feed_figures(feed.statistics())),
        )

    def left_at_once(self) -> SpiritError:
        """Return the error for who does not wait for the end."""
        keeper = self._keeper
        hint = "this process swaps nothing back; spirit-py status shows whether another one does"
        if keeper is not None:
            if keeper.renaming:
                return OutcomeUnknown(
                    "interrupted twice during the swap back: it may or may not have happened",
                    hint="spirit-py revert looks at the tables, and goes on from what it finds",
                )
            hint = "the tables are not swapped back; spirit-py revert still does it"
        return Interrupted(signal.SIGINT, hint=self.done_hint or hint)

    @property
    def done_hint(self) -> str:
        """What is left to do once the tables are swapped back; empty before."""
        back = self._keeper is not None and self._keeper.may_be_back()
        return "the old definition is in place; spirit-py revert drops what is left" if back else ""

    def completed(self, report: OutcomeReport) -> OutcomeReport:
        """Return a report with the last figures."""
        return replace(report, seconds=round(time.monotonic() - self._began, 3))

    def run(self) -> None:
        """Ask the process that runs reverse replication; take its place where it has ended."""
        with self.stack:
            with self.first_session("revert", read_timeout=_READ_SECONDS) as session:
                require_one_server(session, self.config.connection)
                self._named(stored_name(session, *self._names))
                found = find_to_revert(session, self._names, self.config.connection)
                if len(found.tables) > 1:
                    self.tell(swap.RevertTablesFound(tables=found.names))
                known = old_tables(session, found)
                holder = named_lock_holder(session, self._lock_name)
                if holder is not None:
                    self.tell(swap.RevertRequested(session=holder))
                    if self._ask(session, RequestQueue(*found.home)):
                        return
            if any(table.old == table.names.moved for table in found.tables):
                raise Refusal(
                    f"{self._name} is on another server, and no process keeps its old table"
                    " current",
                    hint="run the same spirit-py move again: it goes on, and a revert can ask it",
                    error_code=ErrorCode.NO_REVERSE_REPLICATION,
                )
            noted = "nothing has followed the swap until now: reading the binlog since the swap"
            said = swap.RevertStepBegun(step="drain", said=noted)
            self.tell(said if found.is_noted else swap.RevertTakenOver())
            self._take_over(found, known)

    def _ask(self, session: Session, queue: RequestQueue) -> bool:
        """Ask the other process; False when it has ended meanwhile, without an answer."""
        if working_session(session, self._names) is None:
            return self._takes_no_requests(session)
        request = Request.of(REVERT, {SKIP_DROP: "yes"} if self.config.skip_drop else {})
        # A request counts only while a process waits for the answer, which this lock proves.
        waiting = AdvisoryLock(
            self.config.connection, request.lock, stop=self.stop, purpose="revert"
        )
        with waiting, contextlib.ExitStack() as stack:
            number = excused(lambda: queue.put(session, request), None, ABSENT_TABLE)
            if number is None:
                return self._takes_no_requests(session)
            asked = Asked(number=number, request=request)
            stack.callback(self._withdraw, queue, asked)
            self.show("the process that runs reverse replication")
            return follow_answer(
                session,
                queue,
                asked,
                process_lock=self._lock_name,
                said=lambda line: self.tell(swap.RevertAnswered(said=line)),
                pause=self._pause,
                within=_ANSWER_SECONDS,
            )

    def _takes_no_requests(self, session: Session) -> bool:
        """Return False where the other process has ended; Refusal where it cannot be asked."""
        holder = named_lock_holder(session, self._lock_name)
        if holder is None:
            return False
        raise Refusal(
            f"a process works on {self._name} ({whose(session, holder)}), and takes no requests:"
            " it reads the table, as an archive does, or has only just begun",
            hint="end it, or let it end; then run the same command again:"
            f" spirit-py revert swaps back; {NO_RUN_OF_OURS.format(holder)}",
            error_code=ErrorCode.ALREADY_RUNNING,
        )

    def _pause(self, begun: bool) -> None:
        self.stop.wait(LOOK_SECONDS)
        reason = self.stop.reason
        if begun and isinstance(reason, Interrupted):
            reason.hint = "the process that runs reverse replication goes on with the revert"
        self.stop.check()

    def _withdraw(self, queue: RequestQueue, asked: Asked) -> None:
        """Take the request back, or its answer away: it was answered, or is not wanted any more."""
        try:
            with self.session("revert", read_timeout=_READ_SECONDS) as session:
                queue.forget(session, asked.number)
        except ServerFault as fault:
            if disposition(fault) is not Disposition.FATAL:
                self.warn(f"the request could not be taken back: {fault.message}")

    def _take_over(self, found: ReverseRecord, known: Mapping[Name, Identity]) -> None:
        """Take over from a process that has ended; ``known`` proves the old tables."""
        names = [table.name for table in found.tables]
        with self.session("revert", read_timeout=_READ_SECONDS) as session:
            self.label(session, under_modes(session, read_facts(session), found.modes), names)
            self.lock_tables_from_other_runs(names)
            require_own_server(session, names)
            require_passable(session, self.config.feed.passable, names)
            tokens = runs_seen(session, names)
            label = self.config.connection.label
            end_earlier_sessions(session, label, tokens=tokens, warn=self.warn)
            settle_earlier(self, session, names)
            prove_here(session, found, self._names)
            latest = find_reverse(session, *self._names)
            # Where the record is gone, its process has ended, and the tables tell how.
            record = latest or replace(found, state=REVERTING)
            where = where_is(session, record, None if latest else known)
        back = where is Where.BACK
        self._keeper = keeper = Keeper(self, replace(record, state=FOLLOWING), back=back)
        self.pace = pace = RevertPace()

        def figures(_session: Session) -> LiveFigures:
            return live_figures(label, self.status(), phase=live.REVERT, paused=pace.paused)

        verbs = RevertVerbs(self, keeper, pace)
        home, key = record.home, lambda: pace.paused
        listen(ControlListener(self, home, verbs, key=key, figures=figures), self)
        if back:
            keeper.finish(skip_drop=self.config.skip_drop)
            return
        if latest is None or record.state == ENDED:
            raise Refusal(
                f"reverse replication of {self._name} ended while the revert was asked for",
                hint="run the same command again to see why",
                error_code=ErrorCode.NO_REVERSE_REPLICATION,
            )
        if where is Where.UNCLEAR:
            raise OutcomeUnknown(
                f"the tables of {self._name} are neither as before the revert nor as after it",
                hint="look at the tables: the old one is gone, and the present one does not have"
                " its definition",
            )
        keeper.revert(skip_drop=self.config.skip_drop)
