"""The Java that Spark runs on, and an archive of the classes that it loads.

With it a start takes 1.2 s of CPU instead of 2.1 s, for 9 000 classes of 280 jars. A run without
one starts :mod:`spirit_py.spark.training`. The JVM ignores one that does not fit.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.system_packages import JAVA, JAVA_COMMANDS, OLDEST_JAVA

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_ANSWER_SECONDS = 30
#: This program's options, and the password variable of MySQL's programs.
_SETTINGS: Final = ("SPIRIT_PY_", "MYSQL_PWD")


@dataclass(frozen=True)
class Java:
    """A Java runtime: its program, its major version, and all that it says of itself."""

    program: str
    version: int
    banner: str = ""


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for a child process, without this program's options (R20)."""
    return {
        name: value
        for name, value in environ.items()
        if name == points.VARIABLE or not name.startswith(_SETTINGS)
    }


def require_java(environ: Mapping[str, str] = os.environ) -> Java:
    """Find the Java that Spark's own scripts would take; refuse none, and one that is too old."""
    home = environ.get("JAVA_HOME", "")
    program = f"{home}/bin/java" if home else shutil.which("java", path=environ.get("PATH", ""))
    if program is None or not os.access(program, os.X_OK):
        where = f"JAVA_HOME is {home}" if home else "there is no java on the PATH"
        raise _missing(f"Spark needs Java, and there is none: {where}")
    try:
        answer = subprocess.run(
            [program, "-version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=_ANSWER_SECONDS,
            env=without_secrets(environ),
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise _missing(f"{program} does not run: {type(error).__name__}") from error
    banner = answer.stderr + answer.stdout
    found = _VERSION.search(banner)
    if found is None:
        raise _missing(f"{program} does not say its version")
    version = int(found[1])
    if version < OLDEST_JAVA:
        needed = f"Spark needs {OLDEST_JAVA} or later"
        raise _missing(f"Java {version} at {program} is too old: {needed}")
    return Java(program, version, banner)


def _missing(cause: str) -> Refusal:
    return Refusal(cause, hint=JAVA, details=JAVA_COMMANDS, error_code=ErrorCode.JAVA_MISSING)


_log = logging.getLogger(__name__)

#: A failed attempt is repeated after these seconds.
_AGAIN_SECONDS: Final = 86_400
_UNUSED_SECONDS: Final = 30 * 86_400
_MOST: Final = 8
_OTHERS_MAY_WRITE: Final = 0o022
_IMPORT: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1));"
    " from spirit_py.spark.training import main; main()"
)


@dataclass(frozen=True)
class ClassArchive:
    """The archive of one JVM, one set of jars and of options; it need not exist."""

    path: Path

    @property
    def exists(self) -> bool:
        """Whether it can be read."""
        return os.access(self.path, os.R_OK)

    @property
    def wanted(self) -> bool:
        """Whether it should be made: it does not exist, and no attempt has failed lately."""
        if self.exists:
            return False
        with contextlib.suppress(OSError):
            return time.time() - self.failure.stat().st_mtime > _AGAIN_SECONDS
        return True

    @property
    def failure(self) -> Path:
        """The file that says, by its time, when the last attempt failed."""
        return self.path.with_suffix(".failed")

    def note_use(self) -> None:
        """Note that it is in use: its file's time is that of the last use."""
        with contextlib.suppress(OSError):
            os.utime(self.path)

    def forget_unused(self) -> None:
        """Delete the archives beside this one that are not in use any more."""
        used = {path: path.stat().st_mtime for path in self.path.parent.glob("spark-*.jsa")}
        for at, path in enumerate(sorted(used, key=lambda path: used[path], reverse=True)):
            if at >= _MOST or used[path] < time.time() - _UNUSED_SECONDS:
                with contextlib.suppress(OSError):
                    path.unlink()


def archive_of(
    java: Java, jars: Path, options: tuple[str, ...], environ: Mapping[str, str] = os.environ
) -> ClassArchive | None:
    """Return the archive for a JVM with these jars and options; None without a cache folder."""
    try:
        folder = _folder(environ)
        parts = (java.banner, str(jars), str(jars.stat().st_mtime_ns), *options)
    except (OSError, RuntimeError) as error:
        # RuntimeError: a user without a home.
        _log.debug("no archive of Spark's classes: %s", error)
        return None
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return ClassArchive(folder / f"spark-{key}.jsa")


def _folder(environ: Mapping[str, str]) -> Path:
    """Return our cache folder, which only this user may write to: the JVM trusts what is there."""
    given = environ.get("XDG_CACHE_HOME", "")
    # XDG_CACHE_HOME: a relative path is ignored.
    home = Path(given) if Path(given).is_absolute() else Path.home() / ".cache"
    folder = home / "spirit-py"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.getuid() or status.st_mode & _OTHERS_MAY_WRITE:
        raise PermissionError(f"{folder} is not this user's own")
    return folder


def leave_making(archive: ClassArchive) -> None:
    """Start the process that makes the archive, and do not wait for it."""
    try:
        subprocess.Popen(
            [sys.executable, "-c", _IMPORT, json.dumps(sys.path), str(archive.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=without_secrets(os.environ),
            start_new_session=True,
            cwd="/",
        )
    except OSError as error:
        _log.debug("no archive of Spark's classes: %s", error)
