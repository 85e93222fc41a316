"""The sections in which ``--help`` shows the options, with what is needed first at the top."""

from __future__ import annotations

from typing import Final

import click

SECTIONS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        "To begin",
        (
            "host",
            "user",
            "password",
            "database",
            "table",
            "alter",
            "statement",
            "dry_run",
            "position",
            "until",
        ),
    ),
    ("Many tables", ("tables", "exclude", "statements", "parallel", "on_failure", "batch")),
    (
        "Connection",
        (
            "port",
            "socket",
            "dsn",
            "login_path",
            "defaults_file",
            "defaults_extra_file",
            "defaults_group_suffix",
            "no_defaults",
            "ssl_mode",
            "ssl_ca",
            "ssl_capath",
            "ssl_cert",
            "ssl_key",
        ),
    ),
    (
        "Target server",
        (
            "target_host",
            "target_port",
            "target_socket",
            "target_user",
            "target_password",
            "target_database",
            "target_table",
            "target_defaults_file",
            "target_ssl_mode",
            "target_ssl_ca",
            "target_ssl_capath",
            "target_ssl_cert",
            "target_ssl_key",
        ),
    ),
    (
        "Speed",
        (
            "threads",
            "target_chunk_time",
            "aggressive",
            "nice",
            "defer_indexes",
            "tag_own_writes",
            "no_shortcut",
        ),
    ),
    (
        "Reasons to wait",
        (
            "max_load",
            "critical_load",
            "max_lag",
            "replicas",
            "throttle_http",
            "throttle_query",
            "allow",
            "min_free_disk",
            "max_binlog_space",
            "max_history_length",
            "max_checkpoint_age",
        ),
    ),
    (
        "Locks and the swap",
        (
            "lock_wait_timeout",
            "cutover_timeout",
            "lock_timeout",
            "no_lock",
            "kill_blockers",
            "kill_after",
            "snapshot_guard",
            "triggers",
            "defer_cutover",
            "defer_timeout",
        ),
    ),
    ("The old table", ("keep_old_current", "drop_old_after", "drop_old", "skip_drop", "cleanup")),
    (
        "Comparison",
        (
            "map",
            "ignored",
            "repair",
            "no_repair",
            "recompute_generated",
            "recheck_interval",
            "checksum_yield_timeout",
        ),
    ),
    (
        "Old definitions",
        ("sql_mode", "allow_zero_dates", "innodb_strict_mode", "allow_nullable_unique_key"),
    ),
    ("An unfinished migration", ("checkpoint_max_age", "start_afresh")),
    ("Other writers", ("writes_only_here", "passable")),
    ("Spark", ("spark_master", "spark_conf", "spark_ui")),
    (
        "Output",
        (
            "format",
            "as_json",
            "heartbeat",
            "sample",
            "report_json",
            "report_html",
            "metrics_listen",
            "metrics_file",
            "log_format",
            "docs_url",
            "verbose",
            "yes",
            "help",
        ),
    ),
    ("Hooks", ("on_event", "hook_veto", "hook_timeout")),
)
"""Titles, and the options by their parameter's name."""

_OTHERS: Final = "Other options"
_ENVIRONMENT: Final = "Options can also be set in the environment: --max-lag as SPIRIT_PY_MAX_LAG."


class SectionedCommand(click.Command):
    """A command whose ``--help`` shows options in :data:`SECTIONS`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section; those without one come last."""
        of_help = self.get_help_option(ctx)
        left = {
            "help" if parameter is of_help else str(parameter.name): record
            for parameter in self.get_params(ctx)
            if isinstance(parameter, click.Option)
            and (record := parameter.get_help_record(ctx)) is not None
        }
        for title, names in (*SECTIONS, (_OTHERS, tuple(left))):
            if records := [left.pop(name) for name in names if name in left]:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what holds for all options, then the epilog."""
        formatter.write_paragraph()
        formatter.write_text(_ENVIRONMENT)
        super().format_epilog(ctx, formatter)
