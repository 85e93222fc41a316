"""Any command of the program about the table ``t``, run to its end in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

MINUTE = 60.0


def run(db: Any, command: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run a command about ``t`` to its end."""
    server = db.server
    line = [sys.executable, "-m", "spirit_py", command, "--database", db.name, "--table", "t"]
    line += ["--host", f"{server.host}:{server.port}", "--user", server.user, *more]
    environment = {**os.environ, "SPIRIT_PY_PASSWORD": server.password}
    return subprocess.run(
        line, env=environment, capture_output=True, text=True, timeout=MINUTE, check=False
    )
