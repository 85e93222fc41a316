"""The fixtures live in plugins, one topic each."""

import os

# No test reads the option files of whoever runs it, except those about them.
os.environ["SPIRIT_PY_NO_DEFAULTS"] = "1"
os.environ["MYSQL_TEST_LOGIN_FILE"] = "/dev/null/no-login-path"

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
