"""Django: operations that change a table online, and a database engine that does so unasked.

``from spirit_py.frameworks.django import Online, SpiritAlter`` in a migration needs no other
setting than a MySQL database. ``"ENGINE": "spirit_py.frameworks.django.mysql"`` sends the ALTERs of
large tables through this program, too. Both read the setting ``SPIRIT_PY``; ``docs/django.md`` has
the whole.
"""

from spirit_py.frameworks.django.operations import AtomicMigration, Online, SpiritAlter

__all__ = ["AtomicMigration", "Online", "SpiritAlter"]
