"""Triggers and foreign keys around the table of a run, and what must hold whatever strikes.

The triggers and accounts are those of :mod:`tests.fuzz.attached`: each row counts how often its
triggers fired beside how often its writer changed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mysql_words import version_number
from tests.faults.host import APPLICATION
from tests.fuzz.attached import ACCOUNTS, LOG, TRIGGERS
from tests.oracle import attached

if TYPE_CHECKING:
    from tests.faults.shapes import Shape
    from tests.oracle.compare import Query

#: Since then the changes of foreign keys are in the binlog, and such keys can be kept.
_CASCADES_SEEN = (9, 6)
_COLUMNS = "p INT NOT NULL DEFAULT 1, tb INT NOT NULL DEFAULT 0, tv INT NOT NULL DEFAULT 0"


def columns() -> str:
    """Return the columns of the table that go with its triggers and its parent."""
    return (
        f"{_COLUMNS}, tu INT NOT NULL DEFAULT 0,"
        " CONSTRAINT to_parent FOREIGN KEY (p) REFERENCES parent (id)"
    )


def before() -> list[str]:
    """Return the statements before the table is made."""
    return [
        LOG,
        "CREATE TABLE parent (id INT PRIMARY KEY)",
        "INSERT INTO parent VALUES (1), (2)",
    ]


def after(shape: Shape, version: str) -> list[str]:
    """Return the statements behind it, before its first rows."""
    definer = f"CREATE DEFINER = {APPLICATION}@'%' TRIGGER"
    made = [trigger.replace("CREATE TRIGGER", definer) for trigger in TRIGGERS]
    if referred(shape, version):
        key = ", ".join(shape.key)
        made.append(
            f"CREATE TABLE child ({shape.columns.replace(' AUTO_INCREMENT', '')},"
            f" PRIMARY KEY ({key}), CONSTRAINT of_t FOREIGN KEY ({key}) REFERENCES t ({key})"
            " ON DELETE CASCADE ON UPDATE CASCADE)"
        )
    return made


def referred(shape: Shape, version: str) -> bool:
    """Whether a child refers to the table: its key stays, and the feed sees what cascades."""
    return (
        shape.attached
        and version_number(version) >= _CASCADES_SEEN
        and not any(f"MODIFY {name} " in shape.alter for name in shape.key)
    )


def filled(shape: Shape) -> str:
    """Return the statement that gives each third row a child."""
    key = ", ".join(shape.key)
    return f"INSERT INTO child ({key}) SELECT {key} FROM t WHERE MOD(value, 3) = 0"


def invariants(shape: Shape, version: str) -> list[str]:
    """Return the SELECTs that must return no row, at any commit."""
    found = [ACCOUNTS[0], ACCOUNTS[1].format(second="0")]
    if referred(shape, version):
        joined = f"child LEFT JOIN t USING ({', '.join(shape.key)})"
        found.append(f"SELECT COUNT(*) FROM {joined} WHERE t.tb IS NULL HAVING COUNT(*) > 0")
    return found


def catalogue(query: Query, schema: str) -> tuple[Any, Any]:
    """Return all triggers and foreign keys of the schema."""
    return attached.triggers(query, schema), attached.foreign_keys(query, schema)
