"""Which foreign keys the swap can carry along, and why it cannot carry the others (pure).

This knows the statement and the catalogue only. What the server says to a key between the changed
definitions is asked of the server, on empty tables: :mod:`spirit_py.attached.foreign_keys.trial`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from spirit_py.attached.foreign_keys.after_alter import carried, missing_column
from spirit_py.attached.foreign_keys.moving import carried_name
from spirit_py.mysql.facts import version_numbers
from spirit_py.sql import quote_identifier
from spirit_py.statement import ClauseKind
from spirit_py.table.names import MAX_IDENTIFIER, AuxiliaryNames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from spirit_py.attached.foreign_keys.model import ForeignKey
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.statement import AlterStatement
    from spirit_py.table.schema import TableSchema

#: From here on the SQL layer changes the rows of children, and logs them (measured on 9.7).
LOGGED_SINCE = (9, 6)
_NATIVE_KEYS = "innodb_native_foreign_keys"
#: Each child takes some milliseconds of the lock, and its lock is asked for with the others.
MANY_CHILDREN = 20
_ALIKE: Final = (
    "change the columns of both tables in the same way: both in one run, with several statements;"
    " or drop the foreign key first"
)
_PARENT_INDEX: Final = "keep a unique index over the referenced columns, or drop the foreign key"
REMEDIES: Final = {
    1506: "drop the foreign key first: the server has none on partitioned tables",
    1822: _PARENT_INDEX,
    1830: "keep the column nullable, or drop the foreign key first",
    3104: "keep the column a plain one, or drop the foreign key first",
    3192: "leave the column out of stored generated columns, or replace the key by one without such"
    " an action first",
    3733: "keep the column a stored one, or drop the foreign key first",
    3780: _ALIKE,
    3823: "leave the CHECK out, or replace the key by one without such an action first",
    6125: f"{_PARENT_INDEX}; or SET GLOBAL restrict_fk_on_non_standard_key=OFF, here and on the"
    " replicas, if it referred to such an index before",
}
"""What to do about errors of the server that are about foreign keys, by their number."""


class Objection(NamedTuple):
    """Why a key cannot be carried along, and what to do."""

    cause: str
    remedy: str


def dropped_column(
    key: ForeignKey, altered: Mapping[tuple[str, str], AlterStatement]
) -> Iterator[Objection]:
    """Yield a column of a key that is dropped without the key (errors 1828 and 1829).

    Args:
        altered: the statement of each table of the run, by schema and name.
    """
    if carried(key, altered) is None or not (lost := missing_column(key, altered)):
        return
    column, table = lost
    yield Objection(
        f"column {column} of {'.'.join(table)} cannot be dropped: {key} needs it",
        _drop_first(key, altered),
    )


def _drop_first(key: ForeignKey, altered: Mapping[tuple[str, str], AlterStatement]) -> str:
    if key.child in altered:
        return f"add DROP FOREIGN KEY {key.name} to the statement, or keep the column"
    child = ".".join(key.child)
    return f"ALTER TABLE {child} DROP FOREIGN KEY {key.name} first, or keep the column"


def unseen_changes(
    key: ForeignKey, altered: Mapping[tuple[str, str], AlterStatement], facts: ServerFacts
) -> Iterator[Objection]:
    """Yield a key that changes rows of a table of the run without a trace in the binlog.

    Also one that the ALTER drops, since it acts until the swap.
    """
    if key.child in altered and key.changes_rows and (why := cascades_unseen(facts)):
        actions = f"ON DELETE {key.on_delete} ON UPDATE {key.on_update}"
        yield Objection(
            f"{key} changes rows of {'.'.join(key.child)} ({actions}), and {why}",
            "migrate on MySQL 9.6 or later without that option; or replace the key by one without"
            " these actions for the time of the migration, while the application changes these"
            " rows itself",
        )


def half_logged_changes(
    keys: Iterable[ForeignKey], altered: Mapping[tuple[str, str], AlterStatement]
) -> list[ForeignKey]:
    """Return the keys whose changes of rows a server may log although it has rolled them back.

    Of servers that log them at all. Measured on 9.7.4: a cascade that waits for a row of the child,
    not the first one, and ends in a deadlock gives no error, and with autocommit its changes until
    then are in the binlog and in no table. See docs/triggers-and-foreign-keys.md.
    """
    return [key for key in keys if key.child in altered and key.changes_rows]


def name_too_long(
    key: ForeignKey, altered: Mapping[tuple[str, str], AlterStatement], *, kept: bool
) -> Iterator[Objection]:
    """Yield a key that RENAME would give a name of more than 64 characters (error 1059).

    Args:
        kept: the table may be swapped back, which renames its keys too.
    """
    if key.child not in altered:
        return
    names = AuxiliaryNames.of(key.table)
    for name in (names.old, names.undone) if kept else (names.old,):
        if len(after := carried_name(key.name, key.table, name)) > MAX_IDENTIFIER:
            yield Objection(
                f"RENAME TABLE to {name} would rename {key} to {after}, which is too long",
                f"give it a name that does not begin with {key.table}_ibfk_ first: SET SESSION"
                f" foreign_key_checks=0, then DROP FOREIGN KEY and ADD CONSTRAINT in one"
                " ALTER TABLE, which changes metadata only",
            )
            return


def cascades_unseen(facts: ServerFacts) -> str:
    """Return why the binlog lacks the rows that foreign keys change; empty where it has them."""
    if version_numbers(facts.version) < LOGGED_SINCE:
        return f"MySQL {facts.version} writes such changes into no binlog: InnoDB makes them itself"
    if facts.is_on(_NATIVE_KEYS):
        return f"with {_NATIVE_KEYS}=ON the server writes such changes into no binlog"
    return ""


def dropped_in_vain(
    statement: AlterStatement, source: TableSchema, keys: Iterable[ForeignKey]
) -> Iterator[Objection]:
    """Yield the clauses that drop a key which is not there, or is not clearly meant.

    The new table has no foreign keys, so the server does not say it.

    Args:
        keys: those of the table.
    """
    names = {key.name.lower() for key in keys}
    for clause in statement.of_kind(ClauseKind.DROP_FOREIGN_KEY):
        if clause.name.lower() not in names:
            yield Objection(
                f"table {source.schema}.{source.name} has no foreign key {clause.name}",
                f"see SHOW CREATE TABLE {source.name}",
            )
    for clause in statement.of_kind(ClauseKind.DROP_CONSTRAINT):
        name = clause.name
        if name.lower() in names and _other_constraint(source, name):
            yield Objection(
                f"DROP CONSTRAINT {name} names two constraints of {source.name}",
                "write DROP FOREIGN KEY, DROP CHECK or DROP INDEX",
            )


def _other_constraint(source: TableSchema, name: str) -> bool:
    """Return whether a unique index or a CHECK of the table has this name too."""
    index = source.index(name)
    check = f"  CONSTRAINT {quote_identifier(name)} CHECK ".lower()
    lines = source.create_sql.lower().split("\n")
    return any(line.startswith(check) for line in lines) or (index is not None and index.unique)
