"""The checksum: passes over the table until one is clean.

A pass is cut into segments, one for each snapshot. In a segment a gang of tasks reads both
tables at one moment (:mod:`spirit_py.checksum.snapshot`). The driver cuts the chunks while the
gang works, and hands them out through the gang's mailbox, two outstanding for each task:
cutting the whole table beforehand would read it once more in one thread, and a fixed split of
the keys would leave slots idle behind a gap of 10^9 or a wide row. Only figures come back
through the mailbox; differing rows are the tasks' results.

Lost tasks cost their segment: it is read anew in a new snapshot, above the low watermark.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from spirit_py.checksum.ledger import PassLedger
from spirit_py.checksum.query import ComparisonPlan
from spirit_py.checksum.repair import repair
from spirit_py.checksum.result import (
    ChecksumOptions,
    ChecksumProgress,
    ChecksumResult,
    RowDifference,
)
from spirit_py.checksum.snapshot import SnapshotLock
from spirit_py.checksum.worker import SOURCE, TARGET, JoinChecksum, encode_chunk
from spirit_py.chunk.chunker import make_chunker
from spirit_py.chunk.sizing import ChunkSizer
from spirit_py.errors import ChecksumFailure, DuplicateForUnique, Refusal, ServerFault, WorkersLost
from spirit_py.mysql.connect import connect
from spirit_py.mysql.kill import kill_session
from spirit_py.spark.gang import Gang

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.chunk.chunk import Chunk
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Applier, ChangeSource, Chunker
    from spirit_py.spark.gang import Answer, GangEngine
    from spirit_py.stop import StopSwitch
    from spirit_py.table.mapping import TableMapping

_log = logging.getLogger(__name__)

_OUTSTANDING: Final = 2
_ASSEMBLE_SECONDS: Final = 120.0
_SNAPSHOT_SECONDS: Final = 10.0


class Checker:
    """Compares source and new table, and repairs; :meth:`run` once.

    Args:
        engine: runs the tasks; :class:`spirit_py.spark.session.SparkEngine`.
        target: the new table's server where it is another one.
        feed: applies changes to the new table; None compares two tables that nothing keeps
            equal, as they are at the moment of the snapshot.
        applier: repairs; None only reports: one pass, and :meth:`run` returns what it found.
        find_duplicates: names rows that a new UNIQUE key cannot hold together (R11), a line
            for each example; asked when rows differ and the mapping is tightened.
        on_progress: told now and then how far the checksum is; must not block.
    """

    def __init__(
        self,
        *,
        mapping: TableMapping,
        source: ConnectionOptions,
        engine: GangEngine,
        stop: StopSwitch,
        target: ConnectionOptions | None = None,
        feed: ChangeSource | None = None,
        applier: Applier | None = None,
        find_duplicates: Callable[[], Sequence[str]] | None = None,
        on_progress: Callable[[ChecksumProgress], None] | None = None,
        options: ChecksumOptions | None = None,
    ) -> None:
        self._mapping = mapping
        self._plan = ComparisonPlan(mapping=mapping)
        self._source = source
        self._target = target
        self._engine = engine
        self._stop = stop
        self._feed = feed
        self._applier = applier
        self._find_duplicates = find_duplicates
        self._on_progress = on_progress
        self._options = options or ChecksumOptions()
        self._sizer = ChunkSizer(self._options.target_seconds)
        self._progress = ChecksumProgress()
        self._result = ChecksumResult()
        if target is not None and not self._plan.aligned:
            raise Refusal(
                f"the key of {mapping.source.name} is ordered differently on the other server",
                hint="compare tables whose key columns have the same collation",
            )

    @property
    def _name(self) -> str:
        """The source's name, for messages."""
        return f"{self._mapping.source.schema}.{self._mapping.source.name}"

    @property
    def progress(self) -> ChecksumProgress:
        """How far the checksum is; may be asked from any thread."""
        return self._progress

    def run(self) -> ChecksumResult:
        """Compare, repair and compare again, until a pass over the whole table is clean.

        Without an applier: one pass, whatever it finds.

        Raises:
            DuplicateForUnique: rows differ because a new UNIQUE key cannot hold them.
            ChecksumFailure: differences remained, or the tables could not be read as a whole.
        """
        began = time.monotonic()
        try:
            self._until_clean()
        finally:
            self._result = replace(self._result, seconds=time.monotonic() - began)
        return self._result

    def _until_clean(self) -> None:
        """Make passes until one is clean or too many were not."""
        for number in range(1, self._options.max_passes + 1):
            ledger, found = self._pass(number)
            self._book(ledger, found)
            if not ledger.differences or self._applier is None:
                return
            self._refuse_duplicates(found)
            if number < self._options.max_passes:
                self._repair(self._applier, found, ledger)
        raise ChecksumFailure(
            f"{self._name} and {self._mapping.target.name} still differ in"
            f" {ledger.differences} rows after {number} passes",
            hint="keep the new table for inspection, or drop it and start afresh",
            details=tuple(str(example) for example in self._result.examples),
        )

    @property
    def result(self) -> ChecksumResult:
        """The figures so far, also after a failure."""
        return self._result

    def _book(self, ledger: PassLedger, found: Sequence[RowDifference]) -> None:
        """Add a pass to the figures."""
        so_far = self._result
        self._result = replace(
            so_far,
            passes=so_far.passes + 1,
            chunks=so_far.chunks + ledger.chunks,
            rows=ledger.rows,
            differences=so_far.differences + ledger.differences,
            examples=(*so_far.examples, *found)[: self._options.examples],
        )

    def _refuse_duplicates(self, found: Sequence[RowDifference]) -> None:
        """Stop when the differences are rows that a new UNIQUE key has eaten (R11)."""
        if not self._mapping.tightened or self._find_duplicates is None:
            return
        duplicates = tuple(self._find_duplicates())
        if duplicates:
            names = ", ".join(index.name for index in self._mapping.tightened)
            raise DuplicateForUnique(
                f"{self._name} has rows that the new UNIQUE key ({names}) cannot"
                f" hold together: {len(found)} rows differ",
                hint="remove the duplicates, or leave the UNIQUE key out",
                details=duplicates,
            )

    def _repair(self, applier: Applier, found: Sequence[RowDifference], ledger: PassLedger) -> None:
        """Copy the differing rows again."""
        for difference in found[: self._options.examples]:
            _log.warning("%s: %s; copied again", self._mapping.source.name, difference)
        repair(applier, self._feed, self._mapping, found)
        self._result = replace(
            self._result,
            repaired_chunks=self._result.repaired_chunks + ledger.differing_chunks,
        )

    def _pass(self, number: int) -> tuple[PassLedger, list[RowDifference]]:
        """Go over the whole table once."""
        ledger = PassLedger()
        found: list[RowDifference] = []
        lost = 0
        self._show(passes=number, fraction=0.0, rows=0, differences=0)
        with connect(self._source, role="checksum-cut") as session:
            chunker = make_chunker(self._mapping, session.query)
            while not ledger.complete:
                try:
                    found += self._segment(ledger, chunker)
                    lost = 0
                except WorkersLost as error:
                    lost += 1
                    if lost >= self._options.gang_attempts:
                        raise
                    _log.warning("%s; its part of the checksum begins anew", error.message)
                    chunker.restart(ledger.lower)
        return ledger, found

    def _segment(self, ledger: PassLedger, chunker: Chunker) -> list[RowDifference]:
        """Read as far as one snapshot may be used; give the differing rows."""
        ledger.begin_segment()
        size = self._options.tasks or self._engine.slots
        with connect(self._source, role="checksum") as control:
            join = JoinChecksum(
                source=self._source,
                target=self._target,
                mapping=self._mapping,
                most_differences=self._options.max_repairs,
                examples=self._options.examples,
            )
            with Gang[list[RowDifference]](
                self._engine,
                control,
                join,
                size=size,
                stop=self._stop,
                kill=self._kill,
                description=f"checksum of {self._name}",
            ) as gang:
                gang.assemble(_ASSEMBLE_SECONDS)
                self._take_snapshot(gang)
                self._compare(gang, ledger, chunker)
                extra = self._verify(gang, ledger)
                found = [difference for part in gang.finish() for difference in part]
        if extra and not self._plan.aligned:
            ledger.differences += extra
            ledger.differing_chunks += 1
        return found

    def _take_snapshot(self, gang: Gang[list[RowDifference]]) -> None:
        """Let every task open its snapshot at the same moment."""
        order = json.dumps({"do": "snapshot"})
        figures = SnapshotLock(
            mapping=self._mapping,
            source=self._source,
            target=self._target,
            feed=self._feed,
            options=self._options,
            stop=self._stop,
            on_wait=lambda what: self._show(waiting_for=what),
        ).take(lambda: _ignore(gang.everyone(order, _SNAPSHOT_SECONDS)))
        self._result = replace(
            self._result,
            snapshots=self._result.snapshots + 1,
            lock_wait_ms=max(self._result.lock_wait_ms, figures.waited_ms),
            lock_held_ms=max(self._result.lock_held_ms, figures.held_ms),
        )

    def _compare(
        self, gang: Gang[list[RowDifference]], ledger: PassLedger, chunker: Chunker
    ) -> None:
        """Hand out chunks until the table, or the snapshot's time, is at its end."""
        segment = ledger.segment
        # Without alignment only a whole pass in one snapshot proves that nothing is extra.
        limit = self._options.yield_seconds if self._plan.aligned else float("inf")
        give_back = time.monotonic() + limit
        asked: dict[tuple[int, int], Chunk] = {}
        while True:
            rank = self._idlest(gang)
            fresh = not segment.dispatched or time.monotonic() < give_back
            if rank is not None and fresh and not segment.at_end:
                chunk = chunker.next_chunk(self._sizer.rows)
                if chunk is None:
                    raise ChecksumFailure("the chunks ended before the end of the table")
                segment.dispatch(chunk)
                order = json.dumps({"do": "compare", "chunk": encode_chunk(chunk)})
                asked[rank, gang.post(rank, order)] = chunk
                continue
            if not asked:
                return
            for answer in gang.collect():
                chunk = asked.pop((answer.rank, answer.number))
                self._answered(ledger, chunker, chunk, answer)

    def _idlest(self, gang: Gang[list[RowDifference]]) -> int | None:
        """Give the task with the least to do; None when all have enough."""
        rank = min(range(gang.size), key=gang.outstanding)
        return rank if gang.outstanding(rank) < _OUTSTANDING else None

    def _answered(self, ledger: PassLedger, chunker: Chunker, chunk: Chunk, answer: Answer) -> None:
        """Book one compared chunk."""
        said = json.loads(answer.text)
        ledger.segment.answer(chunk.number, said["source"], said["target"], said["differences"])
        self._sizer.finished(
            target_rows=chunk.target_rows, rows=said["source"], seconds=said["seconds"]
        )
        chunker.observed(chunk, said["source"])
        self._show(
            fraction=chunker.estimated_fraction(),
            rows=ledger.rows + ledger.segment.source_rows,
            differences=ledger.differences + ledger.segment.differences,
        )

    def _verify(self, gang: Gang[list[RowDifference]], ledger: PassLedger) -> int:
        """Prove that every row was read; give the rows of the new table that no chunk saw."""
        span = encode_chunk(ledger.segment.span)
        orders = [{"do": "count", "side": side, "chunk": span} for side in (SOURCE, TARGET)]
        source_rows, target_rows = (int(said["rows"]) for said in self._ask(gang, orders))
        extra = ledger.end_segment(source_rows, target_rows, aligned=self._plan.aligned)
        if extra:
            self._ask(gang, [{"do": "extra"}])
        return extra

    def _ask(
        self, gang: Gang[list[RowDifference]], orders: Sequence[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Give orders to the first tasks, one each as far as there are tasks; wait for all."""
        asked = {}
        for place, order in enumerate(orders):
            rank = place % gang.size
            asked[rank, gang.post(rank, json.dumps(order))] = place
        answers: dict[int, dict[str, Any]] = {}
        while len(answers) < len(orders):
            for answer in gang.collect():
                answers[asked[answer.rank, answer.number]] = json.loads(answer.text)
        return [answers[place] for place in range(len(orders))]

    def _kill(self, server: str, session: int) -> None:
        """End a task's session that does not end by itself."""
        options = self._target if server == TARGET and self._target is not None else self._source
        with contextlib.suppress(ServerFault), connect(options, role="checksum-kill") as killer:
            kill_session(killer, session)

    def _show(self, **changes: Any) -> None:
        """Publish how far the checksum is."""
        self._progress = replace(self._progress, **changes)
        if self._on_progress is not None:
            self._on_progress(self._progress)


def _ignore(_value: object) -> None:
    """Drop a value where a callback must not give one."""
