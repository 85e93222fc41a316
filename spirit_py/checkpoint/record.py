"""The versioned checkpoint record (pure): what it holds, and how it is read back.

Nothing secret is in it (R20). A reader refuses a format that it does not know, and never
guesses at one (R17). The record of a migration of several tables is in the checkpoint table of
one of them, its *home*; the checkpoint tables of the others only point there.

Format 1 (before anything could be resumed) is read as what it says: a migration that stopped
before its change feed ran. Format 2 is not read: its statements were not told apart as these are,
and it could not say where a run had stopped writing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from spirit_py.phases import Phase
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FORMAT: Final = 3
"""The format that this version writes. It reads this one and 1."""

_FIRST_FORMAT: Final = 1
_FIRST_FIELDS: Final = frozenset({
    "statement", "schema", "table", "server_uuid", "phase", "position", "copied_up_to",
    "rows_copied", "chunks", "started_at", "program", "format",
})  # fmt: skip
_POINTER_FIELDS: Final = frozenset({"format", "program", "member_of"})
_PHASES: Final = frozenset(Phase)
_NAME: Final = r"`(?:[^`]|``)+`"
_HEAD: Final = re.compile(rf"\ACREATE TABLE {_NAME}")


class UnreadableCheckpoint(ValueError):
    """The text is no checkpoint record of a known format. The message says why."""


@dataclass(frozen=True, kw_only=True)
class TableProgress:
    """How far one table is.

    Attributes:
        new: name of the new table; empty before it was made.
        old: name that the source gets in the swap.
        source_shape: :func:`digest_of` the source's definition.
        target_shape: the same of the new table's.
        copied_up_to: SQL literals of the copy's low watermark; empty before the first chunk.
        copied: every row that existed is copied; ``copied_up_to`` says nothing more then.
        checked_up_to: SQL literals of the checksum's low watermark: up to there its present pass
            found no difference.
    """

    schema: str
    table: str
    new: str = ""
    old: str = ""
    source_shape: str = ""
    target_shape: str = ""
    copied_up_to: tuple[str, ...] = ()
    copied: bool = False
    rows_copied: int = 0
    chunks: int = 0
    checked_up_to: tuple[str, ...] = ()

    @property
    def name(self) -> tuple[str, str]:
        """Schema and name of the source table."""
        return self.schema, self.table

    def __str__(self) -> str:
        """Show the table's name for messages."""
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, kw_only=True)
class CheckpointRecord:
    """One migration's state, of one table or of several that are swapped together.

    Attributes:
        statement: :func:`joined` normal forms of the ALTERs, so that other spelling still matches.
        tables: in the order of :func:`home_of`.
        server_uuid: the server that the migration runs on.
        phase: value of :class:`spirit_py.phases.Phase`.
        position: the change feed's safe position, opaque; empty before the feed started.
        settled_at: the feed's position behind the run's last write to a new table, opaque; empty
            as long as it may write, and after a run that was killed.
        started_at: when the first run began, ISO 8601 in UTC.
        seconds: seconds worked in all runs together.
        runs: how many runs there were, this one included.
        totals: counters over all runs.
        sentinel: the sentinel table was created: one that is gone was dropped by the operator.
        program: version of the program that wrote it.
    """

    statement: str
    tables: tuple[TableProgress, ...]
    server_uuid: str
    phase: str
    position: str = ""
    settled_at: str = ""
    started_at: str = ""
    seconds: float = 0.0
    runs: int = 1
    totals: dict[str, int] = field(default_factory=dict)
    sentinel: bool = False
    program: str = ""
    format: int = FORMAT

    @property
    def home(self) -> tuple[str, str]:
        """The table whose checkpoint table holds this record."""
        return home_of(table.name for table in self.tables)

    @property
    def copied(self) -> bool:
        """Whether every table is copied."""
        return all(table.copied for table in self.tables)

    @property
    def rows_copied(self) -> int:
        """Rows copied in all tables and runs."""
        return sum(table.rows_copied for table in self.tables)

    def of(self, schema: str, table: str) -> TableProgress:
        """Return one table's progress.

        Raises:
            KeyError: when the migration is not about that table.
        """
        for progress in self.tables:
            if progress.name == (schema, table):
                return progress
        raise KeyError(f"{schema}.{table}")


@dataclass(frozen=True, kw_only=True)
class Membership:
    """What stands in the checkpoint table of a table whose migration's record is elsewhere."""

    schema: str
    table: str
    program: str = ""

    @property
    def home(self) -> tuple[str, str]:
        """The table whose checkpoint table holds the record."""
        return self.schema, self.table


def home_of(tables: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """Return the table whose checkpoint table holds the record, in whatever order they come."""
    return min(tables)


def joined(statements: Iterable[tuple[tuple[str, str], str]]) -> str:
    """Join normal forms of statements, given with their tables, in the order of the tables."""
    return ";\n".join(text for _, text in sorted(statements))


def digest_of(shape: str, name: str) -> str:
    """Return a digest of a definition that survives RENAME TABLE.

    Args:
        shape: ``SHOW CREATE TABLE`` without the counter.
        name: the table's name in it. A rename changes it, and the names that the server gave
            to constraints from it (``t_chk_1``).
    """
    text = _HEAD.sub("CREATE TABLE", shape, count=1)
    given = re.escape(name.replace("`", "``"))
    text = re.sub(rf"CONSTRAINT `{given}_chk_(\d+)`", r"CONSTRAINT `_chk_\1`", text)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def to_text(record: CheckpointRecord) -> str:
    """Render the record as JSON."""
    return json.dumps(dataclasses.asdict(record), ensure_ascii=False, sort_keys=True)


def pointer_text(membership: Membership) -> str:
    """Render a pointer to the record as JSON."""
    found = {
        "format": FORMAT,
        "program": membership.program,
        "member_of": list(membership.home),
    }
    return json.dumps(found, ensure_ascii=False, sort_keys=True)


def from_text(text: str) -> CheckpointRecord | Membership:
    """Read a record, or a pointer to one, back.

    Raises:
        UnreadableCheckpoint: for anything that is not a whole record of a known format.
    """
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        raise UnreadableCheckpoint(f"not JSON: {error}") from error
    version = found.get("format") if isinstance(found, dict) else None
    if isinstance(version, bool) or version not in {_FIRST_FORMAT, FORMAT}:
        raise UnreadableCheckpoint(
            f"it has format {version!r}; this version reads {_FIRST_FORMAT} and {FORMAT}"
        )
    if version == _FIRST_FORMAT:
        return _first(found)
    if "member_of" in found:
        _same_fields(found, _POINTER_FIELDS, "a pointer")
        schema, table = _names(found["member_of"])
        return Membership(schema=schema, table=table, program=_text(found, "program"))
    return _record(found)


def _first(found: dict[str, Any]) -> CheckpointRecord:
    """Read format 1, which was written once, before the change feed ran."""
    _same_fields(found, _FIRST_FIELDS, "a record of format 1")
    table = TableProgress(schema=_text(found, "schema"), table=_text(found, "table"))
    return CheckpointRecord(
        statement=_text(found, "statement"),
        tables=(table,),
        server_uuid=_text(found, "server_uuid"),
        phase=_text(found, "phase"),
        started_at=_text(found, "started_at"),
        program=_text(found, "program"),
        format=_FIRST_FORMAT,
    )


def _record(found: dict[str, Any]) -> CheckpointRecord:
    """Read the format of this version."""
    values = _fields(CheckpointRecord, found, "a record")
    tables = values["tables"]
    if not isinstance(tables, list) or not tables:
        raise UnreadableCheckpoint("it names no tables")
    values["tables"] = tuple(
        TableProgress(**_fields(TableProgress, table, "a table's progress")) for table in tables
    )
    for table in values["tables"]:
        _possible(table)
    if values["phase"] not in _PHASES:
        raise UnreadableCheckpoint(f"there is no phase {values['phase']!r}")
    totals = values["totals"]
    if not isinstance(totals, dict) or not all(_is_count(count) for count in totals.values()):
        raise UnreadableCheckpoint("its totals are not counters")
    return CheckpointRecord(**values)


def _possible(table: TableProgress) -> None:
    """Refuse the progress of a table that no run can have written."""
    names = AuxiliaryNames.of(table.table)
    if table.new not in {"", names.new} or table.old not in {"", names.old}:
        raise UnreadableCheckpoint(f"the tables beside {table} have other names")
    if min(table.rows_copied, table.chunks) < 0:
        raise UnreadableCheckpoint(f"the counters of {table} are below zero")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _literals(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError
    return tuple(value)


def _exactly(kind: type) -> Callable[[object], Any]:
    """Return a reader that takes values of one type and no other."""

    def read(value: object) -> Any:
        if type(value) is not kind:
            raise TypeError
        return value

    return read


def _seconds(value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError
    return float(value)


_READERS: Final[dict[str, Callable[[object], Any]]] = {
    "str": _exactly(str),
    "int": _exactly(int),
    "bool": _exactly(bool),
    "float": _seconds,
    "tuple[str, ...]": _literals,
}
"""How a value is read, by the annotation of its field; other fields are looked at one by one."""


def _fields(kind: type, found: object, what: str) -> dict[str, Any]:
    """Return the fields of a dataclass from JSON, each of its own type."""
    if not isinstance(found, dict):
        raise UnreadableCheckpoint(f"{what} is not an object")
    fields = dataclasses.fields(kind)
    _same_fields(found, frozenset(field.name for field in fields), what)
    values = {}
    for each in fields:
        read = _READERS.get(str(each.type))
        try:
            values[each.name] = found[each.name] if read is None else read(found[each.name])
        except TypeError:
            raise UnreadableCheckpoint(f"{each.name} of {what} is of the wrong type") from None
    return values


def _same_fields(found: dict[str, Any], names: frozenset[str], what: str) -> None:
    if set(found) != names:
        raise UnreadableCheckpoint(f"the fields of {what} differ: {sorted(set(found) ^ names)}")


def _text(found: dict[str, Any], name: str) -> str:
    if not isinstance(found[name], str):
        raise UnreadableCheckpoint(f"{name} is of the wrong type")
    return str(found[name])


def _names(value: object) -> tuple[str, str]:
    if not (isinstance(value, list) and len(value) == 2 and all(isinstance(n, str) for n in value)):
        raise UnreadableCheckpoint("member_of does not name a table")
    return value[0], value[1]
