"""The exit code and the report of a batch."""

from __future__ import annotations

import dataclasses
import json

import pytest

from spirit_py.batch import planning
from spirit_py.batch.changes import TableChange
from spirit_py.batch.listing import BatchShown
from spirit_py.batch.plan import BatchPlan, PlannedTable
from spirit_py.batch.report import BatchReport, exit_code
from spirit_py.batch.store import TableRecord
from spirit_py.classes import replace
from spirit_py.errors import Interrupted, Refusal
from spirit_py.events.run import Warned
from spirit_py.status.report import MigrationReport, refused_before
from spirit_py.status.reporters import Reporters
from tests.kits.reporter import RecordingReporter


@pytest.mark.parametrize(
    ("failed", "stopped", "written", "code"),
    [
        ((), 0, True, 1),
        ((), 2, False, 2),
        ((), 2, True, 1),
        ((1,), 0, True, 1),
        ((2,), 0, False, 2),
        ((2, 2), 0, True, 1),
        ((1, 2), 0, False, 1),
        ((143,), 0, True, 1),
        ((), 130, True, 130),
        ((1,), 143, True, 143),
        ((1, 3), 130, True, 3),
        ((3,), 0, True, 3),
    ],
)
def test_the_exit_code_says_the_worst(failed, stopped, written, code):
    """Unknown comes first, then the signal; 2 promises that nothing was written (R16)."""
    assert exit_code(failed, stopped=stopped, written=written, whole=False) == code


@pytest.mark.parametrize(("failed", "stopped", "code"), [((), 0, 0), ((1,), 0, 1), ((), 130, 130)])
def test_only_where_all_is_done_the_exit_code_is_0(failed, stopped, code):
    """Something may have ended the run nevertheless."""
    assert exit_code(failed, stopped=stopped, written=True, whole=True) == code


def record(name, outcome="", state="pending", *, code=0, rows=0, error=""):
    """Return the record of a table, with a report where it has an outcome."""
    report = MigrationReport(
        outcome=outcome,
        exit_code=code,
        rows_copied=rows,
        lock_held_ms=float(rows),
        algorithm="copy",
    )
    text = json.dumps(dataclasses.asdict(report)) if outcome else ""
    return TableRecord(
        schema="s",
        table=name,
        statement="x",
        state=state,
        outcome=outcome,
        error=error,
        report=text,
    )


def concluded(*records, stopped=None):
    """Return the report of a batch that has come to its end, or was stopped."""
    report = BatchReport()
    report.add(records)
    report.conclude(stopped, seconds=1.0, record="s._spirit_py_batch_1")
    return report


def test_each_table_has_its_own_report_and_the_totals_are_their_sums():
    """Those that an earlier run has changed count as well."""
    done = [record(name, "done", "done", rows=rows) for name, rows in (("a", 5), ("b", 7))]
    report = concluded(*done)
    assert (report.outcome, report.exit_code) == ("done", 0)
    assert report.totals["rows_copied"] == 12
    assert report.totals["longest_lock_held_ms"] == 7
    assert [one["report"]["rows_copied"] for one in report.tables] == [5, 7]


def test_a_failed_table_is_named_with_its_cause():
    """The others are counted, and what is left to do."""
    report = concluded(
        record("a", "done", "done"), record("b", "failed", "running", code=1, error="duplicates"),
        record("c"),
    )  # fmt: skip
    assert (report.outcome, report.exit_code) == ("failed", 1)
    text = "\n".join(report.summary())
    assert "s.b: failed: duplicates" in text
    assert "1 changed, 1 failed, 1 left" in text
    assert "s._spirit_py_batch_1" in text


def test_what_has_to_be_done_about_a_failed_table_stands_below_it():
    """As after a migration of one table; a table that is done needs nothing."""
    failed = record("b", "failed", "running", code=1, error="denied")
    known = {"hint": "GRANT it", "details": ["row 7"], "error_code": "missing-privileges"}
    failed = dataclasses.replace(failed, report=json.dumps(json.loads(failed.report) | known))
    lines = concluded(record("a", "done", "done"), failed).summary()
    assert lines[:4] == [
        "s.b: failed: denied",
        "  row 7",
        "  hint: GRANT it",
        "  more: spirit-py explain missing-privileges",
    ]


def test_a_table_that_was_ended_alone_has_failed():
    """``spirit-py ctl abort`` of one is a failure of that one, and no signal to the batch."""
    report = concluded(record("a", "interrupted", "running", code=143), record("b", "done", "done"))
    assert report.exit_code == 1


def test_a_signal_is_the_outcome_of_the_batch():
    """The tables that it stopped have not failed."""
    stopped = record("a", "interrupted", "running", code=130, error="interrupted by SIGINT")
    report = concluded(stopped, stopped=Interrupted(2))
    assert (report.outcome, report.exit_code) == ("interrupted", 130)
    assert "1 stopped" in report.summary()[-2]
    # Its end has a line of its own, with the same cause.
    assert not any("interrupted by" in line for line in report.summary())


def test_an_unknown_outcome_is_never_hidden():
    """Neither by other failures nor by a signal (R15)."""
    records = (record("a", "unknown", "running", code=3), record("b", "failed", code=1))
    assert concluded(*records).outcome == "unknown"
    assert concluded(*records, stopped=Interrupted(15)).exit_code == 3


def test_a_batch_with_a_table_that_is_not_done_is_not_done():
    """Though no table has failed; one that was rehearsed is as it was."""
    done, rehearsed = record("a", "done", "done"), record("a", "rehearsed")
    assert (concluded(done, record("b")).outcome, concluded(done, record("b")).exit_code) == (
        "failed",
        1,
    )
    assert concluded(done, record("b", state="changed")).exit_code == 1
    assert (concluded(rehearsed).outcome, concluded(rehearsed).exit_code) == ("rehearsed", 0)
    assert concluded(rehearsed, record("b")).exit_code == 1


def test_what_refuses_a_run_after_another_one_has_changed_a_table_is_a_failure():
    """``refused`` with 2 would say that nothing was written (R16)."""
    done, why = record("a", "done", "done"), Refusal("the orders cannot be read")
    report = concluded(done, record("b"), stopped=why)
    assert (report.outcome, report.exit_code) == ("failed", 1)
    assert report.error == "the orders cannot be read"
    assert concluded(record("b"), stopped=why).exit_code == 2


def test_a_batch_that_is_refused_as_a_whole_wrote_nothing():
    """Then, and only then, the exit code is 2 (R16)."""
    refused = record("a", "refused", code=2)
    assert concluded(refused).exit_code == 2
    assert concluded(refused, record("b", "done", "done")).exit_code == 1


def test_status_counts_the_tables_of_a_batch_in_plain_english():
    """A pattern may match one alone."""
    one = {"schema": "s", "table": "a", "state": "pending", "outcome": "", "error": ""}
    shown = BatchShown(batch="s.b", asked="s.a: FORCE", tables=(one,))
    assert shown.lines()[0] == "batch of 1 table (s.a: FORCE)"


def test_the_plan_says_of_a_table_that_is_left_out_what_the_batch_says():
    """One decision has one wording."""
    plan = BatchPlan(name="b", server_uuid="u", tables=(), earlier={("s", "t"): record("t")})
    (line,) = plan.left_out()
    assert line.startswith("s.t, which an earlier run has left unchanged, no longer exists or is")
    assert line.endswith("no longer selected: the batch goes on without it")
    begun, left = planning._lines(plan)
    assert begun == "this command goes on with a batch that an earlier run has not finished"
    assert left == line
    assert plan.remarks() == [f"  warning: {line}"]


def test_the_plan_names_the_schema_that_must_not_be_dropped():
    """With it the record of the tables of all other schemas would be gone."""
    tables = tuple(
        PlannedTable(change=TableChange(schema=schema, table="t", clauses="", normalized=""))
        for schema in ("shop_1", "shop_2")
    )
    plan = BatchPlan(name="b", server_uuid="u", tables=tables, home="shop_1")
    (line,) = plan.remarks()
    assert line.startswith("  record: in schema shop_1; do not drop this schema before")
    assert list(planning._lines(plan)) == [line.strip()]
    assert not replace(plan, tables=tables[:1]).remarks()
    assert not replace(plan, home="").remarks()


@pytest.mark.parametrize(
    "report",
    ["x", "[]", "3", '{"rows_copied": "5"}', '{"exit_code": []}', '{"details": 1}', "[" * 99_999],
)
def test_a_row_whose_report_is_none_is_no_row(report):
    """It ended the batch in a defect, after all its work (R26)."""
    with pytest.raises(ValueError, match="the report of a table cannot be read"):
        replace(record("a"), report=report)


def test_a_report_of_another_version_lacks_figures():
    """They count as none."""
    lacking = replace(record("a", "done", "done"), report="{}")
    assert concluded(lacking, record("b", "done", "done", rows=3)).totals["rows_copied"] == 3


@pytest.mark.parametrize(
    ("state", "said"), [("running", "began to change"), ("changed", "has changed")]
)
def test_a_table_that_is_left_out_is_not_called_unchanged_if_it_was_begun(state, said):
    """Its old table may be there, and its checkpoint."""
    earlier = {("s", "t"): record("t", state=state)}
    (line,) = BatchPlan(name="b", server_uuid="u", tables=(), earlier=earlier).left_out()
    assert line.startswith(f"s.t, which an earlier run {said}, no longer exists")
    assert "spirit-py cleanup --database s --table t drops" in line


@pytest.mark.parametrize("behind", [True, False])
def test_an_interrupt_behind_the_end_of_a_batch_leaves_its_report(tmp_path, behind):
    """Such as while a hook is told the end; before it, the interrupt is what is reported."""
    path, told = tmp_path / "report.json", RecordingReporter()
    reporter = Reporters([told])

    def run():
        with refused_before(path, reporter, begun=Warned(said="begun"), made=BatchReport):
            if behind:
                BatchReport(outcome="done").close(path, reporter)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert (json.loads(path.read_text())["outcome"] == "done") is behind
    assert [one.name for one in told.events].count("run.ended") == 1
