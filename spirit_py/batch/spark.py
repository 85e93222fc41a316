"""One Spark for all migrations of a batch.

A process has one Spark at a time (:class:`spirit_py.spark.engine.SparkEngine`), and its start costs
seconds. Each migration gets a lease, which it starts and stops like an engine of its own; the
engine behind it is started once and stopped at the end of the batch. A lease shows as many slots as
its migration may use: the gangs of all then find room beside each other. Where Spark is lost, the
migrations under way go on in threads of the driver, and the next one brings another Spark.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.config import MigrationConfig
    from spirit_py.errors import SpiritError
    from spirit_py.spark.gang import GangEngine
    from spirit_py.spark.outcome import Outcome

_R = TypeVar("_R")


class SharedSpark:
    """Makes the engine when the first migration needs one. Thread-safe.

    Args:
        factory: makes the engine.
        config: that of the whole batch, with all slots.
    """

    def __init__(
        self, factory: Callable[[MigrationConfig], GangEngine], config: MigrationConfig
    ) -> None:
        self._factory = factory
        self._config = config
        self._lock = threading.Lock()
        self._engine: GangEngine | None = None

    def lease(self, config: MigrationConfig) -> SparkLease:
        """Return the engine of one migration, with the threads of its configuration as slots.

        Raises:
            Refusal: for settings that cannot be, and without a usable Java.
        """
        with self._lock:
            if self._engine is not None and self._engine.failure is not None:
                self._engine.stop()
                self._engine = None
            if self._engine is None:
                self._engine = self._factory(self._config)
            return SparkLease(self._engine, config.threads)

    def stop(self) -> None:
        """Stop the engine, if there is one."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.stop()


class SparkLease:
    """Spark as one migration sees it; see :class:`spirit_py.spark.gang.GangEngine`."""

    def __init__(self, engine: GangEngine, slots: int) -> None:
        self._engine = engine
        self._slots = slots
        self._ended = False

    @property
    def in_process(self) -> bool:
        """Whether the tasks are threads of this process."""
        return self._engine.in_process

    @property
    def ready(self) -> bool:
        """Whether a gang would begin at once."""
        return self._engine.ready and not self._ended

    @property
    def failure(self) -> SpiritError | None:
        """Why it will never be ready."""
        return self._engine.failure

    @property
    def slots(self) -> int:
        """How many tasks of this migration can run at the same time."""
        return min(self._slots, self._engine.slots)

    def run_gang(
        self, function: Callable[[int], _R], *, size: int, group: str, description: str
    ) -> list[Outcome[_R]]:
        """Run ``function(rank)`` in ``size`` tasks at once; block until all have ended."""
        return self._engine.run_gang(function, size=size, group=group, description=description)

    def cancel(self, group: str) -> None:
        """Cancel the jobs of a group."""
        self._engine.cancel(group)

    def start(self) -> None:
        """Begin to start Spark."""
        self._engine.start()

    def stop(self) -> None:
        """End the lease; Spark itself goes on for the next migration."""
        self._ended = True
