"""One process that runs ``spirit-py migrate`` itself, from the first question to the last drop."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

# Its statements are known from then on.
import tests.simulation.catalog  # noqa: F401
from tests.simulation import program
from tests.simulation.primitives import stand_in

with stand_in():
    from spirit_py.binlog import resumption
    from spirit_py.checkpoint import proofs
    from spirit_py.chunk import sizing
    from spirit_py.codes import ErrorCode
    from spirit_py.config import ConnectionOptions, FeedOptions, MigrationConfig
    from spirit_py.errors import Refusal, SpiritError
    from spirit_py.events.run import Warned
    from spirit_py.migration.migration import run_migration
    from spirit_py.migration.run import Run
    from spirit_py.threads import StopSwitch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.simulation.server import Server

setattr(resumption, "BinlogConnection", program.dump)  # noqa: B010 (its type is another one)
# A table of a few rows is several chunks, and a chunk several transactions.
setattr(sizing, "FLOOR_ROWS", 2)  # noqa: B010
setattr(sizing, "CEILING_ROWS", 4)  # noqa: B010
setattr(sizing, "FEWEST_PART_ROWS", 2)  # noqa: B010


#: How every command reaches the model server, and how its feeds are made small.
SERVER = ConnectionOptions(
    host="sim", user="u", password="p", ssl_mode="DISABLED", origin="00112233"
)
FEED = FeedOptions(flush_interval=0.5, wait_timeout=10, batch_rows=3, apply_threads=2)


def no_java(_: Any) -> Any:
    """Refuse to make an engine of Spark."""
    raise Refusal("no Java", hint="", error_code=ErrorCode.JAVA_MISSING)


class Silent:
    """A reporter that shows nothing; ``warned`` has the texts of warnings."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.warned: list[str] = []

    def start(self) -> None:
        """Show nothing."""

    def event(self, event: Any) -> None:
        """Add it to the story, if somebody reads that."""
        if isinstance(event, Warned):
            self.warned.append(event.said)
        scheduler = self._server.scheduler
        if scheduler.telling:
            scheduler.tell(event.line)

    def progress(self, snapshot: Any) -> None:
        """Show nothing."""

    def stop(self) -> None:
        """Show nothing."""


class WholeRun:
    """One process with the command; see :class:`tests.simulation.program.Run`.

    Attributes:
        repairs: rows that differ are repaired, as they have to be where changes are hidden.
        rolling: the comparison has a snapshot for each piece, and no lock.
        choices: of the configuration, beside what is the same in all worlds.
        reporter: what hears its events.
        run: the program's own; None before it begins.
        exit_code: as of the process.
        failure: what it ended with.
    """

    run: Run | None = None

    def __init__(
        self,
        server: Server,
        *,
        repairs: bool = True,
        rolling: bool = False,
        choices: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.server = server
        self.choices = choices
        self.rolling = rolling
        self.repairs = repairs
        self.done = False
        self.error = ""
        self.exit_code = 0
        self.failure: SpiritError | None = None
        self.stop = StopSwitch()
        self.reporter = Silent(server)
        program.serve(server)

    def main(self) -> None:
        """Run the command to its end."""
        # Of the process before, whose threads are gone.
        proofs._MUTEXES.clear()
        try:
            self.command()
        except SpiritError as error:
            self.failure, self.exit_code = error, error.exit_code
            self.error = f"{type(error).__name__}: {error.message}"
        else:
            self.done = True

    def command(self) -> None:
        """Run the command, as it was configured."""
        config = MigrationConfig(
            connection=SERVER,
            database="s",
            table="t",
            alter="ADD COLUMN n INT",
            no_shortcut=True,
            threads=2,
            aggressive=True,
            max_lag=None,
            min_free_disk=0,
            cutover_timeout=600.0,
            no_repair=not self.repairs,
            checksum="rolling" if self.rolling else "snapshot",
            feed=FEED,
        )
        config = replace(config, **self.choices)
        run = self.run = Run(config, self.reporter, engine_factory=no_java, stop=self.stop)
        run_migration(run)
