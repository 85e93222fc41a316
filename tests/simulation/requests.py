"""What an operator asks of a run by ``spirit-py ctl``, at drawn moments, and what must hold then.

While a run is paused, or its swap postponed, the table is not swapped. In the end the operator lets
everything go on, again and again until the command has ended.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tests.simulation import program
from tests.simulation.primitives import stand_in
from tests.simulation.program import T

with stand_in():
    from spirit_py.config import ConnectionOptions
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
_OPTIONS: Final = ConnectionOptions(
    host="sim", user="u", password="p", ssl_mode="DISABLED", origin="00112233"
)
_AGAIN_SECONDS: Final = 3.0
#: A run takes no request before its copy begins.
_TRIES: Final = 8
_SOON_SECONDS: Final = 0.3
_DEFERRED: Final = 0.4
#: The verb that ends what another one holds.
_ENDS: Final = {"resume": "pause", "cutover": "postpone"}


class Operator:
    """Asks for one thing after the other; ``swapped`` looks at the table, ``ended`` at the command.

    Attributes:
        wrong: what was done against what had been answered; empty for nothing.
        answered: how many requests were.
    """

    def __init__(
        self,
        server: Server,
        asks: Sequence[str],
        dice: random.Random,
        *,
        swapped: Callable[[], bool],
        ended: Callable[[], bool],
    ) -> None:
        self._server = server
        self._asks, self._dice = asks, dice
        self._swapped, self._ended = swapped, ended
        #: What holds the swap back, by what was answered.
        self._held: set[str] = set()
        self.wrong = ""
        self.answered = 0

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

    def _ask(self, what: str) -> bool:
        """Ask for one thing; False where no process took the request."""
        verb, _, text = what.partition(" ")
        name, _, value = text.partition("=")
        if self._held and self._swapped() and not self.wrong:
            self.wrong = f"swapped in spite of {sorted(self._held)}"
        # It may be carried out, whether its answer is read or not.
        self._held.discard(_ENDS.get(verb, ""))
        tell = self._server.scheduler.tell
        try:
            if not self._server.up:
                return False
            with connect_first(_OPTIONS, role="ctl", read_timeout=30) as session:
                asking = Asking(session, *T, StopSwitch(), lambda said: tell(f"ctl: {said}"))
                tell(f"ctl {what}")
                asking.ask(verb, {name: value} if name else {})
        except SpiritError as error:
            tell(f"ctl {what}: {error.message}")
        except program.CLIENT_ERRORS as error:
            tell(f"ctl {what}: {error}")
        else:
            self.answered += 1
            if verb in _ENDS.values():
                self._held.add(verb)
            return True
        return False


def asked_plan(plan: Plan, seed: int) -> Plan:
    """Make a world of this kind of another one's plan."""
    dice = random.Random(f"requests of {seed}")
    asks = tuple(dice.choice(REQUESTS) for _ in range(dice.randrange(1, 5)))
    deferred = dice.random() < _DEFERRED
    plan = replace(plan, whole=True, moves=0, merges=1, tasks=(), troubles=())
    return replace(plan, requests=asks, deferred=deferred)
