"""What a batch changes: one change for each table, from patterns or from a file.

Without quotes ``%`` stands for any text and ``_`` for any character, unless a backslash precedes. A
part in backquotes is a name, taken as it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NoReturn

from spirit_py.batch.store import marked_tables
from spirit_py.checkpoint.table import checkpoint_tables
from spirit_py.classes import dataclass, field, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, UsageFault
from spirit_py.mysql.tables.definition import near_name, stored_name
from spirit_py.preflight.preflight import with_present_name
from spirit_py.sql import is_like, quote_identifier
from spirit_py.statement import ClauseKind, alter_of, parse_statement
from spirit_py.statement.lexer import SqlMode, not_understood
from spirit_py.statement.parse import read_script
from spirit_py.table.names import AuxiliaryNames, OfTable, is_building_name
from spirit_py.units import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from spirit_py.command_config import BatchConfig
    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.statement import AlterStatement
    from spirit_py.statement.parse import ScriptStatement
    from spirit_py.table.names import Name

_PART: Final = r"(?:`((?:[^`]|``)+)`|([^.`]+))"
_PATTERN: Final = re.compile(rf"(?:{_PART}\.)?{_PART}")


@dataclass(frozen=True)
class NamePattern:
    """One part of a pattern: of LIKE, or an exact name."""

    text: str
    exact: bool = False

    @property
    def wild(self) -> bool:
        """Whether names that differ may match."""
        return not self.exact and "%" in re.sub(r"\\.", "", self.text)

    @property
    def operator(self) -> str:
        """The operator of SQL that compares a name with :attr:`text`."""
        return "=" if self.exact else "LIKE"

    def fits(self, name: str) -> bool:
        """Return whether a name matches, in the case that it has here."""
        return self.text == name if self.exact else is_like(name, self.text)


@dataclass(frozen=True)
class TablePattern:
    """A pattern of schema and table; ``given`` is as the operator wrote it."""

    given: str
    schema: NamePattern
    table: NamePattern

    @property
    def condition(self) -> str:
        """The condition on a row of ``information_schema.TABLES``, with two parameters."""
        schema, table = self.schema.operator, self.table.operator
        return f"(TABLE_SCHEMA {schema} %s AND TABLE_NAME {table} %s)"

    @property
    def parameters(self) -> tuple[str, str]:
        """The parameters of :attr:`condition`."""
        return self.schema.text, self.table.text

    def fits(self, name: Name) -> bool:
        """Return whether a table matches, which need not be there."""
        return self.schema.fits(name[0]) and self.table.fits(name[1])


def read_pattern(text: str, schema: str) -> TablePattern:
    """Read a pattern; ``schema`` is its default. UsageFault for no pattern, or no schema."""
    found = _PATTERN.fullmatch(text)
    if found is None:
        raise UsageFault(
            f"{text!r} is not a table pattern",
            hint="write for instance 'shop_%.orders'; a name with a dot or a backquote goes in"
            " backquotes",
        )
    quoted, plain, quoted_table, plain_table = found.groups()
    if quoted is None and plain is None:
        if not schema:
            raise UsageFault(
                f"the pattern {text!r} names no schema",
                hint="write for instance 'shop_%.orders', or add --database",
            )
        of_schema = NamePattern(schema, exact=True)
    else:
        of_schema = _part(quoted, plain)
    return TablePattern(text, of_schema, _part(quoted_table, plain_table))


def _part(quoted: str | None, plain: str | None) -> NamePattern:
    if quoted is not None:
        return NamePattern(quoted.replace("``", "`"), exact=True)
    return NamePattern(plain or "")


_TABLES: Final = """
SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES
WHERE TABLE_TYPE = 'BASE TABLE'
AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')
AND """
_ANY: Final = "SELECT 1 FROM information_schema.TABLES WHERE "
_SHOWN: Final = 20


@dataclass(frozen=True, kw_only=True)
class TableChange(OfTable):
    """The change of one table.

    Schema and table are as the server keeps them; ``place`` is file and line of the statement.
    Tables with the same ``alike`` are expected to have the same definition. ``other`` is the table
    that the statement names beside its own. ``once``: made again, the statement
    would undo itself, or do more.
    """

    clauses: str
    normalized: str
    other: Name = ("", "")
    once: bool = False
    place: str = ""
    alike: str = ""

    def config(self, each: MigrationConfig) -> MigrationConfig:
        """Return the configuration of this table's migration."""
        return replace(
            each, database=self.schema, table=self.table, alter=self.clauses, statement=""
        )


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What a batch is to change, in order.

    ``faults`` are what is wrong with other statements, by their places; ``gone`` are changes whose
    table is not there, with what is said then. ``unmatched`` are patterns that select nothing, with
    the refusal.
    """

    changes: list[TableChange]
    faults: dict[str, str] = field(default_factory=dict)
    gone: list[tuple[TableChange, str]] = field(default_factory=list)
    unmatched: dict[str, Refusal] = field(default_factory=dict)

    @property
    def named(self) -> list[TableChange]:
        """The changes with those whose table is not there."""
        return [*self.changes, *(change for change, _ in self.gone)]


def changes_of(session: SqlSession, config: BatchConfig, sql_mode: str) -> Selection:
    """Return what a batch is to change; Refusal for a file that is empty or cannot be read."""
    chosen = _of_patterns if config.patterns else _of_file
    return chosen(session, config, sql_mode)


def _of_patterns(session: SqlSession, config: BatchConfig, sql_mode: str) -> Selection:
    schema = config.each.database
    excluded, _ = left_out(session, config.exclude, schema)
    found: dict[Name, TableChange] = {}
    unmatched: dict[str, Refusal] = {}
    excused: dict[str, Refusal] = {}
    for pattern in (read_pattern(text, schema) for text in config.patterns):
        matches = matching(session, pattern)
        names = [name for name in matches if name not in excluded]
        if not names:
            left = ", apart from those that --exclude names" if config.exclude else ""
            # Both name one table, as the hint for one that cannot be changed has it.
            known = bool(matches) and not (pattern.schema.wild or pattern.table.wild)
            (excused if known else unmatched)[pattern.given] = Refusal(
                f"the pattern {pattern.given} matches no table{left}",
                hint="see SHOW SCHEMAS LIKE and SHOW TABLES LIKE; the account sees only tables on"
                " which it has privileges",
                error_code=ErrorCode.NO_SUCH_TABLE,
            )
        for name in names:
            statement = alter_of(*name, config.each.alter, sql_mode=sql_mode)
            found.setdefault(name, _change(session, statement, alike=_alike(pattern, name[1])))
    changes = [found[name] for name in sorted(found)]
    return Selection(changes=changes, unmatched=unmatched if found else unmatched | excused)


def left_out(
    session: SqlSession, exclude: Iterable[str], schema: str
) -> tuple[set[Name], list[TablePattern]]:
    """Return the tables that are left out, and which of the patterns fit none of any kind."""
    excluded: set[Name] = set()
    nothing = []
    for pattern in (read_pattern(text, schema) for text in exclude):
        names = _named(session, pattern)
        excluded.update(names)
        if not names and not session.query(_ANY + pattern.condition, pattern.parameters):
            nothing.append(pattern)
    return excluded, nothing


def require_left_out(nothing: Iterable[TablePattern]) -> None:
    """Refuse the name of a table that is not there: it may be misspelt, and the table be changed.

    A pattern may be a precaution.
    """
    named = (one.given for one in nothing if not one.schema.wild and not one.table.wild)
    if (name := next(named, None)) is None:
        return
    raise Refusal(
        f"--exclude {name} matches no table: nothing would be left out",
        hint="correct it, or leave it out; see SHOW SCHEMAS LIKE and SHOW TABLES LIKE",
        error_code=ErrorCode.NO_SUCH_TABLE,
    )


def schemas_of(
    session: SqlSession, config: BatchConfig, changes: Iterable[TableChange]
) -> set[str]:
    """Return the schemas in which a batch changes tables, and those that its patterns name."""
    found = {change.schema for change in changes}
    for pattern in (read_pattern(text, config.each.database) for text in config.patterns):
        sql = "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME"
        rows = session.query(f"{sql} {pattern.schema.operator} %s", (pattern.schema.text,))
        found.update(str(row[0]) for row in rows)
    return found


def matching(session: SqlSession, pattern: TablePattern) -> list[Name]:
    """Return the tables of the application that match."""
    names = _named(session, pattern)
    return without_own(names, checkpoint_tables(session), marked_tables(session))


def _named(session: SqlSession, pattern: TablePattern) -> list[Name]:
    rows = session.query(_TABLES + pattern.condition + " ORDER BY 1, 2", pattern.parameters)
    return [(str(schema), str(table)) for schema, table in rows]


def without_own(
    names: Iterable[Name], checkpoints: Collection[Name], batches: Collection[Name]
) -> list[Name]:
    """Return tables that are neither batch records nor, by the checkpoint, auxiliary ones."""
    own = {*checkpoints, *batches}
    named = ((schema, AuxiliaryNames.of_checkpoint(name)) for schema, name in checkpoints)
    beside = [(schema, found) for schema, found in named if found is not None]
    own |= {(schema, name) for schema, found in beside for name in vars(found).values()}
    return [
        name
        for name in names
        if name not in own
        and not any(
            schema == name[0] and is_building_name(table, name[1])
            for schema, found in beside
            for table in [found.checkpoint[1:].removesuffix("_chkpnt")]
        )
    ]


def _alike(pattern: TablePattern, table: str) -> str:
    if pattern.schema.wild and pattern.table.wild:
        return f"{pattern.given} {table}"
    return pattern.given


def _of_file(session: SqlSession, config: BatchConfig, sql_mode: str) -> Selection:
    mode = SqlMode.of(sql_mode)
    found: dict[Name, TableChange] = {}
    faults: dict[str, str] = {}
    gone: list[tuple[TableChange, str]] = []
    try:
        statements = list(read_script(config.statements, mode))
    except Refusal as refusal:
        raise Refusal(
            f"{config.file}, {refusal.message}", hint=refusal.hint, error_code=refusal.error_code
        ) from refusal
    for one in statements:
        place = f"{config.file}, line {one.line}"
        try:
            change, absent = _of_statement(session, config, one, sql_mode, place)
        except Refusal as refusal:
            faults[place] = f"{refusal.message}; {refusal.hint}"
            continue
        if absent:
            gone.append((change, absent))
            continue
        earlier = found.setdefault(change.name, change)
        if earlier is not change:
            faults[place] = (
                f"{change} is changed a second time, first by {earlier.place}; write all its"
                " clauses into one ALTER TABLE"
            )
    if not found and not faults and not gone:
        text = f"{config.file} has no statement"
        raise not_understood(text, "write ALTER TABLE schema.table ...;")
    return Selection(changes=list(found.values()), faults=faults, gone=gone)


def refuse_statements(file: str, faults: dict[str, str]) -> NoReturn:
    """Refuse the statements of a file, by their places, with what is wrong with each."""
    lines = sorted(faults, key=lambda place: int(place.rpartition(" ")[2]))
    raise Refusal(
        f"{counted(len(faults), 'statement')} of {file} cannot be executed; nothing was written",
        hint="correct the statements",
        details=tuple(f"{place}: {faults[place]}" for place in lines[:_SHOWN]),
        error_code=ErrorCode.STATEMENT_NOT_UNDERSTOOD,
    )


def _of_statement(
    session: SqlSession, config: BatchConfig, one: ScriptStatement, sql_mode: str, place: str
) -> tuple[TableChange, str]:
    """Return the change, and what is said where there is no such table."""
    schema = one.schema or config.each.database
    statement, *others = parse_statement(one.text, schema, sql_mode=sql_mode)
    if others:
        raise not_understood("there are several statements before one delimiter", "separate them")
    name, absent = (statement.schema, statement.table), ""
    rows = session.query(_TABLES + "TABLE_SCHEMA = %s AND TABLE_NAME = %s", name)
    if not rows:
        near = near_name(session, *name)
        absent = f"there is no table {'.'.join(name)}; {near}check its name, and whether the"
        absent += " account has privileges on it"
    schema, table = rows[0] if rows else stored_name(session, *name)
    named = replace(statement, schema=str(schema), table=str(table))
    alike = f"{named.table} {', '.join(clause.normalized for clause in named.parsed)}"
    alike = alike.replace(f"{quote_identifier(statement.schema)}.", "")
    return _change(session, named, place=place, alike=alike), absent


def _change(
    session: SqlSession, statement: AlterStatement, *, place: str = "", alike: str = ""
) -> TableChange:
    if statement.parsed and statement.parsed[0].other[1]:
        # As its checkpoint will have it, by which the batch knows that as its own.
        clauses = with_present_name(session, statement).clauses
        statement = alter_of(statement.schema, statement.table, clauses)
    return TableChange(
        schema=statement.schema,
        table=statement.table,
        clauses=statement.clauses,
        normalized=statement.normalized,
        other=statement.parsed[0].other if statement.parsed else ("", ""),
        once=bool(statement.second_time or statement.of_kind(ClauseKind.EXCHANGE_PARTITION)),
        place=place,
        alike=alike,
    )
