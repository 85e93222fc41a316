"""The live display on a terminal (rich)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from spirit_py.events import SHOWN_OTHERWISE
from spirit_py.phases import Phase
from spirit_py.status.snapshot import BatchStatus
from spirit_py.units import human_bytes, human_count, human_percent, human_seconds

if TYPE_CHECKING:
    from rich.console import RenderableType

    from spirit_py.events import Event
    from spirit_py.status.snapshot import MigrationStatus

_SHOWN = (
    Phase.PREFLIGHT,
    Phase.CREATE,
    Phase.COPY,
    Phase.DRAIN,
    Phase.CHECKSUM,
    Phase.CUTOVER,
    Phase.CLEANUP,
)


class ConsoleReporter:
    """Shows messages above a small live panel; leaves the terminal as it was."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console if console is not None else Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=4, transient=True)

    def start(self) -> None:
        """Begin the live display."""
        self._live.start()

    def stop(self) -> None:
        """End the live display; the last panel is wiped, the messages stay."""
        self._live.stop()

    def event(self, event: Event) -> None:
        """Print one event above the panel."""
        if event.name not in SHOWN_OTHERWISE:
            self._console.print(Text(event.line))

    def progress(self, snapshot: MigrationStatus | BatchStatus) -> None:
        """Redraw the panel; of a batch, one for each table that is under way."""
        if isinstance(snapshot, BatchStatus):
            self._live.update(render_batch(snapshot))
        else:
            self._live.update(render(snapshot))


def render_batch(snapshot: BatchStatus) -> RenderableType:
    """Lay a batch out: the counts on top, then the tables that are under way."""
    head = Text(f"{snapshot.described}  ({human_seconds(snapshot.elapsed)})", style="bold")
    return Group(head, *(render(one) for one in snapshot.tables))


def render(snapshot: MigrationStatus) -> RenderableType:
    """Lay a snapshot out: phases on top, then progress, feed, and what it waits for."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column()
    grid.add_row("table", f"{snapshot.table}  ({human_seconds(snapshot.elapsed)})")
    grid.add_row("phase", _phases(snapshot))
    if snapshot.rows is not None:
        total = f" of ~{human_count(snapshot.rows_total)}" if snapshot.rows_total else ""
        grid.add_row(
            "rows", f"{human_count(snapshot.rows)}{total}  {human_percent(snapshot.fraction)}"
        )
        grid.add_row(
            "speed",
            f"{human_count(snapshot.rate)} rows/s   ETA {human_seconds(snapshot.eta)}   chunk "
            f"{human_count(snapshot.chunk_rows)} rows in {human_seconds(snapshot.chunk_seconds)}",
        )
    if snapshot.pending is not None:
        grid.add_row(
            "changes",
            f"{human_count(snapshot.received)} received   "
            f"{human_count(snapshot.applied)} applied   "
            f"{human_count(snapshot.pending)} pending "
            f"({human_bytes(snapshot.buffered_bytes)})   "
            f"feed lag {human_seconds(snapshot.feed_lag)}",
        )
    if snapshot.pace:
        grid.add_row("pace", snapshot.pace)
    grid.add_row("waiting", snapshot.waiting_for or "for nothing")
    if snapshot.note:
        grid.add_row("note", snapshot.note)
    if snapshot.fraction is None:
        return grid
    return Group(ProgressBar(total=1.0, completed=min(snapshot.fraction, 1.0), width=60), grid)


def _phases(snapshot: MigrationStatus) -> Text:
    """Show the line of phases with the current one marked."""
    line = Text()
    shown = snapshot.path or _SHOWN
    for phase in shown:
        style = "reverse bold" if phase is snapshot.phase else "dim"
        line.append(f" {phase.value} ", style=style)
    if snapshot.phase not in shown:
        line.append(f" {snapshot.phase.value} ", style="reverse bold")
    line.append(f"  {human_seconds(snapshot.phase_elapsed)}")
    return line
