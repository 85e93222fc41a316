"""Literals and comparable values of columns that came from a SELECT."""

from __future__ import annotations

import random
from typing import Any

import pytest

from spirit_py.errors import MigrationFailure
from spirit_py.table import temporal, values
from spirit_py.table.schema import Column


def column(data_type: str, **more: Any) -> Column:
    """Return a NOT NULL key column."""
    given: dict[str, Any] = {"name": "k", "ordinal": 1, "column_type": data_type} | more
    return Column(data_type=data_type, nullable=False, **given)


MEMBERS = ("z", "it's", "ä")
CASES: list[tuple[Column, str, object, str, object]] = [
    (column("bigint", unsigned=True), "`k`", 2**64 - 1, "18446744073709551615", 2**64 - 1),
    (column("int"), "`k`", "-5", "-5", -5),
    (column("decimal", precision=5, scale=2), "`k`", "-0.05", "-0.05", -5),
    (column("decimal", precision=5, scale=2), "`k`", "123.40", "123.40", 12340),
    (column("decimal", precision=5, scale=0), "`k`", "123", "123", 123),
    (column("year"), "`k`", 0, "0", 0),
    (column("bit", length=9), "`k` + 0", 511, "511", 511),
    (column("enum", members=MEMBERS), "`k` + 0", "2", "2", 2),
    (column("set", members=MEMBERS), "CAST(`k` AS UNSIGNED)", "5", "5", 5),
    (column("date"), "`k`", "2023-02-31", "'2023-02-31'", 2023 << 9 | 2 << 5 | 31),
    (column("date"), "`k`", "0000-00-00", "'0000-00-00'", 0),
    (column("time", precision=1), "`k`", "-00:00:00.5", "'-00:00:00.5'", -50),
    (column("time", precision=0), "`k`", "-838:59:59", "'-838:59:59'", -(838 << 12 | 59 << 6 | 59)),
    (column("timestamp", precision=0), "`k`", "0000-00-00 00:00:00",
     "TIMESTAMP'0000-00-00 00:00:00'", 0),
    (column("timestamp", precision=2), "`k`", "1970-01-01 00:00:01.25",
     "TIMESTAMP'1970-01-01 00:00:01.25+00:00'", (1 << 8) + 25),
    (column("binary", length=3), "HEX(`k`)", "616200", "X'616200'", b"ab\0"),
    (column("varbinary", length=3), "HEX(`k`)", b"", "X''", b""),
    (column("varchar", charset="utf8mb4", collation="utf8mb4_0900_bin"), "HEX(`k`)", "C3A4",
     "_utf8mb4 X'c3a4'", b"\xc3\xa4"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "select", "text", "literal", "value"), CASES)
def test_selected_key_becomes_literal_and_comparable(given, select, text, literal, value):
    """Each comparable type has one expression to select, one literal and one Python value."""
    assert values.key_select_expressions([given]) == (select,)
    bound = values.bound_from_row([given], [text])
    assert bound.literals == (literal,)
    assert bound.comparable == (value,)
    assert values.bound_from_key([given], bound.comparable) == bound


@pytest.mark.parametrize(
    ("given", "select", "text", "literal"),
    [
        (column("float"), "`k` + 0e0", "0.10000000149011612", "0.10000000149011612e0"),
        (column("double"), "`k` + 0e0", "1e300", "1e+300"),
        (column("double"), "`k` + 0e0", "-0", "-0.0e0"),
        (column("varchar", charset="latin1", collation="latin1_bin"), "HEX(`k`)", "81",
         "_latin1 X'81'"),
        (column("char", charset="utf8mb3", collation="utf8mb3_bin"), "HEX(`k`)", "C3A4",
         "_utf8mb4 X'c3a4'"),
        (column("char", charset="ucs2", collation="ucs2_bin"), "HEX(`k`)", "00E4",
         "_utf16 X'00e4'"),
    ],
)  # fmt: skip
def test_incomparable_key_has_a_literal_only(given, select, text, literal):
    """A key that Python cannot order still has a lossless literal, and never a comparable."""
    assert values.key_select_expressions([given]) == (select,)
    bound = values.bound_from_row([given], [text])
    assert bound.literals == (literal,)
    assert bound.comparable is None


def test_row_keys_carry_member_texts():
    """``(enum, n) IN ((2, 5))`` finds nothing on a server, so row keys never hold a number."""
    columns = [column("enum", members=MEMBERS), column("set", members=MEMBERS), column("int")]
    assert values.row_key_sql(columns, ["2", "5", "7"]) == (
        "(_utf8mb4 X'69742773', _utf8mb4 X'7a2cc3a4', 7)"
    )
    assert values.bound_from_row(columns, ["2", "5", "7"]).literals == ("2", "5", "7")


def test_enum_error_value_beside_an_empty_member_is_refused():
    """No row constructor tells ordinal 0 from an empty member, so such a key is not rendered."""
    ambiguous = column("enum", members=("a", ""))
    assert values.key_sql([ambiguous], (2,)) == "(_utf8mb4 X'')"
    with pytest.raises(MigrationFailure, match="error value 0"):
        values.key_sql([ambiguous], (0,))
    assert values.key_sql([column("enum", members=("a",))], (0,)) == "(_utf8mb4 X'')"


@pytest.mark.parametrize("kind", ["json", "geometry", "vector"])
def test_types_that_cannot_be_keys_are_refused(kind):
    """A type without key semantics has no bound."""
    with pytest.raises(MigrationFailure, match="cannot be part of a key"):
        values.key_select_expressions([column(kind)])


def test_rows_of_warned_charsets_carry_bare_bytes():
    """An introducer that would only warn is left out of rows, and kept in keys."""
    assert values.row_introducer("greek") == values.row_introducer("dec8") == ""
    assert values.row_introducer("utf8mb3") == "_utf8mb4 "
    assert values.introducer("greek") == "_greek"


def test_a_key_with_a_surrogate_keeps_its_character_set():
    """R9: a pair of them would be one character of utf16, and one alone none."""
    assert values.text_literal(bytes.fromhex("00e4"), "ucs2") == "_utf16 X'00e4'"
    assert values.text_literal(bytes.fromhex("00e4d800"), "ucs2") == "_ucs2 X'00e4d800'"
    assert values.text_literal(bytes.fromhex("00d8"), "ucs2") == "_utf16 X'00d8'"


@pytest.mark.parametrize("precision", range(7))
@pytest.mark.parametrize("kind", ["time", "datetime", "timestamp"])
def test_temporal_text_and_packed_value_are_inverse_and_order_alike(kind, precision):
    """What is packed shows as the same text, and packed values order as the instants do."""
    rng = random.Random(f"{kind} {precision}")
    show = temporal.show_function(kind, precision)
    read = temporal.read_function(kind, precision)
    texts = []
    for _ in range(200):
        digits = f".{rng.randrange(10**precision):0{precision}d}" if precision else ""
        clock = f"{rng.randrange(24):02d}:{rng.randrange(60):02d}:{rng.randrange(60):02d}{digits}"
        day = f"{rng.randint(1971, 2037)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
        texts.append(clock if kind == "time" else f"{day} {clock}")
    assert [show(read(text)) for text in texts] == texts
    assert sorted(texts) == [show(value) for value in sorted(map(read, texts))]
    if kind == "time":
        below = [f"-{text}" for text in texts]
        assert [show(read(text)) for text in below] == [
            text if read(text) else text[1:] for text in below
        ]
        assert sorted(map(read, below)) == sorted(-read(text) for text in texts)


def test_invalid_dates_survive():
    """Zero dates, zero in date and 31 February are packed and shown as they are."""
    show, read = temporal.show_function("datetime"), temporal.read_function("datetime")
    for day in ("0000-00-00", "2023-00-10", "2023-10-00", "2023-02-31", "9999-12-31"):
        assert show(read(f"{day} 00:00:00")) == f"{day} 00:00:00"
        assert temporal.date_text(temporal.read_function("date")(day)) == day


@pytest.mark.parametrize(("given", "select", "text", "literal", "value"), CASES)
def test_a_stored_literal_becomes_the_same_bound_again(given, select, text, literal, value):
    """What a checkpoint holds of a key is read back with its comparable value."""
    assert values.bound_from_literals([given], [literal]) == values.bound_from_row([given], [text])


def test_a_stored_literal_of_a_key_that_python_cannot_order():
    """It is a bound for the server all the same."""
    latin = column("char", charset="latin1", collation="latin1_swedish_ci")
    number = column("double")
    bound = values.bound_from_literals([latin, number], ["_latin1 X'e9'", "1.5e0"])
    assert bound.literals == ("_latin1 X'e9'", "1.5e0")
    assert bound.comparable is None


@pytest.mark.parametrize(
    ("given", "literals"),
    [
        (column("int"), ["5 OR 1"]),
        (column("int"), ["05"]),
        (column("int"), ["5 "]),
        (column("int"), ["'5'"]),
        (column("int"), []),
        (column("int"), ["5", "6"]),
        (column("date"), ["'2023-02-31' OR ''"]),
        (column("date"), ["2023-02-31"]),
        (column("varbinary", length=3), ["X'6'"]),
        (column("varbinary", length=3), ["X'zz'"]),
        (column("varbinary", length=3), ["'61'"]),
        (column("varchar", charset="utf8mb4", collation="utf8mb4_0900_bin"), ["_latin1 X'61'"]),
    ],
)
def test_anything_else_that_was_stored_is_refused(given, literals):
    """A stored text goes into SQL only when it is exactly what this program writes."""
    with pytest.raises(ValueError, match=r"."):
        values.bound_from_literals([given], literals)
