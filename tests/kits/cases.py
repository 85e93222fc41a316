"""A case played through the command's entry point, in this process.

The first chunks are handed out only after every writer of the case has written again, so that rows
change between the moment a chunk is cut and the moment it is copied; and one chunk is held up in
its first part, between its reading and its writing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
from typing import TYPE_CHECKING, Any
from unittest import mock

from spirit_py.chunk import sizing
from spirit_py.chunk.sizing import ChunkSizer
from spirit_py.cli import migrate as command
from spirit_py.cli.changes import migration_config
from spirit_py.config import FeedOptions
from spirit_py.copier.chunk_sql import copy_sql
from spirit_py.copier.copier import Copier
from spirit_py.errors import SpiritError
from spirit_py.migration import entry
from tests.kits.draw import DRAW_VARIABLE
from tests.kits.engine import SharedEngine
from tests.kits.reporter import RecordingReporter
from tests.oracle.scene import Outcome
from tests.oracle.stall import Stalls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest

    from spirit_py.spark.gang import GangEngine
    from tests.fixtures.mysql import Database
    from tests.oracle.case import Case


#: Whether the cases' indexes are built after the copy: ``on``, ``off`` or, empty, drawn.
DEFERRAL_VARIABLE = "SPIRIT_PY_CASES_DEFER_INDEXES"
THREADS = 2
FIRST_ROWS = 60
#: Rows of a part of a chunk.
PART_ROWS = 60
#: So many chunks wait for the writers; the later ones have them as they come.
WAITING_CHUNKS = 6
#: This chunk is held up in the middle, for so many rounds of writes; in cases about that for more,
#: so that some of them are to its few rows.
STALLED_CHUNK = 2
ROUNDS_OF_STALL = 3
ROUNDS_OF_LONG_STALL = 25
#: Changes are applied all the time in small batches, so that they meet chunks in flight.
FEED = FeedOptions(flush_interval=0.05, batch_rows=100)
#: After the last checksum a batch holds several images of a key, which is where it goes wrong.
LATE_FEED = FeedOptions(flush_interval=0.2, batch_rows=100)
#: The one checksum is over when the writes begin, and none may come after them.
DEFERRED = ("--defer-cutover", "--recheck-interval", "1h", "--no-repair")


def small_chunks(patch: pytest.MonkeyPatch) -> None:
    """Have tables cut into chunks of a few parts, so small that there are many."""
    defaults: Any = ChunkSizer.__init__.__kwdefaults__
    patch.setitem(defaults, "first_rows", FIRST_ROWS)
    patch.setattr(sizing, "FAST_GROWTH", sizing.GROWTH)
    for limit in ("FEWEST_PART_ROWS", "MOST_PART_ROWS"):
        patch.setattr(sizing, limit, PART_ROWS)


@contextlib.contextmanager
def stalling(db: Database, round_of_writes: Callable[[], None], rounds: int) -> Iterator[Stalls]:
    """Have the copies in this block wait for the case's writers, and one chunk of each held up.

    Args:
        round_of_writes: returns when every writer has written again.
        rounds: that a chunk is held up for.
    """

    def some_rounds() -> None:
        for _ in range(rounds):
            round_of_writes()

    stalls = Stalls(db, some_rounds)
    choose, note = Copier._next, Copier._committed
    held: dict[tuple[int, int], contextlib.ExitStack] = {}

    def choosing(self: Any, rank: int) -> Any:
        chosen = choose(self, rank)
        if chosen is not None and chosen.number < WAITING_CHUNKS:
            round_of_writes()
        if chosen is not None and chosen.number == STALLED_CHUNK:
            stack = held[id(self), chosen.number] = contextlib.ExitStack()
            sql = copy_sql(self._mapping, chosen.order.chunk.parts[0])
            stack.enter_context(stalls.held(sql, self._mapping.time_zone))
        return chosen

    def noting(self: Any, copied: Any) -> None:
        for one in copied:
            held.pop((id(self), one.number), contextlib.ExitStack()).close()
        note(self, copied)

    with (
        mock.patch.object(Copier, "_next", choosing),
        mock.patch.object(Copier, "_committed", noting),
    ):
        try:
            yield stalls
        finally:
            for stack in held.values():
                stack.close()


def deferral(case: Case) -> str:
    """Return whether a case's indexes are built after the copy: half of the cases', drawn."""
    drawn = random.Random(f"deferred {os.environ.get(DRAW_VARIABLE, '')} {case.name}")
    return os.environ.get(DEFERRAL_VARIABLE) or drawn.choice(("on", "off"))


def case_arguments(case: Case, db: Database) -> list[str]:
    """Return the words of a case behind ``spirit-py migrate``."""
    server = db.server
    table = "`" + case.expect.table.replace("`", "``") + "`"
    what = (
        ["--statement", case.statement.replace("{table}", table)]
        if case.statement
        else ["--table", case.expect.table, "--alter", case.alter]
    )
    return [
        *("--host", server.host, "--port", str(server.port)),
        *("--user", server.user, "--password", server.password),
        *("--database", db.name, *what, "--threads", str(THREADS)),
        *("--target-chunk-time", "0.02"),
        *([] if case.expect.shortcut else ["--no-shortcut"]),
        *(("--keep", case.expect.keep) if case.expect.keep else ()),
        *("--defer-indexes", deferral(case)),
        *(DEFERRED if case.timing.deferred else ()),
        *case.expect.arguments,
    ]


def migrate(
    case: Case,
    db: Database,
    another_round: Callable[[], None],
    feed: FeedOptions | None = None,
    *,
    engine: GangEngine,
    folder: Path,
    archives: bool = False,
) -> Outcome:
    """Run the command in this process, on the engine of the tests.

    Args:
        archives: archive what ``--keep`` leaves out in the folder, below the schema's name.
    """
    path = folder / "report.json"
    arguments = [*case_arguments(case, db), "--report-json", str(path)]
    if archives and case.expect.keep:
        arguments += ["--archive-to", str(folder / db.name)]
    config = migration_config(command.migrate.make_context("migrate", arguments).params)
    config = dataclasses.replace(config, feed=feed or (LATE_FEED if case.timing.deferred else FEED))
    reporter = RecordingReporter()
    shared: Any = SharedEngine(engine)
    try:
        rounds = ROUNDS_OF_LONG_STALL if case.expect.stalled else ROUNDS_OF_STALL
        with stalling(db, another_round, rounds) as stalls:
            entry.migrate(config, reporter=reporter, engine_factory=lambda _: shared)
        assert stalls.seen or not case.expect.stalled, "no chunk was held up"
    except SpiritError as error:
        text = "\n".join([error.message, *error.details, error.hint])
        return Outcome(exit_code=error.exit_code, text=text, report=json.loads(path.read_text()))
    finally:
        print(reporter.text)  # noqa: T201 -- shown when the case fails
    report = json.loads(path.read_text())
    assert len(report["archived"]) == (1 if config.archive_to else 0)
    return Outcome(exit_code=0, text=reporter.text, report=report)
