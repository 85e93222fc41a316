"""JSON documents as SQL, and the numbers that the parser of MySQL 8.0 would round."""

from __future__ import annotations

import random
import re
import struct

import pytest

from spirit_py.binlog.codec.jsonb import Node, array, double, integer, members, string
from spirit_py.sql import string_literal


def parsed_by_mysql_8_0(text: str) -> float:
    """Read a number as RapidJSON does without full precision, which is MySQL 8.0's way.

    The digits are one whole number while that is at most 2^53, then doubles go on, up to 17 digits
    in all; what comes out is multiplied or divided by a power of ten. Each step rounds by itself.
    """
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    number: float = int(whole)
    power, digits = 0, len(whole.lstrip("0"))
    if number >= 1 << 64:
        number, digits = float(whole), 17
    for digit in fraction:
        if isinstance(number, int) and number <= (1 << 53) - 1:
            number, power = number * 10 + int(digit), power - 1
        elif digits < 17:
            number, power = float(number) * 10.0 + int(digit), power - 1
        digits += number > 0
    power += int(exponent or 0)
    if power < -308:
        number, power = number / 1e308, power + 308
    scale = float(f"1e{abs(power)}")
    value = number * scale if power >= 0 else number / scale
    return -value if text.startswith("-") else value


def any_double(draw: random.Random) -> float:
    """Draw a number as applications have them, or any bits at all."""
    kind = draw.randrange(4)
    if kind == 0:
        return draw.uniform(-1000, 1000)
    if kind == 1:
        return round(draw.uniform(-1e9, 1e9), draw.randrange(10))
    if kind == 2:
        digits = draw.randint(1, 10 ** draw.randint(1, 17))
        return float(f"{digits}e{draw.randint(-40, 40)}")
    (value,) = struct.unpack("<d", draw.randbytes(8))
    return value if value - value == 0 else 0.5


def test_the_model_rounds_as_mysql_8_0_was_seen_to():
    """One known number, and about as many of random ones as on a real server: 10 to 20 %."""
    assert parsed_by_mysql_8_0("14.809999999999999") == 14.81
    draw = random.Random("rounded")
    numbers = [draw.uniform(-1000, 1000) for _ in range(5000)]
    wrong = sum(parsed_by_mysql_8_0(repr(number)) != number for number in numbers)
    assert 0.05 < wrong / len(numbers) < 0.35


def test_double_is_exact_whatever_reads_it():
    """What is left in the text survives MySQL 8.0's parser; everything else is an SQL literal."""
    draw = random.Random("exact")
    in_text = 0
    for _ in range(20_000):
        number = any_double(draw)
        node = double(repr(number))
        assert node.text == repr(number)
        in_text += not node.sql
        assert (float(node.sql) if node.sql else parsed_by_mysql_8_0(node.text)) == number
    assert in_text > 5000


@pytest.mark.parametrize("number", ["1.0", "-0.0", "19.99", "1e+22", "1e-07", "9007199254740.991"])
def test_short_double_stays_in_the_text(number):
    """Its digits and its power of ten are exact, so that nothing is rounded."""
    assert double(number) == Node(number)


@pytest.mark.parametrize(
    ("number", "literal"),
    [
        ("9007199254740993.0", "9007199254740993.0e0"),
        ("1e+23", "1e+23"),
        ("1E23", "1E23"),
        ("1e-23", "1e-23"),
        ("5e-324", "5e-324"),
        ("-1.7976931348623157e308", "-1.7976931348623157e308"),
        ("123456789012345678", "123456789012345678e0"),
        ("7", "7e0"),
    ],
)
def test_other_double_is_a_literal_of_sql(number, literal):
    """It has an exponent, without which the server would take it for a DECIMAL or INTEGER."""
    assert double(number) == Node(number, literal)


def test_arguments_beside_a_literal_are_short():
    """Scalars are literals of their own type, so that a large document stays a small statement."""
    long = integer("-9223372036854775808", unsigned=False)
    items = [Node("null"), Node("true"), integer("-5", unsigned=False), long, double("1.5")]
    items += [string('a"'), array([integer("1", unsigned=False)]), double("14.809999999999999")]
    assert array(items).sql == (
        f"JSON_ARRAY(null, true, -5, CAST({string_literal('-9223372036854775808')} AS JSON), 1.5e0,"
        f" {string_literal(chr(97) + chr(34))}, CAST({string_literal('[1]')} AS JSON),"
        " 14.809999999999999e0)"
    )


def test_plain_document_is_one_cast():
    """Nothing is spelled out where the text gives the document back."""
    node = members(["a", "b"], [double("1.5"), array([string("x")])])
    assert node.document == f"CAST({string_literal(chr(123) + _PLAIN + chr(125))} AS JSON)"


_PLAIN = '"a": 1.5, "b": ["x"]'


def test_bare_typed_value_is_taken_out_of_an_array():
    """A scalar of SQL becomes JSON inside an array."""
    assert re.fullmatch(
        r"JSON_EXTRACT\(JSON_ARRAY\(1e\+23\), '\$\[0\]'\)", double("1e+23").document
    )
