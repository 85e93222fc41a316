"""Two tables to compare, the comparison with threads in Spark's place, and what it said."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.compare.entry import compare
from spirit_py.config import CompareConfig
from spirit_py.errors import DifferencesFound
from tests.kits.checksum import ThreadEngine, connection_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spirit_py.compare.report import CompareReport
    from tests.fixtures.mysql import Database

NUMBERS = "WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < {})"


class Engine(ThreadEngine):
    """A gang of threads that is started and stopped like Spark.

    Args:
        at_start: called when the checks are over and the comparison begins.
    """

    def __init__(self, at_start: Callable[[], object] | None = None) -> None:
        super().__init__()
        self._at_start = at_start
        self.stopped = False

    def start(self) -> None:
        """Begin."""
        if self._at_start is not None:
            self._at_start()

    def stop(self) -> None:
        """End."""
        self.stopped = True


class Said:
    """Keeps what an operator would have seen.

    Args:
        on_progress: called with each snapshot of the progress.
    """

    def __init__(self, on_progress: Callable[[Any], object] | None = None) -> None:
        self.lines: list[str] = []
        self.waits: list[str] = []
        self._on_progress = on_progress

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""

    def message(self, text: str, **_: object) -> None:
        """Keep a line."""
        self.lines.append(text)

    def progress(self, snapshot: Any) -> None:
        """Keep what is waited for."""
        self.waits.append(snapshot.waiting_for)
        if self._on_progress is not None:
            self._on_progress(snapshot)


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
        self.engine = Engine()
        self.said = Said()

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


@contextlib.contextmanager
def account(db: Database, *grants: str) -> Iterator[tuple[str, str]]:
    """Create an account with these grants; give user and password."""
    name = f"u{db.name[2:14]}"
    with contextlib.closing(db.connect()) as session, session.cursor() as cursor:
        cursor.execute(f"CREATE USER {name} IDENTIFIED BY 'secret'")
        try:
            for grant in grants:
                cursor.execute(f"GRANT {grant} TO {name}")
            yield name, "secret"
        finally:
            cursor.execute(f"DROP USER {name}")
