"""The lane's own condition: commits really stall, and it would be noticed if they did not."""

from __future__ import annotations

import pytest

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
