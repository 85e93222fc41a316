"""A batch that is killed anywhere: the same command finishes what is left, and only that."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
from typing import Any

import pytest

from spirit_py import points
from spirit_py.batch.entry import run_batch
from spirit_py.batch.listing import batches, give_up_batch
from spirit_py.batch.planning import plan_batch, plan_of_batch
from spirit_py.batch.store import BatchTable, TableRecord, TableState, marked_tables
from spirit_py.batch.table_run import TableRun
from spirit_py.batch.trial import Step, step_for
from spirit_py.checkpoint.record import CheckpointRecord, TableProgress
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import replace
from spirit_py.cli.unfinished import unfinished
from spirit_py.errors import Interrupted, MigrationFailure, Refusal
from spirit_py.locks.named import AdvisoryLock
from spirit_py.phases import Phase
from spirit_py.table.names import lock_name
from spirit_py.threads import StopSwitch
from tests.kits import kills
from tests.kits.batch import Batching, ShardWriters, batch_config, batch_here, shards
from tests.kits.command import command_line, environment
from tests.kits.connection import connection_options
from tests.kits.migrate import migrate_here
from tests.kits.point_listener import PointListener
from tests.kits.reporter import RecordingReporter
from tests.kits.resume import Interruption, once_at
from tests.kits.tables import open_session

#: Rows are copied, and nothing of that shows in a definition.
REBUILD = "ENGINE=InnoDB"
MINUTE = 60.0


@pytest.fixture
def listener(tmp_path):
    """Listen to the points of the processes."""
    with PointListener(tmp_path / "points") as found:
        yield found


@pytest.fixture
def four(db):
    """Four shards."""
    with shards(db, 4) as made:
        yield made


def words(made, alter, *more):
    """Return the command of a batch."""
    line = command_line(made.db, "migrate", hooks="small-chunks")
    at = line.index("--database")
    chosen = ("--tables", made.pattern, "--alter", alter, "--threads", "2", *more)
    return [*line[:at], *line[at + 2 :], *chosen, "--yes"]


def kill_at(made, listener, alter, point, nth, *more):
    """Run the command in a process, and kill it at a point."""
    hold = listener.hold(point, nth)
    process = subprocess.Popen(
        words(made, alter, *more),
        env=environment(made.db, **{points.VARIABLE: str(listener.path)}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        for _ in range(2400):
            if hold.held.wait(0.1):
                break
            assert process.poll() is None, f"ended before {point}: {process.communicate()[1]}"
        assert hold.held.is_set(), f"never reached {point}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=MINUTE)
        hold.release()


def table_numbers(made):
    """Return InnoDB's number of each table: it changes whenever the table is rebuilt."""
    rows = made.db.query(
        "SELECT NAME, TABLE_ID FROM information_schema.INNODB_TABLES"
        f" WHERE NAME LIKE '{made.db.name}|_%/orders' ESCAPE '|'"
    )
    return {str(name): int(number) for name, number in rows}


def states(made):
    """Return the states that the server has of the tables; none where it has no batch."""
    with open_session(made.db) as session:
        return [
            one.state
            for name in marked_tables(session)
            for one in BatchTable(*name).tables(session).values()
        ]


@pytest.mark.draws(1)
@pytest.mark.kills
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("point", "nth"), kills.chosen(kills.FEW_OF_A_BATCH, kills.MORE_OF_A_BATCH)
)
def test_killed_anywhere_the_same_command_changes_what_is_left(four, engine, listener, point, nth):
    """A rebuild of each table, once: those that were done before the kill keep their number (R16).

    The change leaves no trace in a definition, so the proof is the record's (R17).
    """
    first = table_numbers(four)
    with ShardWriters(four) as writers:
        kill_at(four, listener, REBUILD, point, nth)
        before = states(four)
        killed = table_numbers(four)
        report, told = batch_here(engine, batch_config(four.db, four.pattern, alter=REBUILD))
    assert report.exit_code == 0, told.text
    last = table_numbers(four)
    assert all(last[name] != first[name] for name in first), told.text
    assert {name: last[name] for name in first if killed[name] != first[name]} == {
        name: killed[name] for name in first if killed[name] != first[name]
    }
    writers.assert_kept()
    assert report.totals["differences_found"] == 0, told.text
    assert len(before) in {0, 2, 4}
    assert states(four) == []
    assert set(map(tuple, four.tables().values())) == {("orders",)}


@pytest.mark.kills
@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "nth", "keys"),
    [
        ("noting", 6, False),
        pytest.param("noted", 5, False, marks=pytest.mark.draws(2)),
        pytest.param("noting", 6, True, marks=pytest.mark.draws(2)),
        pytest.param("noting", 7, False, marks=pytest.mark.draws(2)),
    ],
)
def test_a_change_in_place_that_nobody_noted_is_seen_by_its_definition(
    four, engine, listener, point, nth, keys
):
    """Killed before the server has changed the first table, and after it, unknown to the record.

    Its definition is what the statement makes of the one from before: it is not changed again.
    """
    if keys:
        four.db.execute(
            f"ALTER TABLE {four.names[0]} ADD COLUMN up INT, ADD CHECK (a > 0), ADD FOREIGN KEY"
            f" (up) REFERENCES {four.names[0]} (id)"
        )
    alter = "ADD COLUMN n INT, RENAME COLUMN b TO bb"
    kill_at(four, listener, alter, f"batch.{point}", nth)
    assert states(four)[0] == {6: "running", 7: "changed"}.get(nth, "running")
    assert four.type_of("n")[0] == ("int" if point == "noting" else "")
    report, told = batch_here(engine, batch_config(four.db, four.pattern, alter=alter))
    assert report.exit_code == 0, told.text
    assert four.type_of("n") == ["int"] * 4
    assert four.type_of("bb") == ["varchar(50)"] * 4


@pytest.mark.kills
@pytest.mark.slow
@pytest.mark.parametrize("point", ["noting", "noted"])
def test_a_change_in_place_that_left_its_checkpoint_is_not_made_again(
    four, engine, listener, point
):
    """Killed around the note that it is changed, with a checkpoint that tells nothing of it (R17).

    Made again, the names would be exchanged once more.
    """
    alter = "RENAME COLUMN a TO b, RENAME COLUMN b TO a"
    kill_at(four, listener, alter, f"batch.{point}", 6)
    assert states(four)[0] == {"noting": "running", "noted": "changed"}[point]
    first = four.names[0].rpartition(".")[0]
    assert "_orders_chkpnt" in four.tables()[first]
    assert four.type_of("a")[0] == "varchar(50)"
    config = batch_config(four.db, four.pattern, alter=alter)
    assert "changed by an earlier run" in next(plan_batch(config).tables[0].lines())
    report, told = batch_here(engine, config)
    assert report.exit_code == 0, told.text
    assert four.type_of("a") == ["varchar(50)"] * 4
    assert set(map(tuple, four.tables().values())) == {("orders",)}


@pytest.mark.slow
@pytest.mark.draws(3)
def test_a_table_that_somebody_else_changed_meanwhile_is_left_to_the_operator(
    four, engine, monkeypatch
):
    """Neither the definition from before, nor what the statement makes of it."""

    def killed(self):
        raise KeyboardInterrupt

    config = batch_config(four.db, four.pattern, alter="ADD COLUMN n INT")
    with monkeypatch.context() as patched:
        # Before a migration has begun, and so that no state is put back.
        patched.setattr(TableRun, "execute", killed)
        patched.setattr("spirit_py.batch.batch.Batch._failed", lambda *_: {})
        batch_here(engine, config)
    first = four.names[0]
    assert states(four)[0] == TableState.RUNNING
    four.db.execute(f"ALTER TABLE {first} ADD COLUMN other INT")
    report, told = batch_here(engine, config)
    assert report.exit_code == 1, told.text
    assert "changed since its migration began" in report.tables[0]["error"]
    assert four.type_of("n") == [""] * 4
    four.db.execute(f"ALTER TABLE {first} DROP COLUMN other")
    report, told = batch_here(engine, config)
    assert report.exit_code == 0, told.text
    assert four.type_of("n") == ["int"] * 4


@pytest.mark.slow
@pytest.mark.draws(3)
def test_a_table_that_failed_may_be_altered_before_the_same_command(four, engine):
    """A refusal or a failure that ended in order leaves no doubt about who changed the table."""
    bad, other = four.names[:2]
    four.db.execute(f"UPDATE {bad} SET a = 6 WHERE a = 9")
    config = batch_config(
        four.db, four.pattern, alter="ADD UNIQUE KEY u (a)", on_failure="continue"
    )
    report, _ = batch_here(engine, config)
    assert report.exit_code == 1
    assert not any("old definition again" in line for line in plan_batch(config).remarks())
    four.db.execute(f"ALTER TABLE {other} DROP KEY u")
    (said,) = (line for line in plan_batch(config).remarks() if "old definition again" in line)
    assert f"({other}):" in said
    four.db.execute(f"DELETE FROM {bad} WHERE a = 6 LIMIT 1; ALTER TABLE {bad} ADD COLUMN q INT")
    report, told = batch_here(engine, config)
    assert report.exit_code == 0, told.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alter", "known"),
    [
        ("RENAME COLUMN a TO b, RENAME COLUMN b TO a", True),
        ("DROP COLUMN b, ADD COLUMN b VARCHAR(50)", False),
    ],
)
def test_a_stopped_table_that_its_own_command_has_finished_is_not_changed_again(
    db, engine, monkeypatch, alter, known
):
    """The record says that it was begun, and its checkpoint is gone (R17)."""
    with shards(db, 1, rows=50) as made:
        config = batch_config(db, made.pattern, alter=alter, no_shortcut=True)
        stop = StopSwitch()
        with monkeypatch.context() as patched:
            once_at(patched, "chunk.committed", lambda: stop.request(Interrupted(15)))
            report = Batching(engine, config, stop).end()
        assert (report.exit_code, states(made)) == (143, [TableState.RUNNING])
        connection = connection_options(db)
        options = {"database": made.schemas[0], "table": "orders", "as_json": False}
        monkeypatch.setattr("spirit_py.cli.unfinished.complete", lambda _: None)
        monkeypatch.setattr("spirit_py.cli.unfinished.connection_of", lambda _: connection)
        batch, one = map(vars, unfinished({**options, "checkpoint_max_age": 3600.0}))
        assert [table["table"] for table in batch["tables"]] == made.names
        assert one["command"] == ""
        migrate_here(engine, replace(config.each, database=made.schemas[0], table="orders"))
        number = table_numbers(made)
        kept = made.type_of("a"), made.type_of("b")
        report, told = batch_here(engine, config)
        assert (table_numbers(made), (made.type_of("a"), made.type_of("b"))) == (number, kept)
        assert report.exit_code == (0 if known else 1), told.text
        if not known:
            assert "may have been, changed since" in report.tables[0]["error"]


@pytest.mark.draws(3)
def test_a_table_that_is_gone_before_its_turn_is_named(four, engine):
    """Somebody dropped it between two runs; what is done may be gone without a word."""
    first, second, third, _ = four.names
    four.db.execute(f"INSERT INTO {second} (a) VALUES (NULL)")
    config = batch_config(four.db, four.pattern, alter="MODIFY a BIGINT NOT NULL")
    report, told = batch_here(engine, config)
    assert report.exit_code == 1, told.text
    four.db.execute(f"DROP TABLE {first}, {third}; UPDATE {second} SET a = 1 WHERE a IS NULL")
    plan = plan_batch(config)
    (warning,) = (line for line in plan.remarks() if "goes on without it" in line)
    assert third in warning
    report, told = batch_here(engine, config)
    assert report.exit_code == 0, told.text


@pytest.mark.slow
def test_a_batch_of_a_file_goes_on_without_tables_that_are_gone(db, engine, monkeypatch):
    """Its statements are right; what refuses the whole does not say that nothing was written."""
    with shards(db, 3, rows=20) as made:
        first, second, third = made.names
        db.execute(f"INSERT INTO {second} (a) VALUES (NULL)")
        script = "".join(f"ALTER TABLE {one} MODIFY a BIGINT NOT NULL;\n" for one in made.names)
        config = batch_config(db, statements=script, file="f")
        report, told = batch_here(engine, config)
        assert (report.exit_code, states(made)) == (1, ["done", "pending", "pending"]), told.text
        with monkeypatch.context() as patched:
            patched.setattr("spirit_py.batch.planning.free_bytes", lambda _: 0)
            with pytest.raises(MigrationFailure, match="what an earlier run did stays") as full:
                plan_batch(config)
            with pytest.raises(Refusal, match="where the new tables need"):
                plan_of_batch(config)
        assert full.value.exit_code == 1
        db.execute(f"DROP TABLE {first}, {second}")
        (warning,) = (one for one in plan_batch(config).remarks() if "goes on without it" in one)
        assert second in warning
        report, told = batch_here(engine, config)
        assert (report.exit_code, states(made)) == (0, []), told.text
        assert db.query(f"SHOW COLUMNS FROM {third} LIKE 'a'")[0][1] == "bigint"
        with pytest.raises(Refusal, match="2 statements of f cannot be executed"):
            plan_batch(config)


@pytest.mark.slow
def test_a_second_process_of_the_same_batch_is_refused(four, engine):
    """The first one holds the named lock of the batch."""
    config = batch_config(four.db, four.pattern, alter=REBUILD)
    plan = plan_batch(config)
    name = lock_name("batch", plan.name)
    options = connection_options(four.db)
    with (
        AdvisoryLock(options, name, stop=StopSwitch(), purpose="run of this batch"),
        pytest.raises(Refusal, match="another run of this batch"),
    ):
        run_batch(config, plan, reporter=RecordingReporter(), engine_factory=lambda _: engine)
    assert states(four) == []


@pytest.mark.slow
@pytest.mark.draws(3)
def test_status_shows_the_batch_until_it_is_done(four, engine):
    """Each table with its state, and the cause where one has failed."""
    bad = four.names[1]
    four.db.execute(f"UPDATE {bad} SET a = 6 WHERE a = 9")
    config = batch_config(four.db, four.pattern, alter="ADD UNIQUE KEY u (a)")
    batch_here(engine, config)
    options = connection_options(four.db)

    def shown(database="", table=""):
        found = batches(options, database=database, table=table)
        return [one for one in found if one.batch.startswith(four.db.name)]

    (one,) = shown()
    text = "\n".join(one.lines())
    assert f"{four.names[0]} done" in text
    assert f"{bad} pending: refused" in text
    assert "3 pending, 1 done" in text
    assert one.to_dict()["tables"][0]["state"] == "done"
    assert len(shown(four.schemas[2], "orders")) == 1
    assert shown(four.schemas[2], "other") == []
    four.db.execute(f"UPDATE {bad} SET a = 9 WHERE id = 6")
    batch_here(engine, config)
    assert shown() == []


@pytest.mark.slow
def test_sigint_ends_the_command_and_the_same_command_carries_on(four, listener):
    """The process says what is done and what is left, and its exit code is 130 (R16)."""
    # The held table keeps one of two threads; the other one must not end the batch meanwhile.
    four.db.execute(f"CREATE TABLE {four.schemas[3]}._orders_snt (id INT)")
    hold = listener.hold("cutover.renamed", 2)
    more = ("--parallel", "2")
    process = subprocess.Popen(
        words(four, REBUILD, *more),
        env=environment(four.db, **{points.VARIABLE: str(listener.path)}),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert hold.held.wait(4 * MINUTE)
    process.send_signal(signal.SIGINT)
    hold.release()
    _, said = process.communicate(timeout=2 * MINUTE)
    assert process.returncode == 130, said
    assert "the same command resumes" in said
    assert "hint: what is changed stays changed, and the other tables are intact" in said
    four.db.execute(f"DROP TABLE {four.schemas[3]}._orders_snt")
    again = subprocess.run(
        words(four, REBUILD, *more),
        env=environment(four.db),
        capture_output=True,
        text=True,
        timeout=4 * MINUTE,
        check=False,
    )
    assert again.returncode == 0, again.stderr
    assert "4 tables: 4 changed" in again.stderr
    assert set(map(tuple, four.tables().values())) == {("orders",)}


@pytest.mark.slow
@pytest.mark.draws(3)
def test_a_record_that_another_server_has_written_proves_nothing(four, engine):
    """A copied schema brings the record, and not the changes of other schemas' tables (R14)."""
    bad = four.names[1]
    four.db.execute(f"UPDATE {bad} SET a = 6 WHERE a = 9")
    config = batch_config(four.db, four.pattern, alter="ADD UNIQUE KEY u (a)")
    report, _ = batch_here(engine, config)
    four.db.execute(
        f"UPDATE {report.record} SET record = JSON_SET(record, '$.server_uuid',"
        " '11111111-2222-3333-4444-555555555555') WHERE id = 1"
    )
    with pytest.raises(Refusal, match="whose GTIDs do not show"):
        plan_batch(config)


@pytest.mark.draws(3)
def test_a_record_that_cannot_be_read_hides_nothing_else(four, engine):
    """``status`` names it; a batch of the same tables is refused."""
    bad = four.names[1]
    four.db.execute(f"UPDATE {bad} SET a = 6 WHERE a = 9")
    config = batch_config(four.db, four.pattern, alter="ADD UNIQUE KEY u (a)")
    report, _ = batch_here(engine, config)
    four.db.execute(f"UPDATE {report.record} SET record = '{{}}' WHERE id = 1")
    found = batches(connection_options(four.db), database="", table="")
    assert any(f"{report.record} cannot be read" in "".join(one.lines()) for one in found)
    with pytest.raises(Refusal, match="cannot be read"):
        plan_batch(config)


@pytest.mark.draws(3)
def test_the_plan_knows_what_becomes_of_unfinished_migrations(four, engine, monkeypatch):
    """One of another statement is refused before any table is changed; one of this is resumed.

    Neither was begun by a batch.
    """
    same, other = four.schemas[:2]
    alter = "MODIFY a BIGINT, FORCE"
    for schema, clauses in ((same, alter), (other, "ENGINE=InnoDB")):
        one = Interruption(monkeypatch)
        one.at(engine, four.db, "drain.begun", database=schema, table="orders", alter=clauses)
    config = batch_config(four.db, four.pattern, alter=alter)
    plan = plan_batch(config)
    assert plan.tables[0].action.startswith("resumed: stopped in")
    assert "an unfinished migration would be dropped" in plan.refused[0].refusals[0]
    assert len(plan.refused) == 1
    afresh = batch_config(four.db, four.pattern, alter=alter, start_afresh=True)
    assert plan_batch(afresh).refused == ()
    report, told = batch_here(engine, afresh)
    assert report.exit_code == 0, told.text
    assert report.tables[0]["report"]["resumed"].startswith("resumed")


@pytest.mark.slow
@pytest.mark.kills
def test_a_batch_that_is_resumed_needs_room_for_what_is_left_alone(
    db, engine, monkeypatch, listener
):
    """Of one table all is copied, and another is swapped already: neither needs any."""
    alter = "MODIFY a BIGINT, FORCE"
    with shards(db, 2, rows=20_000) as made:
        config = batch_config(db, made.pattern, alter=alter)
        before = plan_batch(config)
        # What is begun comes first.
        for schema in made.schemas:
            one = Interruption(monkeypatch)
            one.at(engine, db, "checksum.begin", database=schema, table="orders", alter=alter)
        kill_at(made, listener, alter, "cutover.renamed", 1)
        swapped, copied = plan_batch(config).tables
        assert all(sum(one.to_write) > 1 << 18 for one in before.tables)
        assert copied.copied
        assert copied.to_write[0] < before.tables[1].to_write[0] / 2
        assert not swapped.copied
        monkeypatch.setattr("spirit_py.batch.planning.free_bytes", lambda _: 1 << 18)
        assert plan_batch(config).room


@pytest.mark.slow
def test_a_migration_that_nothing_can_carry_on_holds_up_no_plan(four, engine, monkeypatch):
    """The batch gives it up, as migrate does, and the same command begins it anew."""
    alter = "MODIFY a BIGINT, FORCE"
    where = {"database": four.schemas[0], "table": "orders", "alter": alter}
    Interruption(monkeypatch).at(engine, four.db, "drain.begun", **where)
    four.db.execute(f"ALTER TABLE {four.names[0]} ADD COLUMN other INT")
    config = batch_config(four.db, four.pattern, alter=alter)
    plan = plan_batch(config)
    assert plan.refused == ()
    assert plan.tables[0].action.startswith("given up: another session changed the definition")
    report, told = batch_here(engine, config)
    assert report.exit_code == 1, told.text
    assert "another session changed the definition" in report.tables[0]["error"]
    report, told = batch_here(engine, config)
    assert report.exit_code == 0, told.text
    assert four.type_of("a") == ["bigint"] * 4


@pytest.mark.slow
@pytest.mark.kills
@pytest.mark.draws(2)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("alter", ["DROP COLUMN b", "RENAME COLUMN a TO c", "ADD COLUMN c INT"])
def test_killed_between_the_change_and_its_last_note_the_plan_does_not_ask_again(
    four, engine, listener, alter
):
    """The statement does not apply to the new definition; the plan says what is known (R17)."""
    # Four notes of the plan, then running, changed and done.
    kill_at(four, listener, alter, "batch.noting", 7, "--no-shortcut")
    assert states(four)[0] == TableState.CHANGED
    config = batch_config(four.db, four.pattern, alter=alter, no_shortcut=True)
    plan = plan_batch(config)
    assert plan.refused == ()
    assert f"{four.names[0]}: changed by an earlier run" in next(plan.tables[0].lines())
    report, told = batch_here(engine, config)
    assert report.exit_code == 0, told.text
    assert states(four) == []


@pytest.mark.slow
def test_a_later_change_of_a_table_does_not_make_the_batch_s_again(db):
    """Killed between the drop of its own checkpoint and the last note; then another one began."""
    with shards(db, 1, rows=2) as made, open_session(db) as session:
        schema = made.schemas[0]
        mine = f"ALTER TABLE `{schema}`.`orders` ADD INDEX (`a`)"
        noted = TableRecord(schema=schema, table="orders", statement=mine, state=TableState.CHANGED)
        checkpoint = CheckpointTable(schema, "orders")

        def step_beside(statement, position=""):
            record = CheckpointRecord(
                statement=statement,
                tables=(TableProgress(schema=schema, table="orders"),),
                server_uuid=str(session.value("SELECT @@server_uuid")),
                phase=Phase.PREFLIGHT.value,
                position=position,
            )
            checkpoint.create(session, record)
            return step_for(session, noted)

        assert step_beside(mine, "gtid;a;a:1-5") is Step.MIGRATE
        checkpoint.drop(session)
        assert step_beside(mine) is Step.PASS
        checkpoint.drop(session)
        assert step_beside(mine.replace("`a`", "`b`")) is Step.PASS
        session.execute(f"UPDATE {checkpoint.quoted} SET record = 'x' WHERE id = 1")
        assert step_for(session, noted) is Step.MIGRATE
        checkpoint.forget(session, CheckpointRecord)
        assert step_for(session, noted) is Step.PASS


@pytest.mark.slow
@pytest.mark.draws(3)
def test_a_batch_that_is_given_up_leaves_its_tables_and_their_migrations(four, engine):
    """Its record goes, after a question that says what it knows; nothing else does."""
    four.db.execute(f"INSERT INTO {four.names[1]} (a) VALUES (NULL)")
    config = batch_config(four.db, four.pattern, alter="MODIFY a BIGINT NOT NULL")
    report, told = batch_here(engine, config)
    assert report.exit_code == 1, told.text
    changed = batch_config(
        four.db,
        # The first one's schema has the record: one in a schema of others is not believed.
        statements="".join(f"ALTER TABLE {one} MODIFY a BIGINT;" for one in four.names[:2]),
        file="f",
    )
    with pytest.raises(Refusal, match="another, unfinished batch") as refused:
        plan_batch(changed)
    assert f"spirit-py cleanup --batch {report.record}" in refused.value.hint
    options = connection_options(four.db)
    said: list[str] = []
    before = four.tables()
    with pytest.raises(Refusal, match="nothing was dropped"):
        give_up_batch(options, batch=report.record, ask=lambda _: False, say=said.append)
    assert four.tables() == before
    assert f"  {four.names[0]} done" in said
    with (
        AdvisoryLock(
            options, lock_name("batch", report.record.split(".")[1]), stop=StopSwitch(), purpose="x"
        ),
        pytest.raises(Refusal, match="a process works on this batch"),
    ):
        give_up_batch(options, batch=report.record, ask=lambda _: True, say=said.append)
    for wrong in (four.names[0], f"{report.record}x"):
        with pytest.raises(Refusal, match="no record"):
            give_up_batch(options, batch=wrong, ask=lambda _: True, say=said.append)
    give_up_batch(options, batch=report.record, ask=lambda _: True, say=said.append)
    assert states(four) == []
    home, record = report.record.split(".")
    before[home].remove(record)
    assert four.tables() == before


@pytest.mark.slow
def test_a_batch_that_forgets_that_old_tables_stay_is_refused(four, listener):
    """Also for a table that was begun: the run would drop its old one at once."""
    kill_at(four, listener, REBUILD, "chunk.committed", 1, "--drop-old-after", "never")
    asked: dict[str, Any] = {"alter": REBUILD, "no_shortcut": True}
    (refused,) = plan_batch(batch_config(four.db, four.pattern, **asked)).refused
    assert "does not say for how long" in refused.refusals[0]
    again = batch_config(four.db, four.pattern, **asked, drop_old_after=math.inf)
    assert plan_batch(again).refused == ()


@pytest.mark.slow
@pytest.mark.draws(3)
@pytest.mark.kills
def test_a_batch_that_ended_after_it_was_planned_is_not_done_again(four, engine, listener):
    """A second operator, asked before the first one's run has ended, rebuilds nothing (R17)."""
    config = batch_config(four.db, four.pattern, alter=REBUILD)
    kill_at(four, listener, REBUILD, "batch.noted", 7)
    plan = plan_batch(config)
    report, told = batch_here(engine, config)
    assert report.exit_code == 0, told.text
    numbers = table_numbers(four)
    with pytest.raises(Refusal, match="given up, meanwhile"):
        run_batch(config, plan, reporter=RecordingReporter(), engine_factory=lambda _: engine)
    assert table_numbers(four) == numbers
    assert states(four) == []


@pytest.mark.parametrize("exact", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_batch_is_done_without_a_table_that_is_left_out(db, engine, exact):
    """The same command with --exclude ends a batch of which nothing else is left."""
    with shards(db, 2) as two:
        second = two.names[1]
        patterns = two.names if exact else [two.pattern]
        db.execute(f"ALTER TABLE {second} MODIFY id BIGINT NOT NULL, DROP PRIMARY KEY")
        config = batch_config(db, *patterns, alter=REBUILD, on_failure="continue")
        report, _ = batch_here(engine, config)
        assert (report.exit_code, states(two)) == (1, [TableState.DONE, TableState.PENDING])
        numbers = table_numbers(two)
        left_out = batch_config(db, *patterns, alter=REBUILD, exclude=(second,))
        report, _ = batch_here(engine, left_out)
        assert (report.exit_code, states(two)) == (0, [])
        assert table_numbers(two) == numbers


@pytest.mark.slow
def test_a_table_that_is_changed_is_passed_while_another_run_works_on_it(four, engine):
    """It began behind the plan; there is nothing to drop, so nothing is locked."""
    four.db.execute(f"INSERT INTO {four.names[1]} (a) VALUES (NULL)")
    config = batch_config(four.db, four.pattern, alter="MODIFY a BIGINT NOT NULL")
    report, told = batch_here(engine, config)
    assert (report.exit_code, states(four)[0]) == (1, TableState.DONE), told.text
    four.db.execute(f"DELETE FROM {four.names[1]} WHERE a IS NULL")
    with open_session(four.db) as session:
        # As a run that was killed behind the swap leaves it.
        store = BatchTable(*report.record.split("."))
        done = store.tables(session)[first := tuple(four.names[0].split("."))]
        store.note(session, replace(done, state=TableState.CHANGED.value))
    lock = lock_name("migration", *first)
    options = connection_options(four.db)
    plan, told = plan_batch(config), RecordingReporter()
    with AdvisoryLock(options, lock, stop=StopSwitch(), purpose="x"):
        report = run_batch(config, plan, reporter=told, engine_factory=lambda _: engine)
    assert report.exit_code == 0, told.text
