"""All checks, in the order of their names, and when each runs."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, ServerFault
from spirit_py.estimates import likely_sizes
from spirit_py.mysql.faults import INTERRUPTED, LOCK_WAIT_TIMEOUT, access_denied, connection_lost
from spirit_py.preflight.check import (
    Finding,
    PreflightContext,
    Severity,
    TooLong,
    refusal_of,
    refuse,
    warn,
)
from spirit_py.preflight.checks import (
    archive,
    as_native,
    attached,
    binary_log,
    disk_space,
    duplicates,
    kept_rows,
    lost_values,
    names,
    options,
    other_writers,
    partitions,
    privileges,
    server_settings,
    source_table,
    swap,
    syntax,
)
from spirit_py.preflight.clauses import made_by_server, made_natively, why_not_native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


_LEAST_NAMED: Final = 1 << 20
_MOST_NAMED: Final = 1 << 30
"""Bytes of a table at most for which ``--native`` is named."""


class CheckScope(enum.Enum):
    """When a check runs."""

    SERVER = "server"
    SOURCE = "source"
    AFTER_CREATE = "after create"


@dataclass(frozen=True)
class Check:
    """One check: its name, when it runs, what it does, and the page about what it finds."""

    name: str
    scope: CheckScope
    run: Callable[[PreflightContext], Iterable[Finding]]
    code: ErrorCode

    def concerns(self, context: PreflightContext) -> bool:
        """Return whether it is about more than a copy, where there will be none."""
        if self.scope is CheckScope.SOURCE and not context.found:
            return False
        if context.config.target is not None and self.run in _ON_ONE_SERVER:
            return False
        if self.run in _OF_ANY_CHANGE:
            return True
        if made_natively([context]):
            return self.run in _OF_A_REBUILD
        return made_by_server([context]) is None


PRIVILEGES: Final = privileges.privileges.__name__

_SERVER, _SOURCE, _NEW = CheckScope.SERVER, CheckScope.SOURCE, CheckScope.AFTER_CREATE
CHECKS: tuple[Check, ...] = tuple(
    Check(run.__name__, scope, run, code)
    for run, scope, code in (
        (archive.archive, _SOURCE, ErrorCode.ARCHIVE_REFUSED),
        (as_native.auto_increment, _NEW, ErrorCode.AUTO_INCREMENT),
        (binary_log.binlog_filters, _SERVER, ErrorCode.BINLOG_FILTERED),
        (binary_log.binlog_retention, _SOURCE, ErrorCode.BINLOG_RETENTION),
        (swap.blockers, _SERVER, ErrorCode.LOCKS_UNSEEN),
        (names.check_constraints, _SOURCE, ErrorCode.CHECK_NAME),
        (as_native.clock_defaults, _NEW, ErrorCode.CLOCK_DEFAULT),
        (lost_values.converted_values, _NEW, ErrorCode.COLUMN_NOT_CONVERTIBLE),
        (disk_space.disk_space, _SOURCE, ErrorCode.NO_DISK_SPACE),
        (source_table.document_ids, _NEW, ErrorCode.TABLE_NOT_SUITABLE),
        (server_settings.drop_of_old_table, _SOURCE, ErrorCode.ADAPTIVE_HASH_INDEX),
        (duplicates.duplicates, _NEW, ErrorCode.DUPLICATES_FOR_UNIQUE_KEY),
        (attached.foreign_key_actions, _NEW, ErrorCode.FOREIGN_KEY),
        (attached.foreign_key_privileges, _NEW, ErrorCode.MISSING_PRIVILEGES),
        (attached.foreign_keys, _SOURCE, ErrorCode.FOREIGN_KEY),
        (server_settings.json_values, _SOURCE, ErrorCode.JSON_ROUNDED),
        (kept_rows.kept_keys, _NEW, ErrorCode.KEEP_REFUSED),
        (kept_rows.kept_rows, _SOURCE, ErrorCode.KEEP_REFUSED),
        (names.leftovers, _SOURCE, ErrorCode.NAME_TAKEN),
        (options.load_limits, _SERVER, ErrorCode.LIMIT_NOT_WATCHABLE),
        (server_settings.log_writer, _SOURCE, ErrorCode.LOG_WRITER_THREADS),
        (lost_values.lost_members, _NEW, ErrorCode.MEMBERS_IN_USE),
        (lost_values.member_twice, _NEW, ErrorCode.MEMBER_TWICE),
        (options.modes, _SERVER, ErrorCode.OTHER_MODES_CHOSEN),
        (names.new_check_names, _NEW, ErrorCode.CHECK_NAME),
        (attached.new_foreign_key, _SOURCE, ErrorCode.FOREIGN_KEY),
        (lost_values.new_not_null, _NEW, ErrorCode.NEW_NOT_NULL),
        (disk_space.new_table, _NEW, ErrorCode.NO_DISK_SPACE),
        (source_table.nullable_key, _NEW, ErrorCode.NULLABLE_KEY),
        (other_writers.other_writers, _SERVER, ErrorCode.OTHER_WRITERS),
        (options.own_writes, _SERVER, ErrorCode.TAGGED_WRITES),
        (as_native.padded_chars, _NEW, ErrorCode.PADDED_CHAR),
        (partitions.partitions, _SOURCE, ErrorCode.CLAUSE_NOT_SUPPORTED),
        (binary_log.prepared_xa, _SERVER, ErrorCode.XA_UNDECIDED),
        (privileges.privileges, _SERVER, ErrorCode.MISSING_PRIVILEGES),
        (attached.relatives, _NEW, ErrorCode.UNFINISHED_WORK),
        (binary_log.replica, _SERVER, ErrorCode.REPLICA),
        (source_table.secondary_engine, _NEW, ErrorCode.TABLE_NOT_SUITABLE),
        (server_settings.server_settings, _SERVER, ErrorCode.SERVER_SETTINGS),
        (swap.snapshot_guard, _NEW, ErrorCode.SNAPSHOT_GUARD),
        (source_table.source_table, _SERVER, ErrorCode.NO_SUCH_TABLE),
        (source_table.staging_room, _NEW, ErrorCode.TABLE_TOO_WIDE),
        (options.statement_writes, _SOURCE, ErrorCode.PASSED_WRITES),
        (syntax.syntax, _SERVER, ErrorCode.STATEMENT_NOT_UNDERSTOOD),
        (server_settings.takes_writes, _SERVER, ErrorCode.SERVER_SETTINGS),
        (attached.triggers, _SOURCE, ErrorCode.TRIGGER_NOT_KEPT),
        (attached.triggers_kept, _NEW, ErrorCode.TRIGGER_NOT_KEPT),
        (source_table.usable_key, _SOURCE, ErrorCode.NO_USABLE_KEY),
        (swap.way_back, _NEW, ErrorCode.REVERSE_NOT_POSSIBLE),
        (as_native.zero_dates, _NEW, ErrorCode.ZERO_DATES),
    )
)

_OF_ANY_CHANGE: Final = frozenset({
    attached.new_foreign_key,
    binary_log.replica, names.leftovers, options.load_limits, options.modes,
    other_writers.other_writers, partitions.partitions, privileges.privileges,
    server_settings.takes_writes, source_table.source_table, swap.blockers, syntax.syntax,
})  # fmt: skip


#: And what these look for concerns the server's own copy, too.
_OF_A_REBUILD: Final = frozenset({
    attached.foreign_keys, attached.triggers, disk_space.disk_space,
})  # fmt: skip

#: About a new table beside its source.
_ON_ONE_SERVER: Final = frozenset({
    attached.foreign_key_actions, attached.foreign_key_privileges, attached.foreign_keys,
    attached.relatives, attached.triggers, attached.triggers_kept, disk_space.new_table,
    disk_space.disk_space, names.check_constraints, names.new_check_names,
    server_settings.drop_of_old_table, swap.snapshot_guard,
})  # fmt: skip


#: What these refuse is no hindrance to the server.
_OF_A_COPY: Final = frozenset({
    binary_log.binlog_filters, server_settings.json_values, server_settings.server_settings,
    source_table.document_ids, source_table.nullable_key, source_table.usable_key,
    source_table.staging_room,
})  # fmt: skip


def run_checks(
    contexts: Sequence[PreflightContext],
    *scopes: CheckScope,
    further: Callable[[], Iterable[Finding]] = tuple,
) -> tuple[Finding, ...]:
    """Run all checks of these scopes for all tables; return the warnings, or raise Refusal.

    ``further``: asked for more reasons once there is one to refuse.
    """
    findings = findings_of(contexts, *scopes)
    refusals = [finding for finding in findings if finding.severity is Severity.REFUSAL]
    if refusals:
        known = {one.cause for one in refusals}
        raise refusal_of([*refusals, *(one for one in further() if one.cause not in known)])
    return findings


def _with_native(finding: Finding, check: Check, context: PreflightContext) -> Finding:
    """Add the way by which the server makes an ALTER that only a copy cannot."""
    if finding.severity is not Severity.REFUSAL or check.run not in _OF_A_COPY:
        return finding
    if context.found is None:
        return finding
    if why := why_not_native(context):
        return replace(finding, remedy=f"{finding.remedy}; {why}")
    size = sum(likely_sizes(context.found))
    asked = replace(context.config, native=max(size, _LEAST_NAMED))
    if size > _MOST_NAMED or not made_natively([replace(context, config=asked)]):
        return finding
    way = f"or, while writes wait for the server's own copy: --native {-(-asked.native >> 20)}M"
    return replace(finding, remedy=f"{finding.remedy}; {way}")


def findings_of(contexts: Sequence[PreflightContext], *scopes: CheckScope) -> tuple[Finding, ...]:
    """Run checks for all tables; return equal findings once; raise ServerFault if it is lost."""
    found = dict.fromkeys(
        replace(
            _with_native(finding, check, context),
            check=check.name,
            code=finding.code or check.code,
        )
        for context in contexts
        for check in CHECKS
        if check.scope in scopes and check.concerns(context)
        for finding in _findings(check, context)
    )
    named = any(map(names_missing, found))
    return tuple(one for one in found if not (named and one.denied))


def names_missing(finding: Finding) -> bool:
    """Return whether a finding refuses the account, and names all the GRANTs that are missing."""
    return finding.check == PRIVILEGES and finding.severity is Severity.REFUSAL


def _findings(check: Check, context: PreflightContext) -> list[Finding]:
    seen: list[Finding] = []
    try:
        for finding in check.run(context):
            seen.append(finding)  # noqa: PERF402 - what comes before an error stays
        return seen
    except TooLong as error:
        return [*seen, warn(f"the check {check.name} {error.message}", error.hint)]
    except Refusal as error:
        code = None if error.error_code is Refusal.error_code else error.error_code
        return [*seen, refuse(error.message, error.hint, error.details, code=code)]
    except ServerFault as error:
        if connection_lost(error) or error.code == INTERRUPTED:
            raise
        denied = access_denied(error)
        remedy = (
            "remove the cause that the server names, then run again; its error log may say more"
        )
        if denied:
            remedy = "grant the account the privileges that the README lists"
        found = refuse(
            f"the check {check.name} failed: {error.text} (error {error.code})",
            error.hint or remedy,
            code=ErrorCode.MISSING_PRIVILEGES if denied else ErrorCode.SERVER_ERROR,
        )
        return [*seen, replace(found, locked=error.code == LOCK_WAIT_TIMEOUT, denied=denied)]
