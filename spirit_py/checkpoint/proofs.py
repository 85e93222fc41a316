"""Which tables are a migration's (R24), and where the tables of a reverse replication are.

The new table is made under its own name, which was free. Its definitions are noted before: until
its number is noted too, an empty table of that name with one of them is ours. A table has the same
CREATE TIME on every server that executed the statement; CREATE TIME and definition together prove
it on another server, whose table numbers are then noted.
"""

from __future__ import annotations

import contextlib
import enum
import secrets
import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.earlier_run import ReverseFound, ReverseState
from spirit_py.checkpoint.record import ENDED, REVERTING, Pointer, Proofs, ReverseRecord, digest_of
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, ServerFault
from spirit_py.mysql.facts import server_now
from spirit_py.mysql.faults import NO_SUCH_COLUMN
from spirit_py.mysql.tables.definition import existing_tables, read_table, shape_of
from spirit_py.mysql.tables.identity import NOTHING, Identity, identity, is_one_of, others_than
from spirit_py.sql import quote_table
from spirit_py.table.names import AuxiliaryNames, building_name, is_building_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spirit_py.checkpoint.record import CheckpointRecord, ReverseTable, TableProgress
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.tables.new_table import Making
    from spirit_py.table.names import Name
    from spirit_py.table.schema import TableSchema

#: One for each source: what is noted of it is read, changed and written by several threads.
_MUTEXES: Final[dict[Name, threading.RLock]] = {}


def begin_proofs(session: SqlSession, schema: str, table: str) -> Proofs:
    """Note the source, and a name to build the new table under."""
    proofs = Proofs(
        building=building_name(table, secrets.token_hex(3)), source=identity(session, schema, table)
    )
    CheckpointTable(schema, table).write(session, proofs)
    return proofs


def read_proofs(session: SqlSession, schema: str, table: str) -> Proofs:
    """Return the noted proofs; empty ones without a checkpoint table, or one that can be read."""
    try:
        found = CheckpointTable(schema, table).read(session, Proofs) or Proofs()
        if found.building and not is_building_name(table, found.building):
            return Proofs()
        return _with_unfinished(session, schema, table, found)
    except UnreadableCheckpoint:
        return Proofs()
    except ServerFault as fault:
        if fault.code == NO_SUCH_COLUMN:
            return Proofs()
        raise


def _with_unfinished(session: SqlSession, schema: str, table: str, noted: Proofs) -> Proofs:
    """Return also what proves a new table that a run made, and ended before it noted the number."""
    name = AuxiliaryNames.of(table).new
    found = identity(session, schema, name) if noted.making and not noted.new else NOTHING
    if not found or shape_here(session, schema, name) not in noted.making:
        return noted
    rows = session.query(f"SELECT 1 FROM {quote_table(schema, name)} LIMIT 1")
    return noted if rows else replace(noted, new=found)


def note_made(session: SqlSession, schema: str, table: str, making: Making) -> None:
    """Note what proves the new table while it is made, and at the end of that."""
    digests = {digest_of(shape, AuxiliaryNames.of(table).new) for shape in making.shapes}
    note_proofs(session, schema, table, making=frozenset(digests), new=making.new)
    if making.new:
        # From now on it has rows, and nothing but this proves it.
        CheckpointTable(schema, table).harden(session)


def note_proofs(session: SqlSession, schema: str, table: str, **changes: Any) -> Proofs:
    """Note more of it."""
    with _mutex(schema, table):
        proofs = replace(read_proofs(session, schema, table), **changes)
        CheckpointTable(schema, table).write(session, proofs)
    return proofs


def renew_proofs(session: SqlSession, schema: str, table: str, **changes: Any) -> Proofs:
    """Note the new table again, after we altered it: it has another CREATE TIME then."""
    with _mutex(schema, table):
        noted = read_proofs(session, schema, table).new
        found = identity(session, schema, AuxiliaryNames.of(table).new)
        return note_proofs(session, schema, table, new=_renewed(noted, found), **changes)


def _mutex(schema: str, table: str) -> threading.RLock:
    return _MUTEXES.setdefault((schema, table), threading.RLock())


def _renewed(noted: Identity, found: Identity) -> Identity:
    return replace(noted, born=found.born) if noted.is_same(found) else noted


def renew_all_proofs(session: SqlSession, schema: str, table: str) -> None:
    """Note both tables of a swap again, under whatever names, after we altered them."""
    names = AuxiliaryNames.of(table)
    with _mutex(schema, table):
        noted = read_proofs(session, schema, table)
        found = [
            identity(session, schema, name) for name in (table, names.new, names.old, names.undone)
        ]
        changes = {
            field: _renewed(proof, one)
            for field, proof in (("source", noted.source), ("new", noted.new))
            for one in found
            if proof.is_same(one)
        }
        note_proofs(session, schema, table, **changes)


def proven(session: SqlSession, schema: str, table: str, proofs: Proofs) -> frozenset[str]:
    """Return the names, of a table and its auxiliary tables, whose tables are proven."""
    names = AuxiliaryNames.of(table)
    known = {names.new: proofs.new, names.old: proofs.source, names.undone: proofs.new}
    known |= {table: proofs.new, names.moved: proofs.source}
    others = others_than(session, {(schema, name): known[name] for name in known})
    return frozenset(name for name in known if (schema, name) not in others)


def proofs_here(
    session: SqlSession, schema: str, table: str, progress: TableProgress | None
) -> Proofs:
    """Return the proofs of a table's auxiliary tables, translated to this server where possible.

    The new table of a swap that was begun may have been altered under the lock since it was noted:
    it is the one of its definition in the place that the source, which is proven, leaves to it.
    """
    proofs = read_proofs(session, schema, table)
    if progress is None:
        return proofs
    names = AuxiliaryNames.of(table)

    def find(
        noted: Identity, shapes: frozenset[str], candidates: Iterable[str], *, altered: bool = False
    ) -> dict[str, Identity]:
        found = {
            name: one
            for name in candidates
            if (one := identity(session, schema, name)).is_replica_of(noted, altered=altered)
            and shape_here(session, schema, name) in shapes
        }
        return found if len(found) == 1 else {}

    new = find(proofs.new, progress.shapes, (names.new, table, names.undone))
    source = find(
        proofs.source, frozenset({progress.source_shape}), (names.old, names.moved, table)
    )
    if proofs.swap_begun and source and not new:
        place = names.new if table in source else table
        new = find(proofs.new, progress.shapes, (place,), altered=True)
    return replace(
        proofs,
        new=next(iter(new.values()), proofs.new),
        source=next(iter(source.values()), proofs.source),
    )


def note_here(session: SqlSession, record: CheckpointRecord) -> None:
    """Note what this server knows a record's tables by; nothing without a proof (R24)."""
    for progress in record.tables:
        here = proofs_here(session, *progress.name, progress)
        if here != read_proofs(session, *progress.name):
            CheckpointTable(*progress.name).write(session, here)


def shape_here(session: SqlSession, schema: str, table: str) -> str:
    """Return the digest of a table's definition; empty when there is no such table."""
    found = read_table(session, schema, table)
    return "" if found is None else shape_digest(found)


def shape_digest(table: TableSchema) -> str:
    """Return the digest of a definition that a checkpoint holds."""
    return digest_of(shape_of(table), table.name)


def noted_proof(session: SqlSession, table: Name, proof: str) -> Identity:
    """Return one of the proofs that were noted beside a source table."""
    found: Identity = getattr(read_proofs(session, *table), proof)
    return found


class Where(enum.Enum):
    """Where the old table is, before or after the atomic RENAME of a revert."""

    FORWARD = "the old table is there"
    BACK = "the old table is in its place"
    UNCLEAR = "the old table is gone"


def find_reverse(session: SqlSession, schema: str, table: str) -> ReverseRecord | None:
    """Return the record of a table's reverse replication, or None; Refusal if unreadable."""
    checkpoint = CheckpointTable(schema, table)
    if not checkpoint.exists(session):
        return None
    if not checkpoint.is_ours(session):
        raise Refusal(
            f"table {checkpoint} is not a checkpoint table of spirit-py",
            hint="see who created it",
            error_code=ErrorCode.CHECKPOINT_UNREADABLE,
        )
    with contextlib.suppress(UnreadableCheckpoint):
        found = checkpoint.read_record(session)
        if isinstance(found, Pointer):
            checkpoint = CheckpointTable(*found.home)
    try:
        record = checkpoint.read(session, ReverseRecord)
        if record is None or (schema, table) not in {one.name for one in record.tables}:
            return None
        record = of_its_tables(session, record)
    except UnreadableCheckpoint as error:
        raise Refusal(
            f"the record of reverse replication of {schema}.{table} cannot be read: {error}",
            hint="use the version of spirit-py that wrote it, or see who has created it",
            error_code=ErrorCode.CHECKPOINT_UNREADABLE,
        ) from error
    return record


def of_its_tables(session: SqlSession, record: ReverseRecord) -> ReverseRecord:
    """Return the record of those tables whose checkpoints lead to it (R26).

    UnreadableCheckpoint where one does not; but a place that is only noted holds no later migration
    of one table back, so the others have no way back then. After a revert a checkpoint may be gone;
    then there is no old table either.
    """
    others = []
    for table in record.tables:
        if table.name == record.home:
            continue
        noted = CheckpointTable(*table.name).read_record(session)
        if noted is None and not existing_tables(session, table.schema, [table.old]):
            continue
        if noted is None or noted.home != record.home:
            others.append(table)
    if not others:
        return record
    if not record.is_noted:
        raise UnreadableCheckpoint(f"it names {others[0]}, whose checkpoint does not name it")
    led = tuple(table for table in record.tables if table not in others)
    reason = f"it was swapped together with {others[0]}, which another migration has changed since"
    return replace(record, tables=led, reason=reason)


def old_tables(session: SqlSession, record: ReverseRecord) -> dict[Name, Identity]:
    """Return what proves the old table of each source; the checkpoints may go after this."""
    return {one.name: read_proofs(session, *one.name).source for one in record.tables}


def where_is(
    session: SqlSession, record: ReverseRecord, known: Mapping[Name, Identity] | None = None
) -> Where:
    """Look at the tables, while no process swaps them; ``known`` proves the old tables.

    Without a revert, an old table that is gone was dropped; equal definitions do not show that. The
    checkpoints go after the revert, that of the record's home last: a table whose own one is gone
    was in the same RENAME as one that is back.
    """
    proofs = old_tables(session, record) if known is None else known
    found = [(table, _where(session, table, proofs[table.name])) for table in record.tables]
    seen = {where for _, where in found}
    if seen == {Where.BACK, Where.UNCLEAR}:
        unclear = (table for table, where in found if where is Where.UNCLEAR)
        if all(table.name != record.home and _is_settled(session, table) for table in unclear):
            seen = {Where.BACK}
    where = seen.pop() if len(seen) == 1 else Where.UNCLEAR
    return Where.UNCLEAR if where is Where.BACK and record.state != REVERTING else where


def _where(session: SqlSession, table: ReverseTable, proof: Identity) -> Where:
    if shape_here(session, table.schema, table.old):
        return Where.FORWARD
    # By hand the definition may have been changed back, and the old table dropped (R24).
    return Where.BACK if is_one_of(session, *table.name, proof) else Where.UNCLEAR


def _is_settled(session: SqlSession, table: ReverseTable) -> bool:
    """Return whether a revert has left the old definition, and nothing else any more."""
    names = table.names
    left = (names.new, table.old, table.undone, names.checkpoint)
    now = shape_here(session, table.schema, table.table)
    return now in table.old_shapes and not existing_tables(session, table.schema, left)


def why_not_back(session: SqlSession, record: ReverseRecord) -> str:
    """Return why a place that was noted leads nowhere any more, but for the binlog; or nothing."""
    if record.reason:
        return record.reason
    for table in record.tables:
        for name, noted in ((table.old, table.old_shapes), (table.table, {table.now_shape})):
            found = shape_here(session, table.schema, name)
            if found not in noted:
                what = f"the definition of {table.schema}.{name} was changed since the swap"
                return what if found else f"{table.schema}.{name} is gone"
    return ""


def any_old_table(session: SqlSession, record: ReverseRecord) -> bool:
    """Return whether there is an old table left."""
    return any(shape_here(session, table.schema, table.old) for table in record.tables)


def reverse_left(session: SqlSession, tables: Iterable[tuple[str, str]]) -> ReverseFound | None:
    """Return what is left of these tables' reverse replication; None for nothing but its record."""
    for schema, table in tables:
        if not CheckpointTable(schema, table).is_ours(session):
            continue
        try:
            record = find_reverse(session, schema, table)
        except Refusal as error:
            state, name = ReverseState.UNREADABLE, f"{schema}.{table}"
            return ReverseFound(state=state, names=name, reason=error.message)
        if record is not None:
            return _left(session, record)
    return None


def _left(session: SqlSession, record: ReverseRecord) -> ReverseFound | None:
    where = where_is(session, record)
    undone = ", ".join(f"{table.schema}.{table.undone}" for table in record.tables)
    if where is Where.BACK:
        return ReverseFound(state=ReverseState.REVERTED, names=record.names, undone=undone)
    if not any_old_table(session, record):
        return None
    if record.is_noted:
        why = why_not_back(session, record)
        return ReverseFound(state=ReverseState.NOTED, names=record.names, reason=why)
    if where is Where.FORWARD and record.state != ENDED:
        until = datetime.fromtimestamp(record.until, UTC).isoformat(" ", "seconds")
        over = record.until <= server_now(session)
        return ReverseFound(state=ReverseState.KEPT, names=record.names, until=until, over=over)
    reason = record.reason or "one of the old tables is gone"
    return ReverseFound(state=ReverseState.LOST, names=record.names, reason=reason)
