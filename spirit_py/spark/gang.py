"""All tasks at once, in conversation with the driver: Spark's barrier mode plus a mailbox.

Spark starts the tasks of a barrier stage together or not at all, but it brings nothing to a
task that runs, and ``barrier()`` takes about a second (measured), too long under a table lock.
The conversation therefore goes through the one place that every task reaches anyway: the
server. Each side keeps its letters in a user variable of its own session and reads the other
side's in ``performance_schema.user_variables_by_thread``: 0.1 ms a look, no privilege but
SELECT there, no table, no binlog event, no port of the driver that a firewall may close, and
everything is gone with the session. ``barrier()`` itself is not called: the driver knows that
the gang is complete when every task has said hello, in milliseconds.

Life::

    driver                                   task
    Gang(...) opens the job                  join(rank) -> member, hello
    assemble()  <----------------------------'
    everyone("...")  ----------------------> member.handle(order) -> answer
    post(rank, order), collect() ...         ...
    finish()  -----------------------------> member.result(), member.close()

A task works off its orders one by one; the driver keeps a few outstanding, so that no task
waits between two. When a member is lost (its session vanishes, or its process dies), or the
driver's session is, the gang as a whole is: :class:`~spirit_py.errors.WorkersLost`, and the
caller starts a new one. A member that finds the driver's session gone ends by itself.
"""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from spirit_py.errors import MigrationFailure, ServerFault, SpiritError, WorkersLost
from spirit_py.mysql.faults import Disposition, disposition
from spirit_py.spark.silence import Silence
from spirit_py.threads import Background

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from spirit_py.contracts import SqlSession
    from spirit_py.spark.outcome import Outcome
    from spirit_py.stop import StopSwitch

_log = logging.getLogger(__name__)
_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)

_LOOK_SECONDS: Final = 0.002
#: While members have work for much longer, the driver looks less often, and leaves them the CPU.
_LONGEST_LOOK_SECONDS: Final = 0.02
_KEPT_ANSWERS: Final = 8
_FINISH: Final = ""
_GRACE_SECONDS: Final = 2.0
_JOIN_SECONDS: Final = 15.0

_LETTERS: Final = """SELECT THREAD_ID, VARIABLE_VALUE
FROM performance_schema.user_variables_by_thread WHERE VARIABLE_NAME = %s"""

_THREAD: Final = """SELECT THREAD_ID FROM performance_schema.threads
WHERE PROCESSLIST_ID = CONNECTION_ID()"""


class GangMember(Protocol[_R_co]):
    """What one task of a gang does. Used by one thread; every method may block."""

    @property
    def session(self) -> SqlSession:
        """A session of the driver's server; its user variables carry the answers."""
        ...

    @property
    def sessions(self) -> Sequence[tuple[str, int]]:
        """What to kill when the member does not end: server name and session id."""
        ...

    def handle(self, order: str) -> str:
        """Carry out one order and answer it."""
        ...

    def result(self) -> _R_co:
        """Return what is too large for the mailbox, at the end."""
        ...

    def close(self) -> None:
        """Close the sessions; called once, whatever happened."""
        ...


class GangEngine(Protocol):
    """What a gang needs of Spark; :class:`spirit_py.spark.engine.SparkEngine` has it."""

    @property
    def slots(self) -> int:
        """How many tasks can run at the same time."""
        ...

    def run_gang(
        self, function: Callable[[int], _R], *, size: int, group: str, description: str
    ) -> list[Outcome[_R]]:
        """Run ``function(rank)`` in ``size`` tasks at once; block until all have ended."""
        ...

    def cancel(self, group: str) -> None:
        """Cancel the jobs of a group."""
        ...


@dataclass(frozen=True, kw_only=True)
class _Task(Generic[_R]):
    """What Spark ships: joins the gang and works off orders. Picklable."""

    join: Callable[[int], GangMember[_R]]
    token: str
    driver_thread: int

    def __call__(self, rank: int) -> _R:
        """Be the member of that rank until the driver says that it is over."""
        member = self.join(rank)
        try:
            return self._serve(rank, member)
        finally:
            member.close()

    def _serve(self, rank: int, member: GangMember[_R]) -> _R:
        """Say hello, then answer orders in sequence until there is an empty one."""
        idle = threading.Event()
        done = 0
        answers: list[tuple[int, str]] = []
        while True:
            hello = {"rank": rank, "sessions": list(member.sessions), "answers": answers}
            member.session.execute(f"SET @{_name(self.token)} = %s", (json.dumps(hello),))
            while not (waiting := [o for o in self._orders(rank, member.session) if o[0] > done]):
                idle.wait(_LOOK_SECONDS)
            if any(order == _FINISH for _, order in waiting):
                return member.result()
            done, order = waiting[0]
            answers = [*answers, (done, member.handle(order))][-_KEPT_ANSWERS:]

    def _orders(self, rank: int, session: SqlSession) -> list[tuple[int, str]]:
        """Read this member's orders from the driver's session."""
        rows = session.query(
            f"{_LETTERS} AND THREAD_ID = %s", (_name(self.token, rank), self.driver_thread)
        )
        if not rows:
            raise MigrationFailure("the driver's session is gone, so this task ends")
        if rows[0][1] is None:
            return []
        return [(int(number), str(text)) for number, text in json.loads(rows[0][1])]


def _name(token: str, rank: int | None = None) -> str:
    """Name the user variable of the members' answers, or of the orders to one member."""
    return f"spirit_py_gang_{token}" + ("" if rank is None else f"_{rank}")


@dataclass(frozen=True)
class Answer:
    """What a member said to an order."""

    rank: int
    number: int
    text: str


@dataclass
class _Seat:
    """The driver's view of one member."""

    thread: int = 0
    sessions: list[tuple[str, int]] = field(default_factory=list)
    posted: int = 0
    outstanding: dict[int, str] = field(default_factory=dict)


class Gang(Generic[_R]):
    """The driver's end. Use as a context; one thread.

    Args:
        control: a session of the driver, of no other use while the gang lives.
        join: runs on executors and gives the member of a rank; must pickle.
        kill: kills a session by server name and id, when a member does not end.
        description: for Spark's UI. Nothing secret (R20).
    """

    def __init__(
        self,
        engine: GangEngine,
        control: SqlSession,
        join: Callable[[int], GangMember[_R]],
        *,
        size: int,
        stop: StopSwitch,
        kill: Callable[[str, int], None],
        description: str,
    ) -> None:
        self._engine = engine
        self._control = control
        self._join = join
        self._size = size
        self._stop = stop
        self._kill = kill
        self._description = description
        self._token = secrets.token_hex(6)
        self._group = f"spirit-py-gang-{self._token}"
        self._seats = [_Seat() for _ in range(size)]
        # Spark's call blocks until the job has ended.
        self._job = Background("gang", self._run, failed=self._note_failure)
        self._outcomes: list[Outcome[_R]] = []
        self._failure: BaseException | None = None
        self._assembled = False
        self._silence = Silence(control)
        self._look = _LOOK_SECONDS
        self._control_thread = 0

    @property
    def size(self) -> int:
        """How many members there are."""
        return self._size

    def __enter__(self) -> Self:
        """Start the job; :meth:`assemble` waits for the members."""
        self._control_thread = int(self._control.query(_THREAD)[0][0])
        for rank in range(self._size):
            self._publish(rank)
        self._job.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the job if it still runs; nothing of it is left on the server."""
        if self._job.running:
            self._disband()

    def assemble(self, timeout: float) -> None:
        """Wait until every member has said hello.

        Raises:
            WorkersLost: when the job ended instead, or time is up.
        """
        deadline = time.monotonic() + timeout
        while not all(seat.thread for seat in self._seats):
            self._read()
            if time.monotonic() > deadline:
                raise WorkersLost(
                    f"not all of {self._size} Spark tasks came together within {timeout:.0f} s",
                    hint="give Spark as many free slots as --threads asks for",
                )
            self._pause(_LOOK_SECONDS)
        self._assembled = True

    def post(self, rank: int, order: str) -> int:
        """Put an order into a member's box; give its number. At most eight may be outstanding."""
        seat = self._seats[rank]
        seat.posted += 1
        seat.outstanding[seat.posted] = order
        self._publish(rank)
        return seat.posted

    def outstanding(self, rank: int) -> int:
        """Count the orders of a member that are not answered."""
        return len(self._seats[rank].outstanding)

    def collect(self) -> list[Answer]:
        """Return the answers that have come; none after a look of some milliseconds.

        Raises:
            WorkersLost: when a member is gone.
            SpiritError: what a member failed with.
        """
        answers = self._read()
        if answers:
            self._look = _LOOK_SECONDS
        else:
            self._pause(self._look)
            self._look = min(_LONGEST_LOOK_SECONDS, self._look * 1.5)
        return answers

    def everyone(self, order: str, timeout: float) -> list[str]:
        """Return one order to all, wait for all answers, in the order of ranks.

        Only when nothing else is outstanding.
        """
        numbers = [self.post(rank, order) for rank in range(self._size)]
        answers: dict[int, str] = {}
        deadline = time.monotonic() + timeout
        while len(answers) < self._size:
            # The application may be waiting behind a table lock.
            self._look = _LOOK_SECONDS
            for answer in self.collect():
                if answer.number == numbers[answer.rank]:
                    answers[answer.rank] = answer.text
            if time.monotonic() > deadline:
                raise WorkersLost(f"a Spark task did not answer within {timeout:.0f} s")
        return [answers[rank] for rank in range(self._size)]

    def finish(self, timeout: float = 60.0) -> list[_R]:
        """Let the members go; give their results in the order of ranks."""
        self._send_home()
        if not self._job.wait(timeout):
            raise WorkersLost(f"a Spark task did not end within {timeout:.0f} s")
        self._raise_failures()
        results = {outcome.index: outcome.result for outcome in self._outcomes}
        if sorted(results) != list(range(self._size)):
            raise WorkersLost("Spark lost the result of a task")
        return [results[rank] for rank in range(self._size)]  # type: ignore[misc]

    def _run(self, _stopping: threading.Event) -> None:
        """Run the job."""
        task = _Task(join=self._join, token=self._token, driver_thread=self._control_thread)
        self._outcomes = self._engine.run_gang(
            task, size=self._size, group=self._group, description=self._description
        )

    def _note_failure(self, error: BaseException) -> None:
        self._failure = error

    def _publish(self, rank: int) -> None:
        """Put all outstanding orders of a member into its variable."""
        letters = json.dumps(list(self._seats[rank].outstanding.items()))
        with self._heard():
            self._control.execute(f"SET @{_name(self._token, rank)} = %s", (letters,))

    @contextlib.contextmanager
    def _heard(self) -> Iterator[None]:
        """Take a fault of the driver's own session for the loss of the gang: nobody hears it."""
        try:
            yield
        except ServerFault as fault:
            if not _transient(fault):
                raise
            raise WorkersLost(
                f"the conversation with Spark's tasks ended: {fault.message}"
            ) from fault

    def _read(self) -> list[Answer]:
        """Read every member's variable; notice who is missing."""
        self._stop.check()
        with self._heard():
            rows = self._control.query(_LETTERS, (_name(self._token),))
            silent = self._silence.around(self._only_threads)
        if silent:
            self._disband()
            raise WorkersLost("the server hears nothing of a Spark task: its network may be lost")
        if self._assembled:
            present = {int(row[0]) for row in rows}
            if any(seat.thread not in present for seat in self._seats):
                self._someone_is_missing()
        elif not self._job.running:
            self._someone_is_missing()
        # A variable is NULL between its making and its first value, and while a session ends.
        letters = [(int(thread), json.loads(text)) for thread, text in rows if text is not None]
        return [answer for thread, letter in letters for answer in self._take(thread, letter)]

    @property
    def _only_threads(self) -> list[int]:
        """The members' server threads; where one has a second server, it idles rightly."""
        return [seat.thread for seat in self._seats if len(seat.sessions) == 1]

    def _take(self, thread: int, letter: Any) -> list[Answer]:
        """Take one member's letter; return the answers not seen before."""
        seat = self._seats[letter["rank"]]
        seat.thread = thread
        seat.sessions = [(str(server), int(number)) for server, number in letter["sessions"]]
        fresh = [(number, text) for number, text in letter["answers"] if number in seat.outstanding]
        for number, _ in fresh:
            del seat.outstanding[number]
        return [Answer(letter["rank"], number, text) for number, text in fresh]

    def _pause(self, seconds: float) -> None:
        """Wait a moment, unless a stop was asked for."""
        if self._stop.wait(seconds):
            self._stop.check()

    def _someone_is_missing(self) -> None:
        """End the gang, and say what the missing member failed with."""
        self._disband()
        self._raise_failures()
        raise WorkersLost("a Spark task ended before its work was done")

    def _raise_failures(self) -> None:
        """Raise what a member, or the job, failed with; a lost connection as lost workers."""
        errors = [outcome.error for outcome in self._outcomes if outcome.error is not None]
        lasting = [error for error in errors if not _transient(error)]
        for error in [*lasting, *errors]:
            if _transient(error):
                raise WorkersLost(f"a Spark task was lost: {error.message}") from error
            raise error
        if isinstance(self._failure, SpiritError):
            raise WorkersLost(f"Spark lost its tasks: {self._failure.message}") from self._failure
        if self._failure is not None:
            raise self._failure

    def _send_home(self) -> None:
        """Tell every member that it is over."""
        for rank in range(self._size):
            with contextlib.suppress(ServerFault, WorkersLost):
                self.post(rank, _FINISH)

    def _disband(self) -> None:
        """End the job by force: a word, then a kill on the server, then Spark's cancel."""
        self._send_home()
        if self._job.wait(_GRACE_SECONDS):
            return
        for seat in self._seats:
            for server, number in seat.sessions:
                self._kill(server, number)
        if self._job.wait(_GRACE_SECONDS):
            return
        self._engine.cancel(self._group)
        if not self._job.wait(_JOIN_SECONDS):
            _log.warning("the Spark job %s did not end within %.0f s", self._group, _JOIN_SECONDS)


def _transient(error: SpiritError) -> bool:
    """Return whether a new gang may do better."""
    return isinstance(error, WorkersLost) or disposition(error) is Disposition.RETRY
