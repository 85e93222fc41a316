"""Events of what operators asked a run for (pure)."""

from __future__ import annotations

from typing import Any

from spirit_py.events.event import Event, aside, event


@event("control.obeyed", "ctl {request}: {said}; asked by {client}")
class ControlObeyed(Event):
    """A request was carried out."""

    verb: str
    arguments: dict[str, Any]
    client: str | None
    request: str = aside()
    said: str = aside()


@event("control.refused", "{said}")
class ControlRefused(Event):
    """A request was not carried out; what cannot be read of it is None."""

    verb: str | None = None
    arguments: dict[str, Any] | None = None
    client: str | None = None
    reason: str
    said: str = aside()


@event("settings.kept")
class SettingsKept(Event):
    """What operators of an earlier run had set counts again."""

    settings: dict[str, str]

    @property
    def sentence(self) -> str:
        """The settings, as ``ctl set`` takes them."""
        texts = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"set by operators of the earlier run: {texts}"
