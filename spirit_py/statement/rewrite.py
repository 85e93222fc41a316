"""Rewrite a definition and an ALTER for another table name, with other names of CHECK constraints.

The new table has no foreign keys, so FORCE, which changes no definition, takes the place of a
clause that drops one.

A CHECK constraint's name is unique in its schema, so the new table cannot use the source's.
RENAME TABLE renames every constraint whose name begins with ``<table>_chk_`` (manual 15.1.20.6;
measured: case-sensitive), so those get the new table's prefix, and RENAME restores them. Any other
name gets an underscore in front or, if it has one, loses it; one of 64 letters is cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.sql import quote_identifier, quote_table
from spirit_py.statement.lexer import SqlMode, tokenize
from spirit_py.statement.model import ClauseKind
from spirit_py.table.names import MAX_IDENTIFIER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from spirit_py.statement.lexer import Token
    from spirit_py.statement.model import AlterStatement

_GENERATED = "_chk_"
_ROOM_FOR_NUMBER = MAX_IDENTIFIER - len("_99")
_NO_CHANGE = "FORCE"
_Change: TypeAlias = tuple[int, int, str]
"""Start and end in the text of the clauses, and what takes the place of it."""


def check_names(
    source: str, new: str, names: Collection[str], taken: Collection[str]
) -> dict[str, str]:
    """Return the name that each CHECK constraint of the source gets in the new table.

    Args:
        taken: All CHECK constraints of the schema.
    """
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
    """Return a free name: ``name`` with an underscore in front, or without the one it has.

    A name that becomes too long loses its last letters: the server renames no constraint, so that
    a shorter name would take a native copy of the whole table.
    """
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
    """Turn ``SHOW CREATE TABLE`` of the source into the new table's, named with its schema.

    Raises:
        Refusal: when the text is not of the form that this program knows.
    """
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


def check_definitions(create_sql: str, names: Collection[str]) -> dict[str, str]:
    """Return what follows CHECK in ``SHOW CREATE TABLE``, for each of these constraints."""
    lines = create_sql.split("\n")
    return {
        name: line.removeprefix(_check_start(name)).removesuffix(",")
        for name in names
        for line in lines
        if line.startswith(_check_start(name))
    }


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

    A CHECK that is dropped and added again under its name keeps the name of its copy, because
    the source still holds the name.

    Args:
        keys: names of the source's foreign keys, which DROP CONSTRAINT drops as well.
    """
    tokens = tokenize(statement.clauses, SqlMode.of(sql_mode))
    changes = [
        *_renamed_checks(statement, tokens, source, new, checks),
        *_without_keys(tokens, {key.lower() for key in keys}),
    ]
    text, behind = "", 0
    for start, end, replacement in sorted(changes):
        text += statement.clauses[behind:start] + replacement
        behind = end
    return text + statement.clauses[behind:]


def _renamed_checks(
    statement: AlterStatement,
    tokens: tuple[Token, ...],
    source: str,
    new: str,
    checks: Mapping[str, str],
) -> Iterator[_Change]:
    """Yield each name of a CHECK constraint that the new table has under another one."""
    known = {old.lower(): name for old, name in checks.items()}
    dropping = (ClauseKind.DROP_CHECK, ClauseKind.DROP_CONSTRAINT)
    dropped = {clause.name.lower() for clause in statement.of_kind(*dropping)}
    for token, created in _constraint_names(tokens):
        name = token.value
        if not created or name.lower() in dropped:
            name = known.get(name.lower(), name)
        if name == token.value and created and name.startswith(source + _GENERATED):
            name = new + name[len(source) :]
        if name != token.value:
            yield token.start, token.end, quote_identifier(name)


def _without_keys(tokens: tuple[Token, ...], keys: Collection[str]) -> Iterator[_Change]:
    """Yield what stands in the place of each clause that drops a foreign key."""
    for index, token in enumerate(tokens[:-2]):
        words = tuple(each.upper for each in tokens[index : index + 3])
        if words == ("DROP", "FOREIGN", "KEY") and index + 3 < len(tokens):
            yield token.start, tokens[index + 3].end, _NO_CHANGE
        elif words[:2] == ("DROP", "CONSTRAINT") and tokens[index + 2].value.lower() in keys:
            yield token.start, tokens[index + 2].end, _NO_CHANGE


def _constraint_names(tokens: tuple[Token, ...]) -> Iterator[tuple[Token, bool]]:
    """Yield each token that names a constraint, and whether it is created there."""
    for index, token in enumerate(tokens[1:-1], start=1):
        before, following = tokens[index - 1].upper, tokens[index + 1]
        if token.upper in {"CHECK", "CONSTRAINT"} and before in {"DROP", "ALTER"}:
            yield following, False
        elif before == "CONSTRAINT" and token.is_identifier and following.upper == "CHECK":
            yield token, True
