"""What this program made beside a table, noted before anybody could take it for his own (R24).

What the table as it was and the new one are known by stands in the checkpoint table beside it, in
a row of its own, so that a record that cannot be read takes no proof with it. The new table is
built under a name with a token that nobody else knows, and gets its own name when it is
noted which one it is: wherever a run ends, each table is proven to be ours, or it is not.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import ABSENT_TABLE, NO_SUCH_COLUMN
from spirit_py.mysql.tables.identity import NOTHING, Identity, identity
from spirit_py.sql import quote_table, string_literal
from spirit_py.table.names import AuxiliaryNames, building_name

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession

_ROW: Final = 9


@dataclass(frozen=True, kw_only=True)
class Made:
    """What was noted beside one table; nothing where nothing was.

    Attributes:
        building: the name under which the new table is built.
        source: the table from before the migration: behind the swap that is the old table.
        new: the table that the migration made.
        swap_begun: the swap may have been made, and may have been undone by hand since: then the
            new table holds what the application wrote into it.
    """

    building: str = ""
    source: Identity = NOTHING
    new: Identity = NOTHING
    swap_begun: bool = False


class MadeStore:
    """Reads and writes what was made beside one table.

    Args:
        schema: of the source table.
        table: name of the source table.
    """

    def __init__(self, schema: str, table: str) -> None:
        self._schema, self._source = schema, table
        self._table = quote_table(schema, AuxiliaryNames.of(table).checkpoint)

    def begin(self, session: SqlSession, source: Identity) -> Made:
        """Note the source, and a name to build the new table under."""
        made = Made(building=building_name(self._source, secrets.token_hex(3)), source=source)
        self.write(session, made)
        return made

    def note(self, session: SqlSession, **changes: Any) -> Made:
        """Note more of it."""
        made = replace(self.read(session), **changes)
        self.write(session, made)
        return made

    def renew(self, session: SqlSession, **changes: Any) -> Made:
        """Note the new table again, behind a change of ours: that gives it another CREATE TIME."""
        made = self.read(session)
        found = identity(session, self._schema, AuxiliaryNames.of(self._source).new)
        new = found if made.new.is_same(found) else made.new
        return self.note(session, new=new, **changes)

    def read(self, session: SqlSession) -> Made:
        """Read it; empty where nothing readable was noted, or there is no checkpoint table."""
        try:
            rows = session.query(f"SELECT made FROM {self._table} WHERE id = {_ROW}")
        except ServerFault as fault:
            if fault.code in {*ABSENT_TABLE, NO_SUCH_COLUMN}:
                return Made()
            raise
        return _made(str(rows[0][0])) if rows else Made()

    def write(self, session: SqlSession, made: Made) -> None:
        """Write all of it."""
        text = json.dumps(
            {
                "building": made.building,
                "source": _kept(made.source),
                "new": _kept(made.new),
                "swap_begun": made.swap_begun,
            }
        )
        session.execute(
            f"REPLACE INTO {self._table} (id, record, made)"
            f" VALUES ({_ROW}, '{{}}', {string_literal(text)})"
        )


def _kept(identity: Identity) -> dict[str, Any]:
    return {
        "server": identity.server,
        "numbers": sorted(identity.numbers),
        "born": identity.born,
    }


def _identity(found: dict[str, Any]) -> Identity:
    return Identity(
        server=str(found["server"]),
        numbers=frozenset(int(number) for number in found["numbers"]),
        born=int(found["born"]),
    )


def _made(text: str) -> Made:
    """Read it back; what is not whole proves nothing."""
    try:
        found = json.loads(text)
        return Made(
            building=str(found["building"]),
            source=_identity(found["source"]),
            new=_identity(found["new"]),
            swap_begun=bool(found["swap_begun"]),
        )
    except (ValueError, TypeError, KeyError):
        return Made()
