"""Log records as single lines; tracebacks only with ``--verbose``."""

from __future__ import annotations

import logging
from pathlib import Path


class LineFormatter(logging.Formatter):
    """Formats a record as one line, with its traceback only when ``verbose``."""

    def __init__(self, *, verbose: bool) -> None:
        super().__init__()
        self._verbose = verbose

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = f"{record.levelname.lower()}: {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            line += f" ({record.exc_info[1]})"
            if self._verbose:
                line += "\n" + self.formatException(record.exc_info)
        return line


def to_terminal(*, verbose: bool) -> None:
    """Send warnings to standard error, and everything of the program with ``verbose``."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter(verbose=verbose))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("spirit_py").setLevel(logging.DEBUG if verbose else logging.WARNING)
    # Py4J logs exceptions that its callers handle, one of them without a logger of its own.
    logging.getLogger("py4j").setLevel(logging.INFO if verbose else logging.CRITICAL)
    if not verbose:
        handler.addFilter(lambda record: Path(record.pathname).parent.name != "py4j")
