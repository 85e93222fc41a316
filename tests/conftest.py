"""The fixtures live in plugins, one topic each."""

pytest_plugins = [
    "tests.fixtures.cases",
    "tests.fixtures.feed",
    "tests.fixtures.lane",
    "tests.fixtures.mysql",
    "tests.fixtures.proxy",
    "tests.fixtures.spark",
]
