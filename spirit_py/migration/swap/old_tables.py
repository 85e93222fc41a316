"""The tables that a swap put out of place: kept for a while, or for good, and dropped.

The grace of ``--drop-old-after`` counts from the swap, by the server's clock, in the checkpoint
table, which proves the old table and goes after it.
"""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from spirit_py.archiving.folder import ArchiveFailure
from spirit_py.checkpoint.drop import drop_old_table
from spirit_py.checkpoint.examination import old_table_of
from spirit_py.checkpoint.proofs import noted_proof, proofs_here, proven
from spirit_py.checkpoint.record import LATEST, OldTableRecord
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.checkpoint.writer import end_reverse, note_of_old
from spirit_py.errors import (
    AnotherServer,
    Interrupted,
    LeftAfterChange,
    ServerFault,
    SpiritError,
)
from spirit_py.events.swap import OldTableDropped, OldTableKept, OldTableWaits
from spirit_py.migration.auxiliary import drop_checkpoints, drop_sentinels_and_trials
from spirit_py.migration.facts import OldTablesLeft
from spirit_py.migration.swap.same_tables import FORWARD, MOVED
from spirit_py.migration.throttling import throttled
from spirit_py.mysql.facts import READ_ONLY, read_facts, read_only_by, server_now
from spirit_py.mysql.faults import takes_no_writes
from spirit_py.mysql.replication import replica_status
from spirit_py.mysql.tables.identity import identities, is_one_of
from spirit_py.pace import Work
from spirit_py.phases import Phase
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.migration.job import Job
    from spirit_py.migration.run import Run
    from spirit_py.migration.swap.same_tables import Direction
    from spirit_py.mysql.session import Session
    from spirit_py.pace import Pace
    from spirit_py.table.names import Name
    from spirit_py.threads import StopSwitch
    from spirit_py.throttle.latency import Measures

    LastLook = Callable[[Session], object]

#: Between two questions whether a drop may begin.
_PACE_SECONDS: Final = 0.2
#: Between two partitions of a large table.
_REST_SECONDS: Final = 1.0


def drop_swapped_out(
    job: Job,
    tables: Iterable[Name],
    direction: Direction,
    last_look: LastLook | None = None,
    *,
    turn: DropTurn | None = None,
    writable: Callable[[SqlSession], None] | None = None,
) -> list[str]:
    """Drop what was swapped out, once nothing holds that back; return what is left; or a stop.

    ``last_look`` is called when a table is locked; its ArchiveFailure is raised. ``writable`` is
    asked last before each table, and raises: what held the drop back may have lasted for hours.
    """
    left, turn = [], turn or DropTurn()
    for source in tables:
        name = direction.swapped_out(source[1])
        await_turn = partial(_await_turn, job, turn, name, writable)
        await_turn()
        noted = partial(noted_proof, table=source, proof=direction.outgoing)
        try:
            proof = job.step("cleanup", noted)
            why = drop_old_table(
                job.config.connection,
                source[0],
                name,
                proof=proof,
                stop=job.stop,
                backups=job.config.cutover_timeout,
                before_each=partial(_between_partitions, job, await_turn),
                last_look=last_look,
            )
        except ArchiveFailure:
            raise
        except SpiritError as error:
            why = error.message
        if why:
            left.append(name)
            job.remark(f"table {name}", why)
        else:
            job.tell(OldTableDropped(dropped=f"{source[0]}.{name}"))
    return left


class DropTurn:
    """The turn to drop an old table: of a batch one migration has it at a time.

    It is given up while something holds back the drop, and when it is closed.
    """

    def __init__(self, measures: Measures | None = None) -> None:
        self._lock = None if measures is None else measures.dropping
        self._held = False

    def wait(self, job: Job, what: str, until: Callable[[], bool] = lambda: False) -> None:
        """Wait until the drop may begin, or ``until`` is true; raise the reason of a stop."""
        while not until() and (reason := self._reason(job.pace)):
            job.show(f"{reason} ({what})")
            job.stop.wait(_PACE_SECONDS)
            job.stop.check()
        job.show("")

    def close(self) -> None:
        """Let others of the batch drop theirs."""
        if self._held and self._lock is not None:
            self._lock.release()
        self._held = False

    def _reason(self, pace: Pace) -> str:
        """Return what the drop has to wait for; empty with the turn."""
        if reason := pace.reason(Work.DROP):
            self.close()
            return reason
        self._held = self._held or self._lock is None or self._lock.acquire(blocking=False)
        return "" if self._held else "the drop of another table of the batch"


def _await_turn(
    job: Job, turn: DropTurn, name: str, writable: Callable[[SqlSession], None] | None
) -> None:
    turn.wait(job, f"drop of {name}")
    if writable is not None:
        job.step("cleanup", writable)


def _between_partitions(job: Job, await_turn: Callable[[], None]) -> None:
    """Leave the disk to others for a moment, and longer while something holds back the drop."""
    job.stop.wait(_REST_SECONDS)
    await_turn()


T = TypeVar("T")

#: Between two looks at the server's clock and at the old tables.
_LOOK_SECONDS: Final = 20.0
#: Between two updates of the display.
_SHOW_SECONDS: Final = 1.0
_AS_CLEANUP: Final = "the same command drops the old table, as cleanup does"


def note_swap(run: Run, tables: Sequence[Name]) -> None:
    """Store the moment of the swap, and until when the old tables are kept.

    An earlier run's moment counts. Nothing is stored where they are dropped at once, without an
    archive before. On SpiritError the change is done.
    """

    def note(session: SqlSession) -> None:
        now = server_now(session)
        for table in tables:
            noted = old_table_of(session, table)
            if not CheckpointTable(*table).is_ours(session):
                # An earlier run has dropped it after the old table.
                continue
            record = noted or OldTableRecord(swapped_at=now)
            grace = run.config.drop_old_after
            until = 0.0 if math.isinf(grace) else min(record.swapped_at + grace, LATEST)
            CheckpointTable(*table).write(session, replace(record, until=until))

    # To another server the note shows that the table was moved, once it is dropped. While rows are
    # archived, a run may end, and the next one may be given a grace.
    if run.config.drop_old_after or run.config.targets or run.config.archive_to:
        _step(run, note)


def _step(run: Run, work: Callable[[Session], T]) -> T:
    with after_change(run.stop):
        return run.step("cleanup", work, passing=takes_no_writes)


@contextlib.contextmanager
def after_change(
    stop: StopSwitch, then: str = "the same command drops the old table when it is due"
) -> Iterator[None]:
    """Have what ends the run, a stop as well, say that the change is done, and what is left."""
    try:
        yield
    except (ArchiveFailure, LeftAfterChange):
        raise
    except SpiritError as error:
        cause = error if isinstance(error, AnotherServer) else stop.cause_of(error)
        if isinstance(cause, AnotherServer):
            # A replica that was promoted may lack the swap.
            cause.hint = (
                "the change was made on the first server: run the same command again on the present"
                " primary, which shows whether that one has it"
            )
            cause.says_done = True
        elif isinstance(cause, Interrupted):
            cause = cause.saying(f"the change is done; {then}")
        else:
            raise LeftAfterChange(
                f"the change is done, and its old table is left: {cause}",
                hint=then,
            ) from error
        if cause is error:
            raise
        raise cause from error


class SwapsBackToo(Protocol):
    """Swaps back for a revert that asks within the grace."""

    @property
    def asked(self) -> bool:
        """Whether a revert waits."""

    def taken(self) -> bool:
        """Answer a revert that waits; True once it is made."""

    def closed(self) -> bool:
        """Take no more requests; False as long as one waits."""


def settle_old_tables(
    run: Run,
    tables: Sequence[Name],
    way_back: Callable[[], SwapsBackToo | None],
    direction: Direction = FORWARD,
    *,
    fronts: Callable[[], Sequence[Run]] | None = None,
    before_drop: Callable[[], LastLook | None] = lambda: None,
) -> None:
    """Drop old tables and their checkpoints after the grace; on errors the change is done.

    ``direction`` is that of the swap. ``fronts`` returns the run as it faces each server that has
    old tables, where there are several; the first one's swap counts, and its checkpoint goes last.
    ``before_drop`` raises where they have to stay, and may return a last look at each.
    """
    for_good = math.isinf(run.config.drop_old_after)

    def last_first() -> Sequence[Run]:
        return [run] if fronts is None else [*fronts()][::-1]

    if run.config.drop_old_after:
        _step(run, partial(end_reverse, tables=tables))
    with contextlib.closing(DropTurn(run.measures)) as turn:
        waits = run.config.drop_old_after and not for_good
        if waits and _wait(run, tables, way_back, direction, last_first, turn=turn):
            return
        if not for_good:
            left_alone = partial(_left_for_good, tables=tables, waited=bool(waits))
            for_good = any(_step(one, left_alone) for one in last_first())
        require = partial(_require_writable, tables=tables, fenced=bool(run.config.targets))
        for one in last_first() if not for_good else ():
            # A primary may have become a replica in the grace: the drop would be made there alone.
            _step(one, require)
        reads = bool(run.config.archive_to) and not for_good
        if reads:
            # An archive may read the rows again, for hours; others of the batch may drop theirs.
            turn.close()
        last_look = None if for_good else before_drop()
        run.go_on_to(Phase.CLEANUP)
        if reads:
            with after_change(run.stop, _AS_CLEANUP), throttled(run, Work.DROP):
                turn.wait(run, f"drop of {', '.join(_names(tables, direction))}")
        if not for_good and (run.config.drop_old_after or run.state.swapped_before):
            # What is half emptied leads nowhere.
            _step(run, partial(end_reverse, tables=tables, noted=True))
        left = _names(tables, direction)
        if not for_good:
            dropped = partial(drop_swapped_out, last_look=last_look, turn=turn, writable=require)
            left = list(dict.fromkeys(_drop(run, tables, direction, last_first, dropped)))
    run.note(OldTablesLeft(left))
    leave = partial(leave_to_operator, tables=tables)
    kept = [bool(left) and _step(one, leave) for one in last_first()]
    if any(kept):
        run.tell(OldTableKept(tables=left))
    gone = True
    for one, stays in zip(last_first(), kept, strict=True):
        if stays:
            with after_change(run.stop, "spirit-py cleanup drops what is left"):
                drop_sentinels_and_trials(one, tables)
        elif gone:
            gone = drop_checkpoints(one, tables)


def _require_writable(session: SqlSession, tables: Sequence[Name], *, fenced: bool) -> None:
    """Raise what a server with old tables that takes no writes says, also where the account may.

    ``fenced``: one that is no replica may be read_only, as a move's source, which nobody uses.
    """
    facts = read_facts(session, READ_ONLY)
    name = read_only_by(facts)
    if fenced and name == "read_only" and not replica_status(session):
        name = read_only_by(facts, allowed=name)
    if name and with_old_table(session, tables):
        raise ServerFault(1290, f"the server takes no writes ({name}=ON)", where="drop")


def _drop(
    run: Run,
    tables: Sequence[Name],
    direction: Direction,
    runs: Callable[[], Sequence[Run]],
    dropped: Callable[[Run, Sequence[Name], Direction], list[str]],
) -> list[str]:
    with after_change(run.stop, _AS_CLEANUP), throttled(run, Work.DROP):
        left = []
        for one in runs():
            if kept := dropped(one, tables, direction):
                run.stop.check()
            left += kept
        return left


def _names(tables: Sequence[Name], direction: Direction) -> list[str]:
    return [direction.swapped_out(table) for _, table in tables]


def _wait(
    run: Run,
    tables: Sequence[Name],
    way_back: Callable[[], SwapsBackToo | None],
    direction: Direction,
    fronts: Callable[[], Sequence[Run]],
    *,
    turn: DropTurn,
) -> bool:
    """Wait until the grace is over, or the old tables are gone; True after a revert.

    Of several servers' old tables the last one's grace counts. Where there is a way back, False is
    with the ``turn`` to drop them.
    """
    with after_change(run.stop):
        back = way_back()
    # From now on a revert is answered, or refused.
    run.go_on_to(Phase.GRACE)
    names, kept, grace = ", ".join(_names(tables, direction)), "", run.config.drop_old_after
    due = 0.0
    while back is None or not back.taken():
        look = partial(_seconds_left, tables=tables, grace=grace, direction=direction)
        left, until = max(_step(one, look) for one in fronts())
        if until and kept:
            # The server's clock may be set forward meanwhile; ours counts the seconds as well.
            left = max(left, due - time.monotonic())
        if left <= 0:
            if until and back is not None:
                # As long as the old table stays, it can be swapped back.
                with after_change(run.stop, _AS_CLEANUP), throttled(run, Work.DROP):
                    turn.wait(run, f"drop of {names}", lambda: back.asked)
            if back is None or back.closed():
                return False
            turn.close()
        if not kept and left > 0:
            due = time.monotonic() + left
            kept = f"is {OldTableRecord(swapped_at=0.0, until=until)}"
            run.tell(OldTableWaits(said=f"{names} {kept}", seconds=round(left, 1)))
        looked = time.monotonic()
        while (spent := time.monotonic() - looked) < min(left, _LOOK_SECONDS):
            run.show(f"the drop of {names}, which {kept}, {human_seconds(left - spent)} more")
            if run.stop.wait(min(_SHOW_SECONDS, left - spent)):
                then = f"{names} {kept}: the same command drops it then"
                then += ", spirit-py cleanup at any time"
                with after_change(run.stop, then):
                    run.stop.check()
            if back is not None and back.taken():
                return True
    return True


def _seconds_left(
    session: SqlSession, tables: Sequence[Name], grace: float, direction: Direction
) -> tuple[float, float]:
    """Return the seconds until the old tables may be dropped, 0 without any, and that time.

    LeftAfterChange where one is not proven any more; once the others are due, they go first.
    """
    ours, now = with_old_table(session, tables), server_now(session)
    _require_swapped(session, [one for one in tables if one not in ours], direction)
    replaced = names_unproven(session, tables, ours, direction)
    left, until = _time_left(session, ours, now, grace) if ours else (0.0, 0.0)
    if replaced and (left > 0 or not ours):
        raise LeftAfterChange(
            f"the change is done, but nothing proves any more that {', '.join(replaced)} has the"
            " rows from before the swap: it was rebuilt (OPTIMIZE TABLE, ALTER TABLE), or is"
            " another table, and the way back is lost",
            hint="see who did it; spirit-py cleanup --drop-old, or the same command with"
            " --drop-old-after 0s, drops what is proven; when the rest is not needed: DROP TABLE",
        )
    return left, until


def _require_swapped(session: SqlSession, tables: Sequence[Name], direction: Direction) -> None:
    """LeftAfterChange where what the swap has put out of a table's place is in it again."""
    for table in tables:
        if is_one_of(session, *table, noted_proof(session, table, direction.outgoing)):
            name = ".".join(table)
            raise LeftAfterChange(
                f"the swap of {name} was undone, and not by spirit-py: the table from before it is"
                " in its place again",
                hint="see who did it (RENAME TABLE, or a restore from before the swap), and under"
                " which name the other table is; spirit-py cleanup drops what is left",
            )


def _time_left(
    session: SqlSession, ours: Sequence[Name], now: float, grace: float
) -> tuple[float, float]:
    ends = min(now + grace, LATEST)
    for table in ours:
        if old_table_of(session, table) is None:
            note_of_old(session, table, until=ends)
    noted = (old_table_of(session, table) for table in ours)
    until = max(ends if one is None else one.until for one in noted)
    return until - now, until


def _left_for_good(session: SqlSession, tables: Sequence[Name], *, waited: bool) -> bool:
    """Look whether another run, while this one was away, has left the old tables to the operator.

    One that has ``waited`` has noted a time of its own, which the other one took away.
    """
    noted = [old_table_of(session, table) for table in with_old_table(session, tables)]
    left = [one is not None and (one.finished or (waited and not one.until)) for one in noted]
    return any(left)


def leave_to_operator(session: SqlSession, tables: Sequence[Name]) -> bool:
    """Note that the operator drops the old tables; False where none of them is there."""
    ours = with_old_table(session, tables)
    for table in ours:
        note_of_old(session, table, until=0.0, finished=True)
    end_reverse(session, ours)
    return bool(ours)


def names_unproven(
    session: SqlSession, tables: Sequence[Name], ours: Sequence[Name], direction: Direction
) -> list[str]:
    """Return the names of old tables that are there, of tables that are not in ``ours``.

    What another direction would leave may be a stranger's, of which preflight does not complain.
    """
    names = [
        (schema, direction.swapped_out(table))
        for schema, table in tables
        if (schema, table) not in ours
    ]
    found = identities(session, names) if names else {}
    return [".".join(name) for name, there in found.items() if there]


def with_old_table(session: SqlSession, tables: Sequence[Name]) -> list[Name]:
    """Return those of the tables whose old one is there, and proven."""
    found = []
    for schema, table in tables:
        proofs = proofs_here(session, schema, table, None)
        old = {one.swapped_out(table) for one in (FORWARD, MOVED)}
        if old & proven(session, schema, table, proofs):
            found.append((schema, table))
    return found
