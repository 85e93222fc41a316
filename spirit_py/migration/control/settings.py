"""The settings that ``spirit-py ctl set`` changes: their names, values and limits (pure)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from spirit_py.classes import dataclass
from spirit_py.errors import UsageFault
from spirit_py.options import Form, declared
from spirit_py.options.commands import MigrationArguments
from spirit_py.units import read_duration, read_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spirit_py.options import Option
    from spirit_py.throttle.settings import PaceSettings

OFF: Final = "off"
"""The value of a limit that is lifted."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting; ``read`` raises ValueError for a text that is no value."""

    field: str
    form: str
    read: Callable[[str], Any]
    show: Callable[[Any], str]


def _seconds(value: float) -> str:
    return f"{value:g}s" if value >= 1 else f"{1000 * value:g}ms"


def _above_zero(seconds: float) -> float:
    if not 0 < seconds < math.inf:
        raise ValueError(seconds)
    return seconds


def _some(limits: tuple[tuple[str, float], ...]) -> tuple[tuple[str, float], ...]:
    if not limits:
        raise ValueError(limits)
    return limits


def _setting(one: Option) -> Setting:
    if one.type is bool:
        return Setting(
            field=one.name,
            form="on or off",
            read={"on": True, OFF: False}.__getitem__,
            show=lambda on: "on" if on else OFF,
        )
    if one.form is Form.LIMITS:
        return Setting(
            field=one.name,
            form="such as Threads_running=25,Threads_connected=500, or off",
            read=lambda text: () if text == OFF else _some(read_limits(text)),
            show=lambda most: ",".join(f"{name}={value:g}" for name, value in most) or OFF,
        )
    if one.most is None:
        return Setting(
            field=one.name,
            form="such as 1.5s or 500ms, or off",
            read=lambda text: None if text == OFF else _above_zero(read_duration(text)),
            show=lambda value: OFF if value is None else _seconds(value),
        )
    read, show = (read_duration, _seconds) if one.form else (one.type, "{:g}".format)

    def within(text: str) -> float:
        number: float = read(text)
        if not one.least <= number <= one.most:
            raise ValueError(text)
        return number

    form = f"from {show(one.least)} to {show(one.most)}"
    return Setting(field=one.name, form=form, read=within, show=show)


_LIVE: Final = [one for one in declared(MigrationArguments) if one.live]
SETTINGS: Final = {one.live: _setting(one) for one in _LIVE}
"""Every setting by its name: an option that says so, with its bounds."""
LOAD_FIELDS: Final = tuple(one.name for one in _LIVE if one.form is Form.LIMITS)
"""Those that name counters of the server."""


def read_changes(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields that are to change; UsageFault where a name or a value cannot be."""
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
