"""Everything that a fault can act on: the server, the network, the program and its processes."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import MySQLdb

from spirit_py import points
from spirit_py.mysql.tables.guard_column import why_server_cannot
from tests.faults import attached
from tests.faults.host import APPLICATION, MIGRATOR, PASSWORD
from tests.faults.shapes import State
from tests.faults.writers import Application, Writer
from tests.oracle.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.faults.draw import Draw
    from tests.faults.host import Host
    from tests.kits.point_listener import Hold, PointListener

REPOSITORY = Path(__file__).resolve().parents[2]
WRITERS = 2
RUN_SECONDS = 400.0
_JVM_CLASSES = ("spark.deploy.SparkSubmit", "spark.api.python.PythonGatewayServer")
#: Not one of SPIRIT_PY_: the program gives its children none of these.
MARK = "FAULTS_RUN_OF_SPIRIT_PY"
_POLL = 0.02
_LAST_LINES = 12
_AUDIT = "CREATE TABLE audit (writer VARCHAR(8) PRIMARY KEY, n BIGINT NOT NULL, v BIGINT NOT NULL)"
#: What the writers noted, and what the table holds; no row where they agree.
_DISAGREE = (
    "SELECT audited.*, there.* FROM"
    " (SELECT CAST(SUM(n) AS SIGNED) AS n, CAST(SUM(v) AS SIGNED) AS v FROM audit) AS audited,"
    " (SELECT COUNT(*) AS n, CAST(COALESCE(SUM(value), 0) AS SIGNED) AS v FROM t) AS there"
    " WHERE audited.n <> there.n OR audited.v <> there.v"
)


@dataclass
class Attempt:
    """One run of the command.

    Attributes:
        log: what it wrote to standard error.
        report: what it said in its report; empty when it could not.
    """

    number: int
    process: subprocess.Popen[bytes]
    log: Path
    report_file: Path
    code: int | None = None

    @property
    def report(self) -> dict[str, Any]:
        """The report of this attempt."""
        if not self.report_file.exists():
            return {}
        found: dict[str, Any] = json.loads(self.report_file.read_text())
        return found

    @property
    def tail(self) -> str:
        """The last lines of its log: its error with all that follows, however long that is."""
        lines = self.log.read_text(errors="replace").splitlines()
        last = max(0, len(lines) - _LAST_LINES)
        errors = [number for number, line in enumerate(lines) if line.startswith("error: ")]
        return "\n".join(lines[min([last, *errors[-1:]]) :])


@dataclass
class Scene:
    """One run: a schema, an application that writes, and the program with its fault.

    Attributes:
        struck: the fault has happened.
        attempts: the runs of the command so far.
        signalled: signals that a fault sent to the program.
    """

    host: Host
    draw: Draw
    folder: Path
    listener: PointListener
    bug: str = ""
    struck: bool = False
    attempts: list[Attempt] = field(default_factory=list)
    signalled: list[int] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = f"f_{self.draw.seed}_{os.getpid()}_{time.monotonic_ns() % 10**6}"
        self.mark = f"{os.getpid()}-{self.name}"
        self.random = random.Random(f"fault {self.draw.seed}")
        self.application: Application
        self.reader: Reader | None = None
        self.definition = ""
        #: The tables of the schema, and what is attached to them, before and after a migration.
        self.base = ["t"]
        self.attached: Any = None

    # -- the table and its application

    def load(self) -> None:
        """Create the schema and the table, and start to write."""
        shape, draw = self.draw.shape, self.draw
        source = random.Random(f"rows {draw.seed}")
        rows: dict[int, State] = {}
        for number in range(1, draw.rows + 1):
            size = source.randrange(100)
            if shape.wide and number % 97 == 0:
                size = source.randrange(200_000, 450_000)
            slot = f"s{number}" if shape.slot and number % 2 else None
            rows[number] = State(
                source.randrange(-(10**6), 10**6),
                f"row {number} " + "y" * size,
                slot,
                source.randrange(shape.spellings),
            )
        self.host.execute(f"CREATE DATABASE {self.name}")
        names = (*shape.key, *shape.written)
        marks = ", ".join(["%s"] * len(names))
        with contextlib.closing(self.connect()) as session, session.cursor() as cursor:
            version = self.host.version
            made = [shape.create()]
            if shape.attached:
                made = [*attached.before(), *made, *attached.after(shape, version)]
            for statement in made:
                cursor.execute(statement)
            cursor.executemany(
                f"INSERT INTO t ({', '.join(names)}) VALUES ({marks})",
                [(*shape.encode(n, s.spelling), *shape.values(s)) for n, s in rows.items()],
            )
            if attached.referred(shape, version):
                cursor.execute(attached.filled(shape))
            # Without a snapshot guard there is nothing that a reader may rely on.
            reads = draw.reader and not why_server_cannot(version)
            if reads:
                values = sum(state.value or 0 for state in rows.values())
                cursor.execute(_AUDIT)
                cursor.execute(
                    "INSERT INTO audit VALUES ('rows', %s, %s), ('w0', 0, 0), ('w1', 0, 0)",
                    (len(rows), values),
                )
        self.definition = self.show_create()
        self.base = self.tables()
        self.attached = self.catalogue()
        writers = [
            Writer(
                shape,
                {n: s for n, s in rows.items() if n % WRITERS == place},
                count(draw.rows + 1 + place, WRITERS),
                lambda **given: self.connect(user=APPLICATION, **given),
                name=f"w{place}",
                seed=draw.seed,
                audited=reads,
                line=draw.line,
            )
            for place in range(WRITERS)
        ]
        self.application = Application(writers)
        self.application.start()
        if reads:
            self.reader = Reader(
                lambda **given: self.connect(user=APPLICATION, **given),
                [_DISAGREE, *self.invariants()],
                seed=draw.seed,
            )
            self.reader.__enter__()

    def connect(self, **given: Any) -> Any:
        """Open a session in the schema, past the proxy."""
        return self.host.connect(**({"db": self.name} | given))

    def show_create(self) -> str:
        """Return the table's definition, without what rows change."""
        text = str(self.host.query(f"SHOW CREATE TABLE {self.name}.t")[0][1])
        return " ".join(w for w in text.split(" ") if not w.startswith("AUTO_INCREMENT="))

    def tables(self) -> list[str]:
        """Name the tables of the schema."""
        return sorted(row[0] for row in self.host.query(f"SHOW TABLES FROM {self.name}"))

    def catalogue(self) -> Any:
        """Return the triggers and foreign keys of the schema."""
        return attached.catalogue(self.host.query, self.name)

    def broken(self) -> list[str]:
        """Return what does not hold of the effects of triggers and keys."""
        wanted = [*self.invariants(), *([_DISAGREE] if self.reader else [])]
        with contextlib.closing(self.connect()) as session, session.cursor() as cursor:
            return [f"{one}: {cursor.fetchall()[:3]}" for one in wanted if cursor.execute(one)]

    def invariants(self) -> list[str]:
        """Return the SELECTs about triggers and keys that must return no row, at any commit."""
        shape = self.draw.shape
        return attached.invariants(shape, self.host.version) if shape.attached else []

    def swapped(self) -> bool:
        """Return whether the table has its new definition."""
        return "`note`" in self.show_create()

    def rows(self) -> dict[int, State]:
        """Read the whole table.

        Raises:
            ValueError: when a row does not hold together.
        """
        shape = self.draw.shape
        columns = ", ".join((*shape.key, *shape.written))
        found = self.host.query(f"SELECT {columns} FROM {self.name}.t")
        return dict(shape.read(row) for row in found)

    @contextlib.contextmanager
    def rewritten(self, why: str) -> Iterator[None]:
        """Keep the writers away while rows become others; then those are the truth for them."""
        with self.application.paused():
            yield
            found, old = self.rows(), not self.swapped()
            for place, writer in enumerate(self.application.writers):
                own = {n: s for n, s in found.items() if n % WRITERS == place}
                writer.begin_anew(own, why, old=old)

    def drop(self) -> None:
        """Drop the schema, whatever holds it."""
        for number in self.sessions():
            with contextlib.suppress(MySQLdb.Error):
                self.host.execute(f"KILL {number}")
        self.host.execute(f"DROP DATABASE IF EXISTS {self.name}")

    # -- the program

    def command(self) -> list[str]:
        """Return the command, the same in every attempt."""
        proxy = self.host.proxy
        hooks = ",".join([*self.draw.hooks, *([self.bug] if self.bug else [])])
        return [
            *(sys.executable, "-m", "tests.faults.hooks", hooks, "migrate", "--no-shortcut"),
            *("--host", f"{proxy.host}:{proxy.port}", "--user", MIGRATOR),
            *("--database", self.name, "--table", "t", "--alter", self.draw.shape.alter),
            *("--threads", "2", "--target-chunk-time", "0.2", "--lock-wait-timeout", "5"),
            *("--defer-indexes", "on" if self.draw.deferred else "off"),
            *("--checksum", "rolling" if self.draw.rolling else "snapshot"),
            *([] if self.draw.repair else ["--no-repair"]),
            *(["--keep", self.draw.line.text] if self.draw.line else []),
        ]

    def environ(self) -> dict[str, str]:
        """Return the environment of the command, by which its processes are found again."""
        own = {MARK: self.mark, "SPIRIT_PY_PASSWORD": PASSWORD, "PYTHONFAULTHANDLER": "1"}
        return {**os.environ, **own}

    def start(self) -> Attempt:
        """Start the command."""
        number = len(self.attempts) + 1
        log, report = self.folder / f"run-{number}.log", self.folder / f"run-{number}.json"
        environ = self.environ()
        if number == 1:
            environ[points.VARIABLE] = str(self.listener.path)
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*self.command(), "--report-json", str(report)],
                cwd=REPOSITORY,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        attempt = Attempt(number, process, log, report)
        self.attempts.append(attempt)
        return attempt

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The running command."""
        return self.attempts[-1].process

    def send(self, number: int) -> None:
        """Send a signal to the driver."""
        self.signalled.append(number)
        with contextlib.suppress(OSError):
            self.process.send_signal(number)

    def wait_held(self, hold: Hold) -> bool:
        """Wait until the program is held at its point; False when it ended before."""
        process = self.process
        self.until(lambda: hold.held.is_set() or process.poll() is not None, RUN_SECONDS)
        return hold.held.is_set()

    def finish(self, attempt: Attempt) -> int:
        """Wait for the command's end.

        Raises:
            TimeoutError: when it hangs; its threads are in its log then.
        """
        try:
            attempt.code = attempt.process.wait(RUN_SECONDS)
        except subprocess.TimeoutExpired:
            attempt.process.send_signal(signal.SIGCONT)
            attempt.process.send_signal(signal.SIGABRT)
            attempt.process.wait()
            raise TimeoutError(f"the command hangs for {RUN_SECONDS:.0f} s") from None
        return attempt.code

    def processes(self) -> dict[int, str]:
        """Return all living processes of this run's commands: driver, JVM, executors, workers."""
        found = {}
        wanted = f"{MARK}={self.mark}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                if state not in "ZX" and wanted in (folder / "environ").read_bytes().split(b"\0"):
                    words = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(folder.name)] = words.decode(errors="replace")
        return found

    def end_processes(self) -> None:
        """Kill what is left of this run's commands."""
        for number in self.processes():
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)
        for attempt in self.attempts:
            attempt.process.wait()

    def jvm(self) -> int | None:
        """Return the process id of the driver's JVM."""
        # Its launcher, a shell, has the same words behind its own.
        return next(
            (
                number
                for number, words in self.processes().items()
                if words.partition(" ")[0].endswith("java")
                and any(name in words for name in _JVM_CLASSES)
            ),
            None,
        )

    def sessions(self) -> dict[int, str]:
        """Return the program's sessions on the server: id, and what each does."""
        found = self.host.query(
            "SELECT processlist_id, CONCAT_WS(' ', processlist_command, processlist_state)"
            " FROM performance_schema.threads WHERE processlist_user = %s",
            MIGRATOR,
        )
        return {int(number): str(text) for number, text in found}

    # -- time

    def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait for a condition; tell whether it came."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL)
        return True

    def lasting(self, seconds: float) -> Iterator[None]:
        """Step through a fault that lasts, as long as the command runs."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            yield
            time.sleep(_POLL)

    def last(self, seconds: float) -> None:
        """Let a fault last."""
        for _ in self.lasting(seconds):
            pass
