"""The composition root: builds every part of a migration and runs the phases in order.

It has no loops over rows, and of SQL no more than a few short statements.
"""

from spirit_py.migration.entry import migrate

__all__ = ["migrate"]
