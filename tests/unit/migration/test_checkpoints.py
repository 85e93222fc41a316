"""What a run notes of itself, for the next one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.checkpoint.record import CheckpointRecord, TableProgress
from spirit_py.contracts import Origin
from spirit_py.migration.checkpoints import Checkpoints
from spirit_py.phases import Phase


@pytest.mark.parametrize(("unread", "started"), [(True, 1), (False, 2)])
def test_a_crash_is_known_until_all_rows_were_compared(monkeypatch, unread, started):
    """A run that ends before that hands on what it does not trust."""
    monkeypatch.setattr(Checkpoints, "_writer_to", lambda *_: SimpleNamespace(**_WRITER))
    state = SimpleNamespace(began=0.0, phase=Phase.COPY)
    run: Any = SimpleNamespace(
        config=SimpleNamespace(connection=None),
        closing=lambda *_: None,
        follow=lambda _: None,
        state=state,
        journal=SimpleNamespace(clock=lambda: 0.0),
    )
    feed: Any = SimpleNamespace(
        origin=Origin(started=2, file="b.2", created=7),
        position=lambda: "here",
        has_unread_changes=lambda _mapping: unread,
    )
    tables = SimpleNamespace(take_over=lambda: None)
    job = SimpleNamespace(config=SimpleNamespace(shard=""))
    pair: Any = SimpleNamespace(source_name=("s", "t"), job=job, tables=tables, mapping=None)
    record = CheckpointRecord(
        statement="ALTER",
        tables=(TableProgress(schema="s", table="t"),),
        server_uuid="u",
        phase="copy",
        origin=Origin(started=1, file="b.1"),
    )
    monkeypatch.setattr(Checkpoints, "_progress", lambda _, table: table)
    monkeypatch.setattr(Checkpoints, "_totals", lambda _: {})
    noted = Checkpoints(run, record, feed, [pair]).take()
    assert noted.origin == Origin(started=started, file="b.2", created=7)


_WRITER = {"start": lambda: None, "request": lambda: None}
