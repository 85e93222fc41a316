"""What all events have: a name, a line for people, a level, and fields for programs (pure).

A template names fields: ``{seconds:time}``, ``{rows:count}``, or ``{n:# row}``, a count with its
noun. A line that depends on more is the property ``sentence``.
"""

from __future__ import annotations

import dataclasses
import string
import typing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias, TypeVar

from spirit_py import units
from spirit_py.classes import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Level = Literal["info", "warning", "error"]
Kind = TypeVar("Kind", bound="type[Event]")

_ASIDE: Final = "aside"
_WORDS: Final[dict[str, Callable[[Any], str]]] = {
    "time": units.human_seconds,
    "count": units.human_count,
    "size": units.human_bytes,
    "list": ", ".join,
    "pairs": lambda given: ", ".join(f"{name}={value}" for name, value in given.items()),
    "duration": units.duration,
    "percent": units.human_percent,
}


def aside(*, default: Any = dataclasses.MISSING) -> Any:
    """Declare a field that the line needs, and that is in no record."""
    return field(default=default, metadata={_ASIDE: True})


class _Line(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if word := _WORDS.get(format_spec):
            return word(value)
        if format_spec.startswith("# "):
            return units.counted(value, format_spec.removeprefix("# "))
        return str(super().format_field(value, format_spec))


LINE: Final = _Line()


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened, at a ``time`` in UTC, to a ``schema.table`` or the whole run.

    In a fleet ``fleet_server`` is its server's name, with which ``table`` begins, too.

    ``usually`` is the level, ``has_line`` False where figures and summary show the same, and
    ``detail`` for lines with ``--verbose`` alone, as of a ``quiet`` event.
    """

    name: ClassVar[str]
    template: ClassVar[str] = ""
    usually: ClassVar[Level] = "info"
    has_line: ClassVar[bool] = True
    detail: ClassVar[bool] = False

    table: str = ""
    fleet_server: str = ""
    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    prefix: str = ""
    quiet: bool = False

    def is_shown(self, *, verbose: bool) -> bool:
        """Return whether people see the line."""
        return self.has_line and (verbose or not (self.detail or self.quiet))

    @property
    def sentence(self) -> str:
        """What happened, in words that need no field to be understood."""
        return LINE.vformat(self.template, (), vars(self))

    @property
    def text(self) -> str:
        """The sentence, after the prefix."""
        return f"{self.prefix}: {self.sentence}" if self.prefix else self.sentence

    @property
    def level(self) -> Level:
        """How much it matters."""
        return self.usually

    @property
    def screen(self) -> Sequence[tuple[str, str]]:
        """Lines that a live display prints instead of the line, each with a style for rich."""
        return ()

    @property
    def line(self) -> str:
        """The line for people, which says so where it is a warning or an error."""
        return self.text if self.level == "info" else f"{self.level}: {self.text}"

    @property
    def fields(self) -> dict[str, object]:
        """The JSON values for programs, by the names that the class declares."""
        return {name: getattr(self, name) for name in recorded(type(self))}

    def to_dict(self) -> dict[str, object]:
        """Return the event as one JSON object; no field is named like one of its own keys."""
        return {
            "time": self.time.isoformat(timespec="milliseconds"),
            "event": self.name,
            "level": self.level,
            **({"fleet_server": self.fleet_server} if self.fleet_server else {}),
            "table": self.table.removeprefix(self.fleet_server).strip(),
            "text": self.text,
            **self.fields,
        }

    def about(self, table: str) -> Event:
        """Return the event as one about a table, unless it names another."""
        return self if self.table or not table else replace(self, table=table)


@dataclass(frozen=True, kw_only=True)
class Worded(Event):
    """An event whose line is worded by the part that tells it."""

    template = "{said}"

    said: str = aside()


_OWN: Final = {one.name for one in dataclasses.fields(Event)}
KINDS: Final[dict[str, type[Event]]] = {}


@typing.dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(field, aside)
)
def event(
    name: str,
    template: str = "",
    /,
    *,
    level: Level = "info",
    has_line: bool = True,
    detail: bool = False,
) -> Callable[[Kind], Kind]:
    """Declare a class of events; without a template it has a ``sentence``, or its base's words."""

    def declare(cls: Kind) -> Kind:
        cls.name, cls.template, cls.usually = name, template or cls.template, level
        cls.has_line, cls.detail = has_line, detail
        KINDS[name] = dataclass(frozen=True, kw_only=True)(cls)
        return cls

    return declare


def recorded(cls: type[Event]) -> tuple[str, ...]:
    """Return the names of the fields that a record of an event has."""
    return tuple(
        one.name
        for one in dataclasses.fields(cls)
        if one.name not in _OWN and _ASIDE not in one.metadata
    )


Tell: TypeAlias = "Callable[[Event], None]"

Gate: TypeAlias = "Callable[[Event, Callable[[], None]], str]"
"""Asks the operator's hook whether the run may go on; returns why not, or ""."""


def teller(show: Tell, about: str = "") -> Tell:
    """Return how events are reported to ``show``; those that name no table are about ``about``."""
    return lambda happened: show(happened.about(about))


def untold(_: Event) -> None:
    """Report nothing: for parts that are used without a run around them."""
