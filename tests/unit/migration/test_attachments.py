"""What is attached to swapped tables, on a server that is in trouble."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from spirit_py.errors import ServerFault
from spirit_py.migration.swap import attachments
from spirit_py.migration.swap.attachments import SwapAttachments
from spirit_py.threads import StopSwitch

READ_ONLY = 1290


def test_what_is_left_after_the_swap_is_settled_on_a_server_that_was_read_only(monkeypatch):
    """It is read-only for a moment, and nobody has to run the command again."""
    tried: list[object] = []

    def settle(_process: object, session: object, _names: object, **_: object) -> None:
        tried.append(session)
        if len(tried) < 2:
            raise ServerFault(READ_ONLY, "not now", where="attached")

    monkeypatch.setattr(attachments, "settle_left", settle)
    monkeypatch.setattr(attachments, "connect", lambda *_, **__: nullcontext())
    process: Any = SimpleNamespace(stop=StopSwitch(), config=SimpleNamespace(connection=None))
    left = SwapAttachments(job=process, swaps=(), carried=lambda key: key)
    noted: Any = True
    monkeypatch.setattr(left, "_noted", noted)
    left.finish()
    assert len(tried) == 2
