"""Runs a large transaction past a feed in a process of its own, and looks at its memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.fixtures.mysql import Database

CHILD = Path(__file__).with_name("feed_memory_child.py")
MIB = 1 << 20


def follow(db: Database, columns: str, statement: str, soft_limit: int) -> dict[str, Any]:
    """Let a feed follow one statement that fills ``t (columns)``; both tables must agree.

    Returns:
        What the child said, with ``grown``: bytes that its memory grew by, at most.
    """
    db.execute(f"CREATE TABLE t ({columns})")
    db.execute("CREATE TABLE _t_new LIKE t")
    db.execute("ALTER TABLE _t_new ADD x INT DEFAULT 7")
    server = db.server
    asked = {
        "host": server.host,
        "port": server.port,
        "user": server.user,
        "schema": db.name,
        "soft_limit_bytes": soft_limit,
    }
    with subprocess.Popen(
        [sys.executable, str(CHILD), json.dumps(asked)],
        env=os.environ
        | {"SPIRIT_PY_PASSWORD": server.password, "PYTHONPATH": str(CHILD.parents[2])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        base = json.loads(child.stdout.readline())["base"]
        db.execute("SET SESSION cte_max_recursion_depth = 10000000")
        db.execute(statement)
        child.stdin.write("drain\n")
        child.stdin.flush()
        said: dict[str, Any] = json.loads(child.stdout.readline())
    assert child.returncode == 0
    assert said["flushed"]
    counted = "SELECT COUNT(*), SUM(CRC32(CONCAT_WS('#', id, v))) FROM "
    assert db.query(f"{counted} _t_new") == db.query(f"{counted} t")
    return said | {"grown": said["peak"] - base}


def many_rows(count: int, value: str) -> str:
    """Return the statement that inserts so many rows in one transaction; ``i`` is the key."""
    return (
        "INSERT INTO t WITH RECURSIVE s AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM s WHERE"
        f" i < {count}) SELECT i, {value} FROM s"
    )
