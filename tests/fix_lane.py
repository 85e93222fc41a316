"""What a regression lane (ci/lane.py) demands of a test run beside passing tests."""

from __future__ import annotations

import os

import pytest

#: Set by a lane: a skipped test fails the run.
LANE_VARIABLE = "SPIRIT_PY_LANE"
#: The beginning of the version that every server of the run must have.
SERIES_VARIABLE = "SPIRIT_PY_LANE_MYSQL"
#: OFF has the usual server of the tests run without GTIDs.
GTID_VARIABLE = "SPIRIT_PY_LANE_GTID"


class NoSkips:
    """Fails a run in which a test was skipped, or expected to fail."""

    def __init__(self) -> None:
        self.skipped: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember a test that did not run to its end."""
        if report.skipped:
            self.skipped.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember a module that was skipped whole."""
        if report.skipped:
            self.skipped.append(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run."""
        if self.skipped and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say which tests they were."""
        for name in self.skipped:
            terminalreporter.write_line(f"a lane must not skip: {name}", red=True)


def pytest_configure(config: pytest.Config) -> None:
    """Watch for skips in a lane."""
    if os.environ.get(LANE_VARIABLE):
        config.pluginmanager.register(NoSkips(), "no-skips")


def check_series(version: str, origin: str) -> None:
    """Refuse a server that is not of the series that the lane is about.

    Raises:
        pytest.UsageError: naming both.
    """
    series = os.environ.get(SERIES_VARIABLE, "")
    if not version.startswith(series):
        raise pytest.UsageError(
            f"this lane is about MySQL {series}, and the server {origin} is {version}"
        )
