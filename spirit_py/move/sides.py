"""The servers of a switch: what each has to do with it, and the sessions of one try."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from spirit_py import errors
from spirit_py.attached.foreign_keys.catalogue import keys_to
from spirit_py.attached.triggers.catalogue import list_triggers, read_places
from spirit_py.binlog.source import BinlogSource
from spirit_py.checkpoint.proofs import noted_proof
from spirit_py.classes import dataclass
from spirit_py.cutover.plan import TryFailed
from spirit_py.errors import ChangesNotFlushed, CutoverFailure, RowsMeet, ServerFault
from spirit_py.locks.table import TableLock, open_lock_session
from spirit_py.mysql.tables.identity import is_one_of
from spirit_py.sql import quote_table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.cutover.guard import SnapshotGuard
    from spirit_py.feed.feed import ChangeFeed
    from spirit_py.locks.table import LockWatch
    from spirit_py.locks.turns import Front
    from spirit_py.migration.pair import Pair
    from spirit_py.migration.swap.same_tables import Direction, SameTables
    from spirit_py.move.run import MoveRun
    from spirit_py.mysql.session import Session
    from spirit_py.table.names import Swap

#: Seconds for the lock under which a source gets its tables back, and for the work under it.
_WAIT: Final = 5
_HOLD: Final = 30.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Incoming:
    """One server of the tables that come into place; ``run`` faces it."""

    run: MoveRun
    pairs: Sequence[Pair]
    swaps: Sequence[Swap]
    guard: SnapshotGuard

    @property
    def arrive(self) -> str:
        """The RENAME that puts the tables in place."""
        return _renaming((s.schema, s.new, s.table) for s in self.swaps)

    @property
    def leave(self) -> str:
        """The RENAME that takes it back."""
        return _renaming((s.schema, s.table, s.new) for s in self.swaps)


@dataclass(frozen=True, eq=False, kw_only=True)
class Outgoing:
    """One server of the tables that go out of place; ``run`` faces it."""

    run: MoveRun
    pairs: Sequence[Pair]
    swaps: Sequence[Swap]
    front: Front

    @property
    def feed(self) -> ChangeFeed:
        """What follows its tables."""
        return self.pairs[0].feed

    @property
    def away(self) -> str:
        """The RENAME that puts the tables out of place."""
        return _renaming((s.schema, s.table, s.old) for s in self.swaps)

    @property
    def back(self) -> str:
        """The RENAME that takes it back."""
        return _renaming((s.schema, s.old, s.table) for s in self.swaps)

    @property
    def moved_names(self) -> str:
        """The names that the tables have out of place, for messages."""
        return ", ".join(quote_table(s.schema, s.old) for s in self.swaps)


@dataclass(eq=False)
class LockSide:
    """The locking session of a server, its lock, and the named lock that shows its end."""

    session: Session
    lock: TableLock
    fence: str


@dataclass(eq=False)
class WatchedSide(LockSide):
    """A source's, with what watches over it; ``locked_at`` is of the monotonic clock."""

    watcher: Session
    watch: LockWatch
    locked_at: float = 0.0


@dataclass
class Sides:
    """Each source's side of a try, and each target's."""

    ours: list[tuple[Outgoing, WatchedSide]]
    theirs: list[tuple[Incoming, LockSide]]

    @property
    def all(self) -> list[LockSide]:
        """All of them, the targets first."""
        return [*(side for _, side in self.theirs), *self.here]

    @property
    def here(self) -> list[WatchedSide]:
        """Those of the sources."""
        return [side for _, side in self.ours]

    @property
    def verdict(self) -> str:
        """Why a watch has ended a lock, or its request; empty where none has."""
        return next((side.watch.verdict for side in self.here if side.watch.verdict), "")

    @property
    def feeds(self) -> list[ChangeFeed]:
        """What follows the tables of each source."""
        return [origin.feed for origin, _ in self.ours]

    def stop_following(self) -> None:
        """Stop following, on all sources."""
        for feed in self.feeds:
            feed.stop()

    def verify_targets(self) -> None:
        """Raise CutoverFailure unless the targets hold their locks, and answer."""
        for _, side in self.theirs:
            side.lock.verify()

    def require_targets(self) -> None:
        """Raise TryFailed as :meth:`verify_targets`."""
        try:
            self.verify_targets()
        except CutoverFailure as lost:
            raise TryFailed(lost.message) from lost

    def tables(self, origin: Outgoing) -> list[tuple[Session, list[SameTables]]]:
        """Return each target's session with the tables that go there from one source."""
        return [
            (side.session, [pair.tables for pair in target.pairs if pair.feed is origin.feed])
            for target, side in self.theirs
        ]

    @contextlib.contextmanager
    def kept_alive(self, longest: float, *, but: Collection[LockSide] = ()) -> Iterator[None]:
        """Keep the sessions alive, but those of sides that work: no warnings may be read."""
        with contextlib.ExitStack() as stack:
            for side in self.all:
                if side not in but:
                    stack.enter_context(side.session.kept_alive(longest))
            yield


def unlock(sides: Iterable[LockSide]) -> None:
    """Release locks; with a lost or closed session one is gone."""
    for side in sides:
        with contextlib.suppress(ServerFault):
            side.lock.release()


def flush_in_turns(pairs: Sequence[Pair], session: Session) -> None:
    """Apply what is pending in a session that has the lock; ChangesNotFlushed where rows meet.

    A row that has changed its source may wait for what another pair has to delete.
    """
    waiting, stood = list(pairs), 0
    while waiting:
        pending = sum(pair.feed.pending() for pair in waiting)
        for pair in tuple(waiting):
            try:
                pair.feed.flush_under_table_lock(session, pair.mapping)
            except ChangesNotFlushed as why:
                # The first time, each deletes what the others may wait for.
                if stood > 1 or not isinstance(why.__cause__, RowsMeet):
                    raise
            else:
                waiting.remove(pair)
        stood = stood + 1 if sum(pair.feed.pending() for pair in waiting) == pending else 0


def at_once(work: Sequence[Callable[[], object]]) -> None:
    """Do work of several servers at the same time; raise the first failure, when all has ended."""
    if len(work) == 1:
        work[0]()
        return
    with ThreadPoolExecutor(len(work), thread_name_prefix="spirit-py-switch") as pool:
        done = [pool.submit(one) for one in work]
    for one in done:
        one.result()


def _renaming(names: Iterable[tuple[str, str, str]]) -> str:
    """Render the RENAME of tables, each given by its schema, its name, and the new one."""
    pairs = (f"{quote_table(schema, a)} TO {quote_table(schema, b)}" for schema, a, b in names)
    return f"RENAME TABLE {', '.join(pairs)}"


def require_no_triggers(session: SqlSession, swaps: Iterable[Swap]) -> None:
    """Raise SchemaChanged where an incoming table has a trigger: nobody follows its DDL there.

    What it did to the rows that were applied since the last comparison is not known.
    """
    for at in read_places(session, [(swap.schema, swap.new) for swap in swaps]):
        for trigger in list_triggers(session, at.schema, at.table):
            raise errors.SchemaChanged(
                f"another session has created {trigger.label} on {at.schema}.{at.table}, which"
                " may have changed the rows that were written there",
                hint="create it on the table after the move; then start the move again: it starts"
                " from the beginning",
            )


def require_no_keys(session: SqlSession, swaps: Iterable[Swap]) -> None:
    """Raise where a foreign key waits for an incoming table's name, and would refuse the RENAME.

    Its child is not among the locked tables (error 1100); without locks the key would take effect.
    """
    for swap in swaps:
        for key in keys_to(session, *swap.name):
            raise CutoverFailure(
                f"{key} waits for the table that is to come, and was made since the run began",
                hint="drop it there, and run the same command again; add it after the move",
            )


def place_there(run: MoveRun, there: Session) -> str:
    """Return the place in the target's binlog from which its tables are followed."""
    source = BinlogSource(run.config.there, run.config.feed, tell=run.tell)
    with contextlib.closing(source):
        return source.position_here(there)


def bring_home(
    run: MoveRun, swaps: Sequence[Swap], direction: Direction, note: Callable[[str], object]
) -> None:
    """Rename a source's tables back to their names, where they are out of the way.

    Nobody was sent to the target. ``note`` is called with the place behind the RENAME, from which
    the feed can go on: clients wait until that has returned.
    """
    config, old = run.config, [(swap.schema, swap.old) for swap in swaps]
    source = BinlogSource(config.connection, config.feed, tell=run.tell)
    with (
        contextlib.closing(source),
        open_lock_session(config.connection, role="move", wait=_WAIT, hold=_HOLD) as session,
    ):
        proofs = [noted_proof(session, swap.name, direction.outgoing) for swap in swaps]
        if all(is_one_of(session, *s.name, p) for s, p in zip(swaps, proofs, strict=True)):
            return
        if not all(is_one_of(session, *one, p) for one, p in zip(old, proofs, strict=True)):
            raise errors.SchemaChanged(
                f"the tables out of the way on {config.connection.address} are not those of the"
                " move any more",
                hint="see who renamed or dropped them",
            )
        TableLock(session, old).acquire()
        session.execute(_renaming((s.schema, s.old, s.table) for s in swaps))
        note(source.position_here(session))
