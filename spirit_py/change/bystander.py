"""Whether a write that a session logged as a statement may be passed over (R13; pure).

It may when it is proven foreign: the server says that its targets are tables without triggers,
and that nothing in it is a stored function or a view. The server speaks of now, the stream of
then. What was said is forgotten at DDL of the stream that names a word of it; and DDL between
the statement and the moment of the answer, which may have taken away what the answer would have
named, is met in the stream later: then it is an error, late but not too late. That one is final:
behind the DDL the server's answer can never be that of then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spirit_py.change.statements import readings
from spirit_py.errors import UnjudgedWrite, UnreadableChange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spirit_py.change.events import StatementSeen
    from spirit_py.change.statements import Claim, Statement
    from spirit_py.change.tokens import Name
    from spirit_py.contracts import Clock

_REMEMBERED: Final = 5.0
"""Seconds: DDL with sql_log_bin=0 is not in the stream."""
#: Claims that are remembered, and names in each at most.
_MOST, _LARGEST = 200, 50


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the server says of a claim.

    Attributes:
        objection: why the write may have touched more than it names; empty when it did not.
        missing: targets that there are not.
        executed: a frontier: what the server had executed when it had said so.
        unseen: what the account may not see of it, and is no objection therefore.
        grants: what lets the account see it.
    """

    executed: Any
    objection: str = ""
    missing: frozenset[Name] = frozenset()
    unseen: str = ""
    grants: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Passed:
    """A claim that was let pass: until when that may be taken back, and the statement."""

    until: Any
    said: str


class Bystanders:
    """Follows the statements of others that no followed table is named in.

    Args:
        ask: asks the server about a claim.
        hint: what to do after the error.
        onward: what to do after one that a GRANT mends.
    """

    def __init__(
        self, ask: Callable[[Claim], Facts], *, hint: str, onward: str, clock: Clock
    ) -> None:
        self._ask = ask
        self._hint = hint
        self._onward = onward
        self._clock = clock
        self._known: dict[Claim, tuple[Facts, float]] = {}
        self._passed: dict[Claim, _Passed] = {}
        self._prune_at = _MOST
        self._temporary: dict[int, set[Name]] = {}

    def take(self, event: StatementSeen, received: Any, *, followed: bool = False) -> None:
        """Take a statement of the stream.

        Args:
            received: a frontier: what of the stream is before the statement.
            followed: it is DDL of a followed table.

        Raises:
            UnreadableChange: it, or one before it, may have written to a followed table.
            UnjudgedWrite: the account may not see whether it did.
        """
        for statement in readings(event):
            said = f"{event.excerpt} ({event.where})"
            if statement.kind == "ddl":
                certain = event.certain and statement.whole_words
                self._forget(statement, certain=certain)
                self._created(statement, event.session_id)
                for found in self._taken_back(statement, received, any_of=followed or not certain):
                    raise self._stopped(f"{said} may have hidden it from the question", found.said)
            if statement.claim is not None:
                self._judge(statement.claim, event.session_id, said, received)

    def _stopped(self, reason: str, said: str) -> UnreadableChange:
        return UnreadableChange(
            "a session wrote in STATEMENT format, and rows of a followed table may be"
            f" among what it changed ({reason}): {said}",
            hint=f"SET binlog_format=ROW in that client; {self._hint}",
        )

    def _judge(self, claim: Claim, session_id: int, said: str, received: Any) -> None:
        """Let a write pass, or raise why it may have touched what it does not name."""
        if claim.targets is None:
            raise self._stopped("the tables that it writes to are not certain", said)
        facts = self._facts(claim)
        missing = facts.missing - self._temporary.get(session_id, set())
        reason = facts.objection or next((f"there is no table {n} now" for n in missing), "")
        if reason:
            raise self._stopped(reason, said)
        if facts.unseen:
            raise UnjudgedWrite(
                "a session wrote in STATEMENT format, and whether rows of a followed table are"
                f" among what it changed cannot be told: {facts.unseen}: {said}",
                remedy="; ".join(facts.grants),
                hint=f"{self._onward}; SET binlog_format=ROW in that client spares later runs this",
            )
        if len(self._passed) >= self._prune_at:
            self._prune(received)
            self._prune_at = max(_MOST, 2 * len(self._passed))
        self._passed[claim] = _Passed(facts.executed, said)

    def _facts(self, claim: Claim) -> Facts:
        """Ask the server, or remember."""
        now = self._clock()
        old = [one for one, (_, at) in self._known.items() if now - at > _REMEMBERED]
        for one in old:
            del self._known[one]
        if claim in self._known:
            return self._known[claim][0]
        facts = self._ask(claim)
        if len(self._known) >= _MOST:
            self._known.clear()
        if len(claim.targets or ()) + len(claim.reads) + len(claim.calls) <= _LARGEST:
            self._known[claim] = facts, now
        return facts

    def _forget(self, statement: Statement, *, certain: bool) -> None:
        """Forget what was said of anything that DDL names."""
        for claim in list(self._known):
            if not certain or not _words(claim).isdisjoint(statement.mentions):
                del self._known[claim]

    def _created(self, statement: Statement, session_id: int) -> None:
        """Take note of temporary tables."""
        mine = self._temporary.setdefault(session_id, set())
        if statement.verb == "CREATE":
            mine.update(statement.temporary)
        else:
            mine.difference_update(statement.temporary)
        if not mine:
            del self._temporary[session_id]

    def _prune(self, received: Any) -> None:
        """Drop what no DDL can take back any more: the stream is at or behind the answer."""
        self._passed = {c: p for c, p in self._passed.items() if not received.reaches(p.until)}

    def _taken_back(
        self, statement: Statement, received: Any, *, any_of: bool
    ) -> Iterator[_Passed]:
        """Give what was let pass and may have been no bystander before this DDL."""
        if not (statement.gone or any_of):
            return
        self._prune(received)
        for claim, passed in self._passed.items():
            if any(_concerns(kind, name, claim) for kind, name in statement.gone) or (
                any_of and statement.verb not in {"CREATE", "TRUNCATE"} and not statement.temporary
            ):
                yield passed


def _words(claim: Claim) -> set[str]:
    """Give every word that a claim holds, in lower case."""
    names = (*(claim.targets or ()), *claim.reads)
    parts = {part.lower() for name in names for part in (name.schema, name.table) if part}
    return parts | claim.calls


def _concerns(kind: str, name: Name, claim: Claim) -> bool:
    """Tell whether what DDL took away may have been in the way of a claim."""
    targets = claim.targets or ()
    if kind == "FUNCTION":
        return (name.table or "").lower() in claim.calls
    schema = name.schema.lower()
    if kind == "TRIGGER":
        return any(target.schema.lower() == schema for target in targets)
    for one in (*targets, *claim.reads):
        same = name.table is None or (one.table or "").lower() == name.table.lower()
        if same and one.schema.lower() == schema:
            return True
    return kind == "TABLE" and name.table is None and bool(claim.calls)
