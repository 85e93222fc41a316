"""Where Alembic's settings come from."""

from __future__ import annotations

import configparser
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from spirit_py.frameworks.alembic import changing

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
