"""A folder of any file system that Spark knows: of this machine, or reached through Spark's JVM.

A text is written under another name and renamed, so nothing is half there under its own name. In a
folder of this machine no call goes into the JVM: there are several for each file, and Hadoop starts
a program for each one that it lists (measured: 1 200 files took a minute).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure
from spirit_py.spark.java import said_by_java
from spirit_py.table.names import LOCAL, is_local

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: A text of ours is shorter; whoever can write there could make it any length (R26).
_LONGEST: Final = 1 << 28
#: As Hadoop names the checksums of a file.
_CHECKSUMS: Final = re.compile(r"\..*\.crc")


class ArchiveFailure(MigrationFailure, code=ErrorCode.ARCHIVE_FAILED):
    """The archive could not be written or proved; the table has its rows, and a run carries on."""


@dataclass(frozen=True)
class File:
    """A file's path below its folder, its size in bytes, and when it was changed last, if known."""

    name: str
    size: int
    changed: int = 0


def whole_path(path: str) -> str:
    """Return a path for Hadoop, whose own file system (``fs.defaultFS``) may be another machine."""
    ours = is_local(path) and not path.startswith(LOCAL)
    return f"{LOCAL}{Path(path).absolute()}" if ours else path


class Folder:
    """A folder; every method raises `ArchiveFailure`. ``context`` is Spark's."""

    def __init__(self, context: Any, path: str) -> None:
        self.path = path
        with self._said("be opened"):
            jvm = _Jvm(context, whole_path(path))
            self.path = jvm.path
            self._of: _Jvm | _Here = _Here(jvm.here) if jvm.here else jvm

    def place(self, name: str) -> str:
        """Return the path of something in it, for Spark."""
        return f"{self.path}/{name}"

    def read(self, name: str) -> str | None:
        """Return a text; None where there is no such file."""
        with self._said(f"be read ({name})"):
            return self._of.read(name)

    def write(self, name: str, text: str) -> None:
        """Write a text that is not there yet, or replace it."""
        with self._said(f"be written ({name})"):
            if len(text) > _LONGEST:
                raise ArchiveFailure(
                    f"{self.path} has more files than its {name} can list",
                    hint="name another folder, and let --archive-by make fewer of them",
                )
            # Nobody else can have put a link there.
            new = f"{name}.{secrets.token_hex(8)}.new"
            self._of.write(new, text)
            self._of.replace(new, name)

    def require_usable(self) -> None:
        """Raise an ArchiveFailure where it cannot be written, or has a file."""
        if found := self.files():
            raise ArchiveFailure(f"{self.path} is not empty: it has {found[0].name}")
        name = f"{secrets.token_hex(8)}.trial"
        self.write(name, "")
        self.delete(name)

    def files(self, below: str = "") -> list[File]:
        """List all files below a folder, but for those of checksums; none where it is not there."""
        with self._said("be listed"):
            return sorted(self._of.files(below), key=lambda one: one.name)

    def move(self, name: str, to: str) -> None:
        """Rename a file within the folder."""
        with self._said(f"have {name} renamed"):
            self._of.move(name, to)

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with what is in it; nothing where it is gone."""
        with self._said(f"have {name} deleted"):
            self._of.delete(name)

    def settle(self, files: Iterable[str]) -> None:
        """Wait until files outlive a loss of power, on a disk of this machine."""
        with self._said("be written to its disk"):
            self._of.settle(files)

    @contextlib.contextmanager
    def _said(self, what: str) -> Iterator[None]:
        try:
            yield
        except ArchiveFailure:
            raise
        except Exception as error:
            raise ArchiveFailure(
                f"{self.path} could not {what}: {said_by_java(error)}",
                hint="see that it can be written there, then run the same command again",
            ) from error


class _Here:
    """A folder of this machine. Hadoop's checksums of a file (``.name.crc``) go with it."""

    def __init__(self, path: str) -> None:
        self._root = Path(path)

    def read(self, name: str) -> str | None:
        try:
            with (self._root / name).open("rb") as file:
                text = file.read(_LONGEST + 1)
        except FileNotFoundError:
            return None
        _require_short(name, len(text))
        return text.decode(errors="replace")

    def write(self, name: str, text: str) -> None:
        file = self._root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as stream:
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())

    def files(self, below: str) -> Iterator[File]:
        waiting = [f"{below}/" if below else ""]
        while waiting:
            folder = waiting.pop()
            # Gone meanwhile, as a temporary one of Spark's.
            with contextlib.suppress(FileNotFoundError), os.scandir(self._root / folder) as found:
                for one in found:
                    name = f"{folder}{one.name}"
                    if one.is_dir():
                        waiting.append(f"{name}/")
                    elif not _CHECKSUMS.fullmatch(one.name):
                        with contextlib.suppress(FileNotFoundError):
                            status = one.stat()
                            own = name.removeprefix(f"{below}/" if below else "")
                            yield File(own, status.st_size, status.st_mtime_ns)

    def move(self, name: str, to: str) -> None:
        one, other = self._root / name, self._root / to
        other.parent.mkdir(parents=True, exist_ok=True)
        # Otherwise they would be taken for those of the new file.
        _checksums(other).unlink(missing_ok=True)
        one.replace(other)
        with contextlib.suppress(FileNotFoundError):
            _checksums(one).rename(_checksums(other))

    def replace(self, name: str, to: str) -> None:
        """Rename a text within its folder, for good."""
        self.move(name, to)
        _settle(self._root / to)
        _settle((self._root / to).parent)

    def delete(self, name: str) -> None:
        one = self._root / name
        if one.is_dir() and not one.is_symlink():
            # What stays of it is written over; a disk of the network may keep an open file.
            shutil.rmtree(one, ignore_errors=True)
        else:
            one.unlink(missing_ok=True)
            _checksums(one).unlink(missing_ok=True)

    def settle(self, files: Iterable[str]) -> None:
        # At once: of thousands of files and folders each has a journal's commit to wait for.
        os.sync()
        # It tells no error of a disk; a file's own does, also of what was written before.
        paths = [self._root / name for name in files]
        for path in paths:
            _settle(path)
        for folder in {parent for path in paths for parent in path.relative_to(self._root).parents}:
            _settle(self._root / folder)
        _settle(self._root.parent)


def _settle(path: Path) -> None:
    """Wait until a file or a folder is on its disk, and forget what memory has of it; OSError.

    Some file systems know no such thing of a folder, and a folder around ours may be another's.
    """
    try:
        opened = os.open(path, os.O_RDONLY)
    except PermissionError:
        if not path.is_dir():
            raise
        return
    try:
        os.fsync(opened)
        with contextlib.suppress(OSError, AttributeError):
            os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError as error:
        if not path.is_dir() or error.errno not in {errno.EBADF, errno.EINVAL}:
            raise
    finally:
        os.close(opened)


def _require_short(name: str, length: int) -> None:
    if length > _LONGEST:
        raise ArchiveFailure(f"{name} is too long to be ours")


def _checksums(file: Path) -> Path:
    return file.with_name(f".{file.name}.crc")


class _Jvm:
    """A folder as Hadoop reaches it, and its path; ``here`` is that of one of this machine."""

    def __init__(self, context: Any, path: str) -> None:
        jvm = context._jvm  # noqa: SLF001 - PySpark has no public way to file systems
        # Each part of a name that is written here anew is one more call.
        self._made = jvm.org.apache.hadoop.fs.Path
        self._text_of = jvm.org.apache.commons.io.IOUtils.toString
        root = self._made(path)
        self._conf = context._jsc.hadoopConfiguration()  # noqa: SLF001
        self._files = root.getFileSystem(self._conf)
        qualified = self._files.makeQualified(root)
        self.path = str(qualified.toString())
        where = qualified.toUri()
        self.here = str(where.getPath()) if where.getScheme() == "file" else ""
        self._uri, self._jvm = where, jvm.org.apache.hadoop.fs
        self._new_array = context._gateway.new_array  # noqa: SLF001
        self._names: Any = None
        self._named = False
        self._parents: set[str] = set()

    def _at(self, name: str) -> Any:
        return self._made(f"{self.path}/{name}" if name else self.path)

    def read(self, name: str) -> str | None:
        file = self._at(name)
        if not self._files.exists(file):
            return None
        _require_short(name, self._files.getFileStatus(file).getLen())
        stream = self._files.open(file)
        try:
            return str(self._text_of(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        stream = self._files.create(self._at(name), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def files(self, below: str) -> Iterator[File]:
        root = self._at(below)
        if not self._files.exists(root):
            return
        each = self._files.listFiles(root, True)
        prefix = f"{self.path}/{below}/" if below else f"{self.path}/"
        while each.hasNext():
            status = each.next()
            name = str(status.getPath().toString()).removeprefix(prefix)
            yield File(name, int(status.getLen()), int(status.getModificationTime()))

    def move(self, name: str, to: str) -> None:
        one, other = self._at(name), self._at(to)
        parent, _, _ = to.rpartition("/")
        if parent not in self._parents:
            self._files.mkdirs(self._at(parent))
            self._parents.add(parent)
        self._files.delete(other, False)
        if not self._files.rename(one, other):
            raise ArchiveFailure(f"{self.path}/{name} could not be renamed to {self.path}/{to}")

    def replace(self, name: str, to: str) -> None:
        """Rename a text within its folder; where it can be, there is one at any moment."""
        if not self._named:
            self._named = True
            # Some file systems, as others make them, have no such thing.
            with contextlib.suppress(Exception):
                self._names = self._jvm.FileContext.getFileContext(self._uri, self._conf)
        if self._names is None:
            self.move(name, to)
            return
        how = self._new_array(self._jvm.Options.Rename, 1)
        how[0] = self._jvm.Options.Rename.OVERWRITE
        self._names.rename(self._at(name), self._at(to), how)

    def delete(self, name: str) -> None:
        self._files.delete(self._at(name), True)

    def settle(self, files: Iterable[str]) -> None:
        """Do nothing: what is closed is the file system's."""
