"""``--version`` and what the operating system has to bring."""

from __future__ import annotations

import sys

import pytest
from click.testing import CliRunner

from spirit_py import __version__
from spirit_py.cli import main
from spirit_py.errors import Refusal
from spirit_py.mysql.connect import client_version, load_driver


def test_the_version_names_what_the_program_runs_on(monkeypatch):
    """A report of a defect needs the versions of Python, Java, Spark and the libraries."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    shown = CliRunner().invoke(main, ["--version"])
    assert shown.exit_code == 0
    lines = shown.output.splitlines()
    assert lines[0] == f"spirit-py {__version__}"
    for name in ("Python", "pyspark", "mysqlclient", "mysql-replication", "MySQL client library"):
        assert any(line.startswith(f"{name} ") for line in lines)
    assert "Java not usable: Spark needs Java, and there is none: JAVA_HOME is /nowhere" in lines


def test_a_missing_driver_is_named_with_the_command_that_installs_it(monkeypatch):
    """A library that the system has to bring is no defect of the program."""
    monkeypatch.setitem(sys.modules, "MySQLdb", None)
    with pytest.raises(Refusal, match="mysqlclient is not installed") as refusal:
        load_driver()
    for command in ("apt-get install", "dnf install", "brew install"):
        assert any(command in line for line in refusal.value.details)
    assert client_version().startswith("not usable: ")
