"""The way back after a swap: kept current, gone without losing a write, ended cleanly."""

from __future__ import annotations

import os
import random

import pytest

from spirit_py.cutover.plan import CutoverLimits
from spirit_py.errors import Interrupted, MigrationFailure, Refusal
from spirit_py.wayback.keeper import Ending, WayBackLost
from spirit_py.wayback.record import ENDED, KEEPING
from tests.cutover_kit import until
from tests.wayback_kit import Changed, Client, Notes

SEED = int(os.environ.get("SPIRIT_PY_TEST_SEED") or random.randrange(10_000))
TABLE = (
    "CREATE TABLE t (id BIGINT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL,"
    " u VARCHAR(40) NOT NULL UNIQUE)"
)


def rows_of(db, table: str = "t", names: str = "id, v, u") -> list[tuple]:
    """Give a table's rows."""
    return db.query(f"SELECT {names} FROM `{table}` ORDER BY id")


def fill(db, rows: int = 300) -> None:
    """Put rows into the table that no client touches."""
    values = ", ".join(f"({n}, {n * 7}, 'first{n}')" for n in range(1, rows + 1))
    db.execute(f"INSERT INTO t (id, v, u) VALUES {values}")


def journal(clients: list[Client]) -> dict[int, tuple[int, str]]:
    """Stop the clients and give what was acknowledged."""
    for client in clients:
        client.stop()
    assert [client.errors for client in clients] == [[]] * len(clients)
    return {key: row for client in clients for key, row in client.rows.items()}


def test_nothing_is_lost_on_the_way_back(db, spark_engine):
    """Clients write before, during and after the swap and through the revert: all of it is there.

    The new definition has a wider key and one column more; unique values move all the time.
    """
    print(f"SPIRIT_PY_TEST_SEED={SEED}")  # noqa: T201 - to repeat a failure
    db.execute(TABLE)
    fill(db)
    clients = [Client(db, "t", number, SEED) for number in range(3)]

    def writes() -> int:
        return sum(client.writes for client in clients)

    until(lambda: writes() > 100, "the first writes")
    changed = Changed(
        db,
        "ADD COLUMN extra INT NOT NULL DEFAULT 3, MODIFY v BIGINT NOT NULL",
        engine=spark_engine,
    )
    after_swap = writes()
    keeping = changed.keep()
    until(lambda: writes() > after_swap + 300, "writes after the swap")
    said = changed.revert()
    at_revert = writes()
    until(lambda: writes() > at_revert + 100, "writes after the revert")
    expected = journal(clients)
    assert keeping.result() is Ending.REVERTED
    assert changed.columns() == ["id", "v", "u"]
    found = {key: (v, u) for key, v, u in rows_of(db) if key > 1000}
    assert found == expected
    assert rows_of(db)[:300] == [(n, n * 7, f"first{n}") for n in range(1, 301)]
    assert changed.tables() == {"t"}
    assert said.said("going back loses the values of column extra")
    assert said.said("goes back from bigint to int")
    assert said.said("0 chunks repaired")
    assert said.said("has its old definition again")


def test_dropped_and_renamed_columns(db, spark_engine):
    """Dropped columns keep what they had, in old rows; renamed and retyped ones are carried."""
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, gone VARCHAR(20) DEFAULT 'd',"
        " at TIMESTAMP(6) NOT NULL DEFAULT '2020-01-01 00:00:00' ON UPDATE CURRENT_TIMESTAMP(6),"
        " b VARCHAR(200) CHARACTER SET utf8mb4, c DATETIME)"
    )
    db.execute(
        "INSERT INTO t (id, a, gone, at, b, c) VALUES (1, 1, 'one', '2021-01-01', 'x', NOW()),"
        " (2, 2, NULL, '2021-01-02', 'y', NULL), (3, 3, 'three', '2021-01-03', 'z', NULL)"
    )
    changed = Changed(
        db,
        "DROP COLUMN gone, DROP COLUMN at, RENAME COLUMN a TO gone, MODIFY b VARCHAR(40)"
        " CHARACTER SET latin1, ADD COLUMN a INT DEFAULT 9",
        engine=spark_engine,
    )
    keeping = changed.keep()
    db.execute("UPDATE t SET gone = 10, b = 'é' WHERE id = 1")
    db.execute("UPDATE t SET b = 'yy' WHERE id = 2")
    db.execute("DELETE FROM t WHERE id = 3")
    db.execute("INSERT INTO t (id, gone, b, a) VALUES (4, 4, 'new', 44)")
    said = changed.revert(skip_drop=True)
    assert keeping.result() is Ending.REVERTED
    assert rows_of(db, names="id, a, gone, LEFT(at, 10), b") == [
        (1, 10, "one", "2021-01-01", "é"),
        (2, 2, None, "2021-01-02", "yy"),
        (4, 4, "d", "2020-01-01", "new"),
    ]
    assert rows_of(db, "_t_undone", "id, gone, b, a") == [
        (1, 10, "é", 9),
        (2, 2, "yy", 9),
        (4, 4, "new", 44),
    ]
    assert changed.tables() == {"t", "_t_undone"}
    assert said.said("going back loses the values of column a")
    assert said.said("columns gone, at will have the default in rows that were written after")


def test_a_value_that_does_not_fit_ends_the_way_back(db, spark_engine):
    """The application keeps its value and its table; the way back says why it is lost."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL)")
    db.execute("INSERT INTO t (v) VALUES (1), (2)")
    changed = Changed(db, "MODIFY v BIGINT NOT NULL", engine=spark_engine)
    keeping = changed.keep()
    db.execute("INSERT INTO t (v) VALUES (5000000000)")
    with pytest.raises(WayBackLost, match="column v of") as lost:
        keeping.result()
    assert lost.value.exit_code == 1
    assert "the change itself is done and stays" in lost.value.hint
    db.execute("INSERT INTO t (v) VALUES (6000000000)")
    assert db.query("SELECT v FROM t ORDER BY id")[2:] == [(5_000_000_000,), (6_000_000_000,)]
    stored = changed.stored()
    assert stored is not None
    assert stored.state == ENDED
    assert "_t_old" in changed.tables()
    with pytest.raises(Refusal, match=r"there is no way back for .* any more: a changed row does"):
        changed.revert()


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE TABLE t",
        "ALTER TABLE t ADD COLUMN more INT",
        "RENAME TABLE t TO elsewhere",
    ],
)
def test_ddl_by_others_ends_the_way_back(db, spark_engine, statement):
    """A change of the new table by others is theirs; the way back ends, nothing is locked."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL)")
    db.execute("INSERT INTO t (v) VALUES (1), (2)")
    changed = Changed(db, "ADD COLUMN extra INT", engine=spark_engine)
    keeping = changed.keep()
    db.execute("UPDATE t SET v = 5 WHERE id = 1")
    db.execute(statement)
    with pytest.raises(WayBackLost, match="another session changed the definition"):
        keeping.result()
    assert db.query("SELECT COUNT(*) FROM _t_old") == [(2,)]
    stored = changed.stored()
    assert stored is not None
    assert stored.state == ENDED


def test_the_time_is_over(db, spark_engine):
    """At the end of the time the old table and the checkpoint are dropped."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL)")
    changed = Changed(db, "ADD COLUMN extra INT", seconds=2.0, engine=spark_engine)
    keeping = changed.keep()
    db.execute("INSERT INTO t (v) VALUES (1)")
    assert keeping.result() is Ending.TIME
    assert changed.tables() == {"t"}
    assert changed.columns() == ["id", "v", "extra"]
    with pytest.raises(Refusal, match="no way back is kept for"):
        changed.revert()


def test_the_old_table_stays_where_that_was_asked(db, spark_engine):
    """With keep_old the old table stays at the end of the time, current to the last row."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL)")
    changed = Changed(db, "ADD COLUMN e INT", seconds=3.0, keep_old=True, engine=spark_engine)
    keeping = changed.keep()
    db.execute("INSERT INTO t (v) VALUES (1)")
    assert keeping.result() is Ending.TIME
    assert changed.tables() == {"t", "_t_old"}
    assert rows_of(db, "_t_old", "id, v") == [(1, 1)]


def test_interrupted_and_taken_over(db, spark_engine):
    """A signal ends the keeping and writes the position; a revert goes on from there by itself."""
    db.execute(TABLE)
    fill(db, 50)
    changed = Changed(db, "ADD COLUMN extra INT", engine=spark_engine)
    keeping = changed.keep()
    db.execute("UPDATE t SET v = -1 WHERE id = 7")
    until(lambda: db.query("SELECT v FROM _t_old WHERE id = 7") == [(-1,)], "the change")
    changed.stop.request(Interrupted(2))
    with pytest.raises(Interrupted) as interrupted:
        keeping.result()
    assert interrupted.value.exit_code == 130
    assert "spirit-py revert still goes back" in interrupted.value.hint
    stored = changed.stored()
    assert stored is not None
    assert stored.state == KEEPING
    assert stored.position != changed.record.position
    db.execute("DELETE FROM t WHERE id = 8")
    db.execute("INSERT INTO t (id, v, u) VALUES (100, 1, 'first8')")
    said = changed.revert()
    assert said.said("no process keeps the way back any more")
    assert changed.columns() == ["id", "v", "u"]
    assert {key: v for key, v, _ in rows_of(db)} == {
        **{n: n * 7 for n in range(1, 51) if n != 8},
        7: -1,
        100: 1,
    }
    assert changed.tables() == {"t"}


def test_a_revert_that_fails_may_be_tried_again(db, spark_engine):
    """A transaction that holds the table through all tries fails the revert, not the keeping."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL)")
    db.execute("INSERT INTO t (v) VALUES (1), (2)")
    changed = Changed(db, "ADD COLUMN extra INT", engine=spark_engine)
    changed.limits = CutoverLimits(lock_wait=1.0, attempts=2, pause=0.1, kill=False)
    keeping = changed.keep()
    holder = db.connect(autocommit=False)
    with holder.cursor() as cursor:
        cursor.execute("UPDATE t SET v = 3 WHERE id = 1")
    with pytest.raises(MigrationFailure):
        changed.revert()
    holder.commit()
    until(lambda: db.query("SELECT v FROM _t_old WHERE id = 1") == [(3,)], "the change")
    changed.revert(Notes())
    assert keeping.result() is Ending.REVERTED
    assert rows_of(db, names="id, v") == [(1, 3), (2, 2)]
