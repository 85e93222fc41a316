"""Values of row images as JSON can carry them, without loss (pure).

Text that Python cannot decode and encode back byte for byte, and all binary values, become
``{"hex": "..."}``; text then carries its ``charset`` as well.
"""

from __future__ import annotations

import struct

#: Character sets that Python and MySQL read alike, byte for byte (compared with a server).
CODECS = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "utf8": "utf-8",
    "ascii": "ascii",
    "latin1": "cp1252",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "ucs2": "utf-16-be",
    "utf32": "utf-32-be",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "latin7": "iso8859-13",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "koi8r": "koi8-r",
    "tis620": "tis-620",
}
_BMP = "\uffff"
_SINGLE = struct.Struct("<f")


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
