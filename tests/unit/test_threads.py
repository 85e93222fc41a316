"""Background threads: how they start, end and fail."""

from __future__ import annotations

import logging
import threading

from spirit_py.threads import Background, every


def test_the_context_ends_with_its_thread():
    """Leaving the context sets the event that the body waits on, and waits for the body."""
    ended = threading.Event()

    def body(stopping):
        stopping.wait()
        ended.set()

    with Background("test", body) as thread:
        assert thread.running
    assert ended.is_set()
    assert not thread.running


def test_a_failure_is_logged_with_the_name_of_the_thread(caplog):
    """A body that raises is not silent, though nobody asked to be told."""

    def body(_stopping):
        raise ValueError("no such thing")

    with caplog.at_level(logging.ERROR), Background("test", body):
        pass
    assert "spirit-py-test" in caplog.text
    assert "no such thing" in caplog.text


def test_a_failure_reaches_whoever_asked():
    """With a callback the failure is handed over, not logged."""
    found: list[BaseException] = []
    error = ValueError("mine")

    def body(_stopping):
        raise error

    with Background("test", body, failed=found.append):
        pass
    assert found == [error]


def test_a_thread_that_does_not_end_is_named(caplog):
    """A join that is not followed in time says so and returns."""
    release = threading.Event()

    def body(_stopping):
        release.wait(60)

    thread = Background("stubborn", body)
    thread.start()
    try:
        with caplog.at_level(logging.WARNING):
            assert not thread.join(0.01)
        assert "spirit-py-stubborn" in caplog.text
    finally:
        release.set()
    assert thread.wait(60)


def test_a_thread_that_never_started_may_be_joined():
    """Cleaning up after a failed start needs no special case."""
    assert Background("test", lambda _stopping: None).join(1)


def test_every_calls_until_it_is_asked_to_end():
    """The action is repeated, and no more once the thread was stopped."""
    called = threading.Semaphore(0)
    with Background("test", every(0.001, called.release)):
        for _ in range(3):
            assert called.acquire(timeout=60)
