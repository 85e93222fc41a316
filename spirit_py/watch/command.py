"""``spirit-py watch``: follow the change stream from options to the last line, which it writes."""

from __future__ import annotations

import fcntl
import os
import re
import select
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from spirit_py import errors
from spirit_py.binlog.position import read_position, split_log
from spirit_py.binlog.writes import OPTION, StatementWrites
from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.config import FeedOptions
from spirit_py.events.run import Warned, WatchBegun, WatchBroken, WatchEmpty, WatchXaPrepared
from spirit_py.mysql.faults import connection_refusal
from spirit_py.mysql.grants import explain_access
from spirit_py.signals import stop_on_signals
from spirit_py.threads import Background, StopSwitch, every
from spirit_py.watch.follower import ONWARD, Follower
from spirit_py.watch.records import Progress, as_json, as_text, record
from spirit_py.watch.source import ScopeSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spirit_py.binlog.events import Event
    from spirit_py.command_config import WatchConfig
    from spirit_py.events.event import Tell
    from spirit_py.watch.records import Line, Record, Scope

_FULL: Final = 1 << 16
_LOOK_SECONDS: Final = 0.2
_ASK_SECONDS: Final = 5.0
_PATIENCE: Final = 2.0
"""Seconds that a slow reader is waited for after a stop request."""


class OutputClosed(Exception):
    """The reader of the output has gone (``| head``)."""


class OutputFault(errors.SpiritError):
    """The lines cannot be written, for example for lack of room. The hint has the position."""

    error_code = ErrorCode.OUTPUT_FAILED


class OutputStuck(Exception):
    """The reader does not continue reading after a stop request; the last line is incomplete."""


class Lines:
    """Gathers lines and writes them; for one thread at a time, not through ``sys.stdout``.

    A thread that waits in a full pipe would hold its lock, which the interpreter needs at its exit.
    A run from ``position`` misses nothing.
    """

    def __init__(self, descriptor: int, ending: Callable[[], bool]) -> None:
        self.position = ""
        self._descriptor = descriptor
        self._ending = ending
        self._gathered = bytearray()
        self._ends: deque[tuple[int, str]] = deque()
        self._fault: OutputFault | None = None
        self._broken = select.poll()
        self._broken.register(descriptor, 0)
        self._for_reading = (fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE) == os.O_RDONLY

    def add(self, line: Line) -> None:
        """Add a line; written at once when the buffer is large. Raises as ``flush``."""
        self._gathered += line.text.encode("utf-8", "backslashreplace")
        self._gathered += b"\n"
        self._ends.append((len(self._gathered), line.position))
        self.position = self.position or line.position
        if len(self._gathered) >= _FULL:
            self.flush()

    def flush(self) -> None:
        """Write all, waiting for a slow reader; raises OutputClosed, OutputStuck, OutputFault."""
        if self._fault is not None:
            raise self._fault
        data, self._gathered = memoryview(self._gathered), bytearray()
        ends, self._ends = self._ends, deque()
        written, patience = 0, _PATIENCE
        while written < len(data):
            if count := self._write(data[written:]):
                written += count
                while ends and ends[0][0] <= written:
                    _, self.position = ends.popleft()
            elif self._ending():
                patience -= _LOOK_SECONDS
                if patience <= 0:
                    raise OutputStuck

    def _write(self, data: memoryview) -> int:
        try:
            # A descriptor open for reading only is never writable: let the write raise the error.
            if not self._for_reading:
                _, writable, _ = select.select([], [self._descriptor], [], _LOOK_SECONDS)
                if not writable:
                    return 0
            # A pipe that is writable takes at least so many bytes.
            return os.write(self._descriptor, data[: select.PIPE_BUF])
        except BlockingIOError:
            return 0
        except (BrokenPipeError, ConnectionResetError) as error:
            raise OutputClosed from error
        except OSError as error:
            self._fault = OutputFault(
                f"cannot write to the standard output: {error.strerror or error}",
                hint="the last line may be incomplete; write the lines to another place, and go on"
                f" with --from '{self.position}'",
                details=(f"position: {self.position}",),
            )
            raise self._fault from error

    def closed(self) -> bool:
        """Return, without writing, whether the reader has gone."""
        return any(what & select.POLLERR for _, what in self._broken.poll(0))


BROKEN_PIPE: Final = 141
"""Exit code when the reader of the output closed it: 128 and SIGPIPE, as of ``cat``."""
_JOIN_SECONDS: Final = 10.0
_ANEW: Final = "take a new snapshot, and follow from it, or from now, without --from"
_LOST: Final = f"{_ANEW}: changes may be missing"
#: What helps by class, where the stream cannot just go on from the last line's position.
_HINTS: Final[tuple[tuple[type[errors.SpiritError], str], ...]] = (
    (
        errors.NeverExecuted,
        f"wait until this server has executed it, or follow its own; if that is lost, {_ANEW}",
    ),
    (errors.PositionNotFound, f"the changes since then are not available: {_ANEW}"),
    (errors.HistoryLost, _LOST),
    (
        errors.AnotherServer,
        "go on with --from the last line's position: a server that has all GTIDs of it takes it",
    ),
    (errors.SchemaChanged, ONWARD),
    (errors.UnreadableChange, ONWARD),
)
_HIDE_CHANGES: Final = frozenset({ErrorCode.BINLOG_FILTERED, ErrorCode.SERVER_SETTINGS})
#: Where the hint of a migration turns to what the same command does; a remedy is before it.
_AGAIN: Final = re.compile(
    r"(?:[,;] )?(?:then |or )?(?:run (?:the same command|again)|start (?:again|the migration))"
)
_PREPARED_UNSEEN: Final = (
    "the account may not see which XA transactions are prepared (GRANT XA_RECOVER_ADMIN): their"
    " rows are not in this stream, and a note at their xa_commit will say so"
)


def watch(options: WatchConfig, *, descriptor: int, tell: Tell) -> int:
    """Print events to the end asked for (0) or a closed output (141); SpiritError with position."""
    stop = StopSwitch()
    with stop_on_signals(stop):
        return _Watch(options, stop, Lines(descriptor, lambda: stop.requested), tell).run()


@dataclass(eq=False)
class _Watch:
    options: WatchConfig
    stop: StopSwitch
    lines: Lines
    tell: Tell
    _target: Any = None
    _raised: BaseException | None = None
    _arrived: bool = False

    def run(self) -> int:
        options = self.options
        _check_position(options.position)
        stream = self._connected()
        try:
            _check_passable(options.passable, stream.scope)
            follower = self._follower(stream, Progress(stream.open(options.position), stream.log))
            scope, position = str(stream.scope), follower.progress.text()
            self.tell(WatchBegun(scope=scope, position=position))
            if not stream.learn():
                self.tell(WatchEmpty(scope=scope))
            if options.until_now:
                self._target = stream.executed()
                stream.definitions.take_read_at()
            self._out(record("start", follower.progress.text()))
            self.lines.flush()
            return self._follow(stream, follower)
        except OutputClosed:
            return BROKEN_PIPE
        except OutputStuck as stuck:
            raise self._interrupted() or errors.FeedFailure(
                "the output is stuck", error_code=ErrorCode.OUTPUT_FAILED
            ) from stuck
        except errors.SpiritError as error:
            explain_access(error)
            error.hint = _onward(error, self.lines.position)
            raise
        finally:
            stream.close()

    def _connected(self) -> ScopeSource:
        options = self.options
        try:
            return ScopeSource(
                options.connection,
                FeedOptions(),
                database=options.database,
                table=options.table,
                warn=lambda said: self.tell(Warned(said=said)),
            )
        except errors.ServerFault as fault:
            raise connection_refusal(fault, options.connection) from fault

    def _follower(self, stream: ScopeSource, progress: Progress) -> Follower:
        older = set() if self.options.position else stream.prepared_before()
        if older is None:
            self.tell(Warned(said=_PREPARED_UNSEEN))
        elif older:
            self.tell(WatchXaPrepared(transactions=sorted(older)))
        onward = "go on with --from the last line's position, and {}"
        passable, covers, folds = self.options.passable, stream.scope.covers, stream.ignore_case
        writes = StatementWrites(passable, covers, ignore_case=folds, onward=onward, give_up=ONWARD)
        return Follower(
            progress=progress,
            scope=stream.scope,
            definitions=stream.definitions,
            out=self._out,
            flush=self.lines.flush,
            forget=stream.forget_codecs,
            writes=writes,
            heartbeat=self.options.heartbeat,
            resumed=bool(self.options.position) and not stream.rows_describe_themselves,
        )

    def _out(self, found: Record) -> None:
        self.lines.add((as_json if self.options.format == "json" else as_text)(found))

    def _follow(self, stream: ScopeSource, follower: Follower) -> int:
        def body(_stopping: object) -> None:
            if not self._reached(follower):
                stream.run(lambda event: self._take(event, follower, stream), lambda: None)

        thread = Background("watch", body, failed=self._failed, join_seconds=_JOIN_SECONDS)
        thread.start()
        # The log may be off, or another one, where the stream only waits.
        looks = Background(
            "watch-look",
            every(_ASK_SECONDS, stream.look),
            failed=self._failed,
            join_seconds=_JOIN_SECONDS,
        )
        looks.start()
        while not thread.wait(_LOOK_SECONDS):
            if self.stop.requested or self.lines.closed() or not looks.running:
                break
        looks.stop()
        stream.close()
        looks.join()
        whole = thread.join()
        if whole:
            follower.close()
        return self._end(follower.progress.text(), whole=whole)

    def _failed(self, error: BaseException) -> None:
        # What is closed then fails, too.
        self._raised = self._raised or error

    def _take(self, event: Event, follower: Follower, stream: ScopeSource) -> bool:
        if self.stop.requested:
            return False
        follower.progress.absorb(stream.unlogged)
        follower.deliver(event)
        return not self._reached(follower)

    def _reached(self, follower: Follower) -> bool:
        if self._target is None:
            return False
        if (later := follower.definitions.take_read_at()) is not None:
            self._target.absorb(later)
        if follower.progress.received.reaches(self._target):
            self._arrived = True
        return self._arrived

    def _end(self, position: str, *, whole: bool) -> int:
        reason = self.stop.reason
        error = self._raised
        if isinstance(error, OutputClosed) or (reason is None and self.lines.closed()):
            return BROKEN_PIPE
        said = "until" if self._arrived else "interrupted" if reason is not None else "failed"
        if whole and not isinstance(error, OutputStuck):
            self._out(record("end", position, reason=said))
            self.lines.flush()
        if self._arrived:
            return 0
        if (interrupted := self._interrupted()) is not None:
            raise interrupted
        if error is None:
            error = errors.FeedBroken("the stream ended by itself", hint="this is a bug: report it")
        self.tell(WatchBroken(position=self.lines.position))
        raise error

    def _interrupted(self) -> errors.Interrupted | None:
        reason = self.stop.reason
        if not isinstance(reason, errors.Interrupted):
            return None
        onward = f"go on with --from '{self.lines.position}'"
        return errors.Interrupted(reason.exit_code - 128, hint=onward)


def _onward(error: errors.SpiritError, position: str) -> str:
    """Return the hint of an error for a stream: the remedy stays, and nothing is migrated here."""
    if (turn := _AGAIN.search(error.hint)) is None:
        return error.hint
    onward = f"go on with --from '{position}'" if position else "run the same command again"
    if error.error_code in _HIDE_CHANGES or "start" in turn[0]:
        onward = _LOST
    onward = next((hint for of, hint in _HINTS if isinstance(error, of)), onward)
    remedy = error.hint[: turn.start()]
    return f"{remedy}, then {onward}" if remedy else onward


def _check_position(text: str) -> None:
    try:
        if text:
            read_position(split_log(text)[0])
    except ValueError as error:
        raise errors.UsageFault(
            f"--from is not a position: {text!r} ({error})",
            hint="use the position of a line that spirit-py watch printed, or now",
        ) from error


def _check_passable(passable: Iterable[tuple[str, str]], scope: Scope) -> None:
    for schema, table in passable:
        if scope.covers(schema, table):
            raise errors.UsageFault(
                f"{OPTION} {schema}.{table}: the table is followed, and a write in STATEMENT format"
                " to it cannot be printed",
                hint="follow less with --database and --table, or leave the option out",
            )
