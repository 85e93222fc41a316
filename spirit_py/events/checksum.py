"""Events of a comparison: its passes, its differences, and rows in doubt (pure)."""

from __future__ import annotations

from spirit_py.events.event import Event, Level, aside, event


@event("checksum.begun", "comparing {said}", detail=True)
class ChecksumBegun(Event):
    """A table is compared; ``reason`` says why once more, and is None for the first time."""

    target: str
    columns: int
    key: str
    reason: str | None
    said: str = aside()


@event(
    "checksum.resumed",
    "the checksum of {table} goes on where the earlier run's stopped: {target} was not written to"
    " since",
)
class ChecksumResumed(Event):
    """An earlier run's comparison counts."""

    target: str = aside()


@event("checksum.restarted", "the checksum of {table} starts from the beginning: {reason}")
class ChecksumRestarted(Event):
    """An earlier run's comparison does not count."""

    reason: str


@event(
    "checksum.done",
    "checksum of {table} clean: {rows:# row} compared in pass {passes}, {differences:# difference},"
    " {repaired_chunks:# chunk} repaired",
)
class ChecksumDone(Event):
    """A comparison has ended; in a migration with a clean pass."""

    rows: int
    passes: int
    differences: int
    repaired_chunks: int
    lock_held_ms: float
    seconds: float
    remaining: int | None = aside(default=None)

    @property
    def sentence(self) -> str:
        """The figures; of ``spirit-py checksum``, how many rows differ in the end."""
        if self.remaining is None:
            return super().sentence
        return f"compared {self.rows} rows: {self.remaining} differ"


@event("differences.found", level="warning")
class RowsDiffer(Event):
    """Rows differ in a pass."""

    rows: int
    passes: int
    examples: list[str]

    @property
    def sentence(self) -> str:
        """How many, and the first of them."""
        first = f": {self.examples[0]}" if self.examples else ""
        return f"{self.rows} rows of {self.table} differ in pass {self.passes}{first}"


@event("differences.repaired", "{rows:# row} of {table} repaired")
class DifferencesRepaired(Event):
    """The rows that differ were copied again."""

    rows: int
    passes: int


@event(
    "doubts.compared",
    "{rows} rows of {table} that a failed cascade may have changed were compared: {differences}"
    " differ",
)
class DoubtsCompared(Event):
    """Rows in doubt were compared."""

    rows: int
    differences: int
    examples: list[str]

    @property
    def level(self) -> Level:
        """A warning, where one differs."""
        return "warning" if self.differences else "info"
