"""Events of locks, the cutover, the tables that it leaves, and reverse replication (pure)."""

from __future__ import annotations

from spirit_py.events.event import Event, Level, Worded, aside, event


@event("lock.blocked", "{lock} is not requested while it is blocked by: {blockers}{remedy}")
class LockBlocked(Event):
    """Sessions are in front of a lock, which is not requested meanwhile (R21)."""

    lock: str
    blockers: str
    remedy: str = aside(default="")


@event(
    "lock.unseen",
    "metadata locks cannot be seen: {reason}; {lock} is requested only without old transactions"
    " on any table, and no session is killed",
)
class LockUnseen(Event):
    """The server does not show who is in front."""

    lock: str
    reason: str


@event("cutover.deferred", "the cut-over is deferred; to swap: {command}; or {statement}")
class CutoverDeferred(Event):
    """The swap waits for its sentinel to be dropped; each of two commands does that."""

    sentinel: str
    statement: str
    command: str


@event("cutover.released", "the cut-over is no longer deferred")
class CutoverReleased(Event):
    """The sentinel is gone, or an operator does not want to wait for it."""


@event("cutover.held_back", "{reason}: waiting again")
class CutoverHeldBack(Event):
    """Right before the swap something holds it back."""

    reason: str


@event("cutover.locks_more")
class CutoverLocksMore(Event):
    """The swap locks other tables too, for foreign keys, views or triggers."""

    tables: list[str]
    implied: list[str]

    @property
    def sentence(self) -> str:
        """Which tables, by whom."""
        tables, implied = ", ".join(self.tables), ", ".join(self.implied)
        asked = f"the swap locks {tables} too, for foreign keys" if tables else ""
        taken = f"the server locks {implied} with the tables" if implied else ""
        return "; ".join(filter(None, (asked, taken)))


@event("cutover.try_failed", "cut-over try {number} failed: {reason}")
class CutoverTryFailed(Event):
    """A try has ended without a swap; another follows."""

    number: int
    reason: str
    lock_wait_ms: float


@event("cutover.ready", "ready to cut over: asking the hook", has_line=False)
class CutoverReady(Event):
    """The hook of ``--hook-veto`` is asked."""

    tables: list[str]
    number: int


@event(
    "cutover.vetoed",
    "the hook vetoed the cut-over: {reason}; it is asked again in {seconds:time}",
    level="warning",
)
class CutoverVetoed(Event):
    """The hook does not agree."""

    reason: str
    number: int
    seconds: float


@event(
    "rename.unanswered",
    "lost the answer to RENAME ({reason}): checking the tables",
    level="warning",
)
class RenameUnanswered(Event):
    """Whether the tables are swapped is not known yet (R24)."""

    reason: str


@event(
    "swap.done",
    "swapped in try {tries}: waited {lock_wait_ms:.1f} ms for the lock, held it"
    " {lock_held_ms:.1f} ms",
)
class SwapDone(Event):
    """The tables are swapped; ``back``: as they were before, by a revert."""

    tries: int
    lock_wait_ms: float
    lock_held_ms: float
    steps_ms: dict[str, float]
    back: bool = False


@event("swap.incomplete", "{said}: {reason}", level="warning")
class SwapIncomplete(Event):
    """A statement after the RENAME failed, and is sent again."""

    reason: str
    said: str = aside()


@event("move.switching", "the tables are on {target}: running the command of --on-switch")
class MoveSwitching(Event):
    """Tables are renamed away on one server; ``back``: as they were before, by a revert.

    ``shards`` are the addresses of several targets by their names, ``sources`` those of sources.
    """

    tables: list[str]
    source: str
    target: str
    shards: dict[str, str]
    sources: dict[str, str]
    back: bool


@event("snapshots.guarded")
class SnapshotsGuarded(Event):
    """Whether transactions with an older snapshot get an error instead of an empty table."""

    transactions: list[str]
    guarded: bool
    outcome: str = aside()

    @property
    def sentence(self) -> str:
        """Which transactions there are, and what becomes of them."""
        who = "; ".join(self.transactions)
        if self.guarded:
            return f"older snapshots get error 1412 when they now read the swapped table: {who}"
        return (
            f"no snapshot guard ({self.outcome}): a transaction with a snapshot from before the"
            " swap, such as mysqldump --single-transaction, finds rows missing in the swapped"
            f" table, without an error: {who or 'none was seen'}"
        )

    @property
    def level(self) -> Level:
        """A warning, where they get none."""
        return "info" if self.guarded else "warning"


@event(
    "attachments.settled", "keys and triggers are in place, the lock waited {lock_wait_ms:.0f} ms"
)
class AttachmentsSettled(Event):
    """Foreign keys and triggers are as they were before."""

    lock_wait_ms: float


@event(
    "attachments.left", "foreign keys and triggers of the failed try are not undone yet: {reason}"
)
class AttachmentsLeft(Event):
    """A try has changed foreign keys, and could not change them back."""

    reason: str


@event("old_table.waits")
class OldTableWaits(Worded):
    """The old table is kept for a while."""

    seconds: float


@event("old_table.dropped", "{dropped} is dropped", detail=True)
class OldTableDropped(Event):
    """The old table is gone."""

    dropped: str


@event("archive.begun", "rows of {archived} are written to {folder}")
class ArchiveBegun(Event):
    """An archive is written, or carried on with."""

    archived: str
    folder: str


@event(
    "archive.proved",
    "archived {rows:# row} of {archived} in {files:# file} of {folder}, and proved them",
)
class ArchiveProved(Event):
    """Rows that a migration leaves out, or a table's, are in files that were read back.

    ``kept`` rows are in the table and not in the files; ``hash`` is the sum of the rows' hashes.
    """

    archived: str
    folder: str
    rows: int
    kept: int
    files: int
    bytes: int
    hash: str


@event("old_table.kept", "{tables:list} stays: spirit-py cleanup --drop-old drops it")
class OldTableKept(Event):
    """The old tables stay, as the operator wants it."""

    tables: list[str]


@event("auxiliary.dropped")
class AuxiliaryDropped(Worded):
    """A table of an earlier run was dropped."""


@event(
    "reverse.begun",
    "reverse replication of {tables} runs for {seconds:time}: spirit-py revert brings the old"
    " definition back",
)
class ReverseBegun(Event):
    """The old tables are kept current."""

    tables: str
    seconds: float


@event("reverse.ended", "reverse replication of {tables} ends: {reason}")
class ReverseEnded(Event):
    """A revert is possible no more."""

    tables: str
    reason: str


@event("revert.loses")
class RevertLoses(Worded):
    """What a revert would lose, or loses."""


@event("revert.requested")
class RevertRequested(Event):
    """A revert was asked for; ``session`` is that of the process which is asked."""

    session: int | None

    @property
    def sentence(self) -> str:
        """Who is asked, where somebody is."""
        if self.session is None:
            return "a revert was asked for"
        return f"asking the process that runs reverse replication (session {self.session})"


@event("revert.tables_found", "these were changed together: {tables}")
class RevertTablesFound(Event):
    """The tables that are reverted together."""

    tables: str


@event("revert.taken_over", "no process runs reverse replication any more: taking over")
class RevertTakenOver(Event):
    """The command works in the place of the process that has ended."""


@event("revert.step_begun")
class RevertStepBegun(Worded):
    """A step of a revert: ``drain``, ``compare`` or ``swap``."""

    step: str


@event("revert.answered")
class RevertAnswered(Worded):
    """What the process that was asked says."""


@event("revert.failed", level="warning")
class RevertFailed(Worded):
    """The tables stay as they are."""

    reason: str


@event("revert.done")
class RevertDone(Worded):
    """The old definition is in place again."""

    tables: str
