"""The counters that ``--max-load`` and ``--critical-load`` name."""

from __future__ import annotations

from spirit_py.mysql.global_status import read_status
from spirit_py.preflight.check import Findings, PreflightContext, refuse


def check(context: PreflightContext) -> Findings:
    """Refuse a name that is no counter of the server: its limit would never be reached."""
    limits = {
        "--max-load": context.config.max_load,
        "--critical-load": context.config.critical_load,
    }
    names = sorted({name for some in limits.values() for name, _ in some})
    known = read_status(context.session, names) if names else {}
    for option, some in limits.items():
        for name, _ in some:
            if name.lower() not in known:
                yield refuse(
                    f"{option} names {name}, which is no number of SHOW GLOBAL STATUS",
                    "write a name that SHOW GLOBAL STATUS lists, such as Threads_running",
                )
