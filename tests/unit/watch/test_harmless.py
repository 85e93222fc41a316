"""Which DDL leaves the rows before it described by the definition behind it."""

from __future__ import annotations

import pytest

from spirit_py.watch.definitions import leaves_rows_as_described

HARMLESS = [
    "ADD INDEX i (a)",
    "ADD INDEX (a), ADD KEY `rename` (b)",
    "ADD FULLTEXT (a), ADD SPATIAL INDEX s (g)",
    "ADD INDEX f ((a + 1)), ALGORITHM=INPLACE, LOCK=NONE",
    "ALGORITHM=INPLACE, ADD INDEX i (a)",
    "ADD CHECK (a > 0), ADD CONSTRAINT c CHECK (b > 0) NOT ENFORCED",
    "ADD CONSTRAINT CHECK (a > 0)",
    "ADD FOREIGN KEY (a) REFERENCES u (id), ADD CONSTRAINT `f` FOREIGN KEY (b) REFERENCES u (id)",
    "DROP FOREIGN KEY f, DROP CHECK c, ALTER CHECK d NOT ENFORCED, ALTER CONSTRAINT e ENFORCED",
    "ALTER a SET DEFAULT 5, ALTER COLUMN `b` DROP DEFAULT, ALTER COLUMN a SET DEFAULT (1 + 1)",
    "ALTER COLUMN a SET INVISIBLE, ALTER b SET VISIBLE",
    "ENGINE=InnoDB ROW_FORMAT DYNAMIC, COMMENT 'x, RENAME COLUMN a TO b', AUTO_INCREMENT=5",
    "COMMENT 'modify me'",
    "DEFAULT CHARACTER SET latin1 COLLATE latin1_bin, CHARSET utf8mb4",
    "FORCE",
    "",
    ";",
    "ENABLE KEYS",
    "ORDER BY a, b DESC, c",
    "PARTITION BY RANGE COLUMNS (a, b) (PARTITION p VALUES LESS THAN (1, 2))",
    "COMMENT='x' PARTITION BY HASH (a) PARTITIONS 4",
    "REMOVE PARTITIONING",
    "ADD PARTITION (PARTITION p VALUES LESS THAN (9))",
    "DROP PARTITION p, q",
    "REORGANIZE PARTITION p, q INTO (PARTITION r VALUES LESS THAN (9))",
    "EXCHANGE PARTITION p WITH TABLE u WITHOUT VALIDATION",
    "IMPORT TABLESPACE",
    "ADD /* the */ INDEX # one\n i (a) -- RENAME COLUMN a TO b",
    "/*!50000 ADD INDEX i (a) /* inner */ */",
    "/*!ADD*/ /*!080000 INDEX*/ i (a)",
    'ADD INDEX "i" ("a")',
]
KEYED = [
    "ADD UNIQUE (a)",
    "ADD CONSTRAINT u UNIQUE KEY (a)",
    "ADD CONSTRAINT UNIQUE (a)",
    "DROP INDEX i",
    "DROP KEY `i`, ADD FULLTEXT (a)",
    "DROP CONSTRAINT u",
    "RENAME INDEX i TO j",
    "ALTER INDEX i INVISIBLE",
]
CLAUSES = [
    "RENAME COLUMN a TO b, RENAME COLUMN b TO a",
    "CHANGE a b INT, CHANGE b a INT",
    "CHANGE COLUMN `index` `key` INT",
    "MODIFY e ENUM('y','x')",
    "MODIFY COLUMN a INT AFTER b",
    "ADD c INT",
    "ADD COLUMN c INT FIRST",
    "ADD `INDEX` INT",
    'ADD "KEY" INT',
    "ADD (c INT, INDEX i (c))",
    "DROP a",
    "DROP COLUMN a",
    "DROP `index`",
    "ADD PRIMARY KEY (a)",
    "ADD CONSTRAINT PRIMARY KEY (a)",
    "ADD CONSTRAINT p PRIMARY KEY (a)",
    "DROP PRIMARY KEY",
    "DROP INDEX `PRIMARY`",
    "DROP KEY `primary`",
    "DROP CONSTRAINT `PRIMARY`",
    "CONVERT TO CHARACTER SET latin2",
    "RENAME TO u",
    "RENAME AS `index`",
    "RENAME u",
    "ALTER COLUMN a SOMETHING NEW",
    "SOMETHING NEW",
    "UNION = (a, b)",
    ", ADD INDEX i (a)",
]
HIDDEN = [
    "ADD INDEX i (a) COMMENT 'x', {}",
    "ADD INDEX i (a) COMMENT 'it''s \\', ', {}",
    'ADD INDEX i (a) COMMENT "\'", {}',
    "ALTER a SET DEFAULT '--', {}",
    "DROP KEY i, {}",
    "ENGINE=InnoDB, {}",
    "ORDER BY a, {}",
    "DROP PARTITION p, {}",
    "/*!50000 ADD INDEX i (a), {} */",
    "ADD INDEX i (a) /*!50000 , */ {}",
    "ADD INDEX i (a) --\x01 '\n, {}, COMMENT ''",
    "ADD INDEX i (a) /* /*!50000 */, {}",
    "ADD INDEX i (a), {}, ADD INDEX j (b)",
    "{}, DROP INDEX i",
]


def everywhere(clauses: str) -> list[str]:
    """Put clauses behind the name of a table, spelled in many ways."""
    heads = ("t", "`t`", "`s`.`t`", "s . t", "`index`", '"t"', "`a``b`", "/*!50000 t */")
    return [f"ALTER TABLE {head} {clauses}" for head in heads] + [f"alter/**/table t\n{clauses}"]


@pytest.mark.parametrize("clauses", HARMLESS)
def test_what_is_proven_harmless(clauses: str) -> None:
    """Neither a column's name, members, bytes nor the key that is printed can be another one."""
    for sql in everywhere(clauses):
        assert leaves_rows_as_described(sql, keyed=False), sql


@pytest.mark.parametrize("clauses", KEYED)
def test_unique_keys_matter_where_no_primary_key_is(clauses: str) -> None:
    """Without a primary key the first unique key is printed as the key."""
    for sql in everywhere(clauses):
        assert leaves_rows_as_described(sql, keyed=True), sql
        assert not leaves_rows_as_described(sql, keyed=False), sql


@pytest.mark.parametrize("clauses", CLAUSES)
def test_what_is_not_proven_harmless(clauses: str) -> None:
    """Names, members, the reading of bytes or the primary key; or nobody knows."""
    for sql in everywhere(clauses):
        assert not leaves_rows_as_described(sql, keyed=True), sql


@pytest.mark.parametrize("around", HIDDEN)
def test_one_clause_that_matters_is_found_among_others(around: str) -> None:
    """First, last, behind quotes, comments and names that look like keywords."""
    for clause in ("RENAME COLUMN a TO b", "CHANGE a b INT", "DROP PRIMARY KEY", "ADD c INT"):
        for sql in everywhere(around.format(clause)):
            assert not leaves_rows_as_described(sql, keyed=True), sql


def test_quotes_that_may_be_read_in_two_ways_prove_nothing() -> None:
    """Whether a backslash escapes a double quote, and what a comment holds, must be certain."""
    sql = 'ALTER TABLE t COMMENT "x\\", RENAME COLUMN a TO b, COMMENT "y"'
    assert not leaves_rows_as_described(sql, keyed=True)
    assert leaves_rows_as_described("ALTER TABLE t COMMENT 'x\\', FORCE '", keyed=True)
    plain = "ALTER TABLE t COMMENT 'x\\', RENAME COLUMN a TO b, COMMENT 'y'"
    assert not leaves_rows_as_described(plain, keyed=True, plain_backslash=True)
    for comment in ("/*M! , */", "/*!1 ADD INDEX (a) */", "/*!5000000 FORCE */", "/* open"):
        assert not leaves_rows_as_described(f"ALTER TABLE t {comment}", keyed=True), comment


@pytest.mark.parametrize(
    ("sql", "keyed", "keyless"),
    [
        ("CREATE INDEX i ON t (a)", True, True),
        ("CREATE FULLTEXT INDEX i ON t (a)", True, True),
        ("CREATE UNIQUE INDEX i ON t (a)", True, False),
        ("DROP INDEX i ON t", True, False),
        ("DROP INDEX `PRIMARY` ON t", False, False),
        ("TRUNCATE t", True, True),
        ("truncate table `t`", True, True),
        ("CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1", True, True),
        ("CREATE DEFINER=`table`@`%` TRIGGER g AFTER DELETE ON t FOR EACH ROW BEGIN", True, True),
        ("CREATE /*!50017 DEFINER=`r`@`%`*/ /*!50003 TRIGGER g BEFORE INSERT ON t */", True, True),
        ("/*!40000 ALTER TABLE `t` DISABLE KEYS */", True, True),
        ("RENAME TABLE t TO u, v TO t", False, False),
        ("DROP TABLE t", False, False),
        ("CREATE TABLE t (a INT, INDEX (a))", False, False),
        ("CREATE TABLE `trigger` (a INT)", False, False),
        ("CREATE TABLE `index` LIKE t", False, False),
        ("DROP DATABASE s", False, False),
        ("", False, False),
    ],
)  # fmt: skip
def test_indexes_triggers_and_truncate_leave_columns_alone(
    sql: str, keyed: bool, keyless: bool
) -> None:
    """Indexes, triggers and TRUNCATE leave columns alone; the rest makes and unmakes tables."""
    assert leaves_rows_as_described(sql, keyed=True) is keyed
    assert leaves_rows_as_described(sql, keyed=False) is keyless
