"""A table's identity, independent of its name (R24), and tables that bear the mark (R26).

A table's number survives RENAME TABLE and a restart; a rebuilt or another table has another one, as
has each partition and each server. CREATE TIME is the same on replicas. Needs PROCESS.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final, TypeVar

from spirit_py.classes import dataclass
from spirit_py.errors import MigrationFailure, ServerFault, SpiritError
from spirit_py.mysql import faults
from spirit_py.sql import quote_identifier, quote_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from spirit_py.contracts import SqlSession
    from spirit_py.table.names import Name

T = TypeVar("T")

# The catalogue shows names as InnoDB keeps them: letters outside of ASCII in a code of their own.
_NUMBERS: Final = """
SELECT NAME, TABLE_ID, @@GLOBAL.server_uuid FROM information_schema.INNODB_TABLES WHERE """
_NAMED: Final = "NAME LIKE %s ESCAPE '|'"
# The time is stored without a zone; where it is shown in one does not matter to the difference.
_BORN: Final = """
SELECT CAST(UNIX_TIMESTAMP(CREATE_TIME) AS SIGNED) FROM information_schema.TABLES
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"""
_PARTITIONS: Final = """
SELECT DISTINCT PARTITION_NAME FROM information_schema.PARTITIONS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND PARTITION_NAME IS NOT NULL"""
_PLAIN: Final = re.compile(r"[0-9A-Za-z_]")
_CODED: Final = r"@(?:[0-9a-f]{4}|[0-9A-Za-z@]{2})"
_PARTITION: Final = r"(?:#[pP]#.*)?"
_SUBPARTITION: Final = r"(?:#sp#.*)?"


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The identity of one table, empty where unknown; ``born``: Unix time when made or altered."""

    server: str = ""
    numbers: frozenset[int] = frozenset()
    born: int = 0

    def __bool__(self) -> bool:
        return bool(self.numbers)

    def is_same(self, other: Identity) -> bool:
        """Return whether two are one table of one server, in which a partition may be another."""
        return self.server == other.server and not self.numbers.isdisjoint(other.numbers)

    def equals(self, other: Identity) -> bool:
        """Return whether they are one table, all of whose partitions are the same."""
        return self.server == other.server and self.numbers == other.numbers

    def is_replica_of(self, other: Identity, *, altered: bool = False) -> bool:
        """Return whether one statement made, or last altered, both tables, on two servers.

        ``altered``: or this one may be the other, altered since.
        """
        same = self.born >= other.born if altered else self.born == other.born
        return self.server != other.server and bool(self and other) and same and other.born > 0


NOTHING: Final = Identity()
"""Of no table: proves nothing."""


def identity(session: SqlSession, schema: str, table: str) -> Identity:
    """Return the identity of a table by its name; empty where two names may look alike."""
    found = identities(session, [(schema, table)])[schema, table]
    born = born_at(session, schema, table) if found else 0
    return Identity(server=found.server, numbers=found.numbers, born=born)


def born_at(session: SqlSession, schema: str, table: str) -> int:
    """Return when a table was made or last altered (not its triggers or keys); 0 for no table."""
    rows = session.query(_BORN, (schema, table))
    return int(rows[0][0]) if rows and rows[0][0] is not None else 0


def identities(session: SqlSession, names: Iterable[Name]) -> dict[Name, Identity]:
    """Return the identities of tables, in one query, without the time when they were made."""
    wanted = list(names)
    likes = ["/".join(stored_like(part) for part in name) + "%" for name in wanted]
    rows = session.query(_NUMBERS + " OR ".join([_NAMED] * len(likes)), likes)
    return {name: _of(name, rows) for name in wanted}


def is_one_of(session: SqlSession, schema: str, table: str, proof: Identity) -> bool:
    """Return whether a table exists and has this identity."""
    return not others_than(session, {(schema, table): proof})


def others_than(session: SqlSession, proofs: Mapping[Name, Identity]) -> list[Name]:
    """Return the tables that are gone, or have another identity; in one query."""
    found = identities(session, proofs)
    return [name for name, proof in proofs.items() if not (proof and proof.is_same(found[name]))]


def emptied_partitions(
    session: SqlSession, schema: str, table: str, proof: Identity
) -> tuple[int, int]:
    """Return how many partitions were emptied (renumbered) since the proof, and how many exist."""
    found = identities(session, [(schema, table)])[schema, table]
    if not proof.is_same(found):
        return 0, 0
    return len(proof.numbers - found.numbers), len(found.numbers)


def as_noted(
    session: SqlSession, schema: str, table: str, proof: Identity, partitions: Iterable[str]
) -> list[str]:
    """Return the partitions that still have a noted number; look-alike names count as one."""
    rows = _of_partitions(session, schema, table)
    stored = [name for name, number in rows if number in proof.numbers]
    return [
        name
        for name in partitions
        if any(re.fullmatch(partition_pattern(name), one) for one in stored)
    ]


def partition_numbers(session: SqlSession, schema: str, table: str) -> dict[str, int]:
    """Return the numbers of partitions by InnoDB's names; none where two tables may look alike."""
    rows = _of_partitions(session, schema, table)
    found = dict(rows)
    return found if len(found) == len(rows) else {}


def _of_partitions(session: SqlSession, schema: str, table: str) -> list[tuple[str, int]]:
    place = "/".join(stored_like(part) for part in (schema, table)) + "#%"
    rows = session.query(_NUMBERS + _NAMED, (place,))
    return [(str(name).lower().partition("#p#")[2], int(number)) for name, number, _ in rows]


def partition_pattern(name: str) -> str:
    """Return what matches the names that InnoDB has for a partition, and for its parts."""
    return _pattern(name.lower()) + _SUBPARTITION


def drop_if(session: SqlSession, schema: str, table: str, proof: Identity) -> bool:
    """Drop a table if it has this identity; False where it is another table.

    A table with rows in a partition with another number (EXCHANGE PARTITION) stays.
    """
    if not is_one_of(session, schema, table, proof) or _holds_others(session, schema, table, proof):
        return False
    drop_unreferenced(session, schema, table)
    return True


def _holds_others(session: SqlSession, schema: str, table: str, proof: Identity) -> bool:
    if identities(session, [(schema, table)])[schema, table].numbers <= proof.numbers:
        return False
    names = {str(name) for (name,) in session.query(_PARTITIONS, (schema, table))}
    others = names - set(as_noted(session, schema, table, proof, names))
    return any(
        session.query(
            f"SELECT 1 FROM {quote_table(schema, table)} PARTITION ({quote_identifier(name)})"
            " LIMIT 1"
        )
        for name in others
    )


def drop_unreferenced(session: SqlSession, schema: str, table: str) -> None:
    """Drop a table if it is there; ServerFault 3730 if a foreign key refers to it."""
    session.execute("SET SESSION foreign_key_checks = 1")
    try:
        session.execute(f"DROP TABLE IF EXISTS {quote_table(schema, table)}")
    finally:
        with contextlib.suppress(ServerFault):
            session.execute("SET SESSION foreign_key_checks = 0")


def _of(name: Name, rows: Iterable[tuple[object, ...]]) -> Identity:
    pattern = _stored(name)
    found: dict[str, set[int]] = {}
    server = ""
    for stored, number, server_uuid in rows:
        if matched := pattern.fullmatch(str(stored)):
            found.setdefault(matched[1], set()).add(int(str(number)))
            server = str(server_uuid)
    if len(found) != 1:
        return NOTHING
    return Identity(server=server, numbers=frozenset(found.popitem()[1]))


def is_stored(schema: str, table: str, found: str) -> bool:
    """Return whether InnoDB may keep a table, or a partition of it, by a name that it has."""
    return _stored((schema, table)).fullmatch(found) is not None


def _stored(name: Name) -> re.Pattern[str]:
    return re.compile("(" + "/".join(_pattern(part) for part in name) + ")" + _PARTITION)


def stored_like(name: str) -> str:
    """Return what LIKE ... ESCAPE '|' finds a name by as InnoDB keeps it, and perhaps others."""
    return "".join("|_" if c == "_" else c if _PLAIN.match(c) else "@%" for c in name)


def _pattern(name: str) -> str:
    return "".join(
        c if _PLAIN.match(c) else f"@{ord(c):04x}" if c.isascii() else _CODED for c in name
    )


_MARKED: Final = """
SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES
WHERE TABLE_COMMENT = %s AND (%s = '' OR TABLE_SCHEMA = %s) AND (%s = '' OR TABLE_NAME = %s)
AND NOT EXISTS (SELECT 1 FROM information_schema.COLUMNS AS of_it
WHERE of_it.TABLE_SCHEMA = TABLES.TABLE_SCHEMA AND of_it.TABLE_NAME = TABLES.TABLE_NAME
AND of_it.GENERATION_EXPRESSION <> '')
ORDER BY 1, 2"""
_COMPUTED: Final = """
SELECT 1 FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND GENERATION_EXPRESSION <> ''"""


@contextlib.contextmanager
def doubtful(session: SqlSession) -> Iterator[None]:
    """Bound reads of tables that anybody may have made: 1 s for a lock, 5 s in all (R26)."""
    ((waits, runs),) = session.query("SELECT @@SESSION.lock_wait_timeout, @@max_execution_time")
    usual = f"lock_wait_timeout = {int(waits)}, max_execution_time = {int(runs)}"
    session.execute("SET SESSION lock_wait_timeout = 1, max_execution_time = 5000")
    try:
        yield
    finally:
        with contextlib.suppress(ServerFault):
            session.execute(f"SET SESSION {usual}")


def holds_up(error: BaseException) -> bool:
    """Return whether a read ended because its table is locked, or computes for too long."""
    code = error.code if isinstance(error, ServerFault) else None
    return code in {faults.LOCK_WAIT_TIMEOUT, faults.STATEMENT_TIMED_OUT}


def looked_at(
    names: Iterable[Name], look: Callable[[Name], T], failed: Callable[[Name, SpiritError], T]
) -> Iterator[T]:
    """Yield the look at each table that anybody may have made, or what ``failed`` says of it (R26).

    Where one of a schema holds a read up, the others of that schema are not looked at.
    """
    held_up: set[str] = set()
    for name in names:
        try:
            if name[0] in held_up:
                raise MigrationFailure("another table of its schema cannot be read")
            found = look(name)
        except Exception as error:
            if faults.connection_lost(error) or faults.server_away(error):
                raise
            if holds_up(error):
                held_up.add(name[0])
            if not isinstance(error, SpiritError):
                error = MigrationFailure(f"{type(error).__name__}: {error}")
            found = failed(name, error)
        yield found


def marked(session: SqlSession, mark: str, *, schema: str = "", name: str = "") -> list[Name]:
    """Return the tables with this comment whose columns are stored; an empty name is any."""
    rows = session.query(_MARKED, (mark, schema, schema, name, name))
    return [(str(schema), str(table)) for schema, table in rows]


def has_mark(session: SqlSession, table: Name, mark: str) -> bool:
    """Return whether there is a table with this comment and no computed columns; no proof (R26)."""
    return kind_and_comment(session, table) == ("BASE TABLE", mark) and _is_stored(session, table)


def _is_stored(session: SqlSession, table: Name) -> bool:
    """Return whether a table computes no column: reading one may take long (measured: 71 s)."""
    return not session.query(_COMPUTED, table)


def kind_and_comment(session: SqlSession, table: Name) -> tuple[str, str] | None:
    """Return whether a name is that of a table or of a view, and its comment; None for neither."""
    found = session.query(
        "SELECT TABLE_TYPE, TABLE_COMMENT FROM information_schema.TABLES"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        table,
    )
    return (str(found[0][0]), str(found[0][1])) if found else None
