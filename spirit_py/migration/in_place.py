"""The ALTER that the server itself makes: sent within a bounded wait for its lock, and proved."""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
from typing import TYPE_CHECKING, Final, Protocol

from spirit_py.attached.foreign_keys.catalogue import keys_of, keys_to
from spirit_py.attached.foreign_keys.model import drops
from spirit_py.attached.foreign_keys.rules import REMEDIES
from spirit_py.classes import dataclass, field, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import (
    MigrationFailure,
    OutcomeUnknown,
    Refusal,
    SchemaChanged,
    ServerFault,
    SpiritError,
)
from spirit_py.events.run import Warned
from spirit_py.locks.named import named_lock_holder, release_named_lock, take_named_lock
from spirit_py.mysql.evaluation import DEPENDING_ON_MODES, copying_modes, server_refusal
from spirit_py.mysql.faults import (
    INTERRUPTED,
    LOCK_WAIT_TIMEOUT,
    Disposition,
    connection_lost,
    disposition,
)
from spirit_py.mysql.retry import retrying
from spirit_py.mysql.tables.deferred_indexes import alters_table
from spirit_py.mysql.tables.definition import read_table, shape_of
from spirit_py.mysql.tables.identity import identity
from spirit_py.preflight import clauses
from spirit_py.preflight.shortcut import choose, modifiers
from spirit_py.sql import string_literal
from spirit_py.statement import ClauseKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from spirit_py.contracts import SqlSession
    from spirit_py.locks.turns import LockTurns
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.preflight.shortcut import Algorithm, ShortcutResult
    from spirit_py.statement import AlterStatement
    from spirit_py.table.names import Name
    from spirit_py.table.schema import TableSchema

_IMPOSSIBLE = re.compile(r"ALGORITHM|instant", re.IGNORECASE)
#: Values and names, of which a value may hold quotes.
_QUOTED = re.compile(r"['`].*['`]", re.DOTALL)
#: Not with this algorithm, or not with this lock; with the third, too many changes for its log.
_NOT_SO: Final = frozenset({1845, 1846})
_LOG_TOO_BIG: Final = 1799
#: Rebuilds that may be lost at their end, each longer than a request's waits, before the run ends.
_MOST_LOST: Final = 3
#: How often it is looked whether a lost session ends that should, and the seconds in between.
_LOST_LOOKS: Final = 60
_LOST_SECONDS: Final = 1.0


class OutcomeProof(Protocol):
    """What a clause changes, where the definition is no proof."""

    @property
    def settings(self) -> tuple[str, ...]:
        """The statements that are sent in its session before it."""

    def begin(self) -> None:
        """Look at what is there, right before the clause is sent."""

    def without(self, shape: str) -> str:
        """Return the part of a definition that the clause leaves alone."""

    def happened(self, *, answered: bool) -> bool:
        """Return whether the clause was made; ``answered``: the server says so."""


@dataclass(kw_only=True)
class Sending:
    """An ALTER about to be sent; ``made`` is set before it counts as under way no more."""

    allowed: bool = True
    made: bool = False


@dataclass(kw_only=True, eq=False)
class WholeProof:
    """Of an ALTER that may build the table anew: the definition that it makes, if that is known.

    The server judges values as strictly as it can, and checks foreign and unique keys: nothing
    compares rows afterwards. In ``zone`` its copy keeps every instant.
    """

    session: SqlSession
    source: TableSchema
    made: str
    zone: str

    @property
    def settings(self) -> tuple[str, ...]:
        """The statements before it."""
        return (
            "SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES')",
            "SET SESSION foreign_key_checks = 1",
            "SET SESSION unique_checks = 1",
            f"SET SESSION time_zone = {string_literal(self.zone)}",
        )

    def begin(self) -> None:
        """Look at nothing: the number of before is known."""

    def without(self, shape: str) -> str:
        """Return whether there is a table."""
        return "" if not shape else "a table"

    def happened(self, *, answered: bool) -> bool:
        """Return whether the definition is the one that was to be made."""
        found = read_table(self.session, self.source.schema, self.source.name)
        shape = "" if found is None else shape_of(found)
        return shape == self.made or (answered and not self.made)


class _NotGranted(Exception):
    """The ALTER ended without effect because of others."""

    def __init__(self, error: ServerFault) -> None:
        self.error = error


class OtherModesAccept(Refusal):
    """The server refuses a definition that it may accept under other modes."""

    error_code = ErrorCode.OTHER_MODES_ACCEPT


@dataclass
class Shortcut:
    """Sends the ALTER within a bounded wait for the lock, several times.

    Neither algorithm gives the table another InnoDB number (measured on 9.7): so number and
    definition prove the outcome; else ``proof`` does.

    ``native``, with the server's own settings, runs the ALTER; ``session`` looks who is in front,
    and at the table when the answer is lost. ``made``: the definition that it makes, empty where
    not known; ``proof`` is that of a clause which only the server makes, or of a whole ALTER; the
    clauses ``before`` it change nothing.
    ``renew`` opens lost sessions again, and returns whether ``session`` was lost; ``await_turn``
    waits until the ALTER may be sent, and returns whether that took time. ``sending``, with the
    algorithm, is open meanwhile; ``refused`` is called before the next ``await_turn``.
    """

    native: SqlSession
    session: SqlSession
    source: TableSchema
    statement: AlterStatement
    turns: LockTurns
    made: str = ""
    proof: OutcomeProof | None = None
    before: tuple[str, ...] = ()
    renew: Callable[[], bool] = lambda: False
    await_turn: Callable[[Algorithm], bool] = lambda _: False
    sending: Callable[[Algorithm], AbstractContextManager[Sending]] = lambda _: (
        contextlib.nullcontext(Sending())
    )
    refused: Callable[[], object] = lambda: None
    _sends: int = field(default=0, init=False)
    _lost_rebuilds: int = field(default=0, init=False)
    _fenced: str = field(default="", init=False)
    _not_online: str = field(default="", init=False)
    _unchanged: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._attend = self.turns.attend
        self.turns = replace(self.turns, attend=self._keep_alive)
        self._whole = isinstance(self.proof, WholeProof)
        self._numbers = identity(self.session, self.source.schema, self.source.name)

    def try_all(self) -> ShortcutResult:
        """Change the table by INSTANT, else by an INPLACE that changes only metadata.

        Refusal where the server refuses the statement for another reason than the algorithm;
        MigrationFailure where the lock was not granted: the table is unchanged; SchemaChanged where
        another session has changed or replaced the table before; OutcomeUnknown where it is neither
        as before nor as the statement makes it.
        """
        by_server = self.proof is not None
        found = choose(
            self.source, self.statement, self._run, by_server=by_server, whole=self._whole
        )
        return replace(found, attempts=self._sends, unchanged=self._unchanged)

    def _keep_alive(self) -> None:
        self._attend()
        for each in (self.native, self.session):
            with contextlib.suppress(ServerFault):
                each.query("SELECT 1")

    def _run(self, algorithm: Algorithm) -> str:
        """Change the table; return why the server cannot with this algorithm, or an empty text."""
        if algorithm == "native":
            said = f"writes to {self.source.full_name} wait while the server copies its rows"
            self.turns.tell(Warned(said=f"{said}{self._not_online and f': {self._not_online}'}"))
        # Whole seconds, and a request may wait twice: to read the table, then to change it.
        wait = max(1, int(self.turns.policy.wait))
        while True:
            # A look's session that is lost has changed nothing.
            if not retrying(self.turns.stop)(self.turns.await_free):
                raise self._no_lock(None)
            if self.await_turn(algorithm):
                continue
            self.renew()
            if not self._is_unchanged():
                continue
            began = self.turns.clock()
            try:
                with self.sending(algorithm) as sending:
                    found = self._sent(algorithm, wait) if sending.allowed else None
                    sending.made = found == ""
            except _NotGranted as late:
                self.turns.stop.check()
                # More than the waits for two locks: the lock at the end was the one. A shorter copy
                # keeps writes waiting for no longer than another request, and is as often repeated.
                took = self.turns.clock() - began
                lost = took > 2 * wait + 1 or late.error.code == INTERRUPTED
                self._lost_rebuilds += self._whole and lost
                if self.turns.over or self._lost_rebuilds >= _MOST_LOST:
                    raise self._no_lock(late.error) from late.error
                self.refused()
                # Writes may have waited all the time: not less than twice that until the next.
                least = 2.0 * took if self._whole else 0.0
                if least > self.turns.left:
                    raise self._no_lock(late.error) from late.error
                self.turns.pause(self._sends, took, "", in_vain=True, least=least)
            else:
                if found is not None:
                    self._not_online = found
                    return found

    def _sent(self, algorithm: Algorithm, wait: int) -> str | None:
        """Send the ALTER; return as :meth:`_run`, or None where it is to be sent again."""
        table, asked = self.source.quoted, False
        self._sends += 1
        fence = f"spirit-py:alter:{secrets.token_hex(8)}"
        try:
            # For the statement: a restarted server numbers its sessions again.
            if self._fenced:
                release_named_lock(self.native, self._fenced)
            take_named_lock(self.native, fence)
            self._fenced = fence
            self.native.execute(f"SET SESSION lock_wait_timeout = {wait}")
            if self.proof is not None:
                self.proof.begin()
                for setting in self.proof.settings:
                    self.native.execute(setting)
            given = modifiers(algorithm, self.statement), *self.before, self.statement.clauses
            how = filter(None, given)
            asked = True
            self.native.execute(f"ALTER TABLE {table} {', '.join(how)}")
        except ServerFault as error:
            # An answer: the session that got it is there, and still has its fence.
            if error.code == LOCK_WAIT_TIMEOUT:
                raise _NotGranted(error) from error
            if not self._was_restarted(error, asked=asked):
                return self._judge(error, fence)
            return "" if self._changed(error, fence) else None
        self._require_made()
        return ""

    def _was_restarted(self, error: ServerFault, *, asked: bool = False) -> bool:
        """Return whether it was; OutcomeUnknown where what was ``asked`` for cannot be seen."""
        if disposition(error, committing=True) is Disposition.FATAL:
            return False
        try:
            return self.renew()
        except SpiritError as unseen:
            # Another server answers (R14), or none does until the run is stopped.
            if not asked:
                raise
            raise self._lost(unseen) from error

    def _no_lock(self, error: ServerFault | None) -> MigrationFailure:
        why = error.text if error else "it was not sent while other sessions used the table"
        who = self.turns.described()
        what = f"its metadata lock was not granted to {self._sends} requests"
        hint = "end the long transactions that use the table, then run the same command again"
        if error and error.code == INTERRUPTED:
            what = f"the last of its {self._sends} requests was ended"
            hint = "see what kills it, or waits for a lock on the server; then run the same command"
        return MigrationFailure(
            f"the server can change table {self.source.name} itself, but {what}: {why}"
            f"{who and f'; in front: {who}'}",
            hint=hint,
            error_code=ErrorCode.LOCK_NOT_GRANTED,
        )

    def _judge(self, error: ServerFault, fence: str) -> str:
        fate = disposition(error, committing=True)
        not_so = error.code in _NOT_SO or (self._whole and error.code == _LOG_TOO_BIG)
        not_so = not_so or _IMPOSSIBLE.search(_QUOTED.sub("", error.text)) is not None
        if fate is Disposition.FATAL and not_so:
            return error.text
        if fate is Disposition.FATAL and not error.hint:
            modes = copying_modes(error) if self._whole else ""
            refusal = server_refusal(error, "the ALTER", modes)
            if error.code in REMEDIES:
                refusal.hint = REMEDIES[error.code]
                refusal.error_code = ErrorCode.FOREIGN_KEY
            if error.code in DEPENDING_ON_MODES:
                refusal = OtherModesAccept(refusal.message, hint=refusal.hint)
            raise refusal from error
        if fate is Disposition.UNKNOWN and not connection_lost(error):
            # After error 1598 the server may end, and its recovery make the ALTER.
            self.native.close()
        if self._changed(error, fence):
            return ""
        if self._whole and error.code == INTERRUPTED:
            # Perhaps by this run, for a global lock that waited behind it.
            raise _NotGranted(error) from error
        raise error

    def _is_unchanged(self) -> bool:
        """Return whether the table is the one that was judged; False where the server was away."""
        try:
            shape, same = self._look()
        except ServerFault as error:
            if not self._was_restarted(error):
                raise
            return False
        if same and shape == shape_of(self.source):
            return True
        raise SchemaChanged(
            f"another session {'changed' if same else 'replaced or dropped'} the table"
            f" {self.source.full_name} before the ALTER was sent",
            hint="see what was changed, then start the migration again",
        )

    def _require_made(self) -> None:
        """Require that the table is now what the server has answered."""
        try:
            shape, same = self._look()
        except ServerFault:
            # The answer counts: the server says that it was done.
            return
        if not self._is_made(shape, same=same, answered=True):
            raise self._other_table("was executed", same=same)
        # A shape shows no counter, and no values that DROP and ADD of one name have replaced.
        more = self.proof or self.statement.auto_increment or self.statement.dropped
        self._unchanged = not more and shape == shape_of(self.source)

    def _changed(self, error: ServerFault, fence: str) -> bool:
        """Return whether an ALTER, which is atomic, has taken effect without an answer."""
        # Its session holds ``fence`` until the statement has ended, and after that if it lives.
        unknown = disposition(error, committing=True) is Disposition.UNKNOWN
        looks, told, holder = _LOST_LOOKS if unknown else 0, False, None
        while True:
            try:
                holder = named_lock_holder(self.session, fence) if looks else None
                if holder is None:
                    return self._has_changed(error)
                # The server goes on without its client, for hours; a stop ends that, too.
                if self.turns.stop.requested or not alters_table(self.session, holder):
                    looks -= 1
                    if not looks:
                        raise self._lost(error, holder) from error
            except ServerFault as second:
                # The session that looks may be lost, too: the next one goes on.
                if not self._was_restarted(second, asked=True):
                    raise self._lost(second, holder) from error
                continue
            what = f"the end of the ALTER in session {holder}, whose client was lost"
            if not told:
                told = True
                self.turns.tell(Warned(said=f"waiting for {what}"))
            self.turns.show(what)
            threading.Event().wait(_LOST_SECONDS)

    def _lost(self, error: SpiritError, holder: int | None = None) -> OutcomeUnknown:
        why = error.text if isinstance(error, ServerFault) else error.message
        look = f"look at SHOW CREATE TABLE {self.source.name}: it was changed, or it was not"
        still = (
            f"session {holder} of the server may still be at work, and another run would end that:"
            " wait for its end; then "
        )
        return OutcomeUnknown(
            f"the answer to ALTER TABLE {self.source.name} was lost ({why})",
            hint=f"{still if holder is not None else ''}{look}",
        )

    def _has_changed(self, error: ServerFault) -> bool:
        shape, same = self._look()
        if same and shape == shape_of(self.source):
            unseen = self.statement.dropped or self.statement.auto_increment
            unknown = disposition(error, committing=True) is Disposition.UNKNOWN
            if unknown and unseen and self.made in {"", shape}:
                # A column that is dropped and added again: made again, new values would go.
                # Nor does a definition always show a counter.
                raise self._lost(error) from error
            return False
        if self._is_made(shape, same=same, answered=False):
            return True
        raise self._other_table(f"was not answered ({error.text})", same=same) from error

    def _is_made(self, shape: str, *, same: bool, answered: bool) -> bool:
        """Return whether the table is what the ALTER makes of it; ``answered``: with success."""
        if self.proof is None:
            return same and (shape == self.made or (answered and not self.made))
        rest = self.proof.without
        if rest(shape) != rest(shape_of(self.source)):
            return False
        return self.proof.happened(answered=answered)

    def _look(self) -> tuple[str, bool]:
        """Return the definition (empty without a table), and whether the table is the same."""
        # In this order: a table that takes its place has another number.
        found = read_table(self.session, self.source.schema, self.source.name)
        now = identity(self.session, self.source.schema, self.source.name)
        same = (now.server, now.numbers) == (self._numbers.server, self._numbers.numbers)
        return ("", False) if found is None else (shape_of(found), same)

    def _other_table(self, what: str, *, same: bool) -> OutcomeUnknown:
        name = self.source.full_name
        now = "it has another definition than the ALTER makes of the one that was read"
        if same and not self.made:
            now = "its definition is another one, and what the ALTER makes of it is not known"
        elif not same:
            now = "the table that was to be changed is gone, or another one is in its place"
        return OutcomeUnknown(
            f"the ALTER of {name} {what}, and {now}: another session changed or replaced the table",
            hint=f"look at SHOW CREATE TABLE {self.source.name}, and see who changed it: the ALTER"
            " may have taken effect before that, or not",
        )


def locked_tables(session: SqlSession, context: PreflightContext) -> list[Name]:
    """Return the tables whose metadata lock the ALTER takes exclusively.

    Measured on 9.7: also those of all children, whatever is changed, and those of the parents
    where a foreign key is dropped. INNODB_FOREIGN shows them to an account with PROCESS.
    """
    table = (context.schema, context.table)
    found = {table: None}
    if (clause := clauses.made_by_server([context])) and clause.other[1]:
        found[clause.other] = None
    found.update((key.child, None) for key in keys_to(session, *table))
    if context.statement.of_kind(ClauseKind.DROP_FOREIGN_KEY, ClauseKind.DROP_CONSTRAINT):
        keys = keys_of(session, *table)
        if any(drops(context.statement, key) for key in keys):
            found.update((key.parent, None) for key in keys)
    return list(found)
