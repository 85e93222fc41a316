"""The plan of a batch: its lines, definitions that differ, and which table begins next (pure)."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Final

from spirit_py.batch.store import TableState
from spirit_py.batch.trial import Step
from spirit_py.classes import dataclass, field
from spirit_py.command_config import FleetOrders
from spirit_py.events.run import BatchPlanned, Summary, TablePlanned
from spirit_py.units import counted, human_bytes, human_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from spirit_py.batch.changes import TableChange
    from spirit_py.batch.store import TableRecord
    from spirit_py.codes import ErrorCode
    from spirit_py.command_config import BatchConfig
    from spirit_py.events.event import Tell
    from spirit_py.table.names import Name

_SHOWN: Final = 6
ACTIONS = {
    Step.PASS: "changed by an earlier run",
    Step.LOOK: "perhaps changed since an earlier run began it, and nothing shows by whom: it will"
    " fail",
}


_LEFT: Final[dict[str, str]] = {
    TableState.PENDING: "has left unchanged",
    TableState.RUNNING: "began to change",
    TableState.CHANGED: "has changed",
}


def _to_drop(one: TableRecord) -> str:
    if one.state == TableState.PENDING:
        return ""
    words = shlex.join(["--database", one.schema, "--table", one.table])
    return f"; what is left of its migration, spirit-py cleanup {words} drops"


@dataclass(frozen=True, kw_only=True)
class PlannedTable:
    """One table of the plan; an earlier run has changed it if ``done``, or left it if ``begun``.

    Not ``copied``: the server is expected to change it in place, or an earlier run has copied it.
    A copy has bytes of rows and of indexes ``to_write``, at most. ``shape`` is its definition,
    ``code`` that of its refusal.
    """

    change: TableChange
    action: str = ""
    copied: bool = True
    done: bool = False
    begun: bool = False
    rows: int = 0
    data_bytes: int = 0
    index_bytes: int = 0
    to_write: tuple[int, int] = (0, 0)
    refusals: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()
    shape: str = ""
    code: ErrorCode | None = None

    @property
    def passed(self) -> bool:
        """Whether an earlier run has changed it, or another did, so that no checks apply."""
        return self.action in ACTIONS.values()

    def lines(self) -> Iterator[str]:
        """Yield the table for people, a line each."""
        place = f" ({self.change.place})" if self.change.place else ""
        yield f"  {self.change}{place}: {self._outlook()}"
        yield from (f"      {line}" for line in self.refusals)
        yield from (f"      differs from most others: {line}" for line in self.differs)

    def _outlook(self) -> str:
        if self.refusals:
            return "refused"
        if self.done or self.passed:
            return self.action
        size = human_bytes(self.data_bytes + self.index_bytes)
        return f"~{human_count(self.rows)} rows, {size}, {self.action}"


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """The plan; ``earlier`` are the tables of an earlier run that began this batch.

    ``written``: that has changed a table, or begun one; what it copied may be there. ``claims`` are
    what records of other batches say of these tables that anybody may have written.
    ``mysql`` is the server's version; ``orders``: of the fleet whose part this is; ``home``: the
    schema in which its record is, or will be.
    """

    name: str
    server_uuid: str
    tables: tuple[PlannedTable, ...]
    earlier: Mapping[Name, TableRecord] | None = None
    written: bool = False
    claims: tuple[str, ...] = ()
    warnings: Mapping[str, list[str]] = field(default_factory=dict)
    room: tuple[str, ...] = ()
    mysql: str = ""
    orders: FleetOrders = FleetOrders()
    home: str = ""

    @property
    def left(self) -> tuple[PlannedTable, ...]:
        """The tables that are to be changed and can be."""
        return tuple(one for one in self.tables if not (one.done or one.refusals))

    @property
    def refused(self) -> tuple[PlannedTable, ...]:
        """The tables that cannot be changed."""
        return tuple(one for one in self.tables if one.refusals)

    def is_refused(self, config: BatchConfig) -> bool:
        """Whether nothing is begun because tables are refused."""
        goes_on = config.on_failure == "continue" and (self.left or config.each.dry_run)
        return bool(self.refused) and not goes_on

    @property
    def lost(self) -> tuple[TableRecord, ...]:
        """The tables that an earlier run has not changed, and that are not in this plan."""
        planned = {one.change.name for one in self.tables}
        return tuple(
            record
            for name, record in (self.earlier or {}).items()
            if name not in planned and record.state != TableState.DONE
        )

    def left_out(self) -> list[str]:
        """Return what is said of these tables, a line each."""
        return [
            f"{one}, which an earlier run {_LEFT[one.state]}, no longer exists or is"
            f" no longer selected: the batch goes on without it{_to_drop(one)}"
            for one in self.lost
        ]

    @property
    def asks(self) -> bool:
        """Whether the operator should see the tables first: a pattern may match too many.

        Or another batch may have changed some, which one that has begun was told before.
        """
        known = self.earlier or {}
        if self.claims and self.earlier is None:
            return True
        return any(one.change.name not in known for one in self.left if not one.change.place)

    def counts(self) -> str:
        """Return how many tables are changed, and how many are not."""
        done = sum(one.done for one in self.tables)
        counts = [f"{len(self.left)} to change"]
        counts += [f"{done} done by an earlier run"] if done else []
        counts += [f"{len(self.refused)} refused"] if self.refused else []
        return f"{counted(len(self.tables), 'table')}: {', '.join(counts)}"

    def remarks(self) -> list[str]:
        """Return what is to be known beside the tables, a line each."""
        lines = [f"  warning: {line}" for line in self.left_out()]
        for warning, names in self.warnings.items():
            where = names[0] if len(names) == 1 else f"{len(names)} tables, {names[0]} first"
            lines.append(f"  warning ({where}): {warning}")
        return [*lines, *(f"  {line}" for line in (*self.room, *self.kept_in()))]

    def kept_in(self) -> list[str]:
        """Return where its record is, if dropping that schema would take it from other ones."""
        if not self.home or {one.change.schema for one in self.tables} <= {self.home}:
            return []
        where = f"record: in schema {self.home}; do not drop this schema before all tables are done"
        return [f"{where}, which the record alone tells"]


def tell_plan(plan: BatchPlan, tell: Tell, *, causes: bool = True) -> None:
    """Report the plan, table by table; without ``causes`` where an error follows that has them."""
    tell(
        BatchPlanned(
            said=plan.counts(),
            tables=len(plan.tables),
            refused=len(plan.refused),
            left=len(plan.left),
        )
    )
    for one in plan.tables:
        first, *others = one.lines()
        tell(
            TablePlanned(
                said=first.strip(),
                table=f"{one.change.schema}.{one.change.table}",
                action=one.action,
                refusals=list(one.refusals),
            )
        )
        for line in others if causes else others[len(one.refusals) :]:
            tell(Summary(said=line))
    for line in plan.remarks():
        tell(Summary(said=line))


class UsualDefinitions:
    """The definitions of the tables that are expected to be alike, each kept once."""

    def __init__(self) -> None:
        self._groups: dict[str, Counter[str]] = {}
        self._of: dict[tuple[str, Name], str] = {}

    def add(self, change: TableChange, shape: str, *, server: str = "") -> None:
        """Note the definition of a table: its text without the counter; of several servers."""
        quoted = change.table.replace("`", "``")
        text = shape.replace(f"CREATE TABLE `{quoted}`", "CREATE TABLE", 1)
        text = text.replace(f"CONSTRAINT `{quoted}_", "CONSTRAINT `_")
        group = self._groups.setdefault(change.alike, Counter())
        group[text] += 1
        self._of[server, change.name] = next(one for one in group if one == text)

    def differences(self, change: TableChange, *, server: str = "") -> tuple[str, ...]:
        """Return how a definition differs from the majority's, a line each; empty without one."""
        own = self._of.get((server, change.name))
        group = self._groups.get(change.alike)
        if own is None or group is None:
            return ()
        usual, count = group.most_common(1)[0]
        if own == usual or 2 * count <= group.total():
            return ()
        mine, theirs = _lines(own), _lines(usual)
        found = [f"has {line}" for line in mine if line not in theirs]
        found += [f"lacks {line}" for line in theirs if line not in mine]
        more = len(found) - _SHOWN
        shown = found[:_SHOWN] or ["the order of its columns or keys"]
        return (*shown, *([f"and {more} more"] if more > 0 else []))


def _lines(text: str) -> list[str]:
    return [line.strip().removesuffix(",") for line in text.splitlines()[1:]]


class Slots:
    """The slots of all migrations together; a migration keeps those that it began with."""

    def __init__(self, total: int, parallel: int) -> None:
        self._free = total
        self._parallel = parallel

    def take(self, waiting: int) -> int:
        """Return the slots of the next of ``waiting`` migrations; 0 where it cannot begin now."""
        parallel = min(self._parallel, waiting)
        share = self._free // parallel if parallel else 0
        if share:
            self._free -= share
            self._parallel -= 1
        return share

    def give_back(self, share: int) -> None:
        """Take the slots of a migration back that has ended."""
        self._free += share
        self._parallel += 1


def next_table(
    waiting: Iterable[Name], under_way: Iterable[Name], related: Mapping[Name, frozenset[Name]]
) -> Name | None:
    """Return the first table that may begin; None where each is related to one under way.

    A swap locks the tables related by foreign keys, and may change their definitions, which would
    end their own migrations (R14).
    """
    busy = set(under_way)
    return next((one for one in waiting if busy.isdisjoint(related.get(one, ()))), None)
