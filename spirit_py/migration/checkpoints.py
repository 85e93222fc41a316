"""The record of a run's progress, and for how long another run can resume from it (R16, R17)."""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spirit_py.checkpoint.record import UncopiedRange
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.checkpoint.writer import CheckpointWriter
from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import HistoryLost, SpiritError, is_overtaken
from spirit_py.events.copy import BinlogExpires, CheckpointWritten
from spirit_py.events.run import PhaseEntered
from spirit_py.migration.facts import PlainFact
from spirit_py.mysql.connect import connect
from spirit_py.mysql.endpoint import kept_seconds
from spirit_py.phases import AFTER_SWAP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.checkpoint.record import CheckpointRecord, TableProgress
    from spirit_py.chunk.chunk import KeyRange
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import ChangeSource, Clock, SqlSession
    from spirit_py.migration.copied_pair import CopiedPair
    from spirit_py.migration.run import Run
    from spirit_py.progress import Retention

_ASK_SECONDS: Final = 30.0
_KEPT_WITHIN: Final = 10
#: Part of the time for which the server keeps its binlog that is left when a warning is due.
_WARN_PART: Final = 0.5
_log = logging.getLogger(__name__)

#: At the end of a run the operator waits for the last record.
_LAST_CONNECT_SECONDS: Final = 3
_OUT_OF_ORDER: Final = ErrorCode.SERVER_SETTINGS
_ANSWER_WITHIN: Final = 5


class Checkpoints:
    """Writes a run's record periodically, and at its end, until the tables are swapped.

    The copy does not wait for the first record, because commits of the server may stall.
    """

    def __init__(
        self, run: Run, record: CheckpointRecord, feed: ChangeSource, pairs: Sequence[CopiedPair]
    ) -> None:
        self._run = run
        self._base = record
        self._feed = feed
        self._pairs = {(pair.source_name, pair.job.config.shard): pair for pair in pairs}
        self._settled_at = self._position = self._behind = ""
        self._ended = False
        self._writer = self._writer_to(run.config.connection)
        run.closing("the checkpoint", self._last)
        run.follow(self._phase_entered)
        self._writer.start()
        self._writer.request()

    def _writer_to(self, connection: ConnectionOptions) -> CheckpointWriter:
        return CheckpointWriter(
            connection,
            CheckpointTable(*self._base.home),
            self.take,
            stop=self._run.stop,
            written=lambda record: self._run.tell(
                CheckpointWritten(
                    phase=record.phase, rows_copied=record.rows_copied, position=record.position
                )
            ),
        )

    def _phase_entered(self, happened: object) -> None:
        if isinstance(happened, PhaseEntered):
            self._writer.request()

    @property
    def server(self) -> str:
        """The address of the server that has the record."""
        return self._run.config.connection.address

    @property
    def deferred(self) -> bool:
        """Whether the sentinel was created, by this run or an earlier one."""
        return self._base.sentinel

    def sentinel_created(self) -> None:
        """Note that the cutover was deferred: a dropped sentinel is not created again."""
        self._base = replace(self._base, sentinel=True)
        self.note()

    def note(self) -> bool:
        """Write a record now; return whether that was possible: otherwise the older one stays."""
        try:
            self._writer.write_now()
        except SpiritError as error:
            _log.info("the checkpoint could not be written: %s", error)
            return False
        return True

    def go_on_behind(self, position: str) -> bool:
        """Note a later place to go on from, which the feed has not reached; return as :meth:`note`.

        Everything before it is applied.
        """
        self._behind = position
        return self.note()

    def end(self) -> None:
        """Write nothing more: the tables are swapped."""
        self._ended = True
        self._run.unfollow(self._phase_entered)
        self._writer.close()

    def _last(self) -> None:
        if self._ended:
            return
        self._writer.close()
        # Before anything that may fail: without this record, the earlier one is still valid (R17).
        if self._writer.age is not None:
            self._run.note(PlainFact.RECORD_STAYS)
        reason = self._run.stop.reason
        # Without the log's order nothing is lost, and what was compared is noted no more.
        lost = isinstance(reason, HistoryLost) and reason.error_code is not _OUT_OF_ORDER
        if lost or is_overtaken(reason):
            # What this run knows may be ahead of what the server has; the record there is not.
            return
        connection = self._run.config.connection
        limit = min(connection.connect_timeout, _LAST_CONNECT_SECONDS)
        quick = replace(connection, connect_timeout=limit)
        try:
            self._settle(quick)
            self._writer_to(quick).write_now()
            self._run.note(PlainFact.RECORD_STAYS)
        except SpiritError as error:
            _log.info("the last checkpoint could not be written: %s", error)

    def _settle(self, connection: ConnectionOptions) -> None:
        """Record the position after which nothing of this run writes to a new table."""
        if not any(pair.checked_up_to() for pair in self._pairs.values()):
            return
        self._feed.close()
        with connect(connection, role="checkpoint", read_timeout=_ANSWER_WITHIN) as session:
            self._settled_at = self._feed.position_here(session)

    def take(self) -> CheckpointRecord:
        """Return the current record; any thread may ask. No I/O, but for what was rebuilt."""
        state, base = self._run.state, self._base
        position = self._behind or self._feed.position() or base.position
        try:
            for pair in self._pairs.values():
                pair.tables.take_over()
        except SpiritError as error:
            _log.info("a rebuilt table could not be recorded: %s", error)
            position = self._position or base.position
        self._position = position
        spent = self._run.journal.clock() - state.began
        origin = self._feed.origin
        if any(self._feed.has_unread_changes(pair.mapping) for pair in self._pairs.values()):
            # The next run, too, meets rows that a crash has taken back, until all are compared.
            origin = replace(origin, started=base.origin.started)
        return replace(
            base,
            tables=tuple(map(self._progress, base.tables)),
            shards=tuple(map(self._progress, base.shards)),
            phase=state.phase.value,
            position=position,
            origin=origin,
            settled_at=self._settled_at,
            seconds=round(base.seconds + spent, 1),
            totals=self._totals(),
        )

    def _progress(self, table: TableProgress) -> TableProgress:
        pair = self._pairs[table.name, table.shard]
        copied = pair.copied_so_far()
        return replace(
            table,
            uncopied=tuple(_as_literals(one) for one in copied.uncopied),
            rows_copied=copied.rows,
            chunks=copied.chunks,
            checked_up_to=pair.checked_up_to(),
            bare_shape=pair.deferred.bare_shape,
            deferred=tuple(pair.deferred.names),
        )

    def _totals(self) -> dict[str, int]:
        seen = self._feed.statistics()
        counted = {
            "changes_received": seen.received,
            "changes_applied": seen.applied,
            "changes_dropped": seen.dropped_above_high_watermark,
            "feed_reconnects": seen.reconnects,
        }
        return {name: self._base.totals.get(name, 0) + count for name, count in counted.items()}


def _as_literals(part: KeyRange) -> UncopiedRange:
    return UncopiedRange(
        lower=part.lower.literals if part.lower is not None else (),
        upper=part.upper.literals if part.upper is not None else (),
    )


@dataclass
class _Place:
    """The place from which a server would be read again: how old it is, how long it is kept.

    ``run`` faces that server. ``moved_at`` is when what it points at happened; ``reach`` is of what
    the feed reads, told at ``reach_at``.
    """

    run: Run
    moved_at: float
    position: str = ""
    asked_at: float = float("-inf")
    kept: float = 0.0
    warned: bool = False
    reach: Retention | None = None
    reach_at: float = 0.0

    def age(self, now: float) -> float:
        """Return the seconds since what it points at was written, or what the feed reads there."""
        read = self.reach.age + now - self.reach_at if self.reach is not None else 0.0
        gone = self.reach is not None and self.reach.gone
        return max(now - self.moved_at, self.kept if gone else read)


class PositionReach:
    """For how long the servers keep what a resumed run would read first (R19).

    The position moves on in a pause, and stands still under backpressure or behind a prepared XA
    transaction: its age is that of what it then came to, and the time since. On an idle
    server this run's figures move it. ``left`` is in seconds, of several sources the least; None
    for ever, or where it is not known yet. ``fronts``: the run as it faces each source, where there
    may be several; ``age``: the seconds since the record was written from which it resumes.
    """

    def __init__(
        self,
        run: Run,
        fronts: Sequence[Run] = (),
        *,
        age: float = 0.0,
        clock: Clock = time.monotonic,
    ) -> None:
        self._run = run
        self._clock = clock
        self._places = [_Place(front, clock() - age) for front in fronts or [run]]
        self.left: float | None = None

    def look(self, session: SqlSession) -> None:
        """Look at the positions; warn once when half of a one's time is over.

        May raise ServerFault of the session, which is of the first source.
        """
        known: list[float] = []
        if self._run.state.phase not in AFTER_SWAP:
            known = [left for one in self._places if (left := self._left(one, session)) is not None]
        self.left = min(known, default=None)

    def _left(self, place: _Place, session: SqlSession) -> float | None:
        now, address = self._clock(), place.run.config.connection.address
        feed = self._run.figures.feeds.get(address)
        position = feed.position() if feed is not None else ""
        if feed is None or not position:
            return None
        seen = feed.statistics()
        if seen.retention is not place.reach:
            place.reach, place.reach_at = seen.retention, now
        if position != place.position:
            # A run that resumes begins where its record was written.
            if place.position:
                read = place.reach.age if place.reach is not None else 0.0
                # Changes that were held while the reader went on are drained from the oldest one.
                place.moved_at = now - read - (seen.behind_seconds or 0.0)
            place.position = position
        if now - place.asked_at >= _ASK_SECONDS:
            if address == self._run.config.connection.address:
                place.kept = kept_seconds(session)
            elif not seen.trouble:
                # One that is away must not hold up the answers to operators.
                with contextlib.suppress(SpiritError):
                    place.kept = _kept_there(place.run)
            place.asked_at = now
        if not place.kept:
            return None
        age = place.age(now)
        left = max(0.0, place.kept - age)
        if left >= _WARN_PART * place.kept:
            place.warned = False
        elif not place.warned:
            place.warned = True
            prefix = address if len(self._places) > 1 else ""
            happened = BinlogExpires(
                seconds_left=round(left, 1), seconds=round(age, 1), prefix=prefix
            )
            self._run.tell(happened)
        return left


def _kept_there(front: Run) -> float:
    """Ask another source for how long it keeps its binlog; SpiritError where it does not answer."""
    with front.session("control", read_timeout=_KEPT_WITHIN) as session:
        return kept_seconds(session)
