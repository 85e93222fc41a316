"""`spirit-py cleanup` in this process, with answers to its questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.migration.cleanup import clean_up
from tests.kits.connection import connection_options

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions
    from tests.fixtures.mysql import Database


def clean(
    db: Database,
    table: str = "t",
    *,
    yes: bool = True,
    old: bool = False,
    account: ConnectionOptions | None = None,
) -> str:
    """Clean up one table's migration; return what was reported and asked.

    Args:
        yes: the answer to whether to drop what is left.
        old: the answer to whether to drop the old table, too.
        account: who cleans up; by default the test's own.
    """
    said: list[str] = []

    def ask(question: str) -> bool:
        said.append(question)
        return yes

    def ask_old(question: str) -> bool:
        said.append(question)
        return old

    connection = connection_options(db) if account is None else account
    clean_up(connection, database=db.name, table=table, ask=ask, ask_old=ask_old, say=said.append)
    return "\n".join(said)
