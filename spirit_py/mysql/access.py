"""Explain an error whose cause is that the account may not do any more what a run needs (pure).

Preflight has checked the account, so a refusal in the middle of a run means that its password was
changed, that it was locked, or that a privilege was revoked. The error that ends the run has the
code and the remedy of what was being done then, such as a chunk that could not be copied. These
give way to the ones here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, ServerFault
from spirit_py.mysql.faults import ACCESS_DENIED, access_denied

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The server does not let the account in (manual B.3.1): the password is wrong or has expired,
#: the host is not allowed, the account is locked.
_NOT_LET_IN: Final = frozenset({ACCESS_DENIED, 1130, 1698, 1820, 1862, 3118})
#: The codes that give way: they say what was being done, not what has to be done now.
_SAYS_LESS: Final = frozenset(
    {
        ErrorCode.SERVER_ERROR,
        ErrorCode.MIGRATION_FAILED,
        ErrorCode.COPY_FAILED,
        ErrorCode.CHECKPOINT_NOT_WRITTEN,
        ErrorCode.INDEX_BUILD_FAILED,
        ErrorCode.FEED_FAILED,
        ErrorCode.RUN_LOCK_LOST,
        ErrorCode.SWAP_NOT_MADE,
    }
)
_LOG_IN_AGAIN: Final = (
    "the account's login was changed while the run worked: run the same command again with its"
    " password of now, or once it is unlocked"
)
_GRANT_AGAIN: Final = (
    "a privilege of the account was revoked while the run worked: run the same command again, whose"
    " checks name every GRANT that is missing"
)


def access_remedy(fault: ServerFault) -> tuple[ErrorCode, str] | None:
    """Return code and remedy where the server refused the account; None for other faults."""
    if fault.code in _NOT_LET_IN:
        return ErrorCode.ACCESS_DENIED, _LOG_IN_AGAIN
    return (ErrorCode.MISSING_PRIVILEGES, _GRANT_AGAIN) if access_denied(fault) else None


def explain_access(error: BaseException) -> None:
    """Put code and remedy into an error that ends a run, where the account was refused.

    An error that says more of what has to be done keeps its own.
    """
    if not isinstance(error, MigrationFailure) or error.error_code not in _SAYS_LESS:
        return
    for fault in _faults_behind(error):
        if remedy := access_remedy(fault):
            error.error_code, error.hint = remedy
            return


def _faults_behind(error: BaseException) -> Iterator[ServerFault]:
    """Yield the server's faults that an error was raised from, itself included."""
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in seen:
        if isinstance(one, ServerFault):
            yield one
        seen.append(one)
        one = one.__cause__
