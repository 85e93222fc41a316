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
BEGUN = re.compile(r'(?:[Bb]ackground|side_by_side)\(\s*f?"([^"]+)"')
POOL = re.compile(r'thread_name_prefix="(?:spirit-py-)?([^"]+)"')


def listed(text):
    """Return the names in the first column of a table."""
    cells = re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall("`([^`]+)`", cell)}


def begun():
    """Return the names by which the program starts threads, alone or in pools."""
    sources = [path.read_text() for path in (ROOT / "spirit_py").rglob("*.py")]
    found = {name for text in sources for name in re.findall(BEGUN, text)}
    pools = {f"{name}_{{number}}" for text in sources for name in re.findall(POOL, text)}
    return found | pools


def test_a_default_run_has_the_threads_that_are_listed(db, monkeypatch):
    """Each of them is started, no other one is, and they have all ended after it."""
    started, most, start = {}, [0], Background.start

    def counted(self):
        started[self._thread.name.removeprefix("spirit-py-")] = self
        start(self)
        most[0] = max(most[0], sum(one.running for one in list(started.values())))

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
    found = begun()
    started = {name: re.compile(re.sub(r"\{.*?\}", ".+", name)) for name in found}
    known = [FILLED.sub("x", name) for name in listed(DEFAULT) | listed(OTHERS)]
    assert len(found) > 20
    assert [name for name, one in started.items() if not any(map(one.fullmatch, known))] == []


def test_what_is_listed_beside_a_default_run_can_be_started():
    """Each has its place in the program; those of a default run are seen to be started."""
    started = [re.compile(re.sub(r"\{.*?\}", ".+", name)) for name in begun()]
    names = {name: FILLED.sub("x", name) for name in listed(OTHERS)}
    assert len(names) > 20
    assert [name for name, one in names.items() if not any(s.fullmatch(one) for s in started)] == []
