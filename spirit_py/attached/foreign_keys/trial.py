"""Ask the server, on empty tables of ours, whether it accepts the keys between new definitions.

The statements are those of the swap. Parents and children are copied by CREATE TABLE ... LIKE, so
that no lock on them is requested beyond the one of a statement that reads a definition: ADD FOREIGN
KEY on the new table itself would take an exclusive one on each parent.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.carryable import REMEDIES, Objection
from spirit_py.attached.foreign_keys.moving import copies
from spirit_py.attached.foreign_keys.survey import moves
from spirit_py.attached.record import Attachments, Places
from spirit_py.errors import ServerFault
from spirit_py.mysql.evaluation import as_stored
from spirit_py.mysql.faults import NO_SUCH_TABLE, Disposition, disposition
from spirit_py.mysql.tables.definition import read_table
from spirit_py.mysql.tables.new_table import drop_tables
from spirit_py.sql import quote_table
from spirit_py.table.names import trial_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spirit_py.attached.foreign_keys.model import ForeignKey
    from spirit_py.attached.record import KeyMove
    from spirit_py.contracts import SqlSession

Name = tuple[str, str]

_REMEDY: Final = "keep what the foreign key needs, or drop the foreign key first"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A trial of keys as the ALTERs leave them; :meth:`run` drops what it creates.

    Attributes:
        keys: by the names of the tables themselves.
        new_tables: the new table of each table of the run.
        schema: the schema of the trial's tables.
        building: the name that is noted for what this run builds in that schema.
    """

    session: SqlSession
    keys: tuple[ForeignKey, ...]
    new_tables: Mapping[Name, Name]
    schema: str
    building: str
    _names: dict[Name, Name] = field(default_factory=dict)

    def run(self) -> Iterator[Objection]:
        """Yield what the server has against each table's keys; it is locked nowhere."""
        if not self.keys:
            return
        with self._tables():
            tried = tuple(map(self._between_copies, self.keys))
            found = moves(self.session, tried, Places(()), lambda key: key, self.building[-6:])
            for child in dict.fromkeys(key.child for key in tried):
                yield from self._try(tuple(move for move in found if move.before.child == child))

    @contextmanager
    def _tables(self) -> Iterator[None]:
        """Create an empty copy of every table that a key is between, for a while."""
        ends = dict.fromkeys(end for key in self.keys for end in (key.child, key.parent))
        try:
            for number, end in enumerate(ends, start=1):
                self._names[end] = self._copy(end, trial_name(self.building, number))
            yield
        finally:
            drop_tables(
                self.session,
                self.schema,
                [copy for end, (_, copy) in self._names.items() if self._names[end] != end],
            )

    def _copy(self, table: Name, name: str) -> Name:
        """Create one; return its name, or that of a parent that is missing."""
        like = quote_table(*self.new_tables.get(table, table))
        try:
            with as_stored(self.session):
                self.session.execute(f"CREATE TABLE {quote_table(self.schema, name)} LIKE {like}")
        except ServerFault as error:
            if error.code != NO_SUCH_TABLE:
                raise
            return table
        return self.schema, name

    def _between_copies(self, key: ForeignKey) -> ForeignKey:
        schema, table = self._names[key.child]
        parent_schema, parent = self._names[key.parent]
        return replace(
            key, schema=schema, table=table, parent_schema=parent_schema, parent_table=parent
        )

    def _try(self, found: tuple[KeyMove, ...]) -> Iterator[Objection]:
        """Add the keys of one child, as the swap does."""
        child = found[0].before.child
        keys = {
            move.temporary: key
            for move in found
            for key in self.keys
            if self._between_copies(key) == move.before
        }
        before = self._indexes(child)
        for sql in copies(Attachments(swaps=(), keys=found)):
            try:
                with as_stored(self.session):
                    self.session.execute(str(sql))
            except ServerFault as error:
                if disposition(error) is not Disposition.FATAL or error.hint:
                    raise
                yield self._refused(keys, error)
                return
        for name in self._indexes(child) - before:
            key = keys[name]
            columns = ", ".join(key.columns)
            yield Objection(
                f"{key} needs an index that begins with ({columns}), which the ALTER removes",
                "keep such an index, or drop the foreign key first",
            )

    def _indexes(self, table: Name) -> set[str]:
        found = read_table(self.session, *table)
        return {index.name for index in found.indexes} if found is not None else set()

    def _refused(self, keys: Mapping[str, ForeignKey], error: ServerFault) -> Objection:
        """Return the server's refusal in terms of the tables and keys that it is about."""
        text = error.text
        named = [key for temporary, key in keys.items() if f"'{temporary}'" in text]
        for temporary, key in keys.items():
            text = text.replace(f"'{temporary}'", f"'{key.name}'")
        for table, copy in self._names.items():
            text = text.replace(copy[1], table[1])
        which = "; ".join(map(str, named or keys.values()))
        return Objection(
            f"{which} cannot be kept: {text} (error {error.code})",
            REMEDIES.get(error.code, _REMEDY),
        )
