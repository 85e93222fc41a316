"""The rows of the checkpoint table about a migration and its reverse replication (pure; R20).

The record of several tables is in the checkpoint table of one of them, its *home*; the others only
point there. Proofs and what is noted of an old table have rows of their own, which stay as long as
the old table does, so that ``spirit-py cleanup`` can drop it without the record (R24).
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.model import may_be_told
from spirit_py.classes import dataclass, field
from spirit_py.config import MOST_SHARDS, SHARD_NAME, SessionModes, SwapChoices
from spirit_py.contracts import Origin
from spirit_py.mysql.tables.identity import Identity
from spirit_py.phases import Phase
from spirit_py.sql import quote_table
from spirit_py.table.build import ReverseChanges
from spirit_py.table.names import OfTable, require_names
from spirit_py.units import counted, human_seconds, to_the_second

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_TABLES: Final = 1000
"""Tables that one record may name: ``status`` looks at each, and whoever may create a table can
forge a record (R26). So many are never swapped together."""

MOVE: Final = "MOVE TO"
"""What the statement in a move's record begins with; what tells its targets apart follows."""
_NAME: Final = r"`(?:[^`]|``)+`"
# A line of its own; the name of another column or table cannot begin one.
_FOREIGN_KEY: Final = re.compile(rf",\n  CONSTRAINT {_NAME} FOREIGN KEY \(.*?(?=,?\n)")
_CHECK: Final = re.compile(
    rf"(?<=\n)  CONSTRAINT {_NAME} CHECK (?:`[^`]*`|'(?:[^'\\]|\\.)*'|[^`'\n])*?(?=,?\n)"
)
_BUILDING: Final = re.compile(r"_.{1,55}_[0-9a-f]{6}", re.DOTALL)
_HEAD: Final = re.compile(rf"\ACREATE TABLE {_NAME}")
#: Of a column, a table, an expression, and before a literal.
_UTF8: Final = re.compile(
    r"(\b(?:CHARSET|CHARACTER SET|USING)[= ]|\bCOLLATE[= ](?=utf8_)|(?<![\w`])_)utf8(?![0-9a-z])",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class UncopiedRange:
    """A range of the key that is not copied, ``(lower, upper]`` in SQL literals; empty for open."""

    lower: tuple[str, ...] = ()
    upper: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TableProgress(OfTable):
    """How far one table is; shapes are :func:`digest_of` definitions, empty before they exist.

    ``bare_shape`` is that of the new table without ``deferred`` indexes. ``uncopied`` is in the
    order of the walk: everything before the first chunk, empty when all is copied.
    ``checked_up_to``: SQL literals of the checksum's low watermark in its present pass. ``shard``:
    the target that it is about, where a move has several.
    """

    shard: str = ""
    source_shape: str = ""
    target_shape: str = ""
    bare_shape: str = ""
    deferred: tuple[str, ...] = ()
    uncopied: tuple[UncopiedRange, ...] = (UncopiedRange(),)
    rows_copied: int = 0
    chunks: int = 0
    checked_up_to: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_names(self.schema, self.table, *self.deferred)
        if self.shard and not SHARD_NAME.fullmatch(self.shard):
            raise ValueError("a shard has no such name")
        if min(self.rows_copied, self.chunks) < 0:
            raise ValueError(f"the counters of {self} are below zero")
        if not all(low.upper and high.lower for low, high in pairwise(self.uncopied)):
            raise ValueError(f"an uncopied range of {self} has no end, and another one follows")

    @property
    def copied(self) -> bool:
        """Whether every row that existed is copied."""
        return not self.uncopied

    @property
    def shapes(self) -> frozenset[str]:
        """The digests that the new table's definition may have: whole, or without the deferred."""
        return frozenset(filter(None, (self.target_shape, self.bare_shape)))


@dataclass(frozen=True, kw_only=True)
class CheckpointRecord:
    """One migration's state, of one table or of several that are swapped together.

    ``statement`` is :func:`joined` normal forms, so that other spelling still matches. ``position``
    and ``settled_at`` are opaque: the feed's safe position, empty before it started; its position
    after the run's last write to a new table, empty while it may write and after a kill.
    ``started_at`` is ISO 8601 in UTC; ``seconds`` and ``totals`` are of all runs. ``sentinel``: it
    was created; one that is gone was dropped by the operator. ``choices`` are of the last run.
    ``judged``: digests of what decides which rows are kept, and what new columns hold;
    ``evaluated``: one of the settings under which conversions were made and compared.
    ``shards``: how far the same tables are on the targets of a move after the first.
    ``written``: the statements as they were given, to be shown; see :func:`shown_statement`.
    ``mysql`` is the version of the server in the last run. ``unlogged``: its tables were made past
    the binary log, by a rehearsal on a replica.
    """

    statement: str
    written: str = ""
    tables: tuple[TableProgress, ...]
    shards: tuple[TableProgress, ...] = ()
    server_uuid: str
    phase: str
    position: str = ""
    origin: Origin = field(default_factory=Origin)
    settled_at: str = ""
    started_at: str = "1970-01-01T00:00:00+00:00"
    seconds: float = 0.0
    runs: int = 1
    totals: dict[str, int] = field(default_factory=dict)
    sentinel: bool = False
    modes: SessionModes = field(default_factory=SessionModes)
    choices: SwapChoices = field(default_factory=SwapChoices)
    judged: str = ""
    evaluated: str = ""
    program: str = ""
    mysql: str = ""
    unlogged: bool = False

    def __post_init__(self) -> None:
        if not 0 < len(self.tables) <= MOST_TABLES:
            raise ValueError(f"it names {len(self.tables)} tables")
        if len(self.shards) > len(self.tables) * MOST_SHARDS:
            raise ValueError(f"it names {len(self.shards)} tables of shards")
        if self.phase not in set(Phase):
            raise ValueError(f"there is no phase {self.phase!r}")
        # It is shown as a command, to be run by who has more rights than who wrote it (R26).
        alter = "ALTER TABLE "
        own = f"{alter}{quote_table(*self.home)} "
        if self.statement.startswith(alter) and not self.statement.startswith(own):
            raise ValueError("its statement is about other tables than those that it names")
        began = datetime.fromisoformat(self.started_at)
        if began.tzinfo is None:
            raise ValueError("it has begun at no moment: the time has no offset")
        require_moments(began.timestamp())

    @property
    def moves(self) -> bool:
        """Whether it is of a move: its new tables are on other servers."""
        return self.statement.startswith(MOVE)

    @property
    def home(self) -> tuple[str, str]:
        """The table whose checkpoint table holds this record."""
        return home_of(table.name for table in self.tables)

    @property
    def copied(self) -> bool:
        """Whether every table is copied."""
        return all(table.copied for table in self.everywhere)

    @property
    def rows_copied(self) -> int:
        """Rows copied in all tables and runs."""
        return sum(table.rows_copied for table in self.everywhere)

    @property
    def work(self) -> str:
        """What goes with the new tables, for messages."""
        began = to_the_second(self.started_at)
        return (
            f"{counted(self.rows_copied, 'row')} copied in {human_seconds(self.seconds)} of work,"
            f" {counted(self.runs, 'run')} since {began}"
        )

    @property
    def everywhere(self) -> tuple[TableProgress, ...]:
        """The progress of all tables on all targets."""
        return (*self.tables, *self.shards)

    def of(self, schema: str, table: str, shard: str = "") -> TableProgress:
        """Return one table's progress; a KeyError when the migration is not about that table."""
        found = self.find((schema, table), shard)
        if found is None:
            raise KeyError(f"{schema}.{table}")
        return found

    def find(self, name: tuple[str, str], shard: str = "") -> TableProgress | None:
        """Return one table's progress; None when the migration is not about that table.

        Of several shards it is that of the first, unless one is named.
        """
        found = (one for one in self.everywhere if one.name == name)
        return next((one for one in found if one.shard == shard or not shard), None)


@dataclass(frozen=True, kw_only=True)
class Pointer:
    """The row of a checkpoint table whose migration's record is in that of its home."""

    home: tuple[str, str]
    program: str = ""

    def __post_init__(self) -> None:
        require_names(*self.home)


@dataclass(frozen=True, kw_only=True)
class Proofs:
    """The proofs of which auxiliary tables of a source are this migration's (R24).

    ``source`` is from before the migration, after the swap the old table. ``making``: digests of
    the definitions that an empty table has which is being made under the new table's name.
    ``swap_begun``: the swap may have been made and undone by hand; then the new table holds what
    the application wrote.
    """

    building: str = ""
    source: Identity = field(default_factory=Identity)
    making: frozenset[str] = frozenset()
    new: Identity = field(default_factory=Identity)
    swap_begun: bool = False

    def __post_init__(self) -> None:
        if self.building and not _BUILDING.fullmatch(self.building):
            raise ValueError(f"no table is built as {self.building!r}")


_SERVER: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
#: Of a server, or of its socket.
_ADDRESS: Final = re.compile(r"[\w.:%/@+\[\]?-]{1,300}", re.ASCII)


def as_address(text: str) -> str:
    """Return an address as a note may have it: a socket's path may have other characters."""
    return re.sub(r"[^\w.:%/@+\[\]-]", "?", text, flags=re.ASCII)[:300]


@dataclass(frozen=True, kw_only=True)
class MoveNote:
    """Where tables are moved to, by the server's uuid; ``switched``: the operator's command ran.

    The target's note says that after the source's, and only where there is no way back. ``away``:
    of several sources all are out of the way, and the command may run. ``sources`` are the
    addresses from which they come; requests and figures are ``asked`` at one of these, empty for
    this server. They are shown, and nothing connects there (R26). ``origins`` are the uuids of the
    same servers: what is beside the target's note is of a move from one of them. ``beside`` is the
    target's table: a note that was copied to another schema is of none there.
    """

    target: str
    switched: bool = False
    away: bool = False
    program: str = ""
    sources: tuple[str, ...] = ()
    asked: str = ""
    origins: tuple[str, ...] = ()
    beside: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        require_names(*self.beside or ())
        if not all(_SERVER.fullmatch(one) for one in self.origins):
            raise ValueError("a note of a move has the uuids of servers")
        if not all(_ADDRESS.fullmatch(one) for one in (*self.sources, *filter(None, [self.asked]))):
            raise ValueError("a note of a move names servers by their addresses")


def home_of(tables: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """Return the table whose checkpoint table holds the record; independent of their order."""
    return min(tables)


def joined(statements: Iterable[tuple[tuple[str, str], str]]) -> str:
    """Join normal forms of statements, given with their tables, in the order of the tables."""
    return ";\n".join(text for _, text in sorted(statements))


def digest_of(shape: str, name: str) -> str:
    """Return a digest of a definition without foreign keys, which move with the swap.

    It survives RENAME TABLE: ``name`` is left out, also where it begins the name of a CHECK, as the
    server renames ``t_chk_1`` and ``t_chk_total`` alike; then it lists the CHECKs in another order.
    And an upgrade: utf8 is utf8mb3 since 8.0.28, and its collations are since 8.0.30. ``shape`` is
    ``SHOW CREATE TABLE`` without the counter.
    """
    text = _FOREIGN_KEY.sub("", _HEAD.sub("CREATE TABLE", shape, count=1))
    text = _UTF8.sub(r"\1utf8mb3", text)
    begins = f"  CONSTRAINT `{name.replace('`', '``')}_chk_"
    checks = (
        re.sub(rf"^{re.escape(begins)}(?!`)", "  CONSTRAINT `_chk_", one)
        for one in _CHECK.findall(text)
    )
    ordered = iter(sorted(checks))
    text = _CHECK.sub(lambda _: next(ordered), text)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


LATEST: Final = 253402300799.0
"""The last moment that has a text, in the year 9999, as Unix time."""


def require_moments(*moments: float) -> None:
    """Raise ValueError for a time that no date is, such as NaN."""
    if not all(0 <= moment <= LATEST for moment in moments):
        raise ValueError("a moment of it is no date")


#: Rows and the sum of their hashes.
_KEPT: Final = re.compile(r"\d{1,20} [0-9A-F]{16}")
_FILES: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class OldTableRecord:
    """When a table was swapped, and until when its old one is kept; Unix time of the server.

    ``until`` is 0 where only the operator drops it, and ``swapped_at`` where it goes as soon as its
    rows are archived; ``finished``: the run has left it to the operator.
    ``followed``: reverse replication has ended. ``undone``: a revert swapped the table out.
    ``kept``: rows and hash of its kept rows, as of the swap, where its archive was proved;
    ``looked_at``: the opaque position up to which nobody had written to it before its drop began;
    ``files``: a digest of its archive's files then, by which a drop that was stopped is carried on.
    """

    swapped_at: float
    until: float = 0.0
    finished: bool = False
    followed: bool = False
    undone: bool = False
    kept: str = ""
    looked_at: str = ""
    files: str = ""

    def __post_init__(self) -> None:
        require_moments(self.swapped_at, self.until)
        if self.files and not _FILES.fullmatch(self.files):
            raise ValueError("it has no digest of files")
        if self.kept and not _KEPT.fullmatch(self.kept):
            raise ValueError("it does not count rows and their hash")

    def __str__(self) -> str:
        if self.finished or not self.until:
            return "kept until spirit-py cleanup --drop-old drops it"
        if self.until == self.swapped_at:
            return "to be dropped by the same command, or by spirit-py cleanup --drop-old"
        until = datetime.fromtimestamp(self.until, UTC).strftime("%Y-%m-%d %H:%M:%S")
        return f"kept until {until} UTC"


FOLLOWING: Final = "following"
"""The old tables follow the new ones: a process applies the changes, or another may continue."""
REVERTING: Final = "reverting"
"""The swap back may be under way: the names of the tables show whether it was made."""
ENDED: Final = "ended"
"""The old tables follow no more; the reason is in the record."""


@dataclass(frozen=True, kw_only=True)
class ReverseTable(OfTable):
    """One table whose old one follows it; ``undone``: the new table's name in the swap back.

    After a move the table is on another server, and the old one has the name of one moved away.
    ``guarded_shape`` is the old one's after a try to swap back, where it is another one then.
    """

    old: str
    undone: str
    changes: ReverseChanges = field(default_factory=ReverseChanges)
    now_shape: str = ""
    old_shape: str = ""
    guarded_shape: str = ""
    losses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_names(self.schema, self.table)
        if self.old not in {self.names.old, self.names.moved} or self.undone != self.names.undone:
            raise ValueError(f"{self.old} and {self.undone} are not the tables of {self.table}")

    @property
    def old_shapes(self) -> frozenset[str]:
        """The digests that the old one's definition may have."""
        return frozenset({self.old_shape, self.guarded_shape} - {""})


@dataclass(frozen=True, kw_only=True)
class ReverseRecord:
    """Reverse replication of tables that were swapped together; ``until`` is Unix time.

    ``position`` is opaque; ``state`` is :data:`FOLLOWING`, :data:`REVERTING` or :data:`ENDED`.
    ``until`` is 0 where the place is only noted: the old tables follow once a revert asks for it.
    """

    tables: tuple[ReverseTable, ...]
    position: str = ""
    until: float = 0.0
    state: str = FOLLOWING
    reason: str = ""
    modes: SessionModes = field(default_factory=SessionModes)
    skip_drop: bool = False
    program: str = ""

    def __post_init__(self) -> None:
        require_moments(self.until)
        if not 0 < len(self.tables) <= MOST_TABLES:
            raise ValueError(f"it names {len(self.tables)} tables")

    @property
    def home(self) -> tuple[str, str]:
        """The table whose checkpoint table holds this record."""
        return home_of(table.name for table in self.tables)

    @property
    def is_noted(self) -> bool:
        """Whether no process follows before a revert asks for it."""
        return not self.until

    @property
    def names(self) -> str:
        """The tables' names for messages."""
        return ", ".join(map(str, self.tables))

    @property
    def losses(self) -> list[str]:
        """What would be lost in all tables, a line each."""
        told = ((line, table) for table in self.tables for line in table.losses)
        return [line for line, table in told if may_be_told(line, table.name)]
