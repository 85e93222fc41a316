"""The Java that Spark runs on."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Final

from spirit_py import points
from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.system_packages import JAVA, JAVA_COMMANDS, OLDEST_JAVA

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
#: Of a traceback: lines of its frames are indented.
_RAISED = re.compile(
    r"^Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)+(\S.*)", re.MULTILINE
)
_ANSWER_SECONDS = 30
_MOST_CAUSES: Final = 20
#: This program's options, the password variable of MySQL's programs, and what PySpark is told of a
#: JVM while Spark starts.
_SETTINGS: Final = ("SPIRIT_PY_", "MYSQL_PWD", "PYSPARK_GATEWAY_")


@dataclass(frozen=True)
class Java:
    """A Java runtime: its program, its major version, and all that it says of itself."""

    program: str
    version: int
    banner: str = ""


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for a child process, without this program's options (R20)."""
    # One may go meanwhile, by another thread.
    found = ((name, environ.get(name)) for name in environ)
    return {
        name: value
        for name, value in found
        if value is not None and (name == points.VARIABLE or not name.startswith(_SETTINGS))
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


def said_by_java(error: BaseException) -> str:
    """Return the first line of an error, by Java where it has it from there, and its cause.

    Of what a task in Python raised, the line that names the error, behind its traceback.
    """
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() or java) if java is not None else str(error)
    if named := _RAISED.findall(text):
        return str(named[-1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = lines[0] if lines else type(error).__name__
    # PySpark has the error of Java in one of these, by its class.
    cause = _cause_in_java(java if java is not None else getattr(error, "_origin", None))
    return said if cause in said else f"{said} ({cause})"


def _cause_in_java(java: Any) -> str:
    """Return the first line of an error's first cause; empty where Java says none, or is gone."""
    said = ""
    # Py4J raises errors of any class once the JVM is gone.
    with contextlib.suppress(Exception):
        for _ in range(_MOST_CAUSES):
            java = None if java is None else java.getCause()
            if java is None:
                break
            said = next(iter(str(java.getMessage() or java).strip().splitlines()), "")
    return said


def _missing(cause: str) -> Refusal:
    return Refusal(cause, hint=JAVA, details=JAVA_COMMANDS, error_code=ErrorCode.JAVA_MISSING)
