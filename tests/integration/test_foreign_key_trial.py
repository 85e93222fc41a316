"""What the server says to foreign keys between new definitions, tried on empty tables."""

from __future__ import annotations

import re
from contextlib import contextmanager

import pytest

from spirit_py.checkpoint.drop import drop_building
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.config import MigrationConfig
from spirit_py.errors import Refusal
from spirit_py.mysql.session import Session
from spirit_py.mysql.tables.new_table import NewTable, drop_tables
from spirit_py.preflight.preflight import check_keys, mapping_of, prepare
from spirit_py.table.names import AuxiliaryNames, building_name, trial_name
from tests.kits.schema_tools import open_schema_tools

TABLES = (
    "CREATE TABLE p (id INT PRIMARY KEY, s VARCHAR(10), UNIQUE (s));"
    "CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE, a INT, s VARCHAR(10), up INT, free INT,"
    " KEY two (a, free), CONSTRAINT of_t FOREIGN KEY (a) REFERENCES p (id) ON DELETE SET NULL,"
    " CONSTRAINT text_of_t FOREIGN KEY (s) REFERENCES p (s),"
    " CONSTRAINT own FOREIGN KEY (up) REFERENCES t (id));"
    "CREATE TABLE c (id INT PRIMARY KEY, a INT, CONSTRAINT to_t FOREIGN KEY (a) REFERENCES t (u),"
    " CONSTRAINT to_id FOREIGN KEY (id) REFERENCES t (id) ON DELETE CASCADE)"
)
#: The server's words do not say which key it is.
NAMELESS = {1506, 3192}
BUILDING = building_name("t", "abcdef")


@pytest.fixture
def desk(db):
    """Open a desk in a schema with a family of tables."""
    db.execute(TABLES)
    with open_schema_tools(db) as found:
        yield found


def tables(db) -> set[str]:
    """Return the names of all tables."""
    return {row[0] for row in db.query("SHOW TABLES")}


def tried(desk, **alters: str) -> str:
    """Try the keys of some tables, altered together; return the refusal, or an empty text."""
    statements = "; ".join(f"ALTER TABLE {table} {text}" for table, text in alters.items())
    config = MigrationConfig(connection=desk.options, database=desk.schema, statement=statements)
    contexts = prepare(desk.session, config)
    names = [AuxiliaryNames.of(table).new for table in alters]
    try:
        mappings = [
            mapping_of(one, NewTable(desk.session, desk.native, one.source, one.statement).create())
            for one in contexts
        ]
        check_keys(contexts, mappings, BUILDING)
    except Refusal as error:
        return "\n".join((error.message, error.hint, *error.details))
    finally:
        drop_tables(desk.session, desk.schema, names)
    return ""


@pytest.mark.parametrize(
    "alter",
    [
        "ADD z INT",
        "RENAME COLUMN a TO b, RENAME COLUMN id TO number, RENAME COLUMN up TO down",
        "CHANGE u v INT NOT NULL, MODIFY s VARCHAR(400)",
        "MODIFY a INT AFTER free, COMMENT 'x'",
        "DROP INDEX two, ADD INDEX three (a, free, up)",
        "ADD UNIQUE (a)",
        "DROP FOREIGN KEY of_t, MODIFY a BIGINT NOT NULL",
        "CONVERT TO CHARACTER SET utf8mb4",
    ],
)
def test_keys_that_fit_pass_and_nothing_is_left(db, desk, alter):
    """Names of columns are those of the new definition; the trial's tables are gone."""
    before = tables(db)
    assert tried(desk, t=alter) == ""
    assert tables(db) == before
    assert desk.table("t").create_sql.count("FOREIGN KEY") == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alter", "error", "keys"),
    [
        ("MODIFY a BIGINT", 3780, ["of_t"]),
        ("MODIFY a INT UNSIGNED", 3780, ["of_t"]),
        ("MODIFY id BIGINT", 3780, ["own", "to_id"]),
        ("MODIFY u BIGINT", 3780, ["to_t"]),
        ("MODIFY s VARCHAR(10) CHARACTER SET latin1", 3780, ["text_of_t"]),
        ("MODIFY s VARCHAR(10) COLLATE utf8mb4_bin", 3780, ["text_of_t"]),
        ("CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", 3780, ["text_of_t"]),
        ("MODIFY a INT NOT NULL", 1830, ["of_t"]),
        ("DROP INDEX u", 6125, ["to_t"]),
        ("DROP INDEX u, ADD INDEX (u)", 6125, ["to_t"]),
        ("DROP INDEX u PARTITION BY HASH (id) PARTITIONS 2", 1506, ["of_t", "to_id"]),
        ("ADD g INT AS (a + 1) STORED", 3192, ["of_t"]),
        ("ADD CHECK (a > 0)", 3823, ["of_t"]),
    ],
)
def test_a_key_that_no_longer_fits_is_refused_in_the_servers_words(db, desk, alter, error, keys):
    """The refusal names tables and keys as the operator knows them, and a way out."""
    before = tables(db)
    text = tried(desk, t=alter)
    assert f"(error {error})" in text
    for key in keys:
        assert f"foreign key {key} of {db.name}." in text
    if error not in NAMELESS:
        named = {f"foreign key {key} of" for key in keys}
        assert set(re.findall(r"foreign key \w+ of", text)) == named
    assert BUILDING not in text
    assert "_spirit_py" not in text
    assert re.search(r"foreign key|unique index|drop the key|nullable", text)
    assert tables(db) == before


@pytest.mark.parametrize("alter", ["DROP INDEX two", "DROP INDEX two, ADD INDEX (free, a)"])
def test_an_index_that_a_key_needs_may_not_be_dropped(db, desk, alter):
    """ADD FOREIGN KEY would build one under the lock of the swap; a native ALTER says 1553."""
    assert "foreign key of_t" in tried(desk, t=alter)
    assert "needs an index that begins with (a), which the ALTER removes" in tried(desk, t=alter)


@pytest.mark.slow
def test_both_ends_of_a_key_may_change_together(desk):
    """What one table alone may not do: their new definitions are tried against each other."""
    alters = {
        "t": "MODIFY id BIGINT, MODIFY up BIGINT, MODIFY a BIGINT",
        "p": "MODIFY id BIGINT",
        "c": "MODIFY id BIGINT",
    }
    assert tried(desk, **alters) == ""
    assert "(error 3780)" in tried(desk, t=alters["t"], p=alters["p"])


def test_a_parent_that_is_missing_stays_missing(db, desk):
    """A key that was made without checks is carried along as it is."""
    db.execute("SET foreign_key_checks = 0; DROP TABLE p; SET foreign_key_checks = 1")
    assert tried(desk, t="ADD z INT") == ""
    assert "p" not in tables(db)


@pytest.mark.slow
def test_relatives_are_not_named_by_a_trial(db, desk, monkeypatch):
    """A replica that leaves one out would stop at CREATE TABLE ... LIKE; the columns are enough."""
    db.execute(
        "CREATE TABLE odd (id INT PRIMARY KEY, d JSON, e ENUM('a', '\U0001f600') NOT NULL, l BLOB,"
        " g INT AS (id + 1) STORED, n VARCHAR(300) CHARACTER SET latin1, CHECK (g > 0),"
        " KEY of_e (e DESC, l(20)), KEY ((id + 2)), KEY of_g (g), UNIQUE KEY of_n (n, e),"
        " FULLTEXT KEY (n)) ROW_FORMAT=COMPRESSED COMMENT 'odd';"
        "ALTER TABLE t ADD e ENUM('a', '\U0001f600') NOT NULL, ADD g INT, ADD UNIQUE (e), ADD"
        " UNIQUE (g), ADD n VARCHAR(9) CHARACTER SET latin1, ADD CONSTRAINT of_n FOREIGN KEY (n, e)"
        " REFERENCES odd (n, e);"
        "ALTER TABLE odd ADD FOREIGN KEY (e) REFERENCES t (e), ADD FOREIGN KEY (g) REFERENCES t (g)"
    )
    sent, execute = [], Session.execute

    def executing(self, sql, *more):
        sent.append(sql)
        return execute(self, sql, *more)

    monkeypatch.setattr(Session, "execute", executing)
    assert tried(desk, t="ADD z INT") == ""
    assert "(error 3780)" in tried(desk, t="MODIFY n VARCHAR(9) CHARACTER SET utf8mb4")
    assert "foreign key odd_ibfk_2" in tried(desk, t="MODIFY g BIGINT")
    made = [sql for sql in sent if BUILDING in sql]
    assert made
    assert not [sql for sql in made if re.search(r"`(odd|p|c)`", sql)]


@contextmanager
def transaction(db, *statements):
    """Keep the locks of statements."""
    session = db.connect()
    with session.cursor() as cursor:
        cursor.execute("BEGIN")
        for statement in statements:
            cursor.execute(statement)
    yield
    session.rollback()
    session.close()


def test_neither_parents_nor_children_are_locked_for_a_trial(db, desk):
    """R23: ADD FOREIGN KEY would wait for both, and everybody behind it."""
    db.execute("INSERT INTO p VALUES (1, 'a')")
    desk.session.execute("SET SESSION lock_wait_timeout = 1")
    with transaction(db, "UPDATE p SET s = 'b'", "SELECT * FROM c FOR UPDATE"):
        assert tried(desk, t="ADD z INT") == ""


def test_what_a_killed_trial_has_left_is_dropped_by_its_name(db, desk):
    """R24: the name is noted before, and is random; another table beside it stays."""
    left = [BUILDING, trial_name(BUILDING, 1), trial_name(BUILDING, 12)]
    others = [f"{BUILDING}_x", f"{BUILDING}_012"[:64], trial_name(building_name("t", "abcdee"), 1)]
    for name in ("_t_chkpnt", *left, *others):
        db.execute(f"CREATE TABLE `{name}` (id INT)")
    before = tables(db)
    drop_building(desk.session, db.name, "t", BUILDING)
    assert tables(db) == before - set(left)


def test_what_is_older_than_the_checkpoint_table_is_of_no_killed_run(db, desk):
    """R26: a row may name the empty table of a month; when that was made, no row of ours says."""
    checkpoint = CheckpointTable(db.name, "t")
    db.execute(f"CREATE TABLE `{BUILDING}` (id INT)")
    checkpoint.make(desk.session)
    db.execute(f"CREATE TABLE `{trial_name(BUILDING, 1)}` (id INT)")
    # It renews the time of the checkpoint table, a second later than the trial's.
    db.set_global("innodb_flush_log_at_trx_commit", "2")
    desk.session.execute("SET SESSION timestamp = UNIX_TIMESTAMP() + 1")
    checkpoint.harden(desk.session)
    drop_building(desk.session, db.name, "t", BUILDING)
    assert BUILDING in tables(db)
    assert trial_name(BUILDING, 1) not in tables(db)
