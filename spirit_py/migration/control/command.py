"""``spirit-py ctl``: ask the process that works on a table, and show what it answers."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.examination import (
    RecordFound,
    asked_at,
    find_record,
    live_of,
    record_of,
)
from spirit_py.checkpoint.live import DONE, FAILED, STALE_SECONDS, Request
from spirit_py.checkpoint.queue import Asked, RequestQueue
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, Refusal, ServerFault
from spirit_py.locks.look import keeps_definitions
from spirit_py.locks.named import (
    named_lock_holder,
    release_named_lock,
    take_named_lock,
    working_session,
)
from spirit_py.migration.control.subject import CLEANUP, Verb
from spirit_py.mysql.connect import connect_first, write_no_log
from spirit_py.mysql.faults import access_denied, excused
from spirit_py.mysql.grants import read_grants
from spirit_py.mysql.processlist import whose
from spirit_py.mysql.tables.definition import require_name, stored_name
from spirit_py.preflight.checks.other_writers import REHEARSED, why_unseen
from spirit_py.signals import stop_on_signals
from spirit_py.table.names import AuxiliaryNames, lock_name
from spirit_py.threads import StopSwitch
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from spirit_py.checkpoint.record import CheckpointRecord
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.session import Session
    from spirit_py.table.names import Name

    Say = Callable[[str], None]

LOOK_SECONDS: Final = 0.3
"""Seconds between two looks at an answer."""


def follow_answer(
    session: SqlSession,
    queue: RequestQueue,
    asked: Asked,
    *,
    process_lock: str,
    said: Callable[[str], None],
    pause: Callable[[bool], None],
    within: float,
) -> bool:
    """Show what the process answers, until it is done; False where it ended without an answer.

    ``pause`` waits for :data:`LOOK_SECONDS`, and raises where the command is to end; its argument
    is whether the answer has begun, which must be ``within`` seconds: else MigrationFailure.
    A failure that it answers is raised.
    """
    began, shown = time.monotonic(), 0
    while True:
        held = named_lock_holder(session, process_lock) is not None
        # Read last: what the process wrote before it ended counts.
        answer = queue.answer_to(session, asked.number, asked.request.token)
        if answer is not None:
            if answer.state == FAILED:
                raise answer.as_error()
            for line in answer.said[shown:]:
                said(line)
            shown = len(answer.said)
            if answer.state == DONE:
                return True
        if not held:
            return False
        if not shown and time.monotonic() - began > within:
            counts = "has taken the request up, and may carry it out yet"
            if answer is None and queue.withdraw(session, asked):
                counts = "has not taken the request up, which is withdrawn"
            raise MigrationFailure(
                f"the process that works on the table does not answer ({asked.request}): it"
                f" {counts}",
                hint="see what it does (spirit-py status); when it has ended, run the same command"
                " again; an archive or a repair takes no requests: signal it",
                error_code=ErrorCode.NO_ANSWER,
            )
        pause(bool(shown))


NEEDED: Final = ("SELECT", "INSERT", "DELETE")
"""What an operator needs on the table of the requests."""
_READ_SECONDS: Final = 30
#: Within which the process must answer; it looks twice a second.
_ANSWER_SECONDS: Final = 30.0
#: Within which an aborted process must end.
_END_SECONDS: Final = 300.0


def control(
    options: ConnectionOptions,
    *,
    database: str,
    table: str,
    verb: str,
    arguments: Mapping[str, str],
    say: Say,
) -> None:
    """Ask for one thing, and wait until it is done.

    Refusal where no process can be asked, or it refused; MigrationFailure without an answer. After
    a ServerFault ``spirit-py ctl status`` shows whether the request was carried out; one that no
    process had claimed is withdrawn by a signal.
    """
    stop = StopSwitch()
    with (
        stop_on_signals(stop, hint="spirit-py ctl status shows what the process does now"),
        connect_first(options, role="ctl", read_timeout=_READ_SECONDS) as session,
    ):
        database, table = stored_name(session, database, table)
        Asking(session, database, table, stop, say).ask(verb, arguments)


def _what_drops(record: CheckpointRecord | None) -> str:
    rehearsed = record is not None and record.unlogged
    return REHEARSED if rehearsed else "spirit-py cleanup drops what is left"


@dataclass
class Asking:
    """One command's side of the conversation."""

    session: Session
    database: str
    table: str
    stop: StopSwitch
    say: Say

    def ask(self, verb: str, arguments: Mapping[str, str]) -> None:
        """Ask, and show the answer."""
        # Without a process its tables may be missing, and no GRANT on them succeeds.
        self._require_process()
        self._require_asked_here()
        self._require_rights(self.database, self.table)
        found = self._found()
        home = found.home
        self._tell_silence(home)
        if found.record is not None and found.record.unlogged:
            # Neither the server's own replicas nor its GTIDs may get the request's rows.
            write_no_log(self.session)
        queue = RequestQueue(*home)
        request = Request.of(verb, arguments)
        take_named_lock(self.session, request.lock)
        asked = Asked(number=queue.put(self.session, request), request=request)
        try:
            answered = follow_answer(
                self.session,
                queue,
                asked,
                process_lock=self._process_lock,
                said=self.say,
                pause=self._pause,
                within=_ANSWER_SECONDS,
            )
        finally:
            queue.forget(self.session, asked.number)
            release_named_lock(self.session, request.lock)
        if not answered:
            raise MigrationFailure(
                f"the process that worked on {self._name} ended before it answered",
                hint="see spirit-py status",
                error_code=ErrorCode.NO_ANSWER,
            )
        if verb == Verb.ABORT:
            together = found.record.tables if found.record is not None else ()
            names = {(self.database, self.table), home, *(one.name for one in together)}
            self._await_end(names, _what_drops(found.record), cleanup=CLEANUP in arguments)

    @property
    def _name(self) -> str:
        return f"{self.database}.{self.table}"

    @property
    def _process_lock(self) -> str:
        return lock_name("migration", self.database, self.table)

    def _pause(self, _begun: bool) -> None:
        self.stop.wait(LOOK_SECONDS)
        self.stop.check()

    def _require_rights(self, schema: str, table: str) -> None:
        names, grants = AuxiliaryNames.of(table), read_grants(self.session)
        why = "a request to the process is a row of this table"
        grants.require(NEEDED, schema, why, [names.requests], alone=True)
        why = "the checkpoint says which tables are migrated together"
        grants.require(("SELECT",), schema, why, [names.checkpoint], alone=True)

    def _require_process(self) -> None:
        if working_session(self.session, (self.database, self.table)) is not None:
            return
        if CheckpointTable(self.database, self.table).is_ours(self.session):
            # Who may not read it is told what is known without.
            if why := excused(self._why_unseen, "", access_denied):
                raise Refusal(
                    why,
                    hint="give the same command the address of the server that the run is"
                    " connected to",
                    error_code=ErrorCode.NOTHING_TO_CONTROL,
                )
            look = partial(record_of, self.session, (self.database, self.table))
            record = excused(look, None, access_denied)
            left = _what_drops(record)
            # A rehearsal on a primary has no place in the log either.
            resumes = "resumes" if record is None or record.position else "begins anew"
            again = "" if left == REHEARSED else f"the command that it was begun with {resumes}; "
            raise Refusal(
                f"no process works on {self._name} now: its migration was stopped",
                hint=f"{again}{left}; spirit-py status shows it",
                error_code=ErrorCode.NOTHING_TO_CONTROL,
            )
        require_name(self.session, self.database, self.table)
        raise Refusal(
            f"no process works on {self._name} now, and this account sees nothing of one before",
            hint="see spirit-py status without --table for other tables of the schema",
            error_code=ErrorCode.NOTHING_TO_CONTROL,
        )

    def _why_unseen(self) -> str:
        table = (self.database, self.table)
        with contextlib.suppress(UnreadableCheckpoint):
            home = find_record(self.session, table).home
            live, age = live_of(self.session, CheckpointTable(*home), None)
            return why_unseen(self.session, table, live, age)
        return ""

    def _require_asked_here(self) -> None:
        """Refuse on a server of a move whose process reads requests on another one."""
        asked = ""
        # Who may not read it gets the reason from what follows.
        with contextlib.suppress(ServerFault):
            asked = asked_at(self.session, (self.database, self.table))
        if asked:
            raise Refusal(
                f"the process that moves {self._name} is asked on {asked}, not on this server",
                hint=f"give the same spirit-py ctl command the address {asked}, if that is a"
                " source of your move",
                error_code=ErrorCode.NOTHING_TO_CONTROL,
            )

    def _tell_silence(self, home: Name) -> None:
        """Warn at once where the process may hang; its answer is waited for all the same."""
        holder = named_lock_holder(self.session, self._process_lock)
        live, age = live_of(self.session, CheckpointTable(*home), holder)
        if live is not None and age is not None and age > STALE_SECONDS:
            self.say(
                f"the process that works on {self._name} (process {live.pid} on {live.host}) has"
                f" written no figures for {human_seconds(age)}: it may hang; its answer is waited"
                f" for, {_ANSWER_SECONDS:.0f} s at most"
            )

    def _found(self) -> RecordFound:
        own = CheckpointTable(self.database, self.table)
        if not own.exists(self.session):
            raise Refusal(
                f"the process that works on {self._name}{self._where()} has no {own} now: it still"
                " checks the table, changes it in place without a copy, or has swapped it and ends;"
                " an archive or a repair takes no requests",
                hint="ask again in a moment; until then, and in an archive or a repair, Ctrl-C or"
                " SIGTERM to the process stops it, and its log says what it waits for",
                error_code=ErrorCode.NOTHING_TO_CONTROL,
            )
        if not own.is_ours(self.session):
            raise Refusal(
                f"{own} is not a checkpoint table of spirit-py",
                hint="see who created it",
                error_code=ErrorCode.NAME_TAKEN,
            )
        try:
            found = find_record(self.session, (self.database, self.table))
        except UnreadableCheckpoint as error:
            raise Refusal(
                f"the checkpoint cannot be read: {error}",
                hint="ask again in a moment, with the version of spirit-py that runs there",
                error_code=ErrorCode.CHECKPOINT_UNREADABLE,
            ) from error
        if found.home != (self.database, self.table):
            self._require_rights(*found.home)
        if found.orphaned or not CheckpointTable(*found.home).is_ours(self.session):
            raise Refusal(
                found.orphaned or "the process has just ended",
                hint="see spirit-py status",
                error_code=ErrorCode.NOTHING_TO_CONTROL,
            )
        queue = RequestQueue(*found.home)
        if not queue.is_ours(self.session):
            who = keeps_definitions(self.session)
            raise Refusal(
                f"the process that works on {self._name}{self._where()} takes no requests now:"
                f" {queue} is not there{who and f', and waits for {who}'}",
                hint=f"ask again {'when that is over' if who else 'in a moment'}; signals control"
                " the process as well",
                error_code=ErrorCode.NOTHING_TO_CONTROL,
            )
        return found

    def _where(self) -> str:
        holder = named_lock_holder(self.session, self._process_lock)
        return "" if holder is None else f" ({whose(self.session, holder)})"

    def _await_end(self, tables: Collection[Name], drops: str, *, cleanup: bool) -> None:
        left = _END_SECONDS
        while named_lock_holder(self.session, self._process_lock) is not None:
            if left <= 0:
                raise MigrationFailure(
                    f"the process that works on {self._name} has not ended yet",
                    hint="it stops once its present statement ends; see spirit-py status",
                    error_code=ErrorCode.NO_ANSWER,
                )
            self._pause(True)
            left -= LOOK_SECONDS
        checkpoints = [CheckpointTable(*table) for table in sorted(tables)]
        kept = [str(one) for one in checkpoints if one.exists(self.session)]
        if kept and cleanup:
            raise MigrationFailure(
                f"the process that worked on {self._name} has ended, and not all of its tables are"
                f" dropped: {', '.join(kept)} is there",
                hint=f"{drops}; spirit-py status shows it",
            )
        if kept:
            self.say("it has ended; its tables and its checkpoint are kept")
        else:
            self.say("it has ended; nothing is left of it")
