"""Which column of one table is compared with which of the other, and by which key (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.classes import dataclass, replace
from spirit_py.errors import NotComparable, Refusal, UsageFault
from spirit_py.table.conversions import Conversion, conversion, depends_on_zone, is_timestamp
from spirit_py.table.expressions import evaluated_in_zone, repeats_hours
from spirit_py.table.mapping import ColumnPair, TableMapping, fresh_names, with_instants
from spirit_py.table.unique_keys import choose_key, computed_pairs, tightened_indexes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spirit_py.table.schema import Column, TableSchema


@dataclass(frozen=True, kw_only=True)
class Matching:
    """Two tables, and their compared columns; ``computed`` ones are generated alike, not read."""

    mapping: TableMapping
    ignored: tuple[str, ...] = ()
    only_source: tuple[str, ...] = ()
    only_target: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()

    def warnings(self) -> Iterator[str]:
        """Return what is not compared, a line each."""
        source, target = self.mapping.source, self.mapping.target
        if self.ignored:
            yield f"not compared, as --ignore-column asks: {', '.join(self.ignored)}"
        for table, names in ((source, self.only_source), (target, self.only_target)):
            if names:
                yield f"not compared: only {table.full_name} has {', '.join(names)}"
        kept = [name for name in self.computed if target.column(name).generated == "STORED"]
        if kept:
            yield (
                f"not compared: {', '.join(kept)}, because columns of which they are computed"
                " differ in type, or have other names"
            )
        if self.only_source and self.only_target:
            yield (
                "a column with another name in the target is compared with"
                f" --map {self.only_source[0]}={self.only_target[0]}"
            )


def match(
    source: TableSchema,
    target: TableSchema,
    *,
    renames: Sequence[tuple[str, str]] = (),
    ignored: Sequence[str] = (),
    time_zone: str = "+00:00",
    written_in: str = "",
) -> Matching:
    """Pair the columns of two tables by name, and choose the key; raise a Refusal without one.

    A TIMESTAMP is compared with other types in ``time_zone``, the source server's. ``written_in``:
    the zone of the server that computes what a repair writes; empty without a repair.
    """
    partners = _partners(source, target, renames)
    left_out = _ignored(source, target, ignored)
    carried: dict[str, Column] = {}
    only_source: list[str] = []
    out = set(left_out)
    for column in source.columns:
        partner = partners[column.name.lower()]
        if {column.name.lower(), partner} & left_out:
            out.add(partner)
        elif target.has_column(partner):
            carried[partner] = column
        else:
            only_source.append(column.name)
    matched = [(carried[c.name.lower()], c) for c in target.columns if c.name.lower() in carried]
    known = out.union(carried)
    only_target = [c.name for c in target.columns if c.name.lower() not in known]
    whole = not left_out and not only_source and not only_target
    computed = [new.name for old, new in matched if whole and _computed_alike(old, new)]
    pairs = tuple(_pair(old, new) for old, new in matched if new.name not in computed)
    alike = computed_pairs(source, target, pairs, frozenset())
    stored = tuple(pair for pair in alike if pair.new.name in computed)
    read = {pair.new.name for pair in stored}
    return Matching(
        mapping=replace(_mapping(source, target, pairs, time_zone, written_in), computed=stored),
        ignored=tuple(sorted(left_out)),
        only_source=tuple(only_source),
        only_target=tuple(only_target),
        computed=tuple(name for name in computed if name not in read),
    )


def _partners(
    source: TableSchema, target: TableSchema, renames: Sequence[tuple[str, str]]
) -> Mapping[str, str]:
    """Map lower-case source columns to partners' names; empty where --map gave the name away."""
    partners: dict[str, str] = {}
    for old, new in renames:
        for table, name in ((source, old), (target, new)):
            if not table.has_column(name):
                raise UsageFault(
                    f"--map {old}={new}: {table.full_name} has no column {name}",
                    hint="the source's column stands before the =, the target's after it",
                )
        partners[old.lower()] = new.lower()
    taken = list(partners.values())
    if len(set(taken)) < len(taken) or len(partners) < len(renames):
        raise UsageFault("--map names a column twice", hint="give each column at most one partner")
    # A column whose namesake is another column's partner has no partner itself.
    names = [column.name.lower() for column in source.columns]
    return {name: "" if name in taken else name for name in names} | partners


def _ignored(source: TableSchema, target: TableSchema, names: Sequence[str]) -> set[str]:
    for name in names:
        if not source.has_column(name) and not target.has_column(name):
            raise UsageFault(
                f"--ignore-column {name}: neither table has such a column", hint="check the name"
            )
    return {name.lower() for name in names}


def _computed_alike(old: Column, new: Column) -> bool:
    return (
        bool(old.generated and new.generated)
        and old.generation_expression == new.generation_expression
        and (old.type_identity, old.collation) == (new.type_identity, new.collation)
    )


def _pair(old: Column, new: Column) -> ColumnPair:
    how = conversion(old, new)
    if how is Conversion.REFUSED:
        raise NotComparable(
            f"column {old.name} is {old.column_type} in the source and {new.column_type} in the"
            " target: values of these types cannot be compared",
            hint=f"leave it out with --ignore-column {old.name}",
        )
    converted = how is not Conversion.NONE
    return ColumnPair(old=old, new=new, converted=converted, by_text=how is Conversion.BY_TEXT)


def _mapping(
    source: TableSchema,
    target: TableSchema,
    pairs: tuple[ColumnPair, ...],
    time_zone: str,
    written_in: str,
) -> TableMapping:
    if not pairs:
        raise NotComparable(
            f"{source.full_name} and {target.full_name} have no column in common",
            hint="pair columns with --map old=new",
        )
    try:
        key, names = choose_key(source, target, pairs)
    except Refusal:
        raise _no_key(source, target) from None
    wanted = {name.lower() for name in names}
    if not any({n.lower() for n in i.columns} == wanted for i in target.not_null_unique_indexes()):
        raise _no_key(source, target)
    zoned = any(depends_on_zone(pair.old, pair.new) for pair in pairs)
    computes = bool(written_in) and evaluated_in_zone(target, fresh_names(target, pairs))
    zone = time_zone if zoned else written_in if computes else ""
    repeats = bool(zone) and repeats_hours(zone)
    instants = any(is_timestamp(source.column(name)) for name in key.columns)
    if instants and repeats:
        what = "times are compared with another type" if zoned else "dates or times are computed"
        raise NotComparable(
            f"{what} while key {key.name} of {source.name} holds a TIMESTAMP: rows could not be"
            " identified where the clock is set back",
            hint="leave the column out with --ignore-column" if zoned else "leave --repair out",
        )
    if repeats:
        pairs = with_instants(pairs)
    return TableMapping(
        source=source,
        target=target,
        pairs=pairs,
        key=key,
        new_key_columns=names,
        tightened=tightened_indexes(source, target, pairs),
        time_zone=zone,
    )


def _no_key(source: TableSchema, target: TableSchema) -> Refusal:
    lines = []
    for side, table in (("source", source), ("target", target)):
        usable = [i for i in table.not_null_unique_indexes() if i.visible]
        keys = "; ".join(f"{i.name} ({', '.join(i.columns)})" for i in usable)
        name = f"{side} {table.full_name}"
        lines.append(f"{name}: {keys or 'no primary key, no unique key over NOT NULL columns'}")
    return NotComparable(
        "no key that is compared identifies the rows of both tables, so that they cannot be paired",
        hint="both need a primary key, or a unique key over NOT NULL columns, of the same columns"
        " (--map pairs columns of different names)",
        details=tuple(lines),
    )
