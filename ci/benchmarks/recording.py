"""The statements by which the program copies, taken from the server's general log.

Plain threads run the statements of the log in their turn: the same ranges, in the same
transactions, each session's in its own order. This needs no knowledge of the copier.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.sessions import Session

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks.sessions import Address

#: The new table, under its name or under the one that it has while it is made.
_NEW = r"`_t_(?:new|[0-9a-f]{6})`"
_COMMENT = r"\s*(?:/\*.*?\*/\s*)*"
_DDL = re.compile(rf"{_COMMENT}(?:CREATE|ALTER|RENAME|DROP)\b.*{_NEW}", re.IGNORECASE | re.DOTALL)
_SWAP = re.compile(r"RENAME TABLE.*`_t_old`", re.IGNORECASE | re.DOTALL)
#: The table on which indexes are tried is dropped while the new one is made.
_DROPPED = re.compile(rf"{_COMMENT}DROP TABLE.*`_t_new`", re.IGNORECASE | re.DOTALL)
_COPY = re.compile(
    rf"{_COMMENT}(?:REPLACE|INSERT)\b.*?\bINTO\b.*?{_NEW}.*?\bSELECT\b.*\bFROM\b.*`t`",
    re.IGNORECASE | re.DOTALL,
)
_SETTINGS = (
    "SET SESSION transaction_isolation = 'READ-COMMITTED'",
    "SET SESSION foreign_key_checks = 0",
    "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
)


@dataclass(kw_only=True)
class Recording:
    """The statements that made and filled a new table.

    Attributes:
        before: statements that made it.
        sessions: statements that filled it, of each session that did.
        after: statements that changed it when it was full, such as ADD INDEX.
    """

    before: list[str] = field(default_factory=list)
    sessions: list[list[str]] = field(default_factory=list)
    after: list[str] = field(default_factory=list)

    @property
    def statements(self) -> int:
        """How many statements copied rows."""
        return sum(map(len, self.sessions))


def sorted_out(log: Iterable[tuple[int, str]]) -> Recording:
    """Sort the log's statements, each with the session that it was of."""
    found = Recording()
    copying: dict[int, list[str]] = {}
    for session, text in log:
        if _COPY.match(text):
            copying.setdefault(session, []).append(text)
        elif _DDL.match(text) and not _SWAP.search(text) and not _DROPPED.match(text):
            (found.after if copying else found.before).append(text)
    found.sessions = list(copying.values())
    return found


@contextlib.contextmanager
def recorded(address: Address) -> Iterator[Recording]:
    """Record what is done in a ``with`` block; the recording is complete after it."""
    recording = Recording()
    with Session(address, schema="") as session:
        output, was_on = session.query("SELECT @@global.log_output, @@global.general_log")[0]
        began = session.value("SELECT NOW(6)")
        session.execute("SET GLOBAL log_output = 'TABLE'")
        session.execute("SET GLOBAL general_log = ON")
    try:
        yield recording
    finally:
        # Another session: a server ends one that idles for as long as a migration takes.
        with Session(address, schema="") as session:
            session.execute(f"SET GLOBAL general_log = {was_on}")
            session.execute(f"SET GLOBAL log_output = '{output}'")
    with Session(address, schema="") as session:
        rows = session.query(
            "SELECT thread_id, CONVERT(argument USING utf8mb4) FROM mysql.general_log"
            f" WHERE event_time >= '{began}' AND command_type IN ('Query', 'Execute')"
        )
    seen = sorted_out((int(thread), str(text)) for thread, text in rows)
    recording.before, recording.sessions, recording.after = seen.before, seen.sessions, seen.after


class _Share:
    """Hands out statements: a worker goes on with the session that it has, then takes another."""

    def __init__(self, sessions: Iterable[Iterable[str]]) -> None:
        self._waiting = deque(deque(statements) for statements in sessions)
        self._lock = threading.Lock()

    def next(self, mine: deque[str]) -> tuple[str | None, deque[str]]:
        """Return a statement, or None when all are taken; and the session it is of."""
        with self._lock:
            if not mine and self._waiting:
                mine = self._waiting.popleft()
            if not mine:
                return None, mine
            return mine.popleft(), mine


def replay(address: Address, recording: Recording, threads: int) -> dict[str, float]:
    """Make the new table and fill it with plain threads; return the seconds of each part."""
    share = _Share(recording.sessions)

    def work(session: Session) -> None:
        mine: deque[str] = deque()
        while True:
            statement, mine = share.next(mine)
            if statement is None:
                return
            session.execute(statement)

    with contextlib.ExitStack() as stack:
        own = stack.enter_context(Session(address))
        own.execute("DROP TABLE IF EXISTS _t_new")
        for statement in recording.before:
            own.execute(statement)
        sessions = [stack.enter_context(Session(address)) for _ in range(threads)]
        for session in (own, *sessions):
            for setting in _SETTINGS:
                session.execute(setting)
        began = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, sessions))
        phases = {"copy": time.perf_counter() - began}
        if recording.after:
            began = time.perf_counter()
            for statement in recording.after:
                own.execute(statement)
            phases["index"] = time.perf_counter() - began
    return phases
