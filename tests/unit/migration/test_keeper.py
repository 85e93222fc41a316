"""How the process that runs reverse replication ends at a signal."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.checkpoint.reverse import ReverseRecord, ReverseTable
from spirit_py.errors import Interrupted, ServerFault
from spirit_py.events import untold
from spirit_py.migration.reverse.keeper import Keeper
from spirit_py.stop import StopSwitch

RECORD = ReverseRecord(
    tables=(ReverseTable(schema="shop", table="t", old="_t_old", undone="_t_undone"),),
    position="",
    until=0.0,
)


class _Late(StopSwitch):
    """A switch whose request has not reached the switches linked to it yet."""

    def linked(self) -> StopSwitch:
        return StopSwitch()


def test_a_signal_during_a_revert_is_not_answered_as_its_failure(monkeypatch):
    """The revert that asked takes the place of a process that ends: it gets no answer."""
    process: Any = SimpleNamespace(stop=_Late(), tell=untold)
    keeper = Keeper(process, RECORD)
    saved: list[str] = []
    answered: list[object] = []
    monkeypatch.setattr(keeper._mailbox, "save", saved.append)
    monkeypatch.setattr(keeper._mailbox, "fail", lambda *answer: answered.append(answer))
    feed = SimpleNamespace(position=lambda: "here")
    monkeypatch.setattr(keeper, "_pairs", [SimpleNamespace(feed=feed)])
    process.stop.request(Interrupted(signal.SIGTERM, hint="run it again"))
    with pytest.raises(Interrupted) as raised:
        keeper._answer_failure(ServerFault(2013, "lost", where="feed"))
    assert "spirit-py revert still swaps back" in raised.value.hint
    assert (saved, answered) == (["here"], [])
