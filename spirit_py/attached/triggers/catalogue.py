"""Read triggers without losing a byte, and try whether the new table can have them (R24).

``information_schema`` shows a body in Unicode, where binary literals are not exact. ``SHOW CREATE
TRIGGER`` with ``character_set_results=binary`` returns the client's bytes (measured, 9.7), behind a
head made of the catalogue in UTF-8.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from spirit_py.attached.triggers.model import BYTES, Listed, Placed, Trigger, mentions, moves_of
from spirit_py.attached.triggers.statements import OWN_SETTINGS, create, gate, withdrawn
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, Refusal
from spirit_py.mysql.faults import ACCESS_NEEDS_PRIVILEGE, Disposition, disposition, excused
from spirit_py.mysql.processlist import query_bytes
from spirit_py.sql import quote_identifier, quote_table, string_literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from spirit_py.attached.triggers.model import Spellings, TriggerMove
    from spirit_py.contracts import SqlSession
    from spirit_py.errors import ServerFault
    from spirit_py.mysql.session import Session
    from spirit_py.table.names import Swap

_TRIGGERS: Final = """
SELECT TRIGGER_NAME, ACTION_TIMING, EVENT_MANIPULATION, ACTION_ORDER, DEFINER, SQL_MODE,
  CHARACTER_SET_CLIENT, COLLATION_CONNECTION, DATABASE_COLLATION, ACTION_STATEMENT,
  EVENT_OBJECT_TABLE
FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s
ORDER BY ACTION_TIMING, EVENT_MANIPULATION, ACTION_ORDER"""
_LISTED: Final = """
SELECT TRIGGER_NAME, ACTION_TIMING, EVENT_MANIPULATION, ACTION_STATEMENT, SQL_MODE
FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s
ORDER BY TRIGGER_NAME"""
_PLACES: Final = """
SELECT EVENT_OBJECT_SCHEMA, TRIGGER_NAME, EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS
WHERE """
_ON: Final = "EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s"
_STATE: Final = """
SELECT TRIGGER_NAME, EVENT_OBJECT_TABLE, ACTION_TIMING, EVENT_MANIPULATION, ACTION_ORDER, CREATED
FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s"""
_COLLATION: Final = """
SELECT DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s"""
_STATEMENT_COLUMN: Final = 2
_NO_SUCH_TRIGGER: Final = 1360


def read_triggers(
    session: SqlSession,
    schema: str,
    table: str,
    *,
    also: Iterable[str] = (),
    beside: Iterable[str] = (),
) -> tuple[Trigger, ...]:
    """Return a table's triggers in firing order; needs TRIGGER, without which none are shown.

    Refusal for one that cannot be written down again as it is. ``also`` are further tables' names
    that a statement about them will hold, ``beside`` further triggers' in a clause about the order.
    """
    rows = session.query(_TRIGGERS, (schema, table))
    beside = [*beside, *(str(row[0]) for row in rows)]
    return tuple(
        found
        for row in rows
        if (found := _trigger(session, schema, row, (schema, table, *also), beside)) is not None
    )


def list_triggers(session: SqlSession, schema: str, table: str) -> tuple[Listed, ...]:
    """Return a table's triggers as far as the account may see them, ordered by name."""
    return tuple(Listed(*map(str, row)) for row in session.query(_LISTED, (schema, table)))


def read_places(session: SqlSession, tables: Iterable[tuple[str, str]]) -> tuple[Placed, ...]:
    """Return where the triggers of these tables are, in one query."""
    asked = list(tables)
    query = _PLACES + " OR ".join([_ON] * len(asked))
    rows = session.query(query, [*chain(*asked)]) if asked else ()
    return tuple(Placed(*map(str, row)) for row in rows)


def read_state(session: SqlSession, tables: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Return a text for each trigger of these tables; its creation time tells a new one apart."""
    asked = list(tables)
    if not asked:
        return frozenset()
    rows = session.query(" UNION ALL ".join([_STATE] * len(asked)), [*chain(*asked)])
    return frozenset(" ".join(map(str, row)) for row in rows)


def _trigger(
    session: SqlSession,
    schema: str,
    row: tuple[Any, ...],
    names: tuple[str, ...],
    beside: Iterable[str],
) -> Trigger | None:
    """Return a trigger that was listed; None where it was dropped since."""
    name, timing, event, order, definer, mode, client, connection, database, text, table = row
    user, _, host = str(definer).rpartition("@")
    shown = excused(partial(_shown, session, schema, str(name)), None, {_NO_SUCH_TRIGGER})
    if shown is None:
        return None
    head = (
        f"CREATE DEFINER={quote_identifier(user)}@{quote_identifier(host)}"
        f" TRIGGER {quote_identifier(str(name))} {timing} {event}"
        f" ON {quote_identifier(str(table))} FOR EACH ROW "
    ).encode()
    if not shown.startswith(head):
        raise Refusal(
            f"trigger {name} of {schema}.{table}: SHOW CREATE TRIGGER does not begin as its"
            f" catalogue entry says: {shown[:120]!r}",
            hint="drop the trigger and create it again, or migrate without it (--triggers refuse"
            " names all of them)",
            error_code=ErrorCode.TRIGGER_NOT_KEPT,
        )
    return Trigger(
        schema=schema,
        name=str(name),
        table=str(table),
        timing=str(timing),
        event=str(event),
        order=int(order),
        user=user,
        host=host,
        sql_mode=str(mode),
        character_set_client=str(client),
        collation_connection=str(connection),
        database_collation=str(database),
        body=shown[len(head) :].decode(BYTES),
        text=str(text),
        spellings=_spellings(session, str(client), {*names, str(name), user, host}, beside),
    )


def _shown(session: SqlSession, schema: str, name: str) -> bytes:
    (row,) = query_bytes(session, f"SHOW CREATE TRIGGER {quote_table(schema, name)}")
    return bytes(row[_STATEMENT_COLUMN])


def _spellings(
    session: SqlSession, charset: str, needed: set[str], beside: Iterable[str]
) -> Spellings:
    """Return names as that client quotes them; ``beside`` may be in a clause about the order."""
    found = []
    for name in sorted({*needed, *beside}):
        if name.isascii():
            continue
        if (quoted := _quoted(session, charset, name)) is not None:
            found.append((name, quoted))
        elif name in needed:
            raise Refusal(
                f"{name!r} cannot be written in {charset}, the character set of a"
                " trigger that names it",
                hint="drop the trigger and create it again after SET NAMES utf8mb4",
                error_code=ErrorCode.TRIGGER_NOT_KEPT,
            )
    return tuple(found)


def _quoted(session: SqlSession, charset: str, name: str) -> str | None:
    """Return a quoted name in a character set; None where the server would read another one.

    The byte of a backquote is doubled only where it is a letter: it may be part of one.
    """
    spelled = [
        f"CONVERT({string_literal(letter)} USING {quote_identifier(charset)})" for letter in name
    ]
    asked = [f"CAST({one} AS BINARY), CONVERT({one} USING utf8mb4)" for one in spelled]
    (row,) = session.query(f"SELECT {', '.join(asked)}")
    letters = [bytes(one).decode(BYTES) for one in row[::2]]
    # The server halves doubled ones byte by byte (measured, 9.7).
    halved = "`" in letters and any("`" in one for one in letters if len(one) > 1)
    if halved or "".join(row[1::2]) != name:
        return None
    return f"`{''.join('``' if one == '`' else one for one in letters)}`"


RECREATE = "drop the trigger, and create it again after the migration"


def trigger_moves(
    session: SqlSession, swaps: Iterable[Swap], token: str
) -> tuple[TriggerMove, ...]:
    """Return the moves of all swapped-out tables' triggers; SpiritError if one cannot be moved."""
    found: list[Trigger] = []
    for swap in swaps:
        if strange := read_places(session, [(swap.schema, swap.new)]):
            raise MigrationFailure(
                f"trigger {strange[0].name} is on {swap.schema}.{swap.new}, not by this program",
                hint=f"drop the triggers of {swap.new}, then run the same command again",
                error_code=ErrorCode.TRIGGER_NOT_KEPT,
            )
        found += read_triggers(session, *swap.name, also=(swap.new, swap.old))
    require_collations(session, found)
    return moves_of(tuple(found), token)


def schema_collation(session: SqlSession, schema: str) -> str:
    """Return the collation that a trigger gets which is created now; empty if it is not shown."""
    rows = session.query(_COLLATION, (schema,))
    return str(rows[0][0]) if rows else ""


def older_collation(trigger: Trigger, now: str) -> tuple[str, str]:
    """Return what another collation of the schema means for a trigger, and the remedy."""
    was = trigger.database_collation
    cause = (
        f"{trigger.label} was created when the collation of {trigger.schema} was {was}; a trigger"
        f" created now gets {now}"
    )
    remedy = (
        "drop the trigger and create it again, so that it has today's collation; or ALTER DATABASE"
        f" to {was} for the time of the migration"
    )
    return cause, remedy


def require_collations(session: SqlSession, triggers: Iterable[Trigger]) -> None:
    """Require that triggers which are created now are the same; else MigrationFailure."""
    asked = list(triggers)
    now = {schema: schema_collation(session, schema) for schema in {one.schema for one in asked}}
    for one in asked:
        if now[one.schema] not in {"", one.database_collation}:
            cause, remedy = older_collation(one, now[one.schema])
            raise MigrationFailure(cause, hint=remedy, error_code=ErrorCode.TRIGGER_NOT_KEPT)


def keepable(
    moves: Iterable[TriggerMove], changed: Callable[[tuple[str, str]], Mapping[str, str]]
) -> None:
    """Require that no body names a column that the swap takes away; else MigrationFailure."""
    places = [
        str(mention)
        for move in moves
        for mention in mentions(move.trigger, changed((move.trigger.schema, move.trigger.table)))
    ]
    if places:
        raise MigrationFailure(
            "a trigger that was created meanwhile cannot be kept",
            hint=RECREATE,
            details=tuple(places),
            error_code=ErrorCode.TRIGGER_NOT_KEPT,
        )


_BINLOG_UNTRUSTED: Final = 1419


def require_same(session: Session, move: TriggerMove, swap: Swap) -> None:
    """Create a trigger, plain and behind its gate, and drop it; Refusal unless it is the same."""
    trigger = move.trigger
    for gated in ("", gate(move.note)):
        statements = create(trigger, name=move.temporary, table=swap.new, gated=gated)
        _, fault = session.execute_packet([*statements, OWN_SETTINGS])
        session.execute(OWN_SETTINGS)
        if fault is not None:
            raise _refused(trigger, fault)
        (made,) = read_triggers(session, swap.schema, swap.new)
        if not gated and made.essence != trigger.essence:
            alike = replace(made, name=trigger.name, table=trigger.table, order=trigger.order)
            differ = [
                name for name, value in vars(alike).items() if value != getattr(trigger, name)
            ]
            raise Refusal(
                f"{trigger.label} of {trigger.schema}.{trigger.table} would not be the same when it"
                f" is created again: {', '.join(differ)} would differ",
                hint="drop the trigger, or create it again on this server",
                error_code=ErrorCode.TRIGGER_NOT_KEPT,
            )
        session.execute(f"DROP TRIGGER {quote_table(swap.schema, move.temporary)}")


def withdraw(session: Session, moves: Iterable[TriggerMove], swap: Swap) -> None:
    """Drop what is left of the trial on the new table; a ServerFault ends it."""
    # A trial that failed may have left those of its trigger.
    session.execute(OWN_SETTINGS)
    there = read_places(session, [(swap.schema, swap.new)])
    left = withdrawn([move.note for move in moves], {swap.name: swap.new}, there)
    _, fault = session.execute_packet(left)
    if fault is not None:
        raise fault


def _refused(trigger: Trigger, fault: ServerFault) -> Exception:
    if disposition(fault) is not Disposition.FATAL:
        return fault
    hint = "drop the trigger, or create it again in a form that this server accepts"
    if fault.code == ACCESS_NEEDS_PRIVILEGE:
        hint = f"grant the account the named privilege, for the definer {trigger.user}"
    elif fault.code == _BINLOG_UNTRUSTED:
        hint = "set the global log_bin_trust_function_creators to 1"
    return Refusal(
        f"{trigger.label} of {trigger.schema}.{trigger.table} cannot be created again:"
        f" {fault.text} (error {fault.code})",
        hint=hint,
        error_code=ErrorCode.TRIGGER_NOT_KEPT,
    )
