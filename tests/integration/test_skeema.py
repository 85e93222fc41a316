"""The wrapper line for Skeema in docs/other-tools.md, expanded as Skeema expands it.

Skeema replaces each ``{NAME}`` by a value, in single quotes where not all characters are plain,
and hands the line to ``/bin/sh -c`` (its internal/shellout package).
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kits.waiting import DEADLINE

PAGE = Path(__file__).parent.parent.parent / "docs" / "other-tools.md"
CLAUSES = (
    "ADD COLUMN `a'b \"c` varchar(40) NOT NULL DEFAULT 'it''s $HOME; `x` \\\\ 100% {DDL}'"
    " COMMENT 'line\none #2 !', DROP COLUMN `old col`, ADD KEY `k` (`a'b \"c`)"
)


def lines():
    """Return the wrapper lines of the page."""
    return re.findall(r'^alter-wrapper="(.*)"$', PAGE.read_text(), re.MULTILINE)


def expanded(line, variables):
    """Expand a line: a name may end in X, which only hides the value where it is shown."""

    def value(found):
        name = found[1].upper()
        text = variables.get(name, variables.get(name.removesuffix("X")))
        assert text is not None, f"Skeema has no {name}"
        plain = re.fullmatch(r"[\w/@%=:.,+-]*", text, re.ASCII)
        return text if plain else "'" + text.replace("'", "'\"'\"'") + "'"

    return re.sub(r"\{(\w+)\}", value, line)


@pytest.fixture
def shop(db, tmp_path):
    """A table of Skeema's, and what its variables are for a change of it."""
    db.execute("CREATE TABLE `my t'able` (id INT PRIMARY KEY, `old col` INT)")
    db.execute("INSERT INTO `my t'able` VALUES (1, 2)")
    server = db.server
    wrapper = tmp_path / "spirit-py"
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m spirit_py "$@"\n')
    wrapper.chmod(0o755)
    return {
        "HOST": server.host,
        "PORT": str(server.port),
        "SOCKET": "",
        "USER": server.user,
        "PASSWORD": server.password,
        "SCHEMA": db.name,
        "TABLE": "my t'able",
        "CLAUSES": CLAUSES,
        "DDL": f"ALTER TABLE `my t'able` {CLAUSES}",
        "SIZE": "16384",
    }


@pytest.mark.slow
@pytest.mark.parametrize("number", range(2))
def test_the_wrapper_line_survives_odd_characters(db, shop, tmp_path, number):
    """Quotes, line ends, signs of the shell and braces reach the server as Skeema wrote them."""
    line = [one for one in lines() if "{SOCKET}" not in one][number]
    ran = subprocess.run(
        ["/bin/sh", "-c", expanded(line, shop)],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    ((_, definition),) = db.query("SHOW CREATE TABLE `my t'able`")
    assert "`a'b \"c` varchar(40) NOT NULL DEFAULT 'it''s $HOME; `x` \\\\ 100% {DDL}'" in definition
    assert "COMMENT 'line\\none #2 !'" in definition
    assert "old col" not in definition


def test_the_line_for_a_socket_has_no_port(shop):
    """Skeema leaves {PORT} empty for a socket: an option without its value would take the next."""
    (line,) = [one for one in lines() if "{SOCKET}" in one]
    assert "{PORT}" not in line
    assert "{HOST}" not in line
    assert "--socket /run/my.sock " in expanded(line, {**shop, "SOCKET": "/run/my.sock"})
