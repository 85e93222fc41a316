"""R19 at full size: a transaction of 1 GB and one of 2 million rows, at a soft limit of 64 MiB.

Takes minutes, so pytest collects it only by name: ci/lane-large.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.kits.feed_memory import MIB, follow, many_rows

if TYPE_CHECKING:
    from tests.fixtures.mysql import Database

SOFT_LIMIT = 64 * MIB
GROWTH = SOFT_LIMIT + 48 * MIB


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("columns", "statement", "rows"),
    [
        ("id INT PRIMARY KEY, v LONGBLOB", many_rows(1024, "REPEAT(CHAR(i), 1048576)"), 1024),
        (
            "id INT PRIMARY KEY, v VARCHAR(900)",
            many_rows(2_000_000, "REPEAT('v', 40 + i % 20)"),
            2_000_000,
        ),
    ],
    ids=["1 GiB", "2 million rows"],
)
def test_a_huge_transaction_streams_through(
    db: Database, columns: str, statement: str, rows: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The process grows by the soft limit and what it is working on, not by the transaction."""
    found = follow(db, columns, statement, SOFT_LIMIT)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{rows} rows: peak memory {found['peak'] / MIB:.0f} MiB,"
            f" {found['grown'] / MIB:.0f} MiB more than before; in {found['seconds']:.0f} s, of"
            f" which {found['backpressure_seconds']:.0f} s waiting for room\n"
        )
    assert found["applied"] == rows
    assert found["backpressure_seconds"] > 0
    assert found["grown"] < GROWTH
