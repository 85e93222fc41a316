"""The rows that ``--keep`` keeps: what is refused, and how many they are.

The server reads the expression (:mod:`spirit_py.preflight.row_expression`), and judges each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.catalogue import keys_around
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, ServerFault
from spirit_py.mysql.evaluation import evaluation_settings
from spirit_py.mysql.faults import connection_lost
from spirit_py.preflight.check import Findings, PreflightContext, refuse
from spirit_py.preflight.row_expression import Given, read_row_expression
from spirit_py.sql import identifier_list, quote_identifier
from spirit_py.table.conversions import is_timestamp
from spirit_py.table.expressions import makes_texts
from spirit_py.table.keys import INTEGERS, TEMPORALS
from spirit_py.table.names import digest_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.table.expressions import RowExpression
    from spirit_py.table.mapping import TableMapping

#: So often a range of the key is divided, and so many rows of each are judged for an estimate.
_DIVISIONS, _SAMPLED, _SAMPLE_SECONDS = 60, 200, 2
#: An estimate of room is larger by these than the sample says.
_MARGIN, _LEAST_SHARE = 1.2, 0.02

#: In both halves of the year, for places that move their clocks, or have moved their zone.
_MOMENTS: Final = [f"{year}-{month}-15 12:00" for year in range(1970, 2038, 4) for month in (1, 7)]


def kept_rows(context: PreflightContext) -> Findings:
    """Refuse an expression that cannot judge rows, and what must not lose any."""
    if not context.config.modes.keep:
        return
    try:
        read_kept(context)
    except Refusal as refusal:
        yield refuse(refusal.message, refusal.hint)
    option, _ = context.config.keep_given
    if context.config.keep_old_current:
        yield refuse(
            f"--keep-old-current does not go with {option}: the old table has rows that the new one"
            " has not",
            "leave it out, or give 0s; --drop-old-after never keeps the old table as it was at the"
            " swap",
        )
    name = (context.schema, context.table)
    for key in keys_around(context.session, *name):
        if key.parent == name:
            yield refuse(
                f"{option}: rows of {'.'.join(key.child)} refer to {'.'.join(name)} by {key}, and"
                " would lose their parents",
                "drop the foreign key before, and the children's rows by it",
                code=ErrorCode.FOREIGN_KEY,
            )


def kept_keys(context: PreflightContext) -> Findings:
    """Refuse a new definition under which a row that is left out may stand for a kept one."""
    mapping, (option, _) = context.mapping, context.config.keep_given
    if mapping.keep is None:
        return
    if mapping.key_merging:
        yield refuse(
            f"{option} does not go with a key whose values may become equal in the new table"
            f" ({', '.join(mapping.new_key_columns)}): a row that is left out could not be told"
            " from a kept one",
            "change the key's type or collation in a migration of its own",
        )
    plain = INTEGERS | TEMPORALS | {"decimal", "float", "double", "bit", "year"}
    texts = [one.name for one in mapping.keep.columns if one.data_type not in plain]
    texts += ["a function that may make a text"] if makes_texts(mapping.keep.expression) else []
    if mapping.time_zone and texts:
        yield refuse(
            f"{option} reads {', '.join(texts)} while the ALTER computes times in the server's time"
            " zone: a text with an offset would be judged in two zones",
            "make the change and the purge in two migrations",
        )


def judged_by(contexts: Sequence[PreflightContext], mappings: Sequence[TableMapping]) -> str:
    """Return what decides which rows are kept, and what new columns hold; empty for neither.

    Nothing else would find a difference: there is no other row, or column, to compare with.
    """
    session, facts = contexts[0].session, contexts[0].facts
    kept = [one.keep for one in mappings if one.keep is not None]
    computed = sorted(text for one in mappings for text in _computed(one))
    found = judged_with(session, kept, facts).split(",") if kept else []
    if computed:
        zone = _meaning(session, facts.time_zone)
        found.append(digest_of((computed, zone, evaluation_settings(facts))))
    return ",".join(sorted(found))


def judged_with(session: SqlSession, kept: Sequence[RowExpression], facts: ServerFacts) -> str:
    """Return a digest of each expression with the settings, sorted and joined by commas.

    The server writes one text otherwise for tables whose columns differ.
    """
    settings = evaluation_settings(facts)
    found = {digest_of(([(one.expression, *_zone(session, one))], settings)) for one in kept}
    return ",".join(sorted(found))


def evaluated_under(contexts: Sequence[PreflightContext], mappings: Sequence[TableMapping]) -> str:
    """Return a digest of the settings that convert or compute values; empty where none are.

    A comparison that has passed such values under others has not seen what is written now.
    """
    if not any(one.time_zone or one.converted or one.computed for one in mappings):
        return ""
    session, facts = contexts[0].session, contexts[0].facts
    return digest_of((_meaning(session, facts.time_zone), evaluation_settings(facts)))


def _zone(session: SqlSession, kept: RowExpression) -> list[str]:
    zoned = any(is_timestamp(column) for column in kept.columns)
    return _meaning(session, kept.time_zone) if zoned else [kept.time_zone]


def _meaning(session: SqlSession, time_zone: str) -> list[str]:
    """Return a time zone, and what some moments are in it.

    ``SYSTEM`` is that of the server's process: another one behind a failover, or a restart.
    """
    moments = ", ".join(f"CONVERT_TZ('{one}', '+00:00', %s)" for one in _MOMENTS)
    (found,) = session.query(f"SELECT {moments}", [time_zone] * len(_MOMENTS))
    return [time_zone, *map(str, found)]


def _computed(mapping: TableMapping) -> list[str]:
    """Return the new columns whose stored values the server computes, with their expressions."""
    carried = {pair.new.name for pair in mapping.compared}
    carried |= {fill.column.name for fill in mapping.fills}
    return [
        f"{mapping.source.full_name} {one.name} {one.generation_expression or one.default}"
        for one in mapping.target.columns
        if one.name not in carried and (one.generated == "STORED" or one.default_computed)
    ]


def require_judged_alike(
    contexts: Sequence[PreflightContext], mappings: Sequence[TableMapping], before: str
) -> None:
    """Refuse to go on with a copy that was made under other settings of the server."""
    option, given = contexts[0].config.keep_given
    noted = set(filter(None, before.split(",")))
    # An earlier version has noted nothing of computed columns.
    if not noted <= set(judged_by(contexts, mappings).split(",")) or (given and not noted):
        what = f"{option} would judge rows" if given else "new columns would be computed"
        raise Refusal(
            f"{what} otherwise than the earlier run did: settings of the server are others now"
            " (time_zone, sql_mode, default_week_format or their like)",
            hint="set them back and run the same command again; or drop the copy with spirit-py"
            " cleanup, and begin anew",
            error_code=ErrorCode.CANNOT_RESUME,
        )


def read_kept(context: PreflightContext) -> RowExpression | None:
    """Return the expression as the server reads it; None without one; Refusal."""
    text = context.config.modes.keep
    if not text:
        return None
    option, shown = context.config.keep_given
    given = Given(option=option, text=text, shown=shown)
    session, source, facts = context.session, context.source, context.facts
    return read_row_expression(session, source, given, facts, moment=context.moment)


def kept_share(context: PreflightContext) -> float | None:
    """Return the share of rows that is kept, by rows from all over the key; None if not known."""
    try:
        kept, source = read_kept(context), context.source
    except Refusal:
        return None  # The check above says it.
    # A key that begins with a prefix of a text has no whole column there.
    leading = source.primary_key.leading if source.primary_key is not None else ()
    first = source.column(leading[0]) if leading else None
    if kept is None or first is None or first.data_type not in INTEGERS:
        return None
    table, name = source.quoted, quote_identifier(first.name)
    columns = identifier_list(dict.fromkeys((first.name, *(one.name for one in kept.columns))))
    hint = f"/*+ MAX_EXECUTION_TIME({_SAMPLE_SECONDS * 1000}) */"
    sampled: list[tuple[int, int, int]] = []
    try:
        ranges = _ranges(context.session, table, name)
        for low, high, about in ranges:
            ((rows, true),) = context.session.query(
                f"SELECT {hint} COUNT(*), SUM({kept.condition()}) FROM (SELECT {columns}"
                f" FROM {table} FORCE INDEX (PRIMARY) WHERE {name} BETWEEN {low} AND {high}"
                f" ORDER BY {name} LIMIT {_SAMPLED}) AS sampled"
            )
            if rows:
                sampled.append((about, int(rows), int(true or 0)))
    except ServerFault as fault:
        if connection_lost(fault):
            raise
        return None
    # Each range counts by its rows, of which those at its beginning were judged.
    weighed = [(max(about, rows), true / rows) for about, rows, true in sampled]
    whole = sum(weight for weight, _ in weighed)
    return sum(weight * share for weight, share in weighed) / whole if whole else None


def _ranges(session: SqlSession, table: str, name: str) -> list[tuple[int, int, int]]:
    """Divide a key where its rows are: ranges, with about how many rows each has."""

    def counted(low: int, high: int) -> tuple[int, int, int]:
        # With FORCE INDEX the server would not look at the index, and answer 1.
        (row, *_) = session.query(
            f"EXPLAIN FORMAT=TRADITIONAL SELECT {name} FROM {table}"
            f" WHERE {name} BETWEEN {low} AND {high}"
        )
        return low, high, int(row[9] or 0)

    ((low, high),) = session.query(f"SELECT MIN({name}), MAX({name}) FROM {table}")
    if low is None:
        return []
    ranges = [counted(int(low), int(high))]
    for _ in range(_DIVISIONS):
        low, high, rows = widest = max(ranges, key=lambda one: one[2])
        if low == high or rows <= _SAMPLED:
            break
        middle = (low + high) // 2
        ranges.remove(widest)
        ranges += [counted(low, middle), counted(middle + 1, high)]
    return ranges


def share_written(context: PreflightContext) -> float:
    """Return which part of the table a copy writes, at most; 1 where all rows are kept."""
    return with_margin(kept_share(context) if context.config.modes.keep else None)


def with_margin(share: float | None) -> float:
    """Return the part of a table for which there must be room, by a share in a sample."""
    return 1.0 if share is None else min(1.0, share * _MARGIN + _LEAST_SHARE)
