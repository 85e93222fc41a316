"""The migration of one table of a batch: what is noted of its end."""

from __future__ import annotations

from typing import Any

from spirit_py.batch.table_run import NamedReporter, TableRun
from spirit_py.codes import ErrorCode
from spirit_py.config import ConnectionOptions, MigrationConfig
from spirit_py.errors import CriticalLoad, LeftAfterChange, ServerFault
from spirit_py.events.copy import ChecksumDone, CopyDone
from spirit_py.events.run import Warned
from spirit_py.events.swap import SwapDone
from spirit_py.threads import StopSwitch
from tests.kits.reporter import RecordingReporter


def _table(stop: StopSwitch | None = None) -> TableRun:
    nothing: Any = None
    return TableRun(
        MigrationConfig(connection=ConnectionOptions(), database="shop", table="orders"),
        RecordingReporter(),
        engine_factory=nothing,
        stop=stop or StopSwitch(),
        changed=nothing,
        measures=nothing,
        said=set(),
    )


def test_an_account_that_may_do_less_is_told_in_the_tables_own_report() -> None:
    """As by a run of that table alone."""
    table = _table()
    table.failed(ServerFault(1142, "INSERT command denied", where="analyze session"))
    assert table.report.error_code == ErrorCode.MISSING_PRIVILEGES
    assert "GRANT" in table.report.hint


def test_a_critical_load_after_a_tables_swap_concerns_the_others_too() -> None:
    """The table's error is that its change is done, and says why its old table is left."""
    stop = StopSwitch()
    table = _table(stop)
    stop.request(CriticalLoad("the load is critical"))
    table.failed(LeftAfterChange("the change is done: the load is critical"))
    assert table.concerns_all


def test_what_each_table_says_is_shown_with_verbose_alone() -> None:
    """And a warning that was shown for another table; what goes wrong is always shown."""
    told, said = RecordingReporter(), {"known"}
    for name in ("shop.a", "shop.b"):
        table = NamedReporter(told, name, said)
        table.event(SwapDone(tries=1, lock_wait_ms=0.1, lock_held_ms=2.0, steps_ms={}))
        table.event(CopyDone(rows=2, chunks=1, seconds=0.1))
        for text in ("known", "new"):
            table.event(Warned(said=text))
        table.event(_compared(differences=0))
        table.event(_compared(differences=1))
    shown = [(one.table, type(one).__name__) for one in told.events if one.is_shown(verbose=False)]
    assert shown == [("shop.a", "Warned"), ("shop.a", "ChecksumDone"), ("shop.b", "ChecksumDone")]
    assert all(one.is_shown(verbose=True) for one in told.events)


def _compared(differences: int) -> ChecksumDone:
    return ChecksumDone(
        rows=2,
        passes=1,
        differences=differences,
        repaired_chunks=0,
        lock_held_ms=1.0,
        seconds=0.1,
    )
