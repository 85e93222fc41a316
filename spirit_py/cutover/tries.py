"""The loop of tries of a swap: turns, pauses, and what ends them (R15, R23)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from spirit_py.classes import dataclass, field
from spirit_py.cutover.plan import NotProven, TryFailed
from spirit_py.errors import ChangesNotFlushed, CutoverFailure, FeedFailure, ServerFault
from spirit_py.events.swap import CutoverTryFailed
from spirit_py.locks.turns import SomebodyInFront
from spirit_py.mysql.faults import TABLE_EXISTS, Disposition, disposition
from spirit_py.mysql.retry import await_server
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import ChangeSource
    from spirit_py.cutover.plan import CutoverResult, SwapGate
    from spirit_py.locks.turns import LockTurns

_DRAIN_ROUNDS: Final = 5
#: Pending changes up to which the sessions for the lock are opened.
_TRIVIAL_BACKLOG: Final = 200
#: The last tries, which an error shows.
_SHOWN: Final = 10
#: Tries that may end in another comparison before the application gets a pause. Without one, the
#: next try has the best prospect: the least can have happened since the comparison.
_UNPROVEN_IN_A_ROW: Final = 4


@dataclass(eq=False, kw_only=True)
class Tries:
    """Makes one try after another; :meth:`run` may be called again after HeldBack.

    ``servers`` must answer before each further try. ``what`` is tried, and what is ``intact`` after
    it failed: words for messages. ``number`` is that of the try under way, and ``failures`` are
    those of the ones before. ``waited_ms``, which the try sets, is of its lock's last request.
    """

    turns: LockTurns
    gate: SwapGate
    sources: Sequence[ChangeSource]
    servers: Sequence[ConnectionOptions]
    what: Literal["swap", "switch"]
    intact: str
    number: int = field(default=1, init=False)
    failures: list[str] = field(default_factory=list, init=False)
    waited_ms: float = field(default=0.0, init=False)
    _unproven: int = field(default=0, init=False)

    def run(self, attempt: Callable[[], CutoverResult]) -> CutoverResult:
        """Call ``attempt``, which begins with :meth:`await_turn`, until it succeeds.

        Raises a stop request's reason or a hook's error; CutoverFailure when the time is over,
        HeldBack where the swap is deferred, or rows must be compared.
        """
        if self._unproven and self._unproven % _UNPROVEN_IN_A_ROW == 0:
            self._pause(self._unproven // _UNPROVEN_IN_A_ROW)
        while True:
            self.turns.stop.check()
            try:
                return self._try(attempt)
            except NotProven as held:
                self.failures.append(held.message)
                self._unproven, self.number = self._unproven + 1, self.number + 1
                if self.turns.over:
                    raise self._given_up() from held
                raise
            except SomebodyInFront as found:
                if self.turns.over:
                    raise self._given_up() from found
                continue
            except TryFailed as failed:
                self.failures.append(str(failed))
                self.gate.try_ended()
                waited = round(self.waited_ms, 1)
                self.turns.tell(
                    CutoverTryFailed(number=self.number, reason=str(failed), lock_wait_ms=waited)
                )
            if self.turns.over:
                raise self._given_up()
            ended, self.number = self.number, self.number + 1
            self._pause(ended)

    def await_turn(self) -> None:
        """Wait until the lock may be requested, and the feed has nearly caught up."""
        if not self.turns.await_free():
            raise self._given_up()
        self._drain()
        self.gate.heed()

    def _pause(self, number: int) -> None:
        """Let the application go on; then all servers must answer, and nothing defer the swap."""
        self.turns.pause(number, self.waited_ms / 1000, self.failures[-1])
        # A server that restarts costs one try, however long it takes.
        for options in self.servers:
            await_server(options, self.turns.stop)
        self.gate.heed()

    def _given_up(self) -> CutoverFailure:
        self.turns.stop.check()
        tries = len(self.failures)
        who = self.turns.described()
        last = self.failures[-1] if tries else f"the lock was not requested, because of {who}"
        return CutoverFailure(
            f"the {self.what} did not happen in {human_seconds(self.turns.policy.timeout)},"
            f" {tries} tries: {last}",
            hint=f"{self.intact} and unlocked; run the same command again at a quieter time, or end"
            " the transactions that block it (see --kill-blockers)",
            details=tuple(f"try {n}: {why}" for n, why in enumerate(self.failures, 1))[-_SHOWN:],
        )

    def _try(self, attempt: Callable[[], CutoverResult]) -> CutoverResult:
        self.waited_ms = 0.0
        try:
            return attempt()
        except ServerFault as fault:
            self.turns.stop.check()
            # Changes whose COMMIT has an unknown outcome wait again, and are applied once more.
            if disposition(fault) is not Disposition.FATAL:
                raise TryFailed(fault.message) from fault
            hint = fault.hint
            if fault.code == TABLE_EXISTS:
                hint = (
                    f"the {self.what} needs that name: see who made the table, and what it holds;"
                    " drop or rename it there, then run the same command again: it resumes"
                )
            raise CutoverFailure(
                f"the {self.what} did not happen: {fault.message}", hint=hint
            ) from fault
        except ChangesNotFlushed as error:
            raise TryFailed(error.message) from error
        except FeedFailure as error:
            self.turns.stop.check()
            if error.resumable:
                raise TryFailed(error.message) from error
            raise

    def _drain(self) -> None:
        self.turns.show("the change feed to catch up before the lock is requested")
        for _ in range(_DRAIN_ROUNDS):
            self.turns.stop.check()
            for source in self.sources:
                source.block_wait()
                source.flush()
            if sum(source.pending() for source in self.sources) <= _TRIVIAL_BACKLOG:
                return
