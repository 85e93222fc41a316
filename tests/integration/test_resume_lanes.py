"""A copy in lanes, stopped in the middle of them: what changed meanwhile in each is right (R17)."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.checkpoint.record import CheckpointRecord, TableProgress, UncopiedRange
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.chunk.sizing import ChunkSizer
from spirit_py.errors import Refusal
from spirit_py.mysql.connect import connect
from tests.kits.migrate import config_for
from tests.kits.resume import Interruption, assert_nothing_left, make_table, start

if TYPE_CHECKING:
    from tests.fixtures.mysql import Database

ROWS = 6000
CHUNK_ROWS = 100
#: Chunks of the first run, at least.
CHUNKS = 14


@pytest.fixture
def stopped(db, engine, monkeypatch):
    """A migration that was interrupted when both of its lanes had chunks copied."""
    defaults: Any = ChunkSizer.__init__.__kwdefaults__
    monkeypatch.setitem(defaults, "first_rows", CHUNK_ROWS)
    make_table(db, ROWS)
    Interruption(monkeypatch).at(
        engine,
        db,
        "chunk.committed",
        CHUNKS,
        when=lambda: all(rows > 4 * CHUNK_ROWS for rows in copied_in_halves(db)),
        target_chunk_time=0.02,
        # Both lanes from the beginning.
        aggressive=True,
    )
    return db


def copied_in_halves(db: Database) -> tuple[int, int]:
    """Return how many rows the new table has of either half of the key, which are the lanes."""
    ((low, high),) = db.query(
        f"SELECT COUNT(IF(id <= {ROWS}, 1, NULL)), COUNT(IF(id > {ROWS}, 1, NULL)) FROM _t_new"
    )
    return int(low), int(high)


def progress(db: Database) -> TableProgress:
    """Read the table's progress from its checkpoint."""
    with connect(config_for(db).connection, role="test") as session:
        record = CheckpointTable(db.name, "t").read_record(session)
    assert isinstance(record, CheckpointRecord)
    return record.tables[0]


def rewrite(db: Database, *uncopied: UncopiedRange) -> None:
    """Store an older record, as a run leaves that is killed long after it wrote one."""
    found = json.loads(str(db.query("SELECT record FROM _t_chkpnt")[0][0]))
    found["tables"][0] |= {"uncopied": [dataclasses.asdict(one) for one in uncopied]}
    db.execute("UPDATE _t_chkpnt SET record = %s WHERE id = 1", (json.dumps(found),))


def keys(db: Database, sql: str) -> list[int]:
    """Return the keys that a query finds."""
    return [int(row[0]) for row in db.query(sql)]


def change(db: Database, *, first: int, last: int) -> None:
    """Delete, change, insert and move rows of a part of the key, copied ones and others."""
    within = f"id > {first} AND id <= {last}"
    copied = keys(db, f"SELECT id FROM _t_new WHERE {within} ORDER BY id")
    others = keys(
        db, f"SELECT id FROM t WHERE {within} AND id NOT IN (SELECT id FROM _t_new) ORDER BY id"
    )
    assert len(copied) > CHUNK_ROWS <= len(others)
    for some in (copied, others):
        gone, changed, moved = some[5::20], some[7::20], some[9::20]
        db.execute(f"DELETE FROM t WHERE id IN ({', '.join(map(str, gone))})")
        db.execute(f"UPDATE t SET a = -a, b = 'new' WHERE id IN ({', '.join(map(str, changed))})")
        for one in some[11::20]:
            db.execute(f"INSERT INTO t (id, a, b) VALUES ({one + 1}, 7, 'inserted')")
        for one in moved:
            db.execute(f"UPDATE t SET id = {20_000 + one} WHERE id = {one}")
    for one, other in zip(copied[13::20], others[13::20], strict=False):
        db.execute(f"DELETE FROM t WHERE id IN ({one}, {other})")
        db.execute(f"INSERT INTO t (id, a, b) VALUES ({one}, 8, 'anew'), ({other}, 8, 'anew')")


@pytest.mark.parametrize("recorded", ["at the end", "in both lanes", "before the first chunk"])
def test_rows_changed_between_two_runs_are_right_in_every_lane(stopped, engine, recorded):
    """Deleted, inserted, moved rows in each lane's copied part and rest, with no checksum to help.

    The dead run's last record may be older than its lanes, and older than rows that it copied.
    """
    left = progress(stopped).uncopied
    assert len(left) >= 2
    end = int(left[0].upper[0])
    assert 0 < end < 2 * ROWS
    for first, last in ((0, end), (end, 2 * ROWS)):
        change(stopped, first=first, last=last)
    if recorded == "in both lanes":
        rewrite(
            stopped,
            UncopiedRange(lower=("150",), upper=(str(end),)),
            UncopiedRange(lower=(str(end + 150),)),
        )
    elif recorded == "before the first chunk":
        rewrite(stopped, UncopiedRange())
    expected = set(stopped.query("SELECT id, a, b FROM t"))
    report = start(engine, stopped, no_repair=True).end()
    assert (report.runs, report.differences_found) == (2, 0)
    assert set(stopped.query("SELECT id, a, b FROM t")) == expected
    assert_nothing_left(stopped)


@pytest.mark.slow
def test_what_is_recorded_as_copied_is_not_copied_again(stopped, engine):
    """Rows and chunks of both runs add up, whatever lanes they were in."""
    before = progress(stopped)
    copied = int(stopped.query("SELECT COUNT(*) FROM _t_new")[0][0])
    assert 0 < before.rows_copied <= copied
    report = start(engine, stopped).end()
    assert report.rows_copied == ROWS
    assert report.chunks > before.chunks >= CHUNKS - 2


@pytest.mark.slow
def test_a_checkpoint_whose_ranges_overlap_is_refused(stopped, engine):
    """What is damaged is not guessed at: everything is kept, and the command says what to do."""
    rewrite(stopped, UncopiedRange(lower=("10",), upper=("500",)), UncopiedRange(lower=("300",)))
    with pytest.raises(Refusal, match="is damaged"):
        start(engine, stopped).end()
    assert progress(stopped).uncopied[1].lower == ("300",)
