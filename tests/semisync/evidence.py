"""The proof that a lane's commits really stall between binlog and visibility."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mysql_words
from tests.fixtures.mysql import connect
from tests.semisync.stall import until

if TYPE_CHECKING:
    from tests.semisync.stall import Stall

_EXECUTED = "SELECT 1 WHERE GTID_SUBSET('{}', @@gtid_executed)"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What was seen of one transaction while its commit was held.

    Attributes:
        gtid: its identifier; empty on a server without GTIDs.
        read_after: seconds after which its row event could be read from the binlog.
        visible: whether another session's SELECT saw its row then.
        executed: whether `@@gtid_executed` contained it; False without GTIDs.
        answered: whether its COMMIT had returned.
        visible_after_release: whether the row was there once the commit was let go.
    """

    gtid: str
    read_after: float
    visible: bool
    executed: bool
    answered: bool
    visible_after_release: bool

    def check(self) -> None:
        """Raise unless this is a stall between binlog and visibility.

        Raises:
            AssertionError: saying what did not stall.
        """
        faults = [
            text
            for wrong, text in (
                (self.visible, "SELECT saw the row"),
                (self.executed, "@@gtid_executed contained the transaction"),
                (self.answered, "its COMMIT returned"),
                (not self.visible_after_release, "the row did not appear after the release"),
            )
            if wrong
        ]
        if faults:
            raise AssertionError(
                "commits do not stall between binlog and visibility, so this lane proves nothing: "
                f"the row event was in the binlog, and {', '.join(faults)}"
            )

    def __str__(self) -> str:
        """Return what was seen."""
        return (
            f"row event in the binlog after {self.read_after * 1000:.0f} ms; until the release "
            f"visible: {self.visible}, in gtid_executed: {self.executed}, answered: {self.answered}"
        )


def measure(stall: Stall, *, hold: bool = True) -> Evidence:
    """Hold one INSERT between binlog and visibility and look at it from all sides.

    With `hold=False` semi-sync is switched off, which :meth:`Evidence.check` must notice.
    """
    with contextlib.ExitStack() as stack:
        look = stack.enter_context(contextlib.closing(connect(stall.source)))
        write = stack.enter_context(contextlib.closing(connect(stall.source)))
        schema = f"stall_{uuid.uuid4().hex[:12]}"
        _rows(look, f"CREATE DATABASE {schema}")
        stack.callback(_rows, look, f"DROP DATABASE {schema}")
        _rows(look, f"CREATE TABLE {schema}.t (id INT PRIMARY KEY)")
        if hold:
            stack.enter_context(stall.held())
        else:
            stack.enter_context(stall.switched_off())
        return _look_at_insert(stall, look, write, f"{schema}.t")


def _look_at_insert(stall: Stall, look: Any, write: Any, table: str) -> Evidence:
    """Insert a row in a thread and gather the evidence."""
    file, offset = binlog_end(look)
    inserted = threading.Thread(target=_rows, args=(write, f"INSERT INTO {table} VALUES (1)"))
    number = write.thread_id()
    began = time.monotonic()
    inserted.start()
    try:
        gtid = until(lambda: _row_event(look, file, offset), "the row event in the binlog")
        read_after = time.monotonic() - began
        until(
            lambda: not inserted.is_alive() or number in {w.session for w in stall.waiting()},
            "the INSERT's answer or its wait for an acknowledgement",
        )
        visible = bool(_rows(look, f"SELECT id FROM {table}"))
        executed = bool(gtid.strip() and _rows(look, _EXECUTED.format(gtid)))
        answered = not inserted.is_alive()
    finally:
        stall.release()
        inserted.join()
    return Evidence(
        gtid=gtid.strip(),
        read_after=read_after,
        visible=visible,
        executed=executed,
        answered=answered,
        visible_after_release=bool(_rows(look, f"SELECT id FROM {table}")),
    )


def binlog_end(session: Any) -> tuple[str, int]:
    """Return file and offset of the binlog's end, which includes what is not visible yet."""
    return mysql_words.binlog_end(lambda sql: _rows(session, sql))


def _row_event(session: Any, file: str, offset: int) -> str:
    """Return the GTID of the first row event behind a place, a blank without GTIDs, or nothing."""
    gtid = ""
    for event in _rows(session, f"SHOW BINLOG EVENTS IN '{file}' FROM {offset}"):
        kind, text = event[2], event[5]
        if kind in {"Gtid", "Anonymous_Gtid"}:
            gtid = text.split("'")[1] if kind == "Gtid" else " "
        if kind == "Write_rows":
            return gtid
    return ""


def _rows(session: Any, sql: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(session.cursor()) as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())
