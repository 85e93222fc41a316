"""The process of one server, as its coordinator starts it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spirit_py.errors import MigrationFailure
from spirit_py.fleet.process import ServerProcess, ServerWork

if TYPE_CHECKING:
    from spirit_py.fleet.process import Told


def test_an_error_that_nobody_expected_is_told_by_the_process_itself() -> None:
    """It ends in order, though a thread reads its input: an abort leaves a core dump (R20)."""
    heard: list[Told] = []
    nothing: Any = None
    ServerProcess(ServerWork(server="db1", batch=nothing), heard.append).run()
    (told,) = heard
    assert isinstance(told, MigrationFailure)
    assert told.message.startswith("AttributeError: ")
    assert "carry_out" in "\n".join(told.details)
