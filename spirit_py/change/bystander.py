"""Whether a write that a session logged as a statement may be passed over (R13; pure).

It may when it is proven foreign: the server says that its targets are tables without triggers,
and that nothing in it is a stored function or a view. The server speaks of now, the stream of
then. What was said is forgotten at the next DDL of the stream; and DDL between the statement
and the moment of the answer, which may have taken away what the answer would have named, is
met in the stream later: then it is an error, late but not too late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spirit_py.change.statements import readings
from spirit_py.errors import UnreadableChange

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.change.events import StatementSeen
    from spirit_py.change.statements import Claim, Statement
    from spirit_py.change.tokens import Name
    from spirit_py.contracts import Clock

_REMEMBERED: Final = 5.0
"""Seconds: DDL with sql_log_bin=0 is not in the stream."""
_MOST: Final = 1000
_PROGRAMS: Final = frozenset({"DATABASE", "FUNCTION", "SCHEMA", "TRIGGER", "VIEW"})


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the server says of a claim.

    Attributes:
        objection: why the write may have touched more than it names; empty when it did not.
        missing: targets that there are not.
        executed: a frontier: what the server had executed when it had said so.
    """

    executed: Any
    objection: str = ""
    missing: frozenset[Name] = frozenset()


class Bystanders:
    """Follows the statements of others that no followed table is named in.

    Args:
        ask: asks the server about a claim.
        hint: what to do after the error.
    """

    def __init__(self, ask: Callable[[Claim], Facts], *, hint: str, clock: Clock) -> None:
        self._ask = ask
        self._hint = hint
        self._clock = clock
        self._known: dict[Claim, tuple[Facts, float]] = {}
        self._passed: set[Name] = set()
        self._until: list[Any] = []
        self._temporary: dict[int, set[Name]] = {}

    def take(self, event: StatementSeen, received: Any, *, followed: bool = False) -> None:
        """Take a statement of the stream.

        Args:
            received: a frontier: what of the stream is before the statement.
            followed: it is DDL of a followed table.

        Raises:
            UnreadableChange: it, or one before it, may have written to a followed table.
        """
        for statement in readings(event):
            reason = ""
            if statement.kind == "ddl":
                reason = self._altered(statement, event.session_id, received, followed=followed)
            if statement.claim is not None and not reason:
                reason = self._objection(statement.claim, event.session_id)
            if reason:
                raise UnreadableChange(
                    "a session wrote in STATEMENT format, and rows of a followed table may be"
                    f" among what it changed ({reason}): {event.excerpt} ({event.where})",
                    hint=f"SET binlog_format=ROW in that client; {self._hint}",
                )

    def _objection(self, claim: Claim, session_id: int) -> str:
        """Say why a write may have touched what it does not name; empty when it did not."""
        if claim.targets is None:
            return "the tables that it writes to are not certain"
        facts = self._facts(claim)
        for name in facts.missing - self._temporary.get(session_id, set()):
            return f"there is no table {name} now, or the account may not see it"
        if not facts.objection:
            self._passed.update(claim.targets, claim.reads)
        return facts.objection

    def _facts(self, claim: Claim) -> Facts:
        """Ask the server, or remember."""
        now = self._clock()
        facts, asked_at = self._known.get(claim, (None, 0.0))
        if facts is None or now - asked_at > _REMEMBERED:
            facts = self._ask(claim)
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[claim] = facts, now
            self._until = [facts.executed]
        return facts

    def _altered(
        self, statement: Statement, session_id: int, received: Any, *, followed: bool
    ) -> str:
        """Take note of DDL; say why what was passed over may have been no bystander."""
        self._known.clear()
        mine = self._temporary.setdefault(session_id, set())
        if statement.verb == "CREATE":
            mine.update(statement.temporary)
        else:
            mine.difference_update(statement.temporary)
        if not mine:
            del self._temporary[session_id]
        if all(received.reaches(until) for until in self._until):
            self._until.clear()
            self._passed.clear()
            return ""
        if not (followed or self._undoes(statement)):
            return ""
        return "this DDL is from before the server was asked about a statement before it"

    def _undoes(self, statement: Statement) -> bool:
        """Tell whether DDL may take away what would have been an objection."""
        if statement.verb == "TRUNCATE" or statement.temporary:
            return False
        if statement.verb == "CREATE" and "REPLACE" not in statement.words[:3]:
            return False
        if not _PROGRAMS.isdisjoint(statement.words[:12]):
            return True
        passed = {str(name).lower() for name in self._passed}
        return any(str(name).lower() in passed for name in statement.names)
