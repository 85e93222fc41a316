"""The warnings and refusals of a plan: all that is found, each with its remedy."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spirit_py.errors import Refusal, ServerFault, SpiritError
from spirit_py.mysql.faults import LOCK_WAIT_TIMEOUT, access_denied, connection_lost
from spirit_py.plan.model import Note
from spirit_py.preflight.check import Severity
from spirit_py.preflight.registry import names_missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.preflight.check import Finding


class TooLong(Refusal):
    """A check took longer than a plan may."""


@dataclass(kw_only=True)
class Remarks:
    """What was found, of all tables.

    Attributes:
        denied: refusals by what could not look, because the account may not.
        named: another refusal names all GRANTs that are missing.
    """

    warnings: list[Note] = field(default_factory=list)
    refusals: list[Note] = field(default_factory=list)
    denied: list[Note] = field(default_factory=list)
    named: bool = False

    def refused(self) -> tuple[Note, ...]:
        """Return the refusals, each once; a check that was denied its look only where it must be.

        What it lacks is among the GRANTs that are missing, where these are named.
        """
        return tuple(dict.fromkeys([*self.refusals, *([] if self.named else self.denied)]))

    def add(self, findings: Sequence[Finding], table: str = "") -> None:
        """Note the findings of checks."""
        for one in findings:
            if one.locked:
                self.warnings.append(_locked(table))
                continue
            note = Note(
                cause=one.cause,
                remedy=one.remedy,
                table=table,
                check=one.check,
                code=one.code or "",
                details=one.details,
            )
            self.named = self.named or names_missing(one)
            if one.denied:
                self.denied.append(note)
            elif one.severity is Severity.REFUSAL:
                self.refusals.append(note)
            else:
                self.warnings.append(note)

    @contextlib.contextmanager
    def refusing(self, table: str = "") -> Iterator[None]:
        """Note a refusal that is raised in the block, and go on behind it.

        A fault of the server is one too, unless the connection is lost. What could not be looked at
        because another session has locked the table is a warning.
        """
        try:
            yield
        except TooLong as error:
            self.warnings.append(Note(cause=error.message, remedy=error.hint, table=table))
        except SpiritError as error:
            if isinstance(error, ServerFault) and connection_lost(error):
                raise
            if isinstance(error, ServerFault) and error.code == LOCK_WAIT_TIMEOUT:
                self.warnings.append(_locked(table))
                return
            note = self.of_error(error, table)
            (self.denied if access_denied(error) else self.refusals).append(note)

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


def _locked(table: str) -> Note:
    """Return what is said of a table that could not be read."""
    return Note(
        cause=f"{table or 'a table'} is locked by another session: its rows were not looked at, so"
        " that duplicates or values that do not fit may be found only later",
        remedy="ask again once the lock is released; performance_schema.metadata_locks shows who"
        " holds it",
        table=table,
        check="locked",
    )
