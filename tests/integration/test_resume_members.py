"""Migrations of several tables, one of which was migrated by itself since."""

from __future__ import annotations

import dataclasses
import json

import pytest

from spirit_py.checkpoint.codec import to_text
from spirit_py.checkpoint.proofs import note_proofs
from spirit_py.checkpoint.record import Pointer, home_of
from spirit_py.errors import UnfinishedWork
from spirit_py.migration.listing import migrations
from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables.identity import identity
from tests.kits.cleanup import clean
from tests.kits.migrate import config_for
from tests.kits.resume import Interruption, assert_nothing_left, start
from tests.kits.tables import tables

BOTH = "ALTER TABLE t MODIFY a BIGINT; ALTER TABLE u MODIFY a BIGINT"
ALONE = {"table": "t", "alter": "MODIFY a BIGINT UNSIGNED"}
AT_ONCE = ("chunk.committed", 1)


@pytest.fixture
def interrupt(db, engine, monkeypatch):
    """Make two small tables; return what interrupts a migration of them."""
    for name in "tu":
        db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT)")
        db.execute(f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
    interruption = Interruption(monkeypatch)
    return lambda **config: interruption.at(engine, db, *AT_ONCE, **config)


def left_over(db, interrupt):
    """Leave a pointer of u behind that leads to a migration of t alone.

    A run drops such a pointer by now.
    """
    interrupt(**ALONE)
    db.execute("CREATE TABLE _u_chkpnt LIKE _t_chkpnt")
    db.execute("CREATE TABLE _u_new LIKE u")
    pointer = to_text(Pointer(home=(db.name, "t")))
    db.execute("INSERT INTO _u_chkpnt (id, record) VALUES (1, %s)", (pointer,))
    with connect(config_for(db).connection, role="test") as session:
        note_proofs(session, db.name, "u", new=identity(session, db.name, "_u_new"))


def seen(db, table="", database=None):
    """Return what ``spirit-py status`` shows."""
    connection = config_for(db).connection
    return migrations(connection, database=database or db.name, table=table, max_age=1e6)


@pytest.mark.slow
def test_cleanup_of_an_orphaned_pointer_keeps_the_migration_it_points_to(db, engine, interrupt):
    """The migration's record does not name the table, so neither belongs to the other."""
    left_over(db, interrupt)
    clean(db, "u")
    assert tables(db) == ["_t_chkpnt", "_t_new", "t", "u"]
    assert start(engine, db, **ALONE).end().runs == 2
    assert_nothing_left(db, "t", "u")


@pytest.mark.slow
def test_status_shows_an_orphaned_pointer_as_left_over(db, interrupt):
    """Asked for by name and with all of its schema."""
    left_over(db, interrupt)
    (orphan,) = seen(db, "u")
    assert "whose migration is another one by now" in orphan.orphaned
    assert "left over" in orphan.lines()[0]
    assert "cleanup drops what is left" in orphan.lines()[-1]
    assert [one.tables for one in seen(db)] == [(f"{db.name}.t",), (f"{db.name}.u",)]
    json.dumps(orphan.to_dict())


@pytest.mark.slow
def test_a_fresh_start_drops_what_the_old_record_left_beside_other_tables(db, engine, interrupt):
    """Once that is agreed to: no command would ever resume it."""
    interrupt(statement=BOTH, table="", alter="")
    left = ["_t_chkpnt", "_t_new", "_u_chkpnt", "_u_new", "t", "u"]
    for alone in (ALONE, {**ALONE, "table": "u"}):
        with pytest.raises(UnfinishedWork, match=f"of {db.name}.t, {db.name}.u would be dropped"):
            start(engine, db, **alone).end()
    assert tables(db) == left
    run = start(engine, db, **ALONE, start_afresh=True)
    run.end()
    assert f"dropped what the earlier migration of {db.name}.u" in run.told.text
    assert_nothing_left(db, "t", "u")


@pytest.mark.slow
def test_a_fresh_start_drops_what_only_the_record_of_another_table_leads_to(db, engine, interrupt):
    """The first table has one of its own; that of the second one goes with it, too."""
    db.execute("CREATE TABLE a (id INT PRIMARY KEY, a INT)")
    db.execute("INSERT INTO a VALUES (1, 1), (2, 2)")
    interrupt(statement=BOTH, table="", alter="")
    interrupt(**{**ALONE, "table": "a"})
    more = "ALTER TABLE a MODIFY a BIGINT; ALTER TABLE t MODIFY a BIGINT UNSIGNED"
    asked = {"statement": more, "table": "", "alter": ""}
    all_three = f"of {db.name}.a, {db.name}.t, {db.name}.u would be dropped"
    with pytest.raises(UnfinishedWork, match=all_three):
        start(engine, db, **asked).end()
    run = start(engine, db, **asked, start_afresh=True)
    run.end()
    assert f"dropped what the earlier migration of {db.name}.u" in run.told.text
    assert_nothing_left(db, "a", "t", "u")


@pytest.mark.slow
def test_a_table_that_was_migrated_by_itself_is_not_dropped_with_the_rest(db, engine, interrupt):
    """The record of both still names it, and its own checkpoint says otherwise."""
    interrupt(statement=BOTH, table="", alter="")
    interrupt(table="u", alter="MODIFY a BIGINT UNSIGNED", start_afresh=True)
    (both,) = seen(db, "t")
    assert both.again == "start afresh"
    assert f"another migration of {db.name}.u was begun since" in both.reason
    clean(db, "t")
    assert tables(db) == ["_u_chkpnt", "_u_new", "t", "u"]
    assert start(engine, db, table="u", alter="MODIFY a BIGINT UNSIGNED").end().runs == 2


@pytest.mark.slow
@pytest.mark.parametrize("first", [{"statement": BOTH, "table": "", "alter": ""}, ALONE])
def test_the_copy_of_any_of_the_tables_is_not_dropped_unasked(db, engine, interrupt, first):
    """Each table's own record is looked at, not that of the first table alone."""
    interrupt(**first)
    interrupt(table="u", alter="MODIFY a BIGINT UNSIGNED", start_afresh=True)
    left = ["_t_chkpnt", "_t_new", "_u_chkpnt", "_u_new", "t", "u"]
    with pytest.raises(UnfinishedWork) as refused:
        start(engine, db, statement=BOTH, table="", alter="").end()
    assert f"{db.name}.u would be dropped" in refused.value.message
    assert "`u` MODIFY COLUMN `a` bigint unsigned" in refused.value.hint
    assert f"--database {db.name} --table u" in refused.value.hint
    assert len(refused.value.details) == (1 if first is not ALONE else 2)
    assert tables(db) == left
    assert start(engine, db, table="u", alter="MODIFY a BIGINT UNSIGNED").end().runs == 2


@pytest.mark.slow
def test_status_finds_a_migration_by_any_of_its_tables(db, interrupt):
    """Also by one whose record is in another schema."""
    interrupt(statement=BOTH, table="", alter="")
    (by_member,) = seen(db, "u")
    assert by_member.tables == (f"{db.name}.t", f"{db.name}.u")
    other = f"{db.name}_z"
    db.execute(f"CREATE DATABASE {other}")
    try:
        for name in ("u", "_u_new", "_u_chkpnt"):
            db.execute(f"RENAME TABLE {name} TO {other}.{name}")
        record = json.loads(str(db.query("SELECT record FROM _t_chkpnt")[0][0]))
        record["tables"][1]["schema"] = other
        own, there = f"`{db.name}`.`u`", f"`{other}`.`u`"
        record["statement"] = record["statement"].replace(own, there)
        db.execute("UPDATE _t_chkpnt SET record = %s WHERE id = 1", (json.dumps(record),))
        assert home_of([(db.name, "t"), (other, "u")]) == (db.name, "t")
        found = [seen(db, "u", other), seen(db, "", other), seen(db, "t")]
        assert {one.checkpoint for (one,) in found} == {f"{db.name}._t_chkpnt"}
        assert dataclasses.asdict(found[0][0])["tables"] == (f"{db.name}.t", f"{other}.u")
    finally:
        db.execute(f"DROP DATABASE {other}")


@pytest.mark.slow
def test_a_run_on_another_server_writes_no_proof_into_the_table_of_another_tool(
    db, engine, interrupt
):
    """R24: the record names u, and beside it another tool has a table of the checkpoint's name."""
    interrupt(statement=BOTH, table="", alter="")
    record = json.loads(str(db.query("SELECT record FROM _t_chkpnt WHERE id = 1")[0][0]))
    record["server_uuid"] = "00000000-0000-0000-0000-000000000001"
    db.execute("UPDATE _t_chkpnt SET record = %s WHERE id = 1", (json.dumps(record),))
    db.execute("DROP TABLE _u_chkpnt; CREATE TABLE _u_chkpnt (id INT PRIMARY KEY, record TEXT)")
    db.execute("INSERT INTO _u_chkpnt VALUES (5, 'theirs')")
    assert start(engine, db, **ALONE, start_afresh=True).end().outcome == "done"
    assert list(db.query("SELECT id, record FROM _u_chkpnt")) == [(5, "theirs")]
