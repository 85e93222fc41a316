"""The statements that carry triggers over a swap, and what remains of them (pure).

CREATE TRIGGER is sent as bytes in the creating client's character set, under the session settings
that the trigger keeps. Every list ends with the program's own settings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from spirit_py.attached.triggers.model import BYTES, Placed, TriggerMove
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.sql import EndsPacket, quote_identifier, quote_table, string_literal
from spirit_py.statement.lexer import SqlMode, read_tokens

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from spirit_py.attached.triggers.model import Trigger, TriggerNote
    from spirit_py.table.names import Name

Sql: TypeAlias = str | bytes
"""Bytes where a statement must be sent in another character set than UTF-8."""

#: ``@spirit_py_sql_mode`` holds the mode of every session of the program.
OWN_SETTINGS: Final = "SET NAMES utf8mb4, SESSION sql_mode = @spirit_py_sql_mode"
#: The error of a deadlock (1213): clients try the transaction again, and then have a new snapshot.
_TRY_AGAIN: Final = (
    "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT ="
    " 'the swap of this table was interrupted; try restarting transaction'"
)
#: Seconds for which a snapshot is not trusted that may be from the middle of the sequence.
_WARY_SECONDS: Final = 10
_GATE_END: Final = "\n; END IF"


def copies(moves: Iterable[TriggerMove], new_of: dict[tuple[str, str], str]) -> list[Sql]:
    """Return what is sent before the RENAME: the temporary triggers on the new tables."""
    return _framed(
        statement
        for move in moves
        for statement in create(
            move.trigger,
            name=move.temporary,
            table=new_of[move.trigger.schema, move.trigger.table],
            gated=gate(move.note),
        )
    )


def renamed(
    moves: Iterable[TriggerMove], old_of: dict[tuple[str, str], str]
) -> tuple[Trigger, ...]:
    """Return the triggers right after the RENAME; of the copies, without their gates."""
    return tuple(
        trigger
        for move in moves
        for trigger in (
            replace(move.trigger, table=old_of[move.trigger.schema, move.trigger.table]),
            replace(move.trigger, name=move.temporary),
        )
    )


def placed(noted: Iterable[TriggerNote], existing: Iterable[Trigger]) -> list[Sql]:
    """Return what remains after the RENAME, made from originals or gated copies, if any."""
    there = {(trigger.schema, trigger.name): trigger for trigger in existing}
    moves = [move for note in noted if (move := _move_of(note, there)) is not None]
    places = {Placed(one.schema, one.name, one.table) for one in there.values()}
    return _framed(_placed(moves, places))


def _move_of(note: TriggerNote, there: Mapping[tuple[str, str], Trigger]) -> TriggerMove | None:
    found = there.get((note.schema, note.name))
    if found is None and (copy := there.get((note.schema, note.temporary))) is not None:
        found = _ungated(note, copy)
    if found is None:
        return None
    return TriggerMove(
        trigger=replace(found, name=note.name, table=note.table), temporary=note.temporary
    )


def _ungated(note: TriggerNote, copy: Trigger) -> Trigger:
    # That of earlier versions has the other clock.
    begins = [gate(note), gate(note, clock="NOW()")]
    begin = next(filter(copy.body.startswith, begins), begins[0])
    # The server keeps the semicolon that followed it in the packet.
    body = copy.body.rstrip("; \t\r\n")
    if not (body.startswith(begin) and body.endswith(_GATE_END)):
        raise Refusal(
            f"trigger {note.temporary} of {note.schema}.{note.table} was changed since this"
            f" program made it: {note.name} cannot be restored from it",
            hint=f"see who has changed it; create {note.name} by hand, then drop {note.temporary}",
            error_code=ErrorCode.TRIGGER_NOT_KEPT,
        )
    body = body[len(begin) : -len(_GATE_END)]
    text = copy.text.rstrip("; \t\r\n")
    whole = text.startswith(begin) and text.endswith(_GATE_END)
    return replace(copy, body=body, text=text[len(begin) : -len(_GATE_END)] if whole else body)


def withdrawn(
    noted: Iterable[TriggerNote], new_of: Mapping[Name, str], existing: Collection[Placed]
) -> list[Sql]:
    """Return what undoes :func:`copies` where no RENAME followed: what is on the new tables."""
    made = (Placed(note.schema, note.temporary, new_of[note.schema, note.table]) for note in noted)
    return _framed(_drop(copy.schema, copy.name) for copy in made if copy in existing)


def _placed(moves: Sequence[TriggerMove], existing: set[Placed]) -> Iterator[Sql]:
    elsewhere = {(place.schema, place.name) for place in existing}
    for move in moves:
        if (move.trigger.schema, _opening(move)) in elsewhere:
            yield _drop(move.trigger.schema, _opening(move))
    opened: set[tuple[str, str]] = set()
    for at, move in enumerate(moves):
        trigger = move.trigger
        copy = move.original._replace(name=move.temporary)
        if move.original not in existing:
            order = _order(moves, at, existing)
            if order and (trigger.schema, trigger.table) not in opened:
                opened.add((trigger.schema, trigger.table))
                yield from _open_anew(move)
            if (trigger.schema, trigger.name) in elsewhere:
                yield _drop(trigger.schema, trigger.name)
            yield from create(trigger, name=trigger.name, table=trigger.table, order=order)
        if copy in existing:
            yield _drop(trigger.schema, move.temporary)


def _open_anew(move: TriggerMove) -> Iterator[str]:
    """Make and drop a trigger, so that the server opens a locked table with its triggers.

    A table that LOCK TABLES opened as a parent has none: error 3011 for FOLLOWS (measured, 9.7.4).
    """
    schema = move.trigger.schema
    yield (
        f"CREATE TRIGGER {quote_table(schema, _opening(move))} BEFORE INSERT"
        f" ON {quote_table(schema, move.trigger.table)} FOR EACH ROW BEGIN END"
    )
    yield _drop(schema, _opening(move))


def _opening(move: TriggerMove) -> str:
    return f"{move.temporary}_open"


def _order(moves: Sequence[TriggerMove], at: int, existing: set[Placed]) -> str:
    move = moves[at]
    if move.original._replace(name=move.temporary) not in existing:
        return _beside(moves, at, existing)
    mine = move.trigger
    later = any(
        (theirs.schema, theirs.table, theirs.turn) == (mine.schema, mine.table, mine.turn)
        for theirs in (other.trigger for other in moves[at + 1 :])
    )
    return f"FOLLOWS {quote_identifier(move.temporary)}" if later else ""


def _beside(moves: Sequence[TriggerMove], at: int, existing: set[Placed]) -> str:
    """Return the clause of order for a trigger whose copy is gone."""
    mine = moves[at].trigger

    def alike(other: TriggerMove) -> bool:
        theirs = other.trigger
        same = (theirs.schema, theirs.table, theirs.turn) == (mine.schema, mine.table, mine.turn)
        return same and mine.spells(theirs.name)

    before = [other for other in moves[:at] if alike(other)]
    if before:
        return f"FOLLOWS {mine.quoted(before[-1].trigger.name)}"
    for other in moves[at + 1 :]:
        if not alike(other):
            continue
        if other.original._replace(name=other.temporary) in existing:
            return f"PRECEDES {quote_identifier(other.temporary)}"
        if other.original in existing:
            return f"PRECEDES {mine.quoted(other.trigger.name)}"
    return ""


def create(
    trigger: Trigger, *, name: str, table: str, order: str = "", gated: str = ""
) -> tuple[str, bytes]:
    """Return the settings of a trigger, and its CREATE TRIGGER; ``gated`` begins a block."""
    settings = (
        f"SET SESSION character_set_client = {trigger.character_set_client},"
        f" SESSION collation_connection = {trigger.collation_connection},"
        f" SESSION sql_mode = '{trigger.sql_mode}'"
    )
    quoted = trigger.quoted
    schema = quoted(trigger.schema)
    head = (
        f"CREATE DEFINER={quoted(trigger.user)}@{quoted(trigger.host)}"
        f" TRIGGER {schema}.{quoted(name)} {trigger.timing} {trigger.event}"
        f" ON {schema}.{quoted(table)} FOR EACH ROW "
    )
    if gated:
        # A body may end in a comment that the end of the line closes.
        body = trigger.body.removesuffix(";")
        return settings, f"{head}{gated}{body}{_GATE_END}".encode(BYTES)
    statement = f"{head}{f'{order} ' if order else ''}{trigger.body}".encode(BYTES)
    # One that has kept its semicolon keeps it only where another statement follows.
    goes_on = statement.endswith(b";") or _is_block(trigger)
    return settings, statement if goes_on else EndsPacket(statement)


def _is_block(trigger: Trigger) -> bool:
    """Whether the body is ``BEGIN ... END``; after others the server keeps a ``;`` (measured)."""
    tokens = read_tokens(trigger.text, SqlMode.of(trigger.sql_mode), executed=True)
    try:
        return next(tokens).upper == "BEGIN"
    except (Refusal, StopIteration):
        return False


def gate(note: TriggerNote, *, clock: str = "SYSDATE()") -> str:
    """Return the begin of a temporary trigger: its body runs while the trigger itself is missing.

    Only met where the session was killed half-way. The catalogue is read in the writer's snapshot,
    which may be older than now, so in this order:

    1. No temporary trigger on its table: from before the RENAME; refused with a deadlock's error.
    2. The trigger itself is there: that one fires.
    3. It may be from between RENAME and CREATE TRIGGER, for some seconds: refused.
    4. The trigger itself is missing: the body runs.
    """
    itself, mine = _exists(note, note.name), _exists(note, note.temporary)
    # A writer may have set the clock that NOW() shows.
    recent = _exists(
        note, note.temporary, f" AND CREATED > {clock} - INTERVAL {_WARY_SECONDS} SECOND"
    )
    return (
        f"IF NOT {mine} THEN {_TRY_AGAIN};"
        f" ELSEIF {itself} THEN BEGIN END;"
        " ELSEIF @@SESSION.transaction_isolation NOT LIKE 'READ-%'"
        f" AND {recent} THEN {_TRY_AGAIN};"
        " ELSE "
    )


def _exists(note: TriggerNote, name: str, further: str = "") -> str:
    return (
        "EXISTS (SELECT 1 FROM information_schema.TRIGGERS"
        f" WHERE TRIGGER_SCHEMA = {string_literal(note.schema)}"
        f" AND EVENT_OBJECT_TABLE = {string_literal(note.table)}"
        f" AND TRIGGER_NAME = {string_literal(name)}{further})"
    )


def _drop(schema: str, name: str) -> str:
    return f"DROP TRIGGER {quote_table(schema, name)}"


def _framed(statements: Iterable[Sql]) -> list[Sql]:
    found: list[Sql] = []
    own = False
    for statement in statements:
        plain = isinstance(statement, str) and statement.startswith(("DROP ", "CREATE "))
        if plain and not own:
            found.append(OWN_SETTINGS)
        own = plain
        found.append(statement)
    return [*found, *([] if own or not found else [OWN_SETTINGS])]
