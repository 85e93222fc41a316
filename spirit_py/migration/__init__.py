"""The composition root: builds every part of a migration and runs the phases in order."""

from spirit_py.migration.entry import migrate

__all__ = ["migrate"]
