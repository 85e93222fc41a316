"""The text of the rows that are kept (--keep)."""

from __future__ import annotations

import pytest

from spirit_py.table.expressions import RowExpression, makes_texts, names_in, why_zoned
from tests.kits.definitions import column


def kept(expression: str, *columns: str) -> RowExpression:
    """Return an expression over columns, of which those called ``at`` are TIMESTAMPs."""
    kinds = [column(one, "timestamp" if one == "at" else "int") for one in columns]
    return RowExpression(expression=expression, columns=tuple(kinds), time_zone="SYSTEM")


def test_columns_are_qualified_and_texts_are_not():
    """A text may look like a name, and a name may have backquotes."""
    text = "(`a` > 1) and (`b``c` <> '`a` it\\'s') and (`a` <> 'x''`a`')"
    assert kept(text, "a", "b`c").condition("`r`") == (
        "(((`r`.`a` > 1) and (`r`.`b``c` <> '`a` it\\'s') and (`r`.`a` <> 'x''`a`')) IS TRUE)"
    )
    assert kept(text, "a", "b`c").condition() == f"(({text}) IS TRUE)"


def test_a_timestamp_is_read_in_the_servers_zone():
    """Whatever the session's is."""
    found = kept("`AT` > '2026-01-01'", "at").condition("s")
    assert found.startswith(
        "((IF(UNIX_TIMESTAMP(s.`AT`) = 0, s.`AT`, CONVERT_TZ(s.`AT`, @@SESSION.time_zone, "
    )
    assert found.endswith(")) > '2026-01-01') IS TRUE)")


def test_names_within_texts_are_nobodys():
    """Nor are those of functions."""
    assert names_in("(`A` > length('`b`')) or (`c``d` = 1)") == {"a", "c`d"}


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("(`a` > '2026-01-01 00:00:00')", ""),
        ("(`a` > '10:00')", ""),
        ("(`a` = 'from_unixtime(1)')", ""),
        ("(from_unixtime(`a`) > 1)", "FROM_UNIXTIME depends on the session's time zone"),
        (
            "(`a` > '2026-01-01 00:00:00+02:00')",
            "the offset of '2026-01-01 00:00:00+02:00' depends on the session's time zone",
        ),
        *(
            (f"(`a` > '{text}')", f"the offset of '{text}' depends on the session's time zone")
            for text in (
                "2026-01-01 00:00:00+02:00 ",
                "2026-01-01 00:00:00+02:00\\n",
                " 2026.01.01 00.00.00-02:00",
                "2026-01-01T1:2:3.+02:00",
                "2026-01-01 00:00:00.123+02:00",
            )
        ),
        ("(`a` > '+02:00')", ""),
        ("(`a` > '2026-01-01 00:00 and 9 to 10+02:00')", ""),
    ],
)
def test_what_another_time_zone_would_change(expression, why):
    """An offset is converted to the session's time zone, as is a number of seconds."""
    assert why_zoned(expression) == why


@pytest.mark.parametrize(
    ("expression", "makes"),
    [
        ("(cast(concat(`d`,_utf8mb4'+02:00') as datetime) > _utf8mb4'2026-01-01')", True),
        ("(`d` > date_format(`e`,_utf8mb4'%Y-%m-%d %T-5:30'))", True),
        ("(convert_tz(`d`,_utf8mb4'+02:00',_utf8mb4'+00:00') > _utf8mb4'2026-01-01')", False),
        ("(convert_tz(concat(`d`,'+01:00'),'+02:00','+00:00') > '2026-01-01')", True),
        ("(`d` > _utf8mb4'2026-01-01 10:00')", False),
        ("(cast(concat(`d`,_utf8mb4'+01',_utf8mb4':00') as datetime) > `e`)", True),
        ("(cast(insert(`d`,20,0,json_unquote(`n`)) as datetime) > `e`)", True),
        ("(cast(x'2b' as datetime) > `e`)", True),
        ("(`n` <> _utf8mb4'+49:30')", False),
        ("((year(`d`) > 2025) and (`n` in (1,2)) and ((`d` + interval 1 day) < `e`))", False),
        ("(cast(`n` as char charset utf8mb4) > `e`)", True),
        ("(if((`n` is null),`d`,cast(_utf8mb4'2026-01-01' as date)) > `e`)", False),
    ],
)
def test_an_offset_may_be_put_behind_a_time(expression, makes):
    """Where a function makes texts; one that stands there as a whole is seen as it is."""
    assert makes_texts(expression) == makes
