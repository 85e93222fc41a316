"""What ``migrate`` and ``revert`` share: configuration, sessions, Spark, messages, teardown.

One ExitStack closes everything in reverse order; a failing step never hides an earlier error.
"""

from __future__ import annotations

import contextlib
import copy
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

from spirit_py.errors import Interrupted, ServerFault
from spirit_py.events.run import Warned
from spirit_py.locks.look import LockedBy
from spirit_py.locks.named import migration_lock
from spirit_py.mysql.connect import connect, evaluate_with
from spirit_py.mysql.evaluation import choose_modes, evaluation_settings
from spirit_py.mysql.facts import server_uuid
from spirit_py.mysql.faults import connection_refusal
from spirit_py.mysql.own_sessions import claim, run_label, shown_run
from spirit_py.mysql.retry import patiently
from spirit_py.pace import Unhindered
from spirit_py.spark.choice import Engines
from spirit_py.threads import StopSwitch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spirit_py.config import RunConfig
    from spirit_py.contracts import Reporter
    from spirit_py.events.event import Event
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.mysql.session import Session
    from spirit_py.pace import Pace
    from spirit_py.spark.gang import GangEngine

T = TypeVar("T")
Follower: TypeAlias = "Callable[[object], None]"
"""Called with what happens: events, and facts of the run."""
_log = logging.getLogger(__name__)

_STEP_ATTEMPTS: Final = 8


def quietly(what: str, close: Callable[[], object]) -> None:
    """Close something; a failure is logged and hides no earlier error."""
    try:
        close()
    except Exception:
        _log.exception("could not close %s", what)


class Job:
    """Configuration, sessions, Spark, messages and teardown of one command.

    One class because each part of a command gets it, and needs several of these at a time: a step
    opens a session, waits by the stop switch, and reports what it waits for.
    ``engine_factory`` is called only when Spark may be needed.
    """

    def __init__(
        self,
        config: RunConfig,
        reporter: Reporter,
        *,
        engine_factory: Callable[[Any], GangEngine],
        stop: StopSwitch | None,
    ) -> None:
        self.config = config
        self.stop = stop or StopSwitch()
        self.stack = contextlib.ExitStack()
        self._reporter = reporter
        self._facts: ServerFacts | None = None
        self._followers: list[Follower] = []
        #: What waits for a moment until operators have read their answers.
        self.settling: list[Callable[[], None]] = []
        #: Asked before each piece of work whether it may begin.
        self.pace: Pace = Unhindered()
        #: One place for this and for what :meth:`facing` returns.
        self._giving_up = [""]
        self.engines = Engines(config, engine_factory, stop=self.stop, warn=self.warn)

    def label(
        self,
        first: Session,
        facts: ServerFacts,
        tables: Iterable[tuple[str, str]],
        theirs: Sequence[Session] = (),
    ) -> None:
        """Label every session with its run (see mysql/kill.py), the first one too.

        From now on every session must be on the server that answered first (R14), and evaluates
        expressions under that server's settings (R22): so do ``theirs``, the first ones on the
        other servers, in the order of the configuration's.
        """
        label, settings = run_label(tables), evaluation_settings(facts)
        self._facts, config = facts, self.config
        known: dict[str, Any] = {"label": label, "settings": settings}
        connection = replace(config.connection, server_uuid=facts.uuid, **known)
        others = [
            replace(options, server_uuid=server_uuid(there), **known)
            for there, options in zip(theirs, config.others, strict=True)
        ]
        self.config = config.reached_by(connection, others)
        for session, options in zip([first, *theirs], [connection, *others], strict=True):
            session.execute(f"SET {shown_run(label)}")
            claim(session.query, session.id, origin=options.origin, label=label)
            evaluate_with(session, settings)

    def evaluate_as(self, facts: ServerFacts, sessions: Sequence[Session]) -> None:
        """Have sessions on all servers, and later ones there, evaluate as one does (R22, R14)."""
        settings, config = evaluation_settings(facts), self.config
        for session in sessions:
            evaluate_with(session, settings)
        connection, *others = (
            replace(one, settings=settings, server_uuid=server_uuid(session))
            for one, session in zip((config.connection, *config.others), sessions, strict=True)
        )
        self.config = config.reached_by(connection, others)

    def lock_tables_from_other_runs(
        self, tables: Iterable[tuple[str, str]], *, reads: bool = False
    ) -> None:
        """Hold each table's named lock until the end; Refusal where another run holds one."""
        config, names = self.config, list(tables)
        for options in (config.connection, *config.others):
            self.stack.enter_context(migration_lock(options, *names, stop=self.stop, reads=reads))
        # After the locks, so that no task runs any more when they are given back.
        self.closing("Spark", self.engines.stop)

    def facing(self, **servers: Any) -> Self:
        """Return the same work with other servers in its configuration, told to the same state."""
        other = copy.copy(self)
        other.config = replace(self.config, **servers)
        return other

    # -- sessions

    def session(
        self, role: str, *, native: bool = False, read_timeout: int = 0, there: bool = False
    ) -> Session:
        """Open a session for one step: a copy may take days, and idle sessions are lost.

        ``native`` keeps the server's own modes, or those that the operator chose. A metadata lock
        is waited for half as long as ``read_timeout``. ``there``: on the server of the new tables,
        where ``native`` means the source's modes and time zone.
        """
        options = self.config.there if there else self.config.connection
        wait = read_timeout // 2 if read_timeout else 30
        session = connect(
            options, role=role, native=native, lock_wait_timeout=wait, read_timeout=read_timeout
        )
        if native and self._facts is not None:
            try:
                choose_modes(session, self._facts, apart=there)
            except BaseException:
                session.close()
                raise
        return session

    def first_session(self, role: str, *, read_timeout: int = 0) -> Session:
        """Open the first session; Refusal where the server cannot be reached."""
        try:
            return self.session(role, read_timeout=read_timeout)
        except ServerFault as fault:
            raise connection_refusal(fault, self.config.connection) from fault

    def step(
        self,
        role: str,
        work: Callable[[Session], T],
        *,
        stop: StopSwitch | None = None,
        passing: Callable[[BaseException], bool] = lambda _: False,
        there: bool = False,
    ) -> T:
        """Do one step in a session of its own; ``work`` runs again if the server was away.

        Behind a backup, or a global lock, it is repeated until that is over.
        """
        options = self.config.there if there else self.config.connection
        locked = LockedBy((options, ()), defines=True)

        def once() -> T:
            with self.session(role, there=there) as session:
                return work(session)

        result: T = patiently(
            once,
            options,
            stop or self.stop,
            tell=self.show,
            locked=locked,
            attempts=_STEP_ATTEMPTS,
            passing=passing,
        )
        self.show("")
        return result

    # -- what happens

    @property
    def table(self) -> str:
        """``schema.table`` where the work is about one; it is named in every event."""
        return ""

    def show(self, waiting_for: str) -> None:
        """Show what is waited for now; nothing, where nobody looks."""

    def held_up(self, what: str, seconds: float) -> None:
        """Count seconds in which others held up a lock; nothing, where nobody looks."""

    def tell(self, event: Event) -> None:
        """Report that something happened."""
        told = event.about(self.table)
        self._reporter.event(told)
        self._pass_on(told)

    def follow(self, follower: Follower) -> None:
        """Call ``follower`` with all that happens from now on, until :meth:`unfollow`."""
        self._followers.append(follower)

    def unfollow(self, follower: Follower) -> None:
        """Call it no more; safe to call again."""
        if follower in self._followers:
            self._followers.remove(follower)

    def _pass_on(self, happened: object) -> None:
        for follower in tuple(self._followers):
            follower(happened)

    def warn(self, text: str, *, code: str | None = None) -> None:
        """Report something that the operator should know."""
        self.tell(Warned(said=text, code=code))

    def remark(self, what: str, why: str) -> None:
        """Report that a table could not be dropped after the swap."""
        self.warn(f"{what} could not be dropped: {why}; drop it by hand")

    @property
    def done_hint(self) -> str:
        """What is left to do once the tables are changed, or swapped back; empty before."""
        return ""

    def cause_of(self, error: BaseException) -> BaseException:
        """Return what has ended the work; a stop says what is left to do, if nothing else has."""
        cause, hint = self.stop.cause_of(error), self.done_hint
        if hint and isinstance(cause, Interrupted) and not cause.says_done:
            return cause.saying(hint)
        return cause

    def to_its_end(self, work: Callable[[], None]) -> None:
        """Do the work; raise what has ended it."""
        try:
            work()
        except BaseException as error:
            if (cause := self.cause_of(error)) is error:
                raise
            raise cause from error

    @property
    def giving_up(self) -> str:
        """Who ends the work by a request; from then on no RENAME is sent. Empty for nobody."""
        return self._giving_up[0]

    def work_at(self, pace: Pace) -> None:
        """Ask another one from now on."""
        self.pace = pace

    def give_up(self, who: str) -> None:
        """Send no RENAME from now on; an empty text takes that back."""
        self._giving_up[0] = who

    def await_readers(self) -> None:
        """Wait for those who asked: the answers are in a checkpoint table that is dropped next."""
        for settle in self.settling:
            settle()

    def closing(self, what: str, close: Callable[[], object]) -> None:
        """Close ``what`` at the end, quietly."""
        self.stack.callback(quietly, what, close)
