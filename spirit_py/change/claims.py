"""Asks the server what a STATEMENT-format write was about (R13)."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from spirit_py.change.bystander import Facts
from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import Disposition, disposition
from spirit_py.mysql.grants import read_grants
from spirit_py.sql import quote_identifier

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator

    from spirit_py.change.lending import LentSession
    from spirit_py.change.statements import Claim
    from spirit_py.change.tokens import Name
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.grants import Grants

_TABLE: Final = (
    "SELECT TABLE_TYPE, ENGINE FROM information_schema.TABLES"
    " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
)
_TRIGGER: Final = (
    "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS"
    " WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s LIMIT 1"
)
#: The lower four bits: CASCADE or SET NULL, of DELETE or UPDATE.
_CHILD: Final = (
    "SELECT FOR_NAME FROM information_schema.INNODB_FOREIGN"
    " WHERE REF_NAME = CONCAT(%s, '/', %s) AND TYPE & 15 LIMIT 1"
)
_FUNCTION: Final = (
    "SELECT ROUTINE_SCHEMA, ROUTINE_NAME FROM information_schema.ROUTINES"
    " WHERE ROUTINE_TYPE = 'FUNCTION' AND ROUTINE_NAME IN ({}) LIMIT 1"
)
_VIEW: Final = (
    "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
    " WHERE TABLE_TYPE = 'VIEW' AND TABLE_SCHEMA = %s AND TABLE_NAME IN ({}) LIMIT 1"
)
_SEE_ROUTINES: Final = ("SELECT", "SHOW_ROUTINE", "EXECUTE", "ALTER ROUTINE", "CREATE ROUTINE")
_ELSEWHERE: Final = frozenset({"FEDERATED", "MRG_MYISAM"})
_AT_ONCE: Final = 200
_SHOWN: Final = 5
#: The version that has the privilege.
_SHOW_ROUTINE: Final = (8, 0, 20)
#: Its tables can have no triggers, and few accounts may see them; managed servers write to it.
_SYSTEM: Final = "mysql"
#: No view in them calls a function that is not the server's.
_SERVERS_OWN: Final = frozenset({"information_schema", "performance_schema"})
_PAUSE: Final = 0.2


def charsets(session: SqlSession) -> dict[int, str]:
    """Read the server's character sets, by the number of a collation."""
    rows = session.query("SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS")
    return {int(number): str(name) for number, name in rows}


def ask(
    lent: LentSession,
    claim: Claim,
    *,
    executed: Callable[[SqlSession], Any],
    closing: threading.Event,
    patience: float,
) -> Facts:
    """Ask about a claim, again while the server does not answer.

    Args:
        executed: asks a session for the frontier of what is executed.
        patience: seconds after which the last fault is raised.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            with lent.lend() as session:
                found = look(session, claim)
                return replace(found, executed=executed(session))
        except ServerFault as fault:
            passing = disposition(fault) is not Disposition.FATAL and time.monotonic() < deadline
            if not passing or closing.wait(_PAUSE):
                raise


def look(session: SqlSession, claim: Claim) -> Facts:
    """Say what speaks against a claim, and which of its targets there are not.

    What the account may not see is no proof, and no objection.
    """
    revokes = bool(session.query("SELECT @@GLOBAL.partial_revokes")[0][0])
    version, account = session.query("SELECT VERSION(), CURRENT_USER()")[0]
    look = _Look(session, read_grants(session, partial_revokes=revokes))
    targets = [look.target(name) for name in claim.targets or ()]
    objections = [*targets, look.functions(claim, str(version)), look.views(claim)]
    return Facts(
        executed=None,
        objection=next(filter(None, objections), ""),
        missing=frozenset(look.missing),
        unseen=" and ".join(look.unseen),
        grants=tuple(_grant(where, what, str(account)) for where, what in look.wanted.items()),
    )


class _Look:
    """What one session sees of a claim; each question gives an objection, or nothing.

    Attributes:
        missing: targets that there are not.
        unseen: what may not be seen.
        wanted: privileges, by the place where they are wanted.
    """

    def __init__(self, session: SqlSession, grants: Grants) -> None:
        self._session = session
        self._grants = grants
        self.missing: set[Name] = set()
        self.unseen: list[str] = []
        self.wanted: dict[str, tuple[str, ...]] = {}

    def _want(self, what: str, where: str, *privileges: str) -> None:
        """Note what may not be seen."""
        self.unseen.append(f"the account may not see {what}")
        held = self.wanted.get(where, ())
        self.wanted[where] = (*held, *(name for name in privileges if name not in held))

    def target(self, name: Name) -> str:
        """Say why a write to a table may go on elsewhere."""
        rows = self._session.query(_TABLE, (name.schema, name.table))
        for kind, engine in rows:
            if kind != "BASE TABLE" or engine in _ELSEWHERE:
                what = engine if kind == "BASE TABLE" else kind
                return f"{name} is a {what}".replace("VIEW", "view")
        if name.schema == _SYSTEM:
            return ""
        for (trigger,) in self._session.query(_TRIGGER, (name.schema, name.table)):
            return f"{name} has the trigger {trigger}"
        where = f"{quote_identifier(name.schema)}.*"
        if not self._grants.has("TRIGGER", name.schema, name.table or ""):
            self._want(f"triggers of {name}", where, "SELECT", "TRIGGER")
        elif not rows:
            self.missing.add(name)
        if not self._grants.has_global("PROCESS"):
            self._want(f"foreign keys of others to {name}", "*.*", "PROCESS")
            return ""
        for (child,) in self._session.query(_CHILD, (name.schema, name.table)):
            return f"a foreign key carries changes of {name} on to {child}"
        return ""

    def functions(self, claim: Claim, version: str) -> str:
        """Say which stored function may be called."""
        for names in _parts(claim.calls):
            for schema, function in self._session.query(_FUNCTION.format(_marks(names)), names):
                return f"it may call the function {schema}.{function}"
        seen = any(_everywhere(self._grants, privilege) for privilege in _SEE_ROUTINES)
        if claim.calls and not seen:
            said = ", ".join(sorted(claim.calls)[:_SHOWN])
            number = tuple(map(int, re.findall(r"[0-9]+", version)[:3]))
            needed = "SHOW_ROUTINE" if number >= _SHOW_ROUTINE else "SELECT"
            self._want(f"whether {said} is a function of others", "*.*", needed)
        return ""

    def views(self, claim: Claim) -> str:
        """Say which view may be read, because it may call a function."""
        for schema in sorted({name.schema for name in claim.reads if name.schema}):
            if schema == _SYSTEM or schema.lower() in _SERVERS_OWN:
                continue
            found = {name.table or "" for name in claim.reads if name.schema == schema}
            for names in _parts(found):
                for row in self._session.query(_VIEW.format(_marks(names)), (schema, *names)):
                    return f"it may read the view {row[0]}.{row[1]}"
            if not all(self._grants.has("SELECT", schema, name) for name in found):
                where = f"{quote_identifier(schema)}.*"
                self._want(f"views of {schema}", where, "SELECT")
        return ""


def _grant(where: str, privileges: tuple[str, ...], account: str) -> str:
    """Write a GRANT."""
    user, _, host = account.rpartition("@")
    return f"GRANT {', '.join(privileges)} ON {where} TO '{user}'@'{host}'"


def _everywhere(grants: Grants, privilege: str) -> bool:
    """Tell whether a privilege is held on every schema."""
    revoked = any(line.revoked and privilege in line.privileges for line in grants.lines)
    return grants.has_global(privilege) and not revoked


def _parts(names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Divide names for questions of a limited length."""
    found = sorted(names)
    for at in range(0, len(found), _AT_ONCE):
        yield tuple(found[at : at + _AT_ONCE])


def _marks(names: tuple[str, ...]) -> str:
    return ", ".join(["%s"] * len(names))
