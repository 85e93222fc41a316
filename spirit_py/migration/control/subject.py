"""What a command has to offer so that operators can control it: its verbs, and its figures."""

from __future__ import annotations

import os
import socket
import threading
import time
from enum import StrEnum, auto
from typing import TYPE_CHECKING, Final

from spirit_py import __version__
from spirit_py.checkpoint.live import DONE, WORKING, Answer, LiveFigures
from spirit_py.classes import dataclass, fields, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.events.event import Event
from spirit_py.mysql.own_sessions import token_of
from spirit_py.progress import MigrationProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spirit_py.checkpoint.live import Request
    from spirit_py.checkpoint.queue import Asked
    from spirit_py.errors import SpiritError
    from spirit_py.mysql.session import Session
    from spirit_py.threads import StopSwitch


class Verb(StrEnum):
    """What ``spirit-py ctl`` asks for."""

    ABORT = auto()
    CUTOVER = auto()
    PAUSE = auto()
    POSTPONE = auto()
    RESUME = auto()
    SET = auto()


CLEANUP: Final = "cleanup"
"""The argument of ``abort``: drop what was copied."""
#: For how long the outcome of a statement that changes the tables is waited for.
_OUTCOME_SECONDS: Final = 5.0
NOT_KNOWN: Final = "the change of the tables was sent, and its outcome is not known yet"
_LOOK_SECONDS: Final = 0.02


class Conversation:
    """The answer of another thread to a longer request; the listener writes it. Thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        #: The answer so far, without a token: several commands may have asked for the same.
        self.answer = Answer(token="", state=WORKING, said=())

    @property
    def ended(self) -> bool:
        """Whether nothing more is said."""
        return self.answer.state != WORKING

    def hear(self, happened: object) -> None:
        """Pass on the line of an event."""
        with self._mutex:
            if isinstance(happened, Event) and happened.has_line and not self.ended:
                self.answer = replace(self.answer, said=(*self.answer.said, happened.line))

    def done(self) -> None:
        """Answer that it is done."""
        with self._mutex:
            self.answer = replace(self.answer, state=DONE)

    def fail(self, error: SpiritError) -> None:
        """Answer that it failed."""
        with self._mutex:
            self.answer = Answer.of_error("", error)


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What was done; ``then`` stops the run after the answer, ``by`` answers in another thread."""

    said: str = ""
    then: SpiritError | None = None
    by: Conversation | None = None


class Carrier:
    """Carries out what operators ask of one command; used by one thread."""

    def __init__(self, verbs: Mapping[str, Callable[[Session, Asked], Effect]]) -> None:
        self._verbs = verbs

    def can_answer(self, _request: Request) -> bool:
        """Return whether it is time to answer; a request that it is not waits."""
        return True

    def carry_out(self, session: Session, asked: Asked) -> Effect:
        """Do what is asked; Refusal where it cannot be done now, ServerFault where it failed."""
        name = asked.request.verb
        if (verb := self._verbs.get(name)) is None:
            raise refused(f"there is no verb {name!r}", f"use {', '.join(self._verbs)}")
        return verb(session, asked)


def refused(cause: str, hint: str = "") -> Refusal:
    """Return the refusal of a request."""
    return Refusal(cause, hint=hint, error_code=ErrorCode.REQUEST_REFUSED)


def require_running(stop: StopSwitch, hint: str) -> None:
    """Refuse to end a run that ends already, because the first reason decides what is kept."""
    if (reason := stop.reason) is not None:
        raise refused(f"it stops already: {reason.message}", hint)


def await_outcome(under_way: Callable[[], bool], stop: StopSwitch) -> None:
    """Wait for the outcome of a RENAME, or of another change, that is under way; for seconds."""
    until = time.monotonic() + _OUTCOME_SECONDS
    while under_way() and time.monotonic() < until:
        if stop.wait(_LOOK_SECONDS):
            return


def live_figures(
    label: str,
    seen: MigrationProgress,
    *,
    phase: str,
    paused: str,
    settings: dict[str, str] | None = None,
) -> LiveFigures:
    """Return figures as the checkpoint table holds them. No I/O."""
    progress = {one.name: getattr(seen, one.name) for one in fields(MigrationProgress)}
    for name, value in progress.items():
        if isinstance(value, float):
            progress[name] = round(value, 4 if name == "fraction" else 1)
    progress["run_eta_parts"] = {
        phase: None if value is None else round(value, 1)
        for phase, value in seen.run_eta_parts.items()
    }
    return LiveFigures(
        **progress,
        host=socket.gethostname(),
        pid=os.getpid(),
        run=token_of(label),
        program=__version__,
        phase=phase,
        paused=paused,
        settings=settings or {},
    )
