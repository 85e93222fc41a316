"""The swap of several pairs in one RENAME, in either direction, and the drop of the old tables.

Both tables of each pair are proven to be the ones noted in the checkpoint table: before the lock
request, under the lock, and again before the drop (R24).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spirit_py import points
from spirit_py.attached.foreign_keys.carried import carried
from spirit_py.attached.triggers.body import changed_names
from spirit_py.checkpoint.proofs import note_proofs, read_proofs, renew_proofs
from spirit_py.cutover.cutover import Cutover
from spirit_py.cutover.names import require_these
from spirit_py.cutover.plan import CutoverLimits, CutoverPlan
from spirit_py.errors import ServerFault, SpiritError
from spirit_py.migration.attachments import SwapAttachments
from spirit_py.migration.stopwatch import Stopwatch
from spirit_py.mysql.connect import connect
from spirit_py.mysql.locks.policy import LockPolicy
from spirit_py.mysql.retry import PATIENCE, retrying
from spirit_py.mysql.tables.definition import read_table
from spirit_py.mysql.tables.gentle_drop import free_partitions
from spirit_py.mysql.tables.histograms import carry_histograms
from spirit_py.mysql.tables.identity import drop_if, identity
from spirit_py.mysql.tables.new_table import align_auto_increment, set_auto_increment
from spirit_py.pace import Work
from spirit_py.table.names import AuxiliaryNames
from spirit_py.table.swap import Swap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from spirit_py.attached.foreign_keys.model import ForeignKey
    from spirit_py.config import ConnectionOptions, RunConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.cutover.plan import CutoverResult
    from spirit_py.migration.copied import CopiedPair
    from spirit_py.migration.pair import Pair
    from spirit_py.migration.process import Process
    from spirit_py.migration.run import Run
    from spirit_py.mysql.tables.identity import Identity, Name
    from spirit_py.statement import AlterStatement
    from spirit_py.stop import StopSwitch

_log = logging.getLogger(__name__)

#: Between two questions whether a drop may begin.
_PACE_SECONDS: Final = 0.2
#: Between two partitions of a large table.
_REST_SECONDS: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class Direction:
    """Which way a swap goes.

    Attributes:
        incoming: the noted proof of the table that the swap puts in place, by the field's name.
        outgoing: the same of the table that it puts out of place.
        leaves_as: the field of :class:`AuxiliaryNames` with the name that this one gets.
    """

    incoming: str
    outgoing: str
    leaves_as: str

    def swapped_out(self, table: str) -> str:
        """Return the name that the table swapped out of ``table``'s place gets."""
        return str(getattr(AuxiliaryNames.of(table), self.leaves_as))


FORWARD: Final = Direction(incoming="new", outgoing="source", leaves_as="old")
BACK: Final = Direction(incoming="source", outgoing="new", leaves_as="undone")


def _noted(session: SqlSession, table: Name, proof: str) -> Identity:
    """Return one of the proofs that were noted beside a source table."""
    found: Identity = getattr(read_proofs(session, *table), proof)
    return found


def _nothing(_session: SqlSession) -> None:
    """Do nothing, where a hook is not given."""


@dataclass(kw_only=True)
class PairSwap:
    """Puts the target of every pair in its source's place.

    :meth:`run` may be called again when something has held the swap back: the limits of the lock
    (``--cutover-timeout``, ``--kill-after``) count over all of its calls, and not in between.

    Attributes:
        prepare: called in each try before the lock is asked for, in a session without locks.
        final_check: called under the lock; must be fast, and an error ends the swap.
        counters: the AUTO_INCREMENT that statements give, by schema and name of the source; the
            other targets get the sources' counters.
        held_back: returns what defers the swap, for messages, or an empty string.
        last_word: as of :class:`CutoverPlan`.
        note_position: note the place after the RENAME.
        carried: returns a foreign key as the swap leaves it; None for one that it drops.
        cutover: the swap itself.
    """

    process: Process
    pairs: Sequence[Pair]
    direction: Direction
    prepare: Callable[[SqlSession], None] = _nothing
    final_check: Callable[[SqlSession], None] = _nothing
    counters: dict[Name, str] = field(default_factory=dict)
    held_back: Callable[[], str] = str
    last_word: Callable[[], str] = str
    note_position: bool = False
    carried: Callable[[ForeignKey], ForeignKey | None]
    cutover: Cutover = field(init=False)
    _attached: SwapAttachments = field(init=False)
    _proofs: dict[Name, Identity] = field(default_factory=dict, init=False)
    _tried: Stopwatch = field(default_factory=Stopwatch, init=False)

    def __post_init__(self) -> None:
        """Make the swap; nothing is done yet."""
        config = self.process.config
        swaps = swaps_of(self.pairs, self.direction)
        self._attached = SwapAttachments(
            process=self.process,
            swaps=tuple(swaps),
            carried=self.carried,
            changed=self._changed,
        )
        plan = CutoverPlan(
            connection=config.connection,
            swaps=swaps,
            source=self.pairs[0].feed,
            stop=self.pairs[0].stop,
            limits=limits_of(config),
            before_lock=self._before_lock,
            final_checks=self._under_lock,
            message=self.process.message,
            show=self.process.show,
            guard=config.snapshot_guard,
            held_back=self.held_back,
            last_word=self.last_word,
            attached=self._attached,
            note_position=self.note_position,
            clock=self._tried,
        )
        self.cutover = Cutover(plan)

    def run(self) -> CutoverResult:
        """Swap the tables under one lock (R15).

        Raises:
            HeldBack: a sentinel exists, or a table must be compared once more.
            SpiritError: as :meth:`Cutover.run`, and when what is attached is not settled yet.
        """
        try:
            with self._tried:
                result = self.cutover.run()
        except SpiritError:
            if not self.cutover.renaming:
                self._attached.undo_later()
            raise
        self._attached.finish()
        self.process.message(
            f"swapped in try {result.attempts}",
            lock_wait_ms=round(result.lock_wait_ms, 1),
            lock_held_ms=round(result.lock_held_ms, 1),
        )
        return result

    def _changed(self, table: Name) -> dict[str, str]:
        """Return the columns that their names no longer stand for, of one table."""
        return next(changed_names(p.mapping) for p in self.pairs if p.source_name == table)

    def _before_lock(self, session: SqlSession) -> None:
        """Prove the incoming tables, set the counters, and note which tables are to be swapped."""
        for pair in self.pairs:
            proof = _noted(session, pair.source_name, self.direction.incoming)
            require_these(session, {pair.target_name: proof})
        self._align(session)
        self.prepare(session)
        for pair in self.pairs:
            if given := self.counters.get(pair.source_name):
                set_auto_increment(session, pair.mapping, given)
            self._proofs |= self._note(session, pair)

    def _align(self, session: SqlSession) -> None:
        """Raise the targets' AUTO_INCREMENT counters to the sources'."""
        for pair in self.pairs:
            if pair.source_name not in self.counters:
                align_auto_increment(session, pair.mapping)

    def _note(self, session: SqlSession, pair: Pair) -> dict[Name, Identity]:
        """Note the proofs of both tables, and that the swap is begun; return the proofs.

        A table that we altered has another CREATE TIME; a table that another session put in its
        place meanwhile is not noted.
        """
        incoming, outgoing = self.direction.incoming, self.direction.outgoing
        proof = _noted(session, pair.source_name, incoming)
        found = identity(session, *pair.target_name)
        changes: dict[str, Any] = {
            incoming: found if proof.is_same(found) else proof,
            outgoing: identity(session, *pair.source_name),
        }
        note_proofs(session, *pair.source_name, **changes, swap_begun=True)
        return {pair.target_name: changes[incoming], pair.source_name: changes[outgoing]}

    def _under_lock(self, session: SqlSession) -> None:
        """Prove that these are the noted tables, and that their last comparison is still valid."""
        self.final_check(session)
        require_these(session, self._proofs)
        for pair in self.pairs:
            pair.require_proven()
        self._align(session)


def swaps_of(pairs: Iterable[Pair], direction: Direction) -> list[Swap]:
    """Return the names that the swap of the pairs exchanges."""
    return [
        Swap.of(pair.mapping, direction.swapped_out(pair.mapping.source.name)) for pair in pairs
    ]


def limits_of(config: RunConfig) -> CutoverLimits:
    """Return the configured limits of a swap."""
    return CutoverLimits(lock=LockPolicy.of(config))


def plan_swap(
    run: Run,
    pairs: Sequence[CopiedPair],
    counters: dict[Name, str],
    altered: Mapping[Name, AlterStatement],
    *,
    held_back: Callable[[], str],
    last_word: Callable[[], str],
) -> PairSwap:
    """Return the swap of a migration's tables; nothing is done yet.

    Args:
        counters: as of :class:`PairSwap`, as are ``held_back`` and ``last_word``.
        altered: the statement of each table.
    """

    def renew_histograms(session: SqlSession) -> None:
        for pair in pairs:
            carry_histograms(session, pair.mapping, rebuild=False)

    def require_whole(session: SqlSession) -> None:
        for pair in pairs:
            pair.plan.deferred.require_whole(session)

    swap = PairSwap(
        process=run,
        pairs=pairs,
        direction=FORWARD,
        prepare=renew_histograms,
        final_check=require_whole,
        counters=counters,
        held_back=held_back,
        last_word=last_word,
        note_position=run.config.keep_old_current > 0,
        carried=partial(carried, altered=altered),
    )
    run.cutover = swap.cutover
    return swap


def swap_in_new_tables(run: Run, swap: PairSwap) -> CutoverResult:
    """Swap a migration's tables; may be called again after :class:`HeldBack`.

    Raises:
        SpiritError: as :meth:`PairSwap.run`.
    """
    try:
        result = swap.run()
    finally:
        if not run.may_be_swapped:
            _note_not_swapped(run, swap.pairs)
    run.figures.note_cutover(result)
    return result


def _note_not_swapped(run: Run, pairs: Iterable[Pair]) -> None:
    """Note that no RENAME was made; if that fails, a later run keeps the new tables."""
    try:
        with run.session("cleanup") as session:
            for pair in pairs:
                if read_proofs(session, *pair.source_name).swap_begun:
                    renew_proofs(session, *pair.source_name, swap_begun=False)
    except ServerFault as fault:
        _log.info("the end of the swap could not be noted: %s", fault.message)


def drop_swapped_out(process: Process, tables: Iterable[Name], direction: Direction) -> list[str]:
    """Drop the tables that a swap put out of place; never raises for one that cannot be dropped.

    Each waits until nothing holds the drop back.

    Args:
        tables: schema and name of each table that was swapped.

    Returns:
        The names of the tables that could not be dropped, each of which was reported.

    Raises:
        SpiritError: a stop, while it waited.
    """
    left = []
    for source in tables:
        name = direction.swapped_out(source[1])
        await_pace(process, f"drop of {name}")
        noted = partial(_noted, table=source, proof=direction.outgoing)
        try:
            why = drop_old_table(
                process.config.connection,
                source[0],
                name,
                proof=process.step("cleanup", noted),
                stop=process.stop,
                before_each=partial(_between_partitions, process, name),
            )
        except SpiritError as error:
            why = error.message
        if why:
            left.append(name)
            process.remark(f"table {name}", why)
    return left


def await_pace(process: Process, what: str) -> None:
    """Wait until nothing holds back a drop.

    Raises:
        SpiritError: a stop.
    """
    while reason := process.pace.reason(Work.DROP):
        process.show(f"{reason} ({what})")
        process.stop.wait(_PACE_SECONDS)
        process.stop.check()
    process.show("")


def _between_partitions(process: Process, name: str) -> None:
    """Leave the disk to others for a moment, and longer where something holds back the drop."""
    process.stop.wait(_REST_SECONDS)
    await_pace(process, f"drop of {name}")


def drop_old_table(
    options: ConnectionOptions,
    schema: str,
    table: str,
    *,
    proof: Identity,
    stop: StopSwitch,
    lock_wait: int = 5,
    attempts: int = 8,
    patience: float = PATIENCE,
    before_each: Callable[[], object] = lambda: None,
) -> str:
    """Drop a table that no migration needs any more.

    The swap is done, so a failure is returned, never raised. Each try has a session of its own, so
    that a restart of the server is survived, and waits ``lock_wait`` seconds for readers that still
    have the table open.

    Args:
        patience: seconds for which the server may be away.
        before_each: called before a partition of a large table is emptied; may wait.
        proof: the table's identity; another table of its name stays (R24).

    Returns:
        An empty string, or why there is still a table of this name.
    """
    points.reach("cleanup.old_table")

    def drop() -> str:
        with connect(options, role="drop", lock_wait_timeout=lock_wait) as session:
            free_partitions(session, schema, table, proof, before_each=before_each)
            if drop_if(session, schema, table, proof) or not read_table(session, schema, table):
                return ""
        return "nothing proves that it is the table that was swapped out: see who made it"

    try:
        return str(retrying(stop, attempts=attempts, patience=patience)(drop))
    except SpiritError as error:
        return error.message
