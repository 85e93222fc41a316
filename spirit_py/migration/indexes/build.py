"""Deferred indexes: dropped where they slow the copy, built by one ``ADD INDEX`` after it.

The server logs writes during a build, up to ``innodb_online_alter_log_max_size`` for each index; a
build that exceeds the log fails with error 1799. So about half of it is applied, and further
changes wait in the buffers; after error 1799 no change is applied during the next try. A build
cannot be paused: ending it would lose all of it. It takes the metadata lock exclusively at its
beginning and end, so it begins when no other session uses the new table, and changes wait while one
does.

The server goes on with a build whose connection is lost, as it is where something on the way ends
connections without traffic. The next try waits for it; no change is applied meanwhile. Why such a
build failed nobody is told: after the second one the run ends.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.classes import dataclass, field, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, ServerFault, SpiritError, Stopped
from spirit_py.events.copy import IndexesBuilt, IndexesDropped, IndexesKept, IndexesRepeated
from spirit_py.locks.blockers import LockPolicy
from spirit_py.locks.look import LockRequest
from spirit_py.locks.named import named_lock_holder, take_from_lost_session
from spirit_py.locks.turns import Front, LockTurns, named
from spirit_py.migration.facts import IndexesTried, IndexesUnderWay
from spirit_py.migration.indexes.plan import build_lock
from spirit_py.migration.swap.swap import Stopwatch
from spirit_py.mysql.connect import connect
from spirit_py.mysql.evaluation import as_stored
from spirit_py.mysql.faults import INTERRUPTED, LOCK_WAIT_TIMEOUT, LOST
from spirit_py.mysql.kill import kill_own
from spirit_py.mysql.retry import RenewedSession, retrying, waiting_for
from spirit_py.mysql.session import CuttableSession
from spirit_py.mysql.tables.deferred_indexes import (
    add_sql,
    alters_table,
    build_stage,
    set_build_buffer,
    set_build_threads,
)
from spirit_py.pace import PART_BYTES, Work, await_turn
from spirit_py.preflight.index_deferral import what_replicates
from spirit_py.threads import Background

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spirit_py.feed.subscription import TableSubscription
    from spirit_py.migration.checkpoints import Checkpoints
    from spirit_py.migration.copied_pair import CopiedPair
    from spirit_py.migration.indexes.plan import DeferredIndexes
    from spirit_py.migration.run import Run
    from spirit_py.mysql.session import Session
    from spirit_py.threads import StopSwitch

_log = logging.getLogger(__name__)

BUFFER_BYTES: Final = 16 << 20
"""``innodb_ddl_buffer_size`` of a build at most: the memory in which it sorts one index.

Measured (500 000 rows, four indexes): 16 MiB and 64 MiB are equally fast, and 1 MiB, the server's
default, takes 1.5 to 2 times as long; the server takes it once for each index: 72 MiB at 16."""
MEMORY_BYTES: Final = 64 << 20
"""The same for all indexes of a build together, unless the server's own setting is larger."""
MOST_THREADS: Final = 4
"""Threads of a build at most, the server's default; fewer where others use the server."""
LOG_SHARE: Final = 0.5
"""Part of the server's log of concurrent changes that changes are applied into."""
LOG_TOO_BIG: Final = 1799
_ATTEMPTS: Final = 8
_LOOK_SECONDS: Final = 0.2
_STAGE_SECONDS: Final = 1.0
_ANSWER_WITHIN: Final = 5
#: Seconds after a KILL in which the server should have answered the build's session.
_CUT_AFTER: Final = 10.0
_ENDED_UNSEEN: Final = "the build went on without its connection, and has ended without them"
#: Such ends after which the server has something against the build, and told it to nobody.
_MOST_UNSEEN: Final = 2
_NO_ROOM: Final = frozenset({3, 1021, 1026, 1030, 1114, 1878})


def build_indexes(run: Run, pairs: Iterable[CopiedPair]) -> None:
    """Build the deferred indexes of every table, one by one. Raises as :meth:`IndexBuild.run`."""
    for pair in pairs:
        if not pair.deferred:
            continue
        await_turn(run.pace, Work.INDEX, pause=run.stop.pause, show=run.show)
        build = IndexBuild(run, pair.deferred, pair.subscription)
        try:
            build.run()
        finally:
            run.note(IndexesTried(build.seconds, build.tries))
        pair.built = True
        names, listed, seconds = pair.deferred.names, str(pair.deferred), round(build.seconds, 3)
        built = IndexesBuilt(
            table=pair.name, indexes=names, seconds=seconds, tries=build.tries, listed=listed
        )
        run.tell(built)


class IndexBuild:
    """Builds the deferred indexes of one table; :meth:`run` once."""

    def __init__(
        self, run: Run, deferred: DeferredIndexes, subscription: TableSubscription
    ) -> None:
        self._run = run
        self._deferred = deferred
        self._subscription = subscription
        self._held = False
        self._session = CuttableSession()
        self._sorts_in = ""
        # Every other session on the new table is waited for, however young.
        policy = replace(LockPolicy.of(run.config), old=0.0)
        request = LockRequest(tables=[deferred.target], defines=True)
        self._waiting = Stopwatch()
        self._front = Front(request, policy.kills, clock=self._waiting)
        self._turns = LockTurns(
            [(run.config.connection, self._front)],
            policy,
            run.stop,
            what=f"the build of {deferred}",
            show=run.show,
            tell=run.tell,
            held_up=run.held_up,
            attend=self._await_turn,
            clock=self._waiting,
        )
        self.tries = 0
        self.seconds = 0.0
        #: How often a build went on whose connection was lost.
        self._lost = 0
        self._ended_unseen = 0

    def run(self) -> None:
        """Build what is not there yet; SchemaChanged by others (R14), or MigrationFailure."""
        began = time.monotonic()
        try:
            with self._waiting:
                # False once at most: then changes are held, and error 1799 is raised.
                while not self._is_done():
                    pass
        except ServerFault as fault:
            raise self._failure(fault) from fault
        finally:
            self.seconds = time.monotonic() - began
            self._run.show("")

    def _is_done(self) -> bool:
        """Try until a build ends; return False where it has to be repeated without changes."""
        run = self._run

        def passing(_: int, fault: BaseException) -> None:
            # What waited for the lock on the table may have been a batch of changes.
            self._held = self._held or getattr(fault, "code", 0) == LOCK_WAIT_TIMEOUT
            run.show(waiting_for(run.config.connection, fault))

        try:
            # A build of hours may meet several restarts, but not one at each try.
            retrying(
                run.stop,
                attempts=_ATTEMPTS,
                on_retry=passing,
                progress=lambda: (min(self.tries, _ATTEMPTS), self._lost),
            )(self._try)
        except ServerFault as fault:
            run.stop.check()
            if fault.code != LOG_TOO_BIG or self._held:
                raise
            self._held = True
            why = "more was written meanwhile than the server's online log can hold"
            names, listed = self._deferred.names, f"{self._deferred} of {self._deferred.table}"
            run.tell(IndexesRepeated(indexes=names, reason=why, listed=listed))
            return False
        return True

    def _try(self) -> None:
        deferred = self._deferred
        connection = self._run.config.connection
        lock = build_lock(connection.label, deferred.target)
        waited = self._await_lost(lock)
        while True:
            self._await_turn()
            if not self._turns.await_free():
                why = f"in front is {self._front.described()}"
                raise self._failure(ServerFault(LOCK_WAIT_TIMEOUT, why, where="index session"))
            if not self._run.pace.reason(Work.INDEX):
                break
        wait = math.ceil(max(1.0, self._turns.left))
        session = connect(connection, role="index", lock_wait_timeout=wait)
        self._session.take(session)
        try:
            take_from_lost_session(session, lock)
            if not deferred.are_built(session):
                if waited:
                    self._ended_unseen += 1
                    unseen = ServerFault(INTERRUPTED, _ENDED_UNSEEN, where="index session")
                    raise self._failure(unseen) if self._is_unseen else unseen
                self._build(session)
                points.reach("index.built")
            deferred.note_altered(session)
        finally:
            self._session.close()

    def _await_turn(self) -> None:
        """Wait until nothing holds the build back; what is in front has time meanwhile."""
        with self._waiting.still():
            await_turn(self._run.pace, Work.INDEX, pause=self._run.stop.pause, show=self._run.show)

    def _await_lost(self, lock: str) -> bool:
        """Wait for a build that goes on without its connection; return whether there was one."""
        with self._run.session("index-watch", read_timeout=_ANSWER_WITHIN) as session:
            lost = named_lock_holder(session, lock)
            if lost is None or not alters_table(session, lost):
                return False
            self._lost += 1
            # How much of its log is used is not known.
            self._held = True
            with (
                self._subscription.applies_bounded(0, self._run.stop),
                Background("index-build", lambda ended: self._watch(ended, lost)),
            ):
                while alters_table(session, lost):
                    threading.Event().wait(_LOOK_SECONDS)
        self._run.stop.check()
        return True

    @property
    def _is_unseen(self) -> bool:
        """Whether builds end whose errors only a lost connection has."""
        return self._ended_unseen >= _MOST_UNSEEN

    def _build(self, session: Session) -> None:
        deferred = self._deferred
        pace = self._run.pace
        spares = pace.part_bytes() < PART_BYTES
        set_build_threads(session, pace.tasks(MOST_THREADS) if spares else MOST_THREADS)
        set_build_buffer(session, min(BUFFER_BYTES, MEMORY_BYTES // len(deferred.names)))
        log_size = int(session.value("SELECT @@GLOBAL.innodb_online_alter_log_max_size"))
        room = 0 if self._held else int(LOG_SHARE * log_size)
        self._sorts_in = str(
            session.value("SELECT COALESCE(NULLIF(@@innodb_tmpdir, ''), @@tmpdir)")
        )
        self.tries += 1
        points.reach("index.begin")
        with (
            self._subscription.applies_bounded(room, self._run.stop),
            Background("index-build", lambda ended: self._watch(ended, session.id)),
            as_stored(session),
        ):
            session.execute(add_sql(deferred.target, deferred.clauses))

    def _watch(self, ended: threading.Event, builder: int) -> None:
        looked = time.monotonic()
        points.reach("index.building")
        opened = partial(self._run.session, "index-watch", read_timeout=_ANSWER_WITHIN)
        with contextlib.closing(RenewedSession(opened)) as asked:
            self._show_stage(asked, builder)
            while not ended.wait(_LOOK_SECONDS):
                now = time.monotonic()
                if self._run.stop.requested:
                    break
                if now - looked >= _STAGE_SECONDS:
                    looked = now
                    self._show_stage(asked, builder)
            else:
                return
        self._end(ended, builder)

    def _show_stage(self, asked: RenewedSession, builder: int) -> None:
        text = f"the server to build {self._deferred} of {self._deferred.table}"
        stage, others = None, []
        try:
            session = asked.session()
            stage = build_stage(session, builder)
            self._front.look(session, builder, waits=False)
            others = [each for each in self._front.now if not each.own]
            self._subscription.hold_applies(held=any(each.certain for each in others))
            self._front.kill(session)
        except ServerFault:
            asked.close()
            _log.debug("cannot look at the build of indexes", exc_info=True)
        how = [str(stage)] if stage else []
        how += ["changes wait"] if self._held or others else []
        shown = f" ({', '.join(how)})" if how else ""
        who = f"; the new table is used by {named(others)}" if others else ""
        self._run.note(IndexesUnderWay(stage.fraction if stage else None))
        self._run.show(f"{text}{shown}{who}")

    def _end(self, ended: threading.Event, builder: int) -> None:
        """Kill the build; break its connection where the server does not answer."""
        try:
            with self._run.session("index-watch", read_timeout=_ANSWER_WITHIN) as session:
                kill_own(session, builder)
        except ServerFault as fault:
            _log.info("the build of indexes could not be ended on the server: %s", fault.message)
        if not ended.wait(_CUT_AFTER):
            self._session.cut()

    def _failure(self, fault: ServerFault) -> MigrationFailure:
        text = f"{self._deferred} of {self._deferred.table} could not be built: {fault.text}"
        sorts_in = self._sorts_in or "innodb_tmpdir or tmpdir"
        if self._is_unseen:
            hint = (
                "the server told the cause to the lost connection alone: see its error log, and the"
                f" free space in {sorts_in} and in the data directory; raise the timeouts of what"
                " is on the way to it (with --defer-indexes off from the start there is no build)"
            )
        elif fault.code in _NO_ROOM:
            hint = (
                "the build sorts in files of about the size of the indexes, in"
                f" {sorts_in}, and the indexes need room beside"
                " the table: free disk space, or set innodb_tmpdir to a folder with more"
            )
        elif fault.code == LOCK_WAIT_TIMEOUT:
            hint = (
                f"end the session that holds a lock on {self._deferred.table} (see performance_"
                "schema.metadata_locks), or the backup that keeps DDL from running"
            )
        elif fault.code in LOST:
            hint = (
                "see the server's error log, and raise the timeouts of what is on the way to it: a"
                " build sends nothing until it has ended"
            )
        else:
            hint = fault.hint or "remove the cause"
        return MigrationFailure(
            f"{text} (error {fault.code})",
            hint=f"{hint}; then run the same command again: it resumes with this build",
            error_code=ErrorCode.INDEX_BUILD_FAILED,
        )


WINDOW: Final = 5.0
"""Seconds over which the rate of inserted rows is measured."""
FALL: Final = 3.0
"""How many times slower than in its best window, with no more at work, it drops the indexes."""
_WINDOWS: Final = 2
_RATE_SECONDS: Final = 0.5
_LOCK_WAIT: Final = 3
_DROP_ATTEMPTS: Final = 4


@dataclass
class FallingRate:
    """Whether rows are inserted much more slowly than by no more work before (no I/O)."""

    slow: int = 0
    #: The best rate of windows, by the most that was at work in each.
    _best: dict[tuple[float, ...], float] = field(default_factory=dict, init=False)
    _since: float | None = field(default=None, init=False)
    _rows: int = field(default=0, init=False)
    _seen: list[tuple[float, ...]] = field(default_factory=list, init=False)

    def observe(self, now: float, rows: int, work: tuple[float, ...], *, waits: bool) -> bool:
        """Note the rows copied; return whether the rate fell for good. Waits do not count.

        ``work``: numbers that are larger where more is at work; fewer tasks are no fall.
        """
        if self._since is None or waits:
            self._since, self._rows, self._seen = now, rows, [work]
            return False
        self._seen.append(work)
        if now - self._since < WINDOW:
            return False
        rate = (rows - self._rows) / (now - self._since)
        least, most = (tuple(map(one, zip(*self._seen, strict=True))) for one in (min, max))
        self._since, self._rows, self._seen = now, rows, [work]
        best = max((had for at, had in self._best.items() if _within(at, least)), default=0.0)
        self._best[most] = max(rate, self._best.get(most, 0.0))
        self.slow = self.slow + 1 if rate * FALL <= best else 0
        return self.slow >= _WINDOWS


def _within(work: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(one <= limit for one, limit in zip(work, other, strict=True))


@contextlib.contextmanager
def dropping_when_slow(
    run: Run, pair: CopiedPair, checkpoints: Checkpoints | None
) -> Iterator[None]:
    """Drop indexes if the copy inside becomes slow; at once where only this run defers them."""
    if pair.plan.at_once and not pair.plan.left_out:
        leave_out(run, pair, checkpoints)
    if not pair.plan.may_fall or pair.deferred:
        yield
        return

    def watch(ended: threading.Event) -> None:
        rate = FallingRate()
        while not ended.wait(_RATE_SECONDS):
            rows, work, waits = pair.speed()
            if rate.observe(time.monotonic(), rows, work, waits=waits):
                names, listed = pair.plan.deferred.names, str(pair.plan.deferred)
                try:
                    # Hours may have passed since the plan.
                    others = run.step("index", what_replicates, stop=copying)
                except SpiritError as error:
                    if not copying.requested:
                        run.warn(f"the indexes {listed} of {pair.name} stay: {error.message}")
                    return
                if others:
                    reason = f"{others} would apply the build as one statement"
                    kept = IndexesKept(table=pair.name, indexes=names, reason=reason, listed=listed)
                    run.tell(kept)
                    return
                why = f"inserted {FALL:.0f} times more slowly than before"
                dropped = IndexesDropped(
                    table=pair.name, indexes=names, reason=f"rows are {why}", why=why, listed=listed
                )
                run.tell(dropped)
                leave_out(run, pair, checkpoints, stop=copying)
                return

    copying = run.stop.linked()
    dropping = Background("falling-rate", watch)
    with dropping:
        yield
        # A DROP behind the build would undo it, and the swap would find no whole table.
        copying.request(Stopped("the copy has ended"))
        dropping.stop()
        while not dropping.wait(_RATE_SECONDS):
            run.stop.check()


def leave_out(
    run: Run, pair: CopiedPair, checkpoints: Checkpoints | None, *, stop: StopSwitch | None = None
) -> None:
    """Drop the indexes of a table with rows, if possible; the record has both definitions first.

    After a request to ``stop`` no further try is made.
    """
    deferred = pair.plan.deferred

    def drop() -> None:
        with connect(run.config.connection, role="index", lock_wait_timeout=_LOCK_WAIT) as session:
            # As the build does, which ends a lost session that still waits to drop them.
            lock = build_lock(run.config.connection.label, deferred.target)
            take_from_lost_session(session, lock)
            deferred.drop(session)

    pair.deferred = deferred
    if checkpoints is not None and not checkpoints.note():
        pair.deferred = pair.plan.none
        run.warn(f"the indexes {deferred} stay: the checkpoint cannot be written now")
        return
    try:
        retrying(stop or run.stop, attempts=_DROP_ATTEMPTS)(drop)
    except SpiritError as error:
        run.stop.check()
        run.warn(f"the indexes {deferred} of {deferred.table} stay: {error.message}")
