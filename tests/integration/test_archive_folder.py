"""The folder of an archive: what is found there, who else writes to it, and what becomes of it."""

from __future__ import annotations

import math
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.clientserver import JavaClient

from spirit_py.archiving.folder import ArchiveFailure, _Here
from spirit_py.config import SessionModes
from spirit_py.errors import Interrupted, Refusal
from spirit_py.migration import archive as archive_module
from spirit_py.migration.entry import archive
from spirit_py.threads import StopSwitch
from tests.integration.test_archive import (
    KEEP,
    archive_here,
    archiving,
    left_out,
    make_days,
    proved,
    read_back,
    stop_at,
)
from tests.kits.command import run_here
from tests.kits.engine import SharedEngine
from tests.kits.migrate import migrate_here
from tests.kits.reporter import RecordingReporter
from tests.kits.resume import assert_nothing_left, once_at
from tests.kits.tables import tables

if TYPE_CHECKING:
    from spirit_py.config import MigrationConfig


def purging(db: Any, folder: Path, **more: Any) -> MigrationConfig:
    """Return the configuration of a purge of table ``t`` with its archive."""
    return archiving(db, folder, KEEP, alter="ADD COLUMN w INT", **more)


@pytest.mark.slow
@pytest.mark.parametrize("modes", [{"allow_zero_dates": True}, {"sql_mode": "ANSI_QUOTES"}])
def test_rows_are_archived_under_the_modes_that_were_chosen(db, spark_engine, tmp_path, modes):
    """Those of the copy are those of the archive: the expression is judged alike."""
    make_days(db, 50)
    wanted = len(left_out(db))
    config = replace(purging(db, tmp_path), modes=SessionModes(keep=KEEP, **modes))
    report, _ = migrate_here(spark_engine, config)
    assert report.archived[0]["rows"] == wanted
    assert_nothing_left(db)


@pytest.mark.slow
def test_a_run_that_was_stopped_in_its_first_note_is_carried_on(
    db, spark_engine, tmp_path, monkeypatch
):
    """A full disk: what is there has not its final name yet, and is nobody else's.

    Status says that the archive is to be made, and a cleanup of the rest does not give it up.
    """
    make_days(db, 50)
    wanted = len(left_out(db))

    def full(*_: object) -> None:
        raise ArchiveFailure("no space left on the device")

    with monkeypatch.context() as patched:
        patched.setattr(_Here, "move", full)
        with pytest.raises(ArchiveFailure, match="the old table is kept: no space left"):
            migrate_here(spark_engine, purging(db, tmp_path))
    assert "swap       done; what was left out is to be archived" in run_here(db, "status").stdout
    kept = run_here(db, "cleanup", "--yes").stdout
    assert "_t_old: the migrate command archives what it left out; spirit-py cleanup" in kept
    report, _ = migrate_here(spark_engine, purging(db, tmp_path))
    assert report.archived[0]["rows"] == wanted
    assert_nothing_left(db)


@pytest.mark.slow
def test_a_cleanup_of_what_is_archived_already_does_not_speak_of_it(db, spark_engine, tmp_path):
    """The old table stays for the operator, and the same command would be refused."""
    make_days(db, 50)
    report, _ = migrate_here(spark_engine, purging(db, tmp_path, drop_old_after=math.inf))
    assert report.archived
    kept = run_here(db, "cleanup", "--yes").stdout
    assert "_t_old: spirit-py cleanup --drop-old drops it" in kept


@pytest.mark.slow
@pytest.mark.parametrize("point", ["archive.written", "archive.prove"])
def test_of_two_runs_in_one_folder_only_the_last_has_a_proof(
    point, db, spark_engine, tmp_path, monkeypatch
):
    """Such as those of two servers that were cloned: the first replaces nothing of the last."""
    make_days(db, 50)
    config = archiving(db, tmp_path)
    stop_at(monkeypatch, "archive.written", config, spark_engine)
    run_note = tmp_path / f"{db.name}.t" / "_archive" / "run.json"
    seen: list[list[str]] = []

    def rows() -> list[str]:
        return sorted(one.name for one in (tmp_path / f"{db.name}.t").glob("rows-*"))

    def another() -> None:
        seen.append(rows())
        run_note.write_text("of another run")

    once_at(monkeypatch, point, another)
    with pytest.raises(ArchiveFailure, match="another run has begun to write to"):
        archive_here(config, spark_engine)
    assert not (tmp_path / f"{db.name}.t" / "_manifest.json").exists()
    assert rows() == seen[0]
    monkeypatch.undo()
    assert archive_here(config, spark_engine).outcome == "archived"


FILE = "rows-000000-00000.parquet"


def spoil(file: Path) -> None:
    """Put other bytes of the same number in the place of a file."""
    file.write_bytes(bytes(file.stat().st_size))


def add_another(file: Path) -> None:
    """Put a copy of a file beside it: its rows would be there twice."""
    (file.parent / "rows-000000-00099.parquet").write_bytes(file.read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("_manifest.json", Path.unlink),
        ("_manifest.json", spoil),
        (FILE, Path.unlink),
        (FILE, spoil),
        (FILE, add_another),
    ],
)
@pytest.mark.parametrize("grace", [0.0, 1.0])
def test_an_archive_that_went_away_before_the_drop_keeps_the_old_table(
    grace, name, damage, db, spark_engine, tmp_path, monkeypatch
):
    """Days may pass between the proof and the drop; with another folder the command carries on."""
    make_days(db, 50)
    wanted = left_out(db)
    once_at(monkeypatch, "archive.proved", lambda: damage(tmp_path / "a" / f"{db.name}.t" / name))
    said = r"the old table is kept: (1 file of the archive in|.* could not be read \(_manifest)"
    with pytest.raises(ArchiveFailure, match=said):
        migrate_here(spark_engine, purging(db, tmp_path / "a", drop_old_after=grace))
    assert left_out(db, "_t_old") == wanted
    monkeypatch.undo()
    report, _ = migrate_here(spark_engine, purging(db, tmp_path / "b", drop_old_after=grace))
    assert report.archived[0]["rows"] == len(wanted)
    assert_nothing_left(db)


@pytest.mark.slow
def test_a_stop_does_not_wait_until_all_files_have_their_names(
    db, spark_engine, tmp_path, monkeypatch
):
    """Of thousands of folders that takes minutes; the next run writes the piece again."""
    make_days(db, 50)
    config, stop = archiving(db, tmp_path), StopSwitch()
    once_at(monkeypatch, "archive.written", lambda: stop.request(Interrupted(signal.SIGTERM)))
    shared: Any = SharedEngine(spark_engine)
    with pytest.raises(Interrupted):
        archive(config, reporter=RecordingReporter(), engine_factory=lambda _: shared, stop=stop)
    assert not list((tmp_path / f"{db.name}.t").glob("rows-*"))
    assert archive_here(config, spark_engine).archived[0]["rows"] == 50


@pytest.mark.slow
def test_an_old_table_that_was_dropped_by_hand_needs_no_archive(
    db, spark_engine, tmp_path, monkeypatch
):
    """Who has carried the archive away may have dropped it."""
    make_days(db, 50)

    def by_hand() -> None:
        (tmp_path / f"{db.name}.t" / "_manifest.json").unlink()
        db.execute("DROP TABLE _t_old")

    real_note = archive_module._note_kept

    def note(session: Any, *, made: Any) -> None:
        real_note(session, made=made)
        by_hand()

    monkeypatch.setattr(archive_module, "_note_kept", note)
    report, _ = migrate_here(spark_engine, purging(db, tmp_path, drop_old_after=1.0))
    assert report.outcome == "done"
    assert_nothing_left(db)


NO_LIBRARY = ("could not be opened", "name a folder that Spark can write to")
NO_PATH = ("is no whole path behind file:", "write the path without file:")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("foo://bucket/a", NO_LIBRARY),
        ("s3a://bucket/a", NO_LIBRARY),
        ("file:a", NO_PATH),
        ("FILE:/a", NO_PATH),
        ("file://tmp/a", NO_PATH),
        ("//tmp/a", NO_PATH),
    ],
)
def test_a_folder_that_spark_cannot_open_is_refused_before_the_swap(path, said, db, spark_engine):
    """Nothing is copied for it. Spark is asked, also by a run whose copy needs none."""
    make_days(db, 10)
    config = replace(purging(db, Path("a")), archive_to=path)
    with pytest.raises(Refusal, match=said[0]) as refused:
        migrate_here(spark_engine, config)
    assert said[1] in refused.value.hint
    assert tables(db) == ["t"]


@pytest.mark.parametrize("command", ["migrate", "archive"])
def test_a_folder_that_depends_on_the_directory_is_refused(command, db):
    """The same command from another directory would begin another archive."""
    make_days(db, 10)
    done = run_here(db, command, "--table", "t", "--keep", KEEP, "--archive-to", "out/a")
    assert done.returncode == 2
    assert "--archive-to out/a is another folder in another directory" in done.stderr
    assert f"--archive-to {Path('out/a').absolute()}" in done.stderr
    assert tables(db) == ["t"]


@pytest.mark.slow
def test_an_archive_of_many_values_asks_java_little_for_each_file(
    db, spark_engine, tmp_path, monkeypatch
):
    """One call for each file's path; they were forty, and an archive of 5 000 values had no end.

    Two tasks that have rows of each value bring them together, into one file.
    """
    monkeypatch.setattr("spirit_py.archiving.archive._FEWEST_ROWS", 100)
    make_days(db, 20)
    asked, real = [0], JavaClient.send_command

    def counted(*given: Any) -> Any:
        # Another thread looks how far a job is, now and then.
        asked[0] += threading.current_thread().name == "spirit-py-work"
        return real(*given)

    monkeypatch.setattr(JavaClient, "send_command", counted)
    calls = {}
    for values in (10, 50):
        db.execute("DELETE FROM t")
        numbers = ", ".join(f"({number}, {number % values})" for number in range(1, 201))
        db.execute(f"INSERT INTO t (id, v) VALUES {numbers}")
        before = asked[0]
        report = archive_here(archiving(db, tmp_path / str(values), archive_by="v"), spark_engine)
        calls[values] = asked[0] - before
        assert report.archived[0]["rows"] == len(read_back(tmp_path / str(values), db)) == 200
    (said,) = report.archived
    assert said["files"] == 50
    assert 0 < calls[50] - calls[10] < 3 * 40


@pytest.mark.slow
def test_a_folder_of_another_file_system_is_reached_through_spark(
    db, spark_engine, tmp_path, monkeypatch
):
    """One that only Hadoop knows: written, stopped, carried on, proved, and dropped after that."""
    monkeypatch.setattr("spirit_py.archiving.archive._FEWEST_ROWS", 100)
    make_days(db)
    wanted = left_out(db)
    settings = spark_engine.context()._jsc.hadoopConfiguration()
    settings.set(f"fs.viewfs.mounttable.{db.name}.link./a", f"file://{tmp_path}")
    config = replace(
        purging(db, tmp_path, archive_by="MONTH(at)"), archive_to=f"viewfs://{db.name}/a"
    )
    once_at(monkeypatch, "archive.moved", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        migrate_here(spark_engine, config)
    assert left_out(db, "_t_old") == wanted
    monkeypatch.undo()
    report, _ = migrate_here(spark_engine, config)
    assert report.archived[0]["rows"] == len(wanted)
    assert [(row["id"], row["at"], row["v"]) for row in read_back(tmp_path, db)] == wanted
    assert len(proved(tmp_path, db)["files"]) == report.archived[0]["files"]
    assert_nothing_left(db)


@pytest.mark.slow
def test_what_was_archived_is_on_the_disk_before_the_old_table_is_dropped(
    db, spark_engine, tmp_path, monkeypatch
):
    """Otherwise a loss of power behind the drop takes the only copy of the rows.

    Also before it counts as proved: a manifest makes the files the only copy.
    """
    make_days(db, 50)
    home = tmp_path / f"{db.name}.t"
    seen: dict[str, bool] = {}
    written = os.fsync

    def flushed(file: int) -> None:
        name = Path(f"/proc/self/fd/{file}").readlink().name
        if name.startswith("rows-"):
            seen[name] = (home / "_manifest.json").exists() or "_t_old" not in tables(db)
        written(file)

    monkeypatch.setattr(os, "fsync", flushed)
    migrate_here(spark_engine, purging(db, tmp_path))
    names = [one.name for one in home.glob("rows-*")]
    assert names
    assert seen == dict.fromkeys(names, False)
    assert_nothing_left(db)
