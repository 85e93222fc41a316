"""Data classes that cost little to import (pure).

``dataclasses.dataclass`` compiles up to six functions for each class. A
migration imports 370 classes, so that was two fifths of the CPU of its imports.
Here a class has one function of its own, which fills an object; what compares,
hashes, prints and guards it is shared. All else is the standard module's.
"""

from __future__ import annotations

import dataclasses
from dataclasses import KW_ONLY, MISSING, InitVar, asdict, astuple, field, fields
from functools import partial
from inspect import get_annotations
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

T = TypeVar("T")

__all__ = ["KW_ONLY", "InitVar", "asdict", "astuple", "dataclass", "field", "fields", "replace"]

_GIVEN: Final = object()


def _dataclass(cls: type[Any] | None = None, /, **options: Any) -> Any:
    """Do what ``dataclasses.dataclass`` does, with shared functions where they suffice."""
    if cls is None:
        return partial(_dataclass, **options)
    frozen, eq = options.pop("frozen", False), options.pop("eq", True)
    if options.get("slots") or (
        frozen and any("InitVar[" in str(get_annotations(one)) for one in cls.__mro__)
    ):
        return dataclasses.dataclass(frozen=frozen, eq=eq, **options)(cls)
    cls.__doc__ = cls.__doc__ or cls.__name__
    dataclasses.dataclass(init=not frozen, eq=False, repr=False, **options)(cls)
    parts = fields(cls)
    given: dict[str, Any] = {"__repr__": _text}
    if eq:
        compared = [one.name for one in parts if one.compare]
        cls._identity = attrgetter(*compared) if compared else type
        given |= {"__eq__": _equal, "__hash__": _hashed if frozen else None}
    if frozen:
        given |= {"__init__": _filler(cls), "__setattr__": _refuse, "__delattr__": _refuse}
    for name, value in given.items():
        # A class with a comparison of its own has None for a hash, which is Python's.
        if cls.__dict__.get(name) is None:
            setattr(cls, name, value)
    if frozen and cls.__init__ is given["__init__"] and all(one.init for one in parts):
        cls._values = None if hasattr(cls, "__post_init__") else frozenset(p.name for p in parts)
    return cls


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass


def replace(one: T, /, **changes: Any) -> T:
    """Do what ``dataclasses.replace`` does, which reads and sets each field by a call."""
    cls = type(one)
    # Of this class itself: the fields, where its objects are nothing but their values.
    names = cls.__dict__.get("_values")
    if names is None or not names.issuperset(changes):
        return dataclasses.replace(one, **changes)  # type: ignore[type-var]
    made = object.__new__(cls)
    values = vars(one)
    # Nothing that was computed from them and kept.
    vars(made).update({name: values[name] for name in names}, **changes)
    return made


def _filler(cls: type[Any]) -> Any:
    """Compile the ``__init__`` of a frozen class: it alone may set the fields."""
    taken: dict[bool, list[str]] = {False: [], True: []}
    lines: list[str] = []
    names: dict[str, Any] = {"_set": object.__setattr__, "_GIVEN": _GIVEN}
    for at, one in enumerate(fields(cls)):
        made = one.default_factory is not MISSING
        value = one.name if one.init else ""
        if made:
            names[f"_f{at}"] = one.default_factory
            value = f"_f{at}() if {one.name} is _GIVEN else {one.name}" if value else f"_f{at}()"
        if value:
            lines.append(f" _set(self, {one.name!r}, {value})")
        if one.init:
            default = "=_GIVEN" if made else "" if one.default is MISSING else f"=_d{at}"
            names[f"_d{at}"] = one.default
            taken[one.kw_only is True].append(one.name + default)
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    arguments = ["self", *taken[False], *(["*", *taken[True]] if taken[True] else [])]
    exec("\n".join((f"def __init__({', '.join(arguments)}):", *(lines or [" pass"]))), names)  # noqa: S102
    names["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    names["__init__"].__annotations__ = {one.name: one.type for one in fields(cls) if one.init}
    return names["__init__"]


def _equal(self: Any, other: Any) -> bool:
    if other.__class__ is not self.__class__:
        return NotImplemented  # type: ignore[no-any-return]
    identity = self.__class__._identity  # noqa: SLF001
    return bool(identity(self) == identity(other))


def _hashed(self: Any) -> int:
    return hash(self.__class__._identity(self))  # noqa: SLF001


def _text(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _refuse(self: Any, name: str, _: object = None) -> None:
    raise dataclasses.FrozenInstanceError(f"{self.__class__.__name__}.{name} is frozen")
