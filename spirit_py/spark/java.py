"""Find a Java that Spark can run on, before anything is started."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.system_packages import JAVA, OLDEST_JAVA, java_commands

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_ANSWER_SECONDS = 30
#: Options of this program, and the variable from which MySQL's own programs read a password.
_SETTINGS: Final = ("SPIRIT_PY_", "MYSQL_PWD")


@dataclass(frozen=True)
class Java:
    """A Java runtime: its program, its major version, and all that it says of itself."""

    program: str
    version: int
    banner: str = ""


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for a child process: without the options of this program (R20).

    A password, an address with one in it, a program to be run: no child needs any of them.
    """
    return {
        name: value
        for name, value in environ.items()
        if name == points.VARIABLE or not name.startswith(_SETTINGS)
    }


def require_java(environ: Mapping[str, str] = os.environ) -> Java:
    """Find the Java that Spark's own scripts would take, and check its version.

    Raises:
        Refusal: when there is none, it does not run, or it is too old.
    """
    home = environ.get("JAVA_HOME", "")
    program = f"{home}/bin/java" if home else shutil.which("java", path=environ.get("PATH", ""))
    if program is None or not os.access(program, os.X_OK):
        where = f"JAVA_HOME is {home}" if home else "the PATH has no java"
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
    if int(found.group(1)) < OLDEST_JAVA:
        raise _missing(
            f"Java {found.group(1)} at {program} is too old: Spark needs {OLDEST_JAVA} or later"
        )
    return Java(program, int(found.group(1)), banner)


def _missing(cause: str) -> Refusal:
    return Refusal(cause, hint=JAVA, details=java_commands(), error_code=ErrorCode.JAVA_MISSING)
