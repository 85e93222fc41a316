"""The projects of examples/ on a test's schema, run as their users would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
SECONDS = 240


class Project:
    """One of the examples on a test's schema.

    Args:
        name: its folder.
        words: the command, in front of its arguments.
        table: the large one.
    """

    def __init__(self, db, name, words, table):
        self.db, self.table = db, table
        self._folder, self._words = EXAMPLES / name, words
        server = db.server
        self._environment = {
            **os.environ,
            "PYTHONDONTWRITEBYTECODE": "1",
            "SHOP_DATABASE_URL": f"mysql+mysqldb://{server.user}:{server.password}"
            f"@{server.host}:{server.port}/{db.name}",
            "SHOP_HOST": server.host,
            "SHOP_PORT": str(server.port),
            "SHOP_USER": server.user,
            "SHOP_PASSWORD": server.password,
            "SHOP_DATABASE": db.name,
        }

    def start(self, *arguments, **environment):
        """Start its command, with more variables."""
        return self._started(*self._words, *arguments, **environment)

    def _started(self, *words, **environment):
        return subprocess.Popen(
            # A shell's background job ignores SIGINT, and so would all that it starts.
            ["env", "--default-signal=INT", sys.executable, *words],
            cwd=self._folder,
            env=self._environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments):
        """Run its command to a good end; return what it has printed."""
        return self._ended(self.start(*arguments))

    def run_python(self, program):
        """Run a program in its folder to a good end; return what it has printed."""
        return self._ended(self._started("-c", program))

    @staticmethod
    def _ended(process):
        output, _ = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, output
        return output

    def columns(self):
        """Return the columns of the large table, with their types."""
        return dict(
            self.db.query(
                "SELECT COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS"
                " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
                (self.db.name, self.table),
            )
        )


def shop_of_alembic(db):
    """Return the example for Alembic."""
    return Project(db, "alembic", ("-m", "alembic"), "orders")


def shop_of_django(db):
    """Return the example for Django."""
    return Project(db, "django", ("manage.py",), "shop_order")
