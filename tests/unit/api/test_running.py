"""A run beside its caller: what it ends with is known before the last reader is woken."""

from __future__ import annotations

import signal
import threading

import pytest

import spirit_py
import spirit_py.api.running as running_module
from spirit_py.api.running import Running
from spirit_py.errors import MigrationFailure


def _fails(**_: object) -> None:
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


def _handlers() -> list[object]:
    return [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]


def test_a_run_begins_once_and_the_signals_are_the_applications_again():
    """Beside the run that goes on, and after it, a second beginning changes nothing."""
    before, over = _handlers(), threading.Event()

    def work(**_: object) -> None:
        over.wait(60)

    running: Running[None, None] = Running(work, handle_signals=True)
    with running:
        meanwhile = _handlers()
        assert meanwhile != before
        with pytest.raises(RuntimeError), running:
            pass
        assert _handlers() == meanwhile
        assert id(running) in running_module._UNDER_WAY
        over.set()
        running.wait()
    assert _handlers() == before
    with pytest.raises(RuntimeError), running:
        pass
    assert _handlers() == before


def test_a_run_for_which_there_is_no_thread_leaves_the_signals_alone(monkeypatch):
    """The application gets them back, and may fork."""
    before = _handlers()

    def refuse(_thread: object) -> None:
        raise RuntimeError("can't start new thread")

    running: Running[None, None] = Running(_fails, handle_signals=True)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start"), running:
        pass
    assert _handlers() == before
    assert id(running) not in running_module._UNDER_WAY


def test_more_seconds_than_a_thread_can_wait_for():
    """They mean to wait until the run has ended, or has an event."""
    running: Running[None, None] = Running(lambda **_: None)
    with running:
        assert running.next_event(1e10) is None
        assert running.wait(1e10)
