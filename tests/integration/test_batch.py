"""A batch: many tables, each by a migration of its own, under one plan and one report."""

from __future__ import annotations

import dataclasses
import gc
import json

import MySQLdb
import pytest

from spirit_py.batch import entry, store
from spirit_py.batch.batch import Batch, related_tables
from spirit_py.batch.entry import run_batch
from spirit_py.batch.planning import plan_batch, plan_of_batch
from spirit_py.batch.report import BatchReport
from spirit_py.batch.table_run import TableRun
from spirit_py.errors import Interrupted, Refusal, ServerFault
from spirit_py.events.run import RunEnded, TableEnded
from spirit_py.migration.control.command import control
from spirit_py.migration.run import Run
from spirit_py.mysql.faults import server_fault
from spirit_py.plan.earlier_run import statement_of
from spirit_py.plan.text import text_of
from spirit_py.preflight.preflight import prepare
from spirit_py.records import RecordOptions
from spirit_py.threads import StopSwitch
from tests.kits.batch import Batching, ShardWriters, batch_config, batch_here, shards
from tests.kits.connection import connection_options
from tests.kits.reporter import RecordingReporter
from tests.kits.resume import once_at
from tests.kits.tables import open_session

WIDER = "MODIFY a BIGINT, ADD COLUMN z INT NOT NULL DEFAULT 5, FORCE"


@pytest.fixture
def two(db):
    """Two small shards."""
    with shards(db, 2) as made:
        yield made


@pytest.fixture
def four(db):
    """Four shards."""
    with shards(db, 4) as made:
        yield made


def planned(config):
    """Return the plan, which writes nothing."""
    return plan_batch(config)


def states(report):
    """Return the state of each table of a report."""
    return {f"{one['schema']}.{one['table']}": one["state"] for one in report.tables}


# -- which tables


def test_a_pattern_finds_the_tables_and_leaves_others_out(four):
    """Other schemas, other tables, views and the program's own tables are none of them."""
    db, first = four.db, four.schemas[0]
    db.execute(
        f"CREATE VIEW {first}.v AS SELECT 1; CREATE TABLE {first}.other (id INT PRIMARY KEY)"
    )
    db.execute(f"CREATE TABLE {first}._orders_new (id INT PRIMARY KEY)")
    db.execute(
        f"CREATE TABLE {first}._orders_chkpnt (id INT) COMMENT='spirit-py checkpoint';"
        f"CREATE TABLE {first}._spirit_py_batch_1 (id INT, record TEXT) COMMENT='spirit-py batch'"
    )
    exact = batch_config(db, four.pattern, alter="FORCE", exclude=(f"`{first}`.orders",))
    assert [str(one.change) for one in planned(exact).tables] == four.names[1:]
    wild = batch_config(db, f"`{first}`.%", alter="FORCE")
    found = [str(one.change) for one in planned(wild).tables]
    assert found == [f"{first}.orders", f"{first}.other"]


@pytest.mark.parametrize("code", [1040, 1203, 1226, 1317])
def test_a_fault_that_is_about_no_table_ends_the_plan(two, monkeypatch, code):
    """It passes: the operator is not told to leave a table out for it."""
    _failing(monkeypatch, code)
    with pytest.raises(ServerFault, match=f"error {code}"):
        planned(batch_config(two.db, two.pattern, alter="FORCE"))


def test_a_table_whose_lock_is_waited_for_in_vain_is_refused_with_a_way_on(two, monkeypatch):
    """A dump may hold this one, and no other."""
    _failing(monkeypatch, 1205)
    for one in planned(batch_config(two.db, two.pattern, alter="FORCE")).tables:
        assert len(one.refusals) == 2
        assert one.refusals[1].startswith("hint: ")


def _failing(monkeypatch, code):
    def fail(*_):
        raise server_fault(Exception(code, "text of the server"), where="plan session")

    monkeypatch.setattr("spirit_py.batch.planning.prepare", fail)


def test_a_pattern_that_matches_nothing_is_an_error(two):
    """Also where another one does, and where everything it matches is left out."""
    db = two.db
    for config in (
        batch_config(db, two.pattern, f"{db.name}%.nothing", alter="FORCE"),
        batch_config(db, two.pattern, alter="FORCE", exclude=(two.pattern,)),
    ):
        with pytest.raises(Refusal, match="matches no table"):
            planned(config)


def test_a_misspelt_table_to_leave_out_is_an_error(two):
    """It would be changed."""
    wrong = f"{two.schemas[0]}.odrers"
    with pytest.raises(Refusal, match=f"--exclude {wrong} matches no table"):
        planned(batch_config(two.db, two.pattern, alter="FORCE", exclude=(wrong,)))


@pytest.mark.parametrize(
    ("what", "other"),
    [("odrers", {"fleet": "f" * 32}), ("odrers", {"excludes_surely": False}), ("%_bak", {})],
    ids=["fleet", "default", "pattern"],
)
def test_a_table_to_leave_out_that_may_be_missing_is_a_warning(two, what, other):
    """Another server of a fleet may have it, or another schema; a pattern may be a precaution."""
    wrong = f"{two.schemas[0]}.{what}"
    config = batch_config(two.db, two.pattern, alter="FORCE", exclude=(wrong,))
    plan = planned(dataclasses.replace(config, **other))
    assert any(f"({wrong}): --exclude matches no table" in line for line in plan.remarks())


def test_a_view_may_be_left_out(two):
    """It would be anyway."""
    two.db.execute(f"CREATE VIEW {two.schemas[0]}.orders_view AS SELECT 1")
    view = f"{two.schemas[0]}.orders_view"
    plan = planned(batch_config(two.db, two.pattern, alter="FORCE", exclude=(view,)))
    assert not any("--exclude" in line for line in plan.remarks())


def test_the_case_of_names_counts_as_on_the_server(two):
    """Where names differ by case, LIKE tells them apart as the server does."""
    db = two.db
    upper = two.pattern.replace("orders", "ORDERS")
    if db.query("SELECT @@lower_case_table_names") == [(0,)]:
        with pytest.raises(Refusal, match="matches no table"):
            planned(batch_config(db, upper, alter="FORCE"))
    else:
        assert len(planned(batch_config(db, upper, alter="FORCE")).tables) == 2


def test_a_foreign_key_of_other_columns_is_another_batch(two):
    """What is done of the one is not of the other; which schema is the first does not matter."""
    alter = "ADD CONSTRAINT f FOREIGN KEY ({}) REFERENCES orders (id)"
    one = planned(batch_config(two.db, two.pattern, alter=alter.format("a"))).name
    leaves = (f"`{two.schemas[0]}`.orders",)
    rest = batch_config(two.db, two.pattern, alter=alter.format("a"), exclude=leaves)
    assert planned(rest).name == one
    assert planned(batch_config(two.db, two.pattern, alter=alter.format("id"))).name != one


def test_the_plan_names_the_table_whose_definition_differs(four):
    """One of four has another type: it is shown, with both lines."""
    odd = four.names[2]
    four.db.execute(f"ALTER TABLE {odd} MODIFY b VARCHAR(60)")
    plan = planned(batch_config(four.db, four.pattern, alter="FORCE"))
    assert [bool(one.differs) for one in plan.tables] == [False, False, True, False]
    text = "\n".join([plan.counts(), *(line for one in plan.tables for line in one.lines())])
    assert "has `b` varchar(60)" in text
    assert "lacks `b` varchar(50)" in text
    assert "4 to change" in text


def test_the_plan_writes_nothing_and_refuses_all_together(two, engine):
    """Each table that cannot be changed is named before the first one is; the tables stay."""
    for schema in two.schemas:
        two.db.execute(f"DROP TABLE {schema}.orders; CREATE TABLE {schema}.orders (v INT)")
    before = two.tables()
    config = batch_config(two.db, two.pattern, alter="MODIFY v BIGINT")
    plan = planned(config)
    assert len(plan.refused) == 2
    with pytest.raises(Refusal, match="2 of 2 tables") as refused:
        run_batch(config, plan, reporter=RecordingReporter(), engine_factory=lambda _: engine)
    text = "\n".join(refused.value.details)
    assert all(name in text for name in two.names)
    assert two.tables() == before


def test_the_plan_knows_what_the_server_refuses(two):
    """The server's answer on an empty temporary table, before the first table is changed."""
    first, second = two.names
    two.db.execute(f"ALTER TABLE {second} ADD COLUMN c INT")
    before = two.tables()
    plan = planned(batch_config(two.db, two.pattern, alter="ADD COLUMN c INT"))
    (refused,) = plan.refused
    assert str(refused.change) == second
    assert "Duplicate column name 'c'" in refused.refusals[0]
    plan = planned(batch_config(two.db, two.pattern, alter="DROP KEY nowhere"))
    assert [str(one.change) for one in plan.refused] == [first, second]
    assert two.tables() == before


@pytest.mark.slow
def test_the_plan_leaves_to_the_migration_what_a_temporary_table_cannot_have(two):
    """Foreign keys, and partitions."""
    first, second = two.names
    two.db.execute(
        f"ALTER TABLE {first} ADD COLUMN o INT, ADD CONSTRAINT of_parent FOREIGN KEY (o)"
        f" REFERENCES {second} (id); CREATE TABLE {two.schemas[0]}.parts (id INT PRIMARY KEY,"
        " a INT, KEY (a)) PARTITION BY HASH (id) PARTITIONS 2"
    )
    for table, alter in (
        (first, "DROP FOREIGN KEY of_parent"),
        (first, "DROP CONSTRAINT of_parent"),
        (f"{two.schemas[0]}.parts", "DROP KEY a"),
    ):
        assert planned(batch_config(two.db, table, alter=alter)).refused == ()


def test_errors_of_a_file_name_their_lines(two):
    """All of them at once; nothing is written."""
    first, second = two.names
    script = (
        f"ALTER TABLE {first} FORCE;\nDROP TABLE {first};\n\nALTER TABLE nowhere.t FORCE;\n"
        f"ALTER TABLE {first} ADD COLUMN x INT;\nALTER TABLE orders FORCE;\n"
        f"ALTER TABLE {second} DROP COLUMN nothing;"
    )
    config = batch_config(two.db, statements=script, file="f.sql")
    with pytest.raises(Refusal, match="5 statement") as refused:
        planned(config)
    two_, four_, five, six, seven = refused.value.details
    assert two_.startswith("f.sql, line 2: ")
    assert "nowhere.t" in four_
    assert four_.startswith("f.sql, line 4: ")
    assert "f.sql, line 1" in five
    assert five.startswith("f.sql, line 5: ")
    assert "without a schema" in six
    assert seven.startswith("f.sql, line 7: the server refuses the ALTER: Can't DROP 'nothing'")


@pytest.mark.slow
def test_the_plan_of_a_batch_knows_how_each_table_changes(two):
    """What the server makes in place needs no room, and a mistake has its table's name."""
    first, second = two.names
    script = f"ALTER TABLE {first} ADD COLUMN n INT; ALTER TABLE {second} {{}};"
    configs = {
        clause: batch_config(two.db, statements=script.format(clause), file="f.sql")
        for clause in ("ADD COLUMN n INT", "MODIFY a BIGINT", "ADD COLUMN n INTT")
    }
    in_place, copied, _ = map(planned, configs.values())
    instant = "changed INSTANT, without copying a row (expected)"
    copy = "copied row by row, and swapped (expected)"
    assert [one.action for one in in_place.tables] == [instant, instant]
    assert [one.action for one in copied.tables] == [instant, copy]
    assert [bool(one.room) for one in (in_place, copied)] == [False, True]
    indexed = batch_config(
        two.db, statements=script.format("MODIFY a BIGINT, ADD INDEX (a)"), file="f.sql"
    )
    sizes = [one.tables[1].index_bytes for one in (copied, planned(indexed))]
    assert sizes[0] < sizes[1]
    lines = [line.text for line in text_of(plan_of_batch(configs["ADD COLUMN n INTT"]))]
    assert any(f"refusal: {second}: the server cannot read" in line for line in lines)
    assert not any(line.startswith("  disk") for line in lines)


@pytest.mark.slow
def test_a_file_changes_tables_of_all_kinds(two, engine):
    """USE, another delimiter, CREATE INDEX: each statement by a migration of its own."""
    one, other = two.schemas
    script = (
        f"USE {one};\nALTER TABLE orders ADD COLUMN z INT;\nDELIMITER //\n"
        f"CREATE INDEX i ON {other}.orders (a)//\n"
    )
    config = batch_config(two.db, statements=script, file="f.sql")
    report, told = batch_here(engine, config)
    assert report.exit_code == 0, told.text
    assert [one["report"]["algorithm"] for one in report.tables] == ["instant", "copy"]
    assert two.type_of("z") == ["int", ""]
    assert two.db.query(f"SHOW INDEX FROM {other}.orders WHERE Key_name = 'i'")
    assert two.tables() == {one: ["orders"], other: ["orders"]}


# -- how they run


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize("parallel", [1, 2])
def test_all_shards_change_under_writers(four, engine, tmp_path, parallel):
    """One after another, and two side by side: nothing is lost, repaired, or left behind."""
    file = tmp_path / "report.json"
    config = batch_config(
        four.db,
        four.pattern,
        alter=WIDER,
        parallel=parallel,
        records=RecordOptions(report_json=file),
        spark_master="x",
    )
    with ShardWriters(four) as writers:
        report, told = batch_here(engine, config)
    assert (report.outcome, report.exit_code) == ("done", 0), told.text
    writers.assert_kept()
    assert four.type_of("a") == ["bigint"] * 4
    assert four.type_of("z") == ["int"] * 4
    assert set(map(tuple, four.tables().values())) == {("orders",)}
    assert report.totals["chunks_repaired"] == report.totals["differences_found"] == 0, told.text
    written = json.loads(file.read_text())
    assert written["totals"]["rows_copied"] == sum(
        one["report"]["rows_copied"] for one in written["tables"]
    )
    assert [one["report"]["table"] for one in written["tables"]] == ["orders"] * 4
    assert {one["report"]["threads"] for one in written["tables"][:3]} == {2 // parallel}
    # Every line of every table names it.
    lines = [one.line for one in told.events if not isinstance(one, RunEnded)]
    assert [line for line in lines if not any(name in line for name in four.names)] == []
    ended = [one.table for one in told.named(TableEnded)]
    assert sorted(ended) == sorted(four.names)


@pytest.mark.draws(3)
def test_two_that_run_side_by_side_are_both_shown(four, engine):
    """A snapshot has each table that is under way."""
    # However fast they are copied, the first two wait here for each other.
    sentinels = [f"{schema}._orders_snt" for schema in four.schemas[:2]]
    for name in sentinels:
        four.db.execute(f"CREATE TABLE {name} (id INT)")
    config = batch_config(four.db, four.pattern, alter=WIDER, parallel=2, recheck_interval=3600.0)
    batching = Batching(engine, config)

    def shown():
        return [{one.table for one in status.tables} for status in batching.told.snapshots]

    batching.wait_until(lambda: set(four.names[:2]) in shown(), "both in one snapshot")
    for name in sentinels:
        four.db.execute(f"DROP TABLE {name}")
    assert batching.end().exit_code == 0, batching.told.text
    assert max(map(len, shown())) == 2


@pytest.mark.slow
@pytest.mark.parametrize("on_failure", ["stop", "continue"])
def test_a_table_that_fails_stops_the_batch_or_not(four, engine, on_failure):
    """Duplicates for a unique key in the second of four shards; the same command goes on."""
    bad = four.schemas[1]
    four.db.execute(f"UPDATE {bad}.orders SET a = 6 WHERE a = 9")
    config = batch_config(
        four.db, four.pattern, alter="ADD UNIQUE KEY u (a)", on_failure=on_failure
    )
    report, told = batch_here(engine, config)
    assert report.exit_code == 1, told.text
    failed = [one for one in report.tables if one["failed"]]
    assert [one["schema"] for one in failed] == [bad]
    found = list(states(report).values())
    left = ["done", "done"] if on_failure == "continue" else ["pending", "pending"]
    assert [found[0], *found[2:]] == ["done", *left]
    four.db.execute(f"UPDATE {bad}.orders SET a = 9 WHERE id = 6")
    again, told = batch_here(engine, config)
    assert (again.exit_code, again.runs) == (0, 2), told.text
    assert set(states(again).values()) == {"done"}
    assert not told.said(f"{four.schemas[0]}.orders: ALTER TABLE")
    assert set(map(tuple, four.tables().values())) == {("orders",)}


@pytest.mark.draws(3)
def test_tables_that_are_refused_are_reported_while_the_others_change(two, engine):
    """With ``--on-failure continue`` one that preflight refuses keeps no other back."""
    bad = two.schemas[0]
    two.db.execute(f"DROP TABLE {bad}.orders; CREATE TABLE {bad}.orders (a INT)")
    config = batch_config(two.db, two.pattern, alter="MODIFY a BIGINT", on_failure="continue")
    report, _ = batch_here(engine, config)
    assert report.exit_code == 1
    assert [one["outcome"] for one in report.tables] == ["refused", "done"]
    assert two.type_of("a") == ["int", "bigint"]


def test_tables_that_reference_each_other_are_known_as_related(two):
    """In both directions, across schemas; a table that references itself waits for nobody."""
    child, parent = two.schemas
    two.db.execute(
        f"CREATE TABLE {child}.c (id INT PRIMARY KEY, o INT, FOREIGN KEY (o) REFERENCES"
        f" {parent}.orders (id)); CREATE TABLE {child}.d (id INT PRIMARY KEY, up INT,"
        " FOREIGN KEY (up) REFERENCES d (id))"
    )
    names = {(child, "c"), (parent, "orders"), (child, "d"), (child, "orders")}
    with open_session(two.db) as session:
        found = related_tables(session, dict.fromkeys(names, ("", "")))
    assert found == {
        (child, "c"): frozenset({(parent, "orders")}),
        (parent, "orders"): frozenset({(child, "c")}),
    }
    two.db.execute(f"DROP TABLE {child}.c")


@pytest.mark.slow
def test_related_tables_are_never_migrated_at_once(four, engine, monkeypatch):
    """The first two of four: each waits for the other, and another table goes first."""
    first, second = ((schema, "orders") for schema in four.schemas[:2])
    pairs = {first: frozenset({second}), second: frozenset({first})}
    monkeypatch.setattr("spirit_py.batch.batch.related_tables", lambda *_: pairs)
    # The first one is under way until the others but the second have ended.
    sentinel = f"{four.schemas[0]}._orders_snt"
    four.db.execute(f"CREATE TABLE {sentinel} (id INT)")
    config = batch_config(four.db, four.pattern, alter=WIDER, parallel=2, recheck_interval=3600.0)
    batching = Batching(engine, config)

    def ended():
        return {one.table for one in batching.told.named(TableEnded)}

    def began():
        lines = [line for line in batching.told.lines if ": ALTER TABLE" in line]
        return {line.partition(":")[0] for line in lines}

    batching.wait_until(lambda: ended() == set(four.names[2:]), "the end of the other tables")
    assert began() == {four.names[0], *four.names[2:]}
    four.db.execute(f"DROP TABLE {sentinel}")
    assert batching.end().exit_code == 0
    assert began() == set(four.names)
    together = [{one.table for one in status.tables} for status in batching.told.snapshots]
    assert not any(set(four.names[:2]) <= names for names in together)


@pytest.mark.slow
def test_a_new_key_waits_for_the_migration_of_its_parent(two, engine):
    """No foreign key is there before the batch; beside its parent's migration it is refused."""
    parent, last = two.schemas
    two.db.execute(f"CREATE TABLE {parent}.items (id INT PRIMARY KEY, o INT, KEY (o))")
    sentinel = f"{parent}._orders_snt"
    two.db.execute(f"CREATE TABLE {sentinel} (id INT)")
    statements = (
        f"ALTER TABLE {parent}.orders {WIDER};"
        f" ALTER TABLE {parent}.items ADD CONSTRAINT k FOREIGN KEY (o) REFERENCES orders (id);"
        f" ALTER TABLE {last}.orders {WIDER};"
    )
    config = batch_config(
        two.db, statements=statements, file="f", parallel=2, recheck_interval=3600.0
    )
    batching = Batching(engine, config)

    def ended():
        return [one.table for one in batching.told.named(TableEnded)]

    batching.wait_until(ended, "the end of a table")
    assert ended() == [f"{last}.orders"], batching.told.text
    two.db.execute(f"DROP TABLE {sentinel}")
    assert batching.end().exit_code == 0, batching.told.text
    two.db.execute(f"ALTER TABLE {parent}.items DROP FOREIGN KEY k")


@pytest.mark.draws(3)
def test_parents_and_children_keep_their_keys(two, engine):
    """Each schema has a table that references ``orders``; all four change, two at a time."""
    for schema in two.schemas:
        two.db.execute(
            f"CREATE TABLE {schema}.items (id INT PRIMARY KEY AUTO_INCREMENT, o INT NOT NULL,"
            f" CONSTRAINT item_of FOREIGN KEY (o) REFERENCES {schema}.orders (id)"
            " ON DELETE CASCADE)"
        )
        two.db.execute(f"INSERT INTO {schema}.items (o) SELECT id FROM {schema}.orders")
    before = [two.db.query(f"SHOW CREATE TABLE {schema}.items")[0][1] for schema in two.schemas]
    both = (two.pattern, two.pattern.replace("orders", "items"))
    config = batch_config(two.db, *both, alter="ENGINE=InnoDB", parallel=2)
    report, told = batch_here(engine, config)
    assert report.exit_code == 0, told.text
    assert len(report.tables) == 4
    after = [two.db.query(f"SHOW CREATE TABLE {schema}.items")[0][1] for schema in two.schemas]
    assert after == before
    for schema in two.schemas:
        two.db.execute(f"DELETE FROM {schema}.orders LIMIT 10")
        assert two.db.query(
            f"SELECT COUNT(*) FROM {schema}.items i LEFT JOIN {schema}.orders p ON p.id = i.o"
            " WHERE p.id IS NULL"
        ) == [(0,)]
        with pytest.raises(MySQLdb.IntegrityError):
            two.db.execute(f"INSERT INTO {schema}.items (o) VALUES (-1)")
    assert set(map(tuple, two.tables().values())) == {("items", "orders")}


@pytest.mark.draws(3)
def test_a_dry_run_rehearses_each_and_leaves_nothing(two, engine):
    """Each table is rehearsed; neither a record nor anything else stays."""
    before = two.tables()
    config = batch_config(two.db, two.pattern, alter=WIDER, dry_run=True)
    report, _ = batch_here(engine, config)
    assert (report.outcome, report.exit_code, report.record) == ("rehearsed", 0, "")
    assert all(one["report"]["rehearsal"] for one in report.tables)
    assert two.tables() == before
    assert two.type_of("z") == ["", ""]


@pytest.mark.slow
@pytest.mark.draws(3)
def test_the_memory_is_that_of_the_tables_under_way(db, engine, monkeypatch):
    """What a migration held is gone when it has ended: of many tables only the reports are kept."""
    with shards(db, 12, rows=10) as made:
        alive = []
        executed = []
        execute = TableRun.execute

        def counted(self):
            execute(self)
            executed.append(1)
            if len(executed) % 4 == 0:
                gc.collect()
                # Not isinstance, which asks proxies of other libraries, such as lazy settings.
                alive.append(sum(type(one) is Run for one in gc.get_objects()))

        monkeypatch.setattr(TableRun, "execute", counted)
        report, told = batch_here(engine, batch_config(db, made.pattern, alter="ADD COLUMN z INT"))
        assert report.exit_code == 0, told.text
        assert len(executed) == 12
        assert max(alive) <= 2, alive


@pytest.mark.draws(3)
def test_another_batch_of_the_same_tables_is_refused_while_one_is_not_done(two, engine):
    """Which tables the first one has changed would be forgotten."""
    bad = two.schemas[1]
    two.db.execute(f"UPDATE {bad}.orders SET a = 6 WHERE a = 9")
    config = batch_config(two.db, two.pattern, alter="ADD UNIQUE KEY u (a)")
    report, _ = batch_here(engine, config)
    assert report.record
    other = batch_config(two.db, two.pattern, alter="ENGINE=InnoDB")
    with pytest.raises(Refusal, match="another, unfinished batch has 2 of these tables") as refused:
        planned(other)
    assert f", and has changed 1 ({two.schemas[0]}.orders):" in refused.value.message
    assert report.record in refused.value.hint
    two.db.execute(f"DROP TABLE {report.record}")
    assert len(planned(other).left) == 2


@pytest.mark.parametrize(
    "clause",
    ["EXCHANGE PARTITION P1 WITH TABLE x", "ADD CONSTRAINT k FOREIGN KEY (V) REFERENCES x (id)"],
)
def test_a_batch_knows_the_checkpoint_of_a_statement_that_names_another_table(db, clause):
    """However it names that one: otherwise a killed EXCHANGE leaves its checkpoint for ever."""
    db.execute("CREATE TABLE x (id INT PRIMARY KEY, v INT, KEY (v)); CREATE TABLE p LIKE x")
    db.execute("ALTER TABLE p PARTITION BY RANGE (id) (PARTITION p1 VALUES LESS THAN (9))")
    config = batch_config(db, statements=f"ALTER TABLE p {clause};", file="f", database=db.name)
    (one,) = planned(config).tables
    with open_session(db) as session:
        contexts = prepare(session, one.change.config(config.each))
        assert one.change.normalized == statement_of(contexts)


def test_another_batch_that_ends_meanwhile_ends_no_plan(two, monkeypatch):
    """Its record was listed, and is dropped before it is read."""
    config = batch_config(two.db, two.pattern, alter="ADD COLUMN n INT")
    own, other = planned(config).name, "_spirit_py_batch_1"
    gone = [(schema, name) for schema in two.schemas for name in (own, other)]
    monkeypatch.setattr(
        store, "marked_tables", lambda _, name="": [one for one in gone if name in {"", one[1]}]
    )
    assert len(planned(config).left) == 2


@pytest.mark.draws(3)
def test_two_batches_that_were_planned_at_once_do_not_both_begin(two, engine):
    """The second one looks again once its own record is there, and takes that back."""
    first = batch_config(two.db, two.pattern, alter="ENGINE=InnoDB")
    second = batch_config(two.db, two.pattern, alter="FORCE")
    plan = planned(second)
    with entry._opened(first, planned(first), BatchReport(versions={}), StopSwitch()) as (store, _):
        before = two.tables()
        with pytest.raises(Refusal, match="another, unfinished batch"):
            run_batch(second, plan, reporter=RecordingReporter(), engine_factory=lambda _: engine)
        assert two.tables() == before
        assert store is not None
        with open_session(two.db) as session:
            store.drop(session)


@pytest.mark.slow
def test_a_stop_request_ends_all_and_the_same_command_carries_on(four, engine, monkeypatch):
    """As by SIGINT: what is under way is kept, what is done is done, the rest is left."""
    config = batch_config(four.db, four.pattern, alter=WIDER, parallel=2)
    with ShardWriters(four) as writers:
        stop = StopSwitch()
        once_at(monkeypatch, "chunk.committed", lambda: stop.request(Interrupted(2)))
        report = Batching(engine, config, stop).end()
        assert (report.outcome, report.exit_code) == ("interrupted", 130)
        assert report.record
        again, told = batch_here(engine, config)
    assert again.exit_code == 0, told.text
    assert any(one["report"]["resumed"] for one in again.tables), told.text
    writers.assert_kept()
    assert set(map(tuple, four.tables().values())) == {("orders",)}


@pytest.mark.slow
def test_a_stop_request_behind_the_last_table_changes_no_outcome(two, engine, monkeypatch):
    """Nothing is left to be resumed: the same command would make the change a second time."""
    stop = StopSwitch()
    end = Batch._end

    def ended(batch, name):
        end(batch, name)
        if not batch._waiting:
            stop.request(Interrupted(2))

    monkeypatch.setattr(Batch, "_end", ended)
    config = batch_config(two.db, two.pattern, alter="ADD INDEX (a)")
    report = Batching(engine, config, stop).end()
    assert (report.outcome, report.exit_code) == ("done", 0)
    assert [one["state"] for one in report.tables] == ["done", "done"]


@pytest.mark.slow
@pytest.mark.draws(3)
def test_an_operator_ends_one_table_and_the_others_go_on(two, engine):
    """``ctl abort`` reaches the migration of one table; that one is resumed later."""
    first, second = two.schemas
    two.db.execute(f"CREATE TABLE {first}._orders_snt (id INT)")
    config = batch_config(
        two.db, two.pattern, alter=WIDER, parallel=2, on_failure="continue", recheck_interval=3600.0
    )
    batching = Batching(engine, config)

    def waits():
        seen = batching.told.snapshots[-1:]
        return any("to be dropped" in one.waiting_for for status in seen for one in status.tables)

    batching.wait_until(waits, "the wait for the sentinel")
    options = connection_options(two.db)
    control(options, database=first, table="orders", verb="abort", arguments={}, say=print)
    report = batching.end()
    assert report.exit_code == 1
    assert [one["outcome"] for one in report.tables] == ["interrupted", "done"]
    assert two.tables()[second] == ["orders"]
    two.db.execute(f"DROP TABLE {first}._orders_snt")
    again, told = batch_here(engine, config)
    assert again.exit_code == 0, told.text
    assert again.tables[0]["report"]["resumed"], told.text
    assert set(map(tuple, two.tables().values())) == {("orders",)}


@pytest.mark.slow
@pytest.mark.draws(3)
def test_what_every_table_would_meet_stops_the_batch(four, engine):
    """A critical load ends one migration; the next one is not begun to meet it too."""
    # However fast the first table is copied, its migration waits here until the load is looked at.
    sentinel = f"{four.schemas[0]}._orders_snt"
    four.db.execute(f"CREATE TABLE {sentinel} (id INT)")
    config = batch_config(
        four.db,
        four.pattern,
        alter=WIDER,
        on_failure="continue",
        critical_load=(("Threads_connected", 1.0),),
        recheck_interval=3600.0,
    )
    report, told = batch_here(engine, config)
    assert report.exit_code == 1, told.text
    assert "Threads_connected" in report.tables[0]["error"]
    assert [one["outcome"] for one in report.tables[1:]] == ["", "", ""]
    four.db.execute(f"DROP TABLE {sentinel}")
    config = batch_config(four.db, four.pattern, alter=WIDER)
    report, told = batch_here(engine, config)
    assert report.exit_code == 0, told.text
