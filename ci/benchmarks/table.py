"""The outcomes as text: times, costs, and the ratios with their goals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import turn
from benchmarks.contenders import OURS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.scenario import Figure, Outcome
    from benchmarks.turn import Turn

_KINDS = ("server", "driver", "jvm", "workers", "tool", "application", "elsewhere")
#: Seconds that are worth a line.
_SHOWN = 0.05


def lines(outcome: Outcome) -> list[str]:
    """Return an outcome as lines."""
    said = [f"== {outcome.scenario}: {outcome.rows:,} rows, {outcome.took:.0f} s in all"]
    if outcome.turns:
        said += _contenders(outcome.turns)
        said += _where(turn.of(outcome.turns, OURS))
    said += [f"   {name}: {value}" for name, value in outcome.notes.items()]
    return said + figures(outcome.figures)


def figures(found: Sequence[Figure]) -> list[str]:
    """Return the ratios as lines."""
    said = [f"   {'compared':28}{'ours':>10}{'peer':>10}  {'':3}{'ratio':>6}  {'goal':>5}"]
    for each in found:
        goal = f"{each.goal:5.2f}" if each.goal is not None else ""
        missed = "  missed" if each.missed else ""
        said.append(
            f"   {each.name:28}{each.ours:10.2f}{each.peer:10.2f}  {each.unit:3}{each.ratio:6.2f}"
            f"  {goal:>5}  : {each.against}{missed}"
        )
    return said


def _contenders(turns: Sequence[Turn]) -> list[str]:
    """Return a line for each contender: medians."""
    loaded = any(each.before for each in turns)
    head = f"   {'median of rounds':28}{'whole':>8}{'spread':>8}{'MiB':>8}"
    head += "".join(f"{'CPU ' + kind:>16}" for kind in _kinds(turns))
    if loaded:
        head += f"{'p50':>13}{'p99 ms':>15}{'longest ms':>17}"
    said = [head]
    for name in dict.fromkeys(each.contender for each in turns):
        mine = turn.of(turns, name)
        failed = [each for each in turns if each.contender == name and each.failed]
        if mine:
            cpu = turn.of_cpu(mine)
            line = f"   {name:28}{turn.median(each.seconds for each in mine) or 0:7.1f}s"
            line += f"{100 * turn.spread(each.seconds for each in mine):7.0f}%"
            line += f"{(turn.median(each.size for each in mine) or 0) / (1 << 20):8.0f}"
            line += "".join(f"{cpu.get(kind, 0):15.1f}s" for kind in _kinds(turns))
            said.append(line + (_writes(mine) if loaded else ""))
        said += [f"   {name:28}FAILED: {each.failed.splitlines()[0]}" for each in failed]
    return said


def _kinds(turns: Sequence[Turn]) -> list[str]:
    """Return the kinds of processes that were there."""
    return [kind for kind in _KINDS if any(each.cpu.get(kind) for each in turns)]


def _writes(turns: Sequence[Turn]) -> str:
    """Return the application's latencies, before and during, as the end of a line."""
    said = ""
    for name, width in (("p50", 13), ("p99", 15), ("longest", 17)):
        pair = [turn.of_writes(turns, span, name) for span in ("before", "during")]
        said += f"{f'{pair[0] or 0:.1f} > {pair[1] or 0:.1f}':>{width}}"
    return said


def _where(turns: Sequence[Turn]) -> list[str]:
    """Return where our time goes: each phase with its CPU, and the server's threads."""
    said = []
    for name, seconds in turn.of_phases(turns).items():
        spent = {
            kind: turn.median(each.phase_cpu.get(name, {}).get(kind) for each in turns) or 0.0
            for kind in _kinds(turns)
        }
        if seconds >= _SHOWN:
            said.append(
                f"     {name:14}{seconds:7.2f} s{_waits(turns, name)}   CPU: {_listed(spent)}"
            )
    roles = dict.fromkeys(role for each in turns for role in each.server_threads)
    threads = {
        role: turn.median(each.server_threads.get(role, 0.0) for each in turns) or 0.0
        for role in roles
    }
    if threads:
        said.append(f"     server: {_listed(threads)}")
    first = turn.median(each.first_row for each in turns)
    if first is not None:
        said.append(f"     first row after {first:.2f} s")
    return said


def _waits(turns: Sequence[Turn], phase: str) -> str:
    """Return how long the application's writes took in a phase."""
    found = [each.phase_writes[phase] for each in turns if phase in each.phase_writes]
    if not found:
        return ""
    p99, longest = (
        turn.median(getattr(each, name) for each in found) for name in ("p99", "longest")
    )
    return f"   p99 {p99 or 0:6.1f} ms, longest {longest or 0:6.1f}"


def _listed(seconds: Mapping[str, float]) -> str:
    """Return the entries that are not negligible, as text."""
    shown = [f"{name} {spent:.1f}" for name, spent in seconds.items() if spent >= _SHOWN]
    return ", ".join(shown) or "-"
