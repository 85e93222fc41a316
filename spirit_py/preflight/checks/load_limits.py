"""The counters that ``--max-load`` and ``--critical-load`` name."""

from __future__ import annotations

from spirit_py.mysql.facts import unknown_counters
from spirit_py.preflight.check import Findings, PreflightContext, refuse


def check(context: PreflightContext) -> Findings:
    """Refuse a name that is no counter of the server: its limit would never be reached."""
    limits = {
        "--max-load": context.config.max_load,
        "--critical-load": context.config.critical_load,
    }
    names = {name for some in limits.values() for name, _ in some}
    unknown = unknown_counters(context.session, names)
    for option, some in limits.items():
        for name, _ in some:
            if name in unknown:
                yield refuse(
                    f"{option} names {name}, which is no number of SHOW GLOBAL STATUS",
                    "write a name that SHOW GLOBAL STATUS lists, such as Threads_running",
                )
