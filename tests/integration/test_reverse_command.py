"""``migrate --keep-old-current`` and ``revert`` as an operator meets them: as processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.kits.command import command_line, environment
from tests.kits.draw import seed_of
from tests.kits.locking import await_lock_freed
from tests.kits.reverse import Client
from tests.kits.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEED = seed_of("SPIRIT_PY_TEST_SEED")
ALTER = "ADD COLUMN extra INT NOT NULL DEFAULT 3, MODIFY v BIGINT NOT NULL"
PATIENCE = 280.0
# A process starts Spark, and the machine may be busy.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def table(db):
    """A table of a few thousand rows, with a second unique key."""
    db.execute(
        "CREATE TABLE t (id BIGINT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL,"
        " u VARCHAR(40) NOT NULL UNIQUE)"
    )
    db.execute("SET SESSION cte_max_recursion_depth = 100000")
    db.execute(
        "INSERT INTO t (id, v, u) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        " WHERE i < 2000) SELECT i, i * 7, CONCAT('first', i) FROM n"
    )
    return db


class Command:
    """A ``spirit-py`` process, with its output in a file."""

    def __init__(self, db, folder: Path, command: str, *more: str, through=None, hooks="") -> None:
        self.output = folder / f"{command}-{len(list(folder.iterdir()))}.log"
        with self.output.open("w") as file:
            self._process = subprocess.Popen(
                command_line(db, command, "--table", "t", *more, through=through, hooks=hooks),
                env=environment(db),
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def said(self, text: str) -> bool:
        """Whether it has said this; an end before is a failure."""
        found = text in self.output.read_text()
        assert found or self._process.poll() is None, self.output.read_text()
        return found

    def end(self) -> int:
        """Wait for the end; return the exit code."""
        return self._process.wait(PATIENCE)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def stop(self) -> None:
        """Leave nothing behind."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@pytest.fixture
def run(table, tmp_path) -> Iterator:
    """Start commands, and end them with the test."""
    started: list[Command] = []

    def start(command: str, *more: str, **given) -> Command:
        started.append(Command(table, tmp_path, command, *more, **given))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def migrate(run, *more: str, hooks: str = "") -> Command:
    """Migrate, and wait until reverse replication runs."""
    command = run("migrate", "--alter", ALTER, "--keep-old-current", "1h", *more, hooks=hooks)
    until(lambda: command.said("runs for"), "reverse replication", seconds=PATIENCE)
    return command


def check(db, clients: list[Client]) -> None:
    """Compare the table with what the server has acknowledged; the old definition is in place."""
    for client in clients:
        client.stop()
        assert client.errors == []
    assert [row[0] for row in db.query("SHOW COLUMNS FROM t")] == ["id", "v", "u"]
    expected = {key: row for client in clients for key, row in client.rows.items()}
    expected |= {n: (n * 7, f"first{n}") for n in range(1, 2001)}
    found = {key: (v, u) for key, v, u in db.query("SELECT id, v, u FROM t")}
    assert found == expected
    assert {name for (name,) in db.query("SHOW TABLES")} == {"t"}


def go_on_writing(clients: list[Client], writes: int = 50) -> None:
    """Wait until every client has written more."""
    goals = [client.writes + writes for client in clients]
    until(
        lambda: all(c.writes >= goal for c, goal in zip(clients, goals, strict=True)),
        "more writes",
        seconds=PATIENCE,
    )


@pytest.mark.slow
def test_no_write_is_lost_through_crash_resumption_signal_and_revert(table, run):
    """The process is killed; the same command goes on, is interrupted; a revert ends it.

    The application writes all the time; nothing that was acknowledged is lost.
    """
    print(f"SPIRIT_PY_TEST_SEED={SEED}")  # noqa: T201 - to repeat a failure
    clients = [Client(table, "t", number, SEED) for number in range(2)]
    following = migrate(run)
    go_on_writing(clients)
    following.signal(signal.SIGKILL)
    following.end()
    await_lock_freed(table)
    status = run("status")
    assert status.end() == 0, status.output.read_text()
    text = status.output.read_text()
    assert "reverse    nothing follows now (no process works on it), " in text
    assert "a revert loses the values of column extra" in text
    go_on_writing(clients)
    again = migrate(run)
    go_on_writing(clients)
    again.signal(signal.SIGINT)
    assert again.end() == 130
    assert "spirit-py revert still swaps back" in again.output.read_text()
    go_on_writing(clients)
    revert = run("revert")
    assert revert.end() == 0, revert.output.read_text()
    text = revert.output.read_text()
    assert "no process runs reverse replication any more" in text
    assert "a revert loses the values of column extra" in text
    go_on_writing(clients)
    check(table, clients)


@pytest.mark.slow
def test_what_could_not_be_reverted_is_refused_before_the_copy(table, run):
    """A dropped column beside a second unique key: refused with the reason, nothing is left."""
    table.execute("ALTER TABLE t ADD COLUMN more INT")
    command = run("migrate", "--alter", "DROP COLUMN more", "--keep-old-current", "1h")
    assert command.end() == 2
    assert (
        "reverse replication is not possible: the dropped column more" in command.output.read_text()
    )
    assert {name for (name,) in table.query("SHOW TABLES")} == {"t"}


@pytest.mark.slow
def test_a_lost_answer_to_rename_ends_reverse_replication_and_not_the_change(table, run, proxy):
    """The place after the RENAME is not known: the change stays, and the error says so."""
    more = ("--alter", ALTER, "--keep-old-current", "1h", "--no-shortcut")
    proxy.lose_reply(b"RENAME TABLE")
    command = run("migrate", *more, through=proxy)
    assert command.end() == 1
    assert proxy.lost.is_set()
    said = command.output.read_text()
    assert "reverse replication cannot begin: the answer to the RENAME was lost" in said
    assert "the same command" not in said
    assert "the change is done and stays" in said
    assert {name for (name,) in table.query("SHOW TABLES")} >= {"t", "_t_old"}
    assert table.query("SELECT COUNT(*), SUM(v = id * 7), SUM(extra = 3) FROM t") == [
        (2000, 2000, 2000)
    ]
    table.execute("INSERT INTO t (v, u) VALUES (1, 'after')")
    assert run("cleanup", "--yes", "--drop-old").end() == 0
    assert {name for (name,) in table.query("SHOW TABLES")} == {"t"}
    assert table.query("SELECT COUNT(*) FROM t") == [(2001,)]


@pytest.mark.slow
def test_triggers_are_on_the_table_alone_and_come_back_with_it(table, run):
    """Each write fires each of them once, also one that came after the swap; R5 fires nothing."""
    table.execute(
        "CREATE TABLE audit (who VARCHAR(9), id BIGINT);"
        "CREATE TRIGGER first AFTER INSERT ON t FOR EACH ROW"
        " BEGIN INSERT INTO audit VALUES ('first', NEW.id); END;"
        "CREATE TRIGGER second BEFORE INSERT ON t FOR EACH ROW SET NEW.v = NEW.v + 1"
    )
    migrate(run, hooks="quick-flushes")
    assert on(table, "_t_old") == []
    table.execute("INSERT INTO t (id, v, u) VALUES (5000, 6, 'x')")
    until(
        lambda: table.query("SELECT v FROM _t_old WHERE id = 5000") == [(7,)],
        "the old table's row",
        seconds=PATIENCE,
    )
    table.execute("DROP TRIGGER second")
    revert = run("revert")
    assert revert.end() == 0, revert.output.read_text()
    assert on(table, "t") == ["first"]
    table.execute("INSERT INTO t (id, v, u) VALUES (5001, 6, 'y')")
    assert table.query("SELECT who, id FROM audit") == [("first", 5000), ("first", 5001)]
    assert table.query("SELECT v FROM t WHERE id >= 5000") == [(7,), (6,)]


def on(db, name: str) -> list[str]:
    """Return the names of a table's triggers."""
    return [row[0] for row in db.query(f"SHOW TRIGGERS LIKE '{name.replace('_', chr(92) + '_')}'")]
