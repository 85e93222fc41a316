"""The error tree, grouped by what happens next (R16).

Every error names the object, the cause and the next step (``hint``), carries a stable code
(:mod:`spirit_py.codes`) and the exit code of the process, and survives pickling, because Spark
sends it between processes.

::

    SpiritError                      exit 1
    ├── Refusal                      exit 2   nothing was written
    │   ├── UsageFault               exit 2   the command line itself is wrong
    │   └── UnfinishedWork           exit 2   copied rows of another migration would be dropped
    ├── MigrationFailure             exit 1   failed cleanly; the source is whole
    │   ├── ServerFault              exit 1   the server or the connection reported an error
    │   ├── CopyFailure              exit 1   a chunk could not be copied
    │   ├── WorkersLost              exit 1   tasks that worked together were lost
    │   ├── CriticalLoad             exit 1   --critical-load was exceeded
    │   ├── ValueLost                exit 1   a value would change in conversion (R10)
    │   ├── PacketTooSmall           exit 1   a value is larger than the server lets through
    │   ├── DuplicateForUnique       exit 1   the source has duplicates of a new UNIQUE key (R11)
    │   ├── FeedFailure              exit 1   the change feed cannot go on
    │   │   ├── HandOverFailed       exit 1   no memory or room to hand a change on
    │   │   ├── FeedBroken           exit 1   a defect
    │   │   ├── FeedSilent           exit 1   the server does not answer
    │   │   ├── BinlogUnreadable     exit 1   the binary log cannot be read or understood
    │   │   ├── PositionNotFound     exit 1   a position can no longer be resumed
    │   │   ├── UnreadableChange     exit 1   an event hides the row image (R13)
    │   │   │   └── HiddenChange     exit 1   because of a session's settings: the copy stays
    │   │   │       └── NullInKey    exit 1   because of NULL in the row's key: the copy stays
    │   │   ├── StatementWrite       exit 1   a write in STATEMENT format to another table (R13)
    │   │   └── SchemaChanged        exit 1   another session changed the table (R14)
    │   │       └── AnotherServer    exit 1   another server answers at the address (R14)
    │   ├── ChangesNotFlushed        exit 1   the backlog does not drain
    │   ├── ChecksumFailure          exit 1   source and new table could not be made equal
    │   │   ├── StoredOtherwise      exit 1   the source's generated values are not the server's
    │   │   └── StillDifferent       exit 1   they were compared, and differ
    │   └── CutoverFailure           exit 1   the swap was not made
    │       └── HeldBack             exit 1   the swap is deferred between two tries
    ├── OutcomeUnknown               exit 3   look at the tables
    ├── DifferencesFound             exit 4
    └── Interrupted                  exit 130 or 143
        ├── Stopped                  exit 143 by the program that runs it as a library
        └── Aborted                  exit 143 by an operator, from anywhere
            └── AbortedForGood       exit 143 and what it left is dropped
"""

from __future__ import annotations

import signal
from typing import Any, ClassVar, Self

from spirit_py.codes import ErrorCode


class SpiritError(Exception):
    """Base of all errors that the program raises on purpose.

    Args:
        message: One line: the object and the cause.
        hint: One line: the next step. Empty where there is none.
        details: Further lines for the operator, such as examples.
        error_code: Where what has to be done is not what the class says.
    """

    exit_code: int = 1
    #: Stable name of what the operator has to do; an error may have another one than its class.
    error_code: ErrorCode = ErrorCode.MIGRATION_FAILED
    #: The codes of several causes, in the order in which they are shown; empty for one.
    causes: tuple[ErrorCode, ...] = ()
    #: How the run ended, as the report shows it.
    outcome: ClassVar[str] = "failed"
    #: Whether the same command can carry on from what is kept.
    resumable: ClassVar[bool] = True

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

    @property
    def explained_by(self) -> tuple[ErrorCode, ...]:
        """The pages that say what to do: those of the causes, where there are several."""
        return tuple(dict.fromkeys(self.causes)) or (self.error_code,)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by class, message and fields, so that no formatting runs twice."""
        return _rebuild, (type(self), self.message, dict(self.__dict__))


def _rebuild(kind: type[SpiritError], message: str, fields: dict[str, Any]) -> SpiritError:
    """Bring a pickled error back without running a subclass's ``__init__``."""
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.__dict__.update(fields)
    return error


class Refusal(SpiritError):
    """The migration may not run; nothing was written."""

    error_code = ErrorCode.REFUSED
    outcome = "refused"
    exit_code = 2
    resumable = False


class UsageFault(Refusal):
    """The command line or the configuration is wrong."""

    error_code = ErrorCode.WRONG_OPTIONS


class UnfinishedWork(Refusal):
    """Rows that an unfinished migration has copied would be dropped; the operator must agree."""

    error_code = ErrorCode.UNFINISHED_WORK


class MigrationFailure(SpiritError):
    """Failed cleanly: the source table is whole, writable and unlocked."""

    error_code = ErrorCode.MIGRATION_FAILED


class ServerFault(MigrationFailure):
    """An error that the server, or the driver on losing it, reported for a statement.

    Attributes:
        code: MySQL's error number (manual B.3.1 and B.3.2), 0 when the driver has none;
            :func:`spirit_py.mysql.faults.disposition` sorts it.
        text: the server's own message.
    """

    error_code = ErrorCode.SERVER_ERROR

    def __init__(self, code: int, text: str, *, where: str, hint: str = "") -> None:
        super().__init__(f"{text} (error {code}, {where})", hint=hint)
        self.code = code
        self.text = text


class CopyFailure(MigrationFailure):
    """A chunk could not be copied."""

    error_code = ErrorCode.COPY_FAILED


class WorkersLost(MigrationFailure):
    """Tasks that worked together (a gang) were lost; they may be started again."""

    error_code = ErrorCode.WORKERS_LOST


class CriticalLoad(MigrationFailure):
    """The server's load is above a limit at which the operator wants the run to end."""

    error_code = ErrorCode.CRITICAL_LOAD


class ValueLost(MigrationFailure):
    """A value would be changed or cut by the conversion to the new column (R10).

    Nothing is lost: once the row is changed in the source, the copy reads the new one, and the feed
    passes over the image that did not fit.
    """

    error_code = ErrorCode.VALUE_LOST


class PacketTooSmall(MigrationFailure):
    """A value is larger than ``max_allowed_packet``, which can be raised."""

    error_code = ErrorCode.PACKET_TOO_SMALL


class DuplicateForUnique(MigrationFailure):
    """Rows that a UNIQUE key of the new table cannot hold together (R11).

    They can be removed in the source; the copy stays.
    """

    error_code = ErrorCode.DUPLICATES_FOR_UNIQUE_KEY


class FeedFailure(MigrationFailure):
    """The change feed cannot go on."""

    error_code = ErrorCode.FEED_FAILED


class HandOverFailed(FeedFailure):
    """A change could not be handed on for lack of memory or of room, which may pass."""

    error_code = ErrorCode.NO_ROOM_FOR_CHANGES


class FeedBroken(FeedFailure):
    """The change feed failed in a way that this program does not provide for."""

    error_code = ErrorCode.DEFECT


class FeedSilent(FeedFailure):
    """The server is not reached, or does not say what it has executed."""

    error_code = ErrorCode.FEED_SERVER_SILENT


class BinlogUnreadable(FeedFailure):
    """The server cannot read its binary log, or this program does not know what is in it."""

    error_code = ErrorCode.BINLOG_UNREADABLE


class HistoryLost(FeedFailure):
    """The server's past is not what was followed: commits, or its binary log, may be lost (R25)."""

    error_code = ErrorCode.BINLOG_LOST


class PositionNotFound(FeedFailure):
    """A position can no longer be resumed: purged, or never executed by this server."""

    error_code = ErrorCode.FEED_POSITION_PURGED
    resumable = False


class PreparedBefore(FeedFailure):
    """The rows of an XA transaction are before the place where the change feed began (R8)."""

    error_code = ErrorCode.XA_UNDECIDED
    resumable = False


class UnreadableChange(FeedFailure):
    """A change of the table reached the binlog without its full row image (R13)."""

    error_code = ErrorCode.UNREADABLE_CHANGE
    resumable = False


class HiddenChange(UnreadableChange):
    """A session wrote to the table with settings that hide its rows from the binlog (R13).

    The copy stays: the next run passes over the hidden changes from before it began, and compares
    every row.
    """

    error_code = ErrorCode.HIDDEN_CHANGE
    resumable = True
    CARRY_ON = (
        "then run the same command again (without --no-repair): it carries on, passes over what was"
        " written so until then, and compares every row"
    )
    """What the operator does after the remedy."""


class NullInKey(HiddenChange):
    """A row has NULL in the nullable key by which rows are told apart.

    The copy stays: the next run passes over such changes from before it began.
    """

    error_code = ErrorCode.NULL_IN_KEY
    REMEDY = f"give the row a value in the key, {HiddenChange.CARRY_ON}"


class StatementWrite(FeedFailure):
    """A session wrote in STATEMENT format to a table that no option names (R13).

    Nothing is lost: the next run reads the same statement again, and passes it over where the
    operator names its table with ``--pass-statement-writes``.
    """

    error_code = ErrorCode.STATEMENT_WRITE


class SchemaChanged(FeedFailure):
    """Another session changed the definition of the table, or the server is another one (R14)."""

    error_code = ErrorCode.SCHEMA_CHANGED
    resumable = False


class AnotherServer(SchemaChanged):
    """Another server answers at the address (R14).

    Nothing is dropped: the next run checks whether that server has all transactions of this one.
    """

    error_code = ErrorCode.ANOTHER_SERVER
    resumable = True


class ChangesNotFlushed(MigrationFailure):
    """The backlog of changes does not drain."""

    error_code = ErrorCode.CHANGES_NOT_FLUSHED


class ChecksumFailure(MigrationFailure):
    """Source and new table could not be made equal."""

    error_code = ErrorCode.CHECKSUM_FAILED


class StoredOtherwise(ChecksumFailure):
    """The source stores other generated values than the server computes now (R22).

    They can be stored again in the source, or given up; the copy stays.
    """

    error_code = ErrorCode.GENERATED_STORED_OTHERWISE


class StillDifferent(ChecksumFailure):
    """The tables were compared as a whole and differ: the new table cannot be used."""

    error_code = ErrorCode.STILL_DIFFERENT
    resumable = False


class CutoverFailure(MigrationFailure):
    """The swap was not made; the source is in place and unlocked."""

    error_code = ErrorCode.SWAP_NOT_MADE


class HeldBack(CutoverFailure):
    """The swap must wait: for an operator's sentinel, or for another comparison."""

    error_code = ErrorCode.SWAP_HELD_BACK

    @classmethod
    def by(cls, what: str) -> Self:
        """Return the error for what defers the swap."""
        return cls(f"{what} defers the cutover", hint=f"end {what} to swap")


class OutcomeUnknown(SpiritError):
    """The answer to the swap was lost and the tables could not be looked at (R15)."""

    error_code = ErrorCode.OUTCOME_UNKNOWN
    outcome = "unknown"
    exit_code = 3
    resumable = False


class DifferencesFound(SpiritError):
    """A checksum found differences."""

    error_code = ErrorCode.DIFFERENCES_FOUND
    outcome = "different"
    exit_code = 4
    resumable = False


class Interrupted(SpiritError):
    """Stopped by a signal.

    Args:
        signal_number: 2 (SIGINT) or 15 (SIGTERM); the exit code is 128 more.
    """

    error_code = ErrorCode.INTERRUPTED
    outcome = "interrupted"

    def __init__(self, signal_number: int, *, hint: str = "") -> None:
        super().__init__(f"interrupted by {signal.Signals(signal_number).name}", hint=hint)
        self.exit_code = 128 + signal_number


class Stopped(Interrupted):
    """Stopped by the program that runs this one as a library, as by SIGTERM."""

    error_code = ErrorCode.INTERRUPTED

    def __init__(self, message: str, *, hint: str = "", details: tuple[str, ...] = ()) -> None:
        super().__init__(signal.SIGTERM, hint=hint)
        SpiritError.__init__(self, message, hint=hint, details=details)


class Aborted(Interrupted):
    """Ended by ``spirit-py ctl abort``, as by SIGTERM."""

    error_code = ErrorCode.ABORTED

    def __init__(self, message: str, *, hint: str = "", details: tuple[str, ...] = ()) -> None:
        super().__init__(signal.SIGTERM, hint=hint)
        SpiritError.__init__(self, message, hint=hint, details=details)


class AbortedForGood(Aborted):
    """The same with ``--cleanup``: what was copied is dropped."""

    error_code = ErrorCode.ABORTED_FOR_GOOD
    resumable = False
