"""The checksum's SQL, word for word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spirit_py.checksum import query, staging_sql
from spirit_py.checksum.query import ComparisonPlan
from spirit_py.checksum.render import alike, field, unless_lost, whole
from spirit_py.checksum.table_pass import most_listed, most_staged
from spirit_py.chunk.chunk import Chunk
from spirit_py.table.keys import KeyBound
from tests.kits.definitions import ID, column, mapping

WHOLE = Chunk(number=0, lower=None, upper=None, target_rows=10)
MIDDLE = Chunk(
    number=1, lower=KeyBound(literals=("5",)), upper=KeyBound(literals=("9",)), target_rows=10
)
NAME = column("name", "varchar(10)", nullable=True)


def plan(*pairs):
    """Plan the comparison of ``id`` and these pairs."""
    return ComparisonPlan(mapping=mapping((ID, ID), *pairs))


def test_each_side_counts_and_hashes_by_the_keys_index():
    """Each side counts and XORs one hash a row, by the key's index, NULL apart from text."""
    compared = plan((NAME, column("title", "varchar(20)")))
    assert query.aggregate(compared, "source", MIDDLE) == (
        "SELECT COUNT(*), HEX(BIT_XOR(UNHEX(SHA2(CONCAT(`r`.`id`, ',',"
        " IFNULL(CONCAT(_binary':' COLLATE `binary`, `r`.`name`), 'N')), 256))))"
        " FROM `s`.`t` AS `r` FORCE INDEX (`PRIMARY`) WHERE (`id` > 5) AND (`id` <= 9)"
    )
    assert query.aggregate(compared, "target", WHOLE) == (
        "SELECT COUNT(*), HEX(BIT_XOR(UNHEX(SHA2(CONCAT(`r`.`id`, ',',"
        " _binary':' COLLATE `binary`, `r`.`title`), 256))))"
        " FROM `s`.`_t_new` AS `r` FORCE INDEX (`PRIMARY`) WHERE TRUE"
    )


def test_the_last_text_of_a_row_goes_to_its_end():
    """There it needs no length; all others have one, LOBs and numbers stay where they are."""
    text = column("w", "varchar(9)")
    compared = plan(
        (NAME, NAME), (text, text), (column("n", "int"),) * 2, (column("x", "text"),) * 2
    )
    assert compared.row("source") == (
        "`r`.`id`",
        "IFNULL(CONCAT(OCTET_LENGTH(`r`.`name`), _binary':' COLLATE `binary`, `r`.`name`), 'N')",
        "`r`.`n`",
        "SHA2(`r`.`x`, 256)",
        "_binary':' COLLATE `binary`, `r`.`w`",
    )
    assert compared.row("source") == compared.row("target")


def test_a_rows_query_has_the_key_and_the_hash():
    """The list gives the key for literals, the hash, and the key as the new table renders it."""
    wider = column("id", "bigint unsigned")
    compared = ComparisonPlan(mapping=mapping((ID, wider)))
    assert query.rows(compared, "source", WHOLE) == (
        "SELECT `r`.`id`, SHA2(CONCAT(`r`.`id`), 256), `r`.`id`"
        " FROM `s`.`t` AS `r` FORCE INDEX (`PRIMARY`) WHERE TRUE"
    )
    assert query.rows(compared, "target", WHOLE) == (
        "SELECT `r`.`id`, SHA2(CONCAT(`r`.`id`), 256), `r`.`id`"
        " FROM `s`.`_t_new` AS `r` FORCE INDEX (`PRIMARY`) WHERE TRUE"
    )


def test_the_whole_table_is_counted_by_any_index():
    """The whole table is counted by any index, a part of it by the key's."""
    compared = plan()
    assert query.count(compared, "source", WHOLE) == "SELECT COUNT(*) FROM `s`.`t`"
    assert query.count(compared, "target", MIDDLE) == (
        "SELECT COUNT(*) FROM `s`.`_t_new` AS `r` FORCE INDEX (`PRIMARY`)"
        " WHERE (`id` > 5) AND (`id` <= 9)"
    )


def test_a_differing_rows_columns_are_rendered_one_by_one():
    """The columns of a differing row are rendered one by one."""
    compared = plan((NAME, NAME))
    rendered = (
        "IFNULL(CONCAT(OCTET_LENGTH(`r`.`name`), _binary':' COLLATE `binary`, `r`.`name`), 'N')"
    )
    assert query.values(compared, "target", "(7)") == (
        f"SELECT `r`.`id`, {rendered} FROM `s`.`_t_new` AS `r`"
        " FORCE INDEX (`PRIMARY`) WHERE (`r`.`id`) IN ((7)) LIMIT 2"
    )


def test_a_converted_column_goes_through_the_stage():
    """A type that is not alike is converted by the server in a table with the new type."""
    text = column("n", "varchar(9)", nullable=True)
    number = column("n", "int")
    compared = plan((text, number))
    assert staging_sql.create_stage(compared, "old") == (
        "CREATE TEMPORARY TABLE `s`.`_spirit_py_checksum_old` (`_spirit_py_k0` int NOT NULL,"
        " `_spirit_py_c0` varchar(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NULL,"
        " PRIMARY KEY (`_spirit_py_k0`)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC"
    )
    assert staging_sql.create_stage(compared, "new") == (
        "CREATE TEMPORARY TABLE `s`.`_spirit_py_checksum_new` (`_spirit_py_k0` int NOT NULL,"
        " `_spirit_py_c0` int NULL, PRIMARY KEY (`_spirit_py_k0`)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC"
    )
    assert staging_sql.select_staged(compared, MIDDLE) == (
        "SELECT CAST(`r`.`id` AS SIGNED), CAST(`r`.`n` AS BINARY) FROM `s`.`t` AS `r`"
        " FORCE INDEX (`PRIMARY`) WHERE (`id` > 5) AND (`id` <= 9)"
    )
    assert list(staging_sql.fill_stage(compared, [(6, b"12"), (7, None)])) == [
        "REPLACE INTO `s`.`_spirit_py_checksum_old` VALUES (6, _utf8mb4 X'3132'), (7, NULL)"
    ]
    assert staging_sql.convert_stage(compared) == (
        "REPLACE INTO `s`.`_spirit_py_checksum_new` (`_spirit_py_k0`, `_spirit_py_c0`)"
        " SELECT `_spirit_py_k0`, `_spirit_py_c0` FROM `s`.`_spirit_py_checksum_old`"
    )
    assert query.aggregate(compared, "source", WHOLE) == (
        "SELECT COUNT(*), HEX(BIT_XOR(UNHEX(SHA2(CONCAT(`r`.`id`, ',',"
        " IFNULL(`s`.`_spirit_py_c0`, 'N')), 256))))"
        " FROM `s`.`t` AS `r` FORCE INDEX (`PRIMARY`) STRAIGHT_JOIN"
        " `s`.`_spirit_py_checksum_new` AS `s` ON `s`.`_spirit_py_k0` = `r`.`id` WHERE TRUE"
    )


@pytest.mark.parametrize(
    ("row_bytes", "rows"), [(100_000, 167), (None, 8388), (10 << 20, 10), (100, 167_772)]
)
def test_a_chunk_whose_values_are_converted_is_bounded_in_bytes(row_bytes, rows):
    """A task holds them; those of other chunks stay on the server."""
    compared = plan((column("n", "longtext"), column("n", "json")))
    source = replace(
        compared.mapping.source,
        estimated_rows=1000 if row_bytes else 0,
        data_bytes=1000 * (row_bytes or 0),
    )
    compared = replace(compared, mapping=replace(compared.mapping, source=source))
    assert most_staged(compared) == rows
    zipped = replace(source, create_sql="CREATE TABLE `t` (\n) ROW_FORMAT=COMPRESSED")
    compared = replace(compared, mapping=replace(compared.mapping, source=zipped))
    assert most_staged(compared) == (max(10, rows // 2) if row_bytes else rows)
    assert most_staged(plan((NAME, NAME))) == float("inf")


@pytest.mark.parametrize(
    ("key", "row_bytes", "rows"),
    [
        (column("id", "bigint"), 4000, 100_000),
        (column("id", "varchar(30)"), 4000, 100_000),
        (column("id", "varchar(768)"), 100, 100_000),
        (column("id", "varchar(768)"), 500, 25_000),
        (column("id", "varchar(768)"), 4000, 4069),
        (column("id", "varchar(768)"), 0, 4069),
    ],
)
def test_of_rows_with_long_keys_fewer_are_listed(key, row_bytes, rows):
    """A task has the key of each row four times, in hexadecimal digits."""
    made = mapping((key, key))
    source = replace(made.source, estimated_rows=1000, data_bytes=1000 * row_bytes)
    assert most_listed(replace(made, source=source), 100_000) == rows


def test_a_staged_row_that_is_too_long_for_a_statement_goes_in_pieces():
    """It is neither with others in a statement, nor in one that is longer than the rest."""
    compared = plan((column("n", "json"), column("n", "longtext")))
    large = b"a" * 600_000
    said = list(staging_sql.fill_stage(compared, [(1, b"1"), (2, large), (3, b"3")]))
    head = "REPLACE INTO `s`.`_spirit_py_checksum_old` VALUES "
    *pieces, row, forget, last = said[1:]
    assert said[0] == f"{head}(1, _utf8mb4 X'31')"
    assert (row, last) == (
        f"{head}(2, CONVERT(@spirit_py_1 USING utf8mb4))",
        f"{head}(3, _utf8mb4 X'33')",
    )
    assert (len(pieces), forget) == (3, "SET @spirit_py_1 = NULL")
    assert max(map(len, said)) <= 512 * 1024


def test_a_staged_value_that_does_not_fit_is_equal_to_nothing():
    """Where the staging table says so, its place is taken by what no value looks like."""
    compared = plan((column("n", "varchar(9)", nullable=True), column("n", "int")))
    compared = replace(compared, unfit=True)
    assert compared.fields("source")[1] == (
        "IF(FIND_IN_SET('0', `s`.`_spirit_py_unfit`), CONCAT('X', SHA2(`r`.`n`, 256)),"
        " IFNULL(`s`.`_spirit_py_c0`, 'N'))"
    )
    assert staging_sql.create_stage(compared, "old").endswith(
        "`_spirit_py_row` INT NOT NULL, PRIMARY KEY (`_spirit_py_row`))"
        " ENGINE=InnoDB ROW_FORMAT=DYNAMIC"
    )
    assert list(staging_sql.fill_stage(compared, [(6, b"12"), (7, None)])) == [
        "REPLACE INTO `s`.`_spirit_py_checksum_old` VALUES (6, _utf8mb4 X'3132', 1), (7, NULL, 2)"
    ]
    assert staging_sql.convert_stage(compared).endswith("_old` ORDER BY `_spirit_py_row`")
    old, new = "`s`.`_spirit_py_checksum_old`", "`s`.`_spirit_py_checksum_new`"
    both = f"{old} STRAIGHT_JOIN {new} ON {new}.`_spirit_py_k0` = {old}.`_spirit_py_k0`"
    assert staging_sql.take_back(compared) == f"DELETE {new} FROM {both}"
    assert staging_sql.mark_unfit(compared, (0,), (2, 5)) == (
        f"UPDATE {both} SET {new}.`_spirit_py_unfit` = '0', {new}.`_spirit_py_c0` = NULL"
        f" WHERE {old}.`_spirit_py_row` IN (2, 5)"
    )


def test_a_key_that_orders_anew_is_joined():
    """Where ranges of the key do not match, the new rows are looked up by the converted key."""
    old = column("id", "varchar(9)", collation="utf8mb4_0900_ai_ci")
    new = column("id", "varchar(9)", collation="utf8mb4_bin", pad_space=True)
    compared = ComparisonPlan(mapping=mapping((old, new)))
    assert not compared.aligned
    assert query.aggregate(compared, "target", MIDDLE).endswith(
        " FROM `s`.`_spirit_py_checksum_new` AS `s` STRAIGHT_JOIN `s`.`_t_new` AS `r`"
        " FORCE INDEX (`PRIMARY`) ON `r`.`id` = `s`.`_spirit_py_c0` WHERE TRUE"
    )
    assert query.unmatched_target_rows(compared, 10) == (
        "SELECT HEX(`r`.`id`) FROM `s`.`_t_new` AS `r` FORCE INDEX (`PRIMARY`)"
        " LEFT JOIN `s`.`t` AS `o` FORCE INDEX (`PRIMARY`)"
        " ON `o`.`id` = CONVERT(`r`.`id` USING utf8mb4) COLLATE utf8mb4_0900_ai_ci"
        " AND CONVERT(`o`.`id` USING utf8mb4) COLLATE utf8mb4_bin = `r`.`id`"
        " WHERE `o`.`id` IS NULL LIMIT 10"
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (column("v", "float"), column("v", "double"), "CAST(`v` AS DOUBLE)"),
        (
            column("v", "decimal(5,2)", precision=5, scale=2),
            column("v", "decimal(8,4)", precision=8, scale=4),
            "CAST(`v` AS DECIMAL(8, 4))",
        ),
        (column("v", "enum('a')"), column("v", "enum('a','b')"), "CAST(`v` AS UNSIGNED)"),
        (column("v", "bit(3)"), column("v", "bit(9)"), "CAST(`v` AS UNSIGNED)"),
        (column("v", "year"), column("v", "year"), "CAST(`v` AS UNSIGNED)"),
        (column("v", "date"), column("v", "date"), "`v`"),
        (
            column("v", "time", precision=0),
            column("v", "time(3)", precision=3),
            "CONCAT(`v`, '.000')",
        ),
        (
            column("v", "datetime(2)", precision=2),
            column("v", "datetime(6)", precision=6),
            "CONCAT(`v`, '0000')",
        ),
        (
            column("v", "varchar(9)", charset="latin1"),
            column("v", "varchar(9)"),
            (
                "CONCAT(OCTET_LENGTH(CONVERT(`v` USING utf8mb4)), _binary':' COLLATE `binary`,"
                " CONVERT(`v` USING utf8mb4))"
            ),
        ),
        (column("v", "varchar(9)"), column("v", "text"), "SHA2(`v`, 256)"),
        (
            column("v", "binary(3)"),
            column("v", "varbinary(9)"),
            "CONCAT(OCTET_LENGTH(`v`), _binary':' COLLATE `binary`, `v`)",
        ),
        (column("v", "point", srid=0), column("v", "geometry", srid=0), "SHA2(`v`, 256)"),
        (column("v", "vector(2)"), column("v", "vector(4)"), "SHA2(`v`, 256)"),
        (
            column("v", "json"),
            column("v", "json"),
            (
                "CONCAT(SHA2(`v`, 256), (SELECT SHA2(JSON_ARRAYAGG(JSON_TYPE(`n`.`v`)), 256)"
                " FROM JSON_TABLE(JSON_EXTRACT(`v`, '$', '$**.*', '$**[*]'),"
                " '$[*]' COLUMNS (`v` JSON PATH '$')) AS `n`))"
            ),
        ),
    ],
)
def test_fields_of_types_that_are_alike(old, new, expected):
    """Each type is rendered exactly, in the form that the new column gives it."""
    assert alike(old, new)
    assert field(old, "`v`", new) == expected


def test_text_that_may_lose_characters_is_equal_to_nothing_then():
    """It is told by its question marks: more of them than before the conversion."""
    old = column("v", "varchar(9)", nullable=True)
    new = column("v", "varchar(9)", charset="latin1")
    rendered = field(old, "`v`", new, place="end")
    behind = "CAST(CONVERT(`v` USING latin1) AS BINARY)"
    assert rendered == (
        f"IFNULL(IF((OCTET_LENGTH({behind}) - OCTET_LENGTH(REPLACE({behind}, X'3F', X'')))"
        " <> (OCTET_LENGTH(CAST(`v` AS BINARY))"
        " - OCTET_LENGTH(REPLACE(CAST(`v` AS BINARY), X'3F', X''))),"
        " CONCAT('X', SHA2(`v`, 256)),"
        " CONCAT(_binary':' COLLATE `binary`, CONVERT(`v` USING latin1))), 'N')"
    )
    wide = unless_lost(column("v", "text", charset="utf16"), "`v`", new, "`x`")
    assert "REPLACE(CAST(CONVERT(`v` USING utf8mb4) AS BINARY), X'3F', X'')" in wide


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("latin1", "utf8mb4", True),
        ("utf8mb3", "utf8mb4", True),
        ("utf8mb3", "utf16", True),
        ("gbk", "gbk", True),
        ("utf8mb4", "utf8mb3", False),
        ("utf8mb4", "latin1", False),
        ("latin1", "ascii", False),
        ("cp1251", "utf8mb4", False),
        ("sjis", "utf8mb4", False),
    ],
)
def test_character_sets_that_lose_nothing(old, new, expected):
    """A whitelist; what is not on it costs a look at each value."""
    text = column("v", "varchar(9)", charset=old)
    assert whole(text, column("v", "varchar(9)", charset=new)) is expected
    assert alike(text, column("v", "varchar(9)", charset=new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("varchar(9)", "int"),
        ("int", "varchar(9)"),
        ("varchar(9)", "char(9)"),
        ("binary(3)", "binary(5)"),
        ("varbinary(3)", "binary(5)"),
        ("blob", "text"),
        ("text", "blob"),
        ("json", "longtext"),
        ("double", "float"),
        ("float", "float(7,2)"),
        ("timestamp", "datetime"),
        ("geometry", "point"),
        ("vector(2)", "varbinary(8)"),
    ],
)
def test_types_that_the_server_must_convert(old, new):
    """What is not known to be alike is not compared as if it were."""
    assert not alike(column("v", old), column("v", new))


def test_members_and_digits_that_move_are_converted():
    """Reordered ENUM members and fewer digits are conversions."""
    first, second = column("v", "enum('a','b')"), column("v", "enum('b','a')")
    both = (
        column("v", first.column_type, members=("a", "b")),
        column("v", second.column_type, members=("b", "a")),
    )
    assert not alike(*both)
    assert not alike(column("v", "datetime(3)", precision=3), column("v", "datetime", precision=0))
    assert not alike(column("v", "decimal(9,3)", scale=3), column("v", "decimal(9,1)", scale=1))
