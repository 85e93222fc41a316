"""The tasks that copy a table: threads of the driver at once, Spark's tasks when they are ready.

A *team* is a gang (:mod:`spirit_py.spark.gang`) with the driver's session for it and its orders;
the *crew* is all teams of one copy. Where the pace wants more tasks than there are, a further team
joins; the last one leaves when it had nothing to do for a while. When all tasks of Spark's first
team run, the driver's get no more orders; a rank gets no order of the new team before the former
one's is idle. So no more chunks run than the pace allows, and a rank's chunks stay in the order of
the walk.

A gang that loses a task, its session or the driver's is given up as a whole, with its *licence*, a
named lock: its chunks are given to another gang when nothing of it may write any more (R18;
docs/decisions.md). Everything here runs in the copier's thread.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass, replace
from spirit_py.copier.fence import CopyOrder, Team, end_teams
from spirit_py.copier.meter import ChunkCopied
from spirit_py.errors import ServerFault, SpiritError, WorkersLost
from spirit_py.locks.named import take_named_lock
from spirit_py.mysql.connect import connect
from spirit_py.mysql.retry import Patience, retrying
from spirit_py.pace import AtWork, Work
from spirit_py.spark.gang import Gang, is_transient, lacked_sessions
from spirit_py.spark.server_mailbox import open_mailbox
from spirit_py.threads import Background, StopSwitch

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from spirit_py.copier.task import JoinCopy
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
#: Between two questions for the slots of a Spark, which its JVM answers.
_SPARK_SECONDS: Final = 1.0
#: A team that is not needed for so long leaves.
_SPARE_SECONDS: Final = 10.0
#: No further tasks are asked for, after they could not be had.
_FULL_SECONDS: Final = 300.0
_ASSEMBLE_SECONDS: Final = 120.0
#: The same for threads of this process, which need nothing but their sessions.
_START_SECONDS: Final = 30.0
_FINISH_SECONDS: Final = 5.0
_LETTER_SECONDS: Final = 20
_SHORTEST_LOOK: Final = 0.002
_LONGEST_LOOK: Final = 0.02


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
        #: Those that get orders, by rank.
        self._current: list[Team] = []
        #: Those that end their last orders.
        self._retiring: list[Team] = []
        #: A team until all its tasks run.
        self._coming: Team | None = None
        #: No further tasks can be had, until a time: their number.
        self._all: int | None = None
        self._all_until = 0.0
        self._needed_at = time.monotonic()
        self._at_work = AtWork()
        #: Orders of lost gangs, by chunk.
        self._again: list[CopyOrder] = []
        self._losses = 0
        self._patience = Patience(_LOSSES_SECONDS)
        #: The same for a server without room for the sessions.
        self._room = Patience()
        self._spark_losses = 0
        self._lost_at = 0.0
        self._spark_at = 0.0
        self._look = _SHORTEST_LOOK
        self._pause = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End every gang; after a failure or a stop nothing of them writes any more."""
        teams = self._teams()
        self._current, self._retiring, self._coming = [], [], None
        for team in teams:
            team.give_up()
        if left := [team for team in teams if team.asked]:
            try:
                end_teams(self.join, left)
            except SpiritError as fault:
                _log.warning("running chunks could not be ended on the server: %s", fault)
        for team in teams:
            team.closing.close()

    @property
    def idle(self) -> bool:
        """Whether every order was answered."""
        return not self._again and not any(team.asked for team in self._teams())

    @property
    def most(self) -> int:
        """How many tasks there can be."""
        if self._all is not None and time.monotonic() > self._all_until:
            self._all = None
        return self._all or (self._current[-1].slots if self._current else self.driver.slots)

    def feed(
        self, next_order: Callable[[int], CopyOrder | None], *, lasting: Callable[[], bool]
    ) -> None:
        """Post orders to tasks that will soon be idle; ``lasting``: enough is left for more."""
        wanted = self.pace.tasks(self.most)
        if not self._current:
            # Fewer after a loss: a server that is full lets some sessions in.
            size = max(1, wanted >> self._losses)
            self._current = [retrying(self.stop)(self._open, self.driver, 0, size)]
        for team in list(self._current):
            if team in self._current and self._gathered(team):
                for rank in range(team.first, min(team.end, wanted)):
                    self._fill(team, rank, next_order)
        gangs = [team.gang for team in self._teams()]
        busy = sum(gang.outstanding(seat) > 0 for gang in gangs for seat in range(gang.size))
        self._at_work.count(busy, time.monotonic())
        self._advance(wanted, lasting)

    def _fill(self, team: Team, rank: int, next_order: Callable[[int], CopyOrder | None]) -> None:
        while team in self._current and self._wants(team, rank):
            if self._again and self._held():
                break
            order = self._again.pop(0) if self._again else next_order(rank)
            if order is None:
                break
            self._post(team, rank - team.first, order)

    def _held(self) -> bool:
        """Whether lost chunks wait as new ones do: not where the feed, without room, needs them."""
        reason, of_copy = self.pace.reason(Work.REPAIR), self.pace.reason(Work.COPY)
        # A text with a time or a lag in it may have changed between the two.
        return bool(reason) and (reason == of_copy or reason != self.pace.reason(Work.REPAIR))

    def collect(self) -> list[ChunkCopied]:
        """Return the chunks that were copied after some milliseconds; raise a task's error."""
        teams = [*self._retiring, *self._current]
        found = [one for team in teams for one in self._collected(team)]
        if found:
            self._losses = 0
            self._patience.answered()
            self._room.answered()
            self._look = _SHORTEST_LOOK
        else:
            # Not on the stop switch: after a stop the tasks may still end their chunks.
            self._pause.wait(self._look)
            self._look = min(_LONGEST_LOOK, self._look * 1.5)
        return found

    def _teams(self) -> list[Team]:
        coming = [] if self._coming is None else [self._coming]
        return [*self._retiring, *self._current, *coming]

    def _gathered(self, team: Team) -> bool:
        try:
            return self._come(team)
        except (WorkersLost, ServerFault) as error:
            self._lost(team, error)
            return False

    @staticmethod
    def _come(team: Team) -> bool:
        """Return whether all tasks have come; raise `WorkersLost` when one will not."""
        limit = _START_SECONDS if team.engine.in_process else _ASSEMBLE_SECONDS
        if team.gang.gathered():
            return True
        if time.monotonic() - team.opened < limit:
            return False
        raise WorkersLost(f"its tasks did not all start within {limit:.0f} s")

    def _wants(self, team: Team, rank: int) -> bool:
        formers = (one for one in self._retiring if one.first <= rank < one.end)
        if any(former.gang.outstanding(rank - former.first) for former in formers):
            return False
        seat = rank - team.first
        outstanding = team.gang.outstanding(seat)
        if not outstanding or outstanding >= _OUTSTANDING:
            return not outstanding
        running = next(order for its, order in team.asked.values() if its == seat)
        return team.began[seat] + running.seconds - time.monotonic() < _AHEAD_SECONDS

    def _post(self, team: Team, seat: int, order: CopyOrder) -> None:
        # Before it is posted: after a fault of the driver's session the task may have the order.
        team.asked[order.number] = (seat, order)
        if not team.gang.outstanding(seat):
            team.began[seat] = time.monotonic()
        try:
            team.gang.post(seat, order.order.encode())
        except (WorkersLost, ServerFault) as error:
            self._lost(team, error)

    def _collected(self, team: Team) -> list[ChunkCopied]:
        try:
            answers = team.gang.received()
        except (WorkersLost, ServerFault) as error:
            self._lost(team, error)
            return []
        found = []
        for answer in answers:
            copied = ChunkCopied.decode(answer.text)
            _, order = team.asked.pop(copied.number)
            done = self._at_work.done(copied.rows, copied.seconds, team.began[answer.rank])
            self.pace.done(Work.COPY, done, self.most)
            team.began[answer.rank] = time.monotonic()
            tries = copied.retries + order.tries
            found.append(replace(copied, retries=tries, on_spark=team.engine is not self.driver))
        return found

    # -- Spark takes over, and others join or leave

    def _advance(self, wanted: int, lasting: Callable[[], bool]) -> None:
        for team in [team for team in self._retiring if not team.asked]:
            self._retiring.remove(team)
            with contextlib.suppress(WorkersLost):
                team.gang.finish(_FINISH_SECONDS)
            team.closing.close()
        if self._coming is not None:
            self._look_for_tasks(self._coming)
            return
        spark = self.spark
        total = self._current[-1].end if self._current else 0
        if spark is not None and spark.failure is not None:
            # Reported where Spark was started.
            self.spark = spark = None
        copies = any(team.engine is spark for team in self._teams())
        now = time.monotonic()
        if spark is not None and spark.ready and not copies and now >= self._spark_at:
            self._spark_at = now + _SPARK_SECONDS
            if lasting():
                self._join(spark, 0, max(wanted, total))
        elif 0 < total < wanted:
            if lasting():
                self._join(self._current[-1].engine, total, wanted - total)
        elif len(self._current) > 1 and wanted <= self._current[-1].first:
            if time.monotonic() - self._needed_at > _SPARE_SECONDS:
                self._retiring.append(self._current.pop())
            return
        self._needed_at = time.monotonic()

    def _join(self, engine: GangEngine, first: int, size: int) -> None:
        try:
            if not first and engine.slots < size:
                # Threads of the driver copy with more tasks.
                return
            self._coming = self._open(engine, first, size)
        except SpiritError as error:
            self._do_without(first, error.message)

    def _do_without(self, first: int, why: str) -> None:
        if not first:
            _log.warning("the copy of %s goes on without Spark: %s", self._table, why)
            self.spark = None
            return
        self._all, self._all_until = first, time.monotonic() + _FULL_SECONDS
        _log.warning("the copy of %s goes on with %d tasks: %s", self._table, first, why)

    def _look_for_tasks(self, coming: Team) -> None:
        try:
            if not self._come(coming):
                return
        except SpiritError as error:
            self._do_without(coming.first, error.message)
            # In a thread: a job that hangs would hold up the copy.
            Background("crew-close", lambda _stopping: coming.closing.close()).start()
        else:
            if coming.first:
                # Who came before it may have been lost meanwhile.
                coming.first = self._current[-1].end if self._current else 0
                self._current.append(coming)
            else:
                self._retiring += self._current
                self._current = [coming]
        self._coming = None

    def _open(self, engine: GangEngine, first: int, size: int) -> Team:
        slots = engine.slots
        if slots <= first:
            raise WorkersLost(f"there are {slots} slots")
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
                size=min(slots - first, size),
                # Not the run's: a stop lets the tasks end their chunks; the copier sees to it.
                stop=StopSwitch(),
                reach=spec.reach,
                description=f"copy of {self._table}",
            )
            enter(gang)
            return Team(engine, licence, control, gang, stack.pop_all(), first=first, slots=slots)

    # -- losses

    def _lost(self, team: Team, error: SpiritError) -> None:
        """End a gang for good, and keep its chunks for another one.

        Raises `WorkersLost` when gang after gang was lost for a minute, ten where the server has no
        room for one, or `CopyFailure` when a session, which may still write, does not end.
        """
        if not is_transient(error):
            raise error
        _log.warning("%s; %d chunks are copied again", error.message, len(team.asked))
        if team.opened >= self._lost_at:
            # Not one that was lost with another, by the same restart.
            self._losses += 1
            patience = self._room if lacked_sessions(error) else self._patience
            if patience.over() and self._losses > _MOST_LOSSES:
                raise error
            if team.engine is self.spark:
                self._spark_losses += 1
                if self._spark_losses >= _MOST_LOSSES:
                    self._do_without(0, error.message)
        team.give_up()
        team.closing.close()
        retrying(self.stop)(end_teams, self.join, [team])
        self._lost_at, self._all = time.monotonic(), None
        orders = [replace(order, tries=order.tries + 1) for _, order in team.asked.values()]
        self._again = sorted([*self._again, *orders], key=lambda order: order.number)
        self._current = [one for one in self._current if one is not team]
        self._retiring = [one for one in self._retiring if one is not team]
        for before, one in zip([None, *self._current], self._current, strict=False):
            one.first = 0 if before is None else before.end
        if self._losses > 1:
            # The cause may pass, as with a full server.
            self.stop.wait(min(_LONGEST_REST, 0.1 * 2**self._losses))
