"""Rows of the program's own tables, written by an account with fewer rights (R26).

Nothing of them is executed: definitions are the server's, names and keys are checked.
"""

from __future__ import annotations

import contextlib
import json

import pytest

from spirit_py.checkpoint.codec import FORMAT, UnreadableCheckpoint
from spirit_py.checkpoint.live import LiveFigures
from spirit_py.checkpoint.record import Proofs
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.errors import Refusal
from spirit_py.migration.listing import migrations
from spirit_py.mysql.connect import connect
from tests.kits.cleanup import clean
from tests.kits.connection import account
from tests.kits.locking import await_lock_freed
from tests.kits.migrate import config_for, migrate_here
from tests.kits.resume import Interruption, assert_nothing_left, make_table, start

TABLE = (
    "(id INT NOT NULL PRIMARY KEY, record LONGTEXT CHARACTER SET utf8mb4 NOT NULL,"
    " written_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)) COMMENT='spirit-py checkpoint'"
)
DROP = "UNLOCK TABLES; DROP TABLE `?`.canary"
SWAP = {"table": "t", "new": "_t_new", "old": "_t_old"}
TRIGGER = {
    "name": "planted",
    "table": "t",
    "timing": "BEFORE",
    "event": "INSERT",
    "order": 1,
    "user": "root",
    "host": "%",
    "sql_mode": "",
    "character_set_client": "utf8mb4",
    "collation_connection": "utf8mb4_bin",
    "database_collation": "utf8mb4_bin",
    "body": "BEGIN END",
    "text": "BEGIN END",
    "spellings": [],
}
PLACE = {"table": "t", "name": "planted", "temporary": "_spirit_py_0f0f0f0f_t_1"}
KEY = {"name": "k", "temporary": "_spirit_py_0f0f0f0f_1", "dropped": False}
#: Rows of a swap that was stopped half-way, in the form of before and in that of now.
ROWS = {
    "a trigger with a definer": {"triggers": [{"temporary": "x", "trigger": TRIGGER}]},
    "a character set with statements": {
        "triggers": [
            {
                "temporary": "x",
                "trigger": {**TRIGGER, "character_set_client": f"utf8mb4; {DROP}; SET @x = 1"},
            }
        ]
    },
    "modes with statements": {
        "triggers": [
            {"temporary": "x", "trigger": {**TRIGGER, "sql_mode": f"'; {DROP}; SET @x = '"}}
        ]
    },
    "names of nothing": {"triggers": [PLACE]},
    "a name with statements": {"triggers": [{**PLACE, "name": f"x`; {DROP}; -- "}]},
    "a temporary name of another": {"triggers": [{**PLACE, "temporary": "guard"}]},
    "a trigger of another table": {"triggers": [{**PLACE, "table": "canary"}]},
    "a key between others": {"keys": [{**KEY, "child": ["?", "c"], "parent": ["?", "p"]}]},
    "a key to the table": {"keys": [{**KEY, "child": ["?", "c"], "parent": ["?", "t"]}]},
    "a swap of other tables": {"swaps": [{"table": "t", "new": "canary", "old": "c"}]},
}


def hostile(db, row):
    """Return a row as an attacker writes it, in the schema of the test."""
    found = {"format": FORMAT, "swaps": [SWAP], "keys": [], "triggers": [], **row}
    found["swaps"] = [{**swap, "schema": db.name} for swap in found["swaps"]]
    for move in found["triggers"]:
        move.get("trigger", move)["schema"] = db.name
    return json.dumps(found).replace("?", db.name)


@pytest.mark.slow
@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("kind", list(ROWS))
def test_a_marked_table_that_somebody_has_left_executes_nothing(db, engine, kind, dry_run):
    """Before the first run, by an account with CREATE and INSERT; also in a dry run."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE canary (id INT)")
    db.execute("CREATE TABLE p (id INT PRIMARY KEY)")
    db.execute("CREATE TABLE c (id INT, CONSTRAINT k FOREIGN KEY (id) REFERENCES p (id))")
    db.execute("CREATE TRIGGER guard BEFORE INSERT ON canary FOR EACH ROW SET @x = 1")
    rights = "CREATE, INSERT ON {db}.*"
    with account(db, rights) as developer, connect(developer, role="test") as session:
        session.execute(f"CREATE TABLE `{db.name}`._t_chkpnt {TABLE}")
        session.execute(
            f"INSERT INTO `{db.name}`._t_chkpnt (id, record) VALUES (4, %s)",
            (hostile(db, ROWS[kind]),),
        )
    config = config_for(db, table="t", alter="ADD COLUMN n INT", dry_run=dry_run)
    with contextlib.suppress(Refusal):
        migrate_here(engine, config)
    names = {name for (name,) in db.query("SHOW TABLES")}
    assert {"t", "canary", "c", "p"} <= names
    assert [row[0] for row in db.query("SHOW TRIGGERS")] == ["guard"]
    assert "CONSTRAINT `k` FOREIGN KEY" in db.query("SHOW CREATE TABLE c")[0][1]


@pytest.mark.slow
def test_the_definition_of_a_deferred_index_is_the_servers(db, engine, monkeypatch):
    """A row says which indexes are left out; what they are the server says of the statement."""
    make_table(db, 3000)
    db.execute("ALTER TABLE t ADD INDEX late (b); CREATE TABLE canary (id INT)")
    Interruption(monkeypatch).at(
        engine, db, "chunk.committed", 2, target_chunk_time=0.05, defer_indexes="on"
    )
    ((text,),) = db.query("SELECT record FROM _t_chkpnt WHERE id = 1")
    record = json.loads(text)
    (table,) = record["tables"]
    deferred, drop = table["deferred"], DROP.replace("?", db.name)
    assert "late" in deferred
    for forged in ([f"late`; {drop}"], [["late", f"KEY `late` (`b`); {drop}"]], deferred):
        table["deferred"] = forged
        db.execute("UPDATE _t_chkpnt SET record = %s WHERE id = 1", (json.dumps(record),))
        if forged != deferred:
            with pytest.raises(Refusal, match=r"makes none of that name|cannot be read"):
                start(engine, db, defer_indexes="on", start_afresh=False).end()
    assert db.query("SHOW TABLES LIKE 'canary'")
    assert start(engine, db, defer_indexes="on").end().outcome == "done"
    assert "KEY `late` (`b`)" in db.query("SHOW CREATE TABLE t")[0][1]
    assert_nothing_left(db, "canary", "t")


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["cleanup", "resume", "afresh"])
def test_a_name_in_a_row_drops_no_table_with_rows(db, engine, monkeypatch, ends):
    """A table of a month has the name of one that a run builds; a day's that of a trial beside."""
    make_table(db, 3000)
    Interruption(monkeypatch).at(engine, db, "chunk.committed", 2, target_chunk_time=0.05)
    for name in ("_t_202401", "_t_202401_15"):
        db.execute(f"CREATE TABLE {name} (id INT); INSERT INTO {name} VALUES (1)")
    with account(db, "SELECT, UPDATE ON {db}._t_chkpnt") as writer:
        forge = "SET record = JSON_SET(record, '$.building', '_t_202401') WHERE id = 5"
        with connect(writer, role="test") as session:
            session.execute(f"UPDATE `{db.name}`._t_chkpnt {forge}")
    if ends == "cleanup":
        assert "202401" not in clean(db)
    else:
        more = {} if ends == "resume" else {"checkpoint_max_age": 0.0, "start_afresh": True}
        start(engine, db, **more).end()
    assert_nothing_left(db, "_t_202401", "_t_202401_15", "t")
    assert db.query("SELECT * FROM _t_202401 UNION ALL SELECT * FROM _t_202401_15") == [(1,), (1,)]


@pytest.mark.slow
def test_a_name_in_a_row_drops_no_table_that_is_being_filled(db, engine, monkeypatch):
    """Rows that are not committed yet would go with the table, once they are."""
    make_table(db, 3000)
    Interruption(monkeypatch).at(engine, db, "chunk.committed", 2, target_chunk_time=0.05)
    db.execute("CREATE TABLE _t_202401 (id INT)")
    forge = "SET record = JSON_SET(record, '$.building', '_t_202401') WHERE id = 5"
    db.execute(f"UPDATE _t_chkpnt {forge}")
    with connect(config_for(db).connection, role="test") as filling:
        filling.execute("BEGIN")
        filling.execute(f"INSERT INTO `{db.name}`._t_202401 VALUES (1)")
        assert "202401" not in clean(db)
        filling.execute("COMMIT")
    assert db.query("SELECT * FROM _t_202401") == [(1,)]


@pytest.mark.slow
def test_status_shows_no_command_about_another_schema(db, engine, monkeypatch):
    """Pasted by the migrator, it would change tables that the row's writer has no rights on."""
    make_table(db, 3000)
    Interruption(monkeypatch).at(engine, db, "chunk.committed", 2, target_chunk_time=0.05)
    await_lock_freed(db)
    (seen,) = migrations(config_for(db).connection, database=db.name, table="t", max_age=1e9)
    assert f"ALTER TABLE `{db.name}`.`t`" in seen.command
    with account(db, "SELECT, UPDATE ON {db}._t_chkpnt") as writer:
        for field in ("written", "statement"):
            forge = f"JSON_SET(record, '$.{field}', 'ALTER TABLE `payroll`.`salaries` FORCE')"
            with connect(writer, role="test") as session:
                session.execute(f"UPDATE `{db.name}`._t_chkpnt SET record = {forge} WHERE id = 1")
            shown = migrations(config_for(db).connection, database=db.name, table="t", max_age=1e9)
            assert "payroll" not in "\n".join(line for one in shown for line in one.lines())
            assert ("about other tables" in shown[0].unreadable) is (field == "statement")


def test_a_view_in_the_place_of_a_table_of_the_program_is_not_read(db, engine):
    """It would call a function of its maker with the rights of whoever reads it; in any command."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE canary (id INT)")
    db.set_global("log_bin_trust_function_creators", 1)
    db.execute(
        "CREATE FUNCTION evil() RETURNS LONGTEXT SQL SECURITY INVOKER MODIFIES SQL DATA"
        " BEGIN INSERT INTO canary VALUES (1); RETURN '{}'; END"
    )
    db.execute(
        "CREATE SQL SECURITY INVOKER VIEW _t_chkpnt AS"
        " SELECT 5 AS id, evil() AS record, evil() AS written_at"
    )
    with pytest.raises(Refusal, match="_t_chkpnt"):
        migrate_here(engine, config_for(db, table="t", alter="ADD COLUMN n INT"))
    with contextlib.suppress(Refusal):
        clean(db)
    migrations(config_for(db).connection, database=db.name, table="t", max_age=1e9)
    with connect(config_for(db).connection, role="test") as session:
        assert CheckpointTable(db.name, "t").read(session, Proofs) is None
        assert CheckpointTable(db.name, "t").read(session, LiveFigures) is None
        with pytest.raises(UnreadableCheckpoint):
            CheckpointTable(db.name, "t").read_record(session)
    assert db.query("SELECT COUNT(*) FROM canary") == [(0,)]


@pytest.mark.slow
def test_no_table_is_dropped_because_a_row_names_it(db, engine, monkeypatch):
    """The name to build and to try under is one that the program gives."""
    make_table(db, 3000)
    db.execute("ALTER TABLE t ADD INDEX late (b); CREATE TABLE canary (id INT)")
    Interruption(monkeypatch).at(
        engine, db, "chunk.committed", 2, target_chunk_time=0.05, defer_indexes="off"
    )
    db.execute(
        "UPDATE _t_chkpnt SET record = JSON_SET(record, '$.building', 'canary') WHERE id = 5"
    )
    with contextlib.suppress(Refusal):
        start(engine, db, defer_indexes="on").end()
    assert db.query("SHOW TABLES LIKE 'canary'")
