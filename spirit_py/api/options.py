"""The options of each command as keyword arguments: the command line's names, in Python types.

A test compares these lists with the command line's, both ways; what an option means stands in its
``--help``. Every option may be left out. Durations are seconds, a ``timedelta``, or a text as on
the command line (``"90s"``, ``"2h"``); sizes are bytes or a text (``"20G"``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from os import PathLike
from typing import Literal, TypeAlias, TypedDict

Seconds: TypeAlias = float | timedelta | str
Size: TypeAlias = int | str
Names: TypeAlias = str | Iterable[str]
File: TypeAlias = str | PathLike[str]
Limits: TypeAlias = Mapping[str, float] | str
TableNames: TypeAlias = str | Iterable[str | tuple[str, str]]
SslMode: TypeAlias = Literal["DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"]


class ConnectionArguments(TypedDict, total=False):
    """How to reach the server.

    No MySQL option file is read unless it is named, or ``no_defaults=False`` asks for the usual
    ones; the environment is not read either. ``password`` may be a function: it is called once,
    when the run is prepared, and what it returns opens every session of the run.
    """

    host: str
    port: int
    socket: str
    user: str
    password: str | Callable[[], str]
    dsn: str
    login_path: str
    defaults_file: File
    defaults_extra_file: File
    defaults_group_suffix: str
    no_defaults: bool
    ssl_mode: SslMode
    ssl_ca: File
    ssl_capath: File
    ssl_cert: File
    ssl_key: File


class _TableOptions(TypedDict, total=False):
    """Which table."""

    database: str
    table: str


class _SparkOptions(TypedDict, total=False):
    """Spark, and how many tasks there are."""

    threads: int
    spark_master: str
    spark_conf: Mapping[str, str] | Iterable[str]
    spark_ui: bool
    verbose: bool


class _SwapOptions(TypedDict, total=False):
    """Locks on the table."""

    lock_wait_timeout: Seconds
    cutover_timeout: Seconds
    kill_blockers: Literal["never", "idle", "all"]
    kill_after: Seconds
    snapshot_guard: Literal["on", "off", "auto"]
    pass_statement_writes: TableNames


class _RecordOptions(TypedDict, total=False):
    """What a run leaves, and what others may read of it meanwhile."""

    report_json: File
    report_html: File
    metrics_listen: str
    metrics_file: File


class _EachOptions(ConnectionArguments, _SparkOptions, _SwapOptions, _RecordOptions, total=False):
    """How tables are migrated."""

    alter: str
    target_chunk_time: Seconds
    nice: float
    aggressive: bool
    max_load: Limits
    critical_load: Limits
    defer_indexes: Literal["auto", "on", "off"]
    max_lag: Seconds
    replica: Names
    throttle_http: str
    throttle_query: str
    allow: Names
    min_free_disk: Size
    max_binlog_space: Size
    max_history_length: int
    max_checkpoint_age: float
    drop_old_after: Seconds
    sql_mode: str
    allow_zero_dates: bool
    innodb_strict_mode: Literal["on", "off"]
    triggers: Literal["keep", "refuse"]
    no_shortcut: bool
    dry_run: bool
    writes_only_here: bool
    defer_cutover: bool
    defer_timeout: Seconds
    recheck_interval: Seconds
    checksum_yield_timeout: Seconds
    no_repair: bool
    recompute_generated: bool
    allow_nullable_unique_key: bool
    keep_old_current: Seconds
    checkpoint_max_age: Seconds
    start_afresh: bool
    tag_own_writes: bool


class MigrationArguments(_EachOptions, _TableOptions, total=False):
    """The options of ``spirit-py migrate``, but those of a batch and of its output."""

    statement: str


class BatchArguments(_EachOptions, total=False):
    """The options of ``spirit-py migrate`` for many tables, but those of its output.

    ``statements`` is the name of a file, or the statements themselves in a list.
    """

    database: str
    tables: Names
    exclude: Names
    statements: File | Iterable[str]
    parallel: int
    on_failure: Literal["stop", "continue"]


class PlanArguments(MigrationArguments, total=False):
    """The options of ``spirit-py plan``, but those of a batch and of its output."""

    sample: bool


class ChecksumArguments(
    ConnectionArguments, _TableOptions, _SparkOptions, _RecordOptions, total=False
):
    """The options of ``spirit-py checksum``, but those of its output."""

    target_table: str
    target_database: str
    target_host: str
    target_port: int
    target_socket: str
    target_user: str
    target_password: str | Callable[[], str]
    target_defaults_file: File
    target_ssl_mode: SslMode
    target_ssl_ca: File
    target_ssl_capath: File
    target_ssl_cert: File
    target_ssl_key: File
    map: Mapping[str, str] | Iterable[str]
    ignore_column: Names
    repair: bool
    no_lock: bool
    lock_wait_timeout: Seconds
    lock_timeout: Seconds
    checksum_yield_timeout: Seconds


class RevertArguments(
    ConnectionArguments,
    _TableOptions,
    _SparkOptions,
    _SwapOptions,
    _RecordOptions,
    total=False,
):
    """The options of ``spirit-py revert``, but those of its output."""

    skip_drop: bool


class StatusArguments(ConnectionArguments, _TableOptions, total=False):
    """The options of ``spirit-py status``, but those of its output."""

    checkpoint_max_age: Seconds


class CleanupArguments(ConnectionArguments, _TableOptions, total=False):
    """The options of ``spirit-py cleanup``; it does not ask."""

    batch: str
    drop_old: bool
