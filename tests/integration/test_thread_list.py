"""The threads of the program: docs/threads.md lists them, and there are no others."""

from __future__ import annotations

import re
from pathlib import Path

from spirit_py.threads import Background
from tests.kits.engine import ThreadEngine
from tests.kits.migrate import config_for, migrate_here
from tests.kits.waiting import until

ROOT = Path(__file__).parent.parent.parent
DEFAULT, OTHERS = (ROOT / "docs" / "threads.md").read_text().split("## With Spark")
#: So many may run at the same time in a default run, the main thread among them.
MOST = 26
#: Parts of a name that the program fills in.
FILLED = re.compile(r"ADDRESS|NUMBER|NAME")


def listed(text):
    """Return the names in the first column of a table."""
    cells = re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall("`([^`]+)`", cell)}


def test_a_default_run_has_the_threads_that_are_listed(db, monkeypatch):
    """Each of them is started, no other one is, and they have all ended after it."""
    started, most, start = {}, [0], Background.start

    def counted(self):
        started[self._thread.name.removeprefix("spirit-py-")] = self
        start(self)
        most[0] = max(most[0], sum(one.running for one in started.values()))

    monkeypatch.setattr(Background, "start", counted)
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
    db.execute("INSERT INTO t (v) VALUES (1), (2)")
    config = config_for(db, table="t", alter="ADD COLUMN z INT", no_shortcut=True)
    migrate_here(ThreadEngine(), config)
    assert set(started) == listed(DEFAULT)
    assert most[0] + 1 <= MOST
    until(lambda: not any(one.running for one in started.values()), "all of them have ended")


def test_every_thread_that_the_program_starts_is_listed():
    """Also those of options and other commands."""
    sources = [path.read_text() for path in (ROOT / "spirit_py").rglob("*.py")]
    found = {name for text in sources for name in re.findall(r'Background\(\s*f?"([^"]+)"', text)}
    started = {name: re.compile(re.sub(r"\{.*?\}", ".+", name)) for name in found}
    known = [FILLED.sub("x", name) for name in listed(DEFAULT) | listed(OTHERS)]
    assert len(found) > 20
    assert [name for name, one in started.items() if not any(map(one.fullmatch, known))] == []


def test_what_is_listed_beside_a_default_run_can_be_started():
    """Each whole name stands somewhere; those of a default run are seen to be started."""
    source = "".join(path.read_text() for path in (ROOT / "spirit_py").rglob("*.py"))
    whole = [name for name in listed(OTHERS) if not FILLED.search(name)]
    assert len(whole) > 20
    assert [name for name in whole if f'"{name}"' not in source] == []
