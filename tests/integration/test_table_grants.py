"""An account whose privileges are on tables, and not on their schema."""

from __future__ import annotations

from typing import Any

from spirit_py.plan import make_plan
from spirit_py.table.names import AuxiliaryNames
from tests.kits.connection import account
from tests.kits.migrate import config_for, migrate_here
from tests.kits.tables import tables

NAMES = AuxiliaryNames.of("t")
BESIDE = ("t", NAMES.new, NAMES.old, NAMES.checkpoint, NAMES.requests, NAMES.sentinel)
ON_TABLES = "SELECT, INSERT, DELETE, CREATE, DROP, ALTER, INDEX, TRIGGER ON {db}.`%s`"
GLOBAL = "REPLICATION SLAVE, REPLICATION CLIENT, PROCESS ON *.*"
ON_SCHEMA = "LOCK TABLES, CREATE TEMPORARY TABLES ON {db}.*"


def test_what_needs_names_that_are_drawn_is_asked_for_on_the_schema(db, engine):
    """The definition is tried on a table of a random name, which no grant on a table covers."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT, KEY (v)); INSERT INTO t VALUES (1, 1)")
    tables_alone = [ON_SCHEMA, GLOBAL, *(ON_TABLES % name for name in BESIDE)]
    change: dict[str, Any] = {
        "table": "t",
        "alter": "ADD w INT, ADD KEY (v, id)",
        "no_shortcut": True,
    }
    with account(db, *tables_alone) as options:
        (refusal,) = make_plan(config_for(db, connection=options, **change)).refusals
        assert f"lacks CREATE, DROP, ALTER on `{db.name}`.*" in refusal.cause
        assert "GRANT CREATE, DROP, ALTER, " in refusal.remedy
    with account(db, *tables_alone, "CREATE, DROP, ALTER ON {db}.*") as options:
        asked = config_for(db, connection=options, drop_old_after=60.0, **change)
        (refusal,) = make_plan(asked).refusals
        assert "lacks SELECT, INSERT, DELETE, INDEX, TRIGGER" in refusal.cause
        report, told = migrate_here(engine, config_for(db, connection=options, **change))
        assert report.outcome == "done", told.text
    assert set(tables(db)) == {"t"}
