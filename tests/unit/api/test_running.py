"""A run beside its caller: what it ends with is known before the last reader is woken."""

from __future__ import annotations

import pytest

import spirit_py
from spirit_py.api.running import Running
from spirit_py.errors import MigrationFailure


def _fails(_reporter: object, _stop: object) -> None:
    raise MigrationFailure("no")


def test_the_error_is_there_when_a_reader_learns_of_the_end(monkeypatch):
    """A reader of events asks for the report at once, from a thread of its own."""
    running: Running[None, None] = Running(_fails)
    seen: list[BaseException] = []
    end = running._told.end

    def looked_at() -> None:
        try:
            _ = running.report
        except (MigrationFailure, RuntimeError) as error:
            seen.append(error)
        end()

    monkeypatch.setattr(running._told, "end", looked_at)
    with running, pytest.raises(spirit_py.MigrationFailure):
        list(running)
    assert [type(error) for error in seen] == [MigrationFailure]
