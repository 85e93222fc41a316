"""The reporter that calls a hook: in order, in its own thread, and never in the way."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path

import pytest

import spirit_py.hooks as module
from spirit_py.errors import Interrupted
from spirit_py.events.copy import ThrottleBegun
from spirit_py.events.event import Event, teller
from spirit_py.events.run import HookFailed, RunEnded, Summary
from spirit_py.events.swap import CutoverReady
from spirit_py.hooks import CallResult, Hook
from spirit_py.status.report import OutcomeReport
from spirit_py.threads import Background
from tests.kits.reporter import RecordingReporter
from tests.kits.waiting import until


def throttled(number: int) -> Event:
    """Return an event with a number in it."""
    return ThrottleBegun(throttler=str(number), reason="x")


ENDED = OutcomeReport().ended(RunEnded)
READY = CutoverReady(tables=["s.t"], number=1)


@pytest.fixture
def told():
    """A reporter that gets the warnings."""
    return RecordingReporter()


@pytest.fixture
def make(told):
    """Return a function that makes a hook."""

    def hook(command: str, seconds: float = 20.0) -> Hook:

        return Hook(command, seconds=seconds, tell=teller(told.event))

    return hook


def test_events_are_handed_over_in_order_and_the_last_one_too(make, tmp_path):
    """The end of the run waits for what is left."""
    out = tmp_path / "out"
    hook = make(f"cat >> {shlex.quote(str(out))}")
    for number in range(20):
        hook.event(throttled(number))
    hook.event(ENDED)
    hook.stop()
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one.get("throttler") for one in lines] == [*map(str, range(20)), None]
    assert lines[-1]["event"] == "run.ended"


def test_a_limit_of_more_seconds_than_a_thread_can_wait_for(make, tmp_path):
    """The last events are handed over all the same."""
    out = tmp_path / "out"
    hook = make(f"cat >> {shlex.quote(str(out))}", seconds=1e10)
    hook.event(ENDED)
    hook.stop()
    assert json.loads(out.read_text())["event"] == "run.ended"


def test_figures_and_lines_for_people_call_nothing(make, tmp_path):
    """A command is not started twice a second."""
    out = tmp_path / "out"
    hook = make(f"echo x >> {shlex.quote(str(out))}")
    hook.start()
    hook.progress(object())
    hook.event(Summary(said="x"))
    hook.event(READY)
    hook.stop()
    assert not out.exists()


def test_a_slow_hook_keeps_nobody_waiting(make):
    """An event is noted and returned from, while a call takes long; the end is bounded."""
    hook = make("sleep 600", seconds=0.5)
    began = time.monotonic()
    for number in range(50):
        hook.event(throttled(number))
    assert time.monotonic() - began < 20
    hook.stop()
    assert time.monotonic() - began < 60


def test_no_call_is_left_behind_at_the_end(make, tmp_path):
    """What hangs as the wait is over is ended; the events that wait begin no other call."""
    file = tmp_path / "pids"
    hook = make(f"echo $$ >> {shlex.quote(str(file))}; exec sleep 600", seconds=0.5)
    for number in range(50):
        hook.event(throttled(number))
    until(lambda: file.exists() and file.read_text(), "a first call")
    hook.stop()
    pids = [int(line) for line in file.read_text().split()]
    assert pids
    assert not [pid for pid in pids if Path(f"/proc/{pid}/stat").exists()]
    assert len(pids) < 50


def test_an_interrupt_ends_the_wait_for_a_slow_hook_and_its_call(make, monkeypatch, tmp_path):
    """How the run has ended is told: interrupts are no other end, and leave no process."""
    file = tmp_path / "pid"
    hook = make(f"echo $$ > {file}.new; mv {file}.new {file}; exec sleep 600", seconds=600)
    wait, waits = Background.wait, []

    def interrupted(thread: Background, seconds: float | None) -> bool:
        waits.append(seconds)
        if len(waits) < 4:
            until(file.exists, "the call")
            raise KeyboardInterrupt
        return wait(thread, seconds)

    monkeypatch.setattr(Background, "wait", interrupted)
    hook.event(ENDED)
    hook.stop()
    assert not Path(f"/proc/{int(file.read_text())}").exists()


def test_what_waits_as_the_rest_is_given_up_begins_no_call(make, monkeypatch):
    """Not even one that is ended at once: its command may have done something by then."""
    begun: list[Event] = []

    def hangs(_command, event, *, seconds, given_up):
        begun.append(event)
        assert given_up.wait(60 * seconds + 60)
        return CallResult(None)

    monkeypatch.setattr(module, "call", hangs)
    hook = make("x", seconds=0.1)
    for number in range(3):
        hook.event(throttled(number))
    until(lambda: begun, "the first call")
    hook.stop()
    assert len(begun) == 1


def test_each_kind_of_trouble_is_warned_of_once(make, told):
    """The reason has the first line of the output."""
    hook = make("echo no room; exit 9")
    for number in range(3):
        hook.event(throttled(number))
    hook.stop()
    (failed,) = told.named(HookFailed)
    assert failed.level == "warning"
    assert failed.fields["kind"] == "failed"
    assert failed.fields["exit_code"] == 9
    assert "no room" in failed.text
    hook = make("/nowhere/hook")
    hook.event(throttled(1))
    hook.stop()
    assert told.events[-1].fields["kind"] == "missing"
    assert "hook at throttle.begun did not run: its command was not found" in told.events[-1].text


def test_what_waits_is_bounded_and_the_end_is_handed_over(make, told, monkeypatch, tmp_path):
    """Events that find no room are passed over, which is said; the end of the run has room."""
    monkeypatch.setattr(module, "_MOST_WAITING", 2)
    out, go = tmp_path / "out", tmp_path / "go"
    waits = f"while [ ! -e {shlex.quote(str(go))} ]; do sleep 0.05; done"
    hook = make(f"{waits}; cat >> {shlex.quote(str(out))}")
    for number in range(10):
        hook.event(throttled(number))
    hook.event(ENDED)
    until(lambda: told.named(HookFailed), "the warning")
    assert told.events[0].fields["kind"] == "slow"
    assert "hook at throttle.begun is slow: 2 events wait for it, and" in told.events[0].text
    go.touch()
    hook.stop()
    found = [json.loads(line)["event"] for line in out.read_text().splitlines()]
    assert found[-1] == "run.ended"
    assert len(found) <= 5


def test_a_question_is_not_asked_after_all_that_waits(make, tmp_path):
    """Slow calls about other events keep nobody waiting who waits for an answer."""
    out, go = tmp_path / "out", tmp_path / "go"
    waits = f"while [ ! -e {shlex.quote(str(go))} ]; do sleep 0.05; done"
    hook = make(f'{waits}; echo "$SPIRIT_PY_EVENT" >> {shlex.quote(str(out))}')
    for number in range(5):
        hook.event(throttled(number))
    until(lambda: len(hook._waiting) == 4, "the first call")
    asked = Background("asks", lambda _: hook.ask(READY, lambda: None) and None)
    with asked:
        until(lambda: len(hook._waiting) >= 5, "the question")
        go.touch()
    hook.stop()
    found = out.read_text().splitlines()
    assert len(found) == 6
    assert "cutover.ready" in found[:2]


def test_a_question_that_nobody_waits_for_is_not_asked(make, tmp_path):
    """A stop request ends the wait before the call has begun."""
    out, go = tmp_path / "out", tmp_path / "go"
    waits = f"while [ ! -e {shlex.quote(str(go))} ]; do sleep 0.05; done"
    hook = make(f'echo "$SPIRIT_PY_EVENT" >> {shlex.quote(str(out))}; {waits}')
    hook.event(throttled(1))
    until(out.exists, "the first call")

    def check() -> None:
        raise Interrupted(2)

    with pytest.raises(Interrupted):
        hook.ask(READY, check)
    go.touch()
    hook.stop()
    assert out.read_text().split() == ["throttle.begun"]


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("exit 0", ""),
        ("echo not now; exit 1", "not now"),
        ("exit 7", "ended with exit code 7"),
        (
            "/nowhere/hook 2>/dev/null",
            "did not run: its command was not found (exit code 127)",
        ),
        ("sleep 600", "took longer than 0.5 s and was killed"),
    ],
)
def test_only_an_exit_code_of_0_agrees(make, command, answer):
    """A hook that is missing or silent has not agreed."""
    hook = make(command, seconds=0.5 if "sleep" in command else 20.0)
    assert hook.ask(READY, lambda: None) == answer
    hook.stop()


def test_a_refusal_is_an_answer_and_no_trouble(make, told):
    """It is shown as what is waited for; a hook that could not answer is warned of."""
    hook = make("exit 1")
    hook.ask(READY, lambda: None)
    assert not told.events
    hook = make("/nowhere/hook")
    hook.ask(READY, lambda: None)
    hook.stop()
    assert told.named(HookFailed)


def test_a_stop_request_does_not_wait_for_the_answer(make):
    """What the check raises ends the wait at once."""
    hook = make("sleep 600", seconds=1.0)

    def check() -> None:
        raise Interrupted(2)

    with pytest.raises(Interrupted):
        hook.ask(READY, check)
    hook.stop()
