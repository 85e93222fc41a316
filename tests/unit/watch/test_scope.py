"""What is followed, by name."""

from __future__ import annotations

import pytest

from spirit_py.binlog import wire
from spirit_py.binlog.statements import read_statement
from spirit_py.watch.records import Scope, TableNames, read_name


@pytest.mark.parametrize(
    ("database", "table", "covered"),
    [
        ("", "", {"s.t", "s.u", "S.t", "o.t"}),
        ("s", "", {"s.t", "s.u"}),
        ("s", "t", {"s.t"}),
    ],
)
def test_a_scope_covers_a_table_a_schema_or_all(
    database: str, table: str, covered: set[str]
) -> None:
    """Names are told apart by case where the server does."""
    names = TableNames(Scope(database, table, ignore_case=False))
    every = {"s.t": ("s", "t"), "s.u": ("s", "u"), "S.t": ("S", "t"), "o.t": ("o", "t")}
    for name, found in every.items():
        key = wire.name_key(*found)
        for _ in range(2):
            assert (key in names) == (name in covered), name
        if key in names:
            assert names[key] == found


def test_case_is_ignored_where_the_server_ignores_it() -> None:
    """``lower_case_table_names`` 1 and 2."""
    assert Scope("Shop", "Orders", ignore_case=True).covers("shop", "ORDERS")


def test_names_of_a_table_map_are_read_back() -> None:
    """Also those that are not ASCII."""
    assert read_name(wire.name_key("läden", "täglich")) == ("läden", "täglich")


@pytest.mark.parametrize(
    ("sql", "schema", "table", "touched"),
    [
        ("ALTER TABLE t ADD x INT", "s", "t", True),
        ("ALTER TABLE `o`.`t` ADD x INT", "s", "t", False),
        ("RENAME TABLE u TO v, t TO w", "s", "t", True),
        ("DROP DATABASE s", "o", "t", True),
        ("CREATE INDEX i ON t (a)", "s", "t", True),
        ("CREATE VIEW v AS SELECT 1", "s", "", True),
        ("CREATE VIEW v AS SELECT 1", "s", "t", False),
        ("CREATE VIEW v AS SELECT 1", "o", "", False),
        ("CREATE USER 'u' IDENTIFIED WITH 'caching_sha2_password' AS '$A$'", "s", "", False),
        ("ALTER /* it */ USER u IDENTIFIED BY 'secret'", "s", "", False),
        ("CREATE ROLE `table`", "s", "", False),
        ("ALTER SERVER f OPTIONS (PASSWORD 'secret')", "s", "", False),
        ("CREATE TABLE `user` (a INT)", "s", "", True),
    ],
)
def test_statements_belong_to_the_tables_they_name(
    sql: str, schema: str, table: str, touched: bool
) -> None:
    """A statement without a table belongs to its default schema; one with passwords to none."""
    scope = Scope("s", table, ignore_case=False)
    assert scope.touched(read_statement(sql, schema), schema) is touched
