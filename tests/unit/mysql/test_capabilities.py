"""What depends on the server's version has a name, and a row in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spirit_py.mysql.capabilities import Capability, most_row_versions

_PAGE = Path(__file__).parents[3] / "docs" / "versions.md"


def test_the_page_has_each_of_them():
    """With the same words, versions and sources."""
    rows = re.findall(
        r"^\| ([^|]+) \| (\d+\.\d+\.\d+) \| ([^|]+) \|", _PAGE.read_text(), re.MULTILINE
    )
    assert rows == [(one.what, one.since, one.source) for one in Capability]


@pytest.mark.parametrize(
    ("version", "can"),
    [
        ("8.0.28", False),
        ("8.0.29", True),
        ("8.4.2-commercial", True),
        ("9.7.4-2", True),
        ("?", False),
    ],
)
def test_a_version_is_compared_by_its_numbers(version, can):
    """Whatever a vendor writes behind them."""
    assert Capability.INSTANT_COLUMNS.of(version) is can


def test_a_table_has_255_row_versions_since_9_1():
    """Before it 64."""
    assert [most_row_versions(one) for one in ("8.4.6", "9.0.1", "9.1.0-debug")] == [64, 64, 255]
