"""Whether the tables of a pair are still those whose rows are compared (R25).

A table can be replaced without a trace in the binlog (``sql_log_bin=0``, ALTER or TRUNCATE
PARTITION). That changes the definition, or InnoDB's number of the table or a partition: both are
noted before the feed chooses its place, and must be the same at each comparison and under the lock.
A column dropped and added again with ALGORITHM=INSTANT leaves both, so the source's time of the
last ALTER must be the same too; not in the swap back, where our own guard altered that table. After
a rebuild that the feed has seen the new numbers are noted, and everything is compared again; after
an ALTER to what was there already, the new time. The binlog has OPTIMIZE of several tables only
when the last one is done: it is waited for.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spirit_py.attached.foreign_keys.catalogue import keys_to
from spirit_py.attached.triggers.catalogue import read_state
from spirit_py.binlog.position import GtidSet
from spirit_py.checkpoint.proofs import note_proofs, read_proofs
from spirit_py.checkpoint.record import digest_of
from spirit_py.classes import dataclass, field
from spirit_py.cutover.plan import NotProven
from spirit_py.errors import SchemaChanged
from spirit_py.events.run import Warned
from spirit_py.mysql.facts import look_at, server_uuid
from spirit_py.mysql.faults import NO_SUCH_TABLE, excused
from spirit_py.mysql.processlist import optimizes_now
from spirit_py.mysql.retry import retrying
from spirit_py.mysql.tables.definition import read_shape, shape_of
from spirit_py.mysql.tables.identity import born_at, identities, identity
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.feed.feed import ChangeFeed
    from spirit_py.migration.job import Job
    from spirit_py.mysql.facts import Seen
    from spirit_py.mysql.tables.identity import Identity
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.names import Name
    from spirit_py.threads import StopSwitch

#: A rebuild's numbers are there a moment before its statement is in the binlog.
_LOGGED_WITHIN: Final = 5.0
_POLL: Final = 0.2
_LOOK_SECONDS: Final = 20
_LOOKS: Final = 12


@dataclass(frozen=True, kw_only=True)
class Direction:
    """Which way a swap goes.

    ``incoming`` and ``outgoing`` are fields of the noted proofs of the table put in and out of
    place, ``leaves_as`` the field of :class:`AuxiliaryNames` with the latter's new name.
    """

    incoming: str
    outgoing: str
    leaves_as: str

    def swapped_out(self, table: str) -> str:
        """Return the name that the table swapped out of ``table``'s place gets."""
        return str(getattr(AuxiliaryNames.of(table), self.leaves_as))


FORWARD: Final = Direction(incoming="new", outgoing="source", leaves_as="old")
MOVED: Final = Direction(incoming="new", outgoing="source", leaves_as="moved")
"""The table goes out of place on its server; the other one is on another server."""
BACK: Final = Direction(incoming="source", outgoing="new", leaves_as="undone")


@dataclass
class SameTables:
    """Source and target of one pair, as noted; ``must_compare`` has a reason or is empty."""

    job: Job
    mapping: TableMapping
    feed: ChangeFeed
    stop: StopSwitch
    direction: Direction
    must_compare: str = ""
    taken_over: int = 0
    noted: dict[Name, Identity] = field(default_factory=dict, init=False)
    _seen: dict[Name, int] = field(default_factory=dict, init=False)
    _life: Seen | None = field(default=None, init=False)
    _attached: frozenset[object] = field(default=frozenset(), init=False)
    _shape: str = field(init=False)
    _mutex: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        source = self.mapping.source
        self._shape = digest_of(shape_of(source), source.name)

    @property
    def source(self) -> Name:
        """Schema and name of the table that is swapped out."""
        return self.mapping.source.schema, self.mapping.source.name

    @property
    def target(self) -> Name:
        """Schema and name of the table that is swapped in."""
        return self.mapping.target.schema, self.mapping.target.name

    def begin(self, *, afresh: bool) -> None:
        """Note both tables before the feed chooses its place; ``afresh``, the source as it is now.

        On another server the source's numbers prove nothing, so everything is compared; the target
        is proven by its own (:mod:`spirit_py.checkpoint.proofs`).
        """
        for names, there in self._sides:
            self.job.step("tables", partial(self._begin, names=names, afresh=afresh), there=there)
        self.feed.confirm_by(self.source, self.is_unaltered)

    def _begin(self, session: SqlSession, *, names: Sequence[Name], afresh: bool) -> None:
        proofs = read_proofs(session, *self.source)
        server = server_uuid(session)
        for name in names:
            noted: Identity = getattr(proofs, self._fields[name])
            if name == self.source and (afresh or (noted and noted.server != server)):
                noted = identity(session, *name)
                self.must_compare = "" if afresh else "the run continues on another server"
            self._note(session, name, noted)
            if name == self.source:
                self._attached = self._attached_first(session)

    def begin_again(self) -> None:
        """Note the source right after that once more, if nothing is copied yet.

        What came in between is no change. Only one that was altered costs a commit.
        """

        def note(session: SqlSession) -> None:
            found = identity(session, *self.source)
            if found != self.noted[self.source]:
                self._note(session, self.source, found)
            self._attached = self._attached_first(session)

        self.job.step("tables", note)

    def _attached_now(self, session: SqlSession) -> frozenset[object]:
        return frozenset(keys_to(session, *self.source)) | read_state(session, [self.source])

    def _attached_first(self, session: SqlSession) -> frozenset[object]:
        """Return what is attached before the feed looks; refuse what came after the preflight."""
        keys = keys_to(session, *self.source)
        triggers = read_state(session, [self.source]) if self.mapping.apart else ()
        lost = self.direction is not BACK and (self.mapping.apart or self.mapping.keep is not None)
        if lost and (keys or triggers):
            what = f"the foreign key {keys[0]}" if keys else "a trigger"
            raise SchemaChanged(
                f"another session has put {what} on {_named([self.source])} since it was looked at,"
                " which cannot follow the table",
                hint="drop it, then start the migration again: it starts from the beginning",
            )
        return self._attached_now(session)

    def is_unaltered(self) -> bool:
        """Look whether the source has its definition, and no further trigger or key to it.

        A thread of the feed calls it, also while the swap has its lock, which does not hold it up.
        """

        def look() -> bool:
            with self.job.session("tables", read_timeout=_LOOK_SECONDS) as session:
                same = self._shape_now(session) == self._shape
                return same and self._attached_now(session) <= self._attached

        found: bool = retrying(self.stop, attempts=_LOOKS)(look)
        return found

    @property
    def _fields(self) -> dict[Name, str]:
        return {self.source: self.direction.outgoing, self.target: self.direction.incoming}

    @property
    def _sides(self) -> list[tuple[list[Name], bool]]:
        """The tables of each server, which has their proofs; whether it is that of the target."""
        if self.mapping.apart:
            return [([self.source], False), ([self.target], True)]
        return [([self.source, self.target], False)]

    def _note(self, session: SqlSession, name: Name, found: Identity) -> None:
        self.noted[name] = found
        change: dict[str, Any] = {self._fields[name]: found}
        note_proofs(session, *self.source, **change)

    def look(self) -> None:
        """Take over what the feed saw being rebuilt; SchemaChanged for any other table."""
        deadline: float | None = None
        self.take_over()
        if self.mapping.apart:
            self._look_at_target()
        while changed := self._changed():
            # In this order: what is no longer executed is in the binlog.
            executed = self.job.step("tables", optimizes_now, stop=self.stop)
            self.feed.block_wait()
            if not self.take_over():
                if executed:
                    self.job.show("OPTIMIZE TABLE of another session")
                elif deadline is None:
                    deadline = time.monotonic() + _LOGGED_WITHIN
                elif time.monotonic() > deadline:
                    raise _another(changed)
                self.stop.wait(_POLL)
                self.job.show("")
            self.stop.check()

    def _look_at_target(self) -> None:
        """Have all compared where the target's server may have lost what it had committed (R25)."""
        seen = self.job.step("life", look_at, stop=self.stop, there=True)
        if self.has_lost(seen):
            with self._mutex:
                self.taken_over += 1
                self.must_compare = "the target's server may have lost commits (a restart, GTIDs)"
        self._life = seen

    def has_lost(self, seen: Seen) -> bool:
        """Return whether a server that looks so may have lost commits since the last look."""
        if (before := self._life) is None:
            return False
        # Set back to a snapshot it has its settings, and after a while its GTIDs again.
        restarted = seen.started != before.started
        executed = GtidSet.parse(seen.executed)
        return restarted or not executed.contains(GtidSet.parse(before.executed))

    def take_over(self) -> bool:
        """Note anew the tables that the feed saw being rebuilt; return whether there were any.

        Any thread; before a position is stored from which a later run would not see the rebuild.
        Raises ServerFault; then nothing is taken over.
        """
        with self._mutex:
            names = [name for side, _ in self._sides for name in side]
            counted = {name: self.feed.rebuilt(name) for name in names}
            rebuilt = [name for name in names if counted[name] > self._seen.get(name, 0)]
            if not rebuilt:
                return False
            for side, there in self._sides:
                with self.job.session("tables", there=there) as session:
                    for name in side:
                        if name in rebuilt:
                            self._note(session, name, identity(session, *name))
            self._seen |= counted
            self.taken_over += 1
            self.must_compare = f"{_named(rebuilt)} was rebuilt or altered without effect"
        self.job.tell(
            Warned(said=f"{self.must_compare} by another session: all rows are compared after that")
        )
        return True

    def compared(self, taken_over: int) -> None:
        """Note that all rows were compared, by a comparison that began with so many take-overs."""
        with self._mutex:
            if self.taken_over == taken_over:
                self.must_compare = ""

    def _changed(self) -> set[Name]:
        (here, _), *apart = self._sides
        changed = self.job.step("tables", partial(self._changed_here, names=here), stop=self.stop)
        for names, there in apart:
            look = partial(different_now, noted={name: self.noted[name] for name in names})
            changed |= self.job.step("tables", look, stop=self.stop, there=there)
        return changed

    def _changed_here(self, session: SqlSession, names: Sequence[Name]) -> set[Name]:
        if not self.has_its_shape(session):
            raise SchemaChanged(
                f"another session changed the definition of {_named([self.source])}, and the"
                " change feed did not see it: it is not in the binlog",
                hint="see what was changed, and by whom (sql_log_bin=0 hides it); then start the"
                " migration again: it starts from the beginning",
            )
        noted = {name: self.noted[name] for name in names}
        return self.altered(session) | different_now(session, noted)

    def altered(self, session: SqlSession) -> set[Name]:
        """Return the source where it was altered since it was noted; see the module."""
        # The time is in whole seconds; what is received is exact.
        if self.feed.rebuilt(self.source) > self._seen.get(self.source, 0):
            return {self.source}
        born = self.noted[self.source].born
        same = self.direction is BACK or born in {0, born_at(session, *self.source)}
        return set() if same else {self.source}

    def has_its_shape(self, session: SqlSession) -> bool:
        """Return whether the source has its definition, or is gone, which its numbers show."""
        return self._shape_now(session) in {"", self._shape}

    def _shape_now(self, session: SqlSession) -> str:
        shape = excused(lambda: read_shape(session, *self.source), "", {NO_SUCH_TABLE})
        return shape and digest_of(shape, self.source[1])


def different(noted: dict[Name, Identity], found: dict[Name, Identity]) -> set[Name]:
    """Return the tables that have not exactly the noted numbers."""
    return {name for name, one in noted.items() if not (one and one.equals(found[name]))}


def different_now(session: SqlSession, noted: dict[Name, Identity]) -> set[Name]:
    """Return the tables of one server that have not exactly the noted numbers; in one query."""
    return different(noted, identities(session, noted)) if noted else set()


def require_same(
    session: SqlSession,
    tables: Iterable[SameTables],
    theirs: Iterable[tuple[SqlSession, Sequence[SameTables]]] = (),
) -> None:
    """Raise NotProven for other tables than the noted ones; also under their lock.

    ``theirs`` are sessions of the servers of targets that are apart, each with its tables.
    """
    every = list(tables)
    # A source that goes to several targets is looked at once.
    pairs = {pair.source: pair for pair in every}.values()
    here: dict[Name, Identity] = {}
    changed: set[Name] = set()
    for pair in every:
        apart = pair.mapping.apart
        own = {n: one for n, one in pair.noted.items() if not (apart and n == pair.target)}
        changed |= {n for n, one in own.items() if here.setdefault(n, one) != one}
    changed |= different_now(session, here)
    for there, targets in theirs:
        changed |= different_now(there, {one.target: one.noted[one.target] for one in targets})
        seen = look_at(there)
        changed |= {one.target for one in targets if one.has_lost(seen)}
    changed = changed.union(*(pair.altered(session) for pair in pairs))
    changed |= {pair.source for pair in pairs if not pair.has_its_shape(session)}
    if changed:
        raise NotProven(
            f"{_named(sorted(changed))} was replaced or altered since it was compared",
            hint="run the same command again",
        )


def _named(tables: Iterable[Name]) -> str:
    return ", ".join(".".join(name) for name in tables)


def _another(tables: Iterable[Name]) -> SchemaChanged:
    return SchemaChanged(
        f"{_named(sorted(tables))} was replaced, exchanged a partition or was altered"
        " since the change feed began, and the binlog does not say why",
        hint="see who dropped, restored, truncated, altered or rebuilt it under sql_log_bin=0 (the"
        " restore of a dump, OPTIMIZE NO_WRITE_TO_BINLOG), and whether its rows are the right ones;"
        " then start the migration again: it starts from the beginning",
    )
