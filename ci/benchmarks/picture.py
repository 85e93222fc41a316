"""The outcomes as a picture: time by phase, CPU by process, and rows over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from benchmarks import turn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from benchmarks.scenario import Outcome
    from benchmarks.turn import Turn

_WIDTH, _ROW = 15.0, 2.6
_COLUMNS = 3
#: One colour for a phase or a kind of process in all scenarios.
_COLOURS = {
    "start": "tab:gray",
    "preflight": "tab:olive",
    "shortcut": "tab:pink",
    "create": "tab:orange",
    "copy": "tab:blue",
    "rebuild": "tab:blue",
    "index": "tab:cyan",
    "drain": "tab:brown",
    "checksum": "tab:green",
    "cutover": "tab:red",
    "end": "lightgray",
    "server": "tab:blue",
    "application": "lightgray",
    "driver": "tab:orange",
    "jvm": "tab:red",
    "workers": "tab:purple",
    "tool": "tab:orange",
}


def draw(outcomes: Sequence[Outcome], path: Path) -> bool:
    """Draw the scenarios whose contenders took turns; say whether there was one."""
    shown = [each for each in outcomes if any(not made.failed for made in each.turns)]
    if not shown:
        return False
    figure = Figure(figsize=(_WIDTH, _ROW * len(shown)), layout="constrained")
    axes = figure.subplots(len(shown), _COLUMNS, squeeze=False)
    for row, outcome in zip(axes, shown, strict=True):
        turns = [made for made in outcome.turns if not made.failed]
        by_name = {
            name: turn.of(turns, name) for name in dict.fromkeys(made.contender for made in turns)
        }
        _stacked(row[0], {name: turn.of_phases(mine) for name, mine in by_name.items()})
        row[0].set_title(f"{outcome.scenario}, {outcome.rows:,} rows: seconds by phase", loc="left")
        cpu = {name: turn.of_cpu(mine) for name, mine in by_name.items()}
        for used in cpu.values():
            used.pop("elsewhere", None)
        _stacked(row[1], cpu)
        row[1].set_title("CPU seconds by process", loc="left")
        if any(made.before for made in turns):
            _latencies(row[2], by_name)
        else:
            _curves(row[2], by_name)
    figure.savefig(path)
    return True


def _stacked(axis: Any, bars: Mapping[str, Mapping[str, float]]) -> None:
    """Draw a bar for each contender, made of parts."""
    names = list(bars)
    left = dict.fromkeys(names, 0.0)
    total = max((sum(parts.values()) for parts in bars.values()), default=0.0)
    for part in dict.fromkeys(part for parts in bars.values() for part in parts):
        values = [bars[name].get(part, 0.0) for name in names]
        # A part too thin to see needs no entry in the legend.
        label = part if max(values) > 0.01 * total else None
        starts = [left[name] for name in names]
        axis.barh(names, values, left=starts, label=label, color=_COLOURS.get(part))
        for name, value in zip(names, values, strict=True):
            left[name] += value
    axis.invert_yaxis()
    axis.legend(fontsize="x-small", loc="lower right")


def _curves(axis: Any, by_name: Mapping[str, Sequence[Turn]]) -> None:
    """Draw the rows in the new table over time, of each contender's last turn."""
    for name, turns in by_name.items():
        if turns[-1].first_row is not None:
            points = turns[-1].rows
            axis.plot([at for at, _ in points], [rows for _, rows in points], label=name)
    axis.set_title("rows in the new table over seconds", loc="left")
    axis.legend(fontsize="x-small")


def _latencies(axis: Any, by_name: Mapping[str, Sequence[Turn]]) -> None:
    """Draw the application's p99 and longest write, before and during."""
    kinds = (("p99", "before"), ("p99", "during"), ("longest", "during"))
    for place, (figure, span) in enumerate(kinds):
        values = [turn.of_writes(turns, span, figure) or 0.0 for turns in by_name.values()]
        where = [number + (place - 1) * 0.27 for number in range(len(values))]
        axis.barh(where, values, height=0.25, label=f"{figure} {span}")
    axis.set_yticks(range(len(by_name)), list(by_name))
    axis.set_xscale("log")
    axis.invert_yaxis()
    axis.set_title("the application's writes, milliseconds", loc="left")
    axis.legend(fontsize="x-small")
