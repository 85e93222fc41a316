"""The key that tells rows apart, unique keys (R11), and values that both compute (R22; pure)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.sql import quote_identifier
from spirit_py.table.conversions import (
    equality_kept,
    has_empty_member,
    is_text,
    key_usable,
    values_stay_apart,
)
from spirit_py.table.expressions import column_names, steady_expression
from spirit_py.table.keys import INTEGERS, TEMPORALS, comparable
from spirit_py.table.mapping import ColumnPair, finder, holds_once, replaces, shared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import Column, Index, IndexPart, TableSchema


def computed_pairs(
    source: TableSchema, target: TableSchema, pairs: Sequence[ColumnPair], dropped: AbstractSet[str]
) -> tuple[ColumnPair, ...]:
    """Return the stored generated columns, not dropped, that must be the same in both tables."""
    alike = Alike(source, target, pairs)
    return tuple(
        ColumnPair(old=source.column(column.name), new=column)
        for column in target.columns
        if column.generated == "STORED"
        and column.name.lower() not in dropped
        and alike.column(column.name)
        and source.column(column.name).generated == "STORED"
    )


def steady_pairs(
    source: TableSchema,
    target: TableSchema,
    pairs: Sequence[ColumnPair],
    computed: Sequence[ColumnPair],
) -> tuple[ColumnPair, ...]:
    """Return the computed pairs that are the same in every session, by which rows may be found."""
    alike = Alike(source, target, pairs)
    return tuple(pair for pair in computed if alike.steady(quote_identifier(pair.old.name)))


def without_computed(mapping: TableMapping) -> TableMapping:
    """Return a mapping whose generated columns are not compared, but for those of the key."""
    kept = tuple(pair for pair in mapping.computed if pair in mapping.key_pairs)
    return replace(mapping, computed=kept)


class Alike:
    """Which columns and expressions have equal values in both tables; renamed columns do not."""

    def __init__(
        self, source: TableSchema, target: TableSchema, pairs: Sequence[ColumnPair]
    ) -> None:
        self._source, self._target = source, target
        self._unchanged = {
            pair.old.name.lower()
            for pair in pairs
            if pair.old.name.lower() == pair.new.name.lower() and _same_type(pair.old, pair.new)
        }

    def column(self, name: str) -> bool:
        """Return whether a column is unchanged, or computed by one expression from such ones."""
        if not (self._source.has_column(name) and self._target.has_column(name)):
            return False
        old, new = self._source.column(name), self._target.column(name)
        if not (old.generated and new.generated):
            return name.lower() in self._unchanged
        return (
            old.generation_expression == new.generation_expression
            and _same_type(old, new)
            and self.expression(old.generation_expression)
        )

    def expression(self, text: str) -> bool:
        """Return whether an expression, which is the same in both tables, reads the same values."""
        return all(self.column(name) for name in column_names(text))

    def steady(self, text: str) -> bool:
        """Return whether such an expression also has the same value in every session."""
        columns = [self._source.column(name) for name in column_names(text) if self.column(name)]
        return (
            self.expression(text)
            and steady_expression(text)
            # A CHAR may be padded.
            and all(column.data_type not in TEMPORALS | {"char"} for column in columns)
            and all(self.steady(c.generation_expression) for c in columns if c.generated)
        )


def _same_type(old: Column, new: Column) -> bool:
    return (old.type_identity, old.collation) == (new.type_identity, new.collation)


_WALKED: Final = INTEGERS | TEMPORALS - {"timestamp"} | {"decimal", "binary", "varbinary"}


def tightened_indexes(
    source: TableSchema, target: TableSchema, pairs: Sequence[ColumnPair]
) -> tuple[Index, ...]:
    """Return the unique indexes of the target that rows of the source may violate.

    A column that is merely narrowed tightens nothing: a value that does not fit is an error.
    """
    by_old = {pair.old.name.lower(): pair for pair in pairs}
    alike = Alike(source, target, pairs)
    unique = [index for index in source.indexes if index.unique]
    return tuple(
        index
        for index in target.indexes
        if index.unique
        and not _numbered_afresh(target, index, pairs)
        and not any(_implies(index, earlier, by_old, alike) for earlier in unique)
    )


def walkable(source: TableSchema, index: Index, pairs: Sequence[ColumnPair]) -> Index | None:
    """Return the first part of a source index by whose ranges ``index`` may be searched.

    TIMESTAMP, whose literals depend on the session's zone, FLOAT and DOUBLE are left out.
    """
    names = {part.column.lower() for part in index.parts if part.column and part.prefix is None}
    kept = (p for p in pairs if p.new.name.lower() in names and equality_kept(p.old, p.new))
    by_old = {pair.old.name.lower(): pair for pair in kept}
    for each in source.indexes:
        first = each.parts[0]
        pair = by_old.get((first.column or "").lower())
        if each.visible and each.kind == "BTREE" and pair is not None and first.prefix is None:
            old = pair.old
            if is_text(old) or old.data_type in _WALKED:
                return replace(each, parts=(first,))
    return None


def _numbered_afresh(target: TableSchema, index: Index, pairs: Sequence[ColumnPair]) -> bool:
    carried = {pair.new.name for pair in pairs}
    columns = (target.column(part.column) for part in index.parts if part.column is not None)
    return any(column.auto_increment and column.name not in carried for column in columns)


def _implies(index: Index, earlier: Index, by_old: Mapping[str, ColumnPair], alike: Alike) -> bool:
    return all(
        any(_same_or_finer(part, old, by_old, alike) for part in index.parts)
        for old in earlier.parts
    )


def _same_or_finer(
    part: IndexPart, old: IndexPart, by_old: Mapping[str, ColumnPair], alike: Alike
) -> bool:
    if part.column is None or old.column is None:
        same = part.expression is not None and part.expression == old.expression
        return same and alike.steady(part.expression or "")
    if part.prefix is not None and (old.prefix is None or part.prefix < old.prefix):
        return False
    pair = by_old.get(old.column.lower())
    if pair is not None:
        same = pair.new.name.lower() == part.column.lower()
        return same and values_stay_apart(pair.old, pair.new)
    return part.column.lower() == old.column.lower() and alike.steady(quote_identifier(part.column))


#: The bits of a DOUBLE, as which the server compares a SET with a number.
_EXACT_MEMBERS: Final = 53
#: Character sets whose codes Unicode leads back to, all of them; and, of others, letters that are
#: shown for several codes, besides those for none (measured on 9.7.4).
LED_BACK: Final = frozenset({
    "utf8mb4", "utf8mb3", "utf8", "ucs2", "utf16", "utf16le", "utf32", "gb18030", "ascii", "binary",
    "latin1", "latin2", "latin5", "latin7", "cp850", "cp852", "cp866", "koi8r", "koi8u", "keybcs2",
    "macce", "macroman",
})  # fmt: skip
_NONE: Final = "?\N{REPLACEMENT CHARACTER}"
_SHARED: Final = {
    "armscii8": "'(),-.",
    "sjis": "\\",
    "ujis": "\\~",
    "eucjpms": "\N{FULLWIDTH TILDE}",
}
NO_KEY_HINT: Final = (
    "add a PRIMARY KEY, or a UNIQUE key over NOT NULL columns that the ALTER leaves in place,"
    " in a migration of its own before"
)
_KEEP_HINT: Final = (
    "keep the key in this ALTER as a UNIQUE key, or its first column as the beginning of a new"
    " unique key; the server drops an index that is not needed in place afterwards"
)


def choose_key(
    source: TableSchema,
    target: TableSchema,
    pairs: Sequence[ColumnPair],
    *,
    nullable: bool = False,
    begun: bool = False,
) -> tuple[Index, tuple[str, ...]]:
    """Choose the index that identifies a row in both tables, and its new column names.

    Preferred: keys that are unique in the new table too, keys with a finder of their own, kept
    order, PRIMARY, comparable keys, short keys; ``nullable`` ones last. Raises Refusal without any.
    What has ``begun`` goes on with members that their text may not lead to, if there is no other.
    """
    by_old = {pair.old.name.lower(): pair for pair in pairs}
    keys = [source.not_null_unique_indexes()]
    if nullable:
        keys.append(source.nullable_unique_indexes())
    refused: dict[str, str] = {}
    tries = [(indexes, False) for indexes in keys] + [(indexes, True) for indexes in keys] * begun
    for indexes, any_member in tries:
        usable = [index for index in indexes if index.visible]
        refused |= {i.name: _why_not(target, i, by_old, any_member=any_member) for i in usable}
        if candidates := [index for index in usable if not refused[index.name]]:
            break
    else:
        raise Refusal(
            f"no key identifies the rows of {source.name} before and after the ALTER",
            hint=_KEEP_HINT if refused else NO_KEY_HINT,
            details=tuple(f"key {name}: {why}" for name, why in refused.items()),
            error_code=ErrorCode.NO_USABLE_KEY,
        )

    def rank(index: Index) -> tuple[bool, bool, bool, bool, bool, int]:
        columns = tuple(source.column(name) for name in index.columns)
        names = _new_names(index, by_old)
        kept = all(equality_kept(c, by_old[c.name.lower()].new) for c in columns)
        return (
            not shared(target, names),
            replaces(target, names),
            not kept,
            index.name != "PRIMARY",
            not comparable(columns),
            len(columns),
        )

    chosen = min(candidates, key=rank)
    return chosen, _new_names(chosen, by_old)


def _new_names(index: Index, by_old: Mapping[str, ColumnPair]) -> tuple[str, ...]:
    return tuple(by_old[name.lower()].new.name for name in index.columns)


def ambiguous(column: Column) -> bool:
    """Return whether the text of a member, in Unicode, may be another one in the column's set."""
    charset = column.charset
    if not column.members or charset is None or charset in LED_BACK:
        return False
    letters = {*_NONE, *_SHARED.get(charset, "")}
    if charset in {"cp932", "eucjpms"}:
        letters |= _of_two_codes()
    return any(letters & set(member) for member in column.members)


@cache
def _of_two_codes() -> frozenset[str]:
    """Return the letters for which cp932 has two codes, as the server has (396 on 9.7.4)."""
    codes = (bytes(code) for code in product(range(0x81, 0xFD), range(0x40, 0xFD)))
    seen = Counter(code.decode("cp932", "replace") for code in codes)
    return frozenset(letters for letters, count in seen.items() if count > 1 and len(letters) == 1)


def _why_not(
    target: TableSchema, index: Index, by_old: Mapping[str, ColumnPair], *, any_member: bool
) -> str:
    for name in index.columns:
        pair = by_old.get(name.lower())
        if pair is None:
            return f"the new table has no column {name}, or may compute it differently in a session"
        if not key_usable(pair.old, pair.new):
            return f"{name} is converted from {pair.old.column_type} to {pair.new.column_type}"
        if has_empty_member(pair.old):
            return f"{name} is a SET with an empty member, whose text the empty set has, too"
        if pair.old.data_type == "set" and len(pair.old.members) > _EXACT_MEMBERS:
            return f"{name} is a SET of more than {_EXACT_MEMBERS} members, compared as a DOUBLE"
        if not any_member and ambiguous(pair.old):
            return f"{name} may have a member in {pair.old.charset} that Unicode does not lead to"
    names = _new_names(index, by_old)
    if shared(target, names):
        return ""
    for pair in (by_old[name.lower()] for name in index.columns):
        if not equality_kept(pair.old, pair.new):
            return f"{pair.old.name} compares differently in the new table, whose keys are others"
    if finder(target, names) is None:
        return (
            f"no index of the new table begins with a column of it ({', '.join(names)}): each"
            " change would read the whole table"
        )
    if not holds_once(target, names, [pair.new.name for pair in by_old.values()]):
        return "the new table has no unique key: a row that is written twice would be there twice"
    return ""
