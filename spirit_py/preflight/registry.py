"""All checks, in the order of their names, and when each runs."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from spirit_py.errors import Refusal, ServerFault
from spirit_py.mysql.faults import INTERRUPTED, access_denied, connection_lost
from spirit_py.preflight.check import Finding, PreflightContext, Severity, refusal_of, refuse
from spirit_py.preflight.checks import (
    auto_increment,
    binlog_filters,
    binlog_retention,
    blockers,
    check_constraints,
    clock_defaults,
    disk_space,
    drop_of_old_table,
    duplicates,
    foreign_key_actions,
    foreign_key_privileges,
    foreign_keys,
    json_doubles,
    leftovers,
    load_limits,
    log_writer,
    lost_members,
    member_twice,
    modes,
    new_check_names,
    new_not_null,
    nullable_key,
    other_writers,
    own_writes,
    padded_chars,
    prepared_xa,
    privileges,
    replica,
    server_settings,
    snapshot_guard,
    source_table,
    staging_room,
    statement_writes,
    syntax,
    triggers,
    triggers_kept,
    usable_key,
    zero_dates,
)


class CheckScope(enum.Enum):
    """When a check runs."""

    SERVER = "server"
    """Before anything is written; needs no table."""
    SOURCE = "source"
    """Before anything is written; needs the source table."""
    AFTER_CREATE = "after create"
    """On the empty new table, which is dropped again when a check refuses."""


CheckFunction: TypeAlias = Callable[[PreflightContext], Iterable[Finding]]


@dataclass(frozen=True)
class Check:
    """One check: its name, when it runs, and what it does."""

    name: str
    scope: CheckScope
    run: CheckFunction


CHECKS: tuple[Check, ...] = (
    Check("auto_increment", CheckScope.AFTER_CREATE, auto_increment.check),
    Check("binlog_filters", CheckScope.SERVER, binlog_filters.check),
    Check("binlog_retention", CheckScope.SOURCE, binlog_retention.check),
    Check("blockers", CheckScope.SERVER, blockers.check),
    Check("check_constraints", CheckScope.SOURCE, check_constraints.check),
    Check("clock_defaults", CheckScope.AFTER_CREATE, clock_defaults.check),
    Check("disk_space", CheckScope.SOURCE, disk_space.check),
    Check("drop_of_old_table", CheckScope.SOURCE, drop_of_old_table.check),
    Check("duplicates", CheckScope.AFTER_CREATE, duplicates.check),
    Check("foreign_key_actions", CheckScope.AFTER_CREATE, foreign_key_actions.check),
    Check("foreign_key_privileges", CheckScope.AFTER_CREATE, foreign_key_privileges.check),
    Check("foreign_keys", CheckScope.SOURCE, foreign_keys.check),
    Check("json_doubles", CheckScope.SOURCE, json_doubles.check),
    Check("leftovers", CheckScope.SOURCE, leftovers.check),
    Check("load_limits", CheckScope.SERVER, load_limits.check),
    Check("log_writer", CheckScope.SOURCE, log_writer.check),
    Check("lost_members", CheckScope.AFTER_CREATE, lost_members.check),
    Check("member_twice", CheckScope.AFTER_CREATE, member_twice.check),
    Check("modes", CheckScope.SERVER, modes.check),
    Check("new_check_names", CheckScope.AFTER_CREATE, new_check_names.check),
    Check("new_not_null", CheckScope.AFTER_CREATE, new_not_null.check),
    Check("nullable_key", CheckScope.AFTER_CREATE, nullable_key.check),
    Check("other_writers", CheckScope.SERVER, other_writers.check),
    Check("own_writes", CheckScope.SERVER, own_writes.check),
    Check("padded_chars", CheckScope.AFTER_CREATE, padded_chars.check),
    Check("prepared_xa", CheckScope.SERVER, prepared_xa.check),
    Check("privileges", CheckScope.SERVER, privileges.check),
    Check("replica", CheckScope.SERVER, replica.check),
    Check("server_settings", CheckScope.SERVER, server_settings.check),
    Check("snapshot_guard", CheckScope.AFTER_CREATE, snapshot_guard.check),
    Check("source_table", CheckScope.SERVER, source_table.check),
    Check("staging_room", CheckScope.AFTER_CREATE, staging_room.check),
    Check("statement_writes", CheckScope.SOURCE, statement_writes.check),
    Check("syntax", CheckScope.SERVER, syntax.check),
    Check("triggers", CheckScope.SOURCE, triggers.check),
    Check("triggers_kept", CheckScope.AFTER_CREATE, triggers_kept.check),
    Check("usable_key", CheckScope.SOURCE, usable_key.check),
    Check("zero_dates", CheckScope.AFTER_CREATE, zero_dates.check),
)


def run_checks(contexts: Sequence[PreflightContext], *scopes: CheckScope) -> tuple[Finding, ...]:
    """Run all checks of these scopes for all tables; equal findings are reported once.

    Returns:
        The warnings.

    Raises:
        Refusal: with all refusals together, when there is any.
        ServerFault: when the server was lost on the way, or the statement was ended.
    """
    findings = list(
        dict.fromkeys(
            replace(finding, check=check.name)
            for context in contexts
            for check in CHECKS
            if check.scope in scopes and (check.scope is not CheckScope.SOURCE or context.found)
            for finding in _findings(check, context)
        )
    )
    refusals = [finding for finding in findings if finding.severity is Severity.REFUSAL]
    if refusals:
        raise refusal_of(refusals)
    return tuple(findings)


def _findings(check: Check, context: PreflightContext) -> list[Finding]:
    """Run one check; a query that the server refuses is a refusal too."""
    try:
        return list(check.run(context))
    except Refusal as error:
        return [refuse(error.message, error.hint, error.details)]
    except ServerFault as error:
        # A stop request ends a long statement; the caller knows why.
        if connection_lost(error) or error.code == INTERRUPTED:
            raise
        return [
            refuse(
                f"the check {check.name} could not look: {error.text} (error {error.code})",
                error.hint or _remedy(error),
            )
        ]


def _remedy(error: ServerFault) -> str:
    if access_denied(error):
        return "give the account the privileges that the README lists"
    return "remove the cause that the server names, then run again; its error log may say more"
