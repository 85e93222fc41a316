"""A server that is told to lack what its version has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.mysql.capabilities import Capability

if TYPE_CHECKING:
    import pytest


def lack(monkeypatch: pytest.MonkeyPatch, *missing: Capability) -> None:
    """Have the program of this process go by a server that cannot do these."""
    really = Capability.of
    monkeypatch.setattr(
        Capability, "of", lambda self, version: self not in missing and really(self, version)
    )
