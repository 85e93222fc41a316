"""Walk over tokens: look ahead, take a keyword, read a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.sql import quote_identifier
from spirit_py.statement.reserved_words import bare_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.statement.lexer import Token


class Cursor:
    """A position in a run of tokens of one text."""

    def __init__(self, sql: str, tokens: tuple[Token, ...]) -> None:
        self.sql = sql
        self.tokens = tokens
        self.at = 0

    @property
    def done(self) -> bool:
        """Whether every token was read."""
        return self.at >= len(self.tokens)

    def keyword(self, ahead: int = 0) -> str:
        """Return the next token as a keyword in upper case; empty when it is none."""
        here = self.at + ahead
        return self.tokens[here].upper if here < len(self.tokens) else ""

    def starts_with(self, *words: str) -> bool:
        """Return whether the next tokens are these keywords."""
        return all(self.keyword(ahead) == word for ahead, word in enumerate(words))

    def take(self, *words: str) -> bool:
        """Step over these keywords if they are the next tokens."""
        if not self.starts_with(*words):
            return False
        self.at += len(words)
        return True

    def take_any(self, *words: str) -> str:
        """Step over one keyword of these; return it, or an empty string."""
        word = self.keyword()
        if not word or word not in words:
            return ""
        self.at += 1
        return word

    def symbol(self, symbol: str) -> bool:
        """Return whether the next token is this symbol."""
        return not self.done and self.tokens[self.at].is_symbol(symbol)

    def take_symbol(self, symbol: str) -> bool:
        """Step over a symbol if it is the next token."""
        if not self.symbol(symbol):
            return False
        self.at += 1
        return True

    def name(self, what: str) -> str:
        """Read a name.

        Raises:
            Refusal: when the next token is no name.
        """
        if self.done or not self.tokens[self.at].is_identifier:
            raise Refusal(
                f"{what} is missing in {self.excerpt()!r}",
                hint="check the statement's spelling",
                error_code=ErrorCode.STATEMENT_NOT_UNDERSTOOD,
            )
        self.at += 1
        if self.symbol(".") and what != "the table's name":
            raise Refusal(
                f"{what} is qualified in {self.excerpt()!r}",
                hint="write the bare name; the statement is about one table only",
                error_code=ErrorCode.STATEMENT_NOT_UNDERSTOOD,
            )
        return self.tokens[self.at - 1].value

    def rest(self) -> tuple[Token, ...]:
        """Return the tokens that were not read, and step after them."""
        left = self.tokens[self.at :]
        self.at = len(self.tokens)
        return left

    def excerpt(self) -> str:
        """Return the text of all tokens, cut short, for messages."""
        return text_of(self.sql, self.tokens)[:120]


def text_of(sql: str, tokens: tuple[Token, ...]) -> str:
    """Return the text from the first token to the last."""
    return sql[tokens[0].start : tokens[-1].end] if tokens else ""


def split_at(tokens: tuple[Token, ...], symbol: str) -> Iterator[tuple[Token, ...]]:
    """Split tokens at a symbol outside parentheses; empty pieces are yielded too."""
    depth = 0
    piece: list[Token] = []
    for token in tokens:
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0 and token.is_symbol(symbol):
            yield tuple(piece)
            piece = []
        else:
            piece.append(token)
    yield tuple(piece)


def outside_parentheses(tokens: tuple[Token, ...]) -> Iterator[tuple[int, Token]]:
    """Yield index and token of those outside parentheses."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0:
            yield index, token


def _is_call(tokens: tuple[Token, ...], at: int) -> bool:
    """Return whether a name is that of a function, and not of an indexed column with its length."""
    behind = tokens[at + 1 : at + 4]
    if not behind or not behind[0].is_symbol("("):
        return False
    length = len(behind) == 3 and behind[1].value.isdecimal() and behind[2].is_symbol(")")
    return not length


def normal_text(tokens: tuple[Token, ...]) -> str:
    """Write tokens in a normal form: lower-case words and names, strings in single quotes.

    Texts of different meaning have different normal forms: a name keeps its quotes if it would be
    read differently without them.
    """
    return " ".join(_normal(tokens, at) for at in range(len(tokens)))


def _normal(tokens: tuple[Token, ...], at: int) -> str:
    token = tokens[at]
    if token.kind == "name":
        return (
            quote_identifier(token.value.lower())
            if _is_call(tokens, at)
            else bare_name(token.value)
        )
    if token.kind == "string":
        return "'" + token.value.replace("\\", "\\\\").replace("'", "''") + "'"
    return token.value if token.kind == "symbol" else token.value.lower()
