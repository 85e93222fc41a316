"""Walk over tokens: look ahead, take a keyword, read a name.

Reserved words (manual 11.3) are those of 9.7's ``KEYWORDS`` and of earlier versions.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from spirit_py.sql import quote_identifier
from spirit_py.statement.lexer import not_understood

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.statement.lexer import Token

_WORDS: Final = """
    accessible add all alter analyze and as asc asensitive before between bigint binary blob
    both by call cascade case change char character check collate column condition constraint
    continue convert create cross cube cume_dist current_date current_time current_timestamp
    current_user cursor database databases day_hour day_microsecond day_minute day_second dec
    decimal declare default delayed delete dense_rank desc describe deterministic distinct
    distinctrow div double drop dual each else elseif empty enclosed escaped except exists
    exit explain external false fetch first_value float float4 float8 for force foreign from
    fulltext function generated get grant group grouping groups having high_priority
    hour_microsecond hour_minute hour_second if ignore in index infile inner inout insensitive
    insert int int1 int2 int3 int4 int8 integer intersect interval into io_after_gtids
    io_before_gtids is iterate join json_table key keys kill lag last_value lateral lead
    leading leave left library like limit linear lines load localtime localtimestamp lock long
    longblob longtext loop low_priority master_bind master_ssl_verify_server_cert match
    maxvalue mediumblob mediumint mediumtext middleint minute_microsecond minute_second mod
    modifies natural no_write_to_binlog not nth_value ntile null numeric of on optimize
    optimizer_costs option optionally or order out outer outfile over partition percent_rank
    precision primary procedure purge qualify range rank read read_write reads real recursive
    references regexp release rename repeat replace require resignal restrict return revoke
    right rlike row row_number rows schema schemas second_microsecond select sensitive
    separator set show signal smallint spatial specific sql sql_big_result sql_calc_found_rows
    sql_small_result sqlexception sqlstate sqlwarning ssl starting stored straight_join system
    table tablesample terminated then tinyblob tinyint tinytext to trailing trigger true undo
    union unique unlock unsigned update usage use using utc_date utc_time utc_timestamp values
    varbinary varchar varcharacter varying virtual when where while window with write xor
    year_month zerofill
"""
RESERVED: Final = frozenset(_WORDS.split())
_PLAIN: Final = re.compile(r"[a-z_\u0080-\U0010ffff][0-9a-z_$\u0080-\U0010ffff]*")


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
        """Read a name; raise where the next token is none."""
        if self.done or not self.tokens[self.at].is_identifier:
            raise not_understood(
                f"{what} is missing in {self.excerpt()!r}", "check the statement's spelling"
            )
        self.at += 1
        if self.symbol(".") and what != "the table's name":
            raise not_understood(
                f"{what} is qualified in {self.excerpt()!r}",
                "write the bare name; the statement is about one table only",
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


def line_of(sql: str, tokens: tuple[Token, ...]) -> str:
    """Return the same, with one blank for what is between two tokens: comments, ends of lines."""
    gaps = [" " if token.start > before.end else "" for before, token in pairwise(tokens)]
    return "".join(
        gap + sql[one.start : one.end] for gap, one in zip(["", *gaps], tokens, strict=False)
    )


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
    behind = tokens[at + 1 : at + 4]
    if not behind or not behind[0].is_symbol("("):
        return False
    length = len(behind) == 3 and behind[1].value.isdecimal() and behind[2].is_symbol(")")
    return not length


_CLOSING, _OPENING = frozenset(",)."), frozenset("(.")


def normal_text(tokens: tuple[Token, ...]) -> str:
    """Write tokens in a normal form, in which different meanings remain different."""
    words = [_normal(tokens, at) for at in range(len(tokens))]
    pieces = words[:1]
    power = False
    for before, token, word in zip(tokens, tokens[1:], words[1:], strict=False):
        # The sign of 1e-5, and what follows it.
        power = power or (before.kind == "word" and _is_power(before, token))
        touch = power or _is_literal(before, token) or _touch(before, token)
        pieces += [word] if touch else [" ", word]
        power = power and token.kind == "symbol"
    return "".join(pieces)


def _is_power(before: Token, sign: Token) -> bool:
    """Return whether a sign stands within a number, which the lexer reads as three tokens."""
    number = re.fullmatch(r"\d+e", before.value, re.IGNORECASE) is not None
    return number and sign.value in {"+", "-"} and before.end == sign.start


def _is_literal(before: Token, string: Token) -> bool:
    """Return whether a word says what a string is: ``b'0'``, ``_utf8mb4'x'`` (manual 11.1)."""
    word = before.value.lower() if before.kind == "word" else ""
    says = word in {"b", "n", "x"} or word.startswith("_")
    return says and string.kind == "string" and before.end == string.start


def _touch(before: Token, token: Token) -> bool:
    """Return whether no blank stands between: a call of a function (manual 11.2.5), operators."""
    if token.kind == "symbol" and token.value in _CLOSING:
        return True
    if before.kind == "symbol" and before.value in _OPENING:
        return True
    if token.is_symbol("("):
        return before.kind in {"word", "name"}
    both = before.kind == token.kind == "symbol" and before.value not in _CLOSING
    return both and before.end == token.start


def _normal(tokens: tuple[Token, ...], at: int) -> str:
    token = tokens[at]
    if token.kind == "name":
        folded = token.value.lower()
        plain = _PLAIN.fullmatch(folded) is not None and folded not in RESERVED
        return folded if plain and not _is_call(tokens, at) else quote_identifier(folded)
    if token.kind == "string":
        return "'" + token.value.replace("\\", "\\\\").replace("'", "''") + "'"
    return token.value if token.kind == "symbol" else token.value.lower()
