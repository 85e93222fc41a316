"""The report: complete JSON, whole on disk, readable as a summary."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import select
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py import records
from spirit_py.errors import (
    DifferencesFound,
    Interrupted,
    MigrationFailure,
    OutcomeUnknown,
    Refusal,
    SpiritError,
)
from spirit_py.events.run import RunBegun, RunEnded
from spirit_py.records import write_whole
from spirit_py.status.report import MigrationReport, OutcomeReport, refused_before, versions
from tests.kits.reporter import RecordingReporter


def test_the_file_is_replaced_whole_and_holds_every_field(tmp_path):
    """Writing twice leaves the second report and no temporary file."""
    path = tmp_path / "report.json"
    MigrationReport(outcome="failed").write(path, RecordingReporter())
    MigrationReport(outcome="done", rows_copied=3).write(path, RecordingReporter())
    found = json.loads(path.read_text())
    assert (found["outcome"], found["rows_copied"]) == ("done", 3)
    assert set(found) == set(vars(MigrationReport()))
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.json"]


class _Stopped(RecordingReporter):
    """Knows that the display was ended."""

    stopped = False

    def stop(self):
        """Note it."""
        self.stopped = True


@pytest.mark.parametrize(
    ("error", "outcome", "code"),
    [
        (KeyboardInterrupt(), "interrupted", 130),
        (ZeroDivisionError("a defect"), "failed", 1),
        (Refusal("no"), "refused", 2),
    ],
)
def test_a_run_of_many_parts_has_a_report_whatever_ends_it(tmp_path, error, outcome, code):
    """As it is planned, too: the report of the run before does not stay in its place."""
    path, reporter = tmp_path / "report.json", _Stopped()
    path.write_text('{"outcome": "done"}')
    begun = RunBegun(command="batch", server="db1", program="1")
    with (
        pytest.raises(type(error)),
        refused_before(path, reporter, begun=begun, made=OutcomeReport),
    ):
        raise error
    found = json.loads(path.read_text())
    assert (found["outcome"], found["exit_code"]) == (outcome, code)
    ended = reporter.events[-1]
    assert isinstance(ended, RunEnded)
    assert (ended.outcome, ended.exit_code) == (outcome, code)
    assert reporter.stopped


def test_links_are_followed_and_devices_written_through(tmp_path):
    """What is at the path stays what it is: a link stays a link, a pipe a pipe."""
    real, link, pipe = tmp_path / "real.json", tmp_path / "link.json", tmp_path / "pipe"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    MigrationReport(outcome="done").write(link, RecordingReporter())
    assert link.is_symlink()
    assert json.loads(real.read_text())["outcome"] == "done"
    assert real.stat().st_mode & 0o777 == 0o640
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    MigrationReport(outcome="done").write(pipe, RecordingReporter())
    assert json.loads(os.read(reader, 100_000))["outcome"] == "done"
    os.close(reader)
    assert pipe.is_fifo()


def test_a_text_that_cannot_be_encoded_is_written_in_escapes(tmp_path):
    """Half of a surrogate pair in a name or a message changes no outcome (R16)."""
    path = tmp_path / "report.json"
    MigrationReport(outcome="done", statement="\udcff").write(path, RecordingReporter())
    assert json.loads(path.read_text())["statement"] == "\udcff"


def test_a_new_file_gets_the_mode_of_any_new_file_and_an_old_one_keeps_its(tmp_path):
    """Nobody's umask is changed for that: threads make files meanwhile (R26)."""
    new, plain = tmp_path / "new.json", tmp_path / "plain"
    plain.touch()
    modes = set()
    for _ in range(2):
        MigrationReport(outcome="done").write(new, RecordingReporter())
        modes.add(new.stat().st_mode)
    assert modes == {plain.stat().st_mode}


@pytest.mark.parametrize(
    ("tries", "said"),
    [(0, "d.t.a built after the copy, by an earlier run"), (2, "the copy in 3.0s, 2 statements")],
)
def test_the_summary_says_who_built_the_indexes(tries, said):
    """A run that finds them there has sent nothing, and took no time for them."""
    report = MigrationReport(
        algorithm="copy",
        outcome="done",
        indexes_deferred=["d.t.a"],
        index_build_seconds=3.0,
        index_build_tries=tries,
    )
    (line,) = [line for line in report.summary() if "indexes" in line]
    assert said in line


def test_the_summary_of_a_copy_names_the_proof():
    """The summary says what was copied, applied, compared and locked."""
    report = MigrationReport(
        schema="shop",
        table="orders",
        algorithm="copy",
        rows_copied=12000,
        chunks=7,
        changes_received=5,
        changes_applied=5,
        checksum_passes=1,
        lock_held_ms=12.4,
        cutover_attempts=1,
    )
    text = "\n".join(report.summary())
    for part in (
        "shop.orders",
        "12 000 rows in 7 chunks (by this process)",
        "5 applied",
        "1 pass,",
        "held it 12 ms",
        "dropped",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("before", "by_spark", "said"),
    [
        (0, 9000, "12 000 rows in 7 chunks (9 000 of them by Spark)"),
        (0, 12_000, "12 000 rows in 7 chunks (by Spark)"),
        (2000, 10_000, "12 000 rows in 7 chunks (10 000 of them by Spark)"),
        (2000, 0, "12 000 rows in 7 chunks (10 000 of them by this process)"),
        (12_000, 0, "12 000 rows in 7 chunks"),
    ],
)
def test_the_summary_of_a_copy_says_who_copied(before, by_spark, said):
    """Spark, threads of the process, or both; nothing where this run copied nothing."""
    report = MigrationReport(
        algorithm="copy",
        rows_copied=12_000,
        chunks=7,
        rows_copied_before=before,
        rows_copied_by_spark=by_spark,
    )
    (line,) = [line for line in report.summary() if "copied" in line]
    assert line.endswith(said)


def test_the_summary_of_a_run_that_only_cleans_up_has_no_figures_of_a_copy():
    """An earlier run has copied, compared and swapped: noughts would say that nobody did."""
    report = MigrationReport(
        schema="s",
        table="t",
        algorithm="copy",
        resumed="resumed: the swap is done",
        runs=2,
        phases={"preflight": 0.2, "cleanup": 0.1},
    )
    changed, resumed = report.summary()
    assert "the swap is done" in resumed
    assert changed.endswith("; old table: dropped")


def test_the_summary_of_a_shortcut_is_short():
    """An INSTANT change says so, and nothing about a copy."""
    lines = MigrationReport(
        schema="s", table="t", algorithm="instant", reason="only metadata"
    ).summary()
    assert lines[0].startswith("s.t changed (instant)")
    assert len(lines) == 1


def test_the_report_names_the_versions():
    """The report says with what it was made."""
    found = versions()
    assert found["python"][0].isdigit()
    assert found["pyspark"][0].isdigit()


def test_a_file_that_cannot_be_written_is_a_warning(tmp_path):
    """The outcome stays what it is; the operator and the report say what is missing."""
    told, report = RecordingReporter(), MigrationReport(outcome="done")
    report.write(tmp_path / "none" / "report.json", told)
    assert report.outcome == "done"
    assert len(report.warnings) == 1
    assert f"warning: {report.warnings[0]}" in told.text
    assert "could not be written" in told.text


@pytest.mark.parametrize(
    ("error", "outcome", "code"),
    [
        (Refusal("no"), "refused", 2),
        (MigrationFailure("no"), "failed", 1),
        (OutcomeUnknown("no"), "unknown", 3),
        (DifferencesFound("no"), "different", 4),
        (Interrupted(15), "interrupted", 143),
        (ValueError("no"), "failed", 1),
    ],
)
def test_a_failure_fills_the_report(error, outcome, code):
    """Outcome, exit code, cause and next step are those of the error."""
    report = MigrationReport()
    report.note_failure(error)
    assert (report.outcome, report.exit_code) == (outcome, code)
    assert str(error) in report.error


def test_the_next_step_and_the_details_are_kept():
    """What the error knows beyond its message reaches the file."""
    report = MigrationReport()
    report.note_failure(SpiritError("cause", hint="step", details=("a", "b")))
    assert (report.error, report.hint, report.details) == ("cause", "step", ["a", "b"])


@pytest.mark.parametrize(
    ("attached", "said"),
    [
        (["foreign key fk"], "; 1 foreign key or trigger carried over"),
        (["foreign key fk", "trigger tr"], "; 2 foreign keys and triggers carried over"),
    ],
)
def test_the_summary_counts_what_was_carried_over(attached, said):
    """One is no plural."""
    report = MigrationReport(outcome="done", algorithm="copy", attached=attached)
    assert any(line.endswith(said) for line in report.summary())


@pytest.mark.parametrize(
    ("mode", "kept"), [(0o1777, False), (0o757, False), (0o775, False), (0o755, True)]
)
def test_no_file_is_replaced_through_the_link_of_another_user(tmp_path, monkeypatch, mode, kept):
    """In a folder where others may write; the kernel refuses to open it in some of them."""
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("mine")
    link.symlink_to(real)
    tmp_path.chmod(mode)
    seen = Path.lstat

    def of_another(path: Path) -> Any:
        found = seen(path)
        return SimpleNamespace(st_mode=found.st_mode, st_uid=found.st_uid + 1)

    monkeypatch.setattr(Path, "lstat", of_another)
    if kept:
        write_whole(link, "text")
        assert real.read_text() == "text"
    else:
        with pytest.raises(PermissionError, match="another user's link"):
            write_whole(link, "text")
        assert real.read_text() == "mine"


@pytest.mark.parametrize("where", ["above", "behind"])
@pytest.mark.parametrize(("mode", "kept"), [(0o1777, False), (0o755, True)])
def test_no_link_of_another_user_leads_to_a_file(tmp_path, monkeypatch, where, mode, kept):
    """Each one counts where everybody may write: a folder further up, and what a link leads to."""
    shared, victim = tmp_path / "shared", tmp_path / "victim"
    shared.mkdir()
    victim.mkdir()
    shared.chmod(mode)
    (victim / "report.json").write_text("mine")
    theirs = shared / "theirs"
    theirs.symlink_to(victim if where == "above" else victim / "report.json")
    given = theirs / "report.json"
    if where == "behind":
        given = tmp_path / "ours.json"
        given.symlink_to(theirs)
    seen = Path.lstat

    def of_another(path: Path) -> Any:
        found = seen(path)
        return SimpleNamespace(st_mode=found.st_mode, st_uid=found.st_uid + (path == theirs))

    monkeypatch.setattr(Path, "lstat", of_another)
    with contextlib.nullcontext() if kept else pytest.raises(PermissionError, match="user's link"):
        write_whole(given, "text")
    assert (victim / "report.json").read_text() == ("text" if kept else "mine")


def test_no_link_is_followed_in_a_folder_of_another_user(tmp_path, monkeypatch):
    """They may put any link there."""
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("mine")
    link.symlink_to(real)
    tmp_path.chmod(0o755)
    for name in ("stat", "lstat"):
        seen = getattr(Path, name)

        def of_another(path: Path, *, seen: Any = seen, **more: Any) -> Any:
            found = seen(path, **more)
            return SimpleNamespace(st_mode=found.st_mode, st_uid=found.st_uid + 1)

        monkeypatch.setattr(Path, name, of_another)
    with pytest.raises(PermissionError, match="another user's link"):
        write_whole(link, "text")


@pytest.mark.parametrize(
    ("mode", "of_another", "kept"),
    [(0o6646, False, 0o646), (0o6646, True, 0o640), (0o600, True, 0o600)],
)
def test_only_our_own_file_hands_its_mode_down(tmp_path, monkeypatch, mode, of_another, kept):
    """Another user's could give a file of ours to everybody, and the right to run as us.

    One that others may not read is read by no others as ours, either.
    """
    known = tmp_path / "known.json"
    known.write_text("text")
    known.chmod(mode)
    if of_another:
        owner = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    mask = os.umask(0o027)
    try:
        write_whole(known, "text")
    finally:
        os.umask(mask)
    assert known.stat().st_mode & 0o7777 == kept


@pytest.mark.parametrize("trouble", [errno.EACCES, errno.EBUSY, errno.EROFS])
def test_a_file_that_cannot_be_replaced_is_written_in_place(tmp_path, monkeypatch, trouble):
    """Its folder takes no other file, or it is mounted by itself: a report of days was lost."""
    known, new = tmp_path / "known.json", tmp_path / "new.json"
    known.write_text("a longer text of before")

    def refuses(*_: object) -> None:
        raise OSError(trouble, os.strerror(trouble))

    monkeypatch.setattr(Path, "replace", refuses)
    write_whole(known, "text")
    assert known.read_text() == "text"
    with pytest.raises(OSError, match=re.escape(os.strerror(trouble))):
        write_whole(new, "text")
    assert list(tmp_path.iterdir()) == [known]


def test_a_pipe_that_nobody_reads_is_a_failed_write(tmp_path, monkeypatch):
    """The command would never end: at the opening, or in the middle."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match=os.strerror(errno.ENXIO)):
        write_whole(pipe, "text")
    monkeypatch.setattr(records, "_TAKEN_WITHIN", 0.01)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(TimeoutError, match="nobody read it"):
            write_whole(pipe, "x" * 1_000_000)
    finally:
        os.close(reader)


def test_a_pipe_that_is_read_slowly_is_written_to_its_end(tmp_path, monkeypatch):
    """Each part has its time."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read, waits = bytearray(), set()

    class Slowly:
        register = staticmethod(lambda *_: None)

        def poll(self, within: float) -> bool:
            """Read what is there."""
            waits.add(within)
            with contextlib.suppress(BlockingIOError):
                read.extend(os.read(reader, 1 << 20))
            return True

    monkeypatch.setattr(select, "poll", Slowly)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, "x" * 1_000_000)
        read += os.read(reader, 1 << 20)
    finally:
        os.close(reader)
    assert (len(read), waits) == (1_000_000, {1000 * records._TAKEN_WITHIN})


def test_a_pipe_of_another_user_is_not_written(tmp_path, monkeypatch):
    """They would read the report, or keep the command waiting."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    tmp_path.chmod(0o1777)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    seen = os.fstat

    def of_another(handle: int) -> Any:
        found = seen(handle)
        return SimpleNamespace(st_mode=found.st_mode, st_uid=found.st_uid + 1)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", of_another)
        with pytest.raises(PermissionError, match="another user's pipe"):
            write_whole(pipe, "text")
    assert os.read(reader, 100) == b""
    os.close(reader)


def test_a_pipe_is_written_by_its_own_name():
    """``/dev/stdout`` leads to a name that is no file's: a report was lost at the end."""
    ours, theirs = os.pipe()
    try:
        write_whole(Path(f"/dev/fd/{theirs}"), "text")
        assert os.read(ours, 100) == b"text"
    finally:
        os.close(ours)
        os.close(theirs)
