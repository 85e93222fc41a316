"""What the classes of events declare, read from their annotations."""

from __future__ import annotations

import collections.abc
import importlib
import pkgutil
import types
import typing
from typing import TYPE_CHECKING

import spirit_py.events
from spirit_py.events.event import KINDS, recorded
from spirit_py.events.run import ProgressMade

if TYPE_CHECKING:
    from spirit_py.events.event import Event


def kinds() -> dict[str, type[Event]]:
    """Return the classes of all events, by name."""
    for module in pkgutil.iter_modules(spirit_py.events.__path__):
        importlib.import_module(f"spirit_py.events.{module.name}")
    return dict(KINDS)


def declared(cls: type[Event]) -> dict[str, type]:
    """Return the fields that a record of such an event has, with their types without None."""
    hints = typing.get_type_hints(cls, localns=vars(collections.abc))
    return {name: _plain(hints[name]) for name in recorded(cls)}


def _plain(hint: object) -> type:
    if isinstance(hint, types.UnionType):
        (hint,) = [one for one in typing.get_args(hint) if one is not type(None)]
    plain = typing.get_origin(hint) or hint
    assert isinstance(plain, type)
    return plain


def undeclared(event: Event) -> list[str]:
    """Return which values are not of the type that their field declares; each may be None.

    Integers are allowed where a float is declared.
    """
    if isinstance(event, ProgressMade):
        return []
    values = event.fields
    return [
        f"{event.name}: {name} is {values[name]!r}, and not a {wanted.__name__}"
        for name, wanted in declared(type(event)).items()
        if not (values[name] is None or _is_a(values[name], wanted))
    ]


def _is_a(value: object, wanted: type) -> bool:
    if isinstance(value, bool):
        return wanted is bool
    return isinstance(value, (int, float) if wanted is float else wanted)
