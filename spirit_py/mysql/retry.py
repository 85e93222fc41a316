"""Retries that share the stop switch, so that a stop request never waits out a pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    stop_when_event_set,
    wait_random_exponential,
)

from spirit_py.mysql.faults import Disposition, disposition

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.stop import StopSwitch


def retrying(
    stop: StopSwitch,
    *,
    attempts: int = 5,
    first_pause: float = 0.2,
    longest_pause: float = 10.0,
    committing: bool = False,
    on_retry: Callable[[int, BaseException], None] | None = None,
) -> Retrying:
    """Build a retrier: call it with a function, or loop over it as tenacity describes.

    Only faults of :data:`~spirit_py.mysql.faults.Disposition.RETRY` are tried again, after a
    random pause below ``first_pause`` seconds, doubled each time up to ``longest_pause``. The
    last fault is raised, or during a pause the reason of a stop request.

    Args:
        committing: a lost connection leaves the outcome open, so it is raised at once.
        on_retry: told the number of the failed attempt, from 1, and its fault.
    """

    def worth_another_try(error: BaseException) -> bool:
        return disposition(error, committing=committing) is Disposition.RETRY

    def pause(seconds: float) -> None:
        stop.wait(seconds)
        stop.check()

    def before_pause(state: RetryCallState) -> None:
        fault = state.outcome.exception() if state.outcome else None
        if on_retry is not None and fault is not None:
            on_retry(state.attempt_number, fault)

    return Retrying(
        retry=retry_if_exception(worth_another_try),
        stop=stop_after_attempt(attempts) | stop_when_event_set(stop.event),
        wait=wait_random_exponential(multiplier=first_pause, max=longest_pause),
        sleep=pause,
        before_sleep=before_pause,
        reraise=True,
    )
