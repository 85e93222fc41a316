"""Triggers that were carried over a swap, as a replica has them."""

from __future__ import annotations

import MySQLdb
import pytest

from spirit_py.attached.triggers.catalogue import read_triggers
from spirit_py.attached.triggers.model import moves_of
from spirit_py.attached.triggers.statements import copies, placed, renamed
from spirit_py.mysql.connect import connect
from tests.kits.connection import options_of
from tests.kits.replica import replicated_pair
from tests.kits.waiting import until

pytestmark = pytest.mark.timeout(300)
AUDIT = "INSERT INTO audit VALUES ('{}', NEW.id)"


@pytest.mark.slow
def test_a_replica_executes_the_statements_as_its_source_did():
    """Each byte is the same there, and STATEMENT-format writes fire each trigger once."""
    with replicated_pair() as pair:
        for sql in (
            "CREATE DATABASE r",
            "USE r",
            "CREATE TABLE audit (who VARCHAR(9), id INT)",
            "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
            f"CREATE TRIGGER a AFTER INSERT ON t FOR EACH ROW BEGIN {AUDIT.format('a')}; END",
            f"CREATE TRIGGER b AFTER INSERT ON t FOR EACH ROW {AUDIT.format('b')}",
            "SET character_set_client = latin1",
            "CREATE TRIGGER c BEFORE INSERT ON t FOR EACH ROW SET @x = 'f\u00fcr'".encode(
                "latin-1"
            ),
            "SET NAMES utf8mb4",
            "CREATE TABLE _t_new LIKE t",
        ):
            pair.at.execute(sql)
        with connect(options_of(pair.source), role="test") as session:
            before = read_triggers(session, "r", "t", also=("_t_new", "_t_old"))
            moves = moves_of(before, "abcdef")
            session.execute("LOCK TABLES r.t WRITE, r._t_new WRITE")
            statements = [
                *copies(moves, {("r", "t"): "_t_new"}),
                "RENAME TABLE r.t TO r._t_old, r._t_new TO r.t",
                *placed([move.note for move in moves], renamed(moves, {("r", "t"): "_t_old"})),
            ]
            assert session.execute_packet(statements) == (len(statements), None)
            session.execute("UNLOCK TABLES")
            assert read_triggers(session, "r", "t", also=("_t_new", "_t_old")) == before
        pair.at.execute("SET SESSION binlog_format = 'STATEMENT'")
        pair.at.execute("INSERT INTO t VALUES (7, 7)")
        until(lambda: pair.rows() == 1, "the row on the replica")
        pair.of.execute("SELECT who, id FROM r.audit ORDER BY who")
        assert pair.of.fetchall() == (("a", 7), ("b", 7))
        with connect(options_of(pair.replica), role="test") as session:
            assert read_triggers(session, "r", "t", also=("_t_new", "_t_old")) == before


@pytest.mark.slow
def test_a_gate_is_legible_for_every_mode_and_character_set(db):
    """A copy is made under the settings of its trigger, whatever these do to the text."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT); CREATE TABLE _t_new LIKE t")
    modes = ("ANSI", "TRADITIONAL", "NO_BACKSLASH_ESCAPES", "HIGH_NOT_PRECEDENCE,IGNORE_SPACE", "")
    charsets = [
        row[0]
        for row in db.query("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")
        if row[0] not in {"ucs2", "utf16", "utf16le", "utf32"}
    ]
    made = 0
    for number, charset in enumerate(charsets):
        connection = db.connect()
        cursor = connection.cursor()
        cursor.execute(f"SET sql_mode = '{modes[number % len(modes)]}'")
        cursor.execute(f"SET character_set_client = {charset}")
        body = "BEGIN SET NEW.v = 1; END" if number % 2 else "SET NEW.v = 1"
        try:
            cursor.execute(f"CREATE TRIGGER x{number} BEFORE INSERT ON t FOR EACH ROW {body}")
        except MySQLdb.Error:
            continue
        finally:
            connection.close()
        made += 1
    assert made > 20
    with connect(options_of(db.server), database=db.name, role="test") as session:
        before = read_triggers(session, db.name, "t", also=("_t_new", "_t_old"))
        assert len(before) == made
        moves = moves_of(before, "abcdef")
        table = (db.name, "t")
        statements = [
            *copies(moves, {table: "_t_new"}),
            "RENAME TABLE t TO _t_old, _t_new TO t",
            *placed([move.note for move in moves], renamed(moves, {table: "_t_old"})),
        ]
        assert session.execute_packet(statements) == (len(statements), None)
        assert read_triggers(session, *table, also=("_t_new", "_t_old")) == before
