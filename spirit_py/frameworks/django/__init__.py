"""Django: operations that change a table online, and a database engine that does so unasked.

``docs/django.md`` has the operations, the engine and the setting ``SPIRIT_PY``.
"""

from spirit_py.frameworks.django.operations import AtomicMigration, Online, SpiritAlter

__all__ = ["AtomicMigration", "Online", "SpiritAlter"]
