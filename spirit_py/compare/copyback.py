"""Repair between two servers: rows are read from one and written to the other as literals.

A document's text does not show the types of an unsigned number, a DECIMAL and a date. So the types
of all nodes are read with it (:func:`spirit_py.sql.node_types`), and values that text
cannot represent are written as SQL (:mod:`spirit_py.binlog.codec.jsonb`).
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from spirit_py.binlog.codec import jsonb as documents
from spirit_py.binlog.codec.jsonb import Node, opaque_sql
from spirit_py.checksum.staging_sql import row_literals, select_lossless
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, UnreadableChange, ValueLost
from spirit_py.mysql.connect import connect
from spirit_py.sql import identifier_list, node_types, quote_identifier, string_literal
from spirit_py.table.mapping import ColumnPair
from spirit_py.table.values import KeyedChange, RenderedRow, key_select_expressions, row_key_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from spirit_py.checksum.recheck import Recopier
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Applier, SqlSession
    from spirit_py.table.mapping import TableMapping

#: A type as JSON_TYPE names it; None for JSON's null.
Kind: TypeAlias = "str | None"

_TEMPORAL: Final = {"DATE": "DATE", "TIME": "TIME(6)", "DATETIME": "DATETIME(6)"}
_OPAQUE: Final = re.compile(r"base64:type(\d+):(.*)", re.DOTALL)
_IN_TEXT: Final = frozenset({None, "NULL", "BOOLEAN", "STRING"})


class _Number(str):
    __slots__ = ()


class _Object(list[tuple[str, Any]]):
    """An object's members, in their order."""


def document_sql(text: str, kinds: Sequence[Kind]) -> str:
    """Return SQL of type JSON for a document with nodes of these types, or raise ValueError."""
    tree = json.loads(text, parse_int=_Number, parse_float=_Number, object_pairs_hook=_Object)
    said = iter(kinds)
    root = next(said, "")
    below: dict[int, list[Kind]] = {}
    containers = list(_containers(tree))
    for of_objects in (True, False):
        for each in containers:
            if isinstance(each, _Object) == of_objects:
                below[id(each)] = [next(said, "") for _ in each]
    if next(said, None) is not None or "" in [root, *(k for ks in below.values() for k in ks)]:
        raise ValueError("the types of a JSON document are not those of its nodes")
    return _node(tree, root, below).document


def _containers(value: Any) -> Iterator[list[Any]]:
    if isinstance(value, list):
        yield value
        for item in value:
            yield from _containers(item[1] if isinstance(value, _Object) else item)


def _node(value: Any, kind: Kind, below: dict[int, list[Kind]]) -> Node:
    if isinstance(value, _Object):
        items = [_node(v, k, below) for (_, v), k in zip(value, below[id(value)], strict=True)]
        return documents.members((key for key, _ in value), items)
    if isinstance(value, list):
        items = [_node(v, k, below) for v, k in zip(value, below[id(value)], strict=True)]
        return documents.array(items)
    if kind == "DOUBLE":
        return documents.double(value)
    if kind in {"INTEGER", "UNSIGNED INTEGER"}:
        return documents.integer(value, unsigned=kind != "INTEGER")
    text = value if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)
    return Node(text, _scalar_sql(value, kind))


def _scalar_sql(value: Any, kind: Kind) -> str:
    if kind in _IN_TEXT:
        return ""
    if kind == "DECIMAL":
        digits, _, fraction = str(value).lstrip("-").partition(".")
        return f"CAST({value} AS DECIMAL({len(digits) + len(fraction)}, {len(fraction)}))"
    if kind in _TEMPORAL:
        return f"CAST({string_literal(value)} AS {_TEMPORAL[kind]})"
    if kind == "TIMESTAMP":
        return documents.timestamp_sql(value)
    opaque = _OPAQUE.fullmatch(value)
    if opaque is None:
        raise ValueError(f"a JSON value of type {kind} cannot be carried")
    return opaque_sql(int(opaque[1]), base64.b64decode(opaque[2]))


_MOST_UNFIT: Final = 1000
"""Rows that do not fit, after which the batch of the next one is left as a whole."""


class FittingRows:
    """Repairs rows that fit, by halving batches; ``unfit``: keys not tried again, and why.

    ``require`` raises where the target may no longer be written; it is called before each batch.
    """

    def __init__(self, copier: Recopier, require: Callable[[], object]) -> None:
        self._copier = copier
        self._require = require
        self.unfit: dict[str, str] = {}

    def recopy(self, mapping: TableMapping, keys: Sequence[str]) -> int:
        """Copy the rows that fit; return the keys treated."""
        self._require()
        return self._halved(mapping, keys)

    def _halved(self, mapping: TableMapping, keys: Sequence[str]) -> int:
        keys = [key for key in keys if key not in self.unfit]
        if not keys:
            return 0
        try:
            return self._copier.recopy(mapping, keys)
        except ValueLost as error:
            if len(keys) == 1 or len(self.unfit) >= _MOST_UNFIT:
                # The rest of the message is the server's, with the value.
                self.unfit |= dict.fromkeys(keys, error.message.partition(": ")[0])
                return 0
        middle = len(keys) // 2
        return self._halved(mapping, keys[:middle]) + self._halved(mapping, keys[middle:])

    def delete_keys(self, mapping: TableMapping, keys: Sequence[str]) -> int:
        """Delete the rows of these keys; return the keys treated."""
        self._require()
        return self._copier.delete_keys(mapping, keys)


class TwoServerCopier:
    """A :class:`spirit_py.checksum.recheck.Recopier` from the source to the applier's server."""

    def __init__(self, source: ConnectionOptions, applier: Applier) -> None:
        self._source = source
        self._applier = applier

    def recopy(self, mapping: TableMapping, keys: Sequence[str]) -> int:
        """Make the target's rows equal to the source's, deleting first; return the keys treated."""
        with connect(self._source, role="checksum-repair") as session:
            found = dict(rows_of_keys(session, mapping, keys))
        # In one transaction: another spelling of a key may be that of a row that does not fit.
        changes = [KeyedChange(key, None) for key in keys if key not in found]
        changes += [KeyedChange(key, row) for key, row in found.items()]
        self._applier.write_in_order(_there(mapping), changes, None)
        return len(keys)

    def delete_keys(self, mapping: TableMapping, keys: Sequence[str]) -> int:
        """Delete the target's rows of these keys; return the keys treated."""
        return self._applier.delete_keys(mapping, keys)


def rows_of_keys(
    session: SqlSession, mapping: TableMapping, keys: Sequence[str]
) -> list[tuple[str, RenderedRow]]:
    """Read the source's rows with these keys, each with its key."""
    where = f"({identifier_list(mapping.key.columns)}) IN ({', '.join(keys)})"
    if mapping.keep is not None:
        where += f" AND {mapping.keep.condition()}"
    index = quote_identifier(mapping.key.name)
    what = f"{mapping.source.quoted} FORCE INDEX ({index}) WHERE {where}"
    return list(each_row(session.query, mapping, what))


def each_row(
    run: Callable[[str], Iterable[tuple[Any, ...]]],
    mapping: TableMapping,
    what: str,
    hint: str = "",
) -> Iterator[tuple[str, RenderedRow]]:
    """Yield rows of the source, each with its key, as literals of exactly the stored values.

    With the columns by which kept rows are judged. ``run`` runs the query; ``what`` follows FROM,
    ``hint`` SELECT. MigrationFailure for a document that no SQL gives.
    """
    columns = mapping.imaged
    documents = [place for place, each in enumerate(columns) if each.data_type == "json"]
    types = [node_types(quote_identifier(columns[place].name)) for place in documents]
    key = mapping.key_columns
    listed = ", ".join([*key_select_expressions(key), *select_lossless(columns), *types])
    width, end = len(key), len(key) + len(columns)
    for row in run(f"SELECT {hint}{listed} FROM {what}"):
        literals = row_literals(columns, row[width:end])
        for place, kinds in zip(documents, row[end:], strict=True):
            if kinds is None:
                continue
            try:
                literals[place] = document_sql(row[width + place].decode(), json.loads(kinds))
            except (ValueError, UnreadableChange) as error:
                raise MigrationFailure(
                    f"row {row_key_sql(key, row[:width])} of {mapping.source.full_name}, column"
                    f" {columns[place].name}: no SQL gives its JSON document: {error}",
                    hint="write the row to the other server by hand, then compare again",
                    error_code=ErrorCode.VALUE_LOST,
                ) from error
        # Through a staging table, where the number 0 of an ENUM is no error.
        rendered = RenderedRow(sql=f"({', '.join(literals)})", staged=True)
        yield row_key_sql(key, row[:width]), rendered


def _there(mapping: TableMapping) -> TableMapping:
    target = mapping.target
    key = mapping.lookup.index
    places = {name.lower(): place for place, name in enumerate(mapping.new_key_columns)}
    parts = sorted(key.parts, key=lambda part: places[(part.column or "").lower()])
    return replace(
        mapping,
        source=target,
        pairs=tuple(
            ColumnPair(old=pair.new, new=pair.new, by_instant=pair.by_instant)
            for pair in mapping.pairs
        ),
        key=replace(key, parts=tuple(parts)),
        tightened=(),
    )
