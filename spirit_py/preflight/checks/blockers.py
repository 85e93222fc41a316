"""Whether sessions in front of a table lock can be seen, and killed where that is asked for."""

from __future__ import annotations

from spirit_py.locks.look import why_locks_are_unseen
from spirit_py.mysql.kill import may_kill_by_procedure
from spirit_py.preflight.check import Findings, PreflightContext, warn


def blockers(context: PreflightContext) -> Findings:
    """Warn of what the swap will not be able to do."""
    kills = context.config.kill_blockers != "never"
    if why := why_locks_are_unseen(context.session):
        lost = " and --kill-blockers kills no session" if kills else ""
        yield warn(
            f"metadata locks cannot be seen: {why}: before a lock on the table is requested, old"
            f" transactions on any table are waited for,{lost or ' not only those on this one'}",
            "start the server with --performance-schema=ON, enable wait/lock/metadata/sql/mdl in"
            " performance_schema.setup_instruments, and let the account read performance_schema",
        )
    elif kills and not _may_kill(context):
        grants = context.grants
        yield warn(
            f"account {grants.account} lacks CONNECTION_ADMIN: blockers of other"
            " accounts cannot be killed, as --kill-blockers asks for",
            grants.grant(["CONNECTION_ADMIN"]),
        )


def _may_kill(context: PreflightContext) -> bool:
    grants = context.grants
    by_privilege = grants.has_global("CONNECTION_ADMIN") or grants.has_global("SUPER")
    return by_privilege or may_kill_by_procedure(context.session)
