"""Rewrite a definition and an ALTER: for another table name, or for a temporary table (pure).

CHECK names are unique in a schema. RENAME TABLE renames those that begin with ``<table>_chk_``
(manual 15.1.20.6; measured: case-sensitive), so they get the new table's prefix; any other name
gets an underscore in front or loses it. FORCE takes the place of a clause that drops a foreign key.
What a temporary table cannot have (measured on 9.7: errors 1215, 1562, 1796, 3500, 3833, 4026) is
taken out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from spirit_py.classes import dataclass, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.sql import quote_identifier, quote_table
from spirit_py.statement.lexer import SqlMode, tokenize
from spirit_py.statement.model import ClauseKind
from spirit_py.table.names import MAX_IDENTIFIER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from spirit_py.statement.lexer import Token
    from spirit_py.statement.model import AlterStatement, Clause

_GENERATED = "_chk_"
_ROOM_FOR_NUMBER = MAX_IDENTIFIER - len("_99")
_NO_CHANGE = "FORCE"
_Change: TypeAlias = tuple[int, int, str]


def check_names(
    source: str, new: str, names: Collection[str], taken: Collection[str]
) -> dict[str, str]:
    """Return the name that each CHECK constraint gets in the new table; the schema's are taken."""
    used = {name.lower() for name in taken}
    found: dict[str, str] = {}
    for name in names:
        if name.startswith(source + _GENERATED):
            found[name] = new + name[len(source) :]
        else:
            found[name] = _toggled(name, used)
        used.add(found[name].lower())
    return found


def _toggled(name: str, used: Collection[str]) -> str:
    """Return a name with the underscore toggled; one too long is cut, as RENAME restores none."""
    choices = [name[1:]] if name.startswith("_") and len(name) > 1 else []
    choices.append(f"_{name}"[:MAX_IDENTIFIER])
    choices += [f"{name[:_ROOM_FOR_NUMBER]}_{number}" for number in range(2, 100)]
    for choice in choices:
        if choice.lower() not in used:
            return choice
    raise Refusal(
        f"there is no free name for a copy of CHECK constraint {name}",
        hint="rename the constraint to a shorter name first",
        error_code=ErrorCode.CHECK_NAME,
    )


def rewrite_create(
    create_sql: str, schema: str, source: str, new: str, checks: Mapping[str, str]
) -> str:
    """Turn ``SHOW CREATE TABLE`` of the source into the new table's, named with its schema."""
    head = f"CREATE TABLE {quote_identifier(source)} ("
    if not create_sql.startswith(head):
        raise Refusal(
            f"SHOW CREATE TABLE {source} is not of the expected form: {create_sql[:60]!r}",
            hint="check that the name is that of a base table",
            error_code=ErrorCode.TABLE_NOT_SUITABLE,
        )
    lines = (f"CREATE TABLE {quote_table(schema, new)} (" + create_sql[len(head) :]).split("\n")
    starts = {_check_start(old): name for old, name in checks.items()}
    return "\n".join(_renamed(line, starts) for line in lines)


def _check_start(name: str) -> str:
    return f"  CONSTRAINT {quote_identifier(name)} CHECK "


def _renamed(line: str, starts: Mapping[str, str]) -> str:
    for start, name in starts.items():
        if line.startswith(start):
            return _check_start(name) + line[len(start) :]
    return line


#: Up to the end of a line that is in no quotes.
_TO_LINE_END: Final = re.compile(r"(?:`[^`]*`|'(?:[^'\\]|\\.)*'|[^`'\n])*", re.DOTALL)


def check_definitions(create_sql: str, names: Collection[str]) -> dict[str, str]:
    """Return what follows CHECK in ``SHOW CREATE TABLE``, for each of these constraints."""
    found: dict[str, str] = {}
    for name in names:
        _, head, rest = create_sql.partition(f"\n{_check_start(name)}")
        if head and (line := _TO_LINE_END.match(rest)):
            found[name] = line[0].removesuffix(",")
    return found


def rewrite_clauses(
    statement: AlterStatement,
    source: str,
    new: str,
    checks: Mapping[str, str],
    *,
    keys: Collection[str] = (),
    sql_mode: str = "",
) -> str:
    """Return the statement's clauses for the new table: only constraints differ.

    A CHECK that is dropped and added again keeps the name of its copy, because the source still has
    it. ``keys``: foreign keys of the source, which DROP CONSTRAINT drops as well.
    """
    tokens = tokenize(statement.clauses, SqlMode.of(sql_mode))
    gone = {key.lower() for key in keys}
    changes = [
        *_renamed_checks(statement, tokens, source, new, checks),
        *_without_keys(tokens, gone),
    ]
    return _changed(statement.clauses, changes)


def with_constraints(
    statement: AlterStatement, names: Iterable[str], *, sql_mode: str = ""
) -> AlterStatement:
    """Return the statement with these names for the constraints that it drops or alters."""
    tokens = tokenize(statement.clauses, SqlMode.of(sql_mode))
    named = (token for token, created in _constraint_names(tokens) if not created)
    pairs = zip(named, names, strict=True)
    changes = [
        (one.start, one.end, quote_identifier(new)) for one, new in pairs if one.value != new
    ]
    return replace(statement, clauses=_changed(statement.clauses, changes))


def created_checks(statement: AlterStatement, *, sql_mode: str) -> list[str]:
    """Return the names that the statement gives to CHECK constraints."""
    tokens = tokenize(statement.clauses, SqlMode.of(sql_mode))
    return [token.value for token, created in _constraint_names(tokens) if created]


def _changed(text: str, changes: Iterable[_Change]) -> str:
    found, behind = "", 0
    for start, end, replacement in sorted(changes):
        found += text[behind:start] + replacement
        behind = end
    return found + text[behind:]


def _renamed_checks(
    statement: AlterStatement,
    tokens: tuple[Token, ...],
    source: str,
    new: str,
    checks: Mapping[str, str],
) -> Iterator[_Change]:
    known = {old.lower(): name for old, name in checks.items()}
    dropping = (ClauseKind.DROP_CHECK, ClauseKind.DROP_CONSTRAINT)
    dropped = {clause.name.lower() for clause in statement.of_kind(*dropping)}
    for token, created in _constraint_names(tokens):
        name = token.value
        # With a column the server drops the constraints that read it alone.
        if not created or statement.dropped or name.lower() in dropped:
            name = known.get(name.lower(), name)
        if name == token.value and created and name.startswith(source + _GENERATED):
            name = new + name[len(source) :]
        if name != token.value:
            yield token.start, token.end, quote_identifier(name)


def _without_keys(tokens: tuple[Token, ...], keys: Collection[str]) -> Iterator[_Change]:
    for index, token in enumerate(tokens[:-2]):
        words = tuple(each.upper for each in tokens[index : index + 3])
        if words == ("DROP", "FOREIGN", "KEY") and index + 3 < len(tokens):
            yield token.start, tokens[index + 3].end, _NO_CHANGE
        elif words[:2] == ("DROP", "CONSTRAINT") and tokens[index + 2].value.lower() in keys:
            yield token.start, tokens[index + 2].end, _NO_CHANGE


def _constraint_names(tokens: tuple[Token, ...]) -> Iterator[tuple[Token, bool]]:
    for index, token in enumerate(tokens[1:-1], start=1):
        before, following = tokens[index - 1].upper, tokens[index + 1]
        if token.upper in {"CHECK", "CONSTRAINT"} and before in {"DROP", "ALTER"}:
            yield following, False
        elif before == "CONSTRAINT" and token.is_identifier and following.upper == "CHECK":
            yield token, True


#: A name may hold a line's end.
FOREIGN_KEY: Final = re.compile(
    r",\n  CONSTRAINT `(?:[^`]|``)+` FOREIGN KEY (?:[^\n`]|`(?:[^`]|``)+`)*?(?=,?\n)"
)
_FULLTEXT: Final = re.compile(
    r",\n  FULLTEXT KEY (?:[^\n`']|`(?:[^`]|``)+`|'(?:[^']|'')*')*?(?=,?\n)"
)
_PARTITIONS: Final = re.compile(r"\n/\*!\d+ +PARTITION BY.*\Z", re.DOTALL)
_OPTION: Final = re.compile(
    r" (?:ROW_FORMAT=COMPRESSED|KEY_BLOCK_SIZE=\d+|AUTOEXTEND_SIZE=\d+|COMPRESSION='[^']*'"
    r"|(?:DATA|INDEX) DIRECTORY='(?:[^']|'')*'|ENCRYPTION='.'"
    r"|/\*!\d+ (?:ENCRYPTION='.'|TABLESPACE `(?:[^`]|``)+`|AUTOEXTEND_SIZE=\d+) ?\*/)"
)
_DIRECTORY: Final = re.compile(
    r" DATA DIRECTORY='(?:[^']|'')*'(?: INDEX DIRECTORY='(?:[^']|'')*')?\Z"
)
_UNENCRYPTED: Final = re.compile(r" ENCRYPTION='N'(?= |\Z)")
PARTITIONING: Final = frozenset({
    ClauseKind.PARTITION_BY, ClauseKind.REMOVE_PARTITIONING, ClauseKind.ADD_PARTITION,
    ClauseKind.REORGANIZE_PARTITION, ClauseKind.COALESCE_PARTITION,
    ClauseKind.DROP_PARTITION, ClauseKind.TRUNCATE_PARTITION, ClauseKind.EXCHANGE_PARTITION,
})  # fmt: skip
_OPTIONS: Final = frozenset({
    "row_format", "key_block_size", "autoextend_size", "compression", "encryption",
    "data directory", "index directory", "tablespace", "engine", "secondary_engine",
})  # fmt: skip
#: The word, not the beginning of a column's name.
_ADDS: Final = re.compile(r"ADD(?![\w$])", re.IGNORECASE)
_NAME: Final = re.compile(r"`((?:[^`]|``)+)`")
#: Those of an index are parted by a comma, those of a foreign key by a blank, too.
_COLUMNS: Final = re.compile(r"\((`(?:[^`]|``)+`(?:(, ?)`(?:[^`]|``)+`(?:, ?`(?:[^`]|``)+`)*)?)\)")
#: What SHOW CREATE TABLE writes after the options that are taken out; the directories are last.
_BEHIND: Final = re.compile(r" (?:COMMENT|CONNECTION|SECONDARY_ENGINE)=.*\Z")


def without_partitions(create_sql: str) -> str:
    """Return a definition without the list of its partitions."""
    return _PARTITIONS.sub("", create_sql)


def is_unlike(create_sql: str) -> bool:
    """Return whether CREATE TABLE ... LIKE makes another table, as far as that shows.

    A table, and not only a partition, lies elsewhere; or it is not encrypted, which the server
    shows only in a schema whose tables are.
    """
    text = without_partitions(create_sql)
    options = text.rpartition("\n)")[2]
    return _DIRECTORY.search(text) is not None or _UNENCRYPTED.search(options) is not None


@dataclass(frozen=True, kw_only=True)
class TemporaryForm:
    """A definition without what a temporary table cannot have, which is kept with its commas."""

    table: str
    body: str
    fulltext: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    partitions: str = ""

    @classmethod
    def of(cls, create_sql: str, table: str) -> TemporaryForm | None:
        """Return the form of ``SHOW CREATE TABLE``; None where that is not as expected."""
        head = f"CREATE TABLE {quote_identifier(table)} "
        if not create_sql.startswith(head):
            return None
        body = create_sql.removeprefix(head)
        found = _PARTITIONS.search(body)
        partitions = found[0] if found else ""
        body = body.removesuffix(partitions)
        inside, end, options = body.rpartition("\n)")
        kept = _OPTION.sub("", options)
        inside += "\n"
        return cls(
            table=table,
            body=FOREIGN_KEY.sub("", _FULLTEXT.sub("", inside)).removesuffix("\n") + end + kept,
            fulltext=tuple(_FULLTEXT.findall(inside)),
            keys=tuple(FOREIGN_KEY.findall(inside)),
            options=tuple(_OPTION.findall(options)),
            partitions=partitions,
        )

    def complete(self, create_sql: str, statement: AlterStatement) -> str:
        """Return the definition of the altered temporary table, of the source's name, completed."""
        inside, end, options = create_sql.rpartition("\n)")
        lines = inside.split(",\n")
        constraints = (n for n, line in enumerate(lines) if line.startswith("  CONSTRAINT "))
        at = next(constraints, len(lines))
        lines[at:] = sorted(lines[at:], key=lambda line: _name(line).lower())
        # An index may have the name of a foreign key.
        of_keys = (ClauseKind.DROP_FOREIGN_KEY, ClauseKind.DROP_CONSTRAINT)
        kept = [
            _with_columns(line.removeprefix(",\n"), self.table, statement)
            for line in (
                *_without(self.fulltext, statement.of_kind(ClauseKind.DROP_INDEX)),
                *_without(self.keys, statement.of_kind(*of_keys)),
            )
        ]
        inside = ",\n".join((*lines[:at], *filter(None, kept), *lines[at:]))
        found = _BEHIND.search(options)
        behind = found[0] if found else ""
        own = [one for one in self.options if not _given(one, statement)]
        places = [one for one in own if " DIRECTORY=" in one]
        before = "".join(one for one in own if one not in places)
        partitions = "" if statement.of_kind(*PARTITIONING) else self.partitions
        head = inside + end + options.removesuffix(behind)
        return f"{head}{before}{behind}{''.join(places)}{partitions}"


def unlike(statement: AlterStatement, keys: Collection[str], fulltext: Collection[str]) -> bool:
    """Return whether a statement has clauses about what a temporary table cannot have."""
    return any(_left_out(clause, keys, fulltext) for clause in statement.parsed)


def clauses_for_temporary(
    statement: AlterStatement, keys: Collection[str], fulltext: Collection[str]
) -> tuple[str, tuple[str, ...]]:
    """Return the clauses that a temporary table takes, and those left out; names in lower case."""
    if not unlike(statement, keys, fulltext):
        return statement.clauses, ()
    left = tuple(one.text for one in statement.parsed if _left_out(one, keys, fulltext))
    kept = [written(one) for one in statement.parsed if not _left_out(one, keys, fulltext)]
    return ", ".join(kept), left


def names_of(lines: Iterable[str]) -> frozenset[str]:
    """Return the names of the indexes or foreign keys of these lines, in lower case."""
    return frozenset(_name(line).lower() for line in lines)


def _left_out(clause: Clause, keys: Collection[str], fulltext: Collection[str]) -> bool:
    kind, name = clause.kind, clause.name.lower()
    if kind is ClauseKind.OPTION:
        return name in _OPTIONS
    if kind is ClauseKind.ADD_INDEX:
        return clause.body.startswith("fulltext")
    if kind in {ClauseKind.DROP_INDEX, ClauseKind.RENAME_INDEX, ClauseKind.ALTER_INDEX}:
        return name in fulltext
    if kind is ClauseKind.DROP_CONSTRAINT:
        return name in keys
    return kind in PARTITIONING or kind is ClauseKind.DROP_FOREIGN_KEY


def written(clause: Clause) -> str:
    """Return a clause as it was written, to stand alone."""
    adds = clause.kind in {
        *(ClauseKind.ADD_COLUMN, ClauseKind.ADD_INDEX, ClauseKind.ADD_UNIQUE),
        *(ClauseKind.ADD_PRIMARY_KEY, ClauseKind.ADD_CHECK),
    }
    if adds and not _ADDS.match(clause.text):
        return f"ADD {clause.text}"
    return clause.text


def _name(line: str) -> str:
    found = _NAME.search(line)
    return found[1].replace("``", "`") if found else ""


def _without(lines: Iterable[str], dropping: Iterable[Clause]) -> Iterator[str]:
    """Yield the lines that the clauses do not drop."""
    dropped = {clause.name.lower() for clause in dropping}
    return (line for line in lines if _name(line).lower() not in dropped)


def _with_columns(line: str, table: str, statement: AlterStatement) -> str:
    """Return the line of an index or foreign key after the statement; empty where it goes."""
    own = _NAME.search(line)
    found = _COLUMNS.search(line, own.end() if own else 0)
    if found is None:
        return line
    names = [name.replace("``", "`") for name in _NAME.findall(found[1])]
    left = [name for name in names if name.lower() not in statement.dropped]
    # MODIFY, too, gives a column the letters in which it is written (measured on 9.7).
    modified = {one.name.lower(): one.name for one in statement.of_kind(ClauseKind.MODIFY_COLUMN)}
    renames = modified | statement.renames
    new = (quote_identifier(renames.get(name.lower(), name)) for name in left)
    columns = (found[2] or ",").join(new)
    end = line[found.end() :]
    if end.startswith(f" REFERENCES {quote_identifier(table)} "):
        end = _with_columns(end, table, statement)
    return f"{line[: found.start()]}({columns}){end}" if left else ""


def _given(option: str, statement: AlterStatement) -> bool:
    """Return whether the statement sets an option that was taken out, so that it may be another."""
    text = re.split("[=`]", option.lower(), maxsplit=1)[0]
    named = (clause.name for clause in statement.of_kind(ClauseKind.OPTION))
    return any(name.replace(" ", "_") in text.replace(" ", "_") for name in named)
