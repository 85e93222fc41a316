"""What ``spirit-py status`` shows of migrations that no process, or another one, works on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spirit_py.checkpoint.live import LiveFigures
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.errors import MigrationFailure
from spirit_py.locks.named import take_named_lock
from spirit_py.migration.listing import migrations
from spirit_py.mysql.connect import connect
from spirit_py.mysql.run_label import run_label, token_of
from spirit_py.table.names import lock_name
from tests.kits.connection import connection_options
from tests.kits.resume import start

if TYPE_CHECKING:
    from spirit_py.migration.migration_status import MigrationShown


DEAD = LiveFigures(
    host="admin1",
    pid=4711,
    run="of another run",
    program="1",
    phase="copy",
    table="t",
    elapsed=10.0,
    phase_elapsed=9.0,
)


def shown(db) -> MigrationShown:
    """Return the one migration that is listed."""
    (found,) = migrations(connection_options(db), database=db.name, table="t", max_age=1e6)
    return found


def test_figures_of_a_process_that_has_ended_are_not_those_of_the_next(db, engine):
    """A process that has just started, after a kill -9, shows none rather than the dead one's."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.execute("INSERT INTO t VALUES (1, 1)")
    with pytest.raises(MigrationFailure):
        start(
            engine, db, table="t", alter="MODIFY v BIGINT",
            defer_cutover=True, defer_timeout=0.0,
        ).end()  # fmt: skip
    checkpoint = CheckpointTable(db.name, "t")
    with connect(connection_options(db), role="test") as session:
        checkpoint.write(session, DEAD)
    assert (shown(db).state, shown(db).live) == ("stopped", DEAD)

    label = run_label([(db.name, "t")])
    options = replace(connection_options(db), label=label)
    with connect(options, role="advisory", asks_for_lock=True) as session:
        assert take_named_lock(session, lock_name("migration", db.name, "t"))
        seen = shown(db)
        assert (seen.state, seen.worked_on_by) == ("running", session.id)
        assert (seen.live, seen.live_age) == (None, None)
        assert "has written no figures yet" in "\n".join(seen.lines())

        mine = replace(DEAD, run=token_of(label))
        checkpoint.write(session, mine)
        assert shown(db).live == mine
