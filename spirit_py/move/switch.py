"""The switch: the target's tables get their names, the source's go out of the way (R15, R23).

In one try, with a session on each server; where there are several targets or sources, each step on
each, and the locks of several sources at the same time::

    feed drained, applying paused
    target  LOCK TABLES _t_new WRITE         nobody else uses it
    source  LOCK TABLES t WRITE              waits for running transactions, as a swap's
    source  everything is received           nothing is missing
    target  flushed through its session      nothing is pending
    both    the noted tables, proven rows, counters, snapshot guard
    target  RENAME TABLE _t_new TO t         still locked: nobody can use it
    source  RENAME TABLE t TO _t_moved       decides; of several sources the last one
    the operator's command                   bounded; its failure renames both back
    unlock all

A client of the source gets an error from the second RENAME on, one of the target waits for the
unlock. So the command must not wait for a query on the tables. Whoever is killed in between leaves
the tables moved, and the same command goes on: it runs the operator's command (again).
"""

from __future__ import annotations

import contextlib
import math
import secrets
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.checkpoint.proofs import note_proofs
from spirit_py.classes import replace
from spirit_py.cutover.attempt import catch_up
from spirit_py.cutover.guard import SnapshotGuard
from spirit_py.cutover.plan import CutoverResult, TryFailed, timed
from spirit_py.cutover.rename import end_session, quick_turns
from spirit_py.cutover.tries import Tries
from spirit_py.errors import HeldBack, ServerFault, SpiritError
from spirit_py.locks.blockers import LockPolicy
from spirit_py.locks.look import LockRequest
from spirit_py.locks.named import take_named_lock
from spirit_py.locks.table import LockWatch, TableLock, let_go_when_silent, open_lock_session
from spirit_py.locks.turns import Front, LockTurns
from spirit_py.migration.doubts import require_settled
from spirit_py.migration.swap.same_tables import BACK, MOVED, require_same
from spirit_py.migration.swap.swap import Stopwatch, swaps_of
from spirit_py.move.renames import Renames
from spirit_py.move.run import MoveRun, note_switched_there, put_back
from spirit_py.move.sides import (
    Incoming,
    LockSide,
    Outgoing,
    Sides,
    WatchedSide,
    at_once,
    flush_in_turns,
    require_no_keys,
    require_no_triggers,
    unlock,
)
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import connection_lost
from spirit_py.mysql.replication import replica_status
from spirit_py.mysql.tables.new_table import align_apart, set_auto_increment
from spirit_py.preflight.checks.other_writers import require_still_here
from spirit_py.table.names import lock_name
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.cutover.plan import SwapGate
    from spirit_py.migration.pair import Pair
    from spirit_py.migration.swap.same_tables import Direction
    from spirit_py.mysql.session import Session
    from spirit_py.table.names import Name

_HOLD_SECONDS: Final = 5.0
_TARGET_WAIT: Final = 5
_RENAME_WAIT: Final = 1
#: The command's own time, and some for its end.
_MORE_SECONDS: Final = 30.0


class Switch:
    """Puts tables out of place on one server, and in place on another: :meth:`run`.

    It may be called again after :class:`HeldBack`. ``check`` is called with the session that locks
    the incoming tables, and must be fast; ``behind`` with the address of a source, and the place
    after a switch that was taken back, where its feed goes on. ``counters`` are AUTO_INCREMENT
    values that statements give. ``way_back`` notes, in a session of the source, the place from
    which the tables out of place follow, before the operator's command; empty: there is none.
    """

    def __init__(
        self,
        run: MoveRun,
        pairs: Sequence[Pair],
        direction: Direction,
        gate: SwapGate,
        *,
        check: Callable[[SqlSession], object],
        behind: Callable[[str, str], object],
        counters: Mapping[Name, str] | None = None,
        way_back: Callable[[Session, str], object] | None = None,
    ) -> None:
        self._run, self._pairs, self._gate = run, pairs, gate
        self._direction, self._further_check = direction, check
        self._counters, self._way_back = counters or {}, way_back
        self._swaps = list(dict.fromkeys(swaps_of(pairs, direction)))
        self.tables = [swap.name for swap in self._swaps]
        self._policy = LockPolicy.of(run.config)
        #: Only the tries count, over all calls: not what holds the switch back in between.
        self._tried = Stopwatch()
        ways = list(map(_facing, pairs))
        # One way of those that lead to a target, or away from a source, faces it.
        self._targets = [*map(self._target, {way.config.there: way for way in ways}.values())]
        self._origins = [*map(self._origin, {way.config.connection: way for way in ways}.values())]
        self._feeds = [origin.feed for origin in self._origins]
        fronts = [(origin.run.config.connection, origin.front) for origin in self._origins]
        # A backup there would keep the RENAME waiting while the source is locked.
        backup = LockRequest(tables=(), defines=True)
        fronts += [
            (target.run.config.there, Front(backup, clock=self._tried)) for target in self._targets
        ]
        self._turns = LockTurns(
            fronts,
            self._policy,
            run.stop,
            what="the lock of the switch",
            show=run.show,
            tell=run.tell,
            held_up=run.held_up,
            attend=gate.heed,
            clock=self._tried,
        )
        self._tries = Tries(
            turns=self._turns,
            gate=gate,
            sources=self._feeds,
            servers=[run.config.connection, *run.config.others],
            what="switch",
            intact="the source's tables are intact",
        )
        self._steps: dict[str, float] = {}
        self._held = 0.0
        self._renames = Renames(
            run,
            self._swaps,
            direction,
            gate,
            steps=self._steps,
            behind=behind,
            way_back=way_back,
        )

    @property
    def renaming(self) -> bool:
        """Whether a RENAME was or may be sent, and is not known to have failed."""
        return self._renames.renaming

    @property
    def swapped(self) -> bool:
        """Whether the switch is made."""
        return self._renames.made

    def run(self) -> CutoverResult:
        """Make the switch; after CutoverFailure or SwitchFailed the source is in place again.

        OutcomeUnknown where it could not be seen whether it is.
        """
        with self._tried:
            return self._tries.run(self._try)

    def _target(self, way: MoveRun) -> Incoming:
        own = [pair for pair in self._pairs if pair.job.config.there == way.config.there]
        guard = SnapshotGuard(way.config.snapshot_guard, self._swaps, way.tell)
        return Incoming(run=way, pairs=own, swaps=self._swaps, guard=guard)

    def _origin(self, way: MoveRun) -> Outgoing:
        own = [pair for pair in self._pairs if pair.job.config.connection == way.config.connection]
        request = LockRequest(tables=self.tables, defines=True)
        front = Front(request, self._policy.kills, clock=self._tried)
        return Outgoing(run=way, pairs=own, swaps=self._swaps, front=front)

    def _try(self) -> CutoverResult:
        self._tries.await_turn()
        for feed in self._feeds:
            catch_up(feed, self._run.stop)
        with contextlib.ExitStack() as stack:
            return self._attempt(stack)

    # -- one try

    def _attempt(self, stack: contextlib.ExitStack) -> CutoverResult:
        points.reach("switch.begin")
        config, wait = self._run.config, self._policy.wait
        watchers = [stack.enter_context(_watching(origin)) for origin in self._origins]
        self._prepare(watchers)
        for feed in self._feeds:
            stack.enter_context(feed.applies_paused(patient=False))
        sides = self._sides(stack, watchers)
        self._turns.require_free([*watchers, *(side.session for _, side in sides.theirs)])
        # If this process is frozen or cut off, each server soon ends its session and lock (R23).
        for side in sides.all:
            let_go_when_silent(side.session)
        if what := self._gate.too_old():
            raise HeldBack.by(what)
        stack.enter_context(quick_turns())
        for _, side in sides.theirs:
            with sides.kept_alive(_TARGET_WAIT + 1, but=[side]):
                side.lock.acquire()
        longest = wait + _HOLD_SECONDS + config.switch_timeout + _MORE_SECONDS
        with contextlib.ExitStack() as watches:
            for here in sides.here:
                watches.enter_context(here.watch)
            try:
                with sides.kept_alive(wait + 1, but=sides.here):
                    self._lock(sides)
                self._prove(sides)
                with sides.kept_alive(longest):
                    self._renames.make(sides)
            finally:
                unlock(sides.all)
                for side in sides.all:
                    side.session.close()
                if locked := [here.locked_at for here in sides.here if here.locked_at]:
                    self._held = (time.monotonic() - min(locked)) * 1000
        points.reach("switch.unlocked")
        if self._renames.told and self._way_back is None:
            note_switched_there(self._run, self.tables)
        for target in self._targets:
            target.guard.report(target.run.config.there)
        return self._result()

    def _sides(self, stack: contextlib.ExitStack, watchers: Sequence[Session]) -> Sides:
        """Open the locking sessions; their ends are waited for before the feeds apply again."""
        hold = _HOLD_SECONDS + self._run.config.switch_timeout + _MORE_SECONDS

        def side(options: ConnectionOptions, tables: Sequence[Name], wait: int) -> LockSide:
            session = open_lock_session(options, role="cutover", wait=wait, hold=hold)
            fence = lock_name("cutover", secrets.token_hex(8))
            stack.callback(end_session, options, session, fence)
            take_named_lock(session, fence)
            return LockSide(session, TableLock(session, tables), fence)

        def watched(origin: Outgoing, watcher: Session) -> WatchedSide:
            wait = self._policy.wait
            own = side(origin.run.config.connection, self.tables, math.ceil(wait))
            watch = LockWatch(
                watcher,
                own.session.id,
                again=partial(_watching, origin),
                wait=wait,
                hold=_HOLD_SECONDS,
                front=origin.front,
                stop=self._run.stop,
            )
            return WatchedSide(own.session, own.lock, own.fence, watcher, watch)

        new = [(swap.schema, swap.new) for swap in self._swaps]
        theirs = [(one, side(one.run.config.there, new, _TARGET_WAIT)) for one in self._targets]
        ours = [(o, watched(o, w)) for o, w in zip(self._origins, watchers, strict=True)]
        return Sides(ours, theirs)

    def _prepare(self, watchers: Sequence[Session]) -> None:
        """Look at all servers, and note that a switch is begun; without a lock."""
        for origin, watcher in zip(self._origins, watchers, strict=True):
            config = origin.run.config
            require_still_here(watcher, config, self.tables, config.connection.address)
        for target in self._targets:
            with target.run.session("cutover", there=True) as there:
                allowed = "read_only" if self._may_be_fenced(there) else ""
                config = target.run.config
                require_still_here(
                    there, config, self.tables, config.there.address, allowed=allowed
                )
                put_back(there, target.swaps, self._direction)
                require_no_keys(there, target.swaps)
                for origin, watcher in zip(self._origins, watchers, strict=True):
                    own = [pair for pair in target.pairs if pair.feed is origin.feed]
                    tables = [pair.tables for pair in own]
                    require_same(watcher, tables, [(there, tables)])
                    self._align(own, watcher, there)
                target.guard.prepare(there, target.run.config.there)
                for name in self.tables if self._direction is MOVED else ():
                    note_proofs(there, *name, swap_begun=True)

    def _may_be_fenced(self, there: Session) -> bool:
        """Return whether the operator's command may lift a server's read_only, at a revert."""
        fences = self._direction is BACK and bool(self._run.config.on_switch)
        return fences and not replica_status(there)

    def _align(self, pairs: Sequence[Pair], here: Session, there: Session) -> None:
        mappings = {pair.source_name: pair.mapping for pair in pairs}
        for name in mappings.keys() & self._counters.keys():
            set_auto_increment(there, mappings.pop(name), self._counters[name])
        align_apart(here, there, mappings.values())

    def _lock(self, sides: Sides) -> None:
        """Lock the sources' tables, all at the same time."""
        points.reach("switch.lock")
        limit = human_seconds(self._policy.wait)
        self._run.show(
            f"the lock of the switch (request {self._tries.number}, for {limit} at most)"
        )
        try:
            at_once([partial(self._lock_one, origin, side) for origin, side in sides.ours])
        finally:
            self._tries.waited_ms = max(side.lock.waited_ms for side in sides.here)
        self._run.show("")
        points.reach("switch.locked")
        # RENAME needs more locks than LOCK TABLES took: LOCK INSTANCE FOR BACKUP stops it.
        for side in sides.all:
            side.session.execute(f"SET SESSION lock_wait_timeout = {_RENAME_WAIT}")

    def _lock_one(self, origin: Outgoing, side: WatchedSide) -> None:
        watch = side.watch
        try:
            side.lock.acquire()
        except ServerFault as fault:
            self._run.stop.check()
            if connection_lost(fault) or not watch.blockers:
                raise
            who = origin.front.described()
            raise TryFailed(f"{watch.verdict or fault.text}; blocked by {who}") from fault
        side.locked_at = time.monotonic()
        watch.holding()

    def _prove(self, sides: Sides) -> None:
        """Raise unless RENAME may be sent: all is received and applied, and all locks are held."""
        try:
            with timed(self._steps, "receive"), sides.kept_alive(_HOLD_SECONDS):
                for origin, side in sides.ours:
                    origin.feed.block_wait(timeout=_HOLD_SECONDS, session=side.session)
            with timed(self._steps, "flush"):
                for target, there in sides.theirs:
                    with sides.kept_alive(_HOLD_SECONDS, but=[there]):
                        flush_in_turns(target.pairs, there.session)
            for feed in self._feeds:
                if not feed.all_changes_flushed():
                    raise TryFailed(f"{feed.pending()} changes were pending under the lock")
            # With many tables one server may hear nothing for seconds while others work.
            with sides.kept_alive(_HOLD_SECONDS):
                with timed(self._steps, "checks"):
                    self._check(sides)
                with timed(self._steps, "guard"):
                    # At the same time: two statements of DDL for each table.
                    at_once([partial(t.guard.apply, own.session) for t, own in sides.theirs])
                for each in sides.all:
                    each.lock.verify()
        except SpiritError as error:
            self._run.stop.check()
            if sides.verdict:
                raise TryFailed(f"the table lock was released: {sides.verdict}") from error
            lost = not all(side.session.alive() for side in sides.all)
            if error.resumable and lost:
                raise TryFailed(f"a locking session was lost: {error.message}") from error
            raise
        self._run.stop.check()

    def _check(self, sides: Sides) -> None:
        for target, there in sides.theirs:
            self._further_check(there.session)
            require_no_triggers(there.session, target.swaps)
        for origin, here in sides.ours:
            tables = [pair.tables for pair in origin.pairs]
            require_same(here.session, tables, sides.tables(origin))
            for pair in origin.pairs:
                pair.require_proven()
            require_settled((pair.doubts for pair in origin.pairs), here.session)
            for target, side in sides.theirs:
                own = [pair for pair in target.pairs if pair.feed is origin.feed]
                self._align(own, here.session, side.session)

    def _result(self) -> CutoverResult:
        result = CutoverResult(
            attempts=self._tries.number,
            lock_wait_ms=self._tries.waited_ms,
            lock_held_ms=self._held,
            position=self._feeds[0].position(),
            killed=tuple(one for origin in self._origins for one in origin.front.killed),
            steps_ms=self._steps,
            failures=tuple(self._tries.failures),
            guard="; ".join(dict.fromkeys(target.guard.outcome for target in self._targets)),
            after_rename=self._renames.place,
        )
        self._run.tell(replace(result.event, back=self._direction is BACK))
        return result


def _watching(origin: Outgoing) -> Session:
    return connect(origin.run.config.connection, role="cutover-watch", read_timeout=10)


def _facing(pair: Pair) -> MoveRun:
    """Return the run that faces the server of a pair's target."""
    assert isinstance(pair.job, MoveRun)  # noqa: S101 - for the type checker
    return pair.job
