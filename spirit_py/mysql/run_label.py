"""A session's run: its label, and whether that run still holds the locks of its tables (R18)."""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure
from spirit_py.mysql.own_sessions import of_run
from spirit_py.mysql.processlist import whose
from spirit_py.sql import string_literal
from spirit_py.table.names import lock_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.contracts import SqlSession

_TOKEN_BYTES: Final = 16


def run_label(tables: Iterable[tuple[str, str]]) -> str:
    """Make the label of a new run: a token of its own, and a digest for each table."""
    digests = sorted(lock_name("migration", *table).rpartition(":")[2] for table in tables)
    return " ".join((secrets.token_hex(_TOKEN_BYTES), *digests))


def token_of(label: str) -> str:
    """Return the token of a run's label."""
    return label.partition(" ")[0]


def shown_run(label: str) -> str:
    """Return the SET assignment that shows the run to an operator; its token is a secret."""
    shown = hashlib.sha256(token_of(label).encode()).hexdigest()[:16]
    return f"@spirit_py_run={string_literal(shown)}"


def refuse_when_taken_over(session: SqlSession, label: str) -> None:
    """Refuse a session of a run whose table another run has the advisory lock of.

    A worker of a dead run may survive it, and open a new session when its last one was ended.
    Such a session holds its run's locks before this check. So either the other run held the lock
    already, and the session is refused; or it takes the lock later, and its search for sessions
    of earlier runs, which follows, finds this one.

    Raises:
        MigrationFailure: another run has taken over.
    """
    token, *digests = label.split()
    for digest in digests:
        lock = f"spirit-py:migration:{digest}"
        holder = session.query("SELECT IS_USED_LOCK(%s)", (lock,))[0][0]
        if holder is None or of_run(session, token, [holder]):
            continue
        raise MigrationFailure(
            f"another run of spirit-py has taken this migration over ({whose(session, holder)})",
            hint=f"let that run end; a session that is no run of spirit-py: KILL {holder}",
            error_code=ErrorCode.ALREADY_RUNNING,
        )
