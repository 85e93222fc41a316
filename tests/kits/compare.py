"""Two tables to compare, the comparison with threads in Spark's place, and what it said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.command_config import CompareConfig
from spirit_py.compare.run import compare
from spirit_py.errors import DifferencesFound
from tests.kits.connection import connection_options
from tests.kits.engine import ThreadEngine
from tests.kits.reporter import RecordingReporter

if TYPE_CHECKING:
    from spirit_py.compare.report import CompareReport
    from tests.fixtures.mysql import Database

NUMBERS = "WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < {})"


def make(db: Database, rows: int = 200, table: str = "a") -> None:
    """Create a table with a text and a number beside the key, and fill it."""
    db.execute(f"CREATE TABLE `{table}` (id INT PRIMARY KEY, v VARCHAR(30), n INT)")
    db.execute(f"SET SESSION cte_max_recursion_depth = {rows + 1}")
    db.execute(
        f"INSERT INTO `{table}` {NUMBERS.format(rows)} SELECT i, CONCAT('row ', i), i * 3 FROM s"
    )


def copy(db: Database, table: str = "b", *, source: str = "a") -> None:
    """Create a table with the same rows."""
    db.execute(f"CREATE TABLE `{table}` LIKE `{source}`")
    db.execute(f"INSERT INTO `{table}` SELECT * FROM `{source}`")


class Comparison:
    """Compares ``a`` and ``b`` of a test's schema, or ``a`` with another server's."""

    def __init__(self, db: Database, other: Database | None = None) -> None:
        self.db = db
        self.defaults: dict[str, Any] = {
            "source": connection_options(db),
            "target": None if other is None else connection_options(other),
            "database": db.name,
            "table": "a",
            "target_database": (other or db).name,
            "target_table": "b" if other is None else "a",
            "recheck_pauses": (0.01, 0.01),
            "threads": 2,
        }
        self.engine = ThreadEngine()
        self.said = RecordingReporter()

    def run(self, **options: Any) -> CompareReport:
        """Compare; what it raises is the test's."""
        return compare(
            CompareConfig(**(self.defaults | options)),
            reporter=self.said,
            engine_factory=lambda _: self.engine,
        )

    def differs(self, **options: Any) -> DifferencesFound:
        """Compare; they must differ."""
        with pytest.raises(DifferencesFound) as raised:
            self.run(**options)
        assert raised.value.exit_code == 4
        return raised.value
