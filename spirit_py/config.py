"""Frozen, validated configuration. Nothing writes to it after the command line was read.

What a field means that has an option of its name, the option's help says
(:mod:`spirit_py.options`).
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from spirit_py.errors import UsageFault
from spirit_py.records import RecordOptions

if TYPE_CHECKING:
    from spirit_py.units import Window

GuardMode = Literal["on", "off", "auto"]
TriggerMode = Literal["keep", "refuse"]
IndexMode = Literal["auto", "on", "off"]
LineFormat = Literal["json", "text"]
KillMode = Literal["never", "idle", "all"]
OnFailure = Literal["stop", "continue"]

DEFAULT_PORT = 3306
MAX_PORT = 65535
DEFAULT_MAX_LAG = 1.5
"""Seconds that a replica may be behind where the operator names no limit."""
DEFAULT_MIN_FREE = 256 << 20
"""Bytes that stay free where the operator names no number, and the disk can be seen."""


@dataclass(frozen=True, kw_only=True)
class TlsMaterial:
    """Contents of the files that TLS needs, in PEM format; the key never shows (R20).

    Attributes:
        authorities: certificates that may sign the server's; empty to check none.
        certificate: the client's own, which the server may demand; empty for none.
    """

    authorities: bytes = field(default=b"", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """How to reach one server. Picklable; the password never shows in ``repr`` (R20).

    Attributes:
        ssl_mode: as :mod:`spirit_py.mysql.tls.modes` says; empty where none is given.
        connect_timeout: seconds until a connection attempt gives up.
        origin: the value of a user variable in every session of these options, on any machine:
            it proves that a session is ours before it is killed (R24).
        label: by which a later run finds the sessions (:mod:`spirit_py.mysql.own_sessions`).
        server_uuid: the server that it must be (R14); empty for any.
        settings: session variables under which expressions are evaluated; see
            :mod:`spirit_py.mysql.evaluation`.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    socket: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    ssl_mode: str = ""
    tls: TlsMaterial = TlsMaterial()
    connect_timeout: int = 10
    label: str = ""
    server_uuid: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    origin: str = field(default_factory=lambda: os.urandom(8).hex(), repr=False, compare=False)

    @property
    def address(self) -> str:
        """Where the server is, for messages: the socket, or host and port."""
        return self.socket or f"{self.host}:{self.port}"

    @property
    def words(self) -> str:
        """What reaches the server on the command line; nothing secret."""
        where = ["--socket", self.socket] if self.socket else ["--host", self.host]
        if not self.socket and self.port != DEFAULT_PORT:
            where += ["--port", str(self.port)]
        return shlex.join([*where, *(["--user", self.user] if self.user else [])])


@dataclass(frozen=True, kw_only=True)
class SessionModes:
    """The modes of the session whose native ALTER a migration is like, where they are chosen.

    Attributes:
        sql_mode: None for the server's own.
        allow_zero_dates: the server's, without NO_ZERO_DATE and NO_ZERO_IN_DATE.
        innodb_strict_mode: empty for the server's own.
    """

    sql_mode: str | None = None
    allow_zero_dates: bool = False
    innodb_strict_mode: str = ""

    @property
    def options(self) -> str:
        """What chooses them on the command line; empty where nothing is chosen."""
        chosen = []
        if self.sql_mode is not None:
            chosen.append(f"--sql-mode '{self.sql_mode}'")
        if self.allow_zero_dates:
            chosen.append("--allow-zero-dates")
        if self.innodb_strict_mode:
            chosen.append(f"--innodb-strict-mode {self.innodb_strict_mode}")
        return " ".join(chosen)


def _apply_threads() -> int:
    """Return how many partitions are applied at the same time: 2 to 4, by the cores."""
    return max(2, min(4, len(os.sched_getaffinity(0))))


@dataclass(frozen=True, kw_only=True)
class FeedOptions:
    """Limits of the change feed; the defaults are the seed's (design section 4).

    Attributes:
        batch_rows: rows in one REPLACE or DELETE at most.
        flush_interval: seconds between two periodic flushes.
        swap_flush_interval: the same while a swap is next.
        wait_timeout: seconds that ``block_wait`` waits, and that silence may last.
        soft_limit_bytes: buffered bytes at which the reader waits (backpressure).
        apply_threads: partitions that are applied at the same time, each in a session of its own.
        under_lock_changes: pending changes above which a flush under the lock is refused.
        own_writes: the run whose copy is not received, because it commits under GTIDs that the feed
            reports as received; empty to receive the copy's rows and skip them by the table's name.
        passable: tables, by schema and name, that ``--pass-statement-writes`` names: no write in
            STATEMENT format to one of them reaches a followed table.
    """

    batch_rows: int = 1000
    flush_interval: float = 30.0
    swap_flush_interval: float = 0.25
    wait_timeout: float = 30.0
    soft_limit_bytes: int = 256 << 20
    under_lock_changes: int = 10_000
    apply_threads: int = field(default_factory=_apply_threads)
    own_writes: str = ""
    passable: tuple[tuple[str, str], ...] = ()


def is_secret_of_spark(setting: str) -> bool:
    """Return whether Spark itself shows a setting to nobody (``spark.redaction.regex``)."""
    return re.search(r"(?i)secret|password|token|access[.]?key", setting) is not None


@dataclass(frozen=True, kw_only=True)
class SparkConfig:
    """What every command that computes on Spark is asked for.

    Attributes:
        threads: tasks at the same time; never above the cores for a local master.
        spark_master: empty for ``local[threads]``.
    """

    threads: int = 4
    spark_master: str = ""
    spark_conf: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    spark_ui: bool = False
    verbose: bool = False
    records: RecordOptions = field(default_factory=RecordOptions)


@dataclass(frozen=True, kw_only=True)
class RunConfig(SparkConfig):
    """What ``spirit-py migrate`` and ``spirit-py revert`` are both asked for. Times in seconds."""

    connection: ConnectionOptions
    database: str
    table: str = ""
    lock_wait_timeout: float = 2.5
    cutover_timeout: float = 86_400.0
    kill_blockers: KillMode = "never"
    kill_after: float = 30.0
    snapshot_guard: GuardMode = "auto"
    checksum_yield_timeout: float = 3600.0
    feed: FeedOptions = field(default_factory=FeedOptions)


@dataclass(frozen=True, kw_only=True)
class MigrationConfig(RunConfig):
    """Everything that one ``spirit-py migrate`` was asked for. Times in seconds.

    Attributes:
        statement: a whole ``ALTER TABLE`` or ``CREATE INDEX``; empty when ``table`` and
            ``alter`` are given.
        nice: seconds of rest for each second of the copy's work.
        max_load: counters of the server, each with the value above which the work waits.
        critical_load: the same, with the value above which the run ends.
        replicas: ``host`` or ``host:port``; empty for those that the server knows.
        replica_user: empty for the account of the source; likewise ``replica_password``.
        max_lag: None for no limit; for the limits after it 0 is none.
        named: which of these limits the operator has named, by their fields: one of them that
            cannot be watched is no reason to go on without it, as a default that cannot be is.
        allow: times of the day in which the migration may work; empty for all.
        drop_old_after: seconds after the swap before which the old table is not dropped; infinite
            to leave it to the operator.
        modes: under which the table is changed.
    """

    alter: str = ""
    statement: str = ""
    target_chunk_time: float = 0.5
    nice: float = 0.0
    aggressive: bool = False
    max_load: tuple[tuple[str, float], ...] = ()
    critical_load: tuple[tuple[str, float], ...] = ()
    drop_old_after: float = 0.0
    no_shortcut: bool = False
    dry_run: bool = False
    triggers: TriggerMode = "keep"
    writes_only_here: bool = False
    replicas: tuple[str, ...] = ()
    replica_user: str = ""
    replica_password: str = field(default="", repr=False)
    max_lag: float | None = DEFAULT_MAX_LAG
    min_free_disk: int = DEFAULT_MIN_FREE
    max_binlog_space: int = 0
    max_history_length: int = 0
    max_checkpoint_age: float = 0.0
    named: frozenset[str] = frozenset()
    throttle_http: str = field(default="", repr=False)
    throttle_query: str = ""
    allow: tuple[Window, ...] = ()
    defer_cutover: bool = False
    defer_timeout: float = 48 * 3600.0
    recheck_interval: float = 600.0
    no_repair: bool = False
    recompute_generated: bool = False
    allow_nullable_unique_key: bool = False
    keep_old_current: float = 0.0
    checkpoint_max_age: float = 7 * 86400.0
    start_afresh: bool = False
    defer_indexes: IndexMode = "auto"
    modes: SessionModes = SessionModes()

    @property
    def replica_account(self) -> ConnectionOptions:
        """How replicas are reached, but for their addresses."""
        source = self.connection
        return replace(
            source,
            user=self.replica_user or source.user,
            password=self.replica_password or source.password,
        )

    def relies_on(self, limit: str) -> bool:
        """Return whether the operator has named a limit, by its field, and not lifted it."""
        return limit in self.named and bool(getattr(self, limit))


@dataclass(frozen=True, kw_only=True)
class BatchConfig:
    """Everything that ``spirit-py migrate`` was asked for with ``--tables`` or ``--statements``.

    Attributes:
        each: what holds for every table. Its ``threads`` are those of all tables together, its
            ``alter`` is the change of the tables that match ``patterns``, its ``records`` are none.
        patterns: each ``schema.table``; empty where ``statements`` are given.
        statements: the content of the file of that option, and ``file`` its name.
        records: what is written about all tables together.
    """

    each: MigrationConfig
    patterns: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    statements: str = ""
    file: str = ""
    parallel: int = 1
    on_failure: OnFailure = "stop"
    records: RecordOptions = field(default_factory=RecordOptions)


@dataclass(frozen=True, kw_only=True)
class RevertConfig(RunConfig):
    """Everything that one ``spirit-py revert`` was asked for.

    A process that does reverse replication goes by its own configuration: only ``skip_drop``
    reaches it. The rest counts where there is no such process any more.
    """

    skip_drop: bool = False


@dataclass(frozen=True, kw_only=True)
class CompareConfig(SparkConfig):
    """Everything that one ``spirit-py checksum`` was asked for. Times in seconds.

    Attributes:
        target: the other server, or the same one under another account; None for the source's.
        renames: ``(source column, target column)`` where the names differ.
        ignored: columns, of either table, that are not compared.
        recheck_pauses: seconds before each recheck of the rows that differ.
    """

    source: ConnectionOptions
    target: ConnectionOptions | None = None
    database: str
    table: str
    target_database: str
    target_table: str
    renames: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()
    repair: bool = False
    lock: bool = True
    lock_wait_timeout: float = 2.5
    lock_timeout: float = 3600.0
    checksum_yield_timeout: float = 3600.0
    recheck_pauses: tuple[float, ...] = (1.0, 3.0)

    @property
    def target_server(self) -> ConnectionOptions:
        """The server of the target."""
        return self.target or self.source


@dataclass(frozen=True, kw_only=True)
class WatchConfig:
    """Everything that one ``spirit-py watch`` was asked for.

    Attributes:
        database: empty for all schemas; likewise ``table``.
        position: as an earlier run printed it; empty for now.
        passable: as in :class:`FeedOptions`.
        heartbeat: seconds of quiet after which one is printed; 0 for never.
    """

    connection: ConnectionOptions
    database: str = ""
    table: str = ""
    position: str = ""
    until_now: bool = False
    format: LineFormat = "json"
    passable: tuple[tuple[str, str], ...] = ()
    heartbeat: float = 0.0


def host_and_port(text: str) -> tuple[str, int | None]:
    """Split ``host``, ``host:port``, ``[v6]:port`` or a bare IPv6 address.

    Raises:
        UsageFault: when the port is no number between 1 and 65535.
    """
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        colon, port = rest[:1], rest[1:]
    elif text.count(":") == 1:
        host, colon, port = text.partition(":")
    else:
        return text, None
    valid = port.isdecimal() and 0 < int(port) <= MAX_PORT
    if not host or colon not in {"", ":"} or bool(colon) is not valid:
        raise UsageFault(f"{text!r} is not a host and port", hint="write host or host:port")
    return host, int(port) if port else None
