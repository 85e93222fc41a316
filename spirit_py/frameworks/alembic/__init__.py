"""Alembic: operations that change a table online, and large tables that go online unasked.

Import this package in ``env.py``. Then migrations have ``op.spirit_alter`` and
``op.online_alter_table``; and with thresholds among the settings, Alembic's own operations on large
tables go online, too. The settings are the section ``[spirit_py]`` of ``alembic.ini`` and
``context.configure(spirit_py={...})``, which takes precedence;
``docs/alembic.md`` has the whole.
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
