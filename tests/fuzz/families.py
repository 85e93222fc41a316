"""Columns by family: the values of a family's pool fit every one of its types.

So a change from one type of a family to another loses nothing, whichever rows have been written,
and what the server makes of it can be demanded of the program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

_LATIN = ("latin1_swedish_ci", "latin1_bin", "latin1_general_cs")
_UNICODE = (
    "utf8mb4_0900_ai_ci",
    "utf8mb4_0900_as_cs",
    "utf8mb4_0900_bin",
    "utf8mb4_bin",
    "utf8mb4_general_ci",
    "utf8mb4_unicode_ci",
    "utf16_general_ci",
    "utf32_bin",
)


def _texts(kinds: tuple[str, ...], collations: tuple[str, ...]) -> tuple[str, ...]:
    """Return text types with their collations."""
    return tuple(
        f"{kind} CHARACTER SET {collation.split('_')[0]} COLLATE {collation}"
        for kind in kinds
        for collation in collations
    )


@dataclass(frozen=True, kw_only=True)
class Family:
    """Types that can hold the same values.

    Attributes:
        pool: literals that every type holds without loss.
        lenient: what a session without a strict mode may write as well; the column keeps its type.
        computed: expressions over ``{c}`` for generated columns, each with its type.
        indexed: how a key names the column; empty when no plain key can.
    """

    name: str
    types: tuple[str, ...]
    pool: tuple[str, ...]
    lenient: tuple[str, ...] = ()
    computed: tuple[tuple[str, str], ...] = ()
    indexed: str = "{c}"


@dataclass(frozen=True, kw_only=True)
class KeyFamily:
    """Types of a column that tells rows apart.

    Attributes:
        value: an expression over ``{i}``, which is another value for each number under every type.
        other: the same for another spelling of the value, which a coarser type takes as equal.
        longer: only a change to a later type keeps keys apart by definition.
    """

    name: str
    types: tuple[str, ...]
    value: str
    other: str = ""
    longer: bool = False


FAMILIES = (
    Family(
        name="small",
        types=("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(10,2)", "DOUBLE", "VARCHAR(20)"),
        pool=("-100", "-1", "0", "1", "7", "99", "@i MOD 100"),
        lenient=("'12x'",),
        computed=(
            ("DECIMAL(20,6)", "{c} / 7"),
            ("INT", "{c} + 1"),
            ("VARCHAR(30) CHARACTER SET utf8mb4", "CONCAT({c} / 3, '')"),
        ),
    ),
    Family(
        name="natural",
        types=("TINYINT UNSIGNED", "SMALLINT UNSIGNED", "INT UNSIGNED", "BIGINT UNSIGNED"),
        pool=("0", "1", "127", "128", "255", "@i MOD 200"),
        lenient=("-5",),
        computed=(("VARCHAR(20) CHARACTER SET utf8mb4", "HEX({c})"),),
    ),
    Family(
        name="huge",
        types=("BIGINT", "DECIMAL(30,3)", "VARCHAR(40)"),
        pool=("-9223372036854775808", "9223372036854775807", "0", "4294967296", "@n"),
    ),
    Family(
        name="decimal",
        types=("DECIMAL(8,2)", "DECIMAL(12,4)", "DECIMAL(40,10)", "VARCHAR(50)"),
        pool=("1.50", "-0.01", "99999.99", "0.00", "-7.10"),
        computed=(("DECIMAL(30,8)", "{c} / 3"),),
    ),
    Family(
        name="double",
        types=("DOUBLE",),
        pool=("1.5e0", "-0.1e0", "1e300", "14.809999999999999e0", "5e-324", "0e0"),
    ),
    Family(name="float", types=("FLOAT", "DOUBLE"), pool=("1.5", "-0.25", "0.1e0", "3e10")),
    Family(
        name="latin",
        types=_texts(("VARCHAR(20)", "CHAR(20)", "VARCHAR(90)", "TEXT"), (*_LATIN, *_UNICODE)),
        pool=("'a'", "'A'", "'a '", "'ä'", "'Ä'", "''", "'ß'", "'ss'", "CONCAT('w', @i)"),
        lenient=("REPEAT('long', 30)",),
        computed=(
            ("VARCHAR(200) CHARACTER SET utf8mb4", "UPPER({c})"),
            ("VARCHAR(200) CHARACTER SET utf8mb4", "CONCAT({c}, '/', LENGTH({c}))"),
            ("INT", "CHAR_LENGTH({c})"),
            ("VARCHAR(200) CHARACTER SET utf8mb4", "REVERSE({c})"),
        ),
        indexed="{c}(5)",
    ),
    Family(
        name="unicode",
        types=_texts(("VARCHAR(20)", "CHAR(20)", "MEDIUMTEXT"), _UNICODE),
        pool=("'日本'", "'😀'", "'é'", "_utf8mb4 X'65CC81'", "'ß '", "''"),
        computed=(
            ("VARCHAR(200) CHARACTER SET utf8mb4", "LOWER({c})"),
            ("VARCHAR(200) CHARACTER SET utf8mb4", "HEX({c})"),
        ),
        indexed="{c}(3)",
    ),
    Family(
        name="bytes",
        types=("VARBINARY(20)", "BINARY(20)", "VARBINARY(90)", "BLOB"),
        pool=("X'00'", "X'0100'", "X'FF00'", "X''", "X'61'", "X'6120'"),
        computed=(("VARCHAR(200) CHARACTER SET utf8mb4", "HEX({c})"), ("INT", "LENGTH({c})")),
        indexed="{c}(4)",
    ),
    Family(
        name="date",
        types=("DATE", "DATETIME", "DATETIME(3)", "VARCHAR(40)"),
        pool=("'2024-02-29'", "'2020-12-31'", "'1999-01-01'", "'2025-01-05'"),
        # No zero dates: a native ALTER refuses them under NO_ZERO_DATE, and they pass here (R10).
        computed=(
            ("INT", "WEEK({c})"),
            ("VARCHAR(60) CHARACTER SET utf8mb4", "DATE_FORMAT({c}, '%W %M')"),
            ("VARCHAR(60) CHARACTER SET utf8mb4", "DAYNAME({c})"),
        ),
    ),
    Family(
        name="moment",
        types=("TIMESTAMP NULL", "TIMESTAMP(3) NULL", "DATETIME(6)", "DATETIME"),
        pool=("'2024-02-29 23:30:00'", "'2020-12-31 00:15:00'", "'2001-01-01 12:00:00'"),
        computed=(
            ("DATE", "DATE({c})"),
            ("INT", "HOUR({c})"),
            ("VARCHAR(60) CHARACTER SET utf8mb4", "DATE_FORMAT({c}, '%a %H:%i')"),
            ("DATETIME", "{c} + INTERVAL 1 DAY"),
        ),
    ),
    Family(
        name="time",
        types=("TIME", "TIME(6)", "VARCHAR(30)"),
        pool=("'-838:59:59'", "'10:00:00'", "'-00:00:01'", "'00:00:00'"),
    ),
    Family(name="year", types=("YEAR", "SMALLINT", "INT"), pool=("1901", "2024", "2155")),
    Family(
        name="enum",
        types=(
            "ENUM('a','b','c')",
            "ENUM('z','c','b','a')",
            "ENUM('a','b','c','d')",
            "VARCHAR(10)",
        ),
        pool=("'a'", "'b'", "'c'"),
        lenient=("'bad'", "''"),
        computed=(("VARCHAR(30) CHARACTER SET utf8mb4", "CONCAT({c}, '!')"),),
    ),
    Family(
        name="set",
        types=("SET('x','y','z')", "SET('x','y','z','w')", "VARCHAR(30)"),
        pool=("'x'", "'x,y'", "''", "'x,y,z'"),
        lenient=("'bad,x'",),
    ),
    Family(
        name="json",
        types=("JSON", "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
        pool=(
            "'[1, 2.5, null]'",
            "JSON_OBJECT('d', 14.809999999999999e0, 'n', @i)",
            "JSON_ARRAY(1.10, CAST('2020-01-01' AS DATE), TRUE)",
            "'{\"tags\": [3, 4]}'",
            "'\"text\"'",
        ),
        indexed="",
    ),
    Family(name="bit", types=("BIT(8)", "BIT(16)", "BIGINT UNSIGNED"), pool=("0", "1", "255")),
)

KEYS = (
    KeyFamily(name="int", types=("INT", "BIGINT", "INT UNSIGNED"), value="{i}"),
    KeyFamily(
        name="text",
        types=_texts(("VARCHAR(20)", "CHAR(24)", "VARCHAR(60)"), _UNICODE),
        value="CONCAT('k', {i})",
        other="CONCAT('K', {i})",
    ),
    KeyFamily(
        name="latin",
        types=_texts(("VARCHAR(20)", "CHAR(24)"), (*_LATIN, *_UNICODE[:4])),
        value="CONCAT('ä', {i})",
        other="CONCAT('Ä', {i})",
    ),
    KeyFamily(
        name="bytes",
        types=("VARBINARY(12)", "BINARY(12)", "VARBINARY(40)"),
        value="CONCAT('b', {i})",
        longer=True,
    ),
    KeyFamily(
        name="decimal",
        types=("DECIMAL(12,2)", "DECIMAL(20,4)"),
        value="CAST({i} AS DECIMAL(12,2)) + 0.25",
        longer=True,
    ),
    KeyFamily(
        name="moment",
        types=("DATETIME", "DATETIME(6)"),
        value="TIMESTAMP('2020-01-01') + INTERVAL {i} SECOND",
        longer=True,
    ),
    KeyFamily(name="double", types=("DOUBLE",), value="{i} + 0.5e0"),
)


def one_of(source: random.Random, pool: tuple[str, ...]) -> str:
    """Return a value of a pool: one literal, or another one from round to round."""
    if len(pool) == 1 or source.random() < 0.4:
        return source.choice(pool)
    chosen = source.sample(pool, min(len(pool), 4))
    number = source.choice(("@i", "@r", "@s"))
    cases = " ".join(f"WHEN {at} THEN {value}" for at, value in enumerate(chosen))
    return f"CASE {number} MOD {len(chosen)} {cases} END"
