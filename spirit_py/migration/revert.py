"""Go the way back: by the process that keeps it, or in its place."""

from __future__ import annotations

import contextlib
import math
import secrets
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spirit_py.checkpoint.reverse import DONE, ENDED, FAILED, FOLLOWING, REVERTING, RevertRequest
from spirit_py.checkpoint.reverse_look import Where, find_reverse, where_is
from spirit_py.checksum.result import ChecksumOptions
from spirit_py.cutover.plan import CutoverLimits
from spirit_py.errors import Interrupted, MigrationFailure, OutcomeUnknown, Refusal, ServerFault
from spirit_py.migration.keeper import Keeper
from spirit_py.migration.undo import Means
from spirit_py.mysql.connect import connect
from spirit_py.mysql.earlier_runs import end_earlier_sessions
from spirit_py.mysql.evaluation import evaluation_settings
from spirit_py.mysql.facts import read_facts
from spirit_py.mysql.faults import Disposition, connection_refusal, disposition
from spirit_py.mysql.locks.named import AdvisoryLock, named_lock_holder
from spirit_py.mysql.run_label import run_label
from spirit_py.mysql.vouched import require_word
from spirit_py.phases import Phase
from spirit_py.signals import run_command
from spirit_py.spark.engine import SparkEngine, engine_for
from spirit_py.status.safe import SafeReporter
from spirit_py.status.snapshot import MigrationStatus
from spirit_py.stop import StopSwitch
from spirit_py.table.names import lock_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.checkpoint.reverse_look import ReverseReplication
    from spirit_py.config import ConnectionOptions, RevertConfig
    from spirit_py.contracts import Reporter
    from spirit_py.mysql.session import Session
    from spirit_py.spark.gang import GangEngine

_LOOK_SECONDS: Final = 0.3
_READ_SECONDS: Final = 30


def revert(
    options: RevertConfig,
    *,
    reporter: Reporter,
    engine_factory: Callable[[RevertConfig], SparkEngine] | None = None,
    stop: StopSwitch | None = None,
) -> None:
    """Bring the old definition of a table back, without losing a write.

    Args:
        engine_factory: makes the Spark engine, where this process has to compare the rows.
        stop: a switch of the caller's own, to stop from outside.

    Raises:
        SpiritError: with the exit code of the process (R16).
    """
    switch = stop or StopSwitch()
    reporter = SafeReporter(reporter)
    run = Revert(options, reporter, switch, engine_factory or engine_for)
    run_command(
        run.run,
        stop=switch,
        reporter=reporter,
        status=run.status,
        left_at_once=lambda: Interrupted(
            signal.SIGINT,
            hint="look at the tables: if the old one (_..._old) exists, the revert was not made",
        ),
    )


class Revert:
    """One ``spirit-py revert``; :meth:`run` once."""

    def __init__(
        self,
        options: RevertConfig,
        reporter: Reporter,
        stop: StopSwitch,
        engine_factory: Callable[[RevertConfig], SparkEngine],
    ) -> None:
        self._options = options
        self._reporter = reporter
        self._stop = stop
        self._engine_factory = engine_factory
        self._began = time.monotonic()
        self._waiting_for = ""
        self._lock_name = lock_name("migration", options.database, options.table)
        self._name = f"{options.database}.{options.table}"

    def status(self) -> MigrationStatus:
        """Return what is going on, for the display."""
        spent = time.monotonic() - self._began
        return MigrationStatus(
            table=self._name,
            phase=Phase.KEEP,
            elapsed=spent,
            phase_elapsed=spent,
            waiting_for=self._waiting_for,
        )

    def run(self) -> None:
        """Ask the process that keeps the way back; where there is none, go it here."""
        with self._first_session() as session:
            found = self._find(session)
            keeper = named_lock_holder(session, self._lock_name)
        if keeper is not None and self._ask(found, keeper):
            return
        self._reporter.message("no process keeps the way back any more: going on in its place")
        self._take_over(found)

    def _first_session(self) -> Session:
        try:
            return self._session()
        except ServerFault as fault:
            raise connection_refusal(fault, self._options.connection) from fault

    def _session(self) -> Session:
        return connect(
            self._options.connection,
            role="revert",
            lock_wait_timeout=5,
            read_timeout=_READ_SECONDS,
        )

    def _find(self, session: Session) -> ReverseReplication:
        """Find the way back, which must still be there."""
        found = find_reverse(session, self._options.database, self._options.table)
        if found is None:
            raise Refusal(
                f"no way back is kept for {self._name}",
                hint="spirit-py migrate --keep-old-current keeps one; see spirit-py status",
            )
        if found.record.state == ENDED:
            raise Refusal(
                f"there is no way back for {self._name} any more: {found.record.reason}",
                hint="the table stays as it is; the old one is as it was then, see what only it"
                " holds",
            )
        if len(found.record.tables) > 1:
            self._reporter.message(f"these were changed together: {found.record.names}")
        return found

    # -- asking

    def _ask(self, found: ReverseReplication, keeper: int) -> bool:
        """Ask the keeping process; False when it has ended meanwhile, without an answer."""
        request = RevertRequest(token=secrets.token_hex(8), skip_drop=self._options.skip_drop)
        self._reporter.message(f"asking the process that keeps the way back (session {keeper})")
        with contextlib.ExitStack() as stack:
            # A request counts only while somebody waits for it, and this lock says so.
            waiting = AdvisoryLock(
                self._options.connection, request.lock, stop=self._stop, purpose="revert"
            )
            stack.enter_context(waiting)
            session = stack.enter_context(self._session())
            found.checkpoint.write(session, request)
            stack.callback(self._withdraw, found, request)
            return self._follow(session, found, request)

    def _follow(self, session: Session, found: ReverseReplication, request: RevertRequest) -> bool:
        """Show what the keeping process says, until it has done it."""
        began, shown = time.monotonic(), 0
        self._waiting_for = "the process that keeps the way back"
        while True:
            self._leave_if_asked(begun=shown > 0)
            held = named_lock_holder(session, self._lock_name) is not None
            # Asked for last: what the process wrote before it ended counts.
            answer = found.checkpoint.answer_to(session, request)
            if answer is not None and answer.state == FAILED:
                raise answer.as_error()
            for line in answer.said[shown:] if answer is not None else ():
                shown += 1
                self._reporter.message(line)
            if answer is not None and answer.state == DONE:
                return True
            if not held:
                return False
            if not shown and time.monotonic() - began > self._options.answer_timeout:
                raise MigrationFailure(
                    f"the process that keeps the way back of {self._name} does not answer",
                    hint="see what it does; when it has ended, run the same command again",
                )
            self._stop.wait(_LOOK_SECONDS)

    def _leave_if_asked(self, *, begun: bool) -> None:
        """End at a signal; what the other process has begun goes on without us."""
        reason = self._stop.reason
        if begun and isinstance(reason, Interrupted):
            reason.hint = "the process that keeps the way back goes on with the revert"
        self._stop.check()

    def _withdraw(self, found: ReverseReplication, request: RevertRequest) -> None:
        """Take the request back: it was answered, or is not wanted any more."""
        try:
            with self._session() as session:
                found.checkpoint.withdraw(session, request)
        except ServerFault as fault:
            if disposition(fault) is not Disposition.FATAL:
                self._reporter.message(f"the request could not be taken back: {fault.message}")

    # -- doing it here

    def _take_over(self, found: ReverseReplication) -> None:
        """Go on where the process that kept the way back has ended."""
        names = sorted((table.schema, table.table) for table in found.record.tables)
        connection = replace(self._options.connection, label=run_label(names))
        with contextlib.ExitStack() as stack:
            for schema, table in names:
                lock = AdvisoryLock(
                    connection,
                    lock_name("migration", schema, table),
                    stop=self._stop,
                    purpose=f"migration of {schema}.{table}",
                )
                stack.enter_context(lock)
            with connect(connection, role="revert") as session:
                require_word(session, self._options.feed.vouched, names)
                end_earlier_sessions(session, connection.label)
                latest = find_reverse(session, self._options.database, self._options.table)
                # Where the record is gone, its process has ended, and the tables tell how.
                record = latest.record if latest else replace(found.record, state=REVERTING)
                where = where_is(session, record)
                settings = evaluation_settings(read_facts(session))
            connection = replace(connection, settings=settings)
            keeper = Keeper(
                self._means(connection, stack),
                found.checkpoint,
                replace(record, state=FOLLOWING),
                stop=self._stop,
            )
            if where is Where.BACK:
                keeper.finish(skip_drop=self._options.skip_drop)
            else:
                self._require(latest, where)
                keeper.revert(skip_drop=self._options.skip_drop)

    def _require(self, latest: ReverseReplication | None, where: Where) -> None:
        """Refuse where what was there a moment ago is gone."""
        if latest is None or latest.record.state == ENDED:
            raise Refusal(
                f"the way back of {self._name} ended while it was asked for",
                hint="run the same command again to see why",
            )
        if where is Where.UNCLEAR:
            raise OutcomeUnknown(
                f"the tables of the way back of {self._name} are neither as before nor as after it",
                hint="look at the tables: the old one is gone, and the present one does not have"
                " its definition",
            )

    def _means(self, connection: ConnectionOptions, stack: contextlib.ExitStack) -> Means:
        """Return what the way back needs of this process."""
        options = self._options
        started: list[SparkEngine] = []

        def engine() -> GangEngine:
            if not started:
                made = self._engine_factory(options)
                stack.callback(made.stop)
                made.start()
                started.append(made)
            return started[0]

        return Means(
            connection=connection,
            engine=engine,
            message=self._reporter.message,
            show=self._show,
            feed=options.feed,
            limits=CutoverLimits(
                lock_wait=options.lock_wait_timeout,
                attempts=options.cutover_attempts,
                kill=not options.no_kill,
                kill_after=options.kill_after,
            ),
            guard=options.snapshot_guard,
            checksum=ChecksumOptions(
                lock_wait_timeout=math.ceil(options.lock_wait_timeout),
                yield_seconds=options.checksum_yield_timeout,
            ),
        )

    def _show(self, text: str) -> None:
        self._waiting_for = text
