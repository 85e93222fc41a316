"""Which sessions and which GTIDs of the server are the program's, and of which run (R18, R24, R26).

A session takes named locks when it is opened, and holds them to its end, when everything that it
executed has ended. A name is a digest of a secret and a number:

=====================  =========================================================================
of origin and session  opened by these connection options: a random secret, never on the server
of run and session     of this run, by its token, which the checkpoint table has
of run and slot        finds sessions of that run whose numbers are not known
of table and slot      finds sessions of a run without figures; anybody can make these names
=====================  =========================================================================

``IS_USED_LOCK`` shows the holder to every account. A session counts as ours only if it holds the
name of its own number.

The copy commits under GTIDs of its own, which the feed reports as received, so that the dump leaves
them out (own GTIDs of the server would be refused with error 1236, measured): number ``n`` of a
uuid of one table in one run. The server skips a statement with a used number without an error;
``@@SESSION.gtid_owned`` after ``SET gtid_next`` shows whether the session owns it.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from typing import TYPE_CHECKING, Any, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, ServerFault
from spirit_py.mysql.faults import access_denied, excused
from spirit_py.mysql.processlist import whose
from spirit_py.sql import string_literal
from spirit_py.table.names import lock_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from spirit_py.contracts import SqlSession

    Query = Callable[[str], Sequence[Sequence[Any]]]

_OF_SESSION: Final = "spirit-py:session:"
SLOTS: Final = 512
"""Sessions of one run, or on one table, that are found by a slot."""
_HOLDERS: Final = f"""
SELECT DISTINCT t.PROCESSLIST_ID FROM performance_schema.metadata_locks m
JOIN performance_schema.threads t ON t.THREAD_ID = m.OWNER_THREAD_ID
WHERE m.OBJECT_TYPE = 'USER LEVEL LOCK' AND m.LOCK_STATUS = 'GRANTED'
  AND LEFT(m.OBJECT_NAME, {len(_OF_SESSION)}) = '{_OF_SESSION}' AND t.PROCESSLIST_ID IN ({{}})"""


def claim(query: Query, number: int, *, origin: str, label: str = "") -> None:
    """Take the locks of a session that was just opened or labelled; MigrationFailure if taken."""
    names, found_by, sql = _claimed(number, origin, label)
    digests = label.split()[1:]
    taken = query(sql)[0]
    for name, result in zip(names, taken, strict=False):
        if result != 1:
            holder = query(f"SELECT IS_USED_LOCK({string_literal(name)})")[0][0]
            raise MigrationFailure(
                f"another session ({holder}) holds the named lock {name} of session {number}",
                hint="only who has read this run's secret in the checkpoint table can know that"
                f" name: see who session {holder} is, and KILL it",
                error_code=ErrorCode.ALREADY_RUNNING,
            )
    for secret, result in zip(found_by, taken[len(names) :], strict=True):
        if result != 1 and secret in digests:
            _take_free_slot(query, number, secret)
        elif result != 1:
            take_slot(query, number, secret)


def _claimed(number: int, origin: str, label: str) -> tuple[list[str], list[str], str]:
    """Return a session's locks by its number, the secrets of its slots, and what takes all."""
    token, *digests = label.split() or [""]
    names = [_of_number(secret, number) for secret in (origin, token) if secret]
    # The table's last: whoever finds the session by its table sees of which run it is.
    found_by = [secret for secret in (token, *digests) if secret]
    wanted = (*names, *(_slot(secret, number % SLOTS) for secret in found_by))
    sql = "SELECT " + ", ".join(f"GET_LOCK({string_literal(one)}, 0)" for one in wanted)
    return names, found_by, sql


def take_slot(query: Query, number: int, secret: str) -> None:
    """Take a secret's first free slot, for :func:`slot_holders`; else raise MigrationFailure."""
    first = string_literal(_slot(secret, number % SLOTS))
    taken = query(f"SELECT GET_LOCK({first}, 0)")[0][0] == 1
    if not taken and not _take_free_slot(query, number, secret):
        raise MigrationFailure(
            f"{SLOTS} sessions of this program work on one table",
            hint="see who has started them, and end what is not needed",
            error_code=ErrorCode.ALREADY_RUNNING,
        )


def _take_free_slot(query: Query, number: int, secret: str) -> bool:
    held = query(_holders_of(secret))[0]
    for step in range(SLOTS):
        slot = (number + step) % SLOTS
        if held[slot] is None:
            name = string_literal(_slot(secret, slot))
            if query(f"SELECT GET_LOCK({name}, 0)")[0][0] == 1:
                return True
    return False


def slot_holders(session: SqlSession, secret: str) -> set[int]:
    """Return the sessions that hold one of the slots of a secret."""
    return {int(holder) for holder in session.query(_holders_of(secret))[0] if holder is not None}


def sessions_of_run(session: SqlSession, token: str) -> set[int]:
    """Return the sessions of a run."""
    return of_run(session, token, slot_holders(session, token))


def of_run(session: SqlSession, token: str, numbers: Iterable[int]) -> set[int]:
    """Return those of the sessions that belong to the run of a token, or to an origin."""
    if not (asked := list(dict.fromkeys(numbers))):
        return set()
    holders = session.query(_holders_of_numbers(token, tuple(asked)))[0]
    return {number for number, holder in zip(asked, holders, strict=True) if holder == number}


def ours(session: SqlSession, numbers: Iterable[int]) -> set[int]:
    """Return those of the sessions that were opened by the same options as the asking one."""
    return of_run(session, session.origin, numbers)


def of_any_run(session: SqlSession, numbers: Iterable[int]) -> set[int]:
    """Return those of the sessions that seem to be of some run; only what they hold tells (R24).

    Anybody can take such a name for a session of its own: it proves nothing. Empty where
    performance_schema does not show locks.
    """
    if not (asked := {int(number) for number in numbers}):
        return set()
    sql = _HOLDERS.format(", ".join(map(str, sorted(asked))))
    return {int(row[0]) for row in excused(lambda: session.query(sql), (), access_denied)}


def _holders_of_numbers(secret: str, numbers: tuple[int, ...]) -> str:
    names = (string_literal(_of_number(secret, number)) for number in numbers)
    return "SELECT " + ", ".join(f"IS_USED_LOCK({name})" for name in names)


def _holders_of(secret: str) -> str:
    names = (string_literal(_slot(secret, slot)) for slot in range(SLOTS))
    return "SELECT " + ", ".join(f"IS_USED_LOCK({name})" for name in names)


def _of_number(secret: str, number: int) -> str:
    return f"{_OF_SESSION}{_digest(secret, number)}"


def _slot(secret: str, slot: int) -> str:
    return f"spirit-py:slot:{_digest(secret, slot)}"


def _digest(secret: str, number: int) -> str:
    return hashlib.sha256(f"{secret} {number}".encode()).hexdigest()[:32]


def run_label(tables: Iterable[tuple[str, str]]) -> str:
    """Make the label of a new run: a token of its own, and a digest for each table."""
    digests = sorted(lock_name("migration", *table).rpartition(":")[2] for table in tables)
    return " ".join((secrets.token_hex(16), *digests))


def token_of(label: str) -> str:
    """Return the token of a run's label."""
    return label.partition(" ")[0]


def shown_run(label: str) -> str:
    """Return the SET assignment that shows the run to an operator; its token is a secret."""
    shown = hashlib.sha256(token_of(label).encode()).hexdigest()[:16]
    return f"@spirit_py_run={string_literal(shown)}"


def refuse_when_taken_over(session: SqlSession, label: str) -> None:
    """Refuse a session of a run whose table another run has the advisory lock of.

    It holds its run's locks already: a run that takes the lock later finds it by them.
    """
    token, *digests = label.split()
    for digest in digests:
        lock = f"spirit-py:migration:{digest}"
        before = None
        while (holder := _user_of(session, lock)) is not None:
            if of_run(session, token, [holder]):
                break
            # Asked twice: our own session may have ended between the two questions.
            if holder == before:
                raise MigrationFailure(
                    "another run of spirit-py has taken this migration over"
                    f" ({whose(session, holder)})",
                    hint=f"let that run end; a session that is no run of spirit-py: KILL {holder}",
                    error_code=ErrorCode.ALREADY_RUNNING,
                )
            before = holder


def _user_of(session: SqlSession, lock: str) -> int | None:
    holder = session.query("SELECT IS_USED_LOCK(%s)", (lock,))[0][0]
    return None if holder is None else int(holder)


_PREFIX: Final = "73706972-6974-4"
"""``spirit``, and a four for a uuid of random bits."""
NUMBERS: Final = 2**63 - 1
"""The end of the numbers that a transaction may have (manual, GTID Format)."""


def new_run() -> str:
    """Return a random text that distinguishes one run's identifiers from all others."""
    return secrets.token_hex(8)


def own_uuid(run: str, schema: str, table: str) -> str:
    """Return the uuid under which a run copies a table."""
    digits = hashlib.sha256(f"{run}\0{schema}\0{table}".encode()).hexdigest()
    return f"{_PREFIX}{digits[:3]}-8{digits[3:6]}-{digits[6:18]}"


def is_own(tsid: str) -> bool:
    """Return whether an identifier is one that some run has copied under."""
    return tsid.startswith(_PREFIX)


@contextlib.contextmanager
def committing_as(session: SqlSession, gtid: str) -> Iterator[None]:
    """Let the one statement inside commit under this identifier, unless it is empty or used.

    After a ServerFault gtid_next may not be set back: the session must be closed.
    """
    if not gtid:
        yield
        return
    session.execute(f"SET SESSION gtid_next = {string_literal(gtid)}")
    if session.query("SELECT @@SESSION.gtid_owned")[0][0] != gtid:
        session.execute("SET SESSION gtid_next = 'AUTOMATIC'")
        yield
        return
    try:
        yield
    except BaseException:
        with contextlib.suppress(ServerFault):
            _set_back(session, "ROLLBACK")
        raise
    # A statement that wrote nothing still holds its number.
    _set_back(session, "COMMIT")


def _set_back(session: SqlSession, end: str) -> None:
    session.execute(end)
    session.execute("SET SESSION gtid_next = 'AUTOMATIC'")
