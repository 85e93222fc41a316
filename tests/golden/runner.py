"""Makes the runs of a scenario on a real server and collects what they leave behind.

The commands run in this process, by the words of their command line, so that their named points are
passed here. They have the server's threads and no Spark.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
from typing import TYPE_CHECKING, Any, Final

from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

import spirit_py
from spirit_py import points
from spirit_py.cli import main
from spirit_py.errors import MigrationFailure
from tests.golden.normal import (
    METRICS_BY_CHANCE,
    Normaliser,
    brief,
    lines_of_text,
    progress_fields,
)
from tests.golden.scenarios import tables
from tests.kits.command import command_line, environment
from tests.kits.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from tests.fixtures.mysql import Database
    from tests.golden.scenarios import Action, Scenario, Step

LOGGED: Final = frozenset({"migrate", "revert", "checksum"})
"""Commands with log lines, a report and metrics."""
_RECORDED: Final = {"grace": "cutover"}
"""The phase of the last checkpoint, where it is not that of the run."""
PREFIX: Final = "spirit_py_"
_STATES: Final = frozenset({"batch_tables", "outcome", "run_outcome"})


class Runs:
    """The runs of one scenario."""

    def __init__(self, db: Database, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._whole = False
        self._db = db
        self._folder = folder
        self._monkeypatch = monkeypatch
        self._other = db.connect()
        self._watcher = db.connect()
        self._answers: list[Any] = []
        self._begun: list[tuple[Action, subprocess.Popen[str]]] = []
        server = db.server
        self._normal = Normaliser(
            {
                db.name: "{schema}",
                f"{server.host}:{server.port}": "{server}",
                f"{server.user}@{self._client}": "{account}",
                str(folder): "{folder}",
                **self._surroundings(),
            }
        )

    @property
    def _client(self) -> str:
        """From where the server sees this machine."""
        return str(self._db.query("SELECT SUBSTRING_INDEX(USER(), '@', -1)")[0][0])

    def _surroundings(self) -> dict[str, str]:
        import platform

        version = str(self._db.query("SELECT VERSION()")[0][0])
        return {
            version: "{mysql}",
            spirit_py.__version__: "{program}",
            platform.python_version(): "{python}",
        }

    def play(self, scenario: Scenario) -> dict[str, Any]:
        """Make the tables and all runs; return what is to be recorded."""
        self._whole = scenario.whole
        self._db.execute(scenario.tables or tables("t"))
        steps = enumerate(scenario.steps, 1)
        return {f"{number} {step.words[0]}": self._step(step) for number, step in steps}

    def _step(self, step: Step) -> dict[str, Any]:
        """Run one command with what is done meanwhile."""
        if step.before:
            self._execute(step.before)
        self._answers = []
        words, report, metrics = self._words(step.words)
        events = self._folder / "events"
        events.write_text("")
        watching = [
            threading.Thread(target=self._meanwhile, args=(event, actions), daemon=True)
            for event, actions in step.during.items()
        ]
        if watching:
            words += ["--on-event", f"cat >> {shlex.quote(str(events))}"]
        left = dict(step.at)

        def passed(point: str) -> None:
            for action in left.pop(point, ()):
                self._do(action, point)

        with self._monkeypatch.context() as patched:
            patched.setattr(points, "_listener", "here")
            patched.setattr(points, "_announce", passed)
            for thread in watching:
                thread.start()
            ended = CliRunner(env=environment(self._db)).invoke(main, words)
            for thread in watching:
                thread.join(120)
                assert not thread.is_alive(), ended.stderr
        assert not left, f"never reached {left}: {ended.stderr}"
        self._collect_begun()
        return self._seen(words, ended, report, metrics)

    def _words(self, given: Action) -> tuple[list[str], Path | None, Path | None]:
        """Return the whole command line, and the files of its report and its metrics."""
        command, *rest = (word.format(schema=self._db.name) for word in given)
        more: list[str] = []
        report = metrics = None
        if command in LOGGED:
            report, metrics = self._folder / "report.json", self._folder / "metrics.prom"
            more += ["--report-json", str(report), "--metrics-file", str(metrics)]
            more += [] if "--log-format" in rest else ["--log-format", "json"]
            for path in (report, metrics):
                path.unlink(missing_ok=True)
        line = command_line(self._db, command, *rest, *more)[3:]
        if "--tables" in rest:
            place = line.index("--database")
            del line[place : place + 2]
        return line, report, metrics

    def _seen(
        self, words: list[str], ended: Any, report: Path | None, metrics: Path | None
    ) -> dict[str, Any]:
        """Return the recording of one command."""
        lines = [line for line in ended.stderr.splitlines() if line]
        seen: dict[str, Any] = {"exit_code": ended.exit_code, **self._logged(words[0], lines)}
        if self._whole and "milestones" in seen:
            seen["progress"] = progress_fields(lines)
        if ended.stdout:
            seen["stdout"] = self._document(words[0], ended.stdout)
        if report is not None and report.exists():
            seen["report"] = self._short(json.loads(report.read_text()))
        if metrics is not None and metrics.exists():
            seen["metrics"] = self._metrics(metrics.read_text())
        if self._answers:
            seen["meanwhile"] = self._answers
        return seen

    def _logged(self, command: str, lines: list[str]) -> dict[str, Any]:
        """Return what was written to standard error."""
        seen = self._normal.events(lines, whole=self._whole)
        if command not in LOGGED or not seen["milestones"]:
            del seen["milestones"], seen["events"]
        if "lines" in seen:
            seen["lines"] = lines_of_text(seen["lines"]) if command in LOGGED else seen["lines"]
        return seen

    def _short(self, document: Any) -> Any:
        value = self._normal.value(document)
        return value if self._whole else brief(value)

    def _document(self, command: str, text: str) -> Any:
        """Return what was written to standard output."""
        try:
            document = json.loads(text)
        except ValueError:
            return [self._normal.text(line) for line in text.splitlines()]
        return self._short(document) if command == "status" else self._normal.value(document)

    def _metrics(self, text: str) -> dict[str, list[str]]:
        """Return the names of the metrics with the same labels; states have their values."""
        found: dict[str, set[str]] = {}
        for family in text_string_to_metric_families(text):
            if family.name.removeprefix(PREFIX) in METRICS_BY_CHANCE:
                continue
            for sample in family.samples:
                labels = {name: self._normal.text(one) for name, one in sample.labels.items()}
                name = sample.name.removeprefix(PREFIX)
                if "phase" in labels:
                    name += f" {labels.pop('phase')} {sample.value:g}"
                elif family.name.removeprefix(PREFIX) in _STATES:
                    name += f" {sample.value:g}"
                shown = ", ".join(f"{key}={one}" for key, one in sorted(labels.items()))
                found.setdefault(shown, set()).add(name)
        return {labels: sorted(names) for labels, names in found.items()}

    # -- what is done meanwhile

    def _meanwhile(self, event: str, actions: tuple[Action, ...]) -> None:
        """Do something once a run has reported an event, which its hook writes down."""
        events = self._folder / "events"
        until(lambda: f'"event": "{event}"' in events.read_text(), event)
        for action in actions:
            self._do(action, event)

    def _do(self, action: Action, where: str) -> None:
        word, *arguments = action
        actions: dict[str, Callable[..., None]] = {
            "sql": self._execute,
            "aged": self._await_old_transaction,
            "status": self._status,
            "ctl": lambda *words: self._run("ctl", "--json", "--table", "t", *words),
            "run": self._run,
            "background": self._begin,
        }
        if word == "fail":
            raise MigrationFailure(f"ended by the test at {where}", hint="run it again")
        actions[word](*arguments)

    def _execute(self, *statements: str) -> None:
        """Execute statements in a session of a client."""
        cursor = self._other.cursor()
        for statement in ";".join(statements).split("; "):
            cursor.execute(statement)
            cursor.fetchall()

    def _await_old_transaction(self, seconds: str) -> None:
        """Wait until a transaction is so old that no lock is requested behind it."""
        old = (
            "SELECT 1 FROM information_schema.innodb_trx WHERE trx_mysql_thread_id ="
            f" {self._other.thread_id()} AND trx_started < NOW() - INTERVAL {int(seconds)} SECOND"
        )

        def found() -> bool:
            cursor = self._watcher.cursor()
            cursor.execute(old)
            return bool(cursor.fetchall())

        until(found, "an old transaction", pause=0.1)

    def _shown(self) -> list[dict[str, Any]]:
        """Return what ``status --json`` shows, without a process of its own."""
        server = self._db.server
        shown = spirit_py.migration_status(
            host=f"{server.host}:{server.port}",
            user=server.user,
            password=server.password,
            database=self._db.name,
        )
        found: list[dict[str, Any]] = json.loads(json.dumps([one.to_dict() for one in shown]))
        return found

    def _status(self, phase: str, *names: str) -> None:
        """Record what is shown once the run has written this phase, and these live figures."""

        def written() -> list[dict[str, Any]]:
            shown = self._shown()
            live = (shown[0].get("live") or {}) if shown else {}
            recorded = shown[0]["phase"] if shown else ""
            in_phase = live.get("phase") == phase and recorded == _RECORDED.get(phase, phase)
            known = in_phase and all(live.get(name) for name in names)
            return shown if known else []

        shown = until(written, f"the figures of {phase}")
        self._answers.append({"asked": "status", "shown": self._short(shown)})

    def _begin(self, command: str, *words: str) -> None:
        """Begin a command, whose answer comes at the end of the run."""
        words = (command, "--json", "--table", "t", *words)
        self._begun.append((words, self._start(*words)))

    def _start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command_line(self._db, *words),
            env=environment(self._db),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _run(self, *words: str) -> None:
        """Run a command in a process of its own; its answer is recorded."""
        if words[0] in LOGGED:
            words = (*words, "--log-format", "json")
        self._answer(words, self._start(*words))

    def _answer(self, words: Action, process: subprocess.Popen[str]) -> None:
        out, err = process.communicate(timeout=120)
        seen = {
            "asked": " ".join(words),
            "exit_code": process.returncode,
            **self._logged(words[0], err.splitlines()),
        }
        if out:
            seen["stdout"] = self._document(words[0], out)
        self._answers.append(seen)

    def _collect_begun(self) -> None:
        while self._begun:
            self._answer(*self._begun.pop(0))
