"""The format of each column in a row image, and its conversion to SQL (pure).

A :class:`Field` holds pieces of Python source that :mod:`spirit_py.binlog.codec.definition` puts
together into functions specialised for one table. ``{v}`` in a piece stands for the raw
value: what :mod:`struct` reads for ``code``, or the bytes of a column of variable length.
Layouts: ``Field_*::pack`` in the server's ``field.cc``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from spirit_py.binlog.codec import jsonb, scalars
from spirit_py.binlog.codec import tablemap as codes
from spirit_py.binlog.codec.scalars import character_bytes, decimal_codec
from spirit_py.classes import dataclass, field
from spirit_py.errors import SchemaChanged, UnreadableChange
from spirit_py.table import temporal, values
from spirit_py.table.schema import SPATIAL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spirit_py.binlog.codec.tablemap import ColumnType
    from spirit_py.table.schema import Column

_INTEGERS = {
    "tinyint": (codes.TINY, "b"), "smallint": (codes.SHORT, "h"), "mediumint": (codes.INT24, "3s"),
    "int": (codes.LONG, "i"), "bigint": (codes.LONGLONG, "q"),
}  # fmt: skip
_TEMPORALS = {"time": codes.TIME2, "datetime": codes.DATETIME2, "timestamp": codes.TIMESTAMP2}
OLD_TEMPORALS = frozenset({codes.TIMESTAMP, codes.DATETIME, codes.TIME})
"""The temporal formats from before MySQL 5.6.4."""
_BLOBS = {
    "tinyblob": 1, "blob": 2, "mediumblob": 3, "longblob": 4,
    "tinytext": 1, "text": 2, "mediumtext": 3, "longtext": 4,
}  # fmt: skip
#: Code and metadata of the types that have the same ones in every column.
_ALIKE = {
    **{kind: (code, 0) for kind, (code, _) in _INTEGERS.items()},
    **{kind: (codes.BLOB, size) for kind, size in _BLOBS.items()},
    **dict.fromkeys(SPATIAL, (codes.GEOMETRY, 4)),
    "float": (codes.FLOAT, 4), "double": (codes.DOUBLE, 8), "year": (codes.YEAR, 0),
    "json": (codes.JSON, 4), "vector": (codes.VECTOR, 4),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Field:
    """One column of a row image: ``index`` is its place, from 0, and its bit in the null bitmap.

    A column of fixed width has a ``code`` of :mod:`struct` and a ``width`` in bytes; a variable one
    a ``prefix``, the bytes of the length in front. Expressions for the value: ``key``, as
    :mod:`spirit_py.table.keys` describes it; ``literal``, with the SQL text before and after;
    ``plain``, what JSON can carry. They use ``helpers``, by name. ``zero_is_staged``: the raw
    value 0 needs the staged path (ENUM).
    """

    index: int
    name: str
    nullable: bool
    code: str = ""
    width: int = 0
    prefix: int = 0
    key: str = "{v}"
    literal: tuple[str, str, str] = ("", "{v}", "")
    plain: str = "{v}"
    helpers: Mapping[str, Callable[..., Any] | str] = field(default_factory=dict)
    zero_is_staged: bool = False


def expected_type(column: Column) -> tuple[ColumnType, ...]:
    """Return the types with which a table map may announce it; SchemaChanged for unknown ones."""
    kind = column.data_type
    if kind in _ALIKE:
        found = _ALIKE[kind]
    elif kind in _TEMPORALS:
        found = _TEMPORALS[kind], column.precision or 0
    elif kind in {"char", "binary"}:
        found = codes.STRING, _bytes(column)
    elif kind in {"enum", "set"}:
        found = codes.ENUM if kind == "enum" else codes.SET, column.number_bytes
    elif kind == "decimal":
        found = codes.NEWDECIMAL, (column.precision or 0) << 8 | (column.scale or 0)
    elif kind == "bit":
        whole, bits = divmod(column.length or 1, 8)
        found = codes.BIT, whole << 8 | bits
    elif kind == "date":
        return codes.ColumnType(codes.DATE, 0), codes.ColumnType(codes.NEWDATE, 0)
    elif kind in {"varchar", "varbinary"}:
        size = _bytes(column)
        return codes.ColumnType(codes.VARCHAR, size), codes.ColumnType(codes.VAR_STRING, size)
    else:
        cause = f"column {column.name} has the type {column.column_type}, unknown to this program"
        raise SchemaChanged(cause, hint="use a newer version of spirit-py")
    return (codes.ColumnType(*found),)


def _bytes(column: Column) -> int:
    return (column.length or 0) * character_bytes(column.charset or "")


def field_of(column: Column, index: int) -> Field:
    """Describe the image of a column in a place, from 0.

    ENUM and SET are rendered by number. That is exact: a column whose members do not just
    grow is a converted one, and its rows are stored with the old type first (R10).
    """
    made = partial(Field, index=index, name=column.name, nullable=column.nullable)
    kind = column.data_type
    if kind in _INTEGERS:
        return _integer(made, column)
    if kind in {"enum", "set"}:
        return _numbered(made, column, index)
    if kind in _TEMPORALS or kind == "date":
        return _temporal(made, column, index)
    if kind in _OTHERS:
        return _OTHERS[kind](made, column, index)
    return _binary(made, column, index) if column.charset is None else _text(made, column, index)


def _integer(made: partial[Field], column: Column) -> Field:
    """Describe an integer; three bytes have no struct code."""
    code = _INTEGERS[column.data_type][1]
    if code != "3s":
        return made(code=code.upper() if column.unsigned else code, width=_WIDTHS[code])
    signed = "" if column.unsigned else ", signed=True"
    value = f"int_of({{v}}, 'little'{signed})"
    return made(code=code, width=3, key=value, literal=("", value, ""), plain=value)


_WIDTHS = {"b": 1, "h": 2, "i": 4, "q": 8}


def _numbered(made: partial[Field], column: Column, index: int) -> Field:
    width = column.number_bytes
    code = {1: "B", 2: "H", 4: "I", 8: "Q"}.get(width, f"{width}s")
    number = "{v}" if code[-1] != "s" else "int_of({v}, 'little')"
    enum = column.data_type == "enum"
    text = values.enum_text if enum else values.set_members
    members = column.members

    def plain(value: int) -> str | int:
        return 0 if enum and not value else text(value, members)

    named = partial(made, plain=f"plain{index}({number})", helpers={f"plain{index}": plain})
    literal = ("", number, "")
    return named(code=code, width=width, key=number, literal=literal, zero_is_staged=enum)


def _temporal(made: partial[Field], column: Column, index: int) -> Field:
    """Describe DATE, TIME, DATETIME or TIMESTAMP (``my_time.cc``)."""
    kind, precision = column.data_type, column.precision or 0
    width = {"date": 3, "time": 3, "datetime": 5, "timestamp": 4}[kind]
    width += temporal.fraction_bytes(precision) if kind != "date" else 0
    if kind == "date":
        number = "int_of({v}, 'little')"
    elif kind == "timestamp":
        number = "int_of({v}, 'big')"
    else:
        number = f"int_of({{v}}, 'big') - {1 << (8 * width - 1)}"
    show, write = f"show{index}", f"write{index}"
    helpers = {
        show: temporal.show_function(kind, precision),
        write: temporal.literal_function(kind, precision),
    }
    named = partial(made, literal=("'", f"{write}({number})", "'"), plain=f"{show}({number})")
    return named(code=f"{width}s", width=width, key=number, helpers=helpers)


def _decimal(made: partial[Field], column: Column, index: int) -> Field:
    decimal = decimal_codec(column.precision or 10, column.scale or 0)
    shown, read = f"show{index}({{v}})", f"read{index}({{v}})"
    helpers = {f"show{index}": decimal.show, f"read{index}": decimal.read}
    named = partial(made, key=read, literal=("", shown, ""), plain=shown, helpers=helpers)
    return named(code=f"{decimal.width}s", width=decimal.width)


def _float(made: partial[Field], column: Column, index: int) -> Field:
    """Describe FLOAT or DOUBLE; a key loses the sign of zero, as the server's index does."""
    single = column.data_type == "float"
    show, plain = f"show{index}", f"plain{index}"
    helpers = {
        show: values.row_float_literal(column),
        plain: scalars.shortest_single if single else float,
    }
    literal = ("", f"{show}({{v}})", "")
    named = partial(made, key="{v} + 0.0", literal=literal, plain=f"{plain}({{v}})")
    return named(code="f" if single else "d", width=4 if single else 8, helpers=helpers)


def _year(made: partial[Field], _column: Column, _index: int) -> Field:
    value = "({v} and {v} + 1900)"
    return made(code="B", width=1, key=value, literal=("", value, ""), plain=value)


def _bit(made: partial[Field], column: Column, _index: int) -> Field:
    """Describe BIT: a number of as many bytes as needed, largest first."""
    width = ((column.length or 1) + 7) // 8
    value = "int_of({v}, 'big')"
    return made(code=f"{width}s", width=width, key=value, literal=("", value, ""), plain=value)


def _json(made: partial[Field], column: Column, index: int) -> Field:
    """Describe JSON; an error names the column."""

    def show(raw: bytes) -> str:
        try:
            return jsonb.sql_expression(raw)
        except UnreadableChange as error:
            raise UnreadableChange(f"column {column.name}: {error}", hint=error.hint) from error

    literal, plain = ("", f"show{index}({{v}})", ""), f"plain{index}({{v}})"
    helpers = {f"show{index}": show, f"plain{index}": jsonb.plain_value}
    return made(prefix=4, literal=literal, plain=plain, helpers=helpers)


def _text(made: partial[Field], column: Column, index: int) -> Field:
    charset = column.charset or "utf8mb4"
    head, plain = f"head{index}", f"plain{index}"
    # Never part of the source, because it is the server's text.
    literal = (f"{{{head}}}X'", "{v}.hex()", "'")
    read = partial(scalars.plain_text, charset=charset)
    helpers = {head: values.row_introducer(charset), plain: read}
    named = partial(made, plain=f"{plain}({{v}})", helpers=helpers)
    return named(prefix=_prefix(column), literal=literal)


def _binary(made: partial[Field], column: Column, index: int) -> Field:
    key, shown = "{v}", "{v}.hex()"
    # A BINARY image has lost its trailing zero bytes, which belong to the value.
    if column.data_type == "binary":
        size = column.length or 0
        key, shown = f"{{v}}.ljust({size}, b'\\0')", f"{{v}}.hex().ljust({2 * size}, '0')"
    plain = f"plain{index}"
    named = partial(made, plain=f"{plain}({key})", helpers={plain: scalars.plain_bytes})
    return named(prefix=_prefix(column), key=key, literal=("X'", shown, "'"))


def _prefix(column: Column) -> int:
    if column.data_type in _BLOBS:
        return _BLOBS[column.data_type]
    if column.data_type in {"char", "varchar", "binary", "varbinary"}:
        return 1 if _bytes(column) < 256 else 2
    return 4


_OTHERS: dict[str, Callable[[partial[Field], Column, int], Field]] = {
    "decimal": _decimal, "float": _float, "double": _float, "year": _year, "bit": _bit,
    "json": _json,
}  # fmt: skip
