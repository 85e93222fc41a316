"""Read a table's definition from the server into a :class:`~spirit_py.table.schema.TableSchema`.

The catalogue does not show a session's temporary tables. ``SHOW COLUMNS`` and ``SHOW INDEX`` lack
expressions and SRIDs: these are in ``SHOW CREATE TABLE``.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.mysql.evaluation import as_stored
from spirit_py.mysql.faults import NO_SUCH_TABLE, excused
from spirit_py.mysql.tables.guard_column import CHECK, without_guard_column
from spirit_py.sql import quote_identifier, quote_table
from spirit_py.table.schema import Column, Generated, Index, IndexPart, TableSchema, type_sql
from spirit_py.table.unique_keys import LED_BACK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.table.names import Name

_COLUMNS = """
SELECT c.COLUMN_NAME, c.ORDINAL_POSITION, LOWER(c.DATA_TYPE), c.COLUMN_TYPE, c.IS_NULLABLE,
       c.CHARACTER_SET_NAME, c.COLLATION_NAME, k.PAD_ATTRIBUTE, c.CHARACTER_MAXIMUM_LENGTH,
       c.NUMERIC_PRECISION, c.NUMERIC_SCALE, c.DATETIME_PRECISION, c.COLUMN_DEFAULT, c.EXTRA,
       c.GENERATION_EXPRESSION, c.SRS_ID, c.COLUMN_COMMENT
FROM information_schema.COLUMNS c
LEFT JOIN information_schema.COLLATIONS k ON k.COLLATION_NAME = c.COLLATION_NAME
WHERE c.TABLE_SCHEMA = %s AND c.TABLE_NAME = %s ORDER BY c.ORDINAL_POSITION"""

_INDEXES = """
SELECT INDEX_NAME, NON_UNIQUE, COLUMN_NAME, EXPRESSION, SUB_PART, COLLATION, IS_VISIBLE, INDEX_TYPE
FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s
ORDER BY INDEX_NAME = 'PRIMARY' DESC, INDEX_NAME, SEQ_IN_INDEX"""

_TABLE = """
SELECT ENGINE, TABLE_COLLATION, TABLE_ROWS, DATA_LENGTH, INDEX_LENGTH, AUTO_INCREMENT,
       TABLE_SCHEMA, TABLE_NAME
FROM information_schema.TABLES
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND TABLE_TYPE = 'BASE TABLE'"""

_NAMES = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s"
SCHEMA = "SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s"
_MEMBER = re.compile(r"'((?:[^']|'')*)'")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "0": "\0", "t": "\t", "b": "\b", "Z": "\x1a"}
_NEGATIVE = re.compile(r"-\(([0-9.e]+)\)")
_COUNTER = re.compile(r" AUTO_INCREMENT=\d+")
#: The highest letter that SHOW CREATE TABLE and the catalogue show.
_SHOWN: Final = 0xFFFF
_STRING: Final = r"'(?:[^'\\]|''|\\.)*'"
_TYPE: Final = rf"(?:enum|set)\({_STRING}(?:,{_STRING})*\)"
_PROBE = "_spirit_py_members"
_SHOWS_ALL = "show_gipk_in_create_table_and_information_schema = ON"
_TEMPORAL = frozenset({"time", "datetime", "timestamp"})


def read_table(
    session: SqlSession, schema: str, table: str, *, exact: bool = True
) -> TableSchema | None:
    """Read a base table's definition, with the server's own spelling of names; None without one.

    Not ``exact``: a member's letter above U+FFFF may be a question mark, and the table is not read.
    """
    # A swap may rename the table between two of the statements.
    return excused(lambda: _read(session, schema, table, exact), None, {NO_SUCH_TABLE})


def _read(session: SqlSession, schema: str, table: str, exact: bool) -> TableSchema | None:
    # Cached statistics may have an old AUTO_INCREMENT.
    session.execute("SET SESSION information_schema_stats_expiry = 0")
    show_generated_key(session)
    if not (found := session.query(_TABLE, (schema, table))):
        return None
    engine, collation, rows, data, index, auto, schema, table = found[0]
    columns = [column_of(row) for row in session.query(_COLUMNS, (schema, table))]
    numbered = any(column.auto_increment for column in columns)
    return TableSchema(
        schema=schema,
        name=table,
        engine=_text(engine),
        collation=_optional(collation),
        columns=tuple(
            with_members(session, schema, table, column) if exact else column for column in columns
        ),
        indexes=indexes_of(session.query(_INDEXES, (schema, table))),
        estimated_rows=_number(rows) or 0,
        data_bytes=_number(data) or 0,
        index_bytes=_number(index) or 0,
        auto_increment=(_number(auto) or 1) if numbered else None,
        create_sql=show_create(session, schema, table),
    )


def show_generated_key(session: SqlSession) -> None:
    """Let the session see generated invisible primary keys, which exist since 8.0.30."""
    session.execute(f"/*!80030 SET SESSION {_SHOWS_ALL} */")


def existing_tables(session: SqlSession, schema: str, names: Sequence[str]) -> set[str]:
    """Return those of these names that a table or view has, as the server keeps them."""
    among = ", ".join(["%s"] * len(names))
    rows = session.query(f"{_NAMES} AND TABLE_NAME IN ({among})", (schema, *names))
    return {str(name) for (name,) in rows}


def table_names(session: SqlSession, schema: str) -> list[str]:
    """Return the names of all tables and views of a schema that the account sees."""
    return [str(name) for (name,) in session.query(_NAMES, (schema,))]


def stored_name(session: SqlSession, schema: str, table: str) -> Name:
    """Return a name as the server has it: in lower case where it stores all names so."""
    if session.query("SELECT @@GLOBAL.lower_case_table_names")[0][0] == 1:
        return schema.lower(), table.lower()
    return schema, table


def require_name(session: SqlSession, database: str, table: str = "") -> None:
    """Refuse the name of a schema or a table that is not there; an empty table stands for all."""
    if not session.query(SCHEMA, (database,)):
        raise Refusal(
            f"there is no schema {database}",
            hint="check the name; the account sees only schemas on which it has privileges",
            error_code=ErrorCode.NO_SUCH_TABLE,
        )
    if table and not session.query(f"{_NAMES} AND TABLE_NAME = %s", (database, table)):
        raise Refusal(
            f"there is no table {database}.{table}, and no migration of it has left anything",
            hint=near_name(session, database, table)
            + "check the name; the account sees only tables on which it has privileges",
            error_code=ErrorCode.NO_SUCH_TABLE,
        )


def no_base_table(session: SqlSession, schema: str, table: str) -> str:
    """Return what a name that is no base table's is one of; empty where nothing has it."""
    kinds = "SELECT TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s"
    found = session.query(f"{kinds} AND TABLE_NAME = %s", (schema, table))
    return f"{schema}.{table} is a {str(found[0][0]).lower()}, not a base table" if found else ""


def near_name(session: SqlSession, schema: str, table: str) -> str:
    """Return the question whether the table is meant whose name is nearest, or nothing."""
    names = {name.lower(): name for name in table_names(session, schema)}
    near = difflib.get_close_matches(table.lower(), names, n=1)
    return f"did you mean {names[near[0]]}? " if near else ""


def shape_of(table: TableSchema) -> str:
    """Return a definition's text without the counter and an interrupted guard's column.

    Negative numbers of a CHECK are spelled in one way: INSTANT clauses change -(5) to -5 (9.7.4).
    """
    return _shape(table.create_sql)


def read_shape(session: SqlSession, schema: str, table: str) -> str:
    """Read :func:`shape_of` a table that exists, and nothing else of it."""
    return _shape(show_create(session, schema, table))


def _shape(create_sql: str) -> str:
    text = without_guard_column(_COUNTER.sub("", create_sql))
    return CHECK.sub(lambda line: _NEGATIVE.sub(r"-\1", line[0]), text)


def show_create(session: SqlSession, schema: str, table: str) -> str:
    """Read SHOW CREATE TABLE unconverted: expressions are utf8mb4, declared utf8mb3 (9.7)."""
    session.execute(
        "SET SESSION character_set_results = binary, SESSION show_create_table_verbosity = OFF"
        f"/*!80030 , SESSION {_SHOWS_ALL} */"
    )
    try:
        return _text(session.query(f"SHOW CREATE TABLE {quote_table(schema, table)}")[0][1])
    finally:
        session.execute("SET SESSION character_set_results = utf8mb4")


def with_members(session: SqlSession, schema: str, table: str, column: Column) -> Column:
    """Read the members of an ENUM or SET where the catalogue shows ``?`` above U+FFFF (9.7)."""
    if not any("?" in member for member in column.members):
        return column
    rows = _of_members(session, schema, table, column, "HEX(CONVERT(member USING utf8mb4))")
    return replace(column, members=tuple(bytes.fromhex(_text(row[0])).decode() for row in rows))


def _of_members(
    session: SqlSession, schema: str, table: str, column: Column, selected: str
) -> list[tuple[Any, ...]]:
    name = quote_identifier(column.name)
    with _probe(session, schema, table, f"{name} AS member") as probe:
        step = range(len(column.members))
        numbers = [1 << n if column.data_type == "set" else n + 1 for n in step]
        session.execute(f"INSERT INTO {probe} (member) VALUES ({'), ('.join(map(str, numbers))})")
        return session.query(f"SELECT {selected} FROM {probe} ORDER BY member + 0")


@contextlib.contextmanager
def _probe(session: SqlSession, schema: str, table: str, selected: str) -> Iterator[str]:
    probe = quote_table(schema, _PROBE)
    session.execute(
        f"CREATE TEMPORARY TABLE {probe} (number INT AUTO_INCREMENT PRIMARY KEY)"
        f" ENGINE=InnoDB SELECT {selected} FROM {quote_table(schema, table)} LIMIT 0"
    )
    try:
        yield probe
    finally:
        session.execute(f"DROP TEMPORARY TABLE {probe}")


def create_in_full(session: SqlSession, table: TableSchema) -> str:
    """Return SHOW CREATE TABLE with members and defaults as they are: it shows them in utf8mb3.

    It makes question marks of other letters, or hexadecimal digits of such a default (9.7), and
    loses which of two codes a letter has. Not for members of :func:`member_in_doubt`.
    """
    text = table.create_sql
    heads = {one.name: rf"(\n  {re.escape(quote_identifier(one.name))} )" for one in table.columns}
    for one in table.columns:
        if any(ord(letter) > _SHOWN for letter in "".join(one.members)):
            kind = type_sql(replace(one, charset=None)).replace("\\", r"\\")
            text = re.sub(heads[one.name] + _TYPE, rf"\g<1>{kind}", text)
    unsure = [
        one
        for one in table.columns
        if one.charset and one.default is not None and "DEFAULT_GENERATED" not in one.extra
        if "?" in one.default or one.charset not in LED_BACK
    ]
    if unsure:
        selected = ", ".join(f"{quote_identifier(c.name)} AS c{n}" for n, c in enumerate(unsure))
        with as_stored(session), _probe(session, table.schema, table.name, selected) as probe:
            session.execute(f"INSERT INTO {probe} () VALUES ()")
            shown = ", ".join(f"HEX(c{n})" for n in range(len(unsure)))
            found = session.query(f"SELECT {shown} FROM {probe}")[0]
        for one, octets in zip(unsure, map(_text, found), strict=True):
            at = rf"{heads[one.name][:-1]}(?:{_TYPE})?[^\n']* DEFAULT ){_STRING}"
            text = re.sub(at, rf"\g<1>X'{octets}'", text)
    return text


def member_in_doubt(session: SqlSession, table: TableSchema) -> str:
    """Return words about a member whose text, in Unicode, leads to another one; or nothing."""
    for column in table.columns:
        if not column.members or column.charset in LED_BACK:
            continue
        again = f"HEX(CONVERT(CONVERT(member USING utf8mb4) USING {column.charset}))"
        shown = f"HEX(member), {again}"
        with as_stored(session):
            rows = _of_members(session, table.schema, table.name, column, shown)
        for octets, led in rows:
            if octets != led:
                return (
                    f"column {column.name} of {table.full_name} has the member X'{_text(octets)}'"
                    f" in {column.charset}, which the server shows as another one"
                )
    return ""


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _optional(value: Any) -> str | None:
    return None if value is None else _text(value)


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def column_of(row: tuple[Any, ...]) -> Column:
    """Return a column from its row of the catalogue, as :data:`_COLUMNS` selects it."""
    data_type, column_type, extra = _text(row[2]), _text(row[3]), _text(row[13])
    default = _optional(row[12])
    kinds: tuple[Generated, ...] = ("VIRTUAL", "STORED")
    return Column(
        name=_text(row[0]),
        ordinal=int(row[1]),
        data_type=data_type,
        column_type=column_type,
        nullable=_text(row[4]) == "YES",
        charset=_optional(row[5]),
        collation=_optional(row[6]),
        pad_space=None if row[7] is None else _text(row[7]) == "PAD SPACE",
        length=_length(data_type, column_type, _number(row[8])),
        precision=_number(row[11]) if data_type in _TEMPORAL else _number(row[9]),
        scale=_number(row[10]),
        unsigned="unsigned" in column_type.lower(),
        members=_members(column_type) if data_type in {"enum", "set"} else (),
        default=_expression(default) if default and "DEFAULT_GENERATED" in extra else default,
        extra=extra,
        generated=next((kind for kind in kinds if f"{kind} GENERATED" in extra.upper()), ""),
        generation_expression=_expression(_text(row[14])),
        auto_increment="auto_increment" in extra.lower(),
        srid=_number(row[15]),
        comment=_text(row[16]),
    )


def _length(data_type: str, column_type: str, characters: int | None) -> int | None:
    if data_type in {"bit", "vector"}:
        found = re.search(r"\((\d+)\)", column_type)
        return int(found.group(1)) if found else 1
    return None if data_type in {"enum", "set"} else characters


def _members(column_type: str) -> tuple[str, ...]:
    return tuple(_unescaped(m.replace("''", "'")) for m in _MEMBER.findall(column_type))


def _unescaped(text: str) -> str:
    r"""Undo the catalogue's escapes: newline as ``\n``, ``\\``, and ``\'`` in expressions (9.7)."""
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), text)


def _expression(text: str) -> str:
    """Return an expression of the catalogue, whose UTF-8 was encoded twice (measured on 9.7)."""
    with contextlib.suppress(UnicodeError):
        text = text.encode("latin-1").decode("utf-8")
    return _unescaped(text)


def indexes_of(rows: list[tuple[Any, ...]]) -> tuple[Index, ...]:
    """Return the indexes from the rows of their parts, as :data:`_INDEXES` selects them."""
    found: dict[str, Index] = {}
    for name, non_unique, column, expression, prefix, order, visible, kind in rows:
        part = IndexPart(
            column=_optional(column),
            expression=None if expression is None else _expression(_text(expression)),
            prefix=_number(prefix),
            descending=_text(order) == "D",
        )
        key = _text(name)
        earlier = found[key].parts if key in found else ()
        found[key] = Index(
            name=key,
            unique=int(non_unique) == 0,
            parts=(*earlier, part),
            visible=_text(visible) == "YES",
            kind=_text(kind),
        )
    return tuple(found.values())


TEMPORARY: Final = "CREATE TEMPORARY TABLE "
_LINE: Final = re.compile(r"^  `((?:[^`]|``)+)` (.*?),?$", re.MULTILINE)
_GENERATED: Final = re.compile(r" GENERATED ALWAYS AS \((.*?)\) (?:VIRTUAL|STORED)")
_DEFAULT: Final = re.compile(
    r" DEFAULT (?:(CURRENT_TIMESTAMP(?:\(\d\))?)|\((.*?)\)(?= COMMENT '| /\*!|$))"
)
_SRID: Final = re.compile(r" /\*!80003 SRID (\d+) \*/")
_HIDDEN: Final = "!hidden!"
_DIGITS: Final = re.compile(r"\((\d+)(?:,(\d+))?\)")
_INTEGERS: Final = {"tinyint": 3, "smallint": 5, "mediumint": 7, "int": 10, "bigint": 19}
_FLOATS: Final = {"float": 12, "double": 22}
_LOBS: Final = {
    **dict.fromkeys(("tinytext", "tinyblob"), 255),
    **dict.fromkeys(("text", "blob"), 65_535),
    **dict.fromkeys(("mediumtext", "mediumblob"), 16_777_215),
    **dict.fromkeys(("longtext", "longblob"), 4_294_967_295),
}
_SIZED: Final = frozenset({"char", "varchar", "binary", "varbinary"})


def read_temporary(session: SqlSession, schema: str, table: str) -> TableSchema:
    """Return the definition of a temporary table of the session; its sizes are 0."""
    created = show_create(session, schema, table)
    quoted = quote_table(schema, table)
    lines = {name.replace("``", "`"): text for name, text in _LINE.findall(created)}
    pads = _collations(session)
    rows = [
        row
        for row in session.query(f"SHOW FULL COLUMNS FROM {quoted}")
        if not str(row[0]).startswith(_HIDDEN)
    ]
    columns = tuple(
        with_members(session, schema, table, _column(row, place, lines.get(str(row[0]), ""), pads))
        for place, row in enumerate(rows, start=1)
    )
    return TableSchema(
        schema=schema,
        name=table,
        engine="InnoDB",
        columns=columns,
        indexes=indexes_of(list(_index_rows(session, quoted))),
        auto_increment=1 if any(column.auto_increment for column in columns) else None,
        create_sql=created.replace(TEMPORARY, "CREATE TABLE ", 1),
    )


def _collations(session: SqlSession) -> dict[str, tuple[str, str]]:
    rows = session.query(
        "SELECT COLLATION_NAME, CHARACTER_SET_NAME, PAD_ATTRIBUTE"
        " FROM information_schema.COLLATIONS"
    )
    return {str(name): (str(charset), str(pad)) for name, charset, pad in rows}


def _index_rows(session: SqlSession, quoted: str) -> Iterator[tuple[Any, ...]]:
    rows = session.query(f"SHOW INDEX FROM {quoted}")
    for row in sorted(rows, key=lambda row: (row[2] != "PRIMARY", str(row[2]), int(row[3]))):
        yield row[2], row[1], row[4], row[14], row[7], row[5], row[13], row[10]


def _column(
    row: tuple[Any, ...], place: int, line: str, pads: dict[str, tuple[str, str]]
) -> Column:
    name, column_type, collation, nullable, _, default, extra, _, comment = row
    column_type = str(column_type)
    data_type = re.split(r"[ (]", column_type, maxsplit=1)[0].lower()
    charset, pad = pads.get(str(collation), (None, None))
    extra = "" if extra == "NULL" else str(extra or "")
    computed, generated, srid = (one.search(line) for one in (_DEFAULT, _GENERATED, _SRID))
    if computed is not None and generated is None:
        default = computed[1] or computed[2]
        extra = f"DEFAULT_GENERATED {extra}".rstrip()
    digits, decimals = _numbers(data_type, column_type)
    found = _DIGITS.search(column_type)
    length = _LOBS.get(data_type) or (int(found[1]) if data_type in _SIZED and found else None)
    return column_of(
        (
            *(name, place, data_type, column_type, nullable, charset, collation, pad),
            *(length, digits, decimals, digits if data_type in _TEMPORAL else None),
            *(default, extra, generated[1] if generated else ""),
            *(srid[1] if srid else None, comment),
        )
    )


def _numbers(data_type: str, column_type: str) -> tuple[int | None, int | None]:
    found = _DIGITS.search(column_type)
    if data_type in _TEMPORAL:
        return (int(found[1]) if found else 0), None
    if data_type in _INTEGERS:
        more = data_type == "bigint" and "unsigned" in column_type
        return _INTEGERS[data_type] + more, 0
    if data_type in _FLOATS:
        return (int(found[1]), int(found[2])) if found and found[2] else (_FLOATS[data_type], None)
    if data_type == "decimal" and found:
        return int(found[1]), int(found[2] or 0)
    if data_type == "bit":
        return (int(found[1]) if found else 1), None
    return None, None
