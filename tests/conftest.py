"""The fixtures live in plugins, one topic each."""

import atexit
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

#: Variables for the tests themselves; others are for the program, and reach no test from outside.
OWN_VARIABLES = re.compile(
    r"SPIRIT_PY_((TEST|LANE|SEMISYNC|FAULTS|CASES?|ATTACHED|FUZZ|ORPHAN)_\w+"
    r"|CACHE|DRAW|GENTLE|GOLDEN_UPDATE|LANE|PAGES|RENEW_SCREENS|SEED|SEMISYNC)"
)
#: The one file of options that no setting of a process hides from the program.
SYSTEM_FILE = Path("/etc/spirit-py/config.toml")


def leave_out_whoever_runs_them() -> None:
    """Give the tests an environment and a home without the settings of whoever runs them."""
    for name in [one for one in os.environ if one.startswith("SPIRIT_PY_")]:
        if not OWN_VARIABLES.fullmatch(name):
            del os.environ[name]
    # No test reads the option files of whoever runs it, except those about them.
    os.environ["SPIRIT_PY_NO_DEFAULTS"] = "1"
    os.environ["MYSQL_TEST_LOGIN_FILE"] = "/dev/null/no-login-path"
    if "PYTEST_XDIST_WORKER" not in os.environ:  # A worker has the home of the first process.
        # Images may come from a registry that asks who it is.
        docker = os.path.expanduser("~/.docker")  # noqa: PTH111 - Path's raises without a home
        os.environ.setdefault("DOCKER_CONFIG", docker)
        home = os.environ["HOME"] = tempfile.mkdtemp(prefix="spirit-py-home-")
        atexit.register(shutil.rmtree, home, ignore_errors=True)


@pytest.fixture(autouse=True)
def _handlers_are_put_back() -> Iterator[None]:
    """Put handlers of signals back: one that a test leaves fails others that its process runs."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) != handler:
            signal.signal(number, handler)


def pytest_configure() -> None:
    """Refuse a machine whose own settings every command would read."""
    if SYSTEM_FILE.exists():
        raise pytest.UsageError(f"commands under test would read {SYSTEM_FILE}: move it aside")


leave_out_whoever_runs_them()

pytest_plugins = [
    "tests.fixtures.cases",
    "tests.fixtures.delays",
    "tests.fixtures.events",
    "tests.fixtures.feed",
    "tests.fixtures.lane",
    "tests.fixtures.mysql",
    "tests.fixtures.proxy",
    "tests.fixtures.seconds",
    "tests.fixtures.spark",
    "tests.fixtures.told",
]
