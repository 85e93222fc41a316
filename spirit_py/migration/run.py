"""What every phase of one run needs: configuration, sessions, messages, and the teardown.

What is opened goes on one ExitStack and is closed in reverse; a step of the teardown logs its
own failure, so that it never hides the error that ended the migration.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from spirit_py.errors import MigrationFailure, OutcomeUnknown, Refusal, ServerFault
from spirit_py.mysql.connect import connect, evaluate_with
from spirit_py.mysql.earlier import end_own_statements
from spirit_py.mysql.faults import connection_refusal
from spirit_py.mysql.retry import retrying, waiting_for
from spirit_py.phases import Phase
from spirit_py.sql import string_literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import Reporter
    from spirit_py.cutover.cutover import Cutover
    from spirit_py.migration.figures import Figures
    from spirit_py.mysql.session import Session
    from spirit_py.preflight.finding import Finding
    from spirit_py.spark.session import SparkEngine
    from spirit_py.status.report import MigrationReport
    from spirit_py.stop import StopSwitch

T = TypeVar("T")
_log = logging.getLogger(__name__)

_PREPARING: Final = frozenset({Phase.PREFLIGHT, Phase.SHORTCUT, Phase.CREATE})
_HURRY_SECONDS: Final = 3
_STEP_ATTEMPTS: Final = 8


class Run:
    """One run of the program; a context manager around everything that it opens.

    Args:
        engine_factory: makes the Spark engine; asked only when rows must be copied.

    Attributes:
        stack: closed at the end, in reverse order.
        leaving: what is opened is being closed and dropped.
        cutover: the swap, once it began.
    """

    def __init__(
        self,
        config: MigrationConfig,
        reporter: Reporter,
        figures: Figures,
        *,
        engine_factory: Callable[[MigrationConfig], SparkEngine],
        stop: StopSwitch,
    ) -> None:
        self.config = config
        self.figures = figures
        self.stop = stop
        self.stack = contextlib.ExitStack()
        self.leaving = False
        self.cutover: Cutover | None = None
        self._reporter = reporter
        self._engine_factory = engine_factory
        self._engine: SparkEngine | None = None

    def label(
        self,
        text: str,
        first: Session,
        *,
        server_uuid: str,
        settings: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Let every session say which run it is of (see mysql/earlier.py), the first one too.

        From now on every session must be of the server that answered first (R14), and evaluates
        expressions by these settings (R22).
        """
        connection = replace(
            self.config.connection, label=text, server_uuid=server_uuid, settings=settings
        )
        self.config = replace(self.config, connection=connection)
        first.execute(f"SET @spirit_py_run={string_literal(text)}")
        evaluate_with(first, settings)

    def hurry(self) -> None:
        """After a stop request: end a statement of the preparation that may take for hours.

        All later phases look at the stop switch themselves, and end their statements.
        """
        connection = self.config.connection
        if self.leaving or self.figures.phase not in _PREPARING or not connection.label:
            return
        quick = replace(connection, connect_timeout=_HURRY_SECONDS)
        with (
            contextlib.suppress(ServerFault),
            connect(quick, role="hurry", read_timeout=_HURRY_SECONDS) as session,
        ):
            end_own_statements(session, connection.label)

    def cause_of(self, error: BaseException | None) -> BaseException | None:
        """Return the reason of the stop request where ``error`` only followed from it."""
        if isinstance(error, (OutcomeUnknown, Refusal)) or self.stop.reason is None:
            return error
        return self.stop.reason

    @property
    def report(self) -> MigrationReport:
        """The report that this run fills."""
        return self.figures.report

    @property
    def engine(self) -> SparkEngine:
        """Spark, which begins to start when it is first asked for."""
        if self._engine is None:
            self._engine = self._engine_factory(self.config)
            self.closing("Spark", self._engine.stop)
            self._engine.start()
        return self._engine

    def rest_engine(self) -> None:
        """Stop Spark for a time in which nothing is computed; it starts again when asked for."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.stop()

    def show(self, waiting_for: str) -> None:
        """Say what is waited for now."""
        self.figures.waiting_for = waiting_for

    def enter(self, phase: Phase) -> None:
        """Go to the next phase."""
        self.stop.check()
        self.figures.enter(phase)

    # -- sessions

    def session(self, role: str, *, native: bool = False) -> Session:
        """Open a session for one step: none is kept over the days that a copy may take."""
        return connect(self.config.connection, role=role, native=native)

    def step(self, role: str, work: Callable[[Session], T]) -> T:
        """Do one step in a session of its own, again when the server was away meanwhile.

        Args:
            work: may run twice.
        """

        def once() -> T:
            with self.session(role) as session:
                return work(session)

        def away(_: int, fault: BaseException) -> None:
            self.show(waiting_for(self.config.connection, fault))

        result: T = retrying(self.stop, attempts=_STEP_ATTEMPTS, on_retry=away)(once)
        self.show("")
        return result

    def first_session(self) -> Session:
        """Open the driver's session; what cannot be reached is a refusal."""
        try:
            return self.session("driver")
        except ServerFault as fault:
            raise connection_refusal(fault, self.config.connection) from fault

    # -- messages

    def message(self, text: str, **fields: object) -> None:
        """Say one thing that happened."""
        self._reporter.message(text, **fields)

    def warn(self, text: str) -> None:
        """Say something that the operator should know, and put it into the report."""
        self.report.warnings.append(text)
        self.message(f"warning: {text}")

    def warn_of(self, findings: tuple[Finding, ...]) -> None:
        """Say what the checks found and did not refuse."""
        for finding in findings:
            self.warn(f"{finding.cause} ({finding.remedy})" if finding.remedy else finding.cause)

    @contextlib.contextmanager
    def remarked(self, what: str) -> Iterator[None]:
        """Turn a failure after the swap into a warning: the migration is done."""
        try:
            yield
        except MigrationFailure as error:
            self.remark(what, error.message)

    def remark(self, what: str, why: str) -> None:
        """Say that something is left behind."""
        self.warn(f"{what} could not be dropped: {why}; drop it by hand")

    # -- the end

    def closing(self, what: str, close: Callable[[], None]) -> None:
        """Close ``what`` at the end; a failure is logged and hides nothing."""

        def step() -> None:
            try:
                close()
            except Exception:
                _log.exception("could not close %s", what)

        self.stack.callback(step)
