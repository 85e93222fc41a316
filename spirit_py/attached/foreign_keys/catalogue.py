"""Read the foreign keys of a table and to it, decide how each moves, and try them (R24).

INNODB_FOREIGN shows every key to an account with PROCESS; the other views need a privilege on the
table. Names are plain (measured on 9.7, also with ``innodb_native_foreign_keys=ON``), but a schema
with a slash is cut in INNODB_FOREIGN. A trial runs between copies: ADD FOREIGN KEY on the new table
would lock each parent exclusively.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from spirit_py.attached.foreign_keys.model import ForeignKey
from spirit_py.attached.foreign_keys.rules import INDEX_REMEDY, REMEDIES, Objection
from spirit_py.attached.record import Attachments, KeyMove, Places
from spirit_py.attached.sequence import copies
from spirit_py.classes import dataclass, field
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, ServerFault
from spirit_py.locks.named import NO_RUN_OF_OURS, named_lock_holder
from spirit_py.mysql.evaluation import KEY_NOT_REQUIRED, WITHOUT_KEY, as_stored
from spirit_py.mysql.faults import NO_SUCH_TABLE, Disposition, access_denied, disposition
from spirit_py.mysql.processlist import whose
from spirit_py.mysql.tables.definition import read_table
from spirit_py.mysql.tables.new_table import drop_tables
from spirit_py.sql import quote_identifier, quote_table
from spirit_py.table.names import lock_name, trial_name
from spirit_py.table.schema import type_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.table.names import Name
    from spirit_py.table.schema import Index, TableSchema

_VISIBLE: Final = """
SELECT r.CONSTRAINT_SCHEMA, r.TABLE_NAME, r.CONSTRAINT_NAME,
       r.UNIQUE_CONSTRAINT_SCHEMA, r.REFERENCED_TABLE_NAME, r.DELETE_RULE, r.UPDATE_RULE,
       r.UNIQUE_CONSTRAINT_NAME, k.COLUMN_NAME, k.REFERENCED_COLUMN_NAME
FROM information_schema.REFERENTIAL_CONSTRAINTS r
JOIN information_schema.KEY_COLUMN_USAGE k
  ON k.CONSTRAINT_SCHEMA = r.CONSTRAINT_SCHEMA AND k.CONSTRAINT_NAME = r.CONSTRAINT_NAME
 AND k.TABLE_NAME = r.TABLE_NAME AND k.REFERENCED_TABLE_NAME IS NOT NULL
WHERE {where}
ORDER BY r.CONSTRAINT_SCHEMA, r.TABLE_NAME, r.CONSTRAINT_NAME, k.ORDINAL_POSITION"""
_OF: Final = "r.CONSTRAINT_SCHEMA = %s AND r.TABLE_NAME = %s"
_TO: Final = "r.UNIQUE_CONSTRAINT_SCHEMA = %s AND r.REFERENCED_TABLE_NAME = %s"

_PAIRS: Final = """
SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME, REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME
FROM information_schema.KEY_COLUMN_USAGE
WHERE REFERENCED_TABLE_NAME IS NOT NULL AND TABLE_SCHEMA IN ({})"""

_EVERY: Final = """
SELECT f.ID, f.FOR_NAME, f.REF_NAME, f.TYPE, c.FOR_COL_NAME, c.REF_COL_NAME
FROM information_schema.INNODB_FOREIGN f
JOIN information_schema.INNODB_FOREIGN_COLS c ON c.ID = f.ID
WHERE f.REF_NAME = %s
ORDER BY f.FOR_NAME, f.ID, c.POS"""
# Bits of INNODB_FOREIGN.TYPE (manual 28.4.13); none of them is RESTRICT.
_ON_DELETE: Final = {1: "CASCADE", 2: "SET NULL", 16: "NO ACTION"}
_ON_UPDATE: Final = {4: "CASCADE", 8: "SET NULL", 32: "NO ACTION"}


def keys_of(session: SqlSession, schema: str, table: str) -> tuple[ForeignKey, ...]:
    """Return the keys of a child table that the account may see, ordered by name."""
    return _visible(session, _OF, schema, table)


def visible_keys_to(session: SqlSession, schema: str, table: str) -> tuple[ForeignKey, ...]:
    """Return the keys to a parent table of children that the account may see."""
    return _visible(session, _TO, schema, table)


def keys_to(session: SqlSession, schema: str, table: str) -> tuple[ForeignKey, ...]:
    """Return every key to a parent table, ordered by child and name; needs PROCESS."""
    seen = visible_keys_to(session, schema, table)
    known = {(f"{key.schema}/{key.name}", f"{key.schema}/{key.table}") for key in seen}
    rows = session.query(_EVERY, (f"{schema}/{table}",))
    hidden = [row for row in rows if (row[0], row[1]) not in known]
    return (*seen, *_hidden(hidden, (schema, table)))


def keys_around(session: SqlSession, schema: str, table: str) -> tuple[ForeignKey, ...]:
    """Return the keys of a table and those to it, a self-reference once; needs PROCESS."""
    own = keys_of(session, schema, table)
    return (*own, *(key for key in keys_to(session, schema, table) if key.child != key.parent))


def require_free_around(session: SqlSession, tables: Collection[Name], remedy: str) -> None:
    """Refuse where another run works on a child or a parent of tables, which their swap alters."""
    for table in tables:
        for key in keys_around(session, *table):
            for other in sorted({key.child, key.parent} - set(tables)):
                holder = named_lock_holder(session, lock_name("migration", *other))
                if holder is not None:
                    raise Refusal(
                        f"another run works on {'.'.join(other)} ({whose(session, holder)}), and"
                        f" the swap of either table moves {key}",
                        hint=f"{remedy}; {NO_RUN_OF_OURS.format(holder)}",
                        error_code=ErrorCode.ALREADY_RUNNING,
                    )


def child_and_parent_tables(
    session: SqlSession, schemas: Sequence[str]
) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """Yield child and parent, by name, of each visible key whose child is in these schemas."""
    if not schemas:
        return
    rows = session.query(_PAIRS.format(", ".join(["%s"] * len(schemas))), schemas)
    for child_schema, child, parent_schema, parent in rows:
        yield (str(child_schema), str(child)), (str(parent_schema), str(parent))


def _visible(session: SqlSession, where: str, schema: str, table: str) -> tuple[ForeignKey, ...]:
    rows = session.query(_VISIBLE.format(where=where), (schema, table))
    return tuple(
        ForeignKey(
            schema=group[0],
            table=group[1],
            name=group[2],
            parent_schema=group[3],
            parent_table=group[4],
            on_delete=group[5],
            on_update=group[6],
            parent_index=group[7] or "",
            columns=tuple(column for column, _ in columns),
            parent_columns=tuple(referred for _, referred in columns),
        )
        for group, columns in _grouped(rows, 8)
    )


def _hidden(rows: Iterable[tuple[Any, ...]], parent: tuple[str, str]) -> Iterator[ForeignKey]:
    for (constraint, child, _, actions), columns in _grouped(rows, 4):
        schema, _, table = child.partition("/")
        yield ForeignKey(
            name=constraint.removeprefix(f"{schema}/"),
            schema=schema,
            table=table,
            columns=tuple(column for column, _ in columns),
            parent_schema=parent[0],
            parent_table=parent[1],
            parent_columns=tuple(referred for _, referred in columns),
            on_delete=_action(actions, _ON_DELETE),
            on_update=_action(actions, _ON_UPDATE),
            visible=False,
        )


def _grouped(
    rows: Iterable[tuple[Any, ...]], fields: int
) -> Iterator[tuple[tuple[Any, ...], list[tuple[str, str]]]]:
    for group, members in groupby(rows, key=itemgetter(slice(fields))):
        yield group, [(row[fields], row[fields + 1]) for row in members]


def _action(bits: int, names: dict[int, str]) -> str:
    return next((name for bit, name in names.items() if bits & bit), "RESTRICT")


def concerned(session: SqlSession, tables: Iterable[Name]) -> frozenset[ForeignKey]:
    """Return the foreign keys of some tables, and those to them."""
    return frozenset(
        key for table in tables for key in (*keys_of(session, *table), *keys_to(session, *table))
    )


def concerned_now(session: SqlSession, tables: Iterable[Name]) -> tuple[ForeignKey, ...]:
    """Return those of :func:`concerned` that the account may see, each once; quick under a lock.

    INNODB_FOREIGN reads every key of the server: 25 ms for 3000 (measured).
    """
    both = (keys_of, visible_keys_to)
    found = (key for table in tables for read in both for key in read(session, *table))
    return tuple(dict.fromkeys(found))


def moves(
    session: SqlSession,
    keys: Iterable[ForeignKey],
    places: Places,
    carried: Callable[[ForeignKey], ForeignKey | None],
    token: str,
) -> tuple[KeyMove, ...]:
    """Return how each key moves, in a stable order; ``carried`` returns None for a dropped key."""
    found = []
    for number, key in enumerate(sorted(keys, key=lambda key: (*key.child, key.name)), start=1):
        after = carried(key)
        table = None if after is None else read_table(session, *places.new(after.child))
        indexes = () if after is None or table is None else maybe_generated(table, after)
        temporary = f"_spirit_py_{token}_{number}"
        found.append(KeyMove(before=key, after=after, temporary=temporary, indexes=indexes))
    return tuple(found)


def maybe_generated(table: TableSchema, key: ForeignKey) -> tuple[str, ...]:
    """Return the indexes that ADD FOREIGN KEY builds anew, if the server has made them for a key.

    It does not show that. ``RENAME INDEX i TO i`` in the same ALTER keeps one (measured on 9.7.4).
    """
    wanted = [column.lower() for column in key.columns]
    plain = ((index.name, _plain(index)) for index in table.indexes)
    return tuple(name for name, columns in plain if columns and columns == wanted[: len(columns)])


def _plain(index: Index) -> Sequence[str]:
    plain = index.kind.upper() == "BTREE" and not index.unique
    descending = any(part.descending for part in index.parts)
    return [column.lower() for column in index.columns] if plain and not descending else []


def _columns_of(index: Index) -> set[str]:
    """Return an index's columns in lower case; none of one that is no plain tree of columns."""
    names = {(part.column or "").lower() for part in index.parts}
    return set() if "" in names or index.kind.upper() != "BTREE" else names


def _index_sql(index: Index) -> str:
    kind = "UNIQUE KEY" if index.unique else "KEY"
    head = f"{kind} {quote_identifier(index.name)}" if index.name != "PRIMARY" else "PRIMARY KEY"
    parts = (
        f"{quote_identifier(part.column or '')}{f'({part.prefix})' if part.prefix else ''}"
        f"{' DESC' if part.descending else ''}"
        for part in index.parts
    )
    return f"{head} ({', '.join(parts)})"


def _is_passing(error: ServerFault) -> bool:
    """Whether an error says nothing about a definition."""
    return disposition(error) is not Disposition.FATAL or bool(error.hint) or access_denied(error)


_AS_IT_IS: Final = "see SHOW CREATE TABLE for what the server refuses now in that table"
_REMEDIES: Final = {**REMEDIES, WITHOUT_KEY: KEY_NOT_REQUIRED}
_REMEDY: Final = "keep what the foreign key needs, or drop the foreign key first"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A trial of keys as the ALTERs leave them; :meth:`run` drops what it creates in ``schema``."""

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
        ends = dict.fromkeys(end for key in self.keys for end in (key.child, key.parent))
        try:
            for number, end in enumerate(ends, start=1):
                self._names[end] = self._copy(end, trial_name(self.building, number))
            yield
        finally:
            made = [place[1] for end, place in self._names.items() if place != end]
            drop_tables(self.session, self.schema, made)

    def _copy(self, table: Name, name: str) -> Name:
        new = self.new_tables.get(table)
        found = read_table(self.session, *table) if new is None else None
        # A replica may have no relative: what is made of its columns needs none there.
        like = f"LIKE {quote_table(*(new or table))}" if found is None else self._skeleton(found)
        try:
            with as_stored(self.session):
                self.session.execute(f"CREATE TABLE {quote_table(self.schema, name)} {like}")
        except ServerFault as error:
            if error.code == NO_SUCH_TABLE:
                return table
            if _is_passing(error):
                raise
            named = ".".join(table)
            raise Refusal(
                f"a key between {named} and another table cannot be tried on a copy of the"
                f" definition of {named}: {error.text} (error {error.code})",
                hint=_REMEDIES.get(error.code, _AS_IT_IS),
                error_code=ErrorCode.FOREIGN_KEY,
            ) from error
        return self.schema, name

    def _skeleton(self, table: TableSchema) -> str:
        """Return a table's columns of keys, and its indexes that have some: the rest says nothing.

        What is computed is a plain column: that its own keys may have it is known.
        """
        name = (table.schema, table.name)
        ends = ((one.child, one.columns) for one in self.keys)
        others = ((one.parent, one.parent_columns) for one in self.keys)
        used = {column for end, columns in (*ends, *others) if end == name for column in columns}
        # One at least: a key may refer to a column that is not there.
        folded = {column.lower() for column in {*used, table.columns[0].name}}
        # The primary key, too, without which the server may take no table.
        plain = {one: _columns_of(one) for one in table.indexes}
        indexes = [one for one in plain if folded & plain[one] or one is table.primary_key]
        folded = folded.union(*map(plain.__getitem__, indexes))
        columns = (
            f"{quote_identifier(one.name)} {type_sql(one)} {'NULL' if one.nullable else 'NOT NULL'}"
            for one in table.columns
            if one.name.lower() in folded
        )
        body = ", ".join([*columns, *map(_index_sql, indexes)])
        return f"({body}) ENGINE=InnoDB ROW_FORMAT=DYNAMIC"

    def _between_copies(self, key: ForeignKey) -> ForeignKey:
        return key.between(self._names[key.child], self._names[key.parent])

    def _try(self, found: tuple[KeyMove, ...]) -> Iterator[Objection]:
        child = found[0].before.child
        pairs = ((move, key) for move in found for key in self.keys)
        keys = {m.temporary: key for m, key in pairs if self._between_copies(key) == m.before}
        before = self._indexes(child)
        for sql in copies(Attachments(swaps=(), keys=found)):
            try:
                with as_stored(self.session):
                    self.session.execute(str(sql))
            except ServerFault as error:
                if _is_passing(error):
                    raise
                yield self._refused(keys, error)
                return
        for name in self._indexes(child) - before:
            needed = f"an index that begins with ({', '.join(keys[name].columns)})"
            cause = f"{keys[name]} needs {needed}, which the ALTER removes"
            yield Objection(cause, INDEX_REMEDY)

    def _indexes(self, table: Name) -> set[str]:
        found = read_table(self.session, *table)
        return {index.name for index in found.indexes} if found is not None else set()

    def _refused(self, keys: Mapping[str, ForeignKey], error: ServerFault) -> Objection:
        text = error.text
        named = [key for temporary, key in keys.items() if f"'{temporary}'" in text]
        for temporary, key in keys.items():
            text = text.replace(f"'{temporary}'", f"'{key.name}'")
        for table, copy in self._names.items():
            text = text.replace(copy[1], table[1])
        which = "; ".join(map(str, named or keys.values()))
        cause = f"{which} cannot be kept: {text} (error {error.code})"
        return Objection(cause, _REMEDIES.get(error.code, _REMEDY))
