"""Frozen, validated configuration; :mod:`spirit_py.options` explains the fields."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, Literal, Self

from spirit_py.classes import dataclass, field, fields, replace
from spirit_py.records import RecordOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.units import Window

GuardMode = Literal["on", "off", "auto"]
ChecksumMode = Literal["rolling", "snapshot"]
TriggerMode = Literal["keep", "refuse"]
IndexMode = Literal["auto", "on", "off"]
LineFormat = Literal["json", "text"]
KillMode = Literal["never", "idle", "all"]
OnFailure = Literal["stop", "continue"]

DEFAULT_PORT = 3306
LOCALHOST = "localhost"
"""The host beside which a socket is used, as by the mysql client."""
DEFAULT_MAX_LAG = 1.5
"""Seconds that a replica may be behind where the operator names no limit."""
DEFAULT_MIN_FREE = 256 << 20
"""Bytes that stay free where the operator names no number, and the disk can be seen."""


@dataclass(frozen=True, kw_only=True)
class TlsMaterial:
    """Contents of the files that TLS needs, in PEM format, or empty; the key never shows (R20)."""

    authorities: bytes = field(default=b"", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """How to reach one server. Picklable; the password never shows in ``repr`` (R20).

    ``connect_timeout`` in seconds. ``origin`` is a secret that proves in every session of these
    options, on any machine, that it is ours before it is killed (R24). ``label``: see
    :mod:`spirit_py.mysql.own_sessions`. ``server_uuid``: the server that it must be (R14); empty
    for any. ``settings``: variables for expressions (:mod:`spirit_py.mysql.evaluation`).
    ``unlogged``: nothing that these sessions write reaches the binlog: a rehearsal on a replica.
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
    unlogged: bool = False
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
    """The modes of the session whose native ALTER a migration is like; unset: the server's.

    ``keep``: the expression of the rows that it keeps; empty for all.
    """

    sql_mode: str | None = None
    allow_zero_dates: bool = False
    innodb_strict_mode: str = ""
    keep: str = ""

    @property
    def options(self) -> str:
        """What chooses them on the command line; empty where nothing is chosen."""
        chosen = []
        if self.sql_mode is not None:
            # A checkpoint may be forged (R26), and this is shown as a command to be run.
            text = self.sql_mode.replace("'", "'\\''")
            chosen.append(f"--sql-mode '{text}'")
        if self.allow_zero_dates:
            chosen.append("--allow-zero-dates")
        if self.innodb_strict_mode:
            chosen.append(f"--innodb-strict-mode {shlex.quote(self.innodb_strict_mode)}")
        if self.keep:
            chosen.append(shlex.join(["--keep", self.keep]))
        return " ".join(chosen)


@dataclass(frozen=True, kw_only=True)
class SwapChoices:
    """When a run swaps, and what becomes of the old table, as :class:`MigrationConfig` has it.

    ``allow``: its time windows, with commas between them.
    """

    allow: str = ""
    defer_cutover: bool = False
    keep_old_current: float = 0.0
    drop_old_after: float = 0.0
    archive_to: str = ""
    archive_by: str = ""

    @property
    def options(self) -> str:
        """What chooses it on the command line; empty where nothing is chosen."""
        chosen = [shlex.join(["--allow", self.allow])] if self.allow else []
        chosen += ["--defer-cutover"] if self.defer_cutover else []
        if self.keep_old_current:
            chosen.append(f"--keep-old-current {self.keep_old_current:.12g}s")
        if self.drop_old_after:
            never = self.drop_old_after == float("inf")
            after = "never" if never else f"{self.drop_old_after:.12g}s"
            chosen.append(f"--drop-old-after {after}")
        for option, value in (("--archive-to", self.archive_to), ("--archive-by", self.archive_by)):
            chosen += [shlex.join([option, value])] if value else []
        return " ".join(chosen)


@dataclass(frozen=True, kw_only=True)
class FeedOptions:
    """Limits of the change feed. Times in seconds.

    ``swap_flush_interval``: between flushes while a swap is next. ``wait_timeout`` also limits
    silence. ``soft_limit_bytes``: buffered bytes at which the reader waits (backpressure).
    ``apply_threads``: the most partitions that are applied at once. ``under_lock_changes``: pending
    changes above which a flush under the lock is refused. ``own_writes``: the run whose copy is not
    received, because the feed reports its GTIDs as received; empty to skip the copy's rows by table
    name. ``passable``: tables of ``--pass-statement-writes``.
    """

    batch_rows: int = 1000
    flush_interval: float = 30.0
    swap_flush_interval: float = 0.25
    wait_timeout: float = 30.0
    soft_limit_bytes: int = 256 << 20
    under_lock_changes: int = 10_000
    apply_threads: int = 16
    own_writes: str = ""
    passable: tuple[tuple[str, str], ...] = ()


SECRETS_OF_SPARK = (
    r"(?i)secret|password|token|access[.]?key|account[.]?key|private[.]?key|[.]sas[.]"
    r"|encryption[.-](.*[.-])?key($|[.])"
)
"""Spark's own ``spark.redaction.regex``, with the keys of file systems that it does not name."""


def is_secret_of_spark(setting: str) -> bool:
    """Return whether a setting is shown to nobody, by Spark neither."""
    return re.search(SECRETS_OF_SPARK, setting) is not None


@dataclass(frozen=True, kw_only=True)
class SparkConfig:
    """What commands that compute on Spark are asked for; without a master, ``local[threads]``.

    ``writes_files``: not only messages pass through its JVM, but rows.
    """

    threads: int = 4
    spark_master: str = ""
    spark_conf: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    spark_ui: bool = False
    writes_files: bool = False
    verbose: bool = False
    records: RecordOptions = field(default_factory=RecordOptions)


@dataclass(frozen=True, kw_only=True)
class RunConfig(SparkConfig):
    """What ``spirit-py migrate`` and ``spirit-py revert`` are both asked for. Times in seconds.

    ``target``: the server of the tables that follow; None for that of ``connection``. ``shard``:
    what it is called where there are several; empty for the only one. ``writes_only_here``: no
    other server writes the tables, or that is not asked.
    """

    connection: ConnectionOptions
    target: ConnectionOptions | None = None
    shard: str = ""
    database: str
    table: str = ""
    lock_wait_timeout: float = 2.5
    cutover_timeout: float = 86_400.0
    kill_blockers: KillMode = "never"
    kill_after: float = 30.0
    snapshot_guard: GuardMode = "auto"
    checksum: ChecksumMode = "rolling"
    checksum_yield_timeout: float = 3600.0
    feed: FeedOptions = field(default_factory=FeedOptions)
    writes_only_here: bool = False

    @property
    def there(self) -> ConnectionOptions:
        """The server of the tables that follow."""
        return self.target or self.connection

    @property
    def targets(self) -> tuple[ConnectionOptions, ...]:
        """All servers of tables that follow, if they are others."""
        return () if self.target is None else (self.target,)

    @property
    def others(self) -> tuple[ConnectionOptions, ...]:
        """All servers beside that of ``connection``; the last ones are the :attr:`targets`."""
        return self.targets

    def reached_by(self, source: ConnectionOptions, others: Sequence[ConnectionOptions]) -> Self:
        """Return the same with other ways to the servers, in the order of :attr:`others`."""
        return replace(self, connection=source, target=others[0] if others else None)


@dataclass(frozen=True, kw_only=True)
class MigrationConfig(RunConfig):
    """Everything that one ``spirit-py migrate`` was asked for. Times in seconds.

    ``threads``: the most tasks; the pace finds out how many work. ``nice``: rest for each second of
    the copy's work. ``replicas``: empty for those that the server knows. ``replica_user``: empty
    for the source's account. ``max_lag``: None for no limit; in the limits after it 0 is no limit.
    ``named``: what the operator has named of the limits, without which the run does not go on where
    one cannot be watched, and of ``drop_old_after``: infinite to leave the old table.
    ``archive_to``: the folder of archives, empty for none, and ``archive_by`` the expression by
    which their files are parted.
    """

    threads: int = 32
    alter: str = ""
    statement: str = ""
    target_chunk_time: float = 0.5
    nice: float = 0.0
    aggressive: bool = False
    max_load: tuple[tuple[str, float], ...] = ()
    critical_load: tuple[tuple[str, float], ...] = ()
    drop_old_after: float = 0.0
    no_shortcut: bool = False
    native: int = 0
    dry_run: bool = False
    triggers: TriggerMode = "keep"
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
    allow_data_loss: bool = False
    keep_old_current: float = 0.0
    archive_to: str = ""
    archive_by: str = ""
    checkpoint_max_age: float = 7 * 86400.0
    start_afresh: bool = False
    defer_indexes: IndexMode = "auto"
    modes: SessionModes = SessionModes()
    modes_from: str = ""

    @property
    def replica_account(self) -> ConnectionOptions:
        """How replicas are reached, but for their addresses."""
        user = self.replica_user or self.connection.user
        password = self.replica_password or self.connection.password
        return replace(self.connection, user=user, password=password)

    @property
    def swap_choices(self) -> SwapChoices:
        """What another run that resumes this one is to be asked for, too."""
        chosen = {one.name: getattr(self, one.name) for one in fields(SwapChoices)}
        return SwapChoices(**chosen | {"allow": ",".join(map(str, self.allow))})

    @property
    def keep_given(self) -> tuple[str, str]:
        """The option by which rows are kept, and what was given with it."""
        return "--keep", self.modes.keep

    def relies_on(self, limit: str) -> bool:
        """Return whether the operator has named a limit, by its field, and not lifted it."""
        return limit in self.named and bool(getattr(self, limit))


MOST_SHARDS = 256
"""Targets, or sources, that one move may have."""
SHARD_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
"""What one of several targets or sources may be called."""


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One of several targets or sources of a move, that of the rows whose shard has this name."""

    name: str
    connection: ConnectionOptions


@dataclass(frozen=True, kw_only=True)
class MoveConfig(MigrationConfig):
    """Everything that one ``spirit-py move`` was asked for; ``target`` is another server.

    ``patterns`` and ``exclude`` choose the tables; ``excludes_surely``: the latter is of this run,
    no default. ``on_switch``: the operator's command that sends the application to the target, for
    at most ``switch_timeout`` seconds; empty for none. ``shard_by``: the expression that gives the
    name of one of ``shards``, of which ``target`` is the first, or of one of ``sources``, of which
    ``connection`` is the first. Without any, all rows go from ``connection`` to ``target``.
    """

    patterns: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    excludes_surely: bool = True
    on_switch: str = ""
    switch_timeout: float = 30.0
    shards: tuple[Shard, ...] = ()
    sources: tuple[Shard, ...] = ()
    shard_by: str = ""

    @property
    def targets(self) -> tuple[ConnectionOptions, ...]:
        """All servers to which tables are moved, or the one that a shard is on."""
        shards = () if self.shard else self.shards
        return tuple(one.connection for one in shards) or super().targets

    @property
    def origins(self) -> tuple[ConnectionOptions, ...]:
        """All servers from which tables are moved, or the one that a shard is on."""
        sources = () if self.shard else self.sources
        return tuple(one.connection for one in sources) or (self.connection,)

    @property
    def others(self) -> tuple[ConnectionOptions, ...]:
        """All servers beside that of ``connection``: other sources, then the targets."""
        return (*self.origins[1:], *self.targets)

    def reached_by(self, source: ConnectionOptions, others: Sequence[ConnectionOptions]) -> Self:
        """Return the same with other ways to the servers, in the order of :attr:`others`."""
        sources, targets = [source, *others[: -len(self.targets)]], others[-len(self.targets) :]

        def reached(named: Sequence[Shard], ways: Sequence[ConnectionOptions]) -> tuple[Shard, ...]:
            if self.shard or not named:
                return tuple(named)
            return tuple(replace(o, connection=w) for o, w in zip(named, ways, strict=True))

        return replace(
            super().reached_by(source, targets),
            shards=reached(self.shards, targets),
            sources=reached(self.sources, sources),
        )

    @property
    def keep_given(self) -> tuple[str, str]:
        """The option by which rows are kept, and what was given with it."""
        return ("--shard-by", self.shard_by) if self.shard_by else super().keep_given


@dataclass(frozen=True, kw_only=True)
class RevertConfig(RunConfig):
    """Everything that one ``spirit-py revert`` was asked for.

    Only ``skip_drop`` reaches a process that does reverse replication; the rest counts without one.
    """

    skip_drop: bool = False
    writes_only_here: bool = True
