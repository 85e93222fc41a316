"""A checkpoint table that is dropped while it is read is gone, not damaged."""

from __future__ import annotations

import pytest

from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.errors import ServerFault


class Session:
    """Has a checkpoint table without a row, which another session may drop at the first read."""

    def __init__(self, *, dropped: bool) -> None:
        self._comments = [("BASE TABLE", "spirit-py checkpoint")]
        self._dropped = dropped

    def query(self, sql, parameters=()):
        """Answer."""
        if "information_schema" in sql:
            return self._comments
        if self._dropped:
            self._comments = []
            raise ServerFault(1146, "Table 'shop._orders_chkpnt' doesn't exist", where="status")
        return []


@pytest.fixture
def table():
    """Return the checkpoint table beside a source."""
    return CheckpointTable("shop", "orders")


def test_a_table_that_a_run_drops_at_its_end_is_gone_and_not_damaged(table):
    """``spirit-py status`` reads without a lock, while a migration may end."""
    assert table.read_record(Session(dropped=True)) is None


def test_a_table_without_a_row_cannot_be_read(table):
    """The table is there and is ours, and has lost its record."""
    with pytest.raises(UnreadableCheckpoint, match="_orders_chkpnt has no row"):
        table.read_record(Session(dropped=False))
