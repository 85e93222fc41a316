"""The switch: the target's tables get their names, the source's go out of the way (R15, R23).

In one try, with a session on each server; where there are several targets, each step on each::

    feed drained, applying paused
    target  LOCK TABLES _t_new WRITE         nobody else uses it
    source  LOCK TABLES t WRITE              waits for running transactions, as a swap's
    source  everything is received           nothing is missing
    target  flushed through its session      nothing is pending
    both    the noted tables, proven rows, counters, snapshot guard
    target  RENAME TABLE _t_new TO t         still locked: nobody can use it
    source  RENAME TABLE t TO _t_moved       decides
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
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.binlog.source import BinlogSource
from spirit_py.checkpoint.proofs import note_proofs
from spirit_py.classes import dataclass
from spirit_py.cutover.attempt import catch_up
from spirit_py.cutover.guard import SnapshotGuard
from spirit_py.cutover.plan import CutoverResult, TryFailed
from spirit_py.cutover.rename import end_session, quick_turns
from spirit_py.cutover.tries import Tries
from spirit_py.errors import CutoverFailure, HeldBack, OutcomeUnknown, ServerFault, SpiritError
from spirit_py.events.swap import RenameUnanswered, SwapDone
from spirit_py.locks.blockers import LockPolicy
from spirit_py.locks.look import LockRequest
from spirit_py.locks.named import named_lock_holder, take_named_lock
from spirit_py.locks.table import LockWatch, TableLock, let_go_when_silent, open_lock_session
from spirit_py.locks.turns import Front, LockTurns
from spirit_py.migration.doubts import require_settled
from spirit_py.migration.swap.same_tables import BACK, MOVED, require_same
from spirit_py.migration.swap.swap import swaps_of
from spirit_py.move.command import SwitchFailed, note_switched, run_switch_command
from spirit_py.move.run import MoveRun, put_back
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import Disposition, connection_lost, disposition
from spirit_py.mysql.kill import kill_session
from spirit_py.mysql.tables.identity import is_one_of
from spirit_py.mysql.tables.new_table import align_auto_increment, set_auto_increment
from spirit_py.sql import quote_table
from spirit_py.table.names import lock_name
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.cutover.plan import SwapGate
    from spirit_py.migration.pair import Pair
    from spirit_py.migration.swap.same_tables import Direction, SameTables
    from spirit_py.mysql.session import Session
    from spirit_py.table.names import Name, Swap

_HOLD_SECONDS: Final = 5.0
_TARGET_WAIT: Final = 5
_RENAME_WAIT: Final = 1
_LOOK_PAUSE: Final = 0.05
_LOOK_SECONDS: Final = 60.0
#: The command's own time, and some for its end.
_MORE_SECONDS: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class _Target:
    """One server of the tables that come into place; ``run`` faces it."""

    run: MoveRun
    pairs: Sequence[Pair]
    swaps: Sequence[Swap]
    guard: SnapshotGuard

    @property
    def tables(self) -> list[SameTables]:
        """The tables of its pairs, as noted."""
        return [pair.tables for pair in self.pairs]

    @property
    def arrive(self) -> str:
        """The RENAME that puts the tables in place."""
        return _renaming((s.schema, s.new, s.table) for s in self.swaps)

    @property
    def leave(self) -> str:
        """The RENAME that takes it back."""
        return _renaming((s.schema, s.table, s.new) for s in self.swaps)


@dataclass
class _Side:
    """The locking session of a server, its lock, and the named lock that shows its end."""

    session: Session
    lock: TableLock
    fence: str


@dataclass
class _Sides:
    """The source's side of a try, and each target's."""

    here: _Side
    theirs: list[tuple[_Target, _Side]]

    @property
    def all(self) -> list[_Side]:
        """All of them, the targets first."""
        return [*(side for _, side in self.theirs), self.here]

    @contextlib.contextmanager
    def kept_alive(self, longest: float, *, but: _Side | None = None) -> Iterator[None]:
        """Keep the sessions alive, but that of a side that works: no warnings may be read."""
        with contextlib.ExitStack() as stack:
            for side in self.all:
                if side is not but:
                    stack.enter_context(side.session.kept_alive(longest))
            yield


class Switch:
    """Puts tables out of place on one server, and in place on another: :meth:`run`.

    It may be called again after :class:`HeldBack`. ``check`` is called with the session that locks
    the incoming tables, and must be fast; ``behind`` with the place after a switch that was taken
    back, where a feed goes on. ``counters`` are AUTO_INCREMENT values that statements give.
    ``way_back`` notes, in a session of the source, the place from which the tables out of place
    follow, before the operator's command; empty: there is none any more.
    """

    def __init__(
        self,
        run: MoveRun,
        pairs: Sequence[Pair],
        direction: Direction,
        gate: SwapGate,
        *,
        check: Callable[[SqlSession], object],
        behind: Callable[[str], object],
        counters: Mapping[Name, str] | None = None,
        way_back: Callable[[Session, str], object] | None = None,
    ) -> None:
        self._run, self._pairs, self._gate = run, pairs, gate
        self._direction, self._further_check, self._behind = direction, check, behind
        self._counters = counters or {}
        self._way_back = way_back
        self._feed = pairs[0].feed
        self._swaps = list(dict.fromkeys(swaps_of(pairs, direction)))
        self.tables = [swap.name for swap in self._swaps]
        self._policy = LockPolicy.of(run.config)
        self._targets = [self._target(way) for way in dict.fromkeys(map(_facing, pairs))]
        self._front = Front(LockRequest(tables=self.tables, defines=True), self._policy.kills)
        self._turns = LockTurns(
            [(run.config.connection, self._front)],
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
            source=self._feed,
            servers=[run.config.connection, *run.config.targets],
            what="switch",
            intact="the source's tables are intact",
        )
        self._steps: dict[str, float] = {}
        self._held = 0.0
        self._after = ""
        self.swapped = False
        self.renaming = False

    def run(self) -> CutoverResult:
        """Make the switch; after CutoverFailure or SwitchFailed the source is in place again.

        OutcomeUnknown where it could not be seen whether it is.
        """
        return self._tries.run(self._try)

    def _target(self, way: MoveRun) -> _Target:
        own = [pair for pair in self._pairs if pair.job is way]
        swaps = swaps_of(own, self._direction)
        guard = SnapshotGuard(way.config.snapshot_guard, swaps, way.tell)
        return _Target(run=way, pairs=own, swaps=swaps, guard=guard)

    def _try(self) -> CutoverResult:
        self._tries.await_turn()
        catch_up(self._feed, self._run.stop)
        with contextlib.ExitStack() as stack:
            return self._attempt(stack)

    # -- one try

    def _attempt(self, stack: contextlib.ExitStack) -> CutoverResult:
        points.reach("switch.begin")
        config, wait = self._run.config, self._policy.wait
        watcher = stack.enter_context(
            connect(config.connection, role="cutover-watch", read_timeout=10)
        )
        self._prepare(watcher)
        stack.enter_context(self._feed.applies_paused())
        sides = self._sides(stack)
        self._turns.require_free([watcher])
        # If this process is frozen or cut off, each server soon ends its session and lock (R23).
        for side in sides.all:
            let_go_when_silent(side.session)
        watch = LockWatch(
            watcher,
            sides.here.session.id,
            wait=wait,
            hold=_HOLD_SECONDS,
            front=self._front,
            stop=self._run.stop,
        )
        if what := self._gate.too_old():
            raise HeldBack.by(what)
        stack.enter_context(quick_turns())
        for _, side in sides.theirs:
            with sides.kept_alive(_TARGET_WAIT + 1, but=side):
                side.lock.acquire()
        longest = wait + _HOLD_SECONDS + config.switch_timeout + _MORE_SECONDS
        with watch:
            with sides.kept_alive(wait + 1, but=sides.here):
                self._lock(sides, watch)
            began = time.monotonic()
            try:
                self._prove(sides, watch)
                with sides.kept_alive(longest):
                    self._rename(sides, watcher, watch)
            finally:
                self._release(sides)
                self._held = (time.monotonic() - began) * 1000
        points.reach("switch.unlocked")
        for target in self._targets:
            target.guard.report(target.run.config.there)
        return self._result()

    def _sides(self, stack: contextlib.ExitStack) -> _Sides:
        """Open the locking sessions; their ends are waited for before the feed applies again."""
        config = self._run.config
        hold = _HOLD_SECONDS + config.switch_timeout + _MORE_SECONDS

        def side(options: ConnectionOptions, tables: Sequence[Name], wait: int) -> _Side:
            session = open_lock_session(options, role="cutover", wait=wait, hold=hold)
            fence = lock_name("cutover", secrets.token_hex(8))
            stack.callback(end_session, options, session, fence)
            take_named_lock(session, fence)
            return _Side(session, TableLock(session, tables), fence)

        new = [(swap.schema, swap.new) for swap in self._swaps]
        theirs = [(one, side(one.run.config.there, new, _TARGET_WAIT)) for one in self._targets]
        here = side(config.connection, self.tables, math.ceil(self._policy.wait))
        return _Sides(here, theirs)

    def _prepare(self, watcher: Session) -> None:
        """Look at all servers, and note that a switch is begun; without a lock."""
        for target in self._targets:
            with target.run.session("cutover", there=True) as there:
                put_back(there, target.swaps, self._direction)
                require_same(watcher, target.tables, [(there, target.tables)])
                target.guard.prepare(there, target.run.config.there)
                for pair in target.pairs:
                    self._align(pair, watcher, there)
                    if self._direction is MOVED:
                        note_proofs(there, *pair.source_name, swap_begun=True)

    def _align(self, pair: Pair, here: Session, there: Session) -> None:
        if given := self._counters.get(pair.source_name):
            set_auto_increment(there, pair.mapping, given)
        else:
            align_auto_increment(here, pair.mapping, there)

    def _lock(self, sides: _Sides, watch: LockWatch) -> None:
        points.reach("switch.lock")
        limit = human_seconds(self._policy.wait)
        self._run.show(
            f"the lock of the switch (request {self._tries.number}, for {limit} at most)"
        )
        try:
            sides.here.lock.acquire()
        except ServerFault as fault:
            self._run.stop.check()
            if connection_lost(fault) or not watch.blockers:
                raise
            who = self._front.described()
            raise TryFailed(f"{watch.verdict or fault.text}; blocked by {who}") from fault
        finally:
            self._tries.waited_ms = sides.here.lock.waited_ms
        watch.holding()
        self._run.show("")
        points.reach("switch.locked")
        # RENAME needs more locks than LOCK TABLES took: LOCK INSTANCE FOR BACKUP stops it.
        for side in sides.all:
            side.session.execute(f"SET SESSION lock_wait_timeout = {_RENAME_WAIT}")

    def _prove(self, sides: _Sides, watch: LockWatch) -> None:
        """Raise unless RENAME may be sent: all is received and applied, and all locks are held."""
        try:
            with self._step("receive"), sides.kept_alive(_HOLD_SECONDS):
                self._feed.block_wait(timeout=_HOLD_SECONDS, session=sides.here.session)
            with self._step("flush"):
                self._flush(sides)
            if not self._feed.all_changes_flushed():
                raise TryFailed(f"{self._feed.pending()} changes were pending under the lock")
            with self._step("checks"):
                self._check(sides)
            with self._step("guard"):
                self._guard(sides)
            for side in sides.all:
                side.lock.verify()
        except SpiritError as error:
            self._run.stop.check()
            if watch.verdict:
                raise TryFailed(f"the table lock was released: {watch.verdict}") from error
            lost = not all(side.session.alive() for side in sides.all)
            if error.resumable and lost:
                raise TryFailed(f"a locking session was lost: {error.message}") from error
            raise
        self._run.stop.check()

    def _flush(self, sides: _Sides) -> None:
        for target, side in sides.theirs:
            with sides.kept_alive(_HOLD_SECONDS, but=side):
                for pair in target.pairs:
                    self._feed.flush_under_table_lock(side.session, pair.mapping)

    def _guard(self, sides: _Sides) -> None:
        """Apply the guards, at the same time: two statements of DDL for each table."""
        first, *others = [partial(t.guard.apply, side.session) for t, side in sides.theirs]
        if not others:
            first()
            return
        with ThreadPoolExecutor(len(others), thread_name_prefix="spirit-py-guard") as pool:
            applied = [pool.submit(one) for one in others]
            first()
            for one in applied:
                one.result()

    def _check(self, sides: _Sides) -> None:
        here = sides.here.session
        for _, side in sides.theirs:
            self._further_check(side.session)
        theirs = [(side.session, target.tables) for target, side in sides.theirs]
        require_same(here, (pair.tables for pair in self._pairs), theirs)
        for pair in self._pairs:
            pair.require_proven()
        require_settled((pair.doubts for pair in self._pairs), here)
        for target, side in sides.theirs:
            for pair in target.pairs:
                self._align(pair, here, side.session)

    # -- the RENAMEs

    @property
    def _away(self) -> str:
        return _renaming((s.schema, s.table, s.old) for s in self._swaps)

    def _rename(self, sides: _Sides, watcher: Session, watch: LockWatch) -> None:
        """Rename on the targets, then on the source, then run the operator's command.

        After a stop request nothing is sent but if :attr:`renaming` was set before it. The watch
        ends the source's lock where a target does not answer in time (R23).
        """
        self.renaming, arrived = True, False
        try:
            self._run.stop.check()
            if what := self._gate.last_word():
                raise HeldBack.by(what)
            with self._step("rename"):
                arrived = True
                for target, side in sides.theirs:
                    side.session.execute(target.arrive)
                    points.reach("switch.arrived")
                if not watch.finish():
                    raise TryFailed(f"the table lock was released: {watch.verdict}")
                self._feed.expect_own_ddl(sides.here.session.id, self._away)
                self._send_away(sides.here)
        except OutcomeUnknown:
            self._feed.stop()
            raise
        except (SpiritError, TryFailed):
            # The source's tables have kept their names, and nobody was sent anywhere: its clients
            # need not wait for a target that does not answer.
            with contextlib.suppress(ServerFault):
                sides.here.lock.release()
            if arrived:
                self._take_names_back(sides)
            self._feed.forget_own_ddl()
            self.renaming = False
            raise
        points.reach("switch.renamed")
        self._feed.stop()
        if self._way_back is not None:
            # Whoever is killed in the operator's command leaves the way back.
            with contextlib.suppress(SpiritError), self._step("position"):
                self._after = self._place_there(sides.theirs[0][1].session)
                self._way_back(watcher, self._after)
        with self._step("command"):
            self._switch_over(sides, watcher)
        self.swapped = True

    def _place_there(self, there: Session) -> str:
        """Return the place in the target's binlog from which its tables are followed."""
        config = self._run.config
        source = BinlogSource(config.there, config.feed, tell=self._run.tell)
        with contextlib.closing(source):
            return source.position_here(there)

    def _take_names_back(self, sides: _Sides) -> None:
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

    def _send_away(self, here: _Side) -> None:
        try:
            here.session.execute(self._away)
        except ServerFault as fault:
            if disposition(fault, committing=True) is not Disposition.UNKNOWN:
                raise
            self._run.tell(RenameUnanswered(reason=fault.message))
            here.session.close()
            if not self._is_away(here.fence):
                said = f"the connection was lost before RENAME took effect: {fault.message}"
                raise TryFailed(said) from fault

    def _is_away(self, fence: str) -> bool:
        """Look whether the RENAME was made, once its session has ended; or OutcomeUnknown."""
        noted = {pair.source_name: pair.tables.noted[pair.source_name] for pair in self._pairs}

        def all_are(session: Session, name: str) -> bool:
            return all(
                is_one_of(session, s.schema, getattr(s, name), noted[s.name]) for s in self._swaps
            )

        deadline = time.monotonic() + _LOOK_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(ServerFault), self._run.session("look") as session:
                if (holder := named_lock_holder(session, fence)) is not None:
                    kill_session(session, holder)
                elif all_are(session, "old"):
                    return True
                elif all_are(session, "table"):
                    return False
            self._run.stop.wait(_LOOK_PAUSE)
        away = ", ".join(quote_table(s.schema, s.old) for s in self._swaps)
        raise OutcomeUnknown(
            "the answer to RENAME was lost, and whether it was done could not be seen",
            hint=f"look at the source: the tables are moved if {away} exists; the same command"
            " goes on in both cases",
        )

    def _switch_over(self, sides: _Sides, watcher: Session) -> None:
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

    def _undo(self, sides: _Sides, watcher: Session, why: str) -> None:
        """Rename back: first where clients may have been sent already, and still wait."""
        try:
            for _, side in sides.theirs:
                side.lock.verify()
            for target, side in sides.theirs:
                side.session.execute(target.leave)
        except (CutoverFailure, ServerFault) as lost:
            raise OutcomeUnknown(
                f"the command of --on-switch failed ({why}), and the lock on the server to which it"
                f" was to switch was lost: clients may have written there ({lost.message})",
                hint="the tables stay there; send the application there, and run the same command"
                " again: it runs --on-switch once more",
            ) from lost
        points.reach("switch.undoing")
        back = _renaming((s.schema, s.old, s.table) for s in self._swaps)
        try:
            sides.here.session.execute(back)
            points.reach("switch.undone")
            # A feed that goes on begins after both RENAMEs, which would end it.
            self._behind(self._feed.position_here(sides.here.session))
            if self._way_back is not None:
                # Where it stays, a run that resumes forgets it.
                with contextlib.suppress(SpiritError):
                    self._way_back(watcher, "")
        except SpiritError as fault:
            raise OutcomeUnknown(
                f"the command of --on-switch failed ({why}), and it is not known whether the tables"
                f" were renamed back: {fault.message}",
                hint="the same command looks at both servers, and goes on from what it finds",
            ) from fault
        self.renaming = False
        raise SwitchFailed(
            f"the command of --on-switch failed: {why}; the tables are in their places again, and"
            " unlocked",
            hint="see why it failed, and run the same command again: it resumes",
        )

    def _release(self, sides: _Sides) -> None:
        """Release all locks, after success and failure alike; safe to call again."""
        for side in sides.all:
            # Where the session is lost or closed, the lock is gone with it.
            with contextlib.suppress(ServerFault):
                side.lock.release()
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
            position=self._feed.position(),
            killed=tuple(self._front.killed),
            steps_ms=self._steps,
            failures=tuple(self._tries.failures),
            guard="; ".join(dict.fromkeys(target.guard.outcome for target in self._targets)),
            after_rename=self._after,
        )


def _facing(pair: Pair) -> MoveRun:
    """Return the run that faces the server of a pair's target."""
    assert isinstance(pair.job, MoveRun)  # noqa: S101 - for the type checker
    return pair.job


def _renaming(names: Iterable[tuple[str, str, str]]) -> str:
    """Render the RENAME of tables, each given by its schema, its name, and the new one."""
    pairs = (f"{quote_table(schema, a)} TO {quote_table(schema, b)}" for schema, a, b in names)
    return f"RENAME TABLE {', '.join(pairs)}"
