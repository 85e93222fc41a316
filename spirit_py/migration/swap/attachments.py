"""What is attached to the tables of one swap: read, noted, sent with it, and settled after it.

The note is in the checkpoint table of each swapped table before the first statement, until
everything is in place, or undone. A run that finds one settles it first.
"""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.attached.foreign_keys.catalogue import (
    concerned,
    concerned_now,
    moves,
    require_free_around,
)
from spirit_py.attached.implied_locks import (
    Implied,
    implied_locks,
    opened_by_rename,
    there,
)
from spirit_py.attached.record import Attachments, AttachmentsNote, Places
from spirit_py.attached.sequence import renaming, sequence_of
from spirit_py.attached.settle import Settler, lost_keys, outstanding, settle_alone, settle_locked
from spirit_py.attached.triggers import catalogue
from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.proofs import renew_all_proofs
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import dataclass, field, replace
from spirit_py.codes import ErrorCode
from spirit_py.cutover.plan import AttachedObjects, TryFailed
from spirit_py.errors import (
    Interrupted,
    LeftAfterChange,
    MigrationFailure,
    Refusal,
    ServerFault,
    SpiritError,
)
from spirit_py.events.run import Warned
from spirit_py.events.swap import AttachmentsLeft, CutoverLocksMore
from spirit_py.locks.blockers import LockPolicy
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import takes_no_writes
from spirit_py.mysql.grants import require_sight
from spirit_py.mysql.retry import retrying

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from spirit_py.attached.foreign_keys.model import ForeignKey
    from spirit_py.attached.sequence import SwapStatements
    from spirit_py.contracts import SqlSession
    from spirit_py.migration.job import Job
    from spirit_py.mysql.session import Session
    from spirit_py.table.names import Name, Swap

_TOKEN_BYTES: Final = 4
_ATTEMPTS: Final = 8
_SETTLES: Final = (
    "the swap is done; until they are settled the server may refuse a write to the tables and their"
    " children, and loses none: run the same command again, which settles them first"
)
#: While the feed is held back, so that it applies nothing to a table that is half-way.
_AT_ONCE_SECONDS: Final = 10.0


@dataclass
class SwapAttachments(AttachedObjects):
    """What is attached to the tables of one swap, over all its tries.

    ``carried`` returns a foreign key as the change leaves it, None for one that it drops;
    ``changed`` the columns whose names mean something else after the swap; nothing is attached to
    ``along``. ``implied`` is what LOCK TABLES locks by itself.
    """

    job: Job
    swaps: tuple[Swap, ...]
    carried: Callable[[ForeignKey], ForeignKey | None]
    changed: Callable[[Name], Mapping[str, str]] = lambda _: {}
    along: tuple[Swap, ...] = ()
    _noted: Attachments = field(init=False)
    _keys: frozenset[ForeignKey] = field(default=frozenset(), init=False)
    _triggers: frozenset[str] = field(default=frozenset(), init=False)
    tables: Sequence[Name] = field(default=(), init=False)
    implied: Implied = field(default=Implied(), init=False)

    def __post_init__(self) -> None:
        self._noted = Attachments(swaps=self.swaps)

    @property
    def statements(self) -> SwapStatements:
        """What is sent in this try."""
        return replace(sequence_of(self._noted), rename=renaming((*self.swaps, *self.along)))

    @property
    def described(self) -> list[str]:
        """What goes along, a line for each foreign key and trigger."""
        keys = [str(move.after) for move in self._noted.keys if move.after is not None]
        return [*keys, *(move.trigger.label for move in self._noted.triggers)]

    def survey(self) -> None:
        """Settle what an earlier try has left; then read what is attached, and note it.

        That the account may see it is proven after the look: a privilege may have been revoked.
        """
        with self._session() as session:
            settle_left(self.job, session, self._names)
            self._keys = concerned(session, self._names)
            self._triggers = catalogue.read_state(session, self._incoming_and_outgoing)
            token = secrets.token_hex(_TOKEN_BYTES)
            self._noted = Attachments(
                swaps=self.swaps,
                keys=moves(session, self._keys, Places(self.swaps), self.carried, token),
                triggers=catalogue.trigger_moves(session, self.swaps, f"{token}_t"),
            )
            hidden = [key.child for key in self._keys if not key.visible]
            require_sight(session, self._incoming_and_outgoing, hidden)
            self._require_keepable()
            self._lock(session)
            if self._noted:
                for name in self._names:
                    CheckpointTable(*name).write(session, self._noted.note)

    def _require_keepable(self) -> None:
        if self._noted.triggers and getattr(self.job.config, "triggers", "keep") == "refuse":
            raise MigrationFailure(
                f"{self._noted.triggers[0].trigger.label} was created meanwhile, and --triggers"
                " refuse was given",
                hint="drop it, then run the same command again; or leave the option out",
                error_code=ErrorCode.TRIGGER_NOT_KEPT,
            )
        catalogue.keepable(self._noted.triggers, self.changed)

    def _lock(self, session: SqlSession) -> None:
        tables = there(session, self._noted.note.others) if self._noted else []
        swapped = [(s.schema, name) for s in self.swaps for name in (s.table, s.new)]
        implied = implied_locks(session, [*swapped, *tables])
        implied = replace(implied, opened=opened_by_rename(session, self._names))
        also = [*implied.written, *implied.read]
        if (tables, implied) != (self.tables, self.implied) and (tables or also):
            more = [".".join(name) for name in also]
            self.job.tell(CutoverLocksMore(tables=[".".join(one) for one in tables], implied=more))
        self.tables, self.implied = tables, implied

    def prove(self, session: SqlSession) -> None:
        """Prove under the lock that keys and triggers are as surveyed, and are visible."""
        noted = {key for key in self._keys if key.visible}
        changed = noted.symmetric_difference(concerned_now(session, self._names))
        if changed:
            names = ", ".join(sorted(map(str, changed)))
            raise TryFailed(f"foreign keys were added or dropped meanwhile: {names}")
        catalogue.require_collations(session, [one.trigger for one in self._noted.triggers])
        others = catalogue.read_state(session, self._incoming_and_outgoing) ^ self._triggers
        if others:
            raise TryFailed(
                f"triggers were created or dropped meanwhile: {'; '.join(sorted(others))}"
            )
        require_sight(session, self._incoming_and_outgoing)

    def settle(self, session: Session) -> None:
        """Undo or complete under the lock, as the tables show that it belongs."""
        settle_locked(session, self._noted.note)

    def undo_later(self) -> None:
        """Undo in a session of its own; a failure is reported, and left to the next survey."""
        if not self._noted:
            return
        try:
            self._settle(_AT_ONCE_SECONDS)
        except SpiritError as error:
            self.job.tell(AttachmentsLeft(reason=error.message))

    def finish(self) -> None:
        """Settle what is left after the swap, and forget it; if that fails, a rerun settles it."""
        if not self._noted:
            return
        try:
            retrying(self.job.stop, attempts=_ATTEMPTS, passing=takes_no_writes)(self._settle)
        except Interrupted as stopped:
            raise stopped.saying(_SETTLES) from stopped
        except SpiritError as error:
            raise LeftAfterChange(
                f"the swap is done, and its foreign keys and triggers are not settled:"
                f" {error.message}",
                hint=_SETTLES,
                error_code=ErrorCode.KEYS_AND_TRIGGERS_UNSETTLED,
            ) from error

    def _settle(self, seconds: float = 0.0) -> None:
        with self._session() as session:
            settle_left(self.job, session, self._names, seconds=seconds)

    @property
    def _names(self) -> list[Name]:
        return [swap.name for swap in self.swaps]

    @property
    def _incoming_and_outgoing(self) -> list[Name]:
        return [(swap.schema, name) for swap in self.swaps for name in (swap.table, swap.new)]

    def _session(self) -> Session:
        return connect(self.job.config.connection, role="attached", read_timeout=60)


def try_triggers(job: Job, swap: Swap) -> None:
    """Create a table's triggers on its empty new table, and drop them (R24); may raise Refusal."""
    with connect(job.config.connection, role="attached", read_timeout=60) as session:
        moves = catalogue.trigger_moves(session, (swap,), f"{secrets.token_hex(_TOKEN_BYTES)}_t")
        if not moves:
            return
        beside = CheckpointTable(*swap.name)
        beside.write(session, Attachments(swaps=(swap,), triggers=moves).note)
        points.reach("create.triggers")
        try:
            for move in moves:
                catalogue.require_same(session, move, swap)
        finally:
            # Where the session is lost, the next run drops what is noted.
            with contextlib.suppress(ServerFault):
                catalogue.withdraw(session, moves, swap)
                beside.forget(session, AttachmentsNote)


def settle_left(
    job: Settler, session: SqlSession, tables: Iterable[Name], *, seconds: float = 0.0
) -> None:
    """Settle what is noted of some tables, if anything is, and forget it.

    The session has no locks; locks are requested for ``seconds``, 0 for as long as those of a swap.
    Raises SpiritError where it is not settled, and stays noted.
    """
    policy = LockPolicy.of(job.config)
    for table in tables:
        noted = _read(session, table)
        if noted is None:
            _forget_unsent(session, table)
            continue
        settle_alone(job, noted, session, replace(policy, timeout=seconds) if seconds else policy)
        for key in lost_keys(session, noted):
            job.tell(Warned(said=f"another session has dropped {key} since the swap"))
        for swap in noted.swaps:
            beside = CheckpointTable(*swap.name)
            if beside.is_ours(session):
                renew_all_proofs(session, *swap.name)
                beside.forget(session, AttachmentsNote)


def settle_earlier(job: Settler, session: SqlSession, tables: Collection[Name]) -> None:
    """Settle what an earlier run has left; Refusal where that alters a table of another run."""
    if is_half_way(session, tables):
        require_free_around(
            session, tables, "let it finish first, or stop it with spirit-py ctl abort"
        )
    settle_left(job, session, tables)


def is_half_way(session: SqlSession, tables: Iterable[Name]) -> bool:
    """Return whether a swap was stopped between two statements; SpiritError if that is unknown."""
    noted = [one for table in tables if (one := _read(session, table)) is not None]
    try:
        return any(outstanding(session, one) for one in noted)
    except MigrationFailure as error:
        if error.error_code is not ErrorCode.KEYS_AND_TRIGGERS_UNSETTLED:
            raise
        return True


def _read(session: SqlSession, table: Name) -> AttachmentsNote | None:
    """Return what is noted of a table and all swapped with it; None where they disagree."""
    noted = _noted_beside(session, table)
    if noted is None or table not in {swap.name for swap in noted.swaps}:
        return None
    others = (swap.name for swap in noted.swaps if swap.name != table)
    return noted if all(_noted_beside(session, one) == noted for one in others) else None


def _forget_unsent(session: SqlSession, table: Name) -> None:
    """Forget what is noted of one table and not of those that are swapped with it."""
    noted = _noted_beside(session, table)
    if noted is None:
        return
    # A note that was copied from beside another table tells of swaps that are not of this one.
    if any(swap.name == table for swap in noted.swaps) and outstanding(session, noted):
        raise Refusal(
            f"a swap of {'.'.join(table)} was stopped half-way, and the checkpoint tables of those"
            " that are swapped together do not agree",
            hint="see who has changed them; drop the foreign keys and triggers whose names begin"
            " with _spirit_py_, where the original ones exist",
            error_code=ErrorCode.CHECKPOINT_UNREADABLE,
        )
    CheckpointTable(*table).forget(session, AttachmentsNote)


def _noted_beside(session: SqlSession, table: Name) -> AttachmentsNote | None:
    checkpoint = CheckpointTable(*table)
    if not checkpoint.is_ours(session):
        return None
    try:
        return checkpoint.read(session, AttachmentsNote)
    except UnreadableCheckpoint as error:
        raise Refusal(
            f"{checkpoint} says that a swap was stopped half-way, and cannot be read: {error}",
            hint="use the version of spirit-py that wrote it",
            error_code=ErrorCode.CHECKPOINT_UNREADABLE,
        ) from error
