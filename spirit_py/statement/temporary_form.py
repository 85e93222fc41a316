"""What a temporary table cannot have, taken from a definition and from a statement (pure).

A session's temporary table of the same definition shows what the server makes of a statement, and
nothing of it reaches the binlog or another session. It has no foreign keys, partitions, FULLTEXT
indexes, nor options about files (measured on 9.7: errors 1215, 1562, 1796, 3500, 3833, 4026). Those
are taken out before, and put back into the text of the result where that is certain.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spirit_py.sql import quote_identifier
from spirit_py.statement.model import ClauseKind

if TYPE_CHECKING:
    from collections.abc import Collection

    from spirit_py.statement.model import AlterStatement, Clause

#: With the comma before it; another definition may follow.
FOREIGN_KEY: Final = re.compile(r",\n  CONSTRAINT `(?:[^`]|``)+` FOREIGN KEY [^\n]*?(?=,?\n)")
_FULLTEXT: Final = re.compile(r",\n  FULLTEXT KEY [^\n]*?(?=,?\n)")
_PARTITIONS: Final = re.compile(r"\n/\*!\d+ +PARTITION BY.*\Z", re.DOTALL)
_OPTION: Final = re.compile(
    r" (?:ROW_FORMAT=COMPRESSED|KEY_BLOCK_SIZE=\d+|AUTOEXTEND_SIZE=\d+|COMPRESSION='[^']*'"
    r"|(?:DATA|INDEX) DIRECTORY='(?:[^']|'')*'|ENCRYPTION='.'"
    r"|/\*!\d+ (?:ENCRYPTION='.'|TABLESPACE `(?:[^`]|``)+`|AUTOEXTEND_SIZE=\d+) ?\*/)"
)
_PARTITIONING: Final = frozenset(
    {
        *(ClauseKind.PARTITION_BY, ClauseKind.REMOVE_PARTITIONING, ClauseKind.ADD_PARTITION),
        *(ClauseKind.REORGANIZE_PARTITION, ClauseKind.COALESCE_PARTITION),
    }
)
_OPTIONS: Final = frozenset(
    {
        *("row_format", "key_block_size", "autoextend_size", "compression", "encryption"),
        *("data directory", "index directory", "tablespace", "engine", "secondary_engine"),
    }
)
_NAME: Final = re.compile(r"`((?:[^`]|``)+)`")


@dataclass(frozen=True, kw_only=True)
class TemporaryForm:
    """A definition without what a temporary table cannot have.

    Attributes:
        body: what follows ``CREATE TEMPORARY TABLE name``, from the parenthesis on.
        fulltext: the lines of FULLTEXT indexes, each with the comma before it.
        keys: those of foreign keys.
        options: those about files, each with the blank before it.
        partitions: the text of the partitions; empty without any.
    """

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
            body=FOREIGN_KEY.sub("", _FULLTEXT.sub("", inside)).removesuffix("\n") + end + kept,
            fulltext=tuple(_FULLTEXT.findall(inside)),
            keys=tuple(FOREIGN_KEY.findall(inside)),
            options=tuple(_OPTION.findall(options)),
            partitions=partitions,
        )

    def complete(self, create_sql: str, statement: AlterStatement) -> str:
        """Return the definition of the altered temporary table with what was taken out.

        Args:
            create_sql: of the altered temporary table, under the source's name.
        """
        dropped = {
            clause.name.lower()
            for clause in statement.of_kind(
                ClauseKind.DROP_INDEX, ClauseKind.DROP_FOREIGN_KEY, ClauseKind.DROP_CONSTRAINT
            )
        }
        inside, end, options = create_sql.rpartition("\n)")
        lines = inside.split(",\n")
        at = next(
            (n for n, line in enumerate(lines) if line.startswith("  CONSTRAINT ")), len(lines)
        )
        lines[at:] = sorted(lines[at:], key=lambda line: _name(line).lower())
        kept = [
            _renamed(line.removeprefix(",\n"), statement)
            for line in (*self.fulltext, *self.keys)
            if _name(line).lower() not in dropped
        ]
        own = "".join(one for one in self.options if not _given(one, statement))
        inside = ",\n".join((*lines[:at], *kept, *lines[at:]))
        partitions = "" if statement.of_kind(*_PARTITIONING) else self.partitions
        return f"{inside}{end}{options}{own}{partitions}"


def unlike(statement: AlterStatement, keys: Collection[str], fulltext: Collection[str]) -> bool:
    """Return whether a statement has clauses about what a temporary table cannot have."""
    return any(_left_out(clause, keys, fulltext) for clause in statement.parsed)


def clauses_for_temporary(
    statement: AlterStatement, keys: Collection[str], fulltext: Collection[str]
) -> tuple[str, tuple[str, ...]]:
    """Return the clauses that a temporary table takes, and those that are left out.

    Args:
        keys: names of the source's foreign keys, in lower case.
        fulltext: names of its FULLTEXT indexes, in lower case.
    """
    if not unlike(statement, keys, fulltext):
        return statement.clauses, ()
    left = tuple(one.text for one in statement.parsed if _left_out(one, keys, fulltext))
    kept = [_written(one) for one in statement.parsed if not _left_out(one, keys, fulltext)]
    return ", ".join(kept), left


def fulltext_names(form: TemporaryForm) -> frozenset[str]:
    """Return the names of the FULLTEXT indexes that were taken out, in lower case."""
    return frozenset(_name(line).lower() for line in form.fulltext)


def key_names(form: TemporaryForm) -> frozenset[str]:
    """Return the names of the foreign keys that were taken out, in lower case."""
    return frozenset(_name(line).lower() for line in form.keys)


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
    return kind in _PARTITIONING or kind is ClauseKind.DROP_FOREIGN_KEY


def _written(clause: Clause) -> str:
    """Return a clause that can stand alone; one of ``ADD (a INT, b INT)`` lacks its verb."""
    adds = clause.kind in {
        *(ClauseKind.ADD_COLUMN, ClauseKind.ADD_INDEX, ClauseKind.ADD_UNIQUE),
        *(ClauseKind.ADD_PRIMARY_KEY, ClauseKind.ADD_CHECK),
    }
    if adds and not clause.text.upper().startswith("ADD"):
        return f"ADD {clause.text}"
    return clause.text


def _name(line: str) -> str:
    """Return the first name of a line of a definition."""
    found = _NAME.search(line)
    return found[1].replace("``", "`") if found else ""


def _renamed(line: str, statement: AlterStatement) -> str:
    """Return a line with the columns of the table itself renamed.

    Those are in the first list, and in the second one where the key refers to the same table.
    """
    head, opened, rest = line.partition("(")
    columns, closed, end = rest.partition(")")
    if f" REFERENCES {quote_identifier(statement.table)} (" in end:
        end = _renamed(end, statement) if opened else end

    def new(found: re.Match[str]) -> str:
        name = found[1].replace("``", "`")
        return quote_identifier(statement.renames.get(name.lower(), name))

    return head + opened + _NAME.sub(new, columns) + closed + end


def _given(option: str, statement: AlterStatement) -> bool:
    """Return whether the statement sets an option that was taken out, so that it may be another."""
    text = option.lower()
    named = (clause.name for clause in statement.of_kind(ClauseKind.OPTION))
    return any(name.replace(" ", "_") in text.replace(" ", "_") for name in named)
