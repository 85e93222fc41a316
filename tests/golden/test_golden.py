"""Outputs keep their names and their meaning: what runs of every kind leave is as recorded."""

from __future__ import annotations

import json
import os
import socket
import uuid
import warnings
from typing import Any

import pytest
from click.testing import CliRunner

from mysql_words import version_number
from spirit_py.checksum import recheck
from spirit_py.cli import main
from spirit_py.command_config import CompareConfig
from spirit_py.migration.control import listener
from spirit_py.migration.reverse import keeper
from spirit_py.migration.swap import deferral
from spirit_py.spark import choice
from spirit_py.status.metrics.collector import METRICS
from spirit_py.throttle import adaptive
from tests.fixtures.lane import LANE_VARIABLE
from tests.fixtures.spark import quick_pauses
from tests.golden.recordings import FOLDER, as_text, compare
from tests.golden.runner import Runs
from tests.golden.scenarios import SCENARIOS

RECORDED_ON = (9, 7)


def exit_codes(runs):
    """Return the exit code of each command of a recording."""
    return {name: run["exit_code"] for name, run in runs.items()}


def write_as_others_did(db):
    """Leave transactions with a tag, and of another server, in the server's GTID set.

    Other tests leave them too: which of them ran before may not show in a recording.
    """
    if version_number(db.server.version()) >= (8, 3):
        db.execute("SET gtid_next='AUTOMATIC:app'; CREATE TABLE tagged (id INT)")
        db.execute("SET gtid_next='AUTOMATIC'; DROP TABLE tagged")
    db.execute(f"SET gtid_next='{uuid.uuid4()}:7'; CREATE TABLE foreign_one (id INT)")
    db.execute("SET gtid_next='AUTOMATIC'; DROP TABLE foreign_one")


@pytest.fixture
def runs(db, tmp_path, monkeypatch):
    """The runner of one scenario; Spark is not started, however slow the machine is.

    The machine's name is a word of the outputs, as anybody's may be.
    """
    write_as_others_did(db)
    monkeypatch.setattr(socket, "gethostname", lambda: "copy")
    monkeypatch.setattr(choice, "_START_ANYWAY_SECONDS", 3600.0)
    monkeypatch.setattr(adaptive, "_LONGEST_MEASURE", 0.1)
    for module in (deferral, keeper, listener):
        monkeypatch.setattr(module, "_LOOK_SECONDS", 0.1)
    monkeypatch.setattr(listener, "_WRITE_SECONDS", 0.1)
    monkeypatch.setattr(recheck, "_PAUSES", quick_pauses())
    compared: Any = CompareConfig.__init__.__kwdefaults__
    monkeypatch.setitem(compared, "recheck_pauses", (0.1, 0.1))
    return Runs(db, tmp_path, monkeypatch)


@pytest.mark.draws(18)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_a_run_leaves_what_is_recorded(runs, scenario, db):
    """Report, log lines, metrics, plans, status and answers of ctl, but for what varies.

    A server of another series has other words for its errors and other shortcuts: there the runs
    have to end with the same exit codes.
    """
    seen, name = runs.play(scenario), f"{scenario.name}.json"
    if version_number(db.server.version())[:2] == RECORDED_ON:
        compare(name, as_text(seen) + "\n")
    else:
        assert exit_codes(seen) == exit_codes(json.loads((FOLDER / name).read_text()))


@pytest.mark.filterwarnings("default")
def test_debians_server_is_of_the_series_that_was_recorded(mysql):
    """It moves on by itself: from that day on no output would be compared, and all would pass.

    A lane fails then. The usual gate only warns: the same commit may not fail on another day.
    """
    series = version_number(mysql.version())[:2]
    if "Debian" in mysql.origin and series != RECORDED_ON:
        told = (
            f"Debian has MySQL {series} now, and outputs are not compared: set RECORDED_ON to it,"
            " and record anew (tests/README.md)"
        )
        assert not os.environ.get(LANE_VARIABLE), told
        warnings.warn(told, stacklevel=1)


def test_every_metric_is_as_recorded():
    """Name, kind, labels and help, also of those that a run has only sometimes."""
    seen = {
        one.name: {"type": one.kind, "labels": list(one.labels), "help": one.help}
        for one in METRICS
    }
    compare("metrics.json", as_text(seen) + "\n")


@pytest.mark.parametrize("command", ["", *sorted(main.commands)])
def test_help_is_as_recorded(command):
    """All texts of all options, at one width; those that most runs need by themselves."""
    words = [command, "--help"] if command else ["--help"]
    shown = CliRunner().invoke(main, words, terminal_width=80).output
    compare(f"help/{command or 'spirit-py'}.txt", shown)
    if "--help-all" in shown:
        shown = CliRunner().invoke(main, [command, "--help-all"], terminal_width=80).output
        compare(f"help/{command}_all.txt", shown)
