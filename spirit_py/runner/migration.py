"""The phases of one migration, in order (design section 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.applier.applier import SqlApplier
from spirit_py.change.source import binlog_source
from spirit_py.phases import Phase
from spirit_py.runner.auxiliary import AuxiliaryTables, require_unchanged
from spirit_py.runner.deferral import Deferral
from spirit_py.runner.dry import begin_rehearsal, note_rehearsal
from spirit_py.runner.opening import open_migration
from spirit_py.runner.shortcuts import change_in_place
from spirit_py.runner.swap import drop_old_tables, swap_tables
from spirit_py.runner.work import TableWork

if TYPE_CHECKING:
    from spirit_py.change.feed import ChangeFeed
    from spirit_py.mysql.session import Session
    from spirit_py.runner.run import Run
    from spirit_py.table.mapping import TableMapping


class Migration:
    """One migration, of one table or of several that change together; :meth:`run` once."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._auxiliary: AuxiliaryTables

    def run(self) -> None:
        """Run all phases; on return the tables are changed, or were rehearsed.

        Raises:
            SpiritError: as the part that failed; everything is closed and cleaned by then.
        """
        run = self._run
        with run.stack:
            with run.first_session() as session:
                mappings = self._prepare(session)
            if mappings:
                self._copy_path(mappings)
            run.figures.enter(Phase.DONE)
        run.report.outcome = "rehearsed" if run.config.dry_run else "done"

    def _prepare(self, session: Session) -> tuple[TableMapping, ...]:
        """Check, try the shortcuts, create the new tables; none when the server did it all."""
        run = self._run
        contexts = open_migration(run, session)
        self._auxiliary = AuxiliaryTables(run, contexts)
        run.enter(Phase.SHORTCUT)
        self._auxiliary.clear_abandoned(session)
        if change_in_place(run, session, contexts, self._auxiliary):
            return ()
        run.report.algorithm = "copy"
        _ = run.engine
        run.enter(Phase.CREATE)
        return self._auxiliary.create(session)

    def _copy_path(self, mappings: tuple[TableMapping, ...]) -> None:
        """Copy while changes are applied, drain, check, swap."""
        run = self._run
        rehearsal = begin_rehearsal(run)
        works = self._follow(mappings)
        feed = works[0].feed
        run.enter(Phase.COPY)
        for work in works:
            work.copy()
        run.enter(Phase.DRAIN)
        feed.set_watermark_optimization(enabled=False)
        feed.block_wait()
        feed.flush()
        run.enter(Phase.ANALYZE)
        for work in works:
            work.analyze()
        run.enter(Phase.CHECKSUM)
        results = [work.check() for work in works]
        if run.config.dry_run:
            note_rehearsal(run, rehearsal, works, results)
            return
        self._wait_for_the_operator(works)
        run.enter(Phase.CUTOVER)
        swap_tables(run, mappings, feed, self._auxiliary)
        run.figures.enter(Phase.CLEANUP)
        self._auxiliary.drop_marks()
        drop_old_tables(run, mappings)

    def _follow(self, mappings: tuple[TableMapping, ...]) -> list[TableWork]:
        """Start the change feed over all tables."""
        run = self._run
        applier = SqlApplier(
            run.config.connection,
            sessions=run.config.feed.apply_threads,
            batch_rows=run.config.feed.batch_rows,
            stop=run.stop,
        )
        run.closing("the applier", applier.close)
        feed: ChangeFeed = binlog_source(run.config.connection, applier, run.config.feed, run.stop)
        run.closing("the change feed", feed.close)
        run.figures.source = feed
        works = [
            TableWork(
                run=run,
                mapping=mapping,
                feed=feed,
                applier=applier,
                subscription=feed.add_subscription(mapping),
            )
            for mapping in mappings
        ]
        feed.start()
        with run.session("definition") as session:
            for mapping in mappings:
                require_unchanged(session, mapping.source)
        run.report.start_position = feed.position()
        run.message("the change feed runs", position=run.report.start_position)
        return works

    def _wait_for_the_operator(self, works: list[TableWork]) -> None:
        """Wait while a sentinel defers the cutover; one that was made by hand counts too."""
        deferral = Deferral(self._run, works)
        if self._run.config.defer_cutover:
            deferral.create()
        if deferral.present():
            self._run.enter(Phase.SENTINEL)
            deferral.wait()
