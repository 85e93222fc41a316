"""Throttlers for a query, for disk space and for InnoDB: what they take for a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from spirit_py.errors import MigrationFailure
from spirit_py.throttle.server import checkpoint_age, free_disk_throttler, why_query

GIB = 1 << 30


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([], ""),
        ([(None,)], ""),
        ([(0,)], ""),
        ([("0.000",)], ""),
        ([("",)], ""),
        ([(1,)], "the query of --throttle-query"),
        ([(-1,)], "the query of --throttle-query"),
        ([("0.5",)], "the query of --throttle-query"),
        ([(b"\x00",)], ""),
        ([(b"\x01",)], "\x01 (--throttle-query)"),
        ([("office hours",)], "office hours (--throttle-query)"),
        ([(0, 1), (1, 1)], ""),
    ],
)
def test_the_first_value_of_the_query_decides(rows, why):
    """0, NULL, an empty text and nothing let the work go on; a text is shown."""
    assert why_query(rows) == why


def test_each_folder_that_is_too_full_is_named():
    """Folders are looked at once each; the reason has what is free and the limit."""
    free = {Path("/data"): 3 * GIB, Path("/binlog"): GIB}
    looked = []

    def look(folder):
        looked.append(folder)
        return free[folder]

    throttler = free_disk_throttler([*free, Path("/data")], 2 * GIB, free=look)
    assert throttler.look() == "room in /binlog, which has 1.0 GiB free (--min-free-disk 2.0 GiB)"
    assert looked == [*free]
    free[Path("/binlog")] = 2 * GIB
    assert throttler.look() == ""


def test_the_checkpoint_age_is_read_from_the_text_of_older_servers():
    """Current place in the log less that of the last checkpoint."""
    text = "LOG\n---\nLog sequence number          5000\nPages flushed up to 7\nLast checkpoint at           1200\n"  # noqa: E501
    assert checkpoint_age(text) == 3800
    with pytest.raises(MigrationFailure, match="checkpoint"):
        checkpoint_age("nothing")
