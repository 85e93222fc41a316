"""The position to go on from: complete transactions, and none past an undecided one."""

from __future__ import annotations

import pytest

from spirit_py.binlog.events import Place
from spirit_py.binlog.position import (
    FileFrontier,
    FilePlace,
    GtidFrontier,
    GtidSet,
    LogFile,
    split_log,
    with_log,
)
from spirit_py.watch.records import Progress

UUID = "16e8969d-e4d3-11f1-b00c-02fc00000001"
OTHER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
LOG = LogFile("b@1.000001", 1_700_000_000)


def gtid(number: int) -> Place:
    """Return the end of a transaction on a server with GTIDs."""
    return Place("b.000001", number * 100, UUID, number)


def offset(number: int) -> Place:
    """Return the end of a transaction on a server without them."""
    return Place("b.000001", number * 100)


@pytest.fixture
def by_gtid() -> Progress:
    """Return the progress of a server with GTIDs, five transactions in."""
    return Progress(GtidFrontier(UUID, GtidSet.parse(f"{UUID}:1-5")))


@pytest.fixture
def by_file() -> Progress:
    """Return the progress of a server without GTIDs, at offset 500."""
    return Progress(FileFrontier(UUID, FilePlace("b.000001", 500)))


def test_what_was_never_in_the_binlog_is_in_the_position(by_gtid: Progress) -> None:
    """Else the server refuses the position: it has purged what is missing (R17)."""
    by_gtid.text()
    by_gtid.absorb(None)
    by_gtid.absorb(GtidFrontier(UUID, GtidSet.parse(f"{UUID}:1-5,{OTHER}:1-7")))
    assert by_gtid.text() == f"gtid;{UUID};{UUID}:1-5,{OTHER}:1-7"


def test_the_position_is_behind_the_last_transaction(by_gtid: Progress, by_file: Progress) -> None:
    """R7: each complete transaction moves it."""
    by_gtid.advance(gtid(6))
    by_file.advance(offset(6))
    assert by_gtid.text() == f"gtid;{UUID};{UUID}:1-6"
    assert by_file.text() == f"file;{UUID};b.000001;600"


def test_a_position_has_the_file_that_is_read(by_file: Progress) -> None:
    """After RESET names and numbers come again: the file's creation tells the logs apart."""
    progress = Progress(by_file.received, lambda: LOG)
    assert split_log(progress.text()) == (by_file.text(), LOG)
    later = LOG._replace(started=1_700_000_007, relaxed=(("sync_binlog", "0"), ("other", "OFF")))
    for log in (later, later._replace(relaxed=())):
        assert split_log(with_log(by_file.text(), log)) == (by_file.text(), log)
    assert split_log(by_file.text()) == (by_file.text(), None)


def test_an_undecided_transaction_leaves_a_hole_in_the_set(by_gtid: Progress) -> None:
    """R8: going on brings the prepared transaction again, and only that one."""
    by_gtid.prepared("x", gtid(6))
    by_gtid.advance(gtid(7))
    assert by_gtid.text() == f"gtid;{UUID};{UUID}:1-5:7"
    assert by_gtid.received.text() == f"gtid;{UUID};{UUID}:1-7"
    by_gtid.decided("x", gtid(8))
    assert by_gtid.text() == f"gtid;{UUID};{UUID}:1-8"


def test_an_undecided_transaction_holds_a_file_position(by_file: Progress) -> None:
    """R8: the position stays in front of the first undecided one, and then of the next."""
    by_file.prepared("x", offset(6))
    by_file.advance(offset(7))
    by_file.prepared("y", offset(8))
    assert by_file.text() == f"file;{UUID};b.000001;500"
    by_file.decided("x", offset(9))
    assert by_file.text() == f"file;{UUID};b.000001;700"
    by_file.decided("y", offset(10))
    assert by_file.text() == f"file;{UUID};b.000001;1000"
    assert by_file._undecided == {}
