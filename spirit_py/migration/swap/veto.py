"""The hook of ``--hook-veto``: asked before the tables are swapped, or changed in place.

It is not asked in a pause. An answer counts for one try, half a minute at most. After a refusal, a
failure or a timeout it is asked again, with pauses that double from 5 s to 60 s, until it agrees,
an operator decides (``spirit-py ctl cutover``), or it has been waited for in vain for as long as
``--cutover-timeout``. What else holds the swap back meanwhile is not counted.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from spirit_py.classes import KW_ONLY, dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure
from spirit_py.events.swap import CutoverReady, CutoverVetoed
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.contracts import Clock
    from spirit_py.events.event import Gate
    from spirit_py.migration.job import Job

_GOOD_SECONDS: Final = 30.0
_FIRST_PAUSE: Final = 5.0
_LONGEST_PAUSE: Final = 60.0
_LOOK_SECONDS: Final = 0.5


class _Overruled(Exception):
    """An operator has decided while the hook was asked."""


@dataclass(eq=False)
class Veto:
    """Asks the hook, and remembers its answer."""

    job: Job
    gate: Gate | None
    tables: Callable[[], list[str]]
    _: KW_ONLY
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        self._asking = threading.Lock()
        self._overruled = False
        self._asked = 0
        self._why = ""
        self._good_until = float("-inf")
        self._again_at = float("-inf")
        self._pause = _FIRST_PAUSE
        #: When it last refused, and for how many seconds it has been waited for since it agreed.
        self._refused_at: float | None = None
        self._waited = 0.0

    @property
    def asks(self) -> bool:
        """Whether there is a hook to agree."""
        return self.gate is not None

    def held_back(self) -> str:
        """Return why the hook does not agree; MigrationFailure where that lasted too long."""
        if self.gate is None:
            return ""
        with self._asking:
            if self._overruled or self.clock() < self._good_until:
                return ""
            # Who has caught it, as a look beside a comparison does, asks no more.
            self._require_time()
            if (began := self.clock()) >= self._again_at:
                try:
                    self._why = self._answer_of(self.gate)
                except _Overruled:
                    # An overruled answer is not kept.
                    return ""
                self._note(self._why, began)
            return self._why

    def try_ended(self) -> None:
        """Ask again before the next try."""
        self._good_until = float("-inf")

    def overrule(self, *, wanted: bool = True) -> bool:
        """Let the swap go on whatever the hook answers, or ask it again; return what was so."""
        before, self._overruled = self._overruled, wanted
        return before

    def too_old(self) -> str:
        """Return that its answer counts no more, for messages; empty where it does. Asks nobody."""
        if self.gate is None or self._overruled or self.clock() < self._good_until:
            return ""
        return f"an answer of the hook that is older than {human_seconds(_GOOD_SECONDS)}"

    def wait(self, hindered: Callable[[], object] = lambda: False) -> bool:
        """Wait until the hook agrees; return whether it was asked, or ``hindered`` ended that."""
        asked = self._asked
        while why := self.held_back():
            self.job.show(f"the hook to agree: {why}")
            self.job.stop.pause(_LOOK_SECONDS)
            if hindered():
                # It has not agreed, and need not have been asked.
                asked = -1
                break
        self.job.show("")
        return self._asked != asked

    def _answer_of(self, gate: Gate) -> str:
        job, tables = self.job, self.tables()
        self._asked += 1
        ready = CutoverReady(table=job.table, tables=tables, number=self._asked)
        job.tell(ready)
        job.show("the answer of the hook")
        try:
            answer = gate(ready, self._check)
            self._check()
            return answer
        finally:
            job.show("")

    def _check(self) -> None:
        self.job.stop.check()
        if self._overruled:
            raise _Overruled

    def _note(self, why: str, began: float) -> None:
        now, limit = self.clock(), self.job.config.cutover_timeout
        if not why:
            self._good_until, self._pause = now + _GOOD_SECONDS, _FIRST_PAUSE
            self._again_at, self._refused_at, self._waited = float("-inf"), None, 0.0
            return
        if self._refused_at is not None:
            # Asked later than after the pause: something else has held the swap back.
            self._waited += min(began, self._again_at) - self._refused_at + now - began
        pause = min(self._pause, limit - self._waited)
        self._refused_at, self._again_at = now, now + pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        self._require_time()
        self.job.tell(CutoverVetoed(reason=why, number=self._asked, seconds=pause))

    def _require_time(self) -> None:
        limit = self.job.config.cutover_timeout
        if self._refused_at is not None and self._waited >= limit:
            raise MigrationFailure(
                f"the hook has not agreed to the swap for {human_seconds(limit)}: {self._why}",
                hint="run the same command again when it may swap, or without --hook-veto;"
                " --cutover-timeout says for how long it is asked",
                error_code=ErrorCode.SWAP_HELD_BACK,
            )
