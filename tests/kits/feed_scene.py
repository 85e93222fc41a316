"""A feed over the stream in memory, and an applier that remembers what it is given."""

from __future__ import annotations

import threading
import time
from itertools import groupby
from typing import TYPE_CHECKING, Any

from spirit_py.config import FeedOptions
from spirit_py.errors import ValueLost
from spirit_py.feed.feed import ChangeFeed
from spirit_py.threads import StopSwitch
from tests.kits.memory_stream import MemoryStream
from tests.kits.row_images import mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.feed.subscription import TableSubscription
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.values import KeyedChange, RenderedRow

DEADLINE = 60.0


class Recorder:
    """An applier that remembers what it is given, and fails when it is told to."""

    def __init__(self) -> None:
        self.table: dict[str, str] = {}
        self.calls: list[tuple[str, list[str]]] = []
        self.fail: Exception | None = None
        self.changed_since: set[str] = set()
        self.unfit = ""
        self.gate = threading.Event()
        self.gate.set()
        self.states: list[tuple[bool, list[KeyedChange]]] = []

    def upsert_rows(
        self,
        mapping: TableMapping,
        rows: Sequence[RenderedRow],
        session: SqlSession | None = None,
        keys: Sequence[str] = (),
    ) -> int:
        """Write rows, whose text begins with the key."""
        self.take("upsert", [row.sql for row in rows])
        if self.unfit and any(self.unfit in row.sql for row in rows):
            raise ValueLost("it does not fit")
        for row in rows:
            self.table[row.sql.strip("()").partition(",")[0]] = row.sql
        return len(rows)

    def delete_keys(
        self, mapping: TableMapping, keys: Sequence[str], session: SqlSession | None = None
    ) -> int:
        """Delete keys."""
        self.take("delete", list(keys))
        for key in keys:
            self.table.pop(key.strip("()"), None)
        return len(keys)

    def write_in_order(
        self, mapping: TableMapping, changes: Sequence[KeyedChange], session: SqlSession | None
    ) -> None:
        """Write and delete in order."""
        for deleted, run in groupby(changes, key=lambda change: change.row is None):
            if deleted:
                self.delete_keys(mapping, [change.key for change in run])
            else:
                self.upsert_rows(mapping, [change.row for change in run if change.row])

    def take(self, kind: str, items: list[str]) -> None:
        """Remember a call."""
        assert self.gate.wait(DEADLINE)
        if self.fail is not None:
            raise self.fail
        self.calls.append((kind, items))

    def interrupt(self) -> None:
        """Let a waiting call go."""
        self.fail = RuntimeError("interrupted")
        self.gate.set()

    def superseded(self, mapping: TableMapping, key: str, row: RenderedRow) -> bool:
        """Return whether the source has another row by now."""
        return key in self.changed_since

    def recopy(self, mapping: TableMapping, keys: Sequence[str]) -> int:
        """Copy nothing."""
        return len(keys)

    def write_state(
        self,
        mapping: TableMapping,
        parts: Callable[[], Iterable[Sequence[KeyedChange]]],
        session: SqlSession | None = None,
        *,
        complete: bool,
    ) -> bool:
        """Remember a state; one that is not complete was written over others."""
        changes = [change for part in parts() for change in part]
        self.take("state", [change.key for change in changes])
        self.states.append((complete, changes))
        return not complete


class Scene:
    """A feed over a stream in memory."""

    def __init__(self) -> None:
        self.stream = MemoryStream()
        self.applier = Recorder()
        self.stop = StopSwitch()
        self.feeds: list[ChangeFeed] = []

    def open(
        self,
        *,
        copying: bool = False,
        position: str = "",
        table: TableMapping | None = None,
        pass_hidden: bool = False,
        clock: Callable[[], float] = time.monotonic,
        unaltered: Callable[[], bool] | None = None,
        **given: Any,
    ) -> tuple[ChangeFeed, TableSubscription]:
        """Open a feed; unless ``copying``, as after the copy."""
        options = FeedOptions(**({"wait_timeout": DEADLINE, "flush_interval": 3600.0} | given))
        feed = ChangeFeed(self.stream, self.applier, options=options, stop=self.stop, clock=clock)
        self.feeds.append(feed)
        subscription = feed.add_subscription(table or mapping())
        if not copying:
            subscription.copy_finished()
        if unaltered is not None:
            of = subscription.mapping.source
            feed.confirm_by((of.schema, of.name), unaltered)
        if position:
            feed.start_from_position(position, pass_hidden=pass_hidden)
        else:
            feed.start()
        return feed, subscription


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)
