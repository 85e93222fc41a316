"""The server's load, by any counters of SHOW GLOBAL STATUS: ``--max-load``, ``--critical-load``.

Above a limit of ``--max-load`` nothing new begins. Above one of ``--critical-load`` in two looks in
succession the run ends as for any other failure: it can be resumed. Both limits may change while it
runs.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py.errors import CriticalLoad
from spirit_py.mysql.global_status import read_status
from spirit_py.throttle.own_session import own_session
from spirit_py.throttle.throttler import ALL_WORK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spirit_py.config import ConnectionOptions
    from spirit_py.stop import StopSwitch
    from spirit_py.throttle.settings import LiveSettings, LoadLimits

_EVERY: Final = 0.5
#: One look may meet the moment of a peak that is over at once.
_LOOKS_IN_SUCCESSION: Final = 2


class ServerLoad:
    """Compares counters of the server with their limits.

    Args:
        stop: is requested when the load is critical.
    """

    name: Final = "load"
    holds: Final = ALL_WORK
    every: Final = _EVERY

    def __init__(
        self, connection: ConnectionOptions, settings: LiveSettings, stop: StopSwitch
    ) -> None:
        self._session = own_session(connection, "load")
        self._settings = settings
        self._stop = stop
        self._critical_looks = 0

    def look(self) -> str:
        """Return the counters that are above their limits; empty for none."""
        settings = self._settings.current
        names = {name for name, _ in (*settings.max_load, *settings.critical_load)}
        if not names:
            return ""
        found = self._session.ask(partial(read_status, names=sorted(names)))
        self._stop_when_critical(excess(found, settings.critical_load))
        above = excess(found, settings.max_load)
        return f"the server's load: {', '.join(above)}" if above else ""

    def _stop_when_critical(self, above: list[str]) -> None:
        self._critical_looks = self._critical_looks + 1 if above else 0
        if self._critical_looks >= _LOOKS_IN_SUCCESSION:
            self._stop.request(
                CriticalLoad(
                    f"the load of the server is critical: {', '.join(above)}",
                    hint="run the same command again when the load is lower: it carries on",
                )
            )

    def close(self) -> None:
        """Close the session."""
        self._session.close()


def excess(found: Mapping[str, float], limits: LoadLimits) -> list[str]:
    """Return each counter that is above its limit, as text with both values.

    Args:
        found: the counters' values by their names in lower case.
    """
    return [
        f"{name} is {found[name.lower()]:g}, above {limit:g}"
        for name, limit in limits
        if found.get(name.lower(), 0.0) > limit
    ]
