"""The deferred indexes of one new table, and which of its two definitions it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.checkpoint.proofs import renew_proofs, shape_here
from spirit_py.checkpoint.record import digest_of
from spirit_py.errors import SchemaChanged
from spirit_py.mysql.evaluation import as_stored
from spirit_py.mysql.own_sessions import token_of
from spirit_py.mysql.tables.deferred_indexes import drop_sql
from spirit_py.mysql.tables.definition import read_shape
from spirit_py.table.names import lock_name

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession
    from spirit_py.table.names import Name

_SHOWN: Final = 6


def build_lock(run: str, target: Name) -> str:
    """Return the name of the build session's lock; ``run`` is the run's label or token."""
    return lock_name("index", token_of(run), *target)


@dataclass(frozen=True, kw_only=True)
class DeferredIndexes:
    """The indexes of a new table that may be built after the copy; falsy for none."""

    source: Name
    target: Name
    whole_shape: str
    bare_shape: str = ""
    indexes: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self.indexes)

    def __str__(self) -> str:
        """Name the indexes for messages."""
        return named_indexes([name for name, _ in self.indexes])

    @property
    def names(self) -> list[str]:
        """The names of the indexes."""
        return [name for name, _ in self.indexes]

    @property
    def clauses(self) -> list[str]:
        """What follows ADD for each of them."""
        return [clause for _, clause in self.indexes]

    @property
    def table(self) -> str:
        """The new table's name for messages."""
        return ".".join(self.target)

    def are_built(self, session: SqlSession) -> bool:
        """Return whether all indexes are there; SchemaChanged for a third definition (R14)."""
        found = shape_here(session, *self.target)
        if found == self.whole_shape:
            return True
        if self and found == self.bare_shape:
            return False
        raise self._changed()

    def require_whole(self, session: SqlSession) -> None:
        """Raise SchemaChanged unless all indexes are there (R14); one query, fast under a lock."""
        if digest_of(read_shape(session, *self.target), self.target[1]) != self.whole_shape:
            raise self._changed()

    def _changed(self) -> SchemaChanged:
        return SchemaChanged(
            f"another session changed the definition of {self.table}, the new table",
            hint="see what was changed, then start the migration again: it starts from the"
            " beginning",
        )

    def drop(self, session: SqlSession) -> None:
        """Drop the indexes; of a table with rows only once the record has both definitions."""
        if not self.are_built(session):
            return
        with as_stored(session):
            session.execute(drop_sql(self.target, self.names))
        self.note_altered(session)
        points.reach("index.dropped")

    def note_altered(self, session: SqlSession) -> None:
        """Store the new table's proof again: our ALTER gave it another CREATE TIME."""
        renew_proofs(session, *self.source)
        self.are_built(session)


def named_indexes(names: list[str]) -> str:
    """Return names for a message, a long list cut short."""
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
