"""What a check has to say: a cause and a remedy, one line each."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spirit_py.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence


class Severity(enum.Enum):
    """What follows from a finding."""

    REFUSAL = "refusal"
    """The migration may not run."""
    WARNING = "warning"
    """It may run, and the operator should know."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that a check found.

    Attributes:
        check: the check's name.
        cause: one line: the object and what is wrong with it.
        remedy: one line: what to do about it.
        details: further lines, such as examples.
    """

    severity: Severity
    check: str = ""
    cause: str
    remedy: str = ""
    details: tuple[str, ...] = ()


def refuse(cause: str, remedy: str, details: Sequence[str] = ()) -> Finding:
    """Return that the migration may not run."""
    return Finding(severity=Severity.REFUSAL, cause=cause, remedy=remedy, details=tuple(details))


def warn(cause: str, remedy: str = "") -> Finding:
    """Say something that does not stop the migration."""
    return Finding(severity=Severity.WARNING, cause=cause, remedy=remedy)


def refusal_of(findings: Sequence[Finding], what: str = "the migration") -> Refusal:
    """Report all refusals together, for ``what``: each with its cause and its remedy."""
    if len(findings) == 1:
        only = findings[0]
        return Refusal(only.cause, hint=only.remedy, details=only.details)
    lines: list[str] = []
    for number, finding in enumerate(findings, start=1):
        lines.append(f"{number}. {finding.cause}")
        lines.extend(f"   {detail}" for detail in finding.details)
        lines.append(f"   remedy: {finding.remedy}")
    return Refusal(
        f"{len(findings)} checks refuse {what}; nothing was written",
        hint="see the remedy of each",
        details=tuple(lines),
    )
