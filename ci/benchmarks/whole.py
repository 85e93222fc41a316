"""Whole changes of a table: the contenders take turns, under an application or on an idle server.

A turn begins when the server has written the dirty pages of the turn before it. The first round is
begun by ours, the next by the contender after it, and so on; medians are compared.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import MySQLdb

from benchmarks import contenders, recording, tools, turn
from benchmarks.application import Application
from benchmarks.contenders import OURS, THREADS, Failed, Task, known
from benchmarks.meter import Meter
from benchmarks.scenario import BEFORE, Figure, Goal, Outcome
from benchmarks.sessions import SCHEMA, TABLE, Address, Session
from benchmarks.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.meter import Metered
    from benchmarks.scenario import Sizes, Whole
    from mysql_base import MySQLServer

#: Seconds of the application alone: those that it warms up in, and those that count.
WARM, _CALM = 1.5, 5.0
#: Pages that need not be written before a turn begins, and how long is waited for that.
_DIRTY_PAGES, _SETTLE_SECONDS = 500, 30.0
#: Points of a curve that are kept.
_POINTS = 200
_MIB = 1 << 20


def say(text: str) -> None:
    """Print how far it is, at once."""
    print(text, flush=True)


def measure(whole: Whole, name: str, server: MySQLServer, rows: int, sizes: Sizes) -> Outcome:
    """Fill the table and run all contenders in turns."""
    address = Address.of(server)
    task = Task(
        address=address,
        alter=whole.alter,
        threads=whole.slots or sizes.threads,
        options=whole.options,
    )
    who = [*whole.contenders, *sizes.variants, *(each.name for each in tools.found())]
    say(f"{name}: loading {rows:,} rows")
    whole.table.create(address, rows)
    if THREADS in who:
        task.recorded = _recorded(task, server, whole)
    turns: list[Turn] = []
    for number, contender in turn.in_turns(who, sizes.rounds):
        _restore(whole, address)
        tidy(address)
        # Binlogs of a server that the operator named are not purged.
        settle(address, purge=server.datadir is not None)
        made = Turn(contender=contender, round=number)
        _take(made, whole, task, server, rows)
        turns.append(made)
        say(f"{name}: round {number + 1} of {sizes.rounds}, {_line(made)}")
    return Outcome(
        scenario=name,
        rows=rows,
        figures=figures(turns, whole.goals, rows),
        turns=turns,
    )


def _recorded(task: Task, server: MySQLServer, whole: Whole) -> recording.Recording:
    """Let the program change the table once, without other clients, and note how it copies."""
    _restore(whole, task.address)
    with recording.recorded(task.address) as found, Meter(task.address, server.pid, None) as meter:
        try:
            known(OURS)(task, meter)
        except Failed as failed:
            say(f"nothing recorded for plain threads: {failed}")
    return found


def _restore(whole: Whole, address: Address) -> None:
    """Bring the table back to what the turn begins with."""
    if whole.restore:
        with Session(address) as session:
            session.execute(f"ALTER TABLE {TABLE} {whole.restore}")


def tidy(address: Address) -> None:
    """Drop the tables of a contender that failed."""
    with Session(address) as session:
        for (name,) in session.query(
            "SELECT TABLE_NAME FROM information_schema.TABLES"
            f" WHERE TABLE_SCHEMA = '{SCHEMA}' AND TABLE_NAME <> '{TABLE}'"
        ):
            session.execute(f"DROP TABLE `{name}`")


def settle(address: Address, *, purge: bool) -> None:
    """Wait until what was written before is on disk, or long enough; forget old binlogs."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    with Session(address) as session:
        before = session.value("SELECT @@global.innodb_max_dirty_pages_pct")
        session.execute("SET GLOBAL innodb_max_dirty_pages_pct = 0")
        try:
            while time.monotonic() < deadline:
                found = session.query("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'")
                if int(found[0][1]) < _DIRTY_PAGES:
                    break
                time.sleep(0.1)
        finally:
            session.execute(f"SET GLOBAL innodb_max_dirty_pages_pct = {before}")
        if purge:
            session.execute("PURGE BINARY LOGS BEFORE NOW() - INTERVAL 30 SECOND")


def _take(made: Turn, whole: Whole, task: Task, server: MySQLServer, rows: int) -> None:
    """Let one contender change the table; its turn says how it went."""
    with contextlib.ExitStack() as stack:
        application = None
        if whole.load:
            application = stack.enter_context(
                Application(task.address, whole.table, rows, whole.load)
            )
            began = time.monotonic() + WARM
            application.until(began + _CALM)
            made.before = application.latency((began, began + _CALM))
        sent = _sent(task.address)
        pid = application.pid if application else None
        meter = stack.enter_context(Meter(task.address, server.pid, pid))
        try:
            ran = known(made.contender)(task, meter)
        except (Failed, OSError, MySQLdb.Error) as failed:
            made.failed = str(failed)
            return
        metered = meter.stop()
        if application:
            application.until(metered.ended)
            made.during = application.latency((metered.began, metered.ended))
            made.phase_writes = {
                name: application.latency(span) for name, span in contenders.spans(ran).items()
            }
            if application.failures:
                made.notes["application"] = application.failures[0]
        made.sent = _sent(task.address) - sent
        contenders.fill(made, ran, metered)
        _curve(made, metered, rows)
        made.size = size(task.address, ran.table)


def _curve(made: Turn, metered: Metered, rows: int) -> None:
    """Keep the number of rows over time."""
    made.first_row, made.last_row = metered.first_row, metered.reached(rows)
    full = max((count for _, count in metered.rows), default=0)
    # The new table is counted under this name until it is swapped in.
    last = max((place for place, (_, count) in enumerate(metered.rows) if count == full), default=0)
    points = metered.rows[: last + 1]
    every = len(points) // _POINTS + 1
    made.rows = [(round(at - metered.began, 2), count) for at, count in points[::every]]


def size(address: Address, table: str) -> int:
    """Return the bytes of a table and its indexes."""
    with Session(address) as session:
        session.query(f"ANALYZE NO_WRITE_TO_BINLOG TABLE {table}")
        session.execute("SET SESSION information_schema_stats_expiry = 0")
        return int(
            session.value(
                "SELECT DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES"
                f" WHERE TABLE_SCHEMA = '{SCHEMA}' AND TABLE_NAME = '{table}'"
            )
        )


def _sent(address: Address) -> int:
    """Return the bytes that the server has sent so far."""
    with Session(address) as session:
        return int(session.query("SHOW GLOBAL STATUS LIKE 'Bytes_sent'")[0][1])


def _line(made: Turn) -> str:
    """Print how a turn went."""
    if made.failed:
        return f"{made.contender} FAILED: {made.failed}"
    said = f"{made.contender}: {made.seconds:.1f} s"
    if made.during and made.before:
        said += (
            f"; writes {made.during.per_second:.0f} a second, p99 {made.before.p99:.1f} ms before"
            f" and {made.during.p99:.1f} during, longest {made.during.longest:.0f} ms"
        )
    return said


def rows_seconds(made: Turn) -> float | None:
    """Return the seconds from the first copied row to the last."""
    if made.first_row is None or made.last_row is None:
        return None
    return made.last_row - made.first_row


#: What can be compared: the figure of a turn, and its unit.
FIGURES: dict[str, tuple[Callable[[Turn], float | None], str]] = {
    "whole": (lambda made: made.seconds, "s"),
    "copy phase": (lambda made: made.phases.get("copy"), "s"),
    "first to last row": (rows_seconds, "s"),
    "checksum phase": (lambda made: made.phases.get("checksum"), "s"),
    "size": (lambda made: made.size / _MIB or None, "MiB"),
    "server CPU": (lambda made: made.cpu.get("server"), "s"),
    "sent by the server": (lambda made: made.sent / _MIB, "MiB"),
    "p50 during": (lambda made: made.during.p50 if made.during else None, "ms"),
    "p99 during": (lambda made: made.during.p99 if made.during else None, "ms"),
    "longest write": (lambda made: made.during.longest if made.during else None, "ms"),
}


def figures(turns: Sequence[Turn], goals: Sequence[Goal], rows: int) -> list[Figure]:
    """Bring the turns down to the medians that are compared; what is not there is left out."""
    goals = [*goals, *(Goal(of="whole", against=each.name) for each in tools.TOOLS)]
    if any(made.before for made in turns):
        goals += [Goal(of="p99 during", against=each.name) for each in tools.TOOLS]
    mine = turn.of(turns, OURS)
    found = []
    for goal in goals:
        figure, unit = FIGURES[goal.of]
        ours = turn.median(map(figure, mine))
        if goal.against == BEFORE:
            peer = turn.of_writes(mine, "before", "p99")
        elif goal.target is not None:
            peer = goal.target if rows == goal.rows else None
        else:
            peer = turn.median(map(figure, turn.of(turns, goal.against)))
        if ours is not None and peer:
            found.append(
                Figure(
                    name=goal.of,
                    ours=ours,
                    peer=peer,
                    against=goal.against,
                    unit=unit,
                    goal=goal.limit,
                )
            )
    return found
