"""A project of Django in a folder of a test, run as a command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

MANAGE = """
import sys
from django.conf import settings

settings.configure(
    DATABASES={{"default": {{"ENGINE": "django.db.backends.mysql", **{database!r}}}}},
    INSTALLED_APPS={apps!r},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    SPIRIT_PY={settings!r},
)
import django
from django.core.management import execute_from_command_line

django.setup()
execute_from_command_line(sys.argv)
"""
MIGRATION = """
from django.db import migrations, models
from spirit_py.frameworks.django import AtomicMigration, Online, SpiritAlter


class Migration({bases}):
    dependencies = {before!r}
    operations = [
{operations}
    ]
"""


class DjangoProject:
    """Migrations of an app ``shop`` in a folder, and of others.

    Args:
        apps: all of them.
        settings: of the program.
    """

    def __init__(self, db, folder, apps=("shop",), **settings):
        self.folder = folder
        server = db.server
        reach = {"HOST": server.host, "PORT": server.port, "USER": server.user}
        reach |= {"PASSWORD": server.password, "NAME": db.name}
        for app in apps:
            (folder / app / "migrations").mkdir(parents=True)
            for name in ("__init__.py", "migrations/__init__.py", "models.py"):
                (folder / app / name).touch()
        manage = MANAGE.format(database=reach, settings=settings, apps=list(apps))
        (folder / "manage.py").write_text(manage)

    def add(self, name, before, operations, *, atomic=True, app="shop"):
        """Write a migration, by a line for each of its operations."""
        bases = "AtomicMigration, migrations.Migration" if atomic else "migrations.Migration"
        text = MIGRATION.format(
            bases=bases,
            before=[(app, before)] if before else [],
            operations="\n".join(f"        {line}," for line in operations),
        )
        (self.folder / app / "migrations" / f"{name}.py").write_text(text)

    def start(self, *arguments, **environment):
        """Start a command of Django's."""
        return subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=self.folder,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments):
        """Run a command of Django's; return its exit code and what it has printed."""
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=240)
        return process.returncode, output
