"""What a machine without the driver, or without its client library, is told."""

from __future__ import annotations

import builtins
import sys

import pymysql
import pytest

from spirit_py import system_packages
from spirit_py.cli.outcome import ErrorsShown
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.mysql.connect import load_driver
from spirit_py.status.report import OutcomeReport


def _without(monkeypatch, error: Exception) -> None:
    real = builtins.__import__

    def importing(name, *arguments, **named):
        if name == "MySQLdb":
            raise error
        return real(name, *arguments, **named)

    monkeypatch.delitem(sys.modules, "MySQLdb", raising=False)
    monkeypatch.setattr(builtins, "__import__", importing)


def test_a_missing_driver_names_the_packages_of_each_system(monkeypatch):
    """One line to run for Debian, Fedora and macOS, and one that installs the driver."""
    _without(monkeypatch, ModuleNotFoundError("No module named 'MySQLdb'", name="MySQLdb"))
    with pytest.raises(Refusal, match="mysqlclient is not installed") as caught:
        load_driver()
    assert caught.value.error_code is ErrorCode.CLIENT_LIBRARY_MISSING
    lines = caught.value.details
    assert [line.partition(":")[0] for line in lines] == [
        "Debian, Ubuntu",
        "Fedora",
        "macOS",
        "then",
    ]
    assert "default-libmysqlclient-dev" in lines[0]
    assert lines[3] == f"then: {sys.executable} -m pip install 'mysqlclient>=2.2'"


def test_a_missing_library_names_the_library_alone(monkeypatch):
    """A driver that was built needs no compiler, only the library that it is linked with."""
    _without(monkeypatch, ImportError("libmariadb.so.3: cannot open shared object file"))
    with pytest.raises(Refusal, match="cannot open shared object") as caught:
        load_driver()
    assert "Debian, Ubuntu: apt-get install -y libmariadb3" in caught.value.details
    assert not any("gcc" in line for line in caught.value.details)


@pytest.mark.parametrize(
    "error",
    [
        ImportError("this is MySQLdb version (2, 2, 7), but _mysql is version (2, 1, 0)"),
        AttributeError("module 'MySQLdb._mysql' has no attribute 'connection'"),
        OSError("libssl.so.3: version `OPENSSL_3.2.0' not found"),
        SystemError("initialization of _mysql failed without raising an exception"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_broken_driver_is_named_with_the_package_that_mends_it(monkeypatch, error):
    """Whichever way it breaks."""
    _without(monkeypatch, error)
    with pytest.raises(Refusal, match="client library cannot be loaded") as caught:
        load_driver()
    assert caught.value.error_code is ErrorCode.CLIENT_LIBRARY_MISSING


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ImportError("libssl.so.3: version `OPENSSL_3.2.0' not found"), "client-library-missing"),
        (ModuleNotFoundError("no", name="cryptography.hazmat"), "client-library-missing"),
        (ModuleNotFoundError("no", name="spirit_py.gone"), "defect"),
        (ValueError("libssl"), "defect"),
    ],
)
def test_a_library_that_cannot_be_loaded_is_no_defect_of_this_program(capsys, error, code):
    """In the message and in the report; a module of its own that is missing is one."""
    report = OutcomeReport()
    report.note_failure(error)
    assert report.error_code == code
    with pytest.raises(SystemExit) as ended, ErrorsShown(verbose=False):
        raise error
    shown = capsys.readouterr().err
    assert ended.value.code == 1
    assert f"more: spirit-py explain {code}\n" in shown
    assert ("defect of spirit-py" in shown) == (code == "defect")


@pytest.mark.parametrize(
    ("prefix", "command"),
    [
        ("/home/dba/.local/share/pipx/venvs/spirit-py", "pipx inject spirit-py"),
        ("/home/dba/.local/pipx/venvs/ours", "pipx inject ours"),
        ("/opt/venv", "/opt/venv/bin/python -m pip install"),
    ],
)
def test_the_driver_is_added_to_this_installation(prefix, command):
    """Pipx keeps programs apart, so that a plain pip would install it where nobody looks."""
    assert system_packages.install_command(prefix, "/opt/venv/bin/python") == command


def test_the_command_that_adds_the_driver_is_one_of_a_shell():
    """The folder of an installation may have a blank in its name."""
    command = system_packages.install_command("/opt/my venv", "/opt/my venv/bin/python")
    assert command == "'/opt/my venv/bin/python' -m pip install"


def test_another_driver_in_its_place_is_refused_by_name(monkeypatch):
    """It takes other arguments: each connection would end in a TypeError, called a bug of ours."""
    monkeypatch.setitem(sys.modules, "MySQLdb", pymysql)
    with pytest.raises(Refusal, match="pymysql is in the place of mysqlclient") as caught:
        load_driver()
    assert "mysql+pymysql" in caught.value.hint
