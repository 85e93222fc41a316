"""One thread that runs every task of a simulated world, and chooses which of them goes on.

A task is a greenlet. It gives up control where its real counterpart could lose it: when it takes a
lock, waits for an event or a condition, sleeps, or sends a statement. There the scheduler
*chooses* among the tasks that can go on. Time stands still while tasks run. It moves to the next
deadline when no task can go on, and now and then before that, as if all tasks were slow.

A choice is a number below the number of options, and 0 is the least surprising option: the same
task goes on, or the one that has been ready for longest. So a run with fewer choices other than 0
is a simpler schedule; shrinking needs no more than that.
"""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from greenlet import GreenletExit, getcurrent, greenlet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: A run that takes more steps than this hangs: tasks take turns and nothing comes of it.
MOST_STEPS: Final = 300_000


class Hang(AssertionError):
    """Every task waits for another one and for no moment, or the steps have no end."""


class Choices:
    """Numbers that decide what happens next; all but a few are 0, and those few are kept.

    A choice is the ``n``-th one of a run. So a run is repeated by the mapping of ``n`` to what was
    chosen there, and made simpler by leaving some of it out.

    Args:
        seed: of choices that are drawn; None for those that are given.
        given: the choices that are not 0.
        boldness: the probability that a drawn choice is not 0.
    """

    def __init__(
        self, seed: int | None, given: Mapping[int, int] | None = None, *, boldness: float = 0.06
    ) -> None:
        self.random = random.Random(seed)
        self._given = None if given is None else dict(given)
        self._rarity = math.log(1.0 - boldness)
        self._places = iter(sorted(given or ()))
        self.made: dict[int, int] = {}
        self.number = 0
        #: The number of the next choice that may not be 0.
        self.next = 0
        self._skip()

    def _skip(self) -> None:
        """Find the number of the next choice that may not be 0."""
        if self._given is not None:
            self.next = next(self._places, -1)
        else:
            gap = math.log(1.0 - self.random.random()) / self._rarity
            self.next = self.number + 1 + int(gap)

    def choose(self, options: int) -> int:
        """Return a number below ``options``; 0 most of the time."""
        self.number += 1
        return self.chosen(options) if self.number == self.next else 0

    def chosen(self, options: int) -> int:
        """Return what was chosen where the number is the next one that may not be 0."""
        if self._given is not None:
            chosen = min(self._given[self.number], options - 1)
        else:
            chosen = self.random.randrange(options)
        self._skip()
        if chosen:
            self.made[self.number] = chosen
        return chosen


@dataclass(eq=False)
class Task:
    """One thread of a simulated process, or a client of the server.

    Attributes:
        process: what a kill ends; the tasks of a process end together.
        waits_for: in words; empty while the task can go on.
        deadline: when a wait ends by itself; None for never.
        woken: the wait was ended by another task, not by its deadline.
        failure: what the body raised.
        served: the server executes a statement of it now, and would go on without it.
        doomed: its process is dead: it ends with that statement.
    """

    name: str
    process: object
    body: greenlet = field(init=False, repr=False)
    waits_for: str = ""
    deadline: float | None = None
    woken: bool = False
    ended: bool = False
    failure: BaseException | None = None
    served: bool = False
    doomed: bool = False
    joining: list[Task] = field(default_factory=list, repr=False)


class Scheduler:
    """Runs tasks, one at a time, in the order of the choices. Use once.

    A task that gives up control switches to the next one itself; the hub, who called :meth:`run`,
    goes on when a task has ended, or when no task can.

    Attributes:
        current: the task that runs now; None outside of all.
    """

    def __init__(self, choices: Choices, *, telling: bool = False) -> None:
        self.choices = choices
        self.now = 1_000.0
        self.steps = 0
        #: What happened, a line each, for those who read a failure; empty unless ``telling``.
        self.story: list[str] = []
        self.telling = telling
        self._hub = getcurrent()
        self._ready: list[Task] = []
        self._waiting: dict[Task, None] = {}
        self._timers: list[tuple[float, int, Task]] = []
        #: No time passes behind this moment.
        self._until = math.inf
        self._count = 0
        self.current: Task | None = None
        #: Killed tasks: never run again; kept, because a greenlet that is collected runs on.
        self._killed: list[Task] = []
        self.over = False

    def tell(self, what: str) -> None:
        """Add a line to the story."""
        if self.telling:
            who = self.current.name if self.current else "world"
            self.story.append(f"{self.now - 1_000.0:9.3f} {who}: {what}")

    # -- what tasks call

    def spawn(self, name: str, body: Callable[[], Any], process: object = None) -> Task:
        """Make a task that can go on; of the caller's process, unless another one is named."""
        if process is None and self.current is not None:
            process = self.current.process
        task = Task(name, process)

        def run() -> None:
            try:
                body()
            except GreenletExit:
                pass
            except BaseException as error:
                task.failure = error
            task.ended = True
            # Or the two keep each other until a collection of garbage.
            del task.body
            for other in task.joining:
                self.wake(other)

        task.body = greenlet(run, parent=self._hub)
        self._ready.append(task)
        return task

    def step(self) -> None:
        """Let other tasks run first, if the choice says so."""
        if self.over:
            # Python collects this greenlet after the run.
            raise GreenletExit
        task = self.current
        if task is None:
            return
        self.steps += 1
        choices = self.choices
        # Nearly always: the same as choose() below, without asking what the options are.
        choices.number += 1
        if choices.number != choices.next:
            return
        self._forget_timers()
        others = len(self._ready)
        chosen = choices.chosen(1 + others + bool(self._timers))
        if not chosen:
            return
        if chosen > others:
            # Not every time that it is drawn: most of what waits would come too late.
            if not choices.choose(4):
                return
            self._let_time_pass()
            chosen = len(self._ready)
        other = self._ready.pop(chosen - 1)
        self._ready.append(task)
        self._switch_to(other)

    def wait(self, what: str, seconds: float | None = None) -> bool:
        """Wait until woken, at most so long; return whether the task was woken."""
        if self.over:
            raise GreenletExit
        task = self.current
        if task is None:
            raise Hang(f"the world itself waits for {what}")
        task.waits_for, task.woken = what or "something", False
        if seconds is None:
            task.deadline = None
        else:
            task.deadline = deadline = self.now + seconds if seconds > 0.0 else self.now
            self._count += 1
            heapq.heappush(self._timers, (deadline, self._count, task))
        self._waiting[task] = None
        other = self._next()
        if other is not task:
            self._switch_to(other)
        return task.woken

    def _switch_to(self, other: Task | None) -> None:
        """Have another task run, or the hub; return when the caller goes on."""
        self.current = other
        if other is None:
            self._hub.switch()
        else:
            other.body.switch()
        if self.over:
            raise GreenletExit

    def sleep(self, seconds: float) -> None:
        """Wait for so long, whatever happens."""
        self.wait("time", seconds)

    def wake(self, task: Task) -> None:
        """End a wait. One that is over is left alone."""
        if task in self._waiting:
            self._go_on(task, woken=True)

    def join(self, task: Task, seconds: float | None = None) -> bool:
        """Wait for the end of a task, or of its process; return whether it has ended itself."""
        deadline = None if seconds is None else self.now + seconds
        while not (task.ended or task.doomed) and self.current is not None:
            left = None if deadline is None else deadline - self.now
            if left is not None and left <= 0:
                break
            if self.current not in task.joining:
                task.joining.append(self.current)
            self.wait(f"the end of {task.name}", left)
        return task.ended

    def kill(self, process: object) -> None:
        """End the tasks of a process where they are: nothing of them runs any more.

        A statement that the server executes goes on to its end (:meth:`end_if_doomed`).
        """
        doomed = [task for task in [*self._ready, *self._waiting] if task.process is process]
        for task in doomed:
            task.doomed = True
            if not task.served:
                self._killed.append(task)
        self._ready = [task for task in self._ready if not task.doomed or task.served]
        self._waiting = {task: None for task in self._waiting if not task.doomed or task.served}
        for other in [other for task in doomed for other in task.joining]:
            self.wake(other)

    def end_if_doomed(self, task: Task) -> None:
        """Let the task that runs go no further if its process was killed."""
        if task.doomed:
            self._killed.append(task)
            self._switch_to(None)

    # -- the loop

    def run(self, tasks: Sequence[Task]) -> None:
        """Run until these tasks have ended, and no task goes on before another one ends or waits.

        Raises:
            Hang: they never will.
        """
        while not all(task.ended for task in tasks):
            self._run_one()

    def run_out(self, seconds: float) -> None:
        """Run what can go on within so many seconds."""
        self._until = self.now + seconds
        self._forget_timers()
        while self._ready or (self._timers and self._timers[0][0] <= self._until):
            self._run_one()
            self._forget_timers()
        self._until = math.inf

    def _run_one(self) -> None:
        """Run a task, and those that it gives control to, until one of them ends."""
        task = self._next()
        if task is None:
            if self.steps > MOST_STEPS:
                raise Hang(f"no end after {MOST_STEPS} steps; {self._state()}")
            raise Hang(f"every task waits for another one: {self._state()}")
        self.current = task
        task.body.switch()
        self.current = None

    def _next(self) -> Task | None:
        """Return who goes on when the task that ran waits, or has ended; None for the hub."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            return None
        ready = self._ready
        if not ready:
            self._forget_timers()
            if not self._timers or self._timers[0][0] > self._until:
                return None
            self._let_time_pass()
        elif len(ready) > 1:
            return ready.pop(self.choices.choose(len(ready)))
        return ready.pop()

    def _let_time_pass(self) -> None:
        deadline, _, task = heapq.heappop(self._timers)
        self.now = max(self.now, deadline)
        self._go_on(task, woken=False)

    def _forget_timers(self) -> None:
        """Drop timers of waits that are over."""
        timers = self._timers
        while timers:
            deadline, _, task = timers[0]
            if task.deadline == deadline and task in self._waiting:
                return
            heapq.heappop(timers)

    def _go_on(self, task: Task, *, woken: bool) -> None:
        del self._waiting[task]
        task.woken, task.waits_for, task.deadline = woken, "", None
        self._ready.append(task)

    def _state(self) -> str:
        waiting = (f"{task.name} waits for {task.waits_for}" for task in self._waiting)
        return "; ".join([*(f"{task.name} is ready" for task in self._ready), *waiting])

    def close(self) -> None:
        """End every greenlet that is left."""
        self.over = True
        for task in [*self._ready, *self._waiting, *self._killed]:
            if not task.ended and task.body:
                task.body.throw(GreenletExit)
        self._ready, self._waiting, self._killed = [], {}, []
