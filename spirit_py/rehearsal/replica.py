"""The lag of one replica, sampled repeatedly."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spirit_py.errors import ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.mysql.replication import applier_lag, channels, executed_place
from spirit_py.rehearsal.figures import ReplicaFigures
from spirit_py.rehearsal.lag import Mark, Marks

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock
    from spirit_py.mysql.session import Session

_CONNECT_SECONDS: Final = 3
_READ_SECONDS: Final = 10
_AGAIN_SECONDS: Final = 15.0
"""Pause after a failed connection attempt, which delays the samples of the others."""
_NO_REPLICA: Final = "it is no replica"


class ReplicaMeter:
    """Samples one replica; used by one thread. No method raises for a fault of the replica.

    Args:
        options: how to reach it.
        address: its name in the figures.
        source_uuid: of the server that the run is on.
        gtid: the source has GTIDs; without, only direct replicas can be compared with marks.
    """

    def __init__(
        self,
        options: ConnectionOptions,
        *,
        address: str,
        source_uuid: str,
        gtid: bool,
        clock: Clock = time.monotonic,
    ) -> None:
        self._options = replace(options, connect_timeout=_CONNECT_SECONDS)
        self._source_uuid = source_uuid
        self._gtid = gtid
        self._clock = clock
        self._marks = Marks()
        self._session: Session | None = None
        self._retry_at = 0.0
        self._sampled_at: float | None = None
        self.figures = ReplicaFigures(address=address)
        #: The server's ``@@server_uuid``, once it was reached.
        self.uuid = ""

    def sample(self, mark: Mark | None) -> None:
        """Take one sample, comparing with a new mark of the source."""
        if mark is not None:
            self._marks.add(mark)
        now = self._clock()
        if self._session is None and now < self._retry_at:
            return
        try:
            session = self._connected()
            trouble, lag = self._ask(session)
        except ServerFault as fault:
            self._retry_at = now + _AGAIN_SECONDS
            self._note(trouble=fault.message)
            self.close()
            return
        self._note(trouble=trouble, lag=lag)

    def _connected(self) -> Session:
        """Return the session, opened at need."""
        if self._session is None:
            self._session = connect(
                self._options, role="replica-lag", read_timeout=_READ_SECONDS, lock_wait_timeout=3
            )
            self.uuid = str(self._session.value("SELECT @@server_uuid"))
        return self._session

    def _ask(self, session: Session) -> tuple[str, float | None]:
        """Return what is wrong, and the lag; None when it cannot be known."""
        found = channels(session)
        if not found:
            return _NO_REPLICA, None
        now = self._clock()
        recent = now - self._sampled_at if self._sampled_at is not None else 0.0
        self._sampled_at = now
        age = self._marks.age(now, lambda place: self._reached(session, place))
        trouble = "; ".join(dict.fromkeys(one.trouble for one in found if one.trouble))
        return trouble, max(age, applier_lag(session, recent=recent))

    def _reached(self, session: Session, place: str) -> bool:
        """Ask whether a mark was reached."""
        if self._gtid:
            return bool(session.value("SELECT GTID_SUBSET(%s, @@GLOBAL.gtid_executed)", (place,)))
        executed = executed_place(session, self._source_uuid)
        if executed is None:
            return True
        file, _, offset = place.rpartition(":")
        return (len(executed[0]), *executed) >= (len(file), file, int(offset))

    def _note(self, *, trouble: str, lag: float | None = None) -> None:
        """Put a sample into the figures."""
        self.figures = replace(self.figures, trouble=trouble)
        if lag is None:
            return
        lag, so_far = round(lag, 3), self.figures
        self.figures = replace(
            so_far,
            lag_first=lag if so_far.lag_first is None else so_far.lag_first,
            lag_max=max(lag, so_far.lag_max or 0.0),
            lag_last=lag,
            samples=so_far.samples + 1,
        )

    def close(self) -> None:
        """Close the session."""
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(Exception):
                session.close()
