"""Events of reverse replication, and of reverts (pure).

``tables`` names all of them in one text.
"""

from __future__ import annotations

from spirit_py.events.event import Event, aside, event


@event(
    "reverse.begun",
    "reverse replication of {tables} runs for {seconds:time}: spirit-py revert brings the old"
    " definition back",
)
class ReverseBegun(Event):
    """The old tables are kept current."""

    tables: str
    seconds: float


@event("reverse.ended")
class ReverseEnded(Event):
    """A revert is possible no more."""

    tables: str
    reason: str
    given_up: bool = aside(default=False)

    @property
    def sentence(self) -> str:
        """Of what, and why."""
        how = "is given up" if self.given_up else "ends"
        return f"reverse replication of {self.tables} {how}: {self.reason}"


@event("revert.loses", "{said}")
class RevertLoses(Event):
    """What a revert would lose, or loses."""

    said: str = aside()


@event("revert.requested")
class RevertRequested(Event):
    """A revert was asked for; ``session`` is that of the process which is asked."""

    session: int | None

    @property
    def sentence(self) -> str:
        """Who is asked, where somebody is."""
        if self.session is None:
            return "a revert was asked for"
        return f"asking the process that runs reverse replication (session {self.session})"


@event("revert.tables_found", "these were changed together: {tables}")
class RevertTablesFound(Event):
    """The tables that are reverted together."""

    tables: str


@event(
    "revert.taken_over",
    "no process runs reverse replication any more: going on in its place",
)
class RevertTakenOver(Event):
    """The command works in the place of the process that has ended."""


@event("revert.step_begun", "{said}")
class RevertStepBegun(Event):
    """A step of a revert: ``drain``, ``compare`` or ``swap``."""

    step: str
    said: str = aside()


@event("revert.answered", "{said}")
class RevertAnswered(Event):
    """What the process that was asked says."""

    said: str = aside()


@event("revert.failed", "{said}", level="warning")
class RevertFailed(Event):
    """The tables stay as they are."""

    reason: str
    said: str = aside()


@event("revert.done", "{said}")
class RevertDone(Event):
    """The old definition is in place again."""

    tables: str
    said: str = aside()
