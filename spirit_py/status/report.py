"""The final report: what was done, in figures; written as JSON and shown as a summary."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import signal
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spirit_py.classes import dataclass, field
from spirit_py.codes import ErrorCode
from spirit_py.errors import Interrupted, SpiritError
from spirit_py.events.run import SAME_ALREADY, Ended, RunBegun, RunEnded, Warned
from spirit_py.phases import Phase
from spirit_py.records import write_whole
from spirit_py.system_packages import broken_library
from spirit_py.units import counted, finite, human_bytes, human_count, human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Reporter
    from spirit_py.events.event import Event

End = TypeVar("End", bound=Ended)

FORMAT = 1
REVERTED: Final = "reverted"
"""The outcome of a migration that was swapped back, and its state in ``status``."""
_TOLD_AGE = 30.0


@dataclass(kw_only=True)
class OutcomeReport:
    """The common base of all reports: the outcome, and the file."""

    format: int = FORMAT
    outcome: str = ""
    exit_code: int = 0
    error_code: str = ""
    error: str = ""
    hint: str = ""
    seconds: float = 0.0
    details: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    def note_failure(self, error: BaseException) -> None:
        """Keep outcome, exit code, cause and remedy."""
        for name, value in failure_of(error).items():
            setattr(self, name, value)

    def ended(self, kind: type[End], **aside: Any) -> End:
        """Return the event of the end of a run, or of one table of a batch."""
        return kind(**self.end_fields(), seconds=self.seconds, **aside)

    def end_fields(self) -> dict[str, Any]:
        """Return outcome and error, under the names that every JSON record has for them."""
        return {
            "outcome": self.outcome,
            "exit_code": self.exit_code,
            "error": self.error,
            "code": str(self.error_code) or None,
            "hint": self.hint,
            "details": list(self.details),
        }

    def write(self, path: Path | None, reporter: Reporter) -> None:
        """Write the JSON, if asked for; a failure is reported, and changes no outcome."""
        if path is None:
            return
        try:
            whole = json.dumps(finite(dataclasses.asdict(self)), indent=2, ensure_ascii=False)
            write_whole(path, whole + "\n")
        except OSError as error:
            text = f"the report could not be written to {path}: {error.strerror or error}"
            self.warnings.append(text)
            reporter.event(Warned(said=text))

    def close(self, path: Path | None, reporter: Reporter) -> None:
        """Write the report, and tell the end of the run; last of all."""
        self.write(path, reporter)
        reporter.event(self.ended(RunEnded))
        reporter.stop()


@dataclass(kw_only=True)
class MigrationReport(OutcomeReport):
    """Figures of one run; counts, bytes, seconds, milliseconds as the names say.

    ``outcome`` is that of an error, ``done``, ``rehearsed``, ``reverted`` after a change that
    was swapped back, or ``reverse replication lost`` after one. ``table`` is the first of
    ``tables``, without its schema. ``algorithm`` is ``instant``, ``inplace``, ``native``,
    ``copy``, or empty when undecided; ``reason`` also says why it failed.
    ``checksum_age_seconds`` are from the earliest of the last clean comparisons to the swap.
    ``snapshot_guard``: ``done``, ``off``, or why not. Rows copied, and chunks, are of all runs,
    those by Spark of this one, and of ``rows_left_out``, which ``--keep`` did not keep.
    ``archived``: of each table what is proved. ``least_tasks`` counts rests; None where other users
    of the server were not spared.
    """

    algorithm: str = ""
    reason: str = ""
    schema: str = ""
    table: str = ""
    tables: list[str] = field(default_factory=list)
    statement: str = ""
    threads: int = 0
    rows_copied: int = 0
    rows_copied_by_spark: int = 0
    rows_left_out: int = 0
    chunks: int = 0
    phases: dict[str, float] = field(default_factory=dict)
    changes_received: int = 0
    changes_applied: int = 0
    changes_deduplicated: int = 0
    changes_dropped_above_high_watermark: int = 0
    peak_buffered_bytes: int = 0
    backpressure_seconds: float = 0.0
    feed_reconnects: int = 0
    throttled_seconds: dict[str, float] = field(default_factory=dict)
    least_tasks: float | None = None
    median_tasks: float | None = None
    checksum_passes: int = 0
    checksum_rows: int = 0
    checksum_lock_held_ms: float = 0.0
    checksum_age_seconds: float = 0.0
    differences_found: int = 0
    chunks_repaired: int = 0
    difference_examples: list[str] = field(default_factory=list)
    cutover_attempts: int = 0
    lock_wait_ms: float = 0.0
    lock_held_ms: float = 0.0
    cutover_steps_ms: dict[str, float] = field(default_factory=dict)
    attached: list[str] = field(default_factory=list)
    sessions_killed: list[str] = field(default_factory=list)
    snapshot_guard: str = ""
    snapshots_before_swap: list[str] = field(default_factory=list)
    start_position: str = ""
    final_position: str = ""
    old_table: str = ""
    archived: list[dict[str, Any]] = field(default_factory=list)
    resumable: bool = False
    runs: int = 1
    resumed: str = ""
    rows_copied_before: int = 0
    indexes_plan: list[str] = field(default_factory=list)
    indexes_deferred: list[str] = field(default_factory=list)
    index_build_seconds: float = 0.0
    index_build_tries: int = 0
    reverted: bool = False
    rehearsal: dict[str, Any] | None = None
    rehearsal_lines: list[str] = field(default_factory=list)

    @property
    def names(self) -> str:
        """The names of the tables, for messages."""
        return ", ".join(self.tables) or f"{self.schema}.{self.table}"

    def headline(self) -> str:
        """Return what was changed, how, in what time, and what became of the old table."""
        names = self.names
        if self.outcome == "archived":
            return f"{names} is archived in {human_seconds(self.seconds)}; it was not changed"
        what = "would change" if self.outcome == "rehearsed" else "changed"
        if self.reason == SAME_ALREADY:
            what = f"was not changed: {SAME_ALREADY}"
        if self.reverted:
            what = "changed, and changed back,"
        line = f"{names} {what} ({self.algorithm}) in {human_seconds(self.seconds)}"
        if self.outcome == "rehearsed":
            return f"{line}; nothing was changed, and nothing is left behind"
        if self.algorithm != "copy":
            return line
        old = "in place again" if self.reverted else self.old_table or "dropped"
        return f"{line}; old table: {old}"

    def summary(self, *, warnings: int = 0) -> list[str]:
        """Return the summary of a successful run, a line each; ``warnings`` counts those shown."""
        warned = warnings or len(self.warnings)
        shown = f"; {counted(warned, 'warning')}, shown above" if warned else ""
        lines = [f"{self.headline()}{shown}"]
        if self.resumed:
            lines.append(f"  run {self.runs}     {self.resumed}")
        if self.algorithm == "copy" and (not self.phases or Phase.COPY in self.phases):
            lines += self._copy_summary()
        elif self.archived:
            lines += self.archive_lines()
        return lines + self.rehearsal_lines

    def _copied_by(self) -> str:
        rows, by_spark = self.rows_copied - self.rows_copied_before, self.rows_copied_by_spark
        count, who = (by_spark, "by Spark") if by_spark else (rows, "by this process")
        return who if count >= self.rows_copied else f"{human_count(count)} of them {who}"

    def _copy_summary(self) -> list[str]:
        changes = ", ".join(
            f"{human_count(count)} {what}"
            for count, what in (
                (self.changes_received, "received"),
                (self.changes_applied, "applied"),
                (self.changes_deduplicated, "deduplicated"),
                (self.changes_dropped_above_high_watermark, "left to the copy"),
            )
        )
        compared = (
            f"{counted(self.checksum_rows, 'row')},"
            f" {counted(self.checksum_passes, 'pass', 'passes')},"
            f" {counted(self.differences_found, 'difference')},"
            f" {counted(self.chunks_repaired, 'chunk')} repaired"
        )
        if self.checksum_age_seconds >= _TOLD_AGE:
            age = human_seconds(self.checksum_age_seconds)
            compared += f"; the last one ended {age} before the swap"
        locked = (
            f"{counted(self.cutover_attempts, 'try', 'tries')},"
            f" waited {self.lock_wait_ms:.0f} ms for the lock, held it {self.lock_held_ms:.0f} ms"
        )
        if self.attached:
            what = ("foreign key or trigger", "foreign keys and triggers")
            locked += f"; {counted(len(self.attached), *what)} carried over"
        copied = f"{counted(self.rows_copied, 'row')} in {counted(self.chunks, 'chunk')}"
        if self.rows_copied > self.rows_copied_before:
            copied += f" ({self._copied_by()})"
        if self.rows_left_out:
            here = "by this process, " if self.rows_copied_before else ""
            copied += f"; {here}{human_count(self.rows_left_out)} of them left out by --keep"
        return [
            f"  copied    {copied}",
            *([f"  changes   {changes}"] if self.changes_received else []),
            *([f"  indexes   {self._built()}"] if self.indexes_deferred else []),
            f"  checksum  {compared}",
            *([] if self.outcome == "rehearsed" else [f"  cut-over  {locked}"]),
            *self.archive_lines(),
        ]

    def archive_lines(self) -> list[str]:
        """Return a line for each archive that is proved."""
        return [
            f"  archived  {counted(one['rows'], 'row')} of {one['table']} in"
            f" {counted(one['files'], 'file')} ({human_bytes(one['bytes'])}) of {one['folder']},"
            " proved by count and hash"
            for one in self.archived
        ]

    def _built(self) -> str:
        names = ", ".join(self.indexes_deferred)
        if not self.index_build_tries:
            return f"{names} built after the copy, by an earlier run"
        took = human_seconds(self.index_build_seconds)
        tries = counted(self.index_build_tries, "statement")
        return f"{names} built after the copy in {took}, {tries}"


def failure_of(error: BaseException) -> dict[str, Any]:
    """Return outcome, exit code, cause and remedy, by the names of a report."""
    # It is no stop request where no work is done, as while a batch is planned.
    error = Interrupted(signal.SIGINT) if isinstance(error, KeyboardInterrupt) else error
    error = broken_library(error)
    if isinstance(error, SpiritError):
        return {
            "outcome": error.outcome,
            "exit_code": error.exit_code,
            "error": error.message,
            "error_code": error.error_code,
            "hint": error.hint,
            "details": list(error.details),
        }
    return {
        "outcome": SpiritError.outcome,
        "exit_code": SpiritError.exit_code,
        "error": f"{type(error).__name__}: {error}",
        "error_code": ErrorCode.DEFECT,
    }


@contextlib.contextmanager
def told(
    path: Path | None,
    reporter: Reporter,
    *,
    begun: Event,
    broke: Callable[[BaseException], None],
    completed: Callable[[], OutcomeReport],
) -> Iterator[None]:
    """Show a run to its end, and write the report, also after an error, which ``broke`` gets."""
    reporter.start()
    reporter.event(begun)
    try:
        yield
    except BaseException as error:
        broke(error)
        raise
    finally:
        report = completed()
        report.write(path, reporter)
        reporter.event(report.ended(RunEnded))
        reporter.stop()


@contextlib.contextmanager
def refused_before(
    path: Path | None, reporter: Reporter, *, begun: Event, made: Callable[[], OutcomeReport]
) -> Iterator[None]:
    """Report that a run of many parts begins, and close the report of one that raises.

    Such as a refusal, an interrupt while it is planned, or a defect; not of one whose end is told
    already, as in an interrupt behind that.
    """
    reporter.event(begun)
    try:
        yield
    except BaseException as error:
        if not getattr(reporter, "ended", False):
            report = made()
            report.note_failure(error)
            report.close(path, reporter)
        raise


def run_begun(command: str, server: ConnectionOptions) -> Event:
    """Return the event of the beginning of a run."""
    return RunBegun(command=command, server=server.address, program=installed("spirit-py"))


def versions() -> dict[str, str]:
    """Return the versions of the program, Python and the libraries."""
    import platform

    names = ("spirit-py", "pyspark", "mysql-replication", "mysqlclient")
    return {"python": platform.python_version()} | {name: installed(name) for name in names}


@functools.cache
def installed(distribution: str) -> str:
    """Return the version of a distribution, read once: the standard library keeps each index."""
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"
