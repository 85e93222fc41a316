"""Whether the swap was done: the rule from the evidence to the next step (pure, R15).

RENAME is atomic (manual 15.1.38): names show the state once the sender's fence, a lock, is free.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Verdict(enum.Enum):
    """What the evidence says."""

    DONE = "done"
    NOT_DONE = "not done"
    UNKNOWN = "unknown"
    """No query can decide it: the operator must."""
    END_SESSION = "end session"
    """The session that sent the RENAME still exists: kill it, then look again."""
    LOOK_AGAIN = "look again"
    """The server could not be asked."""


@dataclass(frozen=True, kw_only=True)
class ExistingTables:
    """Which tables of one swap exist."""

    source: bool
    new: bool
    old: bool


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The result of one query: the answering server or None, the fence's holder, the tables."""

    server: str | None
    fence: int | None = None
    tables: tuple[ExistingTables, ...] = ()


NO_ANSWER = Evidence(server=None)


def judge(evidence: Evidence, *, server: str) -> Verdict:
    """Return the verdict; a server other than the one that was sent the RENAME proves nothing."""
    if evidence.server is None:
        return Verdict.LOOK_AGAIN
    if evidence.server != server:
        return Verdict.UNKNOWN
    if evidence.fence is not None:
        return Verdict.END_SESSION
    if evidence.tables and all(t.source and t.old and not t.new for t in evidence.tables):
        return Verdict.DONE
    if evidence.tables and all(t.source and t.new and not t.old for t in evidence.tables):
        return Verdict.NOT_DONE
    return Verdict.UNKNOWN
