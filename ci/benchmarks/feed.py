"""How fast the change feed applies changes.

The same stretch of the binlog is read by the feed, which applies it to a new table, and by
mysql-replication alone, which only decodes it. For comparison the same rows are written without a
feed: as a loop of one REPLACE for each, and as REPLACE statements of as many rows, over as many
sessions, as the feed's, which is the most that the server can take. Each of them changes its row:
one that is the same already would cost the server almost nothing.
"""

from __future__ import annotations

import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import UpdateRowsEvent

from benchmarks.internals import applier_shape, feed_of, new_table
from benchmarks.scenario import Figure, Outcome
from benchmarks.sessions import TABLE, Address, Session
from benchmarks.tables import SYSBENCH, TEXT_KEY
from mysql_words import binlog_end

if TYPE_CHECKING:
    from benchmarks.scenario import Sizes
    from benchmarks.tables import Table
    from mysql_base import MySQLServer
    from spirit_py.table.mapping import TableMapping

ALTER = "ADD COLUMN added INT NOT NULL DEFAULT 7"
#: Rows that one statement of the application changes, and the rows of a hot set.
STATEMENT_ROWS, HOT_ROWS = 1000, 1000
#: Single changes in a transaction: few, so that the binlog is written fast.
TRANSACTION = 50
#: How often rows are written that the feed passes over: one time takes it milliseconds.
PASSED_TIMES = 20
#: REPLACE statements that are timed; they are too slow for all changes.
LOOP_ROWS = 5000
#: Changes a second on a key whose equality only the server knows, which are good enough.
TEXT_KEY_GOAL = 20_000
#: Without and with a column whose values are converted.
TEXT_KEY_ALTERS = {"direct": ALTER, "converted": "MODIFY k BIGINT NOT NULL"}


@dataclass(frozen=True, kw_only=True)
class Applied:
    """One stretch of changes, received and applied; ``cpu`` is of the feed's process."""

    seconds: float
    cpu: float
    rows: int


def changes_of_distinct_keys(server: MySQLServer, rows: int, sizes: Sizes) -> Outcome:
    """Apply changes, each of another row."""
    return _changes("changes", server, rows, sizes, hot=False)


def changes_of_a_hot_set(server: MySQLServer, rows: int, sizes: Sizes) -> Outcome:
    """Apply changes, all of a thousand rows."""
    return _changes("hot-changes", server, rows, sizes, hot=True)


def _changes(name: str, server: MySQLServer, rows: int, sizes: Sizes, *, hot: bool) -> Outcome:
    """Let the feed catch up, and compare it with a loop of REPLACE and the rest."""
    address = Address.of(server)
    SYSBENCH.create(address, rows)
    ours, loops, bulks, decoded = [], [], [], []
    for _ in range(sizes.rounds):
        mapping, start, (file, offset) = _beginning(address)
        _change_by_ranges(address, rows, hot=hot)
        ours.append(_apply(address, mapping, start, "k, c"))
        decoded.append(_decode(address, file, offset, rows))
        loops.append(_loop(address) * rows / min(LOOP_ROWS, rows))
        bulks.append(_in_bulk(address, HOT_ROWS if hot else rows))
    seconds = statistics.median(each.seconds for each in ours)
    figures = [
        Figure(
            name="applied", ours=seconds, peer=statistics.median(loops), against="loop of REPLACE"
        )
    ]
    if not hot:
        figures.append(
            Figure(
                name="applied",
                ours=seconds,
                peer=statistics.median(bulks),
                against="as many sessions, no feed",
            )
        )
    notes = {
        "changes_per_second": round(rows / seconds),
        "changes_per_cpu_second": round(rows / statistics.median(each.cpu for each in ours)),
        "rows_written": ours[-1].rows,
        "decoded_per_second_by_mysql_replication": round(rows / statistics.median(decoded)),
    }
    return Outcome(scenario=name, rows=rows, figures=figures, notes=notes)


def changes_of_text_keys(server: MySQLServer, rows: int, sizes: Sizes) -> Outcome:
    """Apply single changes of a key that the server alone can compare, one in four a delete."""
    address = Address.of(server)
    figures, notes = [], {}
    for name, alter in TEXT_KEY_ALTERS.items():
        found = []
        for _ in range(sizes.rounds):
            TEXT_KEY.create(address, rows)
            mapping, start, _ = _beginning(address, alter)
            _change_one_by_one(address, TEXT_KEY, rows)
            found.append(_apply(address, mapping, start, "k, body, at"))
        seconds = statistics.median(each.seconds for each in found)
        figures.append(
            Figure(
                name=f"a change, {name}",
                ours=1e6 * seconds / rows,
                peer=1e6 / TEXT_KEY_GOAL,
                against=f"{TEXT_KEY_GOAL} changes a second",
                unit="us",
                goal=1.0,
            )
        )
        cpu = statistics.median(each.cpu for each in found)
        notes[name] = (
            f"{rows / seconds:,.0f} changes a second, {rows / cpu:,.0f} a CPU second of the feed"
        )
    return Outcome(scenario="text-key-changes", rows=rows, figures=figures, notes=notes)


def caught_up(address: Address, via: Address, rows: int) -> Applied:
    """Make single changes, and let a feed that reaches the server ``via`` apply them."""
    mapping, start, _ = _beginning(address)
    _change_one_by_one(address, SYSBENCH, rows)
    return _apply(via, mapping, start, "k, c")


def passed_over(address: Address, rows: int) -> Applied:
    """Fill another table with the rows, in the copy's large events, and let a feed read past it."""
    mapping, start, _ = _beginning(address)
    with Session(address) as session:
        session.execute(f"CREATE TABLE other LIKE {TABLE}")
        for _ in range(PASSED_TIMES):
            session.execute("TRUNCATE TABLE other")
            session.execute(f"INSERT INTO other SELECT * FROM {TABLE}")
        session.execute("DROP TABLE other")
    found = _apply(address, mapping, start, "k, c")
    return Applied(seconds=found.seconds, cpu=found.cpu, rows=PASSED_TIMES * rows)


def _beginning(address: Address, alter: str = ALTER) -> tuple[TableMapping, str, tuple[str, int]]:
    """Make a new table as it is when the copy has ended; return where the feed begins."""
    mapping = new_table(address, alter)
    with Session(address) as session:
        names = ", ".join(f"`{pair.old.name}`" for pair in mapping.pairs)
        session.execute(f"INSERT INTO _t_new ({names}) SELECT {names} FROM {TABLE}")
        end = binlog_end(session.query)
    with feed_of(address, mapping) as (feed, subscription):
        subscription.copy_finished()
        feed.start()
        return mapping, feed.position(), end


def _change_by_ranges(address: Address, rows: int, *, hot: bool) -> None:
    """Change every row once, or the rows of the hot set again and again."""
    with Session(address) as session:
        # The identifiers have gaps: a statement that fills the table takes more than it needs.
        last = rows if hot else int(session.value(f"SELECT MAX(id) FROM {TABLE}"))
        for first in range(0, last, STATEMENT_ROWS):
            low = 0 if hot else first
            session.execute(
                f"UPDATE {TABLE} SET k = k + 1 WHERE id > {low} AND id <= {low + STATEMENT_ROWS}"
            )


def _change_one_by_one(address: Address, table: Table, rows: int) -> None:
    """Make as many single changes as there are rows, kinds mixed."""
    with Session(address) as session:
        for number in range(rows):
            if number % TRANSACTION == 0:
                session.execute("BEGIN")
            session.execute(table.write(number, number, rows))
            if number % TRANSACTION == TRANSACTION - 1:
                session.execute("COMMIT")
        session.execute("COMMIT")


def _apply(address: Address, mapping: TableMapping, start: str, compared: str) -> Applied:
    """Let the feed read and apply from a position to the end."""
    with feed_of(address, mapping) as (feed, subscription):
        subscription.copy_finished()
        began, cpu = time.perf_counter(), time.process_time()
        feed.start_from_position(start)
        feed.block_wait()
        feed.flush()
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        rows, flushed = feed.statistics().applied, feed.all_changes_flushed()
    alike = " AND ".join(f"n.{name} <=> t.{name}" for name in compared.split(", "))
    with Session(address) as session:
        differs = session.value(
            f"SELECT COUNT(*) FROM {TABLE} t LEFT JOIN _t_new n USING (id) WHERE NOT ({alike})"
        )
        counted = session.query(
            f"SELECT (SELECT COUNT(*) FROM {TABLE}), (SELECT COUNT(*) FROM _t_new)"
        )[0]
    if differs or not flushed or counted[0] != counted[1]:
        raise SystemExit(f"the feed left {differs} rows behind; rows of both tables: {counted}")
    return Applied(seconds=seconds, cpu=cpu, rows=rows)


def _decode(address: Address, file: str, offset: int, rows: int) -> float:
    """Let mysql-replication decode the changes, and do nothing with them."""
    settings = {
        "host": address.host,
        "port": address.port,
        "user": address.user,
        "passwd": address.password,
    }
    count = 0
    began = time.perf_counter()
    reader = BinLogStreamReader(
        connection_settings=settings,
        server_id=os.getpid() + 1000,
        only_events=[UpdateRowsEvent],
        log_file=file,
        log_pos=offset,
        resume_stream=True,
        blocking=True,
        enable_logging=False,
    )
    for event in reader:
        count += len(event.rows)
        if count >= rows:
            break
    seconds = time.perf_counter() - began
    reader.close()
    return seconds


def _in_bulk(address: Address, rows: int) -> float:
    """Write rows as the feed's applier does, in statements that are ready beforehand."""
    with Session(address) as session:
        found = session.query(
            "SELECT CONCAT('(', id, ', ', k + 2, ', _utf8mb4 X''', HEX(c), ''', _utf8mb4 X''',"
            f" HEX(pad), ''')') FROM {TABLE} WHERE id <= {rows} ORDER BY id"
        )
    texts = [str(row[0]) for row in found]
    head = "REPLACE INTO _t_new (id, k, c, pad) VALUES "
    sessions, size = applier_shape()
    statements = [head + ", ".join(texts[at : at + size]) for at in range(0, len(texts), size)]

    def write(number: int) -> int:
        share = len(statements) / sessions
        mine = statements[round(number * share) : round((number + 1) * share)]
        with Session(address) as session:
            return sum(session.execute(each) for each in mine)

    began = time.perf_counter()
    with ThreadPoolExecutor(sessions) as pool:
        touched = sum(pool.map(write, range(sessions)))
    seconds = time.perf_counter() - began
    _check_replaced(touched, len(texts))
    return seconds


def _loop(address: Address) -> float:
    """Write some of the rows one REPLACE at a time."""
    with Session(address) as session:
        rows = session.query(
            "SELECT CONCAT('REPLACE INTO _t_new (id, k, c, pad) VALUES (', id, ', ', k + 1, ', ''',"
            f" c, ''', ''', pad, ''')') FROM {TABLE} LIMIT {LOOP_ROWS}"
        )
        began = time.perf_counter()
        touched = sum(session.execute(statement) for (statement,) in rows)
        seconds = time.perf_counter() - began
    _check_replaced(touched, len(rows))
    return seconds


def _check_replaced(touched: int, rows: int) -> None:
    """Refuse figures of rows that were the same already: a row that is replaced counts twice."""
    if touched != 2 * rows:
        raise SystemExit(f"REPLACE of {rows} rows touched {touched}: not all of them changed")
