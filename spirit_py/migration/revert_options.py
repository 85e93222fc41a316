"""What one ``spirit-py revert`` was asked for (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spirit_py.config import FeedOptions

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions, GuardMode, LogFormat


@dataclass(frozen=True, kw_only=True)
class RevertOptions:
    """Everything that one ``spirit-py revert`` was asked for.

    Attributes:
        skip_drop: keep the table that is swapped out, under another name.
        answer_timeout: seconds within which the keeping process must begin to answer.

    The rest is as in :class:`~spirit_py.config.MigrationConfig`, and counts only where no process
    keeps the way back any more: what keeps it has its own.
    """

    connection: ConnectionOptions
    database: str
    table: str
    skip_drop: bool = False
    answer_timeout: float = 60.0
    threads: int = 4
    lock_wait_timeout: float = 30.0
    cutover_attempts: int = 5
    no_kill: bool = False
    kill_after: float | None = None
    snapshot_guard: GuardMode = "auto"
    checksum_yield_timeout: float = 3600.0
    spark_master: str = ""
    spark_conf: tuple[tuple[str, str], ...] = ()
    spark_ui: bool = False
    log_format: LogFormat = "text"
    verbose: bool = False
    feed: FeedOptions = field(default_factory=FeedOptions)
