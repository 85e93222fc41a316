"""The main job: a table changes under an application that never stops, and nothing is lost.

The comparison is with the writers' own journal (ci/workload.py), not with the tool's checksum.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import workload
from tests.kits.command import command_line, environment
from tests.kits.draw import seed_of

ROWS = 20_000
ALTER = (
    "MODIFY id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, ADD COLUMN note VARCHAR(200),"
    " ADD INDEX customer (customer)"
)


def migrate(db, report, *more):
    """Run the real command line on the application's table."""
    words = ("--no-shortcut", "--table", workload.TABLE, "--alter", ALTER)
    done = subprocess.run(
        command_line(db, "migrate", *words, "--report-json", str(report), *more),
        env=environment(db),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done, json.loads(report.read_text())


@pytest.mark.draws(1)
@pytest.mark.parametrize("kind", ["gtid", "file"])
def test_nothing_is_lost_under_load(kind, request, tmp_path):
    """Six writers insert, update, delete, move unique values and change keys; all of it survives.

    With GTIDs and with file-and-offset positions; the seed is printed and taken from
    SPIRIT_PY_SEED to replay the writers' choices.
    """
    db = request.getfixturevalue("db" if kind == "gtid" else "db_file")
    seed = seed_of("SPIRIT_PY_SEED")
    sys.stdout.write(f"SPIRIT_PY_SEED={seed}\n")
    workload.load(db.server, db.name, ROWS)
    application = workload.Application(
        db.server, db.name, rows=ROWS, folder=tmp_path, writers=6, rate=300, seed=seed
    )
    application.start()
    try:
        done, report = migrate(db, tmp_path / "report.json", "--target-chunk-time", "0.05")
    finally:
        application.stop()
    assert done.returncode == 0, done.stderr
    assert application.failures() == []
    expected = workload.expected_rows(ROWS, [writer.journal for writer in application.writers])
    assert workload.actual_rows(db.server, db.name) == expected
    assert "note" in [row[0] for row in db.query(f"SHOW COLUMNS FROM {workload.TABLE}")]
    assert [row[0] for row in db.query("SHOW TABLES")] == [workload.TABLE]
    assert report["outcome"] == "done"
    assert report["algorithm"] == "copy"
    assert report["chunks_repaired"] == 0, report["difference_examples"]
    assert report["checksum_passes"] == 1
    assert report["changes_received"] > 0
    assert report["cutover_attempts"] == 1, done.stderr
