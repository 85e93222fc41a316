"""A server that is told to lack what older ones lack: migrated all the same, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from spirit_py.errors import Refusal
from spirit_py.mysql.capabilities import Capability
from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables.deferred_indexes import set_build_buffer, set_build_threads
from spirit_py.plan import make_plan
from spirit_py.preflight.checks import server_settings
from spirit_py.throttle.server import redo_use
from tests.kits.capabilities import answer, lack
from tests.kits.connection import connection_options
from tests.kits.migrate import config_for
from tests.kits.resume import start

OLD = (
    Capability.INSTANT_COLUMNS,
    Capability.INSTANT_RENAMES,
    Capability.ROW_VERSIONS,
    Capability.ANY_DEFINER,
    Capability.LOGGED_CASCADES,
)


@pytest.fixture
def table(db):
    """Make a table of some rows."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, KEY (a))")
    db.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    return db


@pytest.mark.slow
def test_a_table_is_copied_and_swapped_without_a_guard(table, engine, monkeypatch):
    """The guard needs INSTANT: the report says why there is none; ``on`` is refused before."""
    lack(monkeypatch, *OLD)
    given: dict[str, Any] = {"table": "t", "alter": "ADD COLUMN z INT", "no_shortcut": True}
    with pytest.raises(Refusal, match="drops no column with ALGORITHM=INSTANT"):
        start(engine, table, **given, snapshot_guard="on").end()
    report = start(engine, table, **given).end()
    assert report.outcome == "done"
    assert "drops no column with ALGORITHM=INSTANT" in report.snapshot_guard
    assert table.query("SELECT id, a, z FROM t") == [(1, 1, None), (2, 2, None), (3, 3, None)]


@pytest.mark.parametrize(
    ("alter", "expected"),
    [
        ("DROP COLUMN a", "copy"),
        ("ADD COLUMN z INT FIRST", "copy"),
        ("ADD COLUMN z INT", "instant"),
        ("RENAME COLUMN a TO b", "inplace"),
    ],
)
def test_a_plan_expects_what_such_a_server_does(table, monkeypatch, alter, expected):
    """Columns anywhere since 8.0.29, renames since 8.0.28."""
    lack(monkeypatch, *OLD)
    (found,) = make_plan(config_for(table, table="t", alter=alter), sample=False).tables
    assert found.method.algorithm == expected


def test_what_foreign_keys_change_unseen_is_refused(table, engine, monkeypatch):
    """Before 9.6 the binlog lacks the rows that a cascade deletes."""
    lack(monkeypatch, *OLD)
    table.execute("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES t (id) ON DELETE CASCADE")
    with pytest.raises(Refusal, match="does not log such changes"):
        start(engine, table, table="t", alter="ADD COLUMN z INT", no_shortcut=True).end()


@pytest.mark.slow
def test_indexes_are_built_without_variables_for_it(table, engine, monkeypatch):
    """Before 8.0.27 there are none: the build is the server's own."""
    answer(monkeypatch, {"SHOW SESSION VARIABLES LIKE": []})
    with connect(connection_options(table), role="test") as session:
        set_build_buffer(session, 1 << 20)
        set_build_threads(session, 1)
    alter = "ADD COLUMN z INT, ADD INDEX (a, id)"
    report = start(
        engine, table, table="t", alter=alter, no_shortcut=True, defer_indexes="on"
    ).end()
    assert report.outcome == "done"


def test_the_redo_log_is_read_in_the_text_of_the_status(table, monkeypatch):
    """Before 8.0.30 there are no counters."""
    with connect(connection_options(table), role="test") as session:
        counters = redo_use(session)
        size = [(counters[1],)]
        told = {"SHOW GLOBAL STATUS": [], "SELECT @@innodb_log_file_size": size}
        answer(monkeypatch, told)
        age, capacity = redo_use(session)
    assert capacity == counters[1]
    assert 0 <= age <= capacity


def test_a_server_that_changes_values_of_json_is_warned_of(table, monkeypatch):
    """8.0 rounds numbers in its text, and changes a TIME of 32 hours within a document."""
    table.execute("ALTER TABLE t ADD COLUMN d JSON")
    config = config_for(table, table="t", alter="ADD COLUMN z INT", no_shortcut=True)
    assert not [note for note in make_plan(config, sample=False).warnings if "JSON" in note.cause]
    monkeypatch.setattr(server_settings, "_INEXACT", "SELECT 1, 1")
    causes = " ".join(note.cause for note in make_plan(config, sample=False).warnings)
    assert "rounds numbers in JSON text" in causes
    assert "changes a TIME of 32 hours or more" in causes
