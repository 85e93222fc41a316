"""What a definition shows of whether a statement was executed, and what it makes of one."""

from __future__ import annotations

import pytest

from spirit_py.batch.changes import TableChange
from spirit_py.batch.store import form_of
from spirit_py.batch.trial import Trace, forms_of, trace_of
from spirit_py.mysql.tables.definition import read_shape
from spirit_py.statement import alter_of
from tests.kits.migrate import config_for
from tests.kits.tables import open_session

TABLE = """
CREATE TABLE p (id INT PRIMARY KEY);
CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT 5, b VARCHAR(9), KEY k (a, b),
 CONSTRAINT c CHECK (a > 0), CONSTRAINT f FOREIGN KEY (a) REFERENCES p (id))"""
BY_RANGE = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (9), PARTITION p1 {})"
ENDS = "VALUES LESS THAN MAXVALUE"


def change_of(db, clauses: str) -> TableChange:
    """Return the change of a batch."""
    statement = alter_of(db.name, "t", clauses)
    return TableChange(
        schema=db.name, table="t", clauses=statement.clauses, normalized=statement.normalized
    )


def trace(db, clauses: str) -> Trace:
    """Return what the table shows of the statement."""
    return trace_of(config_for(db, table="t", alter=clauses), change_of(db, clauses))


MADE = [
    "ADD COLUMN a INT DEFAULT 5 FIRST",
    "ADD (b VARCHAR(9), a INT DEFAULT 5)",
    "ADD INDEX k (a, b)",
    "ADD PRIMARY KEY (id)",
    "ADD CONSTRAINT c CHECK (a > 0)",
    "MODIFY a INT DEFAULT 5",
    "DROP COLUMN z, DROP INDEX y",
    "DROP CHECK y",
    "DROP FOREIGN KEY y",
    "DROP CONSTRAINT y",
    "DROP INDEX k, ADD INDEX k (a, b)",
    "DROP CHECK c, ADD CONSTRAINT c CHECK (a > 0)",
    "DROP PRIMARY KEY, ADD PRIMARY KEY (id)",
    "ADD COLUMN a INT DEFAULT 5 FIRST, RENAME COLUMN y TO b",
    "CHANGE COLUMN y a INT DEFAULT 5 AFTER b",
]
MISSING = [
    "ADD COLUMN a BIGINT",
    "ADD INDEX k (b)",
    "ADD UNIQUE k (a, b)",
    "ADD PRIMARY KEY (id, a)",
    "ADD CONSTRAINT c CHECK (a > 1)",
    "CHANGE id b INT",
    "DROP INDEX k, ADD INDEX k (a)",
    "RENAME COLUMN y TO z",
    "RENAME INDEX y TO z",
    "CHANGE y a BIGINT DEFAULT 5",
    "DROP FOREIGN KEY F",
    "DROP CONSTRAINT f",
    "DROP CONSTRAINT c",
]
UNKNOWN = [
    "DROP COLUMN b, ADD COLUMN b VARCHAR(9)",
    "ADD INDEX (b)",
    "ADD CHECK (a > 2)",
    "FORCE",
    "RENAME COLUMN y TO a",
    "RENAME INDEX y TO k",
    "ADD COLUMN b VARCHAR(9) UNIQUE",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clauses", "shown"),
    [
        *((one, Trace.MADE) for one in MADE),
        *((one, Trace.MISSING) for one in MISSING),
        *((one, Trace.NONE) for one in UNKNOWN),
    ],
)
@pytest.mark.parametrize("mode", ["", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES"])
def test_a_definition_shows_what_was_made(db, clauses, shown, mode):
    """A name alone is no proof (R26); what has another form the second time shows nothing."""
    db.execute(TABLE)
    db.set_global("sql_mode", mode)
    assert trace(db, clauses) is shown


@pytest.mark.parametrize(
    ("clauses", "shown"),
    [
        ("ADD COLUMN a INT", Trace.MADE),
        ("ADD COLUMN z INT", Trace.MISSING),
        ("TRUNCATE PARTITION p0", Trace.NONE),
        ("EXCHANGE PARTITION p0 WITH TABLE o", Trace.NONE),
        ("DROP PARTITION p2", Trace.NONE),
        ("REMOVE PARTITIONING", Trace.NONE),
        ("FORCE", Trace.NONE),
    ],
)
def test_what_was_made_of_partitions_is_not_called_missing(db, clauses, shown):
    """No temporary table has any, and the rows written since would be deleted."""
    db.execute(f"CREATE TABLE t (id INT PRIMARY KEY, a INT) {BY_RANGE.format(ENDS)}")
    assert trace(db, clauses) is shown


def test_a_backslash_is_one_in_the_servers_mode(db):
    """The clause is sent as it was written, for the mode that it was read under."""
    db.set_global("sql_mode", "NO_BACKSLASH_ESCAPES")
    clause = "ADD COLUMN A VARCHAR(9) DEFAULT 'a\\b' AFTER id, MODIFY Q INT"
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, A VARCHAR(9) DEFAULT 'a\\\\b', Q INT)")
    assert trace(db, clause) is Trace.MADE


def test_the_form_after_a_change_is_the_one_that_the_table_has_then(db):
    """In a session with the mode of the server a definition may be shown in other quotes."""
    db.execute(TABLE)
    db.set_global("sql_mode", "ANSI_QUOTES")
    clauses = "ADD COLUMN z INT"
    with open_session(db) as session:
        config = config_for(db, table="t", alter=clauses)
        _, after = forms_of(session, config, change_of(db, clauses))
        db.execute(f"ALTER TABLE t {clauses}")
        assert after == form_of(read_shape(session, db.name, "t"))
