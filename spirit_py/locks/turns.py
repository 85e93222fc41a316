"""When a lock on a table that others use is requested: looks, requests and pauses (R23).

Statements wait behind a waiting request. So it is made only while no session older than a second is
in front, for 2.5 s at most, then pauses double up to half a minute; only the time is limited
(``--cutover-timeout``). After half a minute of looking, only sessions older than a request may wait
count: a table may always have short ones of a second. Where metadata locks cannot be seen, an old
transaction may be on any table: it is waited for that long, then there is one request.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

from spirit_py.classes import KW_ONLY, dataclass, field, replace
from spirit_py.errors import ServerFault
from spirit_py.events.event import untold
from spirit_py.events.run import Warned
from spirit_py.events.swap import LockBlocked, LockUnseen
from spirit_py.locks.blockers import OLD_SECONDS, KillPolicy, kill_blocker, reason_to_spare, remedy
from spirit_py.locks.look import (
    find_blockers,
    find_in_front,
    find_possible,
    waited_for,
    why_locks_are_unseen,
)
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import access_denied
from spirit_py.pace import uncounted
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock, SqlSession
    from spirit_py.events.event import Tell
    from spirit_py.locks.blockers import Blocker, LockPolicy
    from spirit_py.locks.look import LockRequest
    from spirit_py.pace import HeldUp
    from spirit_py.table.names import Name
    from spirit_py.threads import StopSwitch


@dataclass(eq=False)
class Front:
    """The sessions in front of one lock, over all looks and requests; for one thread at a time.

    A session is known by the key of its lock, also between requests. ``now`` is of the last look,
    ``last`` of the last that found some. ``spared``: those that were not killed when it was time,
    and why. ``unseen``: why metadata locks cannot be seen; empty while they can. ``tell`` reports
    kills: its :class:`LockTurns` gives its own.
    """

    request: LockRequest
    kills: KillPolicy = field(default_factory=KillPolicy)
    clock: Clock = time.monotonic
    now: list[Blocker] = field(default_factory=list)
    last: list[Blocker] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)
    spared: list[str] = field(default_factory=list)
    unseen: str = ""
    tell: Tell = untold
    _asked: bool = False
    _first_seen: dict[tuple[int, int], tuple[float, str]] = field(default_factory=dict)
    _killed_keys: set[tuple[int, int]] = field(default_factory=set)
    _waited_for: set[Name] = field(default_factory=set)

    def look(
        self, session: SqlSession, waiter: int | None = None, *, waits: bool = True
    ) -> list[Blocker]:
        """Note who is in front now of the request of ``waiter``, or of one that would be made.

        Not ``waits``: that session works, and is not in front of what it will request.
        """
        found = self._find(session, waiter if waits else None)
        self.now = [one for one in found if waiter is None or one.session != waiter]
        seen = self.clock()
        self._first_seen = {b.key: self._first(b, seen) for b in self.now}
        if self.now:
            self.last = self.now
        return self.now

    def ask_again(self) -> None:
        """Ask at the next look whether locks are seen: that may change in a wait of days."""
        self._asked = False

    def _first(self, blocker: Blocker, now: float) -> tuple[float, str]:
        """Return when a lock was first seen, and when its transaction began.

        A lock of LOCK TABLES, or a global one, outlives its session's transactions. A look may be
        too early for the server's list of transactions: the first that it shows may be another.
        """
        seen, began = self._first_seen.get(blocker.key, (now, ""))
        another = blocker.began and began != blocker.began
        if another and not blocker.table_locks:
            return now, blocker.began
        return seen, blocker.began or began

    def _find(self, session: SqlSession, waiter: int | None) -> list[Blocker]:
        if not self._asked:
            self.unseen = why_locks_are_unseen(session)
            self._asked = True
        try:
            if self.unseen:
                return find_possible(session, self.request)
            if waiter is None:
                guessed = [one for one in self.request.guessed if one not in self._waited_for]
                return find_in_front(session, replace(self.request, guessed=guessed))
            blockers = find_blockers(session, waiter)
            if blockers and self.request.guessed:
                # What a request waits for is no guess, at later looks neither.
                self._waited_for |= waited_for(session, waiter)
            return blockers
        except ServerFault as fault:
            if self.unseen or not access_denied(fault):
                raise
            self.unseen = f"this account may not read them ({fault.text})"
            return self._find(session, waiter)

    def older_than(self, seconds: float) -> list[Blocker]:
        """Return the blockers that were in front for as long at the last look.

        Own sessions, and those that may not use the table, count from a second on at the earliest.
        """

        def needed(blocker: Blocker) -> float:
            known = blocker.certain and not blocker.own
            return seconds if known else max(seconds, OLD_SECONDS)

        return [one for one in self.now if max(one.age, self._seen_for(one)) >= needed(one)]

    def _seen_for(self, blocker: Blocker) -> float:
        now = self.clock()
        return now - self._first_seen.get(blocker.key, (now, ""))[0]

    def kill(self, session: SqlSession, permitted: Callable[[], bool] = lambda: True) -> None:
        """Kill those of the last look that may be killed; asks ``permitted`` before each kill."""
        self.spared = []
        if self.kills.mode == "never":
            return
        for blocker in self.now:
            if blocker.key in self._killed_keys:
                continue
            seen_for = self._seen_for(blocker)
            reason = reason_to_spare(blocker, self.kills, in_front_for=seen_for)
            if not reason:
                if not permitted():
                    return
                reason = kill_blocker(session, blocker)
            if not reason:
                self._killed_keys.add(blocker.key)
                self.killed.append(str(blocker))
                self.tell(Warned(said=f"killed for the table lock: {blocker}"))
            elif seen_for >= self.kills.after:
                self.spared.append(f"{blocker}: not killed, {reason}")

    def described(self) -> str:
        """Return who was last seen in front, and why they live; empty when nobody was."""
        return "; ".join(self.spared or map(str, self.last))

    def remedy(self, found: list[Blocker]) -> str:
        """Return what ends those of ``found`` that are in this front, to be added to a line."""
        here = [one for one in found if one in self.now]
        return remedy(here, self.kills, self._seen_for)


def named(blockers: list[Blocker]) -> str:
    """Return a text that names the first of some blockers, and how many more there are."""
    more = f" and {len(blockers) - 1} more" if len(blockers) > 1 else ""
    return f"{blockers[0]}{more}"


_LOOK_SECONDS: Final = 0.4
_UNCERTAIN_SECONDS: Final = 300.0
_ATTEND_SECONDS: Final = 2.0
_REPEAT_SECONDS: Final = 60.0
_SHOW_SECONDS: Final = 1.0
_READ_SECONDS: Final = 10


class SomebodyInFront(Exception):
    """A lock was not requested, because an old transaction is in front of it by now."""


@dataclass(eq=False)
class LockTurns:
    """Decides when a lock may be requested, over all its tries.

    ``fronts`` are of each server with a request. ``show`` gets what is waited for, and an empty
    text at the end; ``tell`` reports at the start and every minute. ``held_up`` gets the seconds in
    which no lock was requested, or in vain, because of somebody in front. ``attend`` is called
    every two seconds of waiting; what it raises ends the wait. ``instead``: the end of a line about
    what an operator can do besides.
    """

    fronts: Sequence[tuple[ConnectionOptions, Front]]
    policy: LockPolicy
    stop: StopSwitch
    _: KW_ONLY
    what: str
    show: Callable[[str], None]
    tell: Tell
    held_up: HeldUp = uncounted
    attend: Callable[[], object] = str
    instead: str = ""
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        for _, front in self.fronts:
            front.tell = self.tell
        self._began = self.clock()
        self._said = float("-inf")
        self._attended = self._began
        self._told_unseen = False
        self._looked = 0.0

    @property
    def over(self) -> bool:
        """Whether no further try may be made."""
        return self.left <= 0

    @property
    def left(self) -> float:
        """Seconds of the policy's time that are left; at most 0 when it is over."""
        return self.policy.timeout - (self.clock() - self._began)

    def await_free(self) -> bool:
        """Wait until no old session is in front; False when the time is over before.

        Raises a ServerFault for a lost session, or the SpiritError of a stop request or ``attend``.
        """
        with contextlib.ExitStack() as stack:
            sessions = [
                stack.enter_context(connect(options, role="lock-look", read_timeout=_READ_SECONDS))
                for options, _ in self.fronts
            ]
            for _, front in self.fronts:
                front.ask_again()
            began = self.clock()
            self._looked = 0.0
            with self._counted() as count:
                while found := self.in_front(sessions):
                    if self.over:
                        return False
                    count(self._report(found))
                    self._rest(_LOOK_SECONDS)
                    self._looked = self.clock() - began
            if self._looked:
                self.show("")
        return True

    @contextlib.contextmanager
    def _counted(self, waited: float = 0.0) -> Iterator[Callable[[str], None]]:
        """Return what is called while others hold up the lock; all from the first call on counts.

        ``waited``: seconds before that, which count, too.
        """
        counted_at: float | None = None

        def count(what: str) -> None:
            nonlocal counted_at
            now = self.clock()
            self.held_up(what, waited if counted_at is None else now - counted_at)
            counted_at = now

        try:
            yield count
        finally:
            if counted_at is not None:
                count("")

    def in_front(self, sessions: Sequence[SqlSession]) -> list[Blocker]:
        """Return who must be waited for without a request; kill who may be, by server."""
        old = self.policy.old_after(self._looked)
        found: list[Blocker] = []
        for session, (_, front) in zip(sessions, self.fronts, strict=True):
            front.look(session)
            # Without a table the request is for what no other server of the run shows anyway.
            if front.unseen and front.request.tables and not self._told_unseen:
                self._told_unseen = True
                self.tell(LockUnseen(lock=self.what, reason=front.unseen))
            front.kill(session)
            found += front.older_than(old)
        if self._looked >= _UNCERTAIN_SECONDS:
            found = [each for each in found if each.certain]
        return found

    def require_free(self, sessions: Sequence[SqlSession]) -> None:
        """Look once more, right before the request; raise SomebodyInFront."""
        if self.in_front(sessions):
            raise SomebodyInFront

    def pause(
        self, tries: int, waited: float, why: str, *, in_vain: bool = False, least: float = 0.0
    ) -> None:
        """Pause after the last of ``tries``, showing ``why``; SpiritError as :meth:`await_free`.

        ``in_vain``: the request ended because of somebody in front, whom no look has seen.
        ``least``: seconds, however short the longest pause.
        """
        pause = min(max(least, self.policy.pause_after(tries, waited)), max(0.0, self.left))
        until = self.clock() + pause
        held_up = in_vain or any(front.now for _, front in self.fronts)
        with self._counted(waited) as count:
            while (rest := until - self.clock()) > 0:
                next_one = f"the next in {human_seconds(rest)}"
                when = f"a pause for writers after request {tries}, {next_one}"
                text = f"{self.what} ({when}){why and f'; {why}'}"
                self.show(text)
                if held_up:
                    count(text)
                self._rest(min(rest, _SHOW_SECONDS))
        self.show("")

    def described(self) -> str:
        """Return who was last seen in front, and why they live; empty when nobody was."""
        return "; ".join(filter(None, (front.described() for _, front in self.fronts)))

    def _rest(self, seconds: float) -> None:
        self.stop.wait(seconds)
        self.stop.check()
        if self.clock() - self._attended >= _ATTEND_SECONDS:
            self.attend()
            self._attended = self.clock()

    def _report(self, found: list[Blocker]) -> str:
        """Show and tell who is in front; return what is shown."""
        spared = [text for _, front in self.fronts for text in front.spared]
        who = "; ".join(spared) or named(found)
        text = f"{who}, before {self.what} is requested"
        end = "".join(front.remedy(found) for _, front in self.fronts) + self.instead
        self.show(f"{text}{end}")
        if self.clock() - self._said >= _REPEAT_SECONDS:
            self._said = self.clock()
            self.tell(LockBlocked(lock=self.what, blockers=who, remedy=end))
        return text
