"""One Spark for the whole test session, started when the first test asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spirit_py.spark.options import SparkOptions
from spirit_py.spark.session import SparkEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOTS = 2


@pytest.fixture(scope="session")
def spark_engine() -> Iterator[SparkEngine]:
    """Return a started engine with two slots; tests must not stop it."""
    engine = SparkEngine(SparkOptions(master=f"local[{SLOTS},4]", threads=SLOTS))
    try:
        engine.start()
        engine.context()
        yield engine
    finally:
        engine.stop()
