"""Whether the server's disk has room for a batch as a whole."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.preflight.checks.disk_space import free_bytes
from spirit_py.units import human_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.config import BatchConfig
    from spirit_py.mysql.facts import ServerFacts


def room_for(
    sizes: Sequence[tuple[int, int]], config: BatchConfig, facts: ServerFacts
) -> tuple[str, ...]:
    """Return what is known of the disk.

    Old tables are dropped one after another, so at a time there are only the largest ones of those
    that run side by side, and all where old tables are kept. The binlog of all stays for as long as
    the server keeps it.

    Args:
        sizes: for each table the bytes of its rows and of its indexes.

    Raises:
        Refusal: the disk is known to be too small for the new tables.
    """
    at_once = len(sizes) if math.isinf(config.each.drop_old_after) else config.parallel
    largest = sorted((sum(size) for size in sizes), reverse=True)
    copies = sum(largest[:at_once])
    binlog = sum(data for data, _ in sizes) if facts.is_on("log_bin") else 0
    needed = f"{human_bytes(copies)} at a time for new tables, {human_bytes(binlog)} of binlog"
    free = free_bytes(facts)
    if free is None:
        return (f"room: up to {needed}; what is free on the server is unknown from here",)
    if free < copies:
        raise Refusal(
            f"the server has {human_bytes(free)} free where the new tables need"
            f" {human_bytes(copies)} at a time",
            hint="free disk space, use a smaller --parallel, or let old tables be dropped",
            error_code=ErrorCode.NO_DISK_SPACE,
        )
    short = free < copies + binlog
    warning = "; not enough if the server keeps all of the binlog" if short else ""
    return (f"room: up to {needed}; {human_bytes(free)} are free{warning}",)
