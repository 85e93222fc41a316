"""Worlds of ``migrate --keep-old-current``: the old table follows, and ``revert`` swaps it back.

The operator runs ``migrate`` again until the table is swapped; then it goes on until its time is
over, or until somebody asks for a revert, whose command is run again until it has ended well.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.primitives import stand_in
from tests.simulation.program import OLD, T
from tests.simulation.server import numbers
from tests.simulation.whole import FEED, SERVER, Silent, WholeRun, no_java
from tests.simulation.world import Plan, World, wrong_rows

with stand_in():
    from spirit_py.checkpoint import proofs
    from spirit_py.config import RevertConfig
    from spirit_py.errors import SpiritError
    from spirit_py.migration.reverse.revert import Revert

if TYPE_CHECKING:
    from tests.simulation import program
    from tests.simulation.server import Name, Server, Table

#: The time that the old table follows.
_SECONDS: Final = (5.0, 60.0, 60.0, 600.0)
_REVERTED: Final = 0.8
#: Tries of a revert in which nothing goes wrong.
_PATIENCE: Final = 3
_AGAIN_SECONDS: Final = 5.0
#: Between two looks of the judge at the old table.
_LOOK_SECONDS: Final = 0.4
#: Clients have ended before the old table has followed for so long.
_LONG: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class WayBack:
    """What is done with a table that was swapped.

    Attributes:
        seconds: the old table follows for so long.
        after: so long behind the swap a revert begins; below 0: none does.
        kills: its process is killed, and started again.
    """

    seconds: float
    after: float
    kills: int = 0


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

    def main(self) -> None:
        """Run the command to its end."""
        # Of the process before, whose threads are gone.
        proofs._MUTEXES.clear()
        config = RevertConfig(
            connection=SERVER,
            database="s",
            table="t",
            threads=2,
            cutover_timeout=600.0,
            feed=FEED,
        )
        run = Revert(config, self.reporter, engine_factory=no_java, stop=self.stop)
        try:
            run.run()
        except SpiritError as error:
            self.error, self.exit_code = f"{type(error).__name__}: {error.message}", error.exit_code
        else:
            self.done = True


def reverted_plan(plan: Plan, seed: int) -> Plan:
    """Make a world of this kind of another one's plan."""
    dice = random.Random(f"reverts of {seed}")
    after = dice.choice((0.0, 0.5, 3.0, 20.0)) * dice.random()
    back = WayBack(
        seconds=dice.choice(_SECONDS),
        after=after if dice.random() < _REVERTED else -1.0,
        kills=dice.choice((0, 0, 0, 1)),
    )
    return replace(
        plan,
        whole=True,
        moves=0,
        merges=1,
        tasks=(),
        troubles=(),
        unique=False,
        writes=4 * plan.writes,
        back=back,
    )


class RevertedWorld(World):
    """A world of ``plan.back``."""

    #: The process of the last revert; None before the first.
    reverting: WholeRevert | None = None
    #: The old table was seen to be what it must be, since its last change.
    followed = False

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

    def _choices(self) -> dict[str, Any]:
        return {**super()._choices(), "keep_old_current": self._back.seconds}

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
        super()._operate()
        for other in others:
            self.scheduler.join(other)
            if other.failure is not None:
                raise other.failure

    def _client(self, number: int) -> None:
        super()._client(number)
        self._writing -= 1

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
        wrong = wrong_rows(old, now.rows)
        self._misled = self._misled or (wrong and f"the old table does not follow: {wrong}")
        return True

    def _run_no_more(self) -> bool:
        """Whether a revert is at work: the change is not to be made once more."""
        return self.reverting is not None

    def _revert(self) -> None:
        sleep = self.scheduler.sleep
        while not (T in self.server.tables and self._swapped(self.server.tables[T])):
            if self.ended:
                return
            sleep(0.05)
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
            if run.done or calm >= _PATIENCE:
                return
            calm += 1 if self.server.up and self.calm and not self.unnoticed else 0
            self.scheduler.tell(f"the revert ended: {run.error}")
            sleep(_AGAIN_SECONDS)

    def _swapped(self, table: Table) -> bool:
        return table.number != self._old

    def _wrong_rows(self, table: Table) -> str:
        """Judge the old table, too, and what comparisons have found."""
        found = f"a comparison has found rows that differ: {self._found[0]}" if self._found else ""
        return super()._wrong_rows(table) or self._misled or found or self._wrong_end()

    def _wrong_end(self) -> str:
        """Say where nothing was in the way, and the old table was never seen to follow."""
        plan, back = self.plan, self._back
        alone = back.after < 0 and not (plan.faults or plan.troubles)
        if alone and back.seconds >= _LONG and not self.followed:
            return "the old table was not seen to follow to the end"
        return ""

    def _wrong_word(self, run: Any, *, swapped: bool) -> str:
        back = self.reverting
        if back is None:
            return super()._wrong_word(run, swapped=swapped)
        if back.done:
            return "reverted, and the new table is in place" if swapped else ""
        none = "no reverse replication" in back.error or "has ended" in back.error
        # Its time was over, or an earlier process of it made the swap back, as the tables show.
        if none and (not swapped or OLD not in self.server.tables):
            return ""
        return f"the last revert failed, and nothing went wrong in it: {back.error}"

    def _staying(self) -> set[Name]:
        return {T}
