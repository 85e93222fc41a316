"""``threading``, ``time`` and ``queue`` for simulated tasks; the real ones everywhere else.

The program's modules are imported while these stand in ``sys.modules`` (:func:`stand_in`). So what
they keep of them at import time, such as a default argument ``time.monotonic``, is simulated, too.
Outside of a run every function does what the real one does.
"""

from __future__ import annotations

import concurrent.futures as real_futures
import contextlib
import queue as real_queue
import sys
import threading as real_threading
import time as real_time
import types
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.scheduler import Scheduler, Task

_SCHEDULER: list[Scheduler] = []


@contextlib.contextmanager
def simulated(scheduler: Scheduler) -> Iterator[None]:
    """Have everything that is made from now on belong to a scheduler."""
    _SCHEDULER.append(scheduler)
    try:
        yield
    finally:
        _SCHEDULER.remove(scheduler)


def _now() -> Scheduler | None:
    return _SCHEDULER[-1] if _SCHEDULER else None


class _Waiters:
    """Tasks that wait for one thing, in the order in which they came."""

    def __init__(self, scheduler: Scheduler, what: str) -> None:
        self._scheduler = scheduler
        self._what = what
        #: A list, because nearly all stay empty, and few ever have more than one.
        self.tasks: list[Task] = []

    def wait(self, seconds: float | None) -> bool:
        task = self._scheduler.current
        if task is None:
            return self._scheduler.wait(self._what)
        self.tasks.append(task)
        woken = self._scheduler.wait(self._what, seconds)
        if not woken and task in self.tasks:
            self.tasks.remove(task)
        return woken

    def wake(self, number: int = 1) -> None:
        while number and self.tasks:
            self._scheduler.wake(self.tasks.pop(0))
            number -= 1

    def wake_all(self) -> None:
        if self.tasks:
            self.wake(len(self.tasks))


class Event:
    """As ``threading.Event``."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._flag = False
        self._waiters = _Waiters(scheduler, "an event")

    def is_set(self) -> bool:
        return self._flag

    def set(self) -> None:
        self._flag = True
        self._waiters.wake_all()

    def clear(self) -> None:
        self._flag = False

    def wait(self, timeout: float | None = None) -> bool:
        if self._flag:
            self._scheduler.step()
            return True
        self._waiters.wait(timeout)
        return self._flag


class Lock:
    """As ``threading.Lock``."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._owner: Any = None
        self._waiters = _Waiters(scheduler, "a lock")

    def _mine(self) -> Task | bool:
        return self._scheduler.current or True

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        scheduler = self._scheduler
        scheduler.step()
        if self._owner is None:
            self._owner = scheduler.current or True
            return True
        deadline = None if timeout < 0 else scheduler.now + timeout
        while self._owner is not None:
            left = None if deadline is None else deadline - self._scheduler.now
            if not blocking or (left is not None and left <= 0):
                return False
            self._waiters.wait(left)
        self._owner = self._mine()
        return True

    def release(self) -> None:
        if self._owner is None and not self._scheduler.over:
            raise RuntimeError("release unlocked lock")
        self._owner = None
        if self._waiters.tasks:
            self._waiters.wake()

    def locked(self) -> bool:
        return self._owner is not None

    # No call more than needed: these are most of what a world does.
    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        if self._owner is None and not self._scheduler.over:
            raise RuntimeError("release unlocked lock")
        self._owner = None
        if self._waiters.tasks:
            self._waiters.wake()


class RLock(Lock):
    """As ``threading.RLock``."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._owner is not None and self._owner is (self._scheduler.current or True):
            self._depth += 1
            return True
        if Lock.acquire(self, blocking, timeout):
            self._depth = 1
            return True
        return False

    def release(self) -> None:
        if self._owner is not (self._scheduler.current or True):
            if self._scheduler.over:
                return
            raise RuntimeError("cannot release un-acquired lock")
        self._depth -= 1
        if not self._depth:
            self._owner = None
            if self._waiters.tasks:
                self._waiters.wake()

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()

    def let_go(self) -> int:
        """Release whole, for a condition; return how often it was taken."""
        depth, self._depth = self._depth, 0
        super().release()
        return depth

    def take_back(self, depth: int) -> None:
        """Take it again after :meth:`let_go`."""
        super().acquire()
        self._depth = depth


class Condition:
    """As ``threading.Condition``."""

    def __init__(self, scheduler: Scheduler, lock: Any = None) -> None:
        self._scheduler = scheduler
        self._lock = lock if lock is not None else RLock(scheduler)
        self._waiters = _Waiters(scheduler, "a condition")
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> bool:
        return bool(self._lock.acquire())

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        depth = self._lock.let_go() if isinstance(self._lock, RLock) else self._lock.release()
        try:
            return self._waiters.wait(timeout)
        finally:
            if isinstance(self._lock, RLock):
                self._lock.take_back(depth)
            else:
                self._lock.acquire()

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        deadline = None if timeout is None else self._scheduler.now + timeout
        while not (result := predicate()):
            left = None if deadline is None else deadline - self._scheduler.now
            if left is not None and left <= 0:
                break
            self.wait(left)
        return result

    def notify(self, n: int = 1) -> None:
        self._waiters.wake(n)

    def notify_all(self) -> None:
        self._waiters.wake_all()


class Semaphore:
    """As ``threading.Semaphore``."""

    def __init__(self, scheduler: Scheduler, value: int = 1) -> None:
        self._scheduler = scheduler
        self._value = value
        self._waiters = _Waiters(scheduler, "a semaphore")

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        self._scheduler.step()
        deadline = None if timeout is None else self._scheduler.now + timeout
        while not self._value:
            left = None if deadline is None else deadline - self._scheduler.now
            if not blocking or (left is not None and left <= 0):
                return False
            self._waiters.wait(left)
        self._value -= 1
        return True

    def release(self, n: int = 1) -> None:
        self._value += n
        self._waiters.wake(n)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Thread:
    """As ``threading.Thread``, with a target."""

    def __init__(
        self,
        scheduler: Scheduler,
        target: Callable[..., Any],
        name: str = "thread",
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._call: Callable[[], Any] | None = partial(target, *args, **(kwargs or {}))
        self.name = name
        self.daemon = daemon
        self._task: Task | None = None

    @property
    def ident(self) -> int | None:
        return id(self._task) if self._task is not None else None

    def start(self) -> None:
        # Forgotten, as by the real one: it has its object, which has this thread.
        call, self._call = self._call, None
        assert call is not None
        self._task = self._scheduler.spawn(self.name, call)
        self._scheduler.step()

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.ended

    def join(self, timeout: float | None = None) -> None:
        if self._task is not None:
            self._scheduler.join(self._task, timeout)


class Queue:
    """As ``queue.SimpleQueue`` and ``queue.LifoQueue``."""

    def __init__(self, scheduler: Scheduler, *, last_first: bool = False) -> None:
        self.queue: deque[Any] = deque()
        self.mutex = Lock(scheduler)
        self._last_first = last_first
        self._waiters = _Waiters(scheduler, "a queue")
        self._scheduler = scheduler

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self.queue.append(item)
        self._waiters.wake()

    put_nowait = put

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        self._scheduler.step()
        deadline = None if timeout is None else self._scheduler.now + timeout
        while not self.queue:
            left = None if deadline is None else deadline - self._scheduler.now
            if not block or (left is not None and left <= 0):
                raise real_queue.Empty
            self._waiters.wait(left)
        return self.queue.pop() if self._last_first else self.queue.popleft()

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def empty(self) -> bool:
        return not self.queue

    def qsize(self) -> int:
        return len(self.queue)


class Future:
    """As ``concurrent.futures.Future``: what a call returns or raises, once it has ended."""

    def __init__(self, scheduler: Scheduler, name: str, call: Callable[[], Any]) -> None:
        self._scheduler = scheduler
        self._value: Any = None
        self._fault: BaseException | None = None
        self._call = call
        self._task = scheduler.spawn(name, self._run)

    def _run(self) -> None:
        try:
            self._value = self._call()
        except Exception as error:
            self._fault = error

    def exception(self) -> BaseException | None:
        self._scheduler.join(self._task)
        return self._fault

    def result(self) -> Any:
        if (fault := self.exception()) is not None:
            raise fault
        return self._value


class Pool:
    """As ``concurrent.futures.ThreadPoolExecutor``, with as many threads as there are calls."""

    def __init__(
        self, scheduler: Scheduler, _threads: int = 1, thread_name_prefix: str = "pool"
    ) -> None:
        self._scheduler = scheduler
        self._name = thread_name_prefix
        self._futures: list[Future] = []

    def submit(self, call: Callable[..., Any], *given: Any, **named: Any) -> Future:
        future = Future(self._scheduler, self._name, partial(call, *given, **named))
        self._futures.append(future)
        return future

    def shutdown(self, wait: bool = True, **_: Any) -> None:
        for future in self._futures if wait else ():
            future.exception()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


class _CurrentThread:
    """What ``threading.current_thread()`` is in a task."""

    def __init__(self, name: str) -> None:
        self.name = name


def _current_thread() -> Any:
    scheduler = _now()
    if scheduler is None or scheduler.current is None:
        return real_threading.current_thread()
    return _CurrentThread(scheduler.current.name)


def _either(simulated_one: Callable[..., Any], real_one: Callable[..., Any]) -> Callable[..., Any]:
    """Return a maker of the simulated thing in a run, and of the real one outside."""

    def make(*given: Any, **named: Any) -> Any:
        if not _SCHEDULER:
            return real_one(*given, **named)
        return simulated_one(_SCHEDULER[-1], *given, **named)

    return make


def _monotonic() -> float:
    return _SCHEDULER[-1].now if _SCHEDULER else real_time.monotonic()


def _time() -> float:
    scheduler = _now()
    return real_time.time() if scheduler is None else 1_700_000_000.0 + scheduler.now


def _sleep(seconds: float) -> None:
    scheduler = _now()
    if scheduler is None:
        real_time.sleep(seconds)
    else:
        scheduler.sleep(seconds)


class _Module(types.ModuleType):
    """A module of which some functions are replaced."""

    def __init__(self, real: types.ModuleType, **replaced: Any) -> None:
        super().__init__(real.__name__)
        self.__dict__.update(replaced)
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


THREADING = _Module(
    real_threading,
    Event=_either(Event, real_threading.Event),
    Lock=_either(Lock, real_threading.Lock),
    RLock=_either(RLock, real_threading.RLock),
    Condition=_either(Condition, real_threading.Condition),
    Semaphore=_either(Semaphore, real_threading.Semaphore),
    Thread=_either(Thread, real_threading.Thread),
    current_thread=_current_thread,
)
TIME = _Module(
    real_time,
    monotonic=_monotonic,
    perf_counter=_monotonic,
    time=_time,
    sleep=_sleep,
)
QUEUE = _Module(
    real_queue,
    SimpleQueue=_either(Queue, real_queue.SimpleQueue),
    LifoQueue=_either(lambda s, *_: Queue(s, last_first=True), real_queue.LifoQueue),
)
FUTURES = _Module(
    real_futures,
    ThreadPoolExecutor=_either(Pool, real_futures.ThreadPoolExecutor),
)


@contextlib.contextmanager
def stand_in() -> Iterator[None]:
    """Have modules that are imported meanwhile get the simulated clock, threads and queues."""
    stands = {
        "threading": THREADING,
        "time": TIME,
        "queue": QUEUE,
        "concurrent.futures": FUTURES,
    }
    kept = {name: sys.modules[name] for name in stands}
    sys.modules.update(stands)
    try:
        yield
    finally:
        sys.modules.update(kept)
