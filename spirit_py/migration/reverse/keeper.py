"""Let the old tables follow until the time is over, a revert is made, or the feed breaks.

After the time ``_t_old`` is dropped. After a fault of the feed, such as foreign DDL or a value that
does not fit, it stays: it may hold the only copy of dropped columns. After a signal position and
tables stay, and ``spirit-py revert`` or the same ``migrate`` resumes while the binlog reaches back.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Final

from spirit_py import errors
from spirit_py.attached.foreign_keys.model import NOT_BROUGHT_BACK
from spirit_py.checkpoint.live import FAILED
from spirit_py.codes import ErrorCode
from spirit_py.events.swap import (
    ReverseBegun,
    ReverseEnded,
    RevertDone,
    RevertFailed,
    RevertRequested,
)
from spirit_py.migration.control.subject import Conversation
from spirit_py.migration.reverse.feed import open_reverse_feed, place_of
from spirit_py.migration.reverse.swap_back import KeptRecord, SwapBack
from spirit_py.migration.swap.old_tables import drop_swapped_out
from spirit_py.migration.swap.same_tables import BACK
from spirit_py.mysql.grants import explain_access
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.checkpoint.record import ReverseRecord
    from spirit_py.feed.feed import ChangeFeed
    from spirit_py.migration.job import Job
    from spirit_py.migration.pair import Pair

_LOOK_SECONDS: Final = 1.0
_STILL: Final = (
    "the change is done; spirit-py revert still swaps back, as long as the server keeps its binlog;"
    " spirit-py cleanup --drop-old ends that, and drops the old table"
)
_STILL_RUNS: Final = "reverse replication still runs"


class ReverseReplicationLost(errors.MigrationFailure):
    """The old table can follow no more; the change itself is done and stays."""

    error_code = ErrorCode.REVERSE_REPLICATION_LOST
    resumable = False
    says_done = True
    outcome = "reverse replication lost"

    @classmethod
    def of(
        cls, record: ReverseRecord, reason: str, details: tuple[str, ...] = ()
    ) -> ReverseReplicationLost:
        """Return the error for the tables of a record."""
        old = ", ".join(f"{table.schema}.{table.old}" for table in record.tables)
        until = "then drop it, or run spirit-py cleanup --drop-old"
        if record.is_noted:
            until = (
                "before migrate drops it, once its --drop-old-after is over: spirit-py ctl pause"
                " holds that back; spirit-py cleanup --drop-old drops it at once"
            )
        return cls(
            f"reverse replication of {record.names} is lost: {reason}",
            hint=f"the change itself is done and stays; {old} is left as it was then: see what only"
            f" it holds, {until}",
            details=details,
        )


class Keeper:
    """Runs reverse replication of one migration's tables: :meth:`run` or :meth:`revert`, once.

    :meth:`run` may be repeated for a place that is only noted.

    The caller holds the named locks of the tables. A signal ends it, and the position is written.
    ``back``: an earlier process has swapped the tables back already. ``stays``: the old tables do,
    when the time is over, and the place is noted then.
    """

    def __init__(
        self, job: Job, record: ReverseRecord, *, back: bool = False, stays: bool = False
    ) -> None:
        self._job = job
        #: The work as the server of the tables in use sees it.
        self._facing = job
        self._back = back
        self._stays = stays
        #: Of the reverse feed: what breaks it must not end the process as if that had failed.
        self._stop = job.stop.linked()
        self._record = KeptRecord(job, record)
        self._pairs: list[Pair] = []
        self._swap: SwapBack | None = None
        self._asking = threading.Lock()
        self._asked: Conversation | None = None
        self._skip_drop = False
        self._over = False

    @property
    def feed(self) -> ChangeFeed | None:
        """What brings the old tables up to date; None before it began."""
        return self._pairs[0].feed if self._pairs else None

    @property
    def renaming(self) -> bool:
        """Whether a RENAME is under way, and not known to have swapped the tables back."""
        return self._swap is not None and self._swap.renaming and not self._swap.swapped

    @property
    def hands_over(self) -> bool:
        """Whether the time is over, and the old tables stay: their place is noted for a revert."""
        return self._over and self._stays

    def may_be_back(self) -> bool:
        """Whether the old tables are in place again, or a RENAME that may do it was sent."""
        swap = self._swap
        return self._back or (swap is not None and (swap.renaming or swap.swapped))

    def ask(self, *, skip_drop: bool) -> Conversation:
        """Have the tables swapped back; all requests get one answer. Any thread; or Refusal."""
        with self._asking:
            if self._over:
                raise errors.Refusal(
                    "reverse replication is over",
                    hint="see spirit-py status",
                    error_code=ErrorCode.NO_REVERSE_REPLICATION,
                )
            if self._asked is None or self._asked.answer.state == FAILED:
                # In this order: who answers reads the choice after the request, without the lock.
                self._skip_drop = skip_drop
                self._asked = Conversation()
            elif skip_drop != self._skip_drop:
                raise errors.Refusal(
                    "another revert is at work, with another choice of --skip-drop",
                    hint="wait for its end; see spirit-py status",
                    error_code=ErrorCode.REQUEST_REFUSED,
                )
            return self._asked

    @property
    def swapped(self) -> bool:
        """Whether this process has swapped the tables back."""
        return self._swap is not None and self._swap.swapped

    @property
    def asked(self) -> bool:
        """Whether a revert waits for an answer."""
        return self._asked is not None and not self._asked.ended

    def fail(self, error: errors.SpiritError) -> None:
        """Answer a revert that waits."""
        if self._asked is not None:
            self._asked.fail(error)

    def is_over(self, left: float = 0.0) -> bool:
        """Take no more requests once no seconds are ``left``; False as long as one waits."""
        with self._asking:
            self._over = left <= 0 and not self.asked
            return self._over

    def run(self) -> bool:
        """Let the old tables follow; True after a revert, False when the time is over.

        Where the place was only noted, the time is over when a revert is answered.

        After that the old tables and the checkpoint tables are the caller's to drop.
        ReverseReplicationLost where the old tables can follow no more, OutcomeUnknown where the
        answer to a swap back was lost; after another error another process may go on.
        """
        with contextlib.closing(self._record):
            while True:
                with self._following():
                    done = self._keep()
                if done is not None:
                    return done

    def revert(self, *, skip_drop: bool) -> None:
        """Swap back at once; after a SpiritError but ReverseReplicationLost it may be repeated."""
        with contextlib.closing(self._record), self._following():
            try:
                self._swap_back(skip_drop=skip_drop)
            except errors.SpiritError as error:
                if self.swapped:
                    self._check()
                    raise self._left_back(error) from error
                if isinstance(error, errors.SchemaChanged) and _is_final(error):
                    raise self._lost(error) from error
                if not self._met_duplicate:
                    self._check()
                self._record.save(self._position())
                raise
            self.finish(skip_drop=skip_drop)

    def finish(self, *, skip_drop: bool) -> None:
        """Drop what was swapped out: also for a swap back that a process made and did not end."""
        self._found_back()
        with contextlib.closing(self._record):
            keep = skip_drop or self._record.record.skip_drop
            self._record.forget(keep=self._drop_undone(skip_drop=keep))

    def _found_back(self) -> None:
        # A revert that asks goes on, as in a grace, once this process has ended.
        self._back = self._over = self._stays = True

    @contextlib.contextmanager
    def _following(self) -> Iterator[None]:
        # What broke the feed of an earlier call is over.
        self._stop = self._job.stop.linked()
        with contextlib.ExitStack() as stack:
            try:
                self._pairs = self._opened(stack)
            except errors.Interrupted:
                raise
            except errors.SpiritError as error:
                raise (self._lost if _is_final(error) else self._stopped)(error) from error
            yield

    def _opened(self, stack: contextlib.ExitStack) -> list[Pair]:
        return open_reverse_feed(self._facing, self._record.record, self._stop, stack)

    def _keep(self) -> bool | None:
        """Follow until the end; None where a duplicate that a revert met has ended the feed."""
        kept, job = self._record, self._job
        names, noted = kept.record.names, kept.record.is_noted
        left = kept.seconds_left()  # It waits for a server that is away.
        until = time.monotonic() + left
        if not noted:
            left = max(0.0, until - time.monotonic())
            job.tell(ReverseBegun(tables=names, seconds=round(left, 1)))
        while True:
            self._check()
            left = until - time.monotonic()
            try:
                kept.keep_up(self._position)
            except errors.SchemaChanged as error:
                if _is_final(error):
                    raise self._lost(error) from error
                kept.save(self._position())
                raise
            asked = self._asked
            if asked is not None and not asked.ended and self._answer(asked):
                return True
            if noted and not self.asked:
                kept.save(self._position())
                return False
            if self._met_duplicate:
                kept.save(self._position())
                return None
            if self.is_over(left):
                if self._stays:
                    kept.end(self._position())
                job.tell(ReverseEnded(tables=names, reason="its time has passed"))
                return False
            job.show(
                f"spirit-py revert; reverse replication ends in {human_seconds(max(0.0, left))}"
            )
            self._stop.wait(min(_LOOK_SECONDS, max(0.0, left)))

    def _position(self) -> str:
        return place_of(self._pairs)

    @property
    def _fault(self) -> errors.SpiritError | None:
        """What has broken the feed; a swap back stops it for good."""
        return None if self.swapped else self._stop.reason

    @property
    def _met_duplicate(self) -> bool:
        """Whether nothing is wrong but that: as long as no revert is made, rows are written over.

        To the operator it is the same as one that the comparison has met.
        """
        fault = self._job.stop.reason or self._fault
        return isinstance(fault, errors.DuplicateForUnique)

    def _check(self) -> None:
        asked = self._job.stop.reason
        fault = asked or self._fault
        if fault is None:
            return
        if asked is None and _is_final(fault):
            raise self._lost(fault)
        if not errors.is_overtaken(fault):
            self._record.save(self._position())
        if asked is not None:
            done = self._job.done_hint if self.swapped else _STILL
            if isinstance(asked, errors.Interrupted):
                raise asked.saying(done)
            if done not in asked.hint:
                asked.hint = f"{asked.hint}; {done}"
            raise asked
        raise self._stopped(fault) from fault

    def _stopped(self, fault: errors.SpiritError) -> errors.LeftAfterChange:
        """Return the error for a fault, with its code, after which a revert is still possible."""
        explain_access(fault)
        # What is said of a lost history is about a copy that would be made again.
        says_more = fault.hint and not isinstance(fault, errors.HistoryLost)
        return errors.LeftAfterChange(
            f"reverse replication of {self._record.record.names} has stopped: {fault.message}",
            hint=f"{fault.hint}; {_STILL}" if says_more else _STILL,
            details=fault.details,
            error_code=fault.error_code,
        )

    def _answer(self, asked: Conversation) -> bool:
        """Swap back for a revert that asked; False when it failed and the tables still follow."""
        skip_drop = self._skip_drop
        self._job.follow(asked.hear)
        try:
            self._job.tell(RevertRequested(session=None))
            try:
                self._swap_back(skip_drop=skip_drop)
            except errors.SpiritError as error:
                self._answer_failure(asked, error)
                return False
            keep = self._drop_undone(skip_drop=skip_drop)
            asked.done()
        finally:
            self._job.unfollow(asked.hear)
        self._job.await_readers()
        self._record.forget(keep=keep)
        return True

    def _answer_failure(self, asked: Conversation, error: errors.SpiritError) -> None:
        cause = error
        if not isinstance(error, errors.OutcomeUnknown):
            # What the parts report after a stop request only follows from it.
            cause = self._job.stop.reason or self._fault or error
        if isinstance(cause, errors.Interrupted):
            why = "the process that runs reverse replication was asked to end"
            self._job.tell(RevertFailed(said=why, reason=why))
            self._check()
        changed = isinstance(cause, errors.SchemaChanged)
        if (changed or cause is self._fault) and _is_final(cause) and not self.swapped:
            cause = self._lost(cause)
        cause = self._left_back(cause) if self.swapped else cause
        asked.fail(cause)
        if self.swapped or isinstance(cause, (errors.OutcomeUnknown, ReverseReplicationLost)):
            raise cause from error
        if not self._met_duplicate:
            self._check()
        goes_on = "the old table is kept" if self._record.record.is_noted else _STILL_RUNS
        said = f"the revert failed: {error.message}; {goes_on}"
        self._job.tell(RevertFailed(said=said, reason=error.message))

    def _swap_back(self, *, skip_drop: bool) -> None:
        self._swap = self._made_swap()
        self._swap.run(skip_drop=skip_drop)

    def _made_swap(self) -> SwapBack:
        return SwapBack(self._job, self._pairs, self._record)

    def _drop_undone(self, *, skip_drop: bool) -> bool:
        record, stays = self._record.record, skip_drop
        text = f"{record.names} has its old definition again"
        if skip_drop:
            undone = ", ".join(f"{table.schema}.{table.undone}" for table in record.tables)
            text = f"{text}; what was swapped out is {undone}, until spirit-py cleanup drops it"
        else:
            names = [table.name for table in record.tables]
            stays = bool(drop_swapped_out(self._facing, names, BACK))
        adds = [add for line in record.losses if (add := line.partition(NOT_BROUGHT_BACK)[2])]
        if adds:
            text = f"{text}; foreign keys that the change dropped are not back: {'; '.join(adds)}"
        self._job.tell(RevertDone(said=text, tables=record.names))
        return stays

    def _left_back(self, error: errors.SpiritError) -> errors.SpiritError:
        """Return what has ended a swap back that is made; by its record another process ends it."""
        error.hint = "; ".join(filter(None, (error.hint, self._job.done_hint)))
        return error

    def _lost(self, error: errors.SpiritError) -> ReverseReplicationLost:
        self._record.note_end(error.message)
        return ReverseReplicationLost.of(self._record.record, error.message, error.details)


def _is_final(error: errors.SpiritError) -> bool:
    """Return whether a fault of its feed ends it: no copy is made that would bring hidden rows."""
    return not error.resumable or isinstance(error, (errors.ValueLost, errors.HiddenChange))
