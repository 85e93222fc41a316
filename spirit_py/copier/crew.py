"""The tasks that copy a table: threads of the driver at once, Spark's tasks when they are ready.

A *team* is a gang (:mod:`spirit_py.spark.gang`) with the driver's session for it and its orders;
the *crew* is all teams of one copy. When all tasks of Spark's gang run, the first one gets no more
orders; a rank gets no order of the second gang before the first gang's rank is idle. So no more
chunks run than there are slots, and a rank's chunks stay in the order of the walk.

A gang that loses a task, its session or the driver's is given up as a whole. Before its chunks are
given to another gang, nothing of it may write any more (R18): the driver gives up the gang's
*licence*, a named lock, then ends the sessions that hold it or a lock of an outstanding chunk, and
waits until all these locks are free. A task takes its chunk's lock first and then looks for the
licence: so a late one is ended, or refuses. Everything here runs in the copier's thread.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass, field, replace
from spirit_py.copier.chunk_sql import chunk_lock
from spirit_py.copier.fence import end_chunks
from spirit_py.copier.meter import ChunkCopied
from spirit_py.errors import ServerFault, SpiritError, WorkersLost
from spirit_py.locks.named import take_named_lock
from spirit_py.mysql.connect import connect
from spirit_py.mysql.kill import end_sessions
from spirit_py.mysql.retry import Patience, retrying
from spirit_py.spark.gang import Gang, is_transient
from spirit_py.spark.server_mailbox import open_mailbox
from spirit_py.threads import Background, StopSwitch

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from spirit_py.contracts import SqlSession
    from spirit_py.copier.task import ChunkOrder, JoinCopy
    from spirit_py.pace import Pace
    from spirit_py.spark.gang import GangEngine

_log = logging.getLogger(__name__)

#: One chunk runs, and the next one waits.
_OUTSTANDING: Final = 2
#: The next chunk is posted when the running one should end within these seconds.
_AHEAD_SECONDS: Final = 0.2
#: Gangs that may be lost in succession, without a chunk copied in between.
_MOST_LOSSES: Final = 3
_LOSSES_SECONDS: Final = 60.0
_LONGEST_REST: Final = 5.0
_ASSEMBLE_SECONDS: Final = 120.0
_FINISH_SECONDS: Final = 5.0
_FENCE_SECONDS: Final = 30.0
_LETTER_SECONDS: Final = 20
_SHORTEST_LOOK: Final = 0.002
_LONGEST_LOOK: Final = 0.02


@dataclass(frozen=True, kw_only=True)
class CopyOrder:
    """A chunk to copy, its probable seconds, and how often it was handed out before."""

    order: ChunkOrder
    seconds: float = 0.0
    tries: int = 0

    @property
    def number(self) -> int:
        """The chunk's number."""
        return self.order.chunk.number


@dataclass
class _Team:
    """A gang, the driver's session for it, its orders by chunk number, and when each rank began."""

    engine: GangEngine
    licence: str
    control: SqlSession
    gang: Gang[None]
    closing: contextlib.ExitStack
    opened: float = field(default_factory=time.monotonic)
    asked: dict[int, tuple[int, CopyOrder]] = field(default_factory=dict)
    began: dict[int, float] = field(default_factory=dict)

    def give_up(self) -> None:
        self.gang.dismiss()
        with contextlib.suppress(ServerFault):
            self.control.query("SELECT RELEASE_LOCK(%s)", (self.licence,))


@dataclass(kw_only=True, eq=False)
class Crew:
    """Hands chunks to the gang that copies now; used as a context, by one thread.

    ``spark`` may be None; ``stop`` ends the waiting for a server that is away.
    """

    driver: GangEngine
    spark: GangEngine | None
    join: JoinCopy
    pace: Pace
    stop: StopSwitch

    def __post_init__(self) -> None:
        self._table = self.join.mapping.source.full_name
        self._current: _Team | None = None
        #: A gang that ends its last orders.
        self._retiring: _Team | None = None
        #: Spark's gang, until all its tasks run.
        self._coming: _Team | None = None
        #: Orders of lost gangs, by chunk.
        self._again: list[CopyOrder] = []
        self._losses = 0
        self._patience = Patience(_LOSSES_SECONDS)
        self._spark_losses = 0
        self._look = _SHORTEST_LOOK
        self._pause = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End every gang; after a failure or a stop nothing of them writes any more."""
        teams = self._teams()
        self._current = self._retiring = self._coming = None
        for team in teams:
            team.give_up()
        if left := [team for team in teams if team.asked]:
            try:
                self._fence(left)
            except SpiritError as fault:
                _log.warning("running chunks could not be ended on the server: %s", fault)
        for team in teams:
            team.closing.close()

    @property
    def idle(self) -> bool:
        """Whether every order was answered."""
        return not self._again and not any(team.asked for team in self._teams())

    def feed(
        self, next_order: Callable[[int], CopyOrder | None], *, lasting: Callable[[], bool]
    ) -> None:
        """Post orders to tasks that will soon be idle; ``lasting``: enough is left for Spark."""
        if self._current is None:
            self._current = retrying(self.stop)(self._open, self.driver)
        team = self._current
        if self._gathered(team):
            for rank in range(self.pace.tasks(team.gang.size)):
                while self._current is team and self._wants(team, rank):
                    order = self._again.pop(0) if self._again else next_order(rank)
                    if order is None:
                        break
                    self._post(team, rank, order)
        self._advance(lasting)

    def collect(self) -> list[ChunkCopied]:
        """Return the chunks that were copied after some milliseconds; raise a task's error."""
        found: list[ChunkCopied] = []
        for team in self._teams():
            if team is not self._coming:
                found += self._collected(team)
        if found:
            self._losses = 0
            self._patience.answered()
            self._look = _SHORTEST_LOOK
        else:
            # Not on the stop switch: after a stop the tasks may still end their chunks.
            self._pause.wait(self._look)
            self._look = min(_LONGEST_LOOK, self._look * 1.5)
        return found

    def _teams(self) -> list[_Team]:
        return [team for team in (self._retiring, self._current, self._coming) if team is not None]

    def _gathered(self, team: _Team) -> bool:
        try:
            return team.gang.gathered()
        except (WorkersLost, ServerFault) as error:
            self._lost(team, error)
            return False

    def _wants(self, team: _Team, rank: int) -> bool:
        former = self._retiring
        if former is not None and rank < former.gang.size and former.gang.outstanding(rank):
            return False
        outstanding = team.gang.outstanding(rank)
        if not outstanding:
            return True
        if outstanding >= _OUTSTANDING:
            return False
        running = next(order for its, order in team.asked.values() if its == rank)
        return team.began[rank] + running.seconds - time.monotonic() < _AHEAD_SECONDS

    def _post(self, team: _Team, rank: int, order: CopyOrder) -> None:
        # Before it is posted: after a fault of the driver's session the task may have the order.
        team.asked[order.number] = (rank, order)
        if not team.gang.outstanding(rank):
            team.began[rank] = time.monotonic()
        try:
            team.gang.post(rank, order.order.encode())
        except (WorkersLost, ServerFault) as error:
            self._lost(team, error)

    def _collected(self, team: _Team) -> list[ChunkCopied]:
        try:
            answers = team.gang.received()
        except (WorkersLost, ServerFault) as error:
            self._lost(team, error)
            return []
        found = []
        for answer in answers:
            copied = ChunkCopied.decode(answer.text)
            _, order = team.asked.pop(copied.number)
            team.began[answer.rank] = time.monotonic()
            tries = copied.retries + order.tries
            found.append(replace(copied, retries=tries, on_spark=team.engine is not self.driver))
        return found

    # -- Spark takes over

    def _advance(self, lasting: Callable[[], bool]) -> None:
        if self._retiring is not None and not self._retiring.asked:
            retiring, self._retiring = self._retiring, None
            self._finish(retiring)
        spark = self.spark
        copies = any(team.engine is spark for team in self._teams())
        if self._coming is not None:
            self._look_for_tasks(self._coming)
        elif spark is not None and spark.failure is not None:
            # Reported where Spark was started.
            self.spark = None
        elif spark is not None and spark.ready and not copies and lasting():
            try:
                self._coming = self._open(spark)
            except SpiritError as error:
                self._without_spark(error.message)

    def _without_spark(self, why: str) -> None:
        _log.warning("the copy of %s goes on without Spark: %s", self._table, why)
        self.spark = None

    def _look_for_tasks(self, coming: _Team) -> None:
        try:
            if coming.gang.gathered():
                if self._retiring is None:
                    self._retiring, self._current, self._coming = self._current, coming, None
                return
            if time.monotonic() - coming.opened < _ASSEMBLE_SECONDS:
                return
            why = f"its tasks did not all start within {_ASSEMBLE_SECONDS:.0f} s"
        except SpiritError as error:
            why = error.message
        self._without_spark(why)
        self._coming = None
        # In a thread: a job that hangs would hold up the copy.
        Background("crew-close", lambda _stopping: coming.closing.close()).start()

    @staticmethod
    def _finish(team: _Team) -> None:
        with contextlib.suppress(WorkersLost):
            team.gang.finish(_FINISH_SECONDS)
        team.closing.close()

    def _open(self, engine: GangEngine) -> _Team:
        licence = f"spirit-py:crew:{secrets.token_hex(12)}"
        spec = replace(self.join, licence=licence)
        with contextlib.ExitStack() as stack:
            enter = stack.enter_context
            control = enter(connect(spec.connection, role="copy", read_timeout=_LETTER_SECONDS))
            take_named_lock(control, licence)
            gang = Gang[None](
                engine,
                enter(open_mailbox(control, spec.connection, engine, spec.mapping.source)),
                spec,
                size=engine.slots,
                # Not the run's: a stop lets the tasks end their chunks; the copier sees to it.
                stop=StopSwitch(),
                kill=lambda _, session: end_sessions(spec.connection, [session]),
                description=f"copy of {self._table}",
            )
            enter(gang)
            return _Team(engine, licence, control, gang, stack.pop_all())

    # -- losses

    def _lost(self, team: _Team, error: SpiritError) -> None:
        """End a gang for good, and keep its chunks for another one.

        Raises `WorkersLost` when gang after gang was lost for a minute, and `CopyFailure` when a
        session does not end: its chunk may still be written.
        """
        if not is_transient(error):
            raise error
        _log.warning("%s; %d chunks are copied again", error.message, len(team.asked))
        self._losses += 1
        if self._patience.over() and self._losses > _MOST_LOSSES:
            raise error
        if team.engine is self.spark:
            self._spark_losses += 1
            if self._spark_losses >= _MOST_LOSSES:
                self._without_spark(error.message)
        team.give_up()
        team.closing.close()
        retrying(self.stop)(self._fence, [team])
        orders = [replace(order, tries=order.tries + 1) for _, order in team.asked.values()]
        self._again = sorted([*self._again, *orders], key=lambda order: order.number)
        self._current = None if self._current is team else self._current
        self._retiring = None if self._retiring is team else self._retiring
        if self._losses > 1:
            # The cause may pass, as with a full server.
            self.stop.wait(min(_LONGEST_REST, 0.1 * 2**self._losses))

    def _fence(self, teams: list[_Team]) -> None:
        """Wait until nothing of these gangs can write (R18)."""
        join = self.join
        end_sessions(
            join.connection, [number for team in teams for _, number in team.gang.sessions]
        )
        chunks = [order.order.chunk for team in teams for _, order in team.asked.values()]
        # Licences first, then the locks of chunks.
        locks = [
            *(team.licence for team in teams),
            *(chunk_lock(join.mapping, chunk, join.connection.origin) for chunk in chunks),
        ]
        with connect(join.connection, role="fence") as session:
            end_chunks(session, locks, of=self._table, timeout=_FENCE_SECONDS)
