"""R19: a transaction much larger than the soft limit streams through bounded memory.

The same with a transaction of 1 GB and one of 2 million rows: ci/lane-large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kits.feed_memory import MIB, follow, many_rows

if TYPE_CHECKING:
    from tests.fixtures.mysql import Database

SOFT_LIMIT = 8 * MIB
#: Beside the buffers: a part that is rendered as SQL in each apply thread, and its statements.
GROWTH = SOFT_LIMIT + 40 * MIB


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize(
    ("columns", "statement", "rows"),
    [
        ("id INT PRIMARY KEY, v LONGBLOB", many_rows(128, "REPEAT(CHAR(i), 1048576)"), 128),
        ("id INT PRIMARY KEY, v VARCHAR(900)", many_rows(120_000, "REPEAT('v', 700)"), 120_000),
    ],
    ids=["128 MiB in 128 rows", "120000 rows"],
)
def test_a_large_transaction_streams_through(
    db: Database, columns: str, statement: str, rows: int
) -> None:
    """The process grows by the soft limit and what it is working on, not by the transaction."""
    found = follow(db, columns, statement, SOFT_LIMIT)
    assert found["applied"] == rows
    assert found["backpressure_seconds"] > 0
    assert found["grown"] < GROWTH, f"{found['grown'] / MIB:.0f} MiB: {found}"
