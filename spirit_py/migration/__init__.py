"""The composition root: builds every part of a migration and runs the phases in order.

No SQL worth the name and no loops over rows here.
"""

from spirit_py.migration.entry import migrate

__all__ = ["migrate"]
