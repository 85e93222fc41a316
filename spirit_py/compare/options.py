"""What one ``spirit-py checksum`` was asked for (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from spirit_py.config import ConnectionOptions, LogFormat

SECOND_LOOKS = (1.0, 3.0)
"""Seconds before each further look at rows that differ."""


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Everything that one ``spirit-py checksum`` was asked for.

    Attributes:
        target: the other server, or the same one under another account; None for the source's.
        renames: ``(source column, target column)`` where the names differ.
        ignored: columns, of either table, that are not compared.
        repair: make the target's rows equal to the source's.
        lock: lock both tables for the moment of the snapshot.
        lock_wait_timeout: seconds that one request for the lock may wait.
        yield_timeout: seconds after which a snapshot is given back and taken anew.
        second_looks: seconds before each further look at rows that differ.
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
    lock_wait_timeout: float = 5.0
    yield_timeout: float = 3600.0
    second_looks: tuple[float, ...] = SECOND_LOOKS
    threads: int = 4
    spark_master: str = ""
    spark_conf: tuple[tuple[str, str], ...] = ()
    spark_ui: bool = False
    report_json: Path | None = None
    log_format: LogFormat = "text"
    verbose: bool = False
