"""What a running migration shows of itself, and what operators ask of it (pure).

``spirit-py ctl`` and ``spirit-py revert`` ask. Nothing secret is in these rows (R20).
"""

from __future__ import annotations

import contextlib
import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import OutcomeUnknown, Refusal, SpiritError
from spirit_py.progress import MigrationProgress
from spirit_py.table.names import lock_name

if TYPE_CHECKING:
    from collections.abc import Mapping

STALE_SECONDS: Final = 10.0
"""Age of its figures from which on a process that holds its lock may hang; they are written every
second or two."""

REVERT: Final = "revert"
"""The phase of a ``spirit-py revert`` that works in the place of a process that has ended."""


@dataclass(frozen=True, kw_only=True)
class LiveFigures(MigrationProgress):
    """The figures of a running migration.

    Attributes:
        host: the machine that the process runs on, ``pid`` its number there.
        run: the token of its run, by which its sessions are known.
        paused: who has paused it; empty when nobody has.
        settings: those that ``spirit-py ctl set`` changes, as it spells them.
    """

    host: str
    pid: int
    run: str
    program: str
    phase: str
    paused: str = ""
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StandingOrders:
    """What operators have set and the next run keeps to.

    Attributes:
        paused: who has paused the migration; empty when nobody has.
        settings: what was set, by name, as ``spirit-py ctl set`` spells it.
        over: what the command line asked for when that was set, by name: a command line that asks
            for something else by now is newer, and counts.
        undeferred: the swap is not to wait for the operator, whatever the command line asks for.
    """

    paused: str = ""
    undeferred: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    over: dict[str, str] = field(default_factory=dict)


SKIP_DROP: Final = "skip-drop"
"""Its argument: keep the tables that are swapped out."""

_TOKEN: Final = re.compile(r"[0-9a-f]{16}")
_LONGEST: Final = 2000

WORKING: Final = "working"
DONE: Final = "done"
FAILED: Final = "failed"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What one command asks of the process.

    Attributes:
        token: random, of this request.
        arguments: of the verb, by name.
    """

    verb: str
    token: str
    arguments: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        texts = (self.verb, *self.arguments, *self.arguments.values())
        if not _TOKEN.fullmatch(self.token):
            raise ValueError("the token of a request is 16 hexadecimal digits")
        if not all(text.isprintable() for text in texts) or sum(map(len, texts)) > _LONGEST:
            raise ValueError("the texts of a request are short, and printable")

    @property
    def lock(self) -> str:
        """The named lock that the asking session holds for as long as it waits.

        Its name has all of the request: who copies the row with another verb holds no lock for it.
        """
        return lock_name("request", self.token, self.verb, sorted(self.arguments.items()))

    @classmethod
    def of(cls, verb: str, arguments: Mapping[str, str]) -> Request:
        """Return a request with a token of its own."""
        return cls(verb=verb, token=secrets.token_hex(8), arguments=dict(arguments))

    def __str__(self) -> str:
        given = (f"{name}={value}" for name, value in self.arguments.items())
        return " ".join((self.verb, *given))


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the process answers to the request of that token.

    Attributes:
        state: :data:`WORKING`, :data:`DONE` or :data:`FAILED`.
        said: all messages so far, oldest first; the cause of a failure is the last.
        exit_code: of the error, once it failed; likewise its ``error_code``.
    """

    token: str
    state: str
    said: tuple[str, ...]
    hint: str = ""
    details: tuple[str, ...] = ()
    exit_code: int = 0
    error_code: str = ""

    @classmethod
    def of_error(cls, token: str, error: SpiritError) -> Answer:
        """Return the answer that reports a failure."""
        return cls(
            token=token,
            state=FAILED,
            said=(error.message,),
            hint=error.hint,
            details=error.details,
            exit_code=error.exit_code,
            error_code=error.error_code,
        )

    def as_error(self) -> SpiritError:
        """Return the failure as an error with the same exit code."""
        kinds = {2: Refusal, 3: OutcomeUnknown}
        # A signal to the one process did not interrupt the other.
        kind = kinds.get(self.exit_code, SpiritError)
        error = kind(self.said[-1], hint=self.hint, details=self.details)
        # Another version answers, perhaps with a code that this one does not know.
        with contextlib.suppress(ValueError):
            error.error_code = ErrorCode(self.error_code)
        return error
