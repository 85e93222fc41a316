"""What a statement in the binlog changes, by its text (pure; R13, R14).

A server that logs rows writes DDL and administration as text, and nothing else. So every other
statement is a write of a session that logs statements. It may reach a table that it does not
name: through a view, a trigger of another table, a stored function. It therefore carries a
:class:`Claim`: what must be true on the server for it to touch no more than it names.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

from spirit_py.change.targets import calls_in, table_names, written
from spirit_py.change.tokens import Name, cut, is_symbol, name_at, names_after, names_from, skip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spirit_py.change.events import StatementSeen, Table
    from spirit_py.change.tokens import Token

_DDL: Final = frozenset({"ALTER", "CREATE", "DROP", "RENAME", "TRUNCATE"})
#: These change no row of a table, and call no stored function.
_QUIET: Final = frozenset({
    "ANALYZE", "CHECK", "COMMIT", "FLUSH", "GRANT", "IMPORT", "INSTALL", "OPTIMIZE", "RELEASE",
    "REPAIR", "REVOKE", "ROLLBACK", "SAVEPOINT", "UNINSTALL", "XA",
})  # fmt: skip
_QUIET_SET: Final = frozenset({"DEFAULT", "PASSWORD", "RESOURCE", "ROLE"})


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a STATEMENT-format write is about, for the server to say what that is.

    Attributes:
        targets: the tables that it writes; None when its text does not tell for certain.
        calls: stored functions that it may call, in lower case.
        reads: the tables that it names; a view among them may call a function.
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
        claim: what it is about, where it may change rows that it does not name.
        temporary: TEMPORARY tables that it creates or drops.
        gone: what DDL takes away or puts something else in place of: the words TABLE, VIEW,
            FUNCTION or TRIGGER, and its name.
        mentions: every word and name of DDL, in lower case.
        whole_words: false for DDL with a word that a server may have cut in two: latin1 and others
            have a blank that is no ASCII.
    """

    kind: Literal["ddl", "dml", ""]
    verb: str
    names: tuple[Name, ...]
    claim: Claim | None = None
    temporary: tuple[Name, ...] = ()
    gone: tuple[tuple[str, Name], ...] = ()
    mentions: frozenset[str] = frozenset()
    whole_words: bool = True


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
            if statement.kind == "ddl" and not (event.certain and statement.whole_words):
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


@functools.lru_cache(maxsize=1)
def readings(event: StatementSeen) -> tuple[Statement, ...]:
    """Read a statement of the stream in every way that its bytes can be read."""
    return tuple(
        read_statement(
            sql,
            event.schema,
            plain_backslash=event.plain_backslash,
            ansi_quotes=event.ansi_quotes,
            certain=event.certain,
        )
        for sql in filter(None, (event.sql, event.other))
    )


def read_statement(
    sql: str,
    schema: str,
    *,
    plain_backslash: bool = False,
    ansi_quotes: bool = False,
    certain: bool = True,
) -> Statement:
    """Read a statement.

    Args:
        schema: the session's default schema.
        plain_backslash: the session's sql_mode has NO_BACKSLASH_ESCAPES.
        ansi_quotes: it has ANSI_QUOTES.
        certain: the text is what the server read.
    """
    found = cut(sql, plain_backslash=plain_backslash, ansi_quotes=ansi_quotes)
    verb = found.tokens[0].word if found.tokens else ""
    if verb in _DDL:
        seen = _ddl(found.tokens, schema, sure=certain and found.clear)
        return replace(seen, whole_words=found.whole_words)
    if _is_quiet(found.tokens, verb):
        return Statement(kind="", verb=verb, names=())
    names, targets, behind = written(found.tokens)
    reads = table_names(found.tokens)
    sure = certain and found.clear and reads is not None and targets is not None
    claim = Claim(
        targets=tuple(_within(targets or (), schema)) if sure else None,
        calls=calls_in(found.tokens, columns_at=behind),
        reads=frozenset(_within(reads or (), schema)),
    )
    return Statement(kind="dml", verb=verb, names=tuple(_within(names, schema)), claim=claim)


def _within(names: Iterable[Name], schema: str) -> list[Name]:
    return [name.within(schema) for name in names]


def _ddl(tokens: list[Token], schema: str, *, sure: bool) -> Statement:
    """Read DDL."""
    verb = tokens[0].word
    claim: Claim | None = None
    temporary: list[Name] = []
    if tokens[1:2] and tokens[1].word == "TEMPORARY":
        temporary = _created(tokens)
    if verb == "CREATE" and (at := _query_at(tokens)):
        reads = table_names(tokens)
        claim = Claim(
            targets=() if sure and reads is not None else None,
            calls=calls_in(tokens[at:]),
            reads=frozenset(_within(reads or (), schema)),
        )
    names = _ddl_names(tokens)
    gone = [] if temporary else _gone(tokens, names)
    return Statement(
        kind="ddl",
        verb=verb,
        names=tuple(_within(names, schema)),
        claim=claim,
        temporary=tuple(_within(temporary, schema)),
        gone=tuple((kind, name.within(schema)) for kind, name in gone),
        mentions=frozenset(token.text.lower() for token in tokens if not token.symbol),
    )


def _gone(tokens: list[Token], names: list[Name]) -> list[tuple[str, Name]]:
    """Give what DDL takes away: tables, views, functions and triggers."""
    verb, words = tokens[0].word, [token.word for token in tokens]
    if verb == "DROP" and words[1:2] and words[1] in {"FUNCTION", "TRIGGER", "VIEW"}:
        found = names_from(tokens, skip(tokens, 2, "IF", "EXISTS"))
        return [(words[1], name) for name in found]
    moved = verb == "ALTER" and not {"RENAME", "ENGINE"}.isdisjoint(words)
    if verb in {"DROP", "RENAME"} or (moved and words[1] == "TABLE"):
        return [("TABLE", name) for name in names]
    if (verb == "ALTER" and words[1:2] != ["TABLE"]) or words[:3] == ["CREATE", "OR", "REPLACE"]:
        head = tokens[: words.index("AS") + 1] if "AS" in words else tokens
        return [("VIEW", name) for name in names_after(head, "VIEW")]
    return []


def _is_quiet(tokens: list[Token], verb: str) -> bool:
    """Tell whether a statement is administration, or no statement but a comment."""
    second = tokens[1].word if len(tokens) > 1 else ""
    if verb == "SET":
        return second in _QUIET_SET
    return not tokens or verb in _QUIET


def _query_at(tokens: list[Token]) -> int:
    """Give the index of the query that CREATE TABLE runs: SELECT, TABLE, VALUES ROW; else 0."""
    words = [token.word for token in tokens]
    if "TABLE" not in words[:3]:
        return 0
    begins = {"SELECT", "TABLE"}
    for at, (word, behind) in enumerate(pairwise(words)):
        if at > 2 and (word in begins or (word, behind) == ("VALUES", "ROW")):
            return at
    return 0


def _ddl_names(tokens: list[Token]) -> list[Name]:
    """Give the tables whose definition, data or name a DDL statement changes."""
    words = [token.word for token in tokens[:40]]
    verb = words[0]
    if verb == "TRUNCATE":
        return names_from(tokens, skip(tokens, 1, "TABLE"))
    if "TABLE" in words[:4] or (verb in {"DROP", "RENAME"} and words[1:2] == ["TABLES"]):
        if words[1:2] == ["TEMPORARY"]:
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
