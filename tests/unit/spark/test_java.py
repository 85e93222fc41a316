"""Java is looked for before Spark is started; what is wrong is one line with a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from spirit_py.errors import Refusal
from spirit_py.spark.java import require_java, said_by_java


def fake_java(folder, text: str, code: int = 0):
    """Write a ``java`` that prints a version to stderr, as the real one does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{text}\nEND\nexit {code}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("text", "version"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "21" 2023-09-19 LTS', 21)],
)
def test_java_home_is_taken(tmp_path, text, version):
    """JAVA_HOME is preferred, as Spark's scripts do."""
    program = fake_java(tmp_path, text)
    found = require_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert (found.program, found.version) == (str(program), version)


def test_java_is_told_no_password(tmp_path):
    """Whoever may look at a process sees its environment (R20)."""
    seen = tmp_path / "seen"
    program = fake_java(tmp_path, 'openjdk version "17.0.1"')
    program.write_text(program.read_text().replace("#!/bin/sh", f"#!/bin/sh\nenv > {seen}"))
    secrets = ("SPIRIT_PY_PASSWORD", "MYSQL_PWD", "SPIRIT_PY_TARGET_PASSWORD")
    given = {"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "LANG": "C"}
    require_java({**given, **dict.fromkeys(secrets, "sesame")})
    assert "LANG=C" in seen.read_text()
    assert "sesame" not in seen.read_text()


def test_java_on_the_path_is_taken(tmp_path):
    """Without JAVA_HOME the PATH decides."""
    program = fake_java(tmp_path, 'openjdk version "17.0.1"')
    found = require_java({"PATH": f"{program.parent}:/usr/bin:/bin"})
    assert found.program == str(program)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "Java 11 at .* is too old: Spark needs 17"),
        ('java version "1.8.0_392"', "Java 8 at .* is too old"),
        ("something else", "does not say its version"),
    ],
)
def test_an_unusable_java_is_refused(tmp_path, text, cause):
    """Too old, or not a Java: exit code 2, and what to install."""
    fake_java(tmp_path, text)
    with pytest.raises(Refusal, match=cause) as refused:
        require_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert refused.value.exit_code == 2
    assert "install a Java runtime 17" in refused.value.hint


def test_a_java_that_does_not_run_is_refused(tmp_path):
    """A program that fails is named."""
    fake_java(tmp_path, "cannot load", code=1)
    with pytest.raises(Refusal, match="does not run"):
        require_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})


def test_no_java_is_refused(tmp_path):
    """Neither JAVA_HOME nor the PATH: both are said."""
    with pytest.raises(Refusal, match="there is no java on the PATH"):
        require_java({"PATH": str(tmp_path)})
    with pytest.raises(Refusal, match="there is none: JAVA_HOME is"):
        require_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})


def test_of_an_error_in_a_task_the_line_that_names_it_is_shown():
    """PySpark puts a sentence of its own and a traceback before it."""
    raised = (
        "An exception was thrown from the Python worker:\n"
        "Traceback (most recent call last):\n"
        '  File "session.py", line 145, in stream\n'
        "    raise self._fault(error)\n"
        "MySQLdb.OperationalError: (1054, ...)\n"
        "\nThe above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
        '  File "rows.py", line 30, in batches\n'
        "spirit_py.errors.ServerFault: Unknown column 'v' in 'field list' (error 1054)\n"
    )
    wanted = "spirit_py.errors.ServerFault: Unknown column 'v' in 'field list' (error 1054)"
    assert said_by_java(RuntimeError(raised)) == wanted
    assert said_by_java(RuntimeError("Job aborted\nat x")) == "Job aborted"


class Thrown:
    """An error of Java, as Py4J shows it."""

    def __init__(self, message: str | None, cause: Any = None) -> None:
        self._message = message
        self._cause = cause

    def getMessage(self) -> str | None:  # noqa: N802 - as in Java
        """Return what it says of itself."""
        return self._message

    def getCause(self) -> Any:  # noqa: N802 - as in Java
        """Return what it was thrown for."""
        if isinstance(self._cause, Exception):
            raise self._cause
        return self._cause

    def __str__(self) -> str:
        return "java.lang.NullPointerException"


FULL = "No space left on device"


@pytest.mark.parametrize(
    ("origin", "wanted"),
    [
        (Thrown("Task failed", Thrown("Job aborted", Thrown(f"{FULL}\nat x"))), f" ({FULL})"),
        (Thrown("Task failed", Thrown(None)), " (java.lang.NullPointerException)"),
        (Thrown("Task failed", Thrown("Task failed")), ""),
        (Thrown("Task failed", RuntimeError("the JVM is gone")), ""),
        (Thrown("Task failed"), ""),
    ],
)
@pytest.mark.parametrize("name", ["java_exception", "_origin"])
def test_the_first_cause_in_java_is_said(origin, wanted, name):
    """A full disk is not seen in "Task failed while writing rows"."""
    error = RuntimeError("Task failed\nsomewhere")
    setattr(error, name, origin)
    assert said_by_java(error) == f"Task failed{wanted}"
