"""The applier: row images and deletes into new tables, over fenced sessions."""

from __future__ import annotations

import contextlib
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from spirit_py.applier import ordered, stage, state
from spirit_py.applier.batch import Bounds
from spirit_py.applier.workers import Workers, judge_fault, judge_warnings
from spirit_py.classes import KW_ONLY, InitVar, dataclass
from spirit_py.errors import ServerFault, ValueLost
from spirit_py.locks.look import LockedBy
from spirit_py.mysql.evaluation import as_stored
from spirit_py.mysql.faults import connection_lost
from spirit_py.mysql.retry import retrying
from spirit_py.sql import identifier_list, quote_identifier
from spirit_py.table.values import KeyedChange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.values import RenderedRow
    from spirit_py.threads import StopSwitch

T = TypeVar("T")
_ATTEMPTS = 12


@dataclass(eq=False)
class SqlApplier:
    """Implements :class:`spirit_py.contracts.Applier`, at most ``sessions`` calls at the same time.

    ``judge_first``: commit nothing whose warnings say that a value was changed.
    """

    options: InitVar[ConnectionOptions]
    _: KW_ONLY
    sessions: InitVar[int]
    batch_rows: int
    stop: StopSwitch
    judge_first: bool = False

    def __post_init__(self, options: ConnectionOptions, sessions: int) -> None:
        self._workers = Workers(options, max(1, sessions))
        self._lock = threading.Lock()
        #: It may be set lower while others live on with what they began with.
        self._packets: weakref.WeakKeyDictionary[SqlSession, int] = weakref.WeakKeyDictionary()

    def upsert_rows(
        self,
        mapping: TableMapping,
        rows: Sequence[RenderedRow],
        session: SqlSession | None = None,
        keys: Sequence[str] = (),
    ) -> int:
        """Write row images with multi-row REPLACE; ValueLost (R10), ServerFault after retries."""
        if mapping.deletes_first and len(keys) != len(rows):
            raise ValueError(f"{len(keys)} keys of {len(rows)} rows")
        if mapping.keep is not None:
            changes = list(map(KeyedChange, keys, rows))
            self.write_state(mapping, lambda: [changes], session, complete=False)
            return len(rows)
        # If one row must be staged all are: several may be of one key, in order.
        if _through_stage(mapping, rows):
            for at in range(0, len(rows), self.batch_rows):
                part, own = rows[at : at + self.batch_rows], keys[at : at + self.batch_rows]
                staged = partial(self._replace_staged, mapping=mapping, rows=part, keys=own)
                self._run(mapping, session, staged)
        elif rows:
            texts = [row.sql for row in rows]
            plain = partial(self._replace, mapping=mapping, rows=texts, keys=keys)
            self._run(mapping, session, plain)
        return len(rows)

    def write_in_order(
        self, mapping: TableMapping, changes: Sequence[KeyedChange], session: SqlSession | None
    ) -> None:
        """Apply changes in their order, in one transaction; see the contract."""
        if mapping.deletes_first:
            self.write_state(mapping, lambda: [changes], session, complete=False)
            return
        staged = _through_stage(mapping, (change.row for change in changes if change.row))

        def work(session: SqlSession) -> None:
            ordered.write(session, mapping, changes, self._bounds(session), staged=staged)

        self._run(mapping, session, work)

    def write_state(
        self,
        mapping: TableMapping,
        parts: Callable[[], Iterable[Sequence[KeyedChange]]],
        session: SqlSession | None = None,
        *,
        complete: bool,
    ) -> bool:
        """Apply a state of the source at once; see :mod:`spirit_py.applier.state`."""
        lost = False

        def work(session: SqlSession) -> bool:
            nonlocal lost
            try:
                bounds = self._bounds(session)
                return state.write(session, mapping, parts(), bounds, complete=complete, again=lost)
            except ServerFault as fault:
                lost = lost or connection_lost(fault)
                raise

        return self._run(mapping, session, work)

    def delete_keys(
        self, mapping: TableMapping, keys: Sequence[str], session: SqlSession | None = None
    ) -> int:
        """Delete by key of the source; return the keys treated."""
        if keys:
            self._run(mapping, session, partial(self._delete, mapping=mapping, keys=keys))
        return len(keys)

    def recopy(self, mapping: TableMapping, keys: Sequence[str]) -> int:
        """Make the new table's rows of these keys equal to the source's; see the contract."""
        for at in range(0, len(keys), self.batch_rows):
            part = keys[at : at + self.batch_rows]
            self._run(mapping, None, lambda s, p=part: self._recopy(s, mapping, p))  # type: ignore[misc]
        return len(keys)

    def superseded(self, mapping: TableMapping, key: str, row: RenderedRow) -> bool:
        """Return whether the source's row is another one by now; see the contract."""

        def ask(session: SqlSession) -> bool:
            stage.fill_stage(session, mapping, [row], self._bounds(session))
            same = stage.in_source(session, mapping, key, as_staged=True)
            stage.drop_stage(session, mapping)
            return not same

        try:
            return self._run(mapping, None, ask)
        except ValueLost:
            return False

    def interrupt(self) -> None:
        """End the statements that run now; their calls raise, and so do later ones."""
        self._workers.interrupt()

    def close(self) -> None:
        """End what still runs, and close the sessions."""
        self._workers.close()

    def _run(
        self, mapping: TableMapping, session: SqlSession | None, work: Callable[[SqlSession], T]
    ) -> T:
        try:
            workers = self._reaching(mapping)
            if session is not None:
                workers.require_alone(session)
                return work(session)
            # The source's for a repair, which reads it.
            locked = LockedBy.of(workers.options, mapping)
            return workers.run(work, retrying(self.stop, attempts=_ATTEMPTS, locked=locked))
        except ServerFault as fault:
            raise judge_fault(fault, mapping) from fault

    def _reaching(self, _mapping: TableMapping) -> Workers:
        return self._workers

    def _bounds(self, session: SqlSession) -> Bounds:
        with self._lock:
            packet = self._packets.get(session)
        if packet is None:
            packet = int(session.query("SELECT @@SESSION.max_allowed_packet")[0][0])
            with self._lock:
                self._packets[session] = packet
        return Bounds(self.batch_rows, packet)

    def _replace(
        self, session: SqlSession, mapping: TableMapping, rows: Sequence[str], keys: Sequence[str]
    ) -> None:
        bounds = self._bounds(session)
        if not mapping.lookup.lingers:
            stage.replace(session, mapping, rows, bounds, partial(self._judged, session, mapping))
            return
        with stage.whole(session):
            stage.delete(session, mapping, keys, bounds)
            stage.replace(session, mapping, rows, bounds, contextlib.nullcontext)

    def _delete(self, session: SqlSession, mapping: TableMapping, keys: Sequence[str]) -> None:
        delete = stage.delete if mapping.key_order_kept else ordered.delete
        delete(session, mapping, keys, self._bounds(session))

    def _replace_staged(
        self,
        session: SqlSession,
        mapping: TableMapping,
        rows: Sequence[RenderedRow],
        keys: Sequence[str],
    ) -> None:
        bounds = self._bounds(session)
        stage.fill_stage(session, mapping, rows, bounds)
        with self._judged(session, mapping):
            if mapping.lookup.lingers:
                stage.delete(session, mapping, keys, bounds)
            stage.write_stage(session, mapping)
        stage.drop_stage(session, mapping)

    def _judged(self, session: SqlSession, mapping: TableMapping) -> AbstractContextManager[None]:
        """Commit at the end of the context where it deletes first, or judges warnings first."""
        first = self.judge_first or mapping.cuts_blanks or mapping.lookup.lingers
        return stage.whole(session) if first else contextlib.nullcontext()

    def _recopy(self, session: SqlSession, mapping: TableMapping, keys: Sequence[str]) -> None:
        names = identifier_list(mapping.key.columns)
        index = quote_identifier(mapping.key.name)
        with as_stored(session):
            staged = stage.make_row_stage(session, mapping)
        session.execute(
            f"INSERT INTO {staged} ({stage.old_names(mapping)}) SELECT {stage.values_of(mapping)}"
            f" FROM {mapping.source.quoted} FORCE INDEX ({index})"
            f" WHERE ({names}) IN ({', '.join(keys)})"
            + (f" AND {mapping.keep.condition()}" if mapping.keep is not None else "")
        )
        judge_warnings(session, mapping)
        if mapping.kept:
            keys = [key for key in keys if not stage.in_source(session, mapping, key)]
        with self._judged(session, mapping):
            if keys:
                self._delete(session, mapping, keys)
            stage.write_stage(session, mapping)
        stage.drop_stage(session, mapping)


def _through_stage(mapping: TableMapping, rows: Iterable[RenderedRow]) -> bool:
    return mapping.converted or mapping.merging or any(row.staged for row in rows)
