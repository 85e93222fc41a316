"""A folder of any file system that Spark knows, reached through its JVM.

A text is written under another name and renamed, so nothing is half there under its own name.
"""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING, Any, Final

from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure
from spirit_py.spark.java import said_by_java

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A text of ours is shorter; whoever can write there could make it any length (R26).
_LONGEST: Final = 1 << 26


class ArchiveFailure(MigrationFailure, code=ErrorCode.ARCHIVE_FAILED):
    """The archive could not be written or proved; the table has its rows, and a run carries on."""


@dataclass(frozen=True)
class File:
    """A file's path below its folder, its size in bytes, and when it was changed last."""

    name: str
    size: int
    changed: int = 0


class Folder:
    """A folder; every method raises `ArchiveFailure`. ``context`` is Spark's."""

    def __init__(self, context: Any, path: str) -> None:
        self._jvm = context._jvm  # noqa: SLF001 - PySpark has no public way to file systems
        self.path = path
        with self._said("be opened"):
            root = self._jvm.org.apache.hadoop.fs.Path(path)
            self._files = root.getFileSystem(context._jsc.hadoopConfiguration())  # noqa: SLF001
            self.path = str(self._files.makeQualified(root).toString())

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.path}/{name}" if name else self.path)

    def place(self, name: str) -> str:
        """Return the path of something in it, for Spark."""
        return f"{self.path}/{name}"

    def read(self, name: str) -> str | None:
        """Return a text; None where there is no such file."""
        with self._said(f"be read ({name})"):
            if not self._files.exists(self._at(name)):
                return None
            if self._files.getFileStatus(self._at(name)).getLen() > _LONGEST:
                raise ArchiveFailure(f"{self.place(name)} is too long to be ours")
            stream = self._files.open(self._at(name))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a text that is not there yet, or replace it."""
        with self._said(f"be written ({name})"):
            # Nobody else can have put a link there.
            new = self._at(f"{name}.{secrets.token_hex(8)}.new")
            stream = self._files.create(new, True)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()
            self._files.delete(self._at(name), False)
            self._move(new, self._at(name))

    def require_usable(self) -> None:
        """Raise an ArchiveFailure where it cannot be written, or has a file."""
        if found := self.files():
            raise ArchiveFailure(f"{self.path} is not empty: it has {found[0].name}")
        name = f"{secrets.token_hex(8)}.trial"
        self.write(name, "")
        self.delete(name)

    def files(self, below: str = "") -> list[File]:
        """List all files below a folder, but for those of checksums; none where it is not there."""
        found = []
        with self._said("be listed"):
            if not self._files.exists(self._at(below)):
                return []
            each = self._files.listFiles(self._at(below), True)
            prefix = f"{self.place(below) if below else self.path}/"
            while each.hasNext():
                status = each.next()
                name = str(status.getPath().toString()).removeprefix(prefix)
                changed = int(status.getModificationTime())
                found.append(File(name, int(status.getLen()), changed))
        return sorted(found, key=lambda one: one.name)

    def move(self, name: str, to: str) -> None:
        """Rename a file within the folder."""
        with self._said(f"have {name} renamed"):
            target = self._at(to)
            self._files.mkdirs(target.getParent())
            self._files.delete(target, False)
            self._move(self._at(name), target)

    def _move(self, one: Any, other: Any) -> None:
        if not self._files.rename(one, other):
            raise ArchiveFailure(f"{one.toString()} could not be renamed to {other.toString()}")

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with what is in it; nothing where it is gone."""
        with self._said(f"have {name} deleted"):
            self._files.delete(self._at(name), True)

    @contextlib.contextmanager
    def _said(self, what: str) -> Iterator[None]:
        try:
            yield
        except ArchiveFailure:
            raise
        except Exception as error:
            raise ArchiveFailure(
                f"{self.path} could not {what}: {said_by_java(error)}",
                hint="see that Spark can write there, then run the same command again",
            ) from error
