"""Row events, byte by byte (R9, R13, R14)."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import pytest

from spirit_py.binlog import wire
from spirit_py.binlog.codec.rows import RowCodec, RowImage, check_table_map
from spirit_py.binlog.codec.tablemap import ColumnType, TableMap, parse_table_map
from spirit_py.binlog.wire import DELETE_ROWS, UPDATE_ROWS, WRITE_ROWS
from spirit_py.errors import NullInKey, SchemaChanged, UnreadableChange
from spirit_py.table.values import RenderedRow
from tests.kits.definitions import column, index, table

FULL_MAP = bytes.fromhex(
    "9b00000000000100016d000167001e03010d04f60410fefefe0f0ffefefcfcfcfcfcf5fffff20a1312110303fe"
    "22041e0a040201fe28ce20feff2c012800f701f802010203040104040404030601ee00feffff1f010178020bfc"
    "ff00023f033f093f0a3f070200010d0103044f02696402746901790166016402666c0162016302633402626e02"
    "766202766301650173027474027478026d74026c74027462016a01670170017602646101740264740274730276"
    "7603696e760263310a03fcff00051309016101620163016401650166016701680169060502016101620801000c"
    "04fffffff4"
)
"""A table map of MySQL 9.7.4 with binlog_row_metadata=FULL over 30 columns of most types."""


def codec_for(*columns, key="id"):
    """Compile a codec for a table of these columns behind an ``id int``, or of these alone."""
    given = list(columns)
    if key == "id" and all(item.name != "id" for item in columns):
        given.insert(0, column("id"))
    ordered = [replace(item, ordinal=place + 1) for place, item in enumerate(given)]
    schema = table(*ordered, index("PRIMARY", key))
    return RowCodec(schema, [schema.column(key)], schema.columns)


def rows_body(count, *images, twice=False, present=None, extra=b""):
    """Build the body of a version 2 rows event of table 7 from images."""
    bitmap = present or b"\xff" * ((count + 7) // 8)
    head = (7).to_bytes(6, "little") + b"\1\0" + (2 + len(extra)).to_bytes(2, "little") + extra
    return head + bytes([count]) + bitmap * (1 + twice) + b"".join(images)


def image(number, value="", nulls=0):
    """Build an image: ``id``, and the bytes of one more column in hex."""
    return bytes([nulls]) + struct.pack("<i", number) + bytes.fromhex(value)


VALUES = [
    ("tinyint", "ff", "-1", -1),
    ("tinyint unsigned", "ff", "255", 255),
    ("smallint unsigned", "ffff", "65535", 65535),
    ("mediumint", "000080", "-8388608", -8388608),
    ("mediumint unsigned", "000080", "8388608", 8388608),
    ("int unsigned", "ffffffff", "4294967295", 2**32 - 1),
    ("bigint", "0000000000000080", "-9223372036854775808", -(2**63)),
    ("bigint unsigned", "ffffffffffffffff", "18446744073709551615", 2**64 - 1),
    ("year", "00", "0", 0),
    ("year", "7c", "2024", 2024),
    ("bit(10)", "0201", "513", 513),
    ("bit(64)", "ffffffffffffffff", "18446744073709551615", 2**64 - 1),
    ("decimal(10,2)", "8000000132", "1.50", "1.50"),
    ("decimal(10,2)", "7ffffffecd", "-1.50", "-1.50"),
    ("decimal(4,2)", "7ffa", "-0.05", "-0.05"),
    ("decimal(5,0)", "80007b", "123", "123"),
    ("decimal(2,2)", "8f", "0.15", "0.15"),
    ("decimal(20,10)", "810000000a0000000501", "1000000010.0000000051", "1000000010.0000000051"),
    ("float", "cdcccc3d", "0.10000000149011612e0", 0.1),
    ("float", "00000080", "-0.0e0", -0.0),
    ("double", "9a9999999999b93f", "0.1e0", 0.1),
    ("double", "9c7500883ce4377e", "1e+300", 1e300),
    ("date", "5fce0f", "'2023-02-31'", "2023-02-31"),
    ("date", "000000", "'0000-00-00'", "0000-00-00"),
    ("time", "800000", "'00:00:00'", "00:00:00"),
    ("time", "4b9105", "'-838:59:59'", None),
    ("time(2)", "7fffffce", "'-00:00:00.50'", "-00:00:00.50"),
    ("time(1)", "7fffffce", "'-00:00:00.5'", "-00:00:00.5"),
    ("time(6)", "7ffffeffffff", "'-00:00:01.000001'", "-00:00:01.000001"),
    ("datetime", "8000000000", "'0000-00-00 00:00:00'", "0000-00-00 00:00:00"),
    ("datetime(6)", "99b14ca1c80e6b3a", "'2023-10-06 10:07:08.944954'", None),
    ("timestamp", "00000000", "'0000-00-00 00:00:00'", "0000-00-00 00:00:00"),
    ("timestamp", "7fffffff", "'2038-01-19 03:14:07+00:00'", "2038-01-19 03:14:07"),
    ("timestamp(3)", "000000011388", "'1970-01-01 00:00:01.500+00:00'", "1970-01-01 00:00:01.500"),
    ("binary(4)", "020061", "X'00610000'", {"hex": "00610000"}),
    ("varbinary(4)", "020061", "X'0061'", {"hex": "0061"}),
    ("varbinary(300)", "02000061", "X'0061'", {"hex": "0061"}),
    ("enum('a','b')", "02", "2", "b"),
    ("set('a','b')", "00", "0", ""),
    ("set('a','b')", "03", "3", "a,b"),
    ("blob", "0200ff00", "X'ff00'", {"hex": "ff00"}),
    ("tinyblob", "02ff00", "X'ff00'", {"hex": "ff00"}),
    ("longblob", "02000000ff00", "X'ff00'", {"hex": "ff00"}),
    ("geometry", "04000000e6100000", "X'e6100000'", {"hex": "e6100000"}),
    ("vector(1)", "040000000000803f", "X'0000803f'", {"hex": "0000803f"}),
    ("json", "020000000400", "CAST(_utf8mb4 X'6e756c6c' AS JSON)", "null"),
    ("json", "00000000", "CAST(_utf8mb4 X'6e756c6c' AS JSON)", "null"),
]


@pytest.mark.parametrize(("kind", "raw", "literal", "plain"), VALUES)
def test_value_becomes_its_literal(kind, raw, literal, plain):
    """Each type's bytes become the one literal that stores the value again."""
    codec = codec_for(column("v", kind))
    (change,) = codec.rows(WRITE_ROWS, rows_body(2, image(1, raw)))
    assert change.after.render() == RenderedRow(f"(1, {literal})", staged=False)
    if plain is not None:
        assert change.after.values() == {"id": 1, "v": plain}


@pytest.mark.parametrize(
    ("charset", "kind", "raw", "literal", "plain"),
    [
        ("latin1", "char(5)", "0181", "_latin1 X'81'", {"charset": "latin1", "hex": "81"}),
        ("latin1", "varchar(5)", "01e4", "_latin1 X'e4'", "ä"),
        ("utf8mb4", "varchar(64)", "0200c3a4", "_utf8mb4 X'c3a4'", "ä"),
        ("utf8mb3", "varchar(64)", "02c3a4", "_utf8mb4 X'c3a4'", "ä"),
        ("utf16", "text", "040000e40020", "_utf16 X'00e40020'", "ä "),
        ("ucs2", "text", "020000e4", "X'00e4'", "ä"),
        ("ucs2", "text", "0200d800", "X'd800'", {"charset": "ucs2", "hex": "d800"}),
        ("ucs2", "text", "0400d83dde00", "X'd83dde00'", {"charset": "ucs2", "hex": "d83dde00"}),
        ("utf32", "longtext", "04000000000000e4", "_utf32 X'000000e4'", "ä"),
        ("sjis", "tinytext", "028341", "_sjis X'8341'", {"charset": "sjis", "hex": "8341"}),
        ("greek", "varchar(5)", "01a4", "X'a4'", {"charset": "greek", "hex": "a4"}),
    ],
)
def test_text_keeps_its_bytes_and_charset(charset, kind, raw, literal, plain):
    """Text is carried as bytes with its introducer, whatever Python thinks of the bytes."""
    codec = codec_for(replace(column("v", kind), charset=charset))
    (change,) = codec.rows(WRITE_ROWS, rows_body(2, image(1, raw)))
    assert change.after.render().sql == f"(1, {literal})"
    assert change.after.values()["v"] == plain


def test_a_charset_is_no_part_of_the_source() -> None:
    """The server's text is a value of the compiled function, whatever it says."""
    text = column("v", "varchar(20)", ordinal=2)
    object.__setattr__(text, "charset", 'x"""{1 // 0}')
    schema = table(column("id"), text)
    codec = RowCodec(schema, [schema.column("id")], schema.columns)
    (change,) = codec.rows(WRITE_ROWS, rows_body(2, image(1, "0161")))
    assert change.after is not None
    assert change.after.render().sql == '(1, _x"""{1 // 0} X\'61\')'


def test_enum_error_value_takes_the_staged_path():
    """Ordinal 0 cannot be inserted under strict mode, so only its row is marked as staged."""
    codec = codec_for(column("v", "enum('a','')", nullable=True))
    rows = codec.rows(WRITE_ROWS, rows_body(2, image(1, "00"), image(2, "02"), image(3, "", 2)))
    assert [change.after.render() for change in rows] == [
        RenderedRow("(1, 0)", staged=True),
        RenderedRow("(2, 2)", staged=False),
        RenderedRow("(3, NULL)", staged=False),
    ]
    assert [change.after.values()["v"] for change in rows] == [0, "", None]
    assert [change.after.stored()["v"] for change in rows] == [0, 2, None]


@pytest.mark.parametrize(
    ("members", "raw", "number"),
    [(255, "ff", 255), (256, "0001", 256)],
)
def test_long_enums_take_two_bytes(members, raw, number):
    """An ENUM of 256 members and more has two-byte ordinals."""
    kind = f"enum({', '.join(repr(f'm{n}') for n in range(members))})"
    (change,) = codec_for(column("v", kind)).rows(WRITE_ROWS, rows_body(2, image(1, raw)))
    assert change.after.render().sql == f"(1, {number})"


@pytest.mark.parametrize(
    ("members", "size"), [(1, 1), (8, 1), (9, 2), (17, 3), (25, 4), (33, 8), (64, 8)]
)
def test_sets_take_one_two_three_four_or_eight_bytes(members, size):
    """A SET's mask is as wide as its members need, but never five to seven bytes."""
    kind = f"set({', '.join(repr(f'm{n}') for n in range(members))})"
    mask = 1 << (members - 1)
    raw = mask.to_bytes(size, "little").hex()
    (change,) = codec_for(column("v", kind)).rows(WRITE_ROWS, rows_body(2, image(1, raw)))
    assert change.after.render().sql == f"(1, {mask})"
    assert change.after.values()["v"] == f"m{members - 1}"


def test_update_gives_both_images_and_their_keys():
    """A key update shows in the keys of the two images (R6)."""
    codec = codec_for(column("v", "varchar(9)"))
    body = rows_body(
        2, image(1, "0161"), image(2, "0162"), image(3, "00"), image(3, ""), twice=True
    )
    with pytest.raises(UnreadableChange):
        codec.rows(UPDATE_ROWS, body)
    body = rows_body(
        2, image(1, "0161"), image(2, "0162"), image(3, "00"), image(3, "00"), twice=True
    )
    first, second = codec.rows(UPDATE_ROWS, body)
    assert (first.kind, first.before.key, first.after.key) == ("update", (1,), (2,))
    assert first.after.render().sql == "(2, _utf8mb4 X'62')"
    assert second.before.key == second.after.key == (3,)


def test_delete_gives_the_before_image_and_its_key_for_sql():
    """A delete has a before image only; its key renders for a row constructor."""
    codec = codec_for(column("v", "int", nullable=True))
    (change,) = codec.rows(DELETE_ROWS, rows_body(2, image(5, "", nulls=2)))
    assert change.kind == "delete"
    assert change.after is None
    assert change.before.key_sql == codec.key_sql((5,)) == "(5)"


def test_version_one_events_and_extra_data_are_read():
    """Version 1 has no extra data; in version 2 it is stepped over, whatever it holds."""
    codec = codec_for(column("v", "tinyint"))
    body = rows_body(2, image(1, "07"))
    expected = codec.rows(WRITE_ROWS, body)
    assert codec.rows(wire.WRITE_ROWS_V1, body[:8] + body[10:]) == expected
    assert codec.rows(WRITE_ROWS, rows_body(2, image(1, "07"), extra=b"\1\2\0\0")) == expected


def test_unused_bits_of_the_bitmaps_do_not_matter():
    """Servers set the bits beyond the last column in one bitmap and clear them in another."""
    codec = codec_for(column("v", "tinyint", nullable=True))
    for unused in (0x00, 0xFC):
        body = rows_body(2, image(1, "07", nulls=unused), present=bytes([0x03 | unused]))
        assert codec.rows(WRITE_ROWS, body)[0].after.render().sql == "(1, 7)"


@pytest.mark.parametrize("position", [0, 1])
def test_missing_columns_are_refused(position):
    """MINIMAL and NOBLOB images, in either half of an update, stop the feed (R13)."""
    codec = codec_for(column("v", "tinyint"))
    body = rows_body(2, image(1, "07"), image(1, "08"), twice=True)
    bitmap = 11 + position
    broken = body[:bitmap] + b"\x01" + body[bitmap + 1 :]
    with pytest.raises(UnreadableChange, match=r"s\.t does not hold all columns"):
        codec.rows(UPDATE_ROWS, broken)


def test_every_cut_of_an_event_is_refused():
    """A body that ends early, or goes on too long, never gives rows that are not there."""
    codec = codec_for(column("v", "varchar(9)"), column("w", "json", nullable=True))
    whole = rows_body(3, image(1, "0161") + bytes.fromhex("020000000400"), image(2, "0162", 4))
    assert len(codec.rows(WRITE_ROWS, whole)) == 2
    ends = {len(whole) - len(image(2, "0162", 4)), 12}
    for cut in set(range(8, len(whole))) - ends:
        with pytest.raises(UnreadableChange):
            codec.rows(WRITE_ROWS, whole[:cut])
    with pytest.raises(UnreadableChange):
        codec.rows(WRITE_ROWS, whole + b"\0")


def test_other_column_count_is_a_changed_schema():
    """Rows with more or fewer columns than the definition are of an altered table (R14)."""
    with pytest.raises(SchemaChanged, match="3 columns instead of 2"):
        codec_for(column("v", "tinyint")).rows(WRITE_ROWS, rows_body(3, image(1, "07")))


@pytest.mark.parametrize("event_type", [39, 0, 40])
def test_other_events_are_refused(event_type):
    """Partial updates, and anything that is no rows event, are refused by their type."""
    with pytest.raises(UnreadableChange, match=f"type {event_type}"):
        codec_for(column("v", "tinyint")).rows(event_type, b"")


def test_specialised_functions_agree_with_the_general_one():
    """Images with a common null bitmap are decoded by special code to the same result."""
    rng = random.Random(7)
    kinds = {"tinyint": "07", "varchar(9)": "0161", "decimal(4,2)": "7ffa", "json": "020000000400",
             "datetime": "8000000000", "enum('a')": "00", "mediumint": "ffffff", "text": "0200c3a4",
             "int unsigned": "ffffffff", "binary(2)": "0161"}  # fmt: skip
    names = list(kinds) * 2
    columns = [
        column(f"c{place}", kind, nullable=place % 3 != 0) for place, kind in enumerate(names)
    ]
    patterns = []
    for _ in range(6):
        nulls = sum(
            1 << (p + 1) for p, c in enumerate(columns) if c.nullable and rng.random() < 0.4
        )
        values = "".join(kinds[k] for p, k in enumerate(names) if not nulls >> (p + 1) & 1)
        patterns.append((nulls, values))

    def body(choice):
        images = [
            nulls.to_bytes(3, "little") + struct.pack("<i", number) + bytes.fromhex(values)
            for number, (nulls, values) in enumerate(choice)
        ]
        return rows_body(21, *images)

    chosen = [rng.choice(patterns) for _ in range(400)]
    general = codec_for(*columns)
    expected: list[RenderedRow] = []
    for one in chosen:
        fresh = codec_for(*columns) if len(expected) % 50 == 0 else general
        expected += [c.after.render() for c in fresh.rows(WRITE_ROWS, body([one]))]
    warm = codec_for(*columns)
    for _ in range(3):
        found = warm.rows(WRITE_ROWS, body(chosen))
    assert [change.after.key for change in found] == [(n,) for n in range(400)]
    strip = [row.sql.split(", ", 1)[1] for row in expected]
    assert [change.after.render().sql.split(", ", 1)[1] for change in found] == strip
    assert [change.after.render().staged for change in found] == [row.staged for row in expected]
    assert len(warm._split) == len(set(patterns))
    assert warm.values(found[0].after.data) == general.values(found[0].after.data)


def test_many_null_bitmaps_do_not_grow_the_code_without_bound():
    """A table with every null bitmap there is keeps a bounded number of special functions."""
    columns = [column(f"c{place}", "tinyint", nullable=True) for place in range(12)]
    codec = codec_for(*columns)
    for _ in range(30):
        for nulls in range(0, 1 << 12, 7):
            present = 12 - nulls.bit_count()
            data = (nulls << 1).to_bytes(2, "little") + struct.pack("<i", 1) + b"\5" * present
            ((_, _, after),) = codec.rows(WRITE_ROWS, rows_body(13, data))
            after.render()
    assert len(codec._split) == codec._split.MOST
    assert len(codec.renderers) == codec.renderers.MOST


KEYS = [
    ("decimal(10,2)", "7ffffffecd", -150, "(-1.50)"),
    ("date", "5fce0f", 2023 << 9 | 2 << 5 | 31, "('2023-02-31')"),
    ("time(2)", "7fffffce", -50, "('-00:00:00.50')"),
    ("binary(4)", "020061", b"\0a\0\0", "(X'00610000')"),
    ("varbinary(4)", "020061", b"\0a", "(X'0061')"),
    ("enum('a','b')", "02", 2, "(_utf8mb4 X'62')"),
    ("set('a','b')", "03", 3, "(_utf8mb4 X'612c62')"),
    ("bit(10)", "0201", 513, "(513)"),
    ("mediumint", "ffffff", -1, "(-1)"),
    ("year", "00", 0, "(0)"),
    ("float", "00000080", 0.0, "(0.0e0)"),
    ("varchar(4)", "0161", b"a", "(_utf8mb4 X'61')"),
]


@pytest.mark.parametrize(("kind", "raw", "value", "sql"), KEYS)
def test_key_is_the_documented_value(kind, raw, value, sql):
    """Keys are typed values as ``table.keys`` lists them, in an image at any place of the row."""
    codec = codec_for(column("before", "varchar(3)"), column("k", kind), key="k")
    body = rows_body(2, b"\0" + b"\x01x" + bytes.fromhex(raw))
    ((_, _, after),) = codec.rows(WRITE_ROWS, body)
    assert after.key == (value,)
    assert after.key_sql == sql


def test_composite_key_is_in_key_order_not_in_column_order():
    """The tuple follows the index, whatever the order of the columns."""
    columns = (column("a", "int", ordinal=1), column("b", "tinyint", ordinal=2))
    schema = table(*columns, index("PRIMARY", "b", "a"))
    codec = RowCodec(schema, [schema.column("b"), schema.column("a")], columns)
    (after,) = codec.images(WRITE_ROWS, rows_body(2, image(7, "05")))[1]
    assert after.key == (5, 7)
    assert codec.comparable


def test_table_without_a_key_has_empty_keys():
    """``watch`` follows tables without a key too."""
    schema = table(column("a", "int", ordinal=1), index("k", "a", unique=False))
    codec = RowCodec(schema, [], schema.columns)
    (after,) = codec.images(WRITE_ROWS, rows_body(1, image(7)))[1]
    assert after.key == ()
    assert not codec.comparable


def test_image_counts_its_bytes_and_the_objects_around_them():
    """The buffer's limit is one of memory, so a tiny row does not count as nothing (R19)."""
    codec = codec_for(column("v", "longblob"))
    big = image(1, "a0860100") + bytes(100_000)
    small, large = (
        codec.rows(WRITE_ROWS, rows_body(2, i))[0].after for i in (image(1, "00000000"), big)
    )
    assert 200 < small.size < 1000
    assert large.size - small.size == 100_000


def test_table_map_of_a_real_server_is_parsed():
    """A captured event gives names, types, lengths and nullability."""
    table_map = parse_table_map(FULL_MAP)
    assert (table_map.schema, table_map.table) == ("m", "g")
    types = dict(zip(table_map.names, table_map.columns, strict=True))
    assert types["c4"] == ColumnType(254, 800)
    assert types["bn"] == ColumnType(254, 255)
    assert types["d"] == ColumnType(246, 30 << 8 | 10)
    assert types["e"] == ColumnType(247, 1)
    assert types["s"] == ColumnType(248, 2)
    assert types["v"] == ColumnType(242, 4)
    assert types["b"] == ColumnType(16, 1 << 8 | 2)
    nullable = [n for n, null in zip(table_map.names, table_map.nullable, strict=True) if null]
    assert set(table_map.names) - set(nullable) == {"id", "c1"}


def test_every_cut_of_a_table_map_is_refused():
    """A table map that ends inside its mandatory part is an error, not a smaller table."""
    mandatory = FULL_MAP.index(bytes.fromhex("feffff1f")) + 4
    for cut in range(8, mandatory):
        with pytest.raises(UnreadableChange):
            parse_table_map(FULL_MAP[:cut])


def announced(*types, nullable=None, signedness=None, names=()):
    """Build a table map of table ``s.t``."""
    return TableMap(
        schema="s",
        table="t",
        columns=tuple(ColumnType(*item) for item in types),
        nullable=nullable or (False,) * len(types),
        signedness=signedness,
        names=names,
    )


def test_sign_bits_are_compared_with_and_without_year():
    """Older servers leave YEAR out of the signedness bits, newer ones count it as unsigned."""
    schema = table(column("id"), column("y", "year"), column("u", "int unsigned"))
    types = [(3, 0), (13, 0), (3, 0)]
    for bits in (b"\x40", b"\x60", None):
        check_table_map(announced(*types, signedness=bits), schema)
    for bits in (b"\x20", b"\x00", b"\x80"):
        with pytest.raises(SchemaChanged, match="unsigned"):
            check_table_map(announced(*types, signedness=bits), schema)


def test_every_difference_of_a_column_is_a_changed_schema():
    """Type, length, nullability and, where the event has them, names must be the known ones."""
    schema = table(column("id"), column("v", "varbinary(9)", nullable=True))
    types, null = [(3, 0), (15, 9)], (False, True)
    check_table_map(announced(*types, nullable=null, names=("id", "v")), schema)
    for wrong in (
        announced(types[0], (15, 10), nullable=null),
        announced(types[0], (252, 1), nullable=null),
        announced(*types, nullable=(False, False)),
        announced(*types, nullable=null, names=("id", "w")),
    ):
        with pytest.raises(SchemaChanged, match=r"column v of s\.t is no longer varbinary\(9\)"):
            check_table_map(wrong, schema)
    with pytest.raises(SchemaChanged, match="3 columns instead of 2"):
        check_table_map(announced(*types, (3, 0)), schema)


@pytest.mark.parametrize("code", [7, 11, 12])
def test_temporal_formats_before_5_6_4_are_refused_plainly(code):
    """A column in the old format is named, with what to do about it."""
    schema = table(column("id"), column("w", "datetime"))
    with pytest.raises(UnreadableChange, match=r"s\.t\.w .* before MySQL 5\.6\.4") as caught:
        check_table_map(announced((3, 0), (code, 0)), schema)
    assert "FORCE" in caught.value.hint


def test_unknown_type_is_named():
    """A type of a later server is refused by name."""
    with pytest.raises(SchemaChanged, match="column w has the type interval"):
        check_table_map(announced((3, 0), (99, 0)), table(column("id"), column("w", "interval")))


def test_images_are_the_changes_without_their_wrapping():
    """The hot path gives the same images in the same order."""
    codec = codec_for(column("v", "tinyint"))
    body = rows_body(2, image(1, "07"), image(1, "08"), twice=True)
    kind, images = codec.images(UPDATE_ROWS, body)
    (change,) = codec.rows(UPDATE_ROWS, body)
    assert (kind, images) == (change.kind, [change.before, change.after])
    assert all(isinstance(item, RowImage) for item in images)


@pytest.mark.parametrize("rows", [1, 40], ids=["any bitmap", "a common bitmap"])
def test_a_null_in_a_nullable_key_is_named(rows):
    """By a key with NULL no row is known; all others are read as ever."""
    codec = codec_for(column("id", "int", nullable=True), column("v", nullable=True), key="id")
    fine = [image(n, "", nulls=0b10) for n in range(rows)]
    changes = codec.rows(WRITE_ROWS, rows_body(2, *fine))
    assert [change.after.key for change in changes] == [(n,) for n in range(rows)]
    null = bytes([0b01]) + struct.pack("<i", 7)
    for kind, images in ((WRITE_ROWS, [*fine, null]), (DELETE_ROWS, [null])):
        with pytest.raises(NullInKey, match=r"s\.t has NULL in id") as raised:
            codec.rows(kind, rows_body(2, *images))
        assert raised.value.resumable
    with pytest.raises(NullInKey):
        codec.rows(UPDATE_ROWS, rows_body(2, fine[0], null, twice=True))
