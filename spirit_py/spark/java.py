"""Find a Java that Spark can run on, before anything is started."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.system_packages import JAVA, OLDEST_JAVA, java_commands

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_ANSWER_SECONDS = 30
#: The variable from which MySQL's own programs read a password.
_OF_CLIENTS: Final = "MYSQL_PWD"


@dataclass(frozen=True)
class Java:
    """A Java runtime: its program, its major version, and all that it says of itself."""

    program: str
    version: int
    banner: str = ""


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for a child process: without a password of whichever server (R20)."""
    return {name: value for name, value in environ.items() if not _is_secret(name)}


def _is_secret(name: str) -> bool:
    ours = name.startswith("SPIRIT_PY_") and ("PASSWORD" in name or name.endswith("_DSN"))
    return ours or name == _OF_CLIENTS


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
