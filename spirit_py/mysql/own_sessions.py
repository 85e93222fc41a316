"""The named locks that prove which server sessions are the program's (R18, R24).

Each session takes these when it is opened, and holds them to its end:

=================================  ==============================================================
``spirit-py:session:ID``           session ``ID`` is one of this program
``spirit-py:origin:ORIGIN:ID``     it was opened by these connection options, on any machine
``spirit-py:run:TOKEN:ID``         it belongs to this run, if the options have a label
``spirit-py:table:DIGEST:SLOT``    it works on this table of the run; one lock for each table
=================================  ==============================================================

``IS_USED_LOCK`` shows the holder of a name to every account, with and without performance_schema.
A restart of the server frees all names, and a session of an application that has the number of one
of ours by then holds none of them. A killed session releases its named locks last, when everything
that it executed has ended.

A name with a session's number answers whether that session is ours. To find sessions whose numbers
are not known, the slots of a table are looked through: there are ``SLOTS`` of them, and a session
takes the first free one. None of the names is ever waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure
from spirit_py.sql import string_literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spirit_py.contracts import SqlSession

SLOTS: Final = 512
"""Sessions that may work on one table at a time; a power of 8."""

_PREFIX: Final = "spirit-py"
_TAKE: Final = "GET_LOCK({}, 0)"
_DIGITS: Final = "(SELECT 0 AS n" + "".join(f" UNION ALL SELECT {n}" for n in range(1, 8)) + ")"
_HOLDERS: Final = (
    "SELECT IS_USED_LOCK(CONCAT(%s, a.n * 64 + b.n * 8 + c.n))"
    f" FROM {_DIGITS} AS a, {_DIGITS} AS b, {_DIGITS} AS c"
)


def claim(
    query: Callable[[str], Sequence[Sequence[Any]]], number: int, *, origin: str, label: str = ""
) -> None:
    """Take the locks of a session that was just opened, or that has just got its label.

    Args:
        query: runs a statement in that session, whichever driver opened it, and returns the rows.
        number: the session's.

    Raises:
        MigrationFailure: another session holds one of the names.
    """
    token, *digests = label.split() or [""]
    names = [f"{_PREFIX}:session:{number}", f"{_PREFIX}:origin:{origin}:{number}"]
    names += [_of_run(token, number)] if token else []
    # Last: whoever finds the session by its table sees of which run it is.
    slots = [f"{_of_table(digest)}{number % SLOTS}" for digest in digests]
    wanted = ", ".join(_TAKE.format(string_literal(name)) for name in (*names, *slots))
    taken = query(f"SELECT {wanted}")[0]
    for name, result in zip(names, taken, strict=False):
        if result != 1:
            raise MigrationFailure(
                f"another session holds the named lock {name}", error_code=ErrorCode.ALREADY_RUNNING
            )
    for digest, result in zip(digests, taken[len(names) :], strict=True):
        if result != 1:
            take_slot(query, number, _of_table(digest))


def take_slot(query: Callable[[str], Sequence[Sequence[Any]]], number: int, prefix: str) -> None:
    """Take the first free one of the names that begin so, for :func:`slot_holders`.

    Raises:
        MigrationFailure: all are taken.
    """
    for step in range(SLOTS):
        name = string_literal(f"{prefix}{(number + step) % SLOTS}")
        if query(f"SELECT {_TAKE.format(name)}")[0][0] == 1:
            return
    raise MigrationFailure(
        f"{SLOTS} sessions of this program work on one table",
        hint="see who has started them, and end what is not needed",
        error_code=ErrorCode.ALREADY_RUNNING,
    )


def slot_holders(session: SqlSession, prefix: str) -> set[int]:
    """Return the sessions that hold one of the names that begin so."""
    return {int(row[0]) for row in session.query(_HOLDERS, (prefix,)) if row[0] is not None}


def sessions_on(session: SqlSession, digests: Iterable[str]) -> set[int]:
    """Return the program's sessions that work on one of these tables, of any run."""
    return {found for digest in digests for found in slot_holders(session, _of_table(digest))}


def has_same_origin(session: SqlSession, number: int) -> bool:
    """Return whether a session was opened by the same options as the asking one."""
    origin = session.query("SELECT @spirit_py_origin")[0][0]
    return number in _holding(session, {f"{_PREFIX}:origin:{origin}:{number}": number})


def of_run(session: SqlSession, token: str, numbers: Iterable[int]) -> set[int]:
    """Return those of the sessions that belong to a run."""
    return _holding(session, {_of_run(token, number): number for number in numbers})


def ours(session: SqlSession, numbers: Iterable[int]) -> set[int]:
    """Return those of the sessions that are this program's, of whatever process."""
    return _holding(session, {f"{_PREFIX}:session:{number}": number for number in numbers})


def _holding(session: SqlSession, numbers: dict[str, int]) -> set[int]:
    """Return the sessions that hold the name that they should."""
    if not numbers:
        return set()
    asked = ", ".join(f"IS_USED_LOCK({string_literal(name)})" for name in numbers)
    holders = session.query(f"SELECT {asked}")[0]
    pairs = zip(numbers.values(), holders, strict=True)
    return {number for number, holder in pairs if holder == number}


def _of_run(token: str, number: int) -> str:
    return f"{_PREFIX}:run:{token}:{number}"


def _of_table(digest: str) -> str:
    return f"{_PREFIX}:table:{digest}:"
