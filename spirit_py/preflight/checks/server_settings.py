"""Settings of the server that keep changes from being followed (R2, R3, R5), or cost its users."""

from __future__ import annotations

import contextlib
import math
import re
from typing import TYPE_CHECKING, Final

from spirit_py.errors import ServerFault
from spirit_py.mysql.endpoint import HOW_TO_LOG, Service, how_to_set, service_of
from spirit_py.mysql.facts import (
    GIVE_ONE_THAT_IS,
    KEEPS_ALL,
    NOT_WRITTEN_TO,
    named,
    read_only_by,
    relaxed,
)
from spirit_py.mysql.replication import binlog_status, known_replicas
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn
from spirit_py.units import human_bytes, human_seconds

if TYPE_CHECKING:
    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession

#: Of an account, as SHOW CREATE USER has it.
_LIMIT: Final = re.compile(
    r" (MAX_(?:QUERIES|UPDATES|CONNECTIONS)_PER_HOUR|MAX_USER_CONNECTIONS) ([1-9]\d*)"
)
_AT_ONCE: Final = "MAX_USER_CONNECTIONS"
#: Beside those that copy and apply: the feed's, that of the lock, of the checkpoint, of the swap.
_OTHER_SESSIONS: Final = 12
_RECONNECT: Final = ", and let the application reconnect"
WITHOUT_PERFORMANCE_SCHEMA: Final = (
    "index builds show no progress, tasks on Spark exchange messages through the checkpoint table,"
    " and filters of replication channels are not seen"
)


def server_settings(context: PreflightContext) -> Findings:
    """Refuse a server with such a setting; session settings are detected by the feed (R13)."""
    facts = context.facts
    service = service_of(context.session, facts)
    if not facts.is_on("log_bin"):
        yield refuse(
            "the binary log is off (log_bin=OFF): changes during the copy could not be followed",
            HOW_TO_LOG[service],
        )
    elif binlog_status(context.session) is None:
        yield refuse(
            "the binary log is off although log_bin is ON: an error has switched it off"
            " (binlog_error_action=IGNORE_ERROR)",
            "see the server's error log, remove the cause, and restart the server",
        )
    if found := relaxed(facts.variables):
        yield warn(
            f"a crash of the server may lose commits, or events of its binary log ({named(found)}):"
            " if it restarts while the migration runs, the run ends, and the next one compares"
            " every row",
            "; ".join(how_to_set(service, name, KEEPS_ALL[name]) for name in found),
        )
    if (binlog_format := facts.text("binlog_format").upper()) not in {"ROW", ""}:
        yield refuse(
            f"binlog_format is {binlog_format}, so that changes are logged as statements",
            how_to_set(service, "binlog_format", "'ROW'") + _RECONNECT,
        )
    if (image := facts.text("binlog_row_image").upper()) not in {"FULL", ""}:
        yield refuse(
            f"binlog_row_image is {image}: unchanged columns are missing from the row images",
            how_to_set(service, "binlog_row_image", "'FULL'") + _RECONNECT,
        )
    if "PARTIAL_JSON" in facts.text("binlog_row_value_options").upper():
        yield refuse(
            "binlog_row_value_options is PARTIAL_JSON: updates of JSON do not log the document",
            how_to_set(service, "binlog_row_value_options", "''") + _RECONNECT,
        )
    if not facts.is_on("binlog_order_commits"):
        yield refuse(
            "binlog_order_commits is OFF: transactions may become visible out of binlog order",
            how_to_set(service, "binlog_order_commits", "ON"),
        )
    folded = facts.text("lower_case_table_names") == "2"
    if folded and (name := f"{context.schema}.{context.table}") != name.lower():
        yield refuse(
            f"lower_case_table_names is 2: the binary log may have another name than {name}, and"
            " changes would be missed",
            "rename schema and table to lower case first",
        )
    if not facts.is_on("performance_schema"):
        yield warn(
            f"performance_schema is OFF: {WITHOUT_PERFORMANCE_SCHEMA}",
            "start the server with --performance-schema=ON"
            if service is Service.NONE
            else how_to_set(service, "performance_schema", "ON"),
        )
    yield from _keyless_copy(context)
    yield from account_limits(context.session, context.config)


def _keyless_copy(context: PreflightContext) -> Findings:
    """Warn of replicas that may stop at the new table, which begins without a key as its source."""
    source = context.found
    if source is None or source.primary_key or not context.facts.is_on("sql_require_primary_key"):
        return
    # A rehearsal on a replica is in no binlog.
    if context.config.target is not None or context.config.connection.unlogged:
        return
    if known_replicas(context.session):
        yield warn(
            f"{source.full_name} has no primary key, and a new table begins without one: a"
            " replica whose channel has REQUIRE_TABLE_PRIMARY_KEY_CHECK = ON stops at it (error"
            " 3750)",
            "see that column in performance_schema.replication_applier_configuration there; where"
            " it is ON: STOP REPLICA; CHANGE REPLICATION SOURCE TO REQUIRE_TABLE_PRIMARY_KEY_CHECK"
            " = STREAM; START REPLICA, for the time of the migration",
        )


def account_limits(session: SqlSession, config: MigrationConfig) -> Findings:
    """Warn of limits of the session's account that a run may meet in the middle (error 1226)."""
    shown = ""
    # A server that shows none, as with --skip-grant-tables, keeps to none.
    with contextlib.suppress(ServerFault):
        shown = str(session.query("SHOW CREATE USER CURRENT_USER()")[0][0])
    # Behind it a comment may have any text.
    limits = dict(_LIMIT.findall(shown.partition(" PASSWORD EXPIRE ")[0]))
    sessions = config.threads + config.feed.apply_threads + _OTHER_SESSIONS
    if _AT_ONCE not in limits:
        # Of an account without one of its own, the global one.
        most = int(session.query("SELECT @@SESSION.max_user_connections")[0][0])
        if 0 < most < sessions:
            yield warn(
                f"max_user_connections is {most}: a table's run may have {sessions} sessions at a"
                " time, and ends where the account has no more",
                "SET GLOBAL max_user_connections = 0, or ALTER USER ... WITH"
                f" MAX_USER_CONNECTIONS {sessions}, at least for the time of the run",
            )
    if int(limits.get(_AT_ONCE, sessions)) >= sessions:
        limits.pop(_AT_ONCE, None)
    if limits:
        named = ", ".join(f"{name} {number}" for name, number in limits.items())
        yield warn(
            f"the account has limits ({named}): a table's run sends some statements for each"
            f" chunk, may have {sessions} sessions at a time, and ends where it meets a limit",
            f"ALTER USER ... WITH {' '.join(f'{name} 0' for name in limits)}, at least for the"
            " time of the run",
        )


def takes_writes(context: PreflightContext) -> Findings:
    """Refuse a server that is read-only, whoever would make the change."""
    rehearses = context.config.connection.unlogged
    if name := read_only_by(context.facts, allowed="read_only" if rehearses else ""):
        yield refuse(
            f"the server takes no writes ({name}=ON): {NOT_WRITTEN_TO}",
            "for a rehearsal there set it OFF meanwhile; read_only may stay ON"
            if rehearses
            else GIVE_ONE_THAT_IS,
        )


_LARGE_TO_COPY: Final = 256 << 20
_SETTING: Final = "innodb_log_writer_threads"


def log_writer(context: PreflightContext) -> Findings:
    """Warn where no threads of the server write the redo log (docs/gentleness.md).

    Off is the default from MySQL 8.4 on with fewer than 32 CPUs. Aurora has a storage of its own.
    """
    facts = context.facts
    is_off = bool(facts.text(_SETTING)) and not facts.is_on(_SETTING)
    if context.source.total_bytes < _LARGE_TO_COPY or not is_off:
        return
    service = service_of(context.session, facts)
    if service is Service.AURORA:
        return
    remedy = how_to_set(service, _SETTING, "ON")
    if service is Service.NONE:
        remedy = f"SET GLOBAL {_SETTING} = ON, at least while the table is copied"
    yield warn(
        f"{_SETTING} is OFF: during the copy, commits of all clients may stall for 100 ms several"
        " times a second",
        remedy,
    )


_LARGE_TO_DROP: Final = 1 << 30


def drop_of_old_table(context: PreflightContext) -> Findings:
    """Warn where the adaptive hash index is on: the drop looks through it (docs/gentleness.md).

    Measured on 9.7: 11 s for 2 GB, in which no table is created, altered, dropped or opened. And
    where the table is kept for longer than ``--drop-old-after`` asks.
    """
    size, config = context.source.total_bytes, context.config
    if 0 < config.drop_old_after < config.keep_old_current:
        follows = human_seconds(config.keep_old_current)
        yield warn(
            f"--drop-old-after ({human_seconds(config.drop_old_after)}) is shorter than"
            f" --keep-old-current: the old table is kept for {follows} all the same",
            "leave out --drop-old-after, or give it a longer time",
        )
    if size < _LARGE_TO_DROP or config.dry_run or math.isinf(config.drop_old_after):
        return
    if context.facts.is_on("innodb_adaptive_hash_index"):
        yield warn(
            f"innodb_adaptive_hash_index is ON: while the old table ({human_bytes(size)}) is"
            " dropped, no table may be created, altered, dropped or opened for seconds",
            "set it OFF for the drop, which is done in milliseconds, or use --drop-old-after never"
            " and drop the old table at a quiet hour",
        )


# The second is shown by 8.0 as -14:37:34, and stored as another value.
_INEXACT: Final = """
SELECT JSON_EXTRACT(CAST('[14.809999999999999]' AS JSON), '$[0]') <> 14.809999999999999e0,
JSON_ARRAY(TIME'-366:37:34.000001') NOT LIKE '%366:37:34.000001%'"""


def json_values(context: PreflightContext) -> Findings:
    """Warn where JSON is stored and the server keeps not each of its values (MySQL 8.0)."""
    source = context.source
    if not any(column.data_type == "json" for column in source.columns):
        return
    ((rounds, changes_times),) = context.session.query(_INEXACT)
    if changes_times:
        yield warn(
            f"this server ({context.facts.version}) changes a TIME of 32 hours or more within a"
            f" JSON document when it is written: if {source.name} has one, the comparison finds it"
            " and ends the migration",
            "such values are made by JSON functions of a TIME, never from text; store them as text",
        )
    if rounds:
        yield warn(
            f"this server ({context.facts.version}) rounds numbers in JSON text in their last"
            f" digit; the documents of {source.name} are carried exactly all the same",
            "nothing to do for the migration; text that the application stores as JSON is rounded",
        )
