"""Asks the server what a STATEMENT-format write was about (R13)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from spirit_py.change.bystander import Facts
from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import Disposition, disposition
from spirit_py.mysql.grants import read_grants

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
#: Its tables can have no triggers, and few accounts may see them; managed servers write to it.
_SYSTEM: Final = "mysql"


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
                objection, missing = look(session, claim)
                return Facts(executed=executed(session), objection=objection, missing=missing)
        except ServerFault as fault:
            passing = disposition(fault) is not Disposition.FATAL and time.monotonic() < deadline
            if not passing or closing.wait(_PAUSE):
                raise


def look(session: SqlSession, claim: Claim) -> tuple[str, frozenset[Name]]:
    """Say what speaks against a claim, or nothing, and which of its targets there are not.

    What the account may not see is no proof.
    """
    revokes = bool(session.query("SELECT @@GLOBAL.partial_revokes")[0][0])
    grants = read_grants(session, partial_revokes=revokes)
    missing = set()
    for name in claim.targets or ():
        rows = session.query(_TABLE, (name.schema, name.table))
        if not rows and name.schema.lower() != _SYSTEM:
            missing.add(name)
        elif reason := _target(session, grants, name, rows):
            return reason, frozenset()
    return _function(session, grants, claim) or _view(session, grants, claim), frozenset(missing)


def _target(session: SqlSession, grants: Grants, name: Name, rows: Any) -> str:
    """Say why a write to a table may go on elsewhere."""
    for kind, engine in rows:
        if kind != "BASE TABLE" or engine in _ELSEWHERE:
            return f"{name} is a {kind if kind != 'BASE TABLE' else engine}".replace("VIEW", "view")
    if name.schema.lower() == _SYSTEM:
        return ""
    for (trigger,) in session.query(_TRIGGER, (name.schema, name.table)):
        return f"{name} has the trigger {trigger}"
    if not grants.has("TRIGGER", name.schema, name.table or ""):
        return f"the account may not see triggers of {name}: GRANT TRIGGER"
    if not grants.has_global("PROCESS"):
        return f"the account may not see foreign keys of others to {name}: GRANT PROCESS"
    for (child,) in session.query(_CHILD, (name.schema, name.table)):
        return f"a foreign key carries changes of {name} on to {child}"
    return ""


def _function(session: SqlSession, grants: Grants, claim: Claim) -> str:
    """Say which stored function may be called."""
    for names in _parts(claim.calls):
        for schema, function in session.query(_FUNCTION.format(_marks(names)), names):
            return f"it may call the function {schema}.{function}"
    seen = any(_everywhere(grants, privilege) for privilege in _SEE_ROUTINES)
    if claim.calls and not seen:
        return "the account may not see functions of others: GRANT SHOW_ROUTINE"
    return ""


def _view(session: SqlSession, grants: Grants, claim: Claim) -> str:
    """Say which view may be read, because it may call a function."""
    for schema in sorted({name.schema for name in claim.reads if name.schema}):
        found = {name.table or "" for name in claim.reads if name.schema == schema}
        for names in _parts(found):
            for row in session.query(_VIEW.format(_marks(names)), (schema, *names)):
                return f"it may read the view {row[0]}.{row[1]}"
        if not grants.has("SELECT", schema):
            return f"the account may not see views of {schema}: GRANT SELECT"
    return ""


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
