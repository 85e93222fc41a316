"""Recordings as files: written so that a diff can be read, and compared with what is seen now."""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent / "recorded"
VARIABLE: Final = "SPIRIT_PY_GOLDEN_UPDATE"
"""Set to 1, it makes the tests write the recordings."""
_WIDTH: Final = 110


def compare(name: str, seen: str) -> None:
    """Compare a text with its recording, or record it where :data:`VARIABLE` says so.

    Raises:
        AssertionError: with the lines that differ.
    """
    path = FOLDER / name
    if os.environ.get(VARIABLE) == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(seen)
        return
    recorded = path.read_text() if path.exists() else ""
    lines = difflib.unified_diff(
        recorded.splitlines(), seen.splitlines(), f"recorded {name}", "now", lineterm="", n=4
    )
    difference = "\n".join(lines)
    assert not difference, (
        f"{difference}\n\nan output has changed its names or its meaning; if that is meant,"
        f" {VARIABLE}=1 records what is seen now"
    )


def as_text(value: Any, indent: int = 0) -> str:
    """Return JSON with sorted names, in which an event, and what fits on a line, is on one line."""
    flat = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if len(flat) + indent <= _WIDTH or not isinstance(value, (dict, list)) or not value:
        return flat
    if isinstance(value, dict) and "event" in value and not isinstance(value.get("plan"), dict):
        return flat
    pad = " " * (indent + 1)
    if isinstance(value, list):
        inner = [as_text(one, indent + 1) for one in value]
        opened, closed = "[]"
    else:
        inner = [
            f"{json.dumps(key, ensure_ascii=False)}: {as_text(value[key], indent + 1)}"
            for key in sorted(value)
        ]
        opened, closed = "{}"
    return f"{opened}\n" + ",\n".join(pad + one for one in inner) + f"\n{' ' * indent}{closed}"
