"""The migration of one table of a batch: what is noted of its end."""

from __future__ import annotations

from typing import Any

from spirit_py.batch.table_run import TableRun
from spirit_py.codes import ErrorCode
from spirit_py.config import ConnectionOptions, MigrationConfig
from spirit_py.errors import ServerFault
from spirit_py.stop import StopSwitch
from tests.kits.reporter import RecordingReporter


def test_an_account_that_may_do_less_is_told_in_the_tables_own_report() -> None:
    """As by a run of that table alone."""
    nothing: Any = None
    table = TableRun(
        MigrationConfig(connection=ConnectionOptions(), database="shop", table="orders"),
        RecordingReporter(),
        engine_factory=nothing,
        stop=StopSwitch(),
        changed=nothing,
        measures=nothing,
    )
    table.failed(ServerFault(1142, "INSERT command denied", where="analyze session"))
    assert table.report.error_code == ErrorCode.MISSING_PRIVILEGES
    assert "GRANT" in table.report.hint
