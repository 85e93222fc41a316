"""The warnings of a statement that wrote rows, as far as they tell of a lost value (R10).

A generated column that is rounded or cut gives a note at each write, as it does at every INSERT
of the application, and a native ALTER succeeds. It holds no value of the source, so that is no
loss. But the server's list of warnings has an end, and behind many such notes one about a plain
column would not be seen.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spirit_py.errors import MigrationFailure

if TYPE_CHECKING:
    from collections.abc import Collection

    from spirit_py.contracts import SqlSession

MOST_WARNINGS: Final = 65_535
"""``max_error_count`` of our sessions, where the account may set it; nothing counts further."""
QUIET: Final = "SET SESSION sql_notes = 0"
LOUD: Final = "SET SESSION sql_notes = 1"

_COLUMN: Final = re.compile(r"column '(.+)' at row \d+", re.IGNORECASE)


def telling(session: SqlSession, computed: Collection[str]) -> list[tuple[str, int, str]]:
    """Return the last statement's warnings, but for notes about generated columns.

    Args:
        computed: the names in lower case of the generated columns.

    Raises:
        MigrationFailure: there were more warnings than the server keeps.
    """
    count = session.warning_count
    if not count:
        return []
    said = session.warnings()
    found = [one for one in said if not _about(one, computed)]
    if not found and (len(said) < count or len(said) >= MOST_WARNINGS):
        text = f"; the first: {said[0][2]}" if said else ""
        raise MigrationFailure(
            f"a statement gave more warnings than the server keeps ({len(said)} of {count} were"
            f" read{text}), so that a changed value would not be seen",
            hint="change the column types in one migration, and the generated columns that are"
            " rounded in another; or lower --target-chunk-time",
        )
    return found


def _about(warning: tuple[str, int, str], computed: Collection[str]) -> bool:
    """Return whether it is a note about one of these columns."""
    level, _, text = warning
    column = _COLUMN.search(text)
    return level == "Note" and column is not None and column[1].lower() in computed
