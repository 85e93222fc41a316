"""The tables beside each source: created with the mark of whose they are, kept or dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spirit_py.checkpoint.drop import drop_auxiliary, drop_left_behind
from spirit_py.checkpoint.proofs import note_proofs, read_proofs, renew_proofs
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.errors import Refusal, SchemaChanged, ServerFault, SpiritError
from spirit_py.mysql.retry import retrying
from spirit_py.mysql.tables.definition import read_table, shape_of
from spirit_py.mysql.tables.guard_column import drop_guard_columns
from spirit_py.mysql.tables.new_table import create_new_table, drop_sentinel
from spirit_py.preflight.preflight import check_after_create, mapping_of

if TYPE_CHECKING:
    from spirit_py.checkpoint.record import CheckpointRecord
    from spirit_py.contracts import SqlSession
    from spirit_py.migration.checkpoints import Checkpoints
    from spirit_py.migration.run import Run
    from spirit_py.mysql.tables.identity import Identity
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import TableSchema

#: Tries of a step after the swap, each in a session of its own.
_PATIENCE: Final = 8


class AuxiliaryTables:
    """New tables, checkpoints and sentinels of one migration's tables.

    Attributes:
        keep: leave them at the end: the swap was made, or may have been.
    """

    def __init__(
        self, run: Run, contexts: tuple[PreflightContext, ...], checkpoints: Checkpoints
    ) -> None:
        self._run = run
        self._contexts = tuple(replace(one, moment=checkpoints.moment) for one in contexts)
        self._checkpoints = checkpoints
        self._marked = False
        self._taken_over = False
        self.keep = False

    @property
    def counters(self) -> dict[tuple[str, str], str]:
        """The AUTO_INCREMENT that statements give, by schema and name of the source."""
        return {
            (context.schema, context.table): context.statement.auto_increment
            for context in self._contexts
            if context.statement.auto_increment
        }

    def clear_abandoned(self, session: SqlSession, abandoned: CheckpointRecord | None) -> None:
        """Drop what an earlier run of this program left, where it is ours.

        Args:
            abandoned: its record, which may be about more tables than this run.
        """
        if abandoned is not None:
            besides = [(context.schema, context.table) for context in self._contexts]
            for line in drop_left_behind(session, abandoned, besides):
                self._run.message(line)
        for context in self._contexts:
            self._drop(session, context)

    def _drop(self, session: SqlSession, context: PreflightContext) -> None:
        """Drop what is proven to be ours beside a table; say what is not."""
        if kept := drop_auxiliary(session, context.schema, context.table):
            self._run.warn(kept)

    @staticmethod
    def building(session: SqlSession, context: PreflightContext) -> str:
        """Return the name under which the new table, or another copy, is built."""
        return read_proofs(session, context.schema, context.table).building

    def mark(self, session: SqlSession) -> None:
        """Say whose the tables are that come next, before the first of them; safe to repeat."""
        if self._marked:
            return
        self._marked = True
        self._run.stack.push(self._leave)
        self._checkpoints.mark(session)

    def resume(self, session: SqlSession) -> tuple[TableMapping, ...]:
        """Take over the new tables of an earlier run, whose checks were made then."""
        self._marked = self._taken_over = True
        self._run.stack.push(self._leave)
        return tuple(self._mapping(session, context) for context in self._contexts)

    @staticmethod
    def _mapping(session: SqlSession, context: PreflightContext) -> TableMapping:
        drop_guard_columns(session, context.schema, context.names.new)
        renew_proofs(session, context.schema, context.table)
        target = read_table(session, context.schema, context.names.new)
        if target is None:
            raise SchemaChanged(
                f"somebody else dropped the new table {context.schema}.{context.names.new}",
                hint="start the migration again: it begins at the beginning",
            )
        return mapping_of(context, target)

    def create(self, session: SqlSession) -> tuple[TableMapping, ...]:
        """Create the new tables, and check what can only be checked on them."""
        self.mark(session)
        mappings = tuple(self._create(session, context) for context in self._contexts)
        self._checkpoints.created(mappings)
        return mappings

    def _create(self, session: SqlSession, context: PreflightContext) -> TableMapping:
        def note(new: Identity) -> None:
            note_proofs(session, context.schema, context.table, new=new)

        with self._run.session("alter", native=True) as native:
            target = create_new_table(
                session,
                native,
                context.source,
                context.statement,
                building=self.building(session, context),
                note=note,
            )
        watched = replace(context, tell=self._run.message, check_stop=self._run.stop.check)
        mapping, findings = check_after_create(watched, target)
        self._run.warn_of(findings)
        return mapping

    def _leave(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Keep what the next run can carry on with; drop it where there is nothing to carry on.

        A failure on the way is told, and hides nothing.
        """
        self._run.leaving = True
        if self.keep or (self._taken_over and isinstance(error, Refusal)):
            return
        if self._to_be_resumed(error):
            self._run.message(
                "the copy and its checkpoint are kept: the same command carries on from here",
                tables=", ".join(f"{c.schema}.{c.names.checkpoint}" for c in self._contexts),
            )
            self._run.report.resumable = True
            return
        for context in self._contexts:
            names = context.names
            try:
                with self._run.session("cleanup") as session:
                    # Behind the same address there may be another server by now (R14).
                    self._drop(session, context)
            except ServerFault as fault:
                self._run.warn(
                    f"the tables {names.new} and {names.checkpoint} could not be dropped:"
                    f" {fault.text}; the next run drops them"
                )

    def _to_be_resumed(self, error: BaseException | None) -> bool:
        """Return whether the next run may carry on: only what is of no use is dropped (R17)."""
        if error is None or self._run.config.dry_run or not self._checkpoints.resumable:
            return False
        cause = self._run.stop.cause_of(error)
        return not isinstance(cause, SpiritError) or cause.resumable

    def drop_marks(self) -> None:
        """Drop checkpoints and sentinels after the swap; what stays is remarked."""
        # The first table's checkpoint has the record by which a later run would know of the rest.
        for context in reversed(self._contexts):
            with self._run.remarked(f"the checkpoint table {context.names.checkpoint}"):
                retrying(self._run.stop, attempts=_PATIENCE)(self._drop_mark, context)

    def _drop_mark(self, context: PreflightContext) -> None:
        """Drop one table's, in a session of its own: a server that restarts is waited for."""
        with self._run.session("cleanup") as session:
            drop_sentinel(session, context.schema, context.names.sentinel)
            CheckpointTable(context.schema, context.table).drop(session)


def require_unchanged(session: SqlSession, source: TableSchema) -> None:
    """Compare the source's definition again: from here on the feed sees every DDL (R14).

    Raises:
        SchemaChanged: somebody else's DDL came between.
    """
    found = read_table(session, source.schema, source.name)
    if found is None or shape_of(found) != shape_of(source):
        raise SchemaChanged(
            f"somebody else changed the definition of {source.schema}.{source.name} while the"
            " migration was prepared",
            hint="see what was changed, then start the migration again",
        )
