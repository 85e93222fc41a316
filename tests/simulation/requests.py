"""What an operator asks of a run by ``spirit-py ctl``, at drawn moments, and what must hold then.

While a run is paused, or its swap postponed, the table is not swapped. In the end the operator lets
everything go on, again and again until the command has ended.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tests.simulation import program
from tests.simulation.primitives import stand_in
from tests.simulation.program import T
from tests.simulation.whole import SERVER

with stand_in():
    from spirit_py.errors import SpiritError
    from spirit_py.migration.control.command import Asking
    from spirit_py.mysql.connect import connect_first
    from spirit_py.threads import StopSwitch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.simulation.server import Server
    from tests.simulation.world import Plan

#: What is asked, with its arguments.
REQUESTS: Final = ("pause", "resume", "postpone", "cutover", "set threads=1", "set threads=2")
#: What ends a run.
ABORTS: Final = ("abort", "abort", "abort cleanup=")
_AGAIN_SECONDS: Final = 3.0
#: A run takes no request before its copy begins.
_TRIES: Final = 8
_SOON_SECONDS: Final = 0.3
_DEFERRED: Final = 0.4
#: The verb that ends what another one holds.
_ENDS: Final = {"resume": "pause", "cutover": "postpone"}
#: The answers of a process that swaps nothing from then on.
_STOPPING: Final = (
    "stopping; the same command resumes",
    "stopping; what was copied is dropped",
)
_EXIT_CODE: Final = 143
_ABORTED: Final = 0.3


class Operator:
    """Asks for one thing after the other.

    ``table`` is the number of the table in place, ``ended`` whether the command is not run again,
    and ``running`` returns the present or last process.

    Attributes:
        wrong: what was done against what had been answered; empty for nothing.
        aborted: the process that has answered last that it stops, and its answer.
    """

    def __init__(
        self,
        server: Server,
        asks: Sequence[str],
        dice: random.Random,
        *,
        table: Callable[[], int],
        ended: Callable[[], bool],
        running: Callable[[], Any],
    ) -> None:
        self._server = server
        self._asks, self._dice = asks, dice
        self._table, self._ended, self._running = table, ended, running
        #: What holds the swap back, by what was answered, and the table that stays by that.
        self._held: dict[str, int] = {}
        self.wrong = ""
        self.aborted: tuple[Any, str, int] = (None, "", 0)

    def work(self) -> None:
        """Ask for what was drawn; then let the run go on until its command has ended."""
        sleep = self._server.scheduler.sleep
        # It may ask before the first run.
        program.serve(self._server)
        for each in self._asks:
            sleep(self._dice.choice((0.05, 0.2, 1.0, 3.0)) * self._dice.random())
            for _ in range(_TRIES):
                if self._ended() or self._ask(each):
                    break
                sleep(_SOON_SECONDS)
        while not self._ended():
            for each in ("resume", "cutover"):
                self._ask(each)
            sleep(_AGAIN_SECONDS)
        # What was answered last is asked about no more.
        self._look()

    def see_end(self, run: Any, *, faultless: bool) -> bool:
        """Judge how a process has ended; return whether it was asked to."""
        asked, answer, table = self.aborted
        if run is not asked or self.wrong:
            return run is asked
        tables = sorted(self._server.tables)
        if self._table() != table:
            self.wrong = f"swapped behind its answer: {answer}"
        elif faultless and run.exit_code != _EXIT_CODE:
            self.wrong = f"aborted, with exit code {run.exit_code}: {run.error}"
        elif faultless and answer == _STOPPING[1] and tables != [T]:
            self.wrong = f"aborted for good, and tables are left: {tables}"
        return True

    def _look(self) -> None:
        """Judge whether the table was swapped while an answer held that back."""
        table = self._table()
        despite = sorted(one for one, held in self._held.items() if held != table)
        if despite and not self.wrong:
            self.wrong = f"swapped in spite of {despite}"

    def _ask(self, what: str) -> bool:
        """Ask for one thing; False where no process took the request."""
        verb, _, text = what.partition(" ")
        name, _, value = text.partition("=")
        self._look()
        # It may be carried out, whether its answer is read or not.
        self._held.pop(_ENDS.get(verb, ""), None)
        tell = self._server.scheduler.tell
        run = self._running()

        def said(line: str) -> None:
            tell(f"ctl: {line}")
            if line in _STOPPING and run is self._running():
                self.aborted = run, line, self._table()
                if line == _STOPPING[1]:
                    # With the checkpoint and the sentinel.
                    self._held.clear()

        try:
            if not self._server.up:
                return False
            with connect_first(SERVER, role="ctl", read_timeout=30) as session:
                asking = Asking(session, *T, StopSwitch(), said)
                tell(f"ctl {what}")
                asking.ask(verb, {name: value} if name else {})
        except SpiritError as error:
            tell(f"ctl {what}: {error.message}")
        except program.CLIENT_ERRORS as error:
            tell(f"ctl {what}: {error}")
        else:
            self._server.happened.add(verb)
            if verb in _ENDS.values():
                self._held[verb] = self._table()
            return True
        return False


def asked_plan(plan: Plan, seed: int) -> Plan:
    """Make a world of this kind of another one's plan."""
    dice = random.Random(f"requests of {seed}")
    asks = tuple(dice.choice(REQUESTS) for _ in range(dice.randrange(1, 5)))
    deferred = dice.random() < _DEFERRED
    # Drawn apart: the other worlds stay as they were.
    more = random.Random(f"aborts of {seed}")
    if more.random() < _ABORTED:
        at = more.randrange(len(asks) + 1)
        asks = (*asks[:at], more.choice(ABORTS), *asks[at:])
    return replace(plan.of_command(), troubles=(), requests=asks, deferred=deferred)
