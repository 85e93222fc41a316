"""A revision that happens as a whole, with its version, or not at all."""

from __future__ import annotations

import signal

import pytest
import sqlalchemy as sa
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext

from spirit_py.errors import Interrupted, Refusal
from spirit_py.frameworks.alembic import atomic_revision
from spirit_py.frameworks.steps import version_rows
from spirit_py.mysql.connect import connect
from spirit_py.phases import Phase
from spirit_py.points import VARIABLE
from tests.integration.test_alembic import QUICK, VERSIONS, connected
from tests.kits.alembic_project import AlembicProject
from tests.kits.connection import connection_options
from tests.kits.kills import FEW_OF_A_WHOLE_REVISION, MORE_OF_A_WHOLE_REVISION, chosen
from tests.kits.point_listener import PointListener
from tests.kits.resume import start
from tests.kits.tables import tables
from tests.kits.waiting import until

BOTH = (
    "with atomic_revision(op):",
    "    op.add_column('orders', sa.Column('note', sa.String(9)))",
    "    op.create_index('by_a', 'orders', ['a'])",
    "    op.drop_column('small', 'b')",
)
BACK = (
    "with atomic_revision(op):",
    "    op.drop_index('by_a', 'orders')",
    "    op.drop_column('orders', 'note')",
    "    op.add_column('small', sa.Column('b', sa.Integer))",
)


@pytest.fixture
def shop(db, tmp_path):
    """A project whose first revision is noted, on a table with rows and one without."""
    db.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, a INT NOT NULL);"
        " INSERT INTO orders (a) VALUES (1), (2), (3);"
        " CREATE TABLE small (id INT PRIMARY KEY, b INT);"
        f" CREATE TABLE {VERSIONS} (version_num VARCHAR(32) NOT NULL PRIMARY KEY);"
        f" INSERT INTO {VERSIONS} VALUES ('one')"
    )
    project = AlembicProject(db, tmp_path / "shop", **QUICK)
    project.add("one", None, ("pass",))
    return project


def state(db):
    """Return the version, and the columns and indexes of the tables."""
    columns = db.query(
        "SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s"
        " AND TABLE_NAME IN ('orders', 'small') UNION SELECT TABLE_NAME, INDEX_NAME FROM"
        " information_schema.STATISTICS WHERE TABLE_SCHEMA = %s"
        " AND TABLE_NAME IN ('orders', 'small')",
        (db.name, db.name),
    )
    versions = sorted(str(one) for (one,) in db.query(f"SELECT version_num FROM {VERSIONS}"))
    return versions, sorted(tuple(map(str, one)) for one in columns)


@pytest.mark.slow
def test_tables_and_version_change_at_one_moment_up_and_down(db, shop):
    """One RENAME has all of them, and leaves nothing; the way back is the same."""
    shop.add("two", "one", BOTH, BACK)
    before = state(db)
    code, output = shop.run("upgrade", "head")
    assert code == 0, output
    versions, made = state(db)
    assert versions == ["two"]
    assert {("orders", "note"), ("orders", "by_a")} <= set(made)
    assert ("small", "b") not in made
    assert tables(db) == [VERSIONS, "orders", "small"]
    assert db.query("SELECT COUNT(*) FROM orders") == [(3,)]
    code, output = shop.run("downgrade", "one")
    assert code == 0, output
    assert state(db) == before
    assert tables(db) == [VERSIONS, "orders", "small"]


def test_the_versions_are_read_whatever_the_session_s_limit(db):
    """A program's own session may have one, and ours has none: they would differ."""
    db.execute("CREATE TABLE v (a INT PRIMARY KEY, b INT); INSERT INTO v VALUES (1, 2), (3, 4)")
    with connect(connection_options(db), role="test") as session:
        whole = version_rows(session, (db.name, "v"))
        session.execute("SET SESSION sql_select_limit = 1")
        assert version_rows(session, (db.name, "v")) == whole
    assert len(whole) == 2


@pytest.mark.slow
def test_statements_are_joined_however_the_session_shows_definitions(db, shop):
    """Without quotes around names nothing could be made again as a temporary table."""
    db.set_global("sql_quote_show_create", "OFF")
    db.set_global("show_create_table_verbosity", "ON")
    shop.add("two", "one", BOTH)
    assert not shop.upgrade("head")
    assert state(db)[0] == ["two"]


@pytest.mark.slow
@pytest.mark.parametrize("large", ["small", "orders"])
def test_another_revision_follows_in_one_transaction(db, shop, large):
    """Nothing is committed in between, and the swap of the first one comes before the second."""
    env = shop.folder / "env.py"
    text = env.read_text().replace("engine.connect()", "engine.begin()")
    env.write_text(text.replace("spirit_py={", f"spirit_py={{'tables': {large!r}, "))
    shop.add("two", "one", BOTH)
    shop.add("three", "two", ("op.add_column('orders', sa.Column('more', sa.Integer))",))
    assert not shop.upgrade("head")
    versions, made = state(db)
    assert versions == ["three"]
    assert {("orders", "note"), ("orders", "more")} <= set(made)
    assert tables(db) == [VERSIONS, "orders", "small"]


@pytest.mark.slow
def test_a_table_that_cannot_be_changed_leaves_all_others_as_they_were(db, shop):
    """The second table's rows do not fit: nothing of the revision has happened."""
    db.execute("INSERT INTO small VALUES (1, 70000)")
    up = (*BOTH[:2], "    op.alter_column('small', 'b', type_=sa.SmallInteger)")
    shop.add("two", "one", up)
    before = state(db)
    assert shop.upgrade("head")
    assert state(db) == before
    db.execute("UPDATE small SET b = 7")
    assert not shop.upgrade("head")
    assert state(db)[0] == ["two"]
    assert tables(db) == [VERSIONS, "orders", "small"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("up", "said"),
    [
        ((*BOTH, "    op.create_table('more', sa.Column('id', sa.Integer))"), "CREATE TABLE more"),
        ((*BOTH, "    op.drop_table('small')"), "DROP TABLE small"),
        ((*BOTH, "    op.execute('UPDATE orders SET a = 0')"), "UPDATE orders"),
        (
            (*BOTH, "    op.bulk_insert(sa.table('orders', sa.column('a')), [{'a': 9}])"),
            "INSERT INTO orders",
        ),
        ((*BOTH, "op.execute('UPDATE orders SET a = 0')"), "UPDATE orders"),
        ((*BOTH, "op.drop_table('small')"), "DROP TABLE small"),
        (
            (*BOTH, "    op.get_bind().exec_driver_sql('DELETE FROM orders')"),
            "DELETE FROM orders",
        ),
        (
            (*BOTH, "    spirit_alter(op, 'orders', 'ADD COLUMN c INT', max_lag='9s')"),
            "other options",
        ),
        (
            (*BOTH, "    op.alter_column('orders', 'note', type_=sa.Text)"),
            "a migration of its own",
        ),
        (("op.create_table('more', sa.Column('id', sa.Integer))", *BOTH), "is made already"),
    ],
)
def test_what_cannot_be_in_the_swap_is_refused_and_nothing_is_done(db, shop, up, said):
    """Whatever comes beside the changes of tables, inside of the block and after it."""
    shop.add("two", "one", up)
    before = state(db)
    assert said in shop.upgrade("head")
    assert state(db) == before
    assert db.query("SELECT a FROM orders") == [(1,), (2,), (3,)]


def test_a_block_that_nothing_notes_changes_nothing(db, shop):
    """Alembic's operations without its command: there is no version to change."""
    with pytest.raises(Refusal, match="did not record the migration"), connected(db) as connection:
        _add_unnoted(connection)
    assert ("orders", "note") not in state(db)[1]


def _add_unnoted(connection):
    with connection.begin():
        op = Operations(MigrationContext.configure(connection=connection))
        with atomic_revision(op):
            op.add_column("orders", sa.Column("note", sa.String(9)))


@pytest.mark.slow
@pytest.mark.draws(3)
def test_merges_and_branches_are_noted_with_all_their_rows(db, shop):
    """A merge deletes versions and changes one, a branch adds one, and back."""
    way_back = (BACK[0], "    op.drop_column('orders', 'note')")
    shop.add("left", "one", ("op.add_column('orders', sa.Column('l', sa.Integer))",))
    shop.add("right", "one", BOTH[:2], way_back)
    shop.add("both", ("left", "right"), (BOTH[0], BOTH[3]), (BACK[0], BACK[3]))
    before = state(db)[1]
    for command, versions in (
        (("upgrade", "left"), ["left"]),
        (("upgrade", "right"), ["left", "right"]),
        (("upgrade", "head"), ["both"]),
        (("downgrade", "one"), ["one"]),
    ):
        code, output = shop.run(*command)
        assert code == 0, output
        assert state(db)[0] == versions
    assert state(db)[1] == sorted([*before, ("orders", "l")])
    assert tables(db) == [VERSIONS, "orders", "small"]


@pytest.mark.slow
@pytest.mark.draws(3)
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE TABLE _alembic_version_new (id INT)", "exists already"),
        ("CREATE TABLE _alembic_version_old (id INT)", "exists already"),
        (
            "CREATE TRIGGER t AFTER INSERT ON alembic_version FOR EACH ROW SET @a = 1",
            "a trigger or foreign key",
        ),
        ("ALTER TABLE alembic_version ENGINE = MyISAM", "not a plain InnoDB table"),
    ],
)
def test_a_version_table_that_cannot_be_exchanged_is_refused(db, shop, statement, said):
    """Nothing of somebody else's is dropped, and nothing is left behind by the RENAME."""
    shop.add("two", "one", BOTH)
    db.execute(statement)
    before, there = state(db), tables(db)
    assert said in shop.upgrade("head")
    assert state(db) == before
    assert set(there) <= set(tables(db))


@pytest.mark.draws(3)
def test_a_version_that_somebody_else_notes_meanwhile_ends_it(db, shop, tmp_path):
    """Under the lock the table holds what it held before, or nothing is renamed."""
    shop.add("two", "one", BOTH)
    before = state(db)[1]
    with PointListener(tmp_path / "points") as listener:
        hold = listener.hold("cutover.lock")
        process = shop.start("upgrade", "head", **{VARIABLE: str(listener.path)})
        until(lambda: hold.held.is_set() or process.poll() is not None, "the lock")
        db.execute(f"UPDATE {VERSIONS} SET version_num = 'mine'")
        hold.release()
        output, _ = process.communicate(timeout=240)
    assert process.returncode
    assert "was written by another session" in output
    assert state(db) == (["mine"], before)


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.kills
@pytest.mark.parametrize(
    ("point", "number"), chosen(FEW_OF_A_WHOLE_REVISION, MORE_OF_A_WHOLE_REVISION)
)
def test_killed_anywhere_it_has_happened_or_has_not(db, shop, tmp_path, point, number):
    """Tables and version agree after the kill; the same command ends it and leaves nothing."""
    shop.add("two", "one", BOTH)
    before = state(db)
    killed(shop, tmp_path, point, number)
    after = state(db)
    assert after == before or (after[0] == ["two"] and ("orders", "note") in after[1])
    assert not shop.upgrade("head")
    versions, made = state(db)
    assert versions == ["two"]
    assert {("orders", "note"), ("orders", "by_a")} <= set(made)
    assert ("small", "b") not in made
    assert tables(db) == [VERSIONS, "orders", "small"]


def killed(shop, tmp_path, point, number):
    """Kill the command at a point."""
    with PointListener(tmp_path / "points") as listener:
        hold = listener.hold(point, number)
        process = shop.start("upgrade", "head", **{VARIABLE: str(listener.path)})
        until(lambda: hold.held.is_set() or process.poll() is not None, point)
        assert process.poll() is None, process.communicate()[0]
        process.kill()
        hold.release()
        process.communicate()


@pytest.mark.draws(3)
def test_a_table_of_somebody_else_under_the_old_name_stays(db, shop, tmp_path):
    """What is dropped after a kill is the version table of before, known by its number (R24)."""
    shop.add("two", "one", BOTH)
    killed(shop, tmp_path, "cutover.renamed", 1)
    db.execute("DROP TABLE _alembic_version_old; CREATE TABLE _alembic_version_old (id INT)")
    assert not shop.upgrade("head")
    assert state(db)[0] == ["two"]
    assert tables(db) == ["_alembic_version_old", VERSIONS, "orders", "small"]


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize("more", ["keep='a > 1', archive_to={folder!r}", "drop_old_after='7d'"])
def test_an_old_table_that_is_to_be_archived_or_kept_stays_after_a_kill(db, shop, tmp_path, more):
    """It has the only copy of rows, or is the way back; the next command finishes the rest."""
    given = more.format(folder=str(tmp_path / "archive"))
    change = f"    op.spirit_alter('orders', 'ADD COLUMN note INT', {given})"
    shop.add("two", "one", ("with atomic_revision(op):", change))
    killed(shop, tmp_path, "cutover.renamed", 1)
    assert not shop.upgrade("head")
    assert db.query("SELECT COUNT(*) FROM _orders_old") == [(3,)]
    assert tables(db) == ["_orders_chkpnt", "_orders_old", VERSIONS, "orders", "small"]


@pytest.mark.slow
@pytest.mark.parametrize("archived", [True, False])
def test_a_change_outside_of_a_block_that_ended_behind_its_swap_is_finished(
    db, shop, tmp_path, archived
):
    """It is made, and passed over only once its archive is, and its old table has gone."""
    given = f"keep='a > 1', archive_to={str(tmp_path / 'archive')!r}"
    change = f"op.spirit_alter('orders', 'ADD COLUMN note INT', {given})"
    # What comes before it, and cannot be in one ALTER with it, is passed over.
    before = ("op.spirit_alter('orders', 'ADD COLUMN more INT', no_shortcut=True)",)
    after = ("op.spirit_alter('orders', 'MODIFY more BIGINT', no_shortcut=True)",)
    shop.add("two", "one", (change,) if archived else (*before, *after))
    killed(shop, tmp_path, "cutover.renamed", 1 if archived else 2)
    assert not shop.upgrade("head")
    assert state(db)[0] == ["two"]
    assert tables(db) == [VERSIONS, "orders", "small"]
    assert (tmp_path / "archive" / f"{db.name}.orders" / "_manifest.json").is_file() is archived


@pytest.mark.slow
@pytest.mark.parametrize(
    "clause",
    [
        "DROP CHECK positive",
        "ALTER CHECK positive NOT ENFORCED",
        # No temporary table shows its form.
        "ALTER CHECK positive NOT ENFORCED, ROW_FORMAT=COMPRESSED",
    ],
)
def test_so_is_one_that_names_a_check_whose_name_a_copy_has_changed(db, shop, tmp_path, clause):
    """It is known by the names that the constraint had, and by them it is sent again."""
    db.execute("ALTER TABLE orders ADD CONSTRAINT _positive CHECK (a > 0)")
    given = f"{clause!r}, no_shortcut=True, drop_old_after='1s'"
    shop.add("two", "one", (f"op.spirit_alter('orders', {given})",))
    killed(shop, tmp_path, "cutover.renamed", 1)
    assert not shop.upgrade("head")
    assert state(db)[0] == ["two"]
    assert tables(db) == [VERSIONS, "orders", "small"]


@pytest.mark.slow
def test_the_old_table_of_another_command_holds_up_no_revision(db, shop, tmp_path, engine):
    """A step is made and not recorded; somebody has rebuilt its table since, and keeps the old."""
    shop.add("two", "one", ("op.spirit_alter('orders', 'ADD COLUMN n INT', no_shortcut=True)",))
    killed(shop, tmp_path, "revision.made", 1)
    rebuilt = start(engine, db, table="orders", alter="FORCE", drop_old_after=7 * 86400.0)
    shown = rebuilt.told.snapshots
    rebuilt.wait_until(lambda: any(one.phase is Phase.GRACE for one in shown), "grace")
    rebuilt.stop.request(Interrupted(signal.SIGTERM))
    with pytest.raises(Interrupted):
        rebuilt.end()
    assert not shop.upgrade("head")
    assert state(db)[0] == ["two"]
    assert tables(db) == ["_orders_chkpnt", "_orders_old", VERSIONS, "orders", "small"]


@pytest.mark.slow
@pytest.mark.draws(3)
def test_a_version_table_of_another_schema_is_exchanged_there(db, shop, tmp_path):
    """RENAME works across schemas, and what a kill leaves is found again."""
    other = f"{db.name}_versions"
    db.execute(f"CREATE DATABASE {other}")
    try:
        db.execute(f"CREATE TABLE {other}.{VERSIONS} LIKE {VERSIONS}")
        db.execute(f"INSERT INTO {other}.{VERSIONS} VALUES ('one'); DROP TABLE {VERSIONS}")
        there = {"version_table_schema": other}
        shop = AlembicProject(db, tmp_path / "other", there, **QUICK)
        shop.add("one", None, ("pass",))
        shop.add("two", "one", BOTH)
        killed(shop, tmp_path, "cutover.renamed", 1)
        assert db.query(f"SELECT version_num FROM {other}.{VERSIONS}") == [("two",)]
        assert not shop.upgrade("head")
        assert tables(db) == ["orders", "small"]
        assert db.query(f"SHOW TABLES FROM {other}") == [(VERSIONS,)]
    finally:
        db.execute(f"DROP DATABASE {other}")
