"""The oracle of the cases must see what becomes of triggers and foreign keys, and of other tables.

As in ``test_oracle.py`` the table is changed by a native ALTER while applications write; then one
thing is spoilt behind the binlog's back, and the oracle must say so.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.kits.native_alter import native
from tests.kits.undone_cascade import WEIGHT, undo_a_cascade
from tests.oracle.case import Case, load, place, statements
from tests.oracle.rawlog import OracleError
from tests.oracle.scene import play
from tests.oracle.twin import NativeAlter, Oracle
from tests.oracle.untrue import BinlogUntrue

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fixtures.mysql import Database

#: A parent, its child in another schema, a table that triggers write, and a self-reference.
FAMILY = {
    "table.sql": """
CREATE TABLE t (id INT NOT NULL PRIMARY KEY, up INT, v INT NOT NULL,
  CONSTRAINT to_self FOREIGN KEY (up) REFERENCES t (id));
CREATE TABLE {other}.child (id INT NOT NULL PRIMARY KEY, t_id INT,
  CONSTRAINT to_t FOREIGN KEY (t_id) REFERENCES {schema}.t (id) ON DELETE SET NULL);
CREATE TABLE audit (id INT NOT NULL, v INT NOT NULL);
INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)
  SELECT i, NULL, 1 FROM n;
INSERT INTO {other}.child SELECT id, id FROM t;
CREATE TRIGGER one AFTER UPDATE ON t FOR EACH ROW
BEGIN
  -- A comment; of the body.
  INSERT INTO audit VALUES (NEW.id, NEW.v);
END;
CREATE TRIGGER two AFTER UPDATE ON t FOR EACH ROW INSERT INTO audit VALUES (-NEW.id, NEW.v);
""",
    "alter.sql": "ADD COLUMN note VARCHAR(10)",
    "during.sql": """
-- @writer
UPDATE t SET v = v + 1 WHERE id = 1 + @r MOD 50;
INSERT INTO t (id, up, v) VALUES (@n, 1 + @s MOD 50, 1);
INSERT INTO {other}.child VALUES (@n, @n);
DELETE FROM t WHERE id = @n;
""",
    "probes.sql": """
-- @changes t audit
UPDATE t SET v = -1 WHERE id = 1;
-- @refused 1452
INSERT INTO {other}.child VALUES (-1, -1);
-- @refused 1452
INSERT INTO t (id, up, v) VALUES (-1, -2, 1);
INSERT INTO t (id, v) VALUES (-1, 1);
INSERT INTO {other}.child VALUES (-1, -1);
-- @changes t {other}.child
DELETE FROM t WHERE id = -1;
""",
    "invariants.sql": """
SELECT t.id FROM t LEFT JOIN audit a USING (id) GROUP BY t.id, t.v HAVING COUNT(a.v) <> t.v - 1;
""",
}


def family(folder: Path, **texts: str) -> Case:
    """Write the files of the case with relatives, some of them with another text, and read it."""
    for name, text in (FAMILY | {f"{name}.sql": text for name, text in texts.items()}).items():
        (folder / name).write_text(text, encoding="utf-8")
    return load(folder)


def test_the_oracle_accepts_triggers_and_foreign_keys_that_a_native_alter_keeps(
    db: Database, tmp_path: Path
) -> None:
    """The tables beside the changed one are replayed, too, and the probes end alike on both."""
    judgement = play(family(tmp_path), db, native)
    assert judgement.events_before > 10


def test_the_oracle_does_with_foreign_keys_what_the_binlog_says_and_no_more(
    db: Database, tmp_path: Path
) -> None:
    """MySQL 9.7 leaves the children of a replaced row as they were, and so must the twin."""
    replacing = "-- @writer\nREPLACE INTO t (id, v) VALUES (1 + @r MOD 50, 1);\n"
    judgement = play(family(tmp_path, during=replacing, invariants=""), db, native)
    assert judgement.events_before


BODY = "FOR EACH ROW INSERT INTO audit VALUES (-NEW.id, NEW.v)"
AGAIN = f"TRIGGER two AFTER UPDATE ON t {BODY}"
TO_T = "FOREIGN KEY (t_id) REFERENCES {schema}.t (id) ON DELETE SET NULL"
DAMAGE = {
    "DROP TRIGGER two": "trigger missing",
    "CREATE TRIGGER more BEFORE UPDATE ON t FOR EACH ROW SET @x = 1": "trigger too many",
    "DROP TRIGGER two; CREATE TRIGGER two AFTER UPDATE ON t FOR EACH ROW SET @x = 1": "STATEMENT",
    f"DROP TRIGGER two; CREATE {AGAIN.replace(' ROW', ' ROW PRECEDES one')}": "_ORDER",
    f"DROP TRIGGER two; CREATE DEFINER = nobody@nowhere {AGAIN}": "DEFINER",
    f"DROP TRIGGER two; SET sql_mode = 'ANSI_QUOTES'; CREATE {AGAIN}": "SQL_MODE",
    f"DROP TRIGGER two; SET NAMES latin1; CREATE {AGAIN}": "CHARACTER_SET_CLIENT",
    "ALTER TABLE {other}.child DROP FOREIGN KEY to_t": "definition must be",
    "ALTER TABLE {other}.child DROP FOREIGN KEY to_t, ADD CONSTRAINT u " + TO_T: "definition must",
    "CREATE TABLE more (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES t (id))": "key too many",
    "DELETE FROM audit WHERE id = 2 LIMIT 1; INSERT INTO audit VALUES (0, 0)": "audit: ",
    "SET foreign_key_checks = 0; INSERT INTO {other}.child VALUES (-5, -5)": "child: ",
}


@pytest.mark.parametrize(("damage", "seen"), list(DAMAGE.items()), ids=lambda text: str(text)[:60])
def test_the_oracle_sees_a_trigger_or_a_foreign_key_that_is_not_as_it_was(
    db: Database, tmp_path: Path, damage: str, seen: str
) -> None:
    """One missing, too many, or different in order, definer, mode, character set or reference."""
    quiet = (
        "-- @writer\n-- @allow 1449\nUPDATE t SET v = v + 1 WHERE id > 1 AND id = 2 + @r MOD 40;\n"
    )
    case = family(tmp_path, during=quiet, invariants="")
    spoil = statements(place(damage, db.name).replace("; ", ";\n"))
    left = replace(case.expect, left_tables=("more",) if "TABLE more" in damage else ())
    with pytest.raises(OracleError, match=seen):
        play(replace(case, expect=left), db, functools.partial(native, spoil=spoil))


@pytest.mark.parametrize(
    ("probe", "seen"),
    [
        ("-- @changes audit\nUPDATE t SET v = v WHERE id = -99;", "changed nothing in audit"),
        ("-- @refused 1452\nUPDATE t SET v = 0 WHERE id = 1;", "error 1452 expected"),
        ("INSERT INTO {other}.child VALUES (-1, -1);", "no error expected"),
    ],
)
def test_a_probe_that_does_not_show_what_it_must_fails_its_case(
    db: Database, tmp_path: Path, probe: str, seen: str
) -> None:
    """A probe without its effect proves nothing."""
    with pytest.raises(OracleError, match=seen):
        play(family(tmp_path, probes=probe), db, native)


def test_a_case_with_triggers_must_have_probes(tmp_path: Path) -> None:
    """Nothing else shows that they work."""
    with pytest.raises(ValueError, match="alive"):
        family(tmp_path, probes="")


@pytest.mark.smoke
def test_an_invariant_that_does_not_hold_fails_its_case(db: Database, tmp_path: Path) -> None:
    """A SELECT of the invariants that returns a row is shown with it."""
    with pytest.raises(AssertionError, match="HAVING"):
        play(
            family(tmp_path),
            db,
            functools.partial(native, spoil=["DELETE FROM audit WHERE id > 0"]),
        )


@pytest.mark.logged_cascades
def test_the_oracle_says_when_the_binlog_may_be_untrue(db: Database) -> None:
    """Behind a cascade that a deadlock has undone, a difference is none of the program's."""
    made = (
        *WEIGHT,
        "CREATE TABLE mother (id INT PRIMARY KEY)",
        (
            "CREATE TABLE t (id INT PRIMARY KEY, m INT, v INT NOT NULL DEFAULT 0,"
            " FOREIGN KEY (m) REFERENCES mother (id) ON DELETE CASCADE)"
        ),
        "INSERT INTO mother VALUES (1)",
        "INSERT INTO t (id, m) VALUES (1, 1), (2, 1)",
    )
    with Oracle(db.server, db.name, "t") as oracle:
        for statement in made:
            db.execute(statement)
        oracle.begin(made)
        told = undo_a_cascade(db, "DELETE FROM mother WHERE id = 1", held=2, table="t")
        assert told == 0
        assert db.query("SELECT id, v FROM t") == [(1, 0), (2, 0)]
        with pytest.raises(BinlogUntrue, match="deadlock"):
            oracle.judge(NativeAlter(statement="", keyless=False))
