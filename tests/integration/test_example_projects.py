"""The projects of examples/: upgraded under a writer, stopped on the way, again, and back.

Each is run as its user would run it, in a process of its own.
"""

from __future__ import annotations

import signal

import pytest

from tests.kits import example_projects
from tests.kits.background import Loop
from tests.kits.example_projects import SECONDS
from tests.kits.library import fill_rows
from tests.kits.tables import tables
from tests.kits.waiting import until

ROWS = 12_000
pytestmark = pytest.mark.draws(1)


@pytest.fixture
def shop_of_alembic(db):
    """The example for Alembic."""
    return example_projects.shop_of_alembic(db)


@pytest.fixture
def shop_of_django(db):
    """The example for Django."""
    return example_projects.shop_of_django(db)


def stopped_before_the_swap(project, *command):
    """Run a command whose swap a sentinel holds back, and interrupt it there."""
    db = project.db
    db.execute(f"CREATE TABLE _{project.table}_snt (id INT)")
    process = project.start(*command)
    until(lambda: f"_{project.table}_new" in tables(db) or process.poll() is not None, "a copy")
    until(lambda: process.poll() is not None or _copied(db, project.table), "all rows")
    assert process.poll() is None, process.communicate()[0]
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 130, output
    db.execute(f"DROP TABLE _{project.table}_snt")
    return output


def _copied(db, table):
    """Return whether all rows are in the new table."""
    ((copied,),) = db.query(f"SELECT COUNT(*) FROM _{table}_new")
    return copied >= ROWS


class Writer:
    """Inserts orders while the table is changed, and remembers what was acknowledged."""

    def __init__(self, db, insert):
        cursor = db.connect().cursor()

        def step(number):
            cursor.execute(insert, (number,))
            self.written = number

        self.written = 0
        self.loop = Loop(step, pause=0.002)

    def stop(self):
        """End it."""
        self.loop.stop()
        assert self.loop.errors == []
        assert self.written


@pytest.mark.slow
def test_the_alembic_example_goes_up_and_down_and_carries_on(shop_of_alembic, db):
    """Interrupted, alembic_version is where it was; again, it ends with every write."""
    project = shop_of_alembic
    project.run("upgrade", "0001")
    fill_rows(
        db, "INSERT INTO orders (customer, amount, remark) SELECT i % 97, 0, 'r' FROM {n}", ROWS
    )
    db.execute("ANALYZE TABLE orders")
    before = project.columns()
    writer = Writer(db, "INSERT INTO orders (customer, amount) VALUES (-1, %s)")
    try:
        interrupted = stopped_before_the_swap(project, "upgrade", "head")
        assert "Traceback" not in interrupted
        assert db.query("SELECT version_num FROM alembic_version") == [("0001",)]
        assert project.columns() == before
        output = project.run("upgrade", "head")
    finally:
        writer.stop()
    assert output.count("changed (copy)") == 2
    assert "run 2" in output
    assert db.query("SELECT version_num FROM alembic_version") == [("0003",)]
    assert project.columns() == {
        "id": "bigint",
        "customer": "int",
        "amount": "bigint",
        "note": "varchar(200)",
    }
    written = db.query("SELECT COUNT(*), COUNT(DISTINCT amount) FROM orders WHERE customer = -1")
    assert written == [(writer.written, writer.written)]
    looked = project.run_python(
        "from alembic.config import main; main(['upgrade', '0001:head', '--sql']); main(['check'])"
    )
    assert "-- spirit-py changes the table online" in looked
    assert "note VARCHAR(200) COMMENT '100% free text; ''quoted''', DROP" in looked
    assert "No new upgrade operations" in looked
    assert project.run("downgrade", "0001").count("changed (copy)") == 2
    assert project.columns() == before
    assert tables(db) == ["alembic_version", "orders"]


@pytest.mark.slow
def test_the_django_example_goes_up_and_down_and_carries_on(shop_of_django, db):
    """Interrupted, django_migrations is where it was; again, it ends with every write."""
    project = shop_of_django
    applied = "SELECT name FROM django_migrations WHERE app = 'shop' ORDER BY name"
    project.run("migrate", "shop", "0001")
    fill_rows(db, "INSERT INTO shop_order (number, amount, remark) SELECT i, 0, 'r' FROM {n}", ROWS)
    db.execute("ANALYZE TABLE shop_order")
    before = project.columns()
    printed = project.run("sqlmigrate", "shop", "0002")
    assert printed.count("-- spirit-py changes the table online") == 3
    assert "DEFAULT '100% new' NOT NULL;" in printed
    writer = Writer(db, "INSERT INTO shop_order (number, amount) VALUES (-1, %s)")
    try:
        interrupted = stopped_before_the_swap(project, "migrate", "shop", "0003")
        assert "Traceback" not in interrupted
        assert db.query(applied) == [("0001_initial",)]
        assert project.columns() == before
    finally:
        writer.stop()
    output = project.run("migrate", "shop")
    assert "run 2" in output
    assert [name for (name,) in db.query(applied)][-1] == "0004_remark"
    assert project.columns() == {
        "id": "bigint",
        "number": "int",
        "amount": "bigint",
        "note": "varchar(200)",
        "customer_id": "bigint",
    }
    written = db.query("SELECT COUNT(*), COUNT(DISTINCT amount) FROM shop_order WHERE number = -1")
    assert written == [(writer.written, writer.written)]
    assert db.query("SELECT DISTINCT note FROM shop_order") == [("100% new",)]
    assert "No changes detected" in project.run("makemigrations", "--check", "--dry-run")
    assert "changed (copy)" in project.run("migrate", "shop", "0001")
    assert project.columns() == before
    assert tables(db) == ["django_migrations", "shop_customer", "shop_order"]
