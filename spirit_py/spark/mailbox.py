"""Messages between the driver and the members of a gang, in user variables of their sessions.

Each side writes its messages to a user variable of its own session and reads the other side's in
``performance_schema.user_variables_by_thread``. A read takes 0.1 ms and needs only SELECT there.
There is no table, no binlog event and no port of the driver that a firewall may close, and
everything is removed with the session.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spirit_py.errors import MigrationFailure

if TYPE_CHECKING:
    from collections.abc import Collection

    from spirit_py.contracts import SqlSession

_LETTERS: Final = """SELECT THREAD_ID, VARIABLE_VALUE
FROM performance_schema.user_variables_by_thread WHERE VARIABLE_NAME = %s"""

_SILENT: Final = """
SELECT COUNT(*) FROM performance_schema.threads
WHERE PROCESSLIST_COMMAND = 'Sleep' AND PROCESSLIST_TIME >= %s AND THREAD_ID IN ({})"""

_THREAD: Final = """SELECT THREAD_ID FROM performance_schema.threads
WHERE PROCESSLIST_ID = CONNECTION_ID()"""


@dataclass(frozen=True)
class Mailbox:
    """The variables of one gang's messages. Picklable: both sides have it.

    Attributes:
        name: of the members' variables; those of the driver end in the member's rank.
        driver_thread: the server's thread of the driver's session.
    """

    name: str
    driver_thread: int

    @classmethod
    def open(cls, driver: SqlSession) -> Mailbox:
        """Return a mailbox of the driver's session."""
        return cls(f"spirit_py_gang_{secrets.token_hex(6)}", int(driver.query(_THREAD)[0][0]))

    def post(self, driver: SqlSession, rank: int, orders: Collection[tuple[int, str]]) -> None:
        """Replace a member's orders, each with its number."""
        driver.execute(f"SET @{self.name}_{rank} = %s", (json.dumps(list(orders)),))

    def letters(self, driver: SqlSession) -> list[tuple[int, Any]]:
        """Return each member's server thread and message.

        The message is None before a new variable has its first value, and while a session ends.
        """
        rows = driver.query(_LETTERS, (self.name,))
        return [(int(thread), None if text is None else json.loads(text)) for thread, text in rows]

    @staticmethod
    def silent(driver: SqlSession, threads: Collection[int], seconds: int) -> bool:
        """Return whether the session of one of these server threads has idled for so long.

        A member polls for orders every few milliseconds or waits for a statement. So its session
        idles only if packets are lost in either direction. A network that drops all packets is
        reported to neither side, and no read timeout is possible, because a statement that counts
        a segment may take hours.
        """
        found = _SILENT.format(", ".join(str(int(thread)) for thread in threads))
        return bool(threads) and bool(driver.query(found, (seconds,))[0][0])

    def write(self, member: SqlSession, letter: dict[str, Any]) -> None:
        """Replace a member's message to the driver."""
        member.execute(f"SET @{self.name} = %s", (json.dumps(letter),))

    def orders(self, member: SqlSession, rank: int) -> list[tuple[int, str]]:
        """Return a member's orders.

        Raises:
            MigrationFailure: when the driver's session is gone.
        """
        rows = member.query(
            f"{_LETTERS} AND THREAD_ID = %s", (f"{self.name}_{rank}", self.driver_thread)
        )
        if not rows:
            raise MigrationFailure("the driver's session is gone, so this task ends")
        if rows[0][1] is None:
            return []
        return [(int(number), str(text)) for number, text in json.loads(rows[0][1])]
