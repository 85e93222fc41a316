"""The real Spark: quiet, without secrets, every slot busy, and gone when it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from spirit_py.errors import CopyFailure, MigrationFailure
from spirit_py.spark.java import require_java
from spirit_py.spark.launch import LAUNCHER_OPTIONS
from tests.fixtures.spark import SLOTS
from tests.kits.background import BackgroundCall
from tests.kits.spark_stranger import blocks, listening
from tests.kits.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parent.parent.parent

# PySpark keeps one gateway in a process, so engines that are stopped live in processes of
# their own.
PROLOGUE = """
import contextlib, json, os, sys, threading, time
from pathlib import Path
from spirit_py.config import ConnectionOptions
from spirit_py.errors import SpiritError
from spirit_py.config import SparkConfig
from spirit_py.spark.engine import SparkEngine

def say(**fields):
    print(json.dumps(fields), flush=True)

def run(engine, function):
    outcomes = engine.run_gang(function, size=engine.slots, group="test", description="tasks")
    return [outcome.result for outcome in outcomes]
"""


class Script:
    """A Python process that runs an engine and says JSON lines."""

    def __init__(self, body: str, **environ: str) -> None:
        """Start it, in a process group of its own."""
        self._popen = subprocess.Popen(
            [sys.executable, "-c", PROLOGUE + body],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | environ,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process."""
        return self._popen.pid

    def line(self) -> dict[str, Any]:
        """Read what it says next."""
        assert self._popen.stdout is not None
        text = self._popen.stdout.readline()
        if not text:
            _, errors = self._popen.communicate()
            pytest.fail(f"the script ended: {errors}")
        said: dict[str, Any] = json.loads(text)
        return said

    def go_on(self) -> None:
        """Send the newline that it waits for."""
        assert self._popen.stdin is not None
        self._popen.stdin.write("\n")
        self._popen.stdin.flush()

    def end(self) -> tuple[int, str]:
        """Wait for the end; return the exit code and what it wrote to stderr."""
        _, errors = self._popen.communicate(timeout=240)
        return self._popen.returncode, errors

    def kill(self) -> None:
        """Kill it as the kernel would, and wait; nothing where it has ended and was read."""
        self._popen.kill()
        if self._popen.stdout is not None and not self._popen.stdout.closed:
            self._popen.communicate()


@pytest.fixture(name="script")
def _script() -> Iterator[Callable[..., Script]]:
    """Start scripts; none outlives its test, however that ends."""
    started: list[Script] = []

    def start(body: str, **environ: str) -> Script:
        started.append(Script(body, **environ))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def alive(pids: list[int]) -> list[int]:
    """Return those processes that still run."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in "ZX":
            found.append(pid)
    return found


def ended(pids: list[int]) -> bool:
    """Return whether none of these processes runs any more."""
    return not alive(pids)


def run(engine, function, *, size: int = SLOTS, group: str = "test", description: str = "") -> Any:
    """Run a gang's tasks on the session's engine; return their results, or raise an error."""
    outcomes = engine.run_gang(function, size=size, group=group, description=description)
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return [outcome.result for outcome in outcomes]


def test_every_slot_is_busy_with_a_job_that_has_a_name(spark_engine, tmp_path):
    """Each task waits until the other one runs beside it: a gang on one slot would hang."""
    assert spark_engine.slots == SLOTS
    folder = str(tmp_path)

    def task(rank: int) -> int:
        from pathlib import Path

        Path(folder, str(rank)).touch()
        deadline = time.monotonic() + 60
        while len(list(Path(folder).iterdir())) < SLOTS:
            if time.monotonic() > deadline:
                raise CopyFailure(f"task {rank} ran alone")
            time.sleep(0.005)
        return rank

    results = run(spark_engine, task, group="spirit-py copy s.t", description="copy of s.t")
    assert sorted(results) == list(range(SLOTS))
    # What Spark's UI and history show is the migration's story.
    context = spark_engine.context()
    # Spark takes note of its jobs in a thread of its own.
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    (job,) = until(lambda: tracker.getJobIdsForGroup("spirit-py copy s.t"), "the job's group")
    assert store.job(job).description().get() == "copy of s.t"


@pytest.mark.slow
def test_workers_are_reused_and_run_what_the_driver_runs(spark_engine):
    """One Python process a slot for all gangs, of the driver's interpreter and its package."""

    def task(_rank: int) -> tuple[int, str, str]:
        import os
        import sys

        import spirit_py.copier.task

        return os.getpid(), sys.executable, spirit_py.copier.task.__file__ or ""

    got = [each for _ in range(5) for each in run(spark_engine, task)]
    assert len({pid for pid, _, _ in got}) <= SLOTS
    assert {program for _, program, _ in got} == {sys.executable}
    (path,) = {path for _, _, path in got}
    assert Path(path).parts[-4:] == ("code", "spirit_py", "copier", "task.py")
    assert Path(path).resolve().is_relative_to(ROOT)


@pytest.mark.slow
def test_what_ends_a_task_comes_back_as_an_error_of_ours(spark_engine):
    """Its own error with its hint, or one line if it kills its worker; Spark runs the next job."""

    def broken(rank: int) -> int:
        if rank == 1:
            raise CopyFailure("chunk 3 is broken", hint="mend it", details=("a", "b"))
        return rank

    def killed(rank: int) -> int:
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)
        return rank

    with pytest.raises(CopyFailure, match=r"^chunk 3 is broken$") as failed:
        run(spark_engine, broken)
    assert (failed.value.hint, failed.value.details) == ("mend it", ("a", "b"))
    with pytest.raises(MigrationFailure, match="Spark could not run a job") as lost:
        run(spark_engine, killed)
    assert "\n" not in lost.value.message
    assert run(spark_engine, lambda rank: rank) == list(range(SLOTS))


@pytest.mark.draws(2)
def test_stop_leaves_no_process_and_nothing_on_disk(script):
    """JVM, daemon, workers and scratch folder are gone when stop returns; another can start."""
    running = script("""
for _ in range(2):
    engine = SparkEngine(SparkConfig(threads=2))
    assert not engine.ready
    engine.start()
    got = run(engine, lambda n: n + 1)
    assert engine.ready and engine.failure is None
    members = sorted(engine._spark._process._members())
    engine.stop()
    engine.stop()
    assert not engine.ready
    say(got=sorted(got), members=members, left=sorted(engine._spark._process._members()),
        scratch=engine._spark._scratch.exists())
""")
    for _ in range(2):
        said = running.line()
        assert said["got"] == [1, 2]
        assert len(said["members"]) >= 3
        assert (said["left"], said["scratch"]) == ([], False)
        assert alive(said["members"]) == []
    assert running.end() == (0, "")


@pytest.mark.slow
@pytest.mark.draws(2)
def test_a_spark_that_the_application_has_stopped_is_left_as_it_was(script):
    """Ours has a JVM of its own, and the application's next one has the application's again."""
    running = script("""
from pyspark import SparkConf, SparkContext

def begin():
    return SparkContext(conf=SparkConf().setMaster("local[1]").set("spark.ui.enabled", "false"))

def jvm(context):
    return context._jvm.java.lang.ProcessHandle.current().pid()

context = begin()
theirs = jvm(context)
context.stop()
paths = list(sys.path)
engine = SparkEngine(SparkConfig(threads=1))
engine.start()
ours = jvm(engine.context())
members = sorted(engine._spark._process._members())
sys.path.append("/later")
engine.stop()
context = begin()
say(own=ours in members, again=jvm(context) == theirs, got=context.range(3).count(),
    kept="/later" in sys.path and all(one in sys.path for one in paths),
    more=len(sys.path) - len(paths))
context.stop()
""")
    said = running.line()
    # The one of this test, and that of the application's context.
    assert said.pop("more") == 2
    assert said == {"own": True, "again": True, "got": 3, "kept": True}
    assert running.end()[0] == 0


@pytest.mark.draws(2)
def test_a_stop_while_starting_kills_the_jvm(script):
    """An interrupt in preflight: the JVM that is starting is killed, not waited for."""
    running = script("""
engine = SparkEngine(SparkConfig(threads=2))
engine.start()
while engine._spark._process is None:
    time.sleep(0.001)
engine.stop()
say(left=sorted(engine._spark._process._members()), threads=[t.name for t in threading.enumerate()])
try:
    engine.context()
except SpiritError as error:
    say(error=str(error))
""")
    assert running.line() == {"left": [], "threads": ["MainThread"]}
    assert "error" in running.line()
    assert running.end()[0] == 0


@pytest.mark.slow
@pytest.mark.draws(2)
def test_a_driver_that_dies_takes_spark_with_it(script):
    """The JVM sees the end of its input, the workers go as well, and the files are deleted."""
    running = script("""
engine = SparkEngine(SparkConfig(threads=2))
engine.start()
run(engine, lambda n: n)
say(members=sorted(engine._spark._process._members()), scratch=str(engine._spark._scratch))
time.sleep(600)
""")
    said = running.line()
    members = said["members"]
    assert len(alive(members)) >= 3
    running.kill()
    until(lambda: ended(members), "the JVM and its workers to end")
    until(lambda: not Path(said["scratch"]).exists(), "its files to be deleted")


@pytest.mark.draws(1)
def test_a_jvm_that_is_killed_leaves_no_trace_on_the_terminal(script):
    """What ended the run is said by the run; Spark's own traces are for --verbose."""
    running = script("""
from spirit_py.status.plain import to_terminal
to_terminal(verbose=False)
engine = SparkEngine(SparkConfig(threads=2))
engine.start()
run(engine, lambda n: n)
for pid in engine._spark._process._members():
    with contextlib.suppress(ProcessLookupError):  # Python's workers end with the JVM.
        os.kill(pid, 9)
engine._spark._process._popen.wait()
engine.stop()
""")
    code, written = running.end()
    assert (code, written) == (0, "")


@pytest.mark.slow
@pytest.mark.draws(1)
def test_a_jvm_that_hangs_is_killed_and_its_call_ends(script):
    """PySpark waits for an answer without a limit; the run goes on without Spark."""
    running = script("""
from spirit_py.spark import runtime
engine = SparkEngine(SparkConfig(threads=2))
engine.start()
say(slots=engine.slots)
runtime._ANSWER_SECONDS = 1.0
for pid in engine._spark._process._members():
    os.kill(pid, 19)
try:
    engine.slots
except SpiritError as error:
    say(error=error.message, ready=engine.ready, failure=engine.failure.message)
engine.stop()
""")
    assert running.line() == {"slots": 2}
    said = running.line()
    assert said == {
        "error": "Spark does not answer: Spark's JVM did not answer within 1 s",
        "ready": False,
        "failure": "Spark's JVM has ended",
    }
    assert running.end()[0] == 0


@pytest.mark.draws(1)
def test_a_jvm_that_hangs_while_its_context_starts_is_killed(script):
    """It has answered where its gateway listens, and nothing since."""
    running = script("""
from spirit_py.spark import runtime
runtime._CONTEXT_SECONDS = 1.0
connect = runtime._connect
def hang(*gateway):
    found = connect(*gateway)
    for pid in engine._spark._process._members():
        os.kill(pid, 19)
    return found
runtime._connect = hang
engine = SparkEngine(SparkConfig(threads=2))
engine.start()
while engine.failure is None:
    time.sleep(0.05)
say(failure=engine.failure.message)
engine.stop()
""")
    assert "JVM did not answer within 1 s" in running.line()["failure"]
    assert running.end()[0] == 0


@pytest.mark.draws(1)
def test_signals_of_the_terminal_do_not_reach_spark(script):
    """Ctrl-C and a closed terminal signal the whole group; Spark goes on until it is stopped."""
    running = script("""
import signal
caught = []
signal.signal(signal.SIGINT, lambda *_: caught.append("int"))
signal.signal(signal.SIGHUP, lambda *_: caught.append("hup"))
engine = SparkEngine(SparkConfig(threads=2))
engine.start()
run(engine, lambda n: n)
say(ready=True)
sys.stdin.readline()
until = time.monotonic() + 60
while len(caught) < 2 and time.monotonic() < until:
    time.sleep(0.01)
say(caught=sorted(caught), got=run(engine, lambda n: n))
engine.stop()
""")
    running.line()
    os.killpg(running.pid, signal.SIGINT)
    os.killpg(running.pid, signal.SIGHUP)
    running.go_on()
    assert running.line() == {"caught": ["hup", "int"], "got": [0, 1]}
    assert running.end()[0] == 0


def test_secrets_are_nowhere_in_spark(script):
    """The password is not in the JVM's arguments or environment, nor in Spark's settings (R20)."""
    running = script(
        """
engine = SparkEngine(SparkConfig(threads=1))
engine.start()
options = ConnectionOptions(user="u", password="s3cret-in-closure")
got = run(engine, lambda n: options.password)
members = engine._spark._process._members()
arguments = "".join(Path(f"/proc/{pid}/cmdline").read_text() for pid in members)
environ = "".join(Path(f"/proc/{pid}/environ").read_text() for pid in members)
assert len(members) >= 3
settings = str(engine.context().getConf().getAll())
log = "".join((engine._spark._scratch / name).read_text() for name in ("jvm.log", "spark.log"))
say(got=got, found=[name for name, text in
    [("arguments", arguments), ("environ", environ), ("settings", settings), ("log", log)]
    if "s3cret" in text])
engine.stop()
""",
        MYSQL_PWD="s3cret-in-environment",
        SPIRIT_PY_PASSWORD="s3cret-in-environment",
    )
    assert running.line() == {"got": ["s3cret-in-closure"], "found": []}
    assert running.end()[0] == 0


def test_a_stranger_gets_nothing_from_spark(spark_engine, tmp_path):
    """R26: any user of the machine could ask the block manager for the tasks, with the password."""
    secret = os.urandom(16).hex()
    held, asked = tmp_path / "held", tmp_path / "asked"

    def task(_rank: int) -> int:
        held.touch()
        while not asked.exists():
            time.sleep(0.02)
        return len(secret)

    job = BackgroundCall(lambda: run(spark_engine, task))
    until(held.exists, "a task")
    ports = listening(spark_engine._spark._process._members())
    # One more, with the secret: those of the tasks have the numbers before.
    own = spark_engine.context().broadcast(secret)
    last = own._jbroadcast.id()
    numbers = range(max(0, last - 300), last + 1)
    names = [f"broadcast_{n}{end}" for n in numbers for end in ("", "_piece0")]
    got = [len(block) for port in ports for block in blocks(port, names)]
    own.destroy()
    asked.touch()
    assert job.result() == [len(secret)] * SLOTS
    assert len(ports) >= 2
    assert got == []
    assert [port for port in ports if not port.of_this_machine] == []


@pytest.mark.slow
@pytest.mark.draws(2)
def test_real_executors_and_the_web_interface_tell_a_stranger_nothing(script):
    """R26: executors ask for a secret, which nobody is shown; nothing listens to other machines.

    The interface shows no way to end anything.
    """
    running = script("""
import urllib.request
from tests.kits.spark_stranger import blocks, listening

engine = SparkEngine(
    SparkConfig(spark_master="local-cluster[1,1,1024]", threads=1, spark_ui=True, verbose=False)
)
context = engine.context()
secret = context.getConf().get("spark.authenticate.secret", "no secret")
held, asked = Path(engine._spark._scratch) / "held", Path(engine._spark._scratch) / "asked"

def task(rank):
    held.touch()
    while not asked.exists():
        time.sleep(0.02)
    return rank

job = threading.Thread(target=run, args=(engine, task), daemon=True)
job.start()
while not held.exists():
    time.sleep(0.02)

def page(name):
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(context.uiWebUrl + name) as answer:
        return answer.read().decode()

members = engine._spark._process._members()
ports = listening(members)
names = [f"broadcast_{n}{end}" for n in range(5) for end in ("", "_piece0")]
shown = {
    "arguments": "".join(Path(f"/proc/{pid}/cmdline").read_text() for pid in members),
    "log": "".join(log.read_text() for log in engine._spark._scratch.glob("*.log")),
    "environment": page("/environment/"),
}
say(
    authenticate="spark.authenticate.secret" in shown["environment"],
    shown=[name for name, text in shown.items() if secret in text],
    jobs="test" in page("/jobs/"),
    kills="kill" in page("/jobs/").lower() or "(kill)" in page("/stages/").lower(),
    open=[str(port) for port in ports if not port.of_this_machine],
    got=[len(block) for port in ports for block in blocks(port, names)],
    ports=len(ports),
)
asked.touch()
job.join()
engine.stop()
""")
    said = running.line()
    assert said.pop("ports") >= 4
    assert said == {
        "authenticate": True,
        "shown": [],
        "jobs": True,
        "kills": False,
        "open": [],
        "got": [],
    }
    assert running.end()[0] == 0


@pytest.mark.draws(1)
def test_a_master_that_does_not_exist_is_one_line(script):
    """A wrong --spark-master: cause, remedy, and no process left."""
    running = script("""
SECRET = (("spark.authenticate.secret", "x"),)
engine = SparkEngine(SparkConfig(spark_master="nonsense://a:1", threads=2, spark_conf=SECRET))
engine.start()
try:
    engine.context()
except SpiritError as error:
    say(message=error.message, hint=error.hint, code=error.exit_code)
    assert engine.failure is error and not engine.ready
engine.stop()
say(left=sorted(engine._spark._process._members()))
""")
    said = running.line()
    assert "master nonsense://a:1" in said["message"]
    assert "\n" not in said["message"]
    assert "--spark-master" in said["hint"]
    assert running.line() == {"left": []}
    assert running.end() == (0, "")


def test_java_is_started_with_the_options_of_sparks_own_launcher():
    """A later Spark may need others: this compares with the command that it builds itself."""
    home = Path(pyspark.__file__).parent
    launcher = ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"]
    built = subprocess.run(
        [require_java().program, "-cp", f"{home}/jars/*", *launcher, "pyspark-shell"],
        capture_output=True,
        check=True,
        text=True,
        env=os.environ | {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"},
    ).stdout
    words = {word.strip() for word in built.replace("\n", "\0").split("\0")}
    ours = set(LAUNCHER_OPTIONS)
    opened = {word for word in words if word.startswith("--add-opens")}
    assert opened
    assert opened - ours == set()
    netty = {word for word in words if word.startswith("-Dio.netty")}
    assert netty - ours == set()


@pytest.mark.draws(1)
@pytest.mark.slow
def test_real_executors_copy_a_table(db, script):
    """On local-cluster the chunks run in executor processes of their own; stop ends them too."""
    db.execute("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20))")
    db.execute("SET SESSION cte_max_recursion_depth = 10000")
    db.execute(
        "INSERT INTO t WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r"
        " WHERE n < 8000) SELECT n, CONCAT('v', n) FROM r"
    )
    server = {name: getattr(db.server, name) for name in ("host", "port", "user", "password")}
    running = script(f"""
from types import SimpleNamespace
from spirit_py.mysql.tables.definition import read_table
from spirit_py.statement.parse import alter_of
from spirit_py.table.build import build_mapping
from tests.kits.copying import copying
from tests.kits.tables import open_session

db = SimpleNamespace(name={db.name!r}, server=SimpleNamespace(**{server!r}))
with open_session(db) as session:
    session.execute("CREATE TABLE _t_new LIKE t")
    tables = [read_table(session, db.name, name) for name in ("t", "_t_new")]
mapping = build_mapping(*tables, alter_of(db.name, "t", "ENGINE=InnoDB"), "+00:00")
engine = SparkEngine(SparkConfig(spark_master="local-cluster[2,1,1024]", threads=2))
engine.start()
with copying(db, mapping, engine, first_rows=500) as work:
    work.copier.run()
    chunks = work.copier.statistics().chunks

def where(n):
    import os, time
    time.sleep(0.2)
    return os.getppid(), __import__("spirit_py.copier.task").__file__

got = run(engine, where)
members = sorted(engine._spark._process._members())
slots = engine.slots
engine.stop()
say(slots=slots, daemons=len({{parent for parent, _ in got}}), chunks=chunks,
    shipped=all("spirit_py.zip" in path for _, path in got),
    members=members, left=sorted(engine._spark._process._members()))
""")
    said = running.line()
    assert (said["slots"], said["daemons"], said["shipped"], said["left"]) == (2, 2, True, [])
    assert len(said["members"]) >= 7
    assert said["chunks"] > 3
    assert running.end() == (0, "")
    assert db.query("SELECT COUNT(*) FROM (TABLE t EXCEPT TABLE _t_new) d") == [(0,)]
    assert db.query("SELECT COUNT(*) FROM _t_new") == [(8000,)]
