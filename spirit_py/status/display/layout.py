"""Lays a snapshot out in lines, without I/O: right at any width from 60 columns on, never wrapped.

A block is a label and *facts*, short phrases that are never broken: as many as fit stand in a line.
Where the screen is too low, the lines that matter least are left out first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.text import Text

from spirit_py.phases import Phase
from spirit_py.status.display.words import (
    UNICODE,
    Glyphs,
    bar,
    duration,
    history,
    printable,
    shortened,
)
from spirit_py.status.snapshot import BatchStatus, MigrationStatus
from spirit_py.units import human_bytes, human_count, human_percent, of_about

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LABEL: Final = 10
_LEAST_WIDTH: Final = 40
_HISTORY_WIDTH: Final = 24
_BAR_WIDTH: Final = 60
#: Lines of one fact that is longer than a line.
_MOST_LINES: Final = 3
_WORKING: Final = {
    Phase.PREFLIGHT: "checking the table and the server",
    Phase.SHORTCUT: "trying INSTANT and INPLACE",
    Phase.CREATE: "creating the new table",
    Phase.COPY: "copying rows",
    Phase.INDEX: "the server builds indexes",
    Phase.DRAIN: "applying the changes that wait",
    Phase.ANALYZE: "the server renews the statistics of the new table",
    Phase.CHECKSUM: "comparing rows",
    Phase.SENTINEL: "the cutover is deferred",
    Phase.CUTOVER: "swapping the tables",
    Phase.KEEP: "keeping the old table up to date",
    Phase.GRACE: "the old table is kept for a while",
    Phase.CLEANUP: "dropping what is not needed any more",
}


@dataclass(frozen=True)
class Block:
    """One label with its facts.

    Attributes:
        weight: blocks of the smallest weight are left out first where there is no room.
    """

    label: str
    facts: Sequence[Text]
    weight: int = 5


@dataclass(frozen=True, kw_only=True)
class Room:
    """The room there is, and what to draw with.

    Attributes:
        width: columns that may be used.
        height: lines that may be used.
    """

    width: int
    height: int = 1000
    glyphs: Glyphs = field(default=UNICODE)


def render(snapshot: MigrationStatus | BatchStatus, page: Room) -> list[Text]:
    """Return the lines of the screen."""
    page = Room(width=max(_LEAST_WIDTH, page.width), height=page.height, glyphs=page.glyphs)
    if isinstance(snapshot, BatchStatus):
        return _batch(snapshot, page)
    name = printable(snapshot.table).strip(".") or "spirit-py"
    head = [_head(name, snapshot.elapsed, page), _steps(snapshot, page)]
    return _fitted(head, _blocks(snapshot, page), page)


def _fitted(head: list[Text], blocks: Sequence[Block], page: Room) -> list[Text]:
    """Return the lines of all blocks for which there is room, in their order."""
    laid = [(block, _laid_out(block, page)) for block in blocks]
    while len(laid) > 1 and len(head) + sum(len(lines) for _, lines in laid) > page.height:
        laid.remove(min(laid, key=lambda one: one[0].weight))
    return [*head, *(line for _, lines in laid for line in lines)][: max(1, page.height)]


# -- one migration


def _head(name: str, elapsed: float, page: Room) -> Text:
    """Return a rule with a name in it, and the time of the run at the right end."""
    spent, rule = f" {duration(elapsed)}", page.glyphs.empty
    name = shortened(name, page.width - len(spent) - 6, page.glyphs.more)
    gap = page.width - cell_len(name) - len(spent) - 4
    return Text.assemble(
        (rule * 2 + " ", "dim"), (name, "bold"), " ", (rule * gap, "dim"), (spent, "bold")
    )


def _steps(seen: MigrationStatus, page: Room) -> Text:
    """Return the phases as a line of steps: done, now with its time, to come."""
    glyphs = page.glyphs
    done = list(dict.fromkeys(phase.value for phase, _ in seen.passed if phase is not seen.phase))
    now = f"{glyphs.now} {seen.phase.value} {duration(seen.phase_elapsed)}"
    come = [phase.value for phase in seen.to_come]
    long_done = "".join(f"{glyphs.done} {name}  " for name in done)
    short_done = f"{glyphs.done} {len(done)} done  " if done else ""
    for before in (long_done, short_done):
        for kept in range(len(come), -1, -1):
            more = f"  +{len(come) - kept}" if kept < len(come) else ""
            after = "".join(f"  {name}" for name in come[:kept]) + more
            if before == long_done and kept < len(come):
                break
            if cell_len(before + now + after) <= page.width:
                return Text.assemble((before, "green"), (now, "bold cyan"), (after, "dim"))
    return Text.assemble((now, "bold cyan"))


def _blocks(seen: MigrationStatus, page: Room) -> list[Block]:
    return [
        *_work(seen, page),
        *_rest(seen),
        *_changes(seen),
        *_binlog(seen),
        *_throttle(seen),
        *_checkpoint(seen),
        _now(seen),
        *([Block("note", [Text(printable(seen.note))], 6)] if seen.note else []),
    ]


def _work(seen: MigrationStatus, page: Room) -> list[Block]:
    """Return the phase's own work: bar, rows, speed, chunks."""
    if seen.rows is None and seen.fraction is None:
        return []
    known = f" {human_percent(seen.fraction):>6}" if seen.fraction is not None else " unknown"
    end = f"  ETA {duration(seen.eta)}" if seen.eta is not None else "  ETA unknown"
    room = page.width - LABEL - 1 - len(known) - max(len(end), 13)
    full, empty = bar(seen.fraction, min(_BAR_WIDTH, room), page.glyphs)
    line = Text.assemble((full, "cyan"), (empty, "dim"), (known, "bold"), end)
    label = {Phase.COPY: "copy", Phase.INDEX: "indexes"}.get(seen.phase, "checksum")
    blocks = [Block(label, [line], 9)]
    if seen.rows is not None:
        total = of_about(seen.rows_total)
        if seen.fraction == 1.0:
            total = ""
        rows = [Text(f"{human_count(seen.rows)}{total} rows")]
        if seen.rows_total is None and seen.fraction is None:
            rows.append(Text("how many there are is not known", "dim"))
        blocks.append(Block("", rows, 8))
    speed = []
    if seen.rate is not None:
        speed.append(Text(f"{human_count(seen.rate)} rows/s"))
        if seen.byte_rate is not None:
            speed.append(Text(f"{human_bytes(seen.byte_rate)}/s"))
        if drawn := history(seen.history, _HISTORY_WIDTH, page.glyphs.levels):
            speed.append(Text(drawn, "cyan"))
    if seen.chunk_rows and seen.chunk_seconds is not None:
        took = duration(seen.chunk_seconds)
        speed.append(Text(f"chunks of {human_count(seen.chunk_rows)} in {took}"))
    if seen.tasks is not None:
        most = f" of {seen.tasks_most}" if seen.tasks_most is not None else ""
        speed.append(Text(f"{seen.tasks}{most} tasks"))
    if speed:
        blocks.append(Block("", speed, 4))
    return blocks


def _rest(seen: MigrationStatus) -> list[Block]:
    """Return how long it takes until the swap, and the phases that come before it."""
    if not seen.run_eta_parts:
        return []
    whole = f"about {duration(seen.run_eta)}" if seen.run_eta is not None else "unknown time"
    facts = [Text(f"{whole} until {seen.run_eta_until}", "" if seen.run_eta is not None else "dim")]
    for phase, seconds in seen.run_eta_parts.items():
        if phase not in {seen.phase.value, Phase.CUTOVER.value}:
            about = f"~{duration(seconds)}" if seconds is not None else "unknown"
            facts.append(Text(f"{phase} {about}"))
    return [Block("whole run", facts, 7)]


def _changes(seen: MigrationStatus) -> list[Block]:
    """Return the change feed."""
    if seen.pending is None:
        return []
    lag = "lag unknown" if seen.feed_lag is None else f"{duration(seen.feed_lag)} behind"
    late = seen.feed_lag is not None and seen.feed_lag > _LATE
    facts = [
        Text(f"{human_count(seen.pending)} pending ({human_bytes(seen.buffered_bytes)})"),
        Text(lag, "yellow" if late else ""),
    ]
    if seen.received_rate is not None and seen.applied_rate is not None:
        rates = (
            f"{human_count(seen.received_rate)}/s in, {human_count(seen.applied_rate)}/s applied"
        )
        facts.append(Text(rates))
    if seen.deduplicated_part is not None:
        facts.append(Text(f"{human_percent(seen.deduplicated_part)} deduplicated"))
    if seen.parked:
        facts.append(Text(f"parked: {seen.parked}", "yellow"))
    return [Block("changes", facts, 7)]


#: A lag beyond this is worth a colour, seconds.
_LATE: Final = 10.0
#: So is a binlog that is kept for less than this.
_SOON: Final = 6 * 3600.0


def _binlog(seen: MigrationStatus) -> list[Block]:
    """Return how far the binlog reaches."""
    facts = []
    if seen.binlog_left is not None:
        soon = "yellow" if seen.binlog_left < _SOON else ""
        facts.append(Text(f"kept for {duration(seen.binlog_left)} more", soon))
    if seen.binlog_older is not None:
        facts.append(Text(f"{human_bytes(seen.binlog_older)} from the oldest file"))
    if seen.binlog_unread:
        facts.append(Text(f"{human_bytes(seen.binlog_unread)} unread"))
    return [Block("binlog", facts, 2)] if facts else []


def _throttle(seen: MigrationStatus) -> list[Block]:
    """Return what holds the work back, or slows it down."""
    if seen.throttled:
        same = seen.throttled == seen.waiting_for
        why = "holds work back" if same else f"waits for {printable(seen.throttled)}"
        return [Block("throttle", [Text(why, "yellow")], 7)]
    if seen.pace:
        return [Block("throttle", [Text(f"slower: {printable(seen.pace)}")], 5)]
    if seen.tasks is not None:
        return [Block("throttle", [Text("none")], 3)]
    return []


def _checkpoint(seen: MigrationStatus) -> list[Block]:
    """Return when the place was saved from which another run would carry on."""
    if seen.checkpoint_age is None:
        return []
    return [Block("checkpoint", [Text(f"{duration(seen.checkpoint_age)} ago")], 3)]


def _now(seen: MigrationStatus) -> Block:
    """Return what it waits for, or else what it does."""
    if not seen.waiting_for:
        return Block("now", [Text(_WORKING.get(seen.phase, seen.phase.value))], 6)
    waited = "" if seen.waited is None else f" (for {duration(seen.waited)})"
    return Block("waiting", [Text(f"for {printable(seen.waiting_for)}{waited}", "yellow")], 10)


# -- a batch


def _batch(seen: BatchStatus, page: Room) -> list[Text]:
    """Return the counts on top, then a compact block for each table that is under way."""
    lines = [_head(printable(seen.described), seen.elapsed, page)]
    for place, one in enumerate(seen.tables):
        block = _compact(one, page)
        rest = len(seen.tables) - place
        if len(lines) + len(block) + (rest > 1) > page.height:
            lines.append(Text(f"{page.glyphs.more} and {rest} more", "dim"))
            break
        lines += block
    return lines


def _compact(seen: MigrationStatus, page: Room) -> list[Text]:
    """Return the lines of a table: name, phase and bar; then at most two of other figures."""
    width, glyphs = page.width, page.glyphs
    known = f"{human_percent(seen.fraction):>6}" if seen.fraction is not None else " " * 6
    end = f" ETA {duration(seen.eta)}" if seen.eta is not None else ""
    bar_width = max(6, width // 6)
    phase = f" {seen.phase.value:<9} "
    room = width - len(phase) - bar_width - len(known) - 12
    name = shortened(printable(seen.table), room, glyphs.more)
    full, empty = bar(seen.fraction, bar_width, glyphs)
    first = Text.assemble(
        name,
        " " * (room - cell_len(name)),
        (phase, "cyan"),
        (full, "cyan"),
        (empty, "dim"),
        (known, "bold"),
        end,
    )
    facts = []
    if seen.rows is not None:
        total = of_about(seen.rows_total)
        facts.append(Text(f"{human_count(seen.rows)}{total} rows"))
    if seen.rate is not None:
        facts.append(Text(f"{human_count(seen.rate)} rows/s"))
    if seen.pending:
        facts.append(Text(f"{human_count(seen.pending)} pending"))
    if seen.waiting_for:
        facts.append(Text(f"waiting for {printable(seen.waiting_for)}", "yellow"))
    if seen.run_eta is not None:
        facts.append(Text(f"about {duration(seen.run_eta)} until {seen.run_eta_until}"))
    if not facts:
        return [first]
    return [first, *_laid_out(Block("", facts), page, indent=2)[:2]]


# -- facts into lines


def _laid_out(block: Block, page: Room, *, indent: int = LABEL + 1) -> list[Text]:
    """Return a block's lines: as many facts as fit in each, a longer one over several."""
    room = page.width - indent
    lines: list[Text] = []
    for fact in _pieces(block.facts, room, page.glyphs):
        last = lines[-1] if lines else None
        if last is not None and last.cell_len + len(page.glyphs.between) + fact.cell_len <= room:
            last.append(page.glyphs.between, "dim").append_text(fact)
        else:
            lines.append(fact.copy())
    label = block.label if indent > LABEL else ""
    heads = [label, *[""] * len(lines)]
    return [
        Text.assemble((f"{head:<{indent}}", "dim"), line)
        for head, line in zip(heads, lines, strict=False)
    ]


def _pieces(facts: Iterable[Text], room: int, glyphs: Glyphs) -> Iterable[Text]:
    """Yield facts; one that is longer than a line in pieces, at blanks where there are some."""
    for fact in facts:
        if fact.cell_len <= room:
            yield fact
            continue
        style, words = fact.style, fact.plain.split(" ")
        lines = [""]
        for word in words:
            piece = shortened(word, room, glyphs.more)
            joined = f"{lines[-1]} {piece}".lstrip()
            if cell_len(joined) <= room:
                lines[-1] = joined
            else:
                lines.append(piece)
        if len(lines) > _MOST_LINES:
            rest = shortened(" ".join(lines[_MOST_LINES - 1 :]), room, glyphs.more)
            lines = [*lines[: _MOST_LINES - 1], rest]
        yield from (Text(line, style) for line in lines)
