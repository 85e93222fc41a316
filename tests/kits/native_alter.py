"""A case whose change the server itself makes, and what is spoilt before or after it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tests.oracle.case import statements
from tests.oracle.scene import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.fixtures.mysql import Database
    from tests.oracle.case import Case


def native(
    case: Case,
    db: Database,
    another_round: Callable[[], None],
    *,
    spoil: Sequence[str] = (),
    before: Sequence[str] = (),
) -> Outcome:
    """Let the server change the table itself, and spoil it ``before`` or after without a trace."""
    another_round()
    with (
        contextlib.closing(db.connect()) as session,
        contextlib.closing(session.cursor()) as cursor,
    ):
        cursor.execute("SET SESSION lock_wait_timeout = 20")
        for damage, alter in ((before, False), ((), True), (spoil, False)):
            if alter:
                statement = case.native_statement().replace("{table}", f"`{case.expect.table}`")
                for setting in (*case.expect.native_session, *statements(statement)):
                    cursor.execute(setting)
                continue
            for statement in ("SET SESSION sql_mode = '', sql_log_bin = 0", *damage):
                cursor.execute(statement)
            cursor.execute("SET SESSION sql_mode = @@GLOBAL.sql_mode, sql_log_bin = 1")
    report = {"algorithm": "copy", "differences_found": 0, "chunks_repaired": 0}
    return Outcome(exit_code=0, report={**report, "changes_received": 1})
