"""Whether another session wrote to a new table between two runs of a migration.

No session should write to it after the earlier run's last write and before this run begins. The
parser, which otherwise skips the new tables, notes every change of them here, and possibly too
many, such as a statement that only names the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.binlog.position import FilePlace, GtidFrontier, read_position
from spirit_py.binlog.wire import name_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.binlog.events import Place, StatementSeen, Table
    from spirit_py.binlog.position import ServerFrontier


class BetweenRuns:
    """Notes which tables were written to after one place and up to another.

    Args:
        tables: the new tables.
        behind: everything up to the last write of the earlier run.
        until: everything that was executed before the first write of this run.
        passing: the place up to which changes that cannot be read may be passed over.

    Attributes:
        written_by_others: the tables that were written to. Read by other threads.
    """

    def __init__(
        self,
        tables: Iterable[Table],
        *,
        behind: ServerFrontier,
        until: ServerFrontier,
        passing: bool = False,
    ) -> None:
        self._names = {name_key(*table): table for table in tables}
        self._behind = behind
        self._until = until
        self._passing = passing
        self.written_by_others: set[Table] = set()

    def rows(self, name: bytes, place: Place, *, prepared: bool) -> None:
        """Take the name of a table map; ``prepared`` for rows whose XA COMMIT follows later."""
        if name in self._names and (prepared or self._is_between(place)):
            self.written_by_others.add(self._names[name])

    def statement(self, event: StatementSeen) -> None:
        """Take a statement, such as TRUNCATE, in all of its readings.

        A write in text to a new table ends the run (R13), and so does one that may reach it.
        """
        said = "\n".join(event.texts).lower()
        for table in self._names.values():
            name = table[1].lower()
            hidden = not event.certain and not name.isascii()
            named = hidden or name in said or name.replace("`", "``") in said
            if named and self._is_between(event.place):
                self.written_by_others.add(table)

    def passes(self, place: Place) -> bool:
        """Return whether a change there may be passed over that cannot be read.

        Only if it was committed before this run began: then every chunk and checksum of this run
        reads its result.
        """
        return self._passing and has_reached(self._until, place)

    def _is_between(self, place: Place) -> bool:
        return not has_reached(self._behind, place) and has_reached(self._until, place)


def reached_at(position: str) -> ServerFrontier | None:
    """Read the place of a position; None for a text that is none."""
    try:
        return read_position(position)
    except ValueError:
        return None


def has_reached(reached: ServerFrontier, place: Place) -> bool:
    """Return whether a transaction, or the place of one, lies before the place reached."""
    if isinstance(reached, GtidFrontier):
        return reached.gtids.has(place.tsid, place.number)
    return reached.place is not None and reached.place.reaches(FilePlace(place.file, place.offset))
