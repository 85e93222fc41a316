"""Options that the server or the table does not allow as they are given."""

from __future__ import annotations

from typing import Final

from spirit_py.classes import replace
from spirit_py.mysql.facts import unknown_counters
from spirit_py.mysql.replication import in_replication_group
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn
from spirit_py.preflight.passable import require_passable


def load_limits(context: PreflightContext) -> Findings:
    """Refuse a limit of what is no counter of the server: it would never be reached."""
    config = context.config
    limits = {"--max-load": config.max_load, "--critical-load": config.critical_load}
    names = {name for some in limits.values() for name, _ in some}
    unknown = unknown_counters(context.session, names)
    for option, some in limits.items():
        for name, _ in some:
            if name in unknown:
                yield refuse(
                    f"{option} names {name}, which is not a numeric variable of SHOW GLOBAL STATUS",
                    "write a name that SHOW GLOBAL STATUS lists, such as Threads_running",
                )


def modes(context: PreflightContext) -> Findings:
    """Report the modes that the operator chose in place of the server's."""
    if context.facts.chosen:
        chosen = "; ".join(f"{name} is {value!r}" for name, value in context.facts.chosen)
        yield warn(
            f"the table is changed as by an ALTER in a session whose {chosen}, because of"
            f" {context.config.modes_from or replace(context.config.modes, keep='').options}, not"
            " under the server's own",
            "a value that would be shortened or replaced still ends the migration",
        )


#: One of these lets a session set gtid_next (manual 19.1.6.5); the first is the smallest.
_ANY_OF: Final = (
    *("REPLICATION_APPLIER", "SESSION_VARIABLES_ADMIN", "SYSTEM_VARIABLES_ADMIN", "SUPER"),
)
_UNTAGGED: Final = (
    "leave --tag-own-writes out: then the change feed receives the copy, and skips it"
)


def own_writes(context: PreflightContext) -> Findings:
    """Refuse ``--tag-own-writes`` where the server or the account does not allow it."""
    if not context.config.feed.own_writes:
        return
    if not context.facts.gtid:
        yield refuse("--tag-own-writes needs gtid_mode=ON", _UNTAGGED)
    elif not any(context.grants.has_global(privilege) for privilege in _ANY_OF):
        yield refuse(
            f"--tag-own-writes: account {context.grants.account} lacks {_ANY_OF[0]}, and may not"
            " set gtid_next",
            f"GRANT {_ANY_OF[0]} ON *.* TO the account, or {_UNTAGGED}",
        )
    elif in_replication_group(context.session):
        yield refuse(
            "--tag-own-writes: the server is a member of a replication group, which numbers"
            " transactions itself",
            _UNTAGGED,
        )


def statement_writes(context: PreflightContext) -> Findings:
    """Refuse to pass writes of a table that is migrated, or whose trigger names one that is."""
    passable = context.config.feed.passable
    require_passable(context.session, passable, [(context.schema, context.table)])
    for schema, table in passable:
        if not context.grants.has("TRIGGER", schema, table):
            yield warn(
                f"--pass-statement-writes {schema}.{table}: the account may not see its triggers,"
                " so it was not checked whether one writes to the table"
            )
