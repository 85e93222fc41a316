"""An account that may not see what is left is refused, and never told that nothing is left.

One that may do less in the middle of a run ends it with what has to be done about that.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import replace
from typing import Any

import pytest

from spirit_py import points
from spirit_py.checkpoint.proofs import shape_here
from spirit_py.checkpoint.record import REVERTING, ReverseRecord, ReverseTable
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, Refusal
from spirit_py.migration.listing import migrations
from spirit_py.migration.reverse.keeper import Keeper
from spirit_py.mysql.connect import connect
from tests.kits.cleanup import clean
from tests.kits.connection import connection_options, granted
from tests.kits.migrate import config_for
from tests.kits.resume import Interruption, make_table, once_at, start
from tests.kits.tables import tables

KEPT = ["_t_chkpnt", "_t_new", "t"]


@pytest.fixture
def account(db, engine, monkeypatch):
    """Leave a stopped migration, and make an account that may do nothing."""
    make_table(db, 500)
    Interruption(monkeypatch).at(engine, db, "chunk.committed")
    name = f"u_{secrets.token_hex(4)}"
    db.execute(f"CREATE USER {name} IDENTIFIED BY 'p'")
    yield replace(config_for(db).connection, user=name, password="p")
    db.execute(f"DROP USER {name}")


def seen(db, account, table="t"):
    """Return what ``spirit-py status`` shows to the account."""
    return migrations(account, database=db.name, table=table, max_age=1e6)


def test_cleanup_names_each_missing_grant(db, account):
    """Nothing is dropped before all of them are there."""
    schema = granted(db.name)
    grants = (f"SELECT, DROP ON {schema}", "PROCESS ON *.*")
    for grant in grants:
        with pytest.raises(Refusal) as caught:
            clean(db, old=True, account=account)
        assert caught.value.hint == f"GRANT {grant} TO `{account.user}`@`%`;"
        assert tables(db) == KEPT
        db.execute(f"GRANT {grant} TO {account.user}")
    clean(db, old=True, account=account)
    assert tables(db) == ["t"]


@pytest.mark.slow
@pytest.mark.parametrize("table", ["t", ""])
def test_status_does_not_take_hidden_tables_for_absent_ones(db, account, table):
    """The catalogue hides what an account may not use."""
    with pytest.raises(Refusal, match="could be hidden") as caught:
        seen(db, account, table)
    assert caught.value.hint == f"GRANT SELECT ON {granted(db.name)} TO `{account.user}`@`%`;"


@pytest.mark.slow
def test_status_of_all_schemas_points_at_the_option_that_needs_less(account):
    """An account of one schema cannot be given SELECT on all of them; it can name its own."""
    with pytest.raises(Refusal) as caught:
        migrations(account, database="", table="", max_age=1e6)
    assert caught.value.hint == (
        f"GRANT SELECT ON *.* TO `{account.user}`@`%`; or name a schema with --database"
    )


@pytest.mark.slow
def test_status_names_the_grant_that_tells_whether_a_revert_was_made(db, account):
    """With SELECT held, what is lacking is PROCESS: it shows which table is in place."""
    db.execute(f"GRANT SELECT ON {granted(db.name)} TO {account.user}")
    with connect(config_for(db).connection, role="test") as session:
        shape = shape_here(session, db.name, "t")
        table = ReverseTable(
            schema=db.name, table="t", old="_t_old", undone="_t_undone", old_shape=shape
        )
        record = ReverseRecord(tables=(table,), position="", until=0.0, state=REVERTING)
        CheckpointTable(db.name, "t").write(session, record)
    with pytest.raises(Refusal, match="PROCESS") as caught:
        seen(db, account)
    assert caught.value.hint == f"GRANT PROCESS ON *.* TO `{account.user}`@`%`;"


@pytest.mark.slow
def test_without_binlog_privileges_status_shows_everything_else(db, account):
    """What it cannot look at is named, with the GRANT; the rest is shown."""
    db.execute(f"GRANT SELECT ON {granted(db.name)} TO {account.user}")
    for privilege in ("REPLICATION CLIENT", "REPLICATION SLAVE"):
        (one,) = seen(db, account)
        assert one.phase == "copy"
        assert one.binlog.startswith("cannot be looked at")
        lacks = "REPLICATION CLIENT, REPLICATION SLAVE"
        assert one.binlog.endswith(f" (GRANT {lacks} ON *.* TO `{account.user}`@`%`;)")
        assert one.again == "resume"
        assert one.reason.endswith("if the binlog still reaches its position")
        db.execute(f"GRANT {privilege} ON *.* TO {account.user}")
    (one,) = seen(db, account)
    assert (one.binlog, one.again) == ("", "resume")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "change", "code"),
    [
        (
            "chunk.committed",
            "ALTER USER {user} IDENTIFIED BY 'another'",
            ErrorCode.ACCESS_DENIED,
        ),
        (
            "chunk.committed",
            "REVOKE INSERT ON {schema}.* FROM {user}",
            ErrorCode.MISSING_PRIVILEGES,
        ),
        # The table is hidden from it then, and not changed by another session.
        ("feed.started", "REVOKE ALL ON {schema}.* FROM {user}", ErrorCode.MISSING_PRIVILEGES),
    ],
    ids=["password", "one privilege", "all privileges"],
)
def test_what_was_taken_from_the_account_is_what_has_to_be_put_right(
    db, engine, monkeypatch, point, change, code
):
    """The run ends with nothing dropped; once the account may do it again, the command does it."""
    make_table(db, 500)
    user = f"u_{secrets.token_hex(4)}"
    db.execute(f"CREATE USER {user} IDENTIFIED BY 'p'")
    everywhere = "PROCESS, REPLICATION CLIENT, REPLICATION SLAVE"
    db.execute(f"GRANT ALL ON {db.name}.* TO {user}; GRANT {everywhere} ON *.* TO {user}")
    account = replace(connection_options(db), user=user, password="p")
    change = change.format(user=user, schema=db.name)
    with monkeypatch.context() as patched:
        once_at(patched, point, lambda: db.execute(change))
        with pytest.raises(MigrationFailure) as caught:
            start(engine, db, connection=account, target_chunk_time=0.01).end()
    assert caught.value.error_code is code
    assert "run the same command again" in caught.value.hint
    assert [one for one in tables(db) if one != "_t_ctl"] == KEPT
    db.execute(f"ALTER USER {user} IDENTIFIED BY 'p'; GRANT ALL ON {db.name}.* TO {user}")
    assert start(engine, db, connection=account).end().outcome == "done"
    db.execute(f"DROP USER {user}")


@pytest.mark.slow
def test_a_login_that_is_refused_behind_the_swap_leaves_the_table_changed(db, engine, monkeypatch):
    """The error says so, and the same command has the old table follow again."""
    make_table(db, 500)
    user = f"u_{secrets.token_hex(4)}"
    db.execute(f"CREATE USER {user} IDENTIFIED BY 'p'; GRANT ALL ON *.* TO {user}")
    account = replace(connection_options(db), user=user, password="p")
    really = Keeper._opened

    def refused(self: Keeper, stack: Any) -> Any:
        db.execute(f"ALTER USER {user} IDENTIFIED BY 'another'")
        return really(self, stack)

    with monkeypatch.context() as patched:
        patched.setattr(Keeper, "_opened", refused)
        with pytest.raises(MigrationFailure, match="has stopped: Access denied") as ended:
            start(engine, db, connection=account, keep_old_current=5.0).end()
    assert ended.value.error_code is ErrorCode.ACCESS_DENIED
    assert "run the same command again" in ended.value.hint
    assert "the change is done; spirit-py revert still swaps back" in ended.value.hint
    db.execute(f"ALTER USER {user} IDENTIFIED BY 'p'")
    again = start(engine, db, connection=account, keep_old_current=5.0)
    assert again.end().outcome == "done"
    db.execute(f"DROP USER {user}")


@pytest.mark.slow
@pytest.mark.parametrize("stays", [[], ["_t_chkpnt", "_t_old"]], ids=["dropped", "kept"])
def test_a_trial_whose_drop_was_refused_does_not_stay(db, engine, monkeypatch, stays):
    """Nothing else knows its random name once the checkpoint is gone."""
    make_table(db, 100)
    name = f"u_{secrets.token_hex(4)}"
    db.execute(f"CREATE USER {name} IDENTIFIED BY 'p'; GRANT ALL ON *.* TO {name}")
    db.execute(f"REVOKE DROP ON *.* FROM {name}; GRANT DROP ON {granted(db.name)} TO {name}")
    trials: list[str] = []

    def passed(point: str) -> None:
        if point == "create.tried":
            db.execute(f"REVOKE DROP ON {granted(db.name)} FROM {name}")
        elif point == "create.named":
            trials.extend(one for one in tables(db) if one.startswith("_t_") and one[3:9].isalnum())
            db.execute(f"GRANT DROP ON {granted(db.name)} TO {name}")

    monkeypatch.setattr(points, "_listener", "here")
    monkeypatch.setattr(points, "_announce", passed)
    try:
        connection = replace(config_for(db).connection, user=name, password="p")
        start(engine, db, connection=connection, drop_old_after=math.inf if stays else 0.0).end()
    finally:
        db.execute(f"DROP USER {name}")
    assert trials
    assert tables(db) == [*stays, "t"]
