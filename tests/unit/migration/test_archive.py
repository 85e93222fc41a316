"""When rows that --keep left out may be archived."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.archiving.folder import ArchiveFailure
from spirit_py.config import ConnectionOptions, MigrationConfig
from spirit_py.migration import archive
from spirit_py.threads import StopSwitch


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
