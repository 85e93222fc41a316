"""The operator's command, which sends the application to the other server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.checkpoint.record import MoveNote, home_of
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure
from spirit_py.events.swap import MoveSwitching
from spirit_py.hooks import call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.move.run import MoveRun
    from spirit_py.table.names import Name


class SwitchFailed(MigrationFailure, code=ErrorCode.SWITCH_FAILED):
    """The operator's command has failed; the tables are as before the switch."""


def run_switch_command(run: MoveRun, tables: Sequence[Name], *, back: bool = False) -> str:
    """Run the operator's command; return why it failed, empty where it did not."""
    config = run.config
    told = MoveSwitching(
        tables=[".".join(name) for name in tables],
        source=", ".join(one.address for one in config.origins),
        target=", ".join(one.address for one in config.targets),
        shards={one.name: one.connection.address for one in config.shards},
        sources={one.name: one.connection.address for one in config.sources},
        back=back,
    )
    run.tell(told)
    run.show("the command of --on-switch")
    result = call(config.on_switch, told, seconds=config.switch_timeout)
    run.show("")
    return ": ".join([result.why, *result.lines[:1]]) if result.trouble else ""


def note_away(session: SqlSession, tables: Sequence[Name], *, away: bool) -> None:
    """Note whether the tables of all sources are out of the way; ServerFault if impossible."""
    home = CheckpointTable(*home_of(tables))
    note = home.read(session, MoveNote)
    if note is not None:
        home.write(session, replace(note, away=away))


def note_switched(session: SqlSession, tables: Sequence[Name]) -> None:
    """Note that the operator's command has run."""
    home = CheckpointTable(*home_of(tables))
    note = home.read(session, MoveNote)
    if note is not None:
        home.write(session, replace(note, switched=True))
