"""What ``spirit-py status`` says of a way back; nothing is touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.reverse import ENDED, ReverseRecord
from spirit_py.checkpoint.reverse_found import Where, where_is
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.mysql.connect import connect
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession

_REVERTED: Final = "reverted"


@dataclass(frozen=True, kw_only=True)
class WayBackShown:
    """The way back of one migration.

    Attributes:
        state: as in the record, or ``reverted`` where the old definition is in place again; empty
            where there is no way back.
        reason: why it has ended, or why it cannot be read.
        left: seconds until it is no longer kept; below 0 when nobody has ended it in time.
        age: seconds since its position was written.
        losses: what going back would lose.
    """

    state: str = ""
    reason: str = ""
    left: float = 0.0
    age: float = 0.0
    losses: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any] | None:
        """Return everything for JSON; None where there is no way back."""
        if not self.state:
            return None
        return {**vars(self), "losses": list(self.losses)}

    def lines(self) -> list[str]:
        """Say the same for people, a line each."""
        if not self.state:
            return []
        if self.reason:
            return [f"  way back   there is none any more: {self.reason}"]
        if self.state == _REVERTED:
            return ["  way back   gone: the old definition is in place again"]
        until = f"for {human_seconds(self.left)} more" if self.left > 0 else "its time is over"
        kept = f"{self.state}, {until}; position written {human_seconds(max(0.0, self.age))} ago"
        return [f"  way back   {kept}", *(f"             {line}" for line in self.losses)]


def ways_back(connection: ConnectionOptions, checkpoints: Iterable[str]) -> dict[str, WayBackShown]:
    """Look at the way back beside each checkpoint table, given as ``schema.table``.

    Raises:
        ServerFault: the server could not be asked.
    """
    with connect(connection, role="status", read_timeout=60) as session:
        return {name: _shown(session, name) for name in checkpoints}


def _shown(session: SqlSession, checkpoint: str) -> WayBackShown:
    # A name may have a dot in it, a checkpoint's begins with an underscore behind the last schema.
    schema, _, table = checkpoint.partition("._")
    store = CheckpointTable(schema, table.removesuffix("_chkpnt"))
    try:
        record = store.read(session, ReverseRecord)
    except UnreadableCheckpoint as error:
        return WayBackShown(state=ENDED, reason=f"what was written cannot be read: {error}")
    if record is None:
        return WayBackShown()
    now = float(session.query("SELECT UNIX_TIMESTAMP(NOW(6))")[0][0])
    return WayBackShown(
        state=_REVERTED if where_is(session, record) is Where.BACK else record.state,
        reason=record.reason,
        left=round(record.until - now, 3),
        age=round(store.age(session, ReverseRecord), 3),
        losses=tuple(record.losses),
    )
