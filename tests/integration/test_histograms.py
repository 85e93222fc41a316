"""Column histograms: after the swap the table has those that a native ALTER would have kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spirit_py.migration.histograms import carry_histograms
from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables.definition import read_table
from spirit_py.statement import alter_of
from spirit_py.table.build import build_mapping
from tests.kits.connection import connection_options
from tests.kits.migrate import config_for, migrate_here, warnings_of
from tests.kits.resume import Interruption, start

TABLE = (
    "(id INT PRIMARY KEY, a INT, b INT, c INT, u INT, s VARCHAR(20), e ENUM('x','y'), `o``%s` INT,"
    " d DOUBLE, g INT AS (u DIV 3) STORED)"
)
ALTERS = [
    "MODIFY a BIGINT, RENAME COLUMN b TO b2, DROP COLUMN c, ADD UNIQUE (u), ADD COLUMN z INT FIRST",
    "CONVERT TO CHARACTER SET latin1, ALTER COLUMN a SET DEFAULT 4",
    "CHANGE `o``%s` p INT, ADD INDEX (u), ADD COLUMN `o``%s` INT",
]


def fill(db, *names) -> None:
    """Make equal tables with histograms of every column, one of which updates itself."""
    measured = "UPDATE HISTOGRAM ON a, b, c, u, s, `o``%s`, d, g WITH 7 BUCKETS"
    for name in names:
        db.execute(f"CREATE TABLE {name} {TABLE}")
        rows = ", ".join(
            f"({n}, {n % 3}, {n}, {n}, {n}, 's{n % 4}', {n % 2 + 1}, {n % 5}, {n} / 3)"
            for n in range(1, 60)
        )
        db.execute(f"INSERT INTO {name} (id, a, b, c, u, s, e, `o``%s`, d) VALUES {rows}")
        db.query(f"ANALYZE TABLE {name} {measured}")
        if int(db.query("SELECT SUBSTRING_INDEX(VERSION(), '.', 1)")[0][0]) >= 9:
            db.query(f"ANALYZE TABLE {name} UPDATE HISTOGRAM ON e WITH 5 BUCKETS AUTO UPDATE")


def histograms(db, name: str) -> dict[str, Any]:
    """Return a table's histograms by column, without the time at which they were made."""
    rows = db.query(
        "SELECT COLUMN_NAME, JSON_REMOVE(HISTOGRAM, '$.\"last-updated\"') FROM"
        " information_schema.COLUMN_STATISTICS WHERE SCHEMA_NAME = DATABASE() AND TABLE_NAME = %s",
        (name,),
    )
    return {column: json.loads(found) for column, found in rows}


@pytest.mark.slow
@pytest.mark.parametrize("alter", ALTERS)
def test_what_a_native_alter_keeps(db, engine, alter):
    """Untouched columns keep theirs, buckets and all; changed, renamed and dropped ones do not."""
    fill(db, "t", "twin")
    assert histograms(db, "t") == histograms(db, "twin")
    config = config_for(db, table="t", alter=alter, no_shortcut=True)
    report, _ = migrate_here(engine, config)
    db.execute(f"ALTER TABLE twin {alter}")
    kept = histograms(db, "t")
    assert "d" in kept
    assert kept == histograms(db, "twin")
    assert warnings_of(report) == []


@pytest.mark.slow
def test_a_histogram_renewed_while_the_swap_was_deferred_is_kept(db, engine, monkeypatch):
    """What somebody measures anew before the swap counts."""
    fill(db, "t")
    alter = "ADD COLUMN z INT"
    Interruption(monkeypatch).at(engine, db, "cutover.lock", alter=alter)
    db.query("ANALYZE TABLE t UPDATE HISTOGRAM ON a WITH 2 BUCKETS")
    renewed = histograms(db, "t")
    start(engine, db, alter=alter).end()
    assert renewed["a"]["number-of-buckets-specified"] == 2
    assert histograms(db, "t") == renewed


def test_a_server_that_takes_no_ready_histogram(db, monkeypatch):
    """Before 8.0.31 it is built from the new table's rows, with as many buckets."""
    fill(db, "t", "_t_new")
    db.query("ANALYZE TABLE _t_new DROP HISTOGRAM ON d, a")

    with connect(connection_options(db), role="test") as session:
        source, target = (read_table(session, db.name, name) for name in ("t", "_t_new"))
        assert source
        assert target
        mapping = build_mapping(source, target, alter_of(db.name, "t", "ENGINE=InnoDB"), "SYSTEM")
        query = session.query

        def older(sql, parameters=None):
            """Raise the server's own syntax error for USING DATA."""
            return query(sql.replace("USING DATA", "USING NOTHING"), parameters)

        monkeypatch.setattr(session, "query", older)
        assert carry_histograms(session, mapping, rebuild=False) == []
        assert "d" not in histograms(db, "_t_new")
        assert carry_histograms(session, mapping) == []
    assert histograms(db, "_t_new") == histograms(db, "t")
