"""Which defaults are the time, and how a moment is written."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from spirit_py.sql import string_literal
from spirit_py.statement import alter_of
from spirit_py.table.build import build_mapping
from spirit_py.table.new_columns import (
    from_unix,
    in_schema,
    instant_literal,
    of_each_write,
    of_the_moment,
    plain_digits,
)
from tests.kits.definitions import column, table

ID = column("id")
MOMENT = datetime(2026, 3, 1, 23, 59, 59, 987654, tzinfo=UTC)


@pytest.mark.parametrize(
    ("default", "alike", "each"),
    [
        ("CURRENT_TIMESTAMP", True, False),
        ("(now() + interval 1 day)", True, False),
        ("unix_timestamp()", True, False),
        ("(curdate() + interval `id` day)", False, True),
        ("sysdate()", False, False),
        ("concat(uuid(),now())", False, False),
        ("rand()", False, False),
        ("concat(_utf8mb4'now() ''now',_utf8mb4'x')", False, False),
        ("concat(_utf8mb4'rand `x`',now())", True, False),
        ("connection_id()", True, False),
        ("concat(database(),`id`)", False, True),
        ("_utf8mb4'connection_id()'", False, False),
        ("cast(_utf8mb4'12:00' as time)", False, False),
        ("(`id` * 2)", False, False),
    ],
)
def test_which_defaults_are_the_time(default: str, alike: bool, each: bool) -> None:
    """What is the same for all rows of a moment, and what only a row can be evaluated for."""
    new = replace(column("n", "varchar(60)"), default=default, extra="DEFAULT_GENERATED")
    mapping = build_mapping(table(ID), table(ID, new), alter_of("s", "t", "ADD n INT"), "+00:00")
    assert (of_the_moment(mapping) == (new,), of_each_write(mapping) == (new,)) == (alike, each)


@pytest.mark.parametrize(
    ("data_type", "default", "alike"),
    [
        ("datetime", "cast(_utf8mb4'12:00' as time)", True),
        ("date", "maketime(25,0,0)", True),
        ("time", "maketime(25,0,0)", False),
        ("datetime", "cast(_utf8mb4'12:00' as time) + interval `id` hour", False),
        ("date", "(_utf8mb4'2020-02-29' + interval 1 day)", False),
    ],
)
def test_a_time_becomes_a_date_of_the_day(data_type: str, default: str, alike: bool) -> None:
    """The day that a TIME is given is that of the statement, so it is taken once."""
    new = replace(column("n", data_type), default=default, extra="DEFAULT_GENERATED")
    mapping = build_mapping(table(ID), table(ID, new), alter_of("s", "t", "ADD n INT"), "+00:00")
    assert (of_the_moment(mapping) == (new,)) == alike
    assert of_each_write(mapping) == ()


def test_the_schema_is_that_of_the_table() -> None:
    """A session of the program has no default schema; a text that looks like the call stays."""
    default = "concat(_utf8mb4'it''s database()',database(),schema())"
    name = string_literal("a'b")
    assert in_schema(default, "a'b") == f"concat(_utf8mb4'it''s database()',{name},{name})"


def test_a_carried_column_keeps_its_values() -> None:
    """A default means nothing where the source has a value."""
    at = replace(column("at", "datetime"), default="CURRENT_TIMESTAMP", extra="DEFAULT_GENERATED")
    both = table(ID, at)
    mapping = build_mapping(both, both, alter_of("s", "t", "FORCE"), "+00:00")
    assert of_the_moment(mapping) == ()


@pytest.mark.parametrize(
    ("default", "digits", "text"),
    [
        ("CURRENT_TIMESTAMP", 0, "'2026-03-01 23:59:59+00:00'"),
        ("CURRENT_TIMESTAMP(3)", 3, "'2026-03-01 23:59:59.987+00:00'"),
        ("CURRENT_TIMESTAMP(6)", 6, "'2026-03-01 23:59:59.987654+00:00'"),
    ],
)
def test_the_clock_is_cut(default: str, digits: int, text: str) -> None:
    """The server's clock is cut to the digits, never rounded."""
    assert plain_digits(replace(column("n", "datetime"), default=default)) == digits
    assert instant_literal(MOMENT, digits) == text


def test_what_unix_timestamp_gives() -> None:
    """Seconds, with or without a fraction, to the microsecond."""
    assert from_unix("0").isoformat() == "1970-01-01T00:00:00+00:00"
    assert from_unix("1700000000.125").isoformat() == "2023-11-14T22:13:20.125000+00:00"
