"""The swap of several pairs in one RENAME, in either direction.

:mod:`spirit_py.migration.swap.same_tables` proves both tables of each pair before the lock request,
under the lock (R25), and before the drop (R24).
"""

from __future__ import annotations

import contextlib
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from spirit_py.attached.foreign_keys.model import carried
from spirit_py.attached.triggers.model import changed_names
from spirit_py.checkpoint.proofs import note_proofs, read_proofs, renew_proofs
from spirit_py.classes import dataclass, field, replace
from spirit_py.cutover.cutover import Cutover
from spirit_py.cutover.plan import CutoverLimits, CutoverPlan, SwapGate, nothing
from spirit_py.errors import SpiritError
from spirit_py.locks.blockers import LockPolicy
from spirit_py.migration.doubts import require_settled
from spirit_py.migration.facts import Swapped
from spirit_py.migration.histograms import carry_histograms
from spirit_py.migration.swap.attachments import SwapAttachments
from spirit_py.migration.swap.same_tables import BACK, FORWARD, require_same
from spirit_py.mysql.tables.identity import identity
from spirit_py.mysql.tables.new_table import align_auto_increment, set_auto_increment
from spirit_py.preflight.checks.other_writers import require_still_here
from spirit_py.table.names import Swap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from spirit_py.attached.foreign_keys.model import ForeignKey
    from spirit_py.contracts import Clock, SqlSession, SwappedAlong
    from spirit_py.cutover.plan import CutoverResult
    from spirit_py.migration.copied_pair import CopiedPair
    from spirit_py.migration.job import Job
    from spirit_py.migration.pair import Pair
    from spirit_py.migration.run import Run
    from spirit_py.migration.swap.same_tables import Direction
    from spirit_py.statement import AlterStatement
    from spirit_py.table.names import Name


class Stopwatch:
    """Seconds spent inside its ``with`` blocks; stands still between them. Call it for the time."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._before = 0.0
        self._began: float | None = None

    def __call__(self) -> float:
        """Return the seconds up to now."""
        began = self._began
        return self._before if began is None else self._before + self._clock() - began

    def __enter__(self) -> Self:
        self._began = self._clock()
        return self

    def __exit__(self, *_: object) -> None:
        self._before, self._began = self(), None

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Stand still for a while inside a block."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()


_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class PairSwap:
    """Puts the target of every pair in its source's place.

    :meth:`run` may be called again when something has held the swap back: the limits of the lock
    (``--cutover-timeout``, ``--kill-after``) count over all of its calls, and not in between.
    ``prepare`` is called before each lock request, ``final_check`` under the lock, where it must be
    fast. ``counters`` are AUTO_INCREMENT values set by statements; the others are the sources'.
    """

    job: Job
    pairs: Sequence[Pair]
    direction: Direction
    prepare: Callable[[SqlSession], None] = nothing
    final_check: Callable[[SqlSession], None] = nothing
    counters: dict[Name, str] = field(default_factory=dict)
    gate: SwapGate = field(default_factory=SwapGate)
    note_position: bool = False
    along: SwappedAlong | None = None
    carried: Callable[[ForeignKey], ForeignKey | None]
    cutover: Cutover = field(init=False)
    _attached: SwapAttachments = field(init=False)
    _tried: Stopwatch = field(default_factory=Stopwatch, init=False)

    def __post_init__(self) -> None:
        config = self.job.config
        swaps = swaps_of(self.pairs, self.direction)
        along = (self.along.swap,) if self.along is not None else ()
        self._attached = SwapAttachments(
            self.job, tuple(swaps), self.carried, changed=self._changed, along=along
        )
        plan = CutoverPlan(
            connection=config.connection,
            swaps=swaps,
            source=self.pairs[0].feed,
            stop=self.pairs[0].stop,
            limits=CutoverLimits(lock=LockPolicy.of(config)),
            before_lock=self._before_lock,
            final_checks=self._under_lock,
            tell=self.job.tell,
            show=self.job.show,
            held_up=self.job.held_up,
            guard=config.snapshot_guard,
            gate=self.gate,
            attached=self._attached,
            along=along,
            note_position=self.note_position,
            clock=self._tried,
        )
        self.cutover = Cutover(plan)

    def run(self) -> CutoverResult:
        """Swap the tables under one lock (R15); HeldBack, or as :meth:`Cutover.run`."""
        try:
            with self._tried:
                result = self.cutover.run()
        except SpiritError:
            if not self.cutover.renaming:
                self._attached.undo_later()
            raise
        self._attached.finish()
        self.job.tell(replace(result.event, back=self.direction is BACK))
        return result

    def _changed(self, table: Name) -> dict[str, str]:
        return next(changed_names(p.mapping) for p in self.pairs if p.source_name == table)

    def _before_lock(self, session: SqlSession) -> None:
        require_same(session, (pair.tables for pair in self.pairs))
        self.prepare(session)
        self._align(session, lowers=True)
        if self.along is not None:
            self.along.prepare(session)
        for pair in self.pairs:
            if given := self.counters.get(pair.source_name):
                set_auto_increment(session, pair.mapping, given)
            self._note(session, pair)

    def _align(self, session: SqlSession, *, lowers: bool = False) -> None:
        for pair in self.pairs:
            if pair.source_name not in self.counters:
                align_auto_increment(session, pair.mapping, lowers=lowers)

    def _note(self, session: SqlSession, pair: Pair) -> None:
        """Note the proofs of both tables (ours was altered since), and that the swap is begun."""
        proofs = {
            self.direction.incoming: pair.target_name,
            self.direction.outgoing: pair.source_name,
        }
        changes: dict[str, Any] = {
            proof: replace(pair.tables.noted[name], born=identity(session, *name).born)
            for proof, name in proofs.items()
        }
        note_proofs(session, *pair.source_name, **changes, swap_begun=True)

    def _under_lock(self, session: SqlSession) -> None:
        self.final_check(session)
        require_same(session, (pair.tables for pair in self.pairs))
        for pair in self.pairs:
            pair.require_proven()
        require_settled((pair.doubts for pair in self.pairs), session)
        if self.along is not None:
            self.along.prove(session)
        self._align(session)


def swaps_of(pairs: Iterable[Pair], direction: Direction) -> list[Swap]:
    """Return the names that the swap of the pairs exchanges."""
    return [
        Swap.of(pair.mapping, direction.swapped_out(pair.mapping.source.name)) for pair in pairs
    ]


def plan_swap(
    run: Run,
    pairs: Sequence[CopiedPair],
    altered: Mapping[Name, AlterStatement],
    gate: SwapGate,
) -> PairSwap:
    """Return the swap of a migration's tables; nothing is done yet."""

    def prepare(session: SqlSession) -> None:
        require_still_here(session, run.config, [pair.source_name for pair in pairs])
        for pair in pairs:
            carry_histograms(session, pair.mapping, rebuild=False)

    def require_whole(session: SqlSession) -> None:
        for pair in pairs:
            pair.plan.deferred.require_whole(session)

    swap = PairSwap(
        job=run,
        pairs=pairs,
        direction=FORWARD,
        prepare=prepare,
        final_check=require_whole,
        counters={name: one.auto_increment for name, one in altered.items() if one.auto_increment},
        gate=gate,
        note_position=run.config.keep_old_current + run.config.drop_old_after > 0,
        along=run.along,
        carried=partial(carried, altered=altered),
    )
    run.swap_with(swap.cutover)
    return swap


def swap_in_new_tables(run: Run, swap: PairSwap) -> CutoverResult:
    """Swap a migration's tables; may be called again after :class:`HeldBack`."""
    try:
        result = swap.run()
    finally:
        if not run.may_be_swapped:
            _note_not_swapped(run, swap.pairs)
    run.note(Swapped(result))
    return result


def _note_not_swapped(run: Run, pairs: Iterable[Pair]) -> None:
    """Note that no RENAME was made; if that fails, a later run keeps the new tables."""
    try:
        with run.session("cleanup") as session:
            for pair in pairs:
                if read_proofs(session, *pair.source_name).swap_begun:
                    renew_proofs(session, *pair.source_name, swap_begun=False)
    except SpiritError as error:
        _log.info("the end of the swap could not be recorded: %s", error.message)
