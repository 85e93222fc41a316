"""Worlds of ``migrate --keep-old-current``: the old table follows, and ``revert`` swaps it back.

The operator runs ``migrate`` again until the table is swapped; then it goes on until its time is
over, or until somebody asks for a revert, whose command is run again until it has ended well. Where
the old table is only kept, a revert reads the binlog from the swap on. Meanwhile a stranger may
change one of the tables (:data:`MEDDLES`), a DBA take a right, and the server crash.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.kept import CHECKPOINT
from tests.simulation.primitives import stand_in
from tests.simulation.program import OLD, T
from tests.simulation.server import numbers
from tests.simulation.statements import REVOKE
from tests.simulation.trouble import TROUBLES, Scene, send
from tests.simulation.whole import FEED, SERVER, Silent, WholeRun, no_java
from tests.simulation.world import Plan, World, wrong_rows

with stand_in():
    from spirit_py.config import RevertConfig
    from spirit_py.migration.reverse.revert import Revert

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation import program
    from tests.simulation.server import Name, Row, Server, Table, Transaction

#: The time that the old table follows.
_SECONDS: Final = (5.0, 60.0, 60.0, 600.0)
_REVERTED: Final = 0.8
#: The old table stays for so long behind that; 0: it is dropped then.
_STAYS: Final = (0.0, 0.0, 30.0, float("inf"))
#: It is kept, and nothing follows.
_NOTED: Final = 0.15
_MEDDLED: Final = 0.4
_UNIQUE: Final = 0.3
_ASKED: Final = 0.2
#: An operator who asks for something is there to the end.
_LONGEST_ASKED: Final = 60.0
#: Tries of a revert in which nothing goes wrong.
_PATIENCE: Final = 3
_AGAIN_SECONDS: Final = 5.0
#: Between two looks of the judge at the old table.
_LOOK_SECONDS: Final = 0.4
#: Clients have ended before the old table has followed for so long.
_LONG: Final = 60.0
_SOON_SECONDS: Final = 0.05
#: What `revert` says where there is none.
_NO_WAY_BACK: Final = ("no reverse replication", "has ended")
#: What it says while the process that it asks is paused.
_PAUSED: Final = "the process is paused by"
_NEVER_BEGAN: Final = "reverse replication cannot begin"
_OURS: Final = frozenset({T, OLD, CHECKPOINT, ("s", "_t_ctl"), ("s", "_t_undone")})


@dataclass(frozen=True, kw_only=True)
class WayBack:
    """What is done with a table that was swapped.

    Attributes:
        seconds: the old table follows for so long.
        after: so long behind the swap a revert begins; below 0: none does.
        kills: its process is killed, and started again.
        stays: then the old table is kept for so long; with 0 seconds from the swap on.
        meddles: of :data:`MEDDLES`, behind the swap.
    """

    seconds: float
    after: float
    kills: int = 0
    stays: float = 0.0
    meddles: tuple[str, ...] = ()


#: A row that no client of the application has.
_STRANGE: Final = (77, 777)
_STRANGE_SQL: Final = f"INSERT IGNORE INTO `s`.`_t_old` (`id`, `v`) VALUES {_STRANGE}"
#: What a stranger sends to the table in place, or to the old one.
_SENT: Final = {
    "alter current": "ALTER TABLE `s`.`t` ADD COLUMN x INT",
    "alter old": "ALTER TABLE `s`.`_t_old` ADD COLUMN x INT",
    "truncate current": "TRUNCATE TABLE `s`.`t`",
    "truncate old": "TRUNCATE TABLE `s`.`_t_old`",
    "drop old": "DROP TABLE IF EXISTS `s`.`_t_old`",
    "write old": _STRANGE_SQL,
    "rebuild current": "OPTIMIZE TABLE `s`.`t`",
    "rebuild old": "OPTIMIZE TABLE `s`.`_t_old`",
}
_CRASH: Final = "crash"
_STATEMENT: Final = "statement write"
MEDDLES: Final[dict[str, Callable[[Scene], object]]] = {
    **{name: partial(send, sql=sql) for name, sql in _SENT.items()},
    _STATEMENT: TROUBLES[_STATEMENT],
    _CRASH: Scene.restart,
    REVOKE: TROUBLES[REVOKE],
}
#: After these the way back may be lost for good.
_REBUILDS: Final = frozenset({"rebuild current", "rebuild old"})
_MAY_LOSE: Final = frozenset({*_SENT, _STATEMENT, *_REBUILDS}) - {"write old"}
#: After these, and after a write in STATEMENT format, the old table must not be swapped in.
_FINAL: Final = frozenset(
    _SENT[name] for name in ("alter current", "alter old", "truncate current")
)


class Watching(Silent):
    """A reporter that remembers what a comparison found: nothing, as long as no change is lost."""

    def __init__(self, server: Server, found: list[str]) -> None:
        super().__init__(server)
        self._found = found

    def event(self, event: Any) -> None:
        """Note rows that differ."""
        super().event(event)
        if event.name == "differences.found":
            self._found.append(event.line)


class WholeRevert(WholeRun):
    """One process with ``spirit-py revert``."""

    def command(self) -> None:
        """Run the command, as it was configured."""
        config = RevertConfig(
            connection=SERVER,
            database="s",
            table="t",
            threads=2,
            cutover_timeout=600.0,
            feed=FEED,
        )
        Revert(config, self.reporter, engine_factory=no_java, stop=self.stop).run()


def reverted_plan(plan: Plan, seed: int) -> Plan:
    """Make a world of this kind of another one's plan."""
    dice = random.Random(f"reverts of {seed}")
    after = dice.choice((0.0, 0.5, 3.0, 20.0)) * dice.random()
    back = WayBack(
        seconds=dice.choice(_SECONDS),
        after=after if dice.random() < _REVERTED else -1.0,
        kills=dice.choice((0, 0, 0, 1)),
    )
    if dice.random() < _MEDDLED:
        back = replace(back, meddles=tuple(dice.sample(sorted(MEDDLES), dice.choice((1, 1, 2)))))
    back = replace(back, stays=dice.choice(_STAYS))
    if back.stays and dice.random() < _NOTED:
        back = replace(back, seconds=0.0)
    unique, asked = dice.random() < _UNIQUE, dice.random() < _ASKED
    plan = replace(plan.of_command(), troubles=(), unique=unique)
    plan = replace(plan, writes=4 * plan.writes, keeps="", requests=(), deferred=False)
    if asked:
        from tests.simulation.requests import asked_plan

        plan = asked_plan(plan, seed)
        back = replace(back, seconds=min(back.seconds, _LONGEST_ASKED))
    return replace(plan, back=back)


def _forbids(one: Transaction) -> bool:
    return bool(one.text) or one.statement in _FINAL


class RevertedWorld(World):
    """A world of ``plan.back``."""

    #: The process of the last revert; None before the first.
    reverting: WholeRevert | None = None
    #: The old table was seen to be what it must be, since its last change.
    followed = False
    #: No revert is made any more.
    reverted = False

    def __post_init__(self) -> None:
        """Remember the old table."""
        super().__post_init__()
        assert self.plan.back is not None
        self._back = self.plan.back
        self._old = self.server.tables[T].number
        #: Rows that comparisons have found to differ.
        self._found: list[str] = []
        self._writing = self.plan.clients
        self._misled = ""
        #: What a stranger has done, or has begun to do.
        self._meddled: list[str] = []
        self._dice = random.Random(f"meddling in {self.plan}")
        self.reverted = self._back.after < 0

    def _choices(self) -> dict[str, Any]:
        choices = {**super()._choices(), "keep_old_current": self._back.seconds}
        return {**choices, "drop_old_after": self._back.stays} if self._back.stays else choices

    def _command(self) -> program.Run | WholeRun:
        run = super()._command()
        assert isinstance(run, WholeRun)
        run.reporter = Watching(self.server, self._found)
        return run

    def _operate(self) -> None:
        """Run the command; somebody asks for a revert, and the judge looks at the old table."""
        others = [self.scheduler.spawn("judge", self._watch, process="judge")]
        if self._back.after >= 0:
            others.append(self.scheduler.spawn("reverts", self._revert, process="dba"))
        if self._back.meddles:
            others.append(self.scheduler.spawn("stranger", self._meddle, process="stranger"))
        super()._operate()
        for other in others:
            self.scheduler.join(other)
            if other.failure is not None:
                raise other.failure

    def _client(self, number: int) -> None:
        super()._client(number)
        self._writing -= 1

    def _meddle(self) -> None:
        """Disturb the way back, one thing after the other, while there is one."""
        scene = Scene(self.server, self._dice, self._connected)
        for what in self._back.meddles:
            while not (self.calm and self._has_way_back()):
                if self._is_over():
                    return
                self.scheduler.sleep(_SOON_SECONDS)
            scene.soon()
            if not self._has_way_back():
                return
            self._meddled.append(what)
            self.calm = what not in {_CRASH, REVOKE}
            scene.disturb(what, MEDDLES[what])
            self.calm = True

    def _hear(self, run: program.Run | WholeRun) -> None:
        if not self._back.meddles:
            super()._hear(run)

    def _has_way_back(self) -> bool:
        tables = self.server.tables
        return OLD in tables and T in tables and self._swapped(tables[T])

    def _is_over(self) -> bool:
        """Whether the command is not run again, and no old table is left."""
        return self.ended and not self._has_way_back()

    def _watch(self) -> None:
        """Compare the old table whenever what follows has come to the end of the binlog."""
        while not (self.ended or (self.followed and not self._writing)):
            self.scheduler.sleep(_LOOK_SECONDS)
            self.followed = self._has_followed()

    def _has_followed(self) -> bool:
        """Whether all that is in the binlog is visible and applied, by the program's own word.

        Then the old table must have the rows of the new one. No step of others comes between.
        """
        server, now, old = self.server, self.server.tables.get(T), self.server.tables.get(OLD)
        keeper: Any = getattr(getattr(getattr(self, "last", None), "run", None), "keeper", None)
        feed = keeper.feed if keeper is not None else None
        if feed is None or now is None or old is None or old.number != self._old:
            return False
        ledger = feed._ledger
        pending = ledger is None or any(epoch.pending for epoch in ledger._epochs)
        if pending or len(server.executed()) < len(server.binlog):
            return False
        received = numbers(ledger.received.text().partition(";")[2].partition(";")[2])
        if received < {one.number for one in server.binlog}:
            return False
        if {"write old", "truncate old"}.intersection(self._meddled):
            return False
        wrong = wrong_rows(old, now.rows)
        self._misled = self._misled or (wrong and f"the old table does not follow: {wrong}")
        return True

    def _run_no_more(self) -> bool:
        """Whether a revert is at work: the change is not to be made once more."""
        return self.reverting is not None

    def _is_done(self) -> bool:
        # A revert that was asked to pause waits for the one who asked.
        return self.ended and self.reverted

    def _revert(self) -> None:
        try:
            self._revert_again_and_again()
        finally:
            self.reverted = True

    def _revert_again_and_again(self) -> None:
        sleep = self.scheduler.sleep
        while not self._has_way_back():
            if self._is_over():
                return
            sleep(_SOON_SECONDS)
        sleep(self._back.after)
        calm = 0
        for number in range(100):
            run = self.reverting = WholeRevert(self.server)
            run.reporter = Watching(self.server, self._found)
            task = self.scheduler.spawn(f"revert{number}", run.main, process=run)
            if number < self._back.kills:
                self.scheduler.join(
                    task, self.random.choice((0.1, 1.0, 5.0)) * self.random.random()
                )
                if not task.ended:
                    self._kill(run)
                    continue
            self.scheduler.join(task)
            if task.failure is not None:
                raise task.failure
            if run.done:
                self.server.happened.add("revert")
            if run.done or calm >= _PATIENCE:
                return
            # A pause that was asked for ends with a request, or with its process.
            amiss = self.unnoticed or not (self.server.up and self.calm) or _PAUSED in run.error
            calm += not amiss
            self.scheduler.tell(f"the revert ended: {run.error}")
            sleep(_AGAIN_SECONDS)

    def _waited(self, run: program.Run | WholeRun) -> str:
        # Behind the DDL of others, and under the lock of a swap whose right was revoked.
        return "" if self._meddled else super()._waited(run)

    def _truth(self) -> dict[Any, Row]:
        """Return also the stranger's row: behind the comparison nobody sees it come.

        docs/verification.md says so ("A write ... that does not go through the feed").
        """
        now = self.server.tables.get(T)
        row = now.rows.get(_STRANGE[0]) if now is not None else None
        strange = "write old" in self._meddled and row is not None and row[:2] == _STRANGE
        return super()._truth() | ({_STRANGE[0]: row} if strange and row is not None else {})

    def _wrong_rows(self, table: Table) -> str:
        """Judge the old table, too, and what comparisons have found."""
        explained = {"write old", "truncate old"}.intersection(self._meddled)
        found = ""
        if self._found and not explained:
            found = f"a comparison has found rows that differ: {self._found[0]}"
        return super()._wrong_rows(table) or self._misled or found or self._wrong_end()

    def _wrong_end(self) -> str:
        """Say where nothing was in the way, and the old table was never seen to follow."""
        plan, back = self.plan, self._back
        alone = back.after < 0 and not (plan.faults or back.meddles or plan.requests)
        if alone and back.seconds >= _LONG and not self.followed:
            return "the old table was not seen to follow to the end"
        return ""

    def _wrong_word(self, run: Any, *, swapped: bool) -> str:
        back = self.reverting
        if done := self._done_before_revert():
            return f"reverted in spite of this: {done}"
        lost = _MAY_LOSE.intersection(self._meddled)
        stopped = self.plan.faults or self.plan.requests or _CRASH in self._meddled
        if self._back.seconds and stopped and swapped and _NEVER_BEGAN in run.error:
            # Ended between the RENAME and its note: the old table stays (docs/commands/revert.md).
            lost |= {_NEVER_BEGAN}
        if self._back.seconds and not stopped:
            # A process that lives sees them in the binlog; nothing proves a table to the next one.
            lost -= _REBUILDS
        if back is None:
            return (
                "" if lost and run.error and swapped else super()._wrong_word(run, swapped=swapped)
            )
        if back.done:
            return "reverted, and the new table is in place" if swapped else ""
        none = any(word in back.error for word in _NO_WAY_BACK)
        # Its time was over, or an earlier process of it made the swap back, as the tables show.
        if lost or (none and (not swapped or OLD not in self.server.tables)):
            return ""
        # What follows the RENAME was interrupted (docs/commands/revert.md).
        if self.plan.faults and "the place of a swap is not noted" in back.error:
            return ""
        return f"the last revert failed, and nothing went wrong in it: {back.error}"

    def _old_stays(self) -> bool:
        return self._back.stays == float("inf") or REVOKE in self._meddled

    def _done_before_revert(self) -> str:
        """Return what forbids a revert and was in the binlog before its RENAME; empty for none."""
        log = self.server.binlog
        back = [one.number for one in log if "`s`.`_t_old` TO `s`.`t`" in one.statement]
        before = log[: back[0] if back else 0]
        return next((one.text or one.statement for one in before if _forbids(one)), "")

    def _may_stay(self, tables: set[Name]) -> bool:
        back = self.reverting
        # Killed behind the swap back, and not run again: the next revert drops what is left.
        killed = back is not None and not (self.last.done or self.last.error)
        if killed or self._meddled or (back is not None and not back.done):
            return T in tables and tables <= _OURS
        return super()._may_stay(tables)

    def _staying(self) -> set[Name]:
        kept = self._back.stays == float("inf") and self._has_way_back()
        return {T, OLD, CHECKPOINT} if kept else {T}
