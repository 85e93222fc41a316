"""The scene that tests of whole feeds in memory share."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tests.kits.feed_scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Return a scene, whose feeds end with the test without a thread left."""
    made = Scene()
    yield made
    made.applier.gate.set()
    for feed in made.feeds:
        feed.close()
    assert not [t.name for t in threading.enumerate() if t.name.startswith("spirit-py-feed")]
