"""Writes after the last checksum, where nothing looks any more: the applier alone is right (R21).

Every migration here is deferred. Its writes come when the first checksum is over and the next one
is an hour away; then the sentinel is dropped, and what was applied is what is swapped in.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from spirit_py import signals
from spirit_py.config import FeedOptions
from spirit_py.errors import DuplicateForUnique, ValueLost
from spirit_py.phases import Phase
from spirit_py.threads import Background
from tests.kits.migrate import Migrating, config_for

if TYPE_CHECKING:
    import threading

#: Applied as they come, or all together at the swap.
AT_ONCE = FeedOptions(flush_interval=0.05)
TOGETHER = FeedOptions(flush_interval=3600.0, swap_flush_interval=3600.0)

INTS = "id INT PRIMARY KEY, v INT"
TEN_INTS = "INSERT INTO t VALUES (1,10),(2,20),(3,30),(4,40),(5,50)"
TEXTS = "id INT PRIMARY KEY, v VARCHAR(50) COLLATE utf8mb4_bin"
TEN_TEXTS = "INSERT INTO t VALUES (1,'one'),(2,'two'),(3,'three'),(4,'four'),(5,'five')"


class Key(NamedTuple):
    """A new unique key, and values that it takes for one, or for two."""

    columns: str
    rows: str
    alter: str
    equal: tuple[str, str]
    other: str = "NULL"


KEYS = {
    "plain": Key(INTS, TEN_INTS, "ADD UNIQUE u (v)", ("77777", "77777")),
    "functional": Key(TEXTS, TEN_TEXTS, "ADD UNIQUE u ((LOWER(v)))", ("'New'", "'nEW'")),
    "multi-valued": Key(
        "id INT PRIMARY KEY, v JSON",
        "INSERT INTO t VALUES (1,'[1]'),(2,'[2]'),(3,'[3,33]'),(4,'[4]'),(5,'[5]')",
        "ADD UNIQUE u ((CAST(v AS UNSIGNED ARRAY)))",
        ("'[7, 8]'", "'[9, 7]'"),
    ),
    "generated": Key(
        "id INT PRIMARY KEY, v INT, g INT AS (v % 1000)",
        "INSERT INTO t (id, v) VALUES (1,10),(2,20),(3,30),(4,40),(5,50)",
        "ADD UNIQUE u (g)",
        ("1777", "2777"),
    ),
    "prefix": Key(TEXTS, TEN_TEXTS, "ADD UNIQUE u (v(3))", ("'abcd'", "'abce'")),
    "collation": Key(
        TEXTS, TEN_TEXTS, "MODIFY v VARCHAR(50) COLLATE utf8mb4_0900_ai_ci, ADD UNIQUE u (v)",
        ("'new'", "'NEW'"),
    ),
}  # fmt: skip


def deferred(engine: Any, db: Any, alter: str, feed: FeedOptions, **more: Any) -> Migrating:
    """Begin a migration of ``t``, and return when it waits for its sentinel."""
    config = config_for(
        db,
        table="t",
        alter=alter,
        no_shortcut=True,
        defer_cutover=True,
        recheck_interval=3600.0,
        feed=feed,
        **more,
    )
    migrating = Migrating(engine, config)
    migrating.wait_until(
        lambda: (
            bool(migrating.told.snapshots)
            and migrating.told.snapshots[-1].phase is Phase.SENTINEL
            and "dropped" in migrating.told.snapshots[-1].waiting_for
        ),
        "the wait for the sentinel",
    )
    return migrating


def write(db: Any, *statements: str) -> None:
    """Run statements in a session of their own."""
    connection = db.connect()
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    connection.commit()
    connection.close()


def swap(db: Any, migrating: Migrating) -> Any:
    """Drop the sentinel, and wait for the end."""
    db.execute("DROP TABLE IF EXISTS _t_snt")
    return migrating.end()


def check_refused(db: Any, migrating: Migrating, rows: str) -> DuplicateForUnique:
    """Wait for the end by a duplicate, and see that the source is whole."""
    before = db.query(rows)
    with pytest.raises(DuplicateForUnique) as caught:
        swap(db, migrating)
    assert db.query(rows) == before
    assert db.query("SHOW INDEX FROM t WHERE Key_name = 'u'") == []
    assert caught.value.resumable
    return caught.value


ROWS = "SELECT id, v FROM t ORDER BY id"


@pytest.fixture(autouse=True)
def quick_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show what a run waits for at once: each test waits for that."""
    monkeypatch.setattr(signals, "_SHOW_SECONDS", 0.05)


@pytest.mark.draws(7)
@pytest.mark.parametrize("feed", [AT_ONCE, TOGETHER], ids=["at once", "together"])
@pytest.mark.parametrize("name", KEYS)
def test_a_duplicate_is_named_and_nothing_is_lost(db, engine, name, feed):
    """Two rows that the new key takes for one end the run, whatever kind of key it is."""
    key = KEYS[name]
    db.execute(f"CREATE TABLE t ({key.columns})")
    db.execute(key.rows)
    migrating = deferred(engine, db, key.alter, feed)
    one, other = key.equal
    write(db, f"INSERT INTO t (id, v) VALUES (1001, {one}), (1002, {other})")
    error = check_refused(db, migrating, ROWS)
    assert any("Duplicate entry" in line and "u'" in line for line in error.details)
    assert any("1001" in line or "1002" in line for line in error.details)


@pytest.mark.parametrize("feed", [AT_ONCE, TOGETHER], ids=["at once", "together"])
def test_an_update_of_two_rows_to_one_value_is_found(db, engine, feed):
    """The duplicate is as real where no row is new."""
    db.execute(f"CREATE TABLE t ({INTS})")
    db.execute(TEN_INTS)
    migrating = deferred(engine, db, "ADD UNIQUE u (v)", feed)
    write(db, "UPDATE t SET v = 77777 WHERE id IN (1, 2)")
    check_refused(db, migrating, ROWS)


@pytest.mark.draws(7)
@pytest.mark.parametrize("name", KEYS)
def test_two_inserts_some_time_apart_are_found(db, engine, name):
    """The first one was applied when the second one comes."""
    key = KEYS[name]
    db.execute(f"CREATE TABLE t ({key.columns})")
    db.execute(key.rows)
    migrating = deferred(engine, db, key.alter, AT_ONCE)
    write(db, f"INSERT INTO t (id, v) VALUES (1001, {key.equal[0]})")
    migrating.wait_until(
        lambda: db.query("SELECT COUNT(*) FROM _t_new WHERE id = 1001") == [(1,)], "the first row"
    )
    write(db, f"INSERT INTO t (id, v) VALUES (1002, {key.equal[1]})")
    check_refused(db, migrating, ROWS)


@pytest.mark.slow
def test_the_same_command_goes_on_when_the_duplicate_is_gone(db, engine):
    """The copy and its place stay; with the duplicate removed the run ends well."""
    db.execute(f"CREATE TABLE t ({INTS})")
    db.execute(TEN_INTS)
    migrating = deferred(engine, db, "ADD UNIQUE u (v)", TOGETHER)
    write(db, "INSERT INTO t VALUES (1001, 5), (1002, 5)")
    check_refused(db, migrating, ROWS)
    assert db.query("SHOW TABLES LIKE '\\_t\\_new'")
    write(db, "UPDATE t SET v = 6 WHERE id = 1002")
    again = Migrating(engine, config_for(db, table="t", alter="ADD UNIQUE u (v)", no_shortcut=True))
    again.end()
    assert db.query("SELECT id, v FROM t WHERE id > 1000 ORDER BY id") == [(1001, 5), (1002, 6)]
    assert db.query("SHOW INDEX FROM t WHERE Key_name = 'u'")


@pytest.mark.draws(7)
@pytest.mark.parametrize("feed", [AT_ONCE, TOGETHER], ids=["at once", "together"])
@pytest.mark.parametrize("name", KEYS)
def test_values_that_move_are_no_duplicates(db, engine, name, feed):
    """Values are exchanged between rows, in one transaction or one after the other."""
    key = KEYS[name]
    db.execute(f"CREATE TABLE t ({key.columns})")
    db.execute(key.rows)
    migrating = deferred(engine, db, key.alter, feed)
    write(
        db,
        "BEGIN",
        "SET @one = (SELECT v FROM t WHERE id = 1), @two = (SELECT v FROM t WHERE id = 2)",
        "UPDATE t SET v = @two WHERE id = 1",
        "UPDATE t SET v = @one WHERE id = 2",
        "COMMIT",
        "BEGIN",
        "SET @three = (SELECT v FROM t WHERE id = 3)",
        "INSERT INTO t (id, v) VALUES (9, @three)",
        "DELETE FROM t WHERE id = 3",
        "COMMIT",
        "DELETE FROM t WHERE id = 4",
        f"INSERT INTO t (id, v) VALUES (10, {key.equal[0]})",
        "DELETE FROM t WHERE id = 10",
        f"INSERT INTO t (id, v) VALUES (11, {key.equal[1]})",
    )  # fmt: skip
    expected = db.query(ROWS)
    swap(db, migrating)
    assert db.query(ROWS) == expected
    assert db.query("SHOW INDEX FROM t WHERE Key_name = 'u'")


def many(db: Any, rows: int) -> None:
    """Fill ``t`` with rows whose value is their number."""
    db.execute(f"CREATE TABLE t ({INTS}, pad VARCHAR(200) NOT NULL DEFAULT '')")
    db.execute("SET SESSION cte_max_recursion_depth = 1000000")
    db.execute(
        "INSERT INTO t (id, v, pad) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1"
        f" FROM n WHERE i < {rows}) SELECT i, i, REPEAT('x', 150) FROM n"
    )


#: Memory for a few thousand rows.
SMALL = FeedOptions(flush_interval=0.05, soft_limit_bytes=3 << 20)


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize(
    "statement",
    ["UPDATE t SET v = v + 1", "UPDATE t SET v = 30001 - v", "UPDATE t SET v = v * 7919 % 30011"],
    ids=["shift", "turn", "mix"],
)
def test_a_transaction_beyond_the_memory_is_applied_in_parts(db, engine, statement):
    """A transaction that must be applied in parts, whose parts stand in each other's way."""
    many(db, 30_000)
    migrating = deferred(engine, db, "ADD UNIQUE u (v)", SMALL)
    write(db, statement)
    expected = db.query(ROWS)
    swap(db, migrating)
    assert db.query(ROWS) == expected
    assert db.query("SHOW INDEX FROM t WHERE Key_name = 'u'")


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize(
    "value",
    ["IF(id = 29999, 3 + 1, v + 1)", "IF(id = 5, 77777, -v)"],
    ids=["with an earlier part", "with a row that stays"],
)
def test_a_duplicate_in_a_transaction_beyond_the_memory_is_found(db, engine, value):
    """It is found where one of the two rows was written in an earlier part, over the other."""
    many(db, 30_000)
    db.execute("INSERT INTO t (id, v) VALUES (40000, 77777)")
    migrating = deferred(engine, db, "ADD UNIQUE u (v)", SMALL)
    write(db, f"UPDATE t SET v = {value} WHERE id < 40000")
    check_refused(db, migrating, ROWS)


def test_staged_and_direct_images_of_a_text_key_keep_their_order(db, engine):
    """An ENUM's 0 takes another path into the table than the image that follows it."""
    db.execute(
        "CREATE TABLE t (k VARCHAR(20) PRIMARY KEY, e ENUM('a','b')) COLLATE utf8mb4_0900_ai_ci"
    )
    db.execute("INSERT INTO t VALUES ('there', 'a')")
    migrating = deferred(engine, db, "ADD x INT", TOGETHER)
    write(
        db,
        "SET SESSION sql_mode = ''",
        "INSERT INTO t VALUES ('here', 'bad'), ('other', 'a')",
        "UPDATE t SET e = 'b' WHERE k = 'here'",
        "UPDATE t SET e = 'bad' WHERE k = 'OTHER'",
        "UPDATE t SET e = 'bad' WHERE k = 'there'",
        "UPDATE t SET e = 'a' WHERE k = 'THERE'",
    )
    swap(db, migrating)
    assert db.query("SELECT k, CAST(e AS SIGNED) FROM t ORDER BY k") == [
        ("here", 2), ("other", 0), ("there", 1),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("feed", [AT_ONCE, TOGETHER], ids=["at once", "together"])
@pytest.mark.parametrize("collation", ["utf8mb4_0900_ai_ci", "utf8mb4_general_ci", "utf8mb4_bin"])
def test_a_text_key_that_is_spelled_anew(db, engine, collation, feed):
    """R6: the server's weights say which changes are of one row; the last of them is swapped in."""
    db.execute(f"CREATE TABLE t (k VARCHAR(20) PRIMARY KEY, v INT) COLLATE {collation}")
    db.execute("INSERT INTO t VALUES ('one', 1), ('two', 2), ('three', 3), ('four', 4)")
    migrating = deferred(engine, db, "ADD x INT", feed)
    write(
        db,
        "UPDATE t SET k = 'One' WHERE k = 'one'",
        "UPDATE t SET k = 'ONE' WHERE k = 'One'",
        "DELETE FROM t WHERE k = 'two'",
        "INSERT INTO t VALUES ('TWO', 22)",
        "UPDATE t SET k = 'three ' WHERE k = 'three'",
        "DELETE FROM t WHERE k = 'FOUR' OR k = 'four'",
        "REPLACE INTO t VALUES ('F\u00f6ur', 44), ('four', 5), ('stra\u00dfe', 6), ('strasse', 7)",
        "DELETE FROM t WHERE k = 'STRASSE'",
    )
    rows = "SELECT HEX(k), v FROM t ORDER BY 1"
    expected = db.query(rows)
    swap(db, migrating)
    assert db.query(rows) == expected


class Narrower(NamedTuple):
    """A key column that a literal of the old value does not always find again."""

    old: str
    new: str
    #: What the new column shows for a value of the old one.
    shown: str = "k"


_TEXT = "{}(16) COLLATE utf8mb4_0900_{}"
NARROWER = {
    "padded bytes": Narrower("VARBINARY(16)", "BINARY(16)", "TRIM(TRAILING '\\0' FROM k)"),
    "padded text": Narrower(_TEXT.format("VARCHAR", "bin"), _TEXT.format("CHAR", "bin")),
    "padded, queue": Narrower(_TEXT.format("VARCHAR", "as_cs"), _TEXT.format("CHAR", "as_cs")),
    "coarser": Narrower(_TEXT.format("VARCHAR", "bin"), _TEXT.format("VARCHAR", "ai_ci")),
    "coarser, queue": Narrower(_TEXT.format("VARCHAR", "as_cs"), _TEXT.format("VARCHAR", "ai_ci")),
}  # fmt: skip


@pytest.mark.draws(7)
@pytest.mark.parametrize("feed", [AT_ONCE, TOGETHER], ids=["at once", "together"])
@pytest.mark.parametrize("name", NARROWER)
def test_a_key_that_is_padded_or_coarser(db, engine, name, feed):
    """A delete and a change of the key find their row, and rows that follow each other stay."""
    kind = NARROWER[name]
    db.execute(f"CREATE TABLE t (k {kind.old} NOT NULL PRIMARY KEY, n INT)")
    db.execute("INSERT INTO t VALUES ('a', 1), ('b', 2), ('c', 3), ('d', 4), ('e', 5), ('f ', 7)")
    migrating = deferred(engine, db, f"MODIFY k {kind.new} NOT NULL", feed)
    write(
        db,
        "DELETE FROM t WHERE k = 'a'",
        "UPDATE t SET k = 'bb' WHERE k = 'b'",
        "UPDATE t SET k = 'C' WHERE k = 'c'",
        "DELETE FROM t WHERE k = 'd'",
        "INSERT INTO t VALUES ('D', 44)",
        "INSERT INTO t VALUES ('x', 6)",
        "DELETE FROM t WHERE k = 'x'",
        "UPDATE t SET n = 55 WHERE k = 'e'",
        "DELETE FROM t WHERE k = 'f '",
    )
    swap(db, migrating)
    found = db.query(f"SELECT {kind.shown}, n FROM t ORDER BY n")
    assert [(k.decode() if isinstance(k, bytes) else k, n) for k, n in found] == [
        ("bb", 2), ("C", 3), ("D", 44), ("e", 55),
    ]  # fmt: skip


@pytest.mark.slow
def test_rows_that_become_one_by_a_coarser_key(db, engine):
    """Two source rows that the new primary key takes for one end the run."""
    db.execute("CREATE TABLE t (k VARCHAR(16) COLLATE utf8mb4_0900_bin PRIMARY KEY, v INT)")
    db.execute("INSERT INTO t VALUES ('a', 1), ('b', 2)")
    alter = "MODIFY k VARCHAR(16) COLLATE utf8mb4_0900_ai_ci NOT NULL"
    migrating = deferred(engine, db, alter, AT_ONCE)
    write(db, "INSERT INTO t VALUES ('A', 3)")
    error = check_refused(db, migrating, "SELECT k, v FROM t ORDER BY k")
    assert any("PRIMARY" in line for line in error.details)


_COMPUTED = "CREATE TABLE t (id INT PRIMARY KEY, v INT, ts TIMESTAMP, {})"
_TWO_ZONES = (
    "SET time_zone = '+14:00'",
    "INSERT INTO t (id, ts) VALUES (1001, FROM_UNIXTIME(1704110400))",
    "SET time_zone = '+00:00'",
    "INSERT INTO t (id, ts) VALUES (1002, FROM_UNIXTIME(1704112200))",
)
_TWO_VALUES = ("INSERT INTO t (id, v) VALUES (1001, 1001), (1002, 1002)",)
RECOMPUTED = {
    "expression": ("g INT AS (v), UNIQUE u (g)", "MODIFY g INT AS (v DIV 10)", _TWO_VALUES),
    "indirect": (
        "h INT AS (v), g INT AS (h + 1), UNIQUE u (g)", "MODIFY h INT AS (v DIV 10)", _TWO_VALUES,
    ),
    "added again": (
        "g INT AS (v), UNIQUE u (g)",
        "DROP INDEX u, DROP g, ADD g INT AS (v DIV 10), ADD UNIQUE u (g)",
        _TWO_VALUES,
    ),
    "functional": (
        "g INT AS (v), UNIQUE u ((g + 1))", "MODIFY g INT AS (v DIV 10)", _TWO_VALUES,
    ),
    "another zone": ("g DATE AS (DATE(ts)) STORED, UNIQUE u (g)", "ADD x INT", _TWO_ZONES),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", RECOMPUTED)
def test_a_key_that_is_computed_otherwise(db, engine, name):
    """A key that both tables have is no guarantee where the new table computes other values."""
    columns, alter, writes = RECOMPUTED[name]
    db.execute(_COMPUTED.format(columns))
    db.execute("INSERT INTO t (id, v) VALUES (1, 10), (2, 20), (3, 30)")
    migrating = deferred(engine, db, alter, TOGETHER)
    write(db, *writes)
    with pytest.raises(DuplicateForUnique, match="duplicates"):
        swap(db, migrating)
    assert db.query("SELECT COUNT(*) FROM t WHERE id > 1000") == [(2,)]


@pytest.mark.slow
def test_a_finer_key_that_is_spelled_anew_while_rows_are_copied(db, engine):
    """The copy reads another spelling than the first change that waits; the row is one row."""
    db.execute(
        "CREATE TABLE t (k VARCHAR(16) CHARACTER SET latin1 COLLATE latin1_swedish_ci PRIMARY KEY,"
        " v INT)"
    )
    numbers = range(100, 160)
    rows = ", ".join(f"('ä{n}', {n})" for n in numbers)
    db.execute(f"INSERT INTO t VALUES {rows}")

    def respell(stopping: threading.Event) -> None:
        connection = db.connect()
        with connection.cursor() as cursor:
            for n in itertools.cycle(numbers):
                if stopping.is_set():
                    break
                other = f"IF(k COLLATE latin1_bin = 'ä{n}', 'Ä{n}', 'ä{n}')"
                cursor.execute(f"UPDATE t SET k = {other} WHERE k = 'ä{n}'")
                connection.commit()
        connection.close()

    writer = Background("respell", respell)
    writer.start()
    alter = "MODIFY k VARCHAR(16) CHARACTER SET latin1 COLLATE latin1_general_cs NOT NULL"
    try:
        migrating = deferred(engine, db, alter, TOGETHER)
    finally:
        writer.stop()
        writer.wait(None)
    expected = db.query("SELECT HEX(k), v FROM t ORDER BY v")
    swap(db, migrating)
    assert db.query("SELECT HEX(k), v FROM t ORDER BY v") == expected


@pytest.mark.slow
def test_a_key_that_does_not_fit_came_and_went(db, engine):
    """A native ALTER of what is left succeeds, and so does the run."""
    db.execute(f"CREATE TABLE t ({INTS})")
    db.execute(TEN_INTS)
    alter = "MODIFY id SMALLINT UNSIGNED NOT NULL, ADD UNIQUE u (v)"
    migrating = deferred(engine, db, alter, TOGETHER)
    write(
        db,
        "BEGIN",
        "INSERT INTO t VALUES (100000, 5000), (65535, 6000)",
        "DELETE FROM t WHERE id = 100000",
        "COMMIT",
    )
    expected = db.query(ROWS)
    swap(db, migrating)
    assert db.query(ROWS) == expected


@pytest.mark.slow
@pytest.mark.parametrize("new", ["BINARY(8)", "VARBINARY(8)"])
def test_a_binary_key_is_found_in_its_new_column(db, engine, new):
    """A wider BINARY adds zeros to the key: a delete and a move find the row all the same."""
    db.execute("CREATE TABLE t (k BINARY(4) PRIMARY KEY, v INT)")
    db.execute("INSERT INTO t VALUES ('a', 1), ('b', 2), ('c', 3), ('dddd', 4)")
    migrating = deferred(engine, db, f"MODIFY k {new} NOT NULL", AT_ONCE)
    write(
        db,
        "DELETE FROM t WHERE v = 1",
        "UPDATE t SET k = 'e' WHERE v = 2",
        "UPDATE t SET v = 30 WHERE v = 3",
        "DELETE FROM t WHERE v = 4",
    )
    swap(db, migrating)
    zeros = "0" * (14 if new == "BINARY(8)" else 6)
    assert db.query("SELECT HEX(k), v FROM t ORDER BY k") == [(f"63{zeros}", 30), (f"65{zeros}", 2)]


class Narrowed(NamedTuple):
    """A key column that becomes narrower; six keys that fit, in order, and one that does not."""

    old: str
    new: str
    fitting: tuple[str, ...]
    unfit: str


_EXACT = "COLLATE utf8mb4_0900_bin"
NARROWED = {
    "integer": Narrowed(
        "BIGINT", "TINYINT UNSIGNED", ("1", "2", "3", "4", "254", "255"), "9223372036854775807"
    ),
    "decimal": Narrowed(
        "DECIMAL(10,2)", "DECIMAL(3,2)", ("-9.99", "-1", "0", "1", "1.01", "9.99"), "10.00"
    ),
    "bytes": Narrowed(
        "VARBINARY(16)", "VARBINARY(2)", ("''", "'a'", "'ab'", "'b'", "'c '", "'cc'"), "'ab\\0'"
    ),
    "text": Narrowed(
        f"VARCHAR(16) {_EXACT}", f"VARCHAR(2) {_EXACT}",
        ("''", "'a'", "'ab'", "'b'", "'c '", "'cc'"), "'ab '",
    ),
}  # fmt: skip


def narrowing(db: Any, engine: Any, kind: Narrowed, feed: FeedOptions) -> Migrating:
    """Migrate a table of the first five keys, whose values are their places."""
    db.execute(f"CREATE TABLE t (k {kind.old} PRIMARY KEY, n INT)")
    rows = ", ".join(f"({key}, {place})" for place, key in enumerate(kind.fitting[:5]))
    db.execute(f"INSERT INTO t VALUES {rows}")
    return deferred(engine, db, f"MODIFY k {kind.new} NOT NULL", feed)


@pytest.mark.draws(7)
@pytest.mark.parametrize("feed", [AT_ONCE, TOGETHER], ids=["at once", "together"])
@pytest.mark.parametrize("name", NARROWED)
def test_a_key_that_is_narrowed(db, engine, name, feed):
    """Rows are found, moved and removed by keys that fit; one that does not came and went."""
    kind = NARROWED[name]
    one, two, three, four, _, six = kind.fitting
    migrating = narrowing(db, engine, kind, feed)
    write(
        db,
        f"DELETE FROM t WHERE k = {one}",
        f"UPDATE t SET k = {six} WHERE k = {two}",
        f"UPDATE t SET n = 33 WHERE k = {three}",
        f"DELETE FROM t WHERE k = {four}",
        f"INSERT INTO t VALUES ({two}, 22), ({four}, 44)",
        "BEGIN",
        f"INSERT INTO t VALUES ({kind.unfit}, 77)",
        f"DELETE FROM t WHERE k = {kind.unfit}",
        "COMMIT",
    )
    expected = db.query("SELECT HEX(k), n FROM t ORDER BY k")
    swap(db, migrating)
    assert [n for _, n in expected] == [22, 33, 44, 4, 1]
    assert db.query("SELECT HEX(k), n FROM t ORDER BY k") == expected


@pytest.mark.draws(7)
@pytest.mark.parametrize("name", NARROWED)
def test_a_key_that_does_not_fit_is_never_another_one(db, engine, name):
    """It ends the run, and neither it nor a value cut from it is in the new table."""
    kind = NARROWED[name]
    migrating = narrowing(db, engine, kind, AT_ONCE)
    write(db, f"INSERT INTO t VALUES ({kind.unfit}, 77)")
    with pytest.raises(ValueLost, match="'k'"):
        migrating.end()
    assert db.query("SELECT n FROM _t_new ORDER BY n") == [(n,) for n in range(5)]


IMPOSSIBLE = {
    "generated": (
        "id INT PRIMARY KEY, v VARCHAR(20), g DATE AS (CAST(v AS DATE)) STORED",
        "ADD x INT",
    ),
    "added": ("id INT PRIMARY KEY, v VARCHAR(20)", "ADD g INT AS (TO_DAYS(v))"),
    "functional": ("id INT PRIMARY KEY, v VARCHAR(20)", "ADD KEY k ((LAST_DAY(v)))"),
    "converted": ("id INT PRIMARY KEY, v VARCHAR(20)", "MODIFY v DATE"),
}


@pytest.mark.draws(7)
@pytest.mark.parametrize("feed", [AT_ONCE, TOGETHER], ids=["at once", "together"])
@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_impossible_date_is_no_date(db, engine, name, feed):
    """What the server refuses as a date ends the run; it is never computed with, nor stored."""
    columns, alter = IMPOSSIBLE[name]
    db.set_global("sql_mode", "NO_ENGINE_SUBSTITUTION")
    db.execute(f"CREATE TABLE t ({columns})")
    db.execute("INSERT INTO t (id, v) VALUES (1,'2024-02-10'),(2,'2024-02-11'),(3,'2024-02-12')")
    migrating = deferred(engine, db, alter, feed)
    write(db, "SET sql_mode=''", "INSERT INTO t (id, v) VALUES (7,'2024-02-31'),(8,'2024-02-28')")
    with pytest.raises(ValueLost, match=r"2024-02-31|functional index 'k'"):
        swap(db, migrating)
    assert db.query("SELECT v FROM t WHERE id IN (7, 8) ORDER BY id") == [
        ("2024-02-31",),
        ("2024-02-28",),
    ]
