"""The swap back of a revert, and the record of the reverse replication that it ends."""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spirit_py import errors
from spirit_py.attached.foreign_keys.catalogue import Trial, keys_around, require_free_around
from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.drop import drop_checkpoint
from spirit_py.checkpoint.examination import require_finished
from spirit_py.checkpoint.proofs import read_proofs
from spirit_py.checkpoint.record import ENDED, FOLLOWING, REVERTING, OldTableRecord, ReverseRecord
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.codes import ErrorCode
from spirit_py.cutover.guard import require_guard
from spirit_py.cutover.plan import SwapGate
from spirit_py.cutover.rename import check_names
from spirit_py.estimates import likely_sizes
from spirit_py.events.swap import CutoverHeldBack, RevertLoses, RevertStepBegun
from spirit_py.migration.doubts import relieved
from spirit_py.migration.reverse.feed import place_of, require_definitions
from spirit_py.migration.swap.same_tables import BACK
from spirit_py.migration.swap.swap import PairSwap, swaps_of
from spirit_py.mysql.facts import server_now
from spirit_py.mysql.faults import Disposition, disposition, takes_no_writes
from spirit_py.mysql.retry import RenewedSession, retrying
from spirit_py.pace import FIRST_TASKS, Work, await_turn
from spirit_py.plan.sample import Sampler, comparison_time
from spirit_py.preflight.check import refusal_of, refuse
from spirit_py.preflight.checks.attached import ends_way_back
from spirit_py.preflight.checks.other_writers import require_still_here
from spirit_py.threads import Background, every
from spirit_py.units import human_bytes, human_count, human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from spirit_py.attached.foreign_keys.model import ForeignKey
    from spirit_py.checkpoint.record import ReverseTable
    from spirit_py.migration.job import Job
    from spirit_py.migration.pair import Pair
    from spirit_py.migration.run import Swaps
    from spirit_py.mysql.retry import Retrier
    from spirit_py.mysql.session import Session
    from spirit_py.table.build import ReverseChanges
    from spirit_py.table.names import Name
    from spirit_py.threads import StopSwitch

_HINTS: Final[dict[type[errors.SpiritError], str]] = {
    errors.DuplicateForUnique: "remove the duplicates, then run spirit-py revert again",
    errors.StillDifferent: "run spirit-py revert again; it compares everything once more",
    errors.ValueLost: "make the rows fit into the old table, then run spirit-py revert again",
}


class _PauseGate(SwapGate):
    """Holds the swap back of a revert back in a pause, and when its process is to end."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def held_back(self) -> str:
        return self._job.pace.reason(Work.SWAP)

    def last_word(self) -> str:
        return self._job.giving_up or self.held_back()


class SwapBack:
    """One try of a revert; after one that failed, reverse replication may go on."""

    def __init__(self, job: Job, pairs: Sequence[Pair], kept: KeptRecord) -> None:
        self._job = job
        self._pairs = pairs
        self._feed = pairs[0].feed
        self._kept = kept
        self._cutover: Swaps | None = None

    @property
    def swapped(self) -> bool:
        """Whether the old tables are in place again."""
        return self._cutover is not None and self._cutover.swapped

    @property
    def renaming(self) -> bool:
        """Whether a RENAME was sent, or is about to be, and is not known to have failed."""
        return self._cutover is not None and self._cutover.renaming

    def run(self, *, skip_drop: bool) -> None:
        """Compare and swap; only after OutcomeUnknown the tables may be swapped."""
        try:
            with self._kept.kept_up(partial(place_of, self._pairs), self._pairs[0].stop):
                self.prove()
            self._note_begun(skip_drop=skip_drop)
            with self._feed.flushed_often():
                self.swap()
        except BaseException as error:
            # Interrupted after the RENAME: a later process sees by the tables that it was made.
            if not (self.swapped or isinstance(error, errors.OutcomeUnknown)):
                self._go_on()
            if isinstance(error, errors.SpiritError):
                error.hint = _HINTS.get(type(error), error.hint)
            raise

    def _note_begun(self, *, skip_drop: bool) -> None:
        """Write that the swap back begins; a session lost since the last write costs no revert."""
        # Why an earlier try was lost is over, now that everything is the same.
        begun = partial(self._kept.write, state=REVERTING, skip_drop=skip_drop, reason="")
        retrying(self._pairs[0].stop)(begun, position=self._feed.position())

    def prove(self) -> None:
        """Drain the feed and compare every row; on SpiritError nothing was changed."""
        job, record = self._job, self._kept.record
        for line in record.losses:
            job.tell(RevertLoses(said=line))
        self._require_as_noted(record.tables)
        job.tell(RevertStepBegun(step="drain", said="bringing the old table up to date"))
        self._feed.block_wait()
        self._feed.flush()
        self._tell_comparison()
        with relieved(pair.doubts for pair in self._pairs):
            for pair in self._pairs:
                pair.analyze()
                pair.check()

    def _require_as_noted(self, tables: Sequence[ReverseTable]) -> None:
        job, swaps = self._job, swaps_of(self._pairs, BACK)
        with job.session("revert") as session:
            names = [table.name for table in tables]
            require_free_around(
                session, names, "let it finish first; then run spirit-py revert again"
            )
            keys = [key for name in names for key in keys_around(session, *name)]
            others = {other: key for key in keys for other in (key.child, key.parent)}
            for other in sorted(others.keys() - set(names)):
                require_finished(session, other, f"the swap back moves {others[other]}")
                if risk := ends_way_back(session, other, others[other]):
                    job.warn(f"the swap back {risk}")
            check_names(session, swaps)
            require_definitions(session, tables)
            require_guard(session, swaps, job.config.snapshot_guard)
            _try_keys(session, tables)

    def _tell_comparison(self) -> None:
        sizes = [pair.mapping.source for pair in self._pairs]
        size = human_bytes(sum(sum(likely_sizes(one)) for one in sizes))
        rows = human_count(sum(one.estimated_rows for one in sizes))
        said = (
            f"comparing every row of {self._kept.record.names} before the swap back: {rows} rows,"
            f" {size}, as the server estimates; {self._time()}; it is not throttled"
        )
        self._job.tell(RevertStepBegun(step="compare", said=said))

    def _time(self) -> str:
        options, seconds = self._job.config.connection, 0.0
        sessions = min(FIRST_TASKS, self._job.config.threads)
        for pair in self._pairs:
            sampler = Sampler(options, pair.mapping, "", sessions=sessions, stop=pair.stop)
            try:
                sample = sampler.take()
            except errors.ServerFault as fault:
                return f"its time was not measured: {fault.message}"
            one = comparison_time(pair.mapping, sample)
            if one is None:
                return f"its time was not measured: {sample.trouble}"
            seconds += one
        return f"about {human_seconds(seconds)} by a sample, more if the server is busier then"

    def swap(self) -> None:
        """Put the old tables back in one RENAME (R15), when nobody has paused that."""
        job, pairs = self._job, self._pairs
        run = self._planned(_PauseGate(job))
        while not self.swapped:
            # A pause may be longer than the binlog is kept.
            with self._kept.kept_up(partial(place_of, pairs), pairs[0].stop):
                await_turn(job.pace, Work.SWAP, pause=pairs[0].stop.pause, show=job.show)
            for pair in pairs:
                if why := pair.prove():
                    pair.check(why=why)
            job.tell(RevertStepBegun(step="swap", said="swapping back"))
            try:
                run()
            except errors.HeldBack as held:
                job.tell(CutoverHeldBack(reason=held.message))

    def _planned(self, gate: SwapGate) -> Callable[[], object]:
        """Return what swaps back; it may be called again after :class:`HeldBack`."""
        tables = self._kept.record.tables
        check = partial(require_definitions, tables=tables)
        names = [pair.source_name for pair in self._pairs]
        here = partial(require_still_here, config=self._job.config, tables=names)
        carried = _carrier_of(tables)
        swap = PairSwap(
            job=self._job,
            pairs=self._pairs,
            direction=BACK,
            prepare=here,
            final_check=check,
            gate=gate,
            carried=carried,
        )
        self._cutover = swap.cutover
        return swap.run

    def _go_on(self) -> None:
        """Let the old tables follow: until the next try, rows may be written over others again."""
        for pair in self._pairs:
            self._feed.write_over(pair.mapping)
        if self._kept.record.state == REVERTING:
            # What ended the try is the cause, also where another run has the record by now.
            with contextlib.suppress(errors.MigrationFailure):
                self._kept.write(state=FOLLOWING)


def _try_keys(session: Session, tables: Sequence[ReverseTable]) -> None:
    """Try the keys that there are now on the old definitions; Refusal where the server has none."""
    around = dict.fromkeys(key for table in tables for key in keys_around(session, *table.name))
    trial = Trial(
        session=session,
        keys=tuple(map(_carrier_of(tables), around)),
        new_tables={table.name: (table.schema, table.old) for table in tables},
        schema=tables[0].schema,
        building=read_proofs(session, *tables[0].name).building,
    )
    if found := [refuse(*one, code=ErrorCode.FOREIGN_KEY) for one in trial.run()]:
        raise refusal_of(found, "the revert")


def _carrier_of(tables: Sequence[ReverseTable]) -> Callable[[ForeignKey], ForeignKey]:
    return partial(_carried_back, changes={table.name: table.changes for table in tables})


def _carried_back(key: ForeignKey, changes: Mapping[Name, ReverseChanges]) -> ForeignKey:
    """Return a key as the swap back leaves it: those that there are now go along."""

    def renamed(table: Name, columns: tuple[str, ...]) -> tuple[str, ...]:
        names = changes[table].renames if table in changes else {}
        return tuple(names.get(column.lower(), column) for column in columns)

    columns, parents = renamed(key.child, key.columns), renamed(key.parent, key.parent_columns)
    return replace(key, columns=columns, parent_columns=parents)


T = TypeVar("T")
_LOG = logging.getLogger(__name__)

WRITE_SECONDS: Final = 50.0
"""Seconds between two writes of the position."""
_READ_SECONDS: Final = 10
_LOOK_SECONDS: Final = 1.0
#: Tries of a step after the swap back.
_LAST_TRIES: Final = 8


class KeptRecord:
    """Writes the record, and what is left to do at the end; for one thread at a time.

    Its session is opened again when it was lost: only what must be written raises.
    """

    def __init__(self, job: Job, record: ReverseRecord) -> None:
        self._job = job
        self._checkpoint = CheckpointTable(*record.home)
        self.record = record
        self._session = RenewedSession(lambda: job.session("keep", read_timeout=_READ_SECONDS))
        self._written_at = time.monotonic()
        #: Of what this process has found or written: one of them is in the table.
        self._positions = {record.position}

    def seconds_left(self) -> float:
        """Ask the server, by whose clock the end is noted; below 0 when it is over."""
        now: float = self._again(_LAST_TRIES)(self._session.ask, server_now)
        return self.record.until - now

    def end(self, position: str) -> None:
        """Write the place, and that the time is over; what passes is waited for."""
        self._again(_LAST_TRIES)(self.write, position=position, until=0.0)

    def write(self, *, position: str = "", **changes: Any) -> None:
        """Write the record with changes; an empty position keeps the old one; or ServerFault.

        Raises MigrationFailure where another run has worked here meanwhile: its record stays.
        """
        if position:
            changes["position"] = position
        self.record = replace(self.record, **changes)
        self._positions.add(self.record.position)
        # A lost session is closed: the next try has a new one.
        self._session.ask(self._write_over)
        self._positions = {self.record.position}
        self._written_at = time.monotonic()

    def _write_over(self, session: Session) -> None:
        stored = None
        with contextlib.suppress(UnreadableCheckpoint):
            stored = self._checkpoint.read(session, ReverseRecord)
        if stored is None or stored.position not in self._positions:
            raise errors.MigrationFailure(
                f"another run has worked on {self.record.names} while this one was away, and what"
                " it noted of the way back stays",
                hint="see spirit-py status",
                error_code=ErrorCode.RUN_LOCK_LOST,
            )
        self._checkpoint.write(session, self.record)

    def save(self, position: str) -> None:
        """Write the position once more, if that can be done."""
        self._try(
            lambda _: self.write(position=position),
            "the position of reverse replication is not renewed",
        )

    def note_end(self, reason: str) -> None:
        """Note that reverse replication has ended for good, if that can be done."""
        self._try(
            lambda _: self.write(state=ENDED, reason=reason),
            "the end of reverse replication could not be recorded",
        )

    def forget(self, *, keep: bool) -> None:
        """Drop the checkpoint tables, or leave what they prove to cleanup; the record goes last."""

        def note(session: Session) -> None:
            kept = OldTableRecord(swapped_at=0.0, finished=True, undone=True)
            for table in self.record.tables:
                CheckpointTable(*table.name).write(session, kept)
            self._checkpoint.forget(session, ReverseRecord)

        if keep:
            failed = "the proof of the tables that were swapped out is not recorded"
            self._try(note, failed, tries=_LAST_TRIES)
            return
        self._job.await_readers()
        home_last = sorted((table.name for table in self.record.tables), reverse=True)

        def drop(session: Session, table: Name) -> bool:
            drop_checkpoint(session, table)
            return True

        for table in home_last:
            failed = f"the checkpoint table of {'.'.join(table)} could not be dropped"
            hint = "spirit-py revert drops it"
            if not self._try(partial(drop, table=table), f"{failed}; {hint}", tries=_LAST_TRIES):
                # It proves what was undone only as long as the home's is there.
                return

    def keep_up(self, position: Callable[[], str]) -> None:
        """Write the position when it is time; raise SchemaChanged where a definition changed."""
        if time.monotonic() - self._written_at < WRITE_SECONDS:
            return
        try:
            self.write(position=position())
            require_definitions(self._session.session(), self.record.tables)
        except errors.ServerFault as fault:
            self.close()
            # A server is read-only for a moment at times.
            if disposition(fault) is Disposition.FATAL and not takes_no_writes(fault):
                raise
            _LOG.info("the position of reverse replication is not written: %s", fault.message)

    @contextlib.contextmanager
    def kept_up(self, position: Callable[[], str], stop: StopSwitch) -> Iterator[None]:
        """Have a thread write the position meanwhile, and nobody else; its fault goes to ``stop``.

        Reading the binlog since the swap, or comparing a large table, takes hours.
        """

        def failed(error: BaseException) -> None:
            if not isinstance(error, errors.SpiritError):
                raise error
            stop.request(error)

        body = every(_LOOK_SECONDS, partial(self.keep_up, position))
        with Background("position", body, failed=failed, join_seconds=2 * _READ_SECONDS):
            yield

    def _try(self, work: Callable[[Session], T], failed: str, tries: int = 1) -> T | None:
        """Do what may fail because of the server, or of another run; report it, and return None."""
        try:
            if tries == 1:
                return self._session.ask(work)
            done: T = self._again(tries)(self._session.ask, work)
            return done
        except errors.LeftAfterChange:
            raise
        except errors.MigrationFailure as fault:
            self._job.warn(f"{failed}: {fault.message}")
            return None

    def _again(self, tries: int) -> Retrier:
        return retrying(self._job.stop, attempts=tries, passing=takes_no_writes)

    def close(self) -> None:
        """End the session; the next write has another one."""
        self._session.close()
