"""Statements in the binlog: their session, and the readings of their bytes (pure).

Layouts are of the MySQL source, ``libs/mysql/binlog/event/statement_events.cpp``. The text is in
the session's ``character_set_client``, but the server rewrites some statements in UTF-8
(CREATE TABLE ... SELECT, DROP TEMPORARY TABLE), and CREATE VIEW half in each (measured). So a
statement that can be read in both ways is read twice, and either reading counts.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from spirit_py.binlog.codec.text import CODECS
from spirit_py.binlog.events import StatementSeen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spirit_py.binlog.events import Place

_HEAD: Final = struct.Struct("<IIBHH")
"""Session, seconds, length of the schema, error code, length of the status variables."""
_LOAD_HEAD: Final = 13
_NO_BACKSLASH_ESCAPES: Final = 1 << 20
_ANSI_QUOTES: Final = 1 << 2
_SQL_MODE, _CHARSET = 1, 4
#: Bytes of the status variables of a fixed size, by code.
_SIZES: Final = {0: 4, 1: 8, 3: 4, 4: 6, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3, 16: 1, 17: 8, 18: 2}
#: And of those that begin with their length, and what follows them.
_TEXTS: Final = {2: 1, 5: 0, 6: 0}
#: Character sets that Python reads as the server does, wherever it reads them at all: each byte
#: and pair of bytes was compared with 9.7. cp932, big5, ujis, cp866 and others differ in some.
_READ_ALIKE: Final = CODECS | {
    "binary": "utf-8",
    "macroman": "mac-roman",
    "macce": "mac-latin2",
    "hp8": "hp-roman8",
    "gbk": "gbk",
    "gb2312": "gb2312",
    "euckr": "cp949",
}
#: What cp1252 leaves open is a control character in the server's latin1.
_LATIN1: Final = {
    n: bytes([n]).decode("cp1252") for n in range(0x80, 0xA0) if n not in b"\x81\x8d\x8f\x90\x9d"
}


def parse_query(
    body: bytes, charsets: Mapping[int, str], place: Place, *, load: bool = False, prepared: bool
) -> StatementSeen:
    """Read a QUERY event, or the one that ends a LOAD DATA logged as a statement (``load``).

    Args:
        charsets: the server's, by the number of a collation.
        prepared: it is of an XA transaction.
    """
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
    """Cut the status variables apart, up to the first whose length is not known.

    The server writes those that matter here, ``sql_mode`` and the character sets, among the
    first.
    """
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
    """Read a statement of a client.

    Args:
        charset: the client's; empty when it is not known.

    Returns:
        the text, its reading in UTF-8 if that differs, and whether the first is what the server
        read.
    """
    codec = _READ_ALIKE.get(charset)
    if raw.isascii() and charset != "swe7":
        return raw.decode("ascii"), "", True
    if codec == "utf-8":
        # The server takes no name that is not valid.
        return raw.decode("utf-8", "replace"), "", True
    other = _utf8(raw)
    if charset == "latin1":
        sql = raw.decode("latin-1").translate(_LATIN1)
    else:
        try:
            sql = raw.decode(codec or "ascii")
        except UnicodeDecodeError:
            return raw.decode("ascii", "backslashreplace"), other, False
    return sql, other if other != sql else "", charset != "swe7"


def _utf8(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return ""
