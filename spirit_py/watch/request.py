"""What one ``spirit-py watch`` was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions

LineFormat = Literal["json", "text"]


@dataclass(frozen=True, kw_only=True)
class WatchRequest:
    """Everything that one ``spirit-py watch`` was asked for.

    Attributes:
        database: schema to follow; empty for all of them.
        table: table of it to follow; empty for all of them.
        position: where to go on, as an earlier run printed it; empty for now.
        until_now: end where the server was when the command began.
        vouched: as in :class:`~spirit_py.config.FeedOptions`.
        heartbeat: seconds of quiet after which a heartbeat is printed; 0 for never.
    """

    connection: ConnectionOptions
    database: str = ""
    table: str = ""
    position: str = ""
    until_now: bool = False
    format: LineFormat = "json"
    vouched: tuple[tuple[str, str], ...] = ()
    heartbeat: float = 0.0
