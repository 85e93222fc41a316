"""Runs that are ended in the middle still end what they have started."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

CI = Path(__file__).resolve().parents[2] / "ci"
SCRIPT = f"""
import sys
sys.path.insert(0, {str(CI)!r})
from seeded_runs import end_on_sigterm
end_on_sigterm()
try:
    print("begun", flush=True)
    sys.stdin.read()
finally:
    print("ending", flush=True)
    sys.stdin.read()
    print("ended", flush=True)
"""


def test_a_second_sigterm_does_not_cut_the_end_short() -> None:
    """Who ends a group of processes sends it to each, and each sends it to those that it ends."""
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "begun\n"
        run.send_signal(signal.SIGTERM)
        assert run.stdout.readline() == "ending\n"
        run.send_signal(signal.SIGTERM)
        assert run.communicate("")[0] == "ended\n"
    assert run.returncode == 128 + signal.SIGTERM
