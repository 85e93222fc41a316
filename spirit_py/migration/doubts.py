"""Rows that the server may have rolled back although it logged them: settled before a swap.

:mod:`spirit_py.binlog.cascades` has the defect and the keys in doubt. The server rolls back so only
at a deadlock, and InnoDB counts them all. A statement holds the metadata locks of all its tables,
also of those it may cascade to, from begin to commit (SHARED_WRITE; measured on 9.7.4, even before
it reads a row). So the count is read before a comparison's snapshot lock is requested, or under the
swap's lock: a statement whose deadlock was counted by then is received and applied under that lock.
If the count is the same at the swap, nothing received since is in doubt; one that cannot be read is
never the same. Otherwise the rows in doubt are read from both tables in one snapshot, some times;
if one still differs, or not all keys are known, the whole table is compared again.

``events_errors_summary_global_by_error`` misses deadlocks that a cascade swallows; InnoDB's own
counter has them (measured on 9.7.4). Lock wait timeouts count too, because they roll back as much
with ``innodb_rollback_on_timeout=ON``. To read the counters takes PROCESS.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, TypeAlias

from spirit_py.checksum.recheck import comparable_by_key, rows_that_differ
from spirit_py.classes import dataclass, field
from spirit_py.cutover.plan import NotProven
from spirit_py.errors import ServerFault
from spirit_py.events.copy import DoubtsCompared
from spirit_py.locks.look import LockedBy
from spirit_py.mysql.faults import connection_lost
from spirit_py.mysql.retry import retrying
from spirit_py.threads import Background, every

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.binlog.cascades import DoubtfulKeys
    from spirit_py.checksum.result import RowDifference
    from spirit_py.contracts import ChangeSource, SqlSession
    from spirit_py.migration.job import Job
    from spirit_py.table.mapping import TableMapping
    from spirit_py.threads import StopSwitch

_NAMES: Final = ("lock_deadlocks", "lock_timeouts")
_COUNTS: Final = (
    "SELECT NAME, COUNT, TIME_ENABLED, TIME_DISABLED FROM information_schema.INNODB_METRICS"
    " WHERE NAME IN (%s, %s) AND STATUS = 'enabled'"
)

Deadlocks: TypeAlias = frozenset[tuple[str, ...]]
"""The counts, with when the server began each: equal to others only if nothing was between."""


def count_deadlocks(session: SqlSession) -> Deadlocks | None:
    """Return the counts; None where the account may not read them, or one is switched off."""
    try:
        rows = session.query(_COUNTS, _NAMES)
    except ServerFault as fault:
        if connection_lost(fault):
            raise
        return None
    return frozenset(tuple(map(str, row)) for row in rows) if len(rows) == len(_NAMES) else None


#: Readings of rows that differ, because changes of theirs are on the way.
_READINGS: Final = 5
_RELIEF_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Base:
    """What doubts are held against: the last transaction to settle anyway, and the count."""

    number: int = 0
    deadlocks: Deadlocks | None = None


@dataclass
class Doubts:
    """The rows in doubt of one pair; ``must_compare`` says why all rows must be compared."""

    job: Job
    mapping: TableMapping
    feed: ChangeSource
    stop: StopSwitch
    keys: DoubtfulKeys
    must_compare: str = ""
    _base: Base = field(default_factory=Base, init=False)
    _quiet_from: Base = field(default_factory=Base, init=False)
    #: The last comparison may have missed keys in doubt since this number.
    _compared_from: int = field(default=0, init=False)

    @property
    def since_comparison(self) -> bool:
        """Whether rows have come in doubt since the last comparison began; any thread may ask."""
        return self.keys.since(self._compared_from)

    @property
    def unsettled(self) -> bool:
        """Whether rows are in doubt, which only a comparison under a lock settles."""
        return bool(self.must_compare or self.keys.since(0))

    def begin_comparison(self, *, whole: bool, optional: bool = False) -> Base:
        """Note that a comparison, perhaps ``optional``, begins; before it requests a lock."""
        base = Base(self.keys.begin_comparison(), self._count())
        self._compared_from = base.number if whole else 0
        if whole and not optional:
            self._quiet_from = base
        return base

    def compared(self, base: Base, *, whole: bool) -> None:
        """Note that the comparison ended clean: a whole one settles what was in doubt before it."""
        if whole:
            self.keys.forget(base.number)
            self._base, self.must_compare = base, ""
            self._quiet_from = base

    def relieve(self) -> None:
        """Forget what was received since the base if there was no deadlock; for any thread."""
        base, number = self._quiet_from, self.keys.number
        if base.deadlocks is None or not self.keys.since(base.number):
            return
        with contextlib.suppress(ServerFault), self.job.session("deadlocks") as session:
            if count_deadlocks(session) == base.deadlocks:
                self.keys.forget(number, after=base.number)

    def settle(self) -> None:
        """Compare the rows in doubt, without a lock; sets ``must_compare`` if doubts stay."""
        if self.must_compare or not self.keys.since(0):
            return
        if not self.keys.up_to(self._base.number) and self._is_base(self._count()):
            return
        number, literals = self.keys.number, self.keys.literals()
        if literals is None:
            self.must_compare = "too many rows may have been changed by failed cascades"
        elif not comparable_by_key(self.mapping):
            self.must_compare = "rows may have been changed by failed cascades"
        elif differing := self._differing(literals):
            self.must_compare = f"{differing} rows differ after a failed cascade"
        else:
            self.keys.forget(number)

    def settled(self, now: Deadlocks | None) -> bool:
        """Return whether no row is in doubt, under the lock; otherwise the next base is now."""
        if not self.keys.up_to(self._base.number) and self._is_base(now):
            return True
        self._base = self._quiet_from = Base(self.keys.number, now)
        return False

    def _is_base(self, now: Deadlocks | None) -> bool:
        return now is not None and now == self._base.deadlocks

    def _count(self) -> Deadlocks | None:
        return self.job.step("deadlocks", count_deadlocks, stop=self.stop)

    def _differing(self, literals: list[str]) -> int:
        left = literals
        for _ in range(_READINGS):
            # Everything that has put these rows in doubt is applied before they are read.
            self.feed.catch_up(self.job.show)
            config = self.job.config
            locked = LockedBy.of(config.connection, self.mapping, config.target)
            found = retrying(self.stop, locked=locked)(self._read, left)
            left = [difference.key for difference in found]
            if not left:
                break
        rows, examples = len(literals), [str(difference) for difference in found[:10]]
        told = DoubtsCompared(table=self.name, rows=rows, differences=len(left), examples=examples)
        self.job.tell(told)
        return len(left)

    def _read(self, keys: list[str]) -> list[RowDifference]:
        config = self.job.config
        return rows_that_differ(
            config.connection, self.mapping, keys, between=self.stop.check, target=config.target
        )

    @property
    def name(self) -> str:
        """The source's name, for messages."""
        return self.mapping.source.full_name


def relieved(tables: Iterable[Doubts]) -> Background:
    """Return what relieves these tables every few seconds, while its context is open."""
    doubtful = list(tables)

    def relieve() -> None:
        for table in doubtful:
            table.relieve()

    return Background("doubts", every(_RELIEF_SECONDS, relieve))


def require_settled(tables: Iterable[Doubts], session: SqlSession) -> None:
    """Raise NotProven while rows are in doubt; under the lock of all tables, one query at most."""
    doubtful = [table for table in tables if table.keys.since(0)]
    if not doubtful:
        return
    now = count_deadlocks(session)
    if held := [table.name for table in doubtful if not table.settled(now)]:
        why = "a deadlock" if now else "a deadlock, which the server does not count,"
        raise NotProven(
            f"rows of {', '.join(held)} must be compared once more: {why} may have undone"
            " changes of foreign keys that are in the binlog",
            hint="run the same command again",
        )
