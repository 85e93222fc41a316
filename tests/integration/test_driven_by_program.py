"""A program that drives this one: it reads JSON and exit codes, no text."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from spirit_py.cli import main
from tests.kits.command import run_here

ALTER = "MODIFY v BIGINT NOT NULL"


@pytest.mark.slow
def test_plan_run_and_status_are_decided_by_data(db, tmp_path):
    """Refusals of plan and migrate have codes that explain knows; the same ALTER then runs."""
    known = {error["code"]: error for error in errors()}
    db.execute("CREATE TABLE t (id INT, v INT)")
    db.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
    plan = answer(db, "plan", "--alter", ALTER)
    assert plan["refused"]
    codes = {found["code"] for found in plan["refusals"]}
    assert codes == {"no-usable-key"}
    assert 2 in known["no-usable-key"]["exit_codes"]
    code, report = migrate(db, tmp_path)
    assert (code, report["error_code"]) == (2, "no-usable-key")
    db.execute("ALTER TABLE t ADD PRIMARY KEY (id)")
    assert not answer(db, "plan", "--alter", ALTER)["refused"]
    code, report = migrate(db, tmp_path)
    assert (code, report["error_code"], report["rows_copied"]) == (0, "", 2)
    assert answer(db, "status") == []


def errors():
    """Return the errors that explain has."""
    ended = CliRunner().invoke(main, ["explain", "--json"])
    assert ended.exit_code == 0
    return json.loads(ended.stdout)["errors"]


def answer(db, command: str, *more: str):
    """Return the JSON of a command that ends well, or of a refused plan."""
    how = ("--format", "json") if command == "plan" else ("--json",)
    return json.loads(run_here(db, command, *how, *more).stdout)


def migrate(db, folder):
    """Return the exit code and the report."""
    report = folder / "report.json"
    ended = run_here(db, "migrate", "--alter", ALTER, "--report-json", str(report))
    return ended.returncode, json.loads(report.read_text())
