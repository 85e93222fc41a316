"""Alembic's MySQL, whose statements on large tables go online where the settings say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alembic.ddl.mysql import MySQLImpl

from spirit_py.frameworks.alembic.changing import change_online, goes_online
from spirit_py.frameworks.alembic.text import text_of

if TYPE_CHECKING:
    from sqlalchemy import Executable


class OnlineMySQLImpl(MySQLImpl):
    """Takes the place of Alembic's own for MySQL once it is imported.

    Without thresholds among the settings it does nothing else than that one.
    """

    __dialect__ = "mysql"

    def _exec(self, construct: Executable | str, *more: Any, **settings: Any) -> Any:
        """Send a statement to the server, or a change of a large table through this program."""
        statement = text_of(construct, self.dialect)
        if statement and goes_online(self, statement):
            change_online(self, statement, {})
            return None
        return super()._exec(construct, *more, **settings)
