"""What a statement in the binlog changes, by its text (pure; R13, R14).

A server that logs rows writes DDL and administration as text, and nothing else. So every other
statement is a write of a session that logs statements. It may reach a table that it does not
name: through a view, a trigger of another table, a stored function. It therefore carries a
:class:`Claim`: what must be true on the server for it to touch no more than it names.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

from spirit_py.change.tokens import Name, cut, is_symbol, name_at, names_after, names_from, skip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from spirit_py.change.events import StatementSeen, Table
    from spirit_py.change.tokens import Token

_DDL: Final = frozenset({"ALTER", "CREATE", "DROP", "RENAME", "TRUNCATE"})
#: These change no row of a table, and call no stored function.
_QUIET: Final = frozenset({
    "ANALYZE", "CHECK", "COMMIT", "FLUSH", "GRANT", "IMPORT", "INSTALL", "OPTIMIZE", "RELEASE",
    "REPAIR", "REVOKE", "ROLLBACK", "SAVEPOINT", "UNINSTALL", "XA",
})  # fmt: skip
_QUIET_SET: Final = frozenset({"DEFAULT", "PASSWORD", "RESOURCE", "ROLE"})
_ROWS: Final = frozenset({"INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD"})
_HINTS: Final = ("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK", "IGNORE")
_BEHIND_ONE_TABLE: Final = frozenset({"WHERE", "ORDER", "LIMIT", "PARTITION"})


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a STATEMENT-format write is about, for the server to say what that is.

    Attributes:
        targets: the tables that it writes; None when its text does not tell for certain.
        calls: what it may call, in lower case: names in front of a parenthesis.
        reads: every other name; a view among them may call a function.
    """

    targets: tuple[Name, ...] | None
    calls: frozenset[str] = frozenset()
    reads: frozenset[Name] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What a statement in the binlog is and names.

    Attributes:
        kind: ``ddl``, ``dml`` for what may change rows, or empty (GRANT, ANALYZE, ...).
        verb: its first keyword.
        names: what it changes, with the schema filled in; a table of None is a whole schema.
            Of ``dml`` rather one too many.
        words: the bare words in it, in upper case.
        claim: what it is about, where it may change rows that it does not name.
        temporary: TEMPORARY tables that it creates or drops.
    """

    kind: Literal["ddl", "dml", ""]
    verb: str
    names: tuple[Name, ...]
    words: tuple[str, ...]
    claim: Claim | None = None
    temporary: tuple[Name, ...] = ()


@dataclass(frozen=True)
class Touch:
    """A statement touches a followed table, or may.

    Attributes:
        kind: ``ddl`` changes its definition, ``dml`` its rows; ``unread`` may change its
            definition, but nobody knows, because the statement's characters are not known.
        verb: the statement's first keyword.
    """

    kind: Literal["ddl", "dml", "unread"]
    table: Table
    verb: str

    @property
    def doubt(self) -> str:
        """Why it is not certain, for a message."""
        unread = self.kind == "unread"
        return ", in a character set that cannot be read for certain" if unread else ""


class TableFinder:
    """Finds the followed table that a statement names.

    Args:
        tables: the followed tables.
        ignore_case: the server's ``lower_case_table_names`` is not 0.
    """

    def __init__(self, tables: Iterable[Table], *, ignore_case: bool) -> None:
        self._fold: Callable[[str], str] = str.lower if ignore_case else str
        self._tables = {(self._fold(s), self._fold(t)): (s, t) for s, t in tables}

    def find(self, event: StatementSeen) -> Touch | None:
        """Tell which followed table the statement names as changed, if any."""
        for statement in readings(event):
            if statement.kind and (found := self._named(statement.names)):
                return Touch(statement.kind, found, statement.verb)
            if statement.kind == "ddl" and not event.certain:
                near = (table for table in self._tables.values() if may_name(event.sql, *table))
                if (found := next(near, None)) is not None:
                    return Touch("unread", found, statement.verb)
        return None

    def _named(self, names: Iterable[Name]) -> Table | None:
        for name in names:
            if name.table is None:
                here = (t for s, t in self._tables.items() if s[0] == self._fold(name.schema))
                found = next(here, None)
            else:
                found = self._tables.get((self._fold(name.schema), self._fold(name.table)))
            if found is not None:
                return found
        return None


def may_name(sql: str, schema: str, table: str) -> bool:
    """Tell whether a DDL statement of unknown characters may be about a table.

    Args:
        sql: with what is not ASCII in hexadecimal; letters of ASCII are the same everywhere.
        table: empty for every table.
    """
    folded = sql.lower()

    def stands(name: str) -> bool:
        return not name.isascii() or name.lower().replace("`", "``") in folded

    return stands(table) or ("drop" in folded and stands(schema))


def readings(event: StatementSeen) -> Iterator[Statement]:
    """Read a statement of the stream in every way that its bytes can be read."""
    for sql in filter(None, (event.sql, event.other)):
        yield read_statement(
            sql, event.schema, plain_backslash=event.plain_backslash, certain=event.certain
        )


def read_statement(
    sql: str, schema: str, *, plain_backslash: bool = False, certain: bool = True
) -> Statement:
    """Read a statement.

    Args:
        schema: the session's default schema.
        plain_backslash: the session's sql_mode has NO_BACKSLASH_ESCAPES.
        certain: the text is what the server read.
    """
    tokens = cut(sql, plain_backslash=plain_backslash)
    verb = tokens[0].word if tokens else ""
    kind: Literal["ddl", "dml", ""] = ""
    names: list[Name] = []
    claim: Claim | None = None
    temporary: list[Name] = []
    if verb in _DDL:
        kind, names = "ddl", _ddl_names(tokens)
        if any(token.word == "TEMPORARY" for token in tokens[:3]):
            temporary = _created(tokens)
        if verb == "CREATE" and _has_query(tokens):
            claim = _claim(tokens, schema, ())
    elif not _is_quiet(tokens, verb):
        kind, names = "dml", _dml_names(tokens)
        # What the server does not execute of /*!99999 ... */ would be read as if it did.
        target = _only_target(tokens) if certain and "/*!" not in sql else None
        claim = _claim(tokens, schema, None if target is None else (target.within(schema),))
    return Statement(
        kind=kind,
        verb=verb,
        names=tuple(name.within(schema) for name in names),
        words=tuple(token.word for token in tokens if token.word),
        claim=claim,
        temporary=tuple(name.within(schema) for name in temporary),
    )


def _is_quiet(tokens: list[Token], verb: str) -> bool:
    """Tell whether a statement is administration, or no statement but a comment."""
    second = tokens[1].word if len(tokens) > 1 else ""
    if verb == "SET":
        return second in _QUIET_SET
    return not tokens or verb in _QUIET


def _has_query(tokens: list[Token]) -> bool:
    """Tell whether CREATE TABLE runs a query: SELECT, TABLE or VALUES ROW."""
    words = [token.word for token in tokens]
    if "TABLE" not in words[:3]:
        return False
    values = any(pair == ("VALUES", "ROW") for pair in pairwise(words))
    return values or "SELECT" in words or words.count("TABLE") > 1


def _claim(tokens: list[Token], schema: str, targets: tuple[Name, ...] | None) -> Claim:
    """Gather what a statement may call and read."""
    calls: set[str] = set()
    reads: set[Name] = set()
    for at, token in enumerate(tokens):
        if token.symbol or (token.bare and token.text.isdigit()):
            continue
        if is_symbol(tokens, at + 1, "("):
            calls.add(token.text.lower())
        dotted = is_symbol(tokens, at - 1, ".") and at > 1
        reads.add(Name(tokens[at - 2].text if dotted else schema, token.text))
    return Claim(targets=targets, calls=frozenset(calls), reads=frozenset(reads))


def _ddl_names(tokens: list[Token]) -> list[Name]:
    """Give the tables whose definition, data or name a DDL statement changes."""
    words = [token.word for token in tokens[:40]]
    verb = words[0]
    if verb == "TRUNCATE":
        return names_from(tokens, skip(tokens, 1, "TABLE"))
    if "TABLE" in words[:4] or "TABLES" in words[:4]:
        if "TEMPORARY" in words[:3]:
            return []
        return [*_created(tokens), *names_after(tokens, "REFERENCES"), *_brought_in(tokens)]
    if verb == "DROP" and words[1:2] and words[1] in {"DATABASE", "SCHEMA"}:
        at = skip(tokens, 2, "IF", "EXISTS")
        return [Name(n.table or "", None) for n in names_from(tokens, at)]
    if "TRIGGER" in words and verb == "CREATE":
        return names_after(tokens[words.index("TRIGGER") :], "ON")[:1]
    if "INDEX" in words[:4]:
        return names_after(tokens, "ON")[:1]
    return []


def _created(tokens: list[Token]) -> list[Name]:
    """Give the names behind the word TABLE or TABLES."""
    found = (i for i, token in enumerate(tokens) if token.word in {"TABLE", "TABLES"})
    at = next(found, len(tokens))
    return names_from(tokens, skip(tokens, at + 1, "IF", "NOT", "EXISTS"))


def _brought_in(tokens: list[Token]) -> list[Name]:
    """Give the other tables of an ALTER TABLE: of EXCHANGE PARTITION and of RENAME."""
    if tokens[0].word != "ALTER":
        return []
    names = names_after(tokens, "WITH", "TABLE")
    for at, token in enumerate(tokens):
        if token.word == "RENAME":
            to = skip(tokens, at + 1, "TO", "AS") + is_symbol(tokens, at + 1, "=")
            name, _ = name_at(tokens, to)
            if name is not None and tokens[to].word not in {"COLUMN", "INDEX", "KEY"}:
                names.append(name)
    return names


def _dml_names(tokens: list[Token]) -> list[Name]:
    """Give the tables whose rows a DML statement may change; rather one too many."""
    verb = tokens[0].word
    if verb in {"INSERT", "REPLACE"}:
        return names_from(tokens, skip(tokens, 1, *_HINTS, "INTO"))[:1]
    if verb == "LOAD":
        return names_after(tokens, "INTO", "TABLE")[:1]
    if verb not in {"UPDATE", "DELETE", "WITH"}:
        return []
    if verb == "UPDATE":
        ends = (i for i, token in enumerate(tokens) if token.word == "SET")
        tokens = tokens[: next(ends, len(tokens))]
    return [name for at in range(1, len(tokens)) if (name := name_at(tokens, at)[0]) is not None]


def _only_target(tokens: list[Token]) -> Name | None:
    """Give the one table that a statement writes; None when that is not certain."""
    verb = tokens[0].word
    if verb not in _ROWS:
        return None
    if verb in {"INSERT", "REPLACE", "LOAD"}:
        names = _dml_names(tokens)
        return names[0] if names else None
    at = skip(tokens, 1, *_HINTS)
    if verb == "DELETE":
        if skip(tokens, at, "FROM") != at + 1:
            return None
        at += 1
    name, at = name_at(tokens, at)
    ends = {"SET"} if verb == "UPDATE" else _BEHIND_ONE_TABLE
    for _ in range(2):  # an alias may stand between
        at = skip(tokens, at, "AS")
        if at >= len(tokens):
            return name if verb == "DELETE" else None
        if tokens[at].word in ends:
            return name
        if tokens[at].symbol:
            return None
        at += 1
    return None
