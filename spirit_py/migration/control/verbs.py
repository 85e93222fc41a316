"""What each verb of ``spirit-py ctl`` does to the run, and what holds for the next run too."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.live import REVERT, SKIP_DROP, StandingOrders
from spirit_py.codes import ErrorCode
from spirit_py.errors import Aborted, AbortedForGood, Refusal, ServerFault, SpiritError, UsageFault
from spirit_py.events.run import SettingsKept
from spirit_py.migration.control import subject
from spirit_py.migration.control.settings import LOAD_FIELDS, SETTINGS, read_changes, shown
from spirit_py.migration.control.subject import CLEANUP, NOT_KNOWN, Carrier, Effect, Verb, refused
from spirit_py.migration.facts import PlainFact, SwapWanted
from spirit_py.mysql.connect import connect
from spirit_py.mysql.facts import unknown_counters
from spirit_py.mysql.tables.definition import read_table
from spirit_py.mysql.tables.new_table import create_sentinel, drop_sentinel, is_own_sentinel
from spirit_py.phases import AFTER_SWAP, Phase
from spirit_py.sql import quote_table
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spirit_py.checkpoint.live import Request
    from spirit_py.checkpoint.queue import Asked
    from spirit_py.checkpoint.table import CheckpointTable
    from spirit_py.contracts import SqlSession
    from spirit_py.migration.run import Run
    from spirit_py.mysql.session import Session
    from spirit_py.table.names import Name


#: From the grace on a revert is answered, or refused; phases are declared in the order of a run.
_FROM_GRACE: Final = tuple(Phase)[tuple(Phase).index(Phase.GRACE) :]
#: For another server of a move to answer.
_READ_SECONDS: Final = 10


class Verbs(Carrier):
    """What operators can ask of a migration; the first table's sentinel is the one created."""

    def __init__(self, run: Run, orders: Orders, tables: Sequence[Name]) -> None:
        self._run = run
        self._orders = orders
        self._sentinels = [(schema, AuxiliaryNames.of(table).sentinel) for schema, table in tables]
        super().__init__(
            {
                Verb.PAUSE: self._pause,
                Verb.RESUME: self._resume,
                Verb.SET: self._set,
                Verb.CUTOVER: self._cutover,
                Verb.POSTPONE: self._postpone,
                Verb.ABORT: self._abort,
            }
        )

    def can_answer(self, request: Request) -> bool:
        """Return whether what is to answer a revert is there: it may be about to begin.

        ``spirit-py revert`` asks only where the place of a swap is written down.
        """
        run, config, phase = self._run, self._run.config, self._run.state.phase
        if request.verb != REVERT or (run.keeper is not None and not run.keeper.hands_over):
            return True
        if math.isinf(config.drop_old_after):
            # The revert takes over when the process has ended.
            return False
        keeps = config.keep_old_current or config.drop_old_after or phase is Phase.KEEP
        return not keeps or phase in _FROM_GRACE

    def carry_out(self, session: Session, asked: Asked) -> Effect:
        """Do what is asked; a revert is asked for by ``spirit-py revert``, not by ``ctl``."""
        if asked.request.verb != REVERT:
            return super().carry_out(session, asked)
        if self._run.keeper is None:
            raise Refusal(
                "no reverse replication runs in this process",
                hint="spirit-py revert works while it does; see spirit-py status",
                error_code=ErrorCode.NO_REVERSE_REPLICATION,
            )
        paused = self._run.settings.current.paused
        # While the old table is dropped, the way back is over, and the keeper says so.
        if paused and self._run.state.phase is not Phase.CLEANUP:
            raise refused(
                f"the process is {paused}, and swaps nothing back",
                "spirit-py ctl abort ends it, and the old table stays; then the same spirit-py"
                " revert swaps back by itself. After spirit-py ctl resume the old table may be"
                " dropped at once",
            )
        return Effect(by=self._run.keeper.ask(skip_drop=SKIP_DROP in asked.request.arguments))

    def _pause(self, session: Session, asked: Asked) -> Effect:
        # The look at each row for a new key is paused, which comes after the change.
        unproven, after = self._run.state.unproven, self._drops_yet
        if not unproven and not after:
            self._require_unswapped("there is nothing left to pause")
        if earlier := self._run.settings.current.paused:
            return Effect(said=f"it is paused already: {earlier}")
        self._orders.pause(session, f"paused by {asked.who}")
        # One that is asked for before the swap is to hold that back, and not what comes after it.
        if not unproven and not after and (why := self._too_late()):
            self._orders.lift(session)
            raise refused(why, "there is nothing left to pause")
        if after:
            return Effect(
                said="paused; the tables are swapped, and what comes after that (the archive, the"
                " drop of the old table) waits for spirit-py ctl resume, where it has not begun"
            )
        return Effect(
            said="paused: running work ends, and nothing new starts; changes are applied"
            " and the checkpoint is written as before"
        )

    def _resume(self, session: Session, _asked: Asked) -> Effect:
        earlier = self._run.settings.current.paused
        if not earlier:
            return Effect(said="it was not paused")
        self._orders.pause(session, "")
        return Effect(said=f"resumed; it was {earlier}")

    def _set(self, session: Session, asked: Asked) -> Effect:
        config, given = self._run.config, asked.request.arguments
        changes = read_changes(given)
        names = {name for field in LOAD_FIELDS for name, _ in changes.get(field, ())}
        # The limit of what is no counter of the server would never be reached.
        unknown = dict.fromkeys(unknown_counters(session, names), "")
        for other in config.others if names else ():
            with connect(other, role="control", read_timeout=_READ_SECONDS) as there:
                found = unknown_counters(there, names)
            unknown |= {name: f" on {other.address}" for name in found if name not in unknown}
        if unknown:
            listed = ", ".join(f"{name}{where}" for name, where in unknown.items())
            raise refused(
                f"{listed} is not a numeric variable of SHOW GLOBAL STATUS",
                "write a name that SHOW GLOBAL STATUS lists, such as Threads_running",
            )
        most = config.threads
        if (changes.get(SETTINGS["threads"].field) or 0) > most:
            raise refused(
                f"the process was started with {most} threads: {given['threads']} are too many",
                "abort it, and run the same command with --threads",
            )
        for name in given:
            if getattr(config, SETTINGS[name].field) is None:
                raise refused(
                    f"the process was started with --{name} 0, and watches no replica",
                    f"abort it, and run the same command with another --{name}",
                )
        self._orders.change(session, given)
        now = shown(self._run.settings.current)
        return Effect(said=", ".join(f"{name} is {now[name]}" for name in now if name in given))

    def _cutover(self, session: Session, _asked: Asked) -> Effect:
        self._require_swap("there is nothing left to swap")
        # What is refused, or fails, has decided nothing.
        by_hand = [
            name
            for name in self._sentinels
            if read_table(session, *name) and not is_own_sentinel(session, *name)
        ]
        if by_hand:
            statements = " ".join(f"DROP TABLE {quote_table(*name)};" for name in by_hand)
            raise refused(
                f"{', '.join('.'.join(name) for name in by_hand)} was not created by spirit-py, and"
                " postpones the swap until it is dropped",
                statements,
            )
        before = self._run.state.undeferred
        # First: a run that creates its sentinel just now looks at this afterwards.
        self._orders.undefer(session, undeferred=self._run.config.defer_cutover)
        try:
            ours = [name for name in self._sentinels if is_own_sentinel(session, *name)]
            for name in ours:
                drop_sentinel(session, *name)
        except ServerFault:
            self._orders.undefer(session, undeferred=before)
            raise
        veto = self._run.veto
        asks = not veto.overrule() and veto.asks
        ends = [f"dropped {', '.join('.'.join(name) for name in ours)}"] if ours else []
        ends += ["the hook is not asked any more"] if asks else []
        said = "; ".join(ends) or "there was no sentinel"
        now = self._now(asked_for=bool(ends))
        when = "as soon as everything before it is done"
        if self._run.settings.current.paused:
            when = "when the pause has ended (spirit-py ctl resume)"
        return Effect(said=f"{said}: the swap is made {when}; now: {now}")

    def _now(self, *, asked_for: bool) -> str:
        seen = self._run.snapshots.take()
        if paused := self._run.settings.current.paused:
            return f"{seen.phase.shown}, {paused}"
        waits = "" if asked_for and seen.phase is Phase.SENTINEL else seen.waiting_for
        return f"{seen.phase.shown}, waiting for {waits}" if waits else seen.phase.shown

    def _postpone(self, session: Session, _asked: Asked) -> Effect:
        self._require_swap("it cannot be postponed any more")
        if self._run.state.uncopied:
            raise refused(
                "the server makes the change, and only a copy can wait for an operator",
                "spirit-py ctl pause keeps it from being made, and spirit-py ctl abort ends it",
            )
        first = self._sentinels[0]
        there = [name for name in self._sentinels if read_table(session, *name)]
        if not there:
            create_sentinel(session, *first)
        self._run.veto.overrule(wanted=False)
        # In this order: a swap that does not see the count yet has not been seen to begin here.
        self._run.note(PlainFact.SWAP_POSTPONED)
        if why := self._too_late():
            raise refused(why, "see spirit-py status")
        name = quote_table(*(there[0] if there else first))
        said = f"the swap is postponed {'already' if there else 'now'}"
        return Effect(said=f"{said}: spirit-py ctl cutover, or DROP TABLE {name}, ends that")

    def _abort(self, _session: Session, asked: Asked) -> Effect:
        hint = "see spirit-py status; spirit-py cleanup drops what is left"
        subject.require_running(self._run.stop, hint)
        cleanup, why = CLEANUP in asked.request.arguments, f"aborted by {asked.who}"
        # From now on no RENAME is sent; the outcome of one that was sent is reported.
        self._run.give_up(why)
        unknown = self._renaming()
        if cleanup:
            try:
                self._require_unswapped("spirit-py cleanup drops what it left")
            except Refusal:
                self._run.give_up("")
                raise
            # Until all is dropped: a run that resumes may still make its checks.
            hint = "the source table is intact; spirit-py cleanup drops what is left"
            then = AbortedForGood(why, hint=hint)
            return Effect(said="stopping; what was copied is dropped", then=then)
        said = "the same command resumes"
        hint = "the source table is intact; run the same command again"
        if self._run.config.dry_run:
            said = "nothing is left of a rehearsal, which begins anew"
            hint = f"the source table is intact; {said}"
        elif unknown:
            said = hint = f"{NOT_KNOWN}: the same command looks at the tables"
        elif self._run.keeper is not None and self._run.keeper.may_be_back():
            said = hint = "the old definition is in place again, and the same command ends that"
        elif self._run.state.unproven:
            said = hint = "the foreign key is there, and the same command looks at all rows again"
        elif self._swapped:
            said = "the change is done, and the same command does what is left to do after it"
            hint = said
        return Effect(said=f"stopping; {said}", then=Aborted(why, hint=hint))

    def _require_swap(self, hint: str) -> None:
        self._require_unswapped(hint)
        if self._run.config.dry_run:
            raise refused("this is a dry run, which swaps nothing")

    def _too_late(self) -> str:
        """Return why it is too late; waits for a statement that is under way."""
        if self._renaming():
            return NOT_KNOWN
        run = self._run
        # A process that goes on with an earlier one's reverse replication has made no swap itself.
        swapped = run.may_be_swapped or run.state.altered or run.keeper is not None
        return "too late: the swap is made" if swapped else ""

    def _renaming(self) -> bool:
        """Wait for the statement that changes the tables; return whether its outcome is unknown."""
        run = self._run
        subject.await_outcome(lambda: run.renaming or run.state.altering, run.stop)
        return run.renaming or run.state.altering

    @property
    def _drops_yet(self) -> bool:
        """Whether the tables are swapped, and nothing but the work after it is left to pause."""
        run, config, phase = self._run, self._run.config, self._run.state.phase
        if run.renaming or run.state.altered or not self._swapped or phase is Phase.DONE:
            return False
        if phase is Phase.KEEP or (config.keep_old_current and phase not in _FROM_GRACE):
            return False
        if run.keeper is not None and (run.keeper.asked or run.keeper.may_be_back()):
            return False
        return not math.isinf(config.drop_old_after) or phase is Phase.ARCHIVE

    @property
    def _swapped(self) -> bool:
        run = self._run
        swapped = run.may_be_swapped or run.state.swapped_before or run.state.altered
        return swapped or run.state.phase in AFTER_SWAP

    def _require_unswapped(self, hint: str) -> None:
        if self._renaming():
            raise refused(NOT_KNOWN, "see spirit-py status")
        if self._swapped:
            raise refused("the tables are swapped", hint)


class Orders:
    """Changes settings once they are written; one thread, others read ``run.settings``."""

    def __init__(self, run: Run, checkpoint: CheckpointTable) -> None:
        self._run = run
        self._checkpoint = checkpoint
        self._given = shown(run.settings.current)
        self._standing = StandingOrders()
        self._unwritten = False

    def load(self, session: SqlSession) -> None:
        """Apply an earlier run's settings; those changed on the command line since are newer."""
        try:
            found = self._checkpoint.read(session, StandingOrders) or StandingOrders()
            kept = {
                name: text
                for name, text in found.settings.items()
                if name in SETTINGS and found.over.get(name) == self._given[name]
            }
            changes = read_changes(kept) if kept else {}
        except (UnreadableCheckpoint, UsageFault) as error:
            self._run.warn(f"what operators had set cannot be read: {error}")
            return
        self._standing = replace(
            found, settings=kept, over={name: found.over[name] for name in kept}
        )
        self._run.settings.change(paused=found.paused, **changes)
        self._run.note(SwapWanted(found.undeferred))
        if kept:
            self._run.tell(SettingsKept(settings=dict(kept)))
        if found.paused:
            self._run.warn(f"{found.paused}: spirit-py ctl resume lets it go on")

    def pause(self, session: SqlSession, why: str) -> None:
        """Let no new work begin; an empty text lets it begin again."""
        self._note(session, paused=why)
        self._run.settings.change(paused=why)

    def lift(self, session: SqlSession) -> None:
        """Take a pause back: what the session can no longer write is written later."""
        try:
            self._note(session, paused="")
        except SpiritError:
            self._standing = replace(self._standing, paused="")
        self._run.settings.change(paused="")

    def change(self, session: SqlSession, given: Mapping[str, str]) -> None:
        """Change settings; UsageFault, and no change, where a name or a value cannot be."""
        changes = read_changes(given)
        replace(self._run.settings.current, **changes)
        self._note(
            session,
            settings={**self._standing.settings, **given},
            over={**self._standing.over, **{name: self._given[name] for name in given}},
        )
        self._run.settings.change(**changes)

    def undefer(self, session: SqlSession, *, undeferred: bool) -> None:
        """Note whether the swap is not to wait for the operator.

        Taken back, it counts in any case: what the session can no longer write is written later.
        """
        if undeferred == self._run.state.undeferred:
            return
        try:
            self._note(session, undeferred=undeferred)
        except SpiritError:
            if undeferred == self._run.config.defer_cutover:
                raise
            self._standing = replace(self._standing, undeferred=undeferred)
        self._run.note(SwapWanted(undeferred))

    def write(self, session: SqlSession) -> None:
        """Write what counts, where an earlier session could not, or may have written more."""
        if self._unwritten:
            with contextlib.suppress(SpiritError):
                self._note(session)

    def _note(self, session: SqlSession, **changes: Any) -> None:
        standing = replace(self._standing, **changes)
        # Of a session that is lost nobody knows whether it has written this.
        self._unwritten = True
        self._checkpoint.write(session, standing)
        self._standing, self._unwritten = standing, False
