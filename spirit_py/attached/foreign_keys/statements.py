"""Foreign keys as SQL (pure).

Another name, table or column goes in through ``dataclasses.replace`` of the key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.sql import identifier_list, quote_identifier, quote_table

if TYPE_CHECKING:
    from spirit_py.attached.foreign_keys.model import ForeignKey


def constraint(key: ForeignKey) -> str:
    """Return a key's definition, as it follows ADD or stands in CREATE TABLE.

    Both actions are written out: the server keeps NO ACTION, its default, apart from RESTRICT.
    """
    return (
        f"CONSTRAINT {quote_identifier(key.name)} FOREIGN KEY ({identifier_list(key.columns)})"
        f" REFERENCES {quote_table(*key.parent)} ({identifier_list(key.parent_columns)})"
        f" ON DELETE {key.on_delete} ON UPDATE {key.on_update}"
    )


def added(key: ForeignKey) -> str:
    """Return the clause of ALTER TABLE that adds a key."""
    return f"ADD {constraint(key)}"


def dropped(key: ForeignKey) -> str:
    """Return the clause of ALTER TABLE that drops a key."""
    return f"DROP FOREIGN KEY {quote_identifier(key.name)}"
