"""Django's MySQL backend with another schema editor; the name of module and class is Django's."""

from __future__ import annotations

from django.db.backends.mysql import base

from spirit_py.frameworks.django.mysql.schema import OnlineSchemaEditor


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to MySQL."""

    SchemaEditorClass = OnlineSchemaEditor
