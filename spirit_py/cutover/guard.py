"""The snapshot guard: no transaction reads half a copy after the swap; see docs/operations.md.

A column that is added and dropped with ALGORITHM=INSTANT before the RENAME makes older snapshots
fail with error 1412 (measured: 5 ms, two row versions). It is done even if no such transaction is
seen: the list may be out of date, and does not show readers of replicas.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.cutover.plan import TryFailed
from spirit_py.errors import CutoverFailure, ServerFault, SpiritError
from spirit_py.events.swap import SnapshotsGuarded
from spirit_py.mysql.connect import connect
from spirit_py.mysql.evaluation import as_stored
from spirit_py.mysql.faults import Disposition, disposition
from spirit_py.mysql.processlist import open_transactions
from spirit_py.mysql.tables import guard_column
from spirit_py.mysql.tables.definition import show_create
from spirit_py.sql import quote_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.config import ConnectionOptions, GuardMode
    from spirit_py.contracts import SqlSession
    from spirit_py.events.event import Tell
    from spirit_py.table.names import Swap

#: Younger transactions are not named: an application makes them again.
OLD_SECONDS: Final = 3
_SHOWN: Final = 10

# The time is that of the server's own zone, whatever the session's is (measured, 9.7). Where a
# clock change makes the age negative, the transaction counts as old.
_SNAPSHOTS: Final = """
SELECT trx_mysql_thread_id, age FROM (
  SELECT trx_mysql_thread_id, TIMESTAMPDIFF(SECOND, trx_started,
    CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')) AS age
  FROM information_schema.INNODB_TRX
  WHERE trx_isolation_level IN ('REPEATABLE READ', 'SERIALIZABLE')
  AND trx_mysql_thread_id NOT IN (0, CONNECTION_ID())) AS open_transactions
WHERE age >= %s OR age < 0 OR age IS NULL ORDER BY age DESC"""


@dataclass(eq=False)
class SnapshotGuard:
    """The guard of one swap, over all its tries; ``mode`` is ``on``, ``off``, or ``auto``.

    ``snapshots``: old transactions that may hold a snapshot from before the swap; ``tell`` reports
    them. ``outcome`` of the last try: ``done``, ``off``, or why not; empty before.
    """

    mode: GuardMode
    swaps: Sequence[Swap]
    tell: Tell
    snapshots: tuple[str, ...] = ()
    outcome: str = ""
    _columns: tuple[str, ...] = ()
    _why_not: str = ""
    _broken: str = ""

    def prepare(self, session: SqlSession, connection: ConnectionOptions) -> None:
        """Choose the columns' names, and drop those of an interrupted try; without a lock.

        Raises a CutoverFailure if a guard that must be ``on`` is impossible, or a MigrationFailure.
        """
        columns = []
        for swap in self.swaps:
            left, free = guard_column.guard_columns(session, swap.schema, swap.new)
            columns.append(free)
            if left:
                with connect(connection, role="guard", lock_wait_timeout=5) as dropping:
                    guard_column.drop_guard_columns(dropping, swap.schema, swap.new)
        self._columns = tuple(columns)
        if self.mode != "off":
            self._why_not = self._broken or why_not_now(session, self.swaps)
        if self._why_not and self.mode == "on":
            self._refused()

    def apply(self, session: SqlSession) -> None:
        """Make the new tables unreadable for older snapshots; in the locking session.

        Raises a CutoverFailure as :meth:`prepare`, or TryFailed: the next try has no guard.
        """
        if self.mode == "off":
            self.outcome = "off"
            return
        if not self._why_not:
            with as_stored(session):
                for swap, name in zip(self.swaps, self._columns, strict=True):
                    self._change(session, swap, name)
        if self._why_not:
            self._refused()
            return
        self.outcome = "done"

    def _change(self, session: SqlSession, swap: Swap, name: str) -> None:
        try:
            guard_column.add_column(session, swap.schema, swap.new, name)
        except ServerFault as fault:
            if disposition(fault) is not Disposition.FATAL:
                raise
            self._why_not = f"{quote_table(swap.schema, swap.new)}: {fault.text}"
            return
        try:
            guard_column.drop_column(session, swap.schema, swap.new, name)
        except ServerFault as fault:
            if disposition(fault) is not Disposition.FATAL:
                raise
            # Nothing is swapped in with the column: the next try drops it first, and sets no guard.
            self._broken = f"{quote_table(swap.schema, swap.new)}: {fault.text}"
            raise TryFailed(f"the snapshot guard's column is left in {self._broken}") from fault

    def _refused(self) -> None:
        if self.mode == "on":
            raise _refusal(self._why_not)
        self.outcome = f"not possible: {self._why_not}"

    def report(self, connection: ConnectionOptions) -> None:
        """Look, after the swap, which old transactions the guard affects, and report them."""
        with contextlib.suppress(SpiritError), connect(connection, role="guard") as session:
            self.snapshots = _old_transactions(session)
        if self.snapshots or self.outcome.startswith("not possible"):
            self.tell(
                SnapshotsGuarded(
                    guarded=self.outcome == "done",
                    transactions=list(self.snapshots),
                    outcome=self.outcome,
                )
            )


def _old_transactions(session: SqlSession) -> tuple[str, ...]:
    rows = open_transactions(session, _SNAPSHOTS, (OLD_SECONDS,), tries=1) or []
    named = [f"session {number}, transaction open for {age} s" for number, age in rows]
    more = len(named) - _SHOWN
    return (*named[:_SHOWN], *([f"and {more} more"] if more > 0 else []))


def why_not_now(session: SqlSession, swaps: Sequence[Swap]) -> str:
    """Return why there is no guard for these swaps; empty when there is."""
    if why := guard_column.why_server_cannot(str(session.query("SELECT @@version")[0][0])):
        return why
    for swap in swaps:
        if why := guard_column.why_no_version_left(session, swap.schema, swap.new):
            return why
        definition = show_create(session, swap.schema, swap.new)
        if why := guard_column.why_check_would_go(definition):
            return f"{quote_table(swap.schema, swap.new)}: {why}"
    return ""


def require_guard(session: SqlSession, swaps: Sequence[Swap], mode: GuardMode) -> None:
    """Check before any work whether a guard that must be ``on`` can be set; else CutoverFailure."""
    if mode == "on" and (why := why_not_now(session, swaps)):
        raise _refusal(why)


def _refusal(why: str) -> CutoverFailure:
    return CutoverFailure(
        f"the snapshot guard cannot be set: {why}",
        hint="run the same command with --snapshot-guard auto: see docs/operations.md",
        error_code=ErrorCode.SNAPSHOT_GUARD,
    )
