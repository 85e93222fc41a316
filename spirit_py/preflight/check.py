"""The context of a check, the search for one row, and the findings: each a cause and a remedy."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from spirit_py.classes import dataclass, field
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.events.event import Tell, untold
from spirit_py.sql import identifier_list, quote_table
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.mysql.grants import Grants
    from spirit_py.statement import AlterStatement
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import TableSchema


@dataclass(frozen=True, kw_only=True)
class PreflightContext:
    """One migration before it has begun; checks only read through ``session``.

    ``found`` is None when there is no such base table, ``made`` before the new table was created.
    ``altered`` are the statements of the run's tables, by schema and name. ``moment`` is ISO 8601
    in UTC, for the defaults of new columns; empty if nothing is written. ``check_stop`` returns
    when a long check may go on; raises on a stop.
    """

    session: SqlSession
    config: MigrationConfig
    facts: ServerFacts
    grants: Grants
    statement: AlterStatement
    found: TableSchema | None
    altered: Mapping[tuple[str, str], AlterStatement] = field(default_factory=dict)
    made: TableMapping | None = None
    moment: str = ""
    tell: Tell = untold
    check_stop: Callable[[], None] = lambda: None

    @property
    def schema(self) -> str:
        """The schema of the table."""
        return self.found.schema if self.found else self.statement.schema

    @property
    def table(self) -> str:
        """The name of the table, as the server keeps it where it was found."""
        return self.found.name if self.found else self.statement.table

    @property
    def source(self) -> TableSchema:
        """The table, for checks that run where there is one."""
        if self.found is None:
            raise Refusal(
                f"there is no table {self.schema}.{self.table}",
                hint="check the name",
                error_code=ErrorCode.NO_SUCH_TABLE,
            )
        return self.found

    @property
    def mapping(self) -> TableMapping:
        """Source to new table, for checks that run after the new table was created."""
        if self.made is None:
            raise AssertionError("the new table was not created yet")
        return self.made

    @property
    def names(self) -> AuxiliaryNames:
        """Names of the auxiliary tables."""
        return AuxiliaryNames.of(self.table)


class TooLong(Refusal):
    """A check would take longer than a plan may; a warning."""


class Severity(enum.Enum):
    """The consequence of a finding."""

    REFUSAL = "refusal"
    WARNING = "warning"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding of a check; ``locked`` and ``denied`` are reasons for which it could not look."""

    severity: Severity
    check: str = ""
    cause: str
    remedy: str = ""
    details: tuple[str, ...] = ()
    code: ErrorCode | None = None
    locked: bool = False
    denied: bool = False


Findings: TypeAlias = Iterator[Finding]


def refuse(
    cause: str, remedy: str, details: Sequence[str] = (), *, code: ErrorCode | None = None
) -> Finding:
    """Return that the migration may not run."""
    return Finding(
        severity=Severity.REFUSAL, cause=cause, remedy=remedy, details=tuple(details), code=code
    )


def warn(cause: str, remedy: str = "", *, code: ErrorCode | None = None) -> Finding:
    """Return that the operator should know something."""
    return Finding(severity=Severity.WARNING, cause=cause, remedy=remedy, code=code)


def refusal_of(findings: Sequence[Finding], what: str = "the migration") -> Refusal:
    """Report all refusals together, for ``what``: each with its cause and its remedy."""
    if len(findings) == 1:
        only = findings[0]
        return Refusal(only.cause, hint=only.remedy, details=only.details, error_code=only.code)
    lines: list[str] = []
    for number, finding in enumerate(findings, start=1):
        lines.append(f"{number}. {finding.cause}")
        lines.extend(f"   {detail}" for detail in finding.details)
        lines.append(f"   remedy: {finding.remedy}")
    refusal = Refusal(
        f"{len(findings)} checks refuse {what}; nothing was written",
        hint="see the remedy of each",
        details=tuple(lines),
        error_code=ErrorCode.CHECKS_REFUSE,
    )
    refusal.causes = tuple(finding.code for finding in findings if finding.code)
    return refusal


SECONDS: float = 30


def first_row(
    context: PreflightContext, condition: str, columns: tuple[str, ...], *, seconds: float = 0.0
) -> tuple[Any, ...] | None:
    """Return columns of some row that meets the condition; raise ServerFault if out of time."""
    table = quote_table(context.schema, context.table)
    if context.made is not None and context.made.keep is not None:
        condition = f"({condition}) AND {context.made.keep.condition()}"
    hint = f"/*+ MAX_EXECUTION_TIME({int((seconds or SECONDS) * 1000)}) */"
    rows = context.session.query(
        f"SELECT {hint} {identifier_list(columns)} FROM {table} WHERE {condition} LIMIT 1"
    )
    return rows[0] if rows else None
