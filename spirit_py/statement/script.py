"""Cut a file of statements into single ones, as the mysql client does.

Statements end at the delimiter, which a line ``DELIMITER //`` changes; the last one may go without.
``USE schema`` names the schema of the tables that follow without one, and ``SET NAMES`` of UTF-8 is
passed over, because a file is read as UTF-8. Delimiters in quotes and in
comments count for nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.statement.lexer import SqlMode, after_blanks, read_token, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Where the line has no delimiter, the client takes it without one.
_USE: Final = re.compile(r"USE[ \t]+([^\s]+)[ \t]*(?=\r?\n|\Z)", re.IGNORECASE)
_DELIMITER: Final = re.compile(r"DELIMITER(?![0-9A-Za-z_$])[ \t]*([^\s]*)[^\n]*", re.IGNORECASE)


@dataclass(frozen=True)
class ScriptStatement:
    """One statement of a file.

    Attributes:
        text: from its first token to its last.
        line: where its first token is, from 1.
        schema: that a ``USE`` before it names; empty without one.
    """

    text: str
    line: int
    schema: str = ""


def read_script(text: str, mode: SqlMode) -> Iterator[ScriptStatement]:
    """Yield the statements of a file; ``USE`` and ``DELIMITER`` are carried out, not yielded.

    Raises:
        Refusal: with the line, for what the lexer refuses, and a ``USE`` that cannot be read.
    """
    schema = ""
    for found in _cut(text.removeprefix("\ufeff"), mode):
        if read_token(found.text, 0, mode).upper == "USE":
            tokens = tokenize(found.text, mode)
            if len(tokens) != 2 or not tokens[1].is_identifier:
                raise Refusal(
                    f"line {found.line}: USE takes one schema: {found.text!r}",
                    hint="write USE schema;",
                    error_code=ErrorCode.STATEMENT_NOT_UNDERSTOOD,
                )
            schema = tokens[1].value
        elif not _sets_utf8(found.text, mode):
            yield ScriptStatement(found.text, found.line, schema)


def _sets_utf8(text: str, mode: SqlMode) -> bool:
    """Whether a statement names the character set in which a file is read anyway."""
    words = [token.value.upper() for token in tokenize(text, mode)]
    return words[:2] == ["SET", "NAMES"] and words[2:] in (["UTF8"], ["UTF8MB3"], ["UTF8MB4"])


def _cut(text: str, mode: SqlMode) -> Iterator[ScriptStatement]:
    """Yield all statements, ``USE`` too."""
    lines = _Lines(text)
    # ``begin`` is below 0 between two statements.
    delimiter, at, begin, end = ";", 0, -1, 0
    while True:
        try:
            at = after_blanks(text, at)
            if at >= len(text):
                break
            if text.startswith(delimiter, at):
                if begin >= 0:
                    yield ScriptStatement(text[begin:end], lines.of(begin))
                begin, at = -1, at + len(delimiter)
                continue
            if begin < 0 and (found := _DELIMITER.match(text, at)):
                delimiter, at = _delimiter(found), found.end()
                continue
            if begin < 0 and (found := _USE.match(text, at)) and delimiter not in found[0]:
                yield ScriptStatement(found[0].rstrip(), lines.of(at))
                at = found.end()
                continue
            token = read_token(text, at, mode)
        except Refusal as refusal:
            line = lines.of(at if begin < 0 else begin)
            raise Refusal(
                f"line {line}: {refusal.message}",
                hint=refusal.hint,
                error_code=ErrorCode.STATEMENT_NOT_UNDERSTOOD,
            ) from refusal
        begin = token.start if begin < 0 else begin
        # A word may go on into the delimiter: "INT$$".
        inside = text.find(delimiter, token.start, token.end) if token.kind == "word" else -1
        at = end = inside if inside > 0 else token.end
    if begin >= 0:
        yield ScriptStatement(text[begin:end], lines.of(begin))


def _delimiter(found: re.Match[str]) -> str:
    if not found[1] or "\\" in found[1]:
        raise Refusal(
            f"DELIMITER names no delimiter: {found[0]!r}",
            hint="write for instance DELIMITER //",
            error_code=ErrorCode.STATEMENT_NOT_UNDERSTOOD,
        )
    return found[1]


class _Lines:
    """Counts the lines of a text, each once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1

    def of(self, at: int) -> int:
        """Return the line of an offset, from 1; no offset before one that was asked for."""
        self._line += self._text.count("\n", self._at, at)
        self._at = at
        return self._line
