"""What the program relies on of a server, as short scripts of a few sessions.

``test_conformance.py`` plays each script against a real MySQL and against the model server. Every
script begins with the table ``s.t`` (``id``, ``v``, ``w``: rows 1, 3 and 5, zeros beside the key),
an empty ``s._t_new`` (``id``, ``v``, ``w``, ``n``), and sessions as the program opens them. A line:

=====================  ============================================================================
``a: SQL => answer``   session ``a`` executes it; ``{b}`` is the number of session ``b``
``a: SQL <- x, y``     with these parameters
``a> SQL => waits``    it has no answer; ``waits`` says for what: ``table``, ``row``, ``name``,
                       ``commit`` or ``transactions``
``a< => answer``       the answer of what it waited for
``! name => answer``   the server or its binlog: see ``Stage`` in ``test_conformance.py``
=====================  ============================================================================

An answer is rows, ``nothing``, a number of affected rows, ``error 1205``, ``lost`` for a session
that is gone (2006 or 2013, which the program takes alike), or left out where the statement only has
to succeed. ``+2`` is the second transaction since the script began. A line that begins with ``...``
goes on with the one before.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINE: Final = re.compile(r"(?:(\w+)(:|>|<)|(!))\s*(.*?)\s*(?:<- (.*?)\s*)?(?:=> (.*))?")


@dataclass(frozen=True)
class Step:
    """One line of a script.

    Attributes:
        who: the session; empty for the server.
        how: ``:`` executes, ``>`` begins, ``<`` ends, ``!`` is about the server.
        answer: None where any success will do.
    """

    who: str
    how: str
    what: str
    given: tuple[str, ...]
    answer: str | None


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One thing that is so on a server.

    Attributes:
        says: it, in one sentence.
        script: shows it.
        own: the script needs a server that no other test uses: it crashes, stalls or is reset.
        differs: what the model does otherwise.
        before: what the manual says of 8.0 and 8.4 where they differ, and where it says so.
        marker: of pytest, for what older servers do not have.
    """

    says: str
    script: str
    own: bool = False
    differs: str = ""
    before: str = ""
    marker: str = ""

    @property
    def name(self) -> str:
        """Its name in the list of tests."""
        return re.sub(r"\W+", "-", self.says.lower()).strip("-")

    def steps(self) -> Iterator[Step]:
        """Read the script."""
        script = re.sub(r"\n\s*\.\.\.", "", self.script)
        for line in filter(None, map(str.strip, script.splitlines())):
            found = _LINE.fullmatch(line)
            assert found, f"not a step: {line}"
            given = tuple(re.split(r",\s*", found[5])) if found[5] else ()
            yield Step(found[1] or "", found[2] or found[3], found[4], given, found[6])


_READING: Final = (
    Fact(
        says="READ COMMITTED reads what is committed when each statement begins",
        script="""
            a: BEGIN
            a: SELECT COUNT(*) FROM `s`.`t` => (3)
            b: INSERT INTO `s`.`t` (`id`, `v`) VALUES (6, 1) => 1
            a: SELECT COUNT(*) FROM `s`.`t` => (4)
            a: COMMIT
        """,
    ),
    Fact(
        says="a transaction sees its own changes, others do not before its commit",
        script="""
            a: BEGIN
            a: UPDATE `s`.`t` SET `v` = 7 WHERE `id` = 1 => 1
            a: SELECT `v` FROM `s`.`t` WHERE `id` = 1 => (7)
            b: SELECT `v` FROM `s`.`t` WHERE `id` = 1 => (0)
            a: COMMIT
            b: SELECT `v` FROM `s`.`t` WHERE `id` = 1 => (7)
        """,
    ),
    Fact(
        says="a consistent snapshot reads what was committed when it began",
        script="""
            a: SET SESSION transaction_isolation = 'REPEATABLE-READ'
            a: START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY
            b: DELETE FROM `s`.`t` WHERE (`id`) IN ((1), (3)) => 2
            a: SELECT `id` FROM `s`.`t` => (1) (3) (5)
            a: COMMIT
            a: SELECT `id` FROM `s`.`t` => (5)
        """,
    ),
    Fact(
        says="at READ COMMITTED there is no consistent snapshot; at REPEATABLE READ a transaction "
        "reads what was committed at its first read",
        script="""
            a: START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY
            b: SET SESSION transaction_isolation = 'REPEATABLE-READ'
            b: BEGIN
            c: DELETE FROM `s`.`t` WHERE (`id`) IN ((1)) => 1
            a: SELECT `id` FROM `s`.`t` => (3) (5)
            b: SELECT `id` FROM `s`.`t` => (3) (5)
            c: DELETE FROM `s`.`t` WHERE (`id`) IN ((3)) => 1
            a: SELECT `id` FROM `s`.`t` => (5)
            b: SELECT `id` FROM `s`.`t` => (3) (5)
            b: COMMIT
            b: SELECT `id` FROM `s`.`t` => (5)
        """,
    ),
    Fact(
        says="a snapshot goes by the table itself, not by its name: after a swap it has the "
        "old rows of the new table",
        script="""
            a: SET SESSION transaction_isolation = 'REPEATABLE-READ'
            a: START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY
            b: REPLACE INTO `s`.`_t_new` (`id`, `v`) VALUES (1, 1) => 1
            b: RENAME TABLE `s`.`t` TO `s`.`_t_old`, `s`.`_t_new` TO `s`.`t`
            a: SELECT `id` FROM `s`.`t` => nothing
            a: SELECT `id` FROM `s`.`_t_old` => (1) (3) (5)
        """,
    ),
    Fact(
        says="after an instant ALTER an older snapshot cannot read the table: 1412",
        before="`DROP COLUMN` is instant since 8.0.29, 64 row versions instead of 255 before 9.1"
        " (manual, Online DDL Operations)",
        script="""
            a: SET SESSION transaction_isolation = 'REPEATABLE-READ'
            a: START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY
            b: ALTER TABLE `s`.`_t_new` ADD COLUMN `_spirit_py_guard` TINYINT, ALGORITHM=INSTANT
            b: ALTER TABLE `s`.`_t_new` DROP COLUMN `_spirit_py_guard`, ALGORITHM=INSTANT
            a: SELECT `id` FROM `s`.`_t_new` => error 1412
            a: SELECT `id` FROM `s`.`t` => (1) (3) (5)
            a: COMMIT
            a: SELECT `id` FROM `s`.`_t_new` => nothing
        """,
    ),
    Fact(
        says="under LOCK TABLES ... READ a snapshot has just what gtid_executed then says",
        script="""
            a: INSERT INTO `s`.`t` (`id`) VALUES (6) => 1
            b: SET SESSION transaction_isolation = 'REPEATABLE-READ'
            a: LOCK TABLES `s`.`t` READ, `s`.`_t_new` READ
            b: START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY
            c> INSERT INTO `s`.`t` (`id`) VALUES (7) => waits for table
            ! executed => +1
            a: UNLOCK TABLES
            c< => 1
            b: SELECT COUNT(*) FROM `s`.`t` => (4)
            b: COMMIT
        """,
    ),
)

_WRITING: Final = (
    Fact(
        says="without BEGIN each statement commits; within a transaction all of them have one GTID",
        script="""
            a: INSERT INTO `s`.`t` (`id`) VALUES (6) => 1
            a: INSERT INTO `s`.`t` (`id`) VALUES (7) => 1
            a: BEGIN
            a: UPDATE `s`.`t` SET `v` = 1 WHERE `id` = 6 => 1
            a: DELETE FROM `s`.`t` WHERE `id` = 7 => 1
            ! executed => +1 +2
            a: COMMIT
            ! executed => +1 +2 +3
            ! log => GTID +1; a in none: BEGIN; TABLE s.t; WRITE (6, NULL, NULL); COMMIT;
            ... GTID +2; a in none: BEGIN; TABLE s.t; WRITE (7, NULL, NULL); COMMIT; GTID +3; a
            ... in none: BEGIN; TABLE s.t; UPDATE (6, NULL, NULL) to (6, 1, NULL); TABLE s.t;
            ... DELETE (7, NULL, NULL); COMMIT
        """,
    ),
    Fact(
        says="what is rolled back, and what changes nothing, has no GTID and no event",
        script="""
            a: BEGIN
            a: INSERT INTO `s`.`t` (`id`) VALUES (6) => 1
            a: ROLLBACK
            a: UPDATE `s`.`t` SET `v` = 0 WHERE `id` = 1 => 0
            a: DELETE FROM `s`.`t` WHERE (`id`) IN ((2)) => 0
            a: BEGIN
            a: COMMIT
            ! executed => nothing
            ! log => nothing
        """,
    ),
    Fact(
        says="REPLACE of a row that is there is an update in the binlog, of an equal one nothing",
        script="""
            a: REPLACE INTO `s`.`t` (`id`, `v`, `w`) VALUES (1, 0, 0)
            a: REPLACE INTO `s`.`t` (`id`, `v`, `w`) VALUES (1, 2, NULL), (2, 2, 2)
            ! log => GTID +1; a in none: BEGIN; TABLE s.t; UPDATE (1, 0, 0) to (1, 2, NULL);
            ... WRITE (2, 2, 2); COMMIT
        """,
    ),
    Fact(
        says="REPLACE ... SELECT copies a range; its summary has the number of rows",
        script="""
            a: REPLACE INTO `s`.`_t_new` (`id`, `v`, `w`) SELECT `id`, `v`, `w` FROM `s`.`t`
            ... FORCE INDEX (`PRIMARY`) WHERE `id` <= 3
            ! info a => Records: 2  Duplicates: 0  Warnings: 0
            a: SELECT `id`, `n` FROM `s`.`_t_new` => (1, NULL) (3, NULL)
            ! log => GTID +1; a in none: BEGIN; TABLE s._t_new; WRITE (1, 0, 0, NULL) (3, 0,
            ... 0, NULL); COMMIT
        """,
    ),
    Fact(
        says="INSERT of a key that is there is error 1062 and changes nothing; with IGNORE "
        "it is a warning",
        script="""
            a: INSERT INTO `s`.`t` (`id`) VALUES (2), (3) => error 1062
            a: SELECT COUNT(*) FROM `s`.`t` => (3)
            a: INSERT IGNORE INTO `s`.`t` (`id`) VALUES (2), (3) => 1
            a: SELECT COUNT(*) FROM `s`.`t` => (4)
        """,
    ),
    Fact(
        says="an UPDATE of a row's key is one update in the binlog; a key that is there is 1062",
        script="""
            a: UPDATE `s`.`t` SET `id` = 7 WHERE `id` = 5 => 1
            a: UPDATE `s`.`t` SET `id` = 3 WHERE `id` = 1 => error 1062
            a: SELECT `id` FROM `s`.`t` => (1) (3) (7)
            ! log => GTID +1; a in none: BEGIN; TABLE s.t; UPDATE (5, 0, 0) to (7, 0, 0); COMMIT
        """,
    ),
)

_KEPT: Final = (
    Fact(
        says="an expression over NULL is NULL, which is not true and not false",
        script="""
            a: UPDATE `s`.`t` SET `v` = 100 WHERE `id` = 3
            a: REPLACE INTO `s`.`t` (`id`, `v`) VALUES (5, NULL), (6, 101), (8, 7)
            a: SELECT `id` FROM `s`.`t` WHERE ((((`v` % 2) = 0)) IS TRUE) => (1) (3)
            a: SELECT `id` FROM `s`.`t` WHERE ((((`v` % 2) = 0)) IS NOT FALSE) => (1) (3) (5)
            a: SELECT `id` FROM `s`.`t` WHERE (((`v` >= 100)) IS TRUE) => (3) (6)
            a: SELECT `id` FROM `s`.`t` WHERE (((`v` < 100)) IS TRUE) => (1) (8)
            a: SELECT `id` FROM `s`.`t` WHERE (((`v` is null)) IS TRUE) => (5)
            a: SELECT `id` FROM `s`.`t` WHERE (((`id` > 4)) IS TRUE) => (5) (6) (8)
            a: SELECT `id` FROM `s`.`t` WHERE (((((`id` + `v`) % 2) = 0)) IS TRUE) => nothing
            a: UPDATE `s`.`t` SET `v` = 2 WHERE `id` = 8
            a: SELECT `id` FROM `s`.`t` WHERE (((((`id` + `v`) % 2) = 0)) IS TRUE) => (8)
        """,
    ),
    Fact(
        says="a row that is not kept is read and not copied",
        script="""
            a: UPDATE `s`.`t` SET `v` = 2 WHERE `id` = 3
            a: SELECT 1 FROM `s`.`t` LIMIT 0 => nothing
            a: SELECT 1 FROM `s`.`_t_new` LIMIT 0 => nothing
            a: FLUSH STATUS
            a: REPLACE INTO `s`.`_t_new` (`id`, `v`) SELECT `id`, `v` FROM `s`.`t` FORCE INDEX
            ... (`PRIMARY`) WHERE (`id` >= 1) AND (((`v` >= 2)) IS TRUE)
            ! info a => Records: 1  Duplicates: 0  Warnings: 0
            a: SHOW SESSION STATUS LIKE 'Handler_read_next' => (Handler_read_next, 3)
            a: SELECT `id`, `v` FROM `s`.`_t_new` => (3, 2)
        """,
    ),
    Fact(
        says="of staged changes the latest of each key is written, if it is kept",
        script="""
            a: INSERT INTO `s`.`_t_new` (`id`, `v`, `w`) VALUES (1, 4, 0), (3, 4, 0), (9, 4, 0)
            a: CREATE TEMPORARY TABLE `s`.`_spirit_py_stage_rows` (`_spirit_py_number` BIGINT
            ... UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
            ... SELECT `id`, `v`, `w` FROM `s`.`t` LIMIT 0
            a: CREATE TEMPORARY TABLE `s`.`_spirit_py_stage_keys` (`_spirit_py_number` BIGINT
            ... UNSIGNED NOT NULL DEFAULT 0, PRIMARY KEY (`id`)) ENGINE=InnoDB
            ... ROW_FORMAT=DYNAMIC SELECT `id` FROM `s`.`t` LIMIT 0
            a: INSERT INTO `s`.`_spirit_py_stage_keys` (`_spirit_py_number`, `id`) VALUES
            ... (1, 1), (2, 3), (3, 5), (4, 5) ON DUPLICATE KEY UPDATE `_spirit_py_number` =
            ... VALUES(`_spirit_py_number`)
            a: INSERT INTO `s`.`_spirit_py_stage_rows` (`_spirit_py_number`, `id`, `v`, `w`) VALUES
            ... (1, 1, 1, 0), (2, 3, NULL, 0), (3, 5, 1, 0), (4, 5, 6, 0)
            a: CREATE TEMPORARY TABLE `s`.`_spirit_py_stage_new_keys` (`_spirit_py_number` BIGINT
            ... UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB
            ... ROW_FORMAT=DYNAMIC SELECT `id` FROM `s`.`_t_new` LIMIT 0
            a: INSERT INTO `s`.`_spirit_py_stage_new_keys` (`_spirit_py_number`, `id`) SELECT
            ... `_spirit_py_number`, `id` FROM `s`.`_spirit_py_stage_keys`
            a: SET SESSION autocommit = 0
            a: DELETE `s`.`_t_new` FROM `s`.`_spirit_py_stage_new_keys` STRAIGHT_JOIN `s`.`_t_new`
            ... ON `s`.`_t_new`.`id` = `s`.`_spirit_py_stage_new_keys`.`id` => 2
            a: INSERT INTO `s`.`_t_new` (`id`, `v`, `w`) SELECT `s`.`_spirit_py_stage_rows`.`id`,
            ... `s`.`_spirit_py_stage_rows`.`v`, `s`.`_spirit_py_stage_rows`.`w` FROM
            ... `s`.`_spirit_py_stage_keys` STRAIGHT_JOIN `s`.`_spirit_py_stage_rows` ON
            ... `s`.`_spirit_py_stage_rows`.`_spirit_py_number` =
            ... `s`.`_spirit_py_stage_keys`.`_spirit_py_number` AND
            ... ((((`s`.`_spirit_py_stage_rows`.`v` % 2) = 0)) IS TRUE) => 1
            a: SET SESSION autocommit = 1
            b: SELECT `id`, `v` FROM `s`.`_t_new` => (5, 6) (9, 4)
            a: INSERT INTO `s`.`_t_new` (`id`, `v`, `w`) SELECT `s`.`_spirit_py_stage_rows`.`id`,
            ... `s`.`_spirit_py_stage_rows`.`v`, `s`.`_spirit_py_stage_rows`.`w` FROM
            ... `s`.`_spirit_py_stage_keys` STRAIGHT_JOIN `s`.`_spirit_py_stage_rows` ON
            ... `s`.`_spirit_py_stage_rows`.`_spirit_py_number` =
            ... `s`.`_spirit_py_stage_keys`.`_spirit_py_number` AND
            ... ((((`s`.`_spirit_py_stage_rows`.`v` % 2) = 0)) IS TRUE) => error 1062
        """,
    ),
    Fact(
        says="a staged row whose unique value is there is error 1062, and with IGNORE it is left "
        "out with a warning; REPLACE removes the row that has it",
        script="""
            a: ALTER TABLE `s`.`_t_new` ADD COLUMN m INT, ADD UNIQUE KEY v (v)
            a: INSERT INTO `s`.`_t_new` (`id`, `v`, `w`) VALUES (1, 4, 0) => 1
            a: CREATE TEMPORARY TABLE `s`.`_spirit_py_stage_rows` (`_spirit_py_number` BIGINT
            ... UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
            ... SELECT `id`, `v`, `w` FROM `s`.`t` LIMIT 0
            a: CREATE TEMPORARY TABLE `s`.`_spirit_py_stage_keys` (`_spirit_py_number` BIGINT
            ... UNSIGNED NOT NULL DEFAULT 0, PRIMARY KEY (`id`)) ENGINE=InnoDB
            ... ROW_FORMAT=DYNAMIC SELECT `id` FROM `s`.`t` LIMIT 0
            a: INSERT INTO `s`.`_spirit_py_stage_keys` (`_spirit_py_number`, `id`) VALUES
            ... (1, 2), (2, 3) ON DUPLICATE KEY UPDATE `_spirit_py_number` =
            ... VALUES(`_spirit_py_number`)
            a: INSERT INTO `s`.`_spirit_py_stage_rows` (`_spirit_py_number`, `id`, `v`, `w`) VALUES
            ... (1, 2, 4, 0), (2, 3, 5, 0)
            a: INSERT INTO `s`.`_t_new` (`id`, `v`, `w`) SELECT `s`.`_spirit_py_stage_rows`.`id`,
            ... `s`.`_spirit_py_stage_rows`.`v`, `s`.`_spirit_py_stage_rows`.`w` FROM
            ... `s`.`_spirit_py_stage_keys` STRAIGHT_JOIN `s`.`_spirit_py_stage_rows` ON
            ... `s`.`_spirit_py_stage_rows`.`_spirit_py_number` =
            ... `s`.`_spirit_py_stage_keys`.`_spirit_py_number` => error 1062
            b: SELECT `id`, `v` FROM `s`.`_t_new` => (1, 4)
            a: INSERT IGNORE INTO `s`.`_t_new` (`id`, `v`, `w`) SELECT
            ... `s`.`_spirit_py_stage_rows`.`id`,
            ... `s`.`_spirit_py_stage_rows`.`v`, `s`.`_spirit_py_stage_rows`.`w` FROM
            ... `s`.`_spirit_py_stage_keys` STRAIGHT_JOIN `s`.`_spirit_py_stage_rows` ON
            ... `s`.`_spirit_py_stage_rows`.`_spirit_py_number` =
            ... `s`.`_spirit_py_stage_keys`.`_spirit_py_number` => 1
            a: SHOW WARNINGS => (Warning, 1062, Duplicate entry '4' for key '_t_new.v')
            b: SELECT `id`, `v` FROM `s`.`_t_new` => (1, 4) (3, 5)
            a: REPLACE INTO `s`.`_t_new` (`id`, `v`, `w`) VALUES (2, 4, 0)
            b: SELECT `id`, `v` FROM `s`.`_t_new` => (2, 4) (3, 5)
        """,
    ),
)

_ROW_LOCKS: Final = (
    Fact(
        says="whoever writes a row waits for its writer's commit; readers do not",
        script="""
            a: BEGIN
            a: UPDATE `s`.`t` SET `v` = 1 WHERE `id` = 1 => 1
            b> UPDATE `s`.`t` SET `w` = 2 WHERE `id` = 1 => waits for row
            c: SELECT `v`, `w` FROM `s`.`t` WHERE `id` = 1 => (0, 0)
            c: UPDATE `s`.`t` SET `w` = 2 WHERE `id` = 3 => 1
            a: COMMIT
            b< => 1
            c: SELECT `v`, `w` FROM `s`.`t` WHERE `id` = 1 => (1, 2)
        """,
    ),
    Fact(
        says="an update that has waited finds the row as it is then",
        script="""
            a: BEGIN
            a: DELETE FROM `s`.`t` WHERE `id` = 1 => 1
            b> UPDATE `s`.`t` SET `w` = 2 WHERE `id` = 1 => waits for row
            a: COMMIT
            b< => 0
            a: BEGIN
            a: INSERT INTO `s`.`t` (`id`) VALUES (8) => 1
            b> INSERT IGNORE INTO `s`.`t` (`id`, `v`) VALUES (8, 8) => waits for row
            a: COMMIT
            b< => 0
            b: SELECT `id`, `v` FROM `s`.`t` => (3, 0) (5, 0) (8, NULL)
        """,
    ),
    Fact(
        says="an UPDATE of a key waits for the writer of the row that has it",
        script="""
            b: BEGIN
            b: DELETE FROM `s`.`t` WHERE `id` = 3 => 1
            a> UPDATE `s`.`t` SET `id` = 3 WHERE `id` = 1 => waits for row
            b: COMMIT
            a< => 1
            b: SELECT `id` FROM `s`.`t` => (3) (5)
        """,
    ),
    Fact(
        says="REPLACE ... SELECT locks the rows that it reads at REPEATABLE READ, and none at READ "
        "COMMITTED",
        script="""
            a: BEGIN
            a: REPLACE INTO `s`.`_t_new` (`id`, `v`, `w`) SELECT `id`, `v`, `w` FROM `s`.`t`
            ... FORCE INDEX (`PRIMARY`) WHERE `id` <= 3
            b: UPDATE `s`.`t` SET `v` = 7 WHERE `id` = 1 => 1
            a: COMMIT
            a: SET SESSION transaction_isolation = 'REPEATABLE-READ'
            a: BEGIN
            a: REPLACE INTO `s`.`_t_new` (`id`, `v`, `w`) SELECT `id`, `v`, `w` FROM `s`.`t`
            ... FORCE INDEX (`PRIMARY`) WHERE `id` <= 3
            c: UPDATE `s`.`t` SET `v` = 8 WHERE `id` = 5 => 1
            b> UPDATE `s`.`t` SET `v` = 8 WHERE `id` = 1 => waits for row
            a: COMMIT
            b< => 1
            b: SELECT `id`, `v` FROM `s`.`_t_new` => (1, 7) (3, 0)
        """,
    ),
    Fact(
        says="REPLACE waits for who takes a unique value from its row, and then removes nothing",
        script="""
            a: CREATE TABLE `s`.`u` ( `id` int NOT NULL, `v` int DEFAULT NULL,
            ... `w` int DEFAULT NULL, PRIMARY KEY (`id`), UNIQUE KEY `v` (`v`) ) ENGINE=InnoDB
            a: INSERT INTO `s`.`u` (`id`, `v`) VALUES (5, 7) => 1
            a: BEGIN
            a: UPDATE `s`.`u` SET `v` = 9 WHERE `id` = 5 => 1
            b> REPLACE INTO `s`.`u` (`id`, `v`) VALUES (6, 7) => waits for row
            a: COMMIT
            b< => 1
            c: SELECT COUNT(*) FROM `s`.`u` => (2)
            c: SELECT `v` FROM `s`.`u` WHERE `id` = 5 => (9)
        """,
    ),
    Fact(
        says="a row lock that does not come is error 1205; the transaction is still open",
        script="""
            a: BEGIN
            a: UPDATE `s`.`t` SET `v` = 1 WHERE `id` = 1 => 1
            b: SET NAMES utf8mb4, SESSION innodb_lock_wait_timeout=1, SESSION lock_wait_timeout=50
            b: BEGIN
            b: UPDATE `s`.`t` SET `v` = 2 WHERE `id` = 3 => 1
            b: UPDATE `s`.`t` SET `v` = 2 WHERE `id` = 1 => error 1205
            c> UPDATE `s`.`t` SET `w` = 3 WHERE `id` = 3 => waits for row
            b: COMMIT
            c< => 1
            a: ROLLBACK
            a: SELECT `id`, `v`, `w` FROM `s`.`t` => (1, 0, 0) (3, 2, 3) (5, 0, 0)
        """,
    ),
    Fact(
        says="of two that wait for each other's rows one is rolled back whole: 1213",
        script="""
            a: BEGIN
            a: UPDATE `s`.`t` SET `v` = 1 WHERE `id` = 1 => 1
            a: UPDATE `s`.`t` SET `v` = 1 WHERE `id` = 5 => 1
            b: BEGIN
            b: UPDATE `s`.`t` SET `v` = 2 WHERE `id` = 3 => 1
            a> UPDATE `s`.`t` SET `v` = 1 WHERE `id` = 3 => waits for row
            b: UPDATE `s`.`t` SET `v` = 2 WHERE `id` = 1 => error 1213
            a< => 1
            b: COMMIT
            a: COMMIT
            a: SELECT `id`, `v` FROM `s`.`t` => (1, 1) (3, 1) (5, 1)
        """,
    ),
    Fact(
        says="a statement whose connection is cut goes on to its end, and commits",
        script="""
            a: BEGIN
            a: UPDATE `s`.`t` SET `v` = 1 WHERE `id` = 1 => 1
            b> UPDATE `s`.`t` SET `v` = 2 WHERE `id` = 1 => waits for row
            ! cut b
            b< => lost
            c> UPDATE `s`.`t` SET `w` = 3 WHERE `id` = 1 => waits for row
            a: ROLLBACK
            c< => 1
            c: SELECT `v`, `w` FROM `s`.`t` WHERE `id` = 1 => (2, 3)
        """,
        differs="the statement ends with the connection",
    ),
)

_TABLE_LOCKS: Final = (
    Fact(
        says="LOCK TABLES waits for transactions that have read the table; a waiting one "
        "blocks new readers",
        script="""
            a: BEGIN
            a: SELECT COUNT(*) FROM `s`.`t` => (3)
            b> LOCK TABLES `s`.`t` WRITE, `s`.`_t_new` WRITE => waits for table
            c> SELECT COUNT(*) FROM `s`.`t` => waits for table
            a: SELECT COUNT(*) FROM `s`.`t` => (3)
            a: COMMIT
            b<
            b: INSERT INTO `s`.`t` (`id`) VALUES (6) => 1
            b: UNLOCK TABLES
            c< => (4)
        """,
    ),
    Fact(
        says="a lock on a table that does not come within lock_wait_timeout is error 1205; "
        "who waited behind it goes on",
        script="""
            a: BEGIN
            a: SELECT COUNT(*) FROM `s`.`t` => (3)
            c: SELECT COUNT(*) FROM `s`.`t` => (3)
            b: SET SESSION lock_wait_timeout = 1
            b> LOCK TABLES `s`.`t` WRITE => waits for table
            c> INSERT INTO `s`.`t` (`id`) VALUES (6) => waits for table
            b< => error 1205
            c< => 1
            b: SELECT COUNT(*) FROM `s`.`_t_new` => (0)
            a: COMMIT
        """,
    ),
    Fact(
        says="LOCK TABLES ... READ waits for writers, and lets readers in",
        script="""
            a: BEGIN
            a: UPDATE `s`.`t` SET `v` = 1 WHERE `id` = 1 => 1
            b> LOCK TABLES `s`.`t` READ => waits for table
            c: SELECT COUNT(*) FROM `s`.`t` => (3)
            a: COMMIT
            b<
            c: SELECT `v` FROM `s`.`t` WHERE `id` = 1 => (1)
            a> UPDATE `s`.`t` SET `v` = 2 WHERE `id` = 1 => waits for table
            b: UPDATE `s`.`t` SET `v` = 2 WHERE `id` = 1 => error 1099
            b: UNLOCK TABLES
            a< => 1
        """,
    ),
    Fact(
        says="under LOCK TABLES only those tables can be used: 1100",
        script="""
            a: LOCK TABLES `s`.`t` WRITE
            a: SELECT COUNT(*) FROM `s`.`_t_new` => error 1100
            a: SELECT 1 FROM `s`.`t` AS spirit_py_probe LIMIT 0 => error 1100
            a: UNLOCK TABLES
            a: SELECT 1 FROM `s`.`t` AS spirit_py_probe LIMIT 0 => nothing
        """,
    ),
    Fact(
        says="RENAME under LOCK TABLES keeps the locks; who waits for the name gets the "
        "table that then has it",
        script="""
            a: LOCK TABLES `s`.`t` WRITE, `s`.`_t_new` WRITE
            b> INSERT INTO `s`.`t` (`id`) VALUES (9) => waits for table
            a: ALTER TABLE `s`.`_t_new` ADD COLUMN `_spirit_py_guard` TINYINT, ALGORITHM=INSTANT
            a: ALTER TABLE `s`.`_t_new` DROP COLUMN `_spirit_py_guard`, ALGORITHM=INSTANT
            a: RENAME TABLE `s`.`t` TO `s`.`_t_old`, `s`.`_t_new` TO `s`.`t`
            c> SELECT COUNT(*) FROM `s`.`_t_old` => waits for table
            a: SELECT COUNT(*) FROM `s`.`t` => (0)
            a: UNLOCK TABLES
            b< => 1
            c< => (3)
            c: SELECT `id` FROM `s`.`t` => (9)
            ! log => GTID +1; a in none: ALTER TABLE `s`.`_t_new` ADD COLUMN
            ... `_spirit_py_guard` TINYINT, ALGORITHM=INSTANT; GTID +2; a in none: ALTER TABLE
            ... `s`.`_t_new` DROP COLUMN `_spirit_py_guard`, ALGORITHM=INSTANT; GTID +3; a in
            ... none: RENAME TABLE `s`.`t` TO `s`.`_t_old`, `s`.`_t_new` TO `s`.`t`; GTID +4; b
            ... in none: BEGIN; TABLE s.t; WRITE (9, NULL, NULL, NULL); COMMIT
        """,
    ),
    Fact(
        says="who waits for a table that is renamed away and dropped gets the table that then "
        "has the name",
        script="""
            a: LOCK TABLES `s`.`t` WRITE, `s`.`_t_new` WRITE
            b> INSERT INTO `s`.`t` (`id`) VALUES (9) => waits for table
            a: RENAME TABLE `s`.`t` TO `s`.`_t_old`, `s`.`_t_new` TO `s`.`t`
            a: DROP TABLE IF EXISTS `s`.`_t_old`
            a: UNLOCK TABLES
            b< => 1
            c: SELECT `id` FROM `s`.`t` => (9)
        """,
    ),
    Fact(
        says="RENAME is all or nothing: 1050 for a name that is taken, 1146 for a table that "
        "is not there",
        script="""
            a: RENAME TABLE `s`.`t` TO `s`.`_t_old`, `s`.`_t_old` TO `s`.`_t_new` => error 1050
            a: RENAME TABLE `s`.`t` TO `s`.`_t_old`, `s`.`none` TO `s`.`t` => error 1146
            a: SELECT COUNT(*) FROM `s`.`t` => (3)
            ! executed => nothing
        """,
    ),
    Fact(
        says="RENAME without LOCK TABLES waits for readers, too",
        script="""
            a: BEGIN
            a: SELECT COUNT(*) FROM `s`.`t` => (3)
            b> RENAME TABLE `s`.`t` TO `s`.`_t_old` => waits for table
            c> SELECT COUNT(*) FROM `s`.`t` => waits for table
            a: COMMIT
            b<
            c< => error 1146
        """,
    ),
    Fact(
        says="COMMIT and ROLLBACK leave the locks of LOCK TABLES",
        script="""
            a: LOCK TABLES `s`.`t` WRITE
            a: INSERT INTO `s`.`t` (`id`) VALUES (6) => 1
            a: COMMIT
            a: ROLLBACK
            b> SELECT COUNT(*) FROM `s`.`t` => waits for table
            a: UNLOCK TABLES
            b< => (4)
        """,
    ),
    Fact(
        says="BEGIN and START TRANSACTION give up the locks of LOCK TABLES",
        script="""
            a: LOCK TABLES `s`.`t` WRITE
            a: SET SESSION autocommit = 0
            a: INSERT INTO `s`.`t` (`id`) VALUES (6) => 1
            b> SELECT COUNT(*) FROM `s`.`t` => waits for table
            a: BEGIN
            b< => (4)
            a: COMMIT
            a: LOCK TABLES `s`.`t` WRITE
            b> SELECT COUNT(*) FROM `s`.`t` => waits for table
            a: START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY
            b< => (4)
        """,
    ),
    Fact(
        says="LOCK TABLES commits the open transaction, and gives up earlier locks",
        script="""
            a: BEGIN
            a: INSERT INTO `s`.`t` (`id`) VALUES (6) => 1
            a: LOCK TABLES `s`.`_t_new` WRITE
            b: SELECT COUNT(*) FROM `s`.`t` => (4)
            a: LOCK TABLES `s`.`t` WRITE
            b: SELECT COUNT(*) FROM `s`.`_t_new` => (0)
            a: UNLOCK TABLES
        """,
    ),
    Fact(
        says="a session that is killed gives up its locks on tables at once, and its changes",
        script="""
            a: LOCK TABLES `s`.`t` WRITE
            b> SELECT COUNT(*) FROM `s`.`t` => waits for table
            c: KILL CONNECTION {a}
            b< => (3)
            a: SELECT COUNT(*) FROM `s`.`t` => lost
            d: BEGIN
            d: INSERT INTO `s`.`t` (`id`) VALUES (6) => 1
            b> REPLACE INTO `s`.`t` (`id`) VALUES (6) => waits for row
            c: KILL CONNECTION {d}
            b< => 1
            d: COMMIT => lost
        """,
    ),
    Fact(
        says="a waiting LOCK TABLES ... WRITE is served before whoever came behind it",
        script="""
            a: LOCK TABLES `s`.`t` WRITE
            b> LOCK TABLES `s`.`t` WRITE => waits for table
            c> SELECT COUNT(*) FROM `s`.`t` => waits for table
            d> INSERT INTO `s`.`t` (`id`) VALUES (7) => waits for table
            a: UNLOCK TABLES
            b<
            b: INSERT INTO `s`.`t` (`id`) VALUES (6) => 1
            ! sent => +1
            b: DELETE FROM `s`.`t` WHERE (`id`) IN ((1), (3), (5), (6)) => 4
            b: INSERT INTO `s`.`t` (`id`) VALUES (7) => 1
            b: UNLOCK TABLES
            c< => (1)
            d< => error 1062
        """,
    ),
)

_NAMED_LOCKS: Final = (
    Fact(
        says="a named lock has one holder, who may take it more than once; others see who it is",
        script="""
            a: SELECT GET_LOCK(%s, %s) <- one, 0 => (1)
            a: SELECT GET_LOCK(%s, %s) <- one, 0 => (1)
            a: SELECT GET_LOCK(%s, %s) <- two, 0 => (1)
            b: SELECT GET_LOCK(%s, %s) <- one, 0 => (0)
            b: SELECT IS_USED_LOCK(%s) <- one => ({a})
            b: SELECT RELEASE_LOCK(%s) <- one => (0)
            b: SELECT RELEASE_LOCK(%s) <- none => (NULL)
            a: SELECT RELEASE_LOCK(%s) <- one => (1)
            b: SELECT IS_USED_LOCK(%s) <- one => ({a})
            a: SELECT RELEASE_LOCK(%s) <- one => (1)
            b: SELECT IS_USED_LOCK(%s) <- one => (NULL)
            b: SELECT IS_USED_LOCK(%s) <- two => ({a})
        """,
    ),
    Fact(
        says="commits and rollbacks leave named locks; the end of the session releases them",
        script="""
            a: BEGIN
            a: SELECT GET_LOCK(%s, %s) <- one, 0 => (1)
            a: COMMIT
            a: ROLLBACK
            b> SELECT GET_LOCK(%s, %s) <- one, 50 => waits for name
            c: KILL CONNECTION {a}
            b< => (1)
            c: SELECT IS_USED_LOCK(%s) <- one => ({b})
            c> SELECT GET_LOCK(%s, %s) <- one, 50 => waits for name
            ! close b
            c< => (1)
        """,
    ),
    Fact(
        says="a named lock that does not come is 0, no error",
        script="""
            a: SELECT GET_LOCK(%s, %s) <- one, 0 => (1)
            b: SELECT GET_LOCK(%s, %s) <- one, 1 => (0)
        """,
    ),
)

_KILL: Final = (
    Fact(
        says="KILL QUERY ends the statement with 1317; the session and its transaction go on",
        script="""
            a: BEGIN
            a: UPDATE `s`.`t` SET `v` = 1 WHERE `id` = 1 => 1
            b: BEGIN
            b: UPDATE `s`.`t` SET `v` = 2 WHERE `id` = 3 => 1
            b> UPDATE `s`.`t` SET `v` = 2 WHERE `id` = 1 => waits for row
            c: KILL QUERY {b}
            b< => error 1317
            b: COMMIT
            a: ROLLBACK
            a: SELECT `id`, `v` FROM `s`.`t` => (1, 0) (3, 2) (5, 0)
        """,
    ),
    Fact(
        says="KILL QUERY ends a wait for a table lock with 1317, and does nothing to a "
        "session that is idle",
        script="""
            a: LOCK TABLES `s`.`t` WRITE
            b> SELECT COUNT(*) FROM `s`.`t` => waits for table
            c: KILL QUERY {b}
            b< => error 1317
            c: KILL QUERY {a}
            a: SELECT COUNT(*) FROM `s`.`t` => (3)
            b> LOCK TABLES `s`.`t` WRITE => waits for table
            c: KILL QUERY {b}
            b< => error 1317
            a: UNLOCK TABLES
        """,
    ),
    Fact(
        says="KILL QUERY ends GET_LOCK",
        script="""
            a: SELECT GET_LOCK(%s, %s) <- one, 0 => (1)
            b> SELECT GET_LOCK(%s, %s) <- one, 50 => waits for name
            c: KILL QUERY {b}
            b< => error 1317
            b: SELECT IS_USED_LOCK(%s) <- one => ({a})
        """,
    ),
    Fact(
        says="KILL ends the session: its statement, or its next one, finds the connection lost",
        script="""
            a: BEGIN
            a: UPDATE `s`.`t` SET `v` = 1 WHERE `id` = 1 => 1
            b> UPDATE `s`.`t` SET `v` = 2 WHERE `id` = 1 => waits for row
            c: KILL CONNECTION {b}
            b< => lost
            b: SELECT COUNT(*) FROM `s`.`t` => lost
            c: KILL CONNECTION {a}
            c: UPDATE `s`.`t` SET `w` = 3 WHERE `id` = 1 => 1
            a: COMMIT => lost
            c: SELECT `v`, `w` FROM `s`.`t` WHERE `id` = 1 => (0, 3)
        """,
    ),
    Fact(
        says="KILL of a number that no session has is error 1094",
        script="""
            ! close b
            a: KILL CONNECTION {b} => error 1094
            a: KILL QUERY {b} => error 1094
        """,
    ),
    Fact(
        says="numbers of sessions go up, and none is used again while the server lives",
        script="""
            a: DO 0
            b: DO 0
            ! order a b => a b
            ! close a
            c: DO 0
            ! order b c => b c
        """,
    ),
)

_LOG: Final = (
    Fact(
        says="WAIT_FOR_EXECUTED_GTID_SET is 0 when all is executed, 1 after its time",
        script="""
            a: INSERT INTO `s`.`t` (`id`) VALUES (6) => 1
            a: SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s) <- {+1}, 1 => (0)
            a: SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s) <- {+2}, 1 => (1)
            a> SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s) <- {+2}, 50 => waits for transactions
            b: INSERT INTO `s`.`t` (`id`) VALUES (7) => 1
            a< => (0)
            a: SELECT GTID_SUBTRACT(%s, @@GLOBAL.gtid_executed) <- {+2} => ()
        """,
    ),
    Fact(
        says="a statement is in the log with its text, its session, sql_mode and character "
        "set, and the session's own schema, not the table's",
        script="""
            a: RENAME TABLE `s`.`t` TO `s`.`_t_old`
            ! log => GTID +1; a in none: RENAME TABLE `s`.`t` TO `s`.`_t_old`
            ! variables => sql_mode and utf8mb4
        """,
    ),
    Fact(
        says="row events say that they end their statement, that the server checks foreign "
        "keys, and whether the session does not",
        script="""
            a: INSERT INTO `s`.`t` (`id`) VALUES (6) => 1
            ! flags => WRITE end unchecked sql
        """,
        before="before 9.6 foreign keys are InnoDB's (release notes of 9.6), and there is no flag"
        " `sql`",
        marker="logged_cascades",
    ),
    Fact(
        says="what a session does with sql_log_bin=0 is visible, and in no event",
        script="""
            a: SET SESSION sql_log_bin = 0
            a: INSERT INTO `s`.`t` (`id`) VALUES (6) => 1
            b: SELECT COUNT(*) FROM `s`.`t` => (4)
            ! executed => nothing
            ! log => nothing
        """,
    ),
    Fact(
        says="XA: rows are in the log at XA PREPARE, the decision is a transaction of its "
        "own, without rows",
        script="""
            a: XA START 'x'
            a: INSERT INTO `s`.`t` (`id`) VALUES (6) => 1
            a: XA END 'x'
            a: XA PREPARE 'x'
            b: SELECT COUNT(*) FROM `s`.`t` => (3)
            b: XA RECOVER CONVERT XID => (1, 1, 0, 0x78)
            ! log => GTID +1; a in none: XA START X'78',X'',1; TABLE s.t; WRITE (6, NULL,
            ... NULL); a in none: XA END X'78',X'',1; XA PREPARE X'78',X'',1
            b> REPLACE INTO `s`.`t` (`id`) VALUES (6) => waits for row
            a: XA COMMIT 'x'
            b<
            ! log => GTID +2; a in none: XA COMMIT X'78',X'',1
            a: XA START 'y'
            a: INSERT INTO `s`.`t` (`id`) VALUES (7) => 1
            a: XA END 'y'
            a: XA PREPARE 'y'
            a: XA ROLLBACK 'y'
            ! log => GTID +3; a in none: XA START X'79',X'',1; TABLE s.t; WRITE (7, NULL,
            ... NULL); a in none: XA END X'79',X'',1; XA PREPARE X'79',X'',1; GTID +4; a in
            ... none: XA ROLLBACK X'79',X'',1
            b: SELECT `id` FROM `s`.`t` => (1) (3) (5) (6)
        """,
    ),
    Fact(
        says="the log has the schema that the session uses, whatever the table's is",
        script="""
            a: USE `s`
            a: RENAME TABLE `s`.`t` TO `s`.`_t_old`
            a: TRUNCATE TABLE `s`.`_t_old`
            ! log => GTID +1; a in s: RENAME TABLE `s`.`t` TO `s`.`_t_old`; GTID +2; a in s:
            ... TRUNCATE TABLE `s`.`_t_old`
        """,
    ),
    Fact(
        says="a write in STATEMENT format is in the log as its text, without rows",
        script="""
            a: SET SESSION transaction_isolation = 'REPEATABLE-READ'
            a: SET SESSION binlog_format = 'STATEMENT'
            a: USE `s`
            a: UPDATE `s`.`t` SET v = 4 WHERE id = 1 => 1
            ! log => GTID +1; a in s: BEGIN; a in s: UPDATE `s`.`t` SET v = 4 WHERE id = 1; COMMIT
        """,
    ),
)

_STALL: Final = (
    Fact(
        own=True,
        says="a commit that stalls is in the log and with readers of it, in gtid_owned, not "
        "in gtid_executed, and not visible",
        script="""
            a: SELECT GET_LOCK(%s, %s) <- one, 0 => (1)
            ! hold
            a> INSERT INTO `s`.`t` (`id`) VALUES (6) => waits for commit
            ! sent => +1
            ! owned => +1 of a
            ! executed => nothing
            b: SELECT COUNT(*) FROM `s`.`t` => (3)
            b> LOCK TABLES `s`.`t` WRITE => waits for table
            c: SELECT COUNT(*) FROM `s`.`_t_new` => (0)
            ! release
            a< => 1
            b<
            b: SELECT COUNT(*) FROM `s`.`t` => (4)
            b: UNLOCK TABLES
            ! owned => nothing
            ! executed => +1
        """,
    ),
    Fact(
        own=True,
        says="commits become visible in the order of the log",
        script="""
            ! hold
            a> INSERT INTO `s`.`t` (`id`) VALUES (6) => waits for commit
            b> INSERT INTO `s`.`_t_new` (`id`) VALUES (6) => waits for commit
            ! sent => +1 +2
            ! owned => +1 of a, +2 of b
            c> UPDATE `s`.`t` SET `v` = 1 WHERE `id` = 6 => waits for row
            d: SET SESSION transaction_isolation = 'REPEATABLE-READ'
            d: START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY
            ! release
            a< => 1
            b< => 1
            c< => 1
            d: SELECT COUNT(*) FROM `s`.`t` => (3)
        """,
    ),
    Fact(
        own=True,
        says="a session that is killed while its commit stalls is lost at once; the commit "
        "goes on, and its locks stay until then",
        script="""
            a: SELECT GET_LOCK(%s, %s) <- one, 0 => (1)
            ! hold
            a> INSERT INTO `s`.`t` (`id`) VALUES (6) => waits for commit
            b: KILL CONNECTION {a}
            a< => lost
            b: SELECT IS_USED_LOCK(%s) <- one => ({a})
            b: SELECT COUNT(*) FROM `s`.`t` => (3)
            b> REPLACE INTO `s`.`t` (`id`) VALUES (6) => waits for row
            ! release
            b<
            b: SELECT COUNT(*) FROM `s`.`t` => (4)
            b: SELECT GET_LOCK(%s, %s) <- one, 50 => (1)
        """,
    ),
    Fact(
        own=True,
        says="KILL QUERY does nothing to a commit that stalls",
        script="""
            ! hold
            a> INSERT INTO `s`.`t` (`id`) VALUES (6) => waits for commit
            b: KILL QUERY {a}
            ! owned => +1 of a
            ! executed => nothing
            ! release
            a< => 1
        """,
    ),
    Fact(
        own=True,
        says="a RENAME that stalls is done later, killed or not; until then others see the "
        "old names",
        script="""
            a: SELECT GET_LOCK(%s, %s) <- one, 0 => (1)
            a: LOCK TABLES `s`.`t` WRITE, `s`.`_t_new` WRITE
            ! hold
            a> RENAME TABLE `s`.`t` TO `s`.`_t_old`, `s`.`_t_new` TO `s`.`t` => waits for commit
            ! sent => +1
            b: SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND
            ... TABLE_NAME IN (%s, %s) <- {schema}, _t_new, _t_old => (_t_new)
            b: KILL CONNECTION {a}
            a< => lost
            b: SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND
            ... TABLE_NAME IN (%s, %s) <- {schema}, _t_new, _t_old => (_t_new)
            b: SELECT IS_USED_LOCK(%s) <- one => ({a})
            c> SELECT COUNT(*) FROM `s`.`t` => waits for table
            ! release
            b: SELECT GET_LOCK(%s, %s) <- one, 50 => (1)
            c< => (0)
            b: SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND
            ... TABLE_NAME IN (%s, %s) <- {schema}, _t_new, _t_old => (_t_old)
        """,
    ),
    Fact(
        own=True,
        says="a table that OPTIMIZE builds again has its new number, and no lock, while the "
        "statement's commit stalls",
        script="""
            ! table => another
            ! table => the same
            ! hold
            a> OPTIMIZE TABLE `s`.`t` => waits for commit
            ! sent => +1
            ! executed => nothing
            ! table => another
            b: SELECT COUNT(*) FROM `s`.`t` => (3)
            b: LOCK TABLES `s`.`t` WRITE
            b: UNLOCK TABLES
            ! release
            a<
            ! executed => +1
            ! table => the same
        """,
    ),
)

_CRASH: Final = (
    Fact(
        own=True,
        says="a durable server that crashes loses no commit that it has answered; open "
        "transactions are rolled back, sessions and named locks are gone, numbers begin "
        "again",
        script="""
            a: SELECT GET_LOCK(%s, %s) <- one, 0 => (1)
            a: INSERT INTO `s`.`t` (`id`) VALUES (6) => 1
            b: BEGIN
            b: INSERT INTO `s`.`t` (`id`) VALUES (7) => 1
            c: LOCK TABLES `s`.`_t_new` WRITE
            ! crash
            a: DO 0 => lost
            ! restart
            d: SELECT `id` FROM `s`.`t` => (1) (3) (5) (6)
            d: SELECT COUNT(*) FROM `s`.`_t_new` => (0)
            d: SELECT IS_USED_LOCK(%s) <- one => (NULL)
            ! executed => +1
            ! numbers => again
        """,
    ),
    Fact(
        own=True,
        says="a commit that stalls in a crash is visible after it",
        script="""
            ! hold
            a> INSERT INTO `s`.`t` (`id`) VALUES (6) => waits for commit
            ! sent => +1
            ! crash
            a< => lost
            ! restart
            b: SELECT COUNT(*) FROM `s`.`t` => (4)
            ! executed => +1
        """,
    ),
    Fact(
        own=True,
        says="with innodb_flush_log_at_trx_commit=0 a crash takes rows back that stay in the "
        "log and in gtid_executed",
        script="""
            a: INSERT INTO `s`.`t` (`id`) VALUES (6) => 1
            ! relax
            a: INSERT INTO `s`.`t` (`id`) VALUES (7) => 1
            ! crash
            ! restart
            b: SELECT `id` FROM `s`.`t` => (1) (3) (5) (6)
            ! executed => +1 +2
            ! log => GTID +1; a in none: BEGIN; TABLE s.t; WRITE (6, NULL, NULL); COMMIT;
            ... GTID +2; a in none: BEGIN; TABLE s.t; WRITE (7, NULL, NULL); COMMIT
        """,
    ),
    Fact(
        own=True,
        says="an XA transaction that is prepared is there after a crash",
        script="""
            a: XA START 'x'
            a: INSERT INTO `s`.`t` (`id`) VALUES (6) => 1
            a: XA END 'x'
            a: XA PREPARE 'x'
            ! crash
            ! restart
            b: XA RECOVER CONVERT XID => (1, 1, 0, 0x78)
            b: SELECT COUNT(*) FROM `s`.`t` => (3)
            b: XA ROLLBACK 'x'
            b: XA RECOVER CONVERT XID => nothing
        """,
    ),
    Fact(
        own=True,
        says="RESET BINARY LOGS AND GTIDS leaves the rows, and numbers from 1",
        script="""
            a: INSERT INTO `s`.`t` (`id`) VALUES (6) => 1
            ! reset
            a: SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged => (, )
            a: INSERT INTO `s`.`t` (`id`) VALUES (7) => 1
            a: SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged => ({uuid}:1, )
            a: SELECT COUNT(*) FROM `s`.`t` => (5)
        """,
        before="8.0: `RESET MASTER` (manual, RESET MASTER Statement)",
    ),
    Fact(
        own=True,
        says="with sync_binlog=0 and innodb_flush_log_at_trx_commit=2 a crash of mysqld alone "
        "loses no commit and no event",
        script="""
            ! cached
            a: INSERT INTO `s`.`t` (`id`) VALUES (6) => 1
            ! crash
            ! restart
            b: SELECT COUNT(*) FROM `s`.`t` => (4)
            ! executed => +1
            ! log => GTID +1; a in none: BEGIN; TABLE s.t; WRITE (6, NULL, NULL); COMMIT
        """,
    ),
)

_RIGHTS: Final = (
    Fact(
        says="what is revoked on a schema is refused from the next statement on of each session",
        script="""
            ! account
            p: SELECT `v` FROM `s`.`t` WHERE `id` = 1 => (0)
            ! revoke SELECT
            p: SELECT `v` FROM `s`.`t` WHERE `id` = 1 => error 1142
            p: UPDATE `s`.`t` SET `v` = 7 WHERE `id` = 1 => error 1143
            p: DELETE FROM `s`.`t` WHERE `id` = 1 => error 1143
            p: INSERT INTO `s`.`t` (`id`, `v`) VALUES (6, 1) => 1
            p: LOCK TABLES `s`.`t` WRITE => error 1142
            p: CREATE TABLE `s`.`c` LIKE `s`.`t` => error 1142
            ! grant SELECT
            p: SELECT `v` FROM `s`.`t` WHERE `id` = 1 => (0)
        """,
    ),
    Fact(
        says="a transaction goes on without the rights of its next statement, and commits",
        script="""
            ! account
            p: BEGIN
            p: UPDATE `s`.`t` SET `v` = 7 WHERE `id` = 1 => 1
            ! revoke UPDATE
            p: UPDATE `s`.`t` SET `v` = 7 WHERE `id` = 3 => error 1142
            p: COMMIT
            b: SELECT `v` FROM `s`.`t` WHERE `id` = 1 => (7)
        """,
    ),
    Fact(
        says="RENAME needs ALTER and DROP, CREATE and INSERT; under a lock, too",
        script="""
            ! account
            p: LOCK TABLES `s`.`t` WRITE, `s`.`_t_new` WRITE
            ! revoke DROP
            p: RENAME TABLE `s`.`t` TO `s`.`_t_old`, `s`.`_t_new` TO `s`.`t` => error 1142
            ! grant DROP
            ! revoke INSERT
            p: RENAME TABLE `s`.`t` TO `s`.`_t_old`, `s`.`_t_new` TO `s`.`t` => error 1142
            ! grant INSERT
            p: RENAME TABLE `s`.`t` TO `s`.`_t_old`, `s`.`_t_new` TO `s`.`t`
            ! revoke LOCK TABLES
            p: UNLOCK TABLES
            p: LOCK TABLES `s`.`t` WRITE => error 1044
            ! revoke DROP
            p: DROP TABLE IF EXISTS `s`.`_t_old` => error 1142
        """,
    ),
)

GROUPS: Final = {
    "reading": _READING,
    "writing": _WRITING,
    "kept rows": _KEPT,
    "row locks": _ROW_LOCKS,
    "table locks": _TABLE_LOCKS,
    "named locks": _NAMED_LOCKS,
    "KILL": _KILL,
    "the log": _LOG,
    "commits that stall": _STALL,
    "crashes and RESET": _CRASH,
    "rights": _RIGHTS,
}
FACTS: Final = tuple(fact for group in GROUPS.values() for fact in group)


def table() -> str:
    """Return the facts as the table of ``tests/simulation/README.md``."""
    lines = ["| about | fact | the model | 8.0 and 8.4 |", "|---|---|---|---|"]
    for group, facts in GROUPS.items():
        for fact in facts:
            model = fact.differs or "alike"
            lines.append(f"| {group} | {fact.says} | {model} | {fact.before} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
