"""Both chunkers on real tables of every key type: each row in exactly one chunk."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from itertools import cycle

import pytest

from spirit_py.chunk.chunk import chunk_predicate, walk_directions
from spirit_py.chunk.chunker import CompositeChunker, OptimisticChunker, forced_source, make_chunker
from spirit_py.chunk.lanes import LaneChunker
from tests.kits.draw import seed_of
from tests.kits.tables import map_table, open_session

# Rows of a helper table of numbers 0 to 999, from which keys are made.
NUMBERS = """
CREATE TABLE numbers (n INT PRIMARY KEY) SELECT a.n + 10 * b.n + 100 * c.n AS n FROM
 (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4
  UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9) a,
 (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4
  UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9) b,
 (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4
  UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9) c"""

# Each: the column, an expression of n that gives distinct values, and edge values of the type.
KEYS = {
    "int": ("INT", "n - 500", ["-2147483648", "2147483647"]),
    "bigint unsigned": (
        "BIGINT UNSIGNED",
        "18446744073709551615 - n * 7",
        ["0", "9223372036854775807", "9223372036854775808"],
    ),
    "tinyint": ("TINYINT", "NULLIF(n, GREATEST(n, 128)) - 64", ["-128", "127"]),
    "auto_increment": ("INT AUTO_INCREMENT", "n * 3 + 1", ["0", "-7", "2000000000"]),
    "decimal": (
        "DECIMAL(40,10)",
        "(n - 500) / 7",
        ["-999999999999999999999999999999.9999999999", "0.0000000001"],
    ),
    "float": ("FLOAT", "n / 7", ["-3.4e38", "1e-38", "3.4e38"]),
    "double": ("DOUBLE", "(n - 500) / 7", ["-1.7e308", "5e-324", "1.7e308"]),
    "date": (
        "DATE",
        "DATE'2024-01-01' + INTERVAL n DAY",
        ["'0000-00-00'", "'2023-02-31'", "'2023-00-00'", "'9999-12-31'"],
    ),
    "datetime(6)": (
        "DATETIME(6)",
        "TIMESTAMP'2024-01-01 00:00:00' + INTERVAL n * 1001 MICROSECOND",
        ["'0000-00-00 00:00:00'", "'9999-12-31 23:59:59.999999'"],
    ),
    "timestamp(3)": (
        "TIMESTAMP(3)",
        "TIMESTAMP'2024-10-27 00:00:00' + INTERVAL n * 7001000 MICROSECOND",
        ["'0000-00-00 00:00:00'", "'2038-01-19 03:14:07.999'"],
    ),
    "time(2)": ("TIME(2)", "SEC_TO_TIME((n - 500) * 61 / 10)", ["'-838:59:59'", "'838:59:59'"]),
    "year": ("YEAR", "NULLIF(n, GREATEST(n, 250)) + 1901", ["0"]),
    "bit": ("BIT(40)", "n * 1000003", ["1099511627775"]),
    "binary": (
        "BINARY(6)",
        "UNHEX(LPAD(HEX(n * 65536), 8, '0'))",
        ["X'FF'", "X'FF0001'", "X'FFFFFFFFFFFF'"],
    ),
    "varbinary": ("VARBINARY(20)", "CONCAT(UNHEX('00'), n)", ["''", "X'00'", "X'0000'", "X'FF'"]),
    "enum": ("ENUM({members})", "n + 1", []),
    "set": ("SET('a','b','c','d','e','f','g','h','i')", "NULLIF(n, GREATEST(n, 512))", []),
    "large set": (f"SET({','.join(repr(f'm{n}') for n in range(53))})", "n * 4503599627371", []),
    "varchar ai_ci": (
        "VARCHAR(20) COLLATE utf8mb4_0900_ai_ci",
        "CONCAT(CHAR(97 + n % 26), ' ', n)",
        ["''", "'ä'", "'%'", "'''\"'", "'🐬'", r"'\\'"],
    ),
    "varchar as_cs": (
        "VARCHAR(20) COLLATE utf8mb4_0900_as_cs",
        "CONCAT(IF(n % 2, 'A', 'a'), n)",
        ["'a'", "'A'", "'ä'", "'Ä'"],
    ),
    "varchar bin pad": (
        "VARCHAR(20) COLLATE utf8mb4_bin",
        "CONCAT(n, ' ')",
        ["''", "'a'", "'A'", "'\t'", "'\n'"],
    ),
    "varchar bin no pad": (
        "VARCHAR(20) COLLATE utf8mb4_0900_bin",
        "CONCAT('k', n)",
        ["''", "'a'", "'a '", "' '", "'🐬'"],
    ),
    "char general_ci": (
        "CHAR(20) COLLATE utf8mb4_general_ci",
        "CONCAT('x', n)",
        ["''", "'ß'", "'z\t'"],
    ),
    "latin1": (
        "VARCHAR(20) CHARACTER SET latin1",
        "CONCAT('é', n)",
        ["''", "_latin1 X'81'", "'ÿ'"],
    ),
    "gbk": ("VARCHAR(20) CHARACTER SET gbk", "CONCAT('中', n)", ["''", "_gbk X'8140'"]),
    "sjis": ("VARCHAR(20) CHARACTER SET sjis", "CONCAT('ソ', n)", ["_sjis X'835C'", "'表'"]),
    "utf16": ("VARCHAR(20) CHARACTER SET utf16", "CONCAT('ü', n)", ["''", "'🐬'"]),
    "utf32": ("VARCHAR(20) CHARACTER SET utf32", "CONCAT('ü', n)", ["''", "'🐬'"]),
    "utf8mb3": ("VARCHAR(20) CHARACTER SET utf8mb3", "CONCAT('ü', n)", ["''", "'中'"]),
    "ucs2": ("VARCHAR(20) CHARACTER SET ucs2", "CONCAT('ü', n)", ["''", "'中'"]),
    "ujis": ("VARCHAR(20) CHARACTER SET ujis", "CONCAT('あ', n)", ["''"]),
    "big5": ("VARCHAR(20) CHARACTER SET big5", "CONCAT('中', n)", ["''"]),
    "swedish": (
        "VARCHAR(20) COLLATE utf8mb4_sv_0900_ai_ci",
        "CONCAT(ELT(1 + n % 4, 'å', 'ä', 'ö', 'z'), n)",
        [],
    ),
}

COMPOSITES = {
    "ints": ("a INT, b INT, PRIMARY KEY (a, b)", "n DIV 100, n"),
    "three": (
        "a INT, b VARCHAR(10), c DATE, PRIMARY KEY (a, b, c)",
        "n DIV 300, CONCAT('k', n DIV 10), DATE'2024-01-01' + INTERVAL n DAY",
    ),
    "descending": ("a INT, b INT, PRIMARY KEY (a DESC, b DESC)", "n DIV 100, n"),
    "mixed": ("a INT, b INT, c INT, PRIMARY KEY (a, b DESC, c)", "n DIV 300, n DIV 30, n"),
    "mixed, first descends": ("a INT, b INT, PRIMARY KEY (a DESC, b)", "n DIV 100, n"),
    "enum first": (
        "e ENUM('z','y','x','','w'), n INT, PRIMARY KEY (e, n)",
        "n % 5 + 1, n",
    ),
    "enum descending": ("e ENUM('z','y','x'), n INT, PRIMARY KEY (e DESC, n)", "n % 3 + 1, n"),
    "set last": ("n INT, s SET('a','b','c'), PRIMARY KEY (n, s)", "n DIV 8, n % 8"),
    "text and id": (
        "a VARCHAR(10) COLLATE utf8mb4_0900_ai_ci, n INT, PRIMARY KEY (a, n)",
        "ELT(1 + n % 4, 'a', 'A', 'ä', 'b'), n",
    ),
    "unique, not primary": (
        "id INT NOT NULL, a INT NOT NULL, UNIQUE KEY u (a, id), v INT",
        "n, n DIV 10, n",
    ),
}


def chunk_counts(db, mapping, rows: int, workers: int = 0) -> list[int]:
    """Cut the table as it stands; return the rows of each chunk, having checked the union.

    Args:
        workers: cut in lanes, a chunk for each of them in turns.
    """
    with open_session(db) as session:
        chunker = Turns(mapping, session.query, workers)
        key = ", ".join(f"`{each.name}`" for each in mapping.key_columns)
        marks = ", ".join(f"HEX(CAST({name} AS BINARY))" for name in key.split(", "))
        seen: list[tuple] = []
        counts = []
        while (chunk := chunker.next_chunk(rows)) is not None:
            where = chunk_predicate(mapping.key_columns, chunk, walk_directions(mapping.key))
            found = session.query(f"SELECT {marks} FROM t WHERE {where}")
            assert session.warning_count == len(
                [code for _, code, _ in session.warnings() if code == 1287]
            )
            counts.append(len(found))
            seen += found
            chunker.observed(chunk, len(found))
        everything = session.query(f"SELECT {marks} FROM t")
    assert sorted(seen) == sorted(everything)
    return counts


class Turns:
    """A chunker of the whole table, or one of lanes whose workers cut in turns."""

    def __init__(self, mapping, query, workers: int) -> None:
        self._turns = cycle(range(workers)) if workers else None
        self._whole = make_chunker(mapping, query)
        self._lanes = LaneChunker(mapping, query, workers=max(workers, 1))
        self.observed = self._lanes.observed if workers else self._whole.observed

    def next_chunk(self, rows: int):
        """Return the next chunk."""
        if self._turns is None:
            return self._whole.next_chunk(rows)
        return self._lanes.next_chunk(rows, next(self._turns))


def index_reads(session, statement: str) -> int:
    """Count the rows that a statement has read from indexes and tables."""
    session.execute("FLUSH STATUS")
    session.query(statement)
    return sum(
        int(value)
        for name, value in session.query("SHOW SESSION STATUS LIKE 'Handler_read%'")
        if name != "Handler_read_rnd"
    )


def make_single(db, kind: str) -> None:
    """Create and fill a table whose key is one column of a kind."""
    column, expression, edges = KEYS[kind]
    members = ",".join(f"'m{n}'" for n in range(1000))
    db.execute(NUMBERS)
    db.execute("SET SESSION sql_mode='ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO'")
    db.execute("SET SESSION time_zone='+00:00'")
    column = column.replace("{members}", members)
    db.execute(f"CREATE TABLE t (k {column} NOT NULL, v INT, PRIMARY KEY (k))")
    db.execute(
        f"INSERT INTO t SELECT {expression}, n FROM numbers WHERE ({expression}) IS NOT NULL"
    )
    for edge in edges:
        db.execute(f"INSERT INTO t VALUES ({edge}, -1)")
    db.execute("ANALYZE TABLE t")


@pytest.mark.draws(25)
@pytest.mark.parametrize("kind", KEYS)
def test_each_row_of_each_key_type_is_in_one_chunk(db, kind):
    """The union of the chunks is the table, and every chunk but the last has its rows."""
    make_single(db, kind)
    mapping = map_table(db)
    counts = chunk_counts(db, mapping, 37)
    if kind != "auto_increment":
        assert set(counts[:-1]) <= {37}
    assert max(counts) <= 37
    assert len(counts) > 3


@pytest.mark.draws(25)
@pytest.mark.parametrize("kind", KEYS)
def test_each_row_of_each_key_type_is_in_one_lane(db, kind):
    """Three workers: lanes begin and end at keys of every type, and their chunks are full."""
    make_single(db, kind)
    counts = chunk_counts(db, map_table(db), 50, workers=3)
    assert sum(count == 50 for count in counts) >= len(counts) - 8


@pytest.mark.draws(25)
@pytest.mark.parametrize("kind", KEYS)
def test_a_chunk_reads_no_more_than_its_rows(db, kind):
    """The range optimizer reads the predicate of every key type as a range of the index."""
    make_single(db, kind)
    mapping = map_table(db)
    with open_session(db) as session:
        chunker = make_chunker(mapping, session.query)
        for _ in range(3):
            chunk = chunker.next_chunk(50)
        assert chunk is not None
        where = chunk_predicate(mapping.key_columns, chunk, walk_directions(mapping.key))
        reads = index_reads(session, f"SELECT COUNT(v) FROM {forced_source(mapping)} WHERE {where}")
    total = len(db.query("SELECT 1 FROM t"))
    # No range over a SET of many members: its chunks scan, as the module says.
    assert reads < (total + 10 if kind == "large set" else 120)


@pytest.mark.draws(25)
@pytest.mark.parametrize("kind", KEYS)
def test_the_end_of_a_chunk_in_a_lane_costs_no_more_than_its_rows(db, kind):
    """A lane that has an end: the query for a chunk reads the chunk, not the lane."""
    make_single(db, kind)
    mapping = map_table(db)
    total = len(db.query("SELECT 1 FROM t"))
    asked: list[str] = []
    with open_session(db) as session:

        def query(sql: str):
            asked.append(sql)
            return session.query(sql)

        chunker = make_chunker(mapping, query)
        end = chunker.bound_after(total * 3 // 4)
        chunker.restart(None, end)
        asked.clear()
        for _ in range(3):
            each = chunker.next_chunk(10)
            assert each is not None
            assert each.lane_end == end is not None
        reads = max(index_reads(session, sql) for sql in asked)
    assert reads < (total + 10 if kind == "large set" else 60)


@pytest.mark.parametrize("kind", COMPOSITES)
def test_each_row_of_each_composite_key_is_in_one_chunk(db, kind):
    """Several columns, descending ones, ENUM and text among them, unique but not primary."""
    definition, expressions = COMPOSITES[kind]
    db.execute(NUMBERS)
    db.execute(f"CREATE TABLE t ({definition})")
    db.execute(f"INSERT INTO t SELECT {expressions} FROM numbers")
    db.execute("ANALYZE TABLE t")
    mapping = map_table(db)
    counts = chunk_counts(db, mapping, 37)
    assert counts[:-1] == [37] * (1000 // 37)
    assert sum(count == 37 for count in chunk_counts(db, mapping, 37, workers=2)) >= 20
    with open_session(db) as session:
        chunker = make_chunker(mapping, session.query)
        assert isinstance(chunker, CompositeChunker)
        for _ in range(10):
            chunk = chunker.next_chunk(50)
        assert chunk is not None
        where = chunk_predicate(mapping.key_columns, chunk, walk_directions(mapping.key))
        reads = index_reads(session, f"SELECT COUNT(*) FROM {forced_source(mapping)} WHERE {where}")
    assert reads < 120


def test_an_invisible_key_can_be_forced(db):
    """An index that is invisible to other sessions serves the chunks nevertheless."""
    db.execute(NUMBERS)
    db.execute("CREATE TABLE t (a INT PRIMARY KEY, c INT NOT NULL, UNIQUE KEY u (c))")
    db.execute("INSERT INTO t SELECT n, 2000 - n FROM numbers")
    mapping = map_table(db, "DROP PRIMARY KEY")
    assert mapping.key.name == "u"
    db.execute("ALTER TABLE t ALTER INDEX u INVISIBLE")
    hidden = replace(mapping, key=replace(mapping.key, visible=False))
    assert chunk_counts(db, hidden, 100) == [100] * 10 + [0]


def test_a_row_constructor_would_scan(db):
    """Why predicates are written out: the row constructor reads the whole table (measured)."""
    db.execute(NUMBERS)
    db.execute("CREATE TABLE t (a INT, b INT, v INT, PRIMARY KEY (a, b))")
    db.execute("INSERT INTO t SELECT n DIV 100, n, n FROM numbers")
    db.execute("ANALYZE TABLE t")
    with open_session(db) as session:
        constructor = index_reads(
            session,
            "SELECT COUNT(v) FROM t FORCE INDEX (PRIMARY)"
            " WHERE (a, b) > (5, 555) AND (a, b) <= (6, 606)",
        )
        written_out = index_reads(
            session,
            "SELECT COUNT(v) FROM t FORCE INDEX (PRIMARY)"
            " WHERE ((a > 5) OR (a = 5 AND b > 555)) AND ((a < 6) OR (a = 6 AND b <= 606))",
        )
    assert constructor > 1000
    assert written_out < 70


def test_equal_but_different_strings_stay_on_one_side(db):
    """'A' and 'a' are one key under ai_ci: a bound given as one holds for the other."""
    db.execute("CREATE TABLE t (k VARCHAR(10) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, v INT)")
    db.execute("INSERT INTO t VALUES ('a', 1), ('B', 2), ('ç', 3), ('D', 4)")
    mapping = map_table(db)
    with open_session(db) as session:
        chunker = make_chunker(mapping, session.query)
        first = chunker.next_chunk(2)
        # The application rewrites the boundary row's key by an equal one while chunks are cut.
        db.execute("UPDATE t SET k = 'b' WHERE k = 'B'")
        second = chunker.next_chunk(2)
        third = chunker.next_chunk(2)
        parts = []
        for chunk in filter(None, (first, second, third)):
            where = chunk_predicate(mapping.key_columns, chunk, walk_directions(mapping.key))
            parts.append([k for (k,) in session.query(f"SELECT k FROM t WHERE {where}")])
        assert chunker.next_chunk(2) is None
    assert parts == [["a", "b"], ["ç", "D"], []]


def test_an_auto_increment_table_with_a_gap_is_cut_in_few_chunks(db):
    """A gap of 10^9 between two dense ranges costs no chunk."""
    db.execute(NUMBERS)
    db.execute("CREATE TABLE t (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v INT)")
    db.execute("INSERT INTO t SELECT n + 1, n FROM numbers")
    db.execute("INSERT INTO t SELECT n + 1000000000, n FROM numbers")
    db.execute("INSERT INTO t SELECT n + 18446744073709550000, n FROM numbers")
    db.execute("ANALYZE TABLE t")
    mapping = map_table(db)
    with open_session(db) as session:
        assert isinstance(make_chunker(mapping, session.query), OptimisticChunker)
    counts = chunk_counts(db, mapping, 100)
    assert len(counts) <= 32


@pytest.mark.slow
@pytest.mark.parametrize("auto", [True, False], ids=["arithmetic", "looked up"])
def test_rows_that_live_throughout_are_in_one_chunk_while_others_come_and_go(db, auto):
    """Inserts and deletes between the cuts: what is there all the time is read exactly once."""
    seed = seed_of("SPIRIT_PY_TEST_SEED")
    print(f"SPIRIT_PY_TEST_SEED={seed}")  # noqa: T201 - shown when the test fails
    rng = random.Random(seed)
    key = "id INT AUTO_INCREMENT" if auto else "id INT"
    db.execute(NUMBERS)
    db.execute(f"CREATE TABLE t ({key}, steady INT NOT NULL, PRIMARY KEY (id))")
    db.execute("INSERT INTO t SELECT n * 10 + 5, 1 FROM numbers")
    db.execute("ANALYZE TABLE t")
    mapping = map_table(db)
    seen: list[int] = []
    with open_session(db) as session:
        chunker = make_chunker(mapping, session.query)
        while (chunk := chunker.next_chunk(rng.randint(5, 60))) is not None:
            for _ in range(20):
                number = rng.randrange(-100, 10_200)
                with contextlib.suppress(Exception):
                    db.execute(f"INSERT INTO t VALUES ({number}, 0)")
                db.execute(
                    f"DELETE FROM t WHERE steady = 0 AND id > {rng.randrange(10_000)} LIMIT 7"
                )
            where = chunk_predicate(mapping.key_columns, chunk, walk_directions(mapping.key))
            found = session.query(f"SELECT id, steady FROM t WHERE {where}")
            chunker.observed(chunk, len(found))
            seen += [number for number, steady in found if steady]
    assert sorted(seen) == [n * 10 + 5 for n in range(1000)]
