"""``spirit-py migrate`` with ``--tables`` and ``--statements``: options, questions, exit codes."""

from __future__ import annotations

import json
import os
import signal

import pytest
from click.testing import CliRunner

from spirit_py.api.commands import batch_config_of
from spirit_py.batch import entry, planning
from spirit_py.batch.changes import TableChange
from spirit_py.batch.plan import BatchPlan, PlannedTable
from spirit_py.batch.report import BatchReport
from spirit_py.classes import replace
from spirit_py.cli import main, outcome
from spirit_py.errors import UsageFault
from spirit_py.fleet import planning as fleet_planning
from spirit_py.options import declared
from spirit_py.options.commands import (
    BatchArguments,
    ChecksumCommand,
    MigrateCommand,
    PlanCommand,
    RevertCommand,
)
from spirit_py.records import RecordOptions

#: The real one, where a test has replaced it.
RUN_BATCH = entry.run_batch
BASE = ("migrate", "--user", "u")
PATTERN = (*BASE, "--tables", "shop_%.orders", "--alter", "FORCE")


def planned(*, place="", refusals=()):
    """Return a plan of one table."""
    change = TableChange(
        schema="shop_1", table="orders", clauses="FORCE", normalized="x", place=place
    )
    one = PlannedTable(change=change, action="copied", refusals=refusals)
    return BatchPlan(name="_spirit_py_batch_1", server_uuid="u", tables=(one,))


@pytest.fixture
def asked(monkeypatch):
    """Keep the configuration that a batch would run with; nothing asks a server."""
    seen = {"plan": planned(), "report": BatchReport(totals={"rows_copied": 0})}
    seen["report"].add(())

    def plan_batch(config):
        seen["config"] = config
        return seen["plan"]

    def run_batch(_config, plan, **_):
        seen["ran"] = plan
        return seen["report"]

    monkeypatch.setattr(planning, "plan_batch", plan_batch)
    monkeypatch.setattr(entry, "run_batch", run_batch)
    monkeypatch.setattr(outcome, "can_ask", lambda _: False)
    for name in list(os.environ):
        if name.startswith(("SPIRIT_PY_", "MYSQL_")) and name != "SPIRIT_PY_NO_DEFAULTS":
            monkeypatch.delenv(name)
    return seen


def run(*arguments, answers=None):
    """Run a command to its end."""
    return CliRunner().invoke(main, list(arguments), input=answers)


def test_the_schema_of_a_url_holds_for_many_tables(asked):
    """A name without a schema is one of its tables, as for a single migration."""
    result = run("migrate", "--dsn", "mysql://u@db1/shop", *PATTERN[-4:], "--yes")
    assert result.exit_code == 0, result.output
    assert asked["config"].each.database == "shop"


def test_patterns_become_a_configuration(asked, tmp_path):
    """Every other option holds for each table; the report is the batch's."""
    file = str(tmp_path / "r.json")
    more = ("--tables", "a.b", "--exclude", "shop_9.%", "--on-failure", "continue", "--nice", "2")
    result = run(*PATTERN, *more, "--report-json", file, "--yes")
    assert result.exit_code == 0, result.output
    config = asked["config"]
    assert config.patterns == ("shop_%.orders", "a.b")
    assert (config.exclude, config.on_failure, config.each.nice) == (("shop_9.%",), "continue", 2)
    assert config.each.records == RecordOptions()
    assert str(config.records.report_json) == file
    assert asked["ran"] is asked["plan"]


def test_a_file_is_read_whole(asked, tmp_path):
    """Its name is kept for messages."""
    file = tmp_path / "f.sql"
    file.write_text("ALTER TABLE a.b FORCE;")
    asked["plan"] = planned(place="f.sql, line 1")
    result = run(*BASE, "--statements", str(file))
    assert result.exit_code == 0, result.output
    assert (asked["config"].statements, asked["config"].file) == (file.read_text(), str(file))


def test_statements_that_everybody_may_write_are_refused(tmp_path):
    """R26: they are executed."""
    file = tmp_path / "changes.sql"
    file.write_text("ALTER TABLE t FORCE")
    file.chmod(0o666)
    result = run(*BASE, "--statements", str(file))
    assert result.exit_code == 2
    assert "is world-writable" in result.output
    assert f"chmod o-w {file}" in result.output


@pytest.mark.parametrize("written", [True, False])
def test_tables_that_patterns_chose_need_a_yes_where_nobody_can_be_asked(asked, written):
    """The plan is shown all the same, and nothing runs; 2 says that nothing was written (R16)."""
    asked["plan"] = replace(planned(), written=written)
    result = run(*PATTERN)
    assert result.exit_code == (1 if written else 2)
    assert "shop_1.orders" in result.output
    assert "--yes" in result.output
    assert "ran" not in asked


@pytest.mark.parametrize(("more", "code"), [((), 2), (("--yes",), 0)])
def test_a_file_whose_tables_another_batch_may_have_needs_a_yes(asked, tmp_path, more, code):
    """That one's record is where anybody may write; one that has begun was asked before."""
    claim = "as x._spirit_py_batch_2 says, another, unfinished batch has 1 of these tables"
    asked["plan"] = plan = replace(planned(place="f, line 1"), claims=(claim,))
    file = tmp_path / "changes.sql"
    file.write_text("ALTER TABLE t FORCE")
    result = run(*BASE, "--statements", str(file), *more)
    assert result.exit_code == code
    assert (claim in result.output) is (code == 2)
    assert not replace(plan, earlier={}).asks


@pytest.mark.parametrize(("answer", "ran"), [("y\n", True), ("n\n", False), ("", False)])
def test_a_terminal_is_asked(asked, monkeypatch, answer, ran):
    """No answer means no."""
    monkeypatch.setattr(outcome, "can_ask", lambda _: True)
    result = run(*PATTERN, answers=answer)
    assert ("ran" in asked) is ran, result.output
    assert result.exit_code == (0 if ran else 2)


def test_nobody_is_asked_about_a_rehearsal(asked):
    """It changes nothing."""
    assert run(*PATTERN, "--dry-run").exit_code == 0
    assert "ran" in asked


def test_the_environment_answers_no_question(asked, monkeypatch):
    """A yes is given on the command line, by whoever has seen the tables."""
    monkeypatch.setenv("SPIRIT_PY_YES", "1")
    assert run(*PATTERN).exit_code == 2
    assert "ran" not in asked


def test_the_exit_code_is_that_of_the_report(asked):
    """Whatever happened to the tables."""
    asked["report"].exit_code = 3
    assert run(*PATTERN, "--yes").exit_code == 3


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--table", "t"), "--table and --tables do not go together"),
        (("--statement", "ALTER TABLE a.b FORCE"), "--statement and --tables"),
        (("--statements", __file__), "--tables and --statements"),
        (("--keep-old-current", "1h"), "--keep-old-current does not go with many tables"),
        (("--drop-old-after", "1h"), "--drop-old-after with a time"),
        (("--parallel", "3", "--threads", "2"), "--parallel 3 needs as many slots"),
        (("--dry-run", "--defer-cutover"), "--dry-run swaps nothing"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(asked, options, why):
    """Before a server is asked for anything."""
    result = run(*PATTERN, *options)
    assert result.exit_code == 2
    assert why in result.output
    assert "config" not in asked


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--tables", "a.b"), "--tables and --alter go together"),
        (("--statements", __file__, "--alter", "FORCE"), "--alter goes with --tables"),
        (("--statements", __file__, "--exclude", "a.b"), "--exclude goes with --tables"),
        (("--exclude", "a.b"), "--exclude goes with"),
        (("--parallel", "2"), "--parallel goes with"),
        (("--yes",), "--yes goes with"),
        (("--on-failure", "continue"), "--on-failure goes with"),
    ],
)
def test_options_of_a_batch_need_one(asked, arguments, why):
    """None is silently without effect."""
    result = run(*BASE, *arguments)
    assert result.exit_code == 2
    assert why in result.output


@pytest.mark.parametrize(
    ("alone", "other", "more"),
    [
        ("--kill-after 5s", "--kill-blockers", "--kill-blockers idle"),
        ("--hook-timeout 5s", "--on-event", "--on-event true"),
    ],
)
def test_an_option_that_needs_another_is_refused_alone(asked, tmp_path, alone, other, more):
    """A file or the environment may hold it: there it is a default for runs that have the other."""
    words = alone.split()
    result = run(*PATTERN, "--yes", *words)
    assert result.exit_code == 2
    assert f"{words[0]} goes with {other}, and has no effect alone" in result.output
    assert "config" not in asked
    file = tmp_path / "config.toml"
    file.write_text(f"[all]\n{words[0][2:]} = '{words[1]}'\n")
    for able in ((*PATTERN, *words, *more.split()), ("--config", str(file), *PATTERN)):
        assert run(*able, "--yes").exit_code == 0
    keyword = words[0][2:].replace("-", "_")
    if keyword in BatchArguments.__annotations__:
        with pytest.raises(UsageFault, match=f"{words[0]} goes with --"):
            batch_config_of(tables="s.t", alter="FORCE", **{keyword: words[1]})


@pytest.mark.parametrize("words", [("--defer-timeout", "2h"), ("--recheck-interval", "1m")])
def test_a_deferral_that_nobody_asked_for_yet_has_its_limits(asked, words):
    """A sentinel table or ``ctl postpone`` defers a run, too."""
    assert run(*PATTERN, "--yes", *words).exit_code == 0
    assert "ran" in asked


def test_a_refused_batch_says_each_cause_once(asked, monkeypatch):
    """The error has them; the plan before it says which tables are refused."""
    asked["plan"] = planned(refusals=("it has no key",))
    monkeypatch.setattr(entry, "run_batch", RUN_BATCH)
    result = run(*PATTERN)
    assert result.exit_code == 2
    assert "shop_1.orders: refused" in result.output
    assert result.output.count("it has no key") == 1


@pytest.mark.parametrize("line", [ChecksumCommand, MigrateCommand, PlanCommand, RevertCommand])
def test_what_an_option_needs_is_an_option_of_the_command(line):
    """A wrong name would need nothing."""
    every = declared(line)
    named = {name for one in every for name in (*one.needs, one.unless) if name}
    assert named <= {one.name for one in every}


def test_a_refused_batch_has_a_report_too(asked, tmp_path):
    """A script that reads the report finds why nothing was done."""
    file = tmp_path / "r.json"
    assert run(*PATTERN, "--report-json", str(file)).exit_code == 2
    report = json.loads(file.read_text())
    assert (report["outcome"], report["exit_code"]) == ("refused", 2)
    assert "there is no terminal" in report["error"]


def test_old_tables_may_be_left_to_the_operator(asked):
    """Then no migration waits."""
    assert run(*PATTERN, "--yes", "--drop-old-after", "never").exit_code == 0


def test_defaults_of_a_team_hinder_no_single_migration(asked, monkeypatch):
    """Who migrates one table has not asked for what the environment sets for many."""
    from spirit_py.migration import entry as migration
    from spirit_py.status.report import MigrationReport

    monkeypatch.setenv("SPIRIT_PY_ON_FAILURE", "continue")
    monkeypatch.setattr(migration, "migrate", lambda *_, **__: MigrationReport(outcome="done"))
    one = ("--database", "s", "--table", "t", "--alter", "FORCE")
    assert run(*BASE, *one).exit_code == 0
    assert run(*PATTERN, "--yes").exit_code == 0
    assert asked["config"].on_failure == "continue"


@pytest.mark.parametrize("many", [False, True], ids=["batch", "fleet"])
def test_a_sigterm_while_it_is_planned_has_a_report(many, asked, monkeypatch, tmp_path):
    """The process was gone at once, and its report was not written."""

    def ended(_config):
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(planning, "plan_batch", ended)
    monkeypatch.setattr(fleet_planning, "plan_fleet", ended)
    servers, report = tmp_path / "servers", tmp_path / "report.json"
    servers.write_text("mysql://db1 name=s1\nmysql://db2 name=s2\n")
    words = [*PATTERN, *(("--servers", str(servers)) if many else ())]
    result = run(*words, "--report-json", str(report))
    assert result.exit_code == 143, result.output
    assert "nothing was begun" in result.output
    assert json.loads(report.read_text())["outcome"] == "interrupted"
    assert "ran" not in asked
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
