"""The report as a page: complete, without network and scripts, safe with hostile names."""

from __future__ import annotations

import random
import re
import sys
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest

from spirit_py.events.copy import ChecksumDone
from spirit_py.events.run import (
    AlgorithmChosen,
    PlanMade,
    RunBegun,
    RunEnded,
    StatementRead,
    TableEnded,
    Warned,
)
from spirit_py.events.swap import CutoverTryFailed, SwapDone
from spirit_py.phases import Phase
from spirit_py.progress import BatchStatus, MigrationStatus, RunTotals
from spirit_py.status.html.figures import plots
from spirit_py.status.html.page import PageReporter, page

BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
#: They clear a terminal, or turn the direction of what follows: to the eye it is another text.
CONTROL = "a\x00\x1b[2J\x9b2J\u202eb\u2066c"
HOSTILE = "</style></svg><script>alert('x')</script><img src=http://evil.example/x onerror=y>"
#: Elements without an end.
VOID = {"meta", "link", "br", "img", "hr", "input"}
RESOURCES = {"src", "href", "xlink:href", "srcset", "data", "poster", "action"}


class Seen(HTMLParser):
    """What a page has, and that its elements end in order."""

    def __init__(self, text):
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.said: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        """Note an element, which is open then."""
        self.tags.append(tag)
        self.attributes += [(tag, *one) for one in attributes]
        self.ids += [value for name, value in attributes if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        """Note an element that ends at once."""
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        """Require that it is the one that began last."""
        assert self.open.pop() == tag

    def handle_data(self, data):
        """Note a text."""
        self.said.append(data)


class Run:
    """A run whose page is made; its clock is moved by hand."""

    def __init__(self, tmp_path):
        self.at = 0.0
        self.path = tmp_path / "report.html"
        self.reporter = PageReporter(self.path, clock=lambda: self.at)
        self.tell(RunBegun, command="migrate", server="db1:3306", program="1.0")

    def tell(self, kind, *, table="shop.orders", **fields):
        """Report an event at the time of the clock."""
        time = BEGAN + timedelta(seconds=self.at)
        self.reporter.event(kind(time=time, table=table, **fields))

    def look(self, phase, table="shop.orders", **known):
        """Take a snapshot."""
        self.reporter.progress(status(phase, self.at, table, **known))

    def end(self, outcome="done", **fields):
        """End the run; return its page."""
        known = {"exit_code": 0, "seconds": self.at, "error": "", "code": None, "hint": ""}
        fields = {**known, "details": [], **fields}
        self.tell(RunEnded, outcome=outcome, **fields)
        return self.path.read_text()


def status(phase, at, table="shop.orders", **known):
    """Return a snapshot of a run that began at 0."""
    totals = {"tables": (table,), **known.pop("totals", {})}
    return MigrationStatus(
        table=table, phase=phase, elapsed=at, phase_elapsed=at, totals=RunTotals(**totals), **known
    )


@pytest.fixture
def run(tmp_path):
    """Return a run that has begun."""
    return Run(tmp_path)


def busy(run, seconds=300.0, step=0.5):
    """Let a run copy under load, wait, compare, and try to swap."""
    chance = random.Random(1)
    rows = received = applied = waited = 0.0
    while run.at < seconds:
        part = run.at / seconds
        waits = 0.3 < part < 0.4
        waited += step if waits else 0
        rows += 0 if waits or part > 0.7 else step * chance.randint(500, 1500)
        received += step * 50
        applied = received if chance.random() < 0.1 else applied
        phase = Phase.COPY if part < 0.7 else Phase.CHECKSUM if part < 0.95 else Phase.CUTOVER
        run.look(
            phase, rate=1000.0 + chance.random(), received=int(received), applied=int(applied),
            pending=int(received - applied), buffered_bytes=int(received - applied) * 200,
            feed_lag=chance.random(), chunk_seconds=0.4 + chance.random(), tasks=2, byte_rate=5e6,
            totals={"rows_copied": int(rows), "throttled": {"pause": waited}, "feed_bytes": 9},
        )  # fmt: skip
        run.at += step
    run.tell(
        CutoverTryFailed, number=1,
        reason="somebody was in front", lock_wait_ms=1500.0,
    )  # fmt: skip
    run.tell(
        SwapDone, tries=2, lock_wait_ms=3.0, lock_held_ms=12.5,
        steps_ms={"flush": 2.0},
    )  # fmt: skip


def require_self_contained(text):
    """Raise AssertionError where the page has a script, or names anything outside of it."""
    seen = Seen(text)
    assert {"script", "iframe", "object", "embed", "img"} & set(seen.tags) == set()
    outside = [one for one in seen.attributes if one[1] in RESOURCES and one[2] != "data:,"]
    assert outside == []
    assert [one for one in seen.attributes if one[1].startswith("on")] == []
    assert re.findall(r"url\(|@import|@font-face", text) == []
    places = set(re.findall(r"https?://[^\s\"'<]+", text)) - {"http://www.w3.org/2000/svg"}
    assert places == set()


def test_a_page_needs_no_network_and_has_no_script(run):
    """Neither scripts, nor pictures, nor styles, nor fonts of elsewhere."""
    busy(run)
    require_self_contained(run.end())


def test_a_page_of_a_busy_run_shows_every_figure_as_a_plot(run):
    """Rows, bytes, changes, chunks, lag, backlog, waits and tasks."""
    busy(run)
    text = run.end()
    plots = {one for one in Seen(text).ids if one.startswith("plot-")}
    names = (
        "rows",
        "bytes",
        "changes",
        "chunk",
        "lag",
        "pending",
        "buffered",
        "throttled",
        "tasks",
    )
    assert plots == {f"plot-{name}" for name in names}
    assert text.count('class="line reactive nofill"') >= len(names)
    assert "nan" not in text.lower().replace("tenant", "")
    assert "somebody was in front" in text
    assert "12 ms" in text or "13 ms" in text


@pytest.mark.parametrize(("reasons", "noted"), [(("pause",), 0), (("pause", "threads"), 1)])
def test_waits_for_several_reasons_are_said_to_be_added_up(run, reasons, noted):
    """They may hold at once, so that their sum may exceed the run."""
    for run.at in (1.0, 2.0):
        run.look(Phase.COPY, totals={"throttled": dict.fromkeys(reasons, run.at)})
    assert run.end().count("all reasons and tables added up") == noted


def test_a_figure_that_was_never_known_has_no_plot(run):
    """A change that was made in place has neither a feed nor chunks."""
    run.look(Phase.SHORTCUT)
    run.at = 1.0
    run.look(Phase.SHORTCUT)
    seen = Seen(run.end())
    assert [one for one in seen.ids if one.startswith("plot-")] == []


@pytest.mark.parametrize("outcome", ["failed", "refused", "interrupted", "unknown"])
def test_a_run_that_failed_has_a_page_with_the_cause_and_the_remedy(run, outcome):
    """Whatever ended it."""
    run.look(Phase.COPY)
    run.at = 2.0
    run.tell(Warned, said="something odd")
    text = run.end(
        outcome, exit_code=1, error="the copy broke", code="copy-failed", hint="run again",
        details=["chunk 7"],
    )  # fmt: skip
    said = " ".join(Seen(text).said)
    for part in (outcome, "the copy broke", "copy-failed", "run again", "chunk 7", "something odd"):
        assert part in said


def test_a_warning_of_several_tables_is_shown_once_with_their_names(run):
    """The name of its table stands in front of it once; of many tables, how many there are."""
    names = [f"shop.t{number}" for number in (1, 2, 3, 4)]
    tables = tuple(status(Phase.COPY, run.at, name) for name in names)
    run.reporter.progress(
        BatchStatus(described="", elapsed=run.at, counts={"running": 4}, tables=tables)
    )
    for name in names:
        run.tell(Warned, table=name, prefix=name, said="the server may lose commits")
    run.tell(Warned, table=names[0], prefix=names[0], said="of one")
    for name in names[:2]:
        run.tell(Warned, table=name, prefix=name, said="of two")
    run.at = 2.0
    text = run.end()
    shown = text.partition("<h2>Warnings</h2>")[2].partition("</ul>")[0]
    assert re.findall("<li>(.*?)</li>", shown) == [
        "4 tables: the server may lose commits",
        "shop.t1: of one",
        "shop.t1, shop.t2: of two",
    ]


def test_a_plot_of_chunks_without_a_chunk_is_left_out(run):
    """Tables of few rows have no time of a chunk."""
    for run.at in (1.0, 2.0, 3.0):
        run.look(Phase.COPY, chunk_seconds=0.0, tasks=2)
    assert "plot-chunk" not in Seen(run.end()).ids


def test_a_step_of_the_machines_clock_makes_the_axis_no_longer(run):
    """The lanes would be a line at its left end, and the duration hours."""
    run.look(Phase.COPY)
    run.at = 300.0
    run.look(Phase.CHECKSUM)
    run.end()
    text = page(run.reporter._history, ended=BEGAN + timedelta(hours=5))
    assert text == page(run.reporter._history, ended=BEGAN + timedelta(seconds=300)).replace(
        f"{BEGAN + timedelta(seconds=300):%H:%M:%S}", f"{BEGAN + timedelta(hours=5):%H:%M:%S}"
    )


def test_a_run_that_ended_before_it_began_to_work_has_a_page(run):
    """A refusal has neither snapshots nor phases."""
    text = run.end("refused", error="the table is not there", exit_code=2)
    require_self_contained(text)
    assert "the table is not there" in text


def test_the_change_of_the_definition_is_shown_where_it_is_known(run):
    """As the plan shows it on a terminal: a comma at the end of a line is no difference."""
    definition = {
        "old": "CREATE TABLE t (\n  k int,\n  a int\n)",
        "new": "CREATE TABLE t (\n  k int,\n  a bigint,\n  b int\n)",
    }
    run.tell(PlanMade, said="", shown=(), plan={"tables": [{"definition": definition}]})
    run.tell(
        StatementRead,
        statement="MODIFY a BIGINT",
        tables=[],
        server="",
        mysql="",
        names=(),
        estimates={},
    )
    said = Seen(run.end()).said
    assert {"-   a int", "+   a bigint,", "+   b int", "    k int,"} <= set(said)
    assert not any(line.startswith("@@") for line in said)


def page_full_of(run, hostile):
    """Return the page of a run in which every text has something hostile."""
    table = f"shop.{hostile}"
    for at in range(40):
        run.at = at / 2
        totals = {"rows_copied": at, "throttled": {hostile: at / 4}}
        run.look(Phase.COPY, table, pending=at, feed_lag=1.0, totals=totals)
    run.tell(
        StatementRead, table=table, statement=hostile, tables=[table], names=(), estimates={},
        server=hostile, mysql=hostile,
    )  # fmt: skip
    run.tell(AlgorithmChosen, algorithm="copy", reason=hostile)
    run.tell(Warned, said=hostile)
    run.tell(CutoverTryFailed, number=1, reason=hostile, lock_wait_ms=None)
    run.tell(
        SwapDone, tries=1, lock_wait_ms=1.0, lock_held_ms=1.0,
        steps_ms={hostile: 1.0},
    )  # fmt: skip
    return run.end("failed", error=hostile, hint=hostile, details=[hostile], code=hostile)


def test_what_turns_or_ends_a_line_is_shown_as_everywhere(run):
    """Names, comments and texts of the server: on a terminal they are escaped in the same way."""
    text = page_full_of(run, CONTROL)
    assert not set("\x00\x1b\x9b\u202e\u2066") & set(text)
    # In the heads, the lists, the tables and the titles within the plots.
    assert text.count(r"a\x00\x1b[2J\x9b2J\u202eb\u2066c") > 15
    assert "<pre>a" in text


def test_hostile_names_and_texts_are_escaped_everywhere(run):
    """Table, statement, error, reasons of waits and of failed tries, events and fields."""
    text = page_full_of(run, HOSTILE)
    seen = Seen(text)
    assert {"script", "img"} & set(seen.tags) == set()
    assert [one for one in seen.attributes if one[1] in RESOURCES and one[2] != "data:,"] == []
    assert "<script" not in text.lower()
    assert "<img" not in text.lower()
    assert HOSTILE in " ".join(seen.said)


def test_a_deferral_is_grey_and_what_follows_the_swap_is_not(run):
    """The work waits for the operator; in keep and grace it is done, and nothing is held back."""
    for phase in (Phase.COPY, Phase.SENTINEL, Phase.KEEP, Phase.GRACE):
        for _ in range(20):
            run.look(phase, pending=int(run.at), feed_lag=1.0)
            run.at += 1.0
    history = run.reporter._history
    (lag,) = (plot for plot in plots(history) if plot.name == "lag")
    (shade,) = lag.shades
    assert shade.text == "waited for: the end of the deferral"
    assert 18 <= shade.began <= 20
    assert 39 <= shade.ended <= 41
    assert "waited for: the end of the deferral" in run.end()


def test_a_page_of_a_run_of_days_is_small(run):
    """Three days of snapshots and thousands of events make less than half a megabyte."""
    busy(run, 3 * 86400.0, step=15.0)
    for number in range(5000):
        run.tell(Warned, said=f"warning {number} " + "x" * 100)
    text = run.end()
    assert len(text.encode()) < 500_000


def test_each_event_is_shown_or_counted_as_left_out(run):
    """Of many warnings among as many ordinary events none is missing without a word."""
    for number in range(1000):
        run.at = float(number)
        run.tell(Warned, said=f"warning {number} " + "x" * 100)
        run.tell(
            ChecksumDone, rows=number, passes=1, differences=0, repaired_chunks=0,
            lock_held_ms=1.0, seconds=1.0,
        )  # fmt: skip
    text = run.end()
    table = text.partition('<table class="events">')[2].partition("<tbody>")[2]
    (left_out,) = re.findall(r"(\d+) events in the middle of the run are left out", table)
    shown = table.partition("</tbody>")[0].count("<tr ")
    assert shown == 850
    assert shown + int(left_out) == run.reporter._history.timeline._number
    assert len(text.encode()) < 500_000


def test_a_page_of_a_batch_has_every_table(run):
    """Each has a lane and a row with its outcome, and their figures are added up."""
    for at in range(20):
        run.at = float(at)
        run.reporter.progress(
            BatchStatus(
                described="", elapsed=run.at, counts={"running": 2},
                tables=tuple(
                    status(Phase.COPY, run.at, f"shop.t{number}", totals={"rows_copied": at * 10})
                    for number in (1, 2)
                ),
            )
        )  # fmt: skip
    for table, rows in (("shop.t1", 190), ("shop.t2", 110)):
        run.tell(
            ChecksumDone, table=table, rows=rows, passes=1, differences=0,
            repaired_chunks=0, lock_held_ms=1.0, seconds=1.0,
        )  # fmt: skip
    common: dict[str, Any] = {
        "exit_code": 0,
        "seconds": 19.0,
        "code": None,
        "hint": "",
        "details": [],
    }
    run.tell(TableEnded, summed_up="", table="shop.t1", outcome="reverted", error="", **common)
    common["exit_code"] = 1
    run.tell(TableEnded, summed_up="", table="shop.t2", outcome="failed", error="no", **common)
    text = run.end("failed", error="1 table failed", exit_code=1)
    assert '<span class="outcome small undone">reverted</span>' in text
    assert '<span class="outcome small bad">failed</span>' in text
    said = Seen(text).said
    assert "2 tables" in " ".join(said)
    assert said.count("shop.t1") >= 2
    assert {"380", "300"} <= set(said)


def test_a_page_that_cannot_be_written_does_not_end_the_run(tmp_path, caplog):
    """It is reported."""
    (tmp_path / "report.html").mkdir()
    run = Run(tmp_path)
    run.look(Phase.COPY)
    with pytest.raises(IsADirectoryError):
        run.end()
    assert "could not be written" in caplog.text


def test_a_second_run_in_the_same_process_begins_its_history_anew(run):
    """A migration that was asked about and begun again shows the second run alone."""
    run.look(Phase.COPY, totals={"rows_copied": 12345})
    run.end("refused", error="earlier trouble")
    run.at = 50.0
    run.tell(RunBegun, command="migrate", server="s", program="1")
    run.at = 51.0
    run.look(Phase.COPY, totals={"rows_copied": 7})
    text = run.end()
    assert "earlier trouble" not in text
    assert "12 345" not in text


def test_drawing_leaves_no_import_hook_behind():
    """Pygal adds one of an old kind, of which Python warns at every import after it."""
    assert [one for one in sys.meta_path if "pygal" in type(one).__module__] == []


def test_an_empty_history_makes_a_page(run):
    """Nothing is known; nothing is claimed."""
    text = page(run.reporter._history, ended=BEGAN)
    require_self_contained(text)
    assert "unknown" in text


@pytest.mark.parametrize("outcome", ["done", "rehearsed", "equal", "repaired", "archived"])
def test_each_good_end_is_green(run, outcome):
    """Of every command; one that has found differences is not."""
    assert f'<span class="outcome good">{outcome}</span>' in run.end(outcome)
    assert '<span class="outcome bad">different</span>' in run.end("different", exit_code=4)


def test_a_change_that_was_swapped_back_is_shown_as_reverted(run):
    """Neither green nor with a definition that seems to be in place."""
    run.tell(
        StatementRead, statement="ALTER TABLE t ADD c INT", tables=[], server="s", mysql="8.4",
        names=(), estimates={},
    )  # fmt: skip
    undone = run.end("reverted")
    assert '<span class="outcome undone">reverted</span>' in undone
    assert "the definition from before is in place again" in undone
    assert "is in place again" not in run.end("done")


def test_a_swap_back_is_not_called_the_swap(run):
    """A revert has made no swap; a change with --keep-old-current has made both."""
    figures = {"tries": 1, "lock_wait_ms": 1.0, "lock_held_ms": 2.0, "steps_ms": {}}
    run.tell(SwapDone, **figures, back=True)
    alone = run.end("reverted")
    assert "<h2>The swap back</h2>" in alone
    assert "<td>swapped back</td>" in alone
    assert "lock held by the swap back" in alone
    run.tell(RunBegun, command="migrate", server="db1:3306", program="1.0")
    for back in (False, True):
        run.tell(SwapDone, **figures, back=back)
    both = run.end("reverted")
    assert "<h2>The swap, and the swap back</h2>" in both
    assert "of 2 swaps, the longest" in both
