"""Make a failing scenario smaller, as long as it fails in the same way."""

from __future__ import annotations

import itertools
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fuzz.judge import Verdict
    from tests.fuzz.model import Actor, Scenario

Part = TypeVar("Part")

#: A candidate that fails only now and then is tried so often.
TRIES = 2
#: So many words tell one failure from another.
_COMPARED = 12


def shrink(
    verdict: Verdict, play: Callable[[Scenario], Verdict], *, seconds: float = 240.0
) -> Verdict:
    """Return the smallest failing scenario that is found in a time.

    Args:
        play: judges a scenario.
    """
    until = time.monotonic() + seconds
    progress = True
    while progress and time.monotonic() < until:
        progress = False
        for candidate in _candidates(verdict.scenario):
            if time.monotonic() > until:
                break
            tries = (play(candidate) for _ in range(TRIES))
            worse = next((found for found in tries if alike(found, verdict)), None)
            if worse is not None:
                verdict, progress = worse, True
                break
    return verdict


def alike(one: Verdict, other: Verdict) -> bool:
    """Whether two runs failed in the same way: of one kind, and in the same words."""
    return one.kind == other.kind and _words(one.text) == _words(other.text)


def _words(text: str) -> list[str]:
    """Return the first words of a message, without names and numbers."""
    return re.findall(r"[a-z]{3,}", re.sub(r"\b\w*\d\w*\b", "", text.lower()))[:_COMPARED]


def _candidates(scenario: Scenario) -> Iterator[Scenario]:
    """Yield scenarios that are a step smaller, the largest steps first."""
    for actors in _fewer(scenario.actors):
        yield replace(scenario, actors=actors)
    if scenario.server:
        yield replace(scenario, server=())
        yield from (replace(scenario, server=server) for server in _fewer(scenario.server))
    if len(scenario.clauses) > 1:
        yield from (replace(scenario, clauses=clauses) for clauses in _fewer(scenario.clauses))
    for column in scenario.columns:
        smaller = scenario.without_column(column.name)
        if smaller.clauses and smaller.lines and any(a.units or a.once for a in smaller.actors):
            yield smaller
    if scenario.after and not scenario.invariants:
        yield replace(scenario, after=())
    for at, actor in enumerate(scenario.actors):
        for less in _less(actor):
            yield replace(
                scenario, actors=(*scenario.actors[:at], less, *scenario.actors[at + 1 :])
            )
    for lines in itertools.islice(_fewer(scenario.lines), 8):
        yield replace(scenario, lines=lines)
    if scenario.options:
        yield replace(scenario, options="")
    for rows in (10, 100):
        if scenario.rows > rows:
            yield replace(scenario, rows=rows)


def _less(actor: Actor) -> Iterator[Actor]:
    """Yield what is a part of a session."""
    if actor.once:
        yield replace(actor, once=())
    if len(actor.units) > 1:
        yield from (replace(actor, units=units) for units in _fewer(actor.units))
    yield from (replace(actor, session=session) for session in _fewer(actor.session))


def _fewer(parts: tuple[Part, ...]) -> Iterator[tuple[Part, ...]]:
    """Yield the tuple without each of its parts in turn."""
    for at in range(len(parts)):
        yield parts[:at] + parts[at + 1 :]
