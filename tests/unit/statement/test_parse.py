"""Statements and clauses: what is understood, what is refused, and with which reason."""

from __future__ import annotations

from typing import Any

import pytest

from spirit_py.errors import Refusal
from spirit_py.statement import ClauseKind as Kind
from spirit_py.statement import alter_of, changed_table, defined_table, parse_statement
from spirit_py.statement.cursor import Cursor
from spirit_py.statement.lexer import SqlMode, Token, tokenize
from spirit_py.statement.parse import _without_modifiers


def clauses(text: str):
    """Read the clauses behind ``ALTER TABLE s.t``."""
    return alter_of("s", "t", text)


@pytest.mark.parametrize(
    ("text", "kind", "name", "new_name"),
    [
        ("ADD COLUMN c INT", Kind.ADD_COLUMN, "c", ""),
        ("add c int", Kind.ADD_COLUMN, "c", ""),
        ("ADD (c INT)", Kind.ADD_COLUMN, "c", ""),
        ("ADD COLUMN `index` INT FIRST", Kind.ADD_COLUMN, "index", ""),
        ("ADD c ENUM('a,b', 'x)') DEFAULT 'a,b' AFTER b", Kind.ADD_COLUMN, "c", ""),
        ("ADD INDEX (a)", Kind.ADD_INDEX, "", ""),
        ("ADD KEY k USING HASH (a)", Kind.ADD_INDEX, "k", ""),
        ("ADD INDEX USING BTREE (a)", Kind.ADD_INDEX, "", ""),
        ("ADD FULLTEXT (a)", Kind.ADD_INDEX, "", ""),
        ("ADD FULLTEXT INDEX f (a) WITH PARSER ngram", Kind.ADD_INDEX, "f", ""),
        ("ADD SPATIAL KEY s (g)", Kind.ADD_INDEX, "s", ""),
        ("ADD UNIQUE (a, b)", Kind.ADD_UNIQUE, "", ""),
        ("ADD UNIQUE KEY u (a(10), (lower(b)))", Kind.ADD_UNIQUE, "u", ""),
        ("ADD CONSTRAINT c UNIQUE (a)", Kind.ADD_UNIQUE, "c", ""),
        ("ADD CONSTRAINT c UNIQUE KEY u (a)", Kind.ADD_UNIQUE, "u", ""),
        ("ADD PRIMARY KEY (a)", Kind.ADD_PRIMARY_KEY, "", ""),
        ("ADD CONSTRAINT PRIMARY KEY (a)", Kind.ADD_PRIMARY_KEY, "", ""),
        ("ADD CONSTRAINT p PRIMARY KEY USING BTREE (a)", Kind.ADD_PRIMARY_KEY, "", ""),
        ("ADD CHECK (a > 0)", Kind.ADD_CHECK, "", ""),
        ("ADD CONSTRAINT CHECK (a > 0)", Kind.ADD_CHECK, "", ""),
        ("ADD CONSTRAINT c CHECK (a > 0) NOT ENFORCED", Kind.ADD_CHECK, "c", ""),
        ("ADD PARTITION (PARTITION p VALUES LESS THAN (9))", Kind.ADD_PARTITION, "", ""),
        ("DROP c", Kind.DROP_COLUMN, "c", ""),
        ("DROP COLUMN `drop`", Kind.DROP_COLUMN, "drop", ""),
        ("DROP COLUMN c RESTRICT", Kind.DROP_COLUMN, "c", ""),
        ("DROP INDEX k", Kind.DROP_INDEX, "k", ""),
        ("DROP KEY k", Kind.DROP_INDEX, "k", ""),
        ("DROP PRIMARY KEY", Kind.DROP_PRIMARY_KEY, "", ""),
        ("DROP CHECK c", Kind.DROP_CHECK, "c", ""),
        ("DROP CONSTRAINT c", Kind.DROP_CONSTRAINT, "c", ""),
        ("MODIFY c BIGINT NOT NULL", Kind.MODIFY_COLUMN, "c", ""),
        ("MODIFY COLUMN c BIGINT FIRST", Kind.MODIFY_COLUMN, "c", ""),
        ("CHANGE a b INT", Kind.CHANGE_COLUMN, "a", "b"),
        ("CHANGE COLUMN `a` `b,c` INT", Kind.CHANGE_COLUMN, "a", "b,c"),
        ("ALTER c SET DEFAULT 5", Kind.ALTER_COLUMN, "c", ""),
        ("ALTER COLUMN c SET DEFAULT (UUID())", Kind.ALTER_COLUMN, "c", ""),
        ("ALTER COLUMN c SET INVISIBLE", Kind.ALTER_COLUMN, "c", ""),
        ("ALTER INDEX k INVISIBLE", Kind.ALTER_INDEX, "k", ""),
        ("ALTER CHECK c NOT ENFORCED", Kind.ALTER_CHECK, "c", ""),
        ("ALTER CONSTRAINT c ENFORCED", Kind.ALTER_CONSTRAINT, "c", ""),
        ("RENAME COLUMN a TO b", Kind.RENAME_COLUMN, "a", "b"),
        ("RENAME INDEX a TO b", Kind.RENAME_INDEX, "a", "b"),
        ("RENAME KEY a TO b", Kind.RENAME_INDEX, "a", "b"),
        ("CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", Kind.CONVERT, "", ""),
        ("CONVERT TO CHARSET latin1", Kind.CONVERT, "", ""),
        ("CONVERT TO CHAR SET latin1", Kind.CONVERT, "", ""),
        ("DEFAULT CHARACTER SET = utf8mb4", Kind.OPTION, "character set", ""),
        ("CHARSET utf8mb4", Kind.OPTION, "character set", ""),
        ("DEFAULT COLLATE utf8mb4_bin", Kind.OPTION, "collate", ""),
        ("ENGINE=InnoDB", Kind.OPTION, "engine", ""),
        ("ENGINE 'innodb'", Kind.OPTION, "engine", ""),
        ("COMMENT = 'a, b; c'", Kind.OPTION, "comment", ""),
        ("COMMENT _utf8mb4'x'", Kind.OPTION, "comment", ""),
        ("ROW_FORMAT COMPRESSED", Kind.OPTION, "row_format", ""),
        ("AUTO_INCREMENT = 100", Kind.OPTION, "auto_increment", ""),
        ("STATS_PERSISTENT=DEFAULT", Kind.OPTION, "stats_persistent", ""),
        ("DATA DIRECTORY '/x'", Kind.OPTION, "data directory", ""),
        ("TABLESPACE ts", Kind.OPTION, "tablespace", ""),
        ("PARTITION BY HASH (id) PARTITIONS 4", Kind.PARTITION_BY, "", ""),
        ("PARTITION BY LINEAR KEY ALGORITHM=2 (id)", Kind.PARTITION_BY, "", ""),
        ("REMOVE PARTITIONING", Kind.REMOVE_PARTITIONING, "", ""),
        (
            "REORGANIZE PARTITION p INTO (PARTITION q VALUES IN (1))",
            Kind.REORGANIZE_PARTITION,
            "",
            "",
        ),
        ("COALESCE PARTITION 2", Kind.COALESCE_PARTITION, "", ""),
        (
            "REORGANIZE PARTITION p, `q,r` INTO (PARTITION s VALUES IN (1), PARTITION u ENGINE x)",
            Kind.REORGANIZE_PARTITION,
            "",
            "",
        ),
        ("REORGANIZE PARTITION", Kind.REORGANIZE_PARTITION, "", ""),
        ("REBUILD PARTITION ALL", Kind.FORCE, "", ""),
        ("FORCE", Kind.FORCE, "", ""),
        ("WITHOUT VALIDATION", Kind.VALIDATION, "", ""),
    ],
)
def test_each_clause_is_known_by_its_head(text, kind, name, new_name):
    """Each clause is known by its head, and its names are read."""
    (clause,) = clauses(text).parsed
    assert (clause.kind, clause.name, clause.new_name) == (kind, name, new_name)


def test_commas_in_quotes_and_parentheses_part_no_clauses():
    """Commas inside quotes, parentheses and comments do not part clauses."""
    statement = clauses(
        "ADD a INT COMMENT 'x, y', ADD CHECK (b IN (1, 2)) /* , */, DROP c -- , d\n, ENGINE=InnoDB"
        " ROW_FORMAT=DYNAMIC, MODIFY e SET('p,q') PARTITION BY RANGE (id)"
        " (PARTITION p0 VALUES LESS THAN (1), PARTITION p1 VALUES LESS THAN MAXVALUE)"
    )
    assert [clause.kind for clause in statement.parsed] == [
        Kind.ADD_COLUMN,
        Kind.ADD_CHECK,
        Kind.DROP_COLUMN,
        Kind.OPTION,
        Kind.OPTION,
        Kind.MODIFY_COLUMN,
        Kind.PARTITION_BY,
    ]


def test_text_is_passed_on_as_written():
    """The server gets the clauses as they were typed, comments included."""
    text = "ADD  a  INT /* why */ ,\n DROP `b`"
    assert clauses(text).clauses == text
    assert clauses(text + " ; -- done").clauses == text


def test_changed_columns_are_known_by_lower_case_names():
    """Renames, additions and removals are known by lower-case names."""
    statement = clauses(
        "CHANGE Old New INT, RENAME COLUMN a TO B, ADD (C INT, INDEX (C)), DROP COLUMN D"
    )
    assert statement.renames == {"old": "New", "a": "B"}
    assert statement.added == {"c"}
    assert statement.dropped == {"d"}


@pytest.mark.parametrize(
    ("alter", "adds"),
    [
        ("MODIFY a INT UNIQUE", True),
        ("MODIFY a INT UNIQUE KEY COMMENT 'c'", True),
        ("CHANGE a a INT AS (b + 1) UNIQUE", True),
        ("MODIFY a SERIAL", True),
        ("MODIFY a BIGINT SERIAL DEFAULT VALUE FIRST", True),
        ("MODIFY a INT CHECK (a > 0)", True),
        ("CHANGE a b INT UNIQUE", False),
        ("MODIFY a INT PRIMARY KEY", False),
        ("MODIFY a INT COMMENT 'it''s unique' AFTER serial", False),
        ("MODIFY a INT CONSTRAINT `a unique b` CHECK (`a unique b` > 0) AFTER `unique`", False),
    ],
)
def test_an_index_or_check_without_a_name_is_added_a_second_time(alter, adds):
    """The server numbers its name: nothing fails, but where a column has lost its name."""
    again = "add the same again under another name" if adds else ""
    assert clauses(alter).second_time == again


def test_both_renames_of_a_swap_name_the_columns_before():
    """Both renames of a swap speak of the names before the statement."""
    statement = clauses("RENAME COLUMN a TO b, RENAME COLUMN b TO a")
    assert statement.renames == {"a": "b", "b": "a"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("RENAME TO u", "renamed"),
        ("RENAME AS u", "renamed"),
        ("RENAME u", "renamed"),
        ("RENAME = u", "renamed"),
        ("ADD c INT, ALGORITHM=INPLACE", "ALGORITHM"),
        ("ALGORITHM INSTANT, ADD c INT", "ALGORITHM"),
        ("ADD c INT, LOCK=NONE", "LOCK"),
        ("DISCARD TABLESPACE", "file"),
        ("IMPORT TABLESPACE", "file"),
        ("DISCARD PARTITION p TABLESPACE", "file"),
        ("IMPORT PARTITION p TABLESPACE", "file"),
        ("ADD c INT, DROP PARTITION p", "stands alone"),
        ("DROP PARTITION p, ADD c INT", "not understood"),
        ("DROP PARTITION p LOCK=NONE", "not understood"),
        ("EXCHANGE PARTITION p", "not understood"),
        ("EXCHANGE PARTITION p, q WITH TABLE u", "not understood"),
        ("EXCHANGE PARTITION p WITH TABLE u WITH", "not understood"),
        ("ANALYZE PARTITION p", "maintains"),
        ("CHECK PARTITION p", "maintains"),
        ("OPTIMIZE PARTITION p", "maintains"),
        ("REBUILD PARTITION p", "maintains"),
        ("REBUILD PARTITION p, q", "maintains"),
        ("REPAIR PARTITION p", "maintains"),
        ("ENABLE KEYS", "no effect"),
        ("DISABLE KEYS", "no effect"),
        ("ORDER BY a, b", "order of the primary key"),
        ("SECONDARY_LOAD", "another engine"),
        ("SECONDARY_UNLOAD", "another engine"),
        ("UNION = (a, b)", "UNION is not possible here: it is about other engines"),
        ("INSERT_METHOD=LAST", "other engines"),
        ("COMMENT 'x' CONNECTION='y'", "other engines"),
        ("PASSWORD = 'x'", "no effect"),
        ("STORAGE DISK", "other engines"),
        ("START TRANSACTION", "CREATE TABLE ... SELECT alone"),
        ("ENGINE=MyISAM", "only InnoDB"),
        ("ENGINE = 'ROCKSDB'", "only InnoDB"),
        ("ADD FOREIGN KEY (a) REFERENCES u (b)", "foreign key"),
        ("ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u (b), ADD c INT", "an ALTER of its own"),
        ("ADD c INT, ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u (b)", "an ALTER of its own"),
        ("ADD CONSTRAINT f FOREIGN KEY (a, b) REFERENCES u (x)", "another number of columns"),
        ("ADD CONSTRAINT f FOREIGN KEY (a)", "not understood"),
        ("ADD CONSTRAINT f FOREIGN KEY a REFERENCES u (b)", "not understood"),
        ("ADD CONSTRAINT FOREIGN KEY (a) REFERENCES u (b)", "foreign key"),
        ("ADD (a INT, FOREIGN KEY (a) REFERENCES u (b))", "foreign key"),
        ("ADD a INT REFERENCES u (b)", "foreign key"),
        ("MODIFY a INT REFERENCES u (b)", "foreign key"),
        ("DROP FOREIGN KEY", "missing"),
        ("DROP FOREIGN KEY f CASCADE", "not understood"),
        ("UPGRADE PARTITIONING", "not understood"),
        ("ADD CONSTRAINT c INT", "not understood"),
        ("DROP COLUMN a b", "not understood"),
        ("RENAME COLUMN a b", "not understood"),
        ("COMMENT", "not understood"),
        ("ENGINE=InnoDB NONSENSE=1", "not understood"),
        ("ADD COLUMN", "missing"),
        ("ADD COLUMN c", "definition of column c is missing"),
        ("ADD COLUMN 5 INT", "missing"),
        ("ADD COLUMN u.c INT", "qualified"),
        ("CHANGE a INT", "definition of column INT is missing"),
        ("", "empty clause"),
        ("ADD c INT,", "empty clause"),
        ("ADD c INT,, DROP d", "empty clause"),
        ("ADD c INT; DROP d", "semicolon"),
        ("ALTER TABLE t ADD c INT", "whole statement"),
        ("CREATE INDEX i ON t (a)", "whole statement"),
        ("ADD c INT /*!80000 INVISIBLE */", "execute"),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_a_reason(text, reason):
    """What cannot be honoured or understood is refused with its reason and a remedy."""
    with pytest.raises(Refusal, match=reason) as refused:
        clauses(text)
    assert refused.value.hint
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "kind", "partitions", "other"),
    [
        ("DROP PARTITION p", Kind.DROP_PARTITION, ("p",), ("", "")),
        ("drop partition p, `q r`", Kind.DROP_PARTITION, ("p", "q r"), ("", "")),
        ("TRUNCATE PARTITION p,q", Kind.TRUNCATE_PARTITION, ("p", "q"), ("", "")),
        ("TRUNCATE PARTITION ALL", Kind.TRUNCATE_PARTITION, (), ("", "")),
        ("EXCHANGE PARTITION p WITH TABLE u", Kind.EXCHANGE_PARTITION, ("p",), ("s", "u")),
        (
            "EXCHANGE PARTITION p WITH TABLE `V w`.u WITH VALIDATION",
            Kind.EXCHANGE_PARTITION,
            ("p",),
            ("V w", "u"),
        ),
        ("ADD PARTITION PARTITIONS 3", Kind.ADD_PARTITION, (), ("", "")),
        (
            "ADD PARTITION (PARTITION p VALUES IN ((1, 2)) (SUBPARTITION a), PARTITION q)",
            Kind.ADD_PARTITION,
            ("p", "q"),
            ("", ""),
        ),
    ],
)
def test_the_partitions_of_a_clause_are_known(text, kind, partitions, other):
    """The table of an EXCHANGE gets the schema of the statement: sessions have no default one."""
    statement = clauses(text)
    (clause,) = statement.parsed
    assert (clause.kind, clause.partitions, clause.other) == (kind, partitions, other)
    sent = {"s": "`s`.`u`", "V w": "`V w`.`u` WITH VALIDATION", "": ""}[other[0]]
    assert statement.clauses == (f"EXCHANGE PARTITION `p` WITH TABLE {sent}" if sent else text)


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u (b)", "REFERENCES `s`.`u` (`b`)"),
        (
            "add constraint f foreign key i (a,`B c`) references V.u (x,y) on delete cascade",
            "(`a`, `B c`) REFERENCES `V`.`u` (`x`, `y`) ON DELETE CASCADE",
        ),
    ],
)
def test_a_foreign_key_alone_is_read(text, sent):
    """It is sent with the schema of its parent, and without the name of an index."""
    statement = clauses(text)
    (clause,) = statement.parsed
    assert (clause.kind, clause.name, clause.columns[0]) == (Kind.ADD_FOREIGN_KEY, "f", "a")
    assert statement.clauses.startswith("ADD CONSTRAINT `f` FOREIGN KEY (`a`")
    assert statement.clauses.endswith(sent)


def test_algorithm_as_a_column_name():
    """A column may be called algorithm where it is quoted or behind ADD."""
    assert clauses("ADD algorithm INT, DROP `lock`").added == {"algorithm"}


def test_several_statements_are_read_each_with_its_table():
    """Several statements are read, each with its table; schemas are filled in."""
    first, second = parse_statement(
        "ALTER TABLE `a``b`.t1 ADD c INT; alter table t2 DROP d;", "shop"
    )
    assert (first.schema, first.table, first.clauses) == ("a`b", "t1", "ADD c INT")
    assert (second.schema, second.table, second.clauses) == ("shop", "t2", "DROP d")
    assert first.sql == "ALTER TABLE `a``b`.`t1` ADD c INT"


@pytest.mark.parametrize(
    ("sql", "rewritten"),
    [
        ("CREATE INDEX i ON t (a)", "ADD INDEX `i` (a)"),
        ("CREATE UNIQUE INDEX i ON x.t (a, b(3) DESC)", "ADD UNIQUE INDEX `i` (a, b(3) DESC)"),
        (
            "CREATE FULLTEXT INDEX `a``i` ON t (a) WITH PARSER ngram",
            "ADD FULLTEXT INDEX `a``i` (a) WITH PARSER ngram",
        ),
        ("CREATE SPATIAL INDEX i ON t (g) COMMENT 'x'", "ADD SPATIAL INDEX `i` (g) COMMENT 'x'"),
        (
            "CREATE INDEX i USING HASH ON t ((a + 1)) INVISIBLE",
            "ADD INDEX `i` USING HASH ((a + 1)) INVISIBLE",
        ),
    ],
)
def test_create_index_becomes_add_index(sql, rewritten):
    """CREATE INDEX becomes the ADD INDEX that means the same."""
    (statement,) = parse_statement(sql, "s")
    assert statement.clauses == rewritten
    assert statement.table == "t"


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("", "empty"),
        (" ; -- nothing", "empty"),
        ("DROP TABLE t", "neither"),
        ("CREATE TABLE t (a INT)", "neither"),
        ("DROP INDEX i ON t ALGORITHM=INPLACE", "chooses the algorithm"),
        ("DROP INDEX i ON t LOCK NONE", "chooses how to lock"),
        ("DROP INDEX i", "not understood"),
        ("ALTER IGNORE TABLE t ADD c INT", "neither"),
        ("ALTER TABLE t", "empty clause"),
        ("ALTER TABLE", "table's name is missing"),
        ("CREATE INDEX i ON t (a) ALGORITHM=INPLACE", "ALGORITHM"),
        ("CREATE INDEX i ON t (a) LOCK NONE", "LOCK"),
        ("CREATE INDEX i t (a)", "not understood"),
        ("OPTIMIZE TABLE t", "neither"),
    ],
)
def test_other_statements_are_refused(sql, reason):
    """Anything but ALTER TABLE, CREATE INDEX and DROP INDEX is refused."""
    with pytest.raises(Refusal, match=reason):
        parse_statement(sql, "s")


def test_a_table_without_a_schema_is_refused():
    """A table without a schema, where none is given otherwise, is refused."""
    with pytest.raises(Refusal, match="without a schema"):
        parse_statement("ALTER TABLE t ADD c INT", "")


def test_the_sql_mode_of_the_server_decides_the_clauses():
    """The same text means other clauses under another sql_mode."""
    text = r"ADD c VARCHAR(9) DEFAULT 'x\', DROP d"
    with pytest.raises(Refusal, match="quote"):
        clauses(text)
    statement = alter_of("s", "t", text, sql_mode="NO_BACKSLASH_ESCAPES")
    assert statement.dropped == {"d"}
    assert alter_of("s", "t", 'DROP "d"', sql_mode="ANSI_QUOTES").dropped == {"d"}


@pytest.mark.parametrize(
    "text",
    [
        "add column `C`   int default 5, modify `D` bigint",
        "ADD C INT DEFAULT 5 , MODIFY COLUMN d BIGINT",
        "ADD COLUMN (C Int Default 5), Modify D BigInt /* wide */",
    ],
)
def test_statements_of_one_meaning_have_one_normal_form(text):
    """Blanks, case of keywords, backquotes and comments do not change the normal form."""
    wanted = clauses("ADD COLUMN C INT DEFAULT 5, MODIFY COLUMN D BIGINT")
    assert clauses(text).normalized == wanted.normalized


KEY = "ADD CONSTRAINT f FOREIGN KEY"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ADD c INT", "ADD C INT"),
        ("ADD c INT", "ADD c BIGINT"),
        ("ADD c INT COMMENT 'a'", "ADD c INT COMMENT 'A'"),
        ("ADD c INT, DROP d", "DROP d, ADD c INT"),
        ("RENAME COLUMN a TO b", "RENAME COLUMN a TO B"),
        ("COMMENT 'a'", "COMMENT ' a'"),
        (r"ADD CHECK (n LIKE '10\%')", "ADD CHECK (n LIKE '10%')"),
        (r"ADD CHECK (n LIKE 'a\_')", "ADD CHECK (n LIKE 'a_')"),
        ("ADD UNIQUE (a)", "ADD INDEX (a)"),
        ("ADD INDEX (a)", "ADD FULLTEXT INDEX (a)"),
        ("WITH VALIDATION", "WITHOUT VALIDATION"),
        ("ROW_FORMAT=DYNAMIC", "ROW_FORMAT=COMPACT"),
        ("ADD INDEX i (`a , b`)", "ADD INDEX i (a, b)"),
        ("ADD c INT AS (`a - b`)", "ADD c INT AS (a - b)"),
        ("ADD c DATE DEFAULT (`current_date`)", "ADD c DATE DEFAULT (current_date)"),
        ("ADD c INT AS (`1e3`)", "ADD c INT AS (1e3)"),
        ("ADD c INT AS (`a``b`)", "ADD c INT AS (`a` `b`)"),
        ("ADD c INT AS (`now`())", "ADD c INT AS (now())"),
        (f"{KEY} (a) REFERENCES p (id)", f"{KEY} (b) REFERENCES p (id)"),
        (f"{KEY} (a) REFERENCES p (id)", f"{KEY} (a) REFERENCES p (k)"),
        (f"{KEY} (a) REFERENCES p (id)", f"{KEY} (a) REFERENCES x.p (id)"),
        (f"{KEY} (a) REFERENCES p (id)", f"{KEY} (a) REFERENCES q (id)"),
    ],
)
def test_statements_of_other_meaning_have_other_normal_forms(one, other):
    """Statements that leave other tables behind have other normal forms."""
    assert clauses(one).normalized != clauses(other).normalized


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ADD INDEX i (`B`(10), `c` DESC)", "add index `i`(b(10),C desc)"),
        ("ADD c INT AS (`A` + `b_1`)", "ADD c INT AS (a+B_1)"),
        ("MODIFY a BIGINT AFTER `Key`", "modify `A` bigint after `key`"),
        ("ADD INDEX i (`a , B`)", "ADD INDEX i (`A , b`)"),
    ],
)
def test_quotes_around_plain_names_do_not_matter(one, other):
    """Nor does the case of names that the statement only mentions."""
    assert clauses(one).normalized == clauses(other).normalized


def test_normal_form_names_the_table():
    """The same clauses on another table are another statement."""
    assert alter_of("s", "t", "FORCE").normalized != alter_of("s", "u", "FORCE").normalized


def test_drop_index_is_rewritten():
    """DROP INDEX becomes the clause that means the same."""
    (statement,) = parse_statement("DROP INDEX `an ``i` ON `x.y`.t", "s")
    assert (statement.schema, statement.table) == ("x.y", "t")
    assert statement.clauses == "DROP INDEX `an ``i`"


@pytest.mark.parametrize(
    ("sql", "table"),
    [
        ("ALTER TABLE t ADD c INT", ("s", "t")),
        ("alter table `o``d`.`t.t` ADD FOREIGN KEY (a) REFERENCES b (a)", ("o`d", "t.t")),
        ("ALTER TABLE t RENAME COLUMN a TO b", ("s", "t")),
        ("ALTER TABLE t RENAME INDEX a TO b", ("s", "t")),
        ("ALTER TABLE t RENAME TO u", None),
        ("ALTER TABLE t RENAME u", None),
        ("CREATE UNIQUE INDEX i USING BTREE ON x.t (a)", ("x", "t")),
        ("DROP INDEX i ON t", ("s", "t")),
        ("CREATE TABLE t (a INT)", None),
        ("DROP TABLE t", None),
        ("UPDATE t SET a = 1", None),
        ("SELECT 'unfinished", None),
        ("", None),
        ("CREATE /*!50017 DEFINER=`a`@`b` */ TRIGGER t", None),
        # What is behind the name is for the one who reads it to refuse, and the change is no other.
        ("ALTER TABLE t MODIFY id BIGINT /*!80023 INVISIBLE */", ("s", "t")),
        ("ALTER TABLE t /*+ x */ MODIFY id BIGINT", ("s", "t")),
        ("ALTER /*+ x */ TABLE t MODIFY id BIGINT", ("s", "t")),
        ("/*!50000 ALTER TABLE t MODIFY id BIGINT */", ("s", "t")),
        ("ALTER TABLE t ADD COLUMN $x INT", ("s", "t")),
        ("ALTER TABLE t COMMENT 'unfinished", ("s", "t")),
        ("CREATE INDEX i ON t (a) /*!80000 INVISIBLE */", ("s", "t")),
        ("ALTER TABLE t RENAME TO u, MODIFY id BIGINT", ("s", "t")),
        ("ALTER TABLE t RENAME TO u /*!50000 , FORCE */", ("s", "t")),
        ("ALTER TABLE t RENAME u 'unfinished", ("s", "t")),
        ("ALTER TABLE t RENAME AS x.u;", None),
        ("ALTER TABLE t RENAME = u", None),
    ],
)
def test_the_table_of_a_change_is_found_without_reading_its_clauses(sql, table):
    """The table of a change is found whatever its clauses are; other statements have none."""
    assert changed_table(sql, "s") == table


@pytest.mark.parametrize("sql", ["ALTER TABLE", "CREATE INDEX", "ALTER TABLE 'u", "DROP INDEX i"])
def test_a_change_without_a_table_is_refused_and_is_no_other_statement(sql):
    """It is not sent as it is where it was to go online; what defines a table is another matter."""
    with pytest.raises(Refusal):
        changed_table(sql, "s")
    assert defined_table(sql, "s") is None


@pytest.mark.parametrize(
    ("sql", "table"),
    [
        ("CREATE TABLE t (a INT)", ("s", "t")),
        ("create table `o`.`t` (a INT)", ("o", "t")),
        ("DROP TABLE t", ("s", "t")),
        ("RENAME TABLE t TO u", ("s", "t")),
        ("ALTER TABLE t RENAME TO u", ("s", "t")),
        ("ALTER TABLE t ADD a INT", ("s", "t")),
        ("CREATE UNIQUE INDEX i ON t (a)", ("s", "t")),
        ("DROP INDEX i ON t", ("s", "t")),
        ("CREATE TABLE IF NOT EXISTS t (a INT)", None),
        ("DROP TABLE IF EXISTS t", None),
        ("CREATE TEMPORARY TABLE t (a INT)", None),
        ("UPDATE t SET a = 1", None),
        ("CREATE VIEW v AS SELECT 1", None),
        ("CREATE TABLE /*!32312 IF NOT EXISTS*/ t (a INT)", None),
        ("nonsense '", None),
    ],
)
def test_the_table_whose_definition_a_statement_makes_or_changes(sql, table):
    """Of one table; none where the statement may be sent twice, or is no DDL."""
    assert defined_table(sql, "s") == table


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("engine=innodb", "ENGINE innodb"),
        ("default charset = latin1", "CHARACTER SET latin1"),
        ("rename column a to B, rename key i to j", None),
        ("rename column a to B", "RENAME COLUMN `a` TO `B`"),
        ("add constraint c check (a >= 0 and b->>'$.x' <> 'y')", None),
        ("add constraint c check(a>=0)", "ADD CONSTRAINT `c` CHECK (a >= 0)"),
        ("add fulltext f (a) with parser ngram", "ADD FULLTEXT INDEX `f` (a) with parser ngram"),
        ("add spatial index (g)", "ADD SPATIAL INDEX (g)"),
        ("add a decimal(10, 2) default -1.5, without validation", None),
        (
            "add c varchar(9) as (substring(a, 1,2))",
            "ADD COLUMN `c` varchar(9) as(substring(a, 1, 2))",
        ),
        ("add key (a(5), (b+1) desc)", "ADD INDEX (a(5), (b + 1) desc)"),
        (
            "alter a set default b'01', alter c set default 1.5E-3",
            "ALTER COLUMN `a` set default b'01', ALTER COLUMN `c` set default 1.5e-3",
        ),
        (
            r"add constraint f check (n like '10\%\_')",
            r"ADD CONSTRAINT `f` CHECK (n like '10\\%\\_')",
        ),
        ("alter d set default _utf8mb4'x'", "ALTER COLUMN `d` set default _utf8mb4'x'"),
        ("partition by hash(id) partitions 4", "PARTITION BY hash(id) partitions 4"),
        (
            "add constraint F foreign key i (A, b) references p(c,`D`) on delete set null",
            (
                "ADD CONSTRAINT `F` FOREIGN KEY (`a`, `b`) REFERENCES `s`.`p` (`c`, `d`)"
                " ON DELETE SET NULL"
            ),
        ),
    ],
)
def test_the_normal_form_is_sql_that_means_the_same(written, shown):
    """It is shown, logged and pasted: the server and this program read it as the statement."""
    (statement,) = parse_statement(f"ALTER TABLE t {written}", "s")
    (again,) = parse_statement(statement.normalized, "other")
    assert again.normalized == statement.normalized
    assert [one.kind for one in again.parsed] == [one.kind for one in statement.parsed]
    if shown is not None:
        assert statement.normalized == f"ALTER TABLE `s`.`t` {shown}"


@pytest.mark.parametrize(
    ("clauses", "does"),
    [
        ("RENAME COLUMN a TO b, RENAME COLUMN B TO A", "exchange the names again"),
        ("CHANGE a b INT, CHANGE b c INT, CHANGE c a INT", "exchange the names again"),
        ("DROP COLUMN a, ADD COLUMN A INT", "drop the new values"),
        ("DROP a, CHANGE b a INT, ADD b INT", "drop the new values"),
        ("RENAME INDEX a TO b, RENAME KEY B TO A", "names of the indexes"),
        ("DROP INDEX a, RENAME INDEX b TO a, ADD INDEX b (x)", "names of the indexes"),
        ("ADD INDEX (a)", "add the same again"),
        ("ADD INDEX k (a), ADD UNIQUE (a)", "add the same again"),
        ("ADD CHECK (a > 1)", "add the same again"),
        ("MODIFY a INT NOT NULL CHECK (a > 1) NOT ENFORCED", "add the same again"),
        ("CHANGE a a INT CONSTRAINT k CHECK (a > 1) CONSTRAINT CHECK (a > 2)", "the same again"),
        ("TRUNCATE PARTITION p", "delete the rows"),
        ("ADD PARTITION PARTITIONS 2", "number of partitions"),
        ("COALESCE PARTITION 1", "number of partitions"),
        ("RENAME COLUMN a TO b, RENAME COLUMN b TO c", ""),
        ("DROP a, RENAME COLUMN b TO a", ""),
        ("CHANGE a a INT, ADD b INT", ""),
        ("CHANGE a A INT", ""),
        ("CHANGE a b INT CHECK (b > 1)", ""),
        ("MODIFY a INT CONSTRAINT `k (x` CHECK (a > 1)", ""),
        ("ADD a INT", ""),
        ("ADD a INT, ADD INDEX (a)", ""),
        ("DROP a", ""),
        ("RENAME INDEX a TO b", ""),
        ("DROP INDEX a, ADD INDEX a (x)", ""),
        ("ADD INDEX a (x)", ""),
        ("ADD PARTITION (PARTITION p VALUES LESS THAN (3))", ""),
        ("DROP PARTITION p", ""),
    ],
)
def test_what_can_be_made_twice_is_known(clauses, does):
    """The second time it moves, adds or drops more than it was to; others fail, or do nothing."""
    found = alter_of("s", "t", clauses).second_time
    assert does in found if does else found == ""


class _Counted(tuple[Token, ...]):
    """Tokens that count how many of them are read."""

    __slots__ = ()

    read = 0

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        type(self).read += len(found) if isinstance(key, slice) else 1
        return found


def test_an_index_of_many_options_is_read_in_linear_time():
    """Whoever may write a record of the checkpoint has its text read again for status."""
    steps = []
    for count in (200, 400):
        sql = "(a)" + " KEY_BLOCK_SIZE 1" * count
        _Counted.read = 0
        assert _without_modifiers(Cursor(sql, _Counted(tokenize(sql, SqlMode())))) == sql
        steps.append(_Counted.read)
    assert steps[1] <= 2.5 * steps[0]
