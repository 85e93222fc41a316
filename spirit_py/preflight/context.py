"""What the checks look at, read once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.mysql.grants import Grants
    from spirit_py.statement import AlterStatement
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import TableSchema


@dataclass(frozen=True, kw_only=True)
class PreflightContext:
    """One migration before it has begun.

    Attributes:
        session: a session with the program's settings; checks only read through it.
        source: the table; None when there is no such base table.
        target: the new table, empty; None before it was created.
        mapping: source to new table; None before the new table was created.
        moment: when the migration began, ISO 8601 in UTC: the time that defaults of new columns
            are evaluated at; empty where nothing is to be written.
        tell: takes a line about a check that takes long.
        check_stop: raises when a stop was asked for; called between the statements of such a check.
    """

    session: SqlSession
    config: MigrationConfig
    facts: ServerFacts
    grants: Grants
    statement: AlterStatement
    source: TableSchema | None
    target: TableSchema | None = None
    mapping: TableMapping | None = None
    moment: str = ""
    tell: Callable[[str], None] = lambda _: None
    check_stop: Callable[[], None] = lambda: None

    @property
    def schema(self) -> str:
        """The schema of the table."""
        return self.source.schema if self.source else self.statement.schema

    @property
    def table(self) -> str:
        """The name of the table, as the server keeps it where it was found."""
        return self.source.name if self.source else self.statement.table

    @property
    def names(self) -> AuxiliaryNames:
        """Names of the auxiliary tables."""
        return AuxiliaryNames.of(self.table)
