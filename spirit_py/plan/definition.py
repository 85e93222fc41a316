"""What a statement makes of a definition: the server's own answer, on temporary tables."""

from __future__ import annotations

import contextlib
import re
import secrets
from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.catalogue import keys_around
from spirit_py.attached.foreign_keys.rules import KeyedTables, objections
from spirit_py.classes import dataclass, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, ServerFault, SpiritError
from spirit_py.mysql.connect import connect
from spirit_py.mysql.evaluation import (
    DEFINITION_COPY,
    accepting_modes,
    as_shown,
    as_stored,
    choose_modes,
    copying_modes,
    server_refusal,
)
from spirit_py.mysql.faults import connection_lost
from spirit_py.mysql.tables import definition
from spirit_py.mysql.tables.definition import TEMPORARY, shape_of
from spirit_py.plan.columns import method_of
from spirit_py.plan.model import Note
from spirit_py.preflight.check import refuse
from spirit_py.preflight.checks.source_table import usable_key
from spirit_py.preflight.preflight import mapping_of
from spirit_py.sql import is_text, quote_identifier, quote_table, string_literal
from spirit_py.statement import ClauseKind, alter_of
from spirit_py.statement.rewrite import (
    FOREIGN_KEY,
    TemporaryForm,
    clauses_for_temporary,
    names_of,
)
from spirit_py.table.names import AuxiliaryNames, building_name
from spirit_py.table.unique_keys import ambiguous

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.preflight.check import Finding, PreflightContext
    from spirit_py.statement import AlterStatement
    from spirit_py.table.names import Name
    from spirit_py.table.schema import TableSchema

LOCK_WAIT: Final = 1
"""Seconds for which a plan waits for one lock."""
_SHOWN: Final = 0xFFFF
_OF_TEMPORARY: Final = frozenset({1031, 1044, 1214, 1215, 1562, 1796, 1846, 3500, 3833, 4026, 1478})
_OF_PARTITIONS: Final = frozenset({1505, 1507, 1508, 1509, 1510, 1512, 1514, 1517})
_NO_TEXT: Final = "the definition: it has bytes that are not text"


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The result of a trial; ``target`` is the temporary table, ``create`` makes it elsewhere."""

    new: str = ""
    target: TableSchema | None = None
    unknown: tuple[str, ...] = ()
    refusal: Refusal | None = None
    create: str = ""


@contextlib.contextmanager
def tried_definition(
    session: SqlSession, native: SqlSession, source: TableSchema, statement: AlterStatement
) -> Iterator[Tried]:
    """Return what a statement makes of a table, which ``session`` has meanwhile, without rows."""
    tried = _tried(session, native, source, statement)
    try:
        yield tried
    finally:
        if tried.target is not None:
            with contextlib.suppress(ServerFault):
                session.execute(f"DROP TEMPORARY TABLE IF EXISTS {tried.target.quoted}")


def _tried(
    session: SqlSession, native: SqlSession, source: TableSchema, statement: AlterStatement
) -> Tried:
    made = _made_of(native, source, statement)
    if not made.create:
        return made
    body = made.create.removeprefix(f"{TEMPORARY}{quote_identifier(source.name)}")
    new = AuxiliaryNames.of(source.name).new
    create = f"{TEMPORARY}{quote_table(source.schema, new)}{body}"
    try:
        with as_stored(session):
            session.execute(create)
        target = definition.read_temporary(session, source.schema, new)
    except ServerFault as fault:
        if connection_lost(fault):
            raise
        return Tried(unknown=(*made.unknown, f"the new columns: {fault.text}"))
    return replace(made, target=target, create=create)


def shape_after(native: SqlSession, source: TableSchema, statement: AlterStatement) -> str:
    """Return the definition that a statement leaves; empty where that is not certain.

    ``native`` has the statement's modes, and no temporary table that hides the source.
    """
    definition.show_generated_key(native)
    if _made_of(native, source, replace(statement, clauses="", parsed=())).new != shape_of(source):
        return ""
    after = _made_of(native, source, statement)
    added = statement.of_kind(
        ClauseKind.ADD_INDEX, ClauseKind.ADD_UNIQUE, ClauseKind.ADD_PRIMARY_KEY
    )
    unsure = after.unknown or (added and _names_or_drops(source, after.new))
    return "" if unsure else after.new


#: Its kind, name and columns.
_INDEX: Final = re.compile(
    r"^  (PRIMARY |UNIQUE |FULLTEXT |)KEY (?:`((?:[^`]|``)+)` )?"
    r"\(((?:`(?:[^`]|``)+`(?:\(\d+\))?(?: DESC)?,?)+)\)",
    re.MULTILINE,
)


def _names_or_drops(source: TableSchema, after: str) -> bool:
    """Return whether the table may get other indexes than the trial, which had no such keys.

    A name that a FULLTEXT index has is given to no other; an index that the server made for a
    foreign key goes where one that is added begins with its columns (measured on 9.7.4).
    """
    found = [(kind, name.lower(), columns) for kind, name, columns in _INDEX.findall(after)]
    names = [name for _, name, _ in found if name]
    if len({*names}) < len(names):
        return True
    if not FOREIGN_KEY.search(after):
        return False
    before = {(name.lower(), columns) for _, name, columns in _INDEX.findall(shape_of(source))}
    added = [(name, columns) for _, name, columns in found if (name, columns) not in before]
    old = {name for name, _ in before}
    plain = [(name, columns) for kind, name, columns in found if not kind and name in old]
    return any(
        name != other and f"{columns},".startswith(f"{least},")
        for name, columns in added
        for other, least in plain
    )


def shape_guarded(session: SqlSession, source: TableSchema) -> str:
    """Return the definition once the snapshot guard's column has come and gone; empty for unknown.

    ADD COLUMN writes constants of CHECKs anew, as 16 for 0x10 beside a BIGINT (9.7.4). ``session``
    as for :func:`shape_after`.
    """
    if " CHECK (" not in source.create_sql:
        return ""
    column = quote_identifier(building_name("guard", secrets.token_hex(3)))
    shape = ""
    with as_stored(session):
        for clause in (f"ADD COLUMN {column} TINYINT", f"DROP COLUMN {column}"):
            shape = shape_after(session, source, alter_of(source.schema, source.name, clause))
            if not shape:
                break
            source = replace(source, create_sql=shape)
    return shape


def _made_of(native: SqlSession, source: TableSchema, statement: AlterStatement) -> Tried:
    """Return the definition, and the temporary table's own; no table stays."""
    form = TemporaryForm.of(shape_of(source), source.name)
    if form is None:
        return Tried(unknown=("the definition: it is not of the form that is known",))
    # Letters above U+FFFF are shown as ``?`` (measured on 9.7).
    members = "".join(member for column in source.columns for member in column.members)
    if any(ord(letter) > _SHOWN for letter in members):
        return Tried(unknown=("the definition: the server shows letters of its members as ?",))
    if any(len({*one.members}) < len(one.members) for one in source.columns if ambiguous(one)):
        return Tried(unknown=("the definition: the server shows two members alike",))
    if not is_text(form.body):
        return Tried(unknown=(_NO_TEXT,))
    clauses, left = clauses_for_temporary(statement, names_of(form.keys), names_of(form.fulltext))
    unknown = tuple(f"what {text!r} makes of it: no temporary table can have it" for text in left)
    try:
        made = _altered(native, source, form, clauses)
    except Refusal as refusal:
        return Tried(refusal=refusal, unknown=unknown)
    except ServerFault as fault:
        if connection_lost(fault):
            raise
        why = f"the new definition: no temporary table of it can be made ({fault.text})"
        return Tried(unknown=(*unknown, why))
    if not is_text(made):
        return Tried(unknown=(*unknown, _NO_TEXT))
    whole = form.complete(made.replace(TEMPORARY, "CREATE TABLE ", 1), statement)
    return Tried(create=made, new=whole, unknown=unknown)


def _altered(native: SqlSession, source: TableSchema, form: TemporaryForm, clauses: str) -> str:
    table = source.quoted
    with as_shown(native):
        try:
            native.execute(f"{TEMPORARY}{table} {form.body}")
        except ServerFault as fault:
            if modes := copying_modes(fault):
                raise server_refusal(fault, DEFINITION_COPY, modes) from fault
            raise
    try:
        if clauses:
            _alter(native, f"ALTER TABLE {table} {clauses}")
        with as_shown(native):
            return definition.read_shape(native, source.schema, source.name)
    finally:
        with contextlib.suppress(ServerFault):
            native.execute(f"DROP TEMPORARY TABLE IF EXISTS {table}")


def _alter(native: SqlSession, sql: str) -> None:
    try:
        native.execute(sql)
    except ServerFault as fault:
        about_temporary = fault.code in _OF_TEMPORARY | _OF_PARTITIONS
        if connection_lost(fault) or fault.hint or about_temporary:
            raise
        mode = str(native.query("SELECT @@SESSION.sql_mode")[0][0])
        strict = str(native.query("SELECT @@SESSION.innodb_strict_mode")[0][0])
        modes = accepting_modes(native, sql, fault)
        native.execute(
            f"SET SESSION sql_mode = {string_literal(mode)}, innodb_strict_mode = {strict}"
            if modes
            else f"SET SESSION sql_mode = {string_literal(mode)}"
        )
        raise server_refusal(fault, "the ALTER", modes) from fault


def refused_keys(
    session: SqlSession, contexts: Iterable[PreflightContext], targets: Mapping[Name, TableSchema]
) -> list[Note]:
    """Return a refusal for each key that a swap cannot move; ``targets`` by name of the source.

    ``session`` must have no temporary tables of the names of real ones.
    """
    known = [one for one in contexts if (one.schema, one.table) in targets]
    around = dict.fromkeys(
        key for one in known for key in keys_around(session, one.schema, one.table)
    )
    old = {(one.schema, one.table): one.source for one in known}
    for key in around:
        for end in (key.child, key.parent):
            found = None if end in old else definition.read_table(session, *end)
            if found is not None:
                old[end] = found
    altered = known[0].altered if known else {}
    new = {end: table for end, table in old.items() if end not in altered} | dict(targets)
    return [
        Note(
            cause=cause,
            remedy=remedy,
            table=f"{known[0].schema}.{known[0].table}",
            check="foreign_keys",
            code=ErrorCode.FOREIGN_KEY,
        )
        for cause, remedy in objections(around, KeyedTables(old=old, new=new, altered=altered))
    ]


def keys_lost(config: MigrationConfig, contexts: Sequence[PreflightContext]) -> list[Finding]:
    """Return why an ALTER leaves a copied table without a key, which no check of the source sees.

    What cannot be tried is left out: something else is refused already, and is to be told.
    """
    found: list[Finding] = []
    connected = partial(connect, config.connection, role="plan", lock_wait_timeout=LOCK_WAIT)
    with contextlib.suppress(SpiritError), connected() as session, connected(native=True) as native:
        choose_modes(native, contexts[0].facts)
        for context in contexts:
            if context.found is None or any(usable_key(context)):
                continue
            with tried_definition(session, native, context.source, context.statement) as tried:
                method = method_of(context, tried.target, len(contexts))
                if tried.target is None or method.algorithm != "copy":
                    continue
                try:
                    mapping_of(context, tried.target)
                except Refusal as lost:
                    code = lost.error_code
                    found.append(refuse(lost.message, lost.hint, lost.details, code=code))
    return found
