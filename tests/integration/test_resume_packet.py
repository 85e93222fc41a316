"""A value larger than ``max_allowed_packet``: it can be raised, and nothing is copied again."""

from __future__ import annotations

import contextlib

import pytest

from spirit_py import points
from spirit_py.errors import CopyFailure, PacketTooSmall
from tests.kits.resume import assert_nothing_left, start
from tests.kits.tables import tables

MIB = 1 << 20


@contextlib.contextmanager
def packets_of_a_mebibyte(db):
    """Let new sessions send and build a mebibyte at most."""
    before = int(db.query("SELECT @@GLOBAL.max_allowed_packet")[0][0])
    db.execute(f"SET GLOBAL max_allowed_packet = {MIB}")
    try:
        yield
    finally:
        db.execute(f"SET GLOBAL max_allowed_packet = {before}")


@pytest.mark.slow
def test_a_changed_row_that_is_too_large_is_waited_for(db, engine, monkeypatch):
    """The copy is kept, and with a larger packet the same command resumes."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b LONGBLOB)")
    db.execute("INSERT INTO t (a, b) VALUES (1, 'x'), (2, 'y')")
    writer = db.connect()

    def passed(name):
        if name == "chunk.dispatched":
            monkeypatch.setattr(points, "_announce", lambda _: None)
            writer.cursor().execute(f"INSERT INTO t (a, b) VALUES (7, REPEAT('B', {MIB + 9}))")

    alter = {"alter": "MODIFY a BIGINT"}
    with packets_of_a_mebibyte(db):
        monkeypatch.setattr(points, "_listener", "here")
        monkeypatch.setattr(points, "_announce", passed)
        run = start(engine, db, **alter)
        with pytest.raises(PacketTooSmall, match=r"max_allowed_packet of 1048576") as caught:
            run.end()
        assert "resumes" in caught.value.hint
        assert tables(db) == ["_t_chkpnt", "_t_new", "t"]
    writer.close()
    report = start(engine, db, **alter).end()
    assert report.runs == 2
    assert db.query("SELECT a, LENGTH(b) FROM t ORDER BY id") == [(1, 1), (2, 1), (7, MIB + 9)]
    assert_nothing_left(db)


@pytest.mark.slow
def test_a_copied_row_that_is_too_large_is_waited_for(db, engine):
    """A conversion that goes through a value's text has the same limit."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, j JSON)")
    db.execute(f"INSERT INTO t VALUES (1, '[]'), (2, JSON_ARRAY(REPEAT('B', {MIB + 9})))")
    alter = {"alter": "MODIFY j LONGBLOB"}
    with packets_of_a_mebibyte(db):
        with pytest.raises((PacketTooSmall, CopyFailure), match="max_allowed_packet") as caught:
            start(engine, db, **alter).end()
        assert "raise max_allowed_packet" in caught.value.hint
        assert tables(db) == ["_t_chkpnt", "_t_new", "t"]
    assert start(engine, db, **alter).end().runs == 2
    assert db.query("SELECT LENGTH(j) FROM t ORDER BY id") == [(2,), (MIB + 13,)]
    assert_nothing_left(db)
