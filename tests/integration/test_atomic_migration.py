"""A migration of Django that happens as a whole, with Django's note of it, or not at all."""

from __future__ import annotations

import subprocess
import sys

import pytest

from spirit_py.points import VARIABLE
from tests.integration.test_alembic import QUICK
from tests.kits.django_project import DjangoProject
from tests.kits.kills import FEW_OF_A_WHOLE_REVISION, MORE_OF_A_WHOLE_REVISION, chosen
from tests.kits.point_listener import PointListener
from tests.kits.tables import tables
from tests.kits.waiting import until

MODEL = "migrations.CreateModel('{}', [('id', models.AutoField(primary_key=True)), ('{}', {})])"
FIRST = (
    MODEL.format("Order", "a", "models.IntegerField()"),
    MODEL.format("Small", "b", "models.IntegerField(null=True)"),
)
SECOND = (
    "migrations.AddField('Order', 'note', models.CharField(max_length=9, db_default='100%'))",
    "migrations.AlterField('Order', 'a', models.BigIntegerField(db_index=True))",
    "Online(migrations.RemoveField('Small', 'b'))",
)

WRITES = "lambda apps, editor: apps.get_model('shop', 'Order').objects.create(a=5)"


@pytest.fixture
def shop(db, tmp_path):
    """A project whose first migration has run, and three rows."""
    project = DjangoProject(db, tmp_path / "project", **QUICK)
    project.add("0001", "", FIRST, atomic=False)
    project.add("0002", "0001", SECOND)
    code, output = project.run("migrate", "shop", "0001")
    assert code == 0, output
    db.execute("INSERT INTO shop_order (a) VALUES (1), (2), (3)")
    return project


def noted(db):
    """Return the migrations that Django has noted, and the columns of the tables."""
    names = [name for (name,) in db.query("SELECT name FROM django_migrations ORDER BY id")]
    columns = db.query(
        "SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME LIKE 'shop|_%%' ESCAPE '|' ORDER BY 1, 2",
        (db.name,),
    )
    return names, columns


def is_made(db):
    """Check that all of the second migration is made, and nothing is left."""
    names, columns = noted(db)
    assert names == ["0001", "0002"]
    shown = {(table, column): kind for table, column, kind in columns}
    assert shown["shop_order", "a"] == "bigint"
    assert ("shop_order", "note") in shown
    assert ("shop_small", "b") not in shown
    assert db.query("SELECT a, note FROM shop_order") == [(i, "100%") for i in (1, 2, 3)]
    assert tables(db) == ["django_migrations", "shop_order", "shop_small"]


@pytest.mark.slow
def test_tables_and_note_change_at_one_moment_up_and_down(db, shop):
    """One RENAME has all of them; Django's own note of it is not written twice."""
    before = noted(db)
    code, output = shop.run("migrate", "shop")
    assert code == 0, output
    is_made(db)
    code, output = shop.run("migrate", "shop", "0001")
    assert code == 0, output
    assert noted(db) == before
    assert "ADD COLUMN" in shop.run("sqlmigrate", "shop", "0002")[1]


@pytest.mark.slow
def test_what_a_process_has_undone_it_can_note_again(db, shop):
    """Its own note of it went with the swap; that it is there again is Django's to write."""
    run = "import sys; sys.argv[1:] = ['check']; exec(open('manage.py').read())\n"
    run += "from django.core.management import call_command\n"
    for more in ("'0002'", "'0001'", "'0002', fake=True"):
        run += f"call_command('migrate', 'shop', {more})\n"
    (shop.folder / "all.py").write_text(run)
    done = subprocess.run([sys.executable, "all.py"], cwd=shop.folder, check=False, timeout=240)
    assert done.returncode == 0
    assert noted(db)[0] == ["0001", "0002"]


@pytest.mark.slow
def test_a_key_and_what_refers_to_it_change_their_types_at_one_moment(db, shop):
    """As the documentation has it: the foreign key is there at every moment, and Django knows."""
    key = "ADD COLUMN small_id INT, ADD CONSTRAINT f FOREIGN KEY (small_id)"
    db.execute(f"ALTER TABLE shop_order {key} REFERENCES shop_small (id)")
    wider = "migrations.AlterField('Small', 'id', models.BigAutoField(primary_key=True))"
    key = f"'MODIFY id BIGINT NOT NULL AUTO_INCREMENT', state_operations=[{wider}]"
    column = "'MODIFY small_id BIGINT'"
    changes = f"SpiritAlter('shop_small', {key})", f"SpiritAlter('shop_order', {column})"
    shop.add("0002", "0001", changes)
    code, output = shop.run("migrate", "shop")
    assert code == 0, output
    shown = db.query("SHOW CREATE TABLE shop_order")[0][1]
    assert "`small_id` bigint" in shown
    assert "FOREIGN KEY (`small_id`) REFERENCES `shop_small` (`id`)" in shown
    assert noted(db)[0] == ["0001", "0002"]


@pytest.mark.slow
@pytest.mark.draws(2)
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("migrations.DeleteModel('Small')", "DROP TABLE"),
        ("migrations.RunSQL('UPDATE shop_order SET a = 0')", "UPDATE shop_order"),
        (f"migrations.RunPython({WRITES})", "INSERT INTO `shop_order`"),
        (
            "migrations.AddField('Order', 'c', models.IntegerField(default=5))",
            "DROP DEFAULT",
        ),
        ("migrations.RenameField('Order', 'a', 'c')", "change order.a"),
    ],
)
def test_what_cannot_be_in_the_swap_is_refused_and_nothing_is_done(db, shop, more, said):
    """Data and other statements have migrations of their own."""
    shop.add("0002", "0001", (*SECOND, more))
    before = noted(db)
    code, output = shop.run("migrate", "shop")
    assert code
    assert said in output
    assert noted(db) == before
    assert db.query("SELECT a FROM shop_order") == [(1,), (2,), (3,)]


@pytest.mark.slow
@pytest.mark.kills
@pytest.mark.parametrize(
    ("point", "number"), chosen(FEW_OF_A_WHOLE_REVISION[1:], MORE_OF_A_WHOLE_REVISION)
)
def test_killed_anywhere_it_has_happened_or_has_not(db, shop, tmp_path, point, number):
    """Tables and note agree after the kill; the same command ends it and leaves nothing."""
    before = noted(db)
    with PointListener(tmp_path / "points") as listener:
        hold = listener.hold(point, number)
        process = shop.start("migrate", "shop", **{VARIABLE: str(listener.path)})
        until(lambda: hold.held.is_set() or process.poll() is not None, point)
        assert process.poll() is None, process.communicate()[0]
        process.kill()
        hold.release()
        process.communicate()
    after = noted(db)
    assert after == before or (after[0] == ["0001", "0002"] and len(after[1]) == len(before[1]))
    code, output = shop.run("migrate", "shop")
    assert code == 0, output
    is_made(db)
