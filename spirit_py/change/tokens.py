"""A statement in the binlog, cut into words and names as the server cuts it (pure).

What stands in a comment that servers execute counts.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Final

#: How the server itself cuts, of 9.7 (measured): ``/*!`` counts, and what it did not execute of it
#: is a plain comment in the binlog; ``/*M!`` is MariaDB's. Nothing in it backtracks, because each
#: step that could be taken back is remembered. Rows of literals are passed over as a whole.
_PATTERN: Final = r"""(?P<rows>(?:,[ \t-\r]*+\(LITERAL(?:,LITERAL)*+\)[ \t-\r]*+)++)
      | (?P<space>[ \t-\r]++|\#[^\n]*+|--(?=[\x00-\x20\x7f]|\Z)[^\n]*+)
      | (?P<executed>/\*!(?:[0-9]{5,6})?+|\*/)
      | (?P<comment>/\*(?:[^*]++|\*(?!/))*+\*/)
      | `(?P<quoted>(?:[^`]++|``)*+)`
      | "(?P<double>DOUBLE)"
      | @?'(?:SINGLE)'
      | @"(?:DOUBLE)"
      | (?<![.\w$`])[0-9]++\.[0-9]*+(?:[eE][-+]?[0-9]++)?+
      | (?P<word>[0-9A-Za-z_$\u0080-\U0010ffff]++)
      | (?P<symbol>.)"""
_LITERAL: Final = r"""[ \t-\r]*+(?:[-+]?[0-9.]++(?:[eE][-+]?[0-9]++)?+|0[xb][0-9A-Fa-f]++
    | (?:[xXbBnN]|_[a-z0-9]++[ ]?)?+'(?:SINGLE)' | (?i:NULL|DEFAULT|TRUE|FALSE)
    | (?i:NOW|UUID|CURDATE|UNIX_TIMESTAMP|UTC_TIMESTAMP|CURRENT_TIMESTAMP)\([0-9]?\)
    STRING)[ \t-\r]*+"""
_ESCAPED: Final = r"(?:[^{0}\\]++|\\.|{0}{0})*+"
_PLAIN: Final = r"(?:[^{0}]++|{0}{0})*+"
_NUMBERS: Final = re.compile(r"[0-9]+(?:[eE][0-9]+)?|0x[0-9A-Fa-f]+")
_VERSIONS: Final = frozenset({"/*!", "*/"})
#: Every server that is supported is later.
_OLDEST: Final = 80013
LONGEST_NAME: Final = 64
#: Different tokens of one statement that are kept once.
_SHARED: Final = 10_000


@functools.cache
def _pattern(*, plain_backslash: bool, ansi_quotes: bool) -> re.Pattern[str]:
    """Build the pattern for a ``sql_mode``."""
    strings = _PLAIN if plain_backslash else _ESCAPED
    double = _PLAIN if ansi_quotes else strings
    literal = _LITERAL.replace("STRING", "" if ansi_quotes else '| "(?:DOUBLE)"')
    pattern = _PATTERN.replace("LITERAL", f"(?:{literal})")
    pattern = pattern.replace("DOUBLE", double.format('"')).replace("SINGLE", strings.format("'"))
    return re.compile(pattern, re.VERBOSE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a name or a symbol.

    Attributes:
        bare: not in quotes.
        symbol: a single character that is no letter.
        glued: nothing is in front of it.
    """

    text: str
    bare: bool
    symbol: bool = False
    glued: bool = False

    @property
    def word(self) -> str:
        """The keyword that it may be, in upper case; empty for a quoted name."""
        return self.text.upper() if self.bare and self.text.isascii() else ""

    @property
    def is_name(self) -> bool:
        """Tell whether it can be a name: a server takes none that is longer, or beyond the BMP."""
        fits = len(self.text) <= LONGEST_NAME and max(self.text, default="") <= "\uffff"
        return fits and not self.symbol and not (self.bare and _NUMBERS.fullmatch(self.text))


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


@dataclass(frozen=True, slots=True)
class Cut:
    """A statement in tokens.

    Attributes:
        clear: it is certain that the server cut it in the same way.
        whole_words: no bare word has a character in it that is a blank in some character set.
    """

    tokens: list[Token]
    clear: bool
    whole_words: bool


def cut(sql: str, *, plain_backslash: bool, ansi_quotes: bool) -> Cut:
    """Cut a statement; strings and blanks are left out, and most rows of literals.

    Args:
        plain_backslash: the session's sql_mode has NO_BACKSLASH_ESCAPES.
        ansi_quotes: it has ANSI_QUOTES.
    """
    pattern = _pattern(plain_backslash=plain_backslash, ansi_quotes=ansi_quotes)
    made: dict[tuple[str, str, bool], Token] = {}
    tokens: list[Token] = []
    clear, whole_words, open_comments, end = True, True, 0, -1
    for found in pattern.finditer(sql):
        kind = found.lastgroup
        if kind in {"symbol", "word", "quoted", "double"}:
            if kind == "double" and not ansi_quotes:
                continue
            text = found[kind]
            glued = kind == "symbol" and found.start() == end
            end = found.end()
            token = made.get((kind, text, glued))
            if token is None:
                token = _token(kind, text, glued=glued)
                if not _is_clear(token):
                    clear, whole_words = False, whole_words and token.symbol
                if len(made) < _SHARED:
                    made[kind, text, glued] = token
            tokens.append(token)
        elif kind == "executed":
            open_comments += -1 if found[0] == "*/" else 1
            known = found[0] in _VERSIONS or int(found[0][3:]) <= _OLDEST
            clear = clear and known and 0 <= open_comments <= 1
        elif kind == "comment":
            clear = clear and not _is_odd(found[0])
    return Cut(tokens, clear and not open_comments, whole_words)


def _token(kind: str, text: str, *, glued: bool) -> Token:
    """Build a token."""
    if kind == "quoted":
        text = text.replace("``", "`")
    elif kind == "double":
        text = text.replace('""', '"')
    return Token(text, bare=kind == "word", symbol=kind == "symbol", glued=glued)


def _is_clear(token: Token) -> bool:
    """Tell whether a token is one in every character set: latin1 has blanks that are no ASCII."""
    text = token.text
    if token.symbol:
        return text not in {"`", '"', "'"}
    return not token.bare or text.isascii() or re.sub(r"[_$]", "", text).isalnum()


def _is_odd(comment: str) -> bool:
    """Tell whether servers may not agree on where a comment ends, or what a hint sets."""
    if "/*" in comment[2:]:
        return True
    return comment.startswith("/*+") and "SET_VAR" in comment.upper()


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
