"""The throttlers of a migration, put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.migration.surroundings import surroundings
from spirit_py.throttle.backlog import Backlog
from spirit_py.throttle.load import ServerLoad
from spirit_py.throttle.throttles import Throttles

if TYPE_CHECKING:
    from spirit_py.contracts import ChangeSource
    from spirit_py.migration.run import Run


def begin_throttling(run: Run, feed: ChangeSource) -> None:
    """Let the rest of the run ask the throttlers before each piece of work."""
    throttles = Throttles(run.settings, tell=run.message)
    # First, because the application's changes go before everything of ours.
    throttles.add(Backlog(feed.statistics))
    throttles.add(ServerLoad(run.config.connection, run.settings, run.stop))
    for throttler, first in surroundings(run):
        throttles.add(throttler, first=first)
    run.closing("the throttlers", throttles.close)
    throttles.start()
    run.pace = throttles
    run.figures.throttles = throttles
