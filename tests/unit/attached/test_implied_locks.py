"""Which names of a trigger's body may be those of tables that LOCK TABLES locks."""

from __future__ import annotations

import pytest

from spirit_py.attached.implied_locks import names_in
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
