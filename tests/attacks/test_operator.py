"""An operator who may ask a run for things, with the grants that the documentation gives him.

He may pause, abort and set. He may do nothing else with the migrator's rights.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import MySQLdb
import pytest

from spirit_py.checkpoint.codec import to_text
from spirit_py.checkpoint.live import Request
from spirit_py.checkpoint.queue import RequestQueue
from spirit_py.locks.named import take_named_lock
from spirit_py.mysql.connect import connect
from tests.attacks.victim import run
from tests.kits.connection import connection_options
from tests.kits.held_command import assert_migrated
from tests.kits.waiting import until

pytestmark = pytest.mark.timeout(400)
COPY = "chunk.committed"
DOCUMENTED = (
    "SELECT, INSERT, DELETE ON {schema}._t_ctl",
    "SELECT ON {schema}._t_chkpnt",
)
GREEDY = "GRANT ALL ON *.* TO operator"
HOSTILE = [
    f"'); {GREEDY}; -- ",
    f"`; {GREEDY}; `",
    "\x1b[2J\x1b]0;owned\x07",
    "../../etc/passwd",
    "{0.__class__}%s%n",
    "\ud800",
]


def rows() -> list[str]:
    """Return rows that he writes: malformed, huge, deep, and requests with hostile fields."""
    request = json.loads(to_text(Request.of("pause", {})))
    texts: list[Any] = ["", "null", "[]", "{}", "[" * 5000, "9" * 5000, json.dumps({"format": 1e9})]
    for field in request:
        for text in HOSTILE:
            value = {text: text} if isinstance(request[field], dict) else text
            texts.append(json.dumps({**request, field: value}))
    texts.append(json.dumps({**request, "verb": "x" * 3_000_000}))
    return texts


def test_nothing_that_an_operator_writes_is_executed(victim, tmp_path):
    """Whatever is in his rows, the run ends as it would have, and nobody has new rights (R26)."""
    before = victim.accounts() | {"operator"}
    with victim.migrating(tmp_path, hooks="small-chunks,quick-control") as (command, listener):
        hold = listener.hold(COPY)
        command.wait_held(hold)
        place = f"`{victim.db.name}`._t_ctl"
        operator = victim.attacker("operator", *DOCUMENTED)
        for text in rows():
            written = text.encode(errors="replace").decode()
            run(operator, f"INSERT INTO {place} (record) VALUES (%s)", (written,))
        queue, asked = RequestQueue(victim.db.name, "t"), Request.of("set", {"nice": "0.25"})
        with connect(connection_options(victim.db), role="test") as session:
            take_named_lock(session, asked.lock)
            number = queue.put(session, asked)
            # Requests are read in their order.
            answer = until(partial(queue.answer_to, session, number, asked.token), "the answer")
        assert "nice is 0.25" in answer.said[0]
        hold.release()
        command.finish()
    assert_migrated(victim.db)
    assert victim.accounts() == before
    granted = " ".join(str(row) for row in victim.db.query("SHOW GRANTS FOR operator"))
    assert "ALL PRIVILEGES" not in granted
    assert "\x1b" not in command.said


FORBIDDEN = (
    "REPLACE INTO {0}._t_chkpnt (id, record) VALUES (1, '{{}}')",
    "UPDATE {0}._t_chkpnt SET record = '{{}}'",
    "DELETE FROM {0}._t_chkpnt",
    "ALTER TABLE {0}._t_ctl ADD COLUMN x INT",
    "DROP TABLE {0}._t_ctl",
    "CREATE TRIGGER {0}.x BEFORE INSERT ON {0}._t_ctl FOR EACH ROW SET @a = 1",
    "DELETE FROM {0}._t_new",
    "INSERT INTO {0}.t VALUES (1, 1, 'x')",
)


def test_an_operator_may_not_write_what_a_run_carries_on_from(victim, tmp_path):
    """The server itself refuses him: the documented grants are on the table of requests alone."""
    with victim.migrating(tmp_path, hooks="small-chunks,quick-control") as (command, listener):
        hold = listener.hold(COPY)
        command.wait_held(hold)
        operator = victim.attacker("operator", *DOCUMENTED)
        for statement in FORBIDDEN:
            with pytest.raises(MySQLdb.OperationalError, match=r"denied|do not have"):
                run(operator, statement.format(f"`{victim.db.name}`"))
        hold.release()
        command.finish()
    assert_migrated(victim.db)
