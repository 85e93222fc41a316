"""What a move does in another way than a migration: where its parts are, and its switch."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from spirit_py.checkpoint.proofs import note_proofs, read_proofs
from spirit_py.errors import ServerFault
from spirit_py.migration.facts import Swapped
from spirit_py.migration.migration import OneServer
from spirit_py.migration.swap.same_tables import MOVED
from spirit_py.move.back import KeeperApart, note_way_back
from spirit_py.move.carrier import ApartApplier, JoinAcross, ShardedApplier
from spirit_py.move.run import forget_there
from spirit_py.move.switch import Switch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spirit_py.applier.applier import SqlApplier
    from spirit_py.checkpoint.record import ReverseRecord
    from spirit_py.contracts import SqlSession
    from spirit_py.copier.task import JoinCopy
    from spirit_py.cutover.plan import CutoverResult, SwapGate
    from spirit_py.migration.checkpoints import Checkpoints
    from spirit_py.migration.copied_pair import CopiedPair
    from spirit_py.migration.reverse.keeper import Keeper
    from spirit_py.move.run import MoveRun
    from spirit_py.mysql.session import Session
    from spirit_py.statement import AlterStatement
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.names import Name


class Across(OneServer["MoveRun"]):
    """The way to other servers; ``mappings`` are of the new tables, by the shard of their way."""

    direction = MOVED

    def __init__(
        self,
        mappings: Mapping[str, Sequence[TableMapping]],
        reverse: ReverseRecord | None,
    ) -> None:
        self._mappings, self._reverse = mappings, reverse
        self._ways: list[MoveRun] = []

    def facing(self, run: MoveRun, mapping: TableMapping) -> MoveRun:
        """Return the run as it faces the servers that a mapping is between."""
        # One for all tables of two servers, which are switched together.
        self._ways = self._ways or run.ways()
        return next(one for one in self._ways if mapping in self._mappings[one.config.shard])

    def applier(self, run: MoveRun) -> Callable[..., SqlApplier]:
        """Return what makes the applier, which writes on the targets."""
        if not run.config.shards:
            return partial(ApartApplier, here=run.config.connection)
        ways = [(one.config.there, self._mappings[one.config.shard]) for one in run.ways()]
        return partial(ShardedApplier, here=run.config.connection, ways=ways)

    def joins(self, run: MoveRun) -> Callable[..., JoinCopy]:
        """Return what opens a task's sessions, one on each server."""
        return partial(JoinAcross, reads=run.config.connection)

    def swap(
        self,
        run: MoveRun,
        pairs: Sequence[CopiedPair],
        altered: Mapping[Name, AlterStatement],
        gate: SwapGate,
        checkpoints: Sequence[Checkpoints],
    ) -> Callable[[], CutoverResult]:
        """Return what switches over to the target."""
        way_back = None
        if self._reverse is not None:
            way_back = partial(note_way_back, self._reverse, run.config.keep_old_current)
        switch = _switch(run, pairs, altered, gate, checkpoints, way_back=way_back)
        run.swap_with(switch)
        return partial(_made, run, switch)

    def fronts(self, run: MoveRun) -> Sequence[MoveRun]:
        """Return the run as it faces each source."""
        return run.fronts()

    def keeper(self, run: MoveRun, record: ReverseRecord) -> Keeper:
        """Return what lets the source's tables follow."""
        return KeeperApart(run, record)

    def settle(self, run: MoveRun, tables: Sequence[Name]) -> None:
        """Forget on the target what proved its tables."""
        forget_there(run, tables)

    def way_back(self, _run: MoveRun, _table: Name) -> None:
        """Return None: without reverse replication there is none."""


def _switch(
    run: MoveRun,
    pairs: Sequence[CopiedPair],
    altered: Mapping[Name, AlterStatement],
    gate: SwapGate,
    checkpoints: Sequence[Checkpoints],
    *,
    way_back: Callable[[Session, str], object] | None,
) -> Switch:
    """Return the switch of a move to the target; nothing is done yet."""

    def require_whole(there: SqlSession) -> None:
        for pair in pairs:
            pair.plan.deferred.require_whole(there)

    places = {one.server: one.go_on_behind for one in checkpoints}
    return Switch(
        run,
        pairs,
        MOVED,
        gate,
        check=require_whole,
        behind=lambda address, place: places[address](place),
        counters={name: one.auto_increment for name, one in altered.items() if one.auto_increment},
        way_back=way_back,
    )


def _made(run: MoveRun, switch: Switch) -> CutoverResult:
    """Make the switch; may be called again after :class:`HeldBack`."""
    try:
        result = switch.run()
    finally:
        if not run.may_be_swapped:
            _note_not_begun(run, switch)
    run.note(Swapped(result))
    return result


def _note_not_begun(run: MoveRun, switch: Switch) -> None:
    """Note that no RENAME was made; if that fails, a later run keeps the new tables."""
    for way in run.backs():
        with contextlib.suppress(ServerFault), way.session("cleanup", there=True) as there:
            for table in switch.tables:
                if read_proofs(there, *table).swap_begun:
                    note_proofs(there, *table, swap_begun=False)
