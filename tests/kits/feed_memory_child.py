"""A process of its own that follows one table and reports how much memory that took at most.

    python feed_memory_child.py '{"host": ..., "schema": ..., "soft_limit_bytes": ...}'

The password comes in SPIRIT_PY_PASSWORD. It prints one JSON object when it follows ``t``, waits
for a line, drains, and prints another.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from spirit_py.applier.applier import SqlApplier
from spirit_py.binlog.source import BinlogSource
from spirit_py.config import ConnectionOptions, FeedOptions
from spirit_py.feed.feed import ChangeFeed
from spirit_py.threads import StopSwitch
from tests.kits.tables import read_mapping


def peak() -> int:
    """Return the largest resident size of this process so far, in bytes.

    ``ru_maxrss`` would be that of the process that started this one, where that was larger.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def say(figures: dict[str, float]) -> None:
    """Print figures as a line, for the process that started this one."""
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Follow, drain, report."""
    asked = json.loads(sys.argv[1])
    connection = ConnectionOptions(
        host=asked["host"],
        port=asked["port"],
        user=asked["user"],
        password=os.environ["SPIRIT_PY_PASSWORD"],
    )
    options = FeedOptions(
        soft_limit_bytes=asked["soft_limit_bytes"], flush_interval=1.0, wait_timeout=600.0
    )
    mapping = read_mapping(connection, asked["schema"], "ADD x INT DEFAULT 7")
    stop = StopSwitch()
    applier = SqlApplier(
        connection, sessions=options.apply_threads, batch_rows=options.batch_rows, stop=stop
    )
    feed = ChangeFeed(BinlogSource(connection, options), applier, options=options, stop=stop)
    feed.add_subscription(mapping).copy_finished()
    feed.start()
    say({"base": peak()})
    sys.stdin.readline()
    began = time.monotonic()
    feed.block_wait()
    feed.flush()
    seen = feed.statistics()
    said: dict[str, float] = {
        "peak": peak(),
        "seconds": time.monotonic() - began,
        "flushed": feed.all_changes_flushed(),
        "applied": seen.applied,
        "backpressure_seconds": seen.backpressure_seconds,
        "peak_buffered_bytes": seen.peak_buffered_bytes,
    }
    say(said)
    feed.close()
    applier.close()


if __name__ == "__main__":
    main()
