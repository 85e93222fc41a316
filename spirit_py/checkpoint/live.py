"""What a running migration shows of itself, and what operators ask of it (pure, R20)."""

from __future__ import annotations

import contextlib
import re
import secrets
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass, field
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
    """The figures of a running migration; ``run`` is its token, ``paused`` who has paused it."""

    host: str
    pid: int
    run: str
    program: str
    phase: str
    paused: str = ""
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StandingOrders:
    """What operators have set and the next run keeps to; ``settings`` are by name.

    ``over``: what the command line asked for when they were set; one that asks for something else
    by now is newer, and counts. ``undeferred``: the swap waits for no operator in any case.
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
    """What one command asks of the process; ``token`` is random."""

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
        """The named lock that the asking session holds while it waits: a copied row holds none."""
        return lock_name("request", self.token, self.verb, sorted(self.arguments.items()))

    @classmethod
    def of(cls, verb: str, arguments: Mapping[str, str]) -> Request:
        """Return a request with a token of its own."""
        return cls(verb=verb, token=secrets.token_hex(8), arguments=dict(arguments))

    def __str__(self) -> str:
        return " ".join((self.verb, *(f"{name}={value}" for name, value in self.arguments.items())))


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the process answers; ``said`` has all messages, oldest first, a failure's cause last."""

    token: str
    state: str
    said: tuple[str, ...]
    hint: str = ""
    details: tuple[str, ...] = ()
    exit_code: int = 0
    error_code: str = ""

    def __post_init__(self) -> None:
        if self.state == FAILED and not self.said:
            raise ValueError("the answer of a failure says why")

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
