"""What this program made beside a table, noted before anybody could take it for his own (R24).

The numbers of the table as it was and of the new one stand in the checkpoint table beside it, in
a row of their own, so that a record that cannot be read takes no proof with it. The new table is
built under a name with a token that nobody else knows, and gets its own name when its numbers are
noted: wherever a run ends, each table is proven to be ours, or it is not.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import ABSENT_TABLE, NO_SUCH_COLUMN
from spirit_py.sql import quote_table, string_literal
from spirit_py.table.names import AuxiliaryNames, building_name

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.identity import Identity

_ROW: Final = 9


@dataclass(frozen=True, kw_only=True)
class Made:
    """What was noted beside one table; nothing where nothing was.

    Attributes:
        building: the name under which the new table is built.
        source: the numbers of the table from before the migration: behind the swap those of the
            old table.
        new: the numbers of the table that the migration made.
    """

    building: str = ""
    source: Identity = frozenset()
    new: Identity = frozenset()


class MadeStore:
    """Reads and writes what was made beside one table.

    Args:
        schema: of the source table.
        table: name of the source table.
    """

    def __init__(self, schema: str, table: str) -> None:
        self._source = table
        self._table = quote_table(schema, AuxiliaryNames.of(table).checkpoint)

    def begin(self, session: SqlSession, source: Identity) -> Made:
        """Note the source, and a name to build the new table under."""
        made = Made(building=building_name(self._source, secrets.token_hex(3)), source=source)
        self._write(session, made)
        return made

    def note(self, session: SqlSession, **changes: Any) -> Made:
        """Note more of it."""
        made = replace(self.read(session), **changes)
        self._write(session, made)
        return made

    def read(self, session: SqlSession) -> Made:
        """Read it; empty where nothing readable was noted, or there is no checkpoint table."""
        try:
            rows = session.query(f"SELECT made FROM {self._table} WHERE id = {_ROW}")
        except ServerFault as fault:
            if fault.code in {*ABSENT_TABLE, NO_SUCH_COLUMN}:
                return Made()
            raise
        return _made(str(rows[0][0])) if rows else Made()

    def _write(self, session: SqlSession, made: Made) -> None:
        text = json.dumps(
            {"building": made.building, "source": sorted(made.source), "new": sorted(made.new)}
        )
        session.execute(
            f"REPLACE INTO {self._table} (id, record, made)"
            f" VALUES ({_ROW}, '{{}}', {string_literal(text)})"
        )


def _made(text: str) -> Made:
    """Read it back; what is not whole proves nothing."""
    try:
        found = json.loads(text)
        return Made(
            building=str(found["building"]),
            source=frozenset(int(number) for number in found["source"]),
            new=frozenset(int(number) for number in found["new"]),
        )
    except (ValueError, TypeError, KeyError):
        return Made()
