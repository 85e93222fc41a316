"""The fixtures live in plugins, one topic each."""

pytest_plugins = [
    "tests.fix_cases",
    "tests.fix_feed",
    "tests.fix_lane",
    "tests.fix_mysql",
    "tests.fix_proxy",
    "tests.fix_spark",
]
