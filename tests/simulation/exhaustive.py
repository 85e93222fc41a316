"""Small worlds that are walked, not drawn: one change, and one event, at each place of a run.

The program goes its usual way (no choice is drawn). Its statements are the places. At one of them a
client's transaction is in the binlog; at the same or at a later one it becomes visible, or reaches
the feed, or the process is killed and the command run again. A table of three rows is copied in two
chunks. Whoever sends the statement waits meanwhile until nobody else can go on.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.simulation import program
from tests.simulation.statements import execute
from tests.simulation.world import Plan, World, play

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.scheduler import Task

#: One change of each kind, to keys of both chunks: the first, one that is missing, and the last.
CHANGES: Final = (
    ("update 1,7",),
    ("delete 1",),
    ("insert 2,7",),
    ("update 5,7",),
    ("delete 5",),
    ("insert 6,7",),
    # The key of a row changes: out of one chunk, and into the other.
    ("delete 1", "insert 6,7"),
    ("delete 5", "insert 2,7"),
)
#: What happens besides, and whether the command itself runs, not its parts.
EVENTS: Final = (("visible", False), ("received", False), ("killed", False), ("killed", True))
#: Seconds for which a commit stalls, or a packet is under way, where no place ends that.
_STALLS: Final = 3.0
_UNDER_WAY: Final = 1.0


@dataclass(frozen=True)
class Script:
    """One world: what is changed at which statement, and what happens at which later one."""

    change: tuple[str, ...]
    at: int
    event: str
    then: int
    whole: bool = False


@dataclass
class Scripted(World):
    """A world of a script."""

    script: Script = field(kw_only=True)
    #: Statements that the program has sent.
    number: int = 0
    _held: list[Task] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Have the statements counted."""
        super().__post_init__()
        self.server.counted = self._count

    def _count(self) -> None:
        self.number += 1
        if self.number == self.script.at:
            self.scheduler.spawn("client", self._change, process="clients")
            self._let_others_go_on()
        if self.number == self.script.then:
            if self.script.event == "killed":
                self.scheduler.spawn("killer", self._end, process="killer")
            for task in self._held:
                self.scheduler.wake(task)
            self._let_others_go_on()

    def _let_others_go_on(self) -> None:
        self.scheduler.wait("the others", 0.0)

    def _stall(self) -> float:
        client = self.scheduler.current
        if self.script.event != "visible" or client is None or client.name != "client":
            return 0.0
        return _STALLS

    def _latency(self) -> float:
        past = self.script.at <= self.number < self.script.then
        if self.script.event != "received" or not past or self._held:
            return 0.0
        assert self.scheduler.current is not None
        self._held.append(self.scheduler.current)
        return _UNDER_WAY

    def stalled(self, task: Task) -> None:
        """Note a commit that stalls."""
        self._held.append(task)

    def _change(self) -> None:
        session = self._connected("client")
        self.server.stalling = self.stalled
        with contextlib.suppress(program.CLIENT_ERRORS):
            execute(session, "BEGIN", ())
            for change in self.script.change:
                kind, _, values = change.partition(" ")
                execute(session, f"client {kind} s.t {values}", ())
            self.scheduler.tell(f"{', '.join(self.script.change)}")
            execute(session, "COMMIT", ())
        self.server.end(session)

    def _end(self) -> None:
        self._kill(self.last)

    def _operate(self) -> None:
        if self.script.event == "killed":
            run = self.last = self._command()
            if self.scheduler.join(self.scheduler.spawn("run", run.main, process=run)) and run.done:
                return
        super()._operate()


def places(*, whole: bool) -> int:
    """Return how many statements the program sends where nothing happens."""
    counted: list[int] = []

    def make(*given: Any) -> Scripted:
        world = Scripted(*given, script=Script((), 0, "visible", 0))
        counted.append(0)
        world.server.counted = lambda: counted.__setitem__(0, counted[0] + 1)
        return world

    outcome = play(None, _plan(whole=whole), given={}, making=make)
    assert not outcome.wrong, outcome.wrong
    return counted[0]


def _plan(*, whole: bool) -> Plan:
    return Plan(rows=3, clients=0, writes=0, stalls=0.0, late=0.0, whole=whole)


def walked(stride: int = 1) -> Iterator[Script]:
    """Yield every script; with a stride, those of every so many places.

    The command itself has three times as many as its parts.
    """
    for event, whole in EVENTS:
        number = places(whole=whole)
        step = 3 * stride if whole and stride > 1 else stride
        for change in CHANGES:
            for at, then in itertools.combinations_with_replacement(range(1, number + 1, step), 2):
                yield Script(change, at, event, then, whole)


def played(script: Script, *, telling: bool = False) -> Any:
    """Play the world of a script."""

    def make(*given: Any) -> Scripted:
        return Scripted(*given, script=script)

    return play(None, _plan(whole=script.whole), given={}, telling=telling, making=make)
