"""The room that a batch needs on the server's disk."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.batch import planning as room
from spirit_py.batch.planning import room_for
from spirit_py.command_config import BatchConfig
from spirit_py.config import ConnectionOptions, MigrationConfig
from spirit_py.errors import Refusal

GIB = 1 << 30
#: Bytes of rows and of indexes.
SIZES = [(1 * GIB, 1 * GIB), (4 * GIB, 1 * GIB), (2 * GIB, 1 * GIB)]


@pytest.fixture
def needed(monkeypatch):
    """Return what is said of the room, for a number of free bytes."""

    def ask(free, *, parallel=1, drop_old_after=0.0, binlog=None):
        monkeypatch.setattr(room, "free_bytes", lambda _: free)
        monkeypatch.setattr(room, "free_for_binlog", lambda _: binlog)
        each = MigrationConfig(
            connection=ConnectionOptions(), database="", drop_old_after=drop_old_after
        )
        facts: Any = SimpleNamespace(is_on=lambda _: True)
        (line,) = room_for(SIZES, BatchConfig(each=each, parallel=parallel), facts)
        return line

    return ask


@pytest.mark.parametrize(("parallel", "copies"), [(1, "5.0 GiB"), (2, "8.0 GiB"), (9, "10.0 GiB")])
def test_the_largest_tables_that_run_side_by_side_count(needed, parallel, copies):
    """Old tables are dropped one after another; the binlog of all stays."""
    line = needed(100 * GIB, parallel=parallel)
    assert f"{copies} at a time" in line
    assert "7.0 GiB of binlog" in line
    assert "not enough" not in line


def test_a_binary_log_on_a_disk_of_its_own_takes_none_of_the_tables(needed):
    """5 GiB of new tables at a time, and 7 GiB of binlog."""
    assert "not enough" in needed(6 * GIB)
    assert "not enough" not in needed(6 * GIB, binlog=8 * GIB)
    assert "not enough" in needed(100 * GIB, binlog=6 * GIB)


def test_old_tables_that_are_kept_all_count(needed):
    """With ``--drop-old-after never`` nothing becomes free again."""
    assert "10.0 GiB at a time" in needed(100 * GIB, drop_old_after=math.inf)


def test_too_little_for_the_new_tables_is_refused(needed):
    """Before anything is written."""
    with pytest.raises(Refusal, match=r"3\.0 GiB free where the new tables need 5\.0 GiB"):
        needed(3 * GIB)


def test_too_little_for_the_binlog_is_said(needed):
    """The server may purge it meanwhile."""
    assert "not enough if the server keeps all of the binlog" in needed(6 * GIB)


def test_an_unknown_disk_is_said_to_be_unknown(needed):
    """No statement returns how much is free."""
    assert "cannot be seen from here" in needed(None)
