"""How much is done under the lock of a swap, while the application waits."""

from __future__ import annotations

import pytest

from spirit_py import points
from spirit_py.mysql.session import Session
from tests.kits.engine import ThreadEngine
from tests.kits.migrate import config_for, migrate_here

#: Of one table with nothing attached to it; each further one is a round trip of the application's.
MOST_STATEMENTS = 26


@pytest.fixture(name="sent")
def _sent(monkeypatch):
    """Return the statements that the locking session sends while it holds the lock."""
    found, held = [], []

    def passed(name):
        if name == "cutover.locked":
            held.append(name)
        elif name == "cutover.renamed":
            held.clear()

    monkeypatch.setattr(points, "_listener", "here")
    monkeypatch.setattr(points, "_announce", passed)
    for name in ("execute", "query", "execute_packet"):
        real = getattr(Session, name)

        def noted(self, sql, *more, real=real):
            if held and self.role == "cutover":
                found.append(" ".join(str(sql).split()))
            return real(self, sql, *more)

        monkeypatch.setattr(Session, name, noted)
    return found


def test_the_lock_is_held_for_few_statements(db, sent):
    """With the proofs of R15, R24 and R25, and the snapshot guard."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
    db.execute("INSERT INTO t (v) VALUES (1), (2)")
    report, _ = migrate_here(
        ThreadEngine(), config_for(db, table="t", alter="ADD COLUMN z INT", no_shortcut=True)
    )
    assert report.snapshot_guard == "done"
    assert "RENAME TABLE" in sent[-1]
    assert len(sent) <= MOST_STATEMENTS, "\n".join(sent)
