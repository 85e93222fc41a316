"""Which followed table a statement in the binlog is about (pure; R13, R14).

Only statements that hold the table's name are looked at. Text is cut as the server cuts it;
what stands in a comment that servers execute counts, and a double-quoted word may be a name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spirit_py.change.events import Table

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|\#[^\n]*|--(?=\s|$)[^\n]*|/\*(?!M?!)(?:[^*]|\*(?!/))*\*/|/\*M?!\d*|\*/)
      | `(?P<quoted>(?:[^`]|``)*)`
      | "(?P<double>(?:[^"\\]|\\.|"")*)"
      | '(?P<string>(?:[^'\\]|\\.|'')*)'
      | (?P<word>[0-9A-Za-z_$\u0080-\U0010ffff]+)
      | (?P<symbol>.)""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN_STRING: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_DDL: Final = frozenset({"ALTER", "CREATE", "DROP", "RENAME", "TRUNCATE"})
_DML: Final = frozenset({"INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "WITH"})


@dataclass(frozen=True)
class Touch:
    """A statement touches a followed table.

    Attributes:
        kind: ``ddl`` changes its definition, ``dml`` its rows.
        verb: the statement's first keyword.
    """

    kind: Literal["ddl", "dml"]
    table: Table
    verb: str


class TableFinder:
    """Finds the followed table that a statement touches.

    Args:
        tables: the followed tables.
        ignore_case: the server's ``lower_case_table_names`` is not 0.
    """

    def __init__(self, tables: Iterable[Table], *, ignore_case: bool) -> None:
        self._fold: Callable[[str], str] = str.lower if ignore_case else str
        self._tables = {(self._fold(s), self._fold(t)): (s, t) for s, t in tables}

    def find(self, sql: str, schema: str, *, plain_backslash: bool = False) -> Touch | None:
        """Tell which followed table the statement touches, if any.

        Args:
            schema: the session's default schema.
            plain_backslash: the session's sql_mode has NO_BACKSLASH_ESCAPES.
        """
        folded = sql.lower()
        if not any(self._mentions(folded, table) for table in self._tables.values()):
            return None
        tokens = _tokens(sql, plain_backslash=plain_backslash)
        verb = tokens[0].word if tokens else ""
        if verb in _DDL:
            return self._touch("ddl", verb, _ddl_names(tokens), schema)
        if verb in _DML:
            return self._touch("dml", verb, _dml_names(tokens), schema)
        return None

    @staticmethod
    def _mentions(folded: str, table: Table) -> bool:
        name = table[1].lower()
        schema_goes = "drop" in folded and table[0].lower() in folded
        return name in folded or name.replace("`", "``") in folded or schema_goes

    def _touch(
        self, kind: Literal["ddl", "dml"], verb: str, names: Iterable[Name], schema: str
    ) -> Touch | None:
        for name in names:
            if name.table is None:
                here = (t for s, t in self._tables.items() if s[0] == self._fold(name.schema))
                found = next(here, None)
            else:
                where = name.schema or schema
                found = self._tables.get((self._fold(where), self._fold(name.table)))
            if found is not None:
                return Touch(kind, found, verb)
        return None


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    bare: bool
    symbol: bool = False

    @property
    def word(self) -> str:
        return self.text.upper() if self.bare else ""


@dataclass(frozen=True, slots=True)
class Name:
    """A name in a statement; without a table it is a whole schema."""

    schema: str
    table: str | None


def _tokens(sql: str, *, plain_backslash: bool) -> list[_Token]:
    """Cut a statement; strings and blanks are left out."""
    if plain_backslash:
        sql = _PLAIN_STRING.sub(lambda found: found[0].replace("\\", "/"), sql)
    tokens = []
    for found in _TOKEN.finditer(sql):
        kind, text = found.lastgroup, found[found.lastgroup or 0]
        if kind == "word":
            tokens.append(_Token(text, bare=True))
        elif kind == "quoted":
            tokens.append(_Token(text.replace("``", "`"), bare=False))
        elif kind == "double":
            tokens.append(_Token(text.replace('""', '"'), bare=False))
        elif kind == "symbol":
            tokens.append(_Token(text, bare=False, symbol=True))
    return tokens


def _name(tokens: list[_Token], at: int) -> tuple[Name | None, int]:
    """Read ``name`` or ``schema.name`` at an index; give the index behind it."""
    if at >= len(tokens) or tokens[at].symbol:
        return None, at
    dotted = at + 2 < len(tokens) and tokens[at + 1].symbol and tokens[at + 1].text == "."
    if dotted:
        return Name(tokens[at].text, tokens[at + 2].text), at + 3
    return Name("", tokens[at].text), at + 1


def _skip(tokens: list[_Token], at: int, *words: str) -> int:
    """Skip any of these words."""
    while at < len(tokens) and tokens[at].word in words:
        at += 1
    return at


def _list(tokens: list[_Token], at: int) -> list[Name]:
    """Read names divided by commas or TO."""
    names: list[Name] = []
    while True:
        name, at = _name(tokens, at)
        if name is None:
            return names
        names.append(name)
        divided = at < len(tokens) and (tokens[at].text == "," or tokens[at].word == "TO")
        if not divided:
            return names
        at += 1


def _after(tokens: list[_Token], *words: str) -> list[Name]:
    """Read the name behind each occurrence of these consecutive words."""
    names: list[Name] = []
    for at in range(len(tokens) - len(words)):
        if all(tokens[at + i].word == word for i, word in enumerate(words)):
            name, _ = _name(tokens, at + len(words))
            if name is not None:
                names.append(name)
    return names


def _ddl_names(tokens: list[_Token]) -> list[Name]:
    """Give the tables whose definition, data or name a DDL statement changes."""
    words = [token.word for token in tokens[:40]]
    verb = words[0]
    if verb == "TRUNCATE":
        return _list(tokens, _skip(tokens, 1, "TABLE"))
    if "TABLE" in words[:4] or "TABLES" in words[:4]:
        if "TEMPORARY" in words[:3]:
            return []
        at = next(i for i, word in enumerate(words) if word in {"TABLE", "TABLES"})
        names = _list(tokens, _skip(tokens, at + 1, "IF", "NOT", "EXISTS"))
        return names + _after(tokens, "REFERENCES") + _after(tokens, "WITH", "TABLE")
    if verb == "DROP" and words[1:2] and words[1] in {"DATABASE", "SCHEMA"}:
        return [Name(n.table or "", None) for n in _list(tokens, _skip(tokens, 2, "IF", "EXISTS"))]
    if "TRIGGER" in words and verb == "CREATE":
        return _after(tokens[words.index("TRIGGER") :], "ON")[:1]
    if "INDEX" in words[:4]:
        return _after(tokens, "ON")[:1]
    return []


def _dml_names(tokens: list[_Token]) -> list[Name]:
    """Give the tables whose rows a DML statement may change; rather one too many."""
    verb = tokens[0].word
    if verb in {"INSERT", "REPLACE"}:
        at = _skip(tokens, 1, "LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO")
        return _list(tokens, at)[:1]
    if verb == "LOAD":
        return _after(tokens, "INTO", "TABLE")[:1]
    if verb == "UPDATE":
        ends = (i for i, token in enumerate(tokens) if token.word == "SET")
        tokens = tokens[: next(ends, len(tokens))]
    return [name for at in range(1, len(tokens)) if (name := _name(tokens, at)[0]) is not None]


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What a statement in the binlog is and names.

    Attributes:
        kind: ``ddl``, ``dml`` or empty for everything else (GRANT, ANALYZE, ...).
        verb: its first keyword.
        names: what it changes, with the schema filled in; a table of None is a whole schema.
        words: the bare words in it, in upper case.
    """

    kind: Literal["ddl", "dml", ""]
    verb: str
    names: tuple[Name, ...]
    words: tuple[str, ...]


def read_statement(sql: str, schema: str, *, plain_backslash: bool = False) -> Statement:
    """Read a statement; see :meth:`TableFinder.find` for the arguments."""
    tokens = _tokens(sql, plain_backslash=plain_backslash)
    verb = tokens[0].word if tokens else ""
    kind: Literal["ddl", "dml", ""] = ""
    found: list[Name] = []
    if verb in _DDL:
        kind, found = "ddl", _ddl_names(tokens)
    elif verb in _DML:
        kind, found = "dml", _dml_names(tokens)
    return Statement(
        kind=kind,
        verb=verb,
        names=tuple(Name(name.schema or schema, name.table) for name in found),
        words=tuple(token.word for token in tokens if token.word),
    )
