"""Changes of keys that the server alone can compare, applied side by side by their weights (R6)."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import pytest

from spirit_py.feed import partitions
from spirit_py.mysql.connect import connect
from tests.kits.draw import seed_of
from tests.kits.texts import LETTERS, like, text
from tests.kits.waiting import until

if TYPE_CHECKING:
    from tests.fixtures.feed import Scene

SEED = seed_of("SPIRIT_PY_SEED")
LATIN = [letter for letter in LETTERS if all(ord(c) < 256 for c in letter)]
ASCII = [letter for letter in LETTERS if letter.isascii()]
THAI = [*ASCII, "\u0e01\u0e32", "\u0e40\u0e01", "\u0e44\u0e01", "\u0e01"]
NUMBERS = ["1", "2", "0", "-", "e1", ".5"]
BASIC = [letter for letter in LETTERS if all(ord(c) < 1 << 16 for c in letter)]


class Kind(NamedTuple):
    """A table whose key is compared by weight; ``id`` is its text."""

    definition: str
    alter: str = "ADD x INT DEFAULT 7"
    letters: list[str] = LETTERS
    unique: bool = False


def keyed(of: str, **more) -> Kind:
    """Return a table with one text as its key."""
    return Kind(f"id {of} NOT NULL, part INT NOT NULL, v INT, PRIMARY KEY (id)", **more)


KINDS = {
    "ai_ci": keyed("VARCHAR(20) COLLATE utf8mb4_0900_ai_ci"),
    "ai_ci char": keyed("CHAR(20) COLLATE utf8mb4_0900_ai_ci"),
    "as_cs": keyed("VARCHAR(20) COLLATE utf8mb4_0900_as_cs"),
    "as_ci": keyed("VARCHAR(20) COLLATE utf8mb4_0900_as_ci"),
    "spanish, traditional": keyed("VARCHAR(20) COLLATE utf8mb4_es_trad_0900_ai_ci"),
    "hungarian": keyed("VARCHAR(20) COLLATE utf8mb4_hu_0900_ai_ci"),
    "czech": keyed("VARCHAR(20) COLLATE utf8mb4_cs_0900_as_cs"),
    "japanese": keyed("VARCHAR(20) COLLATE utf8mb4_ja_0900_as_cs_ks"),
    "padded": keyed("VARCHAR(20) COLLATE utf8mb4_general_ci"),
    "padded char": keyed("CHAR(20) COLLATE utf8mb4_unicode_ci"),
    "padded, contractions": keyed("VARCHAR(20) COLLATE utf8mb4_danish_ci"),
    "padded, binary": keyed("VARCHAR(20) COLLATE utf8mb4_bin"),
    "german dictionary": keyed("VARCHAR(20) COLLATE utf8mb4_german2_ci"),
    "utf16": keyed("VARCHAR(20) CHARACTER SET utf16 COLLATE utf16_unicode_520_ci"),
    "utf8mb3": keyed("VARCHAR(20) CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci",
                     letters=BASIC),
    "ucs2": keyed("VARCHAR(20) CHARACTER SET ucs2 COLLATE ucs2_general_ci", letters=BASIC),
    "latin1": keyed("VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci", letters=LATIN),
    "widened": keyed("VARCHAR(20) COLLATE utf8mb4_0900_ai_ci",
                     alter="MODIFY id VARCHAR(40) COLLATE utf8mb4_0900_ai_ci NOT NULL"),
    "staged": keyed("VARCHAR(20) COLLATE utf8mb4_0900_ai_ci", alter="MODIFY v VARCHAR(30)"),
    "second unique key": Kind("id VARCHAR(20) COLLATE utf8mb4_0900_ai_ci NOT NULL, part INT NOT"
                              " NULL, v INT, PRIMARY KEY (id), UNIQUE (v)", unique=True),
    "composite": Kind("id VARCHAR(20) COLLATE utf8mb4_0900_ai_ci NOT NULL, part INT NOT NULL,"
                      " v INT, PRIMARY KEY (part DESC, id)"),
    "composite, descending text": Kind("id VARCHAR(20) COLLATE utf8mb4_general_ci NOT NULL, part"
                                       " INT NOT NULL, v INT, PRIMARY KEY (id DESC, part)"),
}  # fmt: skip


#: Keys that have no usable weights, or are other keys in the new table.
QUEUES = {
    "double": Kind("id DOUBLE NOT NULL, part INT NOT NULL, v INT, PRIMARY KEY (id)",
                   letters=NUMBERS),
    "double, staged": Kind("id DOUBLE NOT NULL, part INT NOT NULL, v INT, PRIMARY KEY (id)",
                           alter="MODIFY v VARCHAR(30)", letters=NUMBERS),
    "thai": keyed("VARCHAR(20) CHARACTER SET tis620", letters=THAI),
    "gbk": keyed("VARCHAR(20) CHARACTER SET gbk", letters=ASCII),
    "finer": keyed("VARCHAR(20) COLLATE utf8mb4_0900_ai_ci",
                   alter="MODIFY id VARCHAR(20) COLLATE utf8mb4_0900_bin NOT NULL"),
}  # fmt: skip


def write_at_random(scene: Scene, kind: Kind, made: random.Random, transactions: int) -> None:
    """Insert, change, respell, move and delete rows; what the server refuses has no effect."""
    session = scene.db.connect()
    known = [text(made, kind.letters) for _ in range(12)]
    serial = made.randrange(1000)
    with session.cursor() as cursor:
        for _ in range(transactions):
            cursor.execute("BEGIN")
            for _ in range(made.randint(1, 6)):
                serial += 1
                key = made.choice(known)
                other = like(made, made.choice([key, made.choice(known)]), kind.letters)
                part = made.randint(1, 2)
                value = made.randint(1, 15) if kind.unique else serial
                sql, values = made.choice([
                    ("INSERT INTO t VALUES (%s, %s, %s)", (other, part, value)),
                    ("INSERT INTO t VALUES (%s, %s, %s)", (other, part, value)),
                    ("REPLACE INTO t VALUES (%s, %s, %s)", (other, part, value)),
                    ("UPDATE t SET v = %s WHERE id = %s", (value, other)),
                    ("UPDATE t SET id = %s WHERE id = %s AND part = %s", (other, key, part)),
                    ("UPDATE t SET part = 3 - part WHERE id = %s", (other,)),
                    ("DELETE FROM t WHERE id = %s AND part = %s", (other, part)),
                ])  # fmt: skip
                with suppress(Exception):
                    cursor.execute(sql, values)
                if made.random() < 0.2:
                    known[made.randrange(len(known))] = other
            cursor.execute(made.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))
    session.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make batches and partitions small, so that few rows fill many of them."""
    monkeypatch.setattr(partitions, "SPLIT_ROWS", 8)
    monkeypatch.setattr(partitions, "MERGE_ROWS", 2)
    monkeypatch.setattr("spirit_py.feed.apply.BATCH_ROWS", 23)


@pytest.mark.draws(5)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", KINDS)
def test_any_history_leads_to_the_rows_of_the_source(scene: Scene, name: str) -> None:
    """R5, R6: the new table has every row of the source, byte for byte, and no other."""
    kind = KINDS[name]
    made = random.Random(f"{SEED} {name}")
    scene.tables(kind.definition, kind.alter)
    scene.open(flush_interval=0.02, batch_rows=5, apply_threads=3)
    assert scene.subscription.weights is not None
    for _ in range(3):
        write_at_random(scene, kind, made, 60)
        scene.drain()
        hexed = "HEX(id), part, v"
        found, expected = (
            sorted(scene.db.query(f"SELECT {hexed} FROM {table}"), key=repr)
            for table in ("_t_new", "t")
        )
        same = [(a, b, str(c)) for a, b, c in found] == [(a, b, str(c)) for a, b, c in expected]
        assert same, f"SPIRIT_PY_SEED={SEED}"
    assert scene.feed.statistics().deduplicated > 0


@pytest.mark.draws(3)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", QUEUES)
def test_a_queue_keeps_any_history(scene: Scene, name: str) -> None:
    """R6, R21: where keys have no weights each change is applied, in order."""
    kind = QUEUES[name]
    made = random.Random(f"{SEED} {name}")
    scene.tables(kind.definition, kind.alter)
    # While rows are copied, so that merging tables have no exact states yet.
    scene.open(flush_interval=0.02, batch_rows=17, copying=True)
    assert scene.subscription.weights is None
    for _ in range(3):
        write_at_random(scene, kind, made, 60)
        scene.drain()
        found, expected = (
            sorted(scene.db.query(f"SELECT HEX(id), id, part, CAST(v AS CHAR) FROM {table}"))
            for table in ("_t_new", "t")
        )
        assert found == expected, f"SPIRIT_PY_SEED={SEED}"
    assert scene.feed.statistics().deduplicated == 0


@pytest.mark.slow
def test_texts_that_are_equal_are_one_key(either: Scene) -> None:
    """R6: 'a' and 'A' are one row for the server, so one change is applied for both."""
    either.tables("id VARCHAR(20) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, v VARCHAR(20), n INT")
    either.open(flush_interval=3600.0)
    either.db.execute("INSERT INTO t VALUES ('a', 'one', 1), ('b', 'two', 2), ('c', 'three', 3)")
    either.db.execute("UPDATE t SET id = 'A' WHERE id = 'a'")
    either.db.execute("DELETE FROM t WHERE id = 'b'; INSERT INTO t VALUES ('B', 'four', 4)")
    either.db.execute("UPDATE t SET n = 9 WHERE id = 'C'; DELETE FROM t WHERE id = 'C'")
    either.drain()
    either.assert_equal()
    found = either.feed.statistics()
    assert (found.received, found.applied) == (9, 3)


@pytest.mark.slow
def test_changes_of_different_texts_are_applied_side_by_side(scene: Scene) -> None:
    """A locked row of one text holds up its partition only."""
    rows = 6 * partitions.SPLIT_ROWS
    scene.tables("id CHAR(36) PRIMARY KEY, n INT")
    scene.db.execute("INSERT INTO _t_new (id, n) VALUES ('key 0000001', 0)")
    scene.open(flush_interval=0.1)
    holder = scene.db.connect()
    with holder.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT * FROM _t_new WHERE id = 'key 0000001' FOR UPDATE")
    scene.db.execute("SET SESSION cte_max_recursion_depth = 10000000")
    scene.db.execute(
        "INSERT INTO t WITH RECURSIVE s AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM s WHERE"
        f" i < {rows}) SELECT CONCAT('key ', LPAD(i, 7, '0')), i FROM s"
    )
    last = f"SELECT 1 FROM _t_new WHERE id = 'KEY {rows:07}'"
    until(lambda: scene.db.query(last) != [], "the last row")
    assert scene.db.query("SELECT n FROM _t_new WHERE id = 'key 0000001'") == [(0,)]
    with holder.cursor() as cursor:
        cursor.execute("COMMIT")
    holder.close()
    scene.drain()
    scene.assert_equal()
    assert scene.subscription.buffer.partitions.splits > 0


ASKING = (
    "SELECT t.PROCESSLIST_ID FROM performance_schema.threads t"
    " JOIN performance_schema.user_variables_by_thread v ON v.THREAD_ID = t.THREAD_ID"
    " WHERE v.VARIABLE_NAME = 'spirit_py_role' AND v.VARIABLE_VALUE = 'feed-weights'"
)


def test_the_session_that_asks_may_be_killed_again_and_again(scene: Scene) -> None:
    """The question is asked again over another session; nothing is lost or applied early."""
    scene.tables("id VARCHAR(20) PRIMARY KEY, part INT, v INT")
    scene.open(flush_interval=0.05)
    made = random.Random(SEED)
    kind = keyed("VARCHAR(20)")
    killed: set[int] = set()

    def new_sessions() -> set[int]:
        return {int(row[0]) for row in scene.db.query(ASKING)} - killed

    for _ in range(8):
        write_at_random(scene, kind, made, 20)
        asking = until(new_sessions, "a session that asks")
        for number in asking:
            scene.db.kill(number)
        killed.update(asking)
    assert len(killed) >= 8
    scene.drain()
    scene.assert_equal()


def test_a_flush_under_the_lock_weighs_its_keys(either: Scene) -> None:
    """R15: the session that holds the locks applies everything, whatever has no weight yet."""
    either.tables("id VARCHAR(20) PRIMARY KEY, v INT")
    either.open(flush_interval=3600.0)
    with either.db.connect().cursor() as writer:
        for number in range(50):
            writer.execute(
                f"INSERT INTO t VALUES ('Key {number % 20}', {number})"
                f" ON DUPLICATE KEY UPDATE id = 'kEY {number % 20}', v = {number}"
            )
        writer.execute("COMMIT")
    with connect(either.options(), role="test", database=either.mapping.source.schema) as session:
        session.execute("LOCK TABLES t WRITE, _t_new WRITE")
        either.feed.block_wait(session=session)
        either.feed.flush_under_table_lock(session)
        assert either.feed.all_changes_flushed()
        session.execute("UNLOCK TABLES")
    either.assert_equal()


@pytest.mark.slow
def test_keys_without_weights_stay_in_order(scene: Scene) -> None:
    """R6: numbers of floating point have none: each change is applied, one after the other."""
    scene.tables("id DOUBLE PRIMARY KEY, v INT, n INT")
    scene.open()
    scene.db.execute("INSERT INTO t VALUES (0, 1, 1), (1e0, 2, 2)")
    scene.db.execute("UPDATE t SET id = -0e0 WHERE id = 0; DELETE FROM t WHERE id = 1")
    scene.drain()
    scene.assert_equal()
    assert scene.subscription.weights is None
    assert scene.feed.statistics().deduplicated == 0
