"""A framework's migration of several statements, stopped anywhere: the same command resumes."""

from __future__ import annotations

import contextlib
import logging
import signal

import MySQLdb
import pytest
import sqlalchemy as sa
from alembic.config import Config
from alembic.operations import Operations
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from spirit_py import points
from spirit_py.api.running import Running
from spirit_py.checkpoint.codec import FORMAT
from spirit_py.codes import ErrorCode
from spirit_py.errors import Interrupted, Refusal
from spirit_py.frameworks import online
from spirit_py.frameworks import revision as revision_module
from spirit_py.frameworks import steps as steps_module
from spirit_py.frameworks.alembic import spirit_alter
from spirit_py.frameworks.joining import definition_named
from spirit_py.frameworks.steps import NotedVersions, StepTable, digest
from spirit_py.mysql.tables.identity import Identity
from spirit_py.points import VARIABLE
from tests.integration.test_alembic import QUICK, VERSIONS, connected, migration
from tests.kits import example_projects
from tests.kits.alembic_project import AlembicProject
from tests.kits.background import BackgroundCall
from tests.kits.connection import account
from tests.kits.django_project import DjangoProject
from tests.kits.kills import OF_A_REVISION, chosen
from tests.kits.library import ROWS, fill_rows
from tests.kits.point_listener import PointListener
from tests.kits.tables import tables
from tests.kits.waiting import until

LOG = "alembic.spirit_py"
STEPS = "_alembic_version_steps"
LOCKS = "performance_schema.metadata_locks"
ANEW = ("DROP COLUMN a", "ADD COLUMN a INT")
LAST = "CREATE TABLE last (id INT)"
KEY = "CONSTRAINT f FOREIGN KEY (p) REFERENCES small (id)"


class Stopped(Exception):
    """The migration ends here, as by a statement of another table that fails."""


def prepared(db):
    """Make the tables of a migration: a large one, a small one, and one that goes."""
    db.execute("CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, a INT NOT NULL, b INT)")
    fill_rows(db, "INSERT INTO orders (a, b) SELECT i, i FROM {n}")
    db.execute(
        "CREATE TABLE small (id INT PRIMARY KEY); INSERT INTO small VALUES (1);"
        " CREATE TABLE gone (id INT); ANALYZE TABLE orders"
    )


def revision(op, stop_after=99):
    """Run the statements of a migration, up to one."""
    for number, step in enumerate(
        (
            lambda: op.add_column("small", sa.Column("c", sa.Integer)),
            lambda: op.drop_column("orders", "b"),
            lambda: op.add_column("orders", sa.Column("b", sa.String(9))),
            lambda: op.execute("UPDATE orders SET b = 'x' WHERE id = 1"),
            lambda: op.create_index("by_a", "orders", ["a"]),
            lambda: op.create_table("more", sa.Column("id", sa.Integer, primary_key=True)),
            lambda: op.drop_table("gone"),
            lambda: op.alter_column("orders", "a", type_=sa.BigInteger, existing_nullable=False),
        )
    ):
        if number == stop_after:
            raise Stopped
        step()
    op.execute("DO 0")


def run(db, stop_after=99):
    """Run the migration in a process's own connection, as a command does."""
    with connected(db) as connection, migration(connection, min_rows=1000) as op:
        revision(op, stop_after)


def definitions(db):
    """Return the definitions of all tables but Alembic's own."""
    names = [name for name in tables(db) if name != VERSIONS]
    return {name: db.query(f"SHOW CREATE TABLE {name}")[0][1] for name in names}


@pytest.mark.slow
@pytest.mark.draws(2)
@pytest.mark.parametrize("stop_after", [4, 5, 7])
def test_what_is_made_is_passed_over(db, caplog, stop_after):
    """Whatever statement it is, a dropped column that is added again included."""
    caplog.set_level(logging.INFO, logger=LOG)
    prepared(db)
    with pytest.raises(Stopped):
        run(db, stop_after)
    db.execute("INSERT INTO orders (a, b) VALUES (0, 'kept')")
    caplog.clear()
    run(db)
    assert [line for line in caplog.messages if "skipped" in line]
    assert db.query("SELECT b FROM orders WHERE a = 0") == [("kept",)]
    assert db.query("SELECT b FROM orders WHERE id = 1") == [("x",)]
    assert tables(db) == [VERSIONS, "more", "orders", "small"]
    made = definitions(db)
    assert "`a` bigint" in made["orders"]
    assert "by_a" in made["orders"]
    assert "`c` int" in made["small"]


@pytest.mark.slow
def test_a_second_try_of_the_same_connection_passes_over_what_is_made(db):
    """A column that the first one has dropped and added is not dropped again, with its values."""
    prepared(db)
    with connected(db) as connection:
        with pytest.raises(Stopped), migration(connection, min_rows=1000) as op:
            revision(op, 5)
        db.execute("INSERT INTO orders (a, b) VALUES (0, 'kept')")
        with migration(connection, min_rows=1000) as op:
            revision(op)
    assert db.query("SELECT b FROM orders WHERE a = 0") == [("kept",)]
    assert STEPS not in tables(db)


@pytest.mark.parametrize("code", [1053, 1598])
def test_a_statement_with_an_unknown_outcome_is_not_taken_for_refused(db, code):
    """It stays noted: the next run looks whether making it again would be harmful."""
    prepared(db)

    def fail(_connection, _cursor, statement, *_):
        if "DROP TABLE gone" in statement:
            raise MySQLdb.OperationalError(code, "after it was made")

    def change(connection):
        with migration(connection, min_rows=1000) as op:
            op.drop_column("orders", "b")
            op.drop_table("gone")

    with connected(db) as connection:
        sa.event.listen(connection, "after_cursor_execute", fail)
        with pytest.raises(sa.exc.OperationalError, match="after it was made"):
            change(connection)
    assert db.query(f"SELECT record ->> '$.made' FROM {STEPS} ORDER BY id") == [
        ("true",),
        ("false",),
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE small ADD COLUMN c INT",
        "CREATE INDEX by_id ON small (id)",
        "CREATE TABLE last (id INT)",
        "DROP TABLE gone",
        "RENAME TABLE gone TO last",
        "ALTER TABLE gone RENAME TO last",
    ],
)
def test_a_plain_statement_that_was_made_and_not_noted_is_passed_over(db, statement):
    """Its table shows it, as after an online change; a later stop finds it noted."""
    prepared(db)

    def fail(_connection, _cursor, sent, *_):
        if sent == statement:
            raise MySQLdb.OperationalError(1053, "after it was made")

    def change(*, fails=False, stops=False):
        with connected(db) as connection:
            if fails:
                sa.event.listen(connection, "after_cursor_execute", fail)
            with migration(connection) as op:
                spirit_alter(op, "small", "ADD COLUMN first INT")
                op.execute(statement)
                if stops:
                    raise Stopped

    with pytest.raises(sa.exc.OperationalError, match="after it was made"):
        change(fails=True)
    made = definitions(db)
    with pytest.raises(Stopped):
        change(stops=True)
    change()
    assert definitions(db) == {name: made[name] for name in made if name != STEPS}


def test_tables_that_were_perhaps_exchanged_are_not_exchanged_back(db):
    """No definition shows whether a RENAME that was begun has been made."""
    prepared(db)
    db.execute("INSERT INTO gone VALUES (7); ALTER TABLE gone ADD PRIMARY KEY (id)")

    def fail(_connection, _cursor, statement, *_):
        if statement.startswith("RENAME"):
            raise MySQLdb.OperationalError(1053, "after it was made")

    def change(*, fails):
        with connected(db) as connection:
            if fails:
                sa.event.listen(connection, "after_cursor_execute", fail)
            with migration(connection, min_rows=1000) as op:
                op.drop_column("orders", "b")
                op.execute(f"RENAME TABLE small TO x, `{db.name}`.gone TO small, x TO gone")

    with pytest.raises(sa.exc.OperationalError, match="after it was made"):
        change(fails=True)
    with pytest.raises(Refusal, match="exchange the tables again"):
        change(fails=False)
    assert db.query("SELECT id FROM small") == [(7,)]


@pytest.mark.slow
def test_the_next_migration_passes_over_nothing(db, caplog):
    """Its statements are its own, though they are the same as those of the one before."""
    caplog.set_level(logging.INFO, logger=LOG)
    prepared(db)
    for _ in range(2):
        with connected(db) as connection, migration(connection, min_rows=1000) as op:
            op.drop_column("orders", "b")
            op.add_column("orders", sa.Column("b", sa.String(9)))
        db.execute("UPDATE orders SET b = 'x'")
    assert not [line for line in caplog.messages if "skipped" in line]
    assert STEPS not in tables(db)


@pytest.mark.slow
def test_a_migration_that_was_edited_is_carried_out_as_it_is_now(db, caplog):
    """What was made and does not come any more stays, and is said."""
    caplog.set_level(logging.INFO, logger=LOG)
    prepared(db)
    with pytest.raises(Stopped):
        run(db, 5)
    with connected(db) as connection, migration(connection, min_rows=1000) as op:
        op.add_column("small", sa.Column("c", sa.Integer))
        op.add_column("orders", sa.Column("z", sa.String(9)))
    assert [line for line in caplog.messages if "this run lacks" in line]
    assert {"`z` varchar(9)", "`b` varchar(9)"} <= {
        one.strip().split(" DEFAULT")[0] for one in definitions(db)["orders"].splitlines()
    }


@pytest.mark.parametrize("drops", [True, False])
def test_what_a_run_does_not_send_again_is_kept_but_for_what_dropped_an_index(db, drops):
    """A revision may ask what is there; what follows is passed over, and a lost index is named."""
    prepared(db)
    db.execute("ALTER TABLE small ADD COLUMN p INT, ADD INDEX by_p (p)")

    def change(stop_after, *, guarded):
        with connected(db) as connection, migration(connection, min_rows=1000) as op:
            if not guarded and drops:
                op.drop_index("by_p", "small")
            elif not guarded:
                op.add_column("small", sa.Column("c", sa.Integer))
            op.drop_column("orders", "b")
            op.execute("DO 0")
            if stop_after:
                raise Stopped

    with pytest.raises(Stopped):
        change(True, guarded=False)
    if drops:
        with pytest.raises(Refusal, match="does not send, so nothing may bring back") as refused:
            change(False, guarded=True)
        assert "ADD KEY `by_p` (`p`)" in refused.value.hint
        db.execute(refused.value.hint.partition(",")[0])
    change(False, guarded=True)
    assert STEPS not in tables(db)
    assert ("`c` int" in definitions(db)["small"]) is not drops


@pytest.mark.slow
def test_ctrl_c_while_a_new_foreign_key_is_looked_at_leaves_what_came_before_it_made(
    db, monkeypatch
):
    """The key is in the definition, and no form shows that: nobody else has changed the table."""
    prepared(db)
    db.execute("UPDATE orders SET a = 1")

    def change():
        with connected(db) as connection, migration(connection, min_rows=1000) as op:
            op.create_index("by_a", "orders", ["a"])
            op.create_foreign_key("f", "orders", "small", ["a"], ["id"])

    def ctrl_c(point):
        if point == "orphans.chunk":
            raise Interrupted(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(points, "reach", ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            change()
    assert "CONSTRAINT" in definitions(db)["orders"]
    change()
    assert STEPS not in tables(db)


def test_a_table_that_somebody_else_has_changed_since_is_not_guessed_about(db):
    """The refusal says how to go on."""
    prepared(db)
    with pytest.raises(Stopped):
        run(db, 5)
    db.execute("ALTER TABLE orders ADD COLUMN foreign_hand INT")
    other = f"JSON_SET(record, '$.history', 'other:{digest([])}', '$.number', 99)"
    db.execute(f"INSERT INTO {STEPS} SELECT 99, {other} FROM {STEPS} WHERE id = 0")
    with pytest.raises(Refusal, match="changed since by another session") as refused:
        run(db)
    assert "alembic stamp" in refused.value.hint
    # Begun anew, it leaves what is another migration's.
    db.execute(refused.value.hint.partition("begin it anew: ")[2])
    assert db.query(f"SELECT id FROM {STEPS}") == [(99,)]


@pytest.mark.slow
def test_what_another_version_has_noted_is_never_executed_again(db):
    """The application's writes since would be lost; all stays, and the refusal says what to do."""
    prepared(db)
    with pytest.raises(Stopped):
        run(db, 5)
    before = definitions(db)
    db.execute(f"UPDATE {STEPS} SET record = JSON_SET(record, '$.format', 99)")
    with pytest.raises(Refusal, match="it has format 99") as refused:
        run(db)
    assert refused.value.error_code == ErrorCode.CHECKPOINT_UNREADABLE
    assert f"`{STEPS}`" in refused.value.hint
    assert f"hint: {refused.value.hint}" in refused.value.__notes__
    assert definitions(db) == before
    db.execute(f"UPDATE {STEPS} SET record = JSON_SET(record, '$.format', {FORMAT})")
    run(db)
    assert STEPS not in tables(db)


def test_a_session_that_was_killed_just_now_gives_up_the_steps_in_a_moment(db, monkeypatch):
    """The server takes as long to end it."""
    monkeypatch.setattr(steps_module, "LAST_RUN_SECONDS", 60.0)
    with connected(db) as one, connected(db) as another:
        held, wanted = _steps_of(db, one), _steps_of(db, another)
        assert held.hold()
        number = another.connection.dbapi_connection.thread_id()
        call = BackgroundCall(wanted.hold)
        waits = "SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE = 'User lock' AND ID = "
        until(lambda: db.query(f"{waits}{number}"), "the other session to wait")
        db.kill(one.connection.dbapi_connection.thread_id())
        assert call.result()
        one.invalidate()


def test_a_session_that_waits_for_what_this_one_has_read_keeps_the_steps(db, monkeypatch):
    """The server ends the wait as a deadlock (3058): another works on it, as after any wait."""
    monkeypatch.setattr(steps_module, "LAST_RUN_SECONDS", 60.0)
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    with connected(db) as one, connected(db) as another:
        held, wanted = _steps_of(db, one), _steps_of(db, another)
        assert held.hold()
        reading = online.FrameworkSession(another.connection.dbapi_connection)
        reading.query("SELECT * FROM t")
        altering = online.FrameworkSession(one.connection.dbapi_connection)
        call = BackgroundCall(lambda: altering.query("ALTER TABLE t ADD c INT"))
        until(lambda: db.query(f"SELECT 1 FROM {LOCKS} WHERE LOCK_STATUS = 'PENDING'"), "the ALTER")
        assert not wanted.hold()
        reading.commit()
        assert call.result() == []


def test_a_table_of_a_schema_with_a_dot_is_found_by_its_step(db):
    """Nothing says where the schema ends, and the account is refused a look at any other one."""
    schema = f"{db.name}.x"
    db.execute(f"CREATE DATABASE `{schema}`; CREATE TABLE `{schema}`.`t.y` (id INT)")
    try:
        with account(db, f"ALL ON `{schema}`.*") as own:
            given = {"port": own.port, "user": own.user, "password": own.password}
            with contextlib.closing(MySQLdb.connect(own.host, **given)) as connection:
                session = online.FrameworkSession(connection)
                found = definition_named(session, f"{schema}.t.y")
                assert found.startswith("CREATE TABLE `t.y`")
                assert definition_named(session, f"{schema}.t") == ""
    finally:
        db.execute(f"DROP DATABASE `{schema}`")


def _steps_of(db, connection):
    session = online.FrameworkSession(connection.connection.dbapi_connection)
    kept = StepTable(lambda: session, ("", VERSIONS))
    kept.read(db.name)
    return kept


def test_a_refusal_that_a_revision_catches_refuses_its_next_statement_too(db, monkeypatch):
    """What another process has noted is neither executed again nor written over."""
    prepared(db)
    with pytest.raises(Stopped):
        run(db, 5)
    before = db.query(f"SELECT * FROM {STEPS}")
    with connected(db) as connection, connected(db) as another:
        assert _steps_of(db, another).hold()
        op = Operations(MigrationContext.configure(connection=connection))
        monkeypatch.setattr(steps_module, "LAST_RUN_SECONDS", 0.0)
        for name in ("c", "d"):
            with pytest.raises(Refusal, match="another process works on a migration") as refused:
                op.add_column("small", sa.Column(name, sa.Integer))
        number = another.connection.dbapi_connection.thread_id()
        assert refused.value.hint.endswith(f"KILL {number}")
    assert db.query(f"SELECT * FROM {STEPS}") == before


def test_steps_that_cannot_be_written_stay_as_they_were(db):
    """A program that goes on after the error commits nothing of it with its next statement."""
    prepared(db)
    with pytest.raises(Stopped):
        run(db, 5)
    before = db.query(f"SELECT * FROM {STEPS}")
    with connected(db) as connection:
        session = online.FrameworkSession(connection.connection.dbapi_connection)
        kept = StepTable(lambda: session, ("", VERSIONS))
        first = kept.read(db.name)[0]
        with pytest.raises(MySQLdb.IntegrityError):
            kept.write([first, first])
        session.query("CREATE TABLE another (id INT)")
    assert db.query(f"SELECT * FROM {STEPS}") == before


def test_what_another_version_has_noted_of_a_swap_of_versions_is_kept(db):
    """Its row alone keeps the table of steps too: it proves whose the framework's tables are."""
    prepared(db)
    with pytest.raises(Stopped):
        run(db, 5)
    db.execute(f"UPDATE {STEPS} SET id = -1, record = '{{\"format\": 99}}' WHERE id = 0")
    db.execute(f"DELETE FROM {STEPS} WHERE id > 0")
    with pytest.raises(Refusal, match="it has format 99"):
        run(db)
    assert STEPS in tables(db)


def test_a_change_that_is_refused_leaves_what_was_noted_of_a_swap_of_versions(db):
    """Of a revision that was to happen as a whole before: it proves whose its tables are."""
    prepared(db)
    number = Identity(server="u", numbers=frozenset({7}))
    with connected(db) as connection:
        session = online.FrameworkSession(connection.connection.dbapi_connection)
        kept = StepTable(lambda: session, ("", VERSIONS))
        kept.read(db.name)
        kept.write_versions(NotedVersions(before=number, after=number, tables=()))
    with pytest.raises(Refusal, match="Duplicate column"):
        _add(db, "a")
    assert db.query(f"SELECT id FROM {STEPS} WHERE id < 0") == [(-1,)]


def test_what_nobody_has_noted_is_said_with_the_way_out(db):
    """A column that is there already, without a step of ours: the server's own error, and stamp."""
    prepared(db)
    db.execute("ALTER TABLE small ADD COLUMN c INT")
    with pytest.raises(sa.exc.OperationalError, match="Duplicate column") as failed:
        run(db)
    assert any("alembic stamp" in note for note in failed.value.__notes__)
    db.execute("ALTER TABLE orders ADD COLUMN b2 INT")
    with pytest.raises(Refusal, match="Duplicate column") as refused:
        _add(db, "b2")
    assert any("alembic stamp" in note for note in refused.value.__notes__)
    assert STEPS not in tables(db)


def _add(db, name):
    with connected(db) as connection, migration(connection, min_rows=1000) as op:
        op.add_column("orders", sa.Column(name, sa.Integer))


@pytest.mark.slow
def test_neighbours_become_one_alter_where_that_makes_the_same(db, caplog):
    """Rows are copied once; another statement, or one that cannot be joined, comes between."""
    caplog.set_level(logging.INFO, logger=LOG)
    prepared(db)
    with connected(db) as connection, migration(connection, min_rows=1000) as op:
        op.alter_column("orders", "a", type_=sa.BigInteger, existing_nullable=False)
        op.create_index("by_a", "orders", ["a"])
        op.drop_column("orders", "b")
        op.add_column("orders", sa.Column("d", sa.Integer, server_default="5"))
        # The server does not join these two: the first one makes the column.
        op.alter_column("orders", "d", server_default="6", existing_type=sa.Integer)
    joined = [line for line in caplog.messages if "become one" in line]
    assert len(joined) == 1
    assert "4 statements" in joined[0]
    assert len([line for line in caplog.messages if "changed (" in line]) == 2
    assert db.query("SELECT DISTINCT d FROM orders") == [(5,)]
    assert db.query("SELECT COUNT(*) FROM orders") == [(ROWS,)]
    assert "`d` int DEFAULT '6'" in definitions(db)["orders"]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [0, 9])
@pytest.mark.parametrize("point", ["chunk.committed", "revision.made"])
def test_what_was_begun_online_goes_on_so_though_the_table_is_small_by_now(
    db, monkeypatch, caplog, point, rows
):
    """A plain ALTER would block beside a copy, and fail where two have become one."""
    caplog.set_level(logging.INFO, logger=LOG)
    prepared(db)

    def change():
        with connected(db) as connection, migration(connection, min_rows=1000) as op:
            op.alter_column("orders", "a", type_=sa.BigInteger, existing_nullable=False)
            op.add_column("orders", sa.Column("d", sa.Integer))

    def stop(reached):
        if reached == point:
            raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(points, "reach", stop)
        with pytest.raises(Stopped):
            change()
    db.execute(f"DELETE FROM orders WHERE id > {rows}")
    db.execute("ANALYZE TABLE orders")
    caplog.clear()
    change()
    assert any("skipped" in one or "changed (copy" in one for one in caplog.messages)
    assert "`d` int" in definitions(db)["orders"]
    assert tables(db) == [VERSIONS, "gone", "orders", "small"]


def test_a_migration_that_fails_sends_nothing_of_what_waits(db):
    """An exception after an operation that waits: as if it had come before it."""
    prepared(db)
    before = definitions(db)
    with pytest.raises(Stopped), connected(db) as connection:
        _fail_after_adding(connection)
    assert definitions(db) == before


def _fail_after_adding(connection):
    with migration(connection, min_rows=1000) as op:
        op.add_column("orders", sa.Column("c", sa.Integer))
        raise Stopped


@pytest.mark.slow
def test_a_failure_that_a_revision_catches_ends_it_all_the_same(db):
    """What waited has failed at the next statement: nothing is noted as if it had been made."""
    prepared(db)
    with pytest.raises(Refusal, match="Duplicate column"), connected(db) as connection:
        _catch_the_failure(connection)
    assert VERSIONS not in tables(db)
    run(db)


def _catch_the_failure(connection):
    with migration(connection, min_rows=1000) as op:
        op.add_column("orders", sa.Column("a", sa.Integer))
        with contextlib.suppress(Exception):
            op.execute("DROP INDEX missing ON small")


def test_a_connection_that_is_closed_has_sent_what_waits(db):
    """No rollback takes DDL back in MySQL, and so it loses none here."""
    prepared(db)
    with connected(db) as connection:
        opts = {"spirit_py": {"min_rows": 1000, "threads": 1}}
        context = MigrationContext.configure(connection=connection, opts=opts)
        Operations(context).add_column("orders", sa.Column("c", sa.Integer))
    assert "`c` int" in definitions(db)["orders"]


@contextlib.contextmanager
def stopped_once_changed(monkeypatch):
    """Have an online change be made, and its process end before it is noted."""

    def change(*arguments, **more):
        online.change(*arguments, **more)
        raise Stopped

    with monkeypatch.context() as stopping:
        stopping.setattr(revision_module, "change", change)
        with pytest.raises(Stopped):
            yield


def alter(db, *all_clauses, sql_mode=""):
    """Alter a large table online, in a session of its own, by a command that may be run again."""
    args = {"init_command": f"SET SESSION sql_mode = '{sql_mode}'"} if sql_mode else {}
    with (
        connected(db, connect_args=args) as connection,
        migration(connection, tables="t") as op,
    ):
        op.add_column("small", sa.Column("c", sa.Integer))
        for clauses in all_clauses:
            op.spirit_alter("t", clauses, allow_data_loss=True)
        op.execute("DO 0")


@pytest.mark.parametrize(
    ("rest", "sql_mode"),
    [
        ("FULLTEXT KEY f (s))", ""),
        ("KEY k (s)) ROW_FORMAT=COMPRESSED PARTITION BY HASH (id) PARTITIONS 2", ""),
        (f"d DATE NOT NULL DEFAULT '0000-00-00', {KEY})", "ANSI"),
    ],
)
def test_what_no_temporary_table_can_have_does_not_make_a_change_be_made_twice(
    db, monkeypatch, rest, sql_mode
):
    """Names that were exchanged are not exchanged back, by the command that is said to resume."""
    db.execute("CREATE TABLE small (id INT PRIMARY KEY); INSERT INTO small VALUES (1)")
    db.execute("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'")
    db.execute(f"CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, p INT, s VARCHAR(9), {rest}")
    db.execute("INSERT INTO t (id, a, b) VALUES (1, 1, 2)")
    swap = "RENAME COLUMN a TO b, RENAME COLUMN b TO a"
    with stopped_once_changed(monkeypatch):
        alter(db, swap, sql_mode=sql_mode)
    assert db.query("SELECT a, b FROM t") == [(2, 1)]
    alter(db, swap, sql_mode=sql_mode)
    assert db.query("SELECT a, b FROM t") == [(2, 1)]
    assert STEPS not in tables(db)


@pytest.mark.slow
@pytest.mark.parametrize(
    "clauses", ["COALESCE PARTITION 1", "TRUNCATE PARTITION p0", "DROP COLUMN a, ADD COLUMN a INT"]
)
def test_what_may_be_made_is_not_made_again_where_that_means_something_else(
    db, monkeypatch, clauses
):
    """The refusal says how to go on; after a change that was refused nothing is in doubt."""
    db.execute("CREATE TABLE small (id INT PRIMARY KEY); INSERT INTO small VALUES (1)")
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT) PARTITION BY HASH (id) PARTITIONS 4")
    db.execute("INSERT INTO t (id, a) VALUES (1, 1), (2, 2), (3, 3), (4, 4)")

    def refuse(*_, **__):
        raise Refusal("not now")

    with monkeypatch.context() as refusing:
        refusing.setattr(revision_module, "change", refuse)
        with pytest.raises(Refusal, match="not now"):
            alter(db, clauses)
    with stopped_once_changed(monkeypatch):
        alter(db, clauses)
    db.execute("REPLACE INTO t (id, a) VALUES (4, 5)")
    made, rows = definitions(db)["t"], db.query("SELECT * FROM t ORDER BY id")
    with pytest.raises(Refusal, match="may have made") as refused:
        alter(db, clauses)
    assert (definitions(db)["t"], db.query("SELECT * FROM t ORDER BY id")) == (made, rows)
    assert "alembic stamp" in refused.value.hint
    assert f"DELETE FROM {STEPS} WHERE id = 1" in refused.value.hint
    db.execute(f"DELETE FROM {STEPS} WHERE id = 1")
    alter(db, clauses)
    assert STEPS not in tables(db)


@pytest.mark.slow
def test_what_is_made_when_ctrl_c_comes_is_noted(db, monkeypatch):
    """So that the command does pass over it, as it has said."""
    db.execute("CREATE TABLE small (id INT PRIMARY KEY); INSERT INTO small VALUES (1)")
    db.execute("CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 4")
    db.execute("INSERT INTO t VALUES (1), (2), (3)")

    def ctrl_c(running, _seconds):
        until(lambda: not running.running, "the end of the change")
        raise KeyboardInterrupt

    with monkeypatch.context() as stopping:
        stopping.setattr(Running, "next_event", ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            alter(db, "COALESCE PARTITION 1")
    alter(db, "COALESCE PARTITION 1")
    assert "PARTITIONS 3" in definitions(db)["t"]
    assert STEPS not in tables(db)


def _filled_example(db, framework):
    """Return an example after its first migration, with rows, and the command for the rest."""
    shop = getattr(example_projects, f"shop_of_{framework}")(db)
    command = {"alembic": ("upgrade", "head"), "django": ("migrate", "shop")}[framework]
    first = {"alembic": ("upgrade", "0001"), "django": ("migrate", "shop", "0001")}[framework]
    insert = {
        "alembic": "INSERT INTO orders (customer, amount, remark) SELECT i % 97, 0, 'r' FROM {n}",
        "django": "INSERT INTO shop_order (number, amount, remark) SELECT i, 0, 'r' FROM {n}",
    }[framework]
    shop.run(*first)
    fill_rows(db, insert, 12_000)
    db.execute(f"ANALYZE TABLE {shop.table}")
    return shop, command


@contextlib.contextmanager
def held(project, tmp_path, point):
    """Have an upgrade to a branch that waits at a point; it comes to a good end after that."""
    with PointListener(tmp_path / "points") as listener:
        hold = listener.hold(point)
        process = project.start("upgrade", "one", **{VARIABLE: str(listener.path)})
        _wait(hold, process)
        assert process.poll() is None, process.communicate()[0]
        try:
            yield
        finally:
            hold.release()
            output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output


@pytest.fixture
def branches(db, tmp_path):
    """Two branches of one project: of a table with rows, and of another table."""
    db.execute("CREATE TABLE orders (id INT PRIMARY KEY, a INT); INSERT INTO orders VALUES (1, 1)")
    db.execute(f"CREATE TABLE {VERSIONS} (version_num VARCHAR(36) NOT NULL PRIMARY KEY)")
    project = AlembicProject(db, tmp_path / "project", **QUICK)
    changes = [f"spirit_alter(op, 'orders', {one!r})" for one in ANEW]
    project.add("one", None, [*changes, f"op.execute('{LAST}')"])
    project.add("two", None, ("op.create_table('more', sa.Column('id', sa.Integer))",))
    return project


@pytest.fixture
def failed(db, branches):
    """The same, after the first one has failed behind its changes."""
    db.execute(LAST)
    assert branches.run("upgrade", "one")[0]
    return branches


@pytest.mark.slow
@pytest.mark.parametrize("target", ["one", "two"])
def test_what_a_living_process_has_noted_is_kept_from_all_others(db, branches, tmp_path, target):
    """The same command, and one of another branch: it is refused before it does anything."""
    with held(branches, tmp_path, "revision.begun"):
        noted = db.query(f"SELECT * FROM {STEPS}")
        code, output = branches.run("upgrade", target)
        assert code
        assert "another process works on a migration" in output
        assert db.query(f"SELECT * FROM {STEPS}") == noted
    assert db.query(f"SELECT * FROM {VERSIONS}") == [("one",)]
    code, output = branches.run("upgrade", target)
    assert code == 0, output
    assert STEPS not in tables(db)


@pytest.mark.slow
def test_another_branch_that_is_noted_voids_nothing_of_a_revision_that_has_failed(db, failed):
    """A column that it has dropped and added is not dropped again, with its values."""
    db.execute("UPDATE orders SET a = 7; DROP TABLE last")
    code, output = failed.run("upgrade", "two")
    assert code == 0, output
    assert db.query(f"SELECT COUNT(*) FROM {STEPS}") == [(2,)]
    code, output = failed.run("upgrade", "heads")
    assert code == 0, output
    assert db.query("SELECT a FROM orders") == [(7,)]
    assert STEPS not in tables(db)


@pytest.mark.slow
def test_a_branch_that_goes_on_voids_nothing_of_a_revision_that_depends_on_it(db, branches):
    """What it depends on is no part of it, so what is noted of that may change."""
    with (branches.folder / "versions" / "one.py").open("a") as file:
        file.write("depends_on = 'two'\n")
    db.execute(LAST)
    assert branches.run("upgrade", "one")[0]
    assert db.query(f"SELECT * FROM {VERSIONS}") == [("two",)]
    db.execute("UPDATE orders SET a = 7; DROP TABLE last")
    branches.add("three", "two", ("pass",))
    for target in ("three", "heads"):
        code, output = branches.run("upgrade", target)
        assert code == 0, output
    assert db.query("SELECT a FROM orders") == [(7,)]
    assert STEPS not in tables(db)


@pytest.mark.slow
@pytest.mark.parametrize("table", ["t", f"{VERSIONS}_t"])
def test_steps_of_another_branch_commit_nothing_of_a_transaction(db, failed, table):
    """What a revision sends after its savepoint can still be taken back to it."""
    db.execute(f"CREATE TABLE {table} (id INT)")
    inserts = [f"op.execute('INSERT INTO {table} VALUES ({n})')" for n in (1, 2)]
    begun = "begun = op.get_bind().begin_nested()"
    failed.add("two", None, (begun, *inserts, "begun.rollback()"))
    code, output = failed.run("upgrade", "two")
    assert code == 0, output
    assert db.query(f"SELECT COUNT(*) FROM {table}") == [(0,)]
    assert db.query(f"SELECT COUNT(*) FROM {STEPS}") == [(2,)]


@pytest.mark.slow
def test_a_process_that_lives_on_keeps_nobody_from_the_steps_of_another_migration(db, failed):
    """Its connection stays open, as in a pool, after its own migration is noted."""
    with connected(db) as connection:
        with migration(connection) as op:
            op.create_table("more", sa.Column("id", sa.Integer))
        assert db.query(
            "SELECT OBJECT_NAME FROM performance_schema.metadata_locks"
            " WHERE OBJECT_NAME LIKE 'spirit-py:steps:%'"
        ) == []  # fmt: skip
        assert STEPS in tables(db)


def test_a_connection_that_has_run_a_command_has_no_migration_any_more(db, branches):
    """What a program asks of it is made each time, and nobody is kept from the steps meanwhile."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2")
    config = Config(branches.folder / "alembic.ini")
    script = ScriptDirectory.from_config(config)
    run = EnvironmentContext(config, script, fn=lambda rev, _: script._upgrade_revs("two", rev))
    with connected(db) as connection:
        with run:
            run.configure(connection=connection)
            with run.begin_transaction():
                run.run_migrations()
        for _ in range(2):
            db.execute("REPLACE INTO t VALUES (1), (2)")
            op = Operations(MigrationContext.configure(connection))
            spirit_alter(op, "t", "TRUNCATE PARTITION p0", allow_data_loss=True)
            assert db.query("SELECT id FROM t") == [(1,)]
            assert not db.query(f"SELECT 1 FROM {LOCKS} WHERE OBJECT_NAME REGEXP ':steps:'")
    assert "more" in tables(db)


@pytest.mark.slow
def test_after_an_atomic_revision_nobody_is_kept_from_the_steps_of_another(db, failed):
    """Its connection lives on, and the other's command may come at any time."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    change = "    op.add_column('t', sa.Column('n', sa.Integer))"
    failed.add("two", None, ("with atomic_revision(op):", change))
    locks = f"SELECT 1 FROM {LOCKS} WHERE OBJECT_NAME REGEXP ':steps:'"
    with (failed.folder / "env.py").open("a") as file:
        file.write(f'    print("held:", connection.exec_driver_sql("{locks}").all())\n')
    code, output = failed.run("upgrade", "two")
    assert code == 0, output
    assert "held: []" in output
    assert db.query(f"SELECT COUNT(*) FROM {STEPS}") == [(2,)]


@pytest.mark.slow
def test_a_revision_that_is_stamped_leaves_nothing(db, failed):
    """Its steps are dropped by the stamp itself."""
    assert STEPS in tables(db)
    code, output = failed.run("stamp", "one")
    assert code == 0, output
    assert STEPS not in tables(db)


@pytest.fixture
def applications(db, tmp_path):
    """A project of two applications, of which one has failed after it has changed a table."""
    project = DjangoProject(db, tmp_path / "django", ("shop", "users"), **QUICK)
    model = "migrations.CreateModel({!r}, [('id', models.AutoField(primary_key=True))])"
    changes = [f"SpiritAlter('orders', {one!r})" for one in ANEW]
    project.add("0001", "", (model.format("Other"),), atomic=False)
    project.add("0002", "0001", [*changes, f"migrations.RunSQL('{LAST}')"], atomic=False)
    project.add("0001", "", (model.format("User"),), atomic=False, app="users")
    db.execute("CREATE TABLE orders (id INT PRIMARY KEY, a INT); INSERT INTO orders VALUES (1, 1)")
    db.execute(LAST)
    assert project.run("migrate", "shop")[0]
    db.execute("UPDATE orders SET a = 7; DROP TABLE last")
    return project


@pytest.mark.slow
def test_another_application_that_is_noted_voids_nothing_of_a_migration_that_has_failed(
    db, applications
):
    """As it is with branches; and Django's own note of the migration, or a fake, ends it."""
    code, output = applications.run("migrate", "users")
    assert code == 0, output
    assert db.query("SELECT COUNT(*) FROM _django_migrations_steps") == [(2,)]
    code, output = applications.run("migrate")
    assert code == 0, output
    assert db.query("SELECT a FROM orders") == [(7,)]
    assert "_django_migrations_steps" not in tables(db)


@pytest.mark.slow
def test_steps_of_another_application_commit_nothing_of_a_transaction(db, applications):
    """Rows of RunPython are rolled back whole, and its savepoints are there to its end."""
    users = "apps.get_model('users', 'User').objects"
    fill = f"[{users}.update_or_create(id=n) for n in (1, 2)] + [int('stopped')]"
    operation = f"migrations.RunPython(lambda apps, _: {fill})"
    applications.add("0002", "0001", (operation,), atomic=False, app="users")
    code, output = applications.run("migrate", "users")
    assert code
    assert "invalid literal for int() with base 10: 'stopped'" in output
    assert db.query("SELECT COUNT(*) FROM users_user") == [(0,)]
    assert db.query("SELECT COUNT(*) FROM _django_migrations_steps") == [(2,)]


@pytest.mark.slow
@pytest.mark.parametrize("replaces", [[], [("alpha", "0000")]])
def test_applications_are_told_apart_in_the_order_in_which_they_are_migrated(
    db, tmp_path, replaces
):
    """That of a command's plan is another one; and a squashed one is noted by other names."""
    project = DjangoProject(db, tmp_path, ("alpha", "beta", "gamma"), **QUICK)
    changes = [f"SpiritAlter('orders', {one!r})" for one in ANEW]
    first = ("SpiritAlter('small', 'ADD COLUMN c INT')",)
    project.add("0001", "", first, atomic=False, app="alpha")
    operations = [*changes, f"migrations.RunSQL('{LAST}')"]
    project.add("0001", "", operations, atomic=False, app="beta")
    project.add("0001", "", (), atomic=False, app="gamma")
    more = {
        "alpha": f"replaces = {replaces}",
        "gamma": "dependencies = [('beta', '0001'), ('alpha', '0001')]",
    }
    for app, line in more.items():
        with (tmp_path / app / "migrations" / "0001.py").open("a") as file:
            file.write(f"    {line}\n")
    db.execute("CREATE TABLE orders (id INT PRIMARY KEY, a INT); INSERT INTO orders VALUES (1, 1)")
    db.execute(f"CREATE TABLE small (id INT PRIMARY KEY); INSERT INTO small VALUES (1); {LAST}")
    assert project.run("migrate", "gamma")[0]
    db.execute("UPDATE orders SET a = 7; DROP TABLE last")
    code, output = project.run("migrate", "gamma")
    assert code == 0, output
    assert db.query("SELECT a FROM orders") == [(7,)]
    assert "_django_migrations_steps" not in tables(db)


EACH = """
engine = sa.create_engine({url}, poolclass=sa.pool.NullPool)
with engine.connect() as connection:
    for versions, database in {each}:
        connection.exec_driver_sql("USE " + database)
        connection.commit()
        context.configure(connection=connection, spirit_py={settings}, version_table=versions)
        with context.begin_transaction():
            context.run_migrations()
"""


def of_each(project, *each):
    """Have a command work on several version tables or schemas by one connection."""
    env = project.folder / "env.py"
    head, _, rest = env.read_text().partition("engine = ")
    url = rest.partition("(")[2].partition(",")[0]
    env.write_text(head + EACH.format(url=url, each=each, settings=QUICK))


@pytest.mark.slow
def test_each_version_table_of_one_connection_has_its_own_versions(db, branches):
    """An atomic revision of the second one is noted there, though the first one came before."""
    db.execute("CREATE TABLE more (id INT PRIMARY KEY)")
    table = f"'orders' if op.get_context().version_table == {VERSIONS!r} else 'more'"
    change = f"    op.add_column({table}, sa.Column('n', sa.Integer))"
    branches.add("one", None, ("with atomic_revision(op):", change))
    of_each(branches, (VERSIONS, db.name), ("other_version", db.name))
    code, output = branches.run("upgrade", "one")
    assert code == 0, output
    assert db.query(f"SELECT * FROM {VERSIONS}") == [("one",)]
    assert db.query("SELECT * FROM other_version") == [("one",)]
    assert tables(db) == [VERSIONS, "more", "orders", "other_version"]


@pytest.mark.slow
def test_each_schema_of_one_connection_has_its_own_steps(db, branches):
    """What has failed in one of them resumes, and the other has nothing to do with it."""
    other = f"{db.name}_other"
    db.execute(f"CREATE DATABASE {other}")
    try:
        db.execute(f"CREATE TABLE {other}.{VERSIONS} LIKE {VERSIONS}; {LAST}")
        db.execute(f"CREATE TABLE {other}.orders LIKE orders")
        db.execute(f"INSERT INTO {other}.orders SELECT * FROM orders")
        of_each(branches, (VERSIONS, db.name), (VERSIONS, other))
        assert branches.run("upgrade", "one")[0]
        of_each(branches, (VERSIONS, other), (VERSIONS, db.name))
        assert branches.run("upgrade", "one")[0]
        assert db.query(f"SELECT * FROM {other}.{VERSIONS}") == [("one",)]
        db.execute("DROP TABLE last; UPDATE orders SET a = 7")
        code, output = branches.run("upgrade", "one")
        assert code == 0, output
        assert db.query("SELECT a FROM orders") == [(7,)]
        assert db.query(f"SELECT a FROM {other}.orders") == [(None,)]
        assert STEPS not in tables(db)
    finally:
        db.execute(f"DROP DATABASE {other}")


@pytest.mark.slow
def test_while_an_old_table_waits_for_its_time_other_commands_go_on(db, branches, tmp_path):
    """What a swap has left is finished by the process that made it, however long that takes."""
    change = "    op.spirit_alter('orders', 'ADD COLUMN n INT', drop_old_after='3s')"
    branches.add("one", None, ("with atomic_revision(op):", change))
    with held(branches, tmp_path, "cutover.renamed"):
        for command in (("current",), ("upgrade", "one")):
            code, output = branches.run(*command)
            assert code == 0, output
    assert tables(db) == [VERSIONS, "orders"]


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.kills
@pytest.mark.parametrize(
    ("point", "how"),
    [
        ("revision.begun", signal.SIGINT),
        *(
            (point, signal.SIGKILL)
            for point, _ in chosen((("revision.made", 1),), (("revision.begun", 1),))
        ),
    ],
)
@pytest.mark.parametrize("framework", ["alembic", "django"])
def test_the_examples_are_stopped_at_every_alter(db, tmp_path, framework, point, how):
    """The same command ends as if nothing had stopped it, for every ALTER of every migration."""
    assert point in OF_A_REVISION
    shop, command = _filled_example(db, framework)
    stops = 0
    with PointListener(tmp_path / "points") as listener:
        while True:
            # A run that resumes passes points, too: the next one is the next ALTER.
            hold = listener.hold(point, listener.count(point) + 1)
            process = shop.start(*command, **{VARIABLE: str(listener.path)})
            _wait(hold, process)
            if process.poll() is not None:
                break
            stops += 1
            process.send_signal(how)
            hold.release()
            process.communicate(timeout=240)
            assert process.returncode
            carried_on = _passes_one(shop, listener, point, command)
            if carried_on is not None:
                process = carried_on
                break
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert stops
    assert [name for name in tables(db) if name.startswith("_")] == []
    assert db.query(f"SELECT COUNT(*) FROM {shop.table}") == [(12_000,)]


@pytest.mark.slow
@pytest.mark.kills
@pytest.mark.parametrize("framework", ["alembic", "django"])
def test_ctrl_c_says_that_the_table_is_whole_without_a_traceback(db, tmp_path, framework):
    """The framework's command ends as the program's own: with two lines and the exit code 130."""
    shop, command = _filled_example(db, framework)
    with PointListener(tmp_path / "points") as listener:
        hold = listener.hold("chunk.committed", 1)
        process = shop.start(*command, **{VARIABLE: str(listener.path)})
        _wait(hold, process)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        hold.release()
        output, _ = process.communicate(timeout=240)
    said = (
        "error: interrupted by SIGINT\nhint: the source table is intact; run the same command again"
    )
    assert process.returncode == 130
    assert said in output
    assert "Traceback" not in output


def _wait(hold, process):
    """Wait until the process is held, or has ended."""
    until(lambda: hold.held.is_set() or process.poll() is not None, hold.point)


def _passes_one(shop, listener, point, command):
    """Run the command until the ALTER after the stopped one; return it if it comes to its end."""
    hold = listener.hold(point, listener.count(point) + 2)
    process = shop.start(*command, **{VARIABLE: str(listener.path)})
    _wait(hold, process)
    if process.poll() is not None:
        return process
    process.kill()
    hold.release()
    process.communicate()
    return None
