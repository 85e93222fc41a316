"""A project of Alembic in a folder of a test, run as a command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

from alembic import command
from alembic.config import Config

ENV = """
import sqlalchemy as sa
from alembic import context
import spirit_py.frameworks.alembic

engine = sa.create_engine({url!r}, poolclass=sa.pool.NullPool)
with engine.connect() as connection:
    context.configure(connection=connection, spirit_py={settings!r}, **{context!r})
    with context.begin_transaction():
        context.run_migrations()
"""
REVISION = """
import sqlalchemy as sa
from alembic import op
from spirit_py.frameworks.alembic import atomic_revision, spirit_alter

revision = {name!r}
down_revision = {before!r}


def upgrade():
{up}


def downgrade():
{down}
"""
SECONDS = 240


class AlembicProject:
    """Revisions in a folder.

    Args:
        context: more arguments of ``context.configure``.
        settings: of the program.
    """

    def __init__(self, db, folder, context=None, **settings):
        self.folder = folder
        (folder / "versions").mkdir(parents=True)
        server = db.server
        url = (
            f"mysql+mysqldb://{server.user}:{server.password}@{server.host}:{server.port}/{db.name}"
        )
        env = ENV.format(url=url, settings=settings, context=context or {})
        (folder / "env.py").write_text(env)
        (folder / "alembic.ini").write_text("[alembic]\nscript_location = %(here)s\n")

    def add(self, name, before, up, down=("pass",)):
        """Write a revision, by the lines of its functions."""
        lines = {"up": up, "down": down}
        text = {key: "\n".join(f"    {line}" for line in found) for key, found in lines.items()}
        path = self.folder / "versions" / f"{name}.py"
        path.write_text(REVISION.format(name=name, before=before, **text))

    def start(self, *arguments, **environment):
        """Start a command of Alembic's."""
        return subprocess.Popen(
            [sys.executable, "-m", "alembic", *arguments],
            cwd=self.folder,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def upgrade(self, target):
        """Upgrade in this process; return the error with its notes, empty without one."""
        try:
            command.upgrade(Config(self.folder / "alembic.ini"), target)
        except Exception as error:
            return "\n".join([str(error), *getattr(error, "__notes__", ())])
        return ""

    def run(self, *arguments):
        """Run a command of Alembic's; return its exit code and what it has printed."""
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=SECONDS)
        return process.returncode, output
