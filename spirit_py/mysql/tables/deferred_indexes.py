"""Drop the deferred indexes of a new table, and build them again, as they were.

Both are done in place, so that the table keeps its identity (R24), and tried on an empty copy.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass
from spirit_py.errors import ServerFault
from spirit_py.mysql.evaluation import as_stored
from spirit_py.mysql.faults import Disposition, disposition, excused, fatal
from spirit_py.mysql.processlist import process_list
from spirit_py.mysql.tables.definition import read_shape
from spirit_py.mysql.tables.identity import drop_unreferenced
from spirit_py.sql import quote_identifier, quote_table
from spirit_py.statement.index_definitions import without_indexes
from spirit_py.units import human_percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spirit_py.contracts import SqlSession
    from spirit_py.table.names import Name

_ONLINE: Final = "ALGORITHM=INPLACE, LOCK=NONE"
_BUFFER: Final = "innodb_ddl_buffer_size"
_THREADS: Final = ("innodb_ddl_threads", "innodb_parallel_read_threads")
_STAGE: Final = """
SELECT s.EVENT_NAME, s.WORK_COMPLETED, s.WORK_ESTIMATED
FROM performance_schema.events_stages_current s
JOIN performance_schema.threads t ON t.THREAD_ID = s.THREAD_ID
WHERE t.PROCESSLIST_ID = %s AND s.WORK_ESTIMATED > 0"""
_STAGE_NAME: Final = "stage/innodb/alter table "
# The size of an index in pages; a table that is partitioned has a row for each partition.
_SIZES: Final = """
SELECT index_name, SUM(stat_value) * @@innodb_page_size FROM mysql.innodb_index_stats
WHERE database_name = %s AND (table_name = %s OR table_name LIKE %s ESCAPE '|')
  AND stat_name = 'size' GROUP BY index_name"""


@dataclass(frozen=True)
class BuildStage:
    """A build's stage; ``fraction`` of the whole is 0.0 to 1.0, None past the server's estimate."""

    name: str
    fraction: float | None

    def __str__(self) -> str:
        return self.name + ("" if self.fraction is None else f", {human_percent(self.fraction)}")


def drop_sql(table: Name, names: Iterable[str]) -> str:
    """Return the statement that drops indexes."""
    dropped = ", ".join(f"DROP INDEX {quote_identifier(name)}" for name in names)
    return f"ALTER TABLE {quote_table(*table)} {dropped}, {_ONLINE}"


def add_sql(table: Name, clauses: Iterable[str]) -> str:
    """Return the statement that builds indexes of these clauses in one reading of the table."""
    added = ", ".join(f"ADD {clause}" for clause in clauses)
    return f"ALTER TABLE {quote_table(*table)} {added}, {_ONLINE}"


def why_not_deferred(
    session: SqlSession, table: Name, clauses: Mapping[str, str], *, probe: str
) -> str:
    """Return why indexes do not come back as they were, tried on an empty table ``probe``."""
    tried = (table[0], probe)
    try:
        with as_stored(session):
            return _tried(session, table, tried, clauses)
    except ServerFault as fault:
        if disposition(fault) is not Disposition.FATAL or fault.hint:
            raise
        return f"the server cannot drop and add them online: {fault.text}"
    finally:
        with contextlib.suppress(ServerFault):
            drop_unreferenced(session, *tried)


def _tried(session: SqlSession, table: Name, tried: Name, clauses: Mapping[str, str]) -> str:
    session.execute(f"CREATE TABLE {quote_table(*tried)} LIKE {quote_table(*table)}")
    whole = read_shape(session, *tried)
    session.execute(drop_sql(tried, clauses))
    if read_shape(session, *tried) != without_indexes(whole, clauses):
        return "the definition without them is not as expected"
    session.execute(add_sql(tried, clauses.values()))
    if read_shape(session, *tried) != whole:
        return "added again, they would make another definition"
    return ""


def set_build_buffer(session: SqlSession, size: int) -> None:
    """Raise the session's sort buffer for index builds, where it exists (8.0.27)."""
    found = session.query("SHOW SESSION VARIABLES LIKE %s", (_BUFFER,))
    if found and int(found[0][1]) < size:
        session.execute(f"SET SESSION {_BUFFER} = {int(size)}")


def set_build_threads(session: SqlSession, most: int) -> None:
    """Limit the server's threads for the session's index builds, where it can (8.0.27, 8.0.14)."""
    for name in _THREADS:
        found = session.query("SHOW SESSION VARIABLES LIKE %s", (name,))
        if found and int(found[0][1]) > most:
            session.execute(f"SET SESSION {name} = {int(most)}")


def build_stage(session: SqlSession, builder: int) -> BuildStage | None:
    """Return a build's stage; None while ``events_stages_current`` is off (the default)."""
    if not (found := excused(lambda: session.query(_STAGE, (builder,)), (), fatal)):
        return None
    event, done, estimated = found[0]
    name = str(event).removeprefix(_STAGE_NAME).strip("()")
    done, estimated = int(done), int(estimated)
    return BuildStage(name, done / estimated if done < estimated else None)


def alters_table(session: SqlSession, number: int) -> bool:
    """Return whether a session executes ALTER TABLE, which it does without its client, too."""
    return any(
        row[0] == number and row[4] == "Query" and str(row[7] or "").startswith("ALTER TABLE")
        for row in process_list(session)
    )


def index_sizes(session: SqlSession, table: Name) -> dict[str, int]:
    """Return the bytes of each index by name; empty where the statistics cannot be read."""
    escaped = table[1].replace("|", "||").replace("%", "|%").replace("_", "|_")
    rows = excused(lambda: session.query(_SIZES, (*table, f"{escaped}#p#%")), (), fatal)
    return {str(name): int(size) for name, size in rows}
