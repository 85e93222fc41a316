"""The tables that are migrated: how they are made and filled, and what an application writes.

Every row can be computed from its number, so writers find rows without reading any.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.sessions import SCHEMA, TABLE, Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.sessions import Address

_BATCH = 50_000
#: A prime, so that consecutive numbers reach rows far apart, and each row once before any twice.
_STEP = 7919


@dataclass(frozen=True, kw_only=True)
class Table:
    """One shape.

    Attributes:
        definition: the text in the parentheses of CREATE TABLE.
        columns: those that are filled.
        values: their expressions over ``n``, the row's number.
        finish: an ALTER after the rows are in.
        write: returns the statement of the ``number``-th write to a table of ``rows`` rows;
            ``turn`` counts the writes of one writer and decides their kind.
    """

    definition: str
    columns: str
    values: str
    finish: str
    write: Callable[[int, int, int], str]

    def create(self, address: Address, rows: int) -> None:
        """Create the schema again, and fill the table."""
        with Session(address, schema="") as session:
            session.execute(f"DROP DATABASE IF EXISTS {SCHEMA}")
            session.execute(f"CREATE DATABASE {SCHEMA}")
        with Session(address) as session:
            session.execute(f"CREATE TABLE {TABLE} ({self.definition})")
            session.execute(f"SET SESSION cte_max_recursion_depth = {_BATCH + 1}")
            for first in range(0, rows, _BATCH):
                count = min(_BATCH, rows - first)
                session.execute(
                    f"INSERT INTO {TABLE} ({self.columns}) WITH RECURSIVE s AS (SELECT 1 i UNION"
                    f" ALL SELECT i + 1 FROM s WHERE i < {count}), r AS (SELECT i + {first} n,"
                    f" SHA2(i + {first}, 256) h FROM s) SELECT {self.values} FROM r"
                )
            session.execute(f"ALTER TABLE {TABLE} {self.finish}")
            session.query(f"ANALYZE TABLE {TABLE}")


def row_of(number: int, rows: int) -> int:
    """Return the row, from 1 on, that a write picks."""
    return 1 + number * _STEP % rows


def text_key(number: int) -> str:
    """Return the key of a row of :data:`TEXT_KEY`."""
    return str(uuid.UUID(hashlib.sha256(str(number).encode()).hexdigest()[:32]))


def _sysbench_write(number: int, turn: int, rows: int) -> str:
    """Insert, delete, or mostly update."""
    row = row_of(number, rows)
    match turn % 8:
        case 0:
            return f"INSERT INTO {TABLE} (k, c) VALUES ({number}, 'insert')"
        case 4:
            return f"DELETE FROM {TABLE} WHERE id = {row}"
        case _:
            return f"UPDATE {TABLE} SET k = k + 1, c = 'update {number}' WHERE id = {row}"


def _indexed_write(number: int, _turn: int, rows: int) -> str:
    """Move a row in two of the indexes."""
    return f"UPDATE {TABLE} SET a = a ^ {number}, d = d + 1 WHERE id = {row_of(number, rows)}"


def _text_key_write(number: int, turn: int, rows: int) -> str:
    """Delete with every fourth write; insert with another, so that the table stays as large."""
    match turn % 4:
        case 0:
            return f"DELETE FROM {TABLE} WHERE id = '{text_key(row_of(number, rows))}'"
        case 2:
            key = text_key(rows + 1 + number)
            return f"INSERT INTO {TABLE} VALUES ('{key}', {number}, 'insert', NOW())"
        case _:
            # To the collation both are the same key.
            key = text_key(row_of(number, rows))
            key = key.upper() if turn % 8 == 1 else key
            return f"UPDATE {TABLE} SET k = k + 1, body = 'update {number}' WHERE id = '{key}'"


def _wide_write(number: int, turn: int, rows: int) -> str:
    """Change a document, a text or a number."""
    row = row_of(number, rows)
    match turn % 4:
        case 0:
            what = f"doc = JSON_SET(doc, '$.n', {number})"
        case 1:
            what = f"body = CONCAT('update {number} ', LEFT(body, 400))"
        case _:
            what = f"i0 = i0 + 1, v0 = 'update {number}'"
    return f"UPDATE {TABLE} SET {what} WHERE id = {row}"


#: What sysbench's oltp tables look like.
SYSBENCH = Table(
    definition="id INT NOT NULL AUTO_INCREMENT, k INT NOT NULL DEFAULT 0,"
    " c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '',"
    " PRIMARY KEY (id), KEY k_1 (k)",
    columns="k, c, pad",
    values="1 + FLOOR(RAND(n) * 1000000), LEFT(CONCAT(h, REVERSE(h)), 119), LEFT(h, 59)",
    finish="ENGINE=InnoDB",
    write=_sysbench_write,
)
#: Four indexes whose order has nothing to do with the key's.
INDEXED = Table(
    definition="id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, a BIGINT NOT NULL,"
    " b BIGINT NOT NULL, c BIGINT NOT NULL, d BIGINT NOT NULL, note CHAR(24) NOT NULL",
    columns="a, b, c, d, note",
    values=", ".join(f"CONV(SUBSTR(h, {1 + 12 * i}, 12), 16, 10)" for i in range(4))
    + ", LEFT(h, 24)",
    finish="ADD INDEX a (a), ADD INDEX b (b), ADD INDEX c (c), ADD INDEX d (d)",
    write=_indexed_write,
)
#: A UUID as text under the default collation of MySQL 8 and later.
TEXT_KEY = Table(
    definition="id CHAR(36) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NOT NULL PRIMARY KEY,"
    " k INT NOT NULL, body VARCHAR(120) NOT NULL, at DATETIME NOT NULL",
    columns="id, k, body, at",
    values="CONCAT_WS('-', LEFT(h, 8), SUBSTR(h, 9, 4), SUBSTR(h, 13, 4), SUBSTR(h, 17, 4),"
    " SUBSTR(h, 21, 12)), n, LEFT(h, 60), '2026-01-02 03:04:05'",
    finish="ENGINE=InnoDB",
    write=_text_key_write,
)
_KINDS = (
    ("i{}", "INT NOT NULL", "n"),
    ("b{}", "BIGINT UNSIGNED NULL", "n * 1000003"),
    ("d{}", "DECIMAL(14,4) NOT NULL", "n / 7"),
    ("t{}", "DATETIME(3) NOT NULL", "'2026-01-02 03:04:05.678'"),
    ("s{}", "TIMESTAMP NOT NULL", "'2026-01-02 03:04:05'"),
    ("v{}", "VARCHAR(60) NOT NULL", "LEFT(h, 30)"),
    ("f{}", "DOUBLE NULL", "n / 3"),
    ("e{}", "ENUM('new','paid','sent') NOT NULL", "1 + n % 3"),
    ("n{}", "VARCHAR(40) NULL", "NULL"),
)
#: The columns besides key, document and text: with them the table has 60.
_WIDE = [(name.format(i), kind, value) for i in range(7) for name, kind, value in _KINDS][:57]
WIDE = Table(
    definition="id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, "
    + ", ".join(f"{name} {kind}" for name, kind, _ in _WIDE)
    + ", doc JSON NOT NULL, body TEXT NOT NULL",
    columns=", ".join([*(name for name, _, _ in _WIDE), "doc", "body"]),
    values=", ".join(value for _, _, value in _WIDE)
    + ", JSON_OBJECT('n', n, 'tags', JSON_ARRAY('a', LEFT(h, 8)), 'price', n / 8),"
    " REPEAT(h, 1 + n % 12)",
    finish="ENGINE=InnoDB",
    write=_wide_write,
)
