"""``--tag-own-writes``: whether the copy may commit under identifiers of its own."""

from __future__ import annotations

from typing import Final

from spirit_py.mysql.replication import in_replication_group
from spirit_py.preflight.check import Findings, PreflightContext, refuse

#: One of these lets a session set gtid_next (manual 19.1.6.5); the first is the smallest.
_ANY_OF: Final = (
    "REPLICATION_APPLIER",
    "SESSION_VARIABLES_ADMIN",
    "SYSTEM_VARIABLES_ADMIN",
    "SUPER",
)
_REMEDY: Final = "leave --tag-own-writes out: then the change feed receives the copy, and skips it"


def check(context: PreflightContext) -> Findings:
    """Refuse where the option is given and the server or the account does not allow it."""
    if not context.config.feed.own_writes:
        return
    if not context.facts.gtid:
        yield refuse("--tag-own-writes needs gtid_mode=ON", _REMEDY)
    elif not any(context.grants.has_global(privilege) for privilege in _ANY_OF):
        yield refuse(
            f"--tag-own-writes: account {context.grants.account} lacks {_ANY_OF[0]}, and may not"
            " set gtid_next",
            f"GRANT {_ANY_OF[0]} ON *.* TO the account, or {_REMEDY}",
        )
    elif in_replication_group(context.session):
        yield refuse(
            "--tag-own-writes: the server is a member of a replication group, which numbers"
            " transactions itself",
            _REMEDY,
        )
