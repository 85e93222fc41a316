"""A stopped migration outlives the migrations, the reverts and the batches of related tables."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from spirit_py.batch.planning import plan_of_batch
from spirit_py.config import RevertConfig
from spirit_py.errors import Refusal
from spirit_py.migration.reverse.keeper import ReverseReplicationLost
from spirit_py.migration.reverse.revert import Revert
from spirit_py.plan import make_plan
from spirit_py.threads import StopSwitch
from tests.kits.batch import batch_config, batch_here
from tests.kits.connection import connection_options
from tests.kits.engine import SharedEngine
from tests.kits.migrate import config_for, migrate_here
from tests.kits.reporter import RecordingReporter
from tests.kits.resume import Interruption
from tests.kits.tables import tables

FAMILY = """
CREATE TABLE a (id INT PRIMARY KEY, t INT, CONSTRAINT of_t FOREIGN KEY (t) REFERENCES b (id));
CREATE TABLE b (id INT PRIMARY KEY, v INT);
INSERT INTO b SELECT i, i FROM n;
INSERT INTO a SELECT i, i FROM n
"""
REBUILD = "ADD COLUMN z INT, ENGINE=InnoDB"


@pytest.fixture
def family(db):
    """Make a child, and its parent, which is behind it in a batch."""
    db.execute("CREATE TABLE n (i INT PRIMARY KEY); INSERT INTO n VALUES (1), (2), (3), (4), (5)")
    db.execute("SET SESSION foreign_key_checks = 0")
    db.execute(FAMILY)
    db.execute("DROP TABLE n")
    return db


@pytest.mark.parametrize(("stopped", "other"), [("a", "b"), ("b", "a")])
def test_a_relative_of_an_unfinished_migration_is_not_swapped(
    family, engine, monkeypatch, stopped, other
):
    """The swap would alter the one, or name it in its keys, which ends its feed (R14)."""
    first = config_for(family, table=stopped, alter=REBUILD, no_shortcut=True)
    Interruption(monkeypatch).at(
        engine, family, "drain.begun", table=stopped, alter=REBUILD, no_shortcut=True
    )
    second = replace(first, table=other)
    message = f"unfinished migration of {family.name}.{stopped}.*of_t"
    assert any("unfinished" in note.cause for note in make_plan(second, sample=False).refusals)
    with pytest.raises(Refusal, match=message):
        migrate_here(engine, second)
    in_place = replace(second, alter="ADD COLUMN y INT", no_shortcut=False)
    assert migrate_here(engine, in_place)[0].algorithm == "instant"
    report, told = migrate_here(engine, first)
    assert report.resumed, told.text
    migrate_here(engine, second)
    assert set(tables(family)) == {"a", "b"}


@pytest.mark.slow
def test_a_batch_carries_on_first_what_is_begun(family, engine, monkeypatch):
    """The other table would end it, or be refused."""
    Interruption(monkeypatch).at(
        engine, family, "drain.begun", table="b", alter=REBUILD, no_shortcut=True
    )
    config = batch_config(family, f"{family.name}._", alter=REBUILD, no_shortcut=True)
    assert plan_of_batch(config, sample=False).refusals == ()
    report, told = batch_here(engine, config)
    assert report.exit_code == 0, told.text
    resumed = {one["table"]: bool(one["report"]["resumed"]) for one in report.tables}
    assert resumed == {"a": False, "b": True}


@pytest.mark.slow
def test_a_revert_ends_no_unfinished_migration(family, engine, monkeypatch):
    """The operator chooses; and one that begins later is warned of the way back."""
    kept: dict[str, Any] = {
        "table": "b",
        "alter": REBUILD,
        "no_shortcut": True,
        "drop_old_after": math.inf,
    }
    migrate_here(engine, config_for(family, **kept))
    other: dict[str, Any] = {"table": "a", "alter": REBUILD, "no_shortcut": True}
    run = Interruption(monkeypatch).at(engine, family, "drain.begun", **other)
    assert run.told.said("may end the way back of")
    asked = RevertConfig(connection=connection_options(family), database=family.name, table="b")
    with pytest.raises(Refusal, match=r"unfinished migration of .*the swap back moves"):
        Revert(
            asked,
            RecordingReporter(),
            engine_factory=lambda _: SharedEngine(engine),
            stop=StopSwitch(),
        ).run()
    assert migrate_here(engine, config_for(family, **other))[0].resumed


@pytest.mark.slow
def test_a_revert_warns_of_the_way_back_of_a_relative(family, engine):
    """The swap back of the parent alters the child, whose own revert is refused from then on."""
    more: dict[str, Any] = {"alter": REBUILD, "no_shortcut": True, "drop_old_after": math.inf}
    for table in ("b", "a"):
        migrate_here(engine, config_for(family, table=table, **more))
    told = RecordingReporter()
    asked = RevertConfig(connection=connection_options(family), database=family.name, table="b")
    revert = partial(Revert, engine_factory=lambda _: SharedEngine(engine), stop=StopSwitch())
    revert(asked, told).run()
    assert told.said("may end the way back of")
    with pytest.raises(ReverseReplicationLost, match="changed the definition of"):
        revert(replace(asked, table="a"), RecordingReporter()).run()
