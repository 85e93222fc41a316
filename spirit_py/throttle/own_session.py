"""A session for a throttler's short statements, which a server that is away must not hold up."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spirit_py.mysql.connect import connect
from spirit_py.mysql.renewed import RenewedSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.session import Session

_ANSWER_WITHIN: Final = 3


def own_session(
    connection: ConnectionOptions,
    role: str,
    *,
    prepare: Callable[[Session], None] | None = None,
    **more: Any,
) -> RenewedSession:
    """Return a session whose statements are answered within seconds, or fail.

    Args:
        prepare: called with every session that is opened.
        more: further arguments of :func:`connect`.
    """
    opening = partial(
        connect,
        connection,
        role=role,
        read_timeout=_ANSWER_WITHIN,
        lock_wait_timeout=_ANSWER_WITHIN,
        innodb_lock_wait_timeout=_ANSWER_WITHIN,
        **more,
    )
    return RenewedSession(opening, prepare=prepare)
