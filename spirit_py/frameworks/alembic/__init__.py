"""Alembic: operations that change a table online, and large tables that go online unasked.

Import this package in ``env.py``; ``docs/alembic.md`` has the operations and settings.
"""

from spirit_py.frameworks.alembic.operations import (
    OnlineMySQLImpl,
    SpiritAlterOp,
    atomic_revision,
    online_alter_table,
    spirit_alter,
)

__all__ = [
    "OnlineMySQLImpl",
    "SpiritAlterOp",
    "atomic_revision",
    "online_alter_table",
    "spirit_alter",
]
