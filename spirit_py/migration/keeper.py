"""Keeps the way back until its time is over, somebody goes it, or it breaks."""

from __future__ import annotations

import contextlib
import enum
import time
from typing import TYPE_CHECKING, Final

from spirit_py import __version__
from spirit_py.binlog.resumption import why_unreachable
from spirit_py.checkpoint.reverse import (
    DONE,
    FOLLOWING,
    REVERTING,
    WORKING,
    ReverseRecord,
    RevertAnswer,
)
from spirit_py.errors import (
    DuplicateForUnique,
    HiddenChange,
    Interrupted,
    MigrationFailure,
    OutcomeUnknown,
    PositionNotFound,
    SchemaChanged,
    ServerFault,
    SpiritError,
    StatementWrite,
    StillDifferent,
    ValueLost,
)
from spirit_py.migration.mailbox import Desk
from spirit_py.migration.reverse_feed import Following, mappings_of, with_shapes
from spirit_py.migration.undo import Undo, drop_undone
from spirit_py.mysql.connect import connect
from spirit_py.stop import StopSwitch
from spirit_py.threads import Background
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

    from spirit_py.checkpoint.reverse import ReverseTable, RevertRequest
    from spirit_py.checkpoint.table import CheckpointTable
    from spirit_py.contracts import Clock
    from spirit_py.migration.undo import Means
    from spirit_py.mysql.session import Session

_LOOK_SECONDS: Final = 1.0
_STILL = (
    "the change is done; spirit-py revert still goes back, as long as the server keeps its binlog;"
    " spirit-py cleanup removes what is left"
)
_BACK = "the old definition is in place again; spirit-py revert drops what is left"
#: What to do about a revert that the tables' rows stand in the way of.
_HINTS: Final[dict[type[SpiritError], str]] = {
    DuplicateForUnique: "remove the duplicates, then run spirit-py revert again",
    StillDifferent: "run spirit-py revert again; it compares everything once more",
    ValueLost: "make the rows fit into the old table, then run spirit-py revert again",
}


class WayBackLost(MigrationFailure):
    """The old table follows no more; the change itself is done and stays."""

    resumable = False
    outcome = "way back lost"


class Ending(enum.Enum):
    """How a keeping ended."""

    TIME = "its time is over"
    """The old tables and the checkpoint tables are the caller's to drop."""
    REVERTED = "the old tables are in place again"
    """Nothing is left."""


def begin(
    session: Session,
    store: CheckpointTable,
    tables: Sequence[ReverseTable],
    *,
    position: str,
    seconds: float,
) -> ReverseRecord:
    """Write the first record of a way back, right after the swap; its checkpoint table exists.

    Args:
        position: the place right behind the RENAME.
        seconds: how long the way back is to be kept.
    """
    ((server_uuid, now),) = session.query("SELECT @@server_uuid, UNIX_TIMESTAMP(NOW(6))")
    record = ReverseRecord(
        tables=tuple(with_shapes(session, table) for table in tables),
        server_uuid=str(server_uuid),
        position=position,
        until=float(now) + seconds,
        program=__version__,
    )
    store.write(session, record)
    return record


class Keeper:
    """Follows the new tables with the old ones: :meth:`run` or :meth:`revert`, once.

    The caller holds the named locks of the tables' migration.

    Args:
        stop: the process's own switch: a signal ends the keeping, and the position is written.
    """

    def __init__(
        self,
        means: Means,
        store: CheckpointTable,
        record: ReverseRecord,
        *,
        stop: StopSwitch,
        clock: Clock = time.monotonic,
    ) -> None:
        self._means = means
        self._store = store
        self._outer = stop
        #: Of the way back alone: what breaks it must not end the process as if that had failed.
        self._stop = StopSwitch()
        self._clock = clock
        self._swapped_back = False
        self._desk = Desk(means.connection, store, record, message=means.message, clock=clock)

    def run(self) -> Ending:
        """Keep until the end.

        Raises:
            Interrupted: by a signal; the way back stays, for whoever takes it over.
            WayBackLost: there is no way back any more.
            OutcomeUnknown: the answer to a swap back was lost.
            SpiritError: the keeping could not go on; somebody else may.
        """
        with contextlib.closing(self._desk), self._linked(), self._following() as following:
            return self._keep(following)

    def revert(self, *, skip_drop: bool) -> None:
        """Go the way back at once, for nobody but the caller.

        Raises:
            SpiritError: the way back was not gone; unless it is lost, it may be tried again.
        """
        with contextlib.closing(self._desk), self._linked(), self._following() as following:
            try:
                self._undo(following, self._means.message, skip_drop=skip_drop)
            except SchemaChanged as error:
                raise self._lost(error) from error
            except SpiritError:
                self._check(following)
                self._desk.save(following.feed.position())
                raise
            self.finish(skip_drop=skip_drop)

    # -- parts

    @contextlib.contextmanager
    def _linked(self) -> Iterator[None]:
        """Let a stop of the process stop the way back, and never the other way round."""

        def link(ended: threading.Event) -> None:
            while not ended.is_set():
                if self._outer.wait(0.2) and self._outer.reason is not None:
                    self._stop.request(self._outer.reason)
                    return

        with Background("keep", link):
            yield

    def _following(self) -> Following:
        """Open the reverse feed where the record says."""
        record, means = self._desk.record, self._means
        with contextlib.ExitStack() as stack:
            try:
                with connect(means.connection, role="keep") as session:
                    mappings = mappings_of(session, record.tables)
                    age = self._store.age(session, ReverseRecord)
                if why := why_unreachable(means.connection, record.position, age=age):
                    raise PositionNotFound(f"the change feed cannot go on: {why}")
                following = stack.enter_context(
                    Following(means.connection, mappings, options=means.feed, stop=self._stop)
                )
                following.start(record.position)
            except SpiritError as error:
                if not _ends_the_way_back(error):
                    raise
                raise self._lost(error) from error
            stack.pop_all()
            return following

    def _keep(self, following: Following) -> Ending:
        """Look each second who wants what."""
        desk, means = self._desk, self._means
        until = self._clock() + desk.seconds_left()
        for line in desk.record.losses:
            means.message(line)
        means.message(
            f"the way back of {desk.record.names} is kept for"
            f" {human_seconds(max(0.0, until - self._clock()))}: spirit-py revert brings the old"
            " definition back"
        )
        while True:
            self._check(following)
            left = until - self._clock()
            request = self._look(following)
            if request is not None and self._answer(request, following):
                return Ending.REVERTED
            if left <= 0:
                means.message(f"the way back of {desk.record.names} ends: {Ending.TIME.value}")
                return Ending.TIME
            means.show(f"spirit-py revert; the way back ends in {human_seconds(left)}")
            self._stop.wait(min(_LOOK_SECONDS, left))

    def _look(self, following: Following) -> RevertRequest | None:
        """Get a request of somebody who waits; a definition that was changed ends the keeping."""
        try:
            return self._desk.look(following.feed.position)
        except SchemaChanged as error:
            raise self._lost(error) from error

    def _check(self, following: Following) -> None:
        """End the keeping where a signal or a fault asks for it."""
        reason = self._outer.reason
        if reason is not None:
            self._desk.save(following.feed.position())
            if isinstance(reason, Interrupted):
                reason.hint = _BACK if self._swapped_back else _STILL
            raise reason
        reason = self._stop.reason
        if reason is None:
            return
        if _ends_the_way_back(reason):
            raise self._lost(reason)
        self._desk.save(following.feed.position())
        raise MigrationFailure(
            f"the way back of {self._desk.record.names} is kept no longer: {reason.message}",
            hint=f"{reason.hint}; {_STILL}" if isinstance(reason, StatementWrite) else _STILL,
            details=reason.details,
        ) from reason

    def _answer(self, request: RevertRequest, following: Following) -> bool:
        """Go the way back for somebody who asked; False when it failed and the keeping goes on."""
        desk = self._desk
        said: list[str] = []

        def say(text: str) -> None:
            self._means.message(text)
            said.append(text)
            desk.tell(RevertAnswer(token=request.token, state=WORKING, said=tuple(said)))

        say("a revert was asked for")
        try:
            self._undo(following, say, skip_drop=request.skip_drop)
        except SpiritError as error:
            cause = self._cause(error)
            if isinstance(cause, Interrupted):
                # Whoever asked finds nobody here any more, and goes on by itself.
                say("the process that keeps the way back was told to end")
                self._check(following)
            broken = cause is self._stop.reason and _ends_the_way_back(cause)
            if broken or isinstance(cause, SchemaChanged):
                cause = self._lost(cause)
            desk.withdraw(request)
            desk.tell(RevertAnswer.of_error(request.token, cause))
            if isinstance(cause, (OutcomeUnknown, WayBackLost)):
                raise cause from error
            self._check(following)
            self._means.message(f"the revert failed: {error.message}; the way back is still kept")
            return False
        for text in self._drop_undone(skip_drop=request.skip_drop):
            say(text)
        desk.tell(RevertAnswer(token=request.token, state=DONE, said=tuple(said)))
        desk.wait_until_read(self._outer)
        desk.drop_marks()
        return True

    def _cause(self, error: SpiritError) -> SpiritError:
        """Return the reason of a stop where ``error`` only followed from it."""
        if isinstance(error, OutcomeUnknown):
            return error
        return self._outer.reason or self._stop.reason or error

    def _undo(self, following: Following, say: Callable[[str], None], *, skip_drop: bool) -> None:
        """Prove and swap; an error says what to do before the next try."""
        try:
            self._prove_and_swap(following, say, skip_drop=skip_drop)
        except SpiritError as error:
            error.hint = _HINTS.get(type(error), error.hint)
            raise

    def _prove_and_swap(
        self, following: Following, say: Callable[[str], None], *, skip_drop: bool
    ) -> None:
        """Do it; the record tells a later process that the swap may be under way."""
        desk = self._desk
        for line in desk.record.losses:
            say(line)
        undo = Undo(self._means, following, desk.record.tables, stop=self._stop, say=say)
        try:
            undo.prove()
        except SpiritError:
            undo.give_up()
            raise
        desk.write(position=following.feed.position(), state=REVERTING, skip_drop=skip_drop)
        try:
            undo.swap()
        except OutcomeUnknown:
            raise
        except BaseException:
            # Interrupted after the RENAME: the next look at the tables tells.
            if not undo.swapped:
                undo.give_up()
                with contextlib.suppress(ServerFault):
                    desk.write(state=FOLLOWING)
            raise
        finally:
            self._swapped_back = undo.swapped

    # -- the ways to end

    def finish(self, *, skip_drop: bool) -> None:
        """Drop what was swapped out: also for a swap back that a process made and did not end."""
        with contextlib.closing(self._desk):
            for text in self._drop_undone(skip_drop=skip_drop or self._desk.record.skip_drop):
                self._means.message(text)
            self._desk.drop_marks()

    def _drop_undone(self, *, skip_drop: bool) -> list[str]:
        """Drop the tables that were swapped out; give what there is to say."""
        tables = self._desk.record.tables
        text = f"{self._desk.record.names} has its old definition again"
        if skip_drop:
            undone = ", ".join(f"{table.schema}.{table.undone}" for table in tables)
            return [f"{text}; what was swapped out is {undone}"]
        left = drop_undone(self._means, tables, self._outer)
        return [*(f"warning: {trouble}" for trouble in left), text]

    def _lost(self, error: SpiritError) -> WayBackLost:
        """Note that there is no way back any more, and why."""
        record = self._desk.record
        self._desk.note_end(error.message)
        old = ", ".join(f"{table.schema}.{table.old}" for table in record.tables)
        return WayBackLost(
            f"the way back of {record.names} is lost: {error.message}",
            hint=f"the change itself is done and stays; {old} is left as it was then: see what only"
            " it holds, then drop it, or run spirit-py cleanup",
            details=error.details,
        )


def _ends_the_way_back(error: SpiritError) -> bool:
    """Return whether the old table cannot follow any more after a fault of its feed.

    Where a migration stays resumable because its source can be put right, the table in use here
    keeps what does not fit back, and no copy is made that would bring hidden rows.
    """
    return not error.resumable or isinstance(error, (ValueLost, HiddenChange))
