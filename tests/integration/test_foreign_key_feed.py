"""What foreign keys do to rows of the table, as the feed follows it."""

from __future__ import annotations

import contextlib
import random
import threading
from typing import TYPE_CHECKING, NamedTuple

import MySQLdb
import pytest

from spirit_py.attached.foreign_keys.rules import cascades_unseen
from spirit_py.mysql.capabilities import Capability
from spirit_py.mysql.connect import connect
from spirit_py.mysql.facts import read_facts
from tests.kits.connection import options_of
from tests.kits.waiting import DEADLINE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.feed import Scene
    from tests.fixtures.mysql import Database

PARENTS = range(1, 9)
STEPS = 120
WRITERS = 3
#: A row is not there, is there already, is locked, or must not be changed: a writer's everyday.
EXPECTED = {1062, 1205, 1213, 1451, 1452, 1761, 1762, 3008}


class Family(NamedTuple):
    """A table, what it refers to, and what writers do to either.

    Attributes:
        columns: of ``t``.
        steps: returns one statement, made from a source of random numbers.
    """

    parents: str
    columns: str
    step: Callable[[random.Random], str]


def change_parent(name: str, dice: random.Random) -> str:
    """Delete a row, give it another key, or insert one."""
    one, other = dice.choice(PARENTS), dice.choice(PARENTS)
    return dice.choice(
        [
            f"DELETE FROM {name} WHERE id = {one}",
            f"DELETE FROM {name} WHERE id BETWEEN {one} AND {one + 2}",
            f"UPDATE {name} SET id = {other} WHERE id = {one}",
            f"INSERT INTO {name} (id) VALUES ({one})",
            f"INSERT IGNORE INTO {name} (id) VALUES ({one}), ({other})",
        ]
    )


def one_level(dice: random.Random) -> str:
    """Change the parent more often than the table."""
    if dice.random() < 0.5:
        return change_parent("p", dice)
    row = f"({dice.randrange(400)}, 'w', {dice.choice(PARENTS)})"
    return f"{dice.choice(['INSERT', 'REPLACE'])} INTO t (id, v, n) VALUES {row}"


def two_levels(dice: random.Random) -> str:
    """Change grandparents too: what they do reaches the table through the parents."""
    if dice.random() < 0.3:
        return change_parent("g", dice)
    if dice.random() < 0.3:
        one = dice.choice(PARENTS)
        return f"INSERT INTO p (id, g) VALUES ({one * 10 + dice.randrange(5)}, {one})"
    row = f"({dice.randrange(400)}, 'w', {dice.choice(PARENTS) * 10 + dice.randrange(5)})"
    return f"INSERT INTO t (id, v, n) VALUES {row}"


def in_the_key(dice: random.Random) -> str:
    """Change keys of the parent, and with them the keys of rows of the table."""
    if dice.random() < 0.5:
        return change_parent("p", dice)
    return f"INSERT INTO t (n, id, v) VALUES ({dice.choice(PARENTS)}, {dice.randrange(60)}, 'w')"


def to_itself(dice: random.Random) -> str:
    """Change rows that other rows of the table refer to."""
    one, other = dice.randrange(60), dice.randrange(60)
    return dice.choice(
        [
            f"INSERT INTO t (id, v, n) VALUES ({one}, 'w', {other})",
            f"INSERT INTO t (id, v, n) VALUES ({one}, 'w', NULL)",
            f"DELETE FROM t WHERE id = {one}",
            f"DELETE FROM t WHERE id BETWEEN {one} AND {one + 5}",
        ]
    )


PLAIN = "id INT PRIMARY KEY, v VARCHAR(20), n INT"
ONE = "CREATE TABLE p (id INT PRIMARY KEY)"
FAMILIES = {
    "cascade": Family(
        ONE,
        f"{PLAIN}, FOREIGN KEY (n) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE",
        one_level,
    ),
    "set null": Family(
        ONE,
        f"{PLAIN}, FOREIGN KEY (n) REFERENCES p (id) ON DELETE SET NULL ON UPDATE SET NULL",
        one_level,
    ),
    "two levels": Family(
        "CREATE TABLE g (id INT PRIMARY KEY); CREATE TABLE p (id INT PRIMARY KEY, g INT,"
        " FOREIGN KEY (g) REFERENCES g (id) ON DELETE CASCADE ON UPDATE CASCADE)",
        f"{PLAIN}, FOREIGN KEY (n) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE",
        two_levels,
    ),
    "part of the key": Family(
        ONE,
        "n INT, id INT, v VARCHAR(20), PRIMARY KEY (n, id),"
        " FOREIGN KEY (n) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE",
        in_the_key,
    ),
    "to itself": Family(
        ONE, f"{PLAIN}, FOREIGN KEY (n) REFERENCES t (id) ON DELETE CASCADE", to_itself
    ),
    "to itself, set null": Family(
        ONE, f"{PLAIN}, FOREIGN KEY (n) REFERENCES t (id) ON DELETE SET NULL", to_itself
    ),
}


def write(db: Database, family: Family, seed: int) -> None:
    """Send statements one by one; those that the keys forbid fail."""
    dice = random.Random(seed)
    session = db.connect()
    with session.cursor() as cursor:
        cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
        for _ in range(STEPS):
            try:
                cursor.execute(family.step(dice))
            except MySQLdb.Error as error:
                if error.args[0] not in EXPECTED:
                    raise
    session.close()


def logged(db: Database) -> bool:
    """Return whether this server's binlog has what foreign keys do."""
    with connect(options_of(db.server), role="test") as session:
        facts = read_facts(session)
    assert (not Capability.LOGGED_CASCADES.of(facts.version)) <= bool(cascades_unseen(facts))
    return not cascades_unseen(facts)


@pytest.mark.logged_cascades
@pytest.mark.draws(8)
@pytest.mark.parametrize("name", list(FAMILIES))
@pytest.mark.parametrize("seed", [1, 2])
def test_what_foreign_keys_do_to_rows_follows(either: Scene, name: str, seed: int) -> None:
    """R5, R6: since 9.6 the binlog has it, of every level, in the order in which it happened."""
    db, family = either.db, FAMILIES[name]
    if not logged(db):
        pytest.skip("this server writes what foreign keys do into no binlog")
    db.execute(family.parents)
    either.tables(family.columns)
    assert "FOREIGN KEY" not in db.query("SHOW CREATE TABLE _t_new")[0][1]
    either.open(flush_interval=0.05)
    writers = [
        threading.Thread(target=write, args=(db, family, seed * 100 + number))
        for number in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(DEADLINE)
        assert not writer.is_alive()
    either.drain()
    either.assert_equal()


def test_what_we_write_is_checked_against_no_parent_and_waits_for_none(scene: Scene) -> None:
    """R1: a parent's row that the application has locked holds no write of ours back."""
    db = scene.db
    db.execute("CREATE TABLE p (id INT PRIMARY KEY); INSERT INTO p VALUES (1), (2)")
    scene.tables(f"{PLAIN}, FOREIGN KEY (n) REFERENCES p (id)")
    scene.open()
    db.execute("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)")
    session = db.connect()
    with session.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT * FROM p FOR UPDATE")
        scene.drain()
        cursor.execute("ROLLBACK")
    session.close()
    scene.assert_equal()


@pytest.mark.slow
@pytest.mark.logged_cascades
@pytest.mark.parametrize("action", ["ON DELETE CASCADE", "ON DELETE SET NULL"])
def test_a_cascade_that_the_server_leaves_half_done_follows(scene: Scene, action: str) -> None:
    """R5: MySQL 9.7.4 drops the error where another row of a child than the first is locked."""
    db = scene.db
    db.execute("CREATE TABLE p (id INT PRIMARY KEY); INSERT INTO p VALUES (1)")
    scene.tables(f"{PLAIN}, FOREIGN KEY (n) REFERENCES p (id) {action}")
    if not logged(db):
        pytest.skip("this server writes what foreign keys do into no binlog")
    scene.open()
    db.execute("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 1)")
    holder, writer = db.connect(), db.connect()
    with holder.cursor() as held, writer.cursor() as cursor:
        held.execute("BEGIN")
        held.execute("SELECT * FROM t WHERE id = 2 FOR UPDATE")
        cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
        with contextlib.suppress(MySQLdb.OperationalError):
            assert cursor.execute("DELETE FROM p WHERE id = 1") == 0
        held.execute("ROLLBACK")
    assert db.query("SELECT id FROM p") == [(1,)]
    scene.drain()
    scene.assert_equal()
