"""Sends the RENAME, once, in the session that holds the lock, and finds out its outcome (R15)."""

from __future__ import annotations

import contextlib
import logging
import secrets
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.attached.sequence import NO_ANSWER, Evidence, ExistingTables, Verdict, judge
from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.cutover.plan import TryFailed
from spirit_py.errors import CutoverFailure, OutcomeUnknown, ServerFault, SpiritError
from spirit_py.events.swap import RenameUnanswered
from spirit_py.locks.named import named_lock_holder, take_named_lock
from spirit_py.locks.table import open_lock_session
from spirit_py.mysql.connect import connect
from spirit_py.mysql.evaluation import accept_stored
from spirit_py.mysql.faults import Disposition, disposition
from spirit_py.mysql.kill import kill_session
from spirit_py.mysql.tables.definition import existing_tables
from spirit_py.sql import quote_table
from spirit_py.table.names import lock_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.attached.sequence import SwapStatements
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock, SqlSession
    from spirit_py.cutover.plan import CutoverPlan
    from spirit_py.mysql.session import Session
    from spirit_py.table.names import Swap


def existing(session: SqlSession, swap: Swap) -> ExistingTables:
    """Return which tables of a swap exist."""
    # lower_case_table_names=1 stores names in lower case, whatever was asked for.
    names = [swap.table, swap.new, swap.old]
    found = {name.lower() for name in existing_tables(session, swap.schema, names)}
    return ExistingTables(
        source=swap.table.lower() in found,
        new=swap.new.lower() in found,
        old=swap.old.lower() in found,
    )


def check_names(session: SqlSession, swaps: Sequence[Swap]) -> None:
    """Check that the tables exist, and no old table's name is taken; else CutoverFailure."""
    for swap in swaps:
        found = existing(session, swap)
        if found.old:
            raise CutoverFailure(
                f"the table {quote_table(swap.schema, swap.old)} exists already",
                hint="rename or drop it, then run the same command again",
                error_code=ErrorCode.NAME_TAKEN,
            )
        for there, name in ((found.source, swap.table), (found.new, swap.new)):
            if not there:
                raise CutoverFailure(
                    f"the table {quote_table(swap.schema, name)} is gone",
                    hint="another session has renamed or dropped it: see why before the next run",
                )


_LOG = logging.getLogger(__name__)
_KILLED_PAUSE: Final = 0.02
_NO_ANSWER_PAUSE: Final = 0.5
_READ_TIMEOUT: Final = 10


@dataclass(frozen=True, kw_only=True)
class Renamed:
    """The swap is done; ``answer_lost``: the tables prove it; ``stopped_by``: what is missing."""

    answer_lost: bool = False
    stopped_by: ServerFault | None = None


def rename(
    session: Session, plan: CutoverPlan, statements: SwapStatements, *, fence: str, server: str
) -> Renamed:
    """Send the RENAME, and what belongs to it, in one packet; find out a lost outcome.

    ServerFault where the server refused it, or a statement before it; TryFailed where it is proven
    that it was not done, and that nothing can do it any more; OutcomeUnknown without a proof.
    """
    if len(statements.all) > 1:
        # The tables beside may have definitions that only older modes accept.
        accept_stored(session)
    points.reach("cutover.rename")
    try:
        done, fault = session.execute_packet(statements.all)
    except BaseException as interruption:
        # A second SIGINT while the driver waited: the server has received the packet.
        return _look_for(session, plan, interruption, fence=fence, server=server)
    if fault is None:
        return Renamed()
    if disposition(fault, committing=True) is Disposition.UNKNOWN:
        return _look_for(session, plan, fault, fence=fence, server=server)
    if statements.renamed_after(done):
        return Renamed(stopped_by=fault)
    raise fault


def _look_for(
    session: Session, plan: CutoverPlan, lost: BaseException, *, fence: str, server: str
) -> Renamed:
    plan.tell(RenameUnanswered(reason=str(lost)))
    session.close()
    # Also after a stop request.
    looks = _looks(plan.connection, fence, plan.swaps, plan.limits.look, plan.clock)
    why = str(lost)
    for evidence in looks:
        verdict = judge(evidence, server=server)
        why = evidence.unseen or why
        if verdict not in {Verdict.END_SESSION, Verdict.LOOK_AGAIN}:
            break
    if verdict is Verdict.NOT_DONE:
        raise TryFailed(f"the connection was lost before RENAME took effect: {lost}") from lost
    if verdict is not Verdict.DONE:
        swap = plan.swaps[0]
        raise OutcomeUnknown(
            f"the answer to RENAME was lost, and whether it was done could not be seen: {why}",
            hint="look at the tables: the swap is done if"
            f" {quote_table(swap.schema, swap.old)} exists and"
            f" {quote_table(swap.schema, swap.new)} does not; else nothing has changed",
        ) from lost
    return Renamed(answer_lost=True)


def _looks(
    options: ConnectionOptions, fence: str, swaps: Sequence[Swap], patience: float, clock: Clock
) -> Iterator[Evidence]:
    deadline = clock() + patience
    sleeper = threading.Event()
    while True:
        evidence = look(options, fence=fence, swaps=swaps)
        yield evidence
        if evidence.unseen or clock() >= deadline:
            return
        sleeper.wait(_NO_ANSWER_PAUSE if evidence is NO_ANSWER else _KILLED_PAUSE)


def look(options: ConnectionOptions, *, fence: str, swaps: Sequence[Swap]) -> Evidence:
    """Query once, on a new connection; NO_ANSWER where that is impossible for now.

    Tables are read only when the fence is free. A session that holds it is killed, as one of ours.
    """
    try:
        with connect(options, role="look", read_timeout=_READ_TIMEOUT) as session:
            server = str(session.value("SELECT @@server_uuid"))
            if (holder := named_lock_holder(session, fence)) is not None:
                kill_session(session, holder)
                return Evidence(server=server, fence=holder)
            return Evidence(server=server, tables=tuple(existing(session, swap) for swap in swaps))
    except SpiritError as error:
        _LOG.info("cannot look at the tables: %s", error.message)
        if isinstance(error, ServerFault):
            return NO_ANSWER
        # Another server answers (R14), or another run has taken over.
        return Evidence(server="", unseen=error.message)


_END_SECONDS: Final = 10.0
_TURN_SECONDS: Final = 0.0005


def open_locking_session(
    opened: contextlib.ExitStack, plan: CutoverPlan, *, wait: int
) -> tuple[Session, str]:
    """Open the locking session of a try, and take its fence; ``wait`` is seconds for a table."""
    session = open_lock_session(
        plan.connection,
        role="cutover",
        wait=wait,
        hold=plan.limits.lock_hold,
        # A DELETE of several tables with aliases asks for a default database.
        database=plan.swaps[0].schema,
    )
    fence = lock_name("cutover", secrets.token_hex(8))
    opened.callback(end_session, plan.connection, session, fence, plan.limits.look)
    take_named_lock(session, fence)
    return session, fence


def end_session(
    connection: ConnectionOptions, session: Session, fence: str, patience: float = _END_SECONDS
) -> None:
    """Close a locking session, and wait for its end: a lost one could still get the lock (R18).

    ``fence`` is a named lock that it holds; 10 seconds of ``patience`` are the most.
    """
    lost = not session.alive()
    session.close()
    if lost:
        looks = _looks(connection, fence, (), min(_END_SECONDS, patience), time.monotonic)
        if not any(evidence.server and evidence.fence is None for evidence in looks):
            _LOG.warning("could not see whether session %d has ended", session.id)


class _SwitchInterval:
    """The interpreter's switch interval: one value for all swaps that happen at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._usual = 0.0

    @contextlib.contextmanager
    def shortened(self) -> Iterator[None]:
        with self._lock:
            if not self._users:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(_TURN_SECONDS)
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    sys.setswitchinterval(self._usual)


quick_turns: Final = _SwitchInterval().shortened
"""Switches threads quickly: else computing ones take 5 ms for each answer under the lock."""
