"""The new table after the swap is what a native ALTER would have left."""

from __future__ import annotations

import re
import shutil

import MySQLdb
import pytest

from mysql_server import ServerOptions, running
from spirit_py.checkpoint.drop import drop_auxiliary
from spirit_py.checkpoint.proofs import begin_proofs, note_proofs
from spirit_py.checkpoint.record import Pointer
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.errors import Refusal, ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables.definition import read_table
from spirit_py.mysql.tables.identity import NOTHING, drop_unreferenced, identity
from spirit_py.mysql.tables.new_table import (
    align_auto_increment,
    create_sentinel,
    set_auto_increment,
)
from spirit_py.statement import alter_of
from spirit_py.table.build import build_mapping
from spirit_py.table.names import AuxiliaryNames
from tests.fixtures.mysql import PROVIDER
from tests.kits.connection import account, options_of
from tests.kits.migrate import config_for, migrate_here
from tests.kits.schema_tools import SchemaTools, open_schema_tools
from tests.kits.tables import tables

PLAIN = (
    "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT,"
    " b VARCHAR(20) NOT NULL DEFAULT 'x', KEY k (a))"
)
CHECKED = (
    "CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT, CHECK (v > 0),"
    " CONSTRAINT t_chk_7 CHECK (w > 0))"
)
TEN_CHECKS = (
    "CREATE TABLE t (id INT PRIMARY KEY, v INT, "
    + ", ".join(f"CHECK (v <> {number})" for number in range(1, 13))
    + ")"
)
GENERATED = (
    "CREATE TABLE t (id INT PRIMARY KEY, a INT, v INT AS (a + 1) VIRTUAL, s INT AS (a * 2) STORED,"
    " j JSON, hidden INT INVISIBLE, KEY f ((CAST(j->>'$.n' AS CHAR(9)))), KEY l ((a + 2)),"
    " KEY m ((CAST(j->'$.l' AS UNSIGNED ARRAY))))"
)
PARTITIONED = (
    "CREATE TABLE t (id INT PRIMARY KEY, a INT) PARTITION BY RANGE (id)"
    " (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)"
)
HASHED = "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3"
SECONDARY = "CREATE TABLE t (id INT PRIMARY KEY, a INT) SECONDARY_ENGINE=rapid"
QUOTED = "CREATE TABLE t (`a``b` INT PRIMARY KEY, `c\nd` INT, `select` INT)"
OPTIONS = (
    "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), b TEXT, FULLTEXT ft (b),"
    " g POINT NOT NULL SRID 4326,"
    " SPATIAL KEY sp (g), e ENUM('it''s', 'b\\\\c', 'd,e'),"
    " KEY d (a DESC, id) COMMENT 'c' INVISIBLE)"
    " ROW_FORMAT=DYNAMIC COMMENT='it''s; \\\\ \\n' STATS_PERSISTENT=1 STATS_SAMPLE_PAGES=9"
    " MAX_ROWS=99 DEFAULT CHARSET=latin1 COLLATE=latin1_bin"
)
LETTERS = (
    "CREATE TABLE t (id INT PRIMARY KEY, `ä` INT, e ENUM('😀', '?', 'é'),"
    " d VARCHAR(9) DEFAULT '😀', g VARCHAR(9) AS (CONCAT('é😀', `ä`)),"
    " x VARCHAR(9) DEFAULT (CONCAT('é')), CHECK (d <> 'é😀'),"
    " CONSTRAINT t_chk_5 CHECK (`ä` > 0)) COMMENT='😀'"
)

CASES = [
    (PLAIN, "ADD c BIGINT UNSIGNED NOT NULL FIRST"),
    (PLAIN, "ADD c INT DEFAULT (a + 1) COMMENT 'x, y' AFTER a, DROP b"),
    (PLAIN, "CHANGE a c BIGINT NOT NULL COMMENT 'renamed', RENAME INDEX k TO l"),
    (PLAIN, "RENAME COLUMN a TO b, RENAME COLUMN b TO a"),
    (PLAIN, "DROP COLUMN a, ADD COLUMN a VARCHAR(5)"),
    (PLAIN, "MODIFY b TEXT CHARACTER SET latin1 COLLATE latin1_bin, DROP KEY k"),
    (PLAIN, "ADD UNIQUE u (a, b(5)), ADD KEY (b), ADD FULLTEXT (b)"),
    (PLAIN, "DROP PRIMARY KEY, ADD PRIMARY KEY (id, b)"),
    (PLAIN, "PARTITION BY HASH (id) PARTITIONS 3"),
    (PLAIN, "ENGINE=InnoDB ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8 COMMENT 'é😀'"),
    (PLAIN, "CONVERT TO CHARACTER SET latin1"),
    (PLAIN, "ADD CHECK (a > 0), ADD CONSTRAINT named CHECK (a < 9) NOT ENFORCED"),
    (PLAIN, "ADD ts TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"),
    (PLAIN, "ALTER b SET DEFAULT 'new', ALTER INDEX k INVISIBLE"),
    (PLAIN, "ADD big SERIAL, DROP id"),
    (CHECKED, "ADD c INT"),
    (CHECKED, "DROP CHECK t_chk_1, MODIFY v BIGINT"),
    (CHECKED, "DROP CONSTRAINT t_chk_7, ADD CONSTRAINT t_chk_7 CHECK (w < 100)"),
    (CHECKED, "ALTER CHECK t_chk_1 NOT ENFORCED, ADD CHECK (v <> w)"),
    (CHECKED, "ADD c INT CONSTRAINT t_chk_20 CHECK (c > 0) CHECK (c < 9)"),
    (TEN_CHECKS, "ADD INDEX (v)"),
    (TEN_CHECKS, "DROP CHECK t_chk_2, ADD c INT"),
    (TEN_CHECKS, "ALTER CHECK t_chk_10 NOT ENFORCED, ADD c INT"),
    (GENERATED, "ADD v2 INT AS (s + 1) STORED"),
    (GENERATED, "DROP v, MODIFY s INT, ALTER COLUMN hidden SET VISIBLE"),
    (GENERATED, "DROP INDEX f, ADD UNIQUE ((a + 1)), ADD c INT INVISIBLE"),
    (PARTITIONED, "REMOVE PARTITIONING"),
    (PARTITIONED, "MODIFY a BIGINT PARTITION BY KEY (id) PARTITIONS 2"),
    (PARTITIONED, ("REORGANIZE PARTITION p1 INTO (PARTITION p1 VALUES LESS THAN (20),"
                  " PARTITION p2 VALUES LESS THAN MAXVALUE)")),
    (HASHED, "ADD PARTITION PARTITIONS 2"),
    (HASHED, "COALESCE PARTITION 1"),
    (OPTIONS, "ADD c INT"),
    (OPTIONS, "STATS_PERSISTENT=DEFAULT, COMMENT '', MODIFY e ENUM('d,e', 'it''s')"),
    (OPTIONS, "DEFAULT CHARSET utf8mb4, MODIFY a VARCHAR(300)"),
    (LETTERS, "ADD c INT, DROP e"),
    (LETTERS, "MODIFY `ä` BIGINT"),
    (SECONDARY, "MODIFY a BIGINT"),
    (QUOTED, "DROP `select`, CHANGE `c\nd` `e f` INT"),
]  # fmt: skip


@pytest.fixture
def desk(db):
    """Open the two sessions in the test's schema."""
    with open_schema_tools(db) as found:
        yield found


def definition(desk: SchemaTools, schema: str, name: str = "t") -> str:
    """Return a table's definition as the server shows it."""
    found = read_table(desk.session, schema, name)
    assert found is not None
    return found.create_sql


@pytest.mark.draws(15)
@pytest.mark.parametrize(("create", "alter"), CASES)
def test_a_new_table_has_the_definition_of_a_native_alter(db, desk, create, alter):
    """Created, altered and swapped, the table's definition is the native one, letter by letter."""
    db.execute(create)
    desk.create(alter)
    desk.session.execute("RENAME TABLE t TO _t_old, _t_new TO t")
    ours = definition(desk, db.name)
    desk.session.execute("DROP TABLE t, _t_old")
    db.execute(create)
    db.execute(f"ALTER TABLE t {alter}")
    assert ours == definition(desk, db.name)


def test_letters_that_the_catalogue_cannot_show_are_carried_over(db, desk):
    """Members and expressions with letters that the catalogue cannot show are carried over."""
    db.execute(LETTERS)
    desk.create("ADD c INT")
    db.execute("INSERT INTO _t_new (id, `ä`, e) VALUES (1, 7, '😀'), (2, 8, 'é')")
    assert db.query("SELECT e, g, x FROM _t_new") == [("😀", "é😀7", "é"), ("é", "é😀8", "é")]
    with pytest.raises(MySQLdb.Error, match="violated"):
        db.execute("INSERT INTO _t_new (id, d) VALUES (3, 'é😀')")


def test_the_counter_is_kept_without_rows_to_raise_it(db, desk):
    """AUTO_INCREMENT is carried over from the source, also with no rows to raise it."""
    db.execute(PLAIN + " AUTO_INCREMENT=1000")
    assert desk.create("ADD c INT").auto_increment == 1000


def test_data_directory_is_kept(db, desk):
    """A table that lies elsewhere stays there, its other options and constraints with it.

    Its foreign keys come later; who may not place files is told so.
    """
    ((folder,),) = db.query("SELECT CONCAT(@@tmpdir, '/', DATABASE(), '_data')")
    db.execute(
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT,"
        " CONSTRAINT c CHECK (v > 0), CHECK (v < 9))"
        f" AUTO_INCREMENT=7 COMMENT='x' DATA DIRECTORY='{folder}' TABLESPACE=innodb_file_per_table"
    )
    try:
        created = desk.create("ADD b INT")
        native = desk.table().create_sql.replace("TABLE `t`", "TABLE `_t_new`")
        native = native.replace("`c` CHECK", "`_c` CHECK").replace("t_chk_1", "_t_new_chk_1")
        assert created.create_sql == native.replace(
            "  PRIMARY KEY", "  `b` int DEFAULT NULL,\n  PRIMARY KEY"
        )
        assert f"DATA DIRECTORY='{folder}" in created.create_sql
        db.execute("DROP TABLE _t_new; ALTER TABLE t ADD FOREIGN KEY (v) REFERENCES t (id)")
        assert "FOREIGN KEY" not in desk.create("ADD b INT").create_sql
        db.execute("DROP TABLE _t_new")
        with (
            account(db, "SELECT, INSERT, CREATE, DROP, ALTER ON {db}.*") as options,
            open_schema_tools(db, options) as ordinary,
            pytest.raises(Refusal, match="refuses a copy") as refused,
        ):
            ordinary.create("ADD b INT")
        assert refused.value.hint.startswith("grant the account")
    finally:
        db.execute("DROP TABLE IF EXISTS t, _t_new")
        shutil.rmtree(folder, ignore_errors=True)


def test_a_table_that_is_made_from_text_gets_no_default(db):
    """With implicit defaults the server would add one, and ON UPDATE; LIKE copies the column."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP NOT NULL) ENCRYPTION='N'")
    db.execute("CREATE TABLE u (id INT PRIMARY KEY, ts TIMESTAMP NOT NULL)")
    db.execute(f"ALTER DATABASE `{db.name}` DEFAULT ENCRYPTION='Y'")
    db.set_global("explicit_defaults_for_timestamp", "OFF")
    refused = "TIMESTAMP NOT NULL without a default"
    with open_schema_tools(db) as desk, pytest.raises(Refusal, match=refused):
        desk.create("ADD c INT")
    assert [name for (name,) in db.query("SHOW TABLES")] == ["t", "u"]


def test_a_table_that_is_made_from_text_gets_no_key(db):
    """The server would add an invisible one; neither LIKE nor an ALTER does."""
    db.execute("CREATE TABLE t (id INT UNIQUE, v INT NOT NULL) ENCRYPTION='N'")
    db.execute(f"ALTER DATABASE `{db.name}` DEFAULT ENCRYPTION='Y'")
    db.set_global("sql_generate_invisible_primary_key", "ON")
    grants = "SELECT, INSERT, CREATE, DROP, ALTER ON {db}.*", "PROCESS ON *.*"
    with open_schema_tools(db) as desk, account(db, *grants) as options:
        assert [column.name for column in desk.create("ADD c INT").columns] == ["id", "v", "c"]
        db.execute("DROP TABLE _t_new")
        with open_schema_tools(db, options) as ordinary:
            with pytest.raises(Refusal, match="no primary key, and the server adds one"):
                ordinary.create("ADD c INT")
            assert [name for (name,) in db.query("SHOW TABLES")] == ["t"]
            # This key stands for the primary one: the server adds none.
            db.execute("ALTER TABLE t ADD UNIQUE (v)")
            assert not ordinary.create("ADD c INT").has_column("my_row_id")


def test_a_key_may_be_added_where_each_table_needs_one(db):
    """As by a native ALTER: the copy that it is made on has none. Another ALTER fails natively."""
    db.execute("CREATE TABLE t (id INT NOT NULL UNIQUE, v INT)")
    db.set_global("sql_require_primary_key", "ON")
    grants = "SELECT, INSERT, CREATE, DROP, ALTER ON {db}.*", "PROCESS ON *.*"
    with open_schema_tools(db) as desk, account(db, *grants) as options:
        with pytest.raises(Refusal, match=r"without a primary key.*3750") as failed:
            desk.create("ADD c INT")
        assert "a native ALTER TABLE would fail" in failed.value.hint
        assert desk.create("ADD PRIMARY KEY (id)").primary_key
        db.execute("DROP TABLE _t_new")
        with (
            open_schema_tools(db, options) as ordinary,
            pytest.raises(Refusal, match=r"copy of the table's definition.*3750") as refused,
        ):
            ordinary.create("ADD PRIMARY KEY (id)")
        assert "SESSION_VARIABLES_ADMIN" in refused.value.hint
    assert [name for (name,) in db.query("SHOW TABLES")] == ["t"]


def test_a_table_that_is_not_encrypted_stays_so(db, desk):
    """Also in a schema whose new tables are encrypted; a native ALTER leaves it alone, too."""
    db.execute(f"{CHECKED} COMMENT=' ENCRYPTION=''Y'''")
    db.execute(f"ALTER DATABASE `{db.name}` DEFAULT ENCRYPTION='Y'")
    desk.create("ADD c INT")
    desk.session.execute("RENAME TABLE t TO _t_old, _t_new TO t")
    ours = definition(desk, db.name)
    db.execute("DROP TABLE t; RENAME TABLE _t_old TO t; ALTER TABLE t ADD c INT")
    assert ours == definition(desk, db.name)
    assert " ENCRYPTION='N'" in ours


#: What SHOW CREATE TABLE shows as other letters: those above U+FFFF, and those of two codes.
HIDDEN = (
    "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('it''s\\n\\\\', '😀') NOT NULL DEFAULT '😀',"
    " `s``x` SET('😀', '?', '') CHARACTER SET utf16 COMMENT 'set(''?'')', q VARCHAR(9) DEFAULT '?',"
    " c CHAR(9) CHARACTER SET cp932 NOT NULL DEFAULT X'FA5427' COMMENT 'x DEFAULT ''y''',"
    " d VARCHAR(9) DEFAULT '😀')"
)


def hidden_bytes(db, name):
    """Return the bytes of what a table that :data:`HIDDEN` made has as members and defaults."""
    db.execute(f"INSERT INTO {name} (id, e, `s``x`) VALUES (1, 1, 3), (2, 2, 4)")
    db.execute(f"INSERT INTO {name} (id) VALUES (3)")
    shown = ", ".join(f"HEX({one})" for one in ("e", "`s``x`", "c", "d", "q"))
    return db.query(f"SELECT {shown} FROM {name} ORDER BY id")


def test_a_table_that_is_made_from_text_has_what_its_text_does_not_show(db, desk):
    """Members and defaults have the bytes of the source's."""
    db.execute(f"{HIDDEN} ENCRYPTION='N'")
    db.execute(f"ALTER DATABASE `{db.name}` DEFAULT ENCRYPTION='Y'")
    assert "ENCRYPTION='N'" in desk.create("ADD z INT").create_sql
    made = hidden_bytes(db, "_t_new")
    assert made == hidden_bytes(db, "t")
    assert made[2] == ("F09F9880", None, "FA5427", "F09F9880", "3F")


def test_a_member_that_its_text_does_not_lead_to_is_refused_where_text_makes_the_table(db, desk):
    """One without a letter in Unicode, or with a letter of two codes; '?' itself is none."""
    create = "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a?', {}) CHARACTER SET {}) ENCRYPTION='N'"
    db.execute(create.format("X'815F'", "sjis"))
    db.execute(f"ALTER DATABASE `{db.name}` DEFAULT ENCRYPTION='Y'")
    desk.create("ADD z INT")
    db.execute("DROP TABLE _t_new")
    for member, charset in (("F040", "sjis"), ("FA54", "cp932")):
        db.execute(f"DROP TABLE t; {create.format(f'0x{member}', charset)}")
        with pytest.raises(Refusal, match=f"the member X'{member}' in {charset}"):
            desk.create("ADD z INT")
        assert tables(db) == ["t"]


def test_a_comment_about_a_directory_is_none(db, desk):
    """The keys are not made twice, and the words stay."""
    words = "COMMENT 'DATA DIRECTORY=', KEY (v), CONSTRAINT k FOREIGN KEY (v) REFERENCES t (id))"
    words += " COMMENT=' DATA DIRECTORY=''x'''"
    db.execute(f"CREATE TABLE t (id INT PRIMARY KEY, v INT {words}")
    created = desk.create("ADD b INT")
    assert "FOREIGN KEY" not in created.create_sql
    assert created.create_sql.count("DATA DIRECTORY=") == 2


def test_own_names_of_checks(db, desk):
    """A CHECK constraint whose name RENAME leaves alone gets a name beside it; meaning is kept."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT CONSTRAINT positive CHECK (v > 0))")
    created = desk.create("ADD c INT")
    assert "CONSTRAINT `_positive` CHECK ((`v` > 0))" in created.create_sql
    drop_unreferenced(desk.session, db.name, "_t_new")
    created = desk.create("DROP CHECK positive, ADD CONSTRAINT positive CHECK (v > 5)")
    assert "CONSTRAINT `_positive` CHECK ((`v` > 5))" in created.create_sql
    assert "`v` > 0" not in created.create_sql
    drop_unreferenced(desk.session, db.name, "_t_new")
    # The server drops the constraint with its column.
    alter = "DROP v, ADD v BIGINT, ADD CONSTRAINT positive CHECK (v > 7)"
    created = desk.create(alter)
    assert "CONSTRAINT `_positive` CHECK ((`v` > 7))" in created.create_sql
    db.execute(f"DROP TABLE _t_new; ALTER TABLE t {alter}")
    with pytest.raises(Refusal, match="Duplicate check constraint name 'positive'"):
        desk.create("ADD CONSTRAINT positive CHECK (v > 9)")
    # Once an earlier copy has given it the other name, its own is free for another one.
    db.execute("ALTER TABLE t DROP CHECK positive, ADD CONSTRAINT _positive CHECK (v > 7)")
    created = desk.create("ADD CONSTRAINT Positive CHECK (v > 9)")
    assert "CONSTRAINT `Positive` CHECK ((`v` > 9))" in created.create_sql
    assert "CONSTRAINT `__positive` CHECK ((`v` > 7))" in created.create_sql


def test_a_name_over_two_lines_loses_no_check(db, desk):
    """Nor does a column's in its expression, or a text that looks like the end of a line."""
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, `a\nb` VARCHAR(99),"
        " CONSTRAINT `two\nlines` CHECK (`a\nb` <> 'it''s \\\\\nx,'),"
        " CONSTRAINT one CHECK (id > 0))"
    )
    created = desk.create("ADD c INT").create_sql
    checks = "CONSTRAINT `_one` CHECK", "CONSTRAINT `_two\nlines` CHECK"
    assert [one for one in checks if one in created] == list(checks)
    old = re.search(r"lines` (CHECK .*)\n\)", desk.table().create_sql, re.DOTALL)
    assert old is not None
    assert old[1] in created


def test_a_table_with_the_longest_name_can_be_swapped(db, desk):
    """A table name of 64 letters can be migrated and swapped."""
    name = "é" * 64
    db.execute(f"CREATE TABLE `{name}` (id INT PRIMARY KEY)")
    names = AuxiliaryNames.of(name)
    desk.create("ADD c INT", name)
    db.execute(f"RENAME TABLE `{name}` TO `{names.old}`, `{names.new}` TO `{name}`")
    assert desk.table(name).has_column("c")


def test_longest_table_name_with_checks(db, desk):
    """The swap can rename CHECK constraints of the longest name that has any."""
    name = "t" * 58
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, CHECK (id > 0))")
    names = AuxiliaryNames.of(name)
    desk.create("ADD c INT", name)
    db.execute(f"RENAME TABLE {name} TO {names.old}, {names.new} TO {name}")
    assert f"`{name}_chk_1`" in desk.table(name).create_sql


@pytest.mark.parametrize(
    ("alter", "message"),
    [
        ("ADD a INT", "Duplicate column name 'a'"),
        ("DROP nonesuch", "Can't DROP 'nonesuch'"),
        ("ADD c INTT", "syntax to use near 'INTT'"),
        ("MODIFY a INT PRIMARY KEY", "Multiple primary key defined"),
        ("ADD KEY (nonesuch)", "Key column 'nonesuch' doesn't exist"),
        ("ADD CHECK (nonesuch > 0)", "nonesuch"),
        ("ADD c VARCHAR(99999)", "Column length too big"),
        ("MODIFY b DATE DEFAULT '2024-02-31'", "Invalid default value"),
    ],
)
def test_refused_by_the_server(db, desk, alter, message):
    """What the server refuses is a refusal in its own words, and no table is left behind."""
    db.execute(PLAIN)
    with pytest.raises(Refusal, match=re.escape(message)) as refused:
        desk.create(alter)
    assert refused.value.exit_code == 2
    assert db.query("SHOW TABLES") == [("t",)]


def test_sql_mode_is_the_servers(db, desk):
    """The ALTER means what it means under the server's own sql_mode, not under the program's."""
    db.execute(PLAIN)
    with pytest.raises(Refusal, match="Invalid default value"):
        desk.create("ADD d DATE NOT NULL DEFAULT '0000-00-00'")
    desk.native.execute("SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT'")
    created = desk.create(
        "ADD d DATE NOT NULL DEFAULT '0000-00-00', ADD c VARCHAR(99) AS (b || 'x')"
    )
    assert "concat(`b`,_utf8mb4'x')" in created.create_sql
    assert "DEFAULT '0000-00-00'" in created.create_sql


def test_a_table_that_is_there_is_not_touched(db, desk):
    """Where the name is taken the other table stays as it was."""
    db.execute(PLAIN)
    db.execute("CREATE TABLE _t_new (mine INT); INSERT INTO _t_new VALUES (7)")
    with pytest.raises(Refusal, match="already exists"):
        desk.create("ADD c INT")
    assert list(db.query("SELECT mine FROM _t_new")) == [(7,)]


def test_a_lost_server_is_no_refusal(db, desk):
    """A session that is killed is reported as that, and the new table is dropped."""
    db.execute(PLAIN)
    db.execute(f"KILL {desk.native.id}")
    with pytest.raises(ServerFault):
        desk.create("ADD c INT")
    assert read_table(desk.session, db.name, "_t_new") is None


def aligned(desk: SchemaTools, alter: str) -> int | None:
    """Create the new table and align its counter."""
    source, target = desk.table(), desk.create(alter)
    mapping = build_mapping(source, target, alter_of(desk.schema, "t", alter), "SYSTEM")
    return align_auto_increment(desk.session, mapping)


def test_counter_is_raised_when_rows_at_the_end_are_gone(db, desk):
    """Rows that were inserted and deleted during the copy have used up numbers."""
    db.execute(PLAIN)
    source, target = desk.table(), desk.create("ADD c INT")
    mapping = build_mapping(source, target, alter_of(db.name, "t", "ADD c INT"), "SYSTEM")
    assert align_auto_increment(desk.session, mapping) == 1
    db.execute("INSERT INTO t (id) VALUES (500); DELETE FROM t")
    assert align_auto_increment(desk.session, mapping) == 501
    assert desk.table("_t_new").auto_increment == 501


def test_counter_is_never_lowered(db, desk):
    """A counter that is higher than the source's stays."""
    db.execute(PLAIN + " AUTO_INCREMENT=100")
    assert aligned(desk, "AUTO_INCREMENT=5000") == 5000
    drop_unreferenced(desk.session, db.name, "_t_new")
    assert aligned(desk, "AUTO_INCREMENT=50") == 100


def test_a_counter_that_was_lowered_is_lowered_where_that_is_asked(db, desk):
    """Not below a row, and not to the unknown counter of a table that never gave a number."""
    db.execute(PLAIN + " AUTO_INCREMENT=100")
    source, target = desk.table(), desk.create("ADD c INT")
    mapping = build_mapping(source, target, alter_of(db.name, "t", "ADD c INT"), "SYSTEM")
    db.execute("ALTER TABLE t AUTO_INCREMENT=40")
    assert align_auto_increment(desk.session, mapping) == 100
    assert align_auto_increment(desk.session, mapping, lowers=True) == 40
    assert desk.table("_t_new").auto_increment == desk.table().auto_increment == 40
    db.execute("INSERT INTO _t_new (id) VALUES (77)")
    align_auto_increment(desk.session, mapping, lowers=True)
    assert desk.table("_t_new").auto_increment == 78


@pytest.mark.parametrize("given", ["0", "5", "050", "500", "5000"])
def test_counter_that_the_alter_gives(db, desk, given):
    """It is what a native ALTER leaves, whatever the source's own counter is."""
    db.execute(PLAIN + " AUTO_INCREMENT=100")
    db.execute("INSERT INTO t (id) VALUES (40), (300); DELETE FROM t WHERE id = 300")
    alter = f"AUTO_INCREMENT=7, MODIFY a BIGINT, AUTO_INCREMENT = {given}"
    source, target = desk.table(), desk.create(alter)
    statement = alter_of(desk.schema, "t", alter)
    mapping = build_mapping(source, target, statement, "SYSTEM")
    db.execute("INSERT INTO _t_new (id) VALUES (40), (300); DELETE FROM _t_new WHERE id = 300")
    assert statement.auto_increment == given
    set_auto_increment(desk.session, mapping, given)
    db.execute(f"ALTER TABLE t {alter}, ALGORITHM=COPY")
    assert desk.table("_t_new").auto_increment == desk.table().auto_increment


def test_the_counter_follows_a_renamed_column(db, desk):
    """The counter follows a renamed column."""
    db.execute(PLAIN + " AUTO_INCREMENT=100")
    assert aligned(desk, "CHANGE id pk BIGINT AUTO_INCREMENT") == 100


def test_a_counter_that_is_dropped_or_new_is_left_alone(db, desk):
    """A counter that is dropped, or belongs to a new column, is left alone."""
    db.execute(PLAIN + " AUTO_INCREMENT=100")
    assert aligned(desk, "MODIFY id INT") is None
    drop_unreferenced(desk.session, db.name, "_t_new")
    assert aligned(desk, "MODIFY id INT, ADD n INT AUTO_INCREMENT UNIQUE") is None


def test_the_counter_can_be_raised_under_the_table_lock(db, desk):
    """The counter can be raised by the session that holds both tables."""
    db.execute(PLAIN)
    source, target = desk.table(), desk.create("ADD c INT")
    mapping = build_mapping(source, target, alter_of(db.name, "t", "ADD c INT"), "SYSTEM")
    db.execute("INSERT INTO t (id) VALUES (500); DELETE FROM t")
    desk.session.execute("LOCK TABLES t WRITE, _t_new WRITE")
    assert align_auto_increment(desk.session, mapping) == 501
    desk.session.execute("RENAME TABLE t TO _t_old, _t_new TO t")
    desk.session.execute("UNLOCK TABLES")
    db.execute("INSERT INTO t (a) VALUES (1)")
    assert list(db.query("SELECT id FROM t")) == [(501,)]


def test_what_is_proven_to_be_ours_is_dropped(db, desk):
    """Everything of ours beside the table goes, but never the old table (R24)."""
    db.execute(PLAIN)
    create_sentinel(desk.session, db.name, "_t_snt")
    made = marked(db, desk)
    db.execute(f"CREATE TABLE {made.building} (id INT); CREATE TABLE _t_old LIKE t")
    target = desk.create("ADD c INT")
    note_proofs(desk.session, db.name, "t", new=identity(desk.session, db.name, target.name))

    assert drop_auxiliary(desk.session, db.name, "t") == ""
    assert drop_auxiliary(desk.session, db.name, "t") == ""
    assert {row[0] for row in db.query("SHOW TABLES")} == {"t", "_t_old"}


@pytest.mark.slow
def test_a_default_engine_that_is_disabled_is_not_asked_for(request):
    """The server refuses a table that names none (error 3161)."""
    options = ServerOptions(buffer_pool="32M", extra=("--disabled-storage-engines=MyISAM",))
    with running(options, provider=request.config.stash[PROVIDER]) as server:
        with connect(options_of(server), role="test") as session:
            for name in ("default_storage_engine", "default_tmp_storage_engine"):
                session.execute(f"SET GLOBAL {name} = MyISAM")
        with connect(options_of(server), role="test") as session:
            session.execute("CREATE DATABASE d")
            session.execute("CREATE TABLE d.t (a ENUM('😀', '?')) ENGINE=InnoDB")
            create_sentinel(session, "d", "_t_snt")
            found = read_table(session, "d", "t")
            assert found is not None
            assert found.columns[0].members == ("😀", "?")


def test_what_only_has_the_names_stays(db, desk):
    """A new table, a sentinel and a checkpoint table of somebody else are not touched (R24)."""
    db.execute(PLAIN)
    db.execute("CREATE TABLE _t_snt (id INT); CREATE TABLE _t_new LIKE t")
    marked(db, desk)
    assert f"{db.name}._t_new stays" in drop_auxiliary(desk.session, db.name, "t")
    db.execute("CREATE TABLE _t_chkpnt (id INT)")
    assert drop_auxiliary(desk.session, db.name, "t") == ""
    CheckpointTable(db.name, "t").drop(desk.session)
    assert {row[0] for row in db.query("SHOW TABLES")} == {"t", "_t_new", "_t_snt", "_t_chkpnt"}


def marked(db, desk):
    """Create the checkpoint table beside the table, as a run does, and note what was there."""
    pointer = Pointer(home=(db.name, "t"))
    CheckpointTable(db.name, "t").create(desk.session, pointer)
    return begin_proofs(desk.session, db.name, "t")


@pytest.mark.parametrize("name", ["t", "t-1 $#x", "Größe", "表", "t%_@", "Ωß"])
def test_a_table_is_known_by_its_numbers_whatever_it_is_called(db, desk, name):
    """RENAME, a counter and INSTANT changes keep the numbers; a copy and a rebuild have others."""
    db.execute(f"CREATE TABLE `{name}` (id INT AUTO_INCREMENT PRIMARY KEY, a INT)")
    db.execute("CREATE TABLE other (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3")
    numbers = identity(desk.session, db.name, name)
    assert len(numbers.numbers) == 1
    db.execute(f"ALTER TABLE `{name}` AUTO_INCREMENT = 500")
    db.execute(f"ALTER TABLE `{name}` ADD COLUMN c INT, ALGORITHM=INSTANT")
    db.execute(f"ALTER TABLE `{name}` ADD INDEX (a)")
    db.execute(f"RENAME TABLE `{name}` TO moved; CREATE TABLE `{name}` LIKE moved")
    assert identity(desk.session, db.name, "moved").is_same(numbers)
    assert not numbers.is_same(identity(desk.session, db.name, name))
    db.execute("ALTER TABLE moved ENGINE = InnoDB")
    assert not numbers.is_same(identity(desk.session, db.name, "moved"))
    partitions = identity(desk.session, db.name, "other")
    assert len(partitions.numbers) == 3
    db.execute("ALTER TABLE other COALESCE PARTITION 1")
    db.execute("RENAME TABLE other TO `other x`")
    assert identity(desk.session, db.name, "gone") == NOTHING


def test_names_that_look_alike_prove_nothing(db, desk):
    """Where two names are kept in codes that only the server can read, no number is given."""
    db.execute("CREATE TABLE `ä` (id INT); CREATE TABLE `ö` (id INT)")
    assert identity(desk.session, db.name, "ä") == NOTHING
    db.execute("DROP TABLE `ö`")
    assert len(identity(desk.session, db.name, "ä").numbers) == 1


@pytest.mark.parametrize(
    "clause", ["DROP FOREIGN KEY f", "DROP CONSTRAINT F", "DROP CHECK positive"]
)
def test_a_key_that_is_dropped_is_not_looked_for_in_the_new_table(db, desk, clause):
    """The new table has no foreign keys; what is beside the clause is carried out."""
    db.execute(
        "CREATE TABLE p (id INT PRIMARY KEY); CREATE TABLE t (id INT PRIMARY KEY, f INT,"
        " CONSTRAINT f FOREIGN KEY (f) REFERENCES p (id), CONSTRAINT positive CHECK (f > 0))"
    )
    target = desk.create(f"ADD fresh INT, {clause}, ADD more INT")
    assert [column.name for column in target.columns] == ["id", "f", "fresh", "more"]
    assert "FOREIGN KEY" not in target.create_sql
    assert ("CHECK" in target.create_sql) == ("CHECK" not in clause)


LITERAL = (
    "CREATE TABLE t (id INT PRIMARY KEY, a INT, s CHAR(9) CHARACTER SET latin1,"
    " {} CHECK (s <> 'nö'))"
)


@pytest.mark.slow
def test_a_definition_whose_bytes_are_no_text_is_read(db, engine):
    r"""After CONVERT TO the server writes a literal of a CHECK in the character set of before.

    Measured on 9.7.4: ``_latin1'n\xf6'`` in the middle of UTF-8.
    """
    db.execute(LITERAL.format(""))
    db.execute("INSERT INTO t VALUES (1, 1, 'ä'), (2, 2, 'x')")
    for alter in ("CONVERT TO CHARACTER SET utf8mb4", "MODIFY a BIGINT"):
        report, told = migrate_here(engine, config_for(db, table="t", alter=alter))
        assert report.algorithm == "copy"
        assert told.said("plan: ")
    assert db.query("SELECT id, a, s FROM t ORDER BY id") == [(1, 1, "ä"), (2, 2, "x")]


def test_a_constraint_whose_bytes_are_no_text_is_refused_by_name(db, engine):
    """One with a name of its own has to be written anew from its text, which cannot be sent."""
    db.execute(LITERAL.format("CONSTRAINT mine"))
    db.execute("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4")
    with pytest.raises(Refusal, match="a CHECK constraint has a literal whose bytes"):
        migrate_here(engine, config_for(db, table="t", alter="MODIFY a BIGINT"))
    assert tables(db) == ["t"]
