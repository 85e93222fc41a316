"""The warnings and refusals of a plan: all that is found, each with its remedy."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spirit_py.errors import Refusal, ServerFault, SpiritError
from spirit_py.mysql.faults import access_denied, connection_lost
from spirit_py.plan.model import Note
from spirit_py.preflight.check import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.preflight.check import Finding


class TooLong(Refusal):
    """A check took longer than a plan may."""


@dataclass(kw_only=True)
class Remarks:
    """What was found, of all tables."""

    warnings: list[Note] = field(default_factory=list)
    refusals: list[Note] = field(default_factory=list)

    def add(self, findings: Sequence[Finding], table: str = "") -> None:
        """Note the findings of checks."""
        for one in findings:
            note = Note(
                cause=one.cause,
                remedy=one.remedy,
                table=table,
                check=one.check,
                code=one.code or "",
                details=one.details,
            )
            refused = one.severity is Severity.REFUSAL
            (self.refusals if refused else self.warnings).append(note)

    @contextlib.contextmanager
    def refusing(self, table: str = "") -> Iterator[None]:
        """Note a refusal that is raised in the block, and go on behind it.

        A fault of the server is one too, unless the connection is lost.
        """
        try:
            yield
        except TooLong as error:
            self.warnings.append(Note(cause=error.message, remedy=error.hint, table=table))
        except SpiritError as error:
            if isinstance(error, ServerFault) and connection_lost(error):
                raise
            self.refusals.append(self.of_error(error, table))

    @staticmethod
    def of_error(error: SpiritError, table: str = "") -> Note:
        """Return the note of an error."""
        remedy = error.hint
        if not remedy and access_denied(error):
            remedy = "give the account the privileges that the README lists"
        return Note(
            cause=error.message,
            remedy=remedy,
            table=table,
            code=error.error_code,
            details=error.details,
        )
