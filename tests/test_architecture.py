"""What the layers of pyproject.toml cannot say: sleeping, the driver's doorway, R-numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "spirit_py").rglob("*.py"))
#: The rules of docs/rules.md that keep data safe.
RULES = range(1, 25)


def texts(pattern):
    """Find the modules of the package that hold a pattern."""
    return [str(path.relative_to(ROOT)) for path in MODULES if re.search(pattern, path.read_text())]


def test_nothing_sleeps_where_a_stop_request_cannot_wake_it():
    """Waiting goes through the stop switch or a condition, never through time.sleep."""
    assert texts(r"\btime\.sleep\(|from time import sleep") == []


def test_the_driver_is_imported_in_the_mysql_package_only():
    """MySQLdb has one doorway."""
    found = texts(r"import MySQLdb|from MySQLdb")
    assert found
    assert [path for path in found if not path.startswith("spirit_py/mysql/")] == []


@pytest.mark.parametrize("rule", RULES)
def test_every_safety_rule_is_named_by_a_test(rule):
    """Each rule of the design has a test that says whose it is."""
    named = [
        path
        for path in (ROOT / "tests").rglob("test_*.py")
        if path != Path(__file__) and re.search(rf"\bR{rule}\b", path.read_text())
    ]
    assert named, f"no test names R{rule}"


@pytest.mark.parametrize("rule", RULES)
def test_every_safety_rule_says_what_breaks_it(rule):
    """Each rule has a row in docs/rules.md: how it was broken, and which test failed."""
    rows = (ROOT / "docs" / "rules.md").read_text().splitlines()
    found = [line for line in rows if re.match(rf"\| R{rule} ", line)]
    assert found, f"docs/rules.md has no row for R{rule}"
    assert all(cell.strip() for row in found for cell in row.strip("|").split("|")), found
