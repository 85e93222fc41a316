"""The one JSON form of every row of the checkpoint table (pure).

What is read must have exactly the fields of its dataclass, each of its own type (R17), except for
:data:`_ADDED` and in :func:`message_from_text`. Whoever may write a row may write anything into it
(R26): names are quoted, and key literals are read into values before they are sent.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints, overload

LONGEST: Final = 1 << 26
"""Bytes of a row; a longer one is no row of this program, and is not read."""
FORMAT: Final = 5
"""The format that this version writes and reads."""
_ADDED: Final = frozenset({
    "allow", "answers", "apply_sessions", "archive_by", "archive_to", "asked", "away", "beside",
    "choices", "evaluated", "files", "fleet", "guarded_shape", "judged", "keep", "kept",
    "looked_at", "lost", "making", "origins", "places", "shard", "shards", "sources",
    "unlogged", "unseen", "written",
})  # fmt: skip
"""Fields that rows of this format may lack: they were added to it, and have defaults."""

#: JSON has no such numbers: they are texts. The names of earlier versions (Infinity) are read, too.
_NO_NUMBERS: Final = ("inf", "-inf", "nan")
#: The types of the fields of each dataclass, which take long to evaluate.
_HINTS: Final[dict[type[Any], dict[str, Any]]] = {}
_Row = TypeVar("_Row")
_Other = TypeVar("_Other")


class UnreadableCheckpoint(ValueError):
    """The text is no row of the known format. The message says why."""


def to_text(row: Any) -> str:
    """Return a row as JSON."""
    found = {"format": FORMAT, **_fields(row)}
    return json.dumps(found, default=_plain, ensure_ascii=False, sort_keys=True)


def _plain(value: Any) -> Any:
    return _fields(value) if dataclasses.is_dataclass(value) else sorted(value)


def _fields(row: Any) -> dict[str, Any]:
    return {each.name: _finite(getattr(row, each.name)) for each in dataclasses.fields(row)}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


@overload
def from_text(text: str, kind: type[_Row]) -> _Row: ...
@overload
def from_text(text: str, kind: type[_Row], other: type[_Other]) -> _Row | _Other: ...
def from_text(text: str, kind: type[Any], other: type[Any] | None = None) -> Any:
    """Read a whole row, of a kind that its fields decide; else raise UnreadableCheckpoint."""
    found = _loaded(text)
    if other is not None and set(found) == set(_hints(other)):
        return _object(other, found)
    return _object(kind, found)


@overload
def message_from_text(text: str, kind: type[_Row]) -> _Row: ...
@overload
def message_from_text(text: str, kind: type[_Row], other: type[_Other]) -> _Row | _Other: ...
def message_from_text(text: str, kind: type[Any], other: type[Any] | None = None) -> Any:
    """Read a row of perhaps another version: unknown fields are ignored, missing have defaults.

    ``other`` is chosen where all fields are there that it needs. Raises UnreadableCheckpoint for
    another format, or where a field is missing that has no default.
    """
    found: dict[str, Any] = _loaded(text)
    chosen = other if other is not None and _needed(other) <= set(found) else kind
    known = {each.name for each in dataclasses.fields(chosen)}
    values = {name: value for name, value in found.items() if name in known}
    if missing := sorted(_needed(chosen) - set(values)):
        raise UnreadableCheckpoint(f"a {chosen.__name__} is without {', '.join(missing)}")
    return _made(chosen, values)


def _needed(kind: type[Any]) -> set[str]:
    absent = dataclasses.MISSING
    return {
        each.name
        for each in dataclasses.fields(kind)
        if each.default is absent and each.default_factory is absent
    }


def _loaded(text: str) -> Any:
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableCheckpoint(f"not JSON: {error}") from error
    version = found.pop("format", None) if isinstance(found, dict) else None
    if type(version) is not int or version != FORMAT:
        raise UnreadableCheckpoint(f"it has format {version!r}; this version reads {FORMAT}")
    return found


def _hints(kind: type[Any]) -> dict[str, Any]:
    if kind not in _HINTS:
        _HINTS[kind] = get_type_hints(kind)
    return _HINTS[kind]


def _object(kind: type[_Row], found: Any) -> _Row:
    hints = _hints(kind)
    if not isinstance(found, dict):
        raise UnreadableCheckpoint(f"a {kind.__name__} is not an object")
    if differ := sorted(set(found) ^ (set(hints) - (_ADDED - set(found)))):
        raise UnreadableCheckpoint(f"the fields of a {kind.__name__} differ: {differ}")
    return _made(kind, found)


def _made(kind: type[_Row], found: dict[str, Any]) -> _Row:
    hints = _hints(kind)
    values = {
        name: _value(hints[name], value, f"{name} of a {kind.__name__}")
        for name, value in found.items()
    }
    try:
        return kind(**values)
    except UnreadableCheckpoint:
        raise
    except ValueError as error:
        raise UnreadableCheckpoint(str(error)) from error


@cache
def _form(kind: Any) -> tuple[Any, tuple[Any, ...], bool]:
    """Return what a type is made of, and whether it is a dataclass."""
    return get_origin(kind), get_args(kind), dataclasses.is_dataclass(kind)


def _value(kind: Any, found: Any, what: str) -> Any:
    # Most values are plain ones.
    if type(found) is kind:
        return found
    origin, parts, of_fields = _form(kind)
    if origin is UnionType and NoneType in parts:
        (kind,) = (part for part in parts if part is not NoneType)
        return None if found is None else _value(kind, found, what)
    if of_fields:
        return _object(kind, found)
    if origin in {tuple, frozenset} and isinstance(found, list):
        kinds = parts if origin is tuple and parts[-1] is not ... else (parts[0],) * len(found)
        if len(kinds) == len(found):
            return origin(_value(*one, what) for one in zip(kinds, found, strict=True))
    if origin is dict and isinstance(found, dict):
        return {key: _value(parts[1], value, what) for key, value in found.items()}
    if kind is float and (type(found) is int or found in _NO_NUMBERS):
        with contextlib.suppress(OverflowError):
            return float(found)
    raise UnreadableCheckpoint(f"{what} is of the wrong type")
