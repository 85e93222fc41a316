"""Which names of a trigger's body may be those of tables that LOCK TABLES locks."""

from __future__ import annotations

from typing import Any

import pytest

from spirit_py.attached import implied_locks
from spirit_py.attached.implied_locks import names_in, opened_by_rename, views_over
from spirit_py.statement.lexer import DEFAULT_MODE, tokenize


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("INSERT INTO audit (o, customer) VALUES (NEW.id)", False),
        ("INSERT INTO s.audit(`customer`) SELECT 1", False),
        ("REPLACE INTO audit(customer, o) SET o = 1; DELETE FROM customer", True),
        ("INSERT INTO audit (SELECT id FROM customer)", True),
        ("INSERT INTO audit (TABLE customer)", True),
        ("INSERT INTO audit (o) SELECT 1 FROM a, customer", True),
        ("INSERT INTO customer (o) VALUES (1)", True),
        ("SELECT 1 INTO x FROM (a, customer)", True),
    ],
)
def test_columns_of_an_insert_are_no_tables(body: str, named: bool) -> None:
    """Whatever else may be a table counts: a session that uses it would be waited for in vain."""
    names = names_in(tokenize(body, DEFAULT_MODE), "shop")
    assert (("shop", "customer") in names) is named


class Nested:
    """A session of a server with ``wide`` views over each table or view of the names asked for."""

    def __init__(self, wide: int) -> None:
        self.asked: list[str] = []
        self._wide = wide

    def query(self, sql: str, _: object = ()) -> list[tuple[Any, ...]]:
        """Return the views over what is asked for, or what they read."""
        self.asked.append(sql)
        level = len(self.asked)
        return [("s", f"v{level}_{number}") for number in range(self._wide)]


def test_views_are_looked_up_a_level_at_a_time_and_not_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each try of a swap asks, and a schema may have thousands of views over one another."""
    monkeypatch.setattr(implied_locks, "_MOST_TABLES", 10)
    session: Any = Nested(wide=4)
    assert len(views_over(session, [("s", "t")])) == 12
    assert len(session.asked) == 3
    session = Nested(wide=4)
    opened_by_rename(session, [("s", "t")])
    assert len(session.asked) == 4
    assert "VIEW_NAME) IN" in session.asked[-1]
