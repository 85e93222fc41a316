"""Which server of a fleet begins next, and how long all of them take (pure)."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from spirit_py.command_config import FleetConfig, FleetServer

CANARY: Final = "canary"
_UNLABELLED: Final = "without the label"


@dataclass(frozen=True, kw_only=True)
class Wave:
    """Servers that begin when those of the wave before have ended."""

    name: str
    servers: tuple[FleetServer, ...]


def waves_of(config: FleetConfig) -> tuple[Wave, ...]:
    """Return the waves: canaries in the order of the list, then by the label's values in it."""
    canaries, others = config.servers[: config.canary], config.servers[config.canary :]
    waves = [Wave(name=CANARY, servers=canaries)] if canaries else []
    found: dict[str, list[FleetServer]] = {}
    for one in others:
        value = one.labels.get(config.waves_by, "") if config.waves_by else "all"
        found.setdefault(value or _UNLABELLED, []).append(one)
    waves += [Wave(name=name, servers=tuple(servers)) for name, servers in found.items()]
    return tuple(waves)


def next_server(
    waiting: Sequence[FleetServer],
    under_way: Collection[FleetServer],
    *,
    at_once: int,
    at_once_of: Iterable[tuple[str, int]],
) -> FleetServer | None:
    """Return the first server that may begin; None while the brakes hold all of them back."""
    if len(under_way) >= at_once:
        return None
    limits = tuple(at_once_of)

    def fits(one: FleetServer) -> bool:
        return all(
            label not in one.labels
            or sum(two.labels.get(label) == one.labels[label] for two in under_way) < most
            for label, most in limits
        )

    return next((one for one in waiting if fits(one)), None)


def seconds_of(config: FleetConfig, seconds: Mapping[str, float]) -> float:
    """Return how long a fleet takes, by the seconds of each server, which do not disturb others."""
    now = 0.0
    for wave in waves_of(config):
        waiting = [one for one in wave.servers if one.name in seconds]
        under_way: dict[str, FleetServer] = {}
        ends: list[tuple[float, str]] = []
        while waiting or ends:
            one = next_server(
                waiting,
                tuple(under_way.values()),
                at_once=config.at_once,
                at_once_of=config.at_once_of,
            )
            if one is None:
                now, name = heapq.heappop(ends)
                del under_way[name]
                continue
            waiting.remove(one)
            under_way[one.name] = one
            heapq.heappush(ends, (now + seconds[one.name], one.name))
    return now
