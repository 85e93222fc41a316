"""The versioned checkpoint record (pure): what it holds, and how it is read back.

Nothing secret is in it (R20). A reader refuses a format that it does not know, and never
guesses at one (R17).
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

FORMAT = 1


class UnreadableCheckpoint(ValueError):
    """The text is no checkpoint record of a known format. The message says why."""


@dataclass(frozen=True, kw_only=True)
class CheckpointRecord:
    """One migration's state.

    Attributes:
        statement: the normal form of the ALTER, so that other spelling still matches.
        server_uuid: the server that the migration runs on.
        position: the change feed's safe position, opaque; empty before the feed started.
        copied_up_to: SQL literals of the copy's low watermark; empty before the first chunk.
        rows_copied: rows copied so far.
        program: version of the program that wrote it.
    """

    statement: str
    schema: str
    table: str
    server_uuid: str
    phase: str
    position: str = ""
    copied_up_to: tuple[str, ...] = ()
    rows_copied: int = 0
    chunks: int = 0
    started_at: str = ""
    program: str = ""
    format: int = FORMAT


def to_text(record: CheckpointRecord) -> str:
    """Render the record as JSON."""
    return json.dumps(dataclasses.asdict(record), ensure_ascii=False, sort_keys=True)


def from_text(text: str) -> CheckpointRecord:
    """Read a record back.

    Raises:
        UnreadableCheckpoint: for anything that is not a whole record of a known format.
    """
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        raise UnreadableCheckpoint(f"not JSON: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        version = found.get("format") if isinstance(found, dict) else None
        raise UnreadableCheckpoint(f"format {version!r}; this version reads {FORMAT}")
    names = {field.name for field in dataclasses.fields(CheckpointRecord)}
    if set(found) != names:
        raise UnreadableCheckpoint(f"fields differ: {sorted(set(found) ^ names)}")
    return CheckpointRecord(**{**found, "copied_up_to": tuple(found["copied_up_to"])})
