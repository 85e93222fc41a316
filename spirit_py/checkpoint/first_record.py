"""The record that a run begins with, and the checkpoint tables that are created for it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spirit_py import __version__
from spirit_py.checkpoint.proofs import begin_proofs, shape_digest
from spirit_py.checkpoint.record import CheckpointRecord, Pointer, TableProgress, joined
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spirit_py.config import SessionModes
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.tables.identity import Name
    from spirit_py.statement import AlterStatement
    from spirit_py.table.schema import TableSchema


def normal_form(statements: Mapping[Name, AlterStatement]) -> str:
    """Return one text for statements, the same however they are spelled and ordered.

    Args:
        statements: by schema and name of their table, as the server spells these.
    """
    return joined(
        (name, replace(statement, schema=name[0], table=name[1]).normalized)
        for name, statement in statements.items()
    )


def first_record(
    session: SqlSession,
    statement: str,
    sources: Mapping[Name, TableSchema],
    server_uuid: str,
    modes: SessionModes,
) -> CheckpointRecord:
    """Return the record of a migration that begins now.

    Args:
        statement: from :func:`normal_form`.
    """
    now = session.query("SELECT DATE_FORMAT(UTC_TIMESTAMP(6), '%Y-%m-%dT%H:%i:%s.%f')")[0][0]
    return CheckpointRecord(
        statement=statement,
        tables=tuple(
            TableProgress(schema=schema, table=table, source_shape=shape_digest(source))
            for (schema, table), source in sources.items()
        ),
        server_uuid=server_uuid,
        phase=Phase.PREFLIGHT.value,
        started_at=f"{now}+00:00",
        modes=modes,
        program=__version__,
    )


def renewed(record: CheckpointRecord, server_uuid: str) -> CheckpointRecord:
    """Return the record of a run that carries on with an earlier one's."""
    return replace(record, runs=record.runs + 1, program=__version__, server_uuid=server_uuid)


def with_new_tables(
    record: CheckpointRecord, targets: Mapping[Name, TableSchema]
) -> CheckpointRecord:
    """Return the record with the definitions of the new tables, given by their sources' names."""
    tables = (
        replace(table, target_shape=shape_digest(targets[table.name])) for table in record.tables
    )
    return replace(record, tables=tuple(tables))


def create_checkpoint_tables(session: SqlSession, record: CheckpointRecord) -> None:
    """Create the checkpoint tables; later auxiliary tables are proven to be ours by them (R24)."""
    pointer = Pointer(home=record.home, program=__version__)
    for table in record.tables:
        first = record if table.name == record.home else pointer
        CheckpointTable(*table.name).create(session, first)
        begin_proofs(session, *table.name)
