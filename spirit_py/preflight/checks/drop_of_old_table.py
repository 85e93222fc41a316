"""What the drop of a large old table holds up on this server, where that can be known."""

from __future__ import annotations

import math
from typing import Final

from spirit_py.preflight.check import Findings, PreflightContext, warn
from spirit_py.units import human_bytes

_LARGE: Final = 1 << 30


def check(context: PreflightContext) -> Findings:
    """Warn where the adaptive hash index is on: the drop looks through it.

    Measured on 9.7: 11 s for a table of 2 GB. Reads and writes of open tables are not held up;
    but no table is created, altered, dropped or opened meanwhile (docs/gentleness.md).
    """
    size, config = context.source.total_bytes, context.config
    if size < _LARGE or config.dry_run or math.isinf(config.drop_old_after):
        return
    if context.facts.is_on("innodb_adaptive_hash_index"):
        yield warn(
            f"innodb_adaptive_hash_index is ON: while the old table ({human_bytes(size)}) is"
            " dropped, no table may be created, altered, dropped or opened for seconds",
            "set it OFF for the drop, which is done in milliseconds, or use --drop-old-after never"
            " and drop the old table at a quiet hour",
        )
