"""The thread that reads and answers requests, and writes the figures of the run."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.live import DONE, Answer, LiveFigures
from spirit_py.checkpoint.queue import Asked, RequestQueue
from spirit_py.checkpoint.record import CheckpointRecord
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import InitVar, dataclass, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, ServerFault, SpiritError
from spirit_py.events.run import ControlObeyed, ControlRefused
from spirit_py.locks.look import require_definable
from spirit_py.migration.checkpoints import PositionReach
from spirit_py.migration.control.settings import shown
from spirit_py.migration.control.subject import live_figures, refused
from spirit_py.migration.control.verbs import Orders, Verbs
from spirit_py.migration.facts import BinlogReaches
from spirit_py.mysql.faults import ABSENT_TABLE, connection_lost
from spirit_py.mysql.kill import end_lost
from spirit_py.mysql.retry import RenewedSession
from spirit_py.threads import Background

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.checkpoint.queue import Malformed
    from spirit_py.contracts import SqlSession
    from spirit_py.migration.control.subject import Carrier, Conversation
    from spirit_py.migration.job import Job
    from spirit_py.migration.run import Run
    from spirit_py.mysql.session import Session
    from spirit_py.table.names import Name

_log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.5
_WRITE_SECONDS: Final = 1.0
_ANSWER_WITHIN: Final = 10
#: Seconds for which the end of a run waits until its last answers were read.
_READ_SECONDS: Final = 15.0
_SETTLING_SECONDS: Final = 0.05
_DROP_TRIES: Final = 3


def begin_control(
    run: Run, session: Session, record: CheckpointRecord, fronts: Sequence[Run] = ()
) -> None:
    """Listen to operators until the end of the run; apply what they set in an earlier one.

    ``fronts``: as of :class:`PositionReach`.
    """
    orders = Orders(run, CheckpointTable(*record.home))
    orders.load(session)
    verbs = Verbs(run, orders, [table.name for table in record.tables])
    # Of a run that resumes: what is read first was written before its record.
    age = CheckpointTable(*record.home).age(session, CheckpointRecord)
    reach = PositionReach(run, fronts, age=age)

    def key() -> object:
        return run.state.phase, run.settings.current

    def figures(session: SqlSession) -> LiveFigures:
        reach.look(session)
        orders.write(session)
        run.note(BinlogReaches(reach.left))
        seen, now = run.snapshots.take(), run.settings.current
        label, phase = run.config.connection.label, seen.phase.value
        return live_figures(label, seen, phase=phase, paused=now.paused, settings=shown(now))

    listen(ControlListener(run, record.home, verbs, key=key, figures=figures), run)


def listen(listener: ControlListener, job: Job) -> None:
    """Listen until the end of the work."""
    job.closing("control", listener.close)
    job.settling.append(listener.settle)
    listener.start()


@dataclass
class _Pending:
    """A request that was claimed; ``by`` answers it in another thread."""

    asked: Asked
    by: Conversation | None = None
    written: Answer | None = None
    given_up: bool = False

    @property
    def to_be_read(self) -> bool:
        return not self.given_up and (self.by is None or self.by.ended)

    @property
    def answered(self) -> bool:
        return self.by is None or (self.by.ended and self.written is self.by.answer)


@dataclass(eq=False)
class ControlListener:
    """Answers requests in the order in which they came, one after the other.

    A fault of the server costs its session only: the next look has a new one. ``key`` returns what
    is shown at once where it has changed, without I/O; ``figures`` may raise ServerFault.
    """

    job: Job
    home: InitVar[Name]
    verbs: Carrier
    key: Callable[[], object]
    figures: Callable[[Session], LiveFigures]

    def __post_init__(self, home: Name) -> None:
        self._checkpoint = CheckpointTable(*home)
        self._queue = RequestQueue(*home)
        self._created = False
        #: Sessions that were lost while they created the table, and may still do so.
        self._unanswered: set[int] = set()
        opening = partial(self.job.session, "control", read_timeout=_ANSWER_WITHIN)
        self._session = RenewedSession(opening)
        self._written_at = float("-inf")
        self._shown: object = None
        self._pending: list[_Pending] = []
        self._settled = threading.Condition()
        self._settling = False
        self._thread = Background("control", self._listen)

    def start(self) -> None:
        """Begin to listen, to what is asked from now on."""
        try:
            session = self._session.session()
            self._create(session)
            # At once, so that a run that was away sees a short one, too.
            self._show(session)
        except ServerFault as fault:
            _log.info("%s and the figures come later: %s", self._queue, fault.message)
            self._session.close()
        self._thread.start()

    def _create(self, session: Session) -> None:
        if not self._created:
            if any(session.id <= lost for lost in self._unanswered):
                # The server was restarted: nothing of before is carried out, and numbers are new.
                self._unanswered.clear()
            require_definable(session)
            try:
                self._queue.create(session)
            except ServerFault as fault:
                if connection_lost(fault):
                    self._unanswered.add(session.id)
                raise
            self._created = True

    def close(self) -> None:
        """End the thread and its session, once the last answers were read; safe to call again."""
        self.settle()
        self._thread.join()

    def settle(self) -> None:
        """Wait some seconds at most until those who asked have their answers; for each once."""
        self._settling = True
        if not self._thread.running:
            return
        with self._settled:
            self._settled.wait_for(
                lambda: not any(one.to_be_read for one in self._pending), _READ_SECONDS
            )
            for one in self._pending:
                one.given_up = one.to_be_read or one.given_up

    def _listen(self, stopping: threading.Event) -> None:
        try:
            while not stopping.wait(_SETTLING_SECONDS if self._settling else _LOOK_SECONDS):
                try:
                    self._look(self._session.session())
                except Exception as error:  # control never ends a run
                    _log.info("requests of operators could not be looked at: %s", error)
                    self._session.close()
        finally:
            # Where the checkpoint stays, nothing else drops it: a lost session is no reason.
            for _ in range(_DROP_TRIES):
                with contextlib.suppress(SpiritError):
                    self._session.ask(self._drop)
                    break
            self._session.close()

    def _drop(self, session: Session) -> None:
        if self._unanswered:
            end_lost(session, self.job.config.connection, self._unanswered)
        self._queue.drop(session)

    def _look(self, session: Session) -> None:
        self._create(session)
        waiting = self._waiting(session)
        # Looked at now: another client may have put a table of its own in the place.
        if waiting and self._queue.is_ours(session):
            for asked in waiting:
                self._answer(session, asked)
        self._write_answers(session)
        self._forget_read(session)
        self._show(session)

    def _waiting(self, session: Session) -> Sequence[Asked | Malformed]:
        """Return what is asked; nothing where the table is gone, which the next look creates again.

        Another process that worked here for a while, without this one's lock, has dropped it.
        """
        try:
            return self._queue.waiting(session)
        except ServerFault as fault:
            if fault.code not in ABSENT_TABLE:
                raise
            # At the end of the work its table is dropped, and must not come back.
            self._created = self._settling
            return ()

    def _write_answers(self, session: Session) -> None:
        for one in self._pending:
            if one.by is not None and one.by.answer is not one.written:
                answer, asked = one.by.answer, one.asked
                told = replace(answer, token=asked.request.token)
                self._queue.answer(session, asked.number, told)
                one.written = answer

    def _forget_read(self, session: Session) -> None:
        if not self._pending:
            return
        left = [
            one
            for one in self._pending
            if not one.answered or self._queue.who_waits(session, one.asked.request)
        ]
        with self._settled:
            self._pending = left
            self._settled.notify_all()

    def _answer(self, session: Session, asked: Asked | Malformed) -> None:
        if not isinstance(asked, Asked):
            if self._queue.claim(session, asked.number):
                said = f"refused a request that cannot be read: {asked.why}"
                self.job.tell(ControlRefused(said=said, reason=asked.why))
                error = refused(f"the request cannot be read: {asked.why}")
                self._queue.answer(session, asked.number, Answer.of_error("", error))
            return
        request = asked.request
        if not self.verbs.can_answer(request):
            return
        again = request.lock in {one.asked.request.lock for one in self._pending if one.asked.who}
        then, pending, claimed = None, _Pending(asked), False
        # Before it is claimed: from then on the end of the run waits until the answer is read.
        with self._settled:
            self._pending = [*self._pending, pending]
        try:
            claimed = self._queue.claim(session, asked.number)
        finally:
            if not claimed:
                with self._settled:
                    self._pending = [one for one in self._pending if one is not pending]
                    self._settled.notify_all()
        if not claimed:
            return
        try:
            if not asked.who:
                raise refused("the command that asked no longer waits for the answer")
            if again:
                raise refused("this request was carried out already")
            effect = self.verbs.carry_out(session, asked)
            if effect.by is not None:
                pending.by = effect.by
                return
            answer = Answer(token=request.token, state=DONE, said=(effect.said,))
            self.job.tell(
                ControlObeyed(said=effect.said, request=str(request), **_described(asked))
            )
            then = effect.then
        except SpiritError as error:
            answer = Answer.of_error(request.token, error)
            why, who = error.message, asked.who or "nobody"
            said = f"ctl {request} refused: {why}; asked by {who}"
            self.job.tell(ControlRefused(said=said, reason=why, **_described(asked)))
        try:
            self._queue.answer(session, asked.number, answer)
        finally:
            if then is not None:
                self.job.stop.request(then)

    def _show(self, session: Session) -> None:
        shown, now = self.key(), time.monotonic()
        if shown == self._shown and now - self._written_at < _WRITE_SECONDS:
            return
        figures = self.figures(session)
        try:
            if self._shown is not None and self._another_was_here(session, figures.run):
                return
            self._checkpoint.write(session, figures)
        except ServerFault as fault:
            # The run has dropped it, and ends.
            if fault.code not in ABSENT_TABLE:
                raise
        self._shown, self._written_at = shown, now

    def _another_was_here(self, session: Session, run: str) -> bool:
        """Stop the run where another one has written figures over those of this one.

        The named lock may have been free while this process was away, and be its own again.
        """
        last = None
        with contextlib.suppress(UnreadableCheckpoint):
            last = self._checkpoint.read(session, LiveFigures)
        if last is None or last.run == run:
            return False
        failure = MigrationFailure(
            "another run has worked on this migration while this one was away",
            hint="see spirit-py status, then run the same command again",
            error_code=ErrorCode.RUN_LOCK_LOST,
        )
        self.job.stop.request(failure)
        return True


def _described(asked: Asked) -> dict[str, Any]:
    request = asked.request
    return {"verb": request.verb, "arguments": dict(request.arguments), "client": asked.who or None}
