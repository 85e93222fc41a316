"""One mapping with its feed and applier, for both directions: analyze, compare, prove."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from spirit_py.applier.applier import SqlApplier
from spirit_py.binlog.source import BinlogSource
from spirit_py.checksum.checker import Checker
from spirit_py.checksum.recheck import may_roll
from spirit_py.checksum.result import ChecksumOptions
from spirit_py.checksum.worker import Comparison
from spirit_py.classes import dataclass, field
from spirit_py.cutover.plan import NotProven
from spirit_py.estimates import fraction_of
from spirit_py.events.copy import ChecksumBegun
from spirit_py.feed.feed import ChangeFeed
from spirit_py.locks.blockers import LockPolicy
from spirit_py.migration.doubts import Doubts
from spirit_py.migration.job import quietly
from spirit_py.migration.swap.same_tables import FORWARD, Direction, SameTables
from spirit_py.mysql.duplicates import may_be_null, refuse_null_keys
from spirit_py.sql import quote_table
from spirit_py.units import human_percent

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable

    from spirit_py.checksum.result import ChecksumProgress, ChecksumResult
    from spirit_py.contracts import Applier
    from spirit_py.feed.subscription import TableSubscription
    from spirit_py.migration.job import Job
    from spirit_py.table.keys import KeyBound
    from spirit_py.table.mapping import TableMapping
    from spirit_py.threads import StopSwitch


def open_feed(
    job: Job,
    stop: StopSwitch,
    stack: contextlib.ExitStack,
    *,
    back: bool = False,
    made_by: Callable[..., SqlApplier] = SqlApplier,
) -> tuple[ChangeFeed, Applier]:
    """Make a feed, whose fault goes to ``stop``, and its applier; ``stack`` closes both.

    ``made_by`` makes the applier, by the arguments of its class. ``back``: the old tables follow,
    and no value may be lost in them.
    """
    connection, options = job.config.connection, job.config.feed
    sessions, rows = options.apply_threads, options.batch_rows
    applier = made_by(
        job.config.there, sessions=sessions, batch_rows=rows, stop=stop, judge_first=back
    )
    stack.callback(quietly, "the applier", applier.close)
    source = BinlogSource(connection, options, tell=job.tell)
    feed = ChangeFeed(source, applier, options=options, stop=stop, tell=job.tell, behind_swap=back)
    stack.callback(quietly, "the change feed", feed.close)
    return feed, applier


@dataclass(kw_only=True)
class Pair:
    """A table, and the one that follows it through the feed, whose faults go to ``stop``."""

    job: Job
    mapping: TableMapping
    feed: ChangeFeed
    subscription: TableSubscription
    applier: Applier
    stop: StopSwitch
    direction: Direction = FORWARD
    tables: SameTables = field(init=False)
    doubts: Doubts = field(init=False)
    max_passes: int = ChecksumOptions.max_passes
    _checker: Checker | None = field(default=None, init=False)
    #: :attr:`Checker.proven` of the last comparison that ended clean.
    _proven: int = field(default=-1, init=False)
    #: The feed's lapses when the last such comparison began; at first, when it was made.
    _lapses: int = field(init=False)

    def __post_init__(self) -> None:
        job, mapping, feed, stop = self.job, self.mapping, self.feed, self.stop
        self._lapses = feed.lapses
        self.tables = SameTables(job, mapping, feed, stop, self.direction)
        self.doubts = Doubts(job, mapping, feed, stop, self.subscription.in_doubt)

    @property
    def source_name(self) -> tuple[str, str]:
        """The source's schema and name."""
        return self.mapping.source.schema, self.mapping.source.name

    @property
    def target_name(self) -> tuple[str, str]:
        """The schema and name of the table that follows."""
        return self.mapping.target.schema, self.mapping.target.name

    @property
    def name(self) -> str:
        """The source's name for messages, with the shard where there are several."""
        shard, name = self.job.config.shard, ".".join(self.source_name)
        return f"{name} ({shard})" if shard else name

    def analyze(self) -> None:
        """Renew the optimizer's statistics of the target before the application uses it."""
        sql = f"ANALYZE NO_WRITE_TO_BINLOG TABLE {quote_table(*self.target_name)}"
        self.job.step("analyze", lambda session: session.query(sql), stop=self.stop, there=True)

    def _size(self) -> int:
        return max(self.mapping.source.total_bytes, self.mapping.target.total_bytes)

    def check(self, stop: StopSwitch | None = None, *, why: str = "") -> ChecksumResult:
        """Compare every row; a pass without a difference is needed. ``stop`` ends only this."""
        self.tables.look()
        taken_over, lapses = self.tables.taken_over, self.feed.lapses
        self._tell_begun(why)
        config = self.job.config
        if may_be_null(self.mapping):
            look = partial(refuse_null_keys, mapping=self.mapping)
            self.job.step("null keys", look, stop=stop or self.stop)
        above = self._compared_before()
        rolling = config.checksum == "rolling" and may_roll(self.mapping)
        if rolling:
            self.doubts.settle()
            rolling = not self.doubts.unsettled
        settles = above is None and not rolling
        base = self.doubts.begin_comparison(whole=settles, optional=stop is not None)
        comparison = Comparison(
            mapping=self.mapping,
            source=config.connection,
            target=config.target,
            engine=self.job.engines.for_comparison(self._size(), self.job.show),
            stop=stop or self.stop,
            feed=self.feed,
            options=ChecksumOptions(
                locking=LockPolicy.of(config),
                yield_seconds=config.checksum_yield_timeout,
                max_passes=self.max_passes,
                rolling=rolling,
            ),
            pace=self.job.pace,
            tell=self.job.tell,
            held_up=self.job.held_up,
        )
        checker = self._checker = Checker(
            comparison, applier=self.applier, on_progress=self._show_progress, resume_above=above
        )
        result = self._run(checker)
        self._proven, self._lapses = checker.proven, lapses
        self.doubts.compared(base, whole=settles)
        if above is None:
            self.tables.compared(taken_over)
        # Repeated for days while the swap is deferred: the progress counts the passes.
        quiet = stop is not None and not result.differences
        self.job.tell(result.event(table=self.name, quiet=quiet))
        return result

    def stopped_with_differences(self) -> bool:
        """Return whether the comparison that was stopped may have met rows that really differ."""
        return self._checker is not None and self._checker.settle_open(self.stop)

    def _tell_begun(self, why: str) -> None:
        target = ".".join(self.target_name)
        said = f"{self.name} again: {why}" if why else f"{self.name} with {target}"
        columns, key = len(self.mapping.compared), self.mapping.key.name
        begun = ChecksumBegun(
            table=self.name, target=target, columns=columns, key=key, reason=why or None, said=said
        )
        self.job.tell(begun)

    def _show_progress(self, seen: ChecksumProgress) -> None:
        part = fraction_of(seen.rows, seen.total(self.mapping.source.estimated_rows))
        how = f"the comparison of {self.name}: {human_percent(part)}"
        self.job.show(f"{seen.waiting_for}, in {how}" if seen.waiting_for else how)

    def _run(self, checker: Checker) -> ChecksumResult:
        return checker.run()

    def _compared_before(self) -> KeyBound | None:
        return None

    @property
    def outlived(self) -> bool:
        """Whether rows may have been changed past the binlog since the comparison. No I/O."""
        return self.feed.lapses != self._lapses

    @property
    def unproven(self) -> str:
        """Why the table must be compared once more; empty for not. No I/O."""
        if self.mapping.merging and self.feed.overwrites(self.mapping) != self._proven:
            return "rows were overwritten"
        if self.outlived:
            return "the server was restarted or given GTIDs: rows may have changed without binlog"
        return self.tables.must_compare or self.doubts.must_compare

    def prove(self) -> str:
        """Look at the tables, compare the rows in doubt; return :attr:`unproven` afterwards."""
        self.tables.look()
        self.doubts.settle()
        return self.unproven

    def require_proven(self) -> None:
        """Raise NotProven for a table that must be compared once more."""
        if why := self.unproven:
            raise NotProven(
                f"{self.name} must be compared once more: {why}",
                hint="run the same command again",
            )
