"""A program that uses the library, for `ci/lint` alone: mypy's strict rules find three mistakes.

It is not run. A mistake that is not found any more is an unused ignore, which is an error.
"""

# ruff: noqa: T201 - a user's program
from __future__ import annotations

from datetime import timedelta

import spirit_py


def change(password: str) -> int:
    """Follow a migration while it runs."""
    with spirit_py.start_migration(
        host="db1",
        database="shop",
        table="orders",
        alter="ADD COLUMN x INT",
        max_lag=timedelta(seconds=5),
        replica={"db2"},
        password=lambda: password,
    ) as running:
        for event in running:
            print(event.time, event.name, event.text, event.fields)
            if running.status is not None and running.status.elapsed > 60:
                running.stop()
        return running.report.rows_copied


try:
    report: spirit_py.MigrationReport = spirit_py.migrate(dsn="mysql://h/s", statement="...")
except spirit_py.SpiritError as error:
    print(error.exit_code, error.hint, error.details)

with spirit_py.start_batch(host="db1", tables=["s_%.t"], alter="ADD x INT", parallel=2) as batch:
    batch.wait()
    if batch.status is not None:
        print(batch.status.counts["left"])
try:
    many: spirit_py.BatchReport = spirit_py.migrate_batch(statements=["ALTER TABLE a ADD x INT"])
except spirit_py.BatchFailed as failed:
    print(failed.report.tables)

for found in spirit_py.migration_status(host="db1", database="shop"):
    print(found.to_dict())

spirit_py.migrate(hosst="x")  # type: ignore[call-arg]
spirit_py.migrate(replica=[1])  # type: ignore[list-item]
print(report.rows)  # type: ignore[attr-defined]
