"""The wait for the operator: the swap is made when no sentinel, pause or hook holds it back.

Meanwhile changes are applied, and the tables compared repeatedly. A comparison that runs when the
wait is over is ended, because earlier passes were clean; it is repeated only if it had found a
difference.
"""

from __future__ import annotations

import contextlib
import logging
import shlex
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.cutover.plan import SwapGate
from spirit_py.errors import MigrationFailure, ServerFault
from spirit_py.events.swap import CutoverDeferred, CutoverReleased
from spirit_py.mysql.retry import RenewedSession, retrying
from spirit_py.mysql.tables.definition import existing_tables
from spirit_py.mysql.tables.new_table import create_sentinel, drop_sentinel
from spirit_py.pace import Work, await_turn
from spirit_py.phases import Phase
from spirit_py.preflight.checks.other_writers import require_still_here
from spirit_py.sql import quote_table
from spirit_py.table.names import AuxiliaryNames
from spirit_py.threads import Background
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.migration.copied_pair import CopiedPair
    from spirit_py.migration.run import Run
    from spirit_py.table.names import Name

_log = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 1.0
_ANSWER_WITHIN: Final = 20


class SentinelDropped(MigrationFailure):
    """The cutover is no longer deferred; ends a comparison, never a migration."""

    error_code = ErrorCode.SWAP_HELD_BACK


class Deferral(SwapGate):
    """The sentinels of a migration's tables: any of them defers the cutover of all."""

    def __init__(self, run: Run, pairs: Sequence[CopiedPair]) -> None:
        self._run = run
        self._pairs = pairs
        self._names = [
            (pair.mapping.source.schema, AuxiliaryNames.of(pair.mapping.source.name).sentinel)
            for pair in pairs
        ]
        self._seen = 0
        self._found: Name | None = None
        self._told: Name | None = None
        #: Since when a sentinel is there, in seconds that a pause does not count.
        self._since: float | None = None
        #: The session of :meth:`wait`, which may look for days.
        self._session: RenewedSession | None = None

    def create(self) -> None:
        """Create the sentinel, if it is not there; not where an operator lets the swap happen."""
        schema, name = self._names[0]
        self._run.step("sentinel", lambda session: create_sentinel(session, schema, name))
        if self._run.state.undeferred:
            # Asked for meanwhile, and perhaps before there was a sentinel to drop.
            self._run.step("sentinel", lambda session: drop_sentinel(session, schema, name))
            return
        self._tell((schema, name))

    def present(self) -> str:
        """Return the name of a sentinel that exists, or an empty string; waits for the server."""
        self._run.stop.check()
        # Those that are counted after this may have their sentinel after the look.
        counted = self._run.state.postponements
        try:
            self._found = retrying(self._run.stop)(partial(self._look, self._session))
        except ServerFault:
            self._run.stop.check()
            raise
        self._seen = counted
        if self._found is None:
            self._told = None
            return ""
        return ".".join(self._found)

    def held_back(self) -> str:
        """Return what holds the swap back, for messages; an empty string for nothing."""
        if reason := self._run.pace.reason(Work.SWAP):
            return reason
        if name := self.present():
            return f"table {name}"
        return f"the hook ({why})" if (why := self._run.veto.held_back()) else ""

    def _deferred(self) -> str:
        if name := self.present():
            return f"table {name} to be dropped (spirit-py ctl cutover)"
        return self._disagreement()

    def _disagreement(self) -> str:
        paused, veto = self._run.settings.current.paused, self._run.veto
        if veto.asks and paused:
            return f"the end of the pause ({paused})"
        return f"the hook to agree: {why}" if (why := veto.held_back()) else ""

    def try_ended(self) -> None:
        """Ask the hook again before the next try."""
        self._run.veto.try_ended()

    def too_old(self) -> str:
        """Return that the answer of the hook counts no more; empty where it does."""
        return self._run.veto.too_old()

    def last_word(self) -> str:
        """Return what an operator asked for since the last look; no I/O. Load counts no more."""
        if self._run.state.postponements != self._seen:
            return "an operator's postponement"
        return self._run.giving_up or self._run.settings.current.paused

    def pass_when_free(self) -> None:
        """Wait until nothing holds the swap back. Raises as :meth:`wait`."""
        while self.held_back():
            await_turn(self._run.pace, Work.SWAP, pause=self._run.stop.pause, show=self._run.show)
            if self._deferred():
                if self._run.state.phase is not Phase.SENTINEL:
                    self._run.enter(Phase.SENTINEL)
                self.wait()

    def wait(self) -> None:
        """Wait for sentinel and hook, comparing at times; MigrationFailure when time is over."""
        with self._asking() as session:
            self._session = session
            try:
                self._wait()
            finally:
                self._session = None
        self._run.show("")
        self._run.tell(CutoverReleased())

    def _wait(self) -> None:
        self._since = None
        while why := self._deferred():
            self._tell(self._found)
            self._run.show(why)
            self._pause()
            if not self._deferred():
                break
            if self._is_over() and self._found:
                raise self._overdue(self._found)
            self._require_still_here()
            self._recheck()

    def _overdue(self, sentinel: Name) -> MigrationFailure:
        return MigrationFailure(
            f"the cut-over was deferred for {human_seconds(self._run.config.defer_timeout)}"
            f" and {'.'.join(sentinel)} still exists",
            hint="run the same command again to go on waiting; drop the table to swap",
            error_code=ErrorCode.SWAP_HELD_BACK,
        )

    def _require_still_here(self) -> None:
        """Ask the server of each table: a move may have several sources."""
        jobs = {pair.job.config.connection: pair.job for pair in self._pairs}
        for connection, job in jobs.items():
            here = (pair for pair in self._pairs if pair.job.config.connection == connection)
            tables = [pair.source_name for pair in here]
            job.step("sentinel", partial(require_still_here, config=job.config, tables=tables))

    def _tell(self, sentinel: Name | None) -> None:
        if sentinel is None or sentinel == self._told:
            return
        self._told = sentinel
        source = self._pairs[self._names.index(sentinel)].mapping.source
        named = shlex.join(["--database", source.schema, "--table", source.name])
        self._run.tell(
            CutoverDeferred(
                sentinel=".".join(sentinel),
                statement=f"DROP TABLE {quote_table(*sentinel)}",
                command=f"spirit-py ctl {self._run.config.connection.words} {named} cutover",
            )
        )

    def _is_over(self) -> bool:
        """Whether a sentinel has been there for too long."""
        now = self._run.settings.unpaused()
        if not self._found:
            self._since = None
            return False
        self._since = now if self._since is None else self._since
        return now - self._since >= self._run.config.defer_timeout

    def _pause(self) -> None:
        again = time.monotonic() + self._run.config.recheck_interval
        while time.monotonic() < again and not self._is_over():
            if not (why := self._deferred()):
                return
            # Created since the wait began, or there is another one.
            self._tell(self._found)
            self._run.show(why)
            self._run.stop.pause(_LOOK_SECONDS)

    def _asking(self) -> contextlib.closing[RenewedSession]:
        """Return a session that is opened at need, for the looks of one thread."""
        opened = partial(self._run.session, "sentinel", read_timeout=_ANSWER_WITHIN)
        return contextlib.closing(RenewedSession(opened))

    def _look(self, kept: RenewedSession | None) -> Name | None:
        if kept is not None:
            return kept.ask(self._sentinel)
        with self._asking() as once:
            return once.ask(self._sentinel)

    def _sentinel(self, session: SqlSession) -> Name | None:
        found = (one for one in self._names if existing_tables(session, one[0], one[1:]))
        return next(found, None)

    def _recheck(self) -> None:
        try:
            for pair in self._pairs:
                try:
                    self._check_while_deferred(pair)
                except SentinelDropped:
                    found = self._run.figures.differences_under_way
                    if not (found or pair.stopped_with_differences()):
                        return
                    pair.check(why="a difference had been found")
        finally:
            self._run.engines.rest()

    def _check_while_deferred(self, pair: CopiedPair) -> None:
        stop = self._run.stop.linked()

        def watch(stopping: threading.Event) -> None:
            with self._asking() as session:
                while not stopping.wait(_LOOK_SECONDS):
                    try:
                        self._found = self._look(session)
                        # The comparison may be held back for longer than the time that is left.
                        if self._is_over() and self._found:
                            stop.request(self._overdue(self._found))
                            return
                        if not (self._found or self._disagreement()):
                            stop.request(SentinelDropped("the sentinel was dropped"))
                            return
                    except Exception:
                        _log.debug("could not look for the sentinel", exc_info=True)

        with Background("sentinel", watch):
            pair.check(stop)
