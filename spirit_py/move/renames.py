"""The RENAMEs of a switch and the operator's command, and what takes both back (R15, R17, R23).

The tables of the targets get their names first, and those of the sources lose theirs after that:
the last of these RENAMEs decides. Whatever fails before the command has ended is taken back.
"""

from __future__ import annotations

import contextlib
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.checkpoint.proofs import noted_proof
from spirit_py.checkpoint.record import MoveNote, home_of
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import replace
from spirit_py.codes import ErrorCode
from spirit_py.cutover.plan import TryFailed, timed
from spirit_py.cutover.rename import end_session
from spirit_py.errors import (
    CutoverFailure,
    HeldBack,
    MigrationFailure,
    OutcomeUnknown,
    ServerFault,
    SpiritError,
)
from spirit_py.events.swap import MoveSwitching, RenameUnanswered
from spirit_py.hooks import call
from spirit_py.locks.named import named_lock_holder
from spirit_py.migration.swap.same_tables import BACK, MOVED
from spirit_py.move.run import put_back
from spirit_py.move.sides import bring_home, place_there, unlock
from spirit_py.mysql.facts import READ_ONLY, read_facts, read_only_by
from spirit_py.mysql.faults import Disposition, connection_lost, disposition, fatal
from spirit_py.mysql.kill import kill_session
from spirit_py.mysql.tables.identity import is_one_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from spirit_py.contracts import SqlSession
    from spirit_py.cutover.plan import SwapGate
    from spirit_py.migration.swap.same_tables import Direction
    from spirit_py.move.run import MoveRun
    from spirit_py.move.sides import Incoming, LockSide, Outgoing, Sides, WatchedSide
    from spirit_py.mysql.session import Session
    from spirit_py.mysql.tables.identity import Identity
    from spirit_py.table.names import Name, Swap

_LOOK_PAUSE: Final = 0.05
_LOOK_SECONDS: Final = 60.0
#: While a target does not take its tables' names back, the sources' clients wait.
_LEAVE_SECONDS: Final = 10.0
_LOOKS_AGAIN: Final = "the same command looks at all servers, and goes on from what it finds"


class SwitchFailed(MigrationFailure, code=ErrorCode.SWITCH_FAILED):
    """The operator's command has failed; the tables are as before the switch."""


class _Unanswered(TryFailed):
    """The answer to a RENAME was lost where other sources' tables are away already."""


class Renames:
    """Renames the tables of a switch, over all its tries: :meth:`make` in each.

    ``steps`` gets what each step takes; ``behind`` and ``way_back`` are those of the switch.
    ``place``: the one that ``way_back`` has noted. ``told``: the source has noted that the
    operator's command has run.
    """

    def __init__(
        self,
        run: MoveRun,
        swaps: Sequence[Swap],
        direction: Direction,
        gate: SwapGate,
        *,
        steps: dict[str, float],
        behind: Callable[[str, str], object],
        way_back: Callable[[Session, str], object] | None,
    ) -> None:
        self._run, self._swaps, self._direction, self._gate = run, swaps, direction, gate
        self._tables = [swap.name for swap in swaps]
        self._steps, self._behind, self._way_back = steps, behind, way_back
        self._noted = False
        self.renaming = self.made = self.told = False
        self.place = ""

    def make(self, sides: Sides) -> None:
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
            with timed(self._steps, "rename"):
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
            sides.stop_following()
            raise
        except (SpiritError, TryFailed) as error:
            # The others' tables have kept their names, and nobody was sent anywhere: their clients
            # need not wait for a server that does not answer.
            out = [side for _, side in gone]
            unlock([side for side in sides.here if side not in out])
            unseen = sides.ours[len(gone)] if isinstance(error, _Unanswered) else None
            # Some sources may be out of the way: their clients wait for this.
            ended = self._bring_back(sides, gone, error, unseen)
            unlock(out)
            if arrived:
                self._take_names_back(sides)
            for feed in sides.feeds:
                feed.forget_own_ddl()
            self.renaming = False
            if ended is not None:
                raise ended from error
            raise
        points.reach("switch.renamed")
        sides.stop_following()
        watcher = sides.here[0].watcher
        self._note_made(sides, watcher)
        with timed(self._steps, "command"):
            self._switch_over(sides, watcher)
        self.made = True

    def _note_made(self, sides: Sides, watcher: Session) -> None:
        """Note, for a kill in the command, that all sources have switched, and their way back."""
        why = "it was not called: "
        try:
            if len(sides.here) > 1:
                note_move(watcher, self._tables, away=True)
                self._noted = True
            if self._way_back is not None:
                why += "the place of the way back is not noted: "
                with timed(self._steps, "position"):
                    self.place = place_there(self._run, sides.theirs[0][1].session)
                    self._way_back(watcher, self.place)
        except SpiritError as fault:
            self._undo(sides, watcher, f"{why}{fault.message}")

    def _bring_back(
        self,
        sides: Sides,
        gone: Sequence[tuple[Outgoing, WatchedSide]],
        error: Exception,
        unseen: tuple[Outgoing, WatchedSide] | None,
    ) -> MigrationFailure | None:
        """Rename tables back that are out of the way where others stay; return what ends the run.

        So are those of ``unseen``, if they are. Their feeds have met both RENAMEs: another run goes
        on behind them. OutcomeUnknown where some are left out of the way.
        """
        if not gone:
            return None
        said = f"the switch was made on {len(gone)} of {len(sides.here)} sources: {error}"
        sides.stop_following()
        try:
            lost = [unseen] if unseen is not None else []
            _rename_back(gone, self._note_behind, again=self._bring_home, lost=lost)
        except SpiritError as fault:
            names = ", ".join(origin.moved_names for origin, _ in [*gone, *lost])
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
                raise _Unanswered(f"the answer of {where} to RENAME was lost") from fault
            if not self._is_away(origin, side.fence):
                said = f"the connection was lost before RENAME took effect: {fault.message}"
                raise TryFailed(said) from fault

    def _is_away(self, origin: Outgoing, fence: str) -> bool:
        """Look whether the RENAME was made, once its session has ended; or OutcomeUnknown."""
        noted = {pair.source_name: pair.tables.noted[pair.source_name] for pair in origin.pairs}

        def proof(_session: Session, name: Name) -> Identity:
            return noted[name]

        opened = partial(origin.run.session, "look")
        away = _seen(opened, fence, self._swaps, proof, made="old", seconds=_LOOK_SECONDS)
        if away is not None:
            return away
        raise OutcomeUnknown(
            "the answer to RENAME was lost, and whether it was done could not be seen",
            hint=f"look at {origin.run.config.connection.address}: its tables are out"
            f" of the way if {origin.moved_names} exists; the same command goes on in both cases",
        )

    def _switch_over(self, sides: Sides, watcher: Session) -> None:
        """Run the operator's command, under the locks; its failure renames the tables back."""
        if self._run.config.on_switch:
            back = self._direction is BACK
            why = run_switch_command(self._run, self._tables, back=back)
            if back:
                why = why or _still_fenced(sides)
            if why:
                self._undo(sides, watcher, why)
        points.reach("switch.commanded")
        if self._direction is MOVED:
            # A command that has run is not run again, if this can be written.
            with contextlib.suppress(ServerFault):
                note_move(watcher, self._tables, switched=True)
                self.told = True

    def _leave(self, target: Incoming, there: LockSide) -> None:
        """Rename a target's tables back: repeatedly while they are locked, and nobody can write.

        Another session may hold a lock of the server, as a backup does. After a lost answer the
        tables show whether it was made; _Unanswered where they cannot be seen.
        """
        pause, deadline = threading.Event(), time.monotonic() + _LEAVE_SECONDS
        while True:
            try:
                there.session.execute(target.leave)
            except ServerFault as fault:
                if connection_lost(fault):
                    if self._has_left(target, there):
                        return
                    raise
                if fatal(fault) or time.monotonic() > deadline:
                    raise
            else:
                return
            there.lock.verify()
            pause.wait(_LOOK_PAUSE)

    def _has_left(self, target: Incoming, there: LockSide) -> bool:
        there.session.close()
        proof = partial(noted_proof, proof=self._direction.incoming)
        opened = partial(target.run.session, "look", there=True)
        left = _seen(opened, there.fence, target.swaps, proof, made="new", seconds=_LEAVE_SECONDS)
        if left is None:
            raise _Unanswered("the answer to RENAME was lost, and its tables could not be seen")
        return left

    def _undo(self, sides: Sides, watcher: Session, why: str) -> None:
        """Rename back: first where clients may have been sent already, and still wait."""
        left: list[tuple[Incoming, LockSide]] = []
        try:
            sides.verify_targets()
            for target, there in sides.theirs:
                self._leave(target, there)
                left.append((target, there))
        except (SpiritError, _Unanswered) as lost:
            for target, there in left:
                with contextlib.suppress(ServerFault):
                    there.session.execute(target.arrive)
            said = "the lock on the server to which it was to switch was lost: clients may have"
            said += f" written there ({lost})"
            hint = "the tables stay there; send the application there, and run the same command"
            hint += " again: it runs --on-switch once more"
            if isinstance(lost, _Unanswered):
                hint = _LOOKS_AGAIN
            elif isinstance(lost, ServerFault) and not connection_lost(lost):
                said = f"the tables could not be renamed back where it was to switch to ({lost})"
            raise OutcomeUnknown(
                f"the command of --on-switch failed ({why}), and {said}", hint=hint
            ) from lost
        points.reach("switch.undoing")
        try:
            if self._noted:
                told = partial(note_move, tables=self._tables, away=False)
                _by_one_of(watcher, self._run.fronts()[0], told)
            _rename_back(sides.ours, self._note_behind, again=self._bring_home)
            if (note := self._way_back) is not None:
                # Where it stays, a run that resumes forgets it.
                with contextlib.suppress(SpiritError):
                    _by_one_of(watcher, self._run, lambda session: note(session, ""))
        except SpiritError as fault:
            raise OutcomeUnknown(
                f"the command of --on-switch failed ({why}), and it is not known whether the tables"
                f" were renamed back: {fault.message}",
                hint=_LOOKS_AGAIN,
            ) from fault
        self.renaming = False
        raise SwitchFailed(
            f"the command of --on-switch failed: {why}; the tables are in their places again, and"
            " unlocked",
            hint="see why it failed, and run the same command again: it resumes",
        )


def _seen(
    opened: Callable[[], AbstractContextManager[Session]],
    fence: str,
    swaps: Sequence[Swap],
    proof: Callable[[Session, Name], Identity],
    *,
    made: str,
    seconds: float,
) -> bool | None:
    """Look whether a RENAME was made, once its session has ended; None where that is not seen.

    No other server shows it (R14), and not to a run that another one has taken over from.
    """

    def all_are(session: Session, name: str) -> bool:
        return all(
            is_one_of(session, s.schema, getattr(s, name), proof(session, s.name)) for s in swaps
        )

    # Also after a stop request.
    pause, deadline = threading.Event(), time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with opened() as session:
                if (holder := named_lock_holder(session, fence)) is not None:
                    kill_session(session, holder)
                elif all_are(session, made):
                    return True
                elif all_are(session, "table"):
                    return False
        except SpiritError as error:
            if not isinstance(error, ServerFault):
                return None
        pause.wait(_LOOK_PAUSE)
    return None


def _still_fenced(sides: Sides) -> str:
    """Return which server of a revert the command has left without writes; empty for none.

    One that does not answer any more has its tables: what else it does is not known.
    """
    for target, there in sides.theirs:
        name = ""
        with contextlib.suppress(ServerFault):
            name = read_only_by(read_facts(there.session, READ_ONLY))
        if name:
            return f"{target.run.config.there.address} takes no writes after it ({name}=ON)"
    return ""


def _by_one_of(session: Session, run: MoveRun, note: Callable[[Session], object]) -> None:
    """Write a note of a source in a session, or in another one where that fails."""
    try:
        note(session)
    except ServerFault:
        with run.session("cutover") as other:
            note(other)


def _rename_back(
    ours: Sequence[tuple[Outgoing, WatchedSide]],
    note_behind: Callable[[Outgoing, WatchedSide], object],
    *,
    again: Callable[[Outgoing, WatchedSide], object],
    lost: Sequence[tuple[Outgoing, WatchedSide]] = (),
) -> None:
    """Rename the sources' tables back, on each of them; raise the first failure at the end.

    ``again`` is tried, after all others, where a session is lost, as those of ``lost`` are.
    """
    faults: list[SpiritError] = []

    def tried(work: Callable[[], object]) -> bool:
        try:
            work()
        except SpiritError as fault:
            faults.append(fault)
            return False
        return True

    def back(origin: Outgoing, side: WatchedSide) -> None:
        side.session.execute(origin.back)
        points.reach("switch.undone")
        note_behind(origin, side)

    failed = [(origin, side) for origin, side in ours if not tried(partial(back, origin, side))]
    faults.clear()
    for origin, side in (*failed, *lost):
        tried(partial(again, origin, side))
    for fault in faults:
        raise fault


def run_switch_command(run: MoveRun, tables: Sequence[Name], *, back: bool = False) -> str:
    """Run the operator's command; return why it failed, empty where it did not."""
    config = run.config
    told = MoveSwitching(
        tables=[".".join(name) for name in tables],
        source=", ".join(one.address for one in config.origins),
        target=", ".join(one.address for one in config.targets),
        shards={one.name: one.connection.address for one in config.shards},
        sources={one.name: one.connection.address for one in config.sources},
        back=back,
    )
    run.tell(told)
    run.show("the command of --on-switch")
    result = call(config.on_switch, told, seconds=config.switch_timeout)
    run.show("")
    return ": ".join([result.why, *result.lines[:1]]) if result.trouble else ""


def note_move(session: SqlSession, tables: Sequence[Name], **changes: bool) -> None:
    """Note on a source that its tables are ``away`` on all, or that it has ``switched``.

    ServerFault where that is impossible; nothing without a note.
    """
    home = CheckpointTable(*home_of(tables))
    if (note := home.read(session, MoveNote)) is not None:
        home.write(session, replace(note, **changes))
