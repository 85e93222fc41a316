"""A revision that happens as a whole, with its version, or not at all."""

from __future__ import annotations

import pytest

from tests.integration.test_alembic import QUICK, VERSIONS
from tests.kits.alembic_project import AlembicProject
from tests.kits.tables import tables

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
        " CREATE TABLE small (id INT PRIMARY KEY, b INT)"
    )
    project = AlembicProject(db, tmp_path / "shop", **QUICK)
    project.add("one", None, ("pass",))
    assert project.run("upgrade", "one")[0] == 0
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
