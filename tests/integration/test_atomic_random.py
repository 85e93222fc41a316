"""Generated revisions that happen as a whole, killed again and again: no table without its version.

``SPIRIT_PY_TEST_KILLINGS`` is how often each of ``SPIRIT_PY_TEST_PROJECTS`` projects is killed
(``make kill-revisions``).
"""

from __future__ import annotations

import os
import random
import sys

import pytest

from spirit_py.frameworks.joining import form_of
from spirit_py.points import VARIABLE
from tests.integration.test_alembic import QUICK, VERSIONS
from tests.kits.alembic_project import AlembicProject
from tests.kits.point_listener import PointListener
from tests.kits.resume import SEED
from tests.kits.tables import tables
from tests.kits.waiting import until

PROJECTS = int(os.environ.get("SPIRIT_PY_TEST_PROJECTS", "1"))
KILLINGS = int(os.environ.get("SPIRIT_PY_TEST_KILLINGS", "1"))
NAMES = ("t0", "t1", "t2")
#: Points from the swap on, which are the last of a run.
LAST = 16
TYPES = (
    "INT NULL",
    "VARCHAR(30) NOT NULL DEFAULT 'x'",
    "DECIMAL(9,3) NULL",
    "DATETIME(3) NOT NULL DEFAULT '2020-01-02 03:04:05'",
    "TEXT NULL",
    "BIGINT GENERATED ALWAYS AS (a + 1) STORED",
)
MODIFIED = ("a BIGINT NOT NULL", "a INT NOT NULL", "b VARCHAR(40) NULL", "b VARCHAR(20) NULL")


class Shadow:
    """The same tables, changed by the server's own ALTER, one statement after another."""

    def __init__(self, db):
        self._db = db
        self._extra: dict[str, list[str]] = {name: [] for name in NAMES}
        self._indexes: dict[str, list[str]] = {name: [] for name in NAMES}
        self._made = 0

    def change(self, chance):
        """Make up a revision and carry it out here; return its statements, a table with each."""
        found = []
        for name in chance.sample(NAMES, chance.randrange(1, len(NAMES) + 1)):
            for clause in self._clauses(name, chance):
                self._db.execute(f"ALTER TABLE shadow_{name} {clause}")
                found.append((name, clause))
        chance.shuffle(found)
        return found

    def _clauses(self, name, chance):
        extra, indexes = self._extra[name], self._indexes[name]
        self._made += 1
        column, index = f"n{self._made}", f"i{self._made}"
        choices = [
            f"ADD COLUMN {column} {chance.choice(TYPES)}",
            f"MODIFY {chance.choice(MODIFIED)}",
        ]
        choices.append(f"ADD INDEX {index} ({chance.choice(('a', 'b', 'a, b'))})")
        if extra:
            choices.append(f"DROP COLUMN {extra[0]}")
        if indexes:
            choices.append(f"DROP INDEX {indexes[0]}")
        picked = chance.sample(choices, chance.randrange(1, len(choices)))
        for one in picked:
            if one.startswith("ADD COLUMN"):
                extra.append(column)
            elif one.startswith("ADD INDEX"):
                indexes.append(index)
            elif one.startswith("DROP COLUMN"):
                extra.pop(0)
            elif one.startswith("DROP INDEX"):
                indexes.pop(0)
        return picked

    def definitions(self, prefix=""):
        """Return the forms of the tables: of these, or of the real ones."""
        return {
            name: form_of(
                self._db.query(f"SHOW CREATE TABLE {prefix}{name}")[0][1].replace(prefix, "", 1)
            )
            for name in NAMES
        }

    def rows(self, prefix=""):
        """Return all rows of the tables."""
        return {name: self._db.query(f"SELECT * FROM {prefix}{name} ORDER BY id") for name in NAMES}


@pytest.mark.slow
@pytest.mark.kills
@pytest.mark.parametrize("project", range(PROJECTS))
def test_no_kill_leaves_tables_without_their_version(db, tmp_path, project):
    """After each kill all is as before or all is made; in the end nothing is left over."""
    seed = SEED + project
    sys.stdout.write(f"SPIRIT_PY_TEST_SEED={seed} SPIRIT_PY_TEST_PROJECTS=1 repeats it\n")
    chance = random.Random(seed)
    for name in NAMES:
        rows = chance.choice((0, 5, 400))
        db.execute(
            f"CREATE TABLE {name} (id INT PRIMARY KEY AUTO_INCREMENT, a INT NOT NULL,"
            " b VARCHAR(20))"
        )
        for number in range(rows):
            db.execute(f"INSERT INTO {name} (a, b) VALUES ({number}, 'row {number}')")
        db.execute(f"CREATE TABLE shadow_{name} LIKE {name}")
        db.execute(f"INSERT INTO shadow_{name} SELECT * FROM {name}")
    db.execute(f"CREATE TABLE {VERSIONS} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
    shadow, shop = Shadow(db), AlembicProject(db, tmp_path / "shop", **QUICK)
    kills = revision = 0
    points = 60
    while kills < KILLINGS:
        revision += 1
        before, name = shadow.definitions(), f"r{revision}"
        earlier = f"r{revision - 1}" if revision > 1 else None
        statements = shadow.change(chance)
        up = [f"    spirit_alter(op, {table!r}, {clause!r})" for table, clause in statements]
        shop.add(name, earlier, ("with atomic_revision(op):", *up))
        after = shadow.definitions("shadow_")
        while True:
            nth = chance.randrange(1, points + 1)
            if chance.random() < 0.5:
                nth = points - chance.randrange(LAST)
            struck, points = _killed(shop, tmp_path, nth, points)
            kills += struck
            noted = [str(one) for (one,) in db.query(f"SELECT version_num FROM {VERSIONS}")]
            made = shadow.definitions()
            said = f"revision {revision}, point {nth}: {statements}"
            assert made == (after if noted == [name] else before), said
            assert noted in ([name], [earlier] if earlier else []), said
            if noted == [name] and not struck:
                break
        assert shadow.rows() == shadow.rows("shadow_")
    shown = [one for one in tables(db) if not one.startswith("shadow_")]
    assert shown == [VERSIONS, *NAMES]
    sys.stdout.write(f"{kills} kills, {revision} revisions\n")


def _killed(shop, folder, nth, points):
    """Run the command until it is killed at the nth point; False where it has ended before."""
    with PointListener(folder / "points") as listener:
        hold = listener.hold("", nth)
        process = shop.start("upgrade", "head", **{VARIABLE: str(listener.path)})
        until(lambda: hold.held.is_set() or process.poll() is not None, f"point {nth}")
        if process.poll() is None:
            process.kill()
            hold.release()
            process.communicate()
            return True, points
        output, _ = process.communicate()
        assert process.returncode == 0, output
        return False, max(len(listener.reached), points)
