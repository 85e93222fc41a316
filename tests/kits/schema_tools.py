"""Definitions read, new tables created and preflight run, as a migration does it."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spirit_py.config import MigrationConfig
from spirit_py.errors import Refusal
from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables.definition import read_table
from spirit_py.mysql.tables.identity import drop_unreferenced
from spirit_py.mysql.tables.new_table import NewTable
from spirit_py.plan import make_plan
from spirit_py.preflight.preflight import check_after_create, check_before_create, prepare
from spirit_py.statement import alter_of
from spirit_py.table.names import AuxiliaryNames
from tests.kits.connection import options_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.session import Session
    from spirit_py.preflight.check import Finding
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import TableSchema


@dataclass(frozen=True)
class SchemaTools:
    """A schema with the two kinds of sessions that definitions are changed through."""

    schema: str
    options: ConnectionOptions
    session: Session
    native: Session

    def table(self, name: str = "t") -> TableSchema:
        """Read a table that is there."""
        found = read_table(self.session, self.schema, name)
        assert found is not None
        return found

    def create(self, alter: str, name: str = "t") -> TableSchema:
        """Create the new table of ``name``."""
        statement = alter_of(self.schema, name, alter)
        return NewTable(self.session, self.native, self.table(name), statement).create()

    def config(self, alter: str, **more: Any) -> MigrationConfig:
        """Return the configuration of a migration."""
        given: dict[str, Any] = {
            "connection": self.options,
            "database": self.schema,
            "table": "t",
        } | more
        return MigrationConfig(alter=alter, **given)

    def before(self, alter: str, **more: Any) -> tuple[Finding, ...]:
        """Run the checks before anything is written; return the warnings."""
        config = self.config(alter, **more)
        with foreseen(config):
            return check_before_create(prepare(self.session, config))

    def after(self, alter: str, **more: Any) -> tuple[TableMapping, tuple[Finding, ...]]:
        """Run the checks on the empty new table, then drop it."""
        config = self.config(alter, **more)
        with foreseen(replace(config, no_shortcut=True)):
            return self._after(config)

    def _after(self, config: MigrationConfig) -> tuple[TableMapping, tuple[Finding, ...]]:
        (context,) = prepare(self.session, config)
        target = NewTable(self.session, self.native, context.source, context.statement).create()
        try:
            return check_after_create(context, target)
        finally:
            drop_unreferenced(self.session, self.schema, AuxiliaryNames.of("t").new)


@contextlib.contextmanager
def foreseen(config: MigrationConfig) -> Iterator[None]:
    """Play the plan of the same migration: what is refused in the block, it has refused too."""
    plan = make_plan(config, sample=False)
    try:
        yield
    except Refusal as refusal:
        causes = [note.cause for note in plan.refusals]
        numbered = re.compile(r"\d+\. (.*)")
        said = [found[1] for line in refusal.details if (found := numbered.fullmatch(line))]
        missing = [cause for cause in said or [refusal.message] if cause not in causes]
        assert not missing, f"the plan does not refuse {missing}, but {causes}"
        raise


@contextlib.contextmanager
def open_schema_tools(db: Any, options: ConnectionOptions | None = None) -> Iterator[SchemaTools]:
    """Open both sessions in a test's schema."""
    options = options or options_of(db.server)
    with (
        connect(options, database=db.name, role="driver") as session,
        connect(options, database=db.name, role="ddl", native=True) as native,
    ):
        yield SchemaTools(db.name, options, session, native)
