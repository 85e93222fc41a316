"""A folder of this machine, as an archive has it: listed, written and renamed without Spark."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from spirit_py.archiving.folder import _LONGEST, ArchiveFailure, _Here, whole_path


@pytest.fixture
def folder(tmp_path):
    """Return a folder that is not there yet."""
    return _Here(str(tmp_path / "a"))


def names(folder: _Here, below: str = "") -> list[str]:
    """Return what is listed, in order."""
    return sorted(one.name for one in folder.files(below))


def test_a_folder_of_this_machine_is_so_whatever_hadoop_has_for_its_own():
    """Where HADOOP_CONF_DIR names a cluster, a path without a scheme would be one of its."""
    assert whole_path("/data/a:b c") == "file:/data/a:b c"
    assert whole_path("a/b") == f"file:{Path.cwd()}/a/b"
    for path in ("file:/data/a", "file:///data/a", "s3a://bucket/a", "hdfs://host/a"):
        assert whole_path(path) == path


def test_a_text_is_written_once_and_read_back(folder):
    """Nobody can have put a file, or a link, in its place before."""
    assert folder.read("b/c.json") is None
    folder.write("b/c.json", "é")
    assert folder.read("b/c.json") == "é"
    with pytest.raises(FileExistsError):
        folder.write("b/c.json", "other")


def test_a_text_that_is_too_long_is_not_read(folder, tmp_path):
    """Whoever can write there could make it any length."""
    folder.write("c.json", "")
    with (tmp_path / "a" / "c.json").open("r+b") as file:
        file.truncate(_LONGEST + 1)
    with pytest.raises(ArchiveFailure, match=r"c.json is too long"):
        folder.read("c.json")


def test_all_files_are_listed_but_checksums_and_what_is_gone(folder, tmp_path):
    """With their paths below the folder that is asked, their sizes and their times."""
    assert names(folder) == []
    for name in ("a.parquet", "v=1/b.parquet", "v=1/.b.parquet.crc", "v=1/w/_c", ".d"):
        folder.write(name, "text")
    (tmp_path / "a" / "gone").symlink_to(tmp_path / "nothing")
    assert names(folder) == [".d", "a.parquet", "v=1/b.parquet", "v=1/w/_c"]
    assert names(folder, "v=1") == ["b.parquet", "w/_c"]
    (found,) = (one for one in folder.files("") if one.name == "a.parquet")
    assert (found.size, found.changed) == (4, (tmp_path / "a" / "a.parquet").stat().st_mtime_ns)


def test_checksums_go_with_their_file(folder, tmp_path):
    """Those of a file that is replaced would be taken for the new one's, and the read fail."""
    for name in ("w/new", "w/.new.crc", "w/plain", "old", ".old.crc"):
        folder.write(name, name)
    folder.move("w/new", "old")
    assert folder.read("old") == "w/new"
    assert folder.read(".old.crc") == "w/.new.crc"
    folder.move("w/plain", "old")
    assert folder.read("old") == "w/plain"
    assert not (tmp_path / "a" / ".old.crc").exists()
    folder.move("old", "v=2/x/there")
    assert names(folder) == ["v=2/x/there"]


def test_a_file_or_a_folder_is_deleted_and_none_is_no_error(folder, tmp_path):
    """Of a link the link goes, and not what it leads to."""
    for name in ("w/one", "w/.one.crc", "w/two", "kept/one"):
        folder.write(name, "")
    (tmp_path / "a" / "w" / "link").symlink_to(tmp_path / "a" / "kept")
    folder.delete("w/one")
    assert not (tmp_path / "a" / "w" / ".one.crc").exists()
    folder.delete("w/link")
    folder.delete("w")
    folder.delete("w")
    assert names(folder) == ["kept/one"]


def test_a_disk_that_cannot_keep_a_file_is_told(folder, monkeypatch):
    """``sync`` says nothing of it: the file's own call does, also of what was written before."""
    folder.write("v=1/a.parquet", "text")
    folder.settle(["v=1/a.parquet"])

    def broken(_file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output"):
        folder.settle(["v=1/a.parquet"])


def test_a_folder_that_cannot_be_flushed_stops_nothing(folder, monkeypatch):
    """Some file systems know no such thing; the file itself is on its disk."""
    folder.write("v=1/a.parquet", "text")
    flush = os.fsync

    def only_files(file: int) -> None:
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        flush(file)

    monkeypatch.setattr(os, "fsync", only_files)
    folder.settle(["v=1/a.parquet"])
    folder.replace("v=1/a.parquet", "v=1/b.parquet")
    assert names(folder) == ["v=1/b.parquet"]
