"""The error tree, grouped by what happens next (R16); picklable, because Spark sends errors.

Every error names the object, the cause and the next step (``hint``). Exit codes: 1 failed cleanly,
2 nothing was written, 3 look at the tables, 4 differences, 130 or 143 interrupted.
"""

from __future__ import annotations

import copy
import re
import signal
from typing import Any, ClassVar, Final, Self

from spirit_py.codes import ErrorCode

CONTROL: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def one_line(text: str) -> str:
    """Return text with escapes for characters that end lines or control terminals: in names."""
    return CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


class SpiritError(Exception):
    """Base of all errors that the program raises on purpose; message and hint are one line each.

    ``details`` has further lines; ``error_code`` is given where the remedy is not the class's.
    """

    exit_code: int = 1
    #: Stable name of what the operator has to do; an error may have another one than its class.
    error_code: ErrorCode = ErrorCode.MIGRATION_FAILED
    #: The codes of several causes, in the order in which they are shown; empty for one.
    causes: tuple[ErrorCode, ...] = ()
    #: How the run ended, as the report shows it.
    outcome: ClassVar[str] = "failed"
    #: Whether it says that the table is changed, which the reason of a stop would hide.
    says_done: bool = False
    #: Whether the same command can resume from what is kept.
    resumable: ClassVar[bool] = True

    def __init_subclass__(
        cls, *, code: ErrorCode | None = None, resumable: bool | None = None
    ) -> None:
        super().__init_subclass__()
        if code is not None:
            cls.error_code = code
        if resumable is not None:
            cls.resumable = resumable

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        details: tuple[str, ...] = (),
        error_code: ErrorCode | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.hint, self.details = message, hint, details
        self.error_code = error_code or self.error_code

    def __str__(self) -> str:
        """Return the message as a line: it may be a server's, and a traceback shows it as it is."""
        return one_line(super().__str__())

    @property
    def explained_by(self) -> tuple[ErrorCode, ...]:
        """The pages that say what to do: those of the causes, where there are several."""
        return tuple(dict.fromkeys(self.causes)) or (self.error_code,)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by class, message and fields, so that no formatting runs twice."""
        return _rebuild, (type(self), self.message, dict(self.__dict__))


def is_overtaken(error: BaseException | None) -> bool:
    """Return whether a run's lock was lost: its tables and its record may be another run's now."""
    return isinstance(error, SpiritError) and error.error_code is ErrorCode.RUN_LOCK_LOST


def _rebuild(kind: type[SpiritError], message: str, fields: dict[str, Any]) -> SpiritError:
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.__dict__.update(fields)
    return error


class Refusal(SpiritError, code=ErrorCode.REFUSED, resumable=False):
    """The migration may not run; nothing was written."""

    outcome = "refused"
    exit_code = 2


class UsageFault(Refusal, code=ErrorCode.WRONG_OPTIONS):
    """The command line or the configuration is wrong."""


class UnfinishedWork(Refusal, code=ErrorCode.UNFINISHED_WORK):
    """Rows that an unfinished migration has copied would be dropped; the operator must agree."""


class MigrationFailure(SpiritError, code=ErrorCode.MIGRATION_FAILED):
    """Failed cleanly: the source table is intact, writable and unlocked."""


class LeftAfterChange(MigrationFailure, code=ErrorCode.OLD_TABLE_LEFT):
    """The change is done, and the same command does what is left to do after it."""

    says_done = True


class ServerFault(MigrationFailure, code=ErrorCode.SERVER_ERROR):
    """An error that the server, or the driver on losing it, reported for a statement.

    ``code`` is MySQL's number, 0 without one; ``text`` the server's message.
    """

    def __init__(self, code: int, text: str, *, where: str, hint: str = "") -> None:
        super().__init__(f"{text} (error {code}, {where})", hint=hint)
        self.code = code
        self.text = text


class CopyFailure(MigrationFailure, code=ErrorCode.COPY_FAILED):
    """A chunk could not be copied."""


class SparkFailure(MigrationFailure, code=ErrorCode.SPARK_FAILED):
    """Spark, or the driver's own tasks in its place, did not do what was asked."""


class WorkersLost(MigrationFailure, code=ErrorCode.WORKERS_LOST):
    """Tasks that worked together (a gang) were lost; they may be started again."""


class NotComparable(Refusal, code=ErrorCode.NOT_COMPARABLE):
    """Two tables, or a kind of column, that no checksum can compare."""


class CriticalLoad(MigrationFailure, code=ErrorCode.CRITICAL_LOAD):
    """The server's load is above a limit at which the operator wants the run to end."""


class ValueLost(MigrationFailure, code=ErrorCode.VALUE_LOST):
    """A value would be changed or cut by the conversion; changing the source's row helps (R10)."""


class NumbersUsedUp(MigrationFailure, code=ErrorCode.AUTO_INCREMENT, resumable=False):
    """A new AUTO_INCREMENT column has no number left for a row: its type is too small."""


class PacketTooSmall(MigrationFailure, code=ErrorCode.PACKET_TOO_SMALL):
    """A value is larger than ``max_allowed_packet``, which can be raised."""


class DuplicateForUnique(MigrationFailure, code=ErrorCode.DUPLICATES_FOR_UNIQUE_KEY):
    """Rows that a UNIQUE key of the new table cannot hold together (R11); the copy stays."""


class RowsMeet(DuplicateForUnique, code=ErrorCode.DUPLICATES_FOR_UNIQUE_KEY):
    """A row of one source has a key that a row of another source has, for now at least.

    It is tried again for :data:`MEETING_SECONDS`, after pauses of :data:`MEETING_PAUSE`.
    """


MEETING_SECONDS: Final = 300.0
MEETING_PAUSE: Final = 0.1


class FeedFailure(MigrationFailure, code=ErrorCode.FEED_FAILED):
    """The change feed cannot go on."""


class HandOverFailed(FeedFailure, code=ErrorCode.NO_ROOM_FOR_CHANGES):
    """A change could not be handed on for lack of memory or of room, which may pass."""


class FeedBroken(FeedFailure, code=ErrorCode.DEFECT):
    """The change feed failed in a way that this program does not provide for."""


class FeedSilent(FeedFailure, code=ErrorCode.FEED_SERVER_SILENT):
    """The server is not reached, or does not say what it has executed."""


class BinlogUnreadable(FeedFailure, code=ErrorCode.BINLOG_UNREADABLE):
    """The server cannot read its binary log, or this program does not know what is in it."""


class HistoryLost(FeedFailure, code=ErrorCode.BINLOG_LOST):
    """The server's past is not what was followed: commits, or its binary log, may be lost (R25)."""


class PositionNotFound(FeedFailure, code=ErrorCode.FEED_POSITION_PURGED, resumable=False):
    """A position can no longer be resumed: purged, or never executed by this server."""


class NeverExecuted(PositionNotFound, code=ErrorCode.FEED_POSITION_PURGED, resumable=False):
    """A position is of another server, and this one has not executed all of it, or not yet."""


class PreparedBefore(FeedFailure, code=ErrorCode.XA_UNDECIDED, resumable=False):
    """The rows of an XA transaction are before the place where the change feed began (R8)."""


class UnreadableChange(FeedFailure, code=ErrorCode.UNREADABLE_CHANGE, resumable=False):
    """A change of the table reached the binlog without its full row image (R13)."""


class HiddenChange(UnreadableChange, code=ErrorCode.HIDDEN_CHANGE, resumable=True):
    """A session wrote with settings that hide its rows from the binlog (R13); the copy stays."""

    CARRY_ON = (
        "then run the same command again (without --no-repair): it resumes, skips what was"
        " written so until then, and compares every row"
    )
    """What the operator does after the remedy."""


class NullInKey(HiddenChange, code=ErrorCode.NULL_IN_KEY):
    """A row has NULL in the nullable key that identifies rows; the copy stays."""

    REMEDY = f"give the row a value in the key, {HiddenChange.CARRY_ON}"


class StatementWrite(FeedFailure, code=ErrorCode.STATEMENT_WRITE):
    """A session wrote in STATEMENT format to a table that no option names (R13); resumable."""


class KeyNotProven(MigrationFailure, code=ErrorCode.FOREIGN_KEY, resumable=False):
    """A row has no parent by a foreign key that was added; the key is dropped again, or stays."""


class SchemaChanged(FeedFailure, code=ErrorCode.SCHEMA_CHANGED, resumable=False):
    """Another session changed the definition of the table (R14)."""


class AnotherServer(SchemaChanged, code=ErrorCode.ANOTHER_SERVER, resumable=True):
    """Another server answers (R14); the next run checks whether it has all transactions."""


class ChangesNotFlushed(MigrationFailure, code=ErrorCode.CHANGES_NOT_FLUSHED):
    """The backlog of changes does not drain."""


class ChecksumFailure(MigrationFailure, code=ErrorCode.CHECKSUM_FAILED):
    """Source and new table could not be made equal."""


class StoredOtherwise(ChecksumFailure, code=ErrorCode.GENERATED_STORED_OTHERWISE):
    """The source stores other generated values than the server computes now (R22)."""


class StillDifferent(ChecksumFailure, code=ErrorCode.STILL_DIFFERENT, resumable=False):
    """The tables were compared as a whole and differ: the new table cannot be used."""


class CutoverFailure(MigrationFailure, code=ErrorCode.SWAP_NOT_MADE):
    """The swap was not made; the source is in place and unlocked."""


class HeldBack(CutoverFailure, code=ErrorCode.SWAP_HELD_BACK):
    """The swap must wait: for an operator's sentinel, or for another comparison."""

    @classmethod
    def by(cls, what: str) -> Self:
        """Return the error for what defers the swap."""
        return cls(f"{what} defers the cut-over", hint=f"end {what} to swap")


class OutcomeUnknown(SpiritError, code=ErrorCode.OUTCOME_UNKNOWN, resumable=False):
    """The answer to the swap was lost and the tables could not be looked at (R15)."""

    outcome = "unknown"
    exit_code = 3


class DifferencesFound(SpiritError, code=ErrorCode.DIFFERENCES_FOUND, resumable=False):
    """A checksum found differences."""

    outcome = "different"
    exit_code = 4


class Interrupted(SpiritError, code=ErrorCode.INTERRUPTED):
    """Stopped by a signal, 2 (SIGINT) or 15 (SIGTERM); the exit code is 128 more."""

    outcome = "interrupted"

    def __init__(self, signal_number: int, *, hint: str = "") -> None:
        super().__init__(f"interrupted by {signal.Signals(signal_number).name}", hint=hint)
        self.exit_code = 128 + signal_number

    def saying(self, hint: str) -> Self:
        """Return it as that of a command, or a table of a batch, whose tables are changed by then.

        The same stop may end others that have changed nothing.
        """
        told = copy.copy(self)
        told.hint, told.says_done = hint, True
        return told


class EndedOnRequest(Interrupted, code=ErrorCode.INTERRUPTED):
    """Ended on request, as by SIGTERM."""

    def __init__(self, message: str, *, hint: str = "", details: tuple[str, ...] = ()) -> None:
        super().__init__(signal.SIGTERM, hint=hint)
        SpiritError.__init__(self, message, hint=hint, details=details)


class Stopped(EndedOnRequest, code=ErrorCode.INTERRUPTED):
    """Stopped by the program that runs this one as a library."""


class Aborted(EndedOnRequest, code=ErrorCode.ABORTED):
    """Ended by ``spirit-py ctl abort``."""


class AbortedForGood(Aborted, code=ErrorCode.ABORTED_FOR_GOOD, resumable=False):
    """The same with ``--cleanup``: what was copied is dropped."""
