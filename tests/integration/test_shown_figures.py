"""What a migration shows of itself is true at every moment, whatever the table is like."""

from __future__ import annotations

import pytest

from spirit_py.phases import Phase
from tests.kits.migrate import config_for, migrate_here

ROWS = 30_000
NUMBERS = (
    "INSERT INTO t {columns} WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
    f" WHERE i < {ROWS}) SELECT {{values}} FROM n"
)


def copied(told):
    """Return the snapshots of the copy once it had begun."""
    seen = [one for one in told.snapshots if one.phase is Phase.COPY and one.rows is not None]
    assert seen
    return seen


def require_true(seen):
    """Hold every figure against what is known: the table has so many rows."""
    for one in seen:
        assert one.rows <= ROWS
        assert one.rows_total is None or one.rows_total >= one.rows
        if one.fraction is None:
            assert one.eta is None
        elif one.rows < ROWS:
            assert one.fraction < 1.0
            assert one.fraction <= one.rows / ROWS * 1.25 + 0.02


@pytest.mark.slow
@pytest.mark.draws(2)
@pytest.mark.parametrize(
    ("stale", "columns", "key", "values", "known"),
    [
        (1, "id INT AUTO_INCREMENT PRIMARY KEY, v INT", "id, v", "i, i", True),
        (1, "id VARCHAR(20) PRIMARY KEY, v INT", "id, v", "CONCAT('k', i), i", False),
        (1, "a INT, id INT, v INT, PRIMARY KEY (a, id)", "a, id, v", "i DIV 9, i, i", False),
        (
            0,
            "id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT",
            "id, v",
            f"IF(i <= {ROWS // 10}, i, i + 4000000000), i",
            True,
        ),
    ],
    ids=["stale, dense numbers", "stale, text", "stale, composite", "a gap"],
)
def test_percent_and_end_are_true_or_unknown(db, engine, stale, columns, key, values, known):
    """Never more than is copied, never all of it before its end, never a percentage of nothing."""
    db.execute("SET SESSION cte_max_recursion_depth = 100000")
    db.execute(f"CREATE TABLE t ({columns}) STATS_AUTO_RECALC=0")
    db.execute(NUMBERS.format(columns=f"({key})", values=values))
    db.execute("ANALYZE TABLE t")
    if stale:
        db.execute(
            f"UPDATE mysql.innodb_table_stats SET n_rows = {stale}"
            f" WHERE database_name = '{db.name}' AND table_name = 't'; FLUSH TABLE t"
        )
    config = config_for(db, table="t", alter="ADD COLUMN n INT, FORCE", no_shortcut=True, nice=8)
    report, told = migrate_here(engine, config)
    seen = copied(told)
    require_true(seen)
    assert any(one.fraction is not None for one in seen if one.rows < ROWS) or not known
    assert report.rows_copied == ROWS
