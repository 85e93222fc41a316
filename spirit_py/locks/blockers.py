"""Blockers: sessions that a table lock waits for, and which of them may be killed (R23)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass, field
from spirit_py.mysql.kill import kill_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.config import KillMode, RunConfig
    from spirit_py.contracts import SqlSession

MOST_ROWS_TO_ROLL_BACK: Final = 1_000_000

_STILL: Final = """
SELECT t.PROCESSLIST_COMMAND, t.PROCESSLIST_TIME FROM performance_schema.threads t
JOIN performance_schema.metadata_locks m ON m.OWNER_THREAD_ID = t.THREAD_ID
WHERE t.THREAD_ID = %s AND m.OWNER_EVENT_ID = %s AND m.LOCK_STATUS = 'GRANTED'
  AND t.PROCESSLIST_ID = %s LIMIT 1"""


@dataclass(frozen=True, kw_only=True)
class Blocker:
    """A session whose lock, held or requested, a lock of ours has to wait for.

    ``key`` identifies this very lock where the server numbers the thread's events; ``began``, of
    its transaction, tells locks apart where it does not, and may be empty. ``session`` is None for
    a prepared, detached XA transaction. ``seconds``: since when it executes its statement, or
    idles; ``open_seconds``: since when its transaction is open. ``statement`` is a digest without
    values (R20). ``rows_modified`` is None when unreadable. ``defining``: it changes a table's
    definition. ``requesting``: it waits itself for a lock that keeps others out. ``certain``: it is
    known to use the table.
    """

    key: tuple[int, int]
    began: str = ""
    session: int | None
    user: str = ""
    host: str = ""
    database: str = ""
    idle: bool = False
    seconds: int = 0
    open_seconds: float = 0.0
    statement: str = ""
    rows_modified: int | None = 0
    table_locks: bool = False
    defining: bool = False
    system: bool = False
    requesting: bool = False
    own: bool = False
    certain: bool = True

    @property
    def age(self) -> float:
        """Seconds for which it is known to have held its lock; a lower bound."""
        if self.session is None or self.requesting:
            return float("inf")
        return max(float(self.seconds), self.open_seconds)

    def __str__(self) -> str:
        """Describe session and activity, without values of the user's data."""
        if self.session is None:
            return "a prepared XA transaction without a session"
        doing = "idle in a transaction" if self.idle else "executing"
        if self.idle and self.table_locks:
            doing = "idle with LOCK TABLES or a global lock"
        if self.requesting:
            doing = "waiting for the table lock itself"
        text = f"session {self.session} of {self.user}@{self.host}, {doing} for {self.seconds} s"
        if self.open_seconds >= self.seconds + 1:
            text += f", transaction open for {self.open_seconds:.0f} s"
        rows = "unknown" if self.rows_modified is None else str(self.rows_modified)
        said = f", last statement: {self.statement}" if self.statement else ""
        return f"{text}, rows changed: {rows}{said}"


def reason_to_spare(blocker: Blocker, kills: KillPolicy, *, in_front_for: float) -> str:
    """Return why a blocker that was in front for so many seconds must not be killed, or nothing."""
    if kills.mode == "never":
        return "no session is killed (--kill-blockers never)"
    if blocker.session is None:
        return "it has no session: end it with XA COMMIT or XA ROLLBACK (see XA RECOVER)"
    if not blocker.certain:
        return "it is not visible whether it uses the table"
    return _bound(blocker) or _early(blocker, kills, in_front_for)


def _bound(blocker: Blocker) -> str:
    if blocker.system or blocker.own:
        return "it belongs to the server" if blocker.system else "it belongs to this program"
    if blocker.table_locks:
        return "it holds LOCK TABLES or a global read lock"
    if blocker.defining:
        return "it is changing the definition of a table"
    if blocker.rows_modified is None:
        return "how much it has changed cannot be read: grant PROCESS to this user"
    if blocker.rows_modified > MOST_ROWS_TO_ROLL_BACK:
        return f"it has changed {blocker.rows_modified} rows: rolling back would take longer"
    return ""


def _early(blocker: Blocker, kills: KillPolicy, in_front_for: float) -> str:
    if in_front_for < kills.after:
        return f"it has blocked the lock for only {in_front_for:.1f} s"
    if kills.mode == "idle" and not blocker.idle:
        return "it is executing a statement (--kill-blockers idle)"
    # Between two statements of a busy transaction a session idles, too. The server counts seconds.
    if kills.mode == "idle" and blocker.seconds < int(kills.after):
        return f"it has been idle for only {blocker.seconds} s"
    return ""


def remedy(
    blockers: Sequence[Blocker], kills: KillPolicy, in_front_for: Callable[[Blocker], float]
) -> str:
    """Return the end of a line about what ends blockers: a kill to come, or the operator's own."""
    ending = [
        one
        for one in blockers
        if one.session is not None and one.certain and not (one.system or one.own)
    ]
    times = {one: _until_killed(one, kills, in_front_for(one)) for one in ending}
    text = ""
    if soon := [seconds for seconds in times.values() if seconds > 0]:
        who = "it is" if len(blockers) == 1 else f"{len(soon)} of them"
        text = f"; {who} killed in {math.ceil(max(soon))} s (--kill-after {kills.after:g}s)"
    if not (left := [one for one, seconds in times.items() if seconds <= 0]):
        return text
    option, killable = "", [one for one in left if not _bound(one)]
    if not killable:
        option = " (no --kill-blockers kills such a session)"
    elif kills.mode != "all" and not all(one.idle for one in killable):
        option = " (--kill-blockers all kills those that execute a statement, too)"
    elif kills.mode == "never":
        option = " (--kill-blockers idle kills those that idle in a transaction)"
    statements = "; ".join(dict.fromkeys(f"KILL {one.session}" for one in left))
    return f"{text}; to end them: {statements} (RDS: CALL mysql.rds_kill){option}"


def _until_killed(blocker: Blocker, kills: KillPolicy, in_front_for: float) -> float:
    """Return in how many seconds a blocker is killed if it goes on like this; 0 where not."""
    if kills.mode == "never" or (kills.mode == "idle" and not blocker.idle) or _bound(blocker):
        return 0.0
    idle = blocker.seconds if kills.mode == "idle" else kills.after
    return kills.after - min(in_front_for, idle)


def kill_blocker(session: SqlSession, blocker: Blocker) -> str:
    """Kill a session if it still holds the lock that it was judged by (R24), or return why not."""
    thread, event = blocker.key
    if blocker.session is None:
        return "it has no session"
    if not (still := session.query(_STILL, (thread, event, blocker.session))):
        return "it no longer blocks the lock"
    command, seconds = still[0]
    # It may idle again: the server counts from its last statement.
    if blocker.idle and (command != "Sleep" or int(seconds or 0) < blocker.seconds):
        return "it has begun another statement"
    return kill_session(session, blocker.session)


OLD_SECONDS: Final = 1.0
"""Age at which a session in front is waited for without a request."""
_STRICT_SECONDS: Final = 30.0
_DOUBLINGS: Final = 20


@dataclass(frozen=True, kw_only=True)
class KillPolicy:
    """Which blockers are killed, by mode, once they were in front for ``after`` seconds."""

    mode: KillMode = "never"
    after: float = 30.0


@dataclass(frozen=True, kw_only=True)
class LockPolicy:
    """How a lock on a table that others use is requested. Seconds.

    ``wait``: for one request, and for new statements behind it. ``timeout``: from the first look to
    the last request. ``old``: age from which a session in front is waited for without a request.
    ``pause``: after the first failed try at least; doubled up to ``longest_pause``.
    """

    wait: float = 2.5
    timeout: float = 86_400.0
    old: float = OLD_SECONDS
    pause: float = 1.0
    longest_pause: float = 30.0
    kills: KillPolicy = field(default_factory=KillPolicy)

    @classmethod
    def of(cls, config: RunConfig) -> LockPolicy:
        """Return the policy that the options of a command ask for."""
        return cls(
            wait=config.lock_wait_timeout,
            timeout=config.cutover_timeout,
            kills=KillPolicy(mode=config.kill_blockers, after=config.kill_after),
        )

    def pause_after(self, tries: int, waited: float) -> float:
        """Return the pause after so many failed tries, from 1, the last of which waited so long."""
        first = max(self.pause, 2.0 * waited)
        return float(min(self.longest_pause, first * 2 ** min(tries - 1, _DOUBLINGS)))

    def old_after(self, looked: float) -> float:
        """Return the age that counts as old after so many seconds of looking."""
        return self.old if looked < _STRICT_SECONDS else max(self.old, self.wait)
