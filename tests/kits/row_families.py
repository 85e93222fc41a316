"""Random rows of every type family, as SQL text that knows nothing of the program's renderers."""

from __future__ import annotations

import random
import string
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.fixtures.mysql import has_vector

if TYPE_CHECKING:
    from mysql_server import MySQLServer

Value = Callable[[random.Random], str]


@dataclass(frozen=True)
class Family:
    """Columns of one kind: definition and generator of each, and what to compare them by.

    ``compare`` may use ``{c}`` for the column; HEX of the stored bytes where nothing is said.
    ``extra`` is put behind the columns in CREATE TABLE.
    """

    columns: dict[str, tuple[str, Value]]
    compare: str = "HEX(CAST({c} AS BINARY))"
    extra: str = ""


def integer(bits: int, *, unsigned: bool) -> Value:
    """Return whole numbers, the ends of the range often."""
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return lambda r: str(r.choice([low, high, 0, 1, max(low, -1), r.randint(low, high)]))


def integers() -> Family:
    """Integers, BIT, YEAR, generated and invisible columns."""
    sizes = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
    columns = {}
    for name, bits in sizes.items():
        columns[f"{name}_s"] = (name, integer(bits, unsigned=False))
        columns[f"{name}_u"] = (f"{name} unsigned", integer(bits, unsigned=True))
        columns[f"{name}_n"] = (f"{name} not null", integer(bits, unsigned=False))
    for bits in (1, 2, 8, 9, 17, 33, 64):
        columns[f"bit{bits}"] = (f"bit({bits})", integer(bits, unsigned=True))
    columns["year_"] = ("year", lambda r: str(r.choice([0, 1901, 2155, r.randint(1901, 2155)])))
    extra = (
        ", virt bigint GENERATED ALWAYS AS (int_n + 1) VIRTUAL"
        ", stor varchar(30) GENERATED ALWAYS AS (CONCAT('s', mediumint_n)) STORED NOT NULL"
        ", seen int INVISIBLE DEFAULT 7, KEY f ((tinyint_n * 2)), KEY v (virt)"
    )
    return Family(columns, "CAST({c} + 0 AS CHAR)", extra)


def decimal(precision: int, scale: int) -> Value:
    """Return decimals, all nines, zero and one unit often."""

    def make(r: random.Random) -> str:
        digits = "".join(r.choice("0123456789") for _ in range(precision))
        digits = r.choice([digits, "9" * precision, "0" * precision, "0" * (precision - 1) + "1"])
        text = digits[: precision - scale] or "0"
        return r.choice(["", "-"]) + text + ("." + digits[precision - scale :] if scale else "")

    return make


def decimals() -> Family:
    """DECIMAL of many shapes."""
    shapes = [(1, 0), (1, 1), (4, 2), (9, 0), (9, 9), (10, 2), (14, 4), (18, 9), (19, 10)]
    shapes += [(30, 30), (38, 5), (65, 0), (65, 30), (64, 15)]
    columns = {f"d{p}_{s}": (f"decimal({p},{s})", decimal(p, s)) for p, s in shapes}
    columns["du"] = ("decimal(12,3) unsigned", lambda r: decimal(12, 3)(r).lstrip("-"))
    return Family(columns, "CAST({c} AS CHAR)")


def double(r: random.Random) -> str:
    """Return any finite double, by its bits."""
    while True:
        bits = r.getrandbits(64).to_bytes(8, "little")
        value: float = struct.unpack("<d", bits)[0]
        if value == value and abs(value) != float("inf"):  # noqa: PLR0124  not a number
            break
    choice = r.choice([value, r.uniform(-1, 1), float(r.randint(-(2**60), 2**60)), 0.0, -0.0, 0.1])
    return f"{choice!r}" if "e" in repr(choice) else f"{choice!r}e0"


def single(r: random.Random) -> str:
    """Return any finite single, by its bits."""
    while True:
        value: float = struct.unpack("<f", r.getrandbits(32).to_bytes(4, "little"))[0]
        if value == value and abs(value) < 3.4e38:  # noqa: PLR0124  not a number
            break
    choice = r.choice([value, r.uniform(-1, 1), float(r.randint(-99999, 99999)), -0.0])
    return f"{choice!r}" if "e" in repr(choice) else f"{choice!r}e0"


def floats() -> Family:
    """FLOAT and DOUBLE."""
    return Family(
        {
            "f": ("float", single),
            "fn": ("float not null", single),
            "fu": ("float unsigned", lambda r: single(r).lstrip("-")),
            "fd": ("float(9,3)", lambda r: f"{r.uniform(-99999, 99999)!r}"),
            # The server stores a larger number, which the column refuses.
            "fm": ("float(10,2)", lambda r: r.choice(["99999999.99", "-99999999.99", "99999990"])),
            "d": ("double", double),
            "dn": ("double not null", double),
            "dd": ("double(20,6)", lambda r: f"{r.uniform(-1e12, 1e12)!r}"),
        },
        "CONCAT(IF({c} LIKE '-%', '-', '+'), CAST({c} + 0e0 AS CHAR))",
    )


def clock(r: random.Random, hours: int) -> str:
    """Return a time of day without quotes."""
    fraction = r.choice(["", ".5", ".000001", ".999999", f".{r.randrange(10**6):06d}"])
    return f"{r.randrange(hours):02d}:{r.randrange(60):02d}:{r.randrange(60):02d}{fraction}"


def day(r: random.Random) -> str:
    """Return a date without quotes, zero and invalid ones often."""
    if r.random() < 0.3:
        return r.choice(["0000-00-00", "2023-02-31", "2023-00-10", "2023-10-00", "9999-12-31",
                         "0001-01-01", "0000-01-01", "1969-12-31"])  # fmt: skip
    return f"{r.randint(1, 9999):04d}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}"


def moment(r: random.Random) -> str:
    """Return a TIMESTAMP, the ends of its range often."""
    if r.random() < 0.2:
        return r.choice(["'0000-00-00 00:00:00'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:06'"])
    return f"'{r.randint(1971, 2037)}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d} {clock(r, 24)}'"


def span(r: random.Random) -> str:
    """Return a TIME, below zero and at the ends too."""
    return r.choice(
        [f"'{r.choice(['', '-'])}{clock(r, 838)}'", "'-00:00:00.5'", "'-838:59:59'", "'00:00:00'"]
    )


def temporals() -> Family:
    """Temporal types of every precision."""
    columns: dict[str, tuple[str, Value]] = {
        "da": ("date", lambda r: f"'{day(r)}'"),
        "dn": ("date not null", lambda r: f"'{day(r)}'"),
    }
    for precision in range(7):
        columns[f"t{precision}"] = (f"time({precision})", span)
        columns[f"dt{precision}"] = (
            f"datetime({precision})",
            # Rounding up at the end of the calendar is an overflow.
            lambda r: f"'{day(r)} {clock(r, 23)}'".replace("9999-12-31", "9999-12-30"),
        )
        columns[f"ts{precision}"] = (f"timestamp({precision}) null", moment)
    return Family(columns, "CAST({c} AS CHAR)")


ANY_BYTES = ["latin1", "koi8r", "cp850", "dec8", "hp8", "macce", "macroman", "ascii", "cp1250",
             "cp1256", "cp1257", "geostd8", "greek", "hebrew", "swe7"]  # fmt: skip


def text_of(charset: str, longest: int) -> Value:
    """Make text of a charset: any bytes where one byte is a character, else converted text."""
    if charset in ANY_BYTES:
        return lambda r: f"_{charset} X'{r.randbytes(r.randrange(longest + 1)).hex()}'"

    def make(r: random.Random) -> str:
        ranges = [(0x20, 0x7E), (0xA1, 0xFF), (0x3041, 0x3093), (0x4E00, 0x9FA5), (0x391, 0x3A9)]
        if charset in {"utf8mb4", "utf16", "utf16le", "utf32", "gb18030"}:
            ranges += [(0x1F300, 0x1F5FF), (0x10FFFE, 0x10FFFF), (0, 0x1F)]
        size = r.randrange(longest + 1)
        text = "".join(chr(r.randint(*r.choice(ranges))) for _ in range(size))
        text += r.choice(["", " ", "\\", "'", "%s", '"', "\0"]) if size < longest else ""
        return f"CONVERT(_utf8mb4 X'{text.encode().hex()}' USING {charset})"

    return make


def texts(charsets: list[str]) -> Family:
    """Text of some character sets."""
    columns = {}
    for cs in charsets:
        columns[f"{cs}_c"] = (f"char(10) character set {cs}", text_of(cs, 10))
        columns[f"{cs}_v"] = (f"varchar(70) character set {cs} not null", text_of(cs, 30))
        columns[f"{cs}_t"] = (f"text character set {cs}", text_of(cs, 60))
    first = charsets[0]
    columns["long_c"] = (f"char(255) character set {first}", text_of(first, 255))
    columns["tiny"] = (f"tinytext character set {first}", text_of(first, 50))
    columns["medium"] = (f"mediumtext character set {first}", text_of(first, 400))
    columns["long_"] = (f"longtext character set {first} not null", text_of(first, 400))
    return Family(columns, "HEX({c})")


def blob(longest: int) -> Value:
    """Return bytes that may end in spaces or zero bytes."""

    def make(r: random.Random) -> str:
        body = r.randbytes(r.choice([0, 1, r.randrange(longest + 1), longest]))
        return f"X'{(body[: longest - 2] + r.choice([b'', b'  ', bytes(2)]))[:longest].hex()}'"

    return make


def vector(size: int) -> Value:
    """Return a VECTOR."""
    return lambda r: f"TO_VECTOR('[{','.join(f'{r.uniform(-9, 9):.5f}' for _ in range(size))}]')"


def geometry(r: random.Random) -> str:
    """Return a shape of some kind and SRID."""

    def point() -> str:
        return f"{r.uniform(-80, 80):.6f} {r.uniform(-80, 80):.6f}"

    shape = r.choice([
        f"POINT({point()})",
        f"LINESTRING({point()}, {point()})",
        f"MULTIPOINT({point()}, {point()})",
        "POLYGON((0 0, 0 5, 5 5, 5 0, 0 0), (1 1, 1 2, 2 2, 2 1, 1 1))",
        f"GEOMETRYCOLLECTION(POINT({point()}), LINESTRING(0 0, 1 1))",
        "GEOMETRYCOLLECTION EMPTY",
    ])  # fmt: skip
    return f"ST_GeomFromText('{shape}', {r.choice([0, 4326, 3857])})"


def binaries() -> Family:
    """Binary, spatial and VECTOR columns."""
    return Family(
        {
            "b4": ("binary(4)", blob(4)),
            "b4n": ("binary(4) not null", blob(4)),
            "b255": ("binary(255)", blob(255)),
            "vb": ("varbinary(20)", blob(20)),
            "vb300": ("varbinary(300) not null", blob(300)),
            "tb": ("tinyblob", blob(255)),
            "bl": ("blob", blob(600)),
            "mb": ("mediumblob", blob(70)),
            "lb": ("longblob not null", blob(70)),
            "g": ("geometry", geometry),
            "p": ("point srid 4326", lambda r: f"ST_PointFromText('POINT({r.uniform(-80, 80):.6f}"
                                               f" {r.uniform(-80, 80):.6f})', 4326)"),
            "vec": ("vector(3)", vector(3)),
            "vecn": ("vector not null", vector(4)),
        },
        "HEX({c})",
    )  # fmt: skip


def members(count: int) -> str:
    """List members of an ENUM or SET."""
    return ", ".join(f"'m{number}'" for number in range(count))


def enumerations() -> Family:
    """ENUM and SET of every width."""

    def number(highest: int) -> Value:
        # Ordinal 0 comes from a text that is no member, in a session without strict mode.
        return lambda r: r.choice(["'no such'", "1", str(highest), str(r.randint(1, highest))])

    def mask(count: int) -> Value:
        return lambda r: str(r.choice([0, 1, 2**count - 1, r.getrandbits(count)]))

    return Family(
        {
            "e2": ("enum('a', 'it''s')", number(2)),
            "e2n": ("enum('a', 'b') not null", number(2)),
            "empty": ("enum('a', '', 'ä€') character set latin1", number(3)),
            "e300": (f"enum({members(300)})", number(300)),
            **{f"s{n}": (f"set({members(n)})", mask(n)) for n in (1, 8, 9, 17, 25, 33, 64)},
            "s3n": ("set('x', 'é', '') character set utf8mb4 not null", mask(3)),
        },
        "CONCAT({c} + 0, ':', HEX({c}))",
    )


_CHARACTERS = string.printable + "äß€😀\0"
_PLAIN_LEAVES: list[Value] = [
    lambda r: "CAST('null' AS JSON)",
    lambda r: r.choice(["TRUE", "FALSE"]),
    lambda r: str(r.choice([0, -1, r.randint(-(2**15), 2**15), r.randint(-(2**63), 2**63 - 1)])),
    double,
    lambda r: f"_utf8mb4 X'{''.join(r.choices(_CHARACTERS, k=r.randrange(9))).encode().hex()}'",
]
_TYPED_LEAVES: list[Value] = [
    lambda r: f"CAST({r.choice([0, 5, 40_000, 2**32, 2**63, 2**64 - 1])} AS UNSIGNED)",
    lambda r: decimal(*r.choice([(5, 2), (65, 30), (9, 0), (20, 20)]))(r),
    lambda r: f"CAST({decimal(10, 2)(r)} AS DECIMAL(30,10))",
    lambda r: f"CAST('{day(r)}' AS DATE)",
    lambda r: f"CAST({span(r)} AS TIME(6))",
    lambda r: f"CAST('{day(r).replace('9999-12-31', '9999-12-30')} {clock(r, 24)}' AS DATETIME(6))",
    blob(12),
    lambda r: "(SELECT bt FROM leaves)",
    lambda r: "COALESCE((SELECT b64 FROM leaves))",
    lambda r: "(SELECT ts FROM leaves)",
    lambda r: "(SELECT bi FROM leaves)",
    lambda r: "(SELECT bl FROM leaves)",
    lambda r: "(SELECT mb FROM leaves)",
    lambda r: "(SELECT lb FROM leaves)",
    lambda r: "(SELECT g FROM leaves)",
]

LEAVES = """CREATE TABLE leaves (bt bit(10), b64 bit(64), ts timestamp(3) NULL, bi binary(4),
 bl blob, mb mediumblob, lb longblob, g geometry);
INSERT INTO leaves VALUES (513, 12345678901234567890, '2020-01-02 03:04:05.678', X'6100',
 X'00ff', X'', X'ff00', POINT(1, 2))"""


def document(r: random.Random, depth: int = 0) -> str:
    """Make an expression for a document; the server turns its arguments into JSON."""
    leaves = _PLAIN_LEAVES if r.random() < 0.6 else _TYPED_LEAVES
    if depth and (depth > 3 or r.random() < 0.6):
        return r.choice(leaves)(r)
    size = r.choice([0, 1, 2, 5])
    if r.random() < 0.5:
        return f"JSON_ARRAY({', '.join(document(r, depth + 1) for _ in range(size))})"
    pairs = (f"'{'k' * r.randrange(4)}{n}ö', {document(r, depth + 1)}" for n in range(size))
    return f"JSON_OBJECT({', '.join(pairs)})"


def any_document(r: random.Random) -> str:
    """Make a document, or a bare leaf, or one too large for two-byte offsets."""
    if r.random() < 0.3:
        return f"JSON_EXTRACT(JSON_ARRAY({document(r, 1)}), '$[0]')"
    if r.random() < 0.02:
        return f"JSON_ARRAY(REPEAT('x', 70000), {document(r)}, 70000, -5, CAST(5 AS UNSIGNED))"
    return document(r)


def jsons() -> Family:
    """Documents."""
    return Family(
        {"j": ("json", any_document), "jn": ("json not null", any_document)},
        "CONCAT(JSON_TYPE({c}), HEX({c}))",
    )


FAMILIES: dict[str, Callable[[], Family]] = {
    "integers": integers,
    "decimals": decimals,
    "floats": floats,
    "temporals": temporals,
    "texts_single": lambda: texts([*ANY_BYTES, "latin2", "cp1251"]),
    "texts_unicode": lambda: texts(["utf8mb4", "utf8mb3", "ucs2", "utf16", "utf16le", "utf32"]),
    "texts_asian": lambda: texts(["sjis", "cp932", "gbk", "big5", "euckr", "ujis", "eucjpms",
                                  "gb2312", "gb18030"]),
    "binaries": binaries,
    "enumerations": enumerations,
    "jsons": jsons,
}  # fmt: skip


def family_for(server: MySQLServer, name: str) -> Family:
    """Return a family's columns, without the types that the server has not."""
    family = FAMILIES[name]()
    columns = {
        column: made
        for column, made in family.columns.items()
        if has_vector(server) or not made[0].startswith("vector")
    }
    return replace(family, columns=columns)


def word(charset: str) -> Value:
    """Make short text with case, accents and trailing spaces, for keys."""

    def make(r: random.Random) -> str:
        letters = "aAbBzZ019 _-" if charset == "ascii" else "aAäÄbBzZßŸéE019 _-あ語"
        text = "".join(r.choice(letters) for _ in range(r.randrange(5)))
        return f"CONVERT(_utf8mb4 X'{text.encode().hex()}' USING {charset})"

    return make


def ordinal(highest: int) -> Value:
    """Return an ordinal of an ENUM."""
    return lambda r: str(r.randint(1, highest))


KEYS: dict[str, tuple[str, Value]] = {
    "bigint": ("bigint", integer(64, unsigned=False)),
    "bigint unsigned": ("bigint unsigned", integer(64, unsigned=True)),
    "mediumint": ("mediumint", integer(24, unsigned=False)),
    "mediumint unsigned": ("mediumint unsigned", integer(24, unsigned=True)),
    "tinyint": ("tinyint", integer(8, unsigned=False)),
    "bit(12)": ("bit(12)", integer(12, unsigned=True)),
    "bit(64)": ("bit(64)", integer(64, unsigned=True)),
    "year": ("year", lambda r: str(r.choice([0, r.randint(1901, 2155)]))),
    "decimal(10,3)": ("decimal(10,3)", decimal(10, 3)),
    "decimal(65,30)": ("decimal(65,30)", decimal(65, 30)),
    "float": ("float", single),
    "double": ("double", double),
    "date": ("date", lambda r: f"'{day(r)}'"),
    "time(3)": ("time(3)", span),
    "time": ("time", span),
    "datetime(6)": ("datetime(6)", lambda r: f"'{day(r)} {clock(r, 23)}'".replace("9999", "9998")),
    "datetime(1)": ("datetime(1)", lambda r: f"'{day(r)} {clock(r, 23)}'".replace("9999", "9998")),
    "timestamp": ("timestamp", moment),
    "timestamp(5)": ("timestamp(5)", moment),
    "binary(3)": ("binary(3)", blob(3)),
    "varbinary(5)": ("varbinary(5)", blob(5)),
    "enum": ("enum('z', 'm', 'it''s', 'Ö', 'a')", ordinal(5)),
    "enum latin1": ("enum('z', 'Ö', 'a') character set latin1", ordinal(3)),
    "enum with an empty member": ("enum('z', '', 'a')", ordinal(3)),
    "set": ("set('z', 'm', 'ä', 'q')", lambda r: str(r.randrange(16))),
    "varchar ai ci": ("varchar(9) collate utf8mb4_0900_ai_ci", word("utf8mb4")),
    "varchar as cs": ("varchar(9) collate utf8mb4_0900_as_cs", word("utf8mb4")),
    "varchar pad bin": ("varchar(9) collate utf8mb4_bin", word("utf8mb4")),
    "varchar no pad bin": ("varchar(9) collate utf8mb4_0900_bin", word("utf8mb4")),
    "char no pad bin": ("char(9) collate utf8mb4_0900_bin", word("utf8mb4")),
    "char latin1": ("char(9) character set latin1", word("latin1")),
    "varchar ascii": ("varchar(9) character set ascii", word("ascii")),
    "varchar utf8mb3": ("varchar(9) character set utf8mb3", word("utf8mb3")),
    "varchar ucs2": ("varchar(9) character set ucs2", word("ucs2")),
    "varchar utf16": ("varchar(9) character set utf16", word("utf16")),
    "varchar utf32": ("varchar(9) character set utf32", word("utf32")),
    "varchar sjis": ("varchar(9) character set sjis", word("sjis")),
    "varchar gbk": ("varchar(9) character set gbk", word("gbk")),
}
