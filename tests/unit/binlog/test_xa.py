"""Rows of undecided XA transactions are kept whole, in memory or in a file."""

from __future__ import annotations

import contextlib
import resource
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.binlog.events import Doubt, RowsChanged
from spirit_py.binlog.xa import XaRows, XaTransactions
from spirit_py.errors import HandOverFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20


def changed(number: int, size: int, table: str = "t") -> RowsChanged:
    """Return a rows event of a table whose codec is its name."""
    codec: Any = table
    return RowsChanged(("s", table), 30, bytes([number]) * size, codec)


@contextlib.contextmanager
def file_limit(size: int) -> Iterator[None]:
    """Let no file become larger than so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fill(rows: XaRows, first: int, size: int) -> int:
    """Append rows until there is no room; return the number of the one that was not kept."""
    for number in range(first, 200):
        try:
            rows.append(changed(number, size))
        except HandOverFailed:
            return number
    raise AssertionError("there was room for all of them")


def open_files() -> int:
    """Count the descriptors of deleted files: threads of other tests have other ones."""
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += str(descriptor.readlink()).endswith("(deleted)")
    return found


@pytest.mark.parametrize("memory", [0, 100, MIB])
def test_rows_come_back_in_order_with_their_tables(memory: int) -> None:
    """In memory, in a file, and where they went from one to the other."""
    rows = XaRows(memory)
    events = [changed(n, 30, "tu"[n % 2]) for n in range(20)]
    for event in events:
        rows.append(event)
    assert rows.spilled == (memory < MIB)
    assert list(rows.replay()) == events
    rows.close()


@pytest.mark.parametrize("size", [100, 5000, 3 * MIB])
def test_rows_that_had_no_room_in_the_file_are_kept_when_there_is_room(size: int) -> None:
    """A write that failed in part leaves nothing behind; what was kept before is still there."""
    rows = XaRows(0)
    rows.append(changed(0, 70))
    with file_limit(2 * size + 300):
        kept = fill(rows, 1, size)
        kept = fill(rows, kept, size)
    rows.append(changed(kept, size))
    expected = [changed(0, 70), *(changed(n, size) for n in range(1, kept + 1))]
    assert list(rows.replay()) == expected
    rows.close()


def test_a_replay_that_was_broken_off_goes_on_at_the_event_that_was_not_taken() -> None:
    """Each event is taken once, however often the replay begins again."""
    rows = XaRows(0)
    for number in range(4):
        rows.append(changed(number, 10))
    taken: list[int] = []
    for refused in (2, 3, None):
        for event in rows.replay():
            if event.body[0] == refused:
                break
            taken.append(event.body[0])
    assert taken == [0, 1, 2, 3]
    rows.close()


def test_every_file_is_closed_once_its_transaction_is_decided_or_received_anew() -> None:
    """No descriptor is left, of a full disk neither."""
    before = open_files()
    made = XaTransactions(0)
    for xid in "abc":
        made.begin()
        made.keep(changed(1, 5000))
        made.prepared(xid)
    made.begin()
    made.keep(changed(1, 5000))
    assert open_files() == before + 4
    assert made.receiving is not None
    with file_limit(10_000):
        fill(made.receiving, 2, 5000)
    made.end()
    made.forget("a")
    assert open_files() == before + 2
    made.close()
    assert open_files() == before
    assert not made.knows("b")


def test_transactions_have_the_memory_of_one_together() -> None:
    """A coordinator that died may leave hundreds prepared."""
    made = XaTransactions(MIB)
    for xid in range(20):
        made.begin()
        made.keep(changed(1, 200_000))
        made.prepared(str(xid))
    kept = [rows for xid in range(20) if (rows := made.rows(str(xid))) and not rows.spilled]
    assert sum(rows.bytes for rows in kept) <= MIB
    assert kept
    made.close()


def test_rows_that_were_set_aside_keep_their_doubt() -> None:
    """The mark of a cascade is in no other event."""
    rows = XaRows(MIB)
    for doubt in Doubt:
        rows.append(replace(changed(1, 10), doubt=doubt))
    assert [event.doubt for event in rows.replay()] == list(Doubt)


def test_without_any_folder_for_temporary_files_the_remedy_is_said(monkeypatch) -> None:
    """As in a container whose file system cannot be written; it is no bug of the program."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_get_default_tempdir", no_folder)
    with pytest.raises(HandOverFailed, match="no usable temporary") as failed:
        XaRows(0).append(changed(1, 10))
    assert "TMPDIR" in failed.value.hint


def no_folder() -> str:
    """Fail as the library does."""
    raise FileNotFoundError("no usable temporary directory found")
