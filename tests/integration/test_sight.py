"""R25: what is attached to a table is seen by the account, or the swap does not happen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spirit_py.attached.foreign_keys.catalogue import concerned
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, Refusal
from spirit_py.migration.swap import attachments
from spirit_py.migration.swap.attachments import settle_left
from spirit_py.mysql.connect import connect
from spirit_py.mysql.grants import require_sight
from spirit_py.preflight import preflight, registry
from tests.kits.attached import Swapping, run_killed_after
from tests.kits.connection import account, connection_options
from tests.kits.engine import ThreadEngine
from tests.kits.resume import make_table, once_at, start
from tests.kits.tables import tables

ON_ALL = (
    "REPLICATION SLAVE, REPLICATION CLIENT, PROCESS, CONNECTION_ADMIN, SET_ANY_DEFINER,"
    " SYSTEM_USER ON *.*"
)
#: By an account of each name alone, so that one privilege can be taken.
ON_TABLES = (
    "SELECT, INSERT, DELETE, CREATE, DROP, ALTER, INDEX, TRIGGER, REFERENCES, LOCK TABLES,"
    " CREATE TEMPORARY TABLES ON {db}.*"
)


def triggers(db) -> list[str]:
    """Return tables and names of all triggers of the schema, as root sees them."""
    return [
        f"{row[0]}.{row[1]}"
        for row in db.query(
            "SELECT EVENT_OBJECT_TABLE, TRIGGER_NAME FROM information_schema.TRIGGERS"
            " WHERE TRIGGER_SCHEMA = %s ORDER BY 1, 2",
            (db.name,),
        )
    ]


@pytest.fixture
def engine() -> Any:
    """Return threads in Spark's place."""
    return ThreadEngine()


@pytest.fixture
def migrator(db):
    """Return an account that may do what a migration needs, and no more."""
    db.set_global("log_bin_trust_function_creators", 1)
    with account(db, ON_ALL, ON_TABLES) as options:
        yield options


@pytest.mark.parametrize("point", ["chunk.committed", "cutover.lock"])
def test_a_revoked_trigger_privilege_loses_no_trigger(db, engine, migrator, monkeypatch, point):
    """In mid-run, and right before the lock; granted again, the same command resumes."""
    make_table(db, 200)
    db.execute("CREATE TRIGGER mine BEFORE UPDATE ON t FOR EACH ROW SET @x = 1")
    revoke = f"REVOKE TRIGGER ON `{db.name}`.* FROM {migrator.user}"
    with monkeypatch.context() as patched:
        once_at(patched, point, lambda: db.execute(revoke))
        with pytest.raises(MigrationFailure) as caught:
            start(engine, db, connection=migrator).end()
    assert caught.value.error_code is ErrorCode.MISSING_PRIVILEGES
    assert caught.value.exit_code == 1
    assert "GRANT TRIGGER, " in caught.value.hint
    assert triggers(db) == ["t.mine"]
    db.execute(f"GRANT TRIGGER ON `{db.name}`.* TO {migrator.user}")
    report = start(engine, db, connection=migrator).end()
    assert report.outcome == "done"
    assert report.resumed
    assert triggers(db) == ["t.mine"]
    assert tables(db) == ["t"]


def test_a_trigger_made_while_none_can_be_seen_is_not_left_behind(db, migrator):
    """Under the lock as in the survey, the look proves that it could see."""
    make_table(db, 10)
    attached = Swapping(db, ("t",)).attachments()
    attached.survey()
    with connect(migrator, role="test") as session:
        attached.prove(session)
        db.execute(f"REVOKE TRIGGER ON `{db.name}`.* FROM {migrator.user}")
        db.execute("CREATE TRIGGER late BEFORE UPDATE ON t FOR EACH ROW SET @x = 1")
        with pytest.raises(MigrationFailure, match="lacks TRIGGER"):
            attached.prove(session)


def test_a_trigger_that_is_hidden_during_the_survey_is_noticed_before_a_lock(db, migrator):
    """The privilege goes between the look at an earlier try and the look at the triggers."""
    make_table(db, 10)
    db.execute("CREATE TRIGGER mine BEFORE UPDATE ON t FOR EACH ROW SET @x = 1")
    swapping = Swapping(db, ("t",))
    swapping.process.config = replace(swapping.process.config, connection=migrator)
    attached = swapping.attachments()
    attached.survey()
    revoke = f"REVOKE TRIGGER ON `{db.name}`.* FROM {migrator.user}"
    with pytest.MonkeyPatch.context() as patched:

        def concerned_then(*given: Any) -> Any:
            db.execute(revoke)
            return concerned(*given)

        patched.setattr(attachments, "concerned", concerned_then)
        with pytest.raises(MigrationFailure, match="lacks TRIGGER"):
            attached.survey()


def test_a_stopped_swap_is_not_called_settled_by_an_account_that_sees_nothing(db, migrator):
    """What a packet has left half-way stays noted until it can be seen."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.execute("CREATE TRIGGER mine BEFORE UPDATE ON t FOR EACH ROW SET @x = 1")
    swapping = Swapping(db, ("t",))
    attached = swapping.attachments()
    attached.survey()
    assert run_killed_after(swapping, len(attached.statements.before) + 1)
    db.execute(f"REVOKE TRIGGER ON `{db.name}`.* FROM {migrator.user}")
    with connect(migrator, role="test") as session:
        with pytest.raises(MigrationFailure, match="lacks TRIGGER"):
            settle_left(swapping.process, session, [(db.name, "t")])
        db.execute(f"GRANT TRIGGER ON `{db.name}`.* TO {migrator.user}")
        settle_left(swapping.process, session, [(db.name, "t")])
    assert triggers(db) == ["t.mine"]


@pytest.mark.slow
def test_a_child_that_is_hidden_in_mid_run_keeps_its_key(db, engine, migrator, monkeypatch):
    """Its schema is another one, on which the account loses everything."""
    other = f"{db.name}_x"
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(50))")
    db.execute("INSERT INTO t VALUES (1, 3, 'row 1')")
    db.execute(f"CREATE DATABASE {other}")
    try:
        db.execute(
            f"CREATE TABLE {other}.child (id INT PRIMARY KEY, CONSTRAINT k FOREIGN KEY (id)"
            f" REFERENCES {db.name}.t (id)); INSERT INTO {other}.child VALUES (1)"
        )
        rights = f"SELECT, ALTER, REFERENCES, LOCK TABLES ON {other}.*"
        db.execute(f"GRANT {rights} TO {migrator.user}")
        revoke = f"REVOKE {rights} FROM {migrator.user}"
        with monkeypatch.context() as patched:
            once_at(patched, "chunk.committed", lambda: db.execute(revoke))
            with pytest.raises(MigrationFailure) as caught:
                start(engine, db, connection=migrator).end()
        assert caught.value.error_code is ErrorCode.MISSING_PRIVILEGES
        db.execute(f"GRANT {rights} TO {migrator.user}")
        assert start(engine, db, connection=migrator).end().outcome == "done"
        ((key, parent),) = db.query(
            "SELECT CONSTRAINT_NAME, REFERENCED_TABLE_NAME"
            " FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = %s",
            (other,),
        )
        assert (key, parent) == ("k", "t")
    finally:
        db.execute(f"DROP DATABASE {other}")


def test_privileges_that_change_during_the_checks_are_a_refusal(db, engine, migrator, monkeypatch):
    """What was read before, or after, may have been read without them."""
    make_table(db, 10)
    checks = registry.run_checks

    def changed_meanwhile(*given: Any, **more: Any) -> Any:
        db.execute(f"REVOKE TRIGGER ON `{db.name}`.* FROM {migrator.user}")
        return checks(*given, **more)

    monkeypatch.setattr(preflight, "run_checks", changed_meanwhile)
    with pytest.raises(Refusal, match="privileges were changed while the checks ran"):
        start(engine, db, connection=migrator).end()
    assert tables(db) == ["t"]


def test_the_catalogue_hides_triggers_behind_the_more_precise_grant(db):
    """GRANTs on two names that match a schema do not add up, so neither do they here."""
    make_table(db, 10)
    db.execute("CREATE TRIGGER mine BEFORE UPDATE ON t FOR EACH ROW SET @x = 1")
    wide = f"`{db.name[:-1]}%`.*"
    with account(db, "SELECT ON {db}.*", f"ALL ON {wide}") as options:
        with connect(options, role="test") as session:
            seen = session.query(
                "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = %s",
                (db.name,),
            )
            with pytest.raises(MigrationFailure, match="lacks TRIGGER"):
                require_sight(session, [(db.name, "t")])
        assert not seen
    with connect(connection_options(db), role="test") as session:
        require_sight(session, [(db.name, "t")])
