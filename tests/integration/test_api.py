"""The program as a library: one call, a run as a context, several at once, no output."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress

import pytest

import spirit_py
from spirit_py.events.copy import CopyDone
from spirit_py.events.run import ProgressMade
from spirit_py.events.swap import CutoverDeferred, SwapDone
from spirit_py.status import wording
from tests.kits.background import BackgroundCall
from tests.kits.library import ROWS, arguments, fill_rows
from tests.kits.locking import await_lock_freed
from tests.kits.tables import tables


@pytest.fixture
def orders(db):
    """A table of some thousand rows, as arguments of a migration that copies it."""
    db.execute("CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, a INT NOT NULL)")
    fill_rows(db, "INSERT INTO orders (a) SELECT i FROM {n}")
    return arguments(db, table="orders", alter="MODIFY a BIGINT NOT NULL", threads=2)


def _type(db):
    ((kind,),) = db.query(
        "SELECT COLUMN_TYPE FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = 'orders' AND COLUMN_NAME = 'a'",
        (db.name,),
    )
    return kind


@pytest.mark.slow
def test_one_call_changes_a_table_and_returns_the_report(db, orders):
    """The report has the figures of the command's; the password may come from a function."""
    report = spirit_py.migrate(**{**orders, "password": lambda: db.server.password})
    assert (report.outcome, report.algorithm, report.rows_copied) == ("done", "copy", ROWS)
    assert (_type(db), tables(db)) == ("bigint", ["orders"])
    report = spirit_py.migrate(**{**orders, "alter": "ADD COLUMN b INT"})
    assert report.algorithm == "instant"


@pytest.mark.slow
def test_events_are_read_as_they_happen_with_figures_beside_them(db, orders):
    """The iterator ends with the run; status and report are those of the run."""
    with spirit_py.start_migration(**orders) as running:
        with pytest.raises(RuntimeError, match="has not ended"):
            _ = running.report
        names = [type(event) for event in running]
        assert running.report.rows_copied == ROWS
    assert names.index(CopyDone) < names.index(SwapDone)
    assert running.next_event() is None
    assert not running.running


def _deferred(running):
    """Read events until the swap is deferred."""
    for event in running:
        if isinstance(event, CutoverDeferred):
            return
    pytest.fail("the swap was not deferred")


class Mistake(Exception):
    """What a caller's loop raises."""


def _left_by_break(running):
    _deferred(running)


def _left_by_an_exception(running):
    _deferred(running)
    raise Mistake


def _left_after_stop(running):
    _deferred(running)
    running.stop()
    assert not any(isinstance(event, SwapDone) for event in running)
    with pytest.raises(spirit_py.Stopped, match="stopped by the program") as stopped:
        _ = running.report
    assert (stopped.value.exit_code, stopped.value.resumable) == (143, True)


@pytest.mark.slow
@pytest.mark.parametrize("body", [_left_by_break, _left_by_an_exception, _left_after_stop])
def test_leaving_early_stops_in_order_and_the_same_call_carries_on(db, orders, body):
    """A context that is left with the run under way ends it; nothing is copied again (R16)."""
    given = {**orders, "defer_cutover": True}
    with suppress(Mistake), spirit_py.start_migration(**given) as running:
        body(running)
    assert not running.running
    assert _type(db) == "int"
    assert {"orders", "_orders_new", "_orders_chkpnt"} <= set(tables(db))
    await_lock_freed(db, "orders")
    (found,) = spirit_py.migration_status(**arguments(db, table="orders"))
    assert found.to_dict()["state"] == "stopped"
    db.execute("DROP TABLE _orders_snt")
    report = spirit_py.migrate(**given)
    assert (report.runs, report.rows_copied_before, report.rows_copied) == (2, ROWS, ROWS)
    assert _type(db) == "bigint"


@pytest.mark.slow
def test_the_events_have_the_progress(db, orders, monkeypatch):
    """A program that reads nothing but events sees how far it is, and when it ends."""
    monkeypatch.setattr(wording, "PROGRESS_SECONDS", 0.05)
    with spirit_py.start_migration(**{**orders, "defer_cutover": True}) as running:
        seen = next(event for event in running if isinstance(event, ProgressMade))
        assert seen.table == f"{db.name}.orders"
        assert {"phase", "rows", "fraction", "eta", "pending"} <= set(seen.fields)
        assert seen.text.startswith("[")


@pytest.mark.slow
def test_a_failure_is_raised_where_the_events_are_read_or_when_the_context_is_left(db, orders):
    """An error that nobody has looked at is not lost."""
    wrong = {**orders, "alter": "MODIFY missing BIGINT"}
    with pytest.raises(spirit_py.Refusal, match="missing") as refused:
        spirit_py.migrate(**wrong)
    assert refused.value.exit_code == 2
    with spirit_py.start_migration(**wrong) as running, pytest.raises(spirit_py.Refusal):
        list(running)
    with pytest.raises(spirit_py.Refusal), spirit_py.start_migration(**wrong) as running:
        running.wait()
    with pytest.raises(Mistake), spirit_py.start_migration(**wrong) as running:
        _wait_and_raise(running)


def _wait_and_raise(running):
    running.wait()
    raise Mistake


@pytest.mark.slow
def test_a_change_is_planned_tables_are_compared_and_what_a_migration_left_is_dropped(db, orders):
    """The other commands are functions too."""
    plan = spirit_py.plan_migration(**orders, sample=False)
    assert (plan.refused, plan.to_dict()["tables"][0]["table"]) == (False, "orders")
    db.execute("CREATE TABLE other LIKE orders; INSERT INTO other SELECT * FROM orders")
    reach = {name: orders[name] for name in ("host", "port", "user", "password", "database")}
    assert spirit_py.checksum_tables(**reach, table="orders", target_table="other").rows == ROWS
    with pytest.raises(spirit_py.UsageFault, match="with itself"):
        spirit_py.checksum_tables(**reach, table="orders")
    with spirit_py.start_migration(**orders, defer_cutover=True) as running:
        _deferred(running)
    assert any("_orders_new" in line for line in spirit_py.cleanup(**reach, table="orders"))
    assert tables(db) == ["orders", "other"]


@pytest.mark.slow
def test_a_batch_stops_at_the_table_that_fails_and_the_same_call_carries_on(db):
    """The error has the report of all tables; what is done is not done again."""
    for name, last in (("t1", 1), ("t2", 300)):
        db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT NOT NULL)")
        db.execute(f"INSERT INTO {name} VALUES (1, 1), (2, {last})")
    given = arguments(
        db,
        statements=[f"ALTER TABLE {name} MODIFY a TINYINT NOT NULL" for name in ("t1", "t2")],
        threads=1,
    )
    with pytest.raises(spirit_py.BatchFailed, match="t2") as failed:
        spirit_py.migrate_batch(**given)
    assert [one["failed"] for one in failed.value.report.tables] == [False, True]
    assert (failed.value.exit_code, failed.value.hint[:13]) == (1, "the same call")
    assert "t2" in failed.value.details[0]
    db.execute("UPDATE t2 SET a = 2 WHERE id = 2")
    with spirit_py.start_batch(**given) as running:
        events = list(running)
        report = running.report
    changed = {event.table for event in events if isinstance(event, SwapDone)}
    assert (report.outcome, report.runs, changed) == ("done", 2, {f"{db.name}.t2"})
    assert tables(db) == ["t1", "t2"]


PROGRAM = """
import json, logging, multiprocessing, signal, sys, threading
import spirit_py

given = json.loads(sys.argv[1])
def change(table, **more):
    done[table] = spirit_py.migrate(table=table, **given, **more).rows_copied
done = {}
def work():
    before = [signal.getsignal(number) for number in (2, 15, 1)]
    threads = [
        threading.Thread(target=change, args=("t1",), kwargs={"spark_master": "local[1]"}),
        threading.Thread(target=change, args=("t2",), kwargs={"spark_master": "local[1]"}),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == {"t1": 3000, "t2": 3000}, done
    assert before == [signal.getsignal(number) for number in (2, 15, 1)]
    assert logging.getLogger().handlers == []

# As a pool of forked workers has it: a daemonic process, forked from one that has used the library.
spirit_py.migration_status(**{n: given[n] for n in ("host", "port", "user", "password")})
forked = multiprocessing.get_context("fork").Process(target=work, daemon=True)
forked.start()
forked.join()
sys.exit(forked.exitcode)
"""


@pytest.mark.slow
def test_two_at_once_in_a_forked_worker_leave_no_trace_in_its_process(db):
    """Nothing is written, no signal handler and no logging is set, Spark included.

    The two want Spark at the same time, which a process has only once: the other does without.
    """
    for name in ("t1", "t2"):
        db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY AUTO_INCREMENT, a INT NOT NULL)")
        fill_rows(db, f"INSERT INTO {name} (a) SELECT i FROM {{n}}")
    given = arguments(db, alter="MODIFY a BIGINT NOT NULL", threads=1)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(given)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.slow
def test_an_interrupted_caller_stops_the_migration(db, orders, monkeypatch):
    """KeyboardInterrupt, as Jupyter and a shell raise it, ends the run in order."""

    def interrupted(self, seconds=None):
        _deferred(self)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(spirit_py.Running, "wait", interrupted)
        call = BackgroundCall(lambda: spirit_py.migrate(**orders, defer_cutover=True))
        with pytest.raises(KeyboardInterrupt):
            call.result()
    assert _type(db) == "int"
    assert spirit_py.migration_status(**arguments(db, table="orders"))
