"""The tables beside each source: created with the mark of whose they are, dropped at the end."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spirit_py import __version__
from spirit_py.checkpoint.record import CheckpointRecord, TableProgress
from spirit_py.checkpoint.store import CheckpointStore
from spirit_py.errors import Refusal, SchemaChanged, ServerFault
from spirit_py.mysql.inspect import read_table, shape_of
from spirit_py.mysql.newtable import create_new_table, drop_auxiliary_tables, drop_table
from spirit_py.preflight.preflight import check_after_create
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession
    from spirit_py.preflight.context import PreflightContext
    from spirit_py.runner.run import Run
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import TableSchema


class AuxiliaryTables:
    """New tables, checkpoints and sentinels of one migration's tables.

    Attributes:
        keep: leave them at the end: the swap was made, or may have been.
    """

    def __init__(self, run: Run, contexts: tuple[PreflightContext, ...]) -> None:
        self._run = run
        self._contexts = contexts
        self._marked = False
        self.keep = False

    def clear_abandoned(self, session: SqlSession) -> None:
        """Drop what an earlier run of this program left; the checks have seen that it is ours."""
        for context in self._contexts:
            store = CheckpointStore(context.schema, context.names.checkpoint)
            if store.exists(session):
                self._run.message(
                    "an earlier run of spirit-py was killed here; its tables are dropped and the"
                    " migration starts afresh",
                    table=f"{context.schema}.{context.table}",
                )
                drop_table(session, context.schema, context.names.new)
                store.drop(session)

    def mark(self, session: SqlSession) -> None:
        """Say whose the tables are that come next, before the first of them; safe to repeat."""
        if self._marked:
            return
        self._marked = True
        self._run.stack.callback(self._drop)
        for context in self._contexts:
            store = CheckpointStore(context.schema, context.names.checkpoint)
            store.create(session, self._record(context))

    def create(self, session: SqlSession) -> tuple[TableMapping, ...]:
        """Create the new tables, and check what can only be checked on them."""
        self.mark(session)
        return tuple(self._create(session, context) for context in self._contexts)

    def _create(self, session: SqlSession, context: PreflightContext) -> TableMapping:
        with self._run.session("alter", native=True) as native:
            target = create_new_table(session, native, source_of(context), context.statement)
        mapping, findings = check_after_create(context, target)
        self._run.warn_of(findings)
        return mapping

    def _record(self, context: PreflightContext) -> CheckpointRecord:
        return CheckpointRecord(
            statement=context.statement.normalized,
            tables=(TableProgress(schema=context.schema, table=context.table),),
            server_uuid=context.facts.uuid,
            phase=self._run.figures.phase.value,
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            program=__version__,
        )

    def _drop(self) -> None:
        """Drop everything of a migration that did not get to the swap."""
        if self.keep:
            return
        for context in self._contexts:
            names = context.names
            try:
                with self._run.session("cleanup") as session:
                    drop_auxiliary_tables(session, context.schema, context.table, old=False)
            except ServerFault as fault:
                self._run.warn(
                    f"the tables {names.new} and {names.checkpoint} could not be dropped:"
                    f" {fault.text}; the next run drops them"
                )

    def drop_marks(self) -> None:
        """Drop checkpoints and sentinels after the swap; what stays is remarked."""
        for context in self._contexts:
            names = AuxiliaryNames.of(context.table)
            with (
                self._run.remarked(f"the checkpoint table {names.checkpoint}"),
                self._run.session("cleanup") as session,
            ):
                CheckpointStore(context.schema, names.checkpoint).drop(session)
                drop_table(session, context.schema, names.sentinel)


def source_of(context: PreflightContext) -> TableSchema:
    """Give the source table, which the checks have found to exist."""
    if context.source is None:
        raise Refusal(f"there is no table {context.schema}.{context.table}", hint="check the name")
    return context.source


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
