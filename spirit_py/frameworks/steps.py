"""The statements of a framework's migration that are made, kept until the framework has noted it.

MySQL cannot take DDL back, and a framework notes a migration when all its statements are made. So
the program keeps a step for each statement, in a table beside the framework's own: with the form of
the table's definition before and after. A step counts as made only where the table has the form
that it left, or that the next ones left. Nothing of a row is sent to the server; and who can write
one can also write the framework's own table, which is believed in the same way (R26).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from spirit_py.checkpoint.codec import UnreadableCheckpoint, from_text, to_text
from spirit_py.mysql.tables.identity import Identity, has_mark
from spirit_py.sql import comment_literal, quote_table
from spirit_py.table.names import Name  # noqa: TC001 (the codec reads it)

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.contracts import SqlSession
    from spirit_py.frameworks.online import FrameworkSession

_MARK: Final = "spirit-py: statements of a migration that is under way"
#: More rows, or longer ones, are none of this program.
_MOST: Final = 10_000
_LONGEST: Final = 1 << 20
#: The row of the framework's own table.
_VERSIONS: Final = -1
#: A name has 64 at most.
_LETTERS: Final = 50
ABSENT: Final = "absent"
"""The form of a table that is not there."""
_COUNTER: Final = re.compile(r" AUTO_INCREMENT=\d+")
#: A copy gives constraints other names.
_NAME_OF_CONSTRAINT: Final = re.compile(r"CONSTRAINT (?:`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\") ")
_FOREIGN_KEY: Final = re.compile(r",\n  CONSTRAINT FOREIGN KEY [^\n]*?(?=,?\n)")


@dataclass(frozen=True, kw_only=True)
class RevisionStep:
    """A statement of a migration.

    Attributes:
        history: a digest of what the framework has noted before the migration.
        number: in the migration, from 0.
        table: ``schema.table``.
        before: the form of its definition, or :data:`ABSENT`.
        after: the same, as the server made it of an empty table, or as it was found; empty where
            that is unknown.
        made: it was carried out to its end.
    """

    history: str
    number: int
    table: str
    statement: str
    before: str
    after: str
    made: bool


@dataclass(frozen=True, kw_only=True)
class NotedVersions:
    """The framework's own table, before and after the RENAME of a migration.

    Attributes:
        before: the table that it is before.
        after: the table that it is then.
        tables: those that the migration changes, by schema and name.
    """

    before: Identity
    after: Identity
    tables: tuple[Name, ...]


def form_of(create: str, foreign_keys_of: str = "") -> str:
    """Return a digest of a definition without its counter and the names of constraints.

    Args:
        create: from SHOW CREATE TABLE.
        foreign_keys_of: the definition whose foreign keys count, where ``create`` has lost its own.
    """
    plain, other = (
        _NAME_OF_CONSTRAINT.sub("CONSTRAINT ", _COUNTER.sub("", one))
        for one in (create, foreign_keys_of or create)
    )
    keys = sorted(_FOREIGN_KEY.findall(other))
    return hashlib.sha256(repr((_FOREIGN_KEY.sub("", plain), keys)).encode()).hexdigest()[:32]


def made_of(steps: list[RevisionStep], form: str) -> int:
    """Return how many steps of one table are made, by the form that it has now.

    Args:
        steps: in the order of the migration.

    Returns:
        The number; -1 where the form is none that they leave or begin with, which is so when
        somebody else has changed the table.
    """
    made = 0 if not steps or steps[0].before == form else -1
    for number, step in enumerate(steps, start=1):
        if step.after == form and (step.made or step.before != step.after):
            made = number
        if not step.made:
            break
    return made


def as_text(value: object) -> str:
    """Return a text that a driver may return as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


class StepTable:
    """Keeps the steps in a table of their own.

    Args:
        session: gives the session for each use.
        versions: name of the framework's own table.
    """

    def __init__(self, session: Callable[[], FrameworkSession | SqlSession], versions: str) -> None:
        self._session = session
        self.name = f"_{versions[:_LETTERS]}_steps"
        self._schema = ""
        #: Whether the table is there, as far as this process knows.
        self.exists = False

    def read(self, schema: str) -> list[RevisionStep]:
        """Return the steps that a run has left; none where there is no such table.

        A table of the name that is not the program's, and rows that are not, count as none.
        """
        self._schema = schema
        session = self._session()
        self.exists = has_mark(cast("SqlSession", session), (schema, self.name), _MARK)
        if not self.exists:
            return []
        rows = session.query(
            f"SELECT LEFT(record, {_LONGEST}) FROM {self._quoted} WHERE id >= 0 ORDER BY id"
            f" LIMIT {_MOST}"
        )
        try:
            return [from_text(as_text(record), RevisionStep) for (record,) in rows]
        except UnreadableCheckpoint:
            return []

    def versions(self) -> NotedVersions | None:
        """Return what an exchange of the framework's own table has noted; None for nothing."""
        if not self.exists:
            return None
        rows = self._session().query(
            f"SELECT LEFT(record, {_LONGEST}) FROM {self._quoted} WHERE id = {_VERSIONS}"
        )
        try:
            return from_text(as_text(rows[0][0]), NotedVersions) if rows else None
        except UnreadableCheckpoint:
            return None

    def write_versions(self, noted: NotedVersions) -> None:
        """Note what is exchanged with the tables of the migration."""
        self._make()
        self._replace(f"id = {_VERSIONS}", [(_VERSIONS, to_text(noted))])

    def write(self, steps: list[RevisionStep]) -> None:
        """Replace the steps by these."""
        self._make()
        self._replace("id >= 0", [(step.number, to_text(step)) for step in steps])

    def _make(self) -> None:
        if not self.exists:
            self._session().query(
                f"CREATE TABLE {self._quoted} (id INT NOT NULL PRIMARY KEY,"
                " record LONGTEXT CHARACTER SET utf8mb4 NOT NULL)"
                f" ENGINE=InnoDB COMMENT={comment_literal(_MARK)}"
            )
            self.exists = True

    def _replace(self, which: str, rows: list[tuple[Any, ...]]) -> None:
        session = self._session()
        into = self._quoted.replace("%", "%%")
        session.query("BEGIN")
        session.query(f"DELETE FROM {self._quoted} WHERE {which}")
        for row in rows:
            session.query(f"INSERT INTO {into} (id, record) VALUES (%s, %s)", row)
        session.query("COMMIT")

    def drop(self) -> None:
        """Drop the table, if there is one."""
        if self.exists:
            self._session().query(f"DROP TABLE IF EXISTS {self._quoted}")
            self.exists = False

    @property
    def _quoted(self) -> str:
        return quote_table(self._schema, self.name)
