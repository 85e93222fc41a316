"""A statement in the binlog, cut into words and names as the server cuts it (pure).

What stands in a comment that servers execute counts, and a double-quoted word may be a name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

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


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a name or a symbol.

    Attributes:
        bare: not in quotes.
        symbol: a single character that is no letter.
    """

    text: str
    bare: bool
    symbol: bool = False

    @property
    def word(self) -> str:
        """The keyword that it may be, in upper case; empty for a quoted name."""
        return self.text.upper() if self.bare else ""


@dataclass(frozen=True, slots=True)
class Name:
    """A name in a statement; without a table it is a whole schema."""

    schema: str
    table: str | None

    def within(self, schema: str) -> Name:
        """Fill the session's default schema in where none is written."""
        return Name(self.schema or schema, self.table)

    def __str__(self) -> str:
        """Show it for an operator."""
        return ".".join(part for part in (self.schema, self.table) if part)


def cut(sql: str, *, plain_backslash: bool) -> list[Token]:
    """Cut a statement; strings and blanks are left out."""
    if plain_backslash:
        sql = _PLAIN_STRING.sub(lambda found: found[0].replace("\\", "/"), sql)
    tokens = []
    for found in _TOKEN.finditer(sql):
        kind, text = found.lastgroup, found[found.lastgroup or 0]
        if kind == "word":
            tokens.append(Token(text, bare=True))
        elif kind == "quoted":
            tokens.append(Token(text.replace("``", "`"), bare=False))
        elif kind == "double":
            tokens.append(Token(text.replace('""', '"'), bare=False))
        elif kind == "symbol":
            tokens.append(Token(text, bare=False, symbol=True))
    return tokens


def is_symbol(tokens: list[Token], at: int, *symbols: str) -> bool:
    """Tell whether one of these symbols stands at an index."""
    return 0 <= at < len(tokens) and tokens[at].symbol and tokens[at].text in symbols


def name_at(tokens: list[Token], at: int) -> tuple[Name | None, int]:
    """Read ``name``, ``.name`` or ``schema.name`` at an index; give the index behind it."""
    at += is_symbol(tokens, at, ".")
    if at >= len(tokens) or tokens[at].symbol:
        return None, at
    if at + 2 < len(tokens) and is_symbol(tokens, at + 1, "."):
        return Name(tokens[at].text, tokens[at + 2].text), at + 3
    return Name("", tokens[at].text), at + 1


def skip(tokens: list[Token], at: int, *words: str) -> int:
    """Skip any of these words."""
    while at < len(tokens) and tokens[at].word in words:
        at += 1
    return at


def names_from(tokens: list[Token], at: int) -> list[Name]:
    """Read names divided by commas or TO."""
    names: list[Name] = []
    while True:
        name, at = name_at(tokens, at)
        if name is None:
            return names
        names.append(name)
        divided = at < len(tokens) and (tokens[at].text == "," or tokens[at].word == "TO")
        if not divided:
            return names
        at += 1


def names_after(tokens: list[Token], *words: str) -> list[Name]:
    """Read the name behind each occurrence of these consecutive words."""
    names: list[Name] = []
    for at in range(len(tokens) - len(words)):
        if all(tokens[at + i].word == word for i, word in enumerate(words)):
            name, _ = name_at(tokens, at + len(words))
            if name is not None:
                names.append(name)
    return names
