"""Binary JSON, from documents captured on MySQL 9.7.4."""

from __future__ import annotations

import pytest

from spirit_py.binlog.codec.jsonb import opaque_sql, plain_value, sql_expression, timestamp_sql
from spirit_py.errors import UnreadableChange
from spirit_py.sql import string_literal


def text(document: str) -> str:
    """Return the expression of a document that JSON text can say."""
    return f"CAST({string_literal(document)} AS JSON)"


TO_JSON = "JSON_EXTRACT(JSON_ARRAY(v), '$[0]')"


def typed(expression: str, kind: str, result: str = "v") -> str:
    """Return the expression that passes a value through a column."""
    return (
        f"(SELECT {result} FROM JSON_TABLE(JSON_ARRAY({expression}), '$[*]'"
        f" COLUMNS (v {kind} PATH '$' ERROR ON ERROR)) AS t)"
    )


PLAIN = [
    ("", "null"),
    ("0400", "null"),
    ("0401", "true"),
    ("0402", "false"),
    ("050500", "5"),
    ("05fbff", "-5"),
    ("07409c0000", "40000"),
    ("09005ed0b200000000", "3000000000"),
    ("0900000000000000 80", "-9223372036854775808"),
    ("0affffffffffffffff", "18446744073709551615"),
    ("0b0000000000000080", "-0.0"),
    ("0b9a9999999999b93f", "0.1"),
    ("0c03c3a422", '"ä\\""'),
    ("0b0000000000c05e40", "123.0"),
    ("0200000400", "[]"),
    ("0000000400", "{}"),
    ("02010007000401 00", "[true]"),
    ("0201000700050500", "[5]"),
    ("0301000000 0d000000 0505000000", "[5]"),
    ("0001000c000b0001000500006b", '{"k": 0}'),
]


@pytest.mark.parametrize(("raw", "document"), PLAIN)
def test_document_of_plain_values_is_one_cast_of_its_text(raw, document):
    """What JSON text can say is said by JSON text."""
    data = bytes.fromhex(raw)
    assert sql_expression(data) == text(document)
    assert plain_value(data) == document


ARRAYS = [
    ("0201000b000f070010020201", typed("513", "BIT(16)"), '"base64:type16:AgE="'),
    (
        "02010011000f0700070870580a053144a519",
        typed(
            f"CAST({string_literal('2020-01-02 03:04:05.678000')} AS DATETIME(6))", "TIMESTAMP(6)"
        ),
        '"2020-01-02 03:04:05.678000"',
    ),
    (
        "02010011000f07000c08f55b0a053144a519",
        "CAST('2020-01-02 03:04:05.678901' AS DATETIME(6))",
        '"2020-01-02 03:04:05.678901"',
    ),
    ("02010011000f07000a080000000000bea519", "CAST('2020-02-31' AS DATE)", '"2020-02-31"'),
    ("02010011000f07000a080000000000000000", "CAST('0000-00-00' AS DATE)", '"0000-00-00"'),
    (
        "02010011000f07000b08909bf7b13cffffff",
        "CAST('-12:13:14.550000' AS TIME(6))",
        '"-12:13:14.550000"',
    ),
    (
        "02010011000f07000b08e05ef8feffffffff",
        "CAST('-00:00:01.500000' AS TIME(6))",
        '"-00:00:01.500000"',
    ),
    ("02010010000f0700f6070a028000000132", "CAST(1.50 AS DECIMAL(10,2))", "1.50"),
    ("0201000d000f0700f60403028132", "1.50", "1.50"),
    ("0201000d000f0700f60402017ffa", "-0.5", "-0.5"),
    ("0201000d000f0700fe0461620000", typed("X'61620000'", "BINARY(4)"),
     '"base64:type254:YWIAAA=="'),
    ("0201000b000f07000f026162", "X'6162'", '"base64:type15:YWI="'),
    ("0201000b000f0700fc026162", typed("X'6162'", "LONGBLOB"), '"base64:type252:YWI="'),
    ("0201000b000f0700f9026162", typed("X'6162'", "TINYBLOB", TO_JSON), '"base64:type249:YWI="'),
    (
        "0201000b000f0700fa026162",
        "IF(TRUE, X'6162', CAST(X'' AS BINARY(65536)))",
        '"base64:type250:YWI="',
    ),
    (
        "0201000b000f0700fb026162",
        "IF(TRUE, X'6162', CAST(X'' AS BINARY(16777216)))",
        '"base64:type251:YWI="',
    ),
    ("0201000f000b0700 1e85eb51b89e2d40", "14.809999999999999e0", "14.809999999999999"),
    ("0201000f000b0700 0100000000000000", "5e-324", "5e-324"),
    ("0201000700060500", "CAST(5 AS UNSIGNED)", "5"),
    ("0201000f00090700ffffffffffffff7f", "CAST(9223372036854775807 AS SIGNED)",
     "9223372036854775807"),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "inner", "shown"), ARRAYS)
def test_typed_value_makes_its_array_an_expression(raw, inner, shown):
    """What JSON text cannot say is an SQL expression of that type."""
    data = bytes.fromhex(raw)
    assert sql_expression(data) == f"JSON_ARRAY({inner})"
    assert plain_value(data) == f"[{shown}]"


def test_bare_typed_value_is_taken_out_of_an_array():
    """CAST does not make JSON of a binary string, so a bare value goes through an array."""
    assert sql_expression(bytes.fromhex("0f0f026162")) == (
        "JSON_EXTRACT(JSON_ARRAY(X'6162'), '$[0]')"
    )


def test_only_the_way_to_a_typed_value_is_spelled_out():
    """A plain neighbour of a typed value stays one cast, nested containers included."""
    # {"a": [true], "b": CAST(5 AS UNSIGNED)}
    inner = "01000700040100"
    keys = "1200 0100 1300 0100"
    raw = bytes.fromhex(f"00 0200 1b00 {keys} 02 1400 06 0500 61 62 {inner}".replace(" ", ""))
    assert sql_expression(raw) == (
        f"JSON_OBJECT({string_literal('a')}, {text('[true]')},"
        f" {string_literal('b')}, CAST(5 AS UNSIGNED))"
    )
    assert plain_value(raw) == '{"a": [true], "b": 5}'


def test_long_text_has_a_length_of_several_bytes():
    """Lengths go on while the upper bit is set."""
    raw = bytes.fromhex("0cf0a204") + b"x" * 70_000
    assert plain_value(raw) == f'"{"x" * 70_000}"'


@pytest.mark.parametrize(
    "raw", ["0d00", "02", "020100070005", "0c05 61", "0403", "0505", "0f0f05 61", "0c01ff"]
)
def test_bytes_that_are_no_document_are_refused(raw):
    """Cut or unknown bytes are an error, never another document."""
    with pytest.raises(UnreadableChange, match="JSON"):
        sql_expression(bytes.fromhex(raw))


#: Type codes of opaque values that an SQL expression gives back, and the lengths at which they end.
CARRIED = {15: 0, 16: 8, 249: 255, 250: (1 << 24) - 1, 251: 0, 252: 0, 254: 255}


def test_each_type_code_is_carried_or_refused():
    """R9: no opaque value gets another type code; 0 to 255, and the longest of each."""
    for kind in {*range(256)} - {*CARRIED}:
        with pytest.raises(UnreadableChange, match=f"type code {kind}, 1 bytes"):
            opaque_sql(kind, b"x")
    for kind, longest in CARRIED.items():
        assert kind == 16 or "X'78'" in opaque_sql(kind, b"x")
        if longest:
            assert opaque_sql(kind, b"\xff" * longest)
            with pytest.raises(UnreadableChange, match=f"{longest + 1} bytes"):
                opaque_sql(kind, b"\xff" * (longest + 1))
    assert "_ucs2 X'7879'" in opaque_sql(253, b"xy")


@pytest.mark.parametrize("digits", ["012345678", "18446744073709551616", "12345678x", ""])
def test_only_the_digits_of_a_bit_column_are_a_long_bit_value(digits):
    """R9: the server writes no others, so that no other bytes may become a number."""
    with pytest.raises(UnreadableChange):
        opaque_sql(16, digits.encode())
    assert "COALESCE" in opaque_sql(16, b"18446744073709551615")


@pytest.mark.parametrize("raw", ["0ff60300 0a0080 0000", "0f0a 0700 000000000000 00"])
def test_numbers_and_dates_of_another_length_are_refused(raw):
    """R9: nothing is read from a part of a value, or from what follows it."""
    with pytest.raises(UnreadableChange, match="JSON"):
        sql_expression(bytes.fromhex(raw))


@pytest.mark.parametrize(
    ("local", "there"),
    [
        ("0000-00-00 00:00:00.000000", True),
        ("1970-01-01 00:00:00.999999", False),
        ("1970-01-01 00:00:01.000000", True),
        ("2038-01-19 03:14:07.999999", True),
        ("2038-01-19 04:14:07.000000", False),
    ],
)
def test_a_timestamp_of_another_time_zone_is_itself_or_refused(local, there):
    """R9: of a local time beyond those in '+00:00', JSON_TABLE would make null without a word."""
    if there:
        assert string_literal(local) in timestamp_sql(local)
        return
    with pytest.raises(UnreadableChange, match=f"the TIMESTAMP '{local}'"):
        timestamp_sql(local)


def test_a_refused_value_can_still_be_shown():
    """``watch`` shows what the server shows; no SQL is needed for it."""
    for raw, shown, held in (
        ("0ff202 6162", '"base64:type242:YWI="', "type code 242"),
        ("0f0708 0000008743e6df19", '"2038-01-19 04:14:07.000000"', "the TIMESTAMP '2038"),
    ):
        assert plain_value(bytes.fromhex(raw)) == shown
        with pytest.raises(UnreadableChange, match=held):
            sql_expression(bytes.fromhex(raw))
