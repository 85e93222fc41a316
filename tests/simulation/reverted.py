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
from tests.simulation.whole import FEED, SERVER, Silent, WholeRun, no_java
from tests.simulation.world import Plan, World

with stand_in():
    from spirit_py.checkpoint import proofs
    from spirit_py.config import RevertConfig
    from spirit_py.errors import SpiritError
    from spirit_py.migration.reverse.revert import Revert

if TYPE_CHECKING:
    from tests.simulation.server import Name, Table

#: The time that the old table follows.
_SECONDS: Final = (5.0, 60.0, 60.0, 600.0)
_REVERTED: Final = 0.8
#: Tries of a revert in which nothing goes wrong.
_PATIENCE: Final = 3
_AGAIN_SECONDS: Final = 5.0


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
        run = Revert(config, Silent(self.server), engine_factory=no_java, stop=self.stop)
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

    def __post_init__(self) -> None:
        """Remember the old table."""
        super().__post_init__()
        assert self.plan.back is not None
        self._back = self.plan.back
        self._old = self.server.tables[T].number

    def _choices(self) -> dict[str, Any]:
        return {**super()._choices(), "keep_old_current": self._back.seconds}

    def _operate(self) -> None:
        """Run the command, and let somebody else ask for a revert."""
        asks = self._back.after >= 0
        other = self.scheduler.spawn("reverts", self._revert, process="dba") if asks else None
        super()._operate()
        if other is not None:
            self.scheduler.join(other)
            if other.failure is not None:
                raise other.failure

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
