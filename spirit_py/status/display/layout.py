"""Lay a snapshot out in lines, without I/O: from 60 columns on, never wrapped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from spirit_py.classes import dataclass, field
from spirit_py.phases import Phase
from spirit_py.progress import BatchStatus, MigrationStatus
from spirit_py.status.wording import rows_of
from spirit_py.units import duration, human_percent, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, kw_only=True)
class Glyphs:
    """What the screen is drawn with; ``levels`` are of a small history, from the lowest."""

    done: str = "✓"
    now: str = "▸"
    full: str = "━"
    empty: str = "─"
    more: str = "…"
    between: str = " · "
    levels: str = "▁▂▃▄▅▆▇█"


UNICODE: Final = Glyphs()
ASCII: Final = Glyphs(done="+", now=">", full="#", empty="-", more="~", between=", ", levels="")


def shortened(text: str, width: int, more: str = UNICODE.more) -> str:
    """Return a text of at most so many cells, without its middle where it is wider."""
    if cell_len(text) <= width:
        return text
    room = max(0, width - cell_len(more))
    head = set_cell_size(text, room - room // 2)
    tail = set_cell_size(text[::-1], room // 2)[::-1]
    return f"{head.rstrip()}{more}{tail.lstrip()}"


def history(values: Sequence[float], width: int, levels: str) -> str:
    """Draw the last values as columns; the highest of them is the full height."""
    shown = values[-width:]
    if len(shown) < 2 or not levels:
        return ""
    most = max(shown) or 1.0
    top = len(levels) - 1
    return "".join(levels[round(max(0.0, value) / most * top)] for value in shown)


def bar(fraction: float | None, width: int, glyphs: Glyphs) -> tuple[str, str]:
    """Return the full and the empty part of a bar; all empty where nothing is known."""
    full = int(width * min(1.0, fraction or 0.0))
    return glyphs.full * full, glyphs.empty * (width - full)


LABEL: Final = 10
_LEAST_WIDTH: Final = 40
_HISTORY_WIDTH: Final = 24
_BAR_WIDTH: Final = 60
#: Lines of one fact: at least and at most, and the part of the screen between these.
_FEWEST_LINES: Final = 3
_MOST_LINES: Final = 8
_PART_OF_SCREEN: Final = 3
_COMPACT: Final = {"rows", "speed", "whole run", "changes", "waiting"}


@dataclass(frozen=True)
class Block:
    """One label with its facts."""

    label: str
    facts: Sequence[Text]
    weight: int = 5


@dataclass(frozen=True, kw_only=True)
class Room:
    """The columns and lines that may be used, and what to draw with."""

    width: int
    height: int = 1000
    glyphs: Glyphs = field(default=UNICODE)


def render(snapshot: MigrationStatus | BatchStatus, page: Room) -> list[Text]:
    """Return the lines of the screen."""
    page = Room(width=max(_LEAST_WIDTH, page.width), height=page.height, glyphs=page.glyphs)
    if isinstance(snapshot, BatchStatus):
        return _batch(snapshot, page)
    name = one_line(snapshot.table).strip(".") or "spirit-py"
    head = [_head(name, snapshot.elapsed, page), _steps(snapshot, page)]
    return _fitted(head, _blocks(snapshot, page), page)


def _fitted(head: list[Text], blocks: Sequence[Block], page: Room) -> list[Text]:
    laid = [(block, _laid_out(block, page)) for block in blocks]
    while len(laid) > 1 and len(head) + sum(len(lines) for _, lines in laid) > page.height:
        laid.remove(min(laid, key=lambda one: one[0].weight))
    return [*head, *(line for _, lines in laid for line in lines)][: max(1, page.height)]


def _head(name: str, elapsed: float, page: Room) -> Text:
    spent, rule = f" {duration(elapsed)}", page.glyphs.empty
    name = shortened(name, page.width - len(spent) - 6, page.glyphs.more)
    gap = page.width - cell_len(name) - len(spent) - 4
    return Text.assemble(
        (rule * 2 + " ", "dim"), (name, "bold"), " ", (rule * gap, "dim"), (spent, "bold")
    )


def _steps(seen: MigrationStatus, page: Room) -> Text:
    glyphs = page.glyphs
    # One that has tried, and not made, the change in place would look as if it had.
    untold = {seen.phase, Phase.SHORTCUT}
    done = list(dict.fromkeys(phase.shown for phase, _ in seen.passed if phase not in untold))
    now = f"{glyphs.now} {seen.phase.shown} {duration(seen.phase_elapsed)}"
    come = [phase.shown for phase in seen.to_come]
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
    blocks = [_work(seen, page)] if seen.rows is not None or seen.fraction is not None else []
    for row in rows_of(seen, seen.phase.value):
        facts = [Text(one_line(one.text), one.tone) for one in row.facts if not one.drawn]
        curve = history(seen.history, _HISTORY_WIDTH, page.glyphs.levels)
        if row.label == "speed" and curve:
            facts.insert(2, Text(curve, "cyan"))
        if facts:
            label = "" if row.label in {"rows", "speed"} else row.label
            blocks.append(Block(label, facts, row.weight))
    return blocks


def _work(seen: MigrationStatus, page: Room) -> Block:
    known = f" {human_percent(seen.fraction):>6}" if seen.fraction is not None else " unknown"
    end = f"  ETA {duration(seen.eta)}" if seen.eta is not None else "  ETA unknown"
    room = page.width - LABEL - 1 - len(known) - max(len(end), 13)
    full, empty = bar(seen.fraction, min(_BAR_WIDTH, room), page.glyphs)
    line = Text.assemble((full, "cyan"), (empty, "dim"), (known, "bold"), end)
    label = {Phase.COPY: "copy", Phase.INDEX: "indexes"}.get(seen.phase, "checksum")
    return Block(label, [line], 9)


def _batch(seen: BatchStatus, page: Room) -> list[Text]:
    lines = [_head(one_line(seen.described), seen.elapsed, page)]
    for place, one in enumerate(seen.tables):
        block = _compact(one, page)
        rest = len(seen.tables) - place
        if len(lines) + len(block) + (rest > 1) > page.height:
            lines.append(Text(f"{page.glyphs.more} and {rest} more", "dim"))
            break
        lines += block
    return lines


def _compact(seen: MigrationStatus, page: Room) -> list[Text]:
    width, glyphs = page.width, page.glyphs
    known = f"{human_percent(seen.fraction):>6}" if seen.fraction is not None else " " * 6
    end = f" ETA {duration(seen.eta)}" if seen.eta is not None else ""
    bar_width = max(6, width // 6)
    phase = f" {seen.phase.shown:<9} "
    room = width - len(phase) - bar_width - len(known) - 12
    name = shortened(one_line(seen.table), room, glyphs.more)
    full, empty = bar(seen.fraction, bar_width, glyphs)
    name += " " * (room - cell_len(name))
    first = Text.assemble(name, (phase + full, "cyan"), (empty, "dim"), (known, "bold"), end)
    facts = [
        Text(f"{'waiting ' if row.label == 'waiting' else ''}{one_line(one.text)}", one.tone)
        for row in rows_of(seen, seen.phase.value)
        for one in row.facts[:1]
        if row.label in _COMPACT and one.brief and not one.drawn
    ]
    if not facts:
        return [first]
    laid = _laid_out(Block("", facts), page, indent=2, most=_FEWEST_LINES)
    return [first, *laid[: _FEWEST_LINES + 1 if seen.waiting_for else 2]]


def _laid_out(
    block: Block, page: Room, *, indent: int = LABEL + 1, most: int = _MOST_LINES
) -> list[Text]:
    room = page.width - indent
    most = min(most, max(_FEWEST_LINES, page.height // _PART_OF_SCREEN))
    lines: list[Text] = []
    for fact in _pieces(block.facts, room, page.glyphs, most):
        last = lines[-1] if lines else None
        if last is not None and last.cell_len + len(page.glyphs.between) + fact.cell_len <= room:
            last.append(page.glyphs.between, "dim").append_text(fact)
        else:
            lines.append(fact.copy())
    heads = [block.label if indent > LABEL else "", *[""] * len(lines)]
    return [
        Text.assemble((f"{head:<{indent}}", "dim"), line)
        for head, line in zip(heads, lines, strict=False)
    ]


def _pieces(facts: Iterable[Text], room: int, glyphs: Glyphs, most: int) -> Iterable[Text]:
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
        if len(lines) > most:
            lines = [*lines[: most - 1], shortened(" ".join(lines[most - 1 :]), room, glyphs.more)]
        yield from (Text(line, style) for line in lines)
