"""Clauses about partitions that the server makes: in place, asked for where rows go, proven."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.codes import ErrorCode
from spirit_py.errors import OutcomeUnknown, Refusal, ServerFault, SpiritError
from spirit_py.frameworks import online
from spirit_py.migration.in_place import Shortcut
from spirit_py.mysql.tables.partitions import PartitionProof, partitions_of
from spirit_py.plan import make_plan
from spirit_py.statement import alter_of
from spirit_py.table.names import lock_name
from tests.kits.command import command_line, environment, run
from tests.kits.locking import turns_on
from tests.kits.lost_answer import LosesTheAnswer
from tests.kits.migrate import Migrating, config_for
from tests.kits.schema_tools import open_schema_tools
from tests.kits.waiting import until

#: Without a key: nothing is copied, so none is needed.
TABLE = """
CREATE TABLE t (id INT NOT NULL, day INT NOT NULL, v INT) PARTITION BY RANGE (day)
(PARTITION p0 VALUES LESS THAN (10), PARTITION P1 VALUES LESS THAN (20),
 PARTITION `p 2` VALUES LESS THAN (30))"""
OTHER = "CREATE TABLE x (id INT NOT NULL, day INT NOT NULL, v INT)"

ADD = "ADD PARTITION (PARTITION p3 VALUES LESS THAN (40), PARTITION p4 VALUES LESS THAN MAXVALUE)"
DROP = "DROP PARTITION p0, p1"
TRUNCATE = "TRUNCATE PARTITION p1"
EXCHANGE = "EXCHANGE PARTITION p1 WITH TABLE x"
#: Keys that are odd lie in the second part of a partition.
PARTS = (
    "PARTITION BY RANGE (v) SUBPARTITION BY HASH (id) SUBPARTITIONS 2"
    " (PARTITION p0 VALUES LESS THAN (100), PARTITION p1 VALUES LESS THAN (200))"
)
CLAUSES = (ADD, DROP, TRUNCATE, "TRUNCATE PARTITION ALL", EXCHANGE)
NAMES = ("p0", "P1", "p 2")
ROWS = ((1, 1, 1), (2, 11, 2), (3, 21, 3))


@pytest.fixture
def desk(db):
    """Open a desk in a schema with a table of three partitions, a row in each, and another one."""
    db.execute(TABLE)
    db.execute(OTHER)
    db.execute("INSERT INTO t VALUES (1, 1, 1), (2, 11, 2), (3, 21, 3)")
    with open_schema_tools(db) as found:
        yield found


def names_of(desk) -> tuple[str, ...]:
    """Return the names of the table's partitions."""
    return tuple(one.name for one in partitions_of(desk.session, desk.schema, "t"))


def rows_of(db, table: str = "t") -> tuple[tuple[int, ...], ...]:
    """Return a table's rows."""
    return tuple(db.query(f"SELECT * FROM {table} ORDER BY id"))


def migrate(db, engine, alter: str, **more: Any):
    """Carry out a clause, which may take rows."""
    given = {"allow_data_loss": True, **more}
    return Migrating(engine, config_for(db, table="t", alter=alter, **given)).end()


@pytest.mark.parametrize(
    ("alter", "names", "rows", "others"),
    [
        (ADD, (*NAMES, "p3", "p4"), ROWS, ()),
        (DROP, ("p 2",), ROWS[2:], ()),
        (TRUNCATE, NAMES, (ROWS[0], ROWS[2]), ()),
        ("TRUNCATE PARTITION ALL", NAMES, (), ()),
        (EXCHANGE, NAMES, (ROWS[0], ROWS[2]), (ROWS[1],)),
        (f"{EXCHANGE} WITHOUT VALIDATION", NAMES, (ROWS[0], ROWS[2]), (ROWS[1],)),
    ],
)
def test_the_server_makes_it_in_place(db, desk, engine, alter, names, rows, others):
    """The partitions that are not named keep their rows; no table of the program's stays."""
    report = migrate(db, engine, alter)
    assert report.algorithm == "inplace"
    assert names_of(desk) == names
    assert rows_of(db) == rows
    assert rows_of(db, "x") == others
    assert {name for (name,) in db.query("SHOW TABLES")} == {"t", "x"}


@pytest.mark.parametrize("alter", [DROP, TRUNCATE, EXCHANGE])
def test_rows_go_only_where_that_was_asked_for_twice(db, desk, engine, alter):
    """The refusal counts them; the plan says the same, and warns where it was asked for."""
    config = config_for(db, table="t", alter=alter)
    with pytest.raises(Refusal, match=r"[12] rows? \(") as refused:
        migrate(db, engine, alter, allow_data_loss=False)
    assert refused.value.error_code is ErrorCode.ROWS_WOULD_GO
    assert (names_of(desk), rows_of(db)) == (NAMES, ROWS)
    assert [one.code for one in make_plan(config).refusals] == [ErrorCode.ROWS_WOULD_GO]
    plan = make_plan(replace(config, allow_data_loss=True))
    assert not plan.refusals
    assert plan.tables[0].method.algorithm == "inplace"
    assert any("row" in one.cause for one in plan.warnings)


@pytest.mark.parametrize(
    ("alter", "more", "says"),
    [
        ("DROP PARTITION p0, nonesuch", {}, "no partition nonesuch; it has p0, P1, p 2"),
        (DROP, {"no_shortcut": True}, "made by the server alone"),
        (DROP, {"keep_old_current": 60.0}, "made by the server alone"),
        (DROP, {"defer_cutover": True}, "made by the server alone"),
        ("EXCHANGE PARTITION p0 WITH TABLE nonesuch", {}, "no table .*nonesuch"),
        ("DROP PARTITION p0, p1, `p 2`", {}, "Cannot remove all partitions"),
        ("ADD PARTITION (PARTITION p3 VALUES LESS THAN (5))", {}, "strictly increasing"),
    ],
)
def test_what_cannot_be_made_is_refused(db, desk, engine, alter, more, says):
    """Nothing is changed."""
    with pytest.raises(Refusal, match=says):
        migrate(db, engine, alter, **more)
    assert (names_of(desk), rows_of(db)) == (NAMES, ROWS)


def test_a_table_without_partitions_has_none_to_drop(db, engine):
    """The plan and the run say so."""
    db.execute(OTHER.replace("x", "t", 1))
    with pytest.raises(Refusal, match="has no partitions"):
        migrate(db, engine, DROP)


@pytest.mark.parametrize("alter", CLAUSES)
def test_a_dry_run_changes_nothing(db, desk, engine, alter):
    """It asks about an empty copy; of EXCHANGE it must not, the copy would get the other's rows."""
    db.execute("INSERT INTO x VALUES (9, 12, 9)")
    report = migrate(db, engine, alter, dry_run=True)
    assert report.algorithm == "inplace"
    assert (names_of(desk), rows_of(db), rows_of(db, "x")) == (NAMES, ROWS, ((9, 12, 9),))
    assert {name for (name,) in db.query("SHOW TABLES")} == {"t", "x"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("partitions", "alter", "more"),
    [
        ("PARTITION BY HASH (id) PARTITIONS 2", "ADD PARTITION PARTITIONS 2", {}),
        (
            "PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (10))",
            "ADD PARTITION (PARTITION b VALUES LESS THAN (20))",
            {"no_shortcut": True},
        ),
    ],
)
def test_what_the_server_would_copy_is_copied(db, engine, partitions, alter, more):
    """Rows of HASH and KEY move between partitions; a copy that is asked for is made."""
    db.execute(f"CREATE TABLE t (id INT PRIMARY KEY) {partitions}")
    db.execute("INSERT INTO t VALUES (1), (2), (3)")
    assert migrate(db, engine, alter, **more).algorithm == "copy"
    assert rows_of(db) == ((1,), (2,), (3,))


def attempt(desk, native: Any, alter: str, turns) -> str | None:
    """Send a clause in a session whose answer may be lost; return how it was made."""
    statement = alter_of(desk.schema, "t", alter)
    return (
        Shortcut(
            native,
            desk.session,
            desk.table(),
            statement,
            turns,
            proof=PartitionProof(desk.session, (desk.schema, "t"), statement.parsed[0]),
        )
        .try_all()
        .algorithm
    )


@pytest.mark.parametrize("alter", [ADD, DROP, TRUNCATE, EXCHANGE])
def test_a_lost_answer_is_found_out_by_the_numbers_of_the_partitions(db, desk, alter):
    """R25: the one that was made is known as made, also where the definition is the same."""
    native: Any = LosesTheAnswer(desk, db)
    assert attempt(desk, native, alter, turns_on(desk)) == "inplace"


@pytest.mark.parametrize(
    ("instead", "made"),
    [
        ("", True),
        ("SELECT 1", False),
        ("ALTER TABLE t EXCHANGE PARTITION p0sp0 WITH TABLE x", None),
        ("ALTER TABLE t TRUNCATE PARTITION p0", None),
    ],
    ids=["made", "not made", "another part", "emptied"],
)
def test_a_part_of_a_partition_is_exchanged_alone(db, desk, engine, instead, made):
    """R25: of a table with subpartitions the server exchanges these, and others are not touched."""
    db.execute(f"ALTER TABLE t {PARTS}")
    clause = "EXCHANGE PARTITION p0sp1 WITH TABLE x"
    native: Any = LosesTheAnswer(desk, db, instead=instead)
    if made:
        assert attempt(desk, native, clause, turns_on(desk)) == "inplace"
        assert rows_of(db, "x") == (ROWS[0], ROWS[2])
        assert migrate(db, engine, clause).algorithm == "inplace"
        assert (rows_of(db), rows_of(db, "x")) == (ROWS, ())
        return
    with pytest.raises(ServerFault if made is False else OutcomeUnknown):
        attempt(desk, native, clause, turns_on(desk))
    with pytest.raises(Refusal, match="it has p0sp0, p0sp1, p1sp0, p1sp1"):
        migrate(db, engine, "EXCHANGE PARTITION p0 WITH TABLE x")


@pytest.mark.parametrize("alter", CLAUSES)
def test_what_was_not_made_is_not_called_done(db, desk, alter):
    """R25: exit code 1, and nothing is changed."""
    native: Any = LosesTheAnswer(desk, db, instead="SELECT 1")
    with pytest.raises(ServerFault) as ended:
        attempt(desk, native, alter, turns_on(desk))
    assert ended.value.exit_code == 1
    assert (names_of(desk), rows_of(db)) == (NAMES, ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("alter", CLAUSES)
@pytest.mark.parametrize(
    "instead",
    [
        "ALTER TABLE t DROP PARTITION `p 2`",
        "ALTER TABLE t TRUNCATE PARTITION p0",
        "ALTER TABLE t ADD PARTITION (PARTITION other VALUES LESS THAN (99))",
        "ALTER TABLE t ADD COLUMN other INT, ALGORITHM=COPY",
        "ALTER TABLE t FORCE",
        "DROP TABLE t",
    ],
)
def test_another_change_is_not_taken_for_it(db, desk, alter, instead):
    """R25: exit code 3 where others have changed the partitions meanwhile."""
    native: Any = LosesTheAnswer(desk, db, instead=instead)
    with pytest.raises(SpiritError) as ended:
        attempt(desk, native, alter, turns_on(desk))
    assert isinstance(ended.value, OutcomeUnknown)
    assert ended.value.exit_code == 3


@pytest.mark.slow
def test_nothing_is_requested_while_a_query_is_in_front(db, desk, engine):
    """R23: writers do not wait behind it meanwhile; the partition goes when the query has ended."""
    reader, writer = db.connect(), db.connect()
    reader.query("BEGIN")
    reader.query("INSERT INTO t VALUES (9, 22, 9)")
    run = Migrating(
        engine, config_for(db, table="t", alter="DROP PARTITION p0", allow_data_loss=True)
    )
    run.wait_until(lambda: "is not requested while" in run.told.text, "wait")
    writer.query("SET SESSION lock_wait_timeout = 1")
    writer.query("INSERT INTO t VALUES (4, 22, 4)")
    writer.commit()
    reader.rollback()
    assert run.end().algorithm == "inplace"
    assert rows_of(db) == (*ROWS[1:], (4, 22, 4))


@pytest.mark.slow
def test_an_exchange_is_not_made_a_second_time(db, desk, tmp_path):
    """A killed run may have made it; made again, it would bring the rows back."""
    reader = db.connect()
    reader.query("BEGIN")
    reader.query("INSERT INTO x VALUES (9, 15, 9)")
    words = ("migrate", "--alter", EXCHANGE, "--allow-data-loss")
    log = tmp_path / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command_line(db, words[0], "--table", "t", *words[1:]),
            env=environment(db),
            stdout=stream,
            stderr=stream,
        )
    until(lambda: "is not requested while" in log.read_text(), "wait of the run")
    process.kill()
    process.wait()
    reader.rollback()
    others = (EXCHANGE, EXCHANGE.replace("TABLE x", f"TABLE {db.name}.x"), "DROP PARTITION p0")
    for more in (*((one,) for one in others), ("DROP PARTITION p0", "--dry-run")):
        again = run(db, "migrate", "--alter", *more, "--allow-data-loss", "--start-afresh")
        assert again.returncode == 2, again.stderr
        assert "was killed, and may have made it" in again.stderr
    assert rows_of(db) == ROWS
    cleaned = run(db, "cleanup", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert run(db, *words).returncode == 0
    assert rows_of(db, "x") == ROWS[1:2]


def test_a_table_that_another_run_works_on_is_not_exchanged(db, desk, engine):
    """Its rows would go while they are copied."""
    other = db.connect()
    name = lock_name("migration", db.name, "x")
    other.query(f"SELECT GET_LOCK('{name}', 0)")
    other.store_result()
    with pytest.raises(Refusal, match=r"another run works on .*x .*which the statement names"):
        migrate(db, engine, EXCHANGE)
    assert rows_of(db) == ROWS


@pytest.mark.slow
def test_the_other_table_is_not_migrated_while_an_exchange_waits(db, desk, engine):
    """The exchange would take its rows from under the copy."""
    reader = db.connect()
    reader.query("BEGIN")
    reader.query("INSERT INTO t VALUES (9, 22, 9)")
    run = Migrating(engine, config_for(db, table="t", alter=EXCHANGE, allow_data_loss=True))
    run.wait_until(lambda: "is not requested while" in run.told.text, "wait")
    with pytest.raises(Refusal, match=r"another migration of .*\.x is running"):
        Migrating(engine, config_for(db, table="x", alter="FORCE")).end()
    reader.rollback()
    assert run.end().algorithm == "inplace"
    assert rows_of(db, "x") == ROWS[1:2]


def test_an_exchange_of_which_nobody_knows_is_not_made_again(db, desk, engine, monkeypatch):
    """R25: exit code 3, and the record stays until somebody has looked."""
    with monkeypatch.context() as patched:
        patched.setattr(PartitionProof, "happened", lambda *_, **__: False)
        with pytest.raises(OutcomeUnknown):
            migrate(db, engine, EXCHANGE)
    assert rows_of(db, "x") == ROWS[1:2]
    with pytest.raises(Refusal, match="may have made it"):
        migrate(db, engine, EXCHANGE)
    assert rows_of(db, "x") == ROWS[1:2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "spoil",
    [
        # As a later version writes it, of a field that this one does not know.
        "UPDATE _t_chkpnt SET record = JSON_SET(record, '$.more', 1) WHERE id = 1",
        "TRUNCATE TABLE _t_chkpnt",
    ],
)
def test_an_exchange_whose_record_cannot_be_read_is_not_made_again(
    db, desk, engine, monkeypatch, spoil
):
    """A killed run may have made it, and nothing shows that: somebody has to look."""
    with monkeypatch.context() as patched:
        patched.setattr(PartitionProof, "happened", lambda *_, **__: False)
        with pytest.raises(OutcomeUnknown):
            migrate(db, engine, EXCHANGE)
    db.execute(spoil)
    for _ in range(2):
        with pytest.raises(Refusal, match="may not be made twice"):
            migrate(db, engine, EXCHANGE)
    assert rows_of(db, "x") == ROWS[1:2]
    cleaned = run(db, "cleanup", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    migrate(db, engine, EXCHANGE)
    assert rows_of(db) == ROWS


def test_names_that_look_alike_are_told_apart(db, engine):
    """InnoDB keeps letters outside of ASCII in a code of its own."""
    db.execute(
        "CREATE TABLE t (id INT) PARTITION BY LIST (id) (PARTITION `東京` VALUES IN (1),"
        " PARTITION `大阪` VALUES IN (2), PARTITION pé VALUES IN (3), PARTITION pü VALUES IN (4))"
    )
    db.execute("INSERT INTO t VALUES (1), (2), (3), (4)")
    assert migrate(db, engine, "DROP PARTITION `東京`").algorithm == "inplace"
    assert migrate(db, engine, "TRUNCATE PARTITION pé").algorithm == "inplace"
    assert rows_of(db) == ((2,), (4,))


def test_a_table_named_validation_is_exchanged(db, desk, engine):
    """The word behind the table is no part of its name."""
    db.execute("RENAME TABLE x TO validation")
    migrate(db, engine, "EXCHANGE PARTITION p1 WITH TABLE validation")
    assert rows_of(db, "validation") == ROWS[1:2]


@pytest.mark.slow
def test_the_other_table_may_change_while_it_is_waited_for(db, desk, engine):
    """What is exchanged is what is there when the clause is sent."""
    reader = db.connect()
    reader.query("BEGIN")
    reader.query("INSERT INTO t VALUES (9, 22, 9)")
    run = Migrating(engine, config_for(db, table="t", alter=EXCHANGE, allow_data_loss=True))
    run.wait_until(lambda: "is not requested while" in run.told.text, "wait")
    db.execute("TRUNCATE x")
    reader.rollback()
    assert run.end().algorithm == "inplace"
    assert rows_of(db, "x") == ROWS[1:2]


def test_a_revision_makes_no_exchange():
    """No definition shows that it was made, so a step of it would be made again."""
    with pytest.raises(Refusal, match="a revision cannot make"):
        online._with_present_names(
            None,  # type: ignore[arg-type]
            SimpleNamespace(schema="s", sql_mode=""),  # type: ignore[arg-type]
            f"ALTER TABLE t {EXCHANGE}",
        )


def test_an_operator_who_defers_it_ends_it(db, desk, engine):
    """Only a copy can wait for the operator: the run ends, and nothing is changed."""
    db.execute("CREATE TABLE _t_snt (id INT)")
    with pytest.raises(SpiritError, match=r"was not made: table .*_t_snt defers") as ended:
        migrate(db, engine, DROP)
    assert ended.value.exit_code == 1
    assert names_of(desk) == NAMES


def test_subpartitions_are_part_of_it(db, engine):
    """All numbers of a partition that is divided go or change together."""
    db.execute(
        "CREATE TABLE t (id INT NOT NULL, day INT NOT NULL) PARTITION BY RANGE (day)"
        " SUBPARTITION BY HASH (id) SUBPARTITIONS 3"
        " (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"
    )
    db.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 11)")
    assert migrate(db, engine, "TRUNCATE PARTITION p0").algorithm == "inplace"
    assert rows_of(db) == ((3, 11),)
    assert migrate(db, engine, "DROP PARTITION p0").algorithm == "inplace"
    assert rows_of(db) == ((3, 11),)
