"""Global settings under which changes cannot be followed (R2, R3, R5), or writes are refused."""

from __future__ import annotations

from typing import Final

from spirit_py.mysql.endpoint import how_to_set, service_of
from spirit_py.mysql.facts import KEEPS_ALL, named, relaxed
from spirit_py.mysql.replication import binlog_status
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn

_RECONNECT: Final = ", and let the application reconnect"
WITHOUT_PERFORMANCE_SCHEMA: Final = (
    "index builds show no progress, tasks on Spark exchange messages through the checkpoint table,"
    " and filters of replication channels are not seen"
)
"""What is lost where it is off, or the account may not read it."""


def check(context: PreflightContext) -> Findings:
    """Refuse a server with such a setting; session settings are detected by the feed (R13)."""
    facts = context.facts
    service = service_of(context.session, facts)
    if not facts.is_on("log_bin"):
        yield refuse(
            "the binary log is off (log_bin=OFF): changes during the copy could not be followed",
            "start the server with --log-bin",
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
    if not facts.is_on("performance_schema"):
        yield warn(
            f"performance_schema is OFF: {WITHOUT_PERFORMANCE_SCHEMA}",
            "start the server with --performance-schema=ON",
        )
    for name in ("super_read_only", "read_only", "innodb_read_only"):
        if facts.is_on(name):
            yield refuse(
                f"the server takes no writes ({name}=ON): a replica or a reader endpoint",
                "give the address of the primary",
            )
            return
