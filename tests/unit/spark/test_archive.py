"""Where the archive of Spark's classes is, when it is made, and what is kept."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from spirit_py.spark.java import ClassArchive, Java, archive_of

JAVA = Java("/opt/java/bin/java", 17, 'openjdk version "17.0.15"')


@pytest.fixture(name="jars")
def _jars(tmp_path):
    folder = tmp_path / "jars"
    folder.mkdir()
    return folder


def found(jars, cache, java=JAVA, options=("-x",)):
    """Return the archive for a cache folder."""
    return archive_of(java, jars, options, {"XDG_CACHE_HOME": str(cache)})


def test_each_java_spark_and_set_of_options_has_its_own(tmp_path, jars):
    """What differs in any of them does not fit, and is not asked to."""
    first = found(jars, tmp_path)
    assert first == found(jars, tmp_path)
    assert first.path.parent == tmp_path / "spirit-py"
    others = [
        found(jars, tmp_path, java=Java(JAVA.program, 17, 'openjdk version "17.0.16"')),
        found(jars, tmp_path, options=("-y",)),
    ]
    os.utime(jars, (1, 1))
    others.append(found(jars, tmp_path))
    assert first not in others
    assert len(set(others)) == len(others)


def test_without_a_cache_folder_there_is_no_archive(jars):
    """No home, a full or read-only disk: the JVM starts without, and nobody is told."""
    assert found(jars, Path("/dev/null/cache")) is None
    assert found(jars.parent / "gone", jars.parent / "cache") is None


def test_a_user_without_a_home_has_no_archive(jars, monkeypatch):
    """As under a number that the container's list of users does not have."""

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert archive_of(JAVA, jars, (), {}) is None


def test_a_relative_cache_folder_is_ignored(jars, tmp_path, monkeypatch):
    """As its specification says: the folder would depend on where the command is started."""
    monkeypatch.setenv("HOME", str(tmp_path))
    archive = found(jars, "relative")
    assert archive.path.parent == tmp_path / ".cache" / "spirit-py"


def test_a_folder_that_others_may_write_to_is_not_trusted(jars, tmp_path):
    """The JVM executes what is in the archive."""
    folder = tmp_path / "spirit-py"
    folder.mkdir()
    folder.chmod(0o777)
    assert found(jars, tmp_path) is None


def test_it_is_made_once_and_after_a_failure_not_at_once_again(tmp_path):
    """An attempt takes seconds of CPU: one that cannot succeed is not repeated in every run."""
    archive = ClassArchive(tmp_path / "spark-a.jsa")
    seen = [archive.wanted]
    archive.failure.touch()
    seen.append(archive.wanted)
    long_ago = time.time() - 2 * 86_400
    os.utime(archive.failure, (long_ago, long_ago))
    seen.append(archive.wanted)
    assert seen == [True, False, True]


def test_one_that_exists_is_not_made_again(tmp_path):
    """It fits as long as its name does."""
    archive = ClassArchive(tmp_path / "spark-a.jsa")
    archive.path.touch()
    assert (archive.exists, archive.wanted) == (True, False)


def test_archives_in_use_are_kept(tmp_path):
    """Each has 70 MB; those of versions of the past go, and of too many the oldest."""
    now, day = time.time(), 86_400
    for age in (*range(10), 40):
        path = tmp_path / f"spark-{age}.jsa"
        path.touch()
        os.utime(path, (now - age * day, now - age * day))
    (tmp_path / "other").touch()
    used = ClassArchive(tmp_path / "spark-40.jsa")
    used.note_use()
    used.forget_unused()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"other", "spark-40.jsa", *(f"spark-{age}.jsa" for age in range(7))}


def test_an_archive_that_is_not_used_for_a_month_is_deleted(tmp_path):
    """Also where there are few."""
    for name, age in (("old", 31), ("new", 1)):
        path = tmp_path / f"spark-{name}.jsa"
        path.touch()
        os.utime(path, (time.time() - age * 86_400,) * 2)
    ClassArchive(tmp_path / "spark-new.jsa").forget_unused()
    assert [path.name for path in tmp_path.iterdir()] == ["spark-new.jsa"]
