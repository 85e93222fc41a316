"""Drop what an abandoned migration left, after asking; nothing that is not provably ours."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.look import progress_of
from spirit_py.checkpoint.members import beside, members, store_of
from spirit_py.checkpoint.proofs import proofs_here
from spirit_py.checkpoint.record import CheckpointRecord, Pointer
from spirit_py.errors import Refusal
from spirit_py.mysql.connect import connect
from spirit_py.mysql.earlier_runs import end_earlier_sessions
from spirit_py.mysql.locks.named import named_lock_holder, take_named_lock
from spirit_py.mysql.privileges import Sight
from spirit_py.mysql.run_label import run_label
from spirit_py.mysql.tables.identity import is_one_of
from spirit_py.mysql.tables.new_table import drop_table, is_own_sentinel
from spirit_py.sql import quote_table
from spirit_py.table.names import AuxiliaryNames, is_building_name, lock_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession

Ask: TypeAlias = Callable[[str], bool]
"""Puts a question to the operator; true for yes."""
Say: TypeAlias = Callable[[str], None]

_NEEDED: Final = ("SELECT", "DROP")
_MAY_HOLD: Final = (
    "After a swap the old table holds the rows from before, and a new one that was swapped back"
    " by hand those from between."
)
_EXISTING: Final = """
SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s"""


@dataclass(frozen=True, kw_only=True)
class Leftovers:
    """What is beside the tables of one abandoned migration, as schema and name.

    Attributes:
        own: new tables and sentinels, then checkpoints: as long as one of these is there, what
            is beside it is known to be ours.
        old: old tables, and new ones that were, or may have been, in their tables' places: they
            may hold the only copy of rows.
        others: what only has the right name: nothing proves that this program made it.
    """

    tables: tuple[tuple[str, str], ...]
    own: tuple[tuple[str, str], ...]
    old: tuple[tuple[str, str], ...]
    others: tuple[tuple[str, str], ...] = ()


def clean_up(
    options: ConnectionOptions,
    *,
    database: str,
    table: str,
    ask: Ask,
    ask_old: Ask,
    say: Say,
) -> None:
    """Drop what a migration of this table left, and of the tables that changed together with it.

    Args:
        ask: before anything is dropped.
        ask_old: before old tables are dropped.

    Raises:
        Refusal: a process works on it; nothing proves that the tables are ours; the answer was no.
        ServerFault: the server could not be asked.
    """
    with connect(options, role="cleanup", read_timeout=600) as session:
        sight = Sight(session)
        sight.require(_NEEDED, database, table, "what is left there could be hidden from it")
        tables = _tables(session, (database, table))
        if not tables:
            _refuse_others(session, database, table)
            say(f"no migration has left anything beside {database}.{table}")
            return
        for other in tables:
            sight.require(_NEEDED, *other, what="they belong to the same migration")
        sight.require_sessions()
        sight.require_numbers()
        _keep_others_away(session, tables)
        if _tables(session, (database, table)) != tables:
            raise Refusal(
                f"what is left beside {database}.{table} has just changed",
                hint="see spirit-py status, then run it again",
            )
        left = _leftovers(session, tables)
        _list(left, say)
        if not ask(f"Drop {len(left.own)} table(s)?"):
            raise Refusal("nothing was dropped", hint="answer yes, or give --yes")
        ended = end_earlier_sessions(session, run_label(tables))
        if ended:
            say(f"ended {ended} sessions of the abandoned run")
        drop_old = bool(left.old) and ask_old(f"Drop {_names(left.old)} too? {_MAY_HOLD}")
        for schema, name in (*(left.old if drop_old else ()), *left.own):
            drop_table(session, schema, name)
            say(f"dropped {schema}.{name}")
        if left.old and not drop_old:
            _keep(left.old, "nothing says any more that it is ours", say)
        if left.others:
            _keep(left.others, "nothing proves that this program made it", say)


def _tables(session: SqlSession, table: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Get the tables of the migration that left its mark beside this one; none without a mark."""
    if not store_of(table).is_ours(session):
        return ()
    try:
        stored = beside(session, table).stored
    except UnreadableCheckpoint:
        return (table,)
    if stored is None or not isinstance(stored.found, CheckpointRecord):
        return (table,)
    return tuple(sorted({table, *members(session, stored.found)}))


def _refuse_others(session: SqlSession, database: str, table: str) -> None:
    """Refuse to drop tables that only have the right names."""
    names = AuxiliaryNames.of(table)
    there = _existing(session, database)
    taken = [name for name in (names.new, names.old, names.checkpoint) if name.lower() in there]
    if taken:
        raise Refusal(
            f"{', '.join(taken)} exist(s), and no checkpoint says that spirit-py made it",
            hint="see who made it; when nobody needs it: "
            + " ".join(f"DROP TABLE {quote_table(database, name)};" for name in taken),
        )


def _keep_others_away(session: SqlSession, tables: Sequence[tuple[str, str]]) -> None:
    """Take the locks of the tables' migrations, for the life of this session."""
    for table in tables:
        lock = lock_name("migration", *table)
        if not take_named_lock(session, lock):
            raise Refusal(
                f"a process works on {'.'.join(table)} now (server session"
                f" {named_lock_holder(session, lock)})",
                hint="stop it first, or let it finish",
            )


def _leftovers(session: SqlSession, tables: Sequence[tuple[str, str]]) -> Leftovers:
    """Find what is there."""
    own: list[tuple[str, str]] = []
    marks: list[tuple[str, str]] = []
    old: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    record = _record(session, tables)
    for schema, table in tables:
        there, names = _existing(session, schema), AuxiliaryNames.of(table)
        made = proofs_here(session, schema, table, progress_of(record, (schema, table)))
        proofs = {names.new: made.new, names.old: made.source, names.undone: made.new}
        found: dict[str, list[tuple[str, str]]] = {name: [] for name in proofs}
        for name, numbers in proofs.items():
            if is_one_of(session, schema, name, numbers):
                found[name].append((schema, name))
            elif name.lower() in there:
                others.append((schema, name))
        # Behind a swap that was undone by hand it holds what the application wrote.
        (old if made.swap_begun else own).extend(found[names.new])
        if is_building_name(table, made.building) and made.building.lower() in there:
            own.append((schema, made.building))
        if is_own_sentinel(session, schema, names.sentinel):
            own.append((schema, names.sentinel))
        marks.append((schema, names.checkpoint))
        old += found[names.old] + found[names.undone]
    # The first table's has the record, by which the others are known.
    return Leftovers(
        tables=tuple(tables),
        own=(*own, *reversed(marks)),
        old=tuple(old),
        others=tuple(others),
    )


def _record(
    session: SqlSession, tables: Iterable[tuple[str, str]]
) -> CheckpointRecord | Pointer | None:
    """Return the record that the tables' checkpoints lead to."""
    for table in tables:
        with contextlib.suppress(UnreadableCheckpoint):
            stored = beside(session, table).stored
            if stored is not None:
                return stored.found
    return None


def _existing(session: SqlSession, schema: str) -> set[str]:
    """Return the names of a schema's tables in lower case, which some servers store them in."""
    return {str(row[0]).lower() for row in session.query(_EXISTING, (schema,))}


def _list(left: Leftovers, say: Say) -> None:
    say(f"an abandoned migration of {_names(left.tables)} has left:")
    for schema, name in left.own:
        say(f"  {schema}.{name}")
    for schema, name in left.old:
        say(f"  {schema}.{name} (asked for separately: it may hold the only copy of rows)")
    for schema, name in left.others:
        say(f"  {schema}.{name} (stays: nothing proves that this program made it)")


def _keep(tables: Sequence[tuple[str, str]], why: str, say: Say) -> None:
    """Say what stays, why, and how it is dropped by hand."""
    say(f"kept {_names(tables)}: {why}")
    for one in tables:
        say(f"  when nobody needs it: DROP TABLE {quote_table(*one)};")


def _names(tables: Sequence[tuple[str, str]]) -> str:
    return ", ".join(".".join(table) for table in tables)
