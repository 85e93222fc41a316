"""The settings that ``spirit-py ctl set`` changes: their names, values and limits (pure)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spirit_py.errors import UsageFault
from spirit_py.units import read_duration, read_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spirit_py.throttle.settings import PaceSettings

OFF: Final = "off"
"""The value of a limit that is lifted."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting.

    Attributes:
        field: of :class:`spirit_py.throttle.settings.PaceSettings`.
        form: how a value is written, for messages.
        read: returns the value of a text; raises ValueError for a text that is none.
        show: returns the text of a value.
    """

    field: str
    form: str
    read: Callable[[str], Any]
    show: Callable[[Any], str]


def _threads(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 256:
        raise ValueError(text)
    return number


def _chunk_seconds(text: str) -> float:
    seconds = read_duration(text)
    if not 0.01 <= seconds <= 60:
        raise ValueError(text)
    return seconds


def _ratio(text: str) -> float:
    number = float(text)
    if not (math.isfinite(number) and 0 <= number <= 100):
        raise ValueError(text)
    return number


def _seconds(value: float) -> str:
    """Return a duration as it may be given again."""
    return f"{value:g}s" if value >= 1 else f"{1000 * value:g}ms"


def _lag(text: str) -> float | None:
    return None if text == OFF else _above_zero(read_duration(text))


def _above_zero(value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(value)
    return value


def _load(text: str) -> tuple[tuple[str, float], ...]:
    return () if text == OFF else _some(read_limits(text))


def _some(limits: tuple[tuple[str, float], ...]) -> tuple[tuple[str, float], ...]:
    if not limits:
        raise ValueError(limits)
    return limits


def _shown_load(limits: tuple[tuple[str, float], ...]) -> str:
    return ",".join(f"{name}={value:g}" for name, value in limits) or OFF


SETTINGS: Final[dict[str, Setting]] = {
    "threads": Setting(field="threads", form="from 1 to 256", read=_threads, show=str),
    "chunk-time": Setting(
        field="chunk_seconds", form="10ms to 60s", read=_chunk_seconds, show=_seconds
    ),
    "nice": Setting(field="nice", form="from 0 to 100", read=_ratio, show=lambda one: f"{one:g}"),
    "aggressive": Setting(
        field="adaptive",
        form="on or off",
        read=lambda text: not {"on": True, "off": False}[text],
        show=lambda adaptive: OFF if adaptive else "on",
    ),
    "max-lag": Setting(
        field="max_lag",
        form="such as 1.5s or 500ms, or off",
        read=_lag,
        show=lambda one: OFF if one is None else _seconds(one),
    ),
    "max-load": Setting(
        field="max_load",
        form="such as Threads_running=25,Threads_connected=500, or off",
        read=_load,
        show=_shown_load,
    ),
    "critical-load": Setting(
        field="critical_load",
        form="such as Threads_running=100, or off",
        read=_load,
        show=_shown_load,
    ),
}
"""Every setting by its name."""
LOAD_FIELDS: Final = (SETTINGS["max-load"].field, SETTINGS["critical-load"].field)
"""Those that name counters of the server."""


def read_changes(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields that are to change, with their values.

    Raises:
        UsageFault: a name or a value cannot be; with what can.
    """
    if not given:
        raise UsageFault("nothing is set", hint=f"give one of {', '.join(SETTINGS)} with its value")
    changes = {}
    for name, text in given.items():
        setting = SETTINGS.get(name)
        if setting is None:
            raise UsageFault(f"there is no setting {name!r}", hint=f"use {', '.join(SETTINGS)}")
        try:
            changes[setting.field] = setting.read(text.strip())
        except (ValueError, KeyError, OverflowError):
            raise UsageFault(
                f"{name} cannot be {text!r}", hint=f"write a value {setting.form}"
            ) from None
    return changes


def shown(settings: PaceSettings) -> dict[str, str]:
    """Return all settings as they are, by name."""
    return {name: one.show(getattr(settings, one.field)) for name, one in SETTINGS.items()}
