"""The phases of one migration, in order (design section 2)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from spirit_py.errors import HeldBack
from spirit_py.migration.auxiliary import AuxiliaryTables, require_unchanged
from spirit_py.migration.checkpoints import Checkpoints
from spirit_py.migration.copied import follow
from spirit_py.migration.deferral import Deferral
from spirit_py.migration.dry import begin_rehearsal, note_rehearsal
from spirit_py.migration.opening import open_migration
from spirit_py.migration.pair import open_feed
from spirit_py.migration.reverse.phase import ReversePhase
from spirit_py.migration.shortcuts import change_in_place
from spirit_py.migration.swap import FORWARD, drop_swapped_out, swap_in_new_tables
from spirit_py.phases import Phase

if TYPE_CHECKING:
    from spirit_py.checkpoint.record import CheckpointRecord
    from spirit_py.cutover.plan import CutoverResult
    from spirit_py.migration.copied import CopiedPair
    from spirit_py.migration.opening import Opening
    from spirit_py.migration.run import Run
    from spirit_py.mysql.session import Session
    from spirit_py.table.mapping import TableMapping


class Migration:
    """One migration, of one table or of several that change together; :meth:`run` once."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._auxiliary: AuxiliaryTables
        self._checkpoints: Checkpoints
        self._reverse: ReversePhase
        #: What an earlier run wrote down, when this one carries it on.
        self._earlier: CheckpointRecord | None = None

    def run(self) -> None:
        """Run all phases; on return the tables are changed, or were rehearsed.

        Raises:
            SpiritError: as the part that failed; everything is closed and cleaned by then.
        """
        run = self._run
        with run.stack:
            with run.first_session("driver") as session:
                opening = open_migration(run, session)
                mappings = self._prepare(session, opening)
            if mappings:
                self._copy_path(mappings)
            elif opening.resume is not None:
                self._finish_swapped(opening)
            run.figures.enter(Phase.DONE)
        run.report.outcome = "rehearsed" if run.config.dry_run else "done"

    def _finish_swapped(self, opening: Opening) -> None:
        """Carry on behind an earlier run's swap: with reverse replication, or the cleanup."""
        with self._run.session("keep") as session:
            reverted = self._reverse.go_on(session)
        if not reverted:
            self._clean_up([(context.schema, context.table) for context in opening.contexts])

    def _prepare(self, session: Session, opening: Opening) -> tuple[TableMapping, ...]:
        """Try the shortcuts, create the new tables or take over those of an earlier run.

        Returns:
            Nothing when there is nothing to copy: the server did it all, or all is swapped.
        """
        run, contexts, resume = self._run, opening.contexts, opening.resume
        self._earlier = resume.record if resume else None
        self._checkpoints = Checkpoints(run, contexts, self._earlier)
        self._auxiliary = AuxiliaryTables(run, contexts, self._checkpoints)
        self._reverse = ReversePhase(run, contexts, self._checkpoints)
        if resume is not None:
            run.report.algorithm = "copy"
            if resume.cleanup:
                return ()
            _ = run.engine
            mappings = self._auxiliary.resume(session)
            self._reverse.plan(mappings)
            return mappings
        run.enter(Phase.SHORTCUT)
        self._auxiliary.clear_abandoned(session, opening.abandoned)
        if change_in_place(run, session, contexts, self._auxiliary):
            return ()
        run.report.algorithm = "copy"
        _ = run.engine
        run.enter(Phase.CREATE)
        mappings = self._auxiliary.create(session)
        self._reverse.plan(mappings)
        return mappings

    def _copy_path(self, mappings: tuple[TableMapping, ...]) -> None:
        """Copy while changes are applied, drain, check, swap."""
        run = self._run
        rehearsal = begin_rehearsal(run)
        works = self._follow(mappings)
        feed = works[0].feed
        self._enter(Phase.COPY)
        for work in works:
            work.copy()
        self._enter(Phase.DRAIN)
        feed.set_watermark_optimization(enabled=False)
        feed.catch_up(run.show)
        self._enter(Phase.ANALYZE)
        for work in works:
            work.analyze()
        self._enter(Phase.CHECKSUM)
        results = [work.check() for work in works]
        if run.config.dry_run:
            note_rehearsal(run, rehearsal, works, results)
            return
        swapped = self._swap(works)
        reverted = self._reverse.keep(swapped, feed)
        self._checkpoints.end()
        if not reverted:
            self._clean_up([work.source_name for work in works])

    def _enter(self, phase: Phase) -> None:
        """Go to the next phase, and write that down."""
        self._run.enter(phase)
        self._checkpoints.soon()

    def _clean_up(self, tables: list[tuple[str, str]]) -> None:
        """Drop what the swap left; the checkpoint last, by which a later run would know of it."""
        run = self._run
        run.figures.enter(Phase.CLEANUP)
        if run.config.skip_drop_after_cutover:
            left = [FORWARD.swapped_out(table) for _, table in tables]
        else:
            left = drop_swapped_out(run, tables, FORWARD)
        run.report.old_table = ", ".join(left)
        self._auxiliary.drop_marks()

    def _follow(self, mappings: tuple[TableMapping, ...]) -> list[CopiedPair]:
        """Start the change feed over all tables, or go on where an earlier run's stopped."""
        run = self._run
        feed, applier = open_feed(run, run.stop, run.stack)
        run.figures.source = feed
        record = self._earlier
        works = [follow(run, mapping, feed, applier, record) for mapping in mappings]
        if record is None:
            feed.start()
        else:
            feed.start_from_position(
                record.position, record.settled_at, pass_hidden=not run.config.no_repair
            )
        for mapping in mappings:
            run.step("definition", partial(require_unchanged, source=mapping.source))
        run.report.start_position = feed.position()
        run.message("the change feed runs", position=run.report.start_position)
        if not run.config.dry_run:
            self._checkpoints.follow(feed, works)
        return works

    def _swap(self, works: list[CopiedPair]) -> CutoverResult:
        """Swap when no sentinel defers it; one that was made by hand, or between tries, counts."""
        run = self._run
        deferral = Deferral(run, works)
        if run.config.defer_cutover and not self._checkpoints.deferred:
            deferral.create()
            self._checkpoints.sentinel_created()
        while True:
            if deferral.present():
                self._enter(Phase.SENTINEL)
                deferral.wait()
            for work in works:
                if not work.proven:
                    run.message(f"comparing {work.name} anew: rows were written over others")
                    work.check()
            self._enter(Phase.CUTOVER)
            try:
                return swap_in_new_tables(run, works, self._auxiliary, held_back=deferral.present)
            except HeldBack as held:
                run.message(f"{held}: waiting again")
                if not all(work.proven for work in works):
                    self._enter(Phase.CHECKSUM)
