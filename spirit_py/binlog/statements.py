"""What a statement in the binlog changes, by its text (pure; R13, R14)."""

from __future__ import annotations

import functools
import re
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from spirit_py.classes import dataclass
from spirit_py.errors import Refusal
from spirit_py.statement.cursor import split_at
from spirit_py.statement.lexer import DEFAULT_MODE, SqlMode, read_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spirit_py.binlog.events import StatementSeen, Table
    from spirit_py.statement.lexer import Token

_DDL: Final = frozenset({"ALTER", "CREATE", "DROP", "RENAME", "TRUNCATE"})
ACCOUNTS: Final = frozenset({"ROLE", "SERVER", "USER"})
"""Kinds of DDL that is about no table of any schema, and whose texts have passwords."""
#: These change no row of a table, and call no stored function.
_QUIET: Final = frozenset({
    "ANALYZE", "BEGIN", "CHECK", "COMMIT", "FLUSH", "GRANT", "IMPORT", "INSTALL", "OPTIMIZE",
    "RELEASE", "REPAIR", "REVOKE", "ROLLBACK", "SAVEPOINT", "UNINSTALL", "XA",
})  # fmt: skip
#: What an ALTER TABLE consists of, besides the table's name, that only builds the table again.
#: KEYS of InnoDB are neither enabled nor disabled: dumps have that around their rows.
_REBUILD: Final = frozenset({
    "FORCE", "ENGINE", "INNODB", "ALGORITHM", "INPLACE", "COPY", "LOCK", "NONE", "SHARED",
    "EXCLUSIVE", "DEFAULT", "DISABLE", "ENABLE", "KEYS", "=", ",",
})  # fmt: skip
_REBUILD_PARTITION: Final = frozenset({("OPTIMIZE", "PARTITION"), ("REBUILD", "PARTITION")})
#: What an ALTER TABLE may do with partitions that changes neither rows nor the definition. REPAIR
#: moves rows that are in a wrong partition, where readers who skip it have not seen them.
_LOOKS: Final = frozenset({"ANALYZE", "CHECK"})
#: What clauses of an ALTER TABLE begin with that may say what the table has already, or change its
#: counter; the server logs them all the same. None of them brings rows, or takes some away.
_RESTATING: Final = frozenset({
    "ALTER", "AUTO_INCREMENT", "CHANGE", "CHARACTER", "CHARSET", "COLLATE", "COMMENT", "CONVERT",
    "MODIFY", "ROW_FORMAT", "STATS_AUTO_RECALC", "STATS_PERSISTENT", "STATS_SAMPLE_PAGES",
})  # fmt: skip
_UNLESS_THERE: Final = ["CREATE", "TABLE", "IF", "NOT", "EXISTS"]
_QUIET_SET: Final = frozenset({"DEFAULT", "PASSWORD", "RESOURCE", "ROLE"})
#: What CREATE DEFINER creates; SQL SECURITY stands before VIEW.
_WITH_DEFINER: Final = frozenset({"EVENT", "FUNCTION", "PROCEDURE", "SQL", "TRIGGER", "VIEW"})
_HEAD: Final = 40


@dataclass(frozen=True, slots=True)
class Name:
    """A name in a statement; without a table it is a whole schema."""

    schema: str
    table: str | None

    def within(self, schema: str) -> Name:
        """Return the name with the session's default schema where none is written."""
        return Name(self.schema or schema, self.table)

    def __str__(self) -> str:
        return ".".join(part for part in (self.schema, self.table) if part)


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What a statement in the binlog is, and what DDL ``names``; ``exact``: none is missing.

    ``fills``: it creates a table from a query, which changes no other table (error 1746).
    ``rebuilds``: it only builds tables again. ``unless_there``: it creates the first of ``names``,
    and does nothing where that exists: the server logs it all the same. ``restates``: it leaves the
    one name as it is if that has all of it already. ``own``: the names without those that only its
    keys refer to. ``kind``: what it makes, alters or drops, such as TABLE or TRIGGER.
    """

    verb: str
    ddl: bool = False
    writes: bool = False
    fills: bool = False
    rebuilds: bool = False
    unless_there: bool = False
    restates: bool = False
    names: tuple[Name, ...] = ()
    own: tuple[Name, ...] = ()
    kind: str = ""
    exact: bool = True

    def changed(self, *, referred: bool) -> tuple[Name, ...]:
        """Return the tables that it changes, if all exist; ``referred``: or that keys refer to."""
        names = self.names if referred else self.own
        return names[1:] if self.unless_there else names


class Touch(NamedTuple):
    """A followed table that DDL changes, or may change, if its text is not ``certain``.

    ``vain``: it may have changed nothing, as the definition shows; ``alters``: of the table itself.
    """

    table: Table
    certain: bool
    vain: bool = False
    alters: bool = True


class TableFinder:
    """Finds the followed table that a DDL statement names. Those that are followed exist.

    ``referred``: also where only a key of another table refers to it, which changes none of its
    rows.
    """

    def __init__(
        self, tables: Iterable[Table], *, ignore_case: bool, referred: bool = True
    ) -> None:
        self._fold: Callable[[str], str] = str.lower if ignore_case else str
        self._referred = referred
        self._tables = {(self._fold(s), self._fold(t)): (s, t) for s, t in tables}

    def find(self, event: StatementSeen) -> Touch | None:
        """Return the followed table whose definition or data the statement changes, if any."""
        read = (self._touched(event, statement) for statement in readings(event))
        touches = [touch for touch in read if touch is not None]
        # Where its two readings are about two tables, neither may be thought in vain.
        ways = set(touches)
        return touches[0]._replace(vain=touches[0].vain and len(ways) == 1) if touches else None

    def _touched(self, event: StatementSeen, statement: Statement) -> Touch | None:
        exact = statement.exact
        if not statement.ddl or (statement.rebuilds and exact):
            return None
        if statement.unless_there and exact and self._named(statement.names[:1]):
            return None
        if found := self._named(statement.changed(referred=self._referred)):
            vain = exact and (statement.restates or statement.unless_there)
            return Touch(found, certain=True, vain=vain, alters=statement.verb == "ALTER")
        if not exact:
            near = (table for table in self._tables.values() if may_name(event.sql, *table))
            if (found := next(near, None)) is not None:
                return Touch(found, certain=False)
        return None

    def rebuilt(self, event: StatementSeen) -> set[Table]:
        """Return the followed tables that OPTIMIZE TABLE, or an ALTER like it, built again."""
        return {
            found
            for statement in readings(event)
            if statement.rebuilds and statement.exact
            for name in statement.names
            if (found := self._named([name])) is not None
        }

    def has(self, schema: str, table: str) -> bool:
        """Whether this is a followed table."""
        return (self._fold(schema), self._fold(table)) in self._tables

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
    """Whether DDL in unknown characters may be about a table; an empty one stands for any."""
    folded = sql.lower()

    def stands(name: str) -> bool:
        return not name.isascii() or name.lower().replace("`", "``") in folded

    return stands(table) or ("drop" in folded and stands(schema))


@functools.lru_cache(maxsize=1)
def readings(event: StatementSeen) -> tuple[Statement, ...]:
    """Read a statement of the stream in every way that its bytes can be read."""
    mode = SqlMode(event.ansi_quotes, event.plain_backslash)
    return tuple(
        read_statement(sql, event.schema, mode=mode, certain=event.certain) for sql in event.texts
    )


def read_statement(
    sql: str, schema: str, *, mode: SqlMode = DEFAULT_MODE, certain: bool = True
) -> Statement:
    """Read a statement; ``certain``: the text is what the server read."""
    head, exact = _cut(sql, mode, 2)
    verb = head[0].upper if head else ""
    if verb == "OPTIMIZE":
        tokens, exact = _cut(sql, mode)
        names = _names_from(tokens, _skip(tokens, 1, "TABLE", "TABLES"))
        names = [name.within(schema) for name in names]
        return Statement(verb=verb, rebuilds=True, names=tuple(names), exact=certain and exact)
    if verb not in _DDL:
        second = head[1].upper if len(head) > 1 else ""
        quiet = second in _QUIET_SET if verb == "SET" else verb in _QUIET
        nothing = exact and not head
        return Statement(verb=verb, writes=not (quiet or nothing), exact=certain and exact)
    found, exact = _cut(sql, mode)
    tokens = [token for token in found if token.kind != "string"]
    fills = verb == "CREATE" and _is_filled(tokens)
    trigger_table = _trigger_table(found)
    kind, names, referred = ("TRIGGER", trigger_table, []) if trigger_table else _ddl_names(tokens)
    own = tuple(name.within(schema) for name in names)
    return Statement(
        verb=verb,
        ddl=True,
        fills=fills,
        rebuilds=_is_rebuild(found),
        restates=_restates(found) or _spares_trigger(found),
        # One that fills a table is in the log only where it has created it.
        unless_there=not fills and _spares(tokens),
        names=(*own, *(name.within(schema) for name in referred)),
        own=own,
        kind=kind,
        exact=certain and exact and all(_is_whole(token) for token in tokens),
    )


def _cut(sql: str, mode: SqlMode, most: int | None = None) -> tuple[list[Token], bool]:
    found: list[Token] = []
    try:
        found.extend(islice(read_tokens(sql, mode, executed=True), most))
    except Refusal:
        return found, False
    return found, True


def _is_whole(token: Token) -> bool:
    """Whether a bare word is one in every character set: latin1 has a blank that is no ASCII."""
    text = token.value
    return token.kind != "word" or text.isascii() or re.sub(r"[_$]", "", text).isalnum()


def _is_filled(tokens: list[Token]) -> bool:
    words = [token.upper for token in tokens]
    return words[1:2] == ["TABLE"] and any(
        word in {"SELECT", "TABLE"} or (word, behind) == ("VALUES", "ROW")
        for word, behind in pairwise([*words[2:], ""])
    )


def _spares(tokens: list[Token]) -> bool:
    words = [token.upper for token in tokens[:5]]
    return words == _UNLESS_THERE and _name_at(tokens, len(words))[0] is not None


def _is_rebuild(tokens: list[Token]) -> bool:
    if [token.upper for token in tokens[:2]] != ["ALTER", "TABLE"]:
        return False
    _, at = _name_at(tokens, 2)
    words = tuple(token.upper for token in tokens[at : at + 2])
    if words in _REBUILD_PARTITION:
        listed = tokens[at + 2 :]
        # Names, or ALL, with commas between: nothing else can follow.
        return len(listed) % 2 == 1 and all(
            token.is_symbol(",") if n % 2 else token.kind not in {"symbol", "string"}
            for n, token in enumerate(listed)
        )
    return at < len(tokens) and all(
        (token.value if token.kind == "symbol" else token.upper) in _REBUILD
        for token in tokens[at:]
    )


def _behind_trigger(tokens: list[Token]) -> list[Token]:
    """Return what follows TRIGGER where that is what is created; nothing of another statement.

    Only a DEFINER clause may stand before it, and the body of a routine or an event may have one.
    """
    words = [token.upper for token in tokens[:_HEAD]]
    at = 1
    if words[:2] == ["CREATE", "DEFINER"]:
        objects = (i for i, word in enumerate(words) if word in _WITH_DEFINER)
        # A user or a host may have such a name, too.
        at = next((i for i in objects if tokens[i - 1].value not in {"=", "@", "."}), len(words))
    created = words[:1] == ["CREATE"] and words[at : at + 1] == ["TRIGGER"]
    return tokens[at + 1 :] if created else []


def _spares_trigger(tokens: list[Token]) -> bool:
    words = [token.upper for token in _behind_trigger(tokens)[:3]]
    return words == _UNLESS_THERE[2:]


def _trigger_table(tokens: list[Token]) -> list[Name]:
    return _names_after(_behind_trigger(tokens), "ON")[:1]


def _restates(tokens: list[Token]) -> bool:
    words = [token.upper for token in tokens]
    name, at = _name_at(tokens, 2)
    if words[:2] != ["ALTER", "TABLE"] or name is None or "REFERENCES" in words:
        return False
    return all(map(_restates_one, split_at(tuple(tokens[at:]), ",")))


def _restates_one(clause: tuple[Token, ...]) -> bool:
    head = clause[0].upper if clause else ""
    if head != "CHANGE":
        return head in _RESTATING or head in _REBUILD
    names = clause[_skip(list(clause), 1, "COLUMN") :][:2]
    return len({name.value.lower() for name in names}) == 1


def _only_looks(tokens: list[Token]) -> bool:
    _, at = _name_at(tokens, 2)
    words = [token.upper for token in tokens[at : at + 2]]
    return words[1:] == ["PARTITION"] and words[0] in _LOOKS


def _ddl_names(tokens: list[Token]) -> tuple[str, list[Name], list[Name]]:
    """Return what kind of thing DDL is about, its names, and those that its keys refer to."""
    words = [token.upper for token in tokens[:_HEAD]]
    verb = words[0]
    if verb == "TRUNCATE":
        return "TABLE", _names_from(tokens, _skip(tokens, 1, "TABLE")), []
    if words[1:2] and words[1] in ACCOUNTS:
        return words[1], [], []
    if "TABLE" in words[:4] or (verb in {"DROP", "RENAME"} and words[1:2] == ["TABLES"]):
        if words[1:2] == ["TEMPORARY"] or (verb == "ALTER" and _only_looks(tokens)):
            return "TABLE", [], []
        own = [*_created(tokens), *_brought_in(tokens)]
        return "TABLE", own, _names_after(tokens, "REFERENCES")
    if verb == "DROP" and words[1:2] and words[1] in {"DATABASE", "SCHEMA"}:
        at = _skip(tokens, 2, "IF", "EXISTS")
        return "SCHEMA", [Name(n.table or "", None) for n in _names_from(tokens, at)], []
    return ("INDEX", _names_after(tokens, "ON")[:1], []) if "INDEX" in words[:4] else ("", [], [])


def _created(tokens: list[Token]) -> list[Name]:
    found = (i for i, token in enumerate(tokens) if token.upper in {"TABLE", "TABLES"})
    return _names_from(tokens, _skip(tokens, next(found, len(tokens)) + 1, "IF", "NOT", "EXISTS"))


def _brought_in(tokens: list[Token]) -> list[Name]:
    if tokens[0].upper != "ALTER":
        return []
    names = _names_after(tokens, "WITH", "TABLE")
    for at, token in enumerate(tokens):
        if token.upper == "RENAME":
            to = _skip(tokens, at + 1, "TO", "AS") + _is_symbol(tokens, at + 1, "=")
            name, _ = _name_at(tokens, to)
            if name is not None and tokens[to].upper not in {"COLUMN", "INDEX", "KEY"}:
                names.append(name)
    return names


def _is_symbol(tokens: list[Token], at: int, symbol: str) -> bool:
    return 0 <= at < len(tokens) and tokens[at].is_symbol(symbol)


def _skip(tokens: list[Token], at: int, *words: str) -> int:
    while at < len(tokens) and tokens[at].upper in words:
        at += 1
    return at


def _name_at(tokens: list[Token], at: int) -> tuple[Name | None, int]:
    """Read ``name``, ``.name`` or ``schema.name`` at an index; return the index after it too."""
    at += _is_symbol(tokens, at, ".")
    if at >= len(tokens) or tokens[at].kind == "symbol":
        return None, at
    if at + 2 < len(tokens) and _is_symbol(tokens, at + 1, "."):
        return Name(tokens[at].value, tokens[at + 2].value), at + 3
    return Name("", tokens[at].value), at + 1


def _names_from(tokens: list[Token], at: int) -> list[Name]:
    names: list[Name] = []
    while True:
        name, at = _name_at(tokens, at)
        if name is None:
            return names
        names.append(name)
        if not (_is_symbol(tokens, at, ",") or (at < len(tokens) and tokens[at].upper == "TO")):
            return names
        at += 1


def _names_after(tokens: list[Token], *words: str) -> list[Name]:
    size, texts = len(words), tuple(token.upper for token in tokens)
    places = (at for at in range(len(tokens) - size) if texts[at : at + size] == words)
    names = (_name_at(tokens, at + size)[0] for at in places)
    return [name for name in names if name is not None]
