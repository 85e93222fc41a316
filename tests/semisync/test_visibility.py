"""No row is lost or repaired when a commit is in the binlog before it is visible (R2, R3)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from tests.kits.draw import seed_of
from tests.semisync.load import under_load
from tests.semisync.window import Window, run_migration

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.semisync

SEED_VARIABLE = "SPIRIT_PY_SEMISYNC_SEED"
ROWS = 3000
#: One transaction that inserts row 1, updates row 2 and deletes row 3.
WRITES = [
    "INSERT INTO t (id, v) VALUES (1, 'inserted')",
    "UPDATE t SET v = 'updated' WHERE id = 2",
    "DELETE FROM t WHERE id = 3",
]
EXPECTED = {1: "inserted", 2: "updated"} | {n: f"row {n}" for n in range(4, ROWS)}


def fill(db, key="id INT PRIMARY KEY", rows=ROWS) -> None:
    """Make the table `t` with rows 2 up."""
    db.execute(f"CREATE TABLE t ({key}, v VARCHAR(20) NOT NULL)")
    db.execute("SET SESSION cte_max_recursion_depth = 1000000")
    db.execute(
        "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i <"
        f" {rows - 1}) SELECT i, CONCAT('row ', i) FROM n"
    )


def content(db) -> dict[int, str]:
    """Return the table as it is; the added column proves that it is the new one."""
    return {int(k): v for k, v, _ in db.query("SELECT id, v, added FROM t")}


@contextlib.contextmanager
def opened(window: Window) -> Iterator[Window]:
    """Have the window closed whatever happens, before the test looks at the result."""
    try:
        yield window
    finally:
        window.close()


def test_a_chunk_waits_for_what_was_dropped(source_db, stall, engine, monkeypatch):
    """A chunk dispatched after rows were dropped waits until it is sure to see them (R3)."""
    fill(source_db)
    with opened(Window(stall, source_db, WRITES, changes=3)) as window:
        window.around_dispatch(monkeypatch)
        report = run_migration(source_db, engine)

    assert window.met == "waits for visibility"
    assert window.visibility
    assert report.changes_dropped_above_high_watermark == 3
    assert (report.differences_found, report.chunks_repaired) == (0, 0)
    assert content(source_db) == EXPECTED


def test_without_the_wait_the_checksum_finds_three_rows(source_db, stall, engine, monkeypatch):
    """With R3's wait switched off the same rows are lost, stale and left over, until repaired."""
    fill(source_db)
    with opened(Window(stall, source_db, WRITES, changes=3)) as window:
        window.around_dispatch(monkeypatch, wait=False)
        report = run_migration(source_db, engine)

    assert window.met == "has read"
    assert report.changes_dropped_above_high_watermark == 3
    assert report.differences_found == 3
    assert report.chunks_repaired >= 1
    assert content(source_db) == EXPECTED


@pytest.mark.parametrize("key", ["id VARCHAR(20) PRIMARY KEY", "id DOUBLE PRIMARY KEY"])
def test_changes_of_keys_that_python_cannot_order_survive_a_stall(
    source_db, stall, engine, monkeypatch, key
):
    """With keys that only the server can order nothing is dropped, and nothing is stale (R4)."""
    fill(source_db, key)
    with opened(Window(stall, source_db, WRITES, changes=3)) as window:
        window.around_dispatch(monkeypatch, flushed=True)
        report = run_migration(source_db, engine, flush_interval=0.02)

    assert report.changes_dropped_above_high_watermark == 0
    assert (report.differences_found, report.chunks_repaired) == (0, 0)
    assert content(source_db) == EXPECTED


def test_nothing_is_dropped_without_gtids(file_db, stall_file, engine, monkeypatch):
    """Without GTIDs a chunk reads what it can; every change is kept and applied later (R3)."""
    fill(file_db)
    with opened(Window(stall_file, file_db, WRITES, changes=3)) as window:
        window.around_dispatch(monkeypatch, flushed=True)
        report = run_migration(file_db, engine, flush_interval=0.02)

    assert window.met == "has read"
    assert not window.visibility
    assert report.changes_dropped_above_high_watermark == 0
    assert (report.differences_found, report.chunks_repaired) == (0, 0)
    assert content(file_db) == EXPECTED


def test_a_feed_that_starts_during_a_stall_loses_nothing(source_db, stall, engine, monkeypatch):
    """A transaction in the binlog that is not executed when the feed starts comes with it (R2)."""
    fill(source_db)
    with opened(Window(stall, source_db, WRITES, changes=3)) as window:
        window.around_start(monkeypatch)
        report = run_migration(source_db, engine)

    assert report.changes_received == 3
    assert (report.differences_found, report.chunks_repaired) == (0, 0)
    assert content(source_db) == EXPECTED


def test_a_feed_that_starts_during_a_stall_loses_nothing_without_gtids(
    file_db, stall_file, engine, monkeypatch
):
    """A commit of its own waits for the stalled one, so that every chunk sees it (R2)."""
    fill(file_db)
    with opened(Window(stall_file, file_db, WRITES, changes=3)) as window:
        window.around_start(monkeypatch)
        report = run_migration(file_db, engine)

    assert window.met == "waits for a commit of its own"
    assert (report.differences_found, report.chunks_repaired) == (0, 0)
    assert content(file_db) == EXPECTED


def test_a_start_at_the_end_of_the_binlog_loses_rows(file_db, stall_file, engine, monkeypatch):
    """Where SHOW BINARY LOG STATUS alone gives the start the same rows need repair."""
    fill(file_db)
    with opened(Window(stall_file, file_db, WRITES, changes=3)) as window:
        window.around_start(monkeypatch, naive=True)
        report = run_migration(file_db, engine)

    assert window.met == "has read"
    assert report.changes_received == 0
    assert report.differences_found == 3
    assert content(file_db) == EXPECTED


def _under_load(db, stall, engine) -> None:
    """Migrate a table while applications write to it and their commits stall."""
    seed = seed_of(SEED_VARIABLE)
    print(f"{SEED_VARIABLE}={seed}")  # noqa: T201 - shown when the test fails
    rows = 6_000
    fill(db, rows=rows)
    with under_load(stall, db, rows=rows, seed=seed) as (staller, applications):
        before = staller.stalls
        # The usual pace waits while commits are as slow as these.
        report = run_migration(db, engine, flush_interval=0.2, chunk_time=0.05, aggressive=True)
        stalled = staller.stalls - before

    assert stalled >= 3
    assert report.changes_received > 0
    assert (report.differences_found, report.chunks_repaired) == (0, 0)
    assert content(db) == {k: v for a in applications for k, v in a.rows.items()}


def test_a_migration_under_load_survives_stalls(source_db, stall, engine):
    """While commits of three applications stall again and again no row is lost or repaired."""
    _under_load(source_db, stall, engine)


def test_a_migration_under_load_survives_stalls_without_gtids(file_db, stall_file, engine):
    """The same on a server without GTIDs."""
    _under_load(file_db, stall_file, engine)
