"""The average length of a row: as the server estimates it, where that can be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kits.chunks import mapping, primary
from tests.kits.definitions import column

TABLE = mapping(primary("id"), column("id")).source


@pytest.mark.parametrize(
    ("rows", "data", "expected"),
    [
        (1000, 100_000, 100.0),
        (0, 16_384, None),
        (1_000_000, 0, None),
        (2_000_000, 16_384, None),
        (2_000_000, 8 << 20, None),
    ],
    ids=["measured", "no rows", "no pages", "one page", "the pages of an earlier moment"],
)
def test_statistics_of_a_moment_in_a_load_say_nothing_of_a_row(rows, data, expected):
    """InnoDB counts rows at once, and the pages only when it renews its statistics."""
    assert replace(TABLE, estimated_rows=rows, data_bytes=data).row_bytes == expected


def test_rows_of_compressed_pages_may_be_as_short_as_they_are():
    """What is measured are the pages on the disk."""
    sql = "CREATE TABLE `t` (`id` int NOT NULL) ENGINE=InnoDB ROW_FORMAT=COMPRESSED"
    packed = replace(TABLE, estimated_rows=1000, data_bytes=9000, create_sql=sql)
    assert packed.row_bytes == 9.0
