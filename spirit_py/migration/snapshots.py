"""What a migration does now: its parts' figures in one snapshot; the server is not asked."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from spirit_py import estimates
from spirit_py.migration.figures import feed_figures, totals_of
from spirit_py.migration.state import Wait
from spirit_py.phases import Phase
from spirit_py.progress import HISTORY_SECONDS, MigrationStatus
from spirit_py.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spirit_py.checksum.checker import Checker
    from spirit_py.migration.figures import Figures
    from spirit_py.table.names import Name
    from spirit_py.table.schema import TableSchema

_AT_WORK: Final = frozenset({Phase.COPY, Phase.CHECKSUM})
#: Phases whose work stands still in a pause; what the server builds or applies goes on.
_HELD_BACK: Final = _AT_WORK | {Phase.SENTINEL}
_NO_WORK: Final = frozenset({Phase.CUTOVER, Phase.DRAIN, Phase.ANALYZE})
_HISTORY: Final = 60
_SPEEDS: Final = ("rate", "byte_rate")
#: Work that is held back for less goes on at its speed.
_STANDS_SECONDS: Final = 2.0
#: The statistics are stale where a table has so many times the estimated rows.
_STALE_TIMES: Final = 2
#: What is built by then says how long the rest takes.
_ENOUGH_BUILT: Final = 0.02


class Snapshots:
    """Takes snapshots of a migration's parts."""

    def __init__(self, figures: Figures, *, server: str) -> None:
        self._figures = figures
        self._server = server
        self._clock = figures.journal.clock
        self._lock = threading.Lock()
        self._backlog = estimates.ChangeBacklog()
        self._compared, self._built = estimates.Speed(restarts=True), estimates.Speed()
        self._archived = estimates.Speed(restarts=True)
        self._history: deque[float] = deque(maxlen=_HISTORY)
        self._noted_at = float("-inf")
        self._throttled = Wait()
        self._outage = estimates.Outage()
        self._state = figures.state

    def take(self) -> MigrationStatus:
        """Take one. No I/O; any thread may ask."""
        with self._lock:
            return self._snapshot(self._clock())

    def _snapshot(self, now: float) -> MigrationStatus:
        state = self._state = self._figures.state
        shown: dict[str, Any] = {
            "table": ".".join(filter(None, (state.report.schema, state.report.table))),
            "phase": state.phase,
            "elapsed": now - state.began,
            "phase_elapsed": now - state.phases.entered_at,
            "waiting_for": state.waits.what,
            "waited": state.waits.seconds(now),
            "checkpoint_age": state.checkpoint_age(now),
            "binlog_left": state.binlog_left,
            "passed": state.phases.history,
            "to_come": self._to_come(),
        }
        shown |= self._feed(now) | self._pace() | self._work(now)
        away = self._away(now)
        shown |= away
        if away or self._stands(now, shown):
            shown |= {name: 0.0 for name in _SPEEDS if shown.get(name) is not None}
            shown["eta"] = None
        shown |= self._rest(now, shown)
        shown["history"] = self._noted(now, shown.get("rate"))
        totals = totals_of(self._figures)
        if self._outage.seconds:
            throttled = {**totals.throttled, estimates.SERVER: self._outage.seconds}
            totals = replace(totals, throttled=throttled)
        return MigrationStatus(**shown, totals=totals)

    def _away(self, now: float) -> dict[str, Any]:
        """Return the wait for a server that neither feed nor work reaches: tasks retry unseen."""
        figures = self._figures
        seen = figures.received()
        done = (
            *(copier.statistics().rows for _, copier in figures.copiers),
            *(checker.progress.rows for _, checker in figures.checkers),
            0 if seen is None else seen.applied,
        )
        trouble = "" if seen is None else seen.trouble
        waited = self._outage.waited(now, done, trouble)
        if waited is None:
            return {}
        what = self._state.waits.what or f"the server at {self._server} to answer ({trouble})"
        return {"waiting_for": what, "waited": waited}

    def _stands(self, now: float, shown: Mapping[str, Any]) -> bool:
        """Return whether a pause, or a limit for a while, holds back the phase."""
        if self._state.phase not in _HELD_BACK:
            return False
        held = shown.get("throttled") and (self._throttled.seconds(now) or 0.0) >= _STANDS_SECONDS
        return bool(held) or bool(self._figures.paused())

    def _throttled_for(self, now: float) -> float | None:
        """Return for how long the reasons of now hold, not those before them."""
        throttles = self._figures.throttles
        waited = None if throttles is None else throttles.waiting_for()[1]
        return self._throttled.seconds(now) if waited is None else waited

    def _to_come(self) -> tuple[Phase, ...]:
        state = self._state
        if state.report.algorithm != "copy":
            return ()
        order = list(Phase)
        place = order.index(state.phase)
        return tuple(phase for phase in state.planned if order.index(phase) > place)

    def _noted(self, now: float, rate: float | None) -> tuple[float, ...]:
        if now - self._noted_at >= HISTORY_SECONDS:
            self._noted_at = now
            if rate is None:
                self._history.clear()
            else:
                self._history.append(rate)
        return tuple(self._history)

    def _pace(self) -> dict[str, Any]:
        throttles = self._figures.throttles
        shown: dict[str, Any] = {"throttled": self._figures.held_back_by()}
        self._throttled = self._throttled.then(shown["throttled"], self._clock())
        if throttles is None:
            return shown
        if self._state.phase not in _NO_WORK:
            shown["pace"] = throttles.described()
        if self._state.phase in _AT_WORK:
            shown["tasks_most"] = most = throttles.most_tasks(self._state.report.threads)
            shown["tasks"] = throttles.tasks(most)
        return shown

    def _feed(self, now: float) -> dict[str, Any]:
        seen = self._figures.received()
        if seen is None:
            return {}
        kept = seen.received - seen.deduplicated - seen.dropped_above_high_watermark
        self._backlog.note(now, wanted=kept, applied=seen.applied)
        return feed_figures(seen) | {
            "received_rate": self._backlog.wanted.recent(now),
            "applied_rate": self._backlog.applied.recent(now),
        }

    def _with_backlog(self, now: float, seconds: float | None) -> float | None:
        seen = self._figures.received()
        if seconds is None or seen is None:
            return seconds
        return estimates.together(seconds, self._backlog.seconds(now, seen.pending, ahead=seconds))

    def _rest(self, now: float, shown: dict[str, Any]) -> dict[str, Any]:
        figures = self._figures
        copied = [one.statistics() for _, one in figures.copiers]
        shares = figures.shares
        building = next((name for name, one in shares.items() if one.index), None)
        parts = estimates.rest_of_run(
            estimates.Measured(
                phase=self._state.phase,
                eta=shown.get("eta"),
                spent=None if shown.get("throttled") else now - self._state.phases.entered_at,
                building=building if self._state.phase is Phase.INDEX else None,
                row_seconds=estimates.row_seconds(
                    sum(one.rows - one.rows_before for one in copied),
                    sum(one.seconds - one.throttled_seconds for one in copied),
                ),
                rows={name: self._table_rows(name) for name in shares},
                shares=shares,
            )
        )
        if not parts:
            return {}
        return {
            "run_eta": estimates.together(*parts.values()),
            "run_eta_until": estimates.until(self._state.planned),
            "run_eta_parts": parts,
        }

    def _in_bytes(self, table: TableSchema, rate: float | None) -> float | None:
        rows = self._table_rows(_name(table))
        if rate is None or table.row_bytes is None or rows is None:
            return None
        return rate * table.row_bytes if rows <= _STALE_TIMES * table.estimated_rows else None

    def _table_rows(self, name: Name) -> int | None:
        for table, copier in self._figures.copiers:
            if _name(table) == name:
                return copier.statistics().rows_total
        if name in self._state.copied_before:
            return self._state.copied_before[name][0]
        return self._state.estimates.get(name) or None

    def _work(self, now: float) -> dict[str, Any]:
        figures = self._figures
        if self._state.phase is Phase.COPY and figures.copiers:
            return self._copy(now)
        if self._state.phase is Phase.INDEX:
            return self._build(now)
        if self._state.phase is Phase.ARCHIVE and figures.archived is not None:
            return self._archive(now, *figures.archived)
        if self._state.phase is Phase.DRAIN:
            return {"eta": self._with_backlog(now, 0.0)}
        if self._state.phase in {Phase.CHECKSUM, Phase.SENTINEL} and figures.checkers:
            return self._comparison(now)
        return {}

    def _copy(self, now: float) -> dict[str, Any]:
        table, _ = self._figures.copiers[-1]
        seen = {_name(of): copier.statistics() for of, copier in self._figures.copiers}
        current = seen[_name(table)]
        before = self._state.copied_before
        copied = [copier.statistics() for _, copier in self._figures.copiers]
        rows = sum(one.rows for one in copied) + sum(done for done, _ in before.values())
        totals = {name: self._copied_in_all(name) for name in seen}
        total = self._over_all(lambda of: (of in seen, totals.get(of)))
        every = all(name in seen or name in before for name in self._state.estimates)
        # A table that goes to several targets is copied for each.
        begun = len(copied) + len(before) >= len(self._figures.pairs)
        ended = every and begun and all(one.ended for one in copied)
        speeds = current.rows_per_second, current.steady_rows_per_second
        return {
            **self._rows(now, table, (rows, total, ended), speeds, held=current.throttled),
            "chunk_rows": current.chunk_rows,
            "chunk_seconds": current.chunk_seconds_p90,
        }

    def _copied_in_all(self, name: Name) -> int | None:
        """Return how many rows of a table are copied to all of its targets together."""
        own = [copier.statistics() for of, copier in self._figures.copiers if _name(of) == name]
        targets = sum(pair.source_name == name for pair in self._figures.pairs)
        if targets <= 1:
            return own[-1].rows_total
        rows = sum(one.rows for one in own)
        if len(own) == targets and all(one.ended for one in own):
            return rows
        return max(rows, self._state.estimates.get(name) or 0) or None

    def _rows(
        self,
        now: float,
        table: TableSchema,
        done: tuple[int, int | None, bool],
        speeds: tuple[float | None, float | None],
        *,
        held: str,
    ) -> dict[str, Any]:
        """Show what is ``done`` (rows, of how many, ended) at its ``speeds``, now and over time."""
        (rows, total, ended), (rate, steady), waits = done, speeds, self._state.waits
        left = None if total is None else total - rows
        return {
            "table": ".".join(_name(table)),
            "rows": rows,
            "rows_total": total,
            "fraction": estimates.fraction_of(rows, total, ended=ended),
            "rate": rate,
            "byte_rate": self._in_bytes(table, rate),
            "eta": self._with_backlog(now, estimates.seconds_left(left, steady)),
            "waiting_for": held or waits.what,
            "waited": self._throttled_for(now) if held else waits.seconds(now),
        }

    def _over_all(self, of: Callable[[tuple[str, str]], tuple[bool, int | None]]) -> int | None:
        """Return the rows of all tables; ``of`` returns whether work shows them, and these."""
        total, before = 0, self._state.copied_before
        for name in {**self._state.estimates, **dict.fromkeys(before)}:
            begun, rows = of(name)
            if not begun:
                rows = before[name][0] if name in before else self._state.estimates[name] or None
            if rows is None:
                return None
            total += rows
        return total

    def _build(self, now: float) -> dict[str, Any]:
        built = self._state.built
        if built is None:
            return {}
        self._built.note(now, built)
        speed = self._built.steady(now) if built >= _ENOUGH_BUILT else None
        return {
            "fraction": estimates.fraction_of(built, 1.0),
            "eta": self._with_backlog(now, estimates.seconds_left(1.0 - built, speed)),
        }

    def _archive(
        self, now: float, table: TableSchema, rows: int, total: int | None, doing: str
    ) -> dict[str, Any]:
        if doing:
            # What is written is not proved yet, and a run that was resumed has not counted it.
            return {"table": ".".join(_name(table)), "note": doing}
        self._archived.note(now, rows)
        speeds = self._archived.recent(now), self._archived.steady(now)
        return self._rows(now, table, (rows, total, False), speeds, held="")

    def _comparison(self, now: float) -> dict[str, Any]:
        figures = self._figures
        table, checker = figures.checkers[-1]
        seen = checker.progress
        if self._state.phase is Phase.SENTINEL and checker.result.seconds:
            passes = sum(one.result.passes for _, one in figures.checkers)
            counted_passes = counted(passes, "checksum pass", "checksum passes")
            return {"note": f"{counted_passes}, the last one clean"}
        done = self._compared_rows(table, checker)
        self._compared.note(now, sum(one.progress.rows for _, one in figures.checkers))
        speeds = self._compared.recent(now), self._compared.steady(now)
        shown = self._rows(now, table, done, speeds, held=seen.waiting_for)
        return {**shown, "note": seen.note}

    def _compared_rows(self, table: TableSchema, checker: Checker) -> tuple[int, int | None, bool]:
        """Return the rows compared, those there are, and whether all of them are compared."""
        figures = self._figures
        shown = {_name(of) for of, _ in figures.checkers}
        current = checker.progress.total(self._copied(_name(table)))
        compared = {(_name(of), one.what.target) for of, one in figures.checkers}
        again = len(compared) < len(figures.checkers) or len(compared) > len(shown)
        if again or self._state.phase is not Phase.CHECKSUM:
            return checker.progress.rows, current, checker.progress.ended
        seen = {_name(of): one.progress for of, one in figures.checkers}

        def of(name: tuple[str, str]) -> tuple[bool, int | None]:
            if name in seen:
                return True, seen[name].total(self._copied(name))
            return True, self._copied(name)

        ended = len(seen) == len(self._state.estimates) and all(one.ended for one in seen.values())
        return sum(one.rows for one in seen.values()), self._over_all(of), ended

    def _copied(self, name: tuple[str, str]) -> int | None:
        """Return how many rows of a table the copy has written; None where that is not known."""
        _, checker = self._figures.checkers[-1]
        keeps = checker.what.mapping.keep is not None
        if (before := self._state.copied_before.get(name)) is not None:
            return None if keeps else before[0]
        own = (copier.statistics() for of, copier in self._figures.copiers if _name(of) == name)
        if (seen := next(own, None)) is None:
            return None
        # An earlier run has not noted how many of its rows it left out.
        return None if keeps and seen.rows_before else seen.rows - seen.left_out


def _name(table: TableSchema) -> tuple[str, str]:
    return table.schema, table.name
