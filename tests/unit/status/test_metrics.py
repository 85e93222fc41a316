"""Metrics, read by the client library's own parser."""

import http.client
import re
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from wsgiref.simple_server import ServerHandler

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from spirit_py.errors import UsageFault
from spirit_py.events.run import MetricsServed, RunBegun, RunEnded
from spirit_py.events.swap import CutoverTryFailed, SwapDone
from spirit_py.phases import Phase
from spirit_py.progress import BatchStatus, MigrationStatus, RunTotals
from spirit_py.status.metrics import server as metrics_server
from spirit_py.status.metrics.collector import (
    BATCH_TABLES,
    ENDED_TABLES,
    FLEET_SERVERS,
    METRICS,
    StatusCollector,
)
from spirit_py.status.metrics.server import REQUESTS, MetricsReporter, MetricsServer, _Handler
from spirit_py.threads import Background
from tests.kits.scraping import asked, scraped
from tests.kits.waiting import until

if TYPE_CHECKING:
    from spirit_py.events.event import Event

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
HOSTILE = 'sh"op\\.x\n<script>'


def status(table="shop.orders", **changes):
    """Return a snapshot of a copy."""
    known = {"phase": Phase.COPY, "elapsed": 3.0, "phase_elapsed": 1.0}
    return MigrationStatus(table=table, **{**known, **changes})


def everything():
    """Return a snapshot in which every figure is known."""
    return status(
        rows=5, rows_total=100, fraction=0.05, rate=10.0, eta=9.0, run_eta=11.0,
        chunk_rows=100, chunk_seconds=0.2, pending=7, buffered_bytes=70, feed_lag=0.1,
        received=20, applied=10, deduplicated=3, dropped=4, waiting_for="a lock",
        byte_rate=1000.0, tasks=2, tasks_most=4, binlog_left=99.0, binlog_unread=5,
        checkpoint_age=4.0, apply_sessions=2,
        totals=RunTotals(
            tables=("shop.orders",), rows_copied=5, rows_copied_before=2, chunks=1,
            chunks_replaced=0, throttled={"pause": 2.5}, backpressure_seconds=0.5,
            feed_reconnects=1, feed_bytes=99, checksum_passes=1, differences=0, chunks_repaired=0,
        ),
    )  # fmt: skip


@pytest.fixture
def collector():
    """Return a collector whose clock is at 1000."""
    return StatusCollector(version="1.2.3", clock=lambda: 1000.0)


def samples(collector):
    """Return all samples: value by name and labels."""
    registry = CollectorRegistry()
    registry.register(collector)
    text = generate_latest(registry).decode()
    return {
        (one.name, *sorted(one.labels.items())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def ended(outcome):
    """Return the event of the end of a run."""
    return RunEnded(
        outcome=outcome, exit_code=2, seconds=1.0, error="", code=None, hint="", details=[]
    )


def named(found, name):
    """Return the samples of one metric."""
    return {key[1:]: value for key, value in found.items() if key[0] == name}


def test_before_anything_is_known_there_is_no_figure(collector):
    """What is unknown is absent, and no zero."""
    collector.update(status(table="."))
    assert {name for name, *_ in samples(collector)} == {
        "spirit_py_build_info",
        "spirit_py_start_timestamp_seconds",
    }


def test_an_unknown_figure_is_absent_and_a_zero_is_there(collector):
    """A lag that is not measured is no lag of 0; no pending changes are 0."""
    collector.update(status(pending=0, feed_lag=None))
    found = samples(collector)
    assert named(found, "spirit_py_feed_lag_seconds") == {}
    assert list(named(found, "spirit_py_pending_changes").values()) == [0.0]


@pytest.mark.parametrize("fleet", [False, True])
def test_every_metric_is_exposed_as_it_is_declared(collector, fleet):
    """With every figure known, the parser finds each metric with its kind and its labels."""
    seen, server = everything(), "s1 " if fleet else ""
    if fleet:
        seen = replace(seen, totals=replace(seen.totals, tables=("s1 shop.orders",)))
    collector.update(
        BatchStatus(described="", elapsed=1.0, tables=(seen,), counts={"done": 1}, servers=fleet)
    )
    collector.tried(f"{server}shop.orders", 2, 0.02)
    collector.ended(f"{server}shop.items", "done")
    collector.run_ended("done")
    registry = CollectorRegistry()
    registry.register(collector)
    found = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for one in family.samples:
            found[one.name] = (family.type, set(one.labels), family.documentation)
    table = {"fleet_server", "table"} if fleet else {"table"}
    kinds = {"info": "gauge"}
    other = BATCH_TABLES if fleet else FLEET_SERVERS
    assert found == {
        spec.name: (
            kinds.get(spec.kind, spec.kind),
            {*spec.labels} | (set() if spec.of_process else table),
            spec.help,
        )
        for spec in METRICS
        if spec is not other
    }


def test_the_page_names_every_metric_with_its_kind_and_labels():
    """docs/metrics.md has a row for each metric, and none for any other."""
    rows = re.findall(
        r"^\| `(spirit_py_\w+)` \| (\w+) \| ([^|]*) \|", PAGE.read_text(), re.MULTILINE
    )
    labels = {
        spec.name: [*(() if spec.of_process else ("table",)), *spec.labels] for spec in METRICS
    }
    declared = {
        spec.name: (spec.kind, ", ".join(f"`{one}`" for one in labels[spec.name]))
        for spec in METRICS
    }
    assert {name: (kind, text.strip()) for name, kind, text in rows} == declared
    assert len(rows) == len(METRICS)


def test_each_alert_is_of_one_table_of_one_run_that_has_not_ended():
    """Tables of a fleet have equal names, and the figures in a file stay after the end."""
    _, *alerts = PAGE.read_text().split("- alert:")
    assert len(alerts) == 3
    for alert in alerts:
        assert set(re.findall(r"\bon \(([^)]*)\)", alert)) == {"instance, fleet_server, table"}
        assert re.search(r"unless on \([^)]*\) spirit_py_outcome\n", alert)
    # Of these nothing is shown that moves, however healthy they are.
    (phases,) = re.findall(r'phase=~"([a-z|]+)"', alerts[-1])
    assert {Phase.CREATE, Phase.INDEX, Phase.SENTINEL, Phase.GRACE} <= set(phases.split("|"))


def test_names_follow_the_conventions():
    """Base units last, ``_total`` behind counters alone."""
    for spec in METRICS:
        assert spec.name.endswith("_total") is (spec.kind == "counter"), spec.name
        assert not re.search(r"_(ms|millis|minutes|kb|mb|kib|mib|percent)(_|$)", spec.name)


def test_counters_do_not_fall_when_a_part_begins_again(collector):
    """The feed after the swap counts from zero; the metric goes on."""
    seen = []
    for received in (10, 25, 0, 4):
        collector.update(status(received=received))
        seen += named(samples(collector), "spirit_py_received_changes_total").values()
    assert seen == [10.0, 25.0, 25.0, 29.0]


def test_the_phase_is_the_one_with_a_one(collector):
    """All phases of the way are there, the current one is 1."""
    collector.update(status(phase=Phase.CUTOVER))
    found = named(samples(collector), "spirit_py_phase")
    assert {dict(labels)["phase"] for labels, value in found.items() if value} == {"cutover"}
    assert len(found) > 5


def test_hostile_names_are_escaped(collector):
    """Quotes, backslashes and line breaks of a table's name come back whole from the parser."""
    collector.update(status(table=HOSTILE, rows=1))
    assert {dict(labels)["table"] for labels in named(samples(collector), "spirit_py_waiting")} == {
        HOSTILE
    }


def test_progress_is_when_something_moved():
    """A run that stands still keeps the time at which it last went on."""
    now = [100.0]
    collector = StatusCollector(version="", clock=lambda: now[0])
    for at, rows in ((100.0, 1), (110.0, 2), (300.0, 2)):
        now[0] = at
        collector.update(status(rows=rows, elapsed=at))
    found = named(samples(collector), "spirit_py_last_progress_timestamp_seconds")
    assert list(found.values()) == [110.0]


def test_a_finished_run_keeps_its_figures_and_its_outcome(collector):
    """The last scrape sees both."""
    collector.update(everything())
    collector.run_ended("done")
    found = samples(collector)
    assert named(found, "spirit_py_outcome") == {
        (("outcome", "done"), ("table", "shop.orders")): 1.0
    }
    assert named(found, "spirit_py_end_timestamp_seconds")
    assert named(found, "spirit_py_copied_rows_total")


def test_a_swap_before_the_first_snapshot_is_counted(collector):
    """A run may be shorter than the pause between two snapshots."""
    collector.tried("shop.orders", 1, 0.02)
    collector.update(everything())
    collector.run_ended("done")
    found = samples(collector)
    table = (("table", "shop.orders"),)
    assert named(found, "spirit_py_cutover_tries_total") == {table: 1.0}
    assert named(found, "spirit_py_lock_held_seconds") == {table: 0.02}


def test_a_swap_before_the_first_snapshot_of_a_batch_counts_for_its_table_alone(collector):
    """Its neighbour has not tried."""
    collector.update(BatchStatus(described="", elapsed=1.0))
    collector.tried("shop.b", 2, None)
    both = (status("shop.a"), status("shop.b"))
    collector.update(BatchStatus(described="", elapsed=1.0, tables=both))
    tries = named(samples(collector), "spirit_py_cutover_tries_total")
    assert tries == {(("table", "shop.b"),): 2.0}


@pytest.mark.parametrize("at_once", [True, False], ids=["before a snapshot", "after one"])
def test_the_tries_of_a_swap_back_are_added_to_those_of_the_swap(at_once):
    """Its own count begins again; how long the swap held its lock stays known."""
    reporter = MetricsReporter(listen=None, file=None, announce=lambda _: None)
    collector = reporter._collector
    if not at_once:
        reporter.progress(everything())
    name = "shop.orders"
    failed = CutoverTryFailed(table=name, number=1, reason="", lock_wait_ms=1.0)
    done = SwapDone(table=name, tries=2, lock_wait_ms=1.0, lock_held_ms=20.0, steps_ms={})
    for event in (failed, done, failed, replace(done, tries=3, lock_held_ms=90.0, back=True)):
        reporter.event(event)
    reporter.progress(everything())
    found, table = samples(collector), (("table", "shop.orders"),)
    assert named(found, "spirit_py_cutover_tries_total") == {table: 5.0}
    assert named(found, "spirit_py_lock_held_seconds") == {table: 0.02}


def test_the_lock_of_a_process_that_only_swaps_back_is_that_of_its_swap():
    """As of spirit-py revert."""
    reporter = MetricsReporter(listen=None, file=None, announce=lambda _: None)
    reporter.progress(everything())
    done = SwapDone(
        table="shop.orders", tries=1, lock_wait_ms=1.0, lock_held_ms=20.0, steps_ms={}, back=True
    )
    reporter.event(done)
    found = samples(reporter._collector)
    assert named(found, "spirit_py_lock_held_seconds") == {(("table", "shop.orders"),): 0.02}


def test_a_run_without_a_known_table_has_an_outcome_and_no_empty_label(collector):
    """As when a statement or a batch is refused before anything is looked at."""
    collector.run_ended("refused")
    found = samples(collector)
    assert named(found, "spirit_py_run_outcome") == {(("outcome", "refused"),): 1.0}
    assert named(found, "spirit_py_outcome") == {}
    assert not [name for name in found if ("table", "") in name]


def test_a_table_of_a_batch_that_is_done_keeps_its_outcome_alone(collector):
    """Its series go; those of the tables under way stay."""
    both = (status("shop.a", rows=1), status("shop.b", rows=2))
    collector.update(BatchStatus(described="", elapsed=1.0, tables=both))
    collector.ended("shop.a", "done")
    collector.update(BatchStatus(described="", elapsed=2.0, tables=both[1:]))
    found = samples(collector)
    of_a = {name for name, *labels in found if ("table", "shop.a") in labels}
    assert of_a == {"spirit_py_outcome", "spirit_py_end_timestamp_seconds"}
    assert named(found, "spirit_py_waiting").keys() == {(("table", "shop.b"),)}


def test_a_snapshot_from_before_the_end_takes_no_outcome_away():
    """In a fleet the last one is shown until the server tells another; a later run's takes it."""
    now = [100.0]
    collector = StatusCollector(version="", clock=lambda: now[0])

    def outcomes(*tables):
        shown = BatchStatus(described="", elapsed=1.0, tables=tables, servers=True)
        collector.update(shown)
        return named(samples(collector), "spirit_py_outcome")

    before = status("s1 shop.orders", elapsed=2.0)
    outcomes(before)
    now[0] = 110.0
    collector.ended("s1 shop.orders", "failed")
    failed = {(("fleet_server", "s1"), ("outcome", "failed"), ("table", "shop.orders")): 1.0}
    now[0] = 111.0
    assert outcomes(status("s1 shop.orders", elapsed=9.5)) == failed
    now[0] = 130.0
    assert outcomes(status("s1 shop.orders", elapsed=9.5)) == failed
    assert outcomes() == failed
    assert outcomes(status("s1 shop.orders", elapsed=19.0)) == {}


def test_a_batch_of_thousands_keeps_a_bounded_number_of_outcomes(collector):
    """The oldest go."""
    for number in range(ENDED_TABLES + 20):
        collector.ended(f"shop.t{number}", "done")
    found = named(samples(collector), "spirit_py_outcome")
    assert len(found) == ENDED_TABLES
    assert not any(("table", "shop.t0") in labels for labels in found)


# -- over HTTP


@pytest.fixture
def server(collector):
    """Return a server on a free port that answers."""
    server = MetricsServer(("127.0.0.1", 0), collector)
    server.start()
    yield server
    server.stop()


def test_a_scrape_is_answered_in_the_format_that_the_scraper_prefers(server, collector):
    """Text by default, OpenMetrics when asked for; both are read by their own parsers."""
    collector.update(everything())
    kind, text = scraped(server.address)
    assert kind.startswith("text/plain")
    assert "spirit_py_pending_changes" in {one.name for one in text_string_to_metric_families(text)}
    kind, text = scraped(server.address, Accept="application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert "spirit_py_pending_changes" in {
        one.name for one in openmetrics.text_string_to_metric_families(text)
    }


@pytest.mark.parametrize("version", ["q", '"0.0.4"', "1.x", ""])
def test_a_version_that_is_none_is_answered_in_plain_text(server, capfd, version):
    """Nothing of it is in the run's output."""
    kind, text = scraped(server.address, Accept=f"text/plain;version={version}")
    assert kind.startswith("text/plain")
    assert "spirit_py_build_info" in text
    assert capfd.readouterr() == ("", "")


def test_a_request_that_fails_prints_nothing(server, capfd, monkeypatch):
    """Else a traceback stood between JSON lines, or in the panel."""
    ended = threading.Event()

    def fail(_, data):
        raise TimeoutError("the client reads no more")

    def end(server, request):
        close(server, request)
        ended.set()

    close = metrics_server._Server._ended
    monkeypatch.setattr(ServerHandler, "_write", fail)
    monkeypatch.setattr(metrics_server._Server, "_ended", end)
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        scraped(server.address)
    assert ended.wait(20.0)
    assert capfd.readouterr() == ("", "")


def test_each_scrape_has_the_figures_of_now(server, collector):
    """What was rendered before is not answered again once the figures have changed."""
    for pending in (1, 2):
        collector.update(status(pending=pending))
        assert (
            f'spirit_py_pending_changes{{table="shop.orders"}} {pending}.0'
            in scraped(server.address)[1]
        )


def test_a_run_is_scraped_from_its_beginning_and_has_no_outcome_of_the_one_before():
    """A batch is planned before its display starts; work that is dropped makes a second run."""
    told: list[Event] = []
    reporter = MetricsReporter(listen=("127.0.0.1", 0), file=None, announce=told.append)
    begun = RunBegun(command="batch", server="db1:3306", program="1.0")
    try:
        reporter.event(begun)
        (served,) = told
        assert isinstance(served, MetricsServed)
        assert "spirit_py_build_info" in scraped(served.address)[1]
        reporter.event(ended("refused"))
        assert 'spirit_py_run_outcome{outcome="refused"}' in scraped(served.address)[1]
        reporter.event(begun)
        assert "spirit_py_run_outcome{" not in scraped(served.address)[1]
    finally:
        reporter.stop()


def test_other_paths_and_methods_are_refused(server):
    """404 and 405, and nothing else of the process is shown."""
    assert asked(server.address, "/secret").status == 404
    assert asked(server.address, "/metrics", method="POST").status == 405


def listens(host, port, collector):
    """Whether a server can listen at a port; it is closed again."""
    try:
        MetricsServer((host, port), collector).stop()
    except UsageFault:
        return False
    return True


def test_silent_clients_hold_up_neither_the_end_nor_the_port(collector, monkeypatch):
    """With more silent clients than requests are answered, the server ends and the port is free."""
    monkeypatch.setattr(_Handler, "timeout", 600.0)
    server = MetricsServer(("127.0.0.1", 0), collector)
    server.start()
    host, port = server.address.split(":")
    silent = [socket.create_connection((host, int(port)), 5) for _ in range(2 * REQUESTS)]
    try:
        began = time.monotonic()
        server.stop()
        # Another process of the machine may have the port for a moment; without SO_REUSEADDR the
        # system would keep it for a minute.
        until(lambda: listens(host, int(port), collector), "the port", seconds=20.0)
        assert time.monotonic() - began < 60
    finally:
        for one in silent:
            one.close()


def test_more_silent_clients_than_requests_are_answered_are_closed(server):
    """A flood takes a bounded number of threads."""
    host, port = server.address.split(":")
    clients = [socket.create_connection((host, int(port)), 5) for _ in range(REQUESTS + 4)]
    try:

        def closed():
            return sum(_is_closed(one) for one in clients)

        until(lambda: closed() >= 4)
        assert closed() == 4
    finally:
        for one in clients:
            one.close()


def test_slow_clients_hold_a_request_no_longer_than_its_deadline(server, monkeypatch):
    """The patience with one that is silent begins again with each byte."""
    monkeypatch.setattr(_Handler, "timeout", 600.0)
    host, port = server.address.split(":")
    slow = [socket.create_connection((host, int(port)), 5) for _ in range(REQUESTS)]
    try:
        for one in slow:
            one.sendall(b"G")
        monkeypatch.setattr(metrics_server, "DEADLINE", 0.0)
        until(lambda: all(_is_closed(one) for one in slow), "the end of the slow requests")
        monkeypatch.undo()
        # Their threads may not have ended yet.
        until(lambda: answers(server.address), "an answer")
    finally:
        for one in slow:
            one.close()


def test_requests_for_which_there_was_no_thread_are_not_under_way(server, monkeypatch):
    """Else so many of them as are answered at a time ended all answers."""

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(Background, "start", refuse)
        for _ in range(REQUESTS):
            with pytest.raises((ConnectionError, http.client.HTTPException)):
                scraped(server.address)
    assert "spirit_py_build_info" in scraped(server.address)[1]


def answers(address):
    """Whether a scrape is answered."""
    try:
        return "spirit_py_build_info" in scraped(address)[1]
    except (ConnectionError, http.client.HTTPException):
        return False


def _is_closed(client):
    client.setblocking(False)
    try:
        return client.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_an_address_in_use_is_refused_and_named(server, collector):
    """The error names the option, the address and the remedy."""
    host, port = server.address.split(":")
    with pytest.raises(UsageFault, match=f"--metrics-listen {server.address}.*in use"):
        MetricsServer((host, int(port)), collector)


@pytest.mark.parametrize(("host", "shown"), [("", "127.0.0.1"), ("0.0.0.0", "0.0.0.0")])  # noqa: S104
def test_it_listens_on_this_machine_unless_an_address_is_named(collector, host, shown):
    """R26: there is no password, so that all addresses are the operator's own choice."""
    server = MetricsServer((host, 0), collector)
    assert server.address.startswith(f"{shown}:")
    server.stop()


def test_it_listens_on_ipv6(collector):
    """The address is shown in brackets, as in a URL; also where a machine has no IPv6."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError:
        with pytest.raises(UsageFault, match=r"--metrics-listen \[::1\]:0: cannot listen there"):
            MetricsServer(("::1", 0), collector)
        return
    server = MetricsServer(("::1", 0), collector)
    server.start()
    try:
        assert server.address.startswith("[::1]:")
        assert "spirit_py_build_info" in scraped(server.address)[1]
    finally:
        server.stop()
