"""The way back itself: drain, compare, swap, drop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spirit_py.checkpoint.proofs import note_proofs, read_proofs
from spirit_py.checksum.checker import Checker
from spirit_py.checksum.result import ChecksumOptions
from spirit_py.config import FeedOptions
from spirit_py.cutover.cleanup import drop_old_table
from spirit_py.cutover.cutover import Cutover
from spirit_py.cutover.guard import require_guard
from spirit_py.cutover.names import check_names, require_these
from spirit_py.cutover.plan import CutoverLimits, Swap
from spirit_py.errors import HeldBack, SpiritError
from spirit_py.migration.reverse_feed import require_definitions
from spirit_py.mysql.connect import connect
from spirit_py.mysql.retry import retrying
from spirit_py.mysql.tables.identity import identity
from spirit_py.mysql.tables.new_table import align_auto_increment
from spirit_py.sql import quote_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.checkpoint.reverse import ReverseTable
    from spirit_py.config import ConnectionOptions, GuardMode
    from spirit_py.contracts import SqlSession
    from spirit_py.cutover.plan import CutoverResult
    from spirit_py.migration.reverse_feed import Following
    from spirit_py.mysql.tables.identity import Identity
    from spirit_py.spark.gang import GangEngine
    from spirit_py.stop import StopSwitch
    from spirit_py.table.mapping import TableMapping

#: A server that restarts right behind the swap is waited for.
_PROOF_ATTEMPTS: Final = 8


@dataclass(frozen=True, kw_only=True)
class Means:
    """What keeping and going back need, however they were started.

    Attributes:
        engine: gives the started engine for the checksum; asked only at a revert.
        message: told one line about everything that an operator should know.
        show: told what is waited for now, for a display.
    """

    connection: ConnectionOptions
    engine: Callable[[], GangEngine]
    message: Callable[[str], None]
    show: Callable[[str], None]
    feed: FeedOptions = field(default_factory=FeedOptions)
    limits: CutoverLimits = field(default_factory=CutoverLimits)
    guard: GuardMode = "auto"
    checksum: ChecksumOptions = field(default_factory=ChecksumOptions)


def swaps_of(tables: tuple[ReverseTable, ...]) -> list[Swap]:
    """Return the swaps that bring the old tables back."""
    return [
        Swap(schema=table.schema, table=table.table, new=table.old, old=table.undone)
        for table in tables
    ]


class Undo:
    """One try to go back; after one that failed the keeping may go on.

    Args:
        say: told each step, for whoever asked for the way back.

    Attributes:
        swapped: the old tables are in place again.
    """

    def __init__(
        self,
        means: Means,
        following: Following,
        tables: tuple[ReverseTable, ...],
        *,
        stop: StopSwitch,
        say: Callable[[str], None],
    ) -> None:
        self._means = means
        self._following = following
        self._tables = tables
        self._stop = stop
        self._say = say
        self._proven: dict[str, int] = {}
        self.swapped = False

    def prove(self) -> None:
        """Bring the old tables up to now, and compare every row.

        Raises:
            SpiritError: what makes the way back impossible now; nothing was changed.
        """
        with connect(self._means.connection, role="revert") as session:
            check_names(session, swaps_of(self._tables))
            require_definitions(session, self._tables)
            require_guard(session, swaps_of(self._tables), self._means.guard)
        feed = self._following.feed
        self._say("bringing the old table up to date")
        feed.block_wait()
        feed.flush()
        for mapping in self._following.mappings:
            with connect(self._means.connection, role="analyze") as session:
                name = quote_table(mapping.target.schema, mapping.target.name)
                session.query(f"ANALYZE NO_WRITE_TO_BINLOG TABLE {name}")
            self._compare(mapping)

    def _compare(self, mapping: TableMapping) -> None:
        """Compare the table with its old one until a pass is clean."""
        name = f"{mapping.source.schema}.{mapping.source.name}"
        self._say(f"comparing {name} with {mapping.target.name}")
        checker = Checker(
            mapping=mapping,
            source=self._means.connection,
            engine=self._means.engine(),
            stop=self._stop,
            feed=self._following.feed,
            applier=self._following.applier,
            options=self._means.checksum,
            on_progress=lambda seen: self._means.show(
                f"the comparison of {name}: {100 * seen.fraction:.0f} %"
            ),
        )
        result = checker.run()
        self._proven[mapping.source.name] = checker.proven
        self._say(
            f"{name} and {mapping.target.name} are equal: {result.rows} rows compared,"
            f" {result.repaired_chunks} chunks repaired"
        )

    def _unproven(self) -> list[TableMapping]:
        """Return the tables in which rows may have been pushed out since they were compared."""
        feed = self._following.feed
        return [
            mapping
            for mapping in self._following.mappings
            if mapping.merging
            and feed.overwrites(mapping) != self._proven.get(mapping.source.name, -1)
        ]

    def swap(self) -> CutoverResult:
        """Put the old tables back in one RENAME (R15)."""
        while True:
            for mapping in self._unproven():
                self._compare(mapping)
            try:
                return self._swap()
            except HeldBack as held:
                self._say(held.message)

    def give_up(self) -> None:
        """Let the keeping go on: until the next try, rows may be written over others again."""
        for mapping in self._following.mappings:
            self._following.feed.write_over(mapping)

    def _swap(self) -> CutoverResult:
        """Try it once."""
        mappings = self._following.mappings

        def align(session: SqlSession) -> None:
            for mapping in mappings:
                align_auto_increment(session, mapping)

        def prepare(session: SqlSession) -> None:
            for table in self._tables:
                _require_old(session, table)
            align(session)
            for table in self._tables:
                proofs.update(_note(session, table))

        def check(session: SqlSession) -> None:
            require_definitions(session, self._tables)
            require_these(session, proofs)
            if left := self._unproven():
                raise HeldBack(f"{left[0].target.name} must be compared once more")
            align(session)

        proofs: dict[tuple[str, str], Identity] = {}
        self._say("swapping back")
        cutover = Cutover(
            self._means.connection,
            swaps_of(self._tables),
            self._following.feed,
            stop=self._stop,
            limits=self._means.limits,
            before_lock=prepare,
            final_checks=check,
            message=self._say,
            guard=self._means.guard,
        )
        try:
            result = cutover.run()
        finally:
            self.swapped = cutover.swapped
        self._say(
            f"swapped back in try {result.attempts}: waited {result.lock_wait_ms:.0f} ms for the"
            f" lock, held it {result.lock_held_ms:.0f} ms"
        )
        return result


def drop_undone(means: Means, tables: tuple[ReverseTable, ...], stop: StopSwitch) -> list[str]:
    """Drop the tables that were swapped out; give what could not be dropped, with the reason."""
    left = []
    for table in tables:
        why = _drop(means, table, stop)
        if why:
            left.append(f"table {table.undone} could not be dropped: {why}; drop it by hand")
    return left


def _drop(means: Means, table: ReverseTable, stop: StopSwitch) -> str:
    """Drop one; give why it is still there, or an empty string."""

    def proof() -> Identity:
        with connect(means.connection, role="cleanup") as session:
            return read_proofs(session, table.schema, table.table).new

    try:
        numbers = retrying(stop, attempts=_PROOF_ATTEMPTS)(proof)
    except SpiritError as error:
        return error.message
    return drop_old_table(means.connection, table.schema, table.undone, proof=numbers, stop=stop)


def _require_old(session: SqlSession, table: ReverseTable) -> None:
    """Require the old table to be the one from before the migration."""
    proofs = read_proofs(session, table.schema, table.table)
    require_these(session, {(table.schema, table.old): proofs.source})


def _note(session: SqlSession, table: ReverseTable) -> dict[tuple[str, str], Identity]:
    """Note which table is going to be swapped out, before it is (R24); return the proofs."""
    proofs = note_proofs(
        session,
        table.schema,
        table.table,
        new=identity(session, table.schema, table.table),
        source=identity(session, table.schema, table.old),
    )
    return {
        (table.schema, table.table): proofs.new,
        (table.schema, table.old): proofs.source,
    }
