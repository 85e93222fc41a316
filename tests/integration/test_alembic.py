"""Alembic's operations on a real server: its own session does not hold back the swap."""

from __future__ import annotations

import contextlib
import logging

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext

from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.errors import AnotherServer, MigrationFailure, Refusal, UsageFault
from spirit_py.frameworks import online, revision
from spirit_py.frameworks.alembic import atomic_revision, online_alter_table, spirit_alter
from spirit_py.frameworks.steps import StepTable, is_auxiliary
from tests.kits.background import BackgroundCall
from tests.kits.library import ROWS, fill_rows
from tests.kits.tables import tables
from tests.kits.waiting import until

QUICK = {"cutover_timeout": "60s", "threads": 1}
VERSIONS = "alembic_version"
WIDER = "MODIFY a BIGINT NOT NULL"


@pytest.fixture
def orders(db, caplog):
    """A table of some thousand rows; what the program logs is kept."""
    caplog.set_level(logging.INFO, logger="alembic.spirit_py")
    db.execute("CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, a INT NOT NULL)")
    fill_rows(db, "INSERT INTO orders (a) SELECT i FROM {n}")
    db.execute("ANALYZE TABLE orders")


@contextlib.contextmanager
def connected(db, driver="mysqldb", **settings):
    """Have the connection that Alembic is handed."""
    server = db.server
    url = f"mysql+{driver}://{server.user}:{server.password}@{server.host}:{server.port}/{db.name}"
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool, **settings)
    with engine.connect() as connection:
        yield connection


@contextlib.contextmanager
def migration(connection, **settings):
    """Have the operations of a migration step, in a transaction as Alembic begins it.

    After them a version is noted, as Alembic notes one.
    """
    opts = {"spirit_py": {**QUICK, **settings}}
    context = MigrationContext.configure(connection=connection, opts=opts)
    with context.begin_transaction(_per_migration=True):
        context.impl.start_migrations()
        yield Operations(context)
        connection.execute(sa.text(f"CREATE TABLE IF NOT EXISTS {VERSIONS} (version_num CHAR(36))"))
        connection.execute(sa.text(f"INSERT INTO {VERSIONS} VALUES (UUID())"))


def ask(connection):
    """Ask something of the connection."""
    connection.execute(sa.text("DO 0"))


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["mysqldb", "pymysql"])
def test_what_the_migration_has_read_does_not_hold_back_the_swap(db, orders, driver):
    """Its transaction has a metadata lock on the table, which is given up as by any ALTER (R23)."""
    with connected(db, driver) as connection, migration(connection) as op:
        connection.execute(sa.text("INSERT INTO orders (a) VALUES (-1)"))
        connection.execute(sa.text("SELECT COUNT(*) FROM orders"))
        op.spirit_alter("orders", WIDER)
        connection.execute(sa.text("INSERT INTO orders (a) VALUES (-2)"))
    assert db.query("SELECT a FROM orders WHERE a < 0 ORDER BY id") == [(-1,), (-2,)]
    assert db.query("SELECT COUNT(*) FROM orders") == [(ROWS + 2,)]


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["mysqldb", "pymysql"])
def test_a_revision_that_reads_row_by_row_after_an_online_step_gets_all_its_rows(
    db, orders, driver
):
    """What is asked of the session in between would take the rest of the rows from it."""
    with connected(db, driver) as connection, migration(connection) as op:
        op.spirit_alter("orders", WIDER)
        streaming = connection.execution_options(yield_per=100)
        assert len(streaming.execute(sa.text("SELECT id FROM orders")).all()) == ROWS
    assert tables(db) == [VERSIONS, "orders"]


@pytest.mark.slow
def test_a_transaction_of_env_py_does_not_hold_it_back_either(db, orders):
    """Where the caller has begun the transaction around all migrations, the same holds."""
    with connected(db) as connection, connection.begin(), migration(connection) as op:
        connection.execute(sa.text("SELECT COUNT(*) FROM orders"))
        with op.online_alter_table("orders") as table:
            table.alter_column("a", type_=sa.BigInteger, existing_nullable=False)
    assert "bigint" in str(db.query("SHOW COLUMNS FROM orders"))


@pytest.mark.slow
def test_a_session_that_is_lost_stops_the_change_which_is_carried_on(db, orders, monkeypatch):
    """Alembic could not write down that it is done: it is not done, and nothing is copied again."""
    monkeypatch.setattr(online, "_ALIVE_SECONDS", 0.1)
    db.execute("CREATE TABLE _orders_snt (id INT)")

    def change(connection):
        with migration(connection) as op:
            spirit_alter(op, "orders", WIDER)

    with connected(db) as connection:
        session = connection.connection.dbapi_connection.thread_id()
        call = BackgroundCall(lambda: change(connection))
        until(lambda: "_orders_new" in tables(db), "the new table")
        db.kill(session)
        with pytest.raises((MigrationFailure, sa.exc.DBAPIError), match=r"(?i)lost|gone"):
            call.result()
    assert "_orders_chkpnt" in tables(db)
    db.execute("DROP TABLE _orders_snt")
    with connected(db) as connection:
        change(connection)
    assert "bigint" in str(db.query("SHOW COLUMNS FROM orders"))


@pytest.mark.slow
def test_the_settings_choose_the_tables_that_go_online_unasked(db, orders, caplog):
    """Alembic's own operations on a large table go online; a small or an empty one is altered."""
    db.execute(
        "CREATE TABLE small (a INT); INSERT INTO small VALUES (1); CREATE TABLE none LIKE small"
    )
    with connected(db) as connection, migration(connection, min_rows=1000) as op:
        op.alter_column("orders", "a", type_=sa.BigInteger, existing_nullable=False)
        op.alter_column("small", "a", type_=sa.BigInteger)
        spirit_alter(op, "none", "MODIFY a BIGINT COMMENT '100%'")
        op.create_table("more", sa.Column("id", sa.Integer, primary_key=True))
        op.create_index("i", "orders", ["a"])
        op.drop_index("i", "orders")
        op.rename_table("small", "smaller")
    changed = [line for line in caplog.messages if "changed (" in line]
    assert len(changed) == 3
    assert all(f"{db.name}.orders" in line for line in changed)
    for name in ("orders", "smaller", "none"):
        assert "bigint" in str(db.query(f"SHOW COLUMNS FROM {name}"))
    assert "COMMENT '100%'" in db.query("SHOW CREATE TABLE none")[0][1]
    assert tables(db) == [VERSIONS, "more", "none", "orders", "smaller"]


def test_operations_without_a_migration_are_made_each_time(db):
    """Nothing notes them: a partition that is emptied again is, and no steps are left."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2")
    for _ in range(2):
        db.execute("REPLACE INTO t VALUES (1), (2)")
        with connected(db) as connection:
            op = Operations(MigrationContext.configure(connection))
            spirit_alter(op, "t", "TRUNCATE PARTITION p0", allow_data_loss=True)
        assert db.query("SELECT id FROM t") == [(1,)]
        assert tables(db) == ["t"]


def test_a_text_is_a_change_too_and_an_empty_block_is_none(db, orders, caplog):
    """As op.execute has it, with the signs that SQLAlchemy's text() escapes."""
    with connected(db) as connection, migration(connection, tables="orders") as op:
        op.execute(sa.text("ALTER TABLE orders ADD b TIME DEFAULT '12:30' COMMENT '5% \\:x'"))
        op.execute("ALTER TABLE orders ADD c INT")
        op.execute(sa.text("UPDATE orders SET a = :a WHERE id = 1").bindparams(a=7))
        with online_alter_table(op, "orders"):
            pass
    assert len([line for line in caplog.messages if "changed (" in line]) == 1
    assert any("2 statements become one" in line for line in caplog.messages)
    assert "COMMENT '5% :x'" in db.query("SHOW CREATE TABLE orders")[0][1]
    assert db.query("SELECT a FROM orders WHERE id = 1") == [(7,)]


@pytest.mark.slow
def test_a_check_constraint_is_dropped_by_the_name_it_was_given(db, orders):
    """A copy gives it another name; the migrations, which others run on small tables, do not."""
    db.execute(
        "ALTER TABLE orders ADD CONSTRAINT `c k` CHECK (a > 0), ADD CONSTRAINT d CHECK (a < 9999)"
    )
    with connected(db) as connection, migration(connection, tables="orders") as op:
        op.alter_column("orders", "a", type_=sa.BigInteger, existing_nullable=False)
        ask(connection)
        assert "`_c k`" in db.query("SHOW CREATE TABLE orders")[0][1]
        op.execute("ALTER TABLE orders ALTER CHECK d NOT ENFORCED")
        op.drop_constraint("c k", "orders", type_="check")
    missing = pytest.raises(Refusal, match="'e' is not found")
    with connected(db) as connection, missing, migration(connection, tables="orders") as op:
        _drop_check(connection, op, "e")
    definition = db.query("SHOW CREATE TABLE orders")[0][1]
    assert "c k" not in definition
    assert "NOT ENFORCED" in definition


@pytest.mark.parametrize("clauses", ["DROP CONSTRAINT same", "ALTER CONSTRAINT Same NOT ENFORCED"])
def test_a_constraint_that_may_be_one_of_two_is_refused(db, orders, clauses):
    """The server tells both by the kind of their clause, and refuses one name for two."""
    db.execute("ALTER TABLE orders ADD UNIQUE same (id), ADD CONSTRAINT _same CHECK (a > 0)")
    before = db.query("SHOW CREATE TABLE orders")
    with connected(db) as connection:
        connection.exec_driver_sql("SET SESSION sql_select_limit = 1")
        two = "(?i)'_same' or 'same'"
        with pytest.raises(Refusal, match=two) as refused, migration(connection) as op:
            spirit_alter(op, "orders", clauses)
        assert db.query("SHOW CREATE TABLE orders") == before
        with migration(connection) as op:
            spirit_alter(op, "orders", "DROP INDEX same, DROP CHECK same")
    assert "DROP INDEX" in refused.value.hint
    assert "same" not in db.query("SHOW CREATE TABLE orders")[0][1]


def _drop_check(connection, op, name):
    op.drop_constraint(name, "orders", type_="check")
    ask(connection)


def test_a_block_is_read_by_the_rules_of_the_session(db, orders):
    """SQLAlchemy quotes by the session's sql_mode, and so is what it has made read."""
    args = {"init_command": "SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'"}
    column: sa.Column[str] = sa.Column('od"d `n', sa.String(9), server_default="it's \\")
    with connected(db, connect_args=args) as connection, migration(connection) as op:
        _add(op, column)
    assert db.query('SELECT DISTINCT `od"d ``n` FROM orders') == [("it's \\",)]


def _add(op, column):
    with online_alter_table(op, "orders") as table:
        table.add_column(column)


def test_without_settings_alembic_is_as_ever(db, orders, monkeypatch):
    """Importing the package changes nothing but what it adds."""
    monkeypatch.setattr(revision, "change", None)
    with connected(db) as connection, migration(connection) as op:
        op.alter_column("orders", "a", type_=sa.BigInteger, existing_nullable=False)
    assert "bigint" in str(db.query("SHOW COLUMNS FROM orders"))


def test_mariadb_is_altered_as_ever(db, orders, monkeypatch):
    """The URL may say mysql, and it does not know what a session of MySQL is asked."""
    monkeypatch.setattr(online, "look_around", None)
    monkeypatch.setattr(revision, "look_around", None)
    with connected(db) as connection:
        connection.dialect.is_mariadb = True
        with migration(connection, tables="orders") as op:
            op.get_context().impl.start_migrations()
            op.add_column("orders", sa.Column("b", sa.Integer))
            op.execute("UPDATE orders SET b = 1")
            with atomic_revision(op), online_alter_table(op, "orders") as table:
                table.add_column(sa.Column("c", sa.Integer, server_default="2"))
            spirit_alter(op, "orders", "ADD COLUMN d INT DEFAULT '3', COMMENT '5% :x'")
    assert db.query("SELECT DISTINCT b, c, d FROM orders") == [(1, 2, 3)]
    assert "COMMENT='5% :x'" in db.query("SHOW CREATE TABLE orders")[0][1]


def test_another_database_is_altered_as_alembic_does_it():
    """As for tests on SQLite, whose tables Alembic makes anew where there is no such ALTER."""
    with sa.create_engine("sqlite://").connect() as connection:
        connection.exec_driver_sql("CREATE TABLE orders (id INT, a INT)")
        op = Operations(MigrationContext.configure(connection))
        with atomic_revision(op), online_alter_table(op, "orders", max_lag="5s") as table:
            table.alter_column("a", type_=sa.String(9))
            table.drop_column("id")
        spirit_alter(op, "orders", "ADD COLUMN b INT DEFAULT 7")
        found = connection.exec_driver_sql("PRAGMA table_info(orders)").all()
    assert [(row[1], row[2]) for row in found] == [("a", "VARCHAR(9)"), ("b", "INT")]


@pytest.mark.slow
def test_the_table_is_changed_under_the_session_s_own_sql_mode(db, orders, caplog):
    """As an ALTER in that session: a definition that only its mode accepts is accepted.

    The warning names where the mode comes from; no option was given.
    """
    db.set_global("sql_mode", "STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE")
    args = {"init_command": "SET SESSION sql_mode = 'STRICT_TRANS_TABLES'"}
    with connected(db, connect_args=args) as connection, migration(connection) as op:
        spirit_alter(op, "orders", f"{WIDER}, ADD COLUMN d DATE NOT NULL DEFAULT '0000-00-00'")
    assert db.query("SELECT COUNT(*) FROM orders WHERE d = 0") == [(ROWS,)]
    assert "because of the settings of the framework's connection" in caplog.text
    assert "--sql-mode" not in caplog.text


@pytest.mark.parametrize(
    ("setting", "differs"),
    [
        ("time_zone = '+05:00'", "time_zone"),
        ("sql_log_bin = 0", "sql_log_bin"),
        ("explicit_defaults_for_timestamp = 0", "explicit_defaults_for_timestamp"),
    ],
)
def test_what_would_be_something_else_in_a_session_of_its_own_is_refused(
    db, orders, setting, differs
):
    """Whoever has set it, such as an event on connecting, which no argument of the driver shows."""
    db.execute(
        "ALTER TABLE orders ADD s TIMESTAMP NULL,"
        " ADD t TIMESTAMP NULL DEFAULT '2020-01-01 00:00:00'"
    )
    with connected(db) as connection:
        connection.exec_driver_sql(f"SET SESSION {setting}, sql_select_limit = 1")
        for clauses in ("MODIFY t DATETIME", "ADD COLUMN n TIMESTAMP", "MODIFY t VARCHAR(30)"):
            with pytest.raises(Refusal, match=differs), migration(connection) as op:
                spirit_alter(op, "orders", clauses)
    assert db.query("SELECT DISTINCT CAST(t AS CHAR) FROM orders") == [("2020-01-01 00:00:00",)]


UTF8MB4 = "CHARACTER SET utf8mb4"


@pytest.mark.parametrize(
    "clauses",
    [
        f"CONVERT TO {UTF8MB4}",
        "ADD COLUMN c TEXT CHARSET 'utf8mb4' COMMENT 'COLLATE x'",
        f"MODIFY v VARCHAR(20) {UTF8MB4}",
        f"DEFAULT {UTF8MB4}, ADD COLUMN c INT",
        f"ADD COLUMN `collate` TEXT {UTF8MB4}",
    ],
)
def test_another_default_collation_of_the_session_is_refused(db, orders, clauses):
    """Online it would be that of the server, and indexes and comparisons would be others."""
    db.execute("ALTER TABLE orders ADD v VARCHAR(9) CHARACTER SET latin1, CHARSET latin1")
    before = db.query("SHOW CREATE TABLE orders")
    with connected(db) as connection:
        connection.exec_driver_sql("SET SESSION default_collation_for_utf8mb4 = utf8mb4_general_ci")
        with pytest.raises(Refusal, match="default_collation"), migration(connection) as op:
            spirit_alter(op, "orders", clauses)
    assert db.query("SHOW CREATE TABLE orders") == before


@pytest.mark.slow
def test_a_collation_that_is_named_or_not_asked_for_refuses_nothing(db, orders):
    """What a statement says itself counts, in a session of any settings."""
    db.execute("ALTER TABLE orders ADD v VARCHAR(9) CHARACTER SET latin1, CHARSET latin1")
    with connected(db) as connection:
        connection.exec_driver_sql("SET SESSION default_collation_for_utf8mb4 = utf8mb4_general_ci")
        with migration(connection) as op:
            spirit_alter(op, "orders", f"CONVERT TO {UTF8MB4} COLLATE utf8mb4_bin")
            spirit_alter(op, "orders", f"DEFAULT {UTF8MB4} COLLATE = utf8mb4_0900_ai_ci")
            spirit_alter(op, "orders", f"ADD w TEXT {UTF8MB4} COLLATE utf8mb4_bin, ADD n TEXT")
            spirit_alter(op, "orders", "MODIFY v VARCHAR(9) COLLATE utf8mb4_bin, ADD t TIMESTAMP")
            spirit_alter(op, "orders", "ADD y TEXT CHARSET 'utf8mb4' COLLATE utf8mb4_bin")
            spirit_alter(op, "orders", "ADD z INT COMMENT 'charset utf8mb4'")
            spirit_alter(op, "orders", "CHARACTER SET = 'utf8mb4', COLLATE = utf8mb4_0900_ai_ci")
            spirit_alter(op, "orders", f"COLLATE utf8mb4_0900_ai_ci, {UTF8MB4}")
    shown = db.query("SHOW CREATE TABLE orders")[0][1]
    assert "general_ci" not in shown
    assert shown.count("utf8mb4_bin") == 3


@pytest.mark.slow
def test_a_zone_that_says_the_same_or_is_not_asked_for_refuses_nothing(db, orders):
    """An application may set its session to UTC, and a change need not have to do with times."""
    db.set_global("time_zone", "+00:00")
    db.execute("ALTER TABLE orders ADD t TIMESTAMP NULL")
    with connected(db) as connection:
        connection.exec_driver_sql("SET SESSION time_zone = 'SYSTEM'")
        with migration(connection) as op:
            spirit_alter(op, "orders", "MODIFY t DATETIME")
        connection.exec_driver_sql("SET SESSION time_zone = '-07:00'")
        with migration(connection) as op:
            spirit_alter(op, "orders", f"{WIDER}, ADD INDEX (t)")
    assert "bigint" in str(db.query("SHOW COLUMNS FROM orders"))


@pytest.mark.slow
def test_zero_dates_are_allowed_under_the_session_s_own_sql_mode(db, orders):
    """The setting takes two modes from those of the session, and leaves the others as they are."""
    db.set_global("sql_mode", "STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_BACKSLASH_ESCAPES")
    args = {"init_command": "SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_DATE'"}
    add = "ADD COLUMN d DATE NOT NULL DEFAULT '0000-00-00', ADD COLUMN c CHAR(9) DEFAULT 'a\\\\b'"
    with connected(db, connect_args=args) as connection:
        with migration(connection, allow_zero_dates="off") as op:
            spirit_alter(op, "orders", "ADD COLUMN e CHAR(9) DEFAULT 'a\\\\b'")
        with migration(connection, allow_zero_dates="true") as op:
            spirit_alter(op, "orders", f"{WIDER}, {add}")
    assert db.query("SELECT DISTINCT d + 0, c, e FROM orders") == [(0, "a\\b", "a\\b")]


def test_a_refusal_ends_the_migration_with_its_remedy(db, orders):
    """The exception has the hint as a note; the table is as it was."""
    with connected(db) as connection:
        with pytest.raises(Refusal, match="foreign key") as refused, migration(connection) as op:
            spirit_alter(op, "orders", "ADD FOREIGN KEY (a) REFERENCES orders (id)")
        with pytest.raises(Refusal, match="not small"), migration(connection) as op:
            _change_two(op)
        with pytest.raises(Refusal, match="dry_run"), migration(connection, dry_run="yes") as op:
            spirit_alter(op, "orders", WIDER)
    (hint,) = (note for note in refused.value.__notes__ if refused.value.hint in note)
    assert hint == f"hint: {refused.value.hint}"
    assert tables(db) == ["orders"]


@pytest.mark.parametrize(
    ("clauses", "why"),
    [
        ("ADD COLUMN b INT /*!80023 INVISIBLE */", "some servers execute"),
        ("RENAME TO o2, MODIFY a BIGINT NOT NULL", "RENAME"),
    ],
)
def test_what_cannot_go_online_is_refused_and_not_sent_as_it_is(db, orders, clauses, why):
    """Where the change was to go online, asked for or by the settings: no ALTER blocks a writer."""
    before = db.query("SHOW CREATE TABLE orders")
    with connected(db) as connection:
        with pytest.raises(Refusal, match=why), migration(connection) as op:
            spirit_alter(op, "orders", clauses)
        with pytest.raises(Refusal, match=why), migration(connection, tables="orders") as op:
            op.execute(f"ALTER TABLE orders {clauses}")
        assert db.query("SHOW CREATE TABLE orders") == before
        # This blocks nobody.
        with migration(connection) as op:
            spirit_alter(op, "orders", "RENAME TO o2")
    assert db.query("SELECT COUNT(*) FROM o2") == [(ROWS,)]


def test_what_was_done_before_stays_though_the_change_is_refused(db, orders):
    """Also where env.py has one transaction around all revisions: any ALTER would commit it.

    So what Alembic has noted about the revisions before this one is not rolled back.
    """
    with connected(db) as connection, pytest.raises(UsageFault), connection.begin():
        _insert_and_change(connection, max_lag="soon")
    assert db.query("SELECT COUNT(*) FROM orders WHERE a = -1") == [(1,)]


def _insert_and_change(connection, **settings):
    with migration(connection, **settings) as op:
        connection.execute(sa.text("INSERT INTO orders (a) VALUES (-1)"))
        spirit_alter(op, "orders", WIDER)


def test_two_phase_commit_is_refused_with_the_way(db, orders):
    """MySQL alters no table inside an XA transaction, and neither commits it by COMMIT."""
    with connected(db) as connection, pytest.raises(Refusal, match="XA") as refused:
        _change_in_two_phases(connection)
    assert "USE_TWOPHASE" in refused.value.hint
    assert tables(db) == ["orders"]


def _change_in_two_phases(connection):
    with connection.begin_twophase(), migration(connection) as op:
        spirit_alter(op, "orders", WIDER)


def _change_two(op):
    with online_alter_table(op, "small") as table:
        table.add_column(sa.Column("b", sa.Integer))
        table.impl.table_name = "orders"
        table.add_column(sa.Column("b", sa.Integer))


@pytest.mark.gtid
def test_another_server_at_the_address_is_refused(db, orders, mysql_file):
    """The change must reach the server that Alembic is connected with (R14)."""
    other = {"host": mysql_file.host, "port": mysql_file.port, "password": mysql_file.password}
    with connected(db) as connection, pytest.raises(AnotherServer):
        _widen(connection, other)
    assert tables(db) == ["orders"]


def _widen(connection, settings):
    with migration(connection, **settings) as op:
        spirit_alter(op, "orders", WIDER)


@pytest.mark.slow
def test_a_schema_that_stands_for_another_is_that_in_what_goes_online(db, orders, caplog):
    """As in what Alembic sends itself (schema_translate_map)."""
    with connected(db) as connection:
        connection.execution_options(schema_translate_map={"tenant": db.name})
        with migration(connection, min_rows=1000) as op:
            op.create_index("by_a", "orders", ["a"], schema="tenant")
    assert [line for line in caplog.messages if "changed (" in line]
    assert "`by_a`" in db.query("SHOW CREATE TABLE orders")[0][1]


def test_a_connection_without_a_schema_has_its_steps_beside_the_versions(db, orders, caplog):
    """There is no other schema for them."""
    server = db.server
    url = f"mysql+mysqldb://{server.user}:{server.password}@{server.host}:{server.port}"
    with sa.create_engine(url, poolclass=sa.pool.NullPool).connect() as connection:
        opts = {"spirit_py": {**QUICK, "min_rows": 1000}, "version_table_schema": db.name}
        op = Operations(MigrationContext.configure(connection=connection, opts=opts))
        op.add_column("orders", sa.Column("note", sa.String(9)), schema=db.name)
        op.execute("DO 0")
    assert [line for line in caplog.messages if "changed (" in line]
    assert "`note`" in db.query("SHOW CREATE TABLE orders")[0][1]
    assert tables(db) == ["orders"]


def test_autogenerate_drops_none_of_our_own_tables(db):
    """While a change is under way, or has failed: no model has its tables, nor their indexes."""
    db.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, a INT, KEY by_a (a, id));"
        " CREATE TABLE _orders_new LIKE orders; CREATE TABLE _orders_old LIKE orders;"
        " CREATE TABLE _orders_0a1b2c LIKE orders; CREATE TABLE _others_new LIKE orders;"
        f" CREATE TABLE _{VERSIONS}_new LIKE orders"
    )
    CheckpointTable(db.name, "orders").make(db)
    with connected(db) as connection:
        context = MigrationContext.configure(connection=connection)
        session = online.FrameworkSession(connection.connection.dbapi_connection)
        steps = StepTable(lambda: session, ("", VERSIONS))
        steps.read(db.name)
        steps.write([])
        found = compare_metadata(context, sa.MetaData())
        of_a_model = {one[1].name for one in found if one[0] == "remove_table"}
        indexed = {one[1].table.name for one in found if one[0] == "remove_index"}
    assert of_a_model == indexed == {"orders", "_others_new"}


def test_autogenerate_knows_those_beside_a_version_table_of_another_schema(db):
    """What was noted of them is in the schema of the connection (R25)."""
    other = f"{db.name}_versions"
    db.execute(f"CREATE DATABASE {other}; CREATE TABLE {other}._{VERSIONS}_new (id INT)")
    try:
        with connected(db) as connection:
            session = online.FrameworkSession(connection.connection.dbapi_connection)
            steps = StepTable(lambda: session, (other, VERSIONS))
            steps.read(db.name)
            steps.write([])
            ours = {
                name
                for name in ((other, f"_{VERSIONS}_new"), (db.name, f"_{VERSIONS}_new"))
                if is_auxiliary(session, name, (other, VERSIONS))
            }
    finally:
        db.execute(f"DROP DATABASE {other}")
    assert ours == {(other, f"_{VERSIONS}_new")}
