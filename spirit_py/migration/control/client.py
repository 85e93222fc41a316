"""The side of the command that asks: show what the process answers, to its end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from spirit_py.checkpoint.requests import DONE, FAILED
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure
from spirit_py.locks.named import named_lock_holder

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.checkpoint.queue import Asked, RequestQueue
    from spirit_py.contracts import SqlSession

LOOK_SECONDS: Final = 0.3
"""Seconds between two looks at an answer."""


def follow_answer(
    session: SqlSession,
    queue: RequestQueue,
    asked: Asked,
    *,
    process_lock: str,
    said: Callable[[str], None],
    pause: Callable[[bool], None],
    within: float,
) -> bool:
    """Show what the process answers, until it is done.

    Args:
        process_lock: the named lock that the process holds while it runs.
        said: called with each line of the answer.
        pause: waits for :data:`LOOK_SECONDS`, and raises where the command is to end; called with
            whether the process has begun to answer.
        within: seconds in which it must begin to answer.

    Returns:
        False where the process has ended without an answer.

    Raises:
        MigrationFailure: the process does not answer.
        SpiritError: the failure that it answered.
    """
    began, shown = time.monotonic(), 0
    while True:
        held = named_lock_holder(session, process_lock) is not None
        # Read last: what the process wrote before it ended counts.
        answer = queue.answer_to(session, asked.number, asked.request.token)
        if answer is not None:
            if answer.state == FAILED:
                raise answer.as_error()
            for line in answer.said[shown:]:
                said(line)
            shown = len(answer.said)
            if answer.state == DONE:
                return True
        if not held:
            return False
        if not shown and time.monotonic() - began > within:
            raise MigrationFailure(
                f"the process that works on the table does not answer ({asked.request})",
                hint="see what it does (spirit-py status); when it has ended, run the same command"
                " again",
                error_code=ErrorCode.NO_ANSWER,
            )
        pause(bool(shown))
