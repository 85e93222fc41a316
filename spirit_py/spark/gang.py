"""Gangs: tasks that run at the same time and exchange messages with the driver.

Spark's ``barrier()`` takes about a second (measured), too long under a table lock. So messages go
through :mod:`spirit_py.spark.member`, and a gang is complete when every task has reported, in
milliseconds. When a session, a process or the driver's session is lost, the gang fails with
:class:`~spirit_py.errors.WorkersLost`, and the caller starts a new one. Life::

    driver                                   task
    Gang(...) opens the job                  join(rank) -> member, report
    assemble()  <----------------------------'
    everyone("...")  ----------------------> member.handle(order) -> answer
    post(rank, order), collect() ...         ...
    finish()  -----------------------------> member.result(), member.close()
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from spirit_py.classes import KW_ONLY, dataclass, field, replace
from spirit_py.errors import AnotherServer, Refusal, ServerFault, SpiritError, WorkersLost
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import Disposition, disposition, login_refused, refuses_sessions
from spirit_py.mysql.kill import end_sessions
from spirit_py.mysql.processlist import any_idle
from spirit_py.mysql.session import OWN_QUERIES
from spirit_py.spark.member import FINISH, LOOK_SECONDS, GangTask
from spirit_py.threads import Background

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Self

    from spirit_py.config import ConnectionOptions
    from spirit_py.spark.member import DriverEnd, GangMember, Outcome
    from spirit_py.threads import StopSwitch

_log = logging.getLogger(__name__)
_R = TypeVar("_R")

#: The driver polls less often while members have much work, to leave them the CPU.
_LONGEST_LOOK_SECONDS: Final = 0.02
SILENT_SECONDS: Final = 45
_CHECK_SECONDS: Final = 5.0
_LOOK_WITHIN: Final = 3
_GRACE_SECONDS: Final = 2.0
_GATHERING_GRACE_SECONDS: Final = 0.5
_JOIN_SECONDS: Final = 15.0
_FEWER_SLOTS: Final = "give Spark more free slots, or set --threads to those that it has"
_FEWER_THREADS: Final = "see how many sessions the server has room for, or set fewer --threads"


class GangEngine(Protocol):
    """What runs the tasks of a gang: Spark, or threads of the driver."""

    @property
    def in_process(self) -> bool:
        """Whether the tasks of the next gang will be threads of this process, and stay so."""

    @property
    def ready(self) -> bool:
        """Whether a gang would begin at once. Never waits and never raises."""

    @property
    def failure(self) -> SpiritError | None:
        """Why it will never be ready: its start failed. Never waits and never raises."""

    @property
    def slots(self) -> int:
        """How many tasks can run at the same time."""

    def run_gang(
        self,
        function: Callable[[int], _R],
        *,
        size: int,
        group: str,
        description: str,
        failed: list[Outcome[_R]] | None = None,
    ) -> list[Outcome[_R]]:
        """Run ``function(rank)`` in ``size`` tasks at once; block until all have ended.

        Outcomes that are errors are added to ``failed`` at once, while the other tasks run.
        """

    def cancel(self, group: str) -> None:
        """Cancel the jobs of a group."""

    def context(self) -> Any:
        """Return Spark's context, once it has started; raise where there is none."""

    def start(self) -> None:
        """Begin to start; need not wait until it has."""

    def stop(self) -> None:
        """End it."""


@dataclass(frozen=True)
class OrderAnswer:
    """A member's answer to an order."""

    rank: int
    number: int
    text: str


@dataclass
class _Seat:
    sender: int = 0
    sessions: list[tuple[str, int]] = field(default_factory=list)
    posted: int = 0
    outstanding: dict[int, str] = field(default_factory=dict)


@dataclass(eq=False)
class Gang(Generic[_R]):
    """The driver's end. Use as a context; one thread. ``join`` must pickle.

    ``mailbox`` is for this gang alone; ``reach`` gives the options of a server by the name that the
    members' sessions have; ``description`` is for Spark's UI, without secrets (R20).
    """

    engine: GangEngine
    mailbox: DriverEnd
    join: Callable[[int], GangMember[_R]]
    _: KW_ONLY
    size: int
    stop: StopSwitch
    reach: Callable[[str], ConnectionOptions]
    description: str

    def __post_init__(self) -> None:
        self._group = self.mailbox.name
        #: An engine may be given up meanwhile.
        self._elsewhere = not self.engine.in_process
        self._seats = [_Seat() for _ in range(self.size)]
        # In a thread: Spark's call blocks until the job has ended.
        self._job = Background("gang", self._run, failed=self._note_failure)
        self._outcomes: list[Outcome[_R]] = []
        #: Of tasks that have failed, while the job goes on: the others wait for orders.
        self._failed: list[Outcome[_R]] = []
        self._failure: BaseException | None = None
        self._assembled = False
        self._next_silence_check = time.monotonic() + _CHECK_SECONDS
        self._was_silent = False
        self._look = LOOK_SECONDS

    def __enter__(self) -> Self:
        """Start the job; :meth:`assemble` waits for the members."""
        for rank in range(self.size):
            self._publish(rank)
        self._count(self.size)
        self._job.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the job if it still runs; nothing of it is left on the server."""
        try:
            if self._job.running:
                self._disband()
        finally:
            self._count(-self.size)

    def _count(self, more_tasks: int) -> None:
        """Let queries of tasks that this process does not see be no other user's."""
        if self._elsewhere:
            OWN_QUERIES.reads(self.mailbox.address, more_tasks=more_tasks)

    def assemble(self, timeout: float) -> None:
        """Wait until every member has reported; raise what keeps one away when time is up."""
        deadline = time.monotonic() + timeout
        while not self.gathered():
            if time.monotonic() > deadline:
                self._disband()
                self._raise_failures(disbanded=True)
                raise WorkersLost(
                    f"not all of {self.size} tasks started within {timeout:.0f} s",
                    hint=_FEWER_SLOTS if self._elsewhere else _FEWER_THREADS,
                )
            self.stop.pause(LOOK_SECONDS)

    def gathered(self) -> bool:
        """Return whether every member has reported; asks the server once, and does not wait."""
        if not self._assembled:
            self.received()
            self._assembled = all(seat.sender for seat in self._seats)
        return self._assembled

    def post(self, rank: int, order: str) -> int:
        """Post an order to a member; return its number. At most eight may be outstanding."""
        seat = self._seats[rank]
        seat.posted += 1
        seat.outstanding[seat.posted] = order
        self._publish(rank)
        return seat.posted

    def outstanding(self, rank: int) -> int:
        """Count the orders of a member that are not answered."""
        return len(self._seats[rank].outstanding)

    def collect(self) -> list[OrderAnswer]:
        """Return the answers received; empty after waiting some milliseconds."""
        answers = self.received()
        if answers:
            self._look = LOOK_SECONDS
        else:
            self.mailbox.await_letter(self._look, self.stop)
            self.stop.check()
            self._look = min(_LONGEST_LOOK_SECONDS, self._look * 1.5)
        return answers

    def dismiss(self) -> None:
        """Let every member end after the order that it carries out; does not wait."""
        for rank in range(self.size):
            with contextlib.suppress(ServerFault, WorkersLost):
                self.post(rank, FINISH)

    @property
    def sessions(self) -> list[tuple[str, int]]:
        """The members' sessions: server name and session id."""
        return [session for seat in self._seats for session in seat.sessions]

    def everyone(self, order: str, timeout: float) -> list[str]:
        """Post one order to all, and return all answers, in the order of ranks."""
        return self.ask([order] * self.size, timeout)

    def ask(self, orders: Sequence[str], timeout: float | None = None) -> list[str]:
        """Post orders to the members in turn, with none outstanding; return the answers in order.

        With ``timeout``, seconds for all, it polls without pauses: a table lock may be held.
        """
        asked: dict[tuple[int, int], int] = {}
        for place, order in enumerate(orders):
            rank = place % self.size
            asked[rank, self.post(rank, order)] = place
        answers: dict[int, str] = {}
        began = time.monotonic()
        while len(answers) < len(orders):
            if timeout is not None:
                self._look = LOOK_SECONDS
            for answer in self.collect():
                answers[asked[answer.rank, answer.number]] = answer.text
            if timeout is not None and time.monotonic() > began + timeout:
                raise WorkersLost(f"a task did not answer within {timeout:.0f} s")
        return [answers[place] for place in range(len(orders))]

    def finish(self, timeout: float = 60.0) -> list[_R]:
        """Let the members end; return their results in the order of ranks."""
        self.dismiss()
        if not self._job.wait(timeout):
            raise WorkersLost(f"a task did not end within {timeout:.0f} s")
        self._raise_failures()
        results = {outcome.rank: outcome.result for outcome in self._outcomes}
        if sorted(results) != list(range(self.size)):
            raise WorkersLost("the result of a task was lost")
        return [results[rank] for rank in range(self.size)]  # type: ignore[misc]

    def _run(self, _stopping: threading.Event) -> None:
        self._outcomes = self.engine.run_gang(
            GangTask(join=self.join, mailbox=self.mailbox.box),
            size=self.size,
            group=self._group,
            description=self.description,
            failed=self._failed,
        )

    def _note_failure(self, error: BaseException) -> None:
        self._failure = error

    def _publish(self, rank: int) -> None:
        with self._conversing():
            self.mailbox.post(rank, self._seats[rank].outstanding.items())

    @contextlib.contextmanager
    def _conversing(self) -> Iterator[None]:
        try:
            yield
        except ServerFault as fault:
            if not is_transient(fault):
                raise
            raise WorkersLost(f"the conversation with the tasks ended: {fault.message}") from fault

    def received(self) -> list[OrderAnswer]:
        """Return new answers; do not wait. Raise `WorkersLost`, or what a member failed with."""
        self.stop.check()
        with self._conversing():
            letters = self.mailbox.letters()
            silent = self._silent()
        if silent:
            self._disband()
            raise WorkersLost("a task is not in contact with the server: its network may be down")
        present = {sender for sender, _ in letters}
        gone = any(seat.sender not in present for seat in self._seats)
        if gone if self._assembled else self._failed or not self._job.running:
            self._raise_missing()
        taken = [self._take(sender, letter) for sender, letter in letters if letter is not None]
        return [answer for answers in taken for answer in answers]

    def _silent(self) -> bool:
        """Return whether a member idles in two looks; one may follow a long statement."""
        if time.monotonic() < self._next_silence_check:
            return False
        self._next_silence_check = time.monotonic() + _CHECK_SECONDS
        before = self._was_silent
        near = [seat.sender for seat in self._seats if len(seat.sessions) == 1]
        self._was_silent = self.mailbox.silent(near, SILENT_SECONDS) or any(
            self._idles(seat) for seat in self._seats if len(seat.sessions) > 1
        )
        return before and self._was_silent

    def _idles(self, seat: _Seat) -> bool:
        """Return whether a member idles on all of its servers; it works on one at a time."""
        if not self.mailbox.silent([seat.sender], SILENT_SECONDS):
            return False
        with contextlib.suppress(ServerFault):
            for server, number in seat.sessions[1:]:
                reached = self.reach(server)
                soon = replace(reached, connect_timeout=min(reached.connect_timeout, _LOOK_WITHIN))
                with connect(soon, role="gang-look", read_timeout=_LOOK_WITHIN) as session:
                    if not any_idle(session, [number], SILENT_SECONDS):
                        return False
            return True
        return False

    def _take(self, sender: int, letter: Any) -> list[OrderAnswer]:
        seat = self._seats[letter["rank"]]
        sessions = [(str(server), int(number)) for server, number in letter["sessions"]]
        if seat.sender not in {0, sender}:
            # The session of a first attempt may live on.
            seat.sessions += sessions
            self._raise_missing()
        seat.sender, seat.sessions = sender, sessions
        fresh = [(number, text) for number, text in letter["answers"] if number in seat.outstanding]
        for number, _ in fresh:
            del seat.outstanding[number]
        return [OrderAnswer(letter["rank"], number, text) for number, text in fresh]

    def _raise_missing(self) -> None:
        self._disband()
        self._raise_failures()
        raise WorkersLost("a task ended before its work was done")

    def _raise_failures(self, *, disbanded: bool = False) -> None:
        errors = [
            (self._may_pass(outcome.rank, outcome.error), outcome.error)
            for outcome in self._outcomes or self._failed
            if outcome.error is not None
        ]
        for passing, error in sorted(errors, key=itemgetter(0)):
            if passing:
                raise WorkersLost(f"a task was lost: {error.message}") from error
            raise error
        failure = None if disbanded else self._failure
        if isinstance(failure, SpiritError):
            raise WorkersLost(f"the job of the tasks failed: {failure.message}") from failure
        if failure is not None:
            raise failure

    def _may_pass(self, rank: int, error: SpiritError) -> bool:
        """Return whether a new gang may succeed, also as the driver's threads reach the server."""
        unreached = isinstance(error, (Refusal, AnotherServer)) or login_refused(error)
        never_came = self._elsewhere and not self._seats[rank].sender
        return is_transient(error) or (never_came and unreached)

    def _disband(self) -> None:
        """End the job: by an order, then by a kill on the server, then by Spark's cancel."""
        self.dismiss()
        grace = _GRACE_SECONDS if self._assembled else _GATHERING_GRACE_SECONDS
        if self._job.wait(grace):
            return
        end_members(self.sessions, self.reach)
        if self._job.wait(grace):
            return
        self.engine.cancel(self._group)
        if not self._job.wait(_JOIN_SECONDS):
            _log.warning("the job %s did not end within %.0f s", self._group, _JOIN_SECONDS)


def end_members(
    sessions: Iterable[tuple[str, int]], reach: Callable[[str], ConnectionOptions]
) -> None:
    """Kill the sessions of members, on each of their servers by one session; never raises."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for server, number in sessions:
        found[server].append(number)
    for server, numbers in found.items():
        end_sessions(reach(server), numbers)


def is_transient(error: SpiritError) -> bool:
    """Return whether a new gang may succeed."""
    return isinstance(error, WorkersLost) or disposition(error) is Disposition.RETRY


def lacked_sessions(error: SpiritError) -> bool:
    """Return whether a server had no room for all sessions of a gang, or of who directs it."""
    cause = error.__cause__ if isinstance(error, WorkersLost) else error
    return isinstance(cause, ServerFault) and refuses_sessions(cause)
