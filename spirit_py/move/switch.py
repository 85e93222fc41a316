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
from spirit_py.cutover.attempt import catch_up
from spirit_py.cutover.guard import SnapshotGuard
from spirit_py.cutover.plan import CutoverResult, TryFailed
from spirit_py.cutover.rename import end_session, quick_turns
from spirit_py.cutover.tries import Tries
from spirit_py.errors import (
    CutoverFailure,
    HeldBack,
    MigrationFailure,
    OutcomeUnknown,
    ServerFault,
    SpiritError,
)
from spirit_py.events.swap import RenameUnanswered, SwapDone
from spirit_py.locks.blockers import LockPolicy
from spirit_py.locks.look import LockRequest
from spirit_py.locks.named import named_lock_holder, take_named_lock
from spirit_py.locks.table import LockWatch, TableLock, let_go_when_silent, open_lock_session
from spirit_py.locks.turns import Front, LockTurns
from spirit_py.migration.doubts import require_settled
from spirit_py.migration.swap.same_tables import BACK, MOVED, require_same
from spirit_py.migration.swap.swap import swaps_of
from spirit_py.move.command import SwitchFailed, note_away, note_switched, run_switch_command
from spirit_py.move.run import MoveRun, bring_home, place_there, put_back
from spirit_py.move.sides import (
    Incoming,
    LockSide,
    Outgoing,
    Sides,
    WatchedSide,
    at_once,
    flush_in_turns,
    rename_back,
    stop_all,
    unlock,
)
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import Disposition, connection_lost, disposition
from spirit_py.mysql.kill import kill_session
from spirit_py.mysql.tables.identity import is_one_of
from spirit_py.mysql.tables.new_table import align_auto_increment, set_auto_increment
from spirit_py.table.names import lock_name
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

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
_LOOK_PAUSE: Final = 0.05
_LOOK_SECONDS: Final = 60.0
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
        self._direction, self._further_check, self._behind = direction, check, behind
        self._counters = counters or {}
        self._way_back = way_back
        self._swaps = list(dict.fromkeys(swaps_of(pairs, direction)))
        self.tables = [swap.name for swap in self._swaps]
        self._policy = LockPolicy.of(run.config)
        ways = list(map(_facing, pairs))
        # One way of those that lead to a target, or away from a source, faces it.
        self._targets = [*map(self._target, {way.config.there: way for way in ways}.values())]
        self._origins = [*map(self._origin, {way.config.connection: way for way in ways}.values())]
        self._feeds = [origin.feed for origin in self._origins]
        self._turns = LockTurns(
            [(origin.run.config.connection, origin.front) for origin in self._origins],
            self._policy,
            run.stop,
            what="the lock of the switch",
            show=run.show,
            tell=run.tell,
            held_up=run.held_up,
            attend=gate.heed,
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
        self._after = ""
        self._noted = self.swapped = False
        self.renaming = False

    def run(self) -> CutoverResult:
        """Make the switch; after CutoverFailure or SwitchFailed the source is in place again.

        OutcomeUnknown where it could not be seen whether it is.
        """
        return self._tries.run(self._try)

    def _target(self, way: MoveRun) -> Incoming:
        own = [pair for pair in self._pairs if pair.job.config.there == way.config.there]
        guard = SnapshotGuard(way.config.snapshot_guard, self._swaps, way.tell)
        return Incoming(run=way, pairs=own, swaps=self._swaps, guard=guard)

    def _origin(self, way: MoveRun) -> Outgoing:
        own = [pair for pair in self._pairs if pair.job.config.connection == way.config.connection]
        front = Front(LockRequest(tables=self.tables, defines=True), self._policy.kills)
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
        watchers = [
            stack.enter_context(
                connect(origin.run.config.connection, role="cutover-watch", read_timeout=10)
            )
            for origin in self._origins
        ]
        self._prepare(watchers)
        for feed in self._feeds:
            stack.enter_context(feed.applies_paused())
        sides = self._sides(stack, watchers)
        self._turns.require_free(watchers)
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
                    self._rename(sides)
            finally:
                self._release(sides)
                if locked := [here.locked_at for here in sides.here if here.locked_at]:
                    self._held = (time.monotonic() - min(locked)) * 1000
        points.reach("switch.unlocked")
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
        for target in self._targets:
            with target.run.session("cutover", there=True) as there:
                put_back(there, target.swaps, self._direction)
                for origin, watcher in zip(self._origins, watchers, strict=True):
                    own = [pair for pair in target.pairs if pair.feed is origin.feed]
                    tables = [pair.tables for pair in own]
                    require_same(watcher, tables, [(there, tables)])
                    for pair in own:
                        self._align(pair, watcher, there)
                target.guard.prepare(there, target.run.config.there)
                for name in self.tables if self._direction is MOVED else ():
                    note_proofs(there, *name, swap_begun=True)

    def _align(self, pair: Pair, here: Session, there: Session) -> None:
        if given := self._counters.get(pair.source_name):
            set_auto_increment(there, pair.mapping, given)
        else:
            align_auto_increment(here, pair.mapping, there)

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
            with self._step("receive"), sides.kept_alive(_HOLD_SECONDS):
                for origin, side in sides.ours:
                    origin.feed.block_wait(timeout=_HOLD_SECONDS, session=side.session)
            with self._step("flush"):
                for target, there in sides.theirs:
                    with sides.kept_alive(_HOLD_SECONDS, but=[there]):
                        flush_in_turns(target.pairs, there.session)
            for feed in self._feeds:
                if not feed.all_changes_flushed():
                    raise TryFailed(f"{feed.pending()} changes were pending under the lock")
            with self._step("checks"):
                self._check(sides)
            with self._step("guard"):
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
        for _, there in sides.theirs:
            self._further_check(there.session)
        for origin, here in sides.ours:
            tables = [pair.tables for pair in origin.pairs]
            require_same(here.session, tables, sides.tables(origin))
            for pair in origin.pairs:
                pair.require_proven()
            require_settled((pair.doubts for pair in origin.pairs), here.session)
            for target, side in sides.theirs:
                for pair in target.pairs:
                    if pair.feed is origin.feed:
                        self._align(pair, here.session, side.session)

    # -- the RENAMEs

    def _rename(self, sides: Sides) -> None:
        """Rename on the targets, then on the sources, then run the operator's command.

        After a stop request nothing is sent but if :attr:`renaming` was set before it. A source's
        watch ends its lock where a target does not answer in time (R23).
        """
        self.renaming, arrived = True, False
        gone: list[tuple[Outgoing, WatchedSide]] = []
        try:
            self._run.stop.check()
            if what := self._gate.last_word():
                raise HeldBack.by(what)
            with self._step("rename"):
                arrived = True
                for target, there in sides.theirs:
                    there.session.execute(target.arrive)
                    points.reach("switch.arrived")
                for origin, side in sides.ours:
                    sides.require_targets()
                    if not side.watch.finish():
                        raise TryFailed(f"the table lock was released: {sides.verdict}")
                    origin.feed.expect_own_ddl(side.session.id, origin.away)
                    self._send_away(origin, side, alone=not gone)
                    gone.append((origin, side))
                    points.reach("switch.away")
                sides.require_targets()
        except OutcomeUnknown:
            stop_all(self._feeds)
            raise
        except (SpiritError, TryFailed) as error:
            # The others' tables have kept their names, and nobody was sent anywhere: their clients
            # need not wait for a server that does not answer.
            out = [side for _, side in gone]
            unlock([side for side in sides.here if side not in out])
            # Some sources may be out of the way: their clients wait for this.
            ended = self._bring_back(gone, error)
            unlock(out)
            if arrived:
                self._take_names_back(sides)
            for feed in self._feeds:
                feed.forget_own_ddl()
            self.renaming = False
            if ended is not None:
                raise ended from error
            raise
        points.reach("switch.renamed")
        stop_all(self._feeds)
        watcher = sides.here[0].watcher
        if len(sides.here) > 1:
            self._note_away(sides, watcher)
        if self._way_back is not None:
            # Whoever is killed in the operator's command leaves the way back.
            with contextlib.suppress(SpiritError), self._step("position"):
                self._after = place_there(self._run, sides.theirs[0][1].session)
                self._way_back(watcher, self._after)
        with self._step("command"):
            self._switch_over(sides, watcher)
        self.swapped = True

    def _note_away(self, sides: Sides, watcher: Session) -> None:
        """Note that this switch was made on all sources, and is not one that ended half-way."""
        try:
            note_away(watcher, self.tables, away=True)
            self._noted = True
        except SpiritError as fault:
            self._undo(sides, watcher, f"it was not called: {fault.message}")

    def _bring_back(
        self, gone: Sequence[tuple[Outgoing, WatchedSide]], error: Exception
    ) -> MigrationFailure | None:
        """Rename tables back that are out of the way where others stay; return what ends the run.

        Their feeds have met both RENAMEs: another run goes on behind them. OutcomeUnknown where
        some are left out of the way.
        """
        if not gone:
            return None
        said = f"the switch was made on {len(gone)} of {len(self._origins)} sources: {error}"
        stop_all(self._feeds)
        try:
            rename_back(gone, self._note_behind, again=self._bring_home)
        except SpiritError as fault:
            names = ", ".join(origin.moved_names for origin, _ in gone)
            raise OutcomeUnknown(
                f"{said}; whether {names} got their names back is not known: {fault.message}",
                hint="run the same command at once: it gives them their names back",
            ) from fault
        # A way back goes on in another process, as after the operator's command.
        failed = SwitchFailed if self._direction is BACK else CutoverFailure
        return failed(
            f"{said}; the tables of those are in their places again",
            hint="run the same command again: it looks at all sources, and resumes",
        )

    def _bring_home(self, origin: Outgoing, side: LockSide) -> None:
        """Rename a source's tables back in a new session, where the locking one is lost."""
        connection = origin.run.config.connection
        end_session(connection, side.session, side.fence)
        note = partial(self._behind, connection.address)
        bring_home(origin.run, self._swaps, self._direction, note)

    def _note_behind(self, origin: Outgoing, side: LockSide) -> None:
        """Have a feed that goes on begin after both RENAMEs, which would end it."""
        place = origin.feed.position_here(side.session)
        self._behind(origin.run.config.connection.address, place)

    def _take_names_back(self, sides: Sides) -> None:
        """Rename the incoming tables to their auxiliary names, before anybody can use them."""
        for target, side in sides.theirs:
            try:
                side.session.execute(target.leave)
            except ServerFault:
                # Not arrived, or the session is lost: the tables show it, once that has ended.
                end_session(target.run.config.there, side.session, side.fence)
                with contextlib.suppress(SpiritError):
                    again = partial(put_back, swaps=target.swaps, direction=self._direction)
                    target.run.step("cutover", again, there=True)

    def _send_away(self, origin: Outgoing, side: LockSide, *, alone: bool) -> None:
        """Send the RENAME; where others are away already, they do not wait until it is seen."""
        try:
            side.session.execute(origin.away)
        except ServerFault as fault:
            if disposition(fault, committing=True) is not Disposition.UNKNOWN:
                raise
            self._run.tell(RenameUnanswered(reason=fault.message))
            side.session.close()
            if not alone:
                where = origin.run.config.connection.address
                raise TryFailed(f"the answer of {where} to RENAME was lost") from fault
            if not self._is_away(origin, side.fence):
                said = f"the connection was lost before RENAME took effect: {fault.message}"
                raise TryFailed(said) from fault

    def _is_away(self, origin: Outgoing, fence: str) -> bool:
        """Look whether the RENAME was made, once its session has ended; or OutcomeUnknown."""
        noted = {pair.source_name: pair.tables.noted[pair.source_name] for pair in origin.pairs}

        def all_are(session: Session, name: str) -> bool:
            return all(
                is_one_of(session, s.schema, getattr(s, name), noted[s.name]) for s in self._swaps
            )

        deadline = time.monotonic() + _LOOK_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(ServerFault), origin.run.session("look") as session:
                if (holder := named_lock_holder(session, fence)) is not None:
                    kill_session(session, holder)
                elif all_are(session, "old"):
                    return True
                elif all_are(session, "table"):
                    return False
            self._run.stop.wait(_LOOK_PAUSE)
        raise OutcomeUnknown(
            "the answer to RENAME was lost, and whether it was done could not be seen",
            hint=f"look at {origin.run.config.connection.address}: its tables are out"
            f" of the way if {origin.moved_names} exists; the same command goes on in both cases",
        )

    def _switch_over(self, sides: Sides, watcher: Session) -> None:
        """Run the operator's command, under the locks; its failure renames the tables back."""
        if self._run.config.on_switch:
            why = run_switch_command(self._run, self.tables, back=self._direction is BACK)
            if why:
                self._undo(sides, watcher, why)
        points.reach("switch.commanded")
        if self._direction is MOVED:
            # A command that has run is not run again, if this can be written.
            with contextlib.suppress(ServerFault):
                note_switched(watcher, self.tables)

    def _undo(self, sides: Sides, watcher: Session, why: str) -> None:
        """Rename back: first where clients may have been sent already, and still wait."""
        try:
            sides.verify_targets()
            for target, there in sides.theirs:
                there.session.execute(target.leave)
        except (CutoverFailure, ServerFault) as lost:
            raise OutcomeUnknown(
                f"the command of --on-switch failed ({why}), and the lock on the server to which it"
                f" was to switch was lost: clients may have written there ({lost.message})",
                hint="the tables stay there; send the application there, and run the same command"
                " again: it runs --on-switch once more",
            ) from lost
        points.reach("switch.undoing")
        try:
            if self._noted:
                note_away(watcher, self.tables, away=False)
            rename_back(sides.ours, self._note_behind)
            if self._way_back is not None:
                # Where it stays, a run that resumes forgets it.
                with contextlib.suppress(SpiritError):
                    self._way_back(watcher, "")
        except SpiritError as fault:
            raise OutcomeUnknown(
                f"the command of --on-switch failed ({why}), and it is not known whether the tables"
                f" were renamed back: {fault.message}",
                hint="the same command looks at all servers, and goes on from what it finds",
            ) from fault
        self.renaming = False
        raise SwitchFailed(
            f"the command of --on-switch failed: {why}; the tables are in their places again, and"
            " unlocked",
            hint="see why it failed, and run the same command again: it resumes",
        )

    def _release(self, sides: Sides) -> None:
        """Release all locks, after success and failure alike; safe to call again."""
        unlock(sides.all)
        for side in sides.all:
            side.session.close()

    @contextlib.contextmanager
    def _step(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._steps[name] = (time.monotonic() - began) * 1000

    def _result(self) -> CutoverResult:
        steps = {name: round(ms, 3) for name, ms in self._steps.items()}
        done = SwapDone(
            tries=self._tries.number,
            lock_wait_ms=round(self._tries.waited_ms, 3),
            lock_held_ms=round(self._held, 3),
            steps_ms=steps,
        )
        self._run.tell(done)
        return CutoverResult(
            attempts=self._tries.number,
            lock_wait_ms=self._tries.waited_ms,
            lock_held_ms=self._held,
            position=self._feeds[0].position(),
            killed=tuple(one for origin in self._origins for one in origin.front.killed),
            steps_ms=self._steps,
            failures=tuple(self._tries.failures),
            guard="; ".join(dict.fromkeys(target.guard.outcome for target in self._targets)),
            after_rename=self._after,
        )


def _facing(pair: Pair) -> MoveRun:
    """Return the run that faces the server of a pair's target."""
    assert isinstance(pair.job, MoveRun)  # noqa: S101 - for the type checker
    return pair.job
