"""Cut MySQL text into tokens as the server's own lexer does (manual 11, Language Structure).

Comments, double quotes and backslashes depend on MySQL and on ``sql_mode``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

TokenKind = Literal["word", "name", "string", "symbol"]

_WORD = re.compile(r"[0-9A-Za-z_$\u0080-\U0010ffff]+")
_SPACE = re.compile(r"[ \t-\r]+")
_LINE_COMMENT = re.compile(r"(?:#|--(?=[\x00-\x20\x7f]|\Z))[^\n]*")
_EXECUTED = re.compile(r"/\*!(?:[0-9]{5,6}(?![0-9])|(?![0-9]))")
_PLAIN_NUMBER = re.compile(r"[0-9]+\Z")
_HINT = "write the clause plainly, without the comment"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a"}
# The server keeps these backslashes, in every text, for the patterns of LIKE.
_ESCAPES |= {"%": "\\%", "_": "\\_"}
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
#: With and without backslash escapes; possessive quantifiers store no state for backtracking.
_INSIDE: Final = {
    (quote, escapes): re.compile(
        rf"{quote}((?:[^{quote}\\]++|\\.|{quote}{quote})*+){quote}"
        if escapes
        else rf"{quote}((?:[^{quote}]++|{quote}{quote})*+){quote}",
        re.DOTALL,
    )
    for quote in "`'\""
    for escapes in (False, True)
}


def not_understood(message: str, hint: str) -> Refusal:
    """Refuse a text that cannot be read as a statement."""
    return Refusal(message, hint=hint, error_code=ErrorCode.STATEMENT_NOT_UNDERSTOOD)


@dataclass(frozen=True, slots=True)
class Token:
    """A ``word``, quoted ``name``, ``string`` or one-character ``symbol``, with its offsets."""

    kind: TokenKind
    value: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        """The keyword in upper case; empty for anything that cannot be a keyword."""
        return self.value.upper() if self.kind == "word" and self.value.isascii() else ""

    @property
    def is_identifier(self) -> bool:
        """Whether the token may be the name of something."""
        if self.kind == "name":
            return True
        return self.kind == "word" and _PLAIN_NUMBER.match(self.value) is None

    def is_symbol(self, symbol: str) -> bool:
        """Return whether the token is this symbol."""
        return self.kind == "symbol" and self.value == symbol


@dataclass(frozen=True)
class SqlMode:
    """The two parts of ``sql_mode`` that change how text is read."""

    ansi_quotes: bool = False
    no_backslash_escapes: bool = False

    @classmethod
    def of(cls, sql_mode: str) -> SqlMode:
        """Read the server's ``sql_mode``."""
        modes = {mode.strip().upper() for mode in sql_mode.split(",")}
        return cls(bool(modes & {"ANSI_QUOTES", "ANSI"}), "NO_BACKSLASH_ESCAPES" in modes)


DEFAULT_MODE: Final = SqlMode()


def tokenize(sql: str, mode: SqlMode, *, executed: bool = False) -> tuple[Token, ...]:
    """Return all tokens of a text without comments; ``executed``: version comments count.

    Raises Refusal for an unclosed quote or comment, or a comment that only some servers execute.
    """
    return tuple(read_tokens(sql, mode, executed=executed))


def read_tokens(sql: str, mode: SqlMode, *, executed: bool = False) -> Iterator[Token]:
    """Yield one token after the other, as :func:`tokenize`."""
    at, inside = 0, False
    while at < len(sql):
        if found := _SPACE.match(sql, at) or _LINE_COMMENT.match(sql, at):
            at = found.end()
        elif executed and not inside and (found := _EXECUTED.match(sql, at)):
            at, inside = found.end(), True
        elif inside and sql.startswith("*/", at):
            at, inside = at + 2, False
        elif sql.startswith("/*", at):
            at = _skip_comment(sql, at, hints=executed)
        else:
            token = read_token(sql, at, mode)
            if token.kind == "word" and token.value[0] == "$" and not executed:
                raise not_understood(
                    f"a bare name begins with a dollar sign: {token.value!r}",
                    "put the name in backquotes",
                )
            yield token
            at = token.end


def _skip_comment(sql: str, at: int, *, hints: bool) -> int:
    if sql.startswith(("/*!", "/*M!") if hints else ("/*!", "/*M!", "/*+"), at):
        raise not_understood(
            f"the statement holds a comment that some servers execute: {sql[at : at + 24]!r}", _HINT
        )
    end = sql.find("*/", at + 2)
    if end < 0:
        raise not_understood("the statement ends inside a comment", "close it with */")
    return end + 2


def after_blanks(sql: str, at: int) -> int:
    """Return the offset after blanks and comments, or ``at`` where there are none."""
    while at < len(sql):
        if found := _SPACE.match(sql, at) or _LINE_COMMENT.match(sql, at):
            at = found.end()
        elif sql.startswith("/*", at):
            at = _skip_comment(sql, at, hints=False)
        else:
            break
    return at


def read_token(sql: str, at: int, mode: SqlMode) -> Token:
    """Return the token that begins at an offset, where neither a blank nor a comment is."""
    first = sql[at]
    if first == "`" or (first == '"' and mode.ansi_quotes):
        return _quoted(sql, at, "name", escapes=False)
    if first in "'\"":
        return _quoted(sql, at, "string", escapes=not mode.no_backslash_escapes)
    found = _WORD.match(sql, at)
    if found is None:
        return Token("symbol", first, at, at + 1)
    return Token("word", found.group(), at, found.end())


def _quoted(sql: str, at: int, kind: TokenKind, *, escapes: bool) -> Token:
    quote = sql[at]
    found = _INSIDE[quote, escapes].match(sql, at)
    if found is None:
        raise not_understood(
            f"the statement ends inside a quote that was opened at {sql[at : at + 20]!r}",
            "close the quote",
        )
    parts = _ESCAPED.split(found[1]) if escapes else [found[1]]
    for index, part in enumerate(parts):
        parts[index] = _ESCAPES.get(part, part) if index % 2 else part.replace(quote * 2, quote)
    return Token(kind, "".join(parts), at, found.end())
