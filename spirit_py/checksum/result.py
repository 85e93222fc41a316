"""What a checksum found, and what it was asked for (pure)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_TEXT_LITERAL = re.compile(r"_(?:utf8mb4|ascii) X'((?:[0-9a-f]{2})*)'")

DifferenceKind = Literal["missing", "extra", "changed"]


@dataclass(frozen=True, kw_only=True)
class RowDifference:
    """One row that is not the same on both sides.

    Attributes:
        key: ``(literal, ...)`` of the key's columns, as the applier takes it.
        kind: ``missing`` in the new table, ``extra`` in it, or ``changed``.
        columns: names of the source's columns that differ; empty when not looked at.
    """

    key: str
    kind: DifferenceKind
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Say what differs, in a line for the operator."""
        where = f" in {', '.join(self.columns)}" if self.columns else ""
        return f"row {_TEXT_LITERAL.sub(_readable, self.key)} is {self.kind}{where}"


def _readable(literal: re.Match[str]) -> str:
    """Show a hexadecimal text literal as text."""
    return repr(bytes.fromhex(literal.group(1)).decode("utf-8", "backslashreplace"))


@dataclass(frozen=True, kw_only=True)
class ChecksumOptions:
    """Limits of a checksum.

    Attributes:
        tasks: sessions that read at the same time; 0 for as many as Spark has slots.
        target_seconds: how long one chunk should take, both sides together.
        lock_wait_timeout: whole seconds that one request for the table lock may wait at most;
            the first ones wait 1, then twice as long each; while it
            waits, new writers of the table wait behind it.
        lock_attempts: requests before the checksum gives up.
        yield_seconds: age at which a snapshot is given back and taken anew.
        max_passes: passes over the table, the last of which must be clean.
        max_repairs: differing rows that one pass repairs at most; more is a systematic fault.
        examples: rows shown.
        gang_attempts: times that lost workers are replaced in one checksum.
    """

    tasks: int = 0
    target_seconds: float = 1.0
    lock_wait_timeout: int = 4
    lock_attempts: int = 30
    yield_seconds: float = 3600.0
    max_passes: int = 3
    max_repairs: int = 100_000
    examples: int = 10
    gang_attempts: int = 3


@dataclass(frozen=True, kw_only=True)
class ChecksumProgress:
    """How far a checksum is.

    Attributes:
        passes: the pass that runs, from 1; 0 before the first.
        fraction: how much of this pass is handed out, 0.0 to 1.0, an estimate.
        rows: rows of the source compared in this pass.
        differences: differing rows found in this pass.
        waiting_for: what it waits for, in words; empty while it compares.
    """

    passes: int = 0
    fraction: float = 0.0
    rows: int = 0
    differences: int = 0
    waiting_for: str = ""


@dataclass(frozen=True, kw_only=True)
class ChecksumResult:
    """The figures of a checksum, for the report.

    Attributes:
        passes: passes over the whole table; the last one was clean unless repair is off.
        chunks: chunks compared in all passes.
        rows: rows of the source in the last pass.
        differences: differing rows found in all passes.
        repaired_chunks: chunks with a difference that was repaired.
        examples: the first differing rows.
        snapshots: snapshots taken; each took the table lock once.
        lock_wait_ms: longest wait for the table lock.
        lock_held_ms: longest time that the table lock was held.
        seconds: wall time.
    """

    passes: int = 0
    chunks: int = 0
    rows: int = 0
    differences: int = 0
    repaired_chunks: int = 0
    examples: tuple[RowDifference, ...] = ()
    snapshots: int = 0
    lock_wait_ms: float = 0.0
    lock_held_ms: float = 0.0
    seconds: float = 0.0
