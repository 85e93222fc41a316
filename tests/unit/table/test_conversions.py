"""Which type changes keep a literal's value; everything else is converted by the server."""

from __future__ import annotations

import pytest

from spirit_py.table.conversions import (
    Conversion,
    conversion,
    cuts_blanks,
    equality_kept,
    literal_safe,
    lost_members,
    merged_by_cast,
    merges,
    narrowed,
    values_stay_apart,
)
from tests.kits.definitions import column

LATIN1 = {"charset": "latin1", "collation": "latin1_swedish_ci"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int", "int"),
        ("int", "bigint"),
        ("tinyint", "mediumint"),
        ("int unsigned", "bigint unsigned"),
        ("int unsigned", "bigint"),
        ("varchar(9)", "varchar(300)"),
        ("char(9)", "varchar(9)"),
        ("varchar(9)", "char(9)"),
        ("varchar(9)", "text"),
        ("binary(4)", "varbinary(4)"),
        ("varbinary(4)", "blob"),
        ("datetime", "datetime(6)"),
        ("time(3)", "time(3)"),
        ("timestamp", "timestamp(3)"),
        ("decimal(5,2)", "decimal(7,3)"),
        ("decimal(5,2) unsigned", "decimal(5,2)"),
        ("enum('a','b')", "enum('a','b','c')"),
        ("set('a','b')", "set('a','b','c')"),
        ("bit(3)", "bit(9)"),
        ("vector(3)", "vector(9)"),
        ("json", "json"),
        ("float", "float"),
        ("float(7,4)", "float(7,4)"),
        ("point", "point"),
        ("year", "year"),
        ("date", "date"),
    ],
)
def test_a_wider_type_takes_the_old_literal(old, new):
    """Types that only become wider take the old literal as it is, whatever the value."""
    assert literal_safe(column("c", old), column("c", new))
    assert not narrowed(column("c", old), column("c", new))


@pytest.mark.parametrize(
    ("old", "new", "blanks"),
    [
        ("bigint", "int", False),
        ("int", "int unsigned", False),
        ("int unsigned", "int", False),
        ("bigint unsigned", "bigint", False),
        ("decimal(5,2)", "decimal(5,3)", False),
        ("decimal(5,2)", "decimal(4,2)", False),
        ("decimal(5,2)", "decimal(5,2) unsigned", False),
        ("bit(9)", "bit(3)", False),
        ("blob", "varbinary(9)", False),
        ("varbinary(9)", "binary(8)", False),
        ("varchar(9)", "varchar(8)", True),
        ("char(9)", "varchar(8)", True),
        ("text", "varchar(9)", True),
        ("varchar(100)", "tinytext", True),
    ],
)
def test_a_narrower_type_takes_the_old_literal_or_none(old, new, blanks):
    """Strict mode refuses what does not fit; only cut blanks are no more than a note."""
    before, after = column("c", old), column("c", new)
    assert literal_safe(before, after)
    assert narrowed(before, after)
    assert cuts_blanks(before, after) is blanks


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int", "varchar(20)"),
        ("int", "decimal(20,0)"),
        ("int", "double"),
        ("varchar(9)", "char(8)"),
        ("char(9)", "char(8)"),
        ("varchar(9)", "int"),
        ("varchar(9)", "varbinary(36)"),
        ("varbinary(9)", "varchar(9)"),
        ("varchar(9)", "enum('a')"),
        ("varchar(9)", "json"),
        ("datetime(6)", "datetime(3)"),
        ("datetime", "timestamp"),
        ("datetime", "date"),
        ("date", "datetime"),
        ("decimal(5,2)", "decimal(6,1)"),
        ("decimal(5,2)", "double"),
        ("float", "double"),
        ("double", "float"),
        ("enum('a','b')", "enum('b','a')"),
        ("enum('a','b')", "enum('a')"),
        ("enum('a','b')", "set('a','b')"),
        ("set('a','b')", "set('b','a','c')"),
        ("bit(9)", "int"),
        ("year", "int"),
        ("point", "geometry"),
        ("json", "text"),
    ],
)
def test_every_other_change_is_left_to_the_server(old, new):
    """Every other change is left to the server."""
    assert not literal_safe(column("c", old), column("c", new))


@pytest.mark.parametrize("kind", ["varchar(9)", "text", "enum('a')", "set('a')"])
def test_another_character_set_is_a_conversion(kind):
    """Another character set is a conversion; another collation of the same one is not."""
    old = column("c", kind)
    assert not literal_safe(old, column("c", kind, **LATIN1))
    assert literal_safe(old, column("c", kind, collation="utf8mb4_bin"))


def test_another_srid_is_a_conversion():
    """Another SRID is a conversion, though the type is spelled the same."""
    assert not literal_safe(column("c", "point", srid=4326), column("c", "point"))


@pytest.mark.parametrize(
    ("old", "new", "how"),
    [
        ("int", "bigint", Conversion.NONE),
        ("int", "varchar(20)", Conversion.BY_SERVER),
        ("varchar(20)", "int", Conversion.BY_SERVER),
        ("enum('a','b')", "enum('b','a')", Conversion.BY_SERVER),
        ("timestamp", "datetime", Conversion.BY_SERVER),
        ("double", "int", Conversion.BY_SERVER),
        ("int", "bit(9)", Conversion.BY_SERVER),
        ("json", "text", Conversion.BY_SERVER),
        ("float", "varchar(20)", Conversion.BY_TEXT),
        ("double", "blob", Conversion.BY_TEXT),
        ("year", "char(9)", Conversion.BY_TEXT),
        ("int", "date", Conversion.BY_TEXT),
        ("decimal(9,2)", "datetime", Conversion.BY_TEXT),
        ("int", "enum('1','2')", Conversion.BY_TEXT),
        ("double", "set('1','2')", Conversion.BY_TEXT),
        ("int", "json", Conversion.BY_TEXT),
        ("json", "int", Conversion.BY_TEXT),
        ("json", "varbinary(20)", Conversion.BY_TEXT),
        ("varchar(20)", "bit(9)", Conversion.REFUSED),
        ("json", "bit(9)", Conversion.REFUSED),
        ("date", "bit(9)", Conversion.REFUSED),
        ("date", "year", Conversion.REFUSED),
    ],
)
def test_how_values_are_converted(old, new, how):
    """Each pair of types goes the way on which the server agrees with its ALTER TABLE."""
    assert conversion(column("c", old), column("c", new)) is how


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("bigint", "int unsigned", True),
        ("decimal(9,2)", "decimal(4,2)", True),
        ("varbinary(9)", "varbinary(4)", True),
        ("varchar(9)", "varchar(4)", True),
        ("varchar(9)", "char(9)", False),
        ("char(9)", "char(4)", False),
    ],
)
def test_a_narrowed_key_keeps_its_order(old: str, new: str, kept: bool) -> None:
    """What fits compares as before, and what does not is in no row."""
    assert equality_kept(column("k", old), column("k", new)) is kept
    assert values_stay_apart(column("k", old), column("k", new)) is (new != "char(9)")


@pytest.mark.parametrize(("new", "kept"), [("binary(4)", True), ("binary(8)", False)])
def test_a_wider_binary_is_not_found_by_the_old_literal(new: str, kept: bool) -> None:
    """It adds zeros: values stay apart, and none of them is what it was."""
    old = column("k", "binary(4)")
    assert equality_kept(old, column("k", new)) is kept
    assert values_stay_apart(old, column("k", new))


@pytest.mark.parametrize(
    ("collation", "lost"),
    [
        ("utf8mb4_bin", ["A"]),
        ("utf8mb4_0900_as_cs", ["A"]),
        ("utf8mb4_ja_0900_as_cs_ks", ["A"]),
        ("binary", ["A"]),
        ("utf8mb4_0900_ai_ci", []),
    ],
)
def test_a_member_of_another_case_is_lost_where_the_collation_tells_cases_apart(collation, lost):
    """The copy would stop at such a row, so preflight looks for one."""
    old = column("c", "enum('a','A')", members=("a", "A"), collation="utf8mb4_bin")
    new = column("c", "enum('a')", members=("a",), collation=collation)
    assert lost_members(old, new) == lost


@pytest.mark.parametrize(
    ("old", "new", "by_cast"),
    [
        ("datetime", "date", True),
        ("varchar(9)", "decimal(5,2)", True),
        ("varchar(9)", "float", True),
        ("float", "varchar(9)", True),
        ("varchar(9)", "json", True),
        # An ALTER rounds fractions to the next day, and CAST cuts them.
        ("datetime(6)", "date", False),
        ("timestamp", "date", False),
        ("varchar(9)", "time", False),
        ("varchar(9)", "year", False),
        ("int", "year", False),
        # CAST has no scale of a FLOAT.
        ("varchar(9)", "float(7,3)", False),
        ("double", "double(9,2)", False),
        # It reads bytes with a warning.
        ("varbinary(9)", "int", False),
        ("blob", "decimal(5,2)", False),
        ("json", "text", False),
        ("json", "int", False),
        ("double", "bigint unsigned", False),
        ("float", "varbinary(20)", False),
        ("varchar(9)", "enum('a')", False),
    ],
)
def test_what_no_cast_merges_as_an_alter_does(old, new, by_cast):
    """A revert writes such a column over in all rows, where a CAST would show a difference."""
    pair = column("c", old), column("c", new)
    assert merges(*pair)
    assert merged_by_cast(*pair) is by_cast
