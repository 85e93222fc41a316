"""DECIMAL and text in row images, and in binary JSON (pure).

Groups of nine digits take four bytes, the rest as many as needed; the first bit is the
inverted sign, and a negative number has all its bits inverted (``decimal2bin`` of the server).

Text that Python cannot decode and encode back byte for byte, and all binary values, become
``{"hex": "..."}``; text then carries its ``charset`` as well.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


class DecimalCodec(NamedTuple):
    """Functions for values of so many bytes: the value times 10 ** scale, and the SQL literal."""

    width: int
    read: Callable[[bytes], int]
    show: Callable[[bytes], str]


@lru_cache(maxsize=1024)
def decimal_codec(precision: int, scale: int) -> DecimalCodec:
    """Make the functions, with the groups written out."""
    whole, fraction = precision - scale, scale
    digits = [whole % 9, *[9] * (whole // 9)], [*[9] * (fraction // 9), fraction % 9]
    sizes = [[_DIGIT_BYTES[count] for count in part] for part in digits]
    width = sum(map(sum, sizes))
    shift, terms = 8 * width, []
    for counts, lengths in zip(digits, sizes, strict=True):
        term = "0"
        for count, size in zip(counts, lengths, strict=True):
            shift -= 8 * size
            if size:
                group = f"(b >> {shift} & {(1 << 8 * size) - 1})"
                term = group if term == "0" else f"({term} * {10**count} + {group})"
        terms.append(term)
    scope: dict[str, Any] = {"int_of": int.from_bytes}
    exec(_source(width, scale, *terms), scope)  # noqa: S102  made of numbers only
    return DecimalCodec(width, scope["read"], scope["show"])


def _source(width: int, scale: int, whole: str, fraction: str) -> str:
    """Write the two functions; ``b`` holds the digits without the sign."""
    sign, ones = 1 << (8 * width - 1), (1 << 8 * width) - 1
    unsigned = [
        f"    b = int_of(d, 'big') ^ {sign}",
        f"    negative = b & {sign}",
        "    if negative:",
        f"        b ^= {ones}",
    ]
    number = f"{whole} * {10**scale} + {fraction}" if scale else whole
    shown = f"'{{}}%d.%0{scale}d' % ({whole}, {fraction})" if scale else f"'{{}}%d' % ({whole},)"
    negative, positive = shown.format("-"), shown.format("")
    lines = [
        "def read(d):",
        *unsigned,
        f"    return -({number}) if negative else {number}",
        "def show(d):",
        *unsigned,
        f"    return {negative} if negative else {positive}",
    ]
    return "\n".join(lines)


#: Character sets that Python and MySQL read alike, byte for byte (compared with a server).
CODECS = {
    "utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "ascii": "ascii", "latin1": "cp1252",
    "utf16": "utf-16-be", "utf16le": "utf-16-le", "ucs2": "utf-16-be", "utf32": "utf-32-be",
    "latin2": "iso8859-2", "latin5": "iso8859-9", "latin7": "iso8859-13", "koi8r": "koi8-r",
    "cp1250": "cp1250", "cp1251": "cp1251", "cp1257": "cp1257", "cp850": "cp850", "cp852": "cp852",
    "tis620": "tis-620",
}  # fmt: skip
_MAXIMUM_CHARACTER_BYTES = {
    "utf8mb4": 4, "utf16": 4, "utf16le": 4, "utf32": 4, "gb18030": 4,
    "utf8mb3": 3, "utf8": 3, "ujis": 3, "eucjpms": 3,
    "ucs2": 2, "gbk": 2, "gb2312": 2, "sjis": 2, "cp932": 2, "big5": 2, "euckr": 2,
}  # fmt: skip
_BMP = "\uffff"
_SINGLE = struct.Struct("<f")


def character_bytes(charset: str) -> int:
    """Return the bytes of the longest character of a character set; 1 for binary data."""
    return _MAXIMUM_CHARACTER_BYTES.get(charset, 1)


def plain_text(value: bytes, charset: str) -> str | dict[str, str]:
    """Return text, or its bytes where Python does not know them as text."""
    codec = CODECS.get(charset)
    if codec is not None:
        try:
            text = value.decode(codec)
        except UnicodeDecodeError:
            return {"charset": charset, "hex": value.hex()}
        # A pair of surrogates is two characters of ucs2.
        if text.encode(codec) == value and not (charset == "ucs2" and max(text, default="") > _BMP):
            return text
    return {"charset": charset, "hex": value.hex()}


def plain_bytes(value: bytes) -> dict[str, str]:
    """Return binary data."""
    return {"hex": value.hex()}


def shortest_single(value: float) -> float:
    """Return the double with the fewest digits that is the same single-precision number."""
    exact = _SINGLE.pack(value)
    for digits in range(6, 9):
        shorter = float(f"{value:.{digits}g}")
        if abs(shorter) <= 3.4028234663852886e38 and _SINGLE.pack(shorter) == exact:
            return shorter
    return value
