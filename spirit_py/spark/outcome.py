"""The outcome of one task, sent from where it ran to the driver."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, SpiritError

if TYPE_CHECKING:
    from collections.abc import Callable

_S = TypeVar("_S")
_R = TypeVar("_R")


@dataclass(frozen=True, kw_only=True)
class Outcome(Generic[_R]):
    """A task's result, or the error that ended it, and the seconds that it took.

    Attributes:
        index: the task's rank, from 0.
        result: None when there is an error.
    """

    index: int
    result: _R | None
    error: SpiritError | None
    seconds: float


def guarded(index: int, function: Callable[[_S], _R], spec: _S) -> Outcome[_R]:
    """Run a task's function; return an exception as a value, instead of Spark's stack trace.

    An error of the program's own tree is returned as it is; any other is a bug, and becomes a
    :class:`~spirit_py.errors.MigrationFailure` with the trace in its details.
    """
    began = time.monotonic()
    result: _R | None = None
    failure: SpiritError | None = None
    try:
        result = function(spec)
    except SpiritError as error:
        failure = error
    except Exception as error:
        failure = MigrationFailure(
            f"a task failed unexpectedly: {type(error).__name__}: {error}",
            hint="this is a bug; please report it with the details",
            details=tuple(traceback.format_exc().splitlines()[-12:]),
            error_code=ErrorCode.DEFECT,
        )
    return Outcome(index=index, result=result, error=failure, seconds=time.monotonic() - began)
