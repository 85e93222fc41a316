"""One table on its way through the phases: its mapping, and the copying and checking of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spirit_py.checksum.checker import Checker
from spirit_py.checksum.result import ChecksumOptions
from spirit_py.chunk.chunker import make_chunker
from spirit_py.chunk.watermark import CopiedSoFar
from spirit_py.copier.boundary import BoundaryReader
from spirit_py.copier.copier import Copier, CopyOptions
from spirit_py.copier.throttle import BacklogThrottler
from spirit_py.errors import HeldBack
from spirit_py.mysql.tables.histograms import carry_histograms
from spirit_py.sql import quote_table

if TYPE_CHECKING:
    from spirit_py.checksum.result import ChecksumResult
    from spirit_py.contracts import Applier, Subscription
    from spirit_py.feed.feed import ChangeFeed
    from spirit_py.migration.run import Run
    from spirit_py.stop import StopSwitch
    from spirit_py.table.keys import KeyBound
    from spirit_py.table.mapping import TableMapping


@dataclass
class _UnderWay:
    """Who works on a table now, or did last."""

    copier: Copier | None = None
    checker: Checker | None = None
    proven: int = -1


@dataclass(frozen=True, kw_only=True)
class TableWork:
    """One table of a migration, once its new table exists.

    Attributes:
        subscription: the table's side of ``feed``.
        before: what earlier runs have copied.
        copied_to: the end of that; None for nothing.
        checked_to: how far an earlier run's checksum found no difference; None for nothing.
    """

    run: Run
    mapping: TableMapping
    feed: ChangeFeed
    applier: Applier
    subscription: Subscription
    before: CopiedSoFar = field(default_factory=CopiedSoFar)
    copied_to: KeyBound | None = None
    checked_to: KeyBound | None = None
    _under_way: _UnderWay = field(default_factory=_UnderWay)

    @property
    def source_name(self) -> tuple[str, str]:
        """The source's schema and name."""
        return self.mapping.source.schema, self.mapping.source.name

    @property
    def name(self) -> str:
        """The source's name, for messages."""
        return ".".join(self.source_name)

    def copied_so_far(self) -> CopiedSoFar:
        """Return what is copied without a gap in all runs. No I/O; any thread may ask."""
        copier = self._under_way.copier
        return self.before if copier is None else copier.so_far()

    def checked_up_to(self) -> tuple[str, ...]:
        """Return how far the checksum found no difference, as literals; any thread may ask.

        Where rows may meet in the new table, a resumed run applies old images over newer rows, and
        one of them may push out a row that was compared: then nothing counts that an earlier run
        has compared.
        """
        checker = self._under_way.checker
        if checker is None or self.mapping.merging:
            return ()
        bound = checker.low_watermark
        return () if bound is None else bound.literals

    def copy(self) -> None:
        """Copy every row while changes are applied, above what earlier runs have copied."""
        run = self.run
        if self.before.finished:
            run.figures.copied_before(self.before.rows, self.before.chunks)
            return
        run.figures.waiting_for = "Spark to start"
        slots = run.engine.slots
        run.figures.waiting_for = ""
        reader = BoundaryReader(run.config.connection, stop=run.stop, tell=run.show)
        run.closing("the chunker's session", reader.close)
        chunker = make_chunker(self.mapping, reader.query)
        chunker.restart(self.copied_to)
        copier = Copier(
            engine=run.engine,
            mapping=self.mapping,
            connection=run.config.connection,
            chunker=chunker,
            query=reader.query,
            subscription=self.subscription,
            throttler=BacklogThrottler(self.feed.statistics),
            stop=run.stop,
            options=CopyOptions(
                slots=slots,
                target_chunk_time=run.config.target_chunk_time,
                own_writes=run.config.feed.own_writes,
            ),
            before=self.before,
        )
        self._under_way.copier = copier
        run.figures.copying(copier, self.mapping.source)
        copier.run()
        copied = copier.statistics()
        run.message(
            f"copied {copied.rows} rows of {self.name} in {copied.chunks} chunks",
            seconds=round(copied.seconds, 1),
        )

    def analyze(self) -> None:
        """Give the optimizer statistics of the new table before the application meets it."""
        table = quote_table(self.mapping.target.schema, self.mapping.target.name)
        sql = f"ANALYZE NO_WRITE_TO_BINLOG TABLE {table}"
        self.run.step("analyze", lambda session: session.query(sql))
        for trouble in self.run.step(
            "histograms", lambda session: carry_histograms(session, self.mapping)
        ):
            self.run.warn(f"a histogram of {self.name} does not come along: {trouble}")

    def check(self, stop: StopSwitch | None = None) -> ChecksumResult:
        """Compare every row; a pass without a difference is needed.

        Args:
            stop: ends this checksum alone; without it, the run's own switch.
        """
        run = self.run
        checker = Checker(
            mapping=self.mapping,
            source=run.config.connection,
            engine=run.engine,
            stop=stop or run.stop,
            feed=self.feed,
            applier=self.applier,
            options=ChecksumOptions(
                lock_wait_timeout=math.ceil(run.config.lock_wait_timeout),
                yield_seconds=run.config.checksum_yield_timeout,
                max_passes=1 if run.config.no_repair else ChecksumOptions.max_passes,
            ),
            resume_above=self._undisturbed(),
        )
        self._under_way.checker = checker
        run.figures.checking(checker, self.mapping.source)
        result = checker.run()
        self._under_way.proven = checker.proven
        run.figures.clean(self.mapping.source)
        run.message(
            f"checksum of {self.name} clean: {result.rows} rows compared in pass {result.passes}",
            differences=result.differences,
            repaired_chunks=result.repaired_chunks,
            lock_held_ms=round(result.lock_held_ms, 1),
        )
        return result

    @property
    def proven(self) -> bool:
        """Whether nothing may have pushed a row out of the new table since it was compared."""
        if not self.mapping.merging:
            return True
        return self.feed.overwrites(self.mapping) == self._under_way.proven

    def require_proven(self) -> None:
        """Hold the swap back where the table must be compared once more.

        Raises:
            HeldBack: it must.
        """
        if not self.proven:
            raise HeldBack(
                f"{self.name} must be compared once more: a transaction larger than the memory was"
                " written over rows in its way",
                hint="run the same command again",
            )

    def _undisturbed(self) -> KeyBound | None:
        """Return how far the rows need not be compared again; None for none of them.

        What an earlier run has compared counts only when nobody wrote to the new table since: the
        feed does not bring its rows back.
        """
        if self._under_way.checker is not None:
            return None
        if self.feed.is_blind(self.mapping):
            self.run.message(
                f"the checksum of {self.name} begins at the beginning: changes that are not in the"
                " binlog as rows were passed over"
            )
            return None
        if self.checked_to is None or self.mapping.merging:
            return None
        target = f"{self.mapping.target.schema}.{self.mapping.target.name}"
        if self.feed.is_disturbed(self.mapping):
            self.run.message(
                f"the checksum of {self.name} begins at the beginning: {target} was written to"
                " after the checkpoint that the earlier run's checksum had come to"
            )
            return None
        self.run.message(
            f"the checksum of {self.name} goes on where the earlier run's stopped: nobody wrote to"
            f" {target} since",
        )
        return self.checked_to
