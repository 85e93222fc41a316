"""A process that is forked beside a run is told so at once; it waits for nothing."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

import pytest

import spirit_py
from spirit_py.api.running import Running
from spirit_py.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_GIVEN: Any = {"host": "127.0.0.1", "port": 1, "database": "s", "table": "t", "alter": "FORCE"}
#: Long after what a call takes that is refused.
_CHILD_SECONDS = 60
#: A run goes on until it is set.
_OVER = threading.Event()

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


def _work(**_: object) -> None:
    _OVER.wait(_CHILD_SECONDS)


@pytest.fixture
def running() -> Iterator[Running[None, None]]:
    """A run that is under way."""
    _OVER.clear()
    try:
        with Running[None, None](_work) as run:
            yield run
            assert run.running
            _OVER.set()
            run.wait()
    finally:
        _OVER.set()


def _outcome_in_child(work: Callable[[], object]) -> str:
    """Fork, do the work in the child, and return the code of the error that it raised."""
    ours, theirs = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            work()
            os.write(theirs, b"nothing")
        except spirit_py.SpiritError as error:
            os.write(theirs, f"{error.error_code} {error.hint}".encode())
        finally:
            os._exit(0)
    os.close(theirs)
    deadline = time.monotonic() + _CHILD_SECONDS
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    with open(ours, "rb") as told:  # noqa: PTH123 - it is open
        return told.read().decode()


def _calls(running: Running[None, None]) -> dict[str, Callable[[], object]]:
    reach = {name: _GIVEN[name] for name in ("host", "port", "database", "table")}
    return {
        "migrate": lambda: spirit_py.migrate(**_GIVEN),
        "plan": lambda: spirit_py.plan_migration(**_GIVEN),
        "plan of a move": lambda: spirit_py.plan_move(tables="s.t", target_host="127.0.0.1"),
        "status": lambda: spirit_py.migration_status(**reach),
        "cleanup": lambda: spirit_py.cleanup(**reach),
        "the parent's events": running.next_event,
        "the parent's end": running.wait,
    }


def test_a_process_forked_beside_a_run_is_refused_with_the_way(running):
    """Every call, and a look at the parent's run, which has no thread there."""
    for name, call in _calls(running).items():
        said = _outcome_in_child(call)
        assert said.startswith(ErrorCode.FORKED_PROCESS), (name, said)
        assert "spawn" in said
        assert "subprocess" in said


def test_a_process_forked_after_the_run_is_as_good_as_any():
    """It gets as far as the server, which is not there."""
    with Running[None, None](lambda **_: None) as running:
        running.wait()
    assert _outcome_in_child(lambda: spirit_py.migrate(**_GIVEN)).startswith("cannot-connect")


def test_leaving_the_context_in_the_child_leaves_the_parents_run_alone(running):
    """As an exception does that passes through the parent's ``with`` in the child."""
    assert _outcome_in_child(lambda: running.__exit__(None, None, None)) == "nothing"


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_process_forked_beside_a_run_has_the_signal_handlers_of_before(goes_on):
    """The run's own would ask the parent's run to stop, and SIGTERM would not end the child."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]

    def look() -> None:
        assert [signal.getsignal(number) for number in numbers] == before

    _OVER.clear()
    try:
        with Running[None, None](_work, handle_signals=True) as running:
            if not goes_on:
                _OVER.set()
                running.wait()
            during = [signal.getsignal(number) for number in numbers]
            assert during != before
            assert _outcome_in_child(look) == "nothing"
            assert [signal.getsignal(number) for number in numbers] == during
            _OVER.set()
    finally:
        _OVER.set()
    look()


def test_a_handler_that_the_application_has_set_meanwhile_stays():
    """In the child and after the run: it is the application's last word."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]

    def theirs(*_: object) -> None:
        pass

    def look() -> None:
        assert [signal.getsignal(number) for number in numbers] == [before[0], theirs]

    _OVER.clear()
    try:
        with Running[None, None](_work, handle_signals=True):
            signal.signal(signal.SIGTERM, theirs)
            assert _outcome_in_child(look) == "nothing"
            _OVER.set()
        look()
    finally:
        _OVER.set()
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
