"""When rows that --keep left out may be archived."""

from __future__ import annotations

import contextlib
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.archiving.folder import ArchiveFailure
from spirit_py.codes import ErrorCode
from spirit_py.config import ConnectionOptions, MigrationConfig
from spirit_py.errors import CriticalLoad, Interrupted, Refusal
from spirit_py.migration import archive
from spirit_py.threads import StopSwitch


@pytest.mark.parametrize("master", ["spark://a:7077", "local[2]"])
def test_executors_without_arrow_are_found_before_anything_is_written(monkeypatch, master):
    """Otherwise after the swap: the driver has it."""
    tasks = SimpleNamespace(setJobGroup=lambda *_: None)
    tasks.parallelize = lambda found, _slices: SimpleNamespace(
        map=lambda work: SimpleNamespace(collect=lambda: [work(one) for one in found])
    )
    config = MigrationConfig(
        connection=ConnectionOptions(),
        database="s",
        archive_to="s3a://bucket/folder",
        spark_master=master,
    )
    run: Any = SimpleNamespace(
        config=config,
        show=lambda _: None,
        stop=StopSwitch(),
        engines=SimpleNamespace(context=lambda _show: tasks),
    )
    monkeypatch.setattr(archive, "Folder", lambda *_: SimpleNamespace(require_usable=lambda: None))
    archive.require_folders(run, [("s", "t")])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    lacks = (
        pytest.raises(Refusal, match="pyarrow") if "spark" in master else contextlib.nullcontext()
    )
    with lacks:
        archive.require_folders(run, [("s", "t")])


def test_a_task_that_waits_for_an_executor_is_shown_and_ends_with_the_run():
    """Without a free one Spark waits for good, while the run has the table's named lock."""
    cancelled, shown, stop = threading.Event(), list[str](), StopSwitch()
    stop.request(Interrupted(15))

    def collect() -> Any:
        assert cancelled.wait(30)
        raise RuntimeError("the job was cancelled")

    waits = SimpleNamespace(map=lambda _work: SimpleNamespace(collect=collect))
    context = SimpleNamespace(
        setJobGroup=lambda *_: None,
        parallelize=lambda *_: waits,
        cancelJobGroup=lambda _group: cancelled.set(),
    )
    run: Any = SimpleNamespace(stop=stop, show=shown.append)
    with pytest.raises(Interrupted):
        archive._require_arrow(run, context)
    assert "executor" in shown[0]


@pytest.mark.parametrize("settings", ["as before", "others"])
def test_settings_that_judge_otherwise_are_found_where_an_old_table_is_gone(monkeypatch, settings):
    """Of two old tables one is there: it is judged as the copy judged, or is not archived."""
    old = SimpleNamespace(keep="kept", what=SimpleNamespace(table=None))
    answers: list[Any] = [([("s", "a")], []), old, "a place", None]
    archived: list[Any] = []
    run: Any = SimpleNamespace(
        config=MigrationConfig(connection=ConnectionOptions(), database="s", archive_to="folder"),
        step=lambda _role, _work, **_more: answers.pop(0),
        go_on_to=lambda _phase: None,
        session=lambda _role: contextlib.nullcontext(),
        stop=StopSwitch(),
    )
    record: Any = SimpleNamespace(judged="gone as before,kept as before", started_at="")
    monkeypatch.setattr(archive, "read_facts", lambda _session: settings)
    monkeypatch.setattr(
        archive, "judged_with", lambda _session, kept, facts: f"{' '.join(kept)} {facts}"
    )
    nobody: Any = SimpleNamespace(require_none=lambda: None, close=lambda: None)
    monkeypatch.setattr(archive, "_watched", lambda _run, _tables, _place: nobody)
    monkeypatch.setattr(archive, "_slots", lambda _config: 1)
    monkeypatch.setattr(
        archive, "archive_rows", lambda _run, one, _name, _slots: archived.append(one)
    )
    tables = [("s", "a"), ("s", "b")]
    if settings == "as before":
        archive.archive_old_tables(run, tables, record)
        assert archived == [old]
    else:
        with pytest.raises(ArchiveFailure, match="would judge rows otherwise"):
            archive.archive_old_tables(run, tables, record)
        assert not archived


def test_a_critical_load_during_the_archive_says_that_the_change_is_done():
    """What follows from it, as a job of Spark that was ended, is not called the cause."""
    run: Any = SimpleNamespace(stop=StopSwitch())
    run.stop.request(CriticalLoad("the load is critical", hint="later"))
    left = archive._left(run, ArchiveFailure("a job was ended"))
    assert str(left) == "the change is done, and the old table is kept: the load is critical"
    assert (left.error_code, left.hint) == (ErrorCode.ARCHIVE_FAILED, "later")
    assert run.stop.cause_of(left) is left
