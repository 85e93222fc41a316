"""A record as a line: JSON for programs, text for people (pure)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from spirit_py.watch.records import Record

_LONGEST = 200


class Line(NamedTuple):
    """A record's text, without the line's end, and the position that it has."""

    text: str
    position: str


def as_json(found: Record) -> Line:
    """Write a record as one line of JSON."""
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return Line(text, found["position"])


def as_text(found: Record) -> Line:
    """Write a record as one line of text; long values are cut."""
    when = found.get("executed_at") or "-"
    where = ".".join(found[name] for name in ("schema", "table") if found.get(name))
    said = [when, found["kind"], where, _row(found)]
    said += [" ".join(str(found[name]).split()) for name in ("xid", "sql", "note") if name in found]
    if found["kind"] in _WITH_POSITION:
        said.append(f"position {found['position']}")
    elif found.get("gtid"):
        said.append(f"gtid {found['gtid']}")
    elif found.get("file"):
        said.append(f"at {found['file']}:{found['offset']}")
    return Line("  ".join(part for part in said if part), found["position"])


_WITH_POSITION = frozenset({"start", "end", "heartbeat", "restarted"})


def _row(found: Record) -> str:
    """Show the key of a row and its new values."""
    before, after = found.get("before"), found.get("after")
    columns = after or before
    if not columns:
        return ""
    keys = [_pair(column) for column in (before or columns) if column["is_key"]]
    if before is None or after is None:
        rest = [_pair(column) for column in columns if not column["is_key"]]
    else:
        rest = [
            f"{_pair(old)} -> {_value(new)}"
            for old, new in zip(before, after, strict=True)
            if new["changed"]
        ]
    return ", ".join(keys) + (": " if keys and rest else "") + ", ".join(rest)


def _pair(column: Record) -> str:
    return f"{column['name']}={_value(column)}"


def _value(column: Record) -> str:
    """Show a value: NULL, X'..' or text in quotes."""
    if column["is_null"]:
        return "NULL"
    text = column["value"]
    text = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
    if column.get("encoding") == "hex":
        return f"X'{text}'"
    return json.dumps(text, ensure_ascii=False)
