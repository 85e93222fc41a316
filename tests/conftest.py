"""The fixtures live in plugins, one topic each."""

import os

# No test makes or uses an archive of Spark's classes, except those about it.
os.environ["XDG_CACHE_HOME"] = "/dev/null/no-cache"

pytest_plugins = [
    "tests.fixtures.cases",
    "tests.fixtures.feed",
    "tests.fixtures.lane",
    "tests.fixtures.mysql",
    "tests.fixtures.proxy",
    "tests.fixtures.spark",
]
