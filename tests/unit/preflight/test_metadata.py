"""Which clauses may run INPLACE because they touch nothing but metadata."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.mysql.facts import ServerFacts
from spirit_py.preflight.clauses import native_zone, why_not_metadata_only
from spirit_py.statement import alter_of
from tests.kits.definitions import column, table

SOURCE = table(
    column("id"),
    column("v", "varchar(20)"),
    column("n", "varchar(20)", nullable=True),
    column("b", "varbinary(20)"),
)


def why_not(clauses: str) -> str:
    """Return the clause that may cost time."""
    return why_not_metadata_only(SOURCE, alter_of("s", "t", clauses))


@pytest.mark.parametrize(
    "clauses",
    [
        "DROP INDEX k",
        "RENAME INDEX a TO b",
        "RENAME COLUMN v TO w",
        "ALTER COLUMN v SET DEFAULT 'x'",
        "ALTER INDEX k INVISIBLE",
        "DROP CHECK c",
        "DROP FOREIGN KEY of_t",
        "DROP CONSTRAINT of_t",
        "COMMENT 'x'",
        "AUTO_INCREMENT=9 STATS_PERSISTENT=1",
        "MODIFY v VARCHAR(30) NOT NULL",
        "MODIFY n VARCHAR(30)",
        "MODIFY n VARCHAR(30) NULL DEFAULT 'x' COMMENT 'first, y'",
        "MODIFY v VARCHAR(30) NOT NULL COMMENT 'first, it''s shown after login \\\\'",
        "CHANGE v w VARCHAR(30) NOT NULL",
        "MODIFY b VARBINARY(30) NOT NULL",
        "DROP INDEX k, COMMENT 'x'",
    ],
)
def test_clauses_that_only_touch_metadata_are_known(clauses):
    """These cost no time, however large the table is."""
    assert why_not(clauses) == ""


@pytest.mark.parametrize(
    "clauses",
    [
        "ADD INDEX (v)",
        "ADD COLUMN c INT",
        "DROP COLUMN v",
        "ENGINE=InnoDB",
        "FORCE",
        "ROW_FORMAT=COMPRESSED",
        "MODIFY v VARCHAR(30)",
        "MODIFY v VARCHAR(30) COMMENT 'it is not null here'",
        "MODIFY n VARCHAR(30) NOT NULL",
        "MODIFY v VARCHAR(10) NOT NULL",
        "MODIFY v VARBINARY(30) NOT NULL",
        "MODIFY v VARCHAR(30) NOT NULL FIRST",
        "MODIFY v VARCHAR(30) NOT NULL AFTER id",
        "MODIFY v VARCHAR(30) NOT NULL UNIQUE",
        "MODIFY v VARCHAR(30) CHARACTER SET latin1 NOT NULL",
        "MODIFY v VARCHAR(30) COLLATE utf8mb4_bin NOT NULL",
        "MODIFY v VARCHAR(30) AS ('x') VIRTUAL NOT NULL",
        "MODIFY id BIGINT NOT NULL",
        "MODIFY x VARCHAR(30)",
        "DROP PRIMARY KEY",
        "DROP INDEX k, ADD INDEX (v)",
        "CONVERT TO CHARACTER SET utf8mb4",
    ],
)
def test_a_clause_that_may_rebuild_is_named(clauses):
    """These may rebuild the table or an index, and the clause is named."""
    assert "may rebuild" in why_not(clauses)


@pytest.mark.parametrize(
    ("of_server", "of_system", "native"),
    [
        ("SYSTEM", "UTC", "SYSTEM"),
        ("SYSTEM", "GMT", ""),
        ("SYSTEM", "CET", ""),
        ("+02:00", "CET", "+02:00"),
    ],
)
def test_a_system_in_utc_repeats_no_hour(of_server, of_system, native):
    """MySQL's default in a container: --native does what it says there, also beside a CHECK."""
    source = table(column("id"), column("at", "timestamp"))
    statement = alter_of("s", "t", "ADD CHECK (at > '2020-01-01')")
    zones = {"time_zone": of_server, "system_time_zone": of_system}
    facts = ServerFacts(version="9.7.4", variables=zones)
    context: Any = SimpleNamespace(source=source, statement=statement, facts=facts)
    assert native_zone(context) == native
