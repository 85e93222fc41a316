"""Which tables a write in text names, and which of them it writes to (pure; R13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from spirit_py.change.native import is_native
from spirit_py.change.tokens import is_symbol, name_at, names_after, skip

if TYPE_CHECKING:
    from spirit_py.change.tokens import Name, Token

_HINTS: Final = ("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK", "IGNORE")
_BEHIND_ONE_TABLE: Final = frozenset({"WHERE", "ORDER", "LIMIT", "PARTITION"})
_TABLES_FOLLOW: Final = frozenset({"FROM", "JOIN", "STRAIGHT_JOIN", "TABLE", "UPDATE"})
#: What is in front of them where no tables follow: FOR UPDATE, KEY UPDATE, USE INDEX FOR JOIN.
_NOT_BEHIND: Final = {"UPDATE": ("FOR",), "JOIN": ("FOR",), "STRAIGHT_JOIN": ("SELECT",)}
_TABLES_END: Final = frozenset({
    "GROUP", "HAVING", "LIMIT", "ORDER", "SELECT", "SET", "VALUES", "WHERE", "WINDOW",
})  # fmt: skip
#: FROM in their parentheses is followed by a value.
_FROM_A_VALUE: Final = frozenset({"EXTRACT", "MID", "SUBSTR", "SUBSTRING", "TRIM"})


class Written(NamedTuple):
    """What a write changes.

    Attributes:
        names: the tables whose rows it may change; rather one too many.
        targets: a table that is none of these is not written; None when that is not certain.
        behind: index behind the name of the one target; where a list of columns may begin.
    """

    names: list[Name]
    targets: list[Name] | None
    behind: int = 0


def written(tokens: list[Token]) -> Written:
    """Give the tables that a statement writes to."""
    at = _main(tokens)
    verb = tokens[at].word if at < len(tokens) else ""
    if verb in {"INSERT", "REPLACE"}:
        name, behind = name_at(tokens, skip(tokens, skip(tokens, at + 1, *_HINTS), "INTO"))
        return Written([name], [name], behind) if name else Written([], None)
    if verb == "LOAD":
        names = names_after(tokens, "INTO", "TABLE")[:1]
        words = [token.word for token in tokens]
        here = words.index("TABLE") + 1 if names else 0
        return Written(names, names or None, name_at(tokens, here)[1])
    if verb not in {"UPDATE", "DELETE"}:
        return Written([], None)
    if (name := _one(tokens, at, verb)) is not None:
        return Written([name], [name])
    return _several(tokens[at:], verb)


def _main(tokens: list[Token]) -> int:
    """Give the index of the verb that WITH leads in."""
    if not tokens or tokens[0].word != "WITH":
        return 0
    depth = 0
    for at, token in enumerate(tokens):
        if token.symbol:
            depth += (token.text == "(") - (token.text == ")")
        elif depth == 0 and token.word in {"UPDATE", "DELETE", "SELECT"}:
            return at
    return len(tokens)


def _one(tokens: list[Token], at: int, verb: str) -> Name | None:
    """Give the table of an UPDATE or DELETE of one table."""
    at = skip(tokens, at + 1, *_HINTS)
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


def _several(tokens: list[Token], verb: str) -> Written:
    """Give every table of a join as one that may be written."""
    if verb == "UPDATE":
        ends = (
            i
            for i, token in enumerate(tokens)
            if token.word == "SET" and not is_symbol(tokens, i - 1, ".", "@")
        )
        tokens = tokens[: next(ends, len(tokens))]
    elif skip(tokens, skip(tokens, 1, *_HINTS), "FROM") > skip(tokens, 1, *_HINTS):
        # What is in front of its USING is named again behind it, maybe with an alias.
        words = [token.word for token in tokens]
        at = words.index("USING") if "USING" in words else len(words)
        tokens = [tokens[words.index("FROM")], *tokens[at + 1 :]]
    found = table_names(tokens)
    if found:
        found = list(dict.fromkeys(found))
        return Written(found, found)
    names = [name for at in range(1, len(tokens)) if (name := name_at(tokens, at)[0]) is not None]
    return Written(names, None)


def table_names(tokens: list[Token]) -> list[Name] | None:
    """Give the tables that are named where tables are; None when that is not certain.

    Columns, aliases and functions are not among them; the names of common tables are.
    """
    return _Tables(tokens).read()


class _Tables:
    """Reads table references, each pair of parentheses by itself."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._found: list[Name] = []
        #: For each open parenthesis: do commas divide tables; is FROM one of a value.
        self._commas, self._values = [False], [False]
        self._expected = False

    def read(self) -> list[Name] | None:
        """Read all."""
        for at, token in enumerate(self._tokens):
            good = self._symbol(at, token.text) if token.symbol else self._word(at)
            if not good:
                return None
        return self._found if len(self._commas) == 1 and not self._expected else None

    def _symbol(self, at: int, text: str) -> bool:
        """Take a symbol; False when it is not understood."""
        if text == "(":
            self._commas.append(self._expected)
            self._values.append(self._before(at) in _FROM_A_VALUE)
        elif self._expected:
            return text == "."
        elif text == ")":
            self._commas.pop()
            self._values.pop()
        elif text == ",":
            self._expected = self._commas[-1]
        return bool(self._commas)

    def _word(self, at: int) -> bool:
        """Take a word or a name."""
        word = self._tokens[at].word
        if is_symbol(self._tokens, at - 1, ".", "@") and not self._expected:
            return True
        if self._expected and word in {"FROM", "JOIN", "STRAIGHT_JOIN"}:
            return is_symbol(self._tokens, at - 1, ".")
        if self._expected and word not in {"SELECT", "VALUES", "TABLE", "WITH"}:
            self._table(at, word)
        elif word in _TABLES_FOLLOW:
            if self._before(at) == "KEY":
                self._commas[-1] = False
            elif not (self._before(at) in _NOT_BEHIND.get(word, ()) or self._values[-1]):
                self._commas[-1] = self._expected = True
        elif self._expected or (word in _TABLES_END and self._before(at) != "FOR"):
            self._commas[-1] = self._expected = False
        return True

    def _table(self, at: int, word: str) -> None:
        """Take the word where a table is expected."""
        if word in {*_HINTS, "LATERAL"}:
            return
        self._expected = False
        called = word == "JSON_TABLE" and is_symbol(self._tokens, at + 1, "(")
        name, _ = name_at(self._tokens, at)
        if name is not None and word != "DUAL" and not called:
            self._found.append(name)

    def _before(self, at: int) -> str:
        named = is_symbol(self._tokens, at - 2, ".", "@")
        return self._tokens[at - 1].word if at and not named else ""


def calls_in(tokens: list[Token], *, columns_at: int = 0) -> frozenset[str]:
    """Give what may be a stored function, in lower case: not the server's own.

    Args:
        columns_at: index of a parenthesis that may open a list of columns.
    """
    found = set()
    for at in range(1, len(tokens)):
        name = tokens[at - 1]
        if at == columns_at or not is_symbol(tokens, at, "(") or not name.is_name:
            continue
        qualified = is_symbol(tokens, at - 2, ".") and at > 1
        if not qualified and tokens[at - 2].word == "AS" and at > 1:
            continue
        if qualified or not name.bare or not is_native(name.word, glued=tokens[at].glued):
            found.add(name.text.lower())
    return frozenset(found)
