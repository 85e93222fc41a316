"""Where Alembic's settings come from, and what the example's template keeps."""

from __future__ import annotations

import configparser
import shutil
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from alembic import command
from alembic.config import Config

from spirit_py.frameworks.alembic import changing
from tests.kits.example_projects import EXAMPLES

if TYPE_CHECKING:
    from alembic.ddl.impl import DefaultImpl


def test_settings_may_be_any_mapping(monkeypatch):
    """A section of a configuration parser is one, and no dict; it comes before the ini file."""
    parser = configparser.ConfigParser()
    parser.read_string("[spirit_py]\nnice = 0.5\nthreads = 2\n")
    file = SimpleNamespace(
        get_section=lambda _: {"nice": "1", "lock_timeout": "3", "here": "/x"},
        file_config=SimpleNamespace(defaults=lambda: {"here": "/x"}),
    )
    monkeypatch.setattr("alembic.context.config", file, raising=False)
    impl = SimpleNamespace(context_opts={"spirit_py": parser["spirit_py"]})
    found = changing._settings(cast("DefaultImpl", impl))
    assert found == {"nice": "0.5", "threads": "2", "lock_timeout": "3"}


def test_a_revision_of_the_example_keeps_what_it_depends_on(tmp_path):
    """And its branch: without them Alembic runs the migrations in another order."""
    shutil.copytree(EXAMPLES / "alembic" / "migrations", tmp_path / "migrations")
    config = Config()
    config.set_main_option("script_location", str(tmp_path / "migrations"))
    command.revision(config, rev_id="0004", depends_on="0002", branch_label="shop")
    ((made,),) = [list((tmp_path / "migrations" / "versions").glob("0004*.py"))]
    found: dict[str, object] = {}
    exec(compile(made.read_text(), made, "exec"), found)  # noqa: S102 - it was made here
    assert (found["down_revision"], found["depends_on"]) == ("0003", "0002")
    assert found["branch_labels"] == ("shop",)
