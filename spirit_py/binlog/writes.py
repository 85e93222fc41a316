"""Statements in the binlog: their session and bytes, and which may be passed over (R13; pure).

docs/change-feed.md has the rule ("STATEMENT-format writes"). Layouts are of the MySQL source,
``libs/mysql/binlog/event/statement_events.cpp``. The server rewrites CREATE TABLE ... SELECT and
DROP TEMPORARY TABLE in UTF-8, CREATE VIEW half (measured): either reading counts.
"""

from __future__ import annotations

import re
import shlex
import struct
from functools import cache
from typing import TYPE_CHECKING, Final

from spirit_py.binlog.codec.scalars import CODECS
from spirit_py.binlog.events import StatementSeen
from spirit_py.binlog.statements import Name, readings
from spirit_py.errors import HiddenChange, StatementWrite
from spirit_py.sql import quote_identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from spirit_py.binlog.events import Place, Table

OPTION: Final = "--pass-statement-writes"
_SYSTEM: Final = "mysql"
_ROWS_NEXT_TIME: Final = "SET binlog_format=ROW in that client"
#: Only keywords and blanks are before a target, and the text after it excludes a second target. A
#: space stands for one blank or more, ``~`` for any number; ``#`` ends a word.
_FORMS: Final = (
    r"(?:INSERT|REPLACE)(?: INSERT_HINT)*+(?: INTO)?+ TARGET(?:~\(| INSERT_GOES_ON#)",
    r"UPDATE(?: (?:LOW_PRIORITY|IGNORE))*+ TARGET SET#",
    r"DELETE(?: (?:LOW_PRIORITY|QUICK|IGNORE))*+ FROM TARGET(?: (?:WHERE|ORDER|LIMIT)#|~\Z)",
    r"LOAD DATA(?: LOAD_HINT)*+ INFILE '[^'\\]*+'(?: LOAD_HINT)?+ INTO TABLE TARGET(?:~\(| [A-Z])",
)
_WORDS: Final = {
    "INSERT_HINT": "(?:LOW_PRIORITY|DELAYED|HIGH_PRIORITY|IGNORE)",
    "INSERT_GOES_ON": "(?:VALUES?|SELECT|SET|TABLE|WITH|PARTITION)",
    "LOAD_HINT": "(?:LOW_PRIORITY|CONCURRENT|LOCAL|REPLACE|IGNORE)",
}
_NAME: Final = r"(?:`((?:[^`]|``)++)`|([0-9A-Z_$]++))"


@cache  # at the first write in STATEMENT format: most runs meet none
def _compiled(form: str) -> re.Pattern[str]:
    marks = {" ": r"[ \t-\r]++", "~": r"[ \t-\r]*+", "#": r"(?![0-9A-Z_$\x80-\U0010ffff])"}
    for word, pattern in _WORDS.items():
        form = form.replace(word, pattern)
    form = re.sub("[ ~#]", lambda found: marks[found[0]], f"~{form}")
    dot = marks["~"] + "[.]" + marks["~"]
    target = f"{_NAME}(?:{dot}{_NAME})?+"
    return re.compile(form.replace("TARGET", target), re.IGNORECASE | re.ASCII)


def target_of(sql: str, schema: str) -> Name | None:
    """Return the one table that a write is certain to write to, if it can be read."""
    for form in _FORMS:
        if found := _compiled(form).match(sql):
            names = [name.replace("``", "`") for name in found.groups() if name is not None]
            return Name("", names[-1]).within(names[0] if len(names) > 1 else schema)
    return None


class StatementWrites:
    """Passes a write over, or raises; ``ours``: the rows of a table must be known."""

    def __init__(
        self,
        passable: Iterable[Table],
        ours: Callable[[str, str], bool],
        *,
        ignore_case: bool,
        onward: str,
        give_up: str,
    ) -> None:
        self._fold: Callable[[str], str] = str.lower if ignore_case else str
        self._passable = {(self._fold(schema), self._fold(table)) for schema, table in passable}
        self._ours = ours
        self._onward = onward
        self._give_up = give_up

    def take(self, event: StatementSeen) -> None:
        """Take a statement of the stream; raises HiddenChange, StatementWrite."""
        if not any(statement.writes for statement in readings(event)):
            return
        said = f"{event.excerpt} ({event.where})"
        found = [target_of(sql, event.schema) for sql in event.texts] if event.certain else []
        targets = [target for target in found if target] if all(found) else []
        for target in targets:
            if self._ours(target.schema, target.table or ""):
                raise HiddenChange(
                    f"a session wrote to {target} in STATEMENT format, without row images: {said}",
                    hint=f"{_ROWS_NEXT_TIME}, {HiddenChange.CARRY_ON}",
                )
        unknown = next((target for target in targets if not self._passes(target)), None)
        if targets and unknown is None:
            return
        raise StatementWrite(
            f"a session wrote to {unknown or 'an unknown table'} in STATEMENT format,"
            f" and may have changed rows of a followed table: {said}",
            hint=self._hint(unknown),
        )

    def _hint(self, target: Name | None) -> str:
        if target is None:
            return (
                f"{OPTION} skips no statement whose target table it cannot determine;"
                f" {self._give_up}; {_ROWS_NEXT_TIME}"
            )
        option = f"{OPTION} {shlex.quote(_written(target))}"
        return (
            "if no such write to that table reaches a followed one (through a trigger, a view, a"
            f" function or a foreign key), {self._onward.format(option)}; {_ROWS_NEXT_TIME} spares"
            " later runs this"
        )

    def _passes(self, target: Name) -> bool:
        schema = self._fold(target.schema)
        return schema == _SYSTEM or (schema, self._fold(target.table or "")) in self._passable


def _written(target: Name) -> str:
    parts = (target.schema, target.table or "")
    plain = not any(set(part) & {".", "`"} for part in parts)
    return ".".join(parts if plain else map(quote_identifier, parts))


_HEAD: Final = struct.Struct("<IIBHH")
"""Session, seconds, length of the schema, error code, length of the status variables."""
_LOAD_HEAD: Final = 13
_NO_BACKSLASH_ESCAPES: Final = 1 << 20
_ANSI_QUOTES: Final = 1 << 2
_SQL_MODE, _CHARSET = 1, 4
#: Bytes of the status variables of a fixed size, by code.
_SIZES: Final = {0: 4, 1: 8, 3: 4, 4: 6, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3, 16: 1, 17: 8, 18: 2}
_TEXTS: Final = {2: 1, 5: 0, 6: 0}
#: Character sets that Python reads as the server does, wherever it reads them at all: each byte
#: and pair of bytes was compared with 9.7. cp932, big5, ujis, cp866 and others differ in some.
_READ_ALIKE: Final = CODECS | {
    "binary": "utf-8", "macroman": "mac-roman", "macce": "mac-latin2", "hp8": "hp-roman8",
    "gbk": "gbk", "gb2312": "gb2312", "euckr": "cp949",
}  # fmt: skip
#: What cp1252 leaves open is a control character in the server's latin1.
_LATIN1: Final = {
    n: bytes([n]).decode("cp1252") for n in range(0x80, 0xA0) if n not in b"\x81\x8d\x8f\x90\x9d"
}


def parse_query(
    body: bytes, charsets: Mapping[int, str], place: Place, *, load: bool = False, prepared: bool
) -> StatementSeen:
    """Read a QUERY event, or the one that ends a LOAD DATA logged as a statement (``load``)."""
    session_id, _, schema_size, _, status_size = _HEAD.unpack_from(body)
    at = _HEAD.size + (_LOAD_HEAD if load else 0)
    found = status_variables(body[at : at + status_size])
    at += status_size
    mode = int.from_bytes(found.get(_SQL_MODE, b""), "little")
    client = int.from_bytes(found.get(_CHARSET, b"")[:2], "little")
    schema = body[at : at + schema_size].decode("utf-8", "replace")
    sql, other, certain = read_text(body[at + schema_size + 1 :], charsets.get(client, ""))
    return StatementSeen(
        place,
        schema,
        sql,
        session_id,
        plain_backslash=bool(mode & _NO_BACKSLASH_ESCAPES),
        other=other,
        certain=certain and _SQL_MODE in found,
        ansi_quotes=bool(mode & _ANSI_QUOTES),
        prepared=prepared,
    )


def query_text(body: bytes) -> bytes:
    """Return the text of a QUERY event, nothing else decoded."""
    return body[13 + body[8] + int.from_bytes(body[11:13], "little") + 1 :]


def status_variables(data: bytes) -> dict[int, bytes]:
    """Cut the status variables apart, up to the first whose length is not known."""
    found: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        code = data[at]
        if code in _TEXTS and at + 1 < len(data):
            end = at + 2 + data[at + 1] + _TEXTS[code]
        elif code in _SIZES:
            end = at + 1 + _SIZES[code]
        else:
            break
        found[code] = data[at + 1 : end]
        at = end
    return found


def read_text(raw: bytes, charset: str) -> tuple[str, str, bool]:
    """Return a statement's text, its reading in UTF-8 if that differs, whether it is certain."""
    codec = _READ_ALIKE.get(charset)
    if raw.isascii() and charset != "swe7":
        return raw.decode("ascii"), "", True
    if codec == "utf-8":
        # The server takes no name that is not valid.
        return raw.decode("utf-8", "replace"), "", True
    try:
        other = raw.decode("utf-8")
    except UnicodeDecodeError:
        other = ""
    if charset == "latin1":
        sql = raw.decode("latin-1").translate(_LATIN1)
    else:
        try:
            sql = raw.decode(codec or "ascii")
        except UnicodeDecodeError:
            return raw.decode("ascii", "backslashreplace"), other, False
    return sql, other if other != sql else "", charset != "swe7"
