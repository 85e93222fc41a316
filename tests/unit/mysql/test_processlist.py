"""What is read of the texts of other sessions."""

from __future__ import annotations

from typing import Any

import pytest

from spirit_py.mysql.processlist import optimizes_now


class Session:
    """A server on which one other session executes a text.

    Args:
        text: of its statement; None for none.
    """

    def __init__(self, text: str | bytes | None) -> None:
        self._text = text
        self.results = "utf8mb4"

    def execute(self, sql: str) -> None:
        """Set in what results are sent."""
        self.results = sql.rpartition(" ")[2]

    def query(self, sql: str, _values: Any = ()) -> list[tuple[Any, ...]]:
        """Return the list of sessions."""
        assert sql == "SHOW FULL PROCESSLIST"
        assert self.results == "binary"
        return [(7, "app", "host:1", "shop", "Query", 3, "", self._text)]


@pytest.mark.parametrize(
    "text",
    [
        "OPTIMIZE TABLE t",
        "  optimize no_write_to_binlog table t",
        "/* nightly */ -- of all\n# tables\n OPTIMIZE TABLE t",
        "/*!50000 OPTIMIZE TABLE t */",
        f"/* {'long ' * 100} */ OPTIMIZE TABLE t",
    ],
)
def test_an_optimize_is_seen(text: str) -> None:
    """Behind comments as well, however long they are."""
    session: Any = Session(text)
    assert optimizes_now(session)
    assert session.results == "utf8mb4"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "SELECT 'OPTIMIZE TABLE t', SLEEP(600)",
        "/* OPTIMIZE TABLE t */ DO SLEEP(600)",
        "SELECT 1 AS optimize",
        "/**/ " * 20_000 + "DO SLEEP(600)",
        "/*" * 20_000,
        b"INSERT INTO t VALUES ('\x81\xff')",
    ],
)
def test_the_word_in_any_other_statement_counts_for_nothing(text: str | bytes | None) -> None:
    """R26: anybody may send it, and would hold up a comparison; nor does a text take long."""
    session: Any = Session(text)
    assert not optimizes_now(session)
