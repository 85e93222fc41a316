"""All checks, in the order of their names, and when each runs."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, ServerFault
from spirit_py.mysql.faults import INTERRUPTED, LOCK_WAIT_TIMEOUT, access_denied, connection_lost
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
    """One check: its name, when it runs, what it does, and the page about what it finds."""

    name: str
    scope: CheckScope
    run: CheckFunction
    code: ErrorCode


PRIVILEGES: Final = "privileges"
"""The check that names all GRANTs that are missing."""

CHECKS: tuple[Check, ...] = (
    Check(
        "auto_increment", CheckScope.AFTER_CREATE, auto_increment.check, ErrorCode.AUTO_INCREMENT
    ),
    Check("binlog_filters", CheckScope.SERVER, binlog_filters.check, ErrorCode.BINLOG_FILTERED),
    Check(
        "binlog_retention", CheckScope.SOURCE, binlog_retention.check, ErrorCode.BINLOG_RETENTION
    ),
    Check("blockers", CheckScope.SERVER, blockers.check, ErrorCode.LOCKS_UNSEEN),
    Check("check_constraints", CheckScope.SOURCE, check_constraints.check, ErrorCode.CHECK_NAME),
    Check("clock_defaults", CheckScope.AFTER_CREATE, clock_defaults.check, ErrorCode.CLOCK_DEFAULT),
    Check("disk_space", CheckScope.SOURCE, disk_space.check, ErrorCode.NO_DISK_SPACE),
    Check(
        "drop_of_old_table",
        CheckScope.SOURCE,
        drop_of_old_table.check,
        ErrorCode.ADAPTIVE_HASH_INDEX,
    ),
    Check(
        "duplicates", CheckScope.AFTER_CREATE, duplicates.check, ErrorCode.DUPLICATES_FOR_UNIQUE_KEY
    ),
    Check(
        "foreign_key_actions",
        CheckScope.AFTER_CREATE,
        foreign_key_actions.check,
        ErrorCode.FOREIGN_KEY,
    ),
    Check(
        "foreign_key_privileges",
        CheckScope.AFTER_CREATE,
        foreign_key_privileges.check,
        ErrorCode.MISSING_PRIVILEGES,
    ),
    Check("foreign_keys", CheckScope.SOURCE, foreign_keys.check, ErrorCode.FOREIGN_KEY),
    Check("json_doubles", CheckScope.SOURCE, json_doubles.check, ErrorCode.JSON_ROUNDED),
    Check("leftovers", CheckScope.SOURCE, leftovers.check, ErrorCode.NAME_TAKEN),
    Check("load_limits", CheckScope.SERVER, load_limits.check, ErrorCode.LIMIT_NOT_WATCHABLE),
    Check("log_writer", CheckScope.SOURCE, log_writer.check, ErrorCode.LOG_WRITER_THREADS),
    Check("lost_members", CheckScope.AFTER_CREATE, lost_members.check, ErrorCode.MEMBERS_IN_USE),
    Check("member_twice", CheckScope.AFTER_CREATE, member_twice.check, ErrorCode.MEMBER_TWICE),
    Check("modes", CheckScope.SERVER, modes.check, ErrorCode.OTHER_MODES_CHOSEN),
    Check("new_check_names", CheckScope.AFTER_CREATE, new_check_names.check, ErrorCode.CHECK_NAME),
    Check("new_not_null", CheckScope.AFTER_CREATE, new_not_null.check, ErrorCode.NEW_NOT_NULL),
    Check("nullable_key", CheckScope.AFTER_CREATE, nullable_key.check, ErrorCode.NULLABLE_KEY),
    Check("other_writers", CheckScope.SERVER, other_writers.check, ErrorCode.OTHER_WRITERS),
    Check("own_writes", CheckScope.SERVER, own_writes.check, ErrorCode.TAGGED_WRITES),
    Check("padded_chars", CheckScope.AFTER_CREATE, padded_chars.check, ErrorCode.PADDED_CHAR),
    Check("prepared_xa", CheckScope.SERVER, prepared_xa.check, ErrorCode.XA_UNDECIDED),
    Check(PRIVILEGES, CheckScope.SERVER, privileges.check, ErrorCode.MISSING_PRIVILEGES),
    Check("replica", CheckScope.SERVER, replica.check, ErrorCode.REPLICA),
    Check("server_settings", CheckScope.SERVER, server_settings.check, ErrorCode.SERVER_SETTINGS),
    Check(
        "snapshot_guard", CheckScope.AFTER_CREATE, snapshot_guard.check, ErrorCode.SNAPSHOT_GUARD
    ),
    Check("source_table", CheckScope.SERVER, source_table.check, ErrorCode.NO_SUCH_TABLE),
    Check("staging_room", CheckScope.AFTER_CREATE, staging_room.check, ErrorCode.TABLE_TOO_WIDE),
    Check("statement_writes", CheckScope.SOURCE, statement_writes.check, ErrorCode.PASSED_WRITES),
    Check("syntax", CheckScope.SERVER, syntax.check, ErrorCode.STATEMENT_NOT_UNDERSTOOD),
    Check("triggers", CheckScope.SOURCE, triggers.check, ErrorCode.TRIGGER_NOT_KEPT),
    Check(
        "triggers_kept", CheckScope.AFTER_CREATE, triggers_kept.check, ErrorCode.TRIGGER_NOT_KEPT
    ),
    Check("usable_key", CheckScope.SOURCE, usable_key.check, ErrorCode.NO_USABLE_KEY),
    Check("zero_dates", CheckScope.AFTER_CREATE, zero_dates.check, ErrorCode.ZERO_DATES),
)


def run_checks(contexts: Sequence[PreflightContext], *scopes: CheckScope) -> tuple[Finding, ...]:
    """Run all checks of these scopes for all tables; return the warnings.

    Raises:
        Refusal: with all refusals together, when there is any.
        ServerFault: as :func:`findings_of`.
    """
    findings = findings_of(contexts, *scopes)
    refusals = [finding for finding in findings if finding.severity is Severity.REFUSAL]
    if refusals:
        raise refusal_of(refusals)
    return findings


def findings_of(contexts: Sequence[PreflightContext], *scopes: CheckScope) -> tuple[Finding, ...]:
    """Run all checks of these scopes for all tables; equal findings are returned once.

    Where the privileges that are missing are refused, with their GRANTs, the checks that could not
    look without them are left out.

    Raises:
        ServerFault: when the server was lost on the way, or the statement was ended.
    """
    found = dict.fromkeys(
        replace(finding, check=check.name, code=finding.code or check.code)
        for context in contexts
        for check in CHECKS
        if check.scope in scopes and (check.scope is not CheckScope.SOURCE or context.found)
        for finding in _findings(check, context)
    )
    named = any(map(names_missing, found))
    return tuple(one for one in found if not (named and one.denied))


def names_missing(finding: Finding) -> bool:
    """Return whether a finding refuses the account, and names all the GRANTs that are missing."""
    return finding.check == PRIVILEGES and finding.severity is Severity.REFUSAL


def _findings(check: Check, context: PreflightContext) -> list[Finding]:
    """Run one check; a query that the server refuses is a refusal too."""
    try:
        return list(check.run(context))
    except Refusal as error:
        return [refuse(error.message, error.hint, error.details, code=_code(error))]
    except ServerFault as error:
        # A stop request ends a long statement; the caller knows why.
        if connection_lost(error) or error.code == INTERRUPTED:
            raise
        denied = access_denied(error)
        found = refuse(
            f"the check {check.name} could not look: {error.text} (error {error.code})",
            error.hint or _remedy(error),
            code=ErrorCode.MISSING_PRIVILEGES if denied else ErrorCode.SERVER_ERROR,
        )
        return [replace(found, locked=error.code == LOCK_WAIT_TIMEOUT, denied=denied)]


def _code(error: Refusal) -> ErrorCode | None:
    """Return the refusal's own code; None where it says no more than that it is one."""
    return None if error.error_code is Refusal.error_code else error.error_code


def _remedy(error: ServerFault) -> str:
    if access_denied(error):
        return "give the account the privileges that the README lists"
    return "remove the cause that the server names, then run again; its error log may say more"
