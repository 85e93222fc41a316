"""Under which settings expressions are evaluated."""

from __future__ import annotations

import pytest

from spirit_py.mysql.evaluation import (
    DATE_SQL_MODE,
    STRICT_SQL_MODE,
    date_mode,
    evaluating_mode,
    evaluation_settings,
)
from spirit_py.mysql.facts import ServerFacts


def test_settings_are_the_servers():
    """What an expression's value depends on is taken from the globals; other settings are not."""
    own = {"lc_time_names": "de_DE", "default_week_format": "3", "wait_timeout": "2"}
    facts = ServerFacts(version="8.4.0", variables=own)
    assert evaluation_settings(facts) == (
        ("sql_mode", STRICT_SQL_MODE),
        (DATE_SQL_MODE, "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO"),
        ("default_week_format", "3"),
        ("lc_time_names", "de_DE"),
    )


@pytest.mark.parametrize(
    ("server", "added"),
    [
        ("", ""),
        ("ANSI_QUOTES,NO_ZERO_DATE,PIPES_AS_CONCAT", ""),
        ("NO_UNSIGNED_SUBTRACTION", ",NO_UNSIGNED_SUBTRACTION"),
        ("ERROR_FOR_DIVISION_BY_ZERO", ""),
        ("STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO", ",ERROR_FOR_DIVISION_BY_ZERO"),
        ("TIME_TRUNCATE_FRACTIONAL", ",TIME_TRUNCATE_FRACTIONAL"),
    ],
)
def test_modes_that_change_a_value(server, added):
    """Of the server's sql_mode only what changes a computed value is added to the strict mode."""
    assert evaluating_mode(server) == STRICT_SQL_MODE + added


@pytest.mark.parametrize(
    ("server", "modes"),
    [
        ("", ""),
        ("ALLOW_INVALID_DATES", "ALLOW_INVALID_DATES"),
        ("NO_ZERO_DATE,NO_ZERO_IN_DATE", "NO_ZERO_DATE,NO_ZERO_IN_DATE"),
        ("TIME_TRUNCATE_FRACTIONAL", "TIME_TRUNCATE_FRACTIONAL"),
    ],
)
def test_modes_about_dates_are_the_servers(server, modes):
    """Dates are made strictly, by the server's own modes about them."""
    found = set(date_mode(server).split(","))
    assert found == {"STRICT_ALL_TABLES", "NO_AUTO_VALUE_ON_ZERO", *filter(None, modes.split(","))}
