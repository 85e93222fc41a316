"""Two servers, an application that follows the switch, and ``spirit-py move`` between them."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, ClassVar, Self

import MySQLdb

from spirit_py import points
from tests.fixtures.mysql import Database, connect
from tests.kits.command import MINUTE, environment, run_words_here
from tests.kits.waiting import until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.kits.point_listener import Hold, PointListener

ROWS = 2000
ALTER = "MODIFY a BIGINT, ADD COLUMN z INT NOT NULL DEFAULT 5"
#: What a client gets on the server that the table has left, or not reached.
GONE = 1146
#: One of so many writes brings a row to another source than the first.
_AWAY = 50
_LOST = {1053, 1927, 2002, 2003, 2006, 2013, 4031}


def fill(db: Database, table: str = "t", rows: int = ROWS) -> None:
    """Create a table with rows of computable content."""
    db.execute(f"CREATE TABLE {table} (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(50))")
    db.execute(f"SET SESSION cte_max_recursion_depth = {rows}")
    db.execute(
        f"INSERT INTO {table} WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        f" WHERE i < {rows}) SELECT i, i * 3, CONCAT('row ', i) FROM n"
    )


def part(db: Database, names: Sequence[str]) -> None:
    """Give each row of the table ``t`` a region, which is one of the names."""
    db.execute("ALTER TABLE t ADD COLUMN region VARCHAR(8)")
    chosen = " ".join(f"WHEN {place} THEN '{name}'" for place, name in enumerate(names))
    db.execute(f"UPDATE t SET region = CASE id % {len(names)} {chosen} END")


class TwoServers:
    """A schema of one name on two servers, and commands that move tables between them."""

    #: Options of every move, if it is not given others.
    given: ClassVar[Mapping[str, str]] = {}

    def __init__(self, here: Database, there: Database, folder: Path) -> None:
        self.here, self.there, self.folder = here, there, folder
        self.report = folder / "report.json"
        #: The application's own configuration: which server it uses.
        self.where = folder / "where"
        self.where.write_text("here")
        self.switched = folder / "switched"
        #: While this file is there, the command fails on the way back.
        self.fail_back = folder / "fail-back"
        #: Where the commands reach the two servers.
        self.ways = tuple(f"{db.server.host}:{db.server.port}" for db in (here, there))

    @property
    def switch_both_ways(self) -> str:
        """The same for both directions, as the event on its standard input says."""
        back = f"test -e {self.fail_back} && exit 1; echo here > {self.where}"
        then = f"echo there > {self.where}"
        said = f"echo x >> {self.switched}"
        return f"if grep -q '\"back\": true'; then {back}; else {then}; fi; {said}"

    @property
    def switch(self) -> str:
        """The operator's command: it tells the application to use the target, and says so."""
        return f"echo there > {self.where}; echo x >> {self.switched}"

    @property
    def reached(self) -> list[str]:
        """Return the words that name the source."""
        return ["--host", self.ways[0], "--user", self.here.server.user]

    @property
    def targets(self) -> list[str]:
        """Return the words that name the target."""
        return ["--target-host", self.ways[1], "--target-user", self.there.server.user]

    def words(self, *more: str, hooks: str = "small-chunks") -> list[str]:
        """Return the words of a move of the table ``t``."""
        options = {"--tables": f"{self.here.name}.t", **self.given}
        own = [word for one in options.items() if one[0] not in more for word in one]
        program = ("tests.faults.hooks", hooks) if hooks else ("spirit_py",)
        return [
            *(sys.executable, "-m", *program, "move", "--log-format", "json"),
            *self.reached,
            *self.targets,
            *("--report-json", str(self.report), "--threads", "2", "--no-repair", *own, *more),
        ]

    def start(self, *more: str, listener: PointListener | None = None) -> subprocess.Popen[str]:
        """Start ``spirit-py move``."""
        given = {"SPIRIT_PY_TARGET_PASSWORD": self.there.server.password}
        if listener is not None:
            given[points.VARIABLE] = str(listener.path)
        return subprocess.Popen(
            self.words(*more),
            env=environment(self.here, **given),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, process: subprocess.Popen[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Wait for the end of a command; return its report, and its events."""
        _, said = process.communicate(timeout=4 * MINUTE)
        events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        assert self.report.exists(), said
        report: dict[str, Any] = json.loads(self.report.read_text())
        assert report["exit_code"] == process.returncode, said
        return report, events

    def move(self, *more: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Run ``spirit-py move`` with the operator's command."""
        self.report.unlink(missing_ok=True)
        own = () if "--on-switch" in more else ("--on-switch", self.switch)
        return self.end(self.start(*own, *more))

    def move_here(self, *more: str, target_password: str = "") -> subprocess.CompletedProcess[str]:
        """Run ``spirit-py move`` in this process, for what it refuses."""
        return run_words_here(
            self.words(*more, hooks="")[3:],
            SPIRIT_PY_PASSWORD=self.here.server.password,
            SPIRIT_PY_TARGET_PASSWORD=target_password or self.there.server.password,
        )

    def plan(self, *more: str, code: int = 0) -> dict[str, Any]:
        """Return what ``spirit-py move --plan`` shows, for programs."""
        words = [one for one in self.words(*more, "--plan", hooks="")[3:] if one != "--no-repair"]
        at = words.index("--report-json")
        done = run_words_here(
            [*words[:at], *words[at + 2 :], "--format", "json"],
            SPIRIT_PY_PASSWORD=self.here.server.password,
            SPIRIT_PY_TARGET_PASSWORD=self.there.server.password,
        )
        assert done.returncode == code, done
        plan: dict[str, Any] = json.loads(done.stdout)
        return plan

    def ask_revert(self) -> subprocess.Popen[str]:
        """Start ``spirit-py revert`` on the source."""
        server = self.here.server
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "spirit_py", "revert"),
                *("--host", self.ways[0], "--user", server.user),
                *("--database", self.here.name, "--table", "t"),
            ],
            env=environment(self.here),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def revert(self) -> subprocess.CompletedProcess[str]:
        """Run ``spirit-py revert`` on the source to its end."""
        asked = self.ask_revert()
        said, wrong = asked.communicate(timeout=2 * MINUTE)
        return subprocess.CompletedProcess(asked.args, asked.returncode, said, wrong)

    def follows(self, process: subprocess.Popen[str]) -> bool:
        """Whether this process works in the phase of reverse replication, or has ended."""
        if process.poll() is not None:
            return True
        try:
            found = self.here.query("SELECT record FROM _t_chkpnt WHERE id = 6")
        except MySQLdb.ProgrammingError as error:
            # A revert that is complete has dropped it.
            if error.args[0] != GONE:
                raise
            return False
        live = json.loads(str(found[0][0])) if found else {}
        return live.get("phase") == "keep" and live.get("pid") == process.pid

    def cleanup(self, db: Database, table: str = "t", *more: str) -> str:
        """Run ``spirit-py cleanup`` on one of the servers, in this process; return what it said."""
        server = db.server
        words = [
            *("cleanup", "--yes", *more, "--host", f"{server.host}:{server.port}"),
            *("--user", server.user, "--database", db.name, "--table", table),
        ]
        done = run_words_here(words, SPIRIT_PY_PASSWORD=server.password)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def kill_at(self, listener: PointListener, point: str, *more: str, nth: int = 1) -> None:
        """Kill a move with the operator's command at a point, in the instant when it is there."""
        hold = listener.hold(point, nth)
        process = self.start("--on-switch", self.switch, *more, listener=listener)
        await_held(process, hold)
        process.kill()
        process.communicate()
        hold.release()

    def times_switched(self) -> int:
        """Count how often the operator's command has run."""
        return self.switched.read_text().count("x") if self.switched.exists() else 0

    def tables(self, db: Database) -> list[str]:
        """Return the tables of one of the schemas."""
        return sorted(str(row[0]) for row in db.query("SHOW TABLES"))


def await_held(process: subprocess.Popen[str], hold: Hold) -> None:
    """Wait until a process is held at a point."""
    deadline = time.monotonic() + 2 * MINUTE
    while not hold.held.wait(0.02):
        assert process.poll() is None, f"ended before {hold.point}: {process.communicate()[1]}"
        assert time.monotonic() < deadline, f"never reached {hold.point}"


class Shards(TwoServers):
    """A source, and several targets, each for the rows whose ``region`` is its name."""

    given: ClassVar[Mapping[str, str]] = {"--shard-by": "region"}

    def __init__(self, here: Database, theirs: dict[str, Database], folder: Path) -> None:
        super().__init__(here, next(iter(theirs.values())), folder)
        self.theirs = theirs
        self.ways = tuple(f"{db.server.host}:{db.server.port}" for db in (here, *theirs.values()))

    @property
    def targets(self) -> list[str]:
        """Return the words that name the targets."""
        named = (
            f"{name}=mysql://{db.server.user}:{db.server.password}@{way}"
            for (name, db), way in zip(self.theirs.items(), self.ways[1:], strict=True)
        )
        return [word for one in named for word in ("--target", one)]


class Sources(TwoServers):
    """Several sources, each with the rows whose ``region`` is its name, and a target."""

    given: ClassVar[Mapping[str, str]] = {"--shard-by": "region"}

    def __init__(self, ours: dict[str, Database], there: Database, folder: Path) -> None:
        super().__init__(next(iter(ours.values())), there, folder)
        self.ours = ours
        self.ways = tuple(f"{db.server.host}:{db.server.port}" for db in (*ours.values(), there))

    def words(self, *more: str, hooks: str = "small-chunks,short-meetings") -> list[str]:
        """Return the words of a move of the table ``t``."""
        return super().words(*more, hooks=hooks)

    @property
    def reached(self) -> list[str]:
        """Return the words that name the sources."""
        named = (
            f"{name}=mysql://{db.server.user}:{db.server.password}@{way}"
            for (name, db), way in zip(self.ours.items(), self.ways, strict=False)
        )
        return [word for one in named for word in ("--source", one)]

    @property
    def targets(self) -> list[str]:
        """Return the words that name the target."""
        return ["--target-host", self.ways[-1], "--target-user", self.there.server.user]


class Application:
    """Clients that write rows of their own, on the server that the application's file names.

    Each notes what it has written, and nothing else; a write whose answer was lost is made again.
    """

    def __init__(
        self, two: TwoServers, *, clients: int = 3, seed: int = 1, rows: int = ROWS
    ) -> None:
        self._two = two
        self._rows = rows
        self._stop = threading.Event()
        #: What each row of the clients must be; None for a row that was deleted.
        self.journal: dict[int, str | None] = {}
        self.errors: list[str] = []
        self.writes = self.refused = 0
        self._threads = [
            threading.Thread(
                target=self._run, args=(number, clients, seed), name=f"client-{number}"
            )
            for number in range(clients)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(MINUTE)
        assert not any(thread.is_alive() for thread in self._threads), "a client hangs"

    def _run(self, number: int, clients: int, seed: int) -> None:
        dice, session = random.Random(f"{seed} {number}"), None
        used = ""
        turn = 0
        while not self._stop.wait(0.002):
            key = dice.randrange(1 + number, self._rows + 500, clients)
            turn += 1
            value = None if dice.random() < 0.2 else f"{number}:{turn}"
            while not self._stop.is_set():
                try:
                    where = self._two.where.read_text().strip()
                    if session is None or where != used:
                        session, used = self._session(where), where
                    self._write(session, key, value)
                    self.journal[key] = value
                    self.writes += 1
                    break
                except MySQLdb.Error as error:
                    code = int(error.args[0])
                    session = None
                    if code != GONE and code not in _LOST:
                        self.errors.append(repr(error))
                        return
                    self.refused += 1
                    self._stop.wait(0.02)

    def _session(self, where: str) -> Any:
        db = self._two.here if where == "here" else self._two.there
        return connect(db.server, db=db.name)

    def _write(self, session: Any, key: int, value: str | None) -> None:
        with session.cursor() as cursor:
            if value is None:
                cursor.execute("DELETE FROM t WHERE id = %s", (key,))
            else:
                cursor.execute(
                    "INSERT INTO t (id, a, b) VALUES (%s, 1, %s) ON DUPLICATE KEY UPDATE b = %s",
                    (key, value, value),
                )

    def wait_for(self, writes: int) -> None:
        """Wait until so many further rows were written."""
        goal = self.writes + writes
        until(lambda: self.writes >= goal or self.errors, f"{writes} writes")

    def assert_kept(self, db: Database) -> None:
        """Every row is as its client wrote it last, and no other row has changed."""
        assert not self.errors, self.errors
        found = {int(key): str(text) for key, text in db.query("SELECT id, b FROM t")}
        expected: dict[int, str | None] = {key: f"row {key}" for key in range(1, self._rows + 1)}
        expected |= self.journal
        wanted = {key: text for key, text in expected.items() if text is not None}
        assert found == wanted, sorted(found.items() ^ wanted.items())[:5]


def write_in_region(sessions: dict[str, Any], key: int, value: str | None, region: str) -> None:
    """Write a row on its region's server, and delete it on the others before; None deletes it.

    ``sessions`` are by region; one without a name has all rows.
    """
    for name, each in sorted(sessions.items(), key=lambda one: one[0] == region):
        with each.cursor() as cursor:
            if value is None or name not in {"", region}:
                cursor.execute("DELETE FROM t WHERE id = %s", (key,))
            else:
                cursor.execute(
                    "INSERT INTO t (id, a, b, region) VALUES (%s, 1, %s, %s)"
                    " ON DUPLICATE KEY UPDATE b = %s, region = %s",
                    (key, value, region, value, region),
                )


class ShardedApplication(Application):
    """Clients of rows that change their region, and so the server that has them."""

    def __init__(self, two: Shards, *, clients: int = 3, seed: int = 1, rows: int = ROWS) -> None:
        super().__init__(two, clients=clients, seed=seed, rows=rows)
        self._theirs = two.theirs
        self._regions = list(two.theirs)

    def _session(self, where: str) -> Any:
        if where == "here":
            return {"": super()._session(where)}
        return {name: connect(db.server, db=db.name) for name, db in self._theirs.items()}

    def _write(self, session: Any, key: int, value: str | None) -> None:
        region = self.region_of(value) if value is not None else ""
        write_in_region(session, key, value, region)

    def region_of(self, value: str) -> str:
        """Return the region of a row with this text."""
        number = int(value.rpartition(":")[2].removeprefix("row "))
        return self._regions[number % len(self._regions)]

    def assert_all_kept(self) -> None:
        """Every row is as its client wrote it last, on its region's server, and on no other."""
        assert not self.errors, self.errors
        found = {
            (name, int(key)): str(text)
            for name, db in self._theirs.items()
            for key, text in db.query("SELECT id, b FROM t")
        }
        expected: dict[int, str | None] = {key: f"row {key}" for key in range(1, self._rows + 1)}
        expected |= self.journal
        wanted = {
            (self.region_of(text), key): text for key, text in expected.items() if text is not None
        }
        assert found == wanted, sorted(found.items() ^ wanted.items())[:5]


class MergingApplication(Application):
    """Clients of rows that are on several sources, and change theirs, and then on one target."""

    def __init__(self, two: Sources, *, clients: int = 3, seed: int = 1, rows: int = ROWS) -> None:
        super().__init__(two, clients=clients, seed=seed, rows=rows)
        self._ours = two.ours
        self._names = list(two.ours)

    def _session(self, where: str) -> Any:
        if where == "here":
            return {name: connect(db.server, db=db.name) for name, db in self._ours.items()}
        return {"": super()._session(where)}

    def _write(self, session: Any, key: int, value: str | None) -> None:
        region = self.region_of(key, value) if value is not None else ""
        write_in_region(session, key, value, region)

    def region_of(self, key: int, value: str) -> str:
        """Return the region of a row with this text: few rows are away from their first source."""
        moves = ":" in value and int(value.rpartition(":")[2]) % _AWAY == 0
        return self._names[(key + moves) % len(self._names)]
