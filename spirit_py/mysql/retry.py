"""When a statement is sent again, in which session, and when a task sends its next one.

:func:`retrying` tries again for :data:`PATIENCE` seconds, from the first such fault on, while the
server is away (a restart ends nothing) or reports a ``hiccup``; ``attempts`` times on passing
faults (deadlock, lock wait, an interrupted statement, ``passing``). Pauses grow, are random, and
end with a stop.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random_exponential

from spirit_py.classes import KW_ONLY, dataclass
from spirit_py.errors import ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import (
    INTERRUPTED,
    LOCK_WAIT_TIMEOUT,
    Disposition,
    disposition,
    login_counted,
    server_away,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock, SqlSession
    from spirit_py.errors import SpiritError
    from spirit_py.mysql.session import Session
    from spirit_py.threads import StopSwitch

T = TypeVar("T")

PATIENCE: Final = 600.0
"""Seconds for which the server may be away before a run ends; a restart takes less."""


class Patience:
    """How long the server may still be away; starts again when it has answered."""

    def __init__(self, seconds: float = PATIENCE, *, clock: Clock = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._since: float | None = None

    def answered(self) -> None:
        """Note that the server did what it was asked for."""
        self._since = None

    def over(self) -> bool:
        """Note that the server is away; return whether it has been for too long."""
        now = self._clock()
        self._since = now if self._since is None else self._since
        return now - self._since > self._seconds


class Retrier:
    """Tenacity's, for calls that nearly always go well at once: it is made when one has failed.

    Its account of a call is a circle of some forty objects, which only a collection of garbage
    frees; without a fault there is none.
    """

    __slots__ = ("_made",)

    def __init__(self, made: Callable[[], Retrying]) -> None:
        self._made = made

    def __call__(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call it, again and again if need be; return what it returns."""
        try:
            return fn(*args, **kwargs)
        except BaseException as error:
            faults = [error]

        def again() -> T:
            if faults:
                raise faults.pop()
            return fn(*args, **kwargs)

        return self._made()(again)


def retrying(
    stop: StopSwitch,
    *,
    attempts: int = 5,
    patience: float = PATIENCE,
    first_pause: float = 0.2,
    longest_pause: float = 10.0,
    on_retry: Callable[[int, BaseException], None] | None = None,
    hiccups: tuple[type[SpiritError], ...] = (),
    passing: Callable[[BaseException], bool] = lambda _: False,
    progress: Callable[[], object] | None = None,
    locked: Callable[[], object] = lambda: False,
    clock: Clock = time.monotonic,
) -> Retrier:
    """Build a retrier for one call, as the module says. The last fault is raised, or a stop's.

    ``on_retry`` gets the number of the failed attempt, from 1, and its fault. ``hiccups`` mean, if
    they are resumable, that the server is away; ``passing``: whether a fault passes that is fatal
    elsewhere. ``progress`` returns another value after any: then ``patience`` starts again.
    ``locked``: whether, or by whom, the lock that did not come in time is one of a table that
    another session is seen to have; that is waited for without an end.
    """
    failed = 0
    away = Patience(patience, clock=clock)
    seen = progress() if progress is not None else None

    def hiccup(error: BaseException) -> bool:
        return isinstance(error, hiccups) and error.resumable

    def worth_another_try(error: BaseException) -> bool:
        return hiccup(error) or disposition(error) is Disposition.RETRY or passing(error)

    def enough(state: RetryCallState) -> bool:
        nonlocal failed, seen
        fault = state.outcome.exception() if state.outcome else None
        if stop.requested or fault is None:
            return True
        if progress is not None and (now := progress()) != seen:
            seen = now
            away.answered()
        if hiccup(fault) or server_away(fault):
            return away.over()
        away.answered()
        if isinstance(fault, ServerFault) and fault.code == LOCK_WAIT_TIMEOUT and locked():
            return False
        failed += 1
        return failed >= attempts

    def before_pause(state: RetryCallState) -> None:
        fault = state.outcome.exception() if state.outcome else None
        if on_retry is not None and fault is not None:
            on_retry(state.attempt_number, fault)

    return Retrier(
        lambda: Retrying(
            retry=retry_if_exception(worth_another_try),
            stop=enough,
            wait=wait_random_exponential(multiplier=first_pause, max=longest_pause),
            sleep=stop.pause,
            before_sleep=before_pause,
            reraise=True,
        )
    )


def await_server(
    options: ConnectionOptions, stop: StopSwitch, *, tell: Callable[[str], None] | None = None
) -> None:
    """Wait until the server answers, or raise a ServerFault after :data:`PATIENCE` seconds.

    Raises AnotherServer if it came back as another one (R14), or the stop switch's reason.
    """
    patiently(lambda: connect(options, role="await").close(), options, stop, tell=tell)


def patiently(
    work: Callable[[], T],
    options: ConnectionOptions,
    stop: StopSwitch,
    *,
    tell: Callable[[str], None] | None = None,
    hiccups: tuple[type[SpiritError], ...] = (),
    locked: Callable[[], str] = lambda: "",
    **more: Any,
) -> T:
    """Return what ``work``, which may run again, returns; ``tell`` gets what is waited for.

    ``locked`` and ``more`` as in :func:`retrying`; what the first returns is shown.
    """
    told = False
    holder = ""

    def held() -> str:
        nonlocal holder
        holder = locked()
        return holder

    def away(_: int, fault: BaseException) -> None:
        nonlocal told, holder
        if tell is not None:
            told = True
            tell(holder or waiting_for(options, fault))
        holder = ""

    result: T = retrying(stop, on_retry=away, hiccups=hiccups, locked=held, **more)(work)
    if tell is not None and told:
        tell("")
    return result


def waiting_for(options: ConnectionOptions, fault: BaseException) -> str:
    """Return the text that shows that the server is waited for, and why."""
    text = fault.text if isinstance(fault, ServerFault) else str(fault)
    return f"the server at {options.address} to answer ({text})"


#: The pause after the first refused login, and the longest one: seconds.
_FIRST_REFUSAL: Final = 2.0
_LONGEST_REFUSAL: Final = 300.0


def pause_after_refusals(count: int) -> float:
    """Return the seconds until the next login, after so many that were refused in a row."""
    return min(_LONGEST_REFUSAL, _FIRST_REFUSAL * 2.0 ** min(count - 1, 10))


@dataclass(eq=False)
class RenewedSession:
    """A session for work that repeats for days, of which a fault costs one turn. One thread.

    A refused login is not repeated before its pause is over (:func:`pause_after_refusals`).
    """

    open_session: Callable[[], Session]
    _: KW_ONLY
    prepare: Callable[[Session], None] | None = None
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        self._session: Session | None = None
        self._refused: ServerFault | None = None
        self._refusals, self._again_at = 0, 0.0

    def session(self) -> Session:
        """Return the session, opened at need; a ServerFault where that is not possible."""
        if self._session is None:
            self._session = self._logged_in()
            if self.prepare is not None:
                try:
                    self.prepare(self._session)
                except ServerFault:
                    self.close()
                    raise
        return self._session

    def _logged_in(self) -> Session:
        if self._refused is not None and self.clock() < self._again_at:
            raise self._refused.with_traceback(None)
        try:
            session = self.open_session()
        except ServerFault as fault:
            if login_counted(fault):
                self._refused, self._refusals = fault, self._refusals + 1
                self._again_at = self.clock() + pause_after_refusals(self._refusals)
            raise
        self._refused, self._refusals = None, 0
        return session

    def ask(self, work: Callable[[Session], T]) -> T:
        """Do something with the session; it is closed after a fault of server or network."""
        try:
            return work(self.session())
        except ServerFault:
            self.close()
            raise

    def close(self) -> None:
        """Close the session, if there is one; safe to call again, and another may be opened."""
        session, self._session = self._session, None
        if session is not None:
            session.close()


#: Times that one statement may be ended.
_ENDS: Final = 20


class RepeatingSession:
    """A session whose statements, each by itself, are sent again after they were ended.

    As one is in front of a global lock; ``turn`` waits until that has passed, or raises on a stop.
    """

    def __init__(self, session: SqlSession, turn: Callable[[], None]) -> None:
        self._session, self._turn = session, turn
        self.id, self.address, self.origin = session.id, session.address, session.origin
        self.warnings, self.close = session.warnings, session.close

    @property
    def warning_count(self) -> int:
        """Warnings of the last statement."""
        return self._session.warning_count

    def execute(self, sql: str, parameters: Sequence[object] | None = None) -> int:
        """Run a statement without a result; return the affected rows."""
        return self._again(self._session.execute, sql, parameters)

    def query(self, sql: str, parameters: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement with a result; return its rows."""
        return self._again(self._session.query, sql, parameters)

    def _again(self, work: Callable[..., T], *given: object) -> T:
        for _ in range(_ENDS):
            try:
                return work(*given)
            except ServerFault as fault:
                if fault.code != INTERRUPTED:
                    raise
            self._turn()
        return work(*given)


#: Of one statement's seconds so many count: a longer one was held up by others.
_LONGEST: Final = 5.0
#: A task whose session says nothing for longer counts as lost (:mod:`spirit_py.spark.gang`).
_LONGEST_REST: Final = 30.0


class TaskRest:
    """The rest that a task takes before its next statement. One thread."""

    def __init__(self) -> None:
        self._until = 0.0

    def owe(self, seconds: float, ratio: float) -> None:
        """Note that a statement of so many seconds has ended, to be rested by that ratio."""
        now = time.monotonic()
        rest = min(seconds, _LONGEST) * ratio
        self._until = min(max(self._until, now) + rest, now + _LONGEST_REST)

    def take(self) -> None:
        """Wait until the rest is over."""
        left = self._until - time.monotonic()
        if left > 0:
            threading.Event().wait(left)
