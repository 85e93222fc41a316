"""Tables without a primary key, and with foreign keys, under sql_require_primary_key=ON."""

from __future__ import annotations

import pytest

from spirit_py.errors import Refusal
from spirit_py.move import checks
from spirit_py.mysql.facts import read_facts
from spirit_py.mysql.tables.new_table import NewTable
from spirit_py.plan import make_plan
from spirit_py.statement import alter_of
from tests.kits.connection import account
from tests.kits.migrate import config_for, migrate_here
from tests.kits.schema_tools import open_schema_tools
from tests.kits.tables import tables

REQUIRED = "sql_require_primary_key"
PARENT = "CREATE TABLE p (id INT PRIMARY KEY, v INT); INSERT INTO p VALUES (1, 1), (2, 2)"
KEYLESS = (
    "CREATE TABLE c (id INT NOT NULL UNIQUE, p INT, CONSTRAINT fk FOREIGN KEY (p)"
    " REFERENCES p (id)); INSERT INTO c VALUES (1, 1), (2, 2)"
)


@pytest.fixture
def keyless(db):
    """Make a parent, and a child without a key, on a server that asks for one since."""
    db.execute(PARENT)
    db.execute(KEYLESS)
    db.set_global(REQUIRED, "ON")
    return db


@pytest.mark.parametrize(
    ("table", "alter"), [("c", "ADD PRIMARY KEY (id)"), ("p", "ADD w INT, ENGINE=InnoDB")]
)
def test_the_keys_of_a_table_without_a_primary_key_are_moved(keyless, engine, table, alter):
    """Of the old table, and of a child: a native ALTER of the other table asks nothing of it."""
    config = config_for(keyless, table=table, alter=alter, no_shortcut=True)
    assert make_plan(config, sample=False).refusals == ()
    report, told = migrate_here(engine, config)
    assert report.outcome == "done", told.text
    assert set(tables(keyless)) == {"c", "p"}
    assert "CONSTRAINT `fk` FOREIGN KEY" in str(keyless.query("SHOW CREATE TABLE c")[0][1])


@pytest.mark.slow
def test_a_child_without_a_primary_key_is_named_where_it_cannot_be_altered(keyless, engine):
    """The account may not switch the setting off: refused before a row is copied."""
    grants = (
        "CREATE TEMPORARY TABLES, SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER ON {db}.*",
        "INDEX, REFERENCES, LOCK TABLES, TRIGGER ON {db}.*",
        "PROCESS, REPLICATION SLAVE, REPLICATION CLIENT, RELOAD, BACKUP_ADMIN ON *.*",
        "SELECT ON performance_schema.*",
    )
    with account(keyless, *grants) as options:
        config = config_for(
            keyless, table="p", alter="ADD w INT", no_shortcut=True, connection=options
        )
        with pytest.raises(Refusal, match=rf"{keyless.name}\.c.*3750") as refused:
            migrate_here(engine, config)
        assert "SESSION_VARIABLES_ADMIN" in refused.value.hint
        keyless.execute("ALTER TABLE c ADD PRIMARY KEY (id)")
        assert migrate_here(engine, config)[0].outcome == "done"
    assert set(tables(keyless)) == {"c", "p"}


def test_a_target_that_asks_for_a_key_gets_a_table_without_one_if_the_account_may(db):
    """A move makes it there from the text of the source's definition, and alters it then."""
    db.execute("CREATE TABLE t (id INT, v INT NOT NULL)")
    db.set_global(REQUIRED, "ON")
    grants = ("SELECT, INSERT, CREATE, DROP, ALTER ON {db}.*", "PROCESS ON *.*")
    statement = alter_of(db.name, "t", "ADD PRIMARY KEY (v)")
    with open_schema_tools(db) as desk, account(db, *grants) as options:
        source, facts = desk.table(), read_facts(desk.session)
        with open_schema_tools(db, options) as ordinary:
            (found,) = checks._about_definition(desk.session, source, ordinary.session, facts)
            assert "no primary key, and the target asks for one" in found.cause
            there = NewTable(ordinary.session, ordinary.native, source, statement)
            with pytest.raises(Refusal, match=r"the source's table.*3750") as refused:
                there.create_apart((), building="_t_0000_new", note=lambda _: None)
            assert "SESSION_VARIABLES_ADMIN" in refused.value.hint
        assert list(checks._about_definition(desk.session, source, desk.session, facts)) == []
        there = NewTable(desk.session, desk.native, source, statement)
        assert there.create_apart((), building="_t_0000_new", note=lambda _: None).primary_key
