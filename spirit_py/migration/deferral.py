"""The wait for the operator: the swap comes when the sentinel table is gone.

While the sentinel exists the feed goes on applying, and the tables are compared again and again.
A comparison that is under way when the sentinel goes is given up: the passes before it were
clean. Only one that had found a difference is made anew, from the start, before the swap.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from spirit_py.errors import MigrationFailure, ServerFault
from spirit_py.mysql.retry import retrying
from spirit_py.mysql.tables.new_table import create_sentinel
from spirit_py.sql import quote_table, string_literal
from spirit_py.stop import StopSwitch
from spirit_py.table.names import AuxiliaryNames
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.migration.copied import CopiedPair
    from spirit_py.migration.run import Run

_log = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 1.0


class SentinelGone(MigrationFailure):
    """Nobody defers the cutover any more; ends a comparison, never a migration."""


class Deferral:
    """The sentinels of a migration's tables: any of them defers the cutover of all.

    Args:
        works: the tables; the first one's sentinel is the one that is created.
    """

    def __init__(self, run: Run, works: Sequence[CopiedPair]) -> None:
        self._run = run
        self._works = works
        self._names = [
            (work.mapping.source.schema, AuxiliaryNames.of(work.mapping.source.name).sentinel)
            for work in works
        ]

    def create(self) -> None:
        """Create the sentinel, if it is not there."""
        schema, name = self._names[0]
        self._run.step("sentinel", lambda session: create_sentinel(session, schema, name))
        self._run.message(
            f"the cutover is deferred: DROP TABLE {quote_table(schema, name)} when it may swap"
        )

    def present(self) -> str:
        """Return the name of a sentinel that exists, or an empty string.

        A server that is away for a while is waited for.
        """
        self._run.stop.check()
        try:
            return str(retrying(self._run.stop)(self._look))
        except ServerFault:
            self._run.stop.check()
            raise

    def wait(self) -> None:
        """Wait until no sentinel exists, comparing the tables every so often.

        Raises:
            MigrationFailure: when the time is over; the same command carries on.
        """
        until = time.monotonic() + self._run.config.defer_timeout
        while name := self.present():
            self._run.figures.waiting_for = f"table {name} to be dropped"
            self._pause(until)
            if not self.present():
                break
            if time.monotonic() >= until:
                raise MigrationFailure(
                    f"the cutover was deferred for {human_seconds(self._run.config.defer_timeout)}"
                    f" and {name} still exists",
                    hint="run the same command again to go on waiting; drop the table to swap",
                )
            self._recheck()
        self._run.figures.waiting_for = ""
        self._run.message("no sentinel defers the cutover any more")

    def _pause(self, until: float) -> None:
        """Wait for the next comparison, the end of the wait, or the end of the sentinel."""
        again = min(until, time.monotonic() + self._run.config.recheck_interval)
        while time.monotonic() < again and self.present():
            self._run.stop.wait(_LOOK_SECONDS)
            self._run.stop.check()

    def _look(self) -> str:
        """Look once."""
        with self._run.session("sentinel") as session:
            for schema, name in self._names:
                found = session.query(
                    "SELECT 1 FROM information_schema.TABLES"
                    f" WHERE TABLE_SCHEMA = {string_literal(schema)}"
                    f" AND TABLE_NAME = {string_literal(name)}"
                )
                if found:
                    return f"{schema}.{name}"
        return ""

    def _recheck(self) -> None:
        """Compare all tables once; the end of the sentinel ends it."""
        for work in self._works:
            watched = _Watched(self._run.stop, self._look)
            try:
                with watched:
                    work.check(watched.stop)
            except SentinelGone:
                if self._run.figures.differences_under_way:
                    self._run.message(f"comparing {work.name} anew: a difference had been found")
                    work.check()
                    continue
                return


class _Watched:
    """A stop switch of its own for one comparison, which also stops when the run stops."""

    def __init__(self, outer: StopSwitch, look: Callable[[], str]) -> None:
        self.stop = StopSwitch()
        self._outer = outer
        self._look = look
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="spirit-py-sentinel", daemon=True)

    def __enter__(self) -> None:
        """Begin to look."""
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            reason = self._outer.reason
            if reason is not None:
                self.stop.request(reason)
                return
            try:
                if not self._look():
                    self.stop.request(SentinelGone("the sentinel was dropped"))
                    return
            except Exception:
                _log.debug("could not look for the sentinel", exc_info=True)
