"""`spirit-py watch` on a real server: what it prints, and that nothing is missed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from mysql_words import reset_binlogs
from tests.kits.binlogs import purge_binlogs
from tests.kits.draw import seed_of
from tests.kits.undone_cascade import WEIGHT, undo_a_cascade
from tests.kits.waiting import DEADLINE, until
from tests.kits.watch import Watching, committed, kinds, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.fixtures.mysql import Database

SEED = seed_of("SPIRIT_PY_TEST_SEED")


@pytest.fixture(
    params=["db", pytest.param("db_file", marks=pytest.mark.draws(4))], ids=["gtid", "file"]
)
def either_db(request: pytest.FixtureRequest) -> Database:
    """Return a schema on each kind of server in turn."""
    found: Database = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def watch() -> Iterator[Callable[..., Watching]]:
    """Return what starts the command; what still runs at the end is ended."""
    runs: list[Watching] = []

    def start(db: Database, *arguments: str, **more: Any) -> Watching:
        runs.append(Watching(db, *arguments, **more))
        return runs[-1]

    yield start
    for run in runs:
        run.close()


def table(db: Database) -> None:
    """Create the table that most tests follow."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), n INT)")


def run(db: Database, sql: str) -> None:
    """Run statements, divided by ``;``, in a session that ends behind them."""
    with contextlib.closing(db.connect()) as session, session.cursor() as cursor:
        for part in sql.split(";"):
            cursor.execute(part)


def test_rows_carry_everything_a_consumer_needs(either_db: Database, watch) -> None:
    """Design 4: names, types, key, null, changed, lossless values, place and time of each row."""
    db = either_db
    db.execute(
        "CREATE TABLE t (id BIGINT UNSIGNED, k CHAR(2) CHARACTER SET latin1, b VARBINARY(9),"
        " e ENUM('0','x'), d DECIMAL(30,10), x DATE, j JSON, f FLOAT,"
        " g BIGINT UNSIGNED AS (id - 1), PRIMARY KEY (id, k))"
    )
    found = watch(db).started()
    db.execute("SET SESSION sql_mode = ''")
    db.execute(
        "INSERT INTO t (id, k, b, e, d, x, j, f) VALUES (18446744073709551614, 'é', X'00FF',"
        " 'none', '12345678901234567890.0123456789', '2024-00-31', '{\"a\": [1, null]}', 0.1)"
    )
    db.execute("UPDATE t SET b = NULL, x = '0000-00-00' WHERE id > 1")
    db.execute("DELETE FROM t")
    found.until(lambda lines: kinds(lines).count("commit") == 3)
    rows = committed(found.lines)
    assert [row["kind"] for row in rows] == ["insert", "update", "delete"]
    inserted = {column["name"]: column for column in rows[0]["after"]}
    assert rows[0]["before"] is None
    assert rows[2]["after"] is None
    assert inserted["id"] == {
        "name": "id",
        "ordinal": 1,
        "type": "bigint unsigned",
        "is_key": True,
        "is_null": False,
        "changed": True,
        "value": "18446744073709551614",
    }
    assert inserted["k"]["is_key"]
    assert not inserted["b"]["is_key"]
    assert (inserted["b"]["value"], inserted["b"]["encoding"]) == ("00ff", "hex")
    assert (inserted["e"]["value"], inserted["e"]["encoding"]) == ("0", "ordinal")
    assert values(rows[0]["after"]) == {
        "id": "18446744073709551614",
        "k": "é",
        "b": "00ff",
        "e": "0",
        "d": "12345678901234567890.0123456789",
        "x": "2024-00-31",
        "j": '{"a": [1, null]}',
        "f": "0.1",
        "g": "18446744073709551613",
    }
    changed = {column["name"] for column in rows[1]["after"] if column["changed"]}
    assert changed == {"b", "x"}
    assert {c["name"] for c in rows[1]["before"] if c["changed"]} == changed
    after = {column["name"]: column for column in rows[1]["after"]}
    assert (after["b"]["is_null"], after["b"]["value"]) == (True, None)
    assert after["x"]["value"] == "0000-00-00"
    for row in rows:
        assert (row["schema"], row["table"]) == (db.name, "t")
        assert row["file"].partition(".")[2].isdigit()
        assert row["executed_at"].endswith("Z")
        assert bool(row["gtid"]) == found.lines[0]["position"].startswith("gtid")
    offsets = [line["offset"] for line in found.lines[1:]]
    assert offsets == sorted(offsets)


@pytest.mark.slow
def test_transactions_and_ddl_come_in_order(either_db: Database, watch) -> None:
    """Begin, rows, commit; DDL with its text; positions that only end with the transaction."""
    db = either_db
    table(db)
    found = watch(db).started()
    db.execute("BEGIN; INSERT INTO t VALUES (1, 'a', 1); INSERT INTO t VALUES (2, 'b', 2); COMMIT")
    db.execute("ALTER TABLE t ADD c INT DEFAULT 5, RENAME COLUMN v TO w")
    db.execute("INSERT INTO t VALUES (3, 'c', 3, 4)")
    db.execute("CREATE TABLE u SELECT 1 AS one; TRUNCATE TABLE t")
    found.until(lambda lines: "truncate" in str(lines[-1].get("sql")).lower())
    assert kinds(found.lines) == [
        *("begin", "insert", "insert", "commit", "ddl", "begin", "insert", "commit"),
        *("begin", "ddl", "insert", "commit", "ddl"),
    ]
    lines = found.lines
    assert len({line["position"] for line in lines[:4]}) == 1
    assert lines[4]["position"] != lines[3]["position"]
    assert "RENAME COLUMN v TO w" in lines[5]["sql"]
    assert values(lines[7]["after"]) == {"id": "3", "w": "c", "n": "3", "c": "4"}
    assert lines[-1]["position"] == found.interrupt()


@pytest.mark.slow
@pytest.mark.parametrize("decision", ["COMMIT", "ROLLBACK"])
def test_rows_of_an_xa_transaction_wait_for_its_decision(
    either_db: Database, watch, decision: str
) -> None:
    """R8: printed rows are committed; the position stays in front of an undecided one."""
    db = either_db
    table(db)
    found = watch(db).started()
    run(db, "XA START 'x'; INSERT INTO t VALUES (1, 'xa', 1); XA END 'x'; XA PREPARE 'x'")
    db.execute("INSERT INTO t VALUES (2, 'plain', 1)")
    found.until(lambda lines: "commit" in kinds(lines))
    assert kinds(found.lines) == ["xa_prepare", "begin", "insert", "commit"]
    position = found.interrupt()
    second = watch(db, "--from", position).started()
    second.until(lambda lines: "xa_prepare" in kinds(lines))
    run(db, f"XA {decision} 'x'")
    done = f"xa_{decision.lower()}"
    second.until(lambda lines: kinds(lines)[-1:] == [done])
    assert second.lines[-1]["xid"] == "X'78',X'',1"
    ids = [values(row["after"])["id"] for row in committed(second.lines)]
    again = ["2"] if position.startswith("file") else []
    assert ids == again + (["1"] if decision == "COMMIT" else [])
    last = second.interrupt()
    third = watch(db, "--from", last, "--until", "now")
    assert third.ended() == 0, third.errors
    assert kinds(third.lines) == []


@pytest.mark.slow
def test_one_phase_xa_is_a_plain_transaction(db: Database, watch) -> None:
    """XA COMMIT ... ONE PHASE needs no decision."""
    table(db)
    found = watch(db).started()
    run(db, "XA START 'o'; INSERT INTO t VALUES (1, 'a', 1); XA END 'o'; XA COMMIT 'o' ONE PHASE")
    found.until(lambda lines: "commit" in kinds(lines))
    assert kinds(found.lines) == ["begin", "insert", "commit"]


class Writer(threading.Thread):
    """Changes ``t`` in transactions of one to four rows, and keeps a journal of them."""

    def __init__(self, db: Database) -> None:
        super().__init__(name="writer", daemon=True)
        self._session = db.connect()
        self._random = random.Random(SEED)
        self.journal: list[tuple[str, int, int]] = []
        self.halt = threading.Event()

    def run(self) -> None:
        """Write until told to halt."""
        alive: set[int] = set()
        number = 0
        with self._session.cursor() as cursor:
            while not self.halt.is_set():
                cursor.execute("BEGIN")
                done = []
                for _ in range(self._random.randint(1, 4)):
                    number += 1
                    row = self._random.randrange(50)
                    kind = "insert"
                    if row in alive:
                        kind = self._random.choice(["update", "delete"])
                    cursor.execute(_SQL[kind].format(row=row, number=number))
                    (alive.discard if kind == "delete" else alive.add)(row)
                    done.append((kind, row, number))
                cursor.execute("COMMIT")
                self.journal += done
                self.halt.wait(0.002)
        self._session.close()


_SQL = {
    "insert": "INSERT INTO t VALUES ({row}, 'new', {number})",
    "update": "UPDATE t SET n = {number} WHERE id = {row}",
    "delete": "DELETE FROM t WHERE id = {row}",
}


@pytest.fixture
def writer(either_db: Database) -> Iterator[Writer]:
    """Return a writer, running."""
    sys.stdout.write(f"SPIRIT_PY_TEST_SEED={SEED}\n")
    table(either_db)
    made = Writer(either_db)
    yield made
    made.halt.set()
    if made.ident:
        made.join(DEADLINE)


def seen(lines: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """Return rows as the journal has them; the number of a deleted row is not known."""
    found = []
    for row in committed(lines):
        columns = values(row["after"] or row["before"])
        number = 0 if row["kind"] == "delete" else int(columns["n"])
        found.append((row["kind"], int(columns["id"]), number))
    return found


def written(writer: Writer) -> list[tuple[str, int, int]]:
    """Return the journal in the same form."""
    return [(k, row, 0 if k == "delete" else number) for k, row, number in writer.journal]


@pytest.mark.slow
def test_a_restart_loses_nothing_and_keeps_the_order(
    either_db: Database, watch, writer: Writer
) -> None:
    """Runs ended by SIGINT, each from where the last one ended, give the writer's journal."""
    db = either_db
    first = watch(db, "--table", "t").started()
    writer.start()
    runs = [first]
    for _ in range(4):
        runs[-1].until(lambda lines: len(committed(lines)) > 60)
        runs.append(watch(db, "--table", "t", "--from", runs[-1].interrupt()))
    runs[-1].until(lambda lines: len(committed(lines)) > 60)
    writer.halt.set()
    writer.join(DEADLINE)
    runs.append(watch(db, "--table", "t", "--from", runs[-1].interrupt(), "--until", "now"))
    assert runs[-1].ended() == 0, runs[-1].errors
    assert runs[-1].lines[-1]["reason"] == "until"
    assert [row for found in runs for row in seen(found.lines)] == written(writer)


@pytest.mark.slow
def test_a_killed_run_and_killed_dumps_lose_nothing(
    either_db: Database, watch, writer: Writer
) -> None:
    """R12: the dump thread is killed again and again, the process once; each change comes."""
    db = either_db
    found = watch(db, "--table", "t").started()
    writer.start()
    for count in (50, 100, 150):
        found.until(lambda more, count=count: len(committed(more)) > count)
        until(db.kill_dumps, "a dump to kill")
    found.process.kill()
    found.ended()
    complete = seen(found.lines)
    ends = [at for at, line in enumerate(found.lines) if line["kind"] == "commit"]
    # A consumer that had taken over only a part goes on from its last position.
    kept = found.lines[: ends[len(ends) // 2] + 1]
    second = watch(db, "--table", "t", "--from", kept[-1]["position"])
    second.until(lambda more: len(committed(more)) > 50)
    writer.halt.set()
    writer.join(DEADLINE)
    assert second.interrupt()
    third = watch(db, "--table", "t", "--from", second.lines[-1]["position"], "--until", "now")
    assert third.ended() == 0, third.errors
    journal = written(writer)
    assert complete == journal[: len(complete)]
    assert seen(kept) + seen(second.lines) + seen(third.lines) == journal


@pytest.mark.slow
@pytest.mark.logged_cascades
def test_a_cascade_that_was_rolled_back_is_in_doubt(db: Database, watch) -> None:
    """The server logs it all the same; rows and commit say so, and no others do."""
    for sql in (
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "CREATE TABLE c (id INT PRIMARY KEY, p INT REFERENCES p (id) ON DELETE CASCADE)",
        "INSERT INTO p VALUES (1)",
        "INSERT INTO c VALUES (1, 1), (2, 1)",
        *WEIGHT,
    ):
        db.execute(sql)
    found = watch(db).started()
    undo_a_cascade(db, "DELETE FROM p WHERE id = 1", held=2)
    db.execute("UPDATE c SET id = 3 WHERE id = 2")
    found.until(lambda lines: kinds(lines).count("commit") == 2)
    marked = [(line["kind"], line.get("doubt", False)) for line in found.lines[1:]]
    assert ("delete", True) in marked[:-3], marked
    assert marked[-4:] == [
        *(("commit", True), ("begin", False), ("update", False), ("commit", False))
    ]
    assert db.query("SELECT COUNT(*) FROM c") == [(2,)]


@pytest.mark.slow
def test_until_now_ends_where_the_server_was(either_db: Database, watch) -> None:
    """``--until now`` with nothing to read ends at once; with a backlog it reads it all."""
    db = either_db
    table(db)
    empty = watch(db, "--until", "now")
    assert empty.ended() == 0, empty.errors
    assert [line["kind"] for line in empty.lines] == ["start", "end"]
    for number in range(300):
        db.execute(f"INSERT INTO t VALUES ({number}, 'a', 1)")
    full = watch(db, "--from", empty.lines[-1]["position"], "--until", "now")
    assert full.ended() == 0, full.errors
    ids = [int(values(row["after"])["id"]) for row in committed(full.lines)]
    assert ids == list(range(300))


@pytest.mark.slow
def test_a_purged_position_is_refused(either_db: Database, watch) -> None:
    """R17: what the server no longer has cannot be followed; the error says so."""
    db = either_db
    table(db)
    start = watch(db, "--until", "now")
    assert start.ended() == 0, start.errors
    db.execute("INSERT INTO t VALUES (1, 'a', 1); FLUSH BINARY LOGS")
    purge_binlogs(db)
    found = watch(db, "--from", start.lines[-1]["position"])
    assert found.ended() == 1
    assert "cannot resume" in found.errors
    assert "hint: the changes since then are not available" in found.errors
    assert found.lines == []
    # After RESET the numbers begin again, and go beyond those of the position.
    db.execute(reset_binlogs(db.server.version()))
    db.execute("INSERT INTO t VALUES (2, 'a', 1)")
    (begun,) = db.query("SELECT UNIX_TIMESTAMP()")
    last = watch(db, "--until", "now")
    assert last.ended() == 0, last.errors
    until(lambda: db.query("SELECT UNIX_TIMESTAMP()") != [begun], "the next second")
    db.execute(reset_binlogs(db.server.version()))
    for number in (3, 4, 5):
        db.execute(f"INSERT INTO t VALUES ({number}, 'a', 1)")
    for line in last.lines:
        found = watch(db, "--from", line["position"], "--until", "now")
        assert (found.ended(), found.lines) == (1, [])
        assert "the server's binlog was reset since" in found.errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "printed"),
    [
        ("ALTER TABLE t RENAME COLUMN v TO w", True),
        ("ALTER TABLE `t` ADD INDEX (n), RENAME COLUMN n TO v, RENAME COLUMN v TO n", True),
        ("ALTER TABLE `t` ADD UNIQUE (n), DROP PRIMARY KEY", True),
        ("ALTER TABLE t ADD more INT", False),
        ("DROP TABLE t", False),
    ],
    ids=["same shape", "behind an index", "another key", "another shape", "gone"],
)
def test_rows_that_nobody_can_describe_any_more_stop_the_stream(
    either_db: Database, watch, change: str, printed: bool
) -> None:
    """Rows from before a change of the definition are not given the names of after it."""
    db = either_db
    table(db)
    start = watch(db, "--until", "now")
    assert start.ended() == 0, start.errors
    db.execute("INSERT INTO t VALUES (1, 'a', 1)")
    db.execute(change)
    found = watch(db, "--from", start.lines[-1]["position"], "--until", "now")
    assert found.ended() == 1
    assert "cannot be described by the server's present definition" in found.errors
    assert "hint: follow from" in found.errors
    assert found.lines[-1]["reason"] == "failed"
    assert ("commit" in kinds(found.lines)) is printed
    if printed:
        # A run that ended behind the row knew of nothing; the next one says it at the DDL.
        position = next(line for line in found.lines if line["kind"] == "commit")["position"]
        rest = watch(db, "--from", position, "--until", "now")
        assert rest.ended() == 0, rest.errors
        (ddl,) = (line for line in rest.lines if line["kind"] == "ddl")
        assert "gave rows before it the names" in ddl["note"]


@pytest.mark.slow
@pytest.mark.parametrize("after", ["ALTER TABLE t {}", "DROP TABLE t"], ids=["altered", "gone"])
def test_rows_that_describe_themselves_outlive_every_ddl(
    either_db: Database, watch, after: str
) -> None:
    """With binlog_row_metadata=FULL old rows have the names, types and members of their time."""
    db = either_db
    db.set_global("binlog_row_metadata", "FULL")
    db.execute(EVERY_TYPE)
    start = watch(db, "--until", "now")
    assert start.ended() == 0, start.errors
    run(db, EVERY_VALUE)
    live = watch(db, "--from", start.lines[-1]["position"], "--until", "now")
    assert live.ended() == 0, live.errors
    change = "RENAME COLUMN v TO w, MODIFY e ENUM('c','b','a'), DROP COLUMN z, ADD y INT FIRST"
    db.execute(after.format(change))
    late = watch(db, "--from", start.lines[-1]["position"], "--until", "now")
    assert late.ended() == 0, late.errors
    (now,), (then,) = committed(live.lines), committed(late.lines)
    for column in then["after"]:
        column["type"] = column["type"].replace("geomcollection", "geometrycollection")
    assert [c for c in then["after"] if c["name"] != "z"] == [
        {**column, "type": column["type"].replace("tinyint(1)", "tinyint")}
        for column in now["after"]
        if column["name"] != "z"
    ]
    assert values(then["after"])["e"] == "b"
    assert {column["name"] for column in then["after"] if column["is_key"]} == {"id", "k"}


EVERY_TYPE = (
    "CREATE TABLE t (id INT UNSIGNED, k VARBINARY(9), v VARCHAR(20), e ENUM('a','b','c'), z INT,"
    " l CHAR(5) CHARACTER SET latin1, s SET('x','y'), t1 TINYINT(1), t2 SMALLINT UNSIGNED,"
    " t3 MEDIUMINT, t4 BIGINT UNSIGNED, f FLOAT, d DOUBLE, n DECIMAL(12,3) UNSIGNED, y4 YEAR,"
    " d1 DATE, d2 TIME(3), d3 DATETIME, d4 TIMESTAMP(6) NULL, b BIT(11), j JSON, x1 TINYBLOB,"
    " x2 MEDIUMTEXT, x3 BINARY(4), g GEOMETRY, p POINT, PRIMARY KEY (k, id))"
)
EVERY_VALUE = (
    "INSERT INTO t VALUES (4000000000, X'01', 'väl', 'b', 5, 'é', 'y', 1, 60000, -8000000,"
    " 18446744073709551615, 0.5, -1e300, 123.456, 2024, '2024-02-29', '-01:02:03.400',"
    " '2024-01-02 03:04:05', '2024-01-02 03:04:05.6', b'10000000001', '[1]', X'00', 'texte',"
    " X'AB', ST_GeomFromText('POINT(1 2)'), ST_GeomFromText('POINT(3 4)'))"
)


@pytest.mark.slow
def test_a_backlog_across_an_index_change_is_read(either_db: Database, watch) -> None:
    """A DDL that leaves the columns alone stops nothing, however far behind the stream is."""
    db = either_db
    table(db)
    start = watch(db, "--until", "now")
    assert start.ended() == 0, start.errors
    db.execute("INSERT INTO t VALUES (1, 'a', 1)")
    for change in HARMLESS_CHANGES:
        db.execute(change)
    db.execute("INSERT INTO t (id, v, n) VALUES (2, 'a', 1)")
    found = watch(db, "--from", start.lines[-1]["position"], "--until", "now")
    assert found.ended() == 0, found.errors
    assert kinds(found.lines) == [
        *("begin", "insert", "commit"),
        *["ddl"] * len(HARMLESS_CHANGES),
        *("begin", "insert", "commit"),
    ]


HARMLESS_CHANGES = (
    "ALTER TABLE t ADD INDEX (n), ALGORITHM=INPLACE, LOCK=NONE",
    "CREATE INDEX v ON t (v)",
    "ALTER TABLE `t` /*!50000 ADD UNIQUE u (n, id) */, ADD CONSTRAINT `c` CHECK (n < 9)",
    "ALTER TABLE t DROP CHECK c, RENAME INDEX u TO w, COMMENT='x, DROP COLUMN n'",
    "ALTER TABLE t ALTER COLUMN n SET DEFAULT 5, ALTER v SET INVISIBLE",
    "ALTER TABLE t DEFAULT CHARACTER SET latin1 AUTO_INCREMENT 5, FORCE",
    "/*!40000 ALTER TABLE `t` DISABLE KEYS */",
    "ALTER TABLE t ORDER BY n, v DESC",
    "ALTER TABLE t PARTITION BY LIST (id) (PARTITION p VALUES IN (1,2), PARTITION q VALUES IN (3))",
    "ALTER TABLE t DROP PARTITION q",
)


@pytest.mark.slow
def test_a_write_without_row_images_stops_the_stream(db: Database, watch) -> None:
    """R13: rows that a session logs as a statement are not in the binlog."""
    table(db)
    found = watch(db).started()
    run(db, "SET SESSION binlog_format = STATEMENT; INSERT INTO t VALUES (1, 'a', 1)")
    assert found.ended() == 1
    assert "STATEMENT format" in found.errors


@pytest.mark.slow
def test_scopes_leave_the_rest_out(db: Database, watch) -> None:
    """A table, a schema, everything: each sees its own."""
    table(db)
    db.execute("CREATE TABLE other (id INT PRIMARY KEY)")
    one = watch(db, "--table", "t").started()
    schema = watch(db).started()
    every = watch(db, scoped=False).started()
    db.execute("INSERT INTO other VALUES (1); ALTER TABLE other ADD x INT")
    db.execute("INSERT INTO t VALUES (1, 'a', 1)")
    for found in (one, schema, every):
        found.until(lambda lines: any(row["table"] == "t" for row in committed(lines)))
    assert kinds(one.lines) == ["begin", "insert", "commit"]
    assert kinds(schema.lines) == ["begin", "insert", "commit", "ddl", "begin", "insert", "commit"]
    tables = {(row["schema"], row["table"]) for row in committed(every.lines)}
    assert {(db.name, "t"), (db.name, "other")} <= tables


@pytest.mark.slow
def test_a_heartbeat_moves_the_position_while_nothing_happens(either_db: Database, watch) -> None:
    """Silence of the scope is not silence of the server."""
    db = either_db
    table(db)
    db.execute("CREATE TABLE other (id INT PRIMARY KEY)")
    found = watch(db, "--table", "t", "--heartbeat", "0.01").started()
    db.execute("INSERT INTO other VALUES (1)")
    start = found.lines[0]["position"]
    found.until(lambda lines: lines[-1]["kind"] == "heartbeat" and lines[-1]["position"] != start)
    assert set(kinds(found.lines)) == {"heartbeat"}


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_it_quietly(db: Database, watch) -> None:
    """``| head``: no message, no traceback, and the exit code of a broken pipe."""
    table(db)
    found = watch(db, read=False)
    assert found.process.stdout is not None
    assert b"start" in found.process.stdout.readline()
    run(db, "INSERT INTO t VALUES (1, 'a', 1)")
    assert b"begin" in found.process.stdout.readline()
    found.process.stdout.close()
    assert found.ended() == 141
    assert "error" not in found.errors


@pytest.mark.slow
def test_a_full_output_gives_the_position_to_go_on_from(
    either_db: Database, watch, tmp_path: Path
) -> None:
    """The error names the output and the cause; what was written whole and the rest are all."""
    db = either_db
    table(db)
    start = watch(db, "--until", "now")
    assert start.ended() == 0, start.errors
    for number in range(60):
        db.execute(f"INSERT INTO t VALUES ({number}, 'a', 1)")
    arguments = ("--from", start.lines[-1]["position"], "--until", "now")
    path, position, ids = tmp_path / "lines", "", []
    for room in (50, 20_000):
        full = watch(db, *arguments, into=(path, room))
        assert full.ended() == 1
        assert "error: cannot write to the standard output: File too large" in full.errors
        assert "hint: the last line may be incomplete" in full.errors
        position = full.errors.partition("\n  position: ")[2].partition("\n")[0]
        assert f"--from '{position}'" in full.errors
        *whole, _torn = path.read_bytes().split(b"\n")
        ids += committed([json.loads(line) for line in whole])
        arguments = ("--from", position, "--until", "now")
    assert ids
    rest = watch(db, *arguments)
    assert rest.ended() == 0, rest.errors
    assert len(ids) < 60
    ids += committed(rest.lines)
    assert [int(values(row["after"])["id"]) for row in ids] == list(range(60))


@pytest.mark.slow
def test_a_reader_that_stands_still_loses_nothing_by_the_end(db: Database, watch) -> None:
    """SIGINT in the middle of a line: the position on stderr is of the last whole one."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)")
    found = watch(db, read=False)
    output = found.process.stdout
    assert output is not None
    first = output.readline()
    db.execute("INSERT INTO t VALUES (0, 'x'), (1, 'x'), (2, 'x')")
    # Longer than a pipe: when it takes nothing more, this line was begun and not ended.
    db.execute("INSERT INTO t VALUES (3, REPEAT('x', 200000))")
    written = os.open(f"/proc/{found.process.pid}/fd/1", os.O_WRONLY | os.O_NONBLOCK)
    try:
        until(lambda: not select.select([], [written], [], 0)[1])
    finally:
        os.close(written)
    found.process.send_signal(signal.SIGINT)
    assert found.ended() == 130
    *whole, torn = (first + output.read()).split(b"\n")
    assert torn
    position = found.errors.partition("--from '")[2].partition("'")[0]
    rest = watch(db, "--from", position, "--until", "now")
    assert rest.ended() == 0, rest.errors
    events = [*committed([json.loads(line) for line in whole]), *committed(rest.lines)]
    assert [int(values(event["after"])["id"]) for event in events] == list(range(4))


@pytest.mark.slow
def test_the_login_and_the_table_are_named_when_they_are_wrong(db: Database, watch) -> None:
    """Errors have a hint and an exit code; a table that is not there is said."""
    found = watch(db, "--table", "nothing").started()
    until(lambda: "there is no table" in found.errors)
    assert found.interrupt()
    wrong = watch(db, "--password", "wrong")
    assert wrong.ended() == 2
    assert "error: " in wrong.errors
    assert "hint: " in wrong.errors


@pytest.mark.slow
def test_a_login_that_is_refused_later_says_where_to_go_on(db: Database, watch) -> None:
    """A stream runs for weeks, in which a password is changed."""
    user = f"u_{db.name[-10:]}"
    db.execute(f"CREATE USER {user} IDENTIFIED BY 'p'; GRANT ALL ON *.* TO {user}")
    found = watch(db, "--user", user, "--password", "p").started()
    db.execute(f"ALTER USER {user} IDENTIFIED BY 'another'")
    until(lambda: db.kill_dumps() or found.process.poll() is not None)
    assert found.ended() == 1
    db.execute(f"DROP USER {user}")
    assert "spirit-py explain access-denied" in found.errors
    onward = f"or unlock it, then go on with --from '{found.lines[-1]['position']}'"
    assert onward in found.errors


OTHERS = {"gh-ost": ("_t_gho", "_t_del"), "pt-online-schema-change": ("_t_new", "_t_old")}


@pytest.mark.slow
@pytest.mark.parametrize("tool", list(OTHERS))
def test_a_change_by_a_new_table_says_what_was_done_to_it(
    either_db: Database, watch, tool: str
) -> None:
    """Of another tool, whose statements are played: one change of the definition, in one line.

    A trigger on the new table, and a key to it, are no such change.
    """
    db, (new, old) = either_db, OTHERS[tool]
    table(db)
    found = watch(db, "--table", "t").started()
    alters = [f"ALTER TABLE {new} ADD COLUMN z INT", f"CREATE INDEX one ON {new} (n)"]
    rename = f"RENAME TABLE t TO {old}, {new} TO t"
    beside = [
        f"CREATE TRIGGER fires BEFORE INSERT ON {new} FOR EACH ROW SET @a = 1",
        "CREATE TABLE child (id INT PRIMARY KEY, t INT)",
        f"ALTER TABLE child ADD FOREIGN KEY (t) REFERENCES {new} (id)",
    ]
    never = (f"ALTER TABLE {new} ADD COLUMN never INT", f"DROP TABLE {new}")
    for sql in (*never, *alters, *beside):
        if sql.endswith(" INT"):
            db.execute(f"CREATE TABLE {new} LIKE t")
        db.execute(sql)
    db.execute(
        f"CREATE TABLE _other_new (id INT); ALTER TABLE _other_new ADD COLUMN x INT; {rename}"
    )
    db.execute("INSERT INTO t VALUES (1, 'a', 2, 3)")
    until(lambda: kinds(found.lines)[-1:] == ["commit"], "the row")
    (renamed,) = [line for line in found.lines if line.get("sql") == rename]
    assert renamed["alters"] == alters
    assert values(committed(found.lines)[-1]["after"]) == {"id": "1", "v": "a", "n": "2", "z": "3"}
