"""How one event becomes one line: a JSON object for programs, or text for people."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

from spirit_py.records import run_token

if TYPE_CHECKING:
    from spirit_py.events.event import Event

#: What ends a line, controls a terminal, or turns the direction of text.
_CONTROL: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def text_line(event: Event) -> str:
    """Return the time and the line for people."""
    return f"{event.time.isoformat(timespec='milliseconds')} {one_line(event.line)}"


def one_line(text: str) -> str:
    """Return text with escapes for characters that end lines or control terminals: in names."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def json_line(event: Event) -> str:
    """Return the event as one JSON object, with the token of the run.

    In ASCII, so that no locale can break it; a number that JSON does not know is null.
    """
    return json.dumps({"run": run_token(), **finite(event.to_dict())}, default=str)


def finite(value: Any) -> Any:
    """Return a value with None for each number in it that is infinite or no number."""
    if isinstance(value, dict):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
