"""Refuses the library in a process that was forked beside a run.

A fork copies the calling thread alone. A lock that another thread held, such as that of a module
under import, is never released in the child, so that a run there may wait for it forever; the
MySQL sessions and the gateway to Spark's JVM are the parent's, and an answer that one of the two
reads is missing in the other. Whoever looks at the parent's run from the child would wait for
events that no thread sends. So the child is told at once. A process that is forked while no run is
under way is as good as any other.
"""

from __future__ import annotations

import os
from typing import Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal

#: Identities of the runs under way in this process. Sets change at once under the GIL: a lock could
#: be held in the moment of the fork.
_UNDER_WAY: Final[set[int]] = set()
#: The process whose run was under way when this one was forked; empty where none was.
_FORKED_FROM: Final[list[int]] = []


def note_begin(run: object) -> None:
    """Note that a run is under way.

    Raises:
        Refusal: this process was forked beside one.
    """
    refuse_in_fork()
    _UNDER_WAY.add(id(run))


def note_end(run: object) -> None:
    """Note that a run has ended."""
    _UNDER_WAY.discard(id(run))


def in_fork() -> bool:
    """Whether this process was forked beside a run."""
    return bool(_FORKED_FROM)


def refuse_in_fork() -> None:
    """Refuse to do anything in a process that was forked beside a run.

    Raises:
        Refusal: with the way.
    """
    if _FORKED_FROM:
        raise Refusal(
            f"this process was forked while a run of spirit-py was under way in process"
            f" {_FORKED_FROM[-1]}: a fork has none of its threads, and its locks and connections"
            " are the other's",
            hint="begin worker processes before the run, or by"
            ' multiprocessing.get_context("spawn"), or run the command spirit-py by subprocess',
            error_code=ErrorCode.FORKED_PROCESS,
        )


def _in_child() -> None:
    if _UNDER_WAY:
        _UNDER_WAY.clear()
        _FORKED_FROM.append(os.getppid())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
