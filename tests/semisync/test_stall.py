"""The lane's own condition: commits really stall, and it would be noticed if they did not."""

from __future__ import annotations

import re

import pytest

from spirit_py.binlog.resumption import why_unreachable
from tests.kits.background import BackgroundCall
from tests.kits.connection import connection_options
from tests.kits.waiting import until
from tests.semisync.evidence import measure

pytestmark = pytest.mark.semisync


def test_a_stalled_commit_is_logged_and_not_visible(stall):
    """A held commit is in the binlog, and neither visible nor executed nor answered."""
    evidence = measure(stall)

    evidence.check()
    assert evidence.gtid


def test_a_stalled_commit_is_logged_and_not_visible_without_gtids(stall_file):
    """The same on a server without GTIDs."""
    evidence = measure(stall_file)

    evidence.check()
    assert not evidence.gtid


def test_a_missing_stall_is_noticed(stall):
    """Where commits do not stall the proof fails, and says what it saw."""
    evidence = measure(stall, hold=False)

    with pytest.raises(AssertionError, match=r"proves nothing: .* SELECT saw the row, @@gtid_exec"):
        evidence.check()


def test_a_position_that_stalls_in_its_commit_is_waited_for(source_db, stall):
    """R17: what a run received is not executed yet; that proves nothing, so nothing is given up."""
    source_db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    options = connection_options(source_db)
    writing = source_db.connect(autocommit=True)

    def owned() -> str:
        ((found,),) = source_db.query("SELECT @@GLOBAL.gtid_owned")
        return re.sub(r"#\d+", "", found)

    with stall.held():
        insert = BackgroundCall(lambda: writing.cursor().execute("INSERT INTO t VALUES (1)"))
        until(owned, "the commit in the binlog")
        ((uuid, executed),) = source_db.query("SELECT @@server_uuid, @@GLOBAL.gtid_executed")
        position = f"gtid;{uuid};{executed},{owned()}".replace("\n", "")
        resume = BackgroundCall(lambda: why_unreachable(options, position, age=0.0))
        until(lambda: _asked(source_db), "the wait for it")
    assert resume.result() == ""
    insert.result()
    writing.close()


def _asked(db) -> bool:
    return bool(
        db.query(
            "SELECT 1 FROM performance_schema.threads"
            " WHERE processlist_info LIKE 'SELECT WAIT_FOR_EXECUTED%%'"
        )
    )
